//! Amazon Bedrock over a real connection, through the crate's front door: with a Bedrock API key. What is signed is
//! tested inside the crate, where the environment can be given.

mod support;

use playhouse_protocol::{
    ApiProtocol, Content, Message, ModelConfig, ProviderError, Secret, StopReason, StreamConfig, Usage,
};
use playhouse_provider::{StreamSink, Wiring, provider_for};
use serde_json::json;
use support::{Post, Server, config, soon, wordless};
use tokio::net::TcpStream;

const KEY: &str = "bedrock-api-key-canary0123456789";
const MODEL: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

/// CRC-32 from its definition.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}

fn frame(kind: &str, type_header: &str, name: &str, payload: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    for (header, value) in [(type_header, name), (":content-type", "application/json"), (":message-type", kind)] {
        headers.push(u8::try_from(header.len()).unwrap());
        headers.extend(header.as_bytes());
        headers.push(7);
        headers.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        headers.extend(value.as_bytes());
    }
    let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    let mut frame = [total.to_be_bytes(), u32::try_from(headers.len()).unwrap().to_be_bytes()].concat();
    frame.extend(crc(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload.as_bytes());
    frame.extend(crc(&frame).to_be_bytes());
    frame
}

fn frames(fixture: &str) -> Vec<Vec<u8>> {
    let one = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let payload = match &line["payload"] {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match line["event"].as_str() {
            Some(name) => frame("event", ":event-type", name, &payload),
            None => frame("exception", ":exception-type", line["exception"].as_str().unwrap(), &payload),
        }
    };
    fixture.lines().map(one).collect()
}

fn tool() -> Vec<Vec<u8>> {
    frames(include_str!("fixtures/bedrock/tool.jsonl"))
}

async fn streamed(mut post: Post, pieces: Vec<Vec<u8>>) -> Option<TcpStream> {
    post.send(
        "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n",
    )
    .await;
    for piece in &pieces {
        // In pieces that fit no frame.
        let (one, two) = piece.split_at(piece.len() / 2);
        post.chunk(one).await;
        post.chunk(two).await;
    }
    post.send("0\r\n\r\n").await;
    Some(post.socket)
}

fn turn(server: &Server) -> StreamConfig {
    let base_url = server.base_url.strip_suffix("/v1").unwrap().to_owned();
    config(ModelConfig {
        api_key: Some(Secret::new(KEY)),
        base_url: Some(base_url),
        region: Some("us-east-1".to_owned()),
        ..ModelConfig::new("bedrock", ApiProtocol::BedrockConverse, MODEL)
    })
}

async fn ask(server: &Server) -> Result<Message, ProviderError> {
    let turn = turn(server);
    let provider = provider_for(&turn.model_config, &Wiring::default()).unwrap();
    soon(provider.stream(&turn, &StreamSink::discard())).await
}

#[tokio::test]
async fn a_turn_is_asked_for_and_answered() {
    let server = Server::start(|post| async move {
        let line = post.head.lines().next().unwrap();
        assert_eq!(line, "POST /model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream HTTP/1.1");
        let head = post.head.to_ascii_lowercase();
        assert!(head.contains("content-type: application/json\r\n"));
        assert!(head.contains("accept: application/vnd.amazon.eventstream\r\n"));
        assert!(head.contains(&format!("authorization: bearer {KEY}\r\n")));
        assert_eq!(head.matches("canary").count(), 1, "the key is in one place");
        assert!(!head.contains("x-amz-"), "nothing is signed");
        assert!(!post.body.to_string().contains("canary"));
        let point = json!({"cachePoint": {"type": "default"}});
        assert_eq!(
            post.body,
            json!({
                "system": [{"text": "be brief"}, point],
                "inferenceConfig": {"maxTokens": 8_192},
                "messages": [{"role": "user", "content": [{"text": "hi"}]}],
            })
        );
        streamed(post, tool()).await
    })
    .await;
    match ask(&server).await.unwrap() {
        Message::Assistant { content, stop_reason, model, provider, usage, .. } => {
            let arguments = json!({"path": "src/main.rs"});
            let (id, name) = ("tooluse_8jr4yhCxTRiQWrDSPRZ0hg".into(), "read_file".to_owned());
            assert_eq!(content, [Content::text("I look."), Content::ToolCall { id, name, arguments }]);
            assert_eq!((stop_reason, &*model, &*provider), (StopReason::ToolUse, MODEL, "bedrock"));
            assert_eq!(usage, Usage::of(412, 61, 2_048, 256, 0));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(server.posts(), 1);
}

#[tokio::test]
async fn f52_a_wrong_key_is_refused_and_is_in_no_text() {
    let server = Server::start(|post| async move {
        let status = if post.number == 0 { "401 Unauthorized" } else { "403 Forbidden" };
        let headers = "x-amzn-errortype: AccessDeniedException:http://internal/\r\n";
        post.plain(status, headers, &format!(r#"{{"Message":"the key {KEY} is not known"}}"#)).await
    })
    .await;
    for _ in 0..2 {
        let error = ask(&server).await.unwrap_err();
        assert!(matches!(error, ProviderError::Auth { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
    let turn = turn(&server);
    let provider = provider_for(&turn.model_config, &Wiring::default()).unwrap();
    assert!(!provider.refresh().await.unwrap(), "there is no other key");
}

#[tokio::test]
async fn f12_html_with_status_200_is_refused() {
    let server = Server::start(|post| post.plain("200 OK", "content-type: text/html\r\n", "<html>Log in</html>")).await;
    match ask(&server).await.unwrap_err() {
        ProviderError::Api { message } => {
            assert!(message.contains("text/html") && message.contains("Log in"), "{message}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn f01_f07_what_breaks_off_or_fails_in_the_stream_is_no_success() {
    let server = Server::start(|post| async move {
        match post.number {
            0 => streamed(post, tool()[..4].to_vec()).await,
            1 => streamed(post, frames(include_str!("fixtures/bedrock/throttled.jsonl"))).await,
            _ => post.plain("400 Bad Request", "", r#"{"message":"Input is too long for requested model."}"#).await,
        }
    })
    .await;
    assert!(matches!(ask(&server).await, Err(ProviderError::Incomplete { .. })));
    assert_eq!(
        ask(&server).await.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: None })
    );
    assert!(matches!(ask(&server).await, Err(ProviderError::ContextOverflow { .. })));
}

#[tokio::test]
async fn tokens_are_counted_by_the_service() {
    let server = Server::start(|post| async move {
        assert!(post.head.starts_with("POST /model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens "));
        assert_eq!(post.body["input"]["converse"]["messages"][0]["role"], "user");
        post.plain("200 OK", "content-type: application/json\r\n", r#"{"inputTokens": 19}"#).await
    })
    .await;
    let turn = turn(&server);
    let provider = provider_for(&turn.model_config, &Wiring::default()).unwrap();
    assert_eq!(soon(provider.count_tokens(&turn)).await, Ok(Some(19)));
}
