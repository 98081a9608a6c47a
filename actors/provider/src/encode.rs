//! The request side of OpenAI chat completions; pure but for a cache.
//!
//! A message is encoded once and its JSON kept while the message lives: a turn encodes only what is new and copies
//! the rest. Nothing in a message's JSON depends on its neighbours or on the request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use playhouse_protocol::{AgentMessage, Content, Message, ProviderError, StreamConfig, ThinkingLevel, ToolDefinition};
use serde::Serialize;
use serde_json::Value;

/// The JSON of messages that are alive, by address.
#[derive(Debug)]
pub(crate) struct Fragments {
    cap: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    by_address: HashMap<usize, (Weak<AgentMessage>, Bytes)>,
}

impl Fragments {
    /// A cache that holds at most about `cap` bytes.
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, held: Mutex::default() }
    }

    /// The JSON of each message that is sent, in order.
    fn of(&self, messages: &[Arc<AgentMessage>]) -> Result<Vec<Bytes>, serde_json::Error> {
        let sent: Vec<_> =
            messages.iter().filter_map(|held| held.llm().filter(|m| m.is_sendable()).map(|m| (held, m))).collect();
        let mut known: Vec<Option<Bytes>> = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            sent.iter().map(|(message, _)| held.get(message)).collect()
        };
        let mut fresh = Vec::new();
        for (place, (held, message)) in known.iter_mut().zip(&sent) {
            if place.is_none() {
                let json = Bytes::from(encode_message(message)?);
                fresh.push((*held, json.clone()));
                *place = Some(json);
            }
        }
        if !fresh.is_empty() {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            for (message, json) in fresh {
                held.insert(message, json, self.cap);
            }
        }
        Ok(known.into_iter().flatten().collect())
    }
}

impl Held {
    fn get(&self, message: &Arc<AgentMessage>) -> Option<Bytes> {
        // The weak reference keeps the address from being given to another message.
        self.by_address.get(&address(message)).map(|(_, json)| json.clone())
    }

    fn insert(&mut self, message: &Arc<AgentMessage>, json: Bytes, cap: usize) {
        if json.len() > cap {
            return;
        }
        if self.bytes + json.len() > cap {
            self.by_address.retain(|_, (owner, _)| owner.strong_count() > 0);
            self.bytes = self.by_address.values().map(|(_, json)| json.len()).sum();
            // Still more than half: dropping all and encoding again is cheaper than sweeping at every insert.
            if self.bytes > cap / 2 {
                self.by_address.clear();
                self.bytes = 0;
            }
        }
        self.bytes += json.len();
        if let Some((_, old)) = self.by_address.insert(address(message), (Arc::downgrade(message), json)) {
            self.bytes -= old.len();
        }
    }
}

fn address(message: &Arc<AgentMessage>) -> usize {
    Arc::as_ptr(message).addr()
}

/// What a request holds beside its messages.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a Value>,
}

/// The body of a request.
pub(crate) fn encode_request(config: &StreamConfig, fragments: &Fragments) -> Result<Vec<u8>, ProviderError> {
    encode(config, fragments)
        .map_err(|error| ProviderError::Other { message: format!("the request could not be encoded: {error}") })
}

fn encode(config: &StreamConfig, fragments: &Fragments) -> Result<Vec<u8>, serde_json::Error> {
    let head = Head {
        model: &config.model_config.id,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_completion_tokens: config.max_tokens.or(config.model_config.max_tokens),
        temperature: config.temperature,
        reasoning_effort: match config.thinking_level {
            ThinkingLevel::Off => None,
            level @ (ThinkingLevel::Minimal | ThinkingLevel::Low | ThinkingLevel::Medium | ThinkingLevel::High) => {
                Some(level.as_str())
            }
        },
        tools: config.tools.iter().map(tool).collect(),
    };
    let messages = fragments.of(config.messages.as_slice())?;
    let system = match config.system_prompt.as_ref() {
        "" => None,
        content => Some(serde_json::to_vec(&WireMessage::System { content })?),
    };
    let mut body = serde_json::to_vec(&head)?;
    // The messages are copied in as they are: `{…head…` + `,"messages":[…]}`.
    body.pop();
    body.reserve(32 + messages.iter().map(|m| m.len() + 1).sum::<usize>() + system.as_ref().map_or(0, Vec::len));
    body.extend_from_slice(b",\"messages\":[");
    let all = system.as_deref().into_iter().chain(messages.iter().map(Bytes::as_ref));
    for (place, message) in all.enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(message);
    }
    body.extend_from_slice(b"]}");
    Ok(body)
}

fn tool(definition: &ToolDefinition) -> Tool<'_> {
    Tool {
        r#type: "function",
        function: Function {
            name: &definition.name,
            description: &definition.description,
            parameters: (!definition.parameters.is_null()).then_some(&definition.parameters),
        },
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunction,
}

#[derive(Serialize)]
struct WireFunction {
    name: String,
    arguments: String,
}

fn encode_message(message: &Message) -> Result<Vec<u8>, serde_json::Error> {
    let wire = match message {
        Message::User { content, .. } => WireMessage::User { content: user_content(content) },
        Message::Assistant { content, .. } => {
            let text = message.text();
            WireMessage::Assistant {
                content: (!text.is_empty()).then_some(text),
                tool_calls: content.iter().filter_map(wire_call).collect(),
            }
        }
        Message::ToolResult { tool_call_id, content, .. } => {
            WireMessage::Tool { tool_call_id: tool_call_id.as_str(), content: result_text(content) }
        }
    };
    serde_json::to_vec(&wire)
}

/// Plain text goes as a string, which every compatible service takes; images need parts.
fn user_content(content: &[Content]) -> UserContent<'_> {
    let parts: Vec<Part<'_>> = content
        .iter()
        .filter_map(|block| match block {
            Content::Text { text } => (!text.is_empty()).then_some(Part::Text { text }),
            Content::Image { data, mime_type } => {
                Some(Part::ImageUrl { image_url: ImageUrl { url: format!("data:{mime_type};base64,{data}") } })
            }
            Content::Thinking { .. } | Content::ToolCall { .. } => None,
        })
        .collect();
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => Some(*text),
            Part::ImageUrl { .. } => None,
        })
        .collect();
    match texts {
        Some(texts) => UserContent::Text(texts.join("\n")),
        None => UserContent::Parts(parts),
    }
}

fn wire_call(block: &Content) -> Option<WireCall<'_>> {
    match block {
        Content::ToolCall { id, name, arguments } => Some(WireCall {
            id: id.as_str(),
            r#type: "function",
            function: WireFunction {
                name: wire_name(name),
                arguments: match arguments {
                    // The model's own text, which did not parse: it sees what it wrote.
                    Value::String(raw) => raw.clone(),
                    other => other.to_string(),
                },
            },
        }),
        Content::Text { .. } | Content::Image { .. } | Content::Thinking { .. } => None,
    }
}

/// A name as the service takes it back. Models invent names that the service then refuses, and one refused message
/// would end the conversation.
fn wire_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// A tool message holds text only: an image becomes a note.
fn result_text(content: &[Content]) -> String {
    let texts: Vec<String> = content
        .iter()
        .filter_map(|block| match block {
            Content::Text { text } => Some(text.clone()),
            Content::Image { mime_type, .. } => Some(format!("[{mime_type} image, not shown]")),
            Content::Thinking { .. } | Content::ToolCall { .. } => None,
        })
        .collect();
    texts.join("\n")
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
