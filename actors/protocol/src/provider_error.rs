//! Why model calls fail, and what services' own words mean.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::usage::Usage;

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
}
