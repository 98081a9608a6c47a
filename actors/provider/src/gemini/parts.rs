//! From the conversation's messages to Gemini's contents; pure.
//!
//! A user's message is a content. The results of tools that follow each other share one, which holds nothing else: the
//! service counts them against the calls before, and newer models refuse words or pictures beside them. What a message
//! becomes depends on the message and on the [`Writer`], on no neighbour.

use std::borrow::Cow;

use playhouse_protocol::{Content, Message};
use serde::Serialize;
use serde_json::Value;

use super::models::Generation;
use crate::wire::messages::{Mark, Messages};
use crate::wire::names::wire_id;

/// The seal that Google's documentation gives for calls that another model made. Without any, Gemini 3 refuses them.
const FOREIGN: &str = "skip_thought_signature_validator";

/// What a tool's empty result says.
const NOTHING: &str = "(no output)";

/// Whether calls and results are told apart by ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Each call has an id, which its result repeats.
    Sent,
    /// Vertex refuses the field: calls and results belong together by name and order.
    Left,
}

/// Writes messages for one service and one generation of models.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    /// The connection's provider: the seals of its messages are good here.
    pub(crate) provider: &'a str,
    pub(crate) ids: Ids,
    pub(crate) generation: Generation,
}

#[derive(Serialize)]
struct WireContent<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(flatten)]
    kind: Kind<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Kind<'a> {
    Text(Cow<'a, str>),
    InlineData(Blob<'a>),
    FunctionCall(Call<'a>),
    FunctionResponse(CallResponse<'a>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: String,
    args: Cow<'a, Value>,
}

#[derive(Debug, Serialize)]
struct CallResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: String,
    response: Outcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Media<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Output(String),
    Error(String),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Media<'a> {
    inline_data: Blob<'a>,
}

impl<'m> Writer<'_> {
    /// Appends a message, or nothing if nothing of it can be sent.
    pub(crate) fn message(&self, message: &'m Message, out: &mut Messages) -> Result<(), serde_json::Error> {
        match message {
            Message::User { content, .. } => match user_parts(content) {
                parts if parts.is_empty() => Ok(()),
                parts => out.item("user", &WireContent { role: "user", parts }),
            },
            // Two in a row become one: a call must not follow a content of the model.
            Message::Assistant { content, provider, .. } => {
                let seals = if **provider == *self.provider { Seals::Own } else { Seals::Foreign };
                let parts = self.model_parts(content, seals);
                parts.iter().try_for_each(|part| out.block("model", "parts", part, Mark::Never))
            }
            Message::ToolResult { tool_call_id, tool_name, content, is_error, .. } => {
                let outcome = if *is_error { Outcome::Error } else { Outcome::Output };
                let answer = self.answer(tool_call_id.as_str(), tool_name, content, outcome);
                out.block("user", "parts", &Part::of(Kind::FunctionResponse(answer)), Mark::Never)
            }
        }
    }

    fn model_parts(&self, content: &'m [Content], seals: Seals) -> Vec<Part<'m>> {
        let mut parts: Vec<Part<'m>> = Vec::with_capacity(content.len());
        let mut pending: Option<&'m str> = None;
        for block in content {
            let kind = match block {
                Content::Thinking { signature, .. } => {
                    match (signature, seals) {
                        (Some(seal), Seals::Own) => pending = Some(seal),
                        (Some(_), Seals::Foreign) | (None, _) => {}
                    }
                    continue;
                }
                Content::Text { text } if text.is_empty() => continue,
                Content::Text { text } => Kind::Text(Cow::Borrowed(text)),
                Content::ToolCall { id, name, arguments } => Kind::FunctionCall(Call {
                    id: self.id(id.as_str()),
                    name: wire_name(name),
                    args: match arguments {
                        Value::Object(_) => Cow::Borrowed(arguments),
                        // What the model wrote and nobody could read: it sees it again.
                        other => Cow::Owned(serde_json::json!({ "_unparsed": other })),
                    },
                }),
                Content::Image { mime_type, .. } => Kind::Text(Cow::Owned(not_shown(mime_type))),
            };
            parts.push(Part { kind, thought_signature: pending.take() });
        }
        // The seal of an answer in words comes behind it, on a part without any.
        if let (Some(seal), Some(last)) = (pending, parts.last_mut())
            && matches!(last.kind, Kind::Text(_))
            && last.thought_signature.is_none()
        {
            last.thought_signature = Some(seal);
        }
        if self.generation == Generation::Three
            && let Some(call) = parts.iter_mut().find(|part| matches!(part.kind, Kind::FunctionCall(_)))
            && call.thought_signature.is_none()
        {
            call.thought_signature = Some(FOREIGN);
        }
        parts
    }

    fn answer(
        &self,
        id: &'m str,
        tool: &str,
        content: &'m [Content],
        outcome: fn(String) -> Outcome,
    ) -> CallResponse<'m> {
        let (mut text, mut parts) = (String::new(), Vec::new());
        for block in content {
            let line = match block {
                Content::Text { text } => Cow::Borrowed(text.as_str()),
                Content::Image { data, mime_type } if self.takes_picture(mime_type) => {
                    parts.push(Media { inline_data: Blob { mime_type, data } });
                    continue;
                }
                Content::Image { mime_type, .. } => Cow::Owned(not_shown(mime_type)),
                Content::Thinking { .. } | Content::ToolCall { .. } => continue,
            };
            if !text.is_empty() && !line.is_empty() {
                text.push('\n');
            }
            text.push_str(&line);
        }
        if text.is_empty() && parts.is_empty() {
            text.push_str(NOTHING);
        }
        CallResponse { id: self.id(id), name: wire_name(tool), response: outcome(text), parts }
    }

    /// Whether a tool's result can hold a picture of this kind.
    fn takes_picture(&self, mime_type: &str) -> bool {
        match self.generation {
            Generation::Older => false,
            Generation::Three => ["image/png", "image/jpeg", "image/webp"].contains(&mime_type),
        }
    }

    fn id<'i>(&self, id: &'i str) -> Option<Cow<'i, str>> {
        match self.ids {
            Ids::Sent => Some(wire_id(id)),
            Ids::Left => None,
        }
    }
}

/// Whose seals a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seals {
    Own,
    Foreign,
}

impl<'a> Part<'a> {
    fn of(kind: Kind<'a>) -> Self {
        Self { kind, thought_signature: None }
    }
}

fn user_parts(content: &[Content]) -> Vec<Part<'_>> {
    const PICTURES: [&str; 5] = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
    let kinds = content.iter().filter_map(|block| match block {
        Content::Text { text } => (!text.is_empty()).then_some(Kind::Text(Cow::Borrowed(text))),
        Content::Image { data, mime_type } if PICTURES.contains(&mime_type.as_str()) => {
            Some(Kind::InlineData(Blob { mime_type, data }))
        }
        Content::Image { mime_type, .. } => Some(Kind::Text(Cow::Owned(not_shown(mime_type)))),
        Content::Thinking { .. } | Content::ToolCall { .. } => None,
    });
    kinds.map(Part::of).collect()
}

fn not_shown(mime_type: &str) -> String {
    format!("[{mime_type} image, not shown]")
}

/// A name as the service takes it back: at most 64 of letters, digits, `_`, `.`, `:` and `-`, a letter or `_` first.
/// Models invent names that the service then refuses, and one refused message would end the conversation.
pub(crate) fn wire_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    let lead = match name.chars().next() {
        None => return "unknown".to_owned(),
        Some(first) if starts(first) || !fits(first) => "",
        Some(_) => "_",
    };
    lead.chars().chain(name.chars()).take(64).map(|c| if fits(c) { c } else { '_' }).collect()
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
