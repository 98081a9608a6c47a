//! A project's file was written by whoever wrote the project: it shapes the conversation, and otherwise only narrows.

use playhouse::config::{ByProject, keys};
use serde_json::{Value, json};

use super::support::Place;

/// What a project's file is refused with.
#[track_caller]
fn refused(text: &str, problem: &str) {
    let place = Place::new();
    place.project(text);
    let problem = format!("{}:{problem}", place.project_file().display());
    place.run(&["config", "show"]).refused(&[&problem]);
    place.run(&["run", "hi"]).refused(&[&problem]);
}

#[test]
fn what_is_the_users_to_say_is_refused_and_says_where_to_set_it() {
    let mut forbidden = Vec::new();
    for key in keys().iter().filter(|key| key.by_project() == ByProject::No) {
        forbidden.push(key.name());
        let flags: String = key.flags().iter().map(|flag| format!(" or {flag}")).collect();
        let elsewhere = format!("set it in your own file, or with {}{flags}", key.variable());
        // Before its value is looked at.
        let told = format!("a project's file may not set {}: {elsewhere}", key.name());
        refused(&format!("{} = '${{HOME}}'", key.name()), &format!("1:{}: {told}", key.name().len() + 4));
    }
    let expected = [
        "base_url",
        "system_file",
        "sandbox_read",
        "sandbox_write",
        "tool_env",
        "guarded",
        "durability",
        "data_dir",
        "cache",
        "permissions.allow",
        "openai.base_url",
        "anthropic.base_url",
        "azure.base_url",
        "azure.api_version",
        "google.base_url",
        "vertex.base_url",
        "vertex.project",
        "vertex.region",
        "bedrock.base_url",
        "bedrock.region",
        "ollama.base_url",
        "connection.concurrency",
        "connection.requests_per_minute",
        "connection.tokens_per_minute",
        "connection.breaker_failures",
        "connection.breaker_pause_ms",
        "connection.connect_ms",
        "connection.first_event_ms",
        "connection.idle_ms",
        "connection.total_ms",
        "retry.max_retries",
        "retry.initial_delay_ms",
        "retry.backoff_multiplier",
        "retry.max_delay_ms",
    ];
    assert_eq!(forbidden, expected);
}

#[test]
fn it_cannot_turn_off_asking_play_a_script_or_read_the_environment() {
    refused(
        "permission = 'yolo'",
        "1:14: a project's file may not set permission to this, since whether tools run without asking is the user's \
         to say: set it in your own file, or with PLAYHOUSE_PERMISSION or --permission",
    );
    refused(
        "model = 'scripted/play.json'",
        "1:9: a project's file may not set model to this, since a script says which tools run: set it in your own \
         file, or with PLAYHOUSE_MODEL or --model or --script",
    );
    refused(
        "model = ['openai/x', 'scripted/play.json']",
        "1:9: a project's file may not set model to this, since a script says which tools run: set it in your own \
         file, or with PLAYHOUSE_MODEL or --model or --script",
    );
    let environment = "a project's file may not read the environment: write the value out, or $$ for a dollar";
    refused("system = 'a ${HOME}'", &format!("1:10: system: {environment}"));
    refused("model = 'openai/${OPENAI_API_KEY:-x}'", &format!("1:9: model: {environment}"));
    refused("tools = ['${HOME}']", &format!("1:9: tools: {environment}"));
}

#[test]
fn yolo_is_refused_even_where_the_user_has_it_and_ask_is_granted() {
    let place = Place::new();
    place.user("permission = 'yolo'").project("permission = 'yolo'");
    assert_eq!(place.run(&["config", "show"]).code, Some(2));
    place.project("permission = 'ask'");
    let project = json!({"value": "ask", "origin": "project", "path": place.project_file(), "line": 1});
    assert_eq!(place.shown(&[])["permission"], project);
}

#[test]
fn more_than_the_user_allows_is_held_back_and_shown() {
    let place = Place::new();
    place.project(
        "tools = ['sub_agent', 'bash']\n[limits]\nmax_turns = 51\nmax_total_tokens = 'none'\nmax_duration = '1h'",
    );
    let held = |value: Value, line: usize| json!({"value": value, "path": place.project_file(), "line": line});
    let shown = place.shown(&[]);
    let tools = json!({
        "value": ["bash"], "origin": "project", "path": place.project_file(), "line": 1,
        "held_back": held(json!(["sub_agent", "bash"]), 1),
    });
    assert_eq!(shown["tools"], tools);
    for (key, value, wanted, line) in
        [("limits.max_turns", json!(50), json!(51), 3), ("limits.max_total_tokens", json!(1_000_000), json!("none"), 4)]
    {
        assert_eq!(shown[key], json!({"value": value, "origin": "default", "held_back": held(wanted, line)}), "{key}");
    }
    // There is no limit of time by default: any is lower.
    let own = json!({"value": "1h", "origin": "project", "path": place.project_file(), "line": 5});
    assert_eq!(shown["limits.max_duration"], own);
    let text = place.run(&["config", "show", "--origin"]);
    let path = place.project_file();
    let line = format!("max_turns = 50  # default; 51 in {}:3 is more than a project may set\n", path.display());
    assert!(text.said().contains(&line), "{text:?}");
    // What the user allows, it may have.
    place.user(
        "tools = ['bash', 'sub_agent']\n[limits]\nmax_turns = 'none'\nmax_total_tokens = 'none'\nmax_duration = '2h'",
    );
    let shown = place.shown(&[]);
    let values = ["tools", "limits.max_turns", "limits.max_total_tokens", "limits.max_duration"];
    let values = values.map(|key| (shown[key]["value"].clone(), shown[key]["held_back"].is_null()));
    let expected = [json!(["sub_agent", "bash"]), json!(51), json!("none"), json!("1h")];
    assert_eq!(values, expected.map(|value| (value, true)));
    // And a flag has the last word.
    assert_eq!(
        place.shown(&["--max-turns", "7"])["limits.max_turns"],
        json!({"value": 7, "origin": "flag", "flag": "--max-turns"})
    );
}

#[test]
fn another_provider_than_the_users_is_held_back() {
    let place = Place::new();
    place.user("model = 'scripted//s.json'").project("model = 'openai/gpt'");
    let shown = place.shown(&[])["model"].clone();
    let expected = json!({
        "value": "scripted//s.json", "origin": "user", "path": place.user_file(), "line": 1,
        "held_back": {"value": "openai/gpt", "path": place.project_file(), "line": 1},
    });
    assert_eq!(shown, expected);
}

#[test]
fn of_a_chain_only_the_models_of_the_users_providers_are_granted() {
    let place = Place::new();
    let model = |user: &str, project: &str| {
        place.user(user).project(format!("model = {project}"));
        let row = place.shown(&[])["model"].clone();
        (row["value"].clone(), row["origin"].clone(), row["held_back"]["value"].clone())
    };
    let both = "model = 'openai/a,groq/b'";
    assert_eq!(model(both, "'groq/x'"), (json!("groq/x"), json!("project"), Value::Null));
    let granted = (json!(["groq/x", "openai/y"]), json!("project"), Value::Null);
    assert_eq!(model(both, "['groq/x', 'openai/y']"), granted);
    let some = (json!("groq/x"), json!("project"), json!(["xai/y", "groq/x"]));
    assert_eq!(model(both, "'xai/y,groq/x'"), some);
    assert_eq!(model(both, "'ollama/x'"), (json!(["openai/a", "groq/b"]), json!("user"), json!("ollama/x")));
    // Who has set none has chosen no service: it is OpenAI's or none.
    assert_eq!(model("", "'openai/x'"), (json!("openai/x"), json!("project"), Value::Null));
    assert_eq!(model("", "'openrouter/x'"), (Value::Null, json!("default"), json!("openrouter/x")));
    let told = format!(
        "which model? {}:1:9 asks for openrouter/x, a service that is yours to choose: give --model openrouter/x",
        place.project_file().display()
    );
    place.run(&["run", "hi"]).refused(&[&told]);
}

#[test]
fn what_is_known_of_models_and_sent_to_providers_is_the_users_to_say() {
    let told =
        |section: &str| format!("a project's file may not have the section [{section}]: put it in your own file");
    refused("[models.'openai/x']\ninput = 0", &format!("1:2: {}", told("models")));
    refused("models = 1", &format!("1:1: {}", told("models")));
    refused("[providers.openai.headers]\nx = 'y'", &format!("1:2: {}", told("providers")));
}

#[test]
fn unknown_tools_and_keys_are_mistakes_there_too() {
    refused(
        "tools = ['bsh']",
        "1:9: tools: there is no tool `bsh` (did you mean `bash`?); the tools are: read_file, list_files, \
         search, edit_file, write_file, bash, sub_agent",
    );
    refused("modle = 'x'", "1:1: there is no key `modle`: did you mean `model`?");
    refused("system = ", "1:10: this is not TOML: string values must be quoted, expected literal string");
}
