//! The services that are known by name: where each is, what key it takes, how it differs.
//!
//! `PROVIDER/ID` names a model of one of them. The environment is passed in.

use std::path::PathBuf;
use std::sync::Arc;

use crate::compat::{
    AfterToolResults, CallArguments, CallIds, EffortField, MaxTokensField, OpenAiCompat, ReasoningField,
    ReplayReasoning, Store, Structured, SystemRole, ToolNames, ToolSupport, UsageInStream,
};
use crate::{ApiProtocol, ModelConfig, catalogue};

/// What a service asks for before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A key, in one of these variables; the first that is set counts.
    Key(&'static [&'static str]),
    /// A key if there is one, in one of these variables.
    MaybeKey(&'static [&'static str]),
    /// A key in one of these variables, or what the vendor's other tools are signed in with.
    KeyOrLogin(&'static [&'static str], &'static str),
}

/// A service that is known by name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name in `PROVIDER/ID`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The protocol that its requests and answers are in.
    pub api: ApiProtocol,
    /// Where it is; `None` where that depends on the account.
    pub base_url: Option<&'static str>,
    /// The variables that say where it is.
    pub base_url_variables: &'static [&'static str],
    /// What it asks for.
    pub access: Access,
    /// How it differs from OpenAI, if it speaks chat completions.
    pub compat: Option<OpenAiCompat>,
    /// One of its models.
    pub example: &'static str,
}

/// What chat completions are at OpenAI itself; the others are told by how they differ.
const OPENAI: OpenAiCompat = OpenAiCompat {
    max_tokens_field: MaxTokensField::MaxCompletionTokens,
    system_role: SystemRole::System,
    reasoning_field: ReasoningField::ReasoningContent,
    reasoning_effort: EffortField::ReasoningEffort,
    usage: UsageInStream::Asked,
    store: Store::Unsaid,
    after_tool_results: AfterToolResults::Nothing,
    replay_reasoning: ReplayReasoning::Never,
    tool_names: ToolNames::AsTheyCome,
    structured: Structured::JsonSchema,
    tools: ToolSupport::Taken,
    call_ids: CallIds::Any,
    call_arguments: CallArguments::AsWritten,
};

/// Most others: the older name of the output limit, no word about effort, which many refuse, and nothing sent back that
/// is no JSON, over which many stumble.
const PLAIN: OpenAiCompat = OpenAiCompat {
    max_tokens_field: MaxTokensField::MaxTokens,
    reasoning_effort: EffortField::None,
    call_arguments: CallArguments::AlwaysObject,
    ..OPENAI
};

/// What runs open models on this machine.
const LOCAL: OpenAiCompat = OpenAiCompat { tool_names: ToolNames::CutAtMark, ..PLAIN };

const fn chat(name: &'static str, title: &'static str, base_url: &'static str) -> Preset {
    Preset {
        name,
        title,
        api: ApiProtocol::OpenaiCompletions,
        base_url: Some(base_url),
        base_url_variables: &[],
        access: Access::MaybeKey(&[]),
        compat: Some(PLAIN),
        example: "",
    }
}

/// Every service that is known by name.
pub const PRESETS: &[Preset] = &[
    Preset {
        api: ApiProtocol::AnthropicMessages,
        base_url_variables: &["ANTHROPIC_BASE_URL"],
        access: Access::Key(&["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]),
        compat: None,
        example: "claude-sonnet-4-5",
        ..chat("anthropic", "Anthropic", "https://api.anthropic.com")
    },
    Preset {
        base_url_variables: &["OPENAI_BASE_URL"],
        access: Access::Key(&["OPENAI_API_KEY"]),
        compat: Some(OpenAiCompat {
            system_role: SystemRole::Developer,
            usage: UsageInStream::AskedUnpadded,
            store: Store::No,
            ..OPENAI
        }),
        example: "gpt-5",
        ..chat("openai", "OpenAI chat completions", "https://api.openai.com/v1")
    },
    Preset {
        api: ApiProtocol::OpenaiResponses,
        base_url_variables: &["OPENAI_BASE_URL"],
        access: Access::Key(&["OPENAI_API_KEY"]),
        compat: None,
        example: "gpt-5",
        ..chat("openai-responses", "OpenAI Responses", "https://api.openai.com/v1")
    },
    Preset {
        api: ApiProtocol::AzureOpenai,
        base_url: None,
        base_url_variables: &["AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"],
        access: Access::Key(&["AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"]),
        compat: None,
        example: "DEPLOYMENT",
        ..chat("azure", "Azure OpenAI", "")
    },
    Preset {
        api: ApiProtocol::GoogleGenerativeAi,
        base_url_variables: &["GOOGLE_GEMINI_BASE_URL"],
        access: Access::Key(&["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
        compat: None,
        example: "gemini-2.5-flash",
        ..chat("google", "Google Gemini", "https://generativelanguage.googleapis.com")
    },
    Preset {
        api: ApiProtocol::GoogleVertex,
        base_url: None,
        base_url_variables: &["GOOGLE_VERTEX_BASE_URL"],
        access: Access::KeyOrLogin(&["GOOGLE_OAUTH_ACCESS_TOKEN"], "application default credentials"),
        compat: None,
        example: "gemini-2.5-flash",
        ..chat("vertex", "Google Vertex", "")
    },
    Preset {
        api: ApiProtocol::BedrockConverse,
        base_url: None,
        base_url_variables: &["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"],
        access: Access::KeyOrLogin(&["AWS_BEARER_TOKEN_BEDROCK"], "AWS credentials"),
        compat: None,
        example: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ..chat("bedrock", "Amazon Bedrock", "")
    },
    Preset {
        access: Access::Key(&["XAI_API_KEY"]),
        compat: Some(PLAIN),
        example: "grok-4",
        ..chat("xai", "xAI", "https://api.x.ai/v1")
    },
    Preset {
        access: Access::Key(&["GROQ_API_KEY"]),
        compat: Some(OpenAiCompat {
            usage: UsageInStream::NotAsked,
            reasoning_field: ReasoningField::Reasoning,
            structured: Structured::ForcedTool,
            tool_names: ToolNames::CutAtMark,
            ..OPENAI
        }),
        example: "llama-3.3-70b-versatile",
        ..chat("groq", "Groq", "https://api.groq.com/openai/v1")
    },
    Preset {
        access: Access::Key(&["CEREBRAS_API_KEY"]),
        compat: Some(OpenAiCompat {
            reasoning_field: ReasoningField::Reasoning,
            structured: Structured::ForcedTool,
            tool_names: ToolNames::CutAtMark,
            ..OPENAI
        }),
        example: "gpt-oss-120b",
        ..chat("cerebras", "Cerebras", "https://api.cerebras.ai/v1")
    },
    Preset {
        access: Access::Key(&["MISTRAL_API_KEY"]),
        compat: Some(OpenAiCompat {
            usage: UsageInStream::NotAsked,
            after_tool_results: AfterToolResults::ShortAssistant,
            call_ids: CallIds::NineAlphanumeric,
            ..PLAIN
        }),
        example: "mistral-large-latest",
        ..chat("mistral", "Mistral", "https://api.mistral.ai/v1")
    },
    Preset {
        access: Access::Key(&["DEEPSEEK_API_KEY"]),
        compat: Some(OpenAiCompat {
            replay_reasoning: ReplayReasoning::WithTools,
            structured: Structured::ForcedTool,
            ..PLAIN
        }),
        example: "deepseek-chat",
        ..chat("deepseek", "DeepSeek", "https://api.deepseek.com/v1")
    },
    Preset {
        access: Access::Key(&["OPENROUTER_API_KEY"]),
        compat: Some(OpenAiCompat {
            reasoning_field: ReasoningField::ReasoningDetails,
            reasoning_effort: EffortField::Reasoning,
            replay_reasoning: ReplayReasoning::Always,
            ..PLAIN
        }),
        example: "anthropic/claude-sonnet-4.5",
        ..chat("openrouter", "OpenRouter", "https://openrouter.ai/api/v1")
    },
    Preset {
        access: Access::Key(&["TOGETHER_API_KEY"]),
        compat: Some(OpenAiCompat {
            reasoning_field: ReasoningField::Reasoning,
            usage: UsageInStream::NotAsked,
            ..PLAIN
        }),
        example: "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        ..chat("together", "Together", "https://api.together.xyz/v1")
    },
    Preset {
        access: Access::Key(&["FIREWORKS_API_KEY"]),
        example: "accounts/fireworks/models/deepseek-v3p1",
        ..chat("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1")
    },
    Preset {
        access: Access::Key(&["PERPLEXITY_API_KEY"]),
        compat: Some(OpenAiCompat { tools: ToolSupport::NotTaken, usage: UsageInStream::NotAsked, ..PLAIN }),
        example: "sonar-pro",
        ..chat("perplexity", "Perplexity", "https://api.perplexity.ai")
    },
    Preset {
        access: Access::Key(&["DASHSCOPE_API_KEY"]),
        compat: Some(OpenAiCompat { structured: Structured::ForcedTool, ..PLAIN }),
        example: "qwen-max",
        ..chat("qwen", "Qwen (DashScope)", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1")
    },
    Preset {
        access: Access::Key(&["MOONSHOT_API_KEY"]),
        compat: Some(OpenAiCompat { replay_reasoning: ReplayReasoning::WithTools, ..PLAIN }),
        example: "kimi-k2-0905-preview",
        ..chat("moonshot", "Moonshot", "https://api.moonshot.ai/v1")
    },
    Preset {
        access: Access::Key(&["ZAI_API_KEY"]),
        compat: Some(OpenAiCompat { structured: Structured::ForcedTool, ..PLAIN }),
        example: "glm-4.6",
        ..chat("zai", "Z.ai", "https://api.z.ai/api/paas/v4")
    },
    Preset {
        access: Access::Key(&["MINIMAX_API_KEY"]),
        compat: Some(OpenAiCompat {
            reasoning_field: ReasoningField::ReasoningDetails,
            replay_reasoning: ReplayReasoning::Always,
            ..PLAIN
        }),
        example: "MiniMax-M2",
        ..chat("minimax", "MiniMax", "https://api.minimax.io/v1")
    },
    Preset {
        access: Access::Key(&["LLAMA_API_KEY"]),
        compat: Some(OpenAiCompat { reasoning_effort: EffortField::None, ..OPENAI }),
        example: "Llama-4-Maverick-17B-128E-Instruct-FP8",
        ..chat("meta", "Meta Llama API", "https://api.llama.com/compat/v1")
    },
    Preset {
        access: Access::Key(&["NVIDIA_API_KEY"]),
        compat: Some(LOCAL),
        example: "meta/llama-3.3-70b-instruct",
        ..chat("nvidia", "Nvidia NIM", "https://integrate.api.nvidia.com/v1")
    },
    Preset {
        access: Access::Key(&["HF_TOKEN"]),
        example: "openai/gpt-oss-120b",
        ..chat("huggingface", "Hugging Face router", "https://router.huggingface.co/v1")
    },
    Preset {
        base_url_variables: &["OLLAMA_HOST"],
        access: Access::MaybeKey(&["OLLAMA_API_KEY"]),
        compat: Some(OpenAiCompat {
            reasoning_field: ReasoningField::Reasoning,
            reasoning_effort: EffortField::ReasoningEffort,
            after_tool_results: AfterToolResults::EmptyAssistant,
            ..LOCAL
        }),
        example: "qwen3",
        ..chat("ollama", "Ollama", "http://localhost:11434/v1")
    },
    Preset { compat: Some(LOCAL), example: "MODEL", ..chat("lmstudio", "LM Studio", "http://localhost:1234/v1") },
    Preset { compat: Some(LOCAL), example: "MODEL", ..chat("llamacpp", "llama.cpp", "http://localhost:8080/v1") },
    Preset {
        access: Access::MaybeKey(&["VLLM_API_KEY"]),
        compat: Some(LOCAL),
        example: "MODEL",
        ..chat("vllm", "vLLM", "http://localhost:8000/v1")
    },
];

/// The service of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// The model that is asked when only the provider is known; `None` where that is the user's to know.
    pub fn default_model(&self) -> Option<&'static str> {
        // What is written in capitals stands for a name.
        Some(self.example).filter(|example| example.chars().any(|c| c.is_ascii_lowercase()))
    }

    /// The variables that may hold its key.
    pub fn key_variables(&self) -> &'static [&'static str] {
        match self.access {
            Access::Key(names) | Access::MaybeKey(names) | Access::KeyOrLogin(names, _) => names,
        }
    }

    /// The model of this id, with what the environment and the catalogue say about it; its key is not read, only where
    /// it is.
    pub fn model(&self, id: &str, variable: impl Fn(&str) -> Option<String>) -> ModelConfig {
        let limits = catalogue::find(self.name, id);
        ModelConfig {
            base_url: self.place(&variable).or(self.base_url.map(str::to_owned)),
            key_variable: self.key_variable(&variable).map(str::to_owned),
            compat: self.compat.map(Arc::new),
            context_window: limits.map(|known| known.context_window),
            reasoning: limits.map(|known| known.reasoning),
            prices: limits.and_then(|known| known.prices),
            ..ModelConfig::new(self.name, self.api, id)
        }
    }

    /// The variable that holds the key: the first that is set, else the first; `None` where it is no matter of one.
    pub(crate) fn key_variable(&self, variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
        let set = |names: &'static [&'static str]| names.iter().copied().find(|name| variable(name).is_some());
        match self.access {
            Access::Key(names) => set(names).or(names.first().copied()),
            Access::MaybeKey(names) | Access::KeyOrLogin(names, _) => set(names),
        }
    }

    /// Where the environment says it is.
    pub fn place(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let set = self.base_url_variables.iter().find_map(|name| variable(name).map(|value| (*name, value)));
        let (name, value) = set.filter(|(_, value)| !value.trim().is_empty())?;
        Some(if name == "OLLAMA_HOST" { ollama_place(value.trim()) } else { value.trim().to_owned() })
    }
}

/// `OLLAMA_HOST` as Ollama itself reads it: scheme and port may be missing, and the address it listens on may be all
/// of the machine's.
fn ollama_place(host: &str) -> String {
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let bare = authority.rsplit(']').next().unwrap_or(authority);
    let authority = match (bare.contains(':'), scheme) {
        (true, _) => authority.to_owned(),
        (false, "https") => format!("{authority}:443"),
        (false, _) => format!("{authority}:11434"),
    };
    let authority = match authority.strip_prefix("0.0.0.0:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => authority,
    };
    match path.trim_matches('/') {
        "" => format!("{scheme}://{authority}/v1"),
        path if path.ends_with("v1") => format!("{scheme}://{authority}/{path}"),
        path => format!("{scheme}://{authority}/{path}/v1"),
    }
}

/// The model that `PROVIDER/ID` or `scripted/FILE` names; `None` for a provider that is not known.
pub fn model_named(provider: &str, id: &str, variable: impl Fn(&str) -> Option<String>) -> Option<ModelConfig> {
    match provider {
        "scripted" => Some(ModelConfig::scripted(PathBuf::from(id))),
        name => preset(name).map(|preset| preset.model(id, variable)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_a_key_and_a_service_are() {
        let env = |name: &str| match name {
            "GOOGLE_API_KEY" => Some("k".to_owned()),
            "ANTHROPIC_BASE_URL" => Some(" http://127.0.0.1:9 ".to_owned()),
            _ => None,
        };
        assert_eq!(model_named("google", "g", env).unwrap().key_variable.as_deref(), Some("GOOGLE_API_KEY"));
        assert_eq!(model_named("google", "g", |_| None).unwrap().key_variable.as_deref(), Some("GEMINI_API_KEY"));
        assert_eq!(model_named("bedrock", "b", env).unwrap().key_variable, None);
        let claude = model_named("anthropic", "claude-sonnet-4-5", env).unwrap();
        assert_eq!(claude.base_url.as_deref(), Some("http://127.0.0.1:9"));
        assert_eq!((claude.context_window, claude.prices.is_some()), (Some(200_000), true));
        assert_eq!(claude.reasoning, Some(true));
        assert_eq!(model_named("nobody", "x", env), None);
        assert_eq!(model_named("scripted", "a/b.json", env), Some(ModelConfig::scripted("a/b.json")));
    }

    #[test]
    fn ollamas_host_is_read_as_ollama_reads_it() {
        for (host, place) in [
            ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("box", "http://box:11434/v1"),
            ("http://box:1", "http://box:1/v1"),
            ("https://box", "https://box:443/v1"),
            ("https://box/ollama/", "https://box:443/ollama/v1"),
            ("http://box:1/v1", "http://box:1/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
        ] {
            assert_eq!(ollama_place(host), place, "{host}");
        }
    }
}
