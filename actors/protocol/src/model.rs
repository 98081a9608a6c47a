//! Which model answers, and how it is reached.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::compat::OpenAiCompat;
use crate::price::Prices;
use crate::secrets::Secret;

/// The wire protocol of a model's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiProtocol {
    /// The Messages API of Anthropic.
    AnthropicMessages,
    /// OpenAI chat completions, and everything compatible with it.
    OpenaiCompletions,
    /// The Responses API of OpenAI.
    OpenaiResponses,
    /// Azure OpenAI: Responses under Azure's addresses and keys.
    AzureOpenai,
    /// The Gemini API of Google.
    GoogleGenerativeAi,
    /// Gemini as Google Vertex offers it: other addresses, other credentials.
    GoogleVertex,
    /// The ConverseStream API of Amazon Bedrock.
    BedrockConverse,
    /// A script file or a script in code: deterministic, offline.
    Scripted,
    /// A provider that the house was given under the model's provider name.
    Custom,
}

/// How much a model should reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingLevel {
    /// Not at all, where the model lets that be said.
    #[default]
    Off,
    /// As little as it can.
    Minimal,
    /// A little: `low` where a service names its levels.
    Low,
    /// As much as most work needs: `medium` where a service names its levels.
    Medium,
    /// Much: `high` where a service names its levels.
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
    /// Its name for people, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// The service's name: `openai`, `scripted`, …
    pub provider: Arc<str>,
    /// The protocol that the service is spoken to in.
    pub api: ApiProtocol,
    /// Where the service is, meaning what its vendor's own library means: with `/v1` for OpenAI and those like it, the
    /// host's root for Anthropic, Google and Bedrock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The script of a scripted model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<PathBuf>,
    /// The key itself; `None` where the service needs none, or it was not found.
    #[serde(skip)]
    pub api_key: Option<Secret>,
    /// The environment variable that the key came from, so that it can be found again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_variable: Option<String>,
    /// Headers to send beside the protocol's own; never a key, since a journal holds them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How a service that speaks chat completions differs from OpenAI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<Arc<OpenAiCompat>>,
    /// The region of Bedrock or Vertex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The Google Cloud project that Vertex is used in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The `api-version` of Azure; without it, its `/openai/v1` addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The context window in tokens, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The most output tokens to ask for, where set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Whether it can reason, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// Which summary of its reasoning OpenAI's Responses is asked for; `None` is `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_summary: Option<ReasoningSummary>,
    /// Which pictures it takes; `None` is what is known of its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<TakenImages>,
    /// What its tokens cost, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// Which pictures a model takes, whatever is known of its service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenImages {
    /// None at all.
    None,
    /// Any: nothing is checked before it is sent.
    Any,
    /// Those of these MIME types, within the limits of its service.
    Of(Vec<String>),
}

/// A summary of a model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningSummary {
    /// The longest that the model gives.
    Auto,
    /// A short one, which not every model gives.
    Concise,
    /// A long one. OpenAI gives it only to organisations that it has verified.
    Detailed,
    /// None: the field is not sent.
    Unasked,
}

impl ModelConfig {
    /// A model of a service, and nothing more said about it.
    pub fn new(provider: impl Into<Arc<str>>, api: ApiProtocol, id: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            name: None,
            provider: provider.into(),
            api,
            base_url: None,
            script: None,
            api_key: None,
            key_variable: None,
            headers: BTreeMap::new(),
            compat: None,
            region: None,
            project: None,
            api_version: None,
            context_window: None,
            max_tokens: None,
            reasoning: None,
            reasoning_summary: None,
            images: None,
            prices: None,
        }
    }

    /// An Anthropic model; its key is found again in `ANTHROPIC_API_KEY`.
    pub fn anthropic(id: impl Into<Arc<str>>, api_key: Secret) -> Self {
        let key_variable = Some("ANTHROPIC_API_KEY".to_owned());
        Self { api_key: Some(api_key), key_variable, ..Self::new("anthropic", ApiProtocol::AnthropicMessages, id) }
    }

    /// An OpenAI chat-completions model; its key is found again in `OPENAI_API_KEY`.
    pub fn openai(id: impl Into<Arc<str>>, api_key: Secret) -> Self {
        let key_variable = Some("OPENAI_API_KEY".to_owned());
        Self { api_key: Some(api_key), key_variable, ..Self::new("openai", ApiProtocol::OpenaiCompletions, id) }
    }

    /// A model that plays a script file.
    pub fn scripted(script: impl Into<PathBuf>) -> Self {
        Self { script: Some(script.into()), ..Self::new("scripted", ApiProtocol::Scripted, "script") }
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
