//! Gemini on Google Cloud against a real server on loopback, with a token that was given.

mod support;

use std::sync::Arc;

use playhouse_protocol::{ApiProtocol, Message, ModelConfig, ProviderError, Secret};
use playhouse_provider::{StreamProvider, StreamSink, Wiring, provider_for};
use serde_json::json;
use support::{Server, config, soon};
use tokio::sync::mpsc;

const TEXT: &[u8] = include_bytes!("fixtures/gemini/text.sse");
const TOKEN: &str = "ya29.canary-42";

fn model(server: &Server) -> ModelConfig {
    ModelConfig {
        api_key: Some(Secret::new(TOKEN)),
        base_url: Some(server.base_url.trim_end_matches("/v1").to_owned()),
        project: Some("acme".into()),
        region: Some("europe-west4".into()),
        ..ModelConfig::new("google-vertex", ApiProtocol::GoogleVertex, "gemini-2.5-flash")
    }
}

fn provider(model: &ModelConfig) -> Arc<dyn StreamProvider> {
    provider_for(model, &Wiring::default()).unwrap()
}

async fn ask(model: &ModelConfig) -> Result<Message, ProviderError> {
    soon(provider(model).stream(&config(model.clone()), &StreamSink::discard())).await
}

#[tokio::test]
async fn a_request_is_what_the_service_expects_and_the_response_is_whole() {
    let (saw, mut seen) = mpsc::channel(1);
    let server = Server::start(move |post| {
        saw.try_send((post.head.clone(), post.body.clone())).unwrap();
        post.stream(TEXT)
    })
    .await;
    let message = ask(&model(&server)).await.unwrap();
    assert_eq!(message.text(), "Grüße، مرحبا! 😀\n\"quoted\" <b> \\ café 🚀");
    let (head, body) = seen.recv().await.unwrap();
    let place = "/v1/projects/acme/locations/europe-west4/publishers/google/models/gemini-2.5-flash";
    assert!(head.starts_with(&format!("POST {place}:streamGenerateContent?alt=sse HTTP/1.1\r\n")), "{head}");
    assert_eq!(head.matches("canary").count(), 1, "the token is in its header and nowhere else: {head}");
    let head = head.to_ascii_lowercase();
    assert!(head.contains(&format!("authorization: bearer {TOKEN}\r\n")), "{head}");
    assert!(!head.contains("x-goog-api-key"), "{head}");
    assert_eq!(
        body,
        json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}},
        })
    );
}

#[tokio::test]
async fn f52_a_refused_token_is_an_auth_error_that_does_not_show_it() {
    let server = Server::start(|post| async move {
        post.plain("401 Unauthorized", "", &format!(r#"{{"error":{{"code":401,"message":"{TOKEN}"}}}}"#)).await
    })
    .await;
    let error = ask(&model(&server)).await.unwrap_err();
    assert!(matches!(error, ProviderError::Auth { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    assert_eq!(provider(&model(&server)).refresh().await, Ok(false), "a token that was given cannot be fetched anew");
}

#[tokio::test]
async fn f12_html_is_refused_though_it_comes_with_status_200() {
    let server =
        Server::start(|post| async move { post.plain("200 OK", "content-type: text/html\r\n", "<html>").await }).await;
    let error = ask(&model(&server)).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Api { message } if message.contains("text/html")), "{error:?}");
}

#[tokio::test]
async fn tokens_are_counted_by_the_service() {
    let (saw, mut seen) = mpsc::channel(1);
    let server = Server::start(move |post| {
        saw.try_send((post.head.clone(), post.body.clone())).unwrap();
        async move { post.plain("200 OK", "content-type: application/json\r\n", r#"{"totalTokens": 9}"#).await }
    })
    .await;
    let model = model(&server);
    assert_eq!(soon(provider(&model).count_tokens(&config(model.clone()))).await, Ok(Some(9)));
    let (head, body) = seen.recv().await.unwrap();
    assert!(head.contains("/models/gemini-2.5-flash:countTokens HTTP/1.1\r\n"), "{head}");
    assert_eq!(
        body,
        json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "be brief"}]},
        })
    );
}
