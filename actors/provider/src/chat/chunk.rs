//! The JSON of a chat-completions chunk, borrowed from the event's text where it can be.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use playhouse_protocol::{ProviderError, Usage};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::wire::failure::classify_object;

/// A text that is borrowed unless it holds escapes.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// What the answer says in one piece: a text, or a list of parts of which some are reasoning (Mistral).
#[derive(Debug, Default)]
pub(crate) struct Spoken<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) thinking: String,
}

impl<'de: 'a, 'a> Deserialize<'de> for Spoken<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for TextOrParts<'a> {
            type Value = Spoken<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Spoken<'a>, E> {
                Ok(Spoken { text: Cow::Borrowed(text), thinking: String::new() })
            }

            fn visit_str<E>(self, text: &str) -> Result<Spoken<'a>, E> {
                Ok(Spoken { text: Cow::Owned(text.to_owned()), thinking: String::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Spoken<'a>, A::Error> {
                let (mut text, mut thinking) = (String::new(), String::new());
                while let Some(part) = parts.next_element::<SpokenPart>()? {
                    text.push_str(&part.text);
                    for thought in part.thinking {
                        thinking.push_str(&thought.text);
                    }
                }
                Ok(Spoken { text: Cow::Owned(text), thinking })
            }
        }

        deserializer.deserialize_any(TextOrParts(PhantomData))
    }
}

#[derive(Debug, Deserialize)]
struct SpokenPart {
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: Vec<SpokenThought>,
}

#[derive(Debug, Deserialize)]
struct SpokenThought {
    #[serde(default)]
    text: String,
}

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
    pub(crate) x_groq: Option<Groq<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
    // What an error is told by that comes without a name around it.
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    detail: Option<&'a RawValue>,
    #[serde(borrow, default)]
    base_resp: Option<BaseResp<'a>>,
}

impl Chunk<'_> {
    /// Whether it is none of a response's, but an object of some other kind.
    pub(crate) fn is_foreign(&self) -> bool {
        self.choices.is_none() && self.usage.is_none() && self.x_groq.is_none()
    }

    /// The failure that it is, or that `data`, the whole of it, is.
    pub(crate) fn failure(&self, data: &str) -> Option<ProviderError> {
        let choice = || self.choices.as_ref().and_then(Few::only).and_then(|choice| choice.error);
        let error = self.error.or_else(|| self.x_groq.as_ref().and_then(|groq| groq.error)).or_else(choice);
        if let Some(error) = error {
            return Some(classify_object(error.get()));
        }
        if let Some(failure) = self.base_resp.as_ref().and_then(BaseResp::failure) {
            return Some(failure);
        }
        // Some services send an error's fields by themselves.
        let says = |field: Option<&RawValue>, word: &str| field.is_some_and(|field| field.get() == word);
        let named = self.object.as_ref().is_some_and(|object| object.0 == "error") || says(self.kind, "\"error\"");
        let bare = self.is_foreign() && (self.detail.is_some() || self.code.is_some() && self.message.is_some());
        (named || bare).then(|| classify_object(data))
    }

    /// The usage, wherever the service puts it.
    pub(crate) fn usage(&self) -> Option<&UsageReport> {
        let choice = || self.choices.as_ref().and_then(Few::only).and_then(|choice| choice.usage.as_ref());
        self.usage.as_ref().or_else(|| self.x_groq.as_ref().and_then(|groq| groq.usage.as_ref())).or_else(choice)
    }
}

/// How MiniMax says whether it went well.
#[derive(Debug, Deserialize)]
pub(crate) struct BaseResp<'a> {
    #[serde(default)]
    status_code: i64,
    #[serde(borrow, default)]
    status_msg: Option<Text<'a>>,
}

impl BaseResp<'_> {
    fn failure(&self) -> Option<ProviderError> {
        let status = match self.status_code {
            0 => return None,
            1002 | 1039 => 429,
            1004 => 401,
            1000 | 1001 | 1013 | 1024 | 1033 => 500,
            _ => 422,
        };
        let words = self.status_msg.as_ref().map_or("", |message| message.0.as_ref());
        Some(ProviderError::classify(status, &format!("{} ({})", words, self.status_code), None))
    }
}

/// `x_groq`, where Groq puts what others have beside the choices.
#[derive(Debug, Deserialize)]
pub(crate) struct Groq<'a> {
    #[serde(default)]
    usage: Option<UsageReport>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(default)]
    pub(crate) index: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(crate) finish_reason: Option<Text<'a>>,
    #[serde(default)]
    usage: Option<UsageReport>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Option<Spoken<'a>>,
    #[serde(borrow, default)]
    pub(crate) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) reasoning_details: Option<&'a RawValue>,
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
    total_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's two parts of the prompt.
    #[serde(default)]
    prompt_cache_hit_tokens: Option<u64>,
    #[serde(default)]
    prompt_cache_miss_tokens: Option<u64>,
    /// Moonshot's name for the tokens that came from its cache.
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    /// What went into the cache; only OpenRouter says so.
    #[serde(default)]
    cache_write_tokens: Option<u64>,
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
        let in_prompt = self.prompt_tokens_details.as_ref();
        let hit = self.prompt_cache_hit_tokens;
        let prompt = self.prompt_tokens.unwrap_or_else(|| {
            hit.unwrap_or_default().saturating_add(self.prompt_cache_miss_tokens.unwrap_or_default())
        });
        let cached = in_prompt.and_then(|d| d.cached_tokens).or(hit).or(self.cached_tokens);
        let cached = cached.unwrap_or_default().min(prompt);
        let written = in_prompt.and_then(|d| d.cache_write_tokens).unwrap_or_default().min(prompt - cached);

        let completion = self.completion_tokens.unwrap_or_default();
        let reasoning = self.completion_tokens_details.as_ref().and_then(|d| d.reasoning_tokens).unwrap_or_default();
        let beside = prompt.saturating_add(completion).saturating_add(reasoning);
        let (output, reasoning) = if self.total_tokens == Some(beside) {
            // xAI counts reasoning beside the completion, as its total shows.
            (completion, reasoning)
        } else {
            (completion.saturating_sub(reasoning), reasoning.min(completion))
        };
        Usage::of(prompt - cached - written, output, cached, written, reasoning)
    }
}
