//! `config show`: TOML that can be read again, and what it says of where things came from.

use serde_json::{Value, json};

use super::support::{Place, write};

#[test]
fn what_is_shown_is_toml_with_its_origins_behind() {
    let mut place = Place::new();
    place.user("model = 'openai/u'\n\n[retry]\nmax_retries = 1");
    place.project("system = \"two\\nlines\"");
    place.set("PLAYHOUSE_TEMPERATURE", "0.7");
    let (home, work) = (place.home().display().to_string(), place.work().display().to_string());
    let expected = format!(
        r#"model = "openai/u"  # user {home}/config/playhouse/config.toml:1
# base_url is not set: where the section of the model's service says, or its own
system = "two\nlines"  # project {work}/playhouse.toml:1
# system_file is not set: none
tools = ["read_file", "list_files", "search", "edit_file", "write_file", "bash"]  # default
permission = "ask"  # default
question_timeout = "none"  # default
sandbox = "auto"  # default
sandbox_read = []  # default
sandbox_write = []  # default
sandbox_network = "denied"  # default
sandbox_processes = 512  # default
sandbox_memory_mb = 4096  # default
sandbox_file_mb = 10240  # default
tool_env = []  # default
guarded = []  # default
durability = "flush"  # default
data_dir = "{home}/data/playhouse"  # default
thinking = "off"  # default
# max_tokens is not set: the model's own
temperature = 0.7  # environment PLAYHOUSE_TEMPERATURE
tool_execution = "parallel"  # default
cache = "auto"  # default

[permissions]
allow = []  # default
ask = []  # default
forbid = []  # default

[openai]
# base_url is not set: `$OPENAI_BASE_URL`, or OpenAI's own

[anthropic]
# base_url is not set: `$ANTHROPIC_BASE_URL`, or Anthropic's own

[azure]
# base_url is not set: `$AZURE_OPENAI_BASE_URL` or `$AZURE_OPENAI_ENDPOINT`; it needs one
# api_version is not set: the addresses without a version

[google]
# base_url is not set: `$GOOGLE_GEMINI_BASE_URL`, or Google's own

[vertex]
# base_url is not set: `$GOOGLE_VERTEX_BASE_URL`, or that of the region
# project is not set: what the environment and the credentials say
# region is not set: what the environment says

[bedrock]
# base_url is not set: `$AWS_ENDPOINT_URL_BEDROCK_RUNTIME`, or that of the region
# region is not set: what the environment and the profile say

[ollama]
# base_url is not set: `$OLLAMA_HOST`, or this machine

[connection]
concurrency = "none"  # default
requests_per_minute = "none"  # default
tokens_per_minute = "none"  # default
breaker_failures = 5  # default
breaker_pause_ms = 10000  # default
connect_ms = 10000  # default
first_event_ms = 120000  # default
idle_ms = 120000  # default
total_ms = "none"  # default

[limits]
max_turns = 5  # flag --max-turns
max_total_tokens = 1000000  # default
max_duration = "none"  # default

[retry]
max_retries = 1  # user {home}/config/playhouse/config.toml:4
initial_delay_ms = 1000  # default
backoff_multiplier = 2.0  # default
max_delay_ms = 30000  # default
"#
    );
    assert_eq!(place.run(&["config", "show", "--origin", "--max-turns", "5"]).said(), expected);
    let plain: String = expected.lines().map(|line| format!("{}\n", line.split("  # ").next().unwrap())).collect();
    assert_eq!(place.run(&["config", "show", "--max-turns", "5"]).said(), plain);
}

#[test]
fn what_is_shown_can_be_read_again() {
    let mut place = Place::new();
    let odd = "quotes \" and ' and \\, $ and $$ and ${HOME},\ttabs\nlines\r\n\u{1b}[31m\u{202e}é🎭";
    place.set("PLAYHOUSE_SYSTEM", odd);
    place.set("PLAYHOUSE_MODEL", "openai/${x},scripted//a,b");
    place.set("PLAYHOUSE_HOME", "/a b/$c");
    place.set("PLAYHOUSE_TOOLS", "none");
    let flags = ["--temperature", "0.3", "--max-turns", "none", "--max-duration", "90s", "--base-url", "http://a/v1"];
    let shown = place.run(&[&["config", "show", "--origin"][..], &flags].concat());
    assert!(!shown.said().contains(['\u{1b}', '\u{202e}', '\r']), "nothing controls the terminal: {shown:?}");
    let first = place.shown(&flags);
    let again = place.work().join("again.toml");
    write(&again, shown.said());
    for name in ["PLAYHOUSE_SYSTEM", "PLAYHOUSE_MODEL", "PLAYHOUSE_HOME", "PLAYHOUSE_TOOLS"] {
        place.unset(name);
    }
    place.set("PLAYHOUSE_CONFIG", again);
    let second = place.shown(&[]);
    assert_eq!(first.len(), second.len());
    for (key, row) in &first {
        assert_eq!(row["value"], second[key]["value"], "{key}");
    }
    assert_eq!(second["system"]["value"], odd);
}

#[test]
fn what_is_said_of_models_and_providers_is_shown_and_can_be_read_again() {
    let place = Place::new();
    let odd = r#"[models."openai/a \"b\" ${c}"]"#;
    place.user(format!(
        "{odd}\ninput = 1\noutput = 2.5\n[models.'groq/x']\ncontext_window = 5\nmax_tokens = 6\ninput = 0\noutput = 0\n\
         cache_read = 0.1\ncache_write = 3\n[providers.groq]\nheaders = {{ 'x.y' = 'a ${{HOME:-b}} $$', x-z = '' }}"
    ));
    let file = place.user_file().display().to_string();
    let home = place.home().display().to_string();
    let expected = format!(
        r#"
[models."groq/x"]
context_window = 5  # user {file}:5
max_tokens = 6  # user {file}:6
input = 0.0  # user {file}:7
output = 0.0  # user {file}:8
cache_read = 0.1  # user {file}:9
cache_write = 3.0  # user {file}:10

{odd}
input = 1.0  # user {file}:2
output = 2.5  # user {file}:3

[providers.groq.headers]
x-z = ""  # user {file}:12
"x.y" = "a {home} $"  # user {file}:12
"#
    );
    let shown = place.run(&["config", "show", "--origin"]);
    assert!(shown.said().ends_with(&expected), "{shown:?}");
    let plain: String = expected.lines().map(|line| format!("{}\n", line.split("  # ").next().unwrap())).collect();
    let shown = place.run(&["config", "show"]);
    assert!(shown.said().ends_with(&plain), "{shown:?}");
    let first = place.shown(&[]);
    let row = json!({"value": 0.1, "origin": "user", "path": place.user_file(), "line": 9});
    assert_eq!(first[r#"models."groq/x".cache_read"#], row);
    let again = place.work().join("again.toml");
    write(&again, shown.said());
    let values = |rows: std::collections::BTreeMap<String, Value>| -> Vec<(String, Value)> {
        rows.into_iter().map(|(key, row)| (key, row["value"].clone())).collect()
    };
    assert_eq!(values(place.shown(&["--config", "again.toml"])), values(first));
}

#[test]
fn a_path_in_an_origin_cannot_break_its_line() {
    let mut place = Place::new();
    let path = place.work().join("a\nmodel = 'openai/evil'\u{1b}.toml");
    write(&path, "system = 'x'");
    place.set("PLAYHOUSE_CONFIG", &path);
    let shown = place.run(&["config", "show", "--origin"]);
    let work = place.work().display().to_string();
    let line = format!("system = \"x\"  # user {work}/a\\nmodel = 'openai/evil'\\u{{1b}}.toml:1\n");
    assert!(shown.said().contains(&line), "{shown:?}");
}

#[test]
fn no_key_of_a_service_is_shown() {
    let mut place = Place::new();
    place.set("OPENAI_API_KEY", "sk-canary");
    place.set("PLAYHOUSE_MODEL", "openai/x");
    for args in [&["config", "show", "--origin"][..], &["config", "show", "--json"]] {
        let done = place.run(args);
        assert!(!done.said().contains("canary"), "{done:?}");
    }
}

#[test]
fn the_command_needs_to_be_told_what() {
    let place = Place::new();
    let help = place.run(&["config"]);
    assert!(help.code == Some(2) && help.err.contains("Usage:") && help.err.contains("show"), "{help:?}");
    assert!(place.run(&["config", "show", "--help"]).said().contains("--origin"));
    assert_eq!(place.run(&["config", "show", "extra"]).code, Some(2));
}
