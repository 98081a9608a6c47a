//! The JSON of the service's events, borrowed from their text where it can be; pure.
//!
//! An event is read from the outside in: only what is known of its type is looked into, so that types to come cannot
//! break a response.

use std::borrow::Cow;

use playhouse_protocol::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A text that is borrowed unless it holds escapes.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// What one `data:` line of the stream holds.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// What every block and every delta says of itself.
#[derive(Debug, Deserialize)]
pub(super) struct TypeOnly<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Option<Text<'a>>,
}

/// The message of `message_start`.
#[derive(Debug, Deserialize)]
pub(super) struct Opening<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

/// A block of text, as it starts or as a piece of it.
#[derive(Debug, Deserialize)]
pub(super) struct Saying<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
}

/// A block of reasoning, as it starts or as a piece of it or of its seal.
#[derive(Debug, Deserialize)]
pub(super) struct Thought<'a> {
    #[serde(borrow, default)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Text<'a>>,
}

/// A block of reasoning that is not shown.
#[derive(Debug, Deserialize)]
pub(super) struct Redacted<'a> {
    #[serde(borrow, default)]
    pub(super) data: Option<Text<'a>>,
}

/// A call as it starts.
#[derive(Debug, Deserialize)]
pub(super) struct ToolUse<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    /// `{}` from Anthropic itself; the whole of the arguments from some of those that speak like it.
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// A piece of a call's arguments.
#[derive(Debug, Deserialize)]
pub(super) struct InputJson<'a> {
    #[serde(borrow, default)]
    pub(super) partial_json: Option<Text<'a>>,
}

/// The delta of `message_delta`.
#[derive(Debug, Deserialize)]
pub(super) struct Ending<'a> {
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_details: Option<&'a RawValue>,
}

/// More on why the model stopped.
#[derive(Debug, Deserialize)]
pub(super) struct StopDetails<'a> {
    /// The kind of policy that a refusal goes back to.
    #[serde(borrow, default)]
    pub(super) category: Option<Text<'a>>,
}

/// Counts of tokens. Those of `message_delta` are of the whole response so far.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Counts {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Option<u64>,
}

impl Counts {
    /// Both reports as one. Counts only grow, so of two the larger is the later.
    pub(super) fn and(self, later: Self) -> Self {
        let details = (self.output_tokens_details, later.output_tokens_details);
        let thinking = |details: Option<OutputDetails>| details.and_then(|details| details.thinking_tokens);
        Self {
            input_tokens: self.input_tokens.max(later.input_tokens),
            output_tokens: self.output_tokens.max(later.output_tokens),
            cache_creation_input_tokens: self.cache_creation_input_tokens.max(later.cache_creation_input_tokens),
            cache_read_input_tokens: self.cache_read_input_tokens.max(later.cache_read_input_tokens),
            output_tokens_details: Some(OutputDetails {
                thinking_tokens: thinking(details.0).max(thinking(details.1)),
            }),
        }
    }

    /// The five classes. The service counts cached tokens beside the input and reasoning within the output; a detail
    /// larger than its whole is cut to it.
    pub(super) fn classes(self) -> Usage {
        let output = self.output_tokens.unwrap_or_default();
        let thinking = self.output_tokens_details.and_then(|details| details.thinking_tokens);
        let reasoning = thinking.unwrap_or_default().min(output);
        Usage::of(
            self.input_tokens.unwrap_or_default(),
            output - reasoning,
            self.cache_read_input_tokens.unwrap_or_default(),
            self.cache_creation_input_tokens.unwrap_or_default(),
            reasoning,
        )
    }
}
