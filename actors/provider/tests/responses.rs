//! OpenAI Responses, and Azure, against a real server on loopback.

mod support;

use std::sync::Arc;

use playhouse_protocol::{
    ApiProtocol, CallReport, Content, Message, ModelConfig, ProviderError, Secret, StopReason, StreamConfig,
    StreamDelta, ThinkingLevel, Usage,
};
use playhouse_provider::{StreamProvider, StreamSink, Wiring, provider_for};
use serde_json::{Value, json};
use support::{Bench, EVENT_STREAM, Post, Server, config, quick, soon, wordless};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

const TEXT: &[u8] = include_bytes!("fixtures/responses/text.sse");
const REASONING: &[u8] = include_bytes!("fixtures/responses/reasoning.sse");
const PARALLEL: &[u8] = include_bytes!("fixtures/responses/parallel.sse");
const FAILED: &[u8] = include_bytes!("fixtures/responses/failed.sse");
const KEY: &str = "sk-canary-42";

fn openai(server: &Server) -> ModelConfig {
    ModelConfig {
        base_url: Some(server.base_url.clone()),
        api_key: Some(Secret::new(KEY)),
        ..ModelConfig::new("openai", ApiProtocol::OpenaiResponses, "gpt-5")
    }
}

/// A deployment at `path` of the server.
fn azure(server: &Server, path: &str) -> ModelConfig {
    let root = server.base_url.strip_suffix("/v1").unwrap();
    ModelConfig {
        base_url: Some(format!("{root}{path}")),
        api_key: Some(Secret::new(KEY)),
        ..ModelConfig::new("azure", ApiProtocol::AzureOpenai, "my-deployment")
    }
}

fn provider(model: &ModelConfig) -> Arc<dyn StreamProvider> {
    provider_for(model, &Wiring::default()).unwrap()
}

async fn ask_with(config: StreamConfig) -> Result<Message, ProviderError> {
    soon(provider(&config.model_config).stream(&config, &StreamSink::discard())).await
}

async fn ask(model: ModelConfig) -> Result<Message, ProviderError> {
    ask_with(config(model)).await
}

/// A server that streams `answer` and hands the test what it was asked.
async fn recorded(answer: &'static [u8]) -> (Server, mpsc::Receiver<(String, Value)>) {
    let (saw, seen) = mpsc::channel(100);
    let server = Server::start(move |post: Post| {
        saw.try_send((post.head.clone(), post.body.clone())).unwrap();
        post.stream(answer)
    })
    .await;
    (server, seen)
}

/// The lines of a request's head in which a text stands.
fn lines_with(head: &str, text: &str) -> Vec<String> {
    head.lines().filter(|line| line.contains(text)).map(str::to_ascii_lowercase).collect()
}

#[tokio::test]
async fn a_request_is_what_openai_expects_and_the_response_is_whole() {
    let (server, mut seen) = recorded(PARALLEL).await;
    let model = openai(&server);
    let message = ask_with(StreamConfig { thinking_level: ThinkingLevel::Low, ..config(model) }).await.unwrap();
    let Message::Assistant { content, stop_reason, model, provider, usage, .. } = message else { panic!() };
    assert_eq!(content.len(), 5);
    let call = |id: &str, path: &str| Content::ToolCall {
        id: id.into(),
        name: "read_file".into(),
        arguments: json!({"path": path}),
    };
    assert_eq!(content[2..4], [call("call_a", "a"), call("call_b", "b")]);
    assert_eq!(
        (stop_reason, &*model, &*provider, usage),
        (StopReason::ToolUse, "gpt-5-mini-2025-08-07", "openai", Usage::of(75, 28, 0, 0, 32))
    );
    let (head, body) = seen.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/responses HTTP/1.1\r\n"), "{head}");
    assert_eq!(lines_with(&head, KEY), [format!("authorization: bearer {KEY}")]);
    let lower = head.to_ascii_lowercase();
    assert!(lower.contains("content-type: application/json\r\n") && lower.contains("accept: text/event-stream\r\n"));
    assert!(!lower.contains("api-key"));
    assert_eq!(
        body,
        json!({
            "model": "gpt-5", "instructions": "be brief", "stream": true, "store": false,
            "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        })
    );
}

#[tokio::test]
async fn reasoning_that_came_goes_back_as_it_came() {
    let (server, mut seen) = recorded(REASONING).await;
    let mut config = config(openai(&server));
    let answer = ask_with(config.clone()).await.unwrap();
    config.messages.push(Arc::new(answer.into()));
    config.messages.push(Arc::new(Message::user("and?", 0).into()));
    ask_with(config).await.unwrap();
    let (_, first) = seen.recv().await.unwrap();
    let (_, second) = seen.recv().await.unwrap();
    let input = second["input"].as_array().unwrap();
    assert_eq!(input[..1], first["input"].as_array().unwrap()[..]);
    assert_eq!(
        input[1],
        json!({"type": "reasoning", "id": "rs_68af4034", "encrypted_content": "gAAAAABor0A2seal==",
            "summary": [{"type": "summary_text", "text": "**Weighing** the café\n\n**Deciding** — é"}]})
    );
    assert_eq!((&input[2]["role"], &input[3]["role"]), (&json!("assistant"), &json!("user")));
}

#[tokio::test]
async fn azure_is_asked_at_its_own_addresses_with_its_own_header() {
    let (server, mut seen) = recorded(TEXT).await;
    let dated = ModelConfig { api_version: Some("2026-01-01-preview".to_owned()), ..azure(&server, "/openai/v1") };
    for (model, line) in [
        (azure(&server, "/openai/v1"), "POST /openai/v1/responses HTTP/1.1\r\n"),
        (azure(&server, ""), "POST /openai/v1/responses HTTP/1.1\r\n"),
        (dated, "POST /openai/v1/responses?api-version=2026-01-01-preview HTTP/1.1\r\n"),
        (azure(&server, "/openai"), "POST /openai/v1/responses HTTP/1.1\r\n"),
    ] {
        let message = ask(model).await.unwrap();
        assert_eq!(message.text(), "Grüße، مرحبا! 😀\n\"quoted\" \\ back");
        let (head, body) = seen.recv().await.unwrap();
        assert!(head.starts_with(line), "{head}");
        assert_eq!(lines_with(&head, KEY), [format!("api-key: {KEY}")]);
        assert!(!head.to_ascii_lowercase().contains("authorization"));
        assert_eq!(body["model"], "my-deployment");
        assert!(!body.to_string().contains(KEY));
    }
    let token = ModelConfig { key_variable: Some("AZURE_OPENAI_AD_TOKEN".to_owned()), ..azure(&server, "/openai/v1") };
    ask(token).await.unwrap();
    let (head, _) = seen.recv().await.unwrap();
    assert_eq!(lines_with(&head, KEY), [format!("authorization: bearer {KEY}")]);
    assert!(!head.to_ascii_lowercase().contains("api-key"));
}

#[tokio::test]
async fn the_first_delta_arrives_while_the_server_is_still_sending() {
    let go_on = Arc::new(Notify::new());
    let wait = go_on.clone();
    let server = Server::start(move |mut post: Post| {
        let wait = wait.clone();
        async move {
            let part = "مرحبا".as_bytes();
            let middle = TEXT.windows(part.len()).position(|window| window == part).unwrap() + 1;
            post.send(EVENT_STREAM).await;
            // Cut within a character: what is complete must come through, the rest must wait.
            post.chunk(&TEXT[..middle]).await;
            wait.notified().await;
            post.chunk(&TEXT[middle..]).await;
            post.send("0\r\n\r\n").await;
            Some(post.socket)
        }
    })
    .await;
    let model = openai(&server);
    let mut bench = Bench::of(provider(&model)).await;
    bench.start("c", config(model), quick());
    match bench.report().await {
        CallReport::Delta { deltas, .. } => assert_eq!(deltas, [StreamDelta::Text { delta: "Grüße".into() }]),
        other => panic!("{other:?}"),
    }
    go_on.notify_one();
    match bench.outcome().await {
        CallReport::Responded { message, .. } => assert!(message.text().contains("مرحبا")),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.posts(), 1);
}

#[tokio::test]
async fn f01_f07_a_response_that_fails_is_asked_for_again_by_the_one_retry_layer() {
    let server = Server::start(|mut post: Post| async move {
        match post.number {
            0 => post.stream(FAILED).await,
            1 => {
                post.send(EVENT_STREAM).await;
                post.chunk(&TEXT[..TEXT.len() - 1]).await;
                post.send("0\r\n\r\n").await;
                Some(post.socket)
            }
            _ => post.stream(TEXT).await,
        }
    })
    .await;
    let model = openai(&server);
    let mut bench = Bench::of(provider(&model)).await;
    bench.start("c", config(model), quick());
    let failed = bench.outcome().await;
    assert!(matches!(failed, CallReport::Retrying { error: ProviderError::Network { .. }, .. }), "{failed:?}");
    let cut = bench.outcome().await;
    assert!(matches!(cut, CallReport::Retrying { error: ProviderError::Incomplete { .. }, .. }), "{cut:?}");
    assert!(matches!(bench.outcome().await, CallReport::Responded { attempt: 2, .. }));
    assert_eq!(server.posts(), 3);
}

async fn refused(post: Post, status: &'static str, body: String) -> Option<TcpStream> {
    post.plain(status, "content-type: application/json\r\nretry-after: 7\r\n", &body).await
}

#[tokio::test]
async fn f52_a_wrong_key_is_an_auth_error_and_the_key_is_in_no_text() {
    let server = Server::start(|post: Post| {
        let error = json!({"error": {"message": format!("Incorrect API key provided: {KEY}."),
            "type": "invalid_request_error", "param": null, "code": "invalid_api_key"}});
        refused(post, "401 Unauthorized", error.to_string())
    })
    .await;
    for model in [openai(&server), azure(&server, "/openai/v1")] {
        let shown = format!("{model:?}");
        let error = ask(model).await.unwrap_err();
        assert!(matches!(error, ProviderError::Auth { .. }), "{error:?}");
        assert!(error.to_string().contains("Incorrect API key provided: ****."), "{error}");
        assert!(!format!("{error} {error:?} {shown}").contains(KEY));
    }
    // An error inside the stream is the service's text too.
    let server = Server::start(|post: Post| async move {
        let event = json!({"type": "error", "error": {"code": "invalid_prompt", "message": format!("bad: {KEY}")}});
        post.stream(format!("event: error\ndata: {event}\n\n").as_bytes()).await
    })
    .await;
    let error = ask(openai(&server)).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Api { message } if message.contains("bad: ****")), "{error:?}");
}

#[tokio::test]
async fn answers_that_fail_are_classified_by_status_first() {
    let server = Server::start(|post: Post| {
        let error = |code: &str| json!({"error": {"message": "m", "code": code}}).to_string();
        match post.number {
            0 => refused(post, "429 Too Many Requests", error("rate_limit_exceeded")),
            1 => refused(post, "400 Bad Request", error("context_length_exceeded")),
            2 => refused(post, "400 Bad Request", error("content_filter")),
            3 => refused(post, "500 Internal Server Error", error("server_error")),
            4 => refused(post, "404 Not Found", error("DeploymentNotFound")),
            // An error in the place of a stream, with the status of a success.
            _ => refused(post, "200 OK", error("server_error")),
        }
    })
    .await;
    let mut errors = Vec::new();
    for _ in 0..6 {
        errors.push(ask(azure(&server, "/openai/v1")).await.unwrap_err());
    }
    assert_eq!(
        wordless(errors[0].clone()),
        ProviderError::RateLimited { message: String::new(), retry_after_ms: Some(7_000) }
    );
    assert!(matches!(errors[1], ProviderError::ContextOverflow { .. }));
    assert!(matches!(&errors[2], ProviderError::Api { message } if message.contains("content filter declined")));
    assert!(matches!(errors[3], ProviderError::Network { .. }));
    assert!(matches!(&errors[4], ProviderError::Api { message } if message.contains("DeploymentNotFound")));
    assert!(matches!(errors[5], ProviderError::Network { .. }), "{:?}", errors[5]);
}

#[tokio::test]
async fn f12_html_with_status_200_is_refused() {
    let server = Server::start(|post: Post| async move {
        post.plain("200 OK", "content-type: text/html\r\n", "<html>Log in</html>").await
    })
    .await;
    for model in [openai(&server), azure(&server, "/openai/v1")] {
        let error = ask(model).await.unwrap_err();
        let ProviderError::Api { message } = error else { panic!("{error:?}") };
        assert!(message.contains("text/html") && message.contains("check the base URL"), "{message}");
    }
}
