//! The table of keys: one row says all there is to say of a key, beside its field in [`Config`](super::Config).

use crate::config::keys::narrow::{fewer, lower, more, same_providers, stricter};
use crate::config::keys::types;
use crate::config::keys::{Bound, Flag, Key, Rule};
use crate::config::sections::confinement;

/// A key: its name, its field and what it takes; then, where they are not the usual, what holds without a value, its
/// variable, its flags, what a project's file may do with it (nothing), and which setting of an agent it is (none).
macro_rules! key {
    ($name:literal, $($field:ident).+, $codec:expr
        $(, unset $unset:literal)? $(, variable $variable:literal)? $(, flags $flags:expr)?
        $(, project $rule:expr)? $(, sets $sets:expr)?) => {
        Key {
            name: $name,
            unset: key!(@or "" $(, $unset)?),
            variable: key!(@or None $(, Some($variable))?),
            flags: key!(@or &[] $(, $flags)?),
            bound: &Bound {
                of: |config| &config.$($field).+,
                of_mut: |config| &mut config.$($field).+,
                codec: $codec,
                project: key!(@or Rule::MayNot $(, $rule)?),
                sets: key!(@or None $(, Some($sets))?),
            },
        }
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
}

const fn flag(name: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag { name, value, help, words: &[] }
}

/// Every key, in the order in which they are shown.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    key!("model", model, types::MODELS, unset "a run needs one",
        flags &[
            flag("--model", "PROVIDER/ID",
                "The model, or several separated by commas: the later are asked when the earlier fail; `playhouse models` \
                 lists the providers"),
            flag("--script", "FILE",
                "Play a script file instead of asking a model; the same as --model scripted/FILE"),
        ],
        project Rule::Narrows("only services' models, of the user's providers", |now, wanted| same_providers(now, wanted))),
    key!("base_url", base_url, types::BASE_URL,
        unset "where the section of the model's service says, or its own",
        flags &[flag("--base-url", "URL",
            "Where the first model's service is, as its vendor's library takes it [default: what is configured, or its own]")]),
    key!("system", system, types::TEXT, unset "where and with what the agent works",
        flags &[flag("--system", "TEXT",
            "The system prompt, in place of one that says where and with what the agent works; '' is none")],
        project Rule::May),
    key!("system_file", system_file, types::FILE, unset "none",
        flags &[flag("--system-file", "FILE", "A file with the system prompt")]),
    key!("tools", tools, types::TOOL_NAMES,
        flags &[flag("--tools", "NAMES",
            "Tools by name, separated by commas, or `none`; `sub_agent` is there when it is named")],
        project Rule::Narrows("only to take tools away", |now, wanted| fewer(now, wanted)),
        sets |it, settings| settings.tools = it.value.clone()),
    key!("permission", permission, types::PERMISSION,
        flags &[Flag {
            words: &["strict", "ask", "auto-safe", "yolo"],
            ..flag("--permission", "MODE",
                "Which tools ask first (without a terminal: are denied): `strict` all, `ask` those that change something, \
                 `auto-safe` those that do more than write files here, `yolo` none")
        }],
        project Rule::Narrows("only a stricter one", stricter),
        sets |it, settings| settings.permission = it.value),
    key!("question_timeout", question_timeout, types::TIME_LIMIT,
        flags &[flag("--question-timeout", "TIME",
            "How long a question waits for an answer, as in 90s; without one the tool is denied; `none` waits")],
        project Rule::Narrows("only to lower it", lower)),
    key!("sandbox", sandbox, confinement::SANDBOX,
        flags &[Flag {
            words: &["auto", "landlock", "bwrap", "off"],
            ..flag("--sandbox", "TIER",
                "What the processes of tools are kept in; `playhouse doctor` says what works here")
        }],
        project Rule::Narrows("only a stricter one", confinement::stricter),
        sets |it, settings| settings.sandbox = it.value),
    key!("sandbox_read", confinement.read, confinement::FOLDERS),
    key!("sandbox_write", confinement.write, confinement::FOLDERS),
    // A session keeps what its project does without, wherever it is taken up; the rest is the user's to change.
    key!("sandbox_network", confinement.network, confinement::NETWORK,
        project Rule::Narrows("only `denied`", confinement::less_network),
        sets |it, settings| if let Some(network) = it.by_project() {
            settings.restrictions.sandbox.network = Some(*network);
        }),
    key!("sandbox_processes", confinement.processes, types::TIMES,
        project Rule::Narrows("only to lower it", confinement::lower),
        sets |it, settings| settings.restrictions.sandbox.processes = it.by_project().copied()),
    key!("sandbox_memory_mb", confinement.memory_mb, types::TIMES,
        project Rule::Narrows("only to lower it", confinement::lower),
        sets |it, settings| settings.restrictions.sandbox.memory = it.by_project().copied().map(confinement::bytes)),
    key!("sandbox_file_mb", confinement.file_mb, types::TIMES,
        project Rule::Narrows("only to lower it", confinement::lower),
        sets |it, settings| settings.restrictions.sandbox.file = it.by_project().copied().map(confinement::bytes)),
    key!("tool_env", confinement.environment, confinement::NAMES),
    key!("guarded", confinement.guarded, confinement::GUARDED),
    key!("durability", durability, types::DURABILITY,
        flags &[Flag {
            words: &["flush", "os", "none"],
            ..flag("--durability", "LEVEL",
                "How safe the session is: `flush` survives a power cut, `os` a crash, `none` nothing")
        }],
        sets |it, settings| settings.durability = it.value),
    key!("data_dir", data_dir, types::FOLDER, unset "the platform's data directory", variable "PLAYHOUSE_HOME",
        flags &[flag("--data-dir", "DIR", "Where sessions are kept [default: the platform's data directory]")]),
    key!("thinking", thinking, types::THINKING,
        flags &[Flag {
            words: &["off", "minimal", "low", "medium", "high"],
            ..flag("--thinking", "LEVEL", "How much the model reasons")
        }],
        project Rule::May,
        sets |it, settings| settings.thinking_level = it.value),
    key!("max_tokens", max_tokens, types::TOKENS, unset "the model's own",
        flags &[flag("--max-tokens", "N", "The most tokens of one response [default: the model's own]")],
        project Rule::May,
        sets |it, settings| settings.max_tokens = it.value),
    key!("temperature", temperature, types::TEMPERATURE, unset "the model's own",
        flags &[flag("--temperature", "NUMBER", "The sampling temperature, from 0 to 2 [default: the model's own]")],
        project Rule::May,
        sets |it, settings| settings.temperature = it.value),
    key!("tool_execution", tool_execution, types::TOOL_EXECUTION,
        project Rule::May,
        sets |it, settings| settings.tool_execution = it.value),
    key!("cache", cache, types::CACHE, sets |it, settings| settings.cache = it.value),
    key!("permissions.allow", permissions.allow, types::RULES),
    key!("permissions.ask", permissions.ask, types::RULES,
        project Rule::Narrows("only to add rules", |now, wanted| more(now, wanted)),
        sets |it, settings| settings.restrictions.ask = it.value.clone()),
    key!("permissions.forbid", permissions.forbid, types::RULES,
        project Rule::Narrows("only to add rules", |now, wanted| more(now, wanted)),
        sets |it, settings| settings.restrictions.forbid = it.value.clone()),
    key!("openai.base_url", openai.base_url, types::BASE_URL, unset "`$OPENAI_BASE_URL`, or OpenAI's own"),
    key!("anthropic.base_url", anthropic.base_url, types::BASE_URL, unset "`$ANTHROPIC_BASE_URL`, or Anthropic's own"),
    key!("azure.base_url", azure.base_url, types::BASE_URL,
        unset "`$AZURE_OPENAI_BASE_URL` or `$AZURE_OPENAI_ENDPOINT`; it needs one"),
    key!("azure.api_version", azure.api_version, types::NAME, unset "the addresses without a version"),
    key!("google.base_url", google.base_url, types::BASE_URL, unset "`$GOOGLE_GEMINI_BASE_URL`, or Google's own"),
    key!("vertex.base_url", vertex.base_url, types::BASE_URL, unset "`$GOOGLE_VERTEX_BASE_URL`, or that of the region"),
    key!("vertex.project", vertex.project, types::NAME, unset "what the environment and the credentials say"),
    key!("vertex.region", vertex.region, types::NAME, unset "what the environment says"),
    key!("bedrock.base_url", bedrock.base_url, types::BASE_URL,
        unset "`$AWS_ENDPOINT_URL_BEDROCK_RUNTIME`, or that of the region"),
    key!("bedrock.region", bedrock.region, types::NAME, unset "what the environment and the profile say"),
    key!("ollama.base_url", ollama.base_url, types::BASE_URL, unset "`$OLLAMA_HOST`, or this machine"),
    key!("connection.concurrency", connection.concurrency, types::TURN_LIMIT),
    key!("connection.requests_per_minute", connection.requests_per_minute, types::TURN_LIMIT),
    key!("connection.tokens_per_minute", connection.tokens_per_minute, types::TOKEN_LIMIT),
    key!("connection.breaker_failures", connection.breaker_failures, types::TIMES),
    key!("connection.breaker_pause_ms", connection.breaker_pause_ms, types::WAIT_MS),
    key!("connection.connect_ms", connection.connect_ms, types::WAIT_MS),
    key!("connection.first_event_ms", connection.first_event_ms, types::WAIT_MS),
    key!("connection.idle_ms", connection.idle_ms, types::WAIT_MS),
    key!("connection.total_ms", connection.total_ms, types::WAIT_LIMIT_MS),
    key!("limits.max_turns", limits.max_turns, types::TURN_LIMIT,
        flags &[flag("--max-turns", "N", "Stop after this many model calls, or `none`")],
        project Rule::Narrows("only to lower it", lower),
        sets |it, settings| settings.limits.max_turns = it.value),
    key!("limits.max_total_tokens", limits.max_total_tokens, types::TOKEN_LIMIT,
        flags &[flag("--max-total-tokens", "N", "Stop after this many tokens of all calls, or `none`")],
        project Rule::Narrows("only to lower it", lower),
        sets |it, settings| settings.limits.max_total_tokens = it.value),
    key!("limits.max_duration", limits.max_duration, types::TIME_LIMIT,
        flags &[flag("--max-duration", "TIME", "Stop after this long, as in 90s or `1h 30m`, or `none`")],
        project Rule::Narrows("only to lower it", lower),
        sets |it, settings| settings.limits.max_duration = it.value),
    key!("retry.max_retries", retry.max_retries, types::COUNT,
        sets |it, settings| settings.retry.max_retries = it.value),
    key!("retry.initial_delay_ms", retry.initial_delay_ms, types::DELAY_MS,
        sets |it, settings| settings.retry.initial_delay_ms = it.value),
    key!("retry.backoff_multiplier", retry.backoff_multiplier, types::GROWTH,
        sets |it, settings| settings.retry.backoff_multiplier = it.value),
    key!("retry.max_delay_ms", retry.max_delay_ms, types::DELAY_MS,
        sets |it, settings| settings.retry.max_delay_ms = it.value),
];
