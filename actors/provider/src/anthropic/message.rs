//! Messages of a conversation as the service takes them; pure.
//!
//! What a message becomes depends on nothing but itself and the connection's name, so the messages of one request are
//! the beginning of the next one's.

use std::borrow::Cow;

use playhouse_protocol::{Content, Message};
use serde::Serialize;
use serde_json::{Value, json};

use crate::wire::messages::{Mark, Messages};
use crate::wire::names::{wire_id, wire_name};

/// What the seal of reasoning that the service does not show begins with; the rest is the service's own data. Seals are
/// base64, which has no colon.
pub(super) const REDACTED: &str = "redacted:";

const USER: &str = "user";
const ASSISTANT: &str = "assistant";
const LIST: &str = "content";

/// What stands for a user's message that says nothing: the service refuses white space alone.
const BLANK: &str = "(blank)";
/// What a conversation begins with that the model began: the service wants the user first.
const BEGINNING: &str = "(the conversation goes on)";
/// What stands for the output of a tool that failed without a word: the service wants to know why.
const NO_OUTPUT: &str = "(no output)";

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl Block<'_> {
    fn is_thinking(&self) -> bool {
        matches!(self, Block::Thinking { .. } | Block::RedactedThinking { .. })
    }
}

/// Appends a message. `own` is the provider whose seals are this service's.
pub(super) fn encode(message: &Message, own: &str, out: &mut Messages) -> Result<(), serde_json::Error> {
    match message {
        Message::User { content, .. } => {
            let blocks = shown(content);
            if blocks.is_empty() {
                return put(USER, &text(BLANK), out);
            }
            blocks.iter().try_for_each(|block| put(USER, block, out))
        }
        Message::Assistant { content, provider, .. } => {
            let mut blocks: Vec<Block<'_>> =
                content.iter().filter_map(|block| said(block, &**provider == own)).collect();
            // The service refuses a message that ends in reasoning.
            let whole = blocks.iter().rposition(|block| !block.is_thinking()).map_or(0, |last| last + 1);
            blocks.truncate(whole);
            if out.is_empty() && !blocks.is_empty() {
                put(USER, &text(BEGINNING), out)?;
            }
            blocks.iter().try_for_each(|block| put(ASSISTANT, block, out))
        }
        Message::ToolResult { tool_call_id, content, is_error, .. } => {
            let content = if *is_error { told(content) } else { shown(content) };
            let tool_use_id = wire_id(tool_call_id.as_str());
            put(USER, &Block::ToolResult { tool_use_id, content, is_error: *is_error }, out)
        }
    }
}

/// Whether what the model said begins with reasoning that goes back to the service.
pub(super) fn begins_with_reasoning(message: &Message, own: &str) -> bool {
    match message {
        Message::Assistant { content, provider, .. } => {
            let first = content.iter().find_map(|block| said(block, &**provider == own));
            first.is_some_and(|block| block.is_thinking())
        }
        Message::User { .. } | Message::ToolResult { .. } => false,
    }
}

fn put(role: &'static str, block: &Block<'_>, out: &mut Messages) -> Result<(), serde_json::Error> {
    let mark = if block.is_thinking() { Mark::Never } else { Mark::May };
    out.block(role, LIST, block, mark)
}

fn text(text: &str) -> Block<'_> {
    Block::Text { text: Cow::Borrowed(text) }
}

/// What a user or a tool shows the model.
fn shown(content: &[Content]) -> Vec<Block<'_>> {
    content
        .iter()
        .filter_map(|block| match block {
            Content::Text { text: said } => (!said.trim().is_empty()).then(|| text(said)),
            Content::Image { data, mime_type } => Some(image(data, mime_type)),
            Content::Thinking { .. } | Content::ToolCall { .. } => None,
        })
        .collect()
}

/// What a tool that failed tells the model: text, and nothing but text.
fn told(content: &[Content]) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = shown(content)
        .into_iter()
        .map(|block| match block {
            Block::Image { source } => not_shown(source.media_type),
            other => other,
        })
        .collect();
    if blocks.is_empty() {
        blocks.push(text(NO_OUTPUT));
    }
    blocks
}

/// An image, or a note in its place if it is of a kind that the service refuses.
fn image<'a>(data: &'a str, media_type: &'a str) -> Block<'a> {
    match media_type {
        "image/jpeg" | "image/png" | "image/gif" | "image/webp" if !data.is_empty() => {
            Block::Image { source: Source { r#type: "base64", media_type, data } }
        }
        other => not_shown(other),
    }
}

fn not_shown<'a>(media_type: &str) -> Block<'a> {
    Block::Text { text: Cow::Owned(format!("[{media_type} image, not shown]")) }
}

/// What the model itself said; `own` if it was at this service.
fn said(block: &Content, own: bool) -> Option<Block<'_>> {
    match block {
        Content::Text { text: said } => (!said.trim().is_empty()).then(|| text(said)),
        Content::Thinking { thinking, signature } => {
            let signature = signature.as_deref().filter(|_| own)?;
            Some(match signature.strip_prefix(REDACTED) {
                Some(data) => Block::RedactedThinking { data },
                None => Block::Thinking { thinking, signature },
            })
        }
        Content::ToolCall { id, name, arguments } => {
            Some(Block::ToolUse { id: wire_id(id.as_str()), name: wire_name(name), input: input(arguments) })
        }
        // No model of this service makes images.
        Content::Image { .. } => None,
    }
}

/// Arguments as the object that the service wants. What did not parse is shown as it was written.
fn input(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        Value::Null => Cow::Owned(json!({})),
        Value::String(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_) => {
            Cow::Owned(json!({"_unparsed": arguments}))
        }
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
