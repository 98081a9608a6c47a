//! The JSON of a response's chunk, borrowed from the event's text where it can be.

use std::borrow::Cow;

use playhouse_protocol::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A text that is borrowed unless it holds escapes.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// One event of a response.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(crate) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    pub(crate) prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(default)]
    pub(crate) usage_metadata: Option<UsageReport>,
    #[serde(borrow, default)]
    pub(crate) model_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Candidate<'a> {
    #[serde(default)]
    pub(crate) index: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) content: Option<Parts<'a>>,
    #[serde(borrow, default)]
    pub(crate) finish_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) finish_message: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Parts<'a> {
    #[serde(borrow, default)]
    pub(crate) parts: Option<Vec<Part<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Part<'a> {
    #[serde(borrow, default)]
    pub(crate) text: Option<Text<'a>>,
    #[serde(default)]
    pub(crate) thought: Option<bool>,
    #[serde(borrow, default)]
    pub(crate) thought_signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) function_call: Option<FunctionCall<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FunctionCall<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) args: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptFeedback<'a> {
    #[serde(borrow, default)]
    pub(crate) block_reason: Option<Text<'a>>,
}

/// What the call consumed so far. Every chunk may say it anew, and not all of it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageReport {
    #[serde(default)]
    prompt_token_count: Option<u64>,
    #[serde(default)]
    cached_content_token_count: Option<u64>,
    #[serde(default)]
    candidates_token_count: Option<u64>,
    #[serde(default)]
    thoughts_token_count: Option<u64>,
    #[serde(default)]
    tool_use_prompt_token_count: Option<u64>,
}

impl UsageReport {
    /// This report, and of the earlier one what this does not say.
    pub(crate) fn after(self, earlier: Self) -> Self {
        Self {
            prompt_token_count: self.prompt_token_count.or(earlier.prompt_token_count),
            cached_content_token_count: self.cached_content_token_count.or(earlier.cached_content_token_count),
            candidates_token_count: self.candidates_token_count.or(earlier.candidates_token_count),
            thoughts_token_count: self.thoughts_token_count.or(earlier.thoughts_token_count),
            tool_use_prompt_token_count: self.tool_use_prompt_token_count.or(earlier.tool_use_prompt_token_count),
        }
    }

    /// The five classes. The service counts cached tokens within the prompt, and thoughts beside the answer.
    pub(crate) fn classes(&self) -> Usage {
        let prompt = self.prompt_token_count.unwrap_or_default();
        let cached = self.cached_content_token_count.unwrap_or_default().min(prompt);
        let input = (prompt - cached).saturating_add(self.tool_use_prompt_token_count.unwrap_or_default());
        let output = self.candidates_token_count.unwrap_or_default();
        Usage::of(input, output, cached, 0, self.thoughts_token_count.unwrap_or_default())
    }
}
