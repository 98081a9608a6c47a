//! How much a model is asked to reason: what each family of models knows, in one table; pure.
//!
//! A level that a model does not know is refused before anything is sent, with the levels that it knows. `off` is never
//! refused: it is also what holds when nobody asked for anything. Where reasoning can be turned off, it is; elsewhere
//! [`still_reasons`] has the words for whoever asked for it.
//! How Anthropic's, Google's and Amazon's own protocols say it stands with them. docs/providers.md says what of this stands
//! in the vendors' pages and libraries, and what is only remembered.

use playhouse_protocol::compat::EffortField;
use playhouse_protocol::{ApiProtocol, ModelConfig, ProviderError, StreamConfig, ThinkingLevel};

/// What is put into a request of OpenAI's protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The request says nothing of it.
    Nothing,
    /// A word of effort.
    Effort(&'static str),
    /// `thinking: {"type": "enabled"}` or `"disabled"`.
    Thinking(Switch),
    /// `enable_thinking`, with a budget of tokens when it is on.
    EnableThinking(Option<u32>),
    /// `prompt_mode: "reasoning"`.
    PromptMode,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
}

/// What a family of models takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reasons {
    /// A word of effort for each level, from `off` on; `None` where the model knows none.
    ByEffort([Option<&'static str>; 5]),
    /// `thinking`, on or off.
    BySwitch,
    /// `enable_thinking`.
    ByBudget,
    /// `prompt_mode`.
    ByPromptMode,
    /// Always, as much as it sees fit: it takes no level.
    Always,
    /// Not at all.
    Never,
}

const LOW_TO_HIGH: [Option<&str>; 5] = [None, None, Some("low"), Some("medium"), Some("high")];
const MINIMAL_TO_HIGH: [Option<&str>; 5] = [None, Some("minimal"), Some("low"), Some("medium"), Some("high")];
const NONE_TO_HIGH: [Option<&str>; 5] = [Some("none"), None, Some("low"), Some("medium"), Some("high")];

/// OpenAI's models at OpenAI and at Azure, where a deployment often has the name of its model.
const OPENAI: &[&str] = &["openai", "openai-responses", "azure"];

/// Services, how the ids of their models begin after any slash (all of them for `""`), and what these take. The first
/// row that fits counts. A service that is not here takes what its flags say.
const FAMILIES: &[(&[&str], &[&str], Reasons)] = &[
    (
        OPENAI,
        &["gpt-5-chat", "gpt-5.1-chat", "gpt-5.2-chat", "gpt-5.3-chat", "gpt-4", "gpt-3.5", "chatgpt-"],
        Reasons::Never,
    ),
    (OPENAI, &["gpt-5-pro"], Reasons::ByEffort([None, None, None, None, Some("high")])),
    (OPENAI, &["gpt-5-codex", "gpt-5.1-codex", "gpt-5.2-codex", "gpt-5.3-codex"], Reasons::ByEffort(LOW_TO_HIGH)),
    (OPENAI, &["gpt-5.2-pro", "gpt-5.4-pro", "gpt-5.5-pro"], Reasons::ByEffort(LOW_TO_HIGH)),
    (OPENAI, &["gpt-5.", "gpt-6-sol"], Reasons::ByEffort(NONE_TO_HIGH)),
    (OPENAI, &["gpt-6"], Reasons::ByEffort(LOW_TO_HIGH)),
    (OPENAI, &["gpt-5"], Reasons::ByEffort(MINIMAL_TO_HIGH)),
    (OPENAI, &["o1-mini", "o1-preview"], Reasons::Always),
    (OPENAI, &["o1", "o3", "o4"], Reasons::ByEffort(LOW_TO_HIGH)),
    (&["groq"], &["gpt-oss"], Reasons::ByEffort(LOW_TO_HIGH)),
    (&["groq"], &["qwen3.8"], Reasons::ByEffort(NONE_TO_HIGH)),
    (&["groq"], &["qwen3"], Reasons::ByEffort([Some("none"), None, Some("default"), Some("default"), Some("default")])),
    (&["groq"], &["deepseek-r1"], Reasons::Always),
    (&["groq"], &[""], Reasons::Never),
    (&["cerebras"], &["gpt-oss"], Reasons::ByEffort(LOW_TO_HIGH)),
    (&["cerebras"], &["zai-glm"], Reasons::ByEffort(NONE_TO_HIGH)),
    (&["cerebras"], &["qwen-3-235b-a22b-thinking"], Reasons::Always),
    (&["cerebras"], &[""], Reasons::Never),
    (&["ollama"], &[""], Reasons::ByEffort(NONE_TO_HIGH)),
    (&["xai"], &["grok-3-mini"], Reasons::ByEffort([None, None, Some("low"), None, Some("high")])),
    (
        &["xai"],
        &[
            "grok-3",
            "grok-2",
            "grok-4-fast-non-reasoning",
            "grok-4-1-fast-non-reasoning",
            "grok-4.20-non-reasoning",
            "grok-4.20-0309-non-reasoning",
        ],
        Reasons::Never,
    ),
    (&["xai"], &["grok-4.3"], Reasons::ByEffort(NONE_TO_HIGH)),
    (&["xai"], &["grok-4.5"], Reasons::ByEffort(LOW_TO_HIGH)),
    (&["xai"], &[""], Reasons::Always),
    (&["deepseek"], &["deepseek-reasoner"], Reasons::Always),
    (&["deepseek"], &[""], Reasons::BySwitch),
    (&["mistral"], &["magistral"], Reasons::ByPromptMode),
    (
        &["mistral"],
        &["mistral-small-latest", "mistral-small-2603", "mistral-medium-3-5", "mistral-medium-3.5"],
        Reasons::ByEffort([Some("none"), None, None, None, Some("high")]),
    ),
    (&["mistral"], &["mistral-large-4"], Reasons::ByEffort(LOW_TO_HIGH)),
    (&["mistral"], &[""], Reasons::Never),
    (&["zai"], &["glm-4.5", "glm-4.6", "glm-4.7", "glm-5"], Reasons::BySwitch),
    (&["zai"], &[""], Reasons::Never),
    (
        &["qwen"],
        &["qwq", "qwen3-235b-a22b-thinking", "qwen3-30b-a3b-thinking", "qwen3-next-80b-a3b-thinking"],
        Reasons::Always,
    ),
    (
        &["qwen"],
        &["qwen3-coder", "qwen3-235b-a22b-instruct", "qwen3-30b-a3b-instruct", "qwen3-next-80b-a3b-instruct"],
        Reasons::Never,
    ),
    (&["qwen"], &["qwen3", "qwen-plus", "qwen-turbo", "qwen-flash"], Reasons::ByBudget),
    (&["qwen"], &[""], Reasons::Never),
    (&["moonshot"], &["kimi-k2.5", "kimi-k2.6"], Reasons::BySwitch),
    (&["moonshot"], &["kimi-k2-thinking", "kimi-thinking"], Reasons::Always),
    (&["moonshot"], &[""], Reasons::Never),
    (&["minimax"], &[""], Reasons::Always),
    (&["together", "fireworks", "huggingface"], &["gpt-oss"], Reasons::ByEffort(LOW_TO_HIGH)),
    (&["perplexity"], &["sonar-deep-research"], Reasons::ByEffort(MINIMAL_TO_HIGH)),
    (&["perplexity"], &["sonar-reasoning"], Reasons::Always),
    (&["perplexity"], &[""], Reasons::Never),
];

fn reasons(model: &ModelConfig) -> Option<Reasons> {
    let id = model.id.to_ascii_lowercase();
    let name = id.rsplit('/').next().unwrap_or_default();
    let fits = |(services, names, _): &&(&[&str], &[&str], Reasons)| {
        services.contains(&&*model.provider) && names.iter().any(|start| name.starts_with(start))
    };
    FAMILIES.iter().find(fits).map(|(_, _, reasons)| *reasons)
}

/// What a request says for a level, in chat completions and Responses. `field` is where a service says it that is not in
/// the table.
pub(crate) fn asked(model: &ModelConfig, field: EffortField, level: ThinkingLevel) -> Result<Asked, ProviderError> {
    let Some(reasons) = reasons(model) else { return by_field(model, field, level) };
    match (reasons, level) {
        (Reasons::ByEffort(words), level) => match (words.get(index(level)).copied().flatten(), level) {
            (Some(word), _) => Ok(Asked::Effort(word)),
            (None, ThinkingLevel::Off) => Ok(Asked::Nothing),
            (None, _) => {
                let known = LEVELS.iter().zip(words).filter(|(_, word)| word.is_some());
                let known: Vec<&str> = known.map(|(level, _)| level.as_str()).collect();
                Err(refused(model, level, &format!("it knows {}", known.join(", "))))
            }
        },
        (Reasons::BySwitch, ThinkingLevel::Off) => Ok(Asked::Thinking(Switch::Off)),
        (Reasons::BySwitch, _) => Ok(Asked::Thinking(Switch::On)),
        (Reasons::ByBudget, level) => Ok(Asked::EnableThinking(budget(level))),
        (Reasons::ByPromptMode, ThinkingLevel::Off) => Ok(Asked::Nothing),
        (Reasons::ByPromptMode, _) => Ok(Asked::PromptMode),
        (Reasons::Always | Reasons::Never, ThinkingLevel::Off) => Ok(Asked::Nothing),
        (Reasons::Always, level) => {
            Err(refused(model, level, "it always reasons, as much as it sees fit, and takes no level"))
        }
        (Reasons::Never, level) => Err(refused(model, level, "it does not reason")),
    }
}

/// A service that is not in the table: every level as it is called here, if it has a field for it.
fn by_field(model: &ModelConfig, field: EffortField, level: ThinkingLevel) -> Result<Asked, ProviderError> {
    match (field, level) {
        (_, ThinkingLevel::Off) => Ok(Asked::Nothing),
        (EffortField::ReasoningEffort | EffortField::Reasoning, level) => Ok(Asked::Effort(level.as_str())),
        (EffortField::None, level) => {
            let why = format!("no setting for it is known at `{}`", model.provider);
            Err(refused(model, level, &why))
        }
    }
}

/// Refuses a level that the model does not know.
pub(crate) fn check(config: &StreamConfig) -> Result<(), ProviderError> {
    let (model, level) = (&config.model_config, config.thinking_level);
    let unless = |reasons: bool| match reasons {
        true => Ok(()),
        false => Err(refused(model, level, "it does not reason, or is not known to")),
    };
    match model.api {
        _ if level == ThinkingLevel::Off => Ok(()),
        ApiProtocol::OpenaiCompletions | ApiProtocol::OpenaiResponses | ApiProtocol::AzureOpenai => {
            let field = model.compat.as_deref().map_or(EffortField::default(), |compat| compat.reasoning_effort);
            asked(model, field, level).map(drop)
        }
        ApiProtocol::AnthropicMessages => unless(crate::anthropic::reasons(&model.id)),
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => unless(crate::gemini::reasons(&model.id)),
        ApiProtocol::BedrockConverse => unless(crate::bedrock::reasons(&model.id)),
        ApiProtocol::Scripted | ApiProtocol::Custom => Ok(()),
    }
}

/// What becomes of a model that is told not to reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Off {
    /// It does not, or never does.
    Quiet,
    /// It reasons all the same.
    Reasons,
    /// Nothing is known that would turn it off.
    NotKnown,
}

fn off(model: &ModelConfig) -> Off {
    match model.api {
        ApiProtocol::OpenaiCompletions | ApiProtocol::OpenaiResponses | ApiProtocol::AzureOpenai => {
            match reasons(model) {
                Some(Reasons::ByEffort([None, ..]) | Reasons::ByPromptMode | Reasons::Always) => Off::Reasons,
                Some(Reasons::ByEffort([Some(_), ..]) | Reasons::BySwitch | Reasons::ByBudget | Reasons::Never) => {
                    Off::Quiet
                }
                None => Off::NotKnown,
            }
        }
        ApiProtocol::AnthropicMessages => crate::anthropic::off(&model.id),
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => crate::gemini::off(&model.id),
        ApiProtocol::BedrockConverse => crate::bedrock::off(&model.id),
        ApiProtocol::Scripted | ApiProtocol::Custom => Off::Quiet,
    }
}

/// What to tell somebody who asked for no reasoning: that this model still reasons, or may. `None` where it does not.
pub fn still_reasons(model: &ModelConfig) -> Option<String> {
    let name = format!("{}/{}", model.provider, model.id);
    match off(model) {
        Off::Quiet => None,
        Off::Reasons => Some(format!("{name} still reasons: it cannot be turned off")),
        Off::NotKnown => {
            Some(format!("{name} may still reason: nothing is known that turns it off at `{}`", model.provider))
        }
    }
}

fn refused(model: &ModelConfig, level: ThinkingLevel, why: &str) -> ProviderError {
    let (id, level) = (&model.id, level.as_str());
    ProviderError::Other { message: format!("the model `{id}` does not take --thinking {level}: {why}") }
}

const LEVELS: [ThinkingLevel; 5] =
    [ThinkingLevel::Off, ThinkingLevel::Minimal, ThinkingLevel::Low, ThinkingLevel::Medium, ThinkingLevel::High];

fn index(level: ThinkingLevel) -> usize {
    LEVELS.iter().position(|known| *known == level).unwrap_or_default()
}

/// The tokens that a level of reasoning may take; `None` is no reasoning.
pub(crate) fn budget(level: ThinkingLevel) -> Option<u32> {
    match level {
        ThinkingLevel::Off => None,
        ThinkingLevel::Minimal => Some(1_024),
        ThinkingLevel::Low => Some(2_048),
        ThinkingLevel::Medium => Some(8_192),
        ThinkingLevel::High => Some(16_384),
    }
}
