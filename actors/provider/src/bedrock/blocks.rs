//! The blocks of Converse messages; pure.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::decode::REDACTED;

/// A block of a message, or of a tool's result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Block<'a> {
    Text(Cow<'a, str>),
    Image(Image<'a>),
    ToolUse(Call<'a>),
    ToolResult(Outcome<'a>),
    ReasoningContent(Reasoning<'a>),
}

#[derive(Debug, Serialize)]
pub(super) struct Image<'a> {
    format: &'static str,
    source: Source<'a>,
}

#[derive(Debug, Serialize)]
struct Source<'a> {
    bytes: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Call<'a> {
    tool_use_id: Cow<'a, str>,
    name: String,
    input: Cow<'a, Value>,
}

/// What a call came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome<'a> {
    pub(super) tool_use_id: Cow<'a, str>,
    pub(super) content: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reasoning<'a> {
    ReasoningText {
        text: &'a str,
        signature: &'a str,
    },
    /// Reasoning that only the service can read, in Base64.
    RedactedContent(&'a str),
}

impl<'a> Block<'a> {
    /// Reasoning under its seal.
    pub(super) fn reasoning(text: &'a str, seal: &'a str) -> Self {
        Self::ReasoningContent(match seal.strip_prefix(REDACTED) {
            Some(hidden) => Reasoning::RedactedContent(hidden),
            None => Reasoning::ReasoningText { text, signature: seal },
        })
    }

    /// A call. Its input is an object, whatever the model wrote.
    pub(super) fn call(tool_use_id: Cow<'a, str>, name: String, arguments: &'a Value) -> Self {
        let input = match arguments {
            Value::Object(_) => Cow::Borrowed(arguments),
            Value::String(raw) => Cow::Owned(json!({"_unparsed": raw})),
            other => Cow::Owned(json!({"_unparsed": other.to_string()})),
        };
        Self::ToolUse(Call { tool_use_id, name, input })
    }
}

/// An image, or a note where it is of a kind that the service does not take.
pub(super) fn image<'a>(bytes: &'a str, mime_type: &str) -> Block<'a> {
    let format = match mime_type.trim().to_ascii_lowercase().as_str() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return Block::Text(format!("[{mime_type} image, not shown]").into()),
    };
    Block::Image(Image { format, source: Source { bytes } })
}
