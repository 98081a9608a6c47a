//! The model: a chat-completions server on loopback. What it answers depends on the conversation it is sent and on
//! nothing else, so a restarted agent finds it as it was. It notes every request, and whether it was answered to the
//! end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The task of the parent.
pub const PROMPT: &str = "Put the play on.";
/// The task of the sub-agent.
pub const TASK: &str = "Write your line, then report.";
/// The last word of the parent.
pub const DONE: &str = "The play is over: the curtain has fallen and everyone has gone home.";
/// The last word of the sub-agent.
pub const REPORT: &str = "My line is written, and I have bowed to the audience.";
/// A prompt that makes the model ask for a command that does not end by itself, and starts one that runs away.
pub const LINGER: &str = "Wait in the wings.";
/// The files that commands write to, in the working directory.
pub const LINES: &str = "lines.txt";
/// Written by the command that does not end by itself, when it has begun.
pub const BEGUN: &str = "begun";

/// Which response of which conversation: the first user's text, and how many responses came before.
pub type Key = (String, usize);

/// A request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What it asks for.
    pub key: Key,
    /// Whether everything was sent, the terminal event included.
    pub answered: bool,
}

/// The server. It ends when dropped.
#[derive(Debug)]
pub struct Model {
    pub base_url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl Model {
    /// Starts a server that pauses this long between the pieces of a response.
    pub async fn start(pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let log = asked.clone();
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, log.clone(), pause));
            }
        });
        Self { base_url, asked, serving }
    }

    /// Every request so far, in the order of arrival.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut socket: TcpStream, log: Arc<Mutex<Vec<Asked>>>, pause: Duration) {
    // A client that was killed ends its connection in the middle of anything.
    while let Some(body) = read_request(&mut socket).await {
        let conversation = body["messages"].as_array().cloned().unwrap_or_default();
        if let Err(reason) = check(&conversation) {
            let error = json!({"error": {"message": reason, "type": "invalid_request_error"}}).to_string();
            let head = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n", error.len());
            let _ = socket.write_all((head + &error).as_bytes()).await;
            return;
        }
        let key = key_of(&conversation);
        let number = {
            let mut log = log.lock().unwrap();
            log.push(Asked { key: key.clone(), answered: false });
            log.len() - 1
        };
        if send(&mut socket, &pieces(&key), pause).await.is_err() {
            return;
        }
        log.lock().unwrap()[number].answered = true;
    }
}

async fn send(socket: &mut TcpStream, pieces: &[String], pause: Duration) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    socket.write_all(head.as_bytes()).await?;
    for piece in pieces {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let event = format!("data: {piece}\n\n");
        socket.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await?;
    }
    socket.write_all(b"0\r\n\r\n").await
}

async fn read_request(socket: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        read_more(socket, &mut bytes).await?;
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap().to_ascii_lowercase();
    let length: usize =
        head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap().trim().parse().unwrap();
    while bytes.len() < head_end + length {
        read_more(socket, &mut bytes).await?;
    }
    Some(serde_json::from_slice(&bytes[head_end..]).unwrap())
}

async fn read_more(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    match socket.read_buf(bytes).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}

/// What the real service checks: every call has one result right after it, and no result is without its call.
fn check(conversation: &[Value]) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    for message in conversation {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(place) = open.iter().position(|call| call == id) else {
                return Err(format!("the result of `{id}` has no call"));
            };
            open.remove(place);
            continue;
        }
        if !open.is_empty() {
            return Err(format!("calls without results: {open:?}"));
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        open.extend(calls.map(|call| call["id"].as_str().unwrap_or_default().to_owned()));
    }
    if open.is_empty() { Ok(()) } else { Err(format!("calls without results: {open:?}")) }
}

fn key_of(conversation: &[Value]) -> Key {
    let first = conversation.iter().find(|message| message["role"] == "user").unwrap();
    let text = match &first["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap().to_owned(),
    };
    (text, conversation.iter().filter(|message| message["role"] == "assistant").count())
}

/// The command whose effect must not happen twice: it takes a moment, then writes its own line.
pub fn write_line(line: &str) -> Value {
    json!({"command": format!("sleep 0.02; echo {line} >> {LINES}")})
}

/// The play. Calls have the ids that the lines in [`LINES`] have.
fn pieces((first, responses): &Key) -> Vec<String> {
    match (first.as_str(), responses) {
        (PROMPT, 0) => {
            calls(&[("parent-1", "bash", write_line("parent-1")), ("note", "read_file", json!({"path": "note.txt"}))])
        }
        (PROMPT, 1) => {
            calls(&[("child", "sub_agent", json!({"task": TASK})), ("parent-2", "bash", write_line("parent-2"))])
        }
        (PROMPT, 2) => text(DONE),
        (TASK, 0) => calls(&[("child-1", "bash", write_line("child-1"))]),
        (TASK, 1) => text(REPORT),
        (LINGER, 0) => calls(&[(
            "linger",
            "bash",
            json!({"command": format!("setsid sleep 300 & touch {BEGUN}; sleep 300; echo linger >> {LINES}")}),
        )]),
        (LINGER, 1) => text(DONE),
        (other, n) => panic!("nobody asked for response {n} to {other:?} in the play"),
    }
}

fn text(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    let deltas = words.chunks(3).map(|words| json!({"content": words.concat()})).collect();
    response(deltas, "stop")
}

fn calls(calls: &[(&str, &str, Value)]) -> Vec<String> {
    let mut deltas = vec![json!({"content": "Let me "}), json!({"content": "see."})];
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let arguments = arguments.to_string();
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        let call = |function: Value| json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]});
        deltas.push(call(json!({"name": name, "arguments": ""})));
        for part in [head, tail] {
            deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}));
        }
    }
    response(deltas, "tool_calls")
}

fn response(deltas: Vec<Value>, finish: &str) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| json!({"id": "r", "object": "chat.completion.chunk", "model": "test", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut pieces: Vec<String> = deltas.into_iter().map(|delta| chunk(delta, Value::Null).to_string()).collect();
    pieces.push(chunk(json!({}), finish.into()).to_string());
    pieces.push(
        json!({"id": "r", "model": "test", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
            .to_string(),
    );
    pieces.push("[DONE]".to_owned());
    pieces
}
