//! Files and variables shape new sessions and say where sessions are; a stored session is changed by flags alone.

use serde_json::{Value, json};

use super::support::{Place, write};

fn configured(place: &Place) -> Vec<Value> {
    let sessions = place.run(&["sessions", "list", "--json"]).lines();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let entries = place.run(&["sessions", "show", sessions[0]["session_id"].as_str().unwrap(), "--json"]).lines();
    let bodies = entries.into_iter().map(|entry| entry["body"].clone());
    bodies.filter(|body| body["type"] == "configured").map(|body| body["settings"].clone()).collect()
}

#[test]
fn a_stored_session_keeps_its_settings_until_a_flag_changes_them() {
    let mut place = Place::new();
    let script = place.script(json!([{"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "four"}]));
    place.user(format!("model = 'scripted/{script}'\nsystem = 'first'\n[limits]\nmax_turns = 9"));
    assert_eq!(place.run(&["run", "a"]).said(), "one\n");
    let first = place.settings();
    // Other files and variables, even such as could not be for a new session: a project's file is not read.
    place.user("model = 'openai/other'\nsystem = 'second'\ndurability = 'none'\npermission = 'yolo'");
    place.project("this is no TOML");
    place.set("PLAYHOUSE_LIMITS_MAX_TURNS", "1");
    assert_eq!(place.run(&["run", "b", "--continue"]).said(), "two\n");
    assert_eq!(configured(&place), Vec::<Value>::new());
    let flags = [
        ["--system", "third"],
        ["--tools", "bash"],
        ["--permission", "yolo"],
        ["--max-turns", "none"],
        ["--max-total-tokens", "5000"],
        ["--max-duration", "1m"],
        ["--durability", "os"],
        ["--thinking", "low"],
        ["--max-tokens", "5"],
        ["--temperature", "0.5"],
    ]
    .concat();
    assert_eq!(place.run(&[&["run", "c", "--continue"][..], &flags].concat()).said(), "three\n");
    let mut expected = first;
    for (field, value) in [
        ("system_prompt", json!("third")),
        ("tools", json!(["bash"])),
        ("permission", json!("yolo")),
        ("limits", json!({"max_turns": null, "max_total_tokens": 5000, "max_duration": {"secs": 60, "nanos": 0}})),
        ("durability", json!("os")),
        ("thinking_level", json!("low")),
        ("max_tokens", json!(5)),
        ("temperature", json!(0.5)),
    ] {
        expected[field] = value;
    }
    assert_eq!(configured(&place), [expected]);
    assert_eq!(place.run(&["run", "d", "--continue"]).said(), "four\n");
    assert_eq!(configured(&place).len(), 1, "and they stay");
}

#[test]
fn sessions_are_where_the_users_file_says_for_every_command() {
    let place = Place::new();
    let script = place.script(json!([{"text": "one"}]));
    place.user("data_dir = '${HOME}/mine'");
    assert_eq!(place.run(&["run", "a", "--script", &script]).said(), "one\n");
    assert!(place.home().join("mine/sessions").is_dir() && !place.home().join("data").exists());
    // A project has no say in it, so a bad one is nothing to these commands.
    place.project("data_dir = 'elsewhere'");
    let sessions = place.run(&["sessions", "list", "--json"]).lines();
    assert_eq!(sessions.len(), 1);
    let id = sessions[0]["session_id"].as_str().unwrap();
    let resumed = place.run(&["resume", id]);
    assert_eq!(resumed.said(), "");
    assert_eq!(resumed.err, format!("session {id} is finished: nothing to resume\n"));
    place.user("");
    assert_eq!(place.run(&["sessions", "list", "--json"]).lines(), Vec::<Value>::new());
    // A file for one command: its hint must find the session again.
    let short = place.script(json!([]));
    write(&place.work().join("f.toml"), "data_dir = 'kept'");
    std::fs::remove_file(place.project_file()).unwrap();
    let failed = place.run(&["run", "a", "--script", &short, "--config", "f.toml"]);
    let folder = place.work().join("kept");
    assert!(failed.code == Some(1) && failed.err.contains(&format!("--data-dir {}\n", folder.display())), "{failed:?}");
}

#[test]
fn a_broken_file_refuses_every_command_and_makes_nothing() {
    let place = Place::new();
    let script = place.script(json!([{"text": "one"}]));
    place.user("modle = 'x'");
    let told = format!("{}:1:1: there is no key `modle`: did you mean `model`?", place.user_file().display());
    for args in [
        &["run", "a", "--script", &script][..],
        &["run", "a", "--continue"],
        &["resume"],
        &["sessions", "list"],
        &["config", "show"],
    ] {
        place.run(args).refused(&[&told]);
    }
    assert!(!place.home().join("data").exists());
}

#[test]
fn how_connections_behave_is_of_the_process_and_holds_for_what_is_resumed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let model = format!("model = 'openai/m'\nopenai.base_url = 'http://{}/v1'\n", listener.local_addr().unwrap());
    let place = Place::new();
    place.user(format!("{model}retry.max_retries = 0"));
    let mut child = place.start(&place.work(), &["run", "hello"]);
    let first = listener.accept().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    place.user(format!("{model}connection.first_event_ms = 70"));
    let resumed = place.run(&["resume"]);
    assert!(resumed.code == Some(1) && resumed.err.contains("the service sent nothing for 0.07 s"), "{resumed:?}");
    drop(first);
}
