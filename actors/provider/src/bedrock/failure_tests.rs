use playhouse_protocol::ProviderError;

use super::*;
use crate::testing::wordless;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn failed(status: u16, name: &str, date: &str, message: &str) -> ProviderError {
    let mut headers = HeaderMap::new();
    if !name.is_empty() {
        headers.insert("x-amzn-errortype", format!("{name}:http://internal.amazon.com/coral/").parse().unwrap());
    }
    if !date.is_empty() {
        headers.insert(DATE, date.parse().unwrap());
    }
    over_http(status, &headers, &serde_json::json!({"message": message}).to_string(), None, now())
}

fn auth(error: ProviderError) -> String {
    match error {
        ProviderError::Auth { message } => message,
        other => panic!("{other:?}"),
    }
}

const ON_TIME: &str = "Fri, 02 Jan 2026 03:05:00 GMT";

#[test]
fn failures_are_told_apart_by_name_and_status() {
    let limited = ProviderError::RateLimited { message: String::new(), retry_after_ms: None };
    assert_eq!(wordless(failed(429, "ThrottlingException", "", "slow down")), limited);
    assert_eq!(wordless(failed(400, "ThrottlingException", "", "slow down")), limited);
    assert_eq!(wordless(failed(503, "ServiceUnavailableException", "", "x")), limited);
    assert_eq!(wordless(failed(429, "ModelNotReadyException", "", "x")), limited);
    for (status, name) in
        [(424, "ModelErrorException"), (408, "ModelTimeoutException"), (500, "InternalServerException"), (502, "")]
    {
        assert!(matches!(failed(status, name, "", "x"), ProviderError::Network { .. }), "{name}");
    }
    let long = failed(400, "ValidationException", "", "Input is too long for requested model");
    assert!(matches!(long, ProviderError::ContextOverflow { .. }));
    assert!(matches!(failed(400, "ValidationException", "", "bad"), ProviderError::Api { .. }));
    assert!(matches!(failed(404, "ResourceNotFoundException", "", "x"), ProviderError::Api { .. }));
    let wait = over_http(429, &HeaderMap::new(), "", Some(Duration::from_secs(7)), now());
    assert_eq!(wordless(wait), ProviderError::RateLimited { message: String::new(), retry_after_ms: Some(7_000) });
}

#[test]
fn a_refusal_says_what_to_do() {
    for (name, says) in [
        ("ExpiredTokenException", "have expired"),
        ("UnrecognizedClientException", "access key is unknown"),
        ("InvalidSignatureException", "check the secret access key"),
        ("AccessDeniedException", "bedrock:InvokeModelWithResponseStream"),
        ("", "check the AWS credentials or the Bedrock API key"),
    ] {
        let message = auth(failed(403, name, ON_TIME, "the service's words"));
        assert!(message.contains(says) && message.contains("the service's words"), "{message}");
        assert!(!message.contains("clock"), "{message}");
    }
    // The name may be in the body instead, and the status another.
    let body = r#"{"__type":"com.amazon.coral.service#ExpiredTokenException","Message":"old"}"#;
    assert!(auth(over_http(400, &HeaderMap::new(), body, None, now())).contains("have expired"));
}

#[test]
fn a_clock_that_is_off_is_said_by_how_much() {
    let message =
        auth(failed(403, "InvalidSignatureException", "Fri, 02 Jan 2026 03:41:05 GMT", "Signature expired: …"));
    assert!(message.contains("clock is 37 min behind") && message.contains("set the clock"), "{message}");
    let message = auth(failed(403, "", "Fri, 02 Jan 2026 00:01:05 GMT", "x"));
    assert!(message.contains("clock is 3 h 3 min ahead"), "{message}");
    let message = auth(failed(403, "", "Tue, 02 Jan 2024 03:04:05 GMT", "x"));
    assert!(message.contains("clock is 731 days ahead"), "{message}");
    for words in ["Signature expired: 1 is now earlier than 2", "Signature not yet current: 2 is still later than 1"] {
        let message = auth(failed(403, "InvalidSignatureException", "", words));
        assert!(message.contains("set the clock") && message.contains(words), "{message}");
    }
    assert!(auth(failed(403, "RequestTimeTooSkewed", "", "x")).contains("set the clock"));
}

#[test]
fn an_error_without_a_name_has_no_empty_place_for_it() {
    let body = r#"{"message": "Vendor words"}"#;
    for status in [401, 403] {
        let told = over_http(status, &HeaderMap::new(), body, None, now()).to_string();
        assert!(told.contains(&format!("HTTP {status}: Vendor words")), "{told}");
    }
}
