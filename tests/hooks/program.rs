//! Hooks of the user's file, by running the real program.

use serde_json::{Value, json};

use crate::support::Desk;

fn calls(name: &str, arguments: Value) -> Value {
    json!({"tool_calls": [{"name": name, "arguments": arguments}]})
}

/// A desk with a user's file, which is not in the folder that tools work in.
fn desk(config: &str) -> (Desk, String) {
    let desk = Desk::new();
    let file = desk.work().with_file_name("config.toml");
    std::fs::write(&file, config).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (desk, file)
}

#[test]
fn f49_hooks_of_the_users_file_guard_the_tools_of_a_run() {
    let (desk, config) = desk(
        r#"
        [[hooks.PreToolUse]]
        matcher = "Bash"
        [[hooks.PreToolUse.hooks]]
        type = "command"
        command = "env > env.txt; cat > told.json; echo 'no shell today' >&2; exit 2"
        timeout = 10

        [[hooks.UserPromptSubmit]]
        hooks = [{ type = "command", command = "echo it is Monday" }]
        "#,
    );
    desk.write("note.txt", "here");
    let turns = json!([
        calls("bash", json!({"command": "touch ran"})),
        calls("read_file", json!({"path": "note.txt"})),
        {"text": "done"},
    ]);
    let script = desk.script("s.json", turns);
    let mut command =
        desk.command(&["run", "go", "--script", &script, "--permission", "yolo", "--json", "--config", &config]);
    command.env("SOME_API_KEY", "canary");
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{out}");
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named = |name: &str| events.iter().filter(|event| event["type"] == name).cloned().collect::<Vec<_>>();
    let blocked = named("ToolBlocked");
    assert_eq!(
        (blocked.len(), &blocked[0]["stage"], &blocked[0]["reason"]),
        (1, &json!("hook"), &json!("no shell today"))
    );
    assert_eq!(named("ToolExecutionStart").len(), 1, "the other tool is not for that hook");
    assert!(!desk.work().join("ran").exists());
    let said = json!([{"type": "text", "text": "go"}, {"type": "text", "text": "\nit is Monday"}]);
    assert_eq!(named("AgentEnd")[0]["messages"][0]["content"], said);
    let environment = std::fs::read_to_string(desk.work().join("env.txt")).unwrap();
    let work = desk.work().display().to_string();
    for line in [format!("CLAUDE_PROJECT_DIR={work}"), format!("PLAYHOUSE_PROJECT_DIR={work}")] {
        assert!(environment.lines().any(|one| one == line), "{line}: {environment}");
    }
    assert!(!environment.contains("canary") && !environment.contains("SOME_API_KEY"), "{environment}");
}

#[test]
fn a_helper_of_the_program_and_a_stored_session_keep_to_the_hooks() {
    let (desk, config) = desk(
        r#"
        tools = ["bash", "sub_agent"]
        [[hooks.PreToolUse]]
        matcher = "bash"
        hooks = [{ type = "command", command = "echo 'no shell today' >&2; exit 2" }]
        "#,
    );
    let turns = json!([
        {"tool_calls": [{"name": "sub_agent", "arguments": {"task": "child"}}], "when": {"prompt_contains": "parent"}},
        {"text": "done", "when": {"prompt_contains": "parent"}},
        {"tool_calls": [{"name": "bash", "arguments": {"command": "touch ran"}}], "when": {"prompt_contains": "child"}},
        {"text": "done", "when": {"prompt_contains": "child"}},
    ]);
    let script = desk.script("s.json", turns);
    let args = ["run", "parent", "--script", &script, "--permission", "yolo", "--json", "--config", &config];
    let done = desk.run(&args);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("no shell today") && !desk.work().join("ran").exists(), "{done:?}");

    let turns = json!([{"text": "first"}, calls("bash", json!({"command": "touch ran"})), {"text": "second"}]);
    let script = desk.script("t.json", turns);
    let done = desk.run(&["run", "one", "--script", &script, "--permission", "yolo", "--config", &config]);
    done.said("first\n");
    let done = desk.run(&["run", "two", "--continue", "--json", "--config", &config]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("no shell today") && !desk.work().join("ran").exists(), "{done:?}");
}

#[test]
fn what_the_hooks_of_a_killed_process_left_is_killed_by_the_next() {
    let time = crate::unique_sleep();
    let (desk, config) = desk(&format!(
        "[[hooks.PreToolUse]]\nhooks = [{{ type = 'command', command = 'setsid sleep {time} & sleep {time}' }}]"
    ));
    let script = desk.script("s.json", json!([calls("bash", json!({"command": "touch ran"})), {"text": "done"}]));
    let args = ["run", "go", "--script", &script, "--permission", "yolo", "--config", &config];
    let running = desk.start_until(&args, "MessageEnd");
    let begun = std::time::Instant::now();
    while crate::sleepers(&time) < 2 {
        assert!(begun.elapsed() < crate::kit::DEADLINE, "the hook did not start");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.kill();
    assert_eq!(crate::sleepers(&time), 2);
    let script = desk.script("t.json", json!([{"text": "fine"}]));
    desk.run(&["run", "go", "--script", &script]).said("fine\n");
    assert_eq!(crate::sleepers(&time), 0);
    assert!(!desk.work().join("ran").exists());
}

#[test]
fn what_hooks_change_and_add_is_seen_in_the_session() {
    let (desk, config) = desk(
        r#"
        [[hooks.PreToolUse]]
        hooks = [{ type = "command", command = '''echo '{"hookSpecificOutput": {"updatedInput": {"command": "echo two"}}}' ''' }]
        [[hooks.PostToolUse]]
        hooks = [{ type = "command", command = "echo 'one line' >&2; exit 2" }]
        "#,
    );
    let script = desk.script("s.json", json!([calls("bash", json!({"command": "echo one"})), {"text": "done"}]));
    desk.run(&["run", "go", "--script", &script, "--permission", "yolo", "--config", &config]).said("done\n");
    let shown = desk.run(&["sessions", "show", &desk.session()]).out;
    for line in [
        "[a hook changed the arguments of call_0_0: {\"command\":\"echo two\"}]",
        "[a hook added: A hook objects to this: one line]",
    ] {
        assert!(shown.lines().any(|one| one == line), "{line}: {shown}");
    }
}
