//! OpenAI chat completions over real HTTP, through the whole house.

use std::time::Duration;

use playhouse::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Reads one request and gives its head and JSON body.
async fn request(socket: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = socket.read(&mut buffer).await.unwrap();
        assert!(n > 0, "the request was cut off");
        bytes.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return (head.to_owned(), serde_json::from_str(body).unwrap());
        }
    }
}

fn frame(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn delta(delta: Value) -> String {
    frame(&json!({"id": "x", "model": "test-1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
}

fn ending(reason: &str) -> String {
    let end = json!({"id": "x", "model": "test-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let usage = json!({"id": "x", "model": "test-1", "choices": [], "usage": {
        "prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}});
    format!("{}{}data: [DONE]\n\n", frame(&end), frame(&usage))
}

async fn answer(listener: &TcpListener, parts: &[String]) -> (String, Value) {
    let (mut socket, _) = listener.accept().await.unwrap();
    let seen = request(&mut socket).await;
    socket.write_all(HEAD.as_bytes()).await.unwrap();
    for part in parts {
        socket.write_all(part.as_bytes()).await.unwrap();
        socket.flush().await.unwrap();
    }
    seen
}

fn model(listener: &TcpListener) -> ModelConfig {
    let mut model = ModelConfig::openai("test-1", Secret::new("sk-canary-4711"));
    model.base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
    model
}

#[tokio::test]
async fn the_first_delta_is_seen_while_the_server_is_still_sending() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().model(model(&listener)).spawn().await.unwrap();
    let (seen, go_on) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        request(&mut socket).await;
        socket.write_all(HEAD.as_bytes()).await.unwrap();
        socket.write_all(delta(json!({"content": "first "})).as_bytes()).await.unwrap();
        go_on.await.unwrap();
        socket.write_all(delta(json!({"content": "last"})).as_bytes()).await.unwrap();
        socket.write_all(ending("stop").as_bytes()).await.unwrap();
    });
    let mut events = agent.subscribe();
    let asking = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("go").await }
    });
    let first = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            if let AgentEvent::MessageUpdate { delta, .. } = &events.next().await.unwrap().event {
                return delta.clone();
            }
        }
    });
    assert_eq!(first.await.unwrap(), StreamDelta::Text { delta: "first ".into() });
    seen.send(()).unwrap();
    let report = asking.await.unwrap().unwrap();
    assert_eq!(report.text(), "first last");
    assert_eq!(report.usage, Usage::of(7, 4, 3, 0, 0));
    server.await.unwrap();
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_tool_call_goes_out_and_its_result_comes_back_and_the_key_is_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "forty-two").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::builder().data_dir(folder.path().join("data")).open().await.unwrap();
    let agent = house
        .agent()
        .model(model(&listener))
        .system_prompt("be brief")
        .tools(default_tools())
        .cwd(folder.path())
        .spawn()
        .await
        .unwrap();
    let server = tokio::spawn(async move {
        let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
        let opens = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
            "function": {"name": "read_file", "arguments": ""}}]});
        let parts = [delta(opens), delta(call("{\"path\":")), delta(call(" \"a.txt\"}")), ending("tool_calls")];
        let first = answer(&listener, &parts).await;
        let second = answer(&listener, &[delta(json!({"content": "It says forty-two."})), ending("stop")]).await;
        (first, second)
    });
    let (sender, mut events) = mpsc::channel(10_000);
    let report = agent.prompt_with_sender("what is in a.txt?", sender).await.unwrap();
    assert_eq!(report.text(), "It says forty-two.");
    let ((head, first), (_, second)) = server.await.unwrap();
    assert!(head.contains("Bearer sk-canary-4711") || head.contains("bearer sk-canary-4711"), "{head}");
    assert_eq!(first["messages"][0], json!({"role": "system", "content": "be brief"}));
    let told = second["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&told["role"], &told["tool_call_id"]), (&json!("tool"), &json!("c1")));
    assert!(told["content"].to_string().contains("forty-two"), "{told}");
    let mut seen = format!("{agent:?} {report:?} {:?}", house.tree());
    while let Ok(event) = events.try_recv() {
        seen.push_str(&serde_json::to_string(&event).unwrap());
    }
    house.shutdown(Duration::ZERO).await;
    for entry in walk(&folder.path().join("data")) {
        seen.push_str(&String::from_utf8_lossy(&std::fs::read(entry).unwrap()));
    }
    assert!(seen.contains("forty-two") && !seen.contains("canary"));
}

#[tokio::test]
async fn f02_a_stream_that_is_cut_is_asked_for_again_as_often_as_the_retry_layer_says() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::in_memory().await.unwrap();
    let retry = RetryConfig { initial_delay_ms: 1, ..RetryConfig::default() };
    let agent = house.agent().model(model(&listener)).retry(retry).spawn().await.unwrap();
    let server = tokio::spawn(async move {
        let mut posts = 0;
        while let Ok(accepted) = tokio::time::timeout(Duration::from_secs(2), listener.accept()).await {
            let (mut socket, _) = accepted.unwrap();
            request(&mut socket).await;
            posts += 1;
            socket.write_all(HEAD.as_bytes()).await.unwrap();
            socket.write_all(delta(json!({"content": "cut"})).as_bytes()).await.unwrap();
        }
        posts
    });
    let mut events = agent.subscribe();
    let report = agent.prompt_report("go").await.unwrap();
    assert!(matches!(&report.outcome, Outcome::Error { message } if message.contains("cut off")), "{report:?}");
    let mut retries = 0;
    while let Some(event) = events.try_next() {
        retries += usize::from(matches!(event.event, AgentEvent::ProviderRetry { .. }));
    }
    assert_eq!((retries, server.await.unwrap()), (3, 4));
    // The failed turn left nothing behind that a provider would refuse.
    let state = agent.state().await.unwrap();
    assert_eq!(state.messages.sendable().count(), 1);
    house.shutdown(Duration::ZERO).await;
}

fn walk(path: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}
