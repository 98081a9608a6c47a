//! `config show`: TOML that can be read again, and what it says of where things came from.

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
system = "two\nlines"  # project {work}/playhouse.toml:1
tools = ["read_file", "list_files", "bash"]  # default
permission = "ask"  # default
durability = "flush"  # default
data_dir = "{home}/data/playhouse"  # default
thinking = "off"  # default
# max_tokens is not set: the model's own
temperature = 0.7  # environment PLAYHOUSE_TEMPERATURE
tool_execution = "parallel"  # default

[openai]
# base_url is not set: `$OPENAI_BASE_URL`, or OpenAI's own

[limits]
max_turns = 5  # flag --max-turns
max_total_tokens = 1000000  # default
max_duration = "10m"  # default

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
    place.set("PLAYHOUSE_MODEL", "openai/${x}");
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
