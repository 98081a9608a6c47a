//! The JSON of the events, borrowed from their text where it can be.

use std::borrow::Cow;

use playhouse_protocol::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::sse::Frame;

/// A text that is borrowed unless it holds escapes.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The response has begun.
    Begun,
    /// An item opens: a message, a tool call or reasoning.
    ItemAdded,
    /// An item is whole.
    ItemDone,
    /// A piece of a message, be it an answer or a refusal.
    TextDelta,
    /// A piece of the summary of reasoning.
    SummaryDelta,
    /// A piece of the reasoning itself, which open models show.
    ReasoningDelta,
    /// A piece of a call's arguments.
    ArgumentsDelta,
    /// All of a call's arguments.
    ArgumentsDone,
    /// What other events say as well.
    Repeated,
    /// The terminal event of a response that is whole.
    Completed,
    /// The terminal event of one that was cut short.
    Incomplete,
    /// The terminal event of one that failed.
    Failed,
    /// The event `error`, with the service's reason.
    Error,
    /// A sign of life.
    KeepAlive,
    /// Of tools that are not asked for, or newer than this.
    Unknown,
}

/// What says which event it is, where the frame does not.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl EventKind {
    /// The kind of an event: by the frame's name, which is the type in its data, else by that.
    pub(crate) fn of(frame: &Frame<'_>) -> Result<Self, serde_json::Error> {
        let data = frame.data.as_ref();
        match Self::named(&frame.event) {
            Self::Unknown if frame.event.starts_with("response.") || data.trim() == "[DONE]" => Ok(Self::Unknown),
            Self::Unknown => {
                let head: Head<'_> = serde_json::from_str(data)?;
                Ok(match (head.kind, head.error) {
                    (Some(kind), _) => Self::named(&kind.0),
                    (None, Some(_)) => Self::Error,
                    (None, None) => Self::Unknown,
                })
            }
            known => Ok(known),
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "response.created" | "response.queued" | "response.in_progress" => Self::Begun,
            "response.output_item.added" => Self::ItemAdded,
            "response.output_item.done" => Self::ItemDone,
            "response.output_text.delta" | "response.refusal.delta" => Self::TextDelta,
            "response.reasoning_summary_text.delta" => Self::SummaryDelta,
            "response.reasoning_text.delta" => Self::ReasoningDelta,
            "response.function_call_arguments.delta" => Self::ArgumentsDelta,
            "response.function_call_arguments.done" => Self::ArgumentsDone,
            "response.content_part.added"
            | "response.content_part.done"
            | "response.output_text.done"
            | "response.output_text.annotation.added"
            | "response.refusal.done"
            | "response.reasoning_summary_part.added"
            | "response.reasoning_summary_part.done"
            | "response.reasoning_summary_text.done"
            | "response.reasoning_text.done" => Self::Repeated,
            "response.completed" => Self::Completed,
            "response.incomplete" => Self::Incomplete,
            "response.failed" => Self::Failed,
            "error" => Self::Error,
            // Sent on long waits, though no documentation has it.
            "keepalive" => Self::KeepAlive,
            _ => Self::Unknown,
        }
    }
}

/// A piece of an item, or all of its arguments.
#[derive(Debug, Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(default)]
    pub(crate) output_index: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) item_id: Option<Text<'a>>,
    #[serde(default)]
    pub(crate) content_index: Option<u64>,
    #[serde(default)]
    pub(crate) summary_index: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) arguments: Option<Text<'a>>,
}

/// An item that opens or is whole.
#[derive(Debug, Deserialize)]
pub(crate) struct ItemEvent<'a> {
    #[serde(default)]
    pub(crate) output_index: Option<u64>,
    #[serde(borrow)]
    pub(crate) item: Item<'a>,
}

/// A part of a response.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Item<'a> {
    /// What the model says.
    Message {
        #[serde(borrow, default)]
        id: Option<Text<'a>>,
        #[serde(borrow, default)]
        content: Option<Vec<Part<'a>>>,
    },
    /// Reasoning: readable, sealed, or both.
    Reasoning {
        #[serde(borrow, default)]
        id: Option<Text<'a>>,
        #[serde(borrow, default)]
        summary: Option<Vec<Part<'a>>>,
        #[serde(borrow, default)]
        content: Option<Vec<Part<'a>>>,
        #[serde(borrow, default)]
        encrypted_content: Option<Text<'a>>,
    },
    /// The tool it calls.
    FunctionCall {
        #[serde(borrow, default)]
        id: Option<Text<'a>>,
        #[serde(borrow, default)]
        call_id: Option<Text<'a>>,
        #[serde(borrow, default)]
        name: Option<Text<'a>>,
        #[serde(borrow, default)]
        arguments: Option<Text<'a>>,
        #[serde(borrow, default)]
        status: Option<Text<'a>>,
    },
    /// Of tools that are not asked for.
    #[serde(other)]
    Other,
}

/// A part of an item.
#[derive(Debug, Deserialize)]
pub(crate) struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
}

impl Part<'_> {
    /// Whether it says that the model will not answer.
    pub(super) fn is_refusal(&self) -> bool {
        self.refusal.as_ref().is_some_and(|text| !text.0.is_empty())
    }

    /// Its text, or its refusal; empty if it has neither.
    pub(crate) fn says(&self) -> &str {
        self.text.as_ref().or(self.refusal.as_ref()).map_or("", |text| &text.0)
    }
}

/// An event about the response as a whole. Some services leave `response` out where it says nothing new.
#[derive(Debug, Deserialize)]
pub(crate) struct ResponseEvent<'a> {
    #[serde(borrow, default)]
    pub(crate) response: Option<Summary<'a>>,
}

/// A response, without what the events before have said.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Summary<'a> {
    #[serde(borrow, default)]
    pub(crate) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) output: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) usage: Option<UsageReport>,
    #[serde(borrow, default)]
    pub(crate) incomplete_details: Option<IncompleteDetails<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    pub(crate) reason: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UsageReport {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

impl UsageReport {
    /// The five classes. The service counts what the cache gave and took within the input, and reasoning within the
    /// output; a detail larger than its whole is cut to it, so that the classes add up to what was billed.
    pub(crate) fn classes(self) -> Usage {
        let (input, output) = (self.input_tokens.unwrap_or_default(), self.output_tokens.unwrap_or_default());
        let details = self.input_tokens_details.unwrap_or_default();
        let read = details.cached_tokens.unwrap_or_default().min(input);
        let written = details.cache_write_tokens.unwrap_or_default().min(input - read);
        let reasoning = self.output_tokens_details.and_then(|details| details.reasoning_tokens);
        let reasoning = reasoning.unwrap_or_default().min(output);
        Usage::of(input - read - written, output - reasoning, read, written, reasoning)
    }
}
