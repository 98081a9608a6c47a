//! The hand-written loop: what a good engineer would write in an afternoon for this one service.
//!
//! One client for all, typed JSON both ways, server-sent events line by line, bodies read to their end, the whole
//! conversation encoded for every request. It keeps no journal, tells nobody what it does, retries nothing, checks no
//! schema, runs no tool apart, and a panic ends it.

use std::time::Duration;

use reqwest::Client;
use rustls::crypto::ring;
use serde::{Deserialize, Serialize};

use crate::checkpoint::Checkpoint;
use crate::wire;

/// What can go wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    tools: &'a [ToolSpec],
    messages: &'a [Message],
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct ToolSpec {
    r#type: &'static str,
    function: FunctionSpec,
}

#[derive(Serialize)]
struct FunctionSpec {
    name: &'static str,
    description: &'static str,
    parameters: serde_json::Value,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

impl Message {
    fn text(role: &'static str, text: &str) -> Self {
        Self { role, content: Some(text.to_owned()), tool_calls: Vec::new(), tool_call_id: None }
    }
}

#[derive(Clone, Serialize)]
struct ToolCall {
    id: String,
    r#type: &'static str,
    function: Function,
}

#[derive(Clone, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<CallDelta>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: usize,
    id: Option<String>,
    function: FunctionDelta,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

#[derive(Deserialize)]
struct Arguments {
    word: String,
    number: u64,
}

#[derive(Default)]
struct Response {
    text: String,
    calls: Vec<ToolCall>,
    finish: Option<String>,
    tokens: u64,
    done: bool,
}

/// What all conversations share.
pub struct Hand {
    client: Client,
    url: String,
    tools: Vec<ToolSpec>,
}

impl std::fmt::Debug for Hand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hand").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Hand {
    /// A client for the service on this port.
    pub fn new(port: u16) -> Result<Self, Error> {
        // Somebody else may be first: then there is one, which is all it takes.
        let _ = ring::default_provider().install_default();
        let client = Client::builder()
            .tcp_nodelay(true)
            .no_proxy()
            .connect_timeout(Duration::from_secs(10))
            .tls_certs_only([])
            .build()?;
        let function =
            FunctionSpec { name: wire::TOOL, description: wire::TOOL_DESCRIPTION, parameters: wire::tool_schema() };
        let tools = vec![ToolSpec { r#type: "function", function }];
        Ok(Self { client, url: format!("http://127.0.0.1:{port}/v1/chat/completions"), tools })
    }

    /// One conversation from its prompt to the final answer; `checkpoint` is told of every tool call.
    pub async fn converse(&self, model: &str, checkpoint: &Checkpoint) -> Result<String, Error> {
        let mut messages = vec![Message::text("system", wire::SYSTEM_PROMPT), Message::text("user", wire::PROMPT)];
        loop {
            let response = self.ask(model, &messages).await?;
            let text = response.text;
            if response.calls.is_empty() {
                return Ok(text);
            }
            let content = (!text.is_empty()).then_some(text);
            let calls = response.calls;
            messages.push(Message { role: "assistant", content, tool_calls: calls.clone(), tool_call_id: None });
            for call in calls {
                let arguments: Arguments = serde_json::from_str(&call.function.arguments)?;
                checkpoint.called(arguments.number).await;
                let answer = wire::tool_answer(&arguments.word, arguments.number);
                messages.push(Message {
                    role: "tool",
                    content: Some(answer),
                    tool_calls: Vec::new(),
                    tool_call_id: Some(call.id),
                });
            }
        }
    }

    async fn ask(&self, model: &str, messages: &[Message]) -> Result<Response, Error> {
        let request = Request {
            model,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            tools: &self.tools,
            messages,
        };
        let body = serde_json::to_vec(&request)?;
        let post = self.client.post(&self.url).header("content-type", "application/json");
        let mut answer = post.header("authorization", "Bearer sk-bench").body(body).send().await?.error_for_status()?;
        let mut response = Response::default();
        let mut held: Vec<u8> = Vec::new();
        while let Some(bytes) = answer.chunk().await? {
            held.extend_from_slice(&bytes);
            let mut start = 0;
            while let Some(length) = held.get(start..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n')) {
                let line = held.get(start..start + length).unwrap_or_default();
                if let Some(data) = line.strip_prefix(b"data: ") {
                    response.take(data)?;
                }
                start += length + 1;
            }
            held.drain(..start);
        }
        match (response.done, response.finish.as_deref()) {
            (true, Some(_)) if response.tokens > 0 => Ok(response),
            (done, finish) => Err(format!("the response was cut off ({done}, {finish:?})").into()),
        }
    }
}

impl Response {
    fn take(&mut self, data: &[u8]) -> Result<(), Error> {
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_slice(data)?;
        if let Some(usage) = chunk.usage {
            self.tokens = usage.prompt_tokens + usage.completion_tokens;
        }
        for choice in chunk.choices {
            if let Some(text) = choice.delta.content {
                self.text.push_str(&text);
            }
            for delta in choice.delta.tool_calls {
                while self.calls.len() <= delta.index {
                    let function = Function { name: String::new(), arguments: String::new() };
                    self.calls.push(ToolCall { id: String::new(), r#type: "function", function });
                }
                let Some(call) = self.calls.get_mut(delta.index) else { continue };
                call.id.push_str(&delta.id.unwrap_or_default());
                call.function.name.push_str(&delta.function.name.unwrap_or_default());
                call.function.arguments.push_str(&delta.function.arguments.unwrap_or_default());
            }
            self.finish = choice.finish_reason.or(self.finish.take());
        }
        Ok(())
    }
}
