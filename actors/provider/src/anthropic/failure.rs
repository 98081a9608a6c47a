//! What the service's errors mean; pure.

use std::borrow::Cow;
use std::time::Duration;

use playhouse_protocol::ProviderError;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::failure::classify_object;

/// How the service says that prompt and `max_tokens` together are too much: one of the two has to shrink.
const TOO_LONG_TOGETHER: &str = "exceed context limit";

/// What a failed request means.
pub(super) fn classify(status: u16, body: &str, retry_after: Option<Duration>) -> ProviderError {
    match ProviderError::classify(status, body, retry_after) {
        // A body of too many bytes is a conversation that is too long, like one of too many tokens.
        ProviderError::Api { message } if status == 413 || body.contains(TOO_LONG_TOGETHER) => {
            ProviderError::ContextOverflow { message }
        }
        error => error,
    }
}

/// What a body means that is an error: `{"type":"error","error":{…}}`.
pub(super) fn classify_body(body: &str) -> Option<ProviderError> {
    #[derive(Deserialize)]
    struct Failure<'a> {
        #[serde(borrow)]
        error: &'a RawValue,
    }
    let failure: Failure<'_> = serde_json::from_str(body).ok()?;
    Some(classify_error(failure.error.get()))
}

/// What an error object means, by the status that the service gives errors of its type.
pub(super) fn classify_error(error: &str) -> ProviderError {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let status = match serde_json::from_str::<Typed<'_>>(error).as_ref().map(|typed| typed.kind.as_ref()) {
        Ok("invalid_request_error") => 400,
        Ok("authentication_error") => 401,
        Ok("billing_error") => 402,
        Ok("permission_error") => 403,
        Ok("not_found_error") => 404,
        Ok("request_too_large") => 413,
        Ok("rate_limit_error") => 429,
        Ok("api_error") => 500,
        Ok("timeout_error") => 504,
        Ok("overloaded_error") => 529,
        Ok(_) | Err(_) => return classify_object(error),
    };
    classify(status, error, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wordless;

    #[test]
    fn f07_errors_are_classified_by_their_type() {
        use ProviderError as E;
        let of = |kind: &str, message: &str| {
            classify_body(&format!(
                r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#
            ))
            .unwrap()
        };
        assert_eq!(
            wordless(of("overloaded_error", "Overloaded")),
            E::RateLimited { message: String::new(), retry_after_ms: None }
        );
        assert_eq!(
            wordless(of("rate_limit_error", "slow down")),
            E::RateLimited { message: String::new(), retry_after_ms: None }
        );
        assert!(matches!(of("api_error", "Internal server error"), E::Network { .. }));
        assert!(matches!(of("timeout_error", "too slow"), E::Network { .. }));
        assert!(matches!(of("authentication_error", "invalid x-api-key"), E::Auth { .. }));
        assert!(matches!(of("permission_error", "not yours"), E::Auth { .. }));
        assert!(matches!(of("invalid_request_error", "no such field"), E::Api { .. }));
        assert!(matches!(of("billing_error", "service unavailable to you"), E::Api { .. }));
        assert!(matches!(of("request_too_large", "more than the maximum"), E::ContextOverflow { .. }));
        let long = "prompt is too long: 210000 tokens > 200000 maximum";
        assert!(matches!(of("invalid_request_error", long), E::ContextOverflow { .. }));
        let together = "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000";
        assert!(matches!(of("invalid_request_error", together), E::ContextOverflow { .. }));
        assert!(matches!(classify(400, together, None), E::ContextOverflow { .. }));
        assert!(matches!(of("an_error_of_the_future", "hm"), E::Api { .. }));
        assert_eq!(
            wordless(classify(529, together, None)),
            E::RateLimited { message: String::new(), retry_after_ms: None }
        );
        assert_eq!(classify_body("<html>"), None);
    }
}
