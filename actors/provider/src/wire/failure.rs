//! Errors that come as JSON objects in the place of an answer; pure.

use std::borrow::Cow;

use playhouse_protocol::ProviderError;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The parts of an error object that say what kind it is.
#[derive(Debug, Deserialize)]
struct Report<'a> {
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
}

/// Classifies an error object: by an HTTP status in its `code` first, then by its words.
pub(crate) fn classify_object(body: &str) -> ProviderError {
    let report: Option<Report<'_>> = serde_json::from_str(body).ok();
    let Some(report) = report else { return ProviderError::classify_in_stream(body) };
    let code = report.code.map(|code| code.get().trim_matches('"')).unwrap_or_default();
    let kind = report.kind.as_deref().unwrap_or_default();
    match code.parse::<u16>() {
        Ok(status @ 400..=599) => ProviderError::classify(status, body, None),
        Ok(_) | Err(_) if code == "rate_limit_exceeded" => ProviderError::limited_in_stream(body, None),
        Ok(_) | Err(_) => match (ProviderError::classify_in_stream(body), kind) {
            // The service's own failure, an HTTP 500 in all but form.
            (ProviderError::Api { message }, "server_error" | "api_error") => ProviderError::Network { message },
            (error, _) => error,
        },
    }
}
