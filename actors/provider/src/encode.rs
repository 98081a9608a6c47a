//! The request side of OpenAI chat completions; pure but for a cache.
//!
//! A message is encoded once, see [`Transcripts`]: a turn encodes only what is new and copies the rest. Nothing in a
//! message's JSON depends on its neighbours or on the request.

use std::borrow::Cow;

use playhouse_protocol::{Content, Message, ProviderError, StreamConfig, ThinkingLevel, ToolDefinition};
use serde::Serialize;
use serde_json::Value;

use crate::transcripts::Transcripts;

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
pub(crate) fn encode_request(config: &StreamConfig, transcripts: &Transcripts) -> Result<Vec<u8>, ProviderError> {
    encode(config, transcripts)
        .map_err(|error| ProviderError::Other { message: format!("the request could not be encoded: {error}") })
}

fn encode(config: &StreamConfig, transcripts: &Transcripts) -> Result<Vec<u8>, serde_json::Error> {
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
    let mut start = serde_json::to_vec(&head)?;
    // The messages are copied in as they are: `{…head…` + `,"messages":[…]}`.
    start.pop();
    start.extend_from_slice(b",\"messages\":[");
    match config.system_prompt.as_ref() {
        "" => {}
        content => {
            serde_json::to_writer(&mut start, &WireMessage::System { content })?;
            start.push(b',');
        }
    }
    transcripts.with(config.messages.as_slice(), encode_message, |messages| {
        if messages.is_empty() && start.ends_with(b",") {
            start.pop();
        }
        let mut body = Vec::with_capacity(start.len() + messages.len() + 2);
        body.extend_from_slice(&start);
        body.extend_from_slice(messages);
        body.extend_from_slice(b"]}");
        body
    })
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
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(Cow<'a, str>),
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

fn encode_message(message: &Message, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let wire = match message {
        Message::User { content, .. } => WireMessage::User { content: user_content(content) },
        Message::Assistant { content, .. } => {
            let text = assistant_text(message);
            WireMessage::Assistant {
                content: (!text.is_empty()).then_some(text),
                tool_calls: content.iter().filter_map(wire_call).collect(),
            }
        }
        Message::ToolResult { tool_call_id, content, .. } => {
            WireMessage::Tool { tool_call_id: tool_call_id.as_str(), content: result_text(content) }
        }
    };
    serde_json::to_writer(out, &wire)
}

fn assistant_text(message: &Message) -> Cow<'_, str> {
    let mut texts = message.content().iter().filter_map(|block| match block {
        Content::Text { text } => Some(text.as_str()),
        Content::Image { .. } | Content::Thinking { .. } | Content::ToolCall { .. } => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => Cow::Borrowed(only),
        (Some(_), Some(_)) => Cow::Owned(message.text()),
    }
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
        Some(texts) => UserContent::Text(join(texts.into_iter().map(Cow::Borrowed).collect())),
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
fn result_text(content: &[Content]) -> Cow<'_, str> {
    let texts = content.iter().filter_map(|block| match block {
        Content::Text { text } => Some(Cow::Borrowed(text.as_str())),
        Content::Image { mime_type, .. } => Some(Cow::Owned(format!("[{mime_type} image, not shown]"))),
        Content::Thinking { .. } | Content::ToolCall { .. } => None,
    });
    join(texts.collect())
}

/// Texts as one, each on a line of its own.
fn join(mut texts: Vec<Cow<'_, str>>) -> Cow<'_, str> {
    match texts.len() {
        0 => Cow::Borrowed(""),
        1 => texts.pop().unwrap_or_default(),
        _ => Cow::Owned(texts.join("\n")),
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
