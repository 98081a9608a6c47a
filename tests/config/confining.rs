//! The sandbox by the real program: what settings grant, what a project may not, and `playhouse doctor`.

use serde_json::{Value, json};

use super::support::Place;

/// Runs a command of an agent with these settings; what it said is the whole of its output.
fn bash(place: &Place, settings: &str, flags: &[&str], command: &str) -> String {
    let call = json!({"name": "bash", "arguments": {"command": command}});
    let script = place.script(json!([{"tool_calls": [call]}, {"text": "ok"}]));
    place.user(format!("model = 'scripted/{script}'\npermission = 'yolo'\n{settings}"));
    let events = place.run(&[&["run", "go", "--json"], flags].concat()).lines();
    let end = events.iter().find(|event| event["type"] == "ToolExecutionEnd").unwrap_or_else(|| panic!("{events:?}"));
    end["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{end}")).to_owned()
}

#[test]
fn a_sandbox_is_there_unless_it_is_turned_off() {
    let place = Place::new();
    let outside = place.home().join("outside");
    let write = format!("echo x > {0} && cat {0}; echo y > inside && cat inside", outside.display());
    for (settings, flags, is_kept_in) in [
        ("", &[][..], true),
        ("", &["--sandbox", "landlock"], true),
        ("", &["--sandbox", "bwrap"], true),
        ("sandbox = 'off'", &[], false),
        ("sandbox = 'landlock'", &["--sandbox", "off"], false),
    ] {
        let _ = std::fs::remove_file(&outside);
        let said = bash(&place, settings, flags, &write);
        assert!(said.contains("y\n"), "{settings} {flags:?}: {said}");
        assert_eq!(outside.exists(), !is_kept_in, "{settings} {flags:?}: {said}");
    }
}

#[test]
fn folders_and_variables_are_granted_by_the_user() {
    let mut place = Place::new();
    place.set("DATABASE_URL", "was-named");
    let folder = place.home().join("given");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("f"), "read\n").unwrap();
    let folder = folder.display();
    let all = format!("cat {folder}/f; echo x > {folder}/g && echo written; echo $DATABASE_URL");
    let granted = |settings: &str| {
        let said = bash(&place, settings, &[], &all);
        ["read\n", "written\n", "was-named\n"].map(|word| said.contains(word))
    };
    assert_eq!(granted(""), [false, false, false]);
    assert_eq!(granted(&format!("sandbox_read = ['{folder}']")), [true, false, false]);
    assert_eq!(granted(&format!("sandbox_write = ['{folder}']")), [true, true, false]);
    assert_eq!(granted("tool_env = ['DATABASE_URL']"), [false, false, true]);
}

#[test]
fn the_network_is_the_users_to_grant() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{} && echo through", listener.local_addr().unwrap().port());
    assert!(!bash(&place, "", &[], &connect).contains("through"));
    assert!(bash(&place, "sandbox_network = 'granted'", &[], &connect).contains("through"));
    place.project("sandbox_network = 'denied'");
    assert!(!bash(&place, "sandbox_network = 'granted'", &[], &connect).contains("through"));
    place.project("sandbox_network = 'granted'");
    place.run(&["run", "go"]).refused(&[&format!(
        "{}:1:19: a project's file may not set sandbox_network to this, since whether tools get the network is the \
         user's to say: set it in your own file, or with PLAYHOUSE_SANDBOX_NETWORK",
        place.project_file().display()
    )]);
}

#[test]
fn what_a_project_does_without_its_sessions_do_without_wherever_they_are_taken_up() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{} && echo through", listener.local_addr().unwrap().port());
    let call = |command: &str| json!({"tool_calls": [{"name": "bash", "arguments": {"command": command}}]});
    let many = "for i in $(seq 60); do sleep 30 & done; wait";
    let turns =
        [call(&connect), json!({"text": "planned"}), json!({"text": "done"}), call(many), json!({"text": "ok"})];
    let script = place.script(json!(turns));
    let user = |more: &str| place.user(format!("model = 'scripted/{script}'\npermission = 'yolo'\n{more}")).user_file();
    let result = |args: &[&str]| {
        let events = place.run(args).lines();
        let end = events.iter().find(|event| event["type"] == "ToolExecutionEnd");
        let end = end.unwrap_or_else(|| panic!("{events:?}"));
        end["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{end}")).to_owned()
    };
    user("sandbox_network = 'granted'");
    place.project("sandbox_network = 'denied'\nsandbox_processes = 20\nsandbox_memory_mb = 1024");
    assert_eq!(place.run(&["run", "go", "--plan"]).said(), "planned\n");
    let kept = json!({"network": "denied", "processes": 20, "memory": 1024u64 << 20});
    assert_eq!(place.settings()["restrictions"], json!({ "sandbox": kept }));
    std::fs::remove_file(place.project_file()).unwrap();
    let sessions = place.run(&["sessions", "list", "--json"]).lines();
    let session = sessions[0]["session_id"].as_str().unwrap();
    let said = result(&["plan", "approve", session, "--json"]);
    assert!(!said.contains("through"), "{said}");
    let said = result(&["run", "go", "--session", session, "--no-plan", "--json"]);
    assert!(said.contains("stopped: more than 20 processes at once"), "{said}");
}

#[test]
fn what_a_user_does_without_is_theirs_to_change() {
    let place = Place::new();
    let script = place.script(json!([{"text": "one"}]));
    place.user(format!("model = 'scripted/{script}'\nsandbox_network = 'denied'\nsandbox_processes = 20"));
    place.project("sandbox_processes = 30\nsandbox_file_mb = 7");
    assert_eq!(place.run(&["run", "go"]).said(), "one\n");
    assert_eq!(place.settings()["restrictions"], json!({"sandbox": {"file": 7 << 20}}));
}

#[test]
fn f49_journals_and_the_users_file_are_not_read_by_tools() {
    let place = Place::new();
    let look = format!(
        "cat {home}/config/playhouse/config.toml; cat {home}/data/playhouse/sessions/*/*; echo looked",
        home = place.home().display()
    );
    let said = bash(&place, "system = 'sekret-canary'", &[], &look);
    assert!(said.contains("looked") && !said.contains("sekret-canary"), "{said}");
    assert!(bash(&place, "system = 'sekret-canary'", &["--sandbox", "off"], &look).contains("sekret-canary"));
}

#[test]
fn f20_a_limit_in_a_file_ends_a_call() {
    let place = Place::new();
    let many = "for i in $(seq 60); do sleep 30 & done; wait";
    let said = bash(&place, "sandbox_processes = 20", &[], many);
    assert!(said.contains("stopped: more than 20 processes at once"), "{said}");
}

#[test]
fn a_helper_is_kept_in_as_the_one_it_helps() {
    let place = Place::new();
    let outside = place.home().join("outside");
    let write =
        json!({"name": "bash", "arguments": {"command": format!("echo x > {}; echo tried", outside.display())}});
    let turns = json!([
        {"tool_calls": [{"name": "sub_agent", "arguments": {"task": "t"}}]},
        {"tool_calls": [write]},
        {"text": "ok"},
        {"text": "ok"}
    ]);
    let script = place.script(turns);
    place.user(format!("model = 'scripted/{script}'\npermission = 'yolo'\ntools = ['bash', 'sub_agent']"));
    for (tier, is_there) in [("landlock", false), ("off", true)] {
        let done = place.run(&["run", "go", "--json", "--sandbox", tier]);
        assert!(done.said().contains("tried"), "{tier}: {done:?}");
        assert_eq!(outside.exists(), is_there, "{tier}");
    }
}

#[test]
fn the_doctor_says_what_works_and_fails_when_runs_would() {
    let mut place = Place::new();
    let done = place.run(&["doctor", "--json"]);
    let state = |name: &str| {
        let found = done.lines().into_iter().find(|check| check["check"] == name);
        found.unwrap_or_else(|| panic!("{name}: {done:?}"))["state"].clone()
    };
    for name in ["system", "bash", "landlock", "bwrap", "settings", "sandbox", "data directory"] {
        assert_eq!(state(name), "ok", "{name}: {done:?}");
    }
    assert!(place.run(&["doctor"]).said().contains("`auto` means landlock here"));
    // What was asked for and cannot be had is broken.
    place.user("sandbox = 'bwrap'");
    let tools = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let bash = std::env::split_paths(&path).map(|folder| folder.join("bash")).find(|path| path.exists()).unwrap();
    std::os::unix::fs::symlink(bash, tools.path().join("bash")).unwrap();
    place.set("PATH", tools.path());
    let done = place.run(&["doctor"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("install the package bubblewrap"), "{done:?}");
    place.user("sandbox = 'tight'");
    let done = place.run(&["doctor", "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let broken: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(broken.iter().any(|check| check["check"] == "settings" && check["state"] == "broken"), "{done:?}");
}
