//! The table of keys.

use super::codecs;
use super::confinement;
use super::keys::{Bound, Key, Rule, key};
use super::narrow::{fewer, lower, more, same_providers, stricter};

/// A key that no project may set: its name, its field, what it takes, and what holds without a value.
macro_rules! users {
    ($name:literal, $($field:ident).+, $codec:expr, $unset:literal) => {
        Key {
            name: $name,
            unset: $unset,
            ..key(&Bound {
                of: |config| &config.$($field).+,
                of_mut: |config| &mut config.$($field).+,
                codec: $codec,
                project: Rule::MayNot,
            })
        }
    };
}

/// The table.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "model",
        unset: "a run needs one",
        flags: &["--model", "--script"],
        ..key(&Bound {
            of: |config| &config.model,
            of_mut: |config| &mut config.model,
            codec: codecs::MODELS,
            project: Rule::Narrows("only services' models, of the user's providers", |now, wanted| {
                same_providers(now, wanted)
            }),
        })
    },
    Key {
        flags: &["--base-url"],
        ..users!("base_url", base_url, codecs::BASE_URL, "where the section of the model's service says, or its own")
    },
    Key {
        name: "system",
        flags: &["--system"],
        ..key(&Bound {
            of: |config| &config.system,
            of_mut: |config| &mut config.system,
            codec: codecs::TEXT,
            project: Rule::May,
        })
    },
    Key {
        name: "tools",
        flags: &["--tools"],
        ..key(&Bound {
            of: |config| &config.tools,
            of_mut: |config| &mut config.tools,
            codec: codecs::TOOL_NAMES,
            project: Rule::Narrows("only to take tools away", |now, wanted| fewer(now, wanted)),
        })
    },
    Key {
        name: "permission",
        flags: &["--permission"],
        ..key(&Bound {
            of: |config| &config.permission,
            of_mut: |config| &mut config.permission,
            codec: codecs::PERMISSION,
            project: Rule::Narrows("only a stricter one", stricter),
        })
    },
    Key {
        name: "sandbox",
        flags: &["--sandbox"],
        ..key(&Bound {
            of: |config| &config.sandbox,
            of_mut: |config| &mut config.sandbox,
            codec: confinement::SANDBOX,
            project: Rule::Narrows("only a stricter one", confinement::stricter),
        })
    },
    users!("sandbox_read", confinement.read, confinement::FOLDERS, ""),
    users!("sandbox_write", confinement.write, confinement::FOLDERS, ""),
    Key {
        name: "sandbox_network",
        ..key(&Bound {
            of: |config| &config.confinement.network,
            of_mut: |config| &mut config.confinement.network,
            codec: confinement::NETWORK,
            project: Rule::Narrows("only `denied`", confinement::less_network),
        })
    },
    Key {
        name: "sandbox_processes",
        ..key(&Bound {
            of: |config| &config.confinement.processes,
            of_mut: |config| &mut config.confinement.processes,
            codec: codecs::TIMES,
            project: Rule::Narrows("only to lower it", confinement::lower),
        })
    },
    Key {
        name: "sandbox_memory_mb",
        ..key(&Bound {
            of: |config| &config.confinement.memory_mb,
            of_mut: |config| &mut config.confinement.memory_mb,
            codec: codecs::TIMES,
            project: Rule::Narrows("only to lower it", confinement::lower),
        })
    },
    Key {
        name: "sandbox_file_mb",
        ..key(&Bound {
            of: |config| &config.confinement.file_mb,
            of_mut: |config| &mut config.confinement.file_mb,
            codec: codecs::TIMES,
            project: Rule::Narrows("only to lower it", confinement::lower),
        })
    },
    users!("tool_env", confinement.environment, confinement::NAMES, ""),
    Key { flags: &["--durability"], ..users!("durability", durability, codecs::DURABILITY, "") },
    Key {
        variable: Some("PLAYHOUSE_HOME"),
        flags: &["--data-dir"],
        ..users!("data_dir", data_dir, codecs::FOLDER, "the platform's data directory")
    },
    Key {
        name: "thinking",
        flags: &["--thinking"],
        ..key(&Bound {
            of: |config| &config.thinking,
            of_mut: |config| &mut config.thinking,
            codec: codecs::THINKING,
            project: Rule::May,
        })
    },
    Key {
        name: "max_tokens",
        unset: "the model's own",
        flags: &["--max-tokens"],
        ..key(&Bound {
            of: |config| &config.max_tokens,
            of_mut: |config| &mut config.max_tokens,
            codec: codecs::TOKENS,
            project: Rule::May,
        })
    },
    Key {
        name: "temperature",
        unset: "the model's own",
        flags: &["--temperature"],
        ..key(&Bound {
            of: |config| &config.temperature,
            of_mut: |config| &mut config.temperature,
            codec: codecs::TEMPERATURE,
            project: Rule::May,
        })
    },
    Key {
        name: "tool_execution",
        ..key(&Bound {
            of: |config| &config.tool_execution,
            of_mut: |config| &mut config.tool_execution,
            codec: codecs::TOOL_EXECUTION,
            project: Rule::May,
        })
    },
    users!("cache", cache, codecs::CACHE, ""),
    users!("permissions.allow", permissions.allow, codecs::RULES, ""),
    Key {
        name: "permissions.ask",
        ..key(&Bound {
            of: |config| &config.permissions.ask,
            of_mut: |config| &mut config.permissions.ask,
            codec: codecs::RULES,
            project: Rule::Narrows("only to add rules", |now, wanted| more(now, wanted)),
        })
    },
    Key {
        name: "permissions.forbid",
        ..key(&Bound {
            of: |config| &config.permissions.forbid,
            of_mut: |config| &mut config.permissions.forbid,
            codec: codecs::RULES,
            project: Rule::Narrows("only to add rules", |now, wanted| more(now, wanted)),
        })
    },
    users!("openai.base_url", openai.base_url, codecs::BASE_URL, "`$OPENAI_BASE_URL`, or OpenAI's own"),
    users!("anthropic.base_url", anthropic.base_url, codecs::BASE_URL, "`$ANTHROPIC_BASE_URL`, or Anthropic's own"),
    users!(
        "azure.base_url",
        azure.base_url,
        codecs::BASE_URL,
        "`$AZURE_OPENAI_BASE_URL` or `$AZURE_OPENAI_ENDPOINT`; it needs one"
    ),
    users!("azure.api_version", azure.api_version, codecs::NAME, "the addresses without a version"),
    users!("google.base_url", google.base_url, codecs::BASE_URL, "`$GOOGLE_GEMINI_BASE_URL`, or Google's own"),
    users!("vertex.base_url", vertex.base_url, codecs::BASE_URL, "`$GOOGLE_VERTEX_BASE_URL`, or that of the region"),
    users!("vertex.project", vertex.project, codecs::NAME, "what the environment and the credentials say"),
    users!("vertex.region", vertex.region, codecs::NAME, "what the environment says"),
    users!(
        "bedrock.base_url",
        bedrock.base_url,
        codecs::BASE_URL,
        "`$AWS_ENDPOINT_URL_BEDROCK_RUNTIME`, or that of the region"
    ),
    users!("bedrock.region", bedrock.region, codecs::NAME, "what the environment and the profile say"),
    users!("ollama.base_url", ollama.base_url, codecs::BASE_URL, "`$OLLAMA_HOST`, or this machine"),
    users!("connection.concurrency", connection.concurrency, codecs::TURN_LIMIT, ""),
    users!("connection.requests_per_minute", connection.requests_per_minute, codecs::TURN_LIMIT, ""),
    users!("connection.tokens_per_minute", connection.tokens_per_minute, codecs::TOKEN_LIMIT, ""),
    users!("connection.breaker_failures", connection.breaker_failures, codecs::TIMES, ""),
    users!("connection.breaker_pause_ms", connection.breaker_pause_ms, codecs::WAIT_MS, ""),
    users!("connection.connect_ms", connection.connect_ms, codecs::WAIT_MS, ""),
    users!("connection.first_event_ms", connection.first_event_ms, codecs::WAIT_MS, ""),
    users!("connection.idle_ms", connection.idle_ms, codecs::WAIT_MS, ""),
    users!("connection.total_ms", connection.total_ms, codecs::WAIT_LIMIT_MS, ""),
    Key {
        name: "limits.max_turns",
        flags: &["--max-turns"],
        ..key(&Bound {
            of: |config| &config.limits.max_turns,
            of_mut: |config| &mut config.limits.max_turns,
            codec: codecs::TURN_LIMIT,
            project: Rule::Narrows("only to lower it", lower),
        })
    },
    Key {
        name: "limits.max_total_tokens",
        flags: &["--max-total-tokens"],
        ..key(&Bound {
            of: |config| &config.limits.max_total_tokens,
            of_mut: |config| &mut config.limits.max_total_tokens,
            codec: codecs::TOKEN_LIMIT,
            project: Rule::Narrows("only to lower it", lower),
        })
    },
    Key {
        name: "limits.max_duration",
        flags: &["--max-duration"],
        ..key(&Bound {
            of: |config| &config.limits.max_duration,
            of_mut: |config| &mut config.limits.max_duration,
            codec: codecs::TIME_LIMIT,
            project: Rule::Narrows("only to lower it", lower),
        })
    },
    users!("retry.max_retries", retry.max_retries, codecs::COUNT, ""),
    users!("retry.initial_delay_ms", retry.initial_delay_ms, codecs::DELAY_MS, ""),
    users!("retry.backoff_multiplier", retry.backoff_multiplier, codecs::GROWTH, ""),
    users!("retry.max_delay_ms", retry.max_delay_ms, codecs::DELAY_MS, ""),
];
