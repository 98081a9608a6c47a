//! What passes between an agent and a provider connection.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cancel::Credit;
use crate::config::CacheConfig;
use crate::ids::{CallId, ToolCallId};
use crate::message::{AgentMessage, History, Message};
use crate::model::{ModelConfig, ThinkingLevel};
use crate::tool::ToolDefinition;
use crate::usage::Usage;

/// What a call is for. A turn is part of the conversation; the others serve it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A turn of the conversation.
    #[default]
    Turn,
    /// A summary for compaction.
    Summary,
    /// A judge among branches.
    Judge,
    /// A child's last word before its deadline.
    Wrapup,
    /// A second try at structured output.
    Repair,
}

/// One request to a model.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// The model that answers, with its key.
    pub model_config: Arc<ModelConfig>,
    /// The system prompt; empty is none.
    pub system_prompt: Arc<str>,
    /// The conversation's key: what a service was sent of it before is found by it.
    pub conversation: Arc<str>,
    /// The conversation; providers send [`StreamConfig::sendable`].
    pub messages: History,
    /// Messages that follow the conversation in this request and are no part of it.
    pub tail: Vec<Arc<AgentMessage>>,
    /// What the model may call; empty is none.
    pub tools: Arc<[ToolDefinition]>,
    /// How much the model should reason before it answers.
    pub thinking_level: ThinkingLevel,
    /// The output limit; overrides the model's.
    pub max_tokens: Option<u32>,
    /// Sampling temperature; `None` leaves it to the service.
    pub temperature: Option<f32>,
    /// Which parts of the prompt the provider should cache.
    pub cache_config: CacheConfig,
    /// What the call is for.
    pub purpose: Purpose,
    /// How many model responses the session's chain held before this one.
    pub response: u64,
    /// The number of this attempt at the response, from 0; the connection counts on from here.
    pub attempt: u32,
    /// The text of the session's first prompt.
    pub first_prompt: Arc<str>,
    /// The form that the answer must have, if it must have one. The answer is then JSON in a text block, whichever
    /// way its protocol came by it.
    pub response_format: Option<Arc<ResponseFormat>>,
}

impl StreamConfig {
    /// What a provider may be shown: the conversation and what follows it, without extensions and failed or empty
    /// responses.
    pub fn sendable(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let tail = self.tail.iter().filter_map(|message| message.llm()).filter(|message| message.is_sendable());
        self.messages.sendable().chain(tail)
    }
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseFormat {
    /// A name for it: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// A JSON Schema that the answer must fit.
    pub schema: Value,
}

/// A piece of a response as it streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum StreamDelta {
    /// A piece of the answer's text.
    Text {
        /// Follows what came before it of the same kind.
        delta: String,
    },
    /// A piece of the model's reasoning.
    Thinking {
        /// Follows what came before it of the same kind.
        delta: String,
    },
    /// A piece of a tool call's arguments.
    ToolCallDelta {
        /// Part of a JSON text, cut anywhere.
        delta: String,
    },
}

impl StreamDelta {
    /// Appends `next` to this delta if both are of one kind; gives it back otherwise.
    pub fn merge(&mut self, next: StreamDelta) -> Result<(), StreamDelta> {
        match (self, next) {
            (Self::Text { delta }, Self::Text { delta: more })
            | (Self::Thinking { delta }, Self::Thinking { delta: more })
            | (Self::ToolCallDelta { delta }, Self::ToolCallDelta { delta: more }) => {
                delta.push_str(&more);
                Ok(())
            }
            (_, next) => Err(next),
        }
    }
}

/// What a wire protocol reads from a response, before it is merged and sent on.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The service has begun to answer.
    Start,
    /// A piece of the answer's text.
    TextDelta {
        /// Follows the text before it.
        delta: String,
    },
    /// A piece of the model's reasoning.
    ThinkingDelta {
        /// Follows the reasoning before it.
        delta: String,
    },
    /// A tool call opened: the argument pieces that follow are its own.
    ToolCallStart {
        /// The provider's id for it, possibly empty.
        id: ToolCallId,
        /// The tool's name, as the model wrote it.
        name: String,
    },
    /// A piece of a tool call's arguments.
    ToolCallDelta {
        /// Part of a JSON text, cut anywhere.
        delta: String,
    },
    /// The protocol's own terminal event: the response is complete.
    Done {
        /// An assistant message, with what the call consumed.
        message: Box<Message>,
    },
    /// The protocol reported an error inside the stream.
    Error {
        /// Classified, so that the connection knows whether to ask again.
        error: ProviderError,
    },
}

/// Why a model call failed. Its text says what to do where something can be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProviderError {
    /// Too many requests, or an overloaded service.
    #[error("rate limited by the provider{}{}", colon(.message), retry_hint(.retry_after_ms))]
    RateLimited {
        /// The service's words, shortened; empty where it had none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// What the service asked for.
        retry_after_ms: Option<u64>,
    },
    /// The service has failed again and again, and is left alone for a while: nothing was sent.
    #[error("the service is left alone after repeated failures: {message}{}", retry_hint(.retry_after_ms))]
    Unavailable {
        /// The text of the last failure.
        message: String,
        /// How long it is left alone.
        retry_after_ms: Option<u64>,
    },
    /// The connection failed, or the service did with a status that may pass.
    #[error("no answer from the provider: {message}")]
    Network {
        /// The transport's or the service's words.
        message: String,
    },
    /// The key was refused: asking again does not help.
    #[error("the provider refused the key: {message}")]
    Auth {
        /// The service's words, shortened.
        message: String,
    },
    /// The service refused the request.
    #[error("the provider refused the request: {message}")]
    Api {
        /// The service's words, shortened.
        message: String,
    },
    /// The service does not take a picture of the conversation.
    #[error("the provider does not take a picture: {message}")]
    Picture {
        /// The service's words, or the limit that the picture is over.
        message: String,
    },
    /// The conversation is too long for the model.
    #[error("the conversation is too long for the model: {message}")]
    ContextOverflow {
        /// The service's words, shortened.
        message: String,
    },
    /// The answer holds nothing: no words, no call.
    #[error("the model gave an empty answer")]
    Empty {
        /// What it consumed all the same.
        usage: Box<Usage>,
    },
    /// The caller no longer wants an answer.
    #[error("cancelled")]
    Cancelled,
    /// What fits none of the others; not asked again.
    #[error("{message}")]
    Other {
        /// For people, and what to do if something can be done.
        message: String,
    },
    /// The stream ended before its terminal event.
    #[error("the response was cut off: {message}")]
    Incomplete {
        /// How far it had come.
        message: String,
    },
    /// The actor that ran the call died.
    #[error("the call was lost: {message}")]
    Lost {
        /// How the actor ended.
        message: String,
    },
}

/// What kind of failure ended a run, where that makes a difference later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No service could be reached, or the one that was could not work: the run can be gone on with when it can.
    Unreachable,
    /// The model gave an empty answer, however often it was asked.
    Empty,
}

impl ProviderError {
    /// Its kind, where that makes a difference later.
    pub fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Network { .. } | Self::Unavailable { .. } | Self::RateLimited { .. } => {
                Some(FailureKind::Unreachable)
            }
            Self::Empty { .. } => Some(FailureKind::Empty),
            Self::Auth { .. }
            | Self::Api { .. }
            | Self::Picture { .. }
            | Self::ContextOverflow { .. }
            | Self::Cancelled
            | Self::Other { .. }
            | Self::Incomplete { .. }
            | Self::Lost { .. } => None,
        }
    }
}

fn colon(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

fn retry_hint(after: &Option<u64>) -> String {
    after.map(|ms| format!("; it asks to wait {ms} ms")).unwrap_or_default()
}

/// Phrases by which services say that a prompt is too long.
const OVERFLOW: [&str; 17] = [
    "prompt is too long",
    "input is too long",
    "exceeds the context window",
    "exceeds the maximum number of tokens",
    "maximum prompt length",
    "reduce the length of the messages",
    "maximum context length",
    "exceeds the limit of",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "context length exceeded",
    "context_length_exceeded",
    "model_context_window_exceeded",
    "too many tokens",
    "token limit exceeded",
];

/// Words by which services say that an account has nothing left to spend: waiting does not help.
const OUT_OF_CREDIT: [&str; 9] = [
    "insufficient_quota",
    "insufficient balance",
    "billing_error",
    "billing_not_active",
    "billing_hard_limit_reached",
    "credit balance is too low",
    "exceeded_current_quota_error",
    "used all available credits",
    "free-models-per-day",
];

/// Words inside a stream that mean a rate limit or an overloaded service.
const OVERLOADED: [&str; 5] =
    ["overloaded_error", "rate_limit_error", "too_many_requests", "no_capacity", "unavailable"];

impl ProviderError {
    /// Classifies an HTTP failure: by status first, then by what the body says.
    pub fn classify(status: u16, body: &str, retry_after: Option<Duration>) -> Self {
        let retry_after_ms = retry_after.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        let message = || format!("HTTP {status}{}", colon(&said(body)));
        match status {
            400 | 402 | 403 | 429 if speaks_of(body, &OUT_OF_CREDIT) => Self::out_of_credit(&message()),
            429 | 503 | 529 => Self::RateLimited { message: message(), retry_after_ms },
            403 if speaks_of(body, &["model"]) => {
                let advice =
                    "the key is known, but may not use this model: ask the provider for access, or use another";
                Self::Api { message: format!("{}; {advice}", message()) }
            }
            401 | 403 => Self::Auth { message: message() },
            400 | 413 | 415 | 422 if speaks_of(body, &["image"]) && !speaks_of(body, &["token"]) => {
                Self::Picture { message: message() }
            }
            400 | 413 if body.trim().is_empty() || speaks_of(body, &OVERFLOW) => {
                Self::ContextOverflow { message: message() }
            }
            408 | 500 | 502 | 504 => Self::Network { message: message() },
            _ if speaks_of(body, &OVERFLOW) => Self::ContextOverflow { message: message() },
            _ => Self::Api { message: message() },
        }
    }

    /// Classifies an error that arrived inside a stream.
    pub fn classify_in_stream(body: &str) -> Self {
        if speaks_of(body, &OUT_OF_CREDIT) {
            Self::out_of_credit(&said(body))
        } else if speaks_of(body, &OVERLOADED) {
            Self::limited_in_stream(body, None)
        } else if speaks_of(body, &OVERFLOW) {
            Self::ContextOverflow { message: excerpt(body) }
        } else {
            Self::Api { message: excerpt(body) }
        }
    }

    /// A rate limit that was said inside a stream, in the words of its error object.
    pub fn limited_in_stream(body: &str, retry_after_ms: Option<u64>) -> Self {
        Self::RateLimited { message: said(body), retry_after_ms }
    }

    /// The account has no credit left, or no quota for a long time: asking again does not help.
    pub fn out_of_credit(words: &str) -> Self {
        let advice = "the account has no credit or quota left: check its plan and billing at the provider, or use \
                      another model";
        Self::Api { message: format!("{advice}. It said: {words}") }
    }

    /// Whether asking again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Unavailable { .. }
            | Self::Network { .. }
            | Self::Incomplete { .. }
            | Self::Empty { .. }
            | Self::Lost { .. } => true,
            Self::Auth { .. }
            | Self::Api { .. }
            | Self::Picture { .. }
            | Self::ContextOverflow { .. }
            | Self::Cancelled
            | Self::Other { .. } => false,
        }
    }

    /// How long the service asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after_ms, .. } | Self::Unavailable { retry_after_ms, .. } => {
                retry_after_ms.map(Duration::from_millis)
            }
            _ => None,
        }
    }
}

fn speaks_of(body: &str, phrases: &[&str]) -> bool {
    let lower = body.to_lowercase();
    phrases.iter().any(|phrase| lower.contains(phrase))
}

/// The words of a body for people: those of its error object with their code, or its start as it is.
fn said(body: &str) -> String {
    let whole: Value = serde_json::from_str(body).unwrap_or_default();
    let outer = whole.get(0).unwrap_or(&whole);
    let error = outer.get("error").unwrap_or(outer);
    let words = error.as_str().or_else(|| ["message", "detail"].iter().find_map(|name| error.get(name)?.as_str()));
    let Some(words) = words.map(str::trim).filter(|words| !words.is_empty()) else { return excerpt(body) };
    let code = ["code", "status", "type"].iter().find_map(|name| error.get(name)?.as_str());
    match code.filter(|code| !code.is_empty() && !words.contains(code)) {
        Some(code) => format!("{} ({})", excerpt(words), excerpt(code)),
        None => excerpt(words),
    }
}

/// The start of a body: errors have a hard cap like everything else that can reach a person or a model.
fn excerpt(body: &str) -> String {
    const CAP: usize = 500;
    let body = body.trim();
    match body.char_indices().nth(CAP) {
        Some((end, _)) => format!("{}…", body.get(..end).unwrap_or_default()),
        None => body.to_owned(),
    }
}

/// What a connection tells the agent it works for.
#[derive(Debug)]
pub enum CallReport {
    /// Pieces of the response; at most one batch is on its way.
    Delta {
        /// The agent's id for the call.
        call: CallId,
        /// The attempt it belongs to.
        attempt: u32,
        /// In order; neighbours of one kind are merged.
        deltas: Vec<StreamDelta>,
        /// Given back when it has been taken.
        credit: Credit,
    },
    /// An attempt failed; the next one comes after a pause, once the agent has said that it knows.
    Retrying {
        /// The agent's id for the call.
        call: CallId,
        /// The number of the attempt that failed.
        attempt: u32,
        /// The failure that makes another attempt worthwhile.
        error: ProviderError,
        /// How long the pause is.
        delay_ms: u64,
    },
    /// The response is complete; nothing more of this call follows.
    Responded {
        /// The agent's id for the call.
        call: CallId,
        /// The number of the attempt that succeeded.
        attempt: u32,
        /// An assistant message, with what the call consumed.
        message: Message,
    },
    /// The call failed for good.
    Failed {
        /// The agent's id for the call.
        call: CallId,
        /// The number of the last attempt that was made.
        attempt: u32,
        /// The failure of that attempt.
        error: ProviderError,
    },
}

impl CallReport {
    /// The call it speaks of.
    pub fn call(&self) -> &CallId {
        match self {
            Self::Delta { call, .. }
            | Self::Retrying { call, .. }
            | Self::Responded { call, .. }
            | Self::Failed { call, .. } => call,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classified_by_status_first() {
        let after = Some(Duration::from_secs(2));
        assert_eq!(
            ProviderError::classify(429, "maximum context length", after),
            ProviderError::RateLimited {
                message: "HTTP 429: maximum context length".to_owned(),
                retry_after_ms: Some(2_000)
            }
        );
        assert!(matches!(ProviderError::classify(401, "", None), ProviderError::Auth { .. }));
        assert!(matches!(ProviderError::classify(400, " ", None), ProviderError::ContextOverflow { .. }));
        for phrase in OVERFLOW {
            let body = format!("{{\"error\":\"{}\"}}", phrase.to_uppercase());
            assert!(matches!(ProviderError::classify(400, &body, None), ProviderError::ContextOverflow { .. }));
        }
        assert!(matches!(ProviderError::classify(400, "bad tool", None), ProviderError::Api { .. }));
        assert!(matches!(ProviderError::classify(500, "x", None), ProviderError::Network { .. }));
        assert!(matches!(ProviderError::classify(404, "no model", None), ProviderError::Api { .. }));
    }

    #[test]
    fn only_what_may_pass_is_retried() {
        assert!(ProviderError::classify_in_stream(r#"{"type":"overloaded_error"}"#).is_retryable());
        assert!(ProviderError::classify_in_stream("UNAVAILABLE").is_retryable());
        assert!(!ProviderError::classify_in_stream("bad").is_retryable());
        assert!(ProviderError::Incomplete { message: String::new() }.is_retryable());
        assert!(!ProviderError::Cancelled.is_retryable());
    }

    #[test]
    fn a_refused_picture_is_told_from_other_refusals() {
        let of = |status, words: &str| ProviderError::classify(status, words, None);
        for words in [
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum",
            "Invalid content type. image_url is only supported by certain models.",
            "Could not process image",
        ] {
            assert!(matches!(of(400, words), ProviderError::Picture { .. }), "{words}");
        }
        assert!(matches!(of(400, "image input: too many tokens"), ProviderError::ContextOverflow { .. }));
        assert!(matches!(of(404, "no such image model"), ProviderError::Api { .. }));
        assert!(matches!(of(400, "bad tool"), ProviderError::Api { .. }));
    }

    #[test]
    fn a_long_body_is_cut_between_characters() {
        let text = ProviderError::classify(404, &"é".repeat(2_000), None).to_string();
        assert!(text.chars().count() < 600 && text.ends_with('…'));
    }

    #[test]
    fn deltas_of_one_kind_merge() {
        let mut delta = StreamDelta::Text { delta: "a".into() };
        delta.merge(StreamDelta::Text { delta: "b".into() }).unwrap();
        assert_eq!(delta, StreamDelta::Text { delta: "ab".into() });
        assert!(delta.merge(StreamDelta::Thinking { delta: "c".into() }).is_err());
    }
}
