//! OpenAI chat completions against a real server on loopback, with every byte in the test's hands.

mod support;

use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::compat::{EffortField, MaxTokensField, ReasoningField, ReplayReasoning, Structured};
use playhouse_protocol::{
    AgentMessage, CallReport, Content, Message, ModelConfig, OpenAiCompat, ProviderError, ResponseFormat, StopReason,
    StreamConfig, StreamDelta, ThinkingLevel, Usage,
};
use playhouse_provider::{Deadlines, Limits, ServiceOptions, StreamProvider, StreamSink, Wiring, provider_for};
use serde_json::json;
use support::{Bench, EVENT_STREAM, PATIENCE, Server, config, model, quick, soon, text_of, until, wordless};
use tokio::sync::{Notify, mpsc};

const TEXT: &[u8] = include_bytes!("fixtures/chat_text.sse");
const TOOLS: &[u8] = include_bytes!("fixtures/chat_tools.sse");
const KEY: &str = "sk-canary-42";

/// Deadlines that only a hang can reach.
fn patient() -> ServiceOptions {
    let deadlines = Deadlines { connect: PATIENCE, first_event: PATIENCE, idle: PATIENCE, total: None };
    ServiceOptions { deadlines, limits: Limits::default() }
}

fn service(model: &ModelConfig, options: ServiceOptions) -> Arc<dyn StreamProvider> {
    provider_for(model, &Wiring { options, ..Wiring::default() }).unwrap()
}

fn provider(server: &Server, options: ServiceOptions) -> Arc<dyn StreamProvider> {
    service(&model(&server.base_url, Some(KEY)), options)
}

async fn ask(provider: &Arc<dyn StreamProvider>, server: &Server) -> Result<Message, ProviderError> {
    soon(provider.stream(&config(model(&server.base_url, Some(KEY))), &StreamSink::discard())).await
}

#[tokio::test]
async fn a_request_is_what_the_service_expects_and_the_response_is_whole() {
    let (saw, mut seen) = mpsc::channel(1);
    let server = Server::start(move |post| {
        saw.try_send((post.head.clone(), post.body.clone())).unwrap();
        post.stream(TOOLS)
    })
    .await;
    let message = ask(&provider(&server, patient()), &server).await.unwrap();
    let Message::Assistant { content, stop_reason, model, provider, usage, .. } = message else { panic!() };
    assert_eq!(content.len(), 4);
    assert_eq!(
        content[2],
        Content::ToolCall { id: "call_a".into(), name: "read_file".into(), arguments: json!({"path": "café/ü.txt"}) }
    );
    assert_eq!(
        (stop_reason, &*model, &*provider, usage),
        (StopReason::ToolUse, "gpt-test-2026", "openai", Usage::of(20, 40, 100, 0, 5))
    );
    let (head, body) = seen.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    let head = head.to_ascii_lowercase();
    assert!(head.contains(&format!("authorization: bearer {KEY}\r\n")));
    assert!(head.contains("content-type: application/json\r\n"));
    assert_eq!(
        body,
        json!({
            "model": "gpt-test", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        })
    );
}

#[tokio::test]
async fn without_a_key_no_header_is_sent() {
    let (saw, mut seen) = mpsc::channel(1);
    let server = Server::start(move |post| {
        saw.try_send(post.head.to_ascii_lowercase()).unwrap();
        post.stream(TEXT)
    })
    .await;
    let model = model(&format!("{}/", server.base_url), None);
    let provider = service(&model, patient());
    soon(provider.stream(&config(model), &StreamSink::discard())).await.unwrap();
    let head = seen.recv().await.unwrap();
    assert!(!head.contains("authorization") && !head.contains("cookie"), "{head}");
    assert!(head.starts_with("post /v1/chat/completions "), "{head}");
}

#[tokio::test]
async fn the_first_delta_arrives_while_the_server_is_still_sending() {
    let go_on = Arc::new(Notify::new());
    let wait = go_on.clone();
    let server = Server::start(move |mut post| {
        let wait = wait.clone();
        async move {
            let middle = TEXT.windows(6).position(|window| window == "، مرحبا".as_bytes()[..6].as_ref()).unwrap();
            post.send(EVENT_STREAM).await;
            // Cut within a character: what is complete must come through, the rest must wait.
            post.chunk(&TEXT[..middle + 1]).await;
            wait.notified().await;
            post.chunk(&TEXT[middle + 1..]).await;
            post.send("0\r\n\r\n").await;
            Some(post.socket)
        }
    })
    .await;
    let mut bench = Bench::of(provider(&server, patient())).await;
    bench.start("c", config(model(&server.base_url, Some(KEY))), quick());
    match bench.report().await {
        CallReport::Delta { deltas, .. } => assert_eq!(deltas, [StreamDelta::Text { delta: "Grüße".into() }]),
        other => panic!("{other:?}"),
    }
    go_on.notify_one();
    let mut rest = String::new();
    loop {
        match bench.report().await {
            CallReport::Delta { deltas, .. } => rest.push_str(&text_of(&deltas)),
            CallReport::Responded { message, .. } => {
                assert_eq!(message.text(), format!("Grüße{rest}"));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn f03_tiny_packets_give_the_same_response() {
    let server = Server::start(|mut post| async move {
        post.send(EVENT_STREAM).await;
        let size = 1 + post.number % 7;
        for piece in TOOLS.chunks(size) {
            post.chunk(piece).await;
        }
        post.send("0\r\n\r\n").await;
        Some(post.socket)
    })
    .await;
    let provider = provider(&server, patient());
    let first = ask(&provider, &server).await.unwrap();
    for _ in 0..6 {
        assert_eq!(ask(&provider, &server).await.unwrap().content(), first.content());
    }
}

/// How a server can end a body early.
#[derive(Clone, Copy, Debug)]
enum Framing {
    /// The client sees that chunks are missing.
    Chunked,
    /// The client sees that bytes are missing.
    Length,
    /// The client sees a clean end.
    UntilClose,
    /// The chunks end properly; only the events are missing.
    ChunkedEnd,
}

#[tokio::test]
async fn f01_a_stream_cut_on_the_wire_is_incomplete() {
    let cuts = [0, 1, TEXT.len() / 3, TEXT.len() / 2, TEXT.len() - 20, TEXT.len() - 2, TEXT.len() - 1];
    for framing in [Framing::Chunked, Framing::Length, Framing::UntilClose, Framing::ChunkedEnd] {
        let server = Server::start(move |mut post| async move {
            let part = &TEXT[..cuts[post.number]];
            match framing {
                Framing::Chunked | Framing::ChunkedEnd => {
                    post.send(EVENT_STREAM).await;
                    if !part.is_empty() {
                        post.chunk(part).await;
                    }
                    if matches!(framing, Framing::ChunkedEnd) {
                        post.send("0\r\n\r\n").await;
                    }
                }
                Framing::Length | Framing::UntilClose => {
                    let length = match framing {
                        Framing::Length => format!("content-length: {}\r\n", TEXT.len()),
                        _ => String::new(),
                    };
                    post.send(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{length}\r\n")).await;
                    post.send(part).await;
                }
            }
            None
        })
        .await;
        let provider = provider(&server, patient());
        for cut in cuts {
            let error = ask(&provider, &server).await.expect_err("a cut stream was taken for success");
            assert!(matches!(error, ProviderError::Incomplete { .. }), "{framing:?} at {cut}: {error:?}");
        }
        assert_eq!(server.posts(), cuts.len());
    }
}

#[tokio::test]
async fn f02_the_server_sees_one_request_and_three_retries() {
    let server = Server::start(|mut post| async move {
        post.send(EVENT_STREAM).await;
        post.chunk(&TEXT[..600]).await;
        None
    })
    .await;
    let mut bench = Bench::of(provider(&server, patient())).await;
    bench.start("c", config(model(&server.base_url, Some(KEY))), quick());
    for _ in 0..3 {
        assert!(matches!(bench.outcome().await, CallReport::Retrying { error: ProviderError::Incomplete { .. }, .. }));
    }
    assert!(matches!(bench.outcome().await, CallReport::Failed { attempt: 3, .. }));
    bench.silence().await;
    assert_eq!(server.posts(), 4);
}

#[tokio::test]
async fn f02_a_pooled_connection_that_dies_is_reported_and_not_asked_again() {
    // Of a reused connection's second request: nothing, half a head, a head, half a response.
    for sent in ["", "HTTP/1.1 200", EVENT_STREAM, "HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\ndata: {"] {
        let server = Server::start(move |mut post| async move {
            if post.on_connection == 0 {
                return post.stream(TEXT).await;
            }
            post.send(sent).await;
            None
        })
        .await;
        let provider = provider(&server, patient());
        // A connection is back in the pool soon after its response, not at a moment that can be seen from here.
        let (error, asked) = soon(async {
            for asked in 1.. {
                if let Err(error) = ask(&provider, &server).await {
                    return (error, asked);
                }
            }
            unreachable!()
        })
        .await;
        assert!(error.is_retryable(), "{error:?}");
        assert_eq!(server.posts(), asked, "the request was sent again behind our back ({sent:?})");
    }
}

#[tokio::test]
async fn a_finished_response_leaves_its_connection_to_the_next() {
    let (saw, mut seen) = mpsc::channel(10_000);
    let server = Server::start(move |mut post| {
        saw.try_send(post.on_connection).unwrap();
        async move {
            post.send(EVENT_STREAM).await;
            post.chunk(TEXT).await;
            // The end of the body comes late, long after the response could be used.
            tokio::time::sleep(Duration::from_millis(20)).await;
            post.send("0\r\n\r\n").await;
            Some(post.socket)
        }
    })
    .await;
    let provider = provider(&server, patient());
    soon(async {
        loop {
            ask(&provider, &server).await.unwrap();
            if seen.recv().await.unwrap() == 2 {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_does_not_close_after_done_costs_nothing_but_its_connection() {
    let server = Server::start(|mut post| async move {
        post.send(EVENT_STREAM).await;
        post.chunk(TEXT).await;
        post.closed().await;
        None
    })
    .await;
    let provider = provider(&server, patient());
    for _ in 0..2 {
        ask(&provider, &server).await.unwrap();
    }
}

#[tokio::test]
async fn failed_requests_are_classified() {
    let server = Server::start(|post| async move {
        match post.number {
            0 => post.plain("429 Too Many Requests", "retry-after: 7\r\n", "slow down").await,
            1 => post.plain("503 Service Unavailable", "", "").await,
            2 => post.plain("401 Unauthorized", "", "bad key").await,
            3 => post.plain("400 Bad Request", "", r#"{"error":{"code":"context_length_exceeded"}}"#).await,
            4 => post.plain("400 Bad Request", "", "no such parameter").await,
            5 => post.plain("500 Internal Server Error", "", "oops").await,
            6 => post.plain("307 Temporary Redirect", "location: /v1/elsewhere\r\n", "").await,
            7 => post.plain("404 Not Found", "", &"é".repeat(200_000)).await,
            _ => None,
        }
    })
    .await;
    let provider = provider(&server, patient());
    let mut errors = Vec::new();
    for _ in 0..8 {
        errors.push(ask(&provider, &server).await.unwrap_err());
    }
    assert_eq!(
        wordless(errors[0].clone()),
        ProviderError::RateLimited { message: String::new(), retry_after_ms: Some(7_000) }
    );
    assert_eq!(
        wordless(errors[1].clone()),
        ProviderError::RateLimited { message: String::new(), retry_after_ms: None }
    );
    assert!(matches!(&errors[2], ProviderError::Auth { message } if message.contains("bad key")));
    assert!(matches!(errors[3], ProviderError::ContextOverflow { .. }));
    assert!(matches!(errors[4], ProviderError::Api { .. }));
    assert!(matches!(errors[5], ProviderError::Network { .. }));
    assert!(matches!(&errors[6], ProviderError::Api { message } if message.contains("307")), "{:?}", errors[6]);
    let told = errors[7].to_string();
    assert!(told.chars().count() < 700 && told.contains("base URL (http://127.0.0.1:"), "{told}");
    assert_eq!(server.posts(), 8, "a redirect was followed or a request repeated");
}

#[tokio::test]
async fn f05_a_retry_after_date_is_read() {
    let server = Server::start(|post| async move {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(100);
        let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap();
        post.plain("429 Too Many Requests", &format!("retry-after: {date}\r\n"), "").await
    })
    .await;
    match ask(&provider(&server, patient()), &server).await {
        Err(ProviderError::RateLimited { retry_after_ms: Some(wait), .. }) => {
            assert!((30_000..=101_000).contains(&wait), "{wait}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_network_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let provider = service(&model(&url, Some(KEY)), patient());
    let error = soon(provider.stream(&config(model(&url, Some(KEY))), &StreamSink::discard())).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Network { message } if message.contains("refused")), "{error:?}");
}

#[tokio::test]
async fn f12_a_page_instead_of_a_stream_is_refused_with_a_look_at_it() {
    let server = Server::start(|post| async move {
        match post.number {
            0 => post.plain("200 OK", "content-type: text/html\r\n", "<html>Please log in to the Wi-Fi</html>").await,
            _ => post.plain("200 OK", "content-type: application/json\r\n", r#"{"error":{"code":429}}"#).await,
        }
    })
    .await;
    let provider = provider(&server, patient());
    match ask(&provider, &server).await {
        Err(ProviderError::Api { message }) => {
            assert!(message.contains("text/html") && message.contains("Please log in"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        ask(&provider, &server).await.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: None })
    );
}

#[tokio::test]
async fn f12_an_endless_response_is_stopped_and_the_connection_closed() {
    let closed = Arc::new(Notify::new());
    let seen = closed.clone();
    let server = Server::start(move |mut post| {
        let seen = seen.clone();
        async move {
            post.send(EVENT_STREAM).await;
            let event = b"data: {\"choices\":[{\"delta\":{\"content\":\"more and more \"}}]}\n\n";
            let mut chunk = format!("{:x}\r\n", event.len()).into_bytes();
            chunk.extend_from_slice(event);
            chunk.extend_from_slice(b"\r\n");
            use tokio::io::AsyncWriteExt;
            while post.socket.write_all(&chunk).await.is_ok() {}
            seen.notify_one();
            None
        }
    })
    .await;
    let options = ServiceOptions { limits: Limits { content_bytes: 20_000, ..Limits::default() }, ..patient() };
    let error = ask(&provider(&server, options), &server).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Other { message } if message.contains("20000 bytes")), "{error:?}");
    soon(closed.notified()).await;
}

#[tokio::test]
async fn f08_keep_alives_are_no_progress() {
    let server = Server::start(|mut post| async move {
        post.send(EVENT_STREAM).await;
        if post.number > 0 {
            let first_event = TEXT.windows(2).position(|window| window == b"\n\n").unwrap() + 2;
            post.chunk(&TEXT[..first_event]).await;
        }
        use tokio::io::AsyncWriteExt;
        while post.socket.write_all(b"e\r\n: keep-alive\n\n\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    })
    .await;
    let short = Duration::from_millis(300);
    let silent = Deadlines { first_event: short, ..patient().deadlines };
    match ask(&provider(&server, ServiceOptions { deadlines: silent, ..patient() }), &server).await {
        Err(ProviderError::Network { message }) => assert!(message.contains("sent nothing for 0.3 s"), "{message}"),
        other => panic!("{other:?}"),
    }
    let stalled = Deadlines { idle: short, ..patient().deadlines };
    match ask(&provider(&server, ServiceOptions { deadlines: stalled, ..patient() }), &server).await {
        Err(ProviderError::Incomplete { message }) => assert!(message.contains("no data came for 0.3 s"), "{message}"),
        other => panic!("{other:?}"),
    }
    let slow = Deadlines { total: Some(short), ..patient().deadlines };
    match ask(&provider(&server, ServiceOptions { deadlines: slow, ..patient() }), &server).await {
        Err(ProviderError::Incomplete { message }) => assert!(message.contains("longer than 0.3 s"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn f26_cancelling_closes_the_connection() {
    let (open, mut opened) = mpsc::channel(8);
    let (close, mut closed) = mpsc::channel(8);
    let server = Server::start(move |mut post| {
        let (open, close) = (open.clone(), close.clone());
        async move {
            if post.number == 1 {
                // The second request gets no answer at all.
                open.try_send(()).unwrap();
            } else {
                post.send(EVENT_STREAM).await;
                post.chunk(&TEXT[..600]).await;
                open.try_send(()).unwrap();
            }
            post.closed().await;
            close.try_send(()).unwrap();
            None
        }
    })
    .await;
    let bench = Bench::of(provider(&server, patient())).await;
    for call in ["streaming", "waiting for a response"] {
        bench.start(call, config(model(&server.base_url, Some(KEY))), quick());
        soon(opened.recv()).await.unwrap();
        bench.cancel(call);
        soon(closed.recv()).await.unwrap();
    }
    // And when the agent dies.
    bench.start("orphan", config(model(&server.base_url, Some(KEY))), quick());
    soon(opened.recv()).await.unwrap();
    bench.agent.kill();
    soon(closed.recv()).await.unwrap();
    assert_eq!(server.posts(), 3);
    until(|| bench.load() == 0).await;
}

#[tokio::test]
async fn f52_a_key_that_the_service_sends_back_is_taken_out() {
    let server = Server::start(|post| async move {
        let key = post.head.lines().find_map(|line| line.split("Bearer ").nth(1)).unwrap().to_owned();
        match post.number {
            0 => post.plain("401 Unauthorized", "", &format!("bad key {key}")).await,
            1 => post.plain("404 Not Found", "", &key).await,
            2 => post.plain("200 OK", "content-type: text/html\r\n", &key).await,
            3 => post.stream(format!("data: {{\"error\":{{\"message\":\"{key}\"}}}}\n\n").as_bytes()).await,
            4 => post.stream(format!("data: {key}\n\n").as_bytes()).await,
            _ => {
                let mut post = post;
                post.send(format!("HTTP/1.1 {key}\r\n\r\n")).await;
                None
            }
        }
    })
    .await;
    let provider = provider(&server, patient());
    for _ in 0..6 {
        let error = ask(&provider, &server).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
    let shown = format!("{:?}", config(model(&server.base_url, Some(KEY))));
    assert!(!shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn f10_an_id_the_conversation_has_is_not_used_again() {
    use playhouse_protocol::AgentMessage;
    let server = Server::start(|post| post.stream(TOOLS)).await;
    let provider = provider(&server, patient());
    let mut config = config(model(&server.base_url, Some(KEY)));
    let first = soon(provider.stream(&config, &StreamSink::discard())).await.unwrap();
    let results: Vec<AgentMessage> = first
        .tool_calls()
        .map(|(id, name, _)| {
            Message::ToolResult {
                tool_call_id: id.clone(),
                tool_name: name.into(),
                content: vec![],
                is_error: false,
                timestamp: 0,
            }
            .into()
        })
        .collect();
    config.messages.push(Arc::new(first.into()));
    for result in results {
        config.messages.push(Arc::new(result));
    }
    config.response = 1;
    let second = soon(provider.stream(&config, &StreamSink::discard())).await.unwrap();
    let ids: Vec<&str> = second.tool_calls().map(|(id, _, _)| id.as_str()).collect();
    assert_eq!(ids, ["call_1_0", "call_1_1"]);
}

/// The model as a service is asked that differs from OpenAI.
fn differing(server: &Server, compat: OpenAiCompat) -> ModelConfig {
    ModelConfig { compat: Some(Arc::new(compat)), ..model(&server.base_url, Some(KEY)) }
}

#[tokio::test]
async fn reasoning_that_a_service_seals_comes_back_to_it_unchanged() {
    let (saw, mut seen) = mpsc::channel(2);
    let server = Server::start(move |post| {
        saw.try_send(post.body.clone()).unwrap();
        post.stream(include_bytes!("fixtures/chat/reasoning_details.sse"))
    })
    .await;
    let model = differing(
        &server,
        OpenAiCompat {
            max_tokens_field: MaxTokensField::MaxTokens,
            reasoning_field: ReasoningField::ReasoningDetails,
            reasoning_effort: EffortField::Reasoning,
            replay_reasoning: ReplayReasoning::Always,
            ..OpenAiCompat::default()
        },
    );
    let provider = service(&model, patient());
    let mut config = StreamConfig { thinking_level: ThinkingLevel::High, max_tokens: Some(100), ..config(model) };
    let answer = soon(provider.stream(&config, &StreamSink::discard())).await.unwrap();
    let first = seen.recv().await.unwrap();
    assert_eq!(
        (&first["reasoning"], &first["max_tokens"], first.get("reasoning_effort")),
        (&json!({"effort": "high"}), &json!(100), None)
    );

    let id = answer.tool_calls().next().unwrap().0.clone();
    config.messages.push(Arc::new(answer.into()));
    let content = vec![Content::text("text")];
    let result =
        Message::ToolResult { tool_call_id: id, tool_name: "read_file".into(), content, is_error: false, timestamp: 0 };
    config.messages.push(Arc::new(AgentMessage::from(result)));
    soon(provider.stream(&config, &StreamSink::discard())).await.unwrap();
    let second = seen.recv().await.unwrap();
    let format = "anthropic-claude-v1";
    assert_eq!(
        second["messages"][2],
        json!({
            "role": "assistant", "content": "Let me see.",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "I should read “a”.", "signature": "ErUBCkYIBRgCIkD0s3Jr+Qp==",
                    "format": format, "index": 0},
                {"type": "reasoning.encrypted", "data": "EmwKAhgB", "id": "redacted_1", "format": format, "index": 1},
            ],
            "tool_calls": [{"id": "toolu_01A09q90qw90lq917835lq9", "type": "function",
                "function": {"name": "read_file", "arguments": "{\"path\":\"a\"}"}}],
        })
    );
}

#[tokio::test]
async fn an_answer_by_a_schema_is_json_in_a_text_whichever_way_it_came() {
    let (saw, mut seen) = mpsc::channel(2);
    let server = Server::start(move |post| {
        saw.try_send(post.body.clone()).unwrap();
        post.stream(include_bytes!("fixtures/chat/answer.sse"))
    })
    .await;
    let model = differing(&server, OpenAiCompat { structured: Structured::ForcedTool, ..OpenAiCompat::default() });
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let format = ResponseFormat { name: "answer".into(), schema: schema.clone() };
    let mut bench = Bench::of(service(&model, patient())).await;
    bench.start("c", StreamConfig { response_format: Some(Arc::new(format)), ..config(model) }, quick());
    match bench.outcome().await {
        CallReport::Responded { message, .. } => {
            assert_eq!(message.content(), [Content::text("{\"n\": 42}")]);
            assert!(matches!(message, Message::Assistant { stop_reason: StopReason::Stop, .. }));
        }
        other => panic!("{other:?}"),
    }
    let body = seen.recv().await.unwrap();
    assert_eq!((&body["tool_choice"], body.get("response_format")), (&json!("required"), None));
    assert_eq!(body["tools"][0]["function"]["parameters"], schema);
}

#[tokio::test]
async fn f07_an_error_inside_a_stream_is_told_and_may_be_retried() {
    let server = Server::start(|post| post.stream(include_bytes!("fixtures/chat/error.sse"))).await;
    let error = ask(&provider(&server, patient()), &server).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Network { message } if message.contains("disconnected")), "{error:?}");
    assert!(error.is_retryable());
    assert_eq!(server.posts(), 1);
}
