//! The JSON of a chat-completions chunk, borrowed from the event's text where it can be.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use playhouse_protocol::{ProviderError, Usage};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A text that is borrowed unless it holds escapes.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A list that usually holds one thing, which then costs no allocation.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Few<T> {
    /// The one thing, if there is just one.
    pub(crate) fn only(&self) -> Option<&T> {
        self.first.as_ref().filter(|_| self.rest.is_empty())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, rest: Vec::new() }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Few<T>, A::Error> {
                let first = items.next_element()?;
                let mut rest = Vec::new();
                while let Some(item) = items.next_element()? {
                    rest.push(item);
                }
                Ok(Few { first, rest })
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }
}

/// One event of a response. Services leave fields out and send `null` for them alike.
#[derive(Debug, Deserialize)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(crate) object: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) choices: Option<Few<Choice<'a>>>,
    #[serde(default)]
    pub(crate) usage: Option<UsageReport>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(default)]
    pub(crate) index: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(crate) finish_reason: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_calls: Option<Few<ToolCallDelta<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ToolCallDelta<'a> {
    #[serde(default)]
    pub(crate) index: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) arguments: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UsageReport {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

impl UsageReport {
    /// The five classes. The service counts cached tokens within the prompt and reasoning within the completion;
    /// a detail larger than its whole is cut to it, so that the classes add up to what was billed.
    pub(crate) fn classes(&self) -> Usage {
        let prompt = self.prompt_tokens.unwrap_or_default();
        let completion = self.completion_tokens.unwrap_or_default();
        let cached = self.prompt_tokens_details.as_ref().and_then(|d| d.cached_tokens).unwrap_or_default().min(prompt);
        let reasoning = self
            .completion_tokens_details
            .as_ref()
            .and_then(|d| d.reasoning_tokens)
            .unwrap_or_default()
            .min(completion);
        Usage::of(prompt - cached, completion - reasoning, cached, 0, reasoning)
    }
}

/// The parts of an error object that say what kind it is.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorReport<'a> {
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, rename = "type", default)]
    kind: Option<Text<'a>>,
}

impl ErrorReport<'_> {
    /// Classifies an error object that came instead of a chunk: by an HTTP status in its `code` first, then by its
    /// words.
    pub(crate) fn classify(body: &str) -> ProviderError {
        let report: Option<ErrorReport<'_>> = serde_json::from_str(body).ok();
        let Some(report) = report else { return ProviderError::classify_in_stream(body) };
        let code = report.code.map(|code| code.get().trim_matches('"')).unwrap_or_default();
        let kind = report.kind.as_ref().map(|kind| kind.0.as_ref()).unwrap_or_default();
        match code.parse::<u16>() {
            Ok(status @ 400..=599) => ProviderError::classify(status, body, None),
            Ok(_) | Err(_) if code == "rate_limit_exceeded" => ProviderError::RateLimited { retry_after_ms: None },
            Ok(_) | Err(_) => match (ProviderError::classify_in_stream(body), kind) {
                // The service's own failure, an HTTP 500 in all but form.
                (ProviderError::Api { message }, "server_error") => ProviderError::Network { message },
                (error, _) => error,
            },
        }
    }
}
