//! What Google's errors mean; pure.

use std::time::Duration;

use playhouse_protocol::ProviderError;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Failure {
    error: Report,
}

#[derive(Debug, Default, Deserialize)]
struct Report {
    #[serde(default)]
    code: Option<i64>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    details: Vec<Detail>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    /// Of a `RetryInfo`: seconds, such as `17s` or `0.5s`.
    #[serde(default)]
    retry_delay: Option<String>,
    /// Of an `ErrorInfo`: a word such as `API_KEY_INVALID`.
    #[serde(default)]
    reason: Option<String>,
    /// Of a `QuotaFailure`: which quotas are used up.
    #[serde(default)]
    violations: Vec<Violation>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Violation {
    /// Such as `GenerateRequestsPerDayPerProjectPerModel-FreeTier`.
    #[serde(default)]
    quota_id: String,
}

/// What an answer that failed means. The header's `retry_after` wins over the body's.
pub(crate) fn classify(status: u16, body: &str, retry_after: Option<Duration>) -> ProviderError {
    let Some(report) = report(body) else { return ProviderError::classify(status, body, retry_after) };
    report.classify(status, body, retry_after)
}

/// What an error means that came in the place of an answer, or within one: `{"error":{…}}`, in a list or not.
pub(crate) fn classify_in_place(body: &str) -> Option<ProviderError> {
    let report = report(body)?;
    let status = report.code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
    let status = status.or_else(|| status_of(report.status.as_deref().unwrap_or_default()));
    Some(match status {
        Some(status) => report.classify(status, body, None),
        None => ProviderError::classify_in_stream(body),
    })
}

fn report(body: &str) -> Option<Report> {
    // A stream that fails before it begins answers with a list of one.
    let failure: Failure = match serde_json::from_str::<Vec<Failure>>(body) {
        Ok(list) => list.into_iter().next()?,
        Err(_) => serde_json::from_str(body).ok()?,
    };
    Some(failure.error)
}

impl Report {
    fn classify(&self, status: u16, body: &str, retry_after: Option<Duration>) -> ProviderError {
        let refused_key = self.details.iter().any(|detail| detail.reason.as_deref() == Some("API_KEY_INVALID"))
            || self.message.as_deref().is_some_and(|message| message.starts_with("API key not valid"));
        // A key that does not exist is a bad request to this service.
        let status = if refused_key { 401 } else { status };
        let asked = self.details.iter().find_map(|detail| seconds(detail.retry_delay.as_deref()?));
        let mut quotas = self.details.iter().flat_map(|detail| &detail.violations);
        // The wait that the body asks for is that of another quota: this one is full again tomorrow.
        let spent_for_today = status == 429 && quotas.any(|violation| violation.quota_id.contains("PerDay"));
        match ProviderError::classify(status, body, retry_after.or(asked)) {
            ProviderError::RateLimited { message, .. } if spent_for_today => ProviderError::out_of_credit(&message),
            error => error,
        }
    }
}

/// The HTTP status of a gRPC one.
fn status_of(name: &str) -> Option<u16> {
    Some(match name {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "RESOURCE_EXHAUSTED" => 429,
        "INTERNAL" | "UNKNOWN" | "DATA_LOSS" => 500,
        "UNAVAILABLE" => 503,
        "DEADLINE_EXCEEDED" => 504,
        _ => return None,
    })
}

/// A duration as protobuf writes it in JSON.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wordless;

    const QUOTA: &str = r#"{"error":{"code":429,"message":"You exceeded your quota.","status":"RESOURCE_EXHAUSTED",
        "details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"x"}]},
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17.5s"}]}}"#;

    #[test]
    fn f05_the_wait_that_the_body_asks_for_is_read() {
        let wait = |header| classify(429, QUOTA, header).retry_after();
        assert_eq!(wait(None), Some(Duration::from_millis(17_500)));
        assert_eq!(wait(Some(Duration::from_secs(3))), Some(Duration::from_secs(3)), "the header wins");
        assert_eq!(classify(429, &format!("[{QUOTA}]"), None).retry_after(), Some(Duration::from_millis(17_500)));
        for bad in ["", "s", "-1s", "17", "1e400s", "NaNs"] {
            let body = QUOTA.replace("17.5s", bad);
            assert_eq!(
                wordless(classify(429, &body, None)),
                ProviderError::RateLimited { message: String::new(), retry_after_ms: None },
                "{bad}"
            );
        }
    }

    #[test]
    fn a_key_that_does_not_exist_is_an_auth_error_though_it_comes_as_400() {
        let body = r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":
            "INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID",
            "domain":"googleapis.com"}]}}"#;
        assert!(matches!(classify(400, body, None), ProviderError::Auth { .. }));
        assert!(matches!(classify(400, &body.replace("API", "B"), None), ProviderError::Api { .. }));
        let long = r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of
            tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#;
        assert!(matches!(
            classify(400, &long.replace('\n', " ").replace("            ", ""), None),
            ProviderError::ContextOverflow { .. }
        ));
    }

    #[test]
    fn f07_errors_in_the_place_of_an_answer_are_classified() {
        let kind = |error: &str| classify_in_place(&format!("{{\"error\":{error}}}")).unwrap();
        let limited = ProviderError::RateLimited { message: String::new(), retry_after_ms: None };
        assert_eq!(wordless(kind(r#"{"code":503,"message":"overloaded","status":"UNAVAILABLE"}"#)), limited);
        assert_eq!(wordless(kind(r#"{"status":"UNAVAILABLE"}"#)), limited);
        assert_eq!(wordless(kind(r#"{"code":8,"status":"RESOURCE_EXHAUSTED","message":"slow"}"#)), limited);
        assert!(matches!(kind(r#"{"code":500,"status":"INTERNAL"}"#), ProviderError::Network { .. }));
        assert!(matches!(kind(r#"{"status":"DEADLINE_EXCEEDED"}"#), ProviderError::Network { .. }));
        assert!(matches!(kind(r#"{"status":"UNAUTHENTICATED"}"#), ProviderError::Auth { .. }));
        assert!(matches!(kind(r#"{"status":"PERMISSION_DENIED"}"#), ProviderError::Auth { .. }));
        assert!(matches!(kind(r#"{"code":400,"message":"bad tool"}"#), ProviderError::Api { .. }));
        assert!(matches!(kind(r#"{"message":"odd"}"#), ProviderError::Api { .. }));
        assert_eq!(classify_in_place("<html>"), None);
        assert_eq!(classify_in_place("[]"), None);
        assert!(matches!(classify(502, "<html>", None), ProviderError::Network { .. }));
    }
}
