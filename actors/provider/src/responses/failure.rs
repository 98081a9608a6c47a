//! What the service's errors mean; pure.
//!
//! Inside a stream an error is `response.failed` with an object in `response.error`, or an `error` event. That event's
//! fields stand in an `error` object on the wire, and by themselves in the documentation: both are read.

use std::borrow::Cow;
use std::time::Duration;

use playhouse_protocol::ProviderError;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::Text;
use crate::provider::excerpt;
use crate::wire::failure::classify_object;

/// Codes of too much asked, or of a service with too much to do.
const BUSY: [&str; 3] = ["rate_limit_exceeded", "server_is_overloaded", "slow_down"];
/// Codes of the service's own failure, an HTTP 500 in all but form.
const BROKEN: [&str; 4] = ["server_error", "internal_error", "internal_server_error", "api_error"];
/// The code of a request that a filter before the model declined.
const FILTERED: &str = "content_filter";

/// The parts of an error object that say what kind it is.
#[derive(Debug, Default, Deserialize)]
struct Report<'a> {
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, rename = "type", default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    message: Option<Text<'a>>,
}

/// Where an error object can stand.
#[derive(Deserialize)]
struct Holder<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> Report<'a> {
    fn read(error: &'a str) -> Self {
        serde_json::from_str(error).unwrap_or_default()
    }

    /// Whether its code, or its type where it has no such code, is one of these.
    fn is_one_of(&self, words: &[&str]) -> bool {
        let code = self.code.map(|code| code.get().trim_matches('"'));
        let kind = self.kind.as_ref().map(|kind| kind.0.as_ref());
        [code, kind].into_iter().flatten().any(|word| words.contains(&word))
    }
}

/// Classifies an error object.
pub(crate) fn classify(error: &str) -> ProviderError {
    let report = Report::read(error);
    if report.is_one_of(&BUSY) {
        return ProviderError::limited_in_stream(error, report.message.and_then(|text| asked_wait(&text.0)));
    }
    match classify_object(error) {
        ProviderError::Api { message } if report.is_one_of(&BROKEN) => ProviderError::Network { message },
        other => other,
    }
}

/// Classifies what an `error` event holds.
pub(crate) fn classify_event(data: &str) -> ProviderError {
    classify(inner(data).unwrap_or(data))
}

/// What an answer of status 200 means that is no stream, if it is an error.
pub(crate) fn classify_plain(body: &str) -> Option<ProviderError> {
    inner(body).map(classify)
}

/// Classifies an answer that failed. A filter's refusal is said in words: the body may be longer than what is shown.
pub(crate) fn classify_http(status: u16, body: &str, retry_after: Option<Duration>) -> ProviderError {
    let report = inner(body).map(Report::read).unwrap_or_default();
    match ProviderError::classify(status, body, retry_after) {
        ProviderError::Api { .. } if report.is_one_of(&[FILTERED]) => {
            let words = report.message.map_or(Cow::Borrowed(body), |message| message.0);
            let message = format!(
                "HTTP {status}: the service's content filter declined the prompt ({FILTERED}); change it and ask \
                 again. {}",
                excerpt(&words, 300)
            );
            ProviderError::Api { message }
        }
        other => other,
    }
}

fn inner(body: &str) -> Option<&str> {
    let holder: Holder<'_> = serde_json::from_str(body).ok()?;
    holder.error.map(RawValue::get)
}

/// The wait that a message asks for: inside a stream there is no header to say it in. "Please try again in 1.898s.",
/// "… in 1m30s."
fn asked_wait(message: &str) -> Option<u64> {
    let (_, mut rest) = ["try again in ", "retry after "].iter().find_map(|words| message.split_once(words))?;
    let mut millis = None;
    while let Some((wait, after)) = first_wait(rest) {
        millis = Some(millis.unwrap_or(0.0) + wait);
        rest = after;
    }
    // A number too large for the type becomes its largest.
    millis.map(|millis| millis.ceil() as u64)
}

/// One number with its unit, in milliseconds, and what follows.
fn first_wait(text: &str) -> Option<(f64, &str)> {
    let (number, unit) = text.split_at_checked(text.find(|c: char| !c.is_ascii_digit() && c != '.')?)?;
    let unit = unit.trim_start();
    let units = [("ms", 1.0), ("s", 1_000.0), ("m", 60_000.0), ("h", 3_600_000.0)];
    let (rest, scale) = units.iter().find_map(|(name, scale)| Some((unit.strip_prefix(name)?, scale)))?;
    Some((number.parse::<f64>().ok()? * scale, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wordless;
    use ProviderError as E;

    #[test]
    fn f07_errors_are_classified_by_their_codes() {
        let limited = |after| E::RateLimited { message: String::new(), retry_after_ms: after };
        let text = "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000. Please try again in 1.898s.";
        let error = format!(r#"{{"code":"rate_limit_exceeded","message":"{text}"}}"#);
        assert_eq!(wordless(classify(&error)), limited(Some(1_898)));
        for (words, wait) in [("1m30s", 90_000), ("2h", 7_200_000), ("6m0s.", 360_000), ("20 ms", 20)] {
            assert_eq!(asked_wait(&format!("Please try again in {words}")), Some(wait), "{words}");
        }
        assert_eq!(asked_wait("try again in a while"), None);
        let spent = classify(r#"{"code":"insufficient_quota","message":"You exceeded your quota."}"#);
        assert!(
            matches!(&spent, E::Api { message } if message.ends_with("You exceeded your quota. (insufficient_quota)"))
        );
        assert_eq!(wordless(classify(r#"{"type":"server_is_overloaded","code":null}"#)), limited(None));
        assert_eq!(wordless(classify(r#"{"type":"too_many_requests","code":"too_many_requests"}"#)), limited(None));
        assert_eq!(
            wordless(classify(r#"{"type":"service_unavailable_error","code":null,"message":"Retry."}"#)),
            limited(None)
        );
        assert_eq!(wordless(classify(r#"{"code":"429","message":"x"}"#)), limited(None));
        let server = r#"{"code":"server_error","message":"The model failed."}"#;
        assert_eq!(classify(server), E::Network { message: server.to_owned() });
        let long = r#"{"code":"context_length_exceeded","message":"Your input is long."}"#;
        assert_eq!(classify(long), E::ContextOverflow { message: long.to_owned() });
        let bad = r#"{"code":"invalid_prompt","message":"no"}"#;
        assert_eq!(classify(bad), E::Api { message: bad.to_owned() });
        assert!(matches!(classify("no JSON"), E::Api { .. }));
    }

    #[test]
    fn f07_an_error_event_is_read_nested_and_flat() {
        for event in [
            r#"{"type":"error","sequence_number":2,"error":{"type":"tokens","code":"rate_limit_exceeded","param":null}}"#,
            r#"{"type":"error","code":"rate_limit_exceeded","message":"m","param":null,"sequence_number":1}"#,
        ] {
            assert_eq!(
                wordless(classify_event(event)),
                E::RateLimited { message: String::new(), retry_after_ms: None },
                "{event}"
            );
        }
        assert_eq!(classify_plain(r#"{"output":[]}"#), None);
        assert!(matches!(classify_plain(r#"{"error":{"code":"server_error"}}"#), Some(E::Network { .. })));
    }

    #[test]
    fn a_wait_is_read_from_the_words() {
        for (message, wait) in [
            ("Please try again in 28ms. Visit", Some(28)),
            ("Please try again in 6m0s.", Some(360_000)),
            ("Please retry after 10 seconds.", Some(10_000)),
            ("Please try again in 0.0001s", Some(1)),
            ("Please try again in 1h.", Some(3_600_000)),
            ("Please try again in s.", None),
            ("Please try again in 5", None),
            ("Please try again later.", None),
        ] {
            assert_eq!(asked_wait(message), wait, "{message}");
        }
        assert_eq!(asked_wait(&format!("try again in {}s", "9".repeat(400))), Some(u64::MAX));
    }

    #[test]
    fn a_filter_that_declines_the_prompt_is_named() {
        let body = r#"{"error":{"innererror":{"code":"ResponsibleAIPolicyViolation"},"code":"content_filter",
            "message":"The response was filtered due to the prompt triggering the policy.","param":"prompt"}}"#;
        let E::Api { message } = classify_http(400, body, None) else { panic!() };
        assert!(message.starts_with("HTTP 400: the service's content filter declined the prompt (content_filter)"));
        assert!(message.ends_with("The response was filtered due to the prompt triggering the policy."), "{message}");
        assert_eq!(
            wordless(classify_http(429, body, None)),
            E::RateLimited { message: String::new(), retry_after_ms: None }
        );
        assert!(matches!(classify_http(401, "", None), E::Auth { .. }));
        assert!(matches!(classify_http(400, "", None), E::ContextOverflow { .. }));
    }
}
