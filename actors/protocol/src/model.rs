//! Which model answers, and how it is reached.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// The wire protocol of a model's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiProtocol {
    /// OpenAI chat completions, and everything compatible with it.
    OpenaiCompletions,
    /// A script file or a script in code: deterministic, offline.
    Scripted,
}

/// How much a model should reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingLevel {
    /// Not at all.
    #[default]
    Off,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

impl ThinkingLevel {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A model and the service that runs it. The key is never serialised: a journal does not hold it, and whoever
/// resumes finds it again in the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// The model's id as the service knows it.
    pub id: Arc<str>,
    /// The service's name: `openai`, `scripted`, …
    pub provider: Arc<str>,
    /// The wire protocol.
    pub api: ApiProtocol,
    /// Where the service is; for OpenAI it includes `/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The script of a scripted model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<PathBuf>,
    /// The key.
    #[serde(skip)]
    pub api_key: Option<Secret>,
    /// The environment variable that the key came from, so that it can be found again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_variable: Option<String>,
    /// The context window in tokens, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The most output tokens to ask for, where set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

impl ModelConfig {
    /// An OpenAI chat-completions model.
    pub fn openai(id: impl Into<Arc<str>>, api_key: Secret) -> Self {
        Self {
            id: id.into(),
            provider: "openai".into(),
            api: ApiProtocol::OpenaiCompletions,
            base_url: None,
            script: None,
            api_key: Some(api_key),
            key_variable: Some("OPENAI_API_KEY".into()),
            context_window: None,
            max_tokens: None,
        }
    }

    /// A model that plays a script file.
    pub fn scripted(script: impl Into<PathBuf>) -> Self {
        Self {
            id: "script".into(),
            provider: "scripted".into(),
            api: ApiProtocol::Scripted,
            base_url: None,
            script: Some(script.into()),
            api_key: None,
            key_variable: None,
            context_window: None,
            max_tokens: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_no_debug_output_and_no_json() {
        let model = ModelConfig::openai("gpt", Secret::new("sk-canary"));
        assert!(!format!("{model:?} {model:#?}").contains("canary"));
        assert!(!serde_json::to_string(&model).unwrap().contains("canary"));
        assert!(!format!("{}", Secret::new("sk-canary")).contains("canary"));
    }
}
