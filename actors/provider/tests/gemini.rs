//! Gemini against a real server on loopback, with every byte in the test's hands.

mod support;

use std::sync::Arc;

use playhouse_protocol::{
    ApiProtocol, Content, Message, ModelConfig, ProviderError, Secret, StopReason, StreamConfig, ThinkingLevel, Usage,
};
use playhouse_provider::{Deadlines, Limits, ServiceOptions, StreamProvider, StreamSink, Wiring, provider_for};
use serde_json::json;
use support::{PATIENCE, Server, config, soon, wordless};
use tokio::sync::mpsc;

const CALL: &[u8] = include_bytes!("fixtures/gemini/call.sse");
const TEXT: &[u8] = include_bytes!("fixtures/gemini/text.sse");
const KEY: &str = "AIza-canary-42";

fn model(server: &Server) -> ModelConfig {
    // The test server's address ends in `/v1`; Google's means the host's root.
    let base = server.base_url.trim_end_matches("/v1").to_owned();
    ModelConfig {
        api_key: Some(Secret::new(KEY)),
        base_url: Some(base),
        ..ModelConfig::new("google", ApiProtocol::GoogleGenerativeAi, "gemini-3-pro-preview")
    }
}

fn provider(model: &ModelConfig) -> Arc<dyn StreamProvider> {
    let deadlines = Deadlines { connect: PATIENCE, first_event: PATIENCE, idle: PATIENCE, total: None };
    let options = ServiceOptions { deadlines, limits: Limits::default() };
    provider_for(model, &Wiring { options, ..Wiring::default() }).unwrap()
}

async fn ask(model: &ModelConfig) -> Result<Message, ProviderError> {
    soon(provider(model).stream(&config(model.clone()), &StreamSink::discard())).await
}

#[tokio::test]
async fn a_request_is_what_the_service_expects_and_the_response_is_whole() {
    let (saw, mut seen) = mpsc::channel(1);
    let server = Server::start(move |post| {
        saw.try_send((post.head.clone(), post.body.clone())).unwrap();
        post.stream(CALL)
    })
    .await;
    let model = model(&server);
    let config = StreamConfig { thinking_level: ThinkingLevel::High, ..config(model.clone()) };
    let message = soon(provider(&model).stream(&config, &StreamSink::discard())).await.unwrap();
    let Message::Assistant { content, stop_reason, model, provider, usage, .. } = message else { panic!() };
    let seal = Some("EpIBCo8BAdHtim8Y2FsbCBzaWduYXR1cmU=".to_owned());
    assert_eq!(
        content,
        [
            Content::Thinking { thinking: "I need the file.".into(), signature: None },
            Content::Thinking { thinking: String::new(), signature: seal },
            Content::ToolCall {
                id: "8f2b1a3c".into(),
                name: "read_file".into(),
                arguments: json!({"path": "café/ü.txt", "lines": [1, 2.5e3], "deep": {"quote": "\"}"}}),
            },
        ]
    );
    assert_eq!(
        (stop_reason, &*model, &*provider, usage),
        (StopReason::ToolUse, "gemini-3-pro-preview", "google", Usage::of(80, 20, 0, 0, 30))
    );
    let (head, body) = seen.recv().await.unwrap();
    let path = "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse";
    assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
    assert_eq!(head.matches("canary").count(), 1, "the key is in its header and nowhere else: {head}");
    let head = head.to_ascii_lowercase();
    assert!(head.contains(&format!("x-goog-api-key: {}\r\n", KEY.to_ascii_lowercase())), "{head}");
    assert!(head.contains("accept: text/event-stream\r\n") && !head.contains("authorization"), "{head}");
    assert_eq!(
        body,
        json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "generationConfig": {"thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"}},
        })
    );
}

#[tokio::test]
async fn f52_a_wrong_key_is_an_auth_error_that_does_not_show_it() {
    let server = Server::start(|post| async move {
        let body = match post.number {
            0 => format!(r#"{{"error":{{"code":401,"message":"bad {KEY}","status":"UNAUTHENTICATED"}}}}"#),
            _ => format!(
                r#"{{"error":{{"code":400,"message":"API key not valid: {KEY}","status":"INVALID_ARGUMENT",
                "details":[{{"reason":"API_KEY_INVALID","domain":"googleapis.com"}}]}}}}"#
            ),
        };
        let status = if post.number == 0 { "401 Unauthorized" } else { "400 Bad Request" };
        post.plain(status, "content-type: application/json\r\n", &body).await
    })
    .await;
    for _ in 0..2 {
        let error = ask(&model(&server)).await.unwrap_err();
        assert!(matches!(error, ProviderError::Auth { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn f05_a_full_quota_says_when_to_come_back() {
    let server = Server::start(|post| async move {
        let body = r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":
            [{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]}}]"#;
        let header = if post.number == 0 { "" } else { "retry-after: 3\r\n" };
        post.plain("429 Too Many Requests", header, body).await
    })
    .await;
    for expected in [17_000, 3_000] {
        let error = ask(&model(&server)).await.unwrap_err();
        assert_eq!(
            wordless(error),
            ProviderError::RateLimited { message: String::new(), retry_after_ms: Some(expected) }
        );
    }
}

#[tokio::test]
async fn f12_what_is_no_stream_is_refused() {
    let server = Server::start(|post| async move {
        match post.number {
            0 => post.plain("200 OK", "content-type: text/html\r\n", "<html>Sign in</html>").await,
            1 => {
                let body = r#"[{"error":{"code":503,"status":"UNAVAILABLE","message":"overloaded"}}]"#;
                post.plain("200 OK", "content-type: application/json\r\n", body).await
            }
            _ => post.stream(b"data: <html>\r\n\r\n").await,
        }
    })
    .await;
    let error = ask(&model(&server)).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Api { message } if message.contains("text/html")), "{error:?}");
    assert_eq!(
        ask(&model(&server)).await.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: None })
    );
    assert!(matches!(ask(&model(&server)).await, Err(ProviderError::Incomplete { .. })));
}

#[tokio::test]
async fn f01_a_connection_that_breaks_is_never_a_whole_response() {
    let server = Server::start(|mut post| async move {
        post.send(support::EVENT_STREAM).await;
        match post.number {
            // Without its finish reason, the body ends as it should.
            0 => {
                let end = TEXT.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
                post.chunk(&TEXT[..end]).await;
                post.send("0\r\n\r\n").await;
                Some(post.socket)
            }
            // With it, the body does not end: what follows is unknown.
            _ => {
                post.chunk(TEXT).await;
                None
            }
        }
    })
    .await;
    for _ in 0..2 {
        let error = ask(&model(&server)).await.unwrap_err();
        assert!(matches!(error, ProviderError::Incomplete { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn tokens_are_counted_by_the_service() {
    let (saw, mut seen) = mpsc::channel(2);
    let server = Server::start(move |post| {
        saw.try_send((post.head.clone(), post.body.clone())).unwrap();
        async move {
            let body = if post.number == 0 { r#"{"totalTokens": 31}"# } else { "{}" };
            post.plain("200 OK", "content-type: application/json\r\n", body).await
        }
    })
    .await;
    let model = model(&server);
    let provider = provider(&model);
    assert_eq!(soon(provider.count_tokens(&config(model.clone()))).await, Ok(Some(31)));
    assert!(matches!(soon(provider.count_tokens(&config(model))).await, Err(ProviderError::Api { .. })));
    let (head, body) = seen.recv().await.unwrap();
    assert!(head.starts_with("POST /v1beta/models/gemini-3-pro-preview:countTokens HTTP/1.1\r\n"), "{head}");
    assert_eq!(body["generateContentRequest"]["model"], "models/gemini-3-pro-preview");
    assert_eq!(body["generateContentRequest"]["contents"], json!([{"role": "user", "parts": [{"text": "hi"}]}]));
}

#[test]
fn a_missing_key_names_its_variable() {
    let model = ModelConfig::new("google", ApiProtocol::GoogleGenerativeAi, "gemini-3-pro-preview");
    let refused = provider_for(&model, &Wiring::default()).err().unwrap().to_string();
    assert!(refused.contains("GEMINI_API_KEY"), "{refused}");
}
