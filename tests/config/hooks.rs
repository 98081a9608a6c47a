//! `[[hooks.EVENT]]`: Claude Code's shape, in the user's file and nowhere else.

use serde_json::{Value, json};

use super::support::Place;

const BOTH_WAYS: &str = r#"
[[hooks.PreToolUse]]
matcher = "Bash|Edit"
[[hooks.PreToolUse.hooks]]
type = "command"
command = "check.sh \"$CLAUDE_PROJECT_DIR\" $$HOME"
timeout = 10
[[hooks.PreToolUse.hooks]]
command = "other.sh"

[hooks]
Stop = [{ hooks = [{ type = "command", command = "end.sh" }] }]
"#;

#[track_caller]
fn refused(text: &str, problems: &[&str]) {
    let place = Place::new();
    place.user(text);
    let problems: Vec<String> =
        problems.iter().map(|problem| format!("{}:{problem}", place.user_file().display())).collect();
    let problems: Vec<&str> = problems.iter().map(String::as_str).collect();
    place.run(&["config", "show"]).refused(&problems);
}

/// The hooks that are shown.
fn shown(place: &Place) -> Vec<Value> {
    let rows = place.run(&["config", "show", "--json"]).lines();
    rows.into_iter().filter(|row| row["key"].as_str().unwrap().starts_with("hooks.")).collect()
}

#[test]
fn hooks_are_read_as_claude_code_writes_them_and_shown_as_they_can_be_read() {
    let place = Place::new();
    // A table is opened once in TOML, so the inline form comes first.
    let (tables, inline) = BOTH_WAYS.split_once("[hooks]\n").unwrap();
    place.user(format!("hooks.{inline}{tables}"));
    let hooks = shown(&place);
    let values: Vec<(&str, &Value)> = hooks.iter().map(|row| (row["key"].as_str().unwrap(), &row["value"])).collect();
    let check = json!({"matcher": "Bash|Edit", "command": "check.sh \"$CLAUDE_PROJECT_DIR\" $HOME", "timeout": 10});
    let other = json!({"matcher": "Bash|Edit", "command": "other.sh", "timeout": 60});
    let end = json!({"matcher": "", "command": "end.sh", "timeout": 60});
    assert_eq!(values, [("hooks.Stop", &end), ("hooks.PreToolUse", &check), ("hooks.PreToolUse", &other)]);
    assert_eq!((&hooks[2]["origin"], &hooks[2]["line"]), (&json!("user"), &json!(10)));
    let text = place.run(&["config", "show", "--origin"]).said().to_owned();
    let again = Place::new();
    again.user(text.lines().filter(|line| !line.starts_with("data_dir")).collect::<Vec<_>>().join("\n"));
    let values = |hooks: Vec<Value>| hooks.into_iter().map(|row| row["value"].clone()).collect::<Vec<_>>();
    assert_eq!(values(shown(&again)), [end, check, other]);
}

#[test]
fn f49_a_project_names_no_commands() {
    let place = Place::new();
    place.project("[[hooks.SessionStart]]\nhooks = [{ command = 'touch ran' }]");
    let told = "a project's file may not have the section [hooks]: put it in your own file";
    let problem = format!("{}:1:3: {told}", place.project_file().display());
    place.run(&["run", "hi"]).refused(&[&problem]);
    assert!(!place.work().join("ran").exists());
}

#[test]
fn what_is_wrong_with_a_hook_is_said() {
    let group = |inner: &str| format!("[[hooks.PreToolUse]]\nhooks = [{inner}]");
    let events = "there is PreToolUse, PostToolUse, UserPromptSubmit, Stop, SubagentStop, SessionStart";
    refused("hooks = 5", &["1:1: `hooks` is a section: write [hooks] on a line of its own, and its keys below"]);
    refused("[[hooks.X]]", &[&format!("1:9: hooks.X: there is no such event: {events}")]);
    refused("[[hooks.PreToolUs]]", &["1:9: hooks.PreToolUs: there is no such event: did you mean `PreToolUse`?"]);
    let compaction = "there is no compaction yet, so nothing would run it: leave it out";
    refused("[[hooks.PreCompact]]", &[&format!("1:9: hooks.PreCompact: {compaction}")]);
    refused("[hooks.Stop]", &["1:8: hooks.Stop: it is a list: write [[hooks.Stop]] with two brackets"]);
    let none = "it has no hooks: write [[hooks.Stop.hooks]] with a `command` below it";
    refused("[[hooks.Stop]]", &[&format!("1:1: hooks.Stop: {none}")]);
    let nothing = "Stop has nothing to match: leave `matcher` out";
    refused(
        "[[hooks.Stop]]\nmatcher = 'bash'\nhooks = [{ command = 'x' }]",
        &[&format!("2:11: hooks.Stop.matcher: {nothing}")],
    );
    refused(
        "[[hooks.PreToolUse]]\nmatch = 'x'\nhooks = []",
        &["2:1: hooks.PreToolUse.match: there is no such key: did you mean `matcher`?"],
    );
    refused(&group("{ type = 'command' }"), &["2:10: hooks.PreToolUse.hooks: it has no `command`: say what to run"]);
    refused(
        &group("{ type = 'prompt', command = 'x' }"),
        &["2:19: hooks.PreToolUse.hooks.type is 'prompt': it takes `command`"],
    );
    refused(&group("{ command = ' ' }"), &["2:22: hooks.PreToolUse.hooks.command is ' ': it takes a command line"]);
    refused(
        &group("{ command = 'x', timeout = 0 }"),
        &["2:37: hooks.PreToolUse.hooks.timeout is 0: it takes whole seconds from 1 to 3600"],
    );
    refused(
        &group("{ command = 'x', shell = 'zsh' }"),
        &["2:27: hooks.PreToolUse.hooks.shell: there is no such key: there is type, command, timeout"],
    );
    let place = Place::new();
    place.user("[[hooks.PreToolUse]]\nmatcher = '('\nhooks = [{ command = 'x' }]");
    let done = place.run(&["config", "show"]);
    assert!(done.err.contains("2:11: hooks.PreToolUse.matcher: `(` is no pattern: name tools"), "{done:?}");
}
