//! `--allow`: grants for one command, and what the sandbox refuses without them, by the real program.

use serde_json::{Value, json};

use super::support::{Done, Place};

const TIERS: [&str; 2] = ["landlock", "bwrap"];

fn call(command: &str) -> Value {
    json!({"tool_calls": [{"name": "bash", "arguments": {"command": command}}]})
}

/// Has an agent run a command with these flags.
fn run(place: &Place, settings: &str, flags: &[&str], command: &str) -> Done {
    let script = place.script(json!([call(command), {"text": "ok"}]));
    place.user(format!("model = 'scripted/{script}'\npermission = 'yolo'\n{settings}"));
    place.run(&[&["run", "go", "--json"], flags].concat())
}

/// The result of the first call.
#[track_caller]
fn result(done: &Done) -> Value {
    let events = done.lines();
    let end = events.iter().find(|event| event["type"] == "ToolExecutionEnd").unwrap_or_else(|| panic!("{events:?}"));
    end["result"].clone()
}

#[track_caller]
fn said(done: &Done) -> String {
    result(done)["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_flag_grants_what_it_names_beside_the_configuration() {
    let place = Place::new();
    let folder = |name: &str| {
        let folder = place.home().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("f"), "read\n").unwrap();
        folder.to_str().unwrap().to_owned()
    };
    let [configured, given, other] = ["configured", "given", "other"].map(folder);
    let settings = format!("sandbox_write = ['{configured}']");
    let write = |folder: &str| format!("cat {folder}/f && echo x > {folder}/g && echo written in {folder}");
    let all = [&configured, &given, &other].map(|folder| write(folder)).join("; ");
    let file = format!("{other}/f");
    std::fs::write(place.work().join("a,b"), "").unwrap();
    for tier in TIERS {
        let run = |flags: &[&str]| said(&run(&place, &settings, &[&["--sandbox", tier], flags].concat(), &all));
        let written =
            |text: &str| [&configured, &given, &other].map(|name| text.contains(&format!("written in {name}")));
        assert_eq!(written(&run(&[])), [true, false, false], "{tier}");
        assert_eq!(written(&run(&["--allow", &format!("write={given}")])), [true, true, false], "{tier}");
        let both = [format!("write={given}"), format!("write={other}")];
        assert_eq!(written(&run(&["--allow", &both[0], "--allow", &both[1]])), [true, true, true], "{tier}");
        // Seen from where the program was started; your home is written as in a shell.
        assert_eq!(written(&run(&["--allow", "write=../home/given"])), [true, true, false], "{tier}");
        assert_eq!(written(&run(&["--allow", "write=~/given"])), [true, true, false], "{tier}");
        let read = run(&["--allow", &format!("read={given}"), "--allow=write=a,b"]);
        assert!(read.matches("read\n").count() == 2 && written(&read) == [true, false, false], "{tier}: {read}");
        // A file alone, too.
        let read = run(&["--allow", &format!("read={file}")]);
        assert!(read.matches("read\n").count() == 2, "{tier}: {read}");
    }
}

#[test]
fn the_network_is_granted_by_a_flag() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{} && echo through", listener.local_addr().unwrap().port());
    for tier in TIERS {
        let flags = ["--sandbox", tier];
        let denied = said(&run(&place, "", &flags, &connect));
        assert!(denied.ends_with("--allow network)") && !denied.contains("through"), "{tier}: {denied}");
        let granted = said(&run(&place, "", &[&flags[..], &["--allow", "network"]].concat(), &connect));
        assert_eq!(granted, "through\n", "{tier}");
    }
    let shown = place.shown(&["--allow", "network", "--allow", "write=."]);
    assert_eq!(
        (&shown["sandbox_network"]["value"], &shown["sandbox_network"]["origin"]),
        (&json!("granted"), &json!("flag"))
    );
    assert_eq!(shown["sandbox_write"]["value"], json!([place.work()]));
}

#[test]
fn what_a_project_took_away_no_flag_gives_back() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{} && echo through", listener.local_addr().unwrap().port());
    place.project("sandbox_network = 'denied'");
    let script = place.script(json!([call(&connect), {"text": "ok"}, call(&connect), {"text": "ok"}]));
    place.user(format!("model = 'scripted/{script}'\npermission = 'yolo'"));
    let first = place.run(&["run", "go", "--json", "--allow", "network"]);
    std::fs::remove_file(place.project_file()).unwrap();
    // The session keeps it, whatever flag it is continued with.
    let second = place.run(&["run", "go", "--json", "--continue", "--allow", "network"]);
    for done in [first, second] {
        let text = said(&done);
        assert!(text.ends_with("the project's playhouse.toml says so, and no flag changes it)"), "{text}");
        assert!(!text.contains("--allow") && !text.contains("through"), "{text}");
    }
    assert_eq!(place.settings()["restrictions"], json!({"sandbox": {"network": "denied"}}));
}

#[test]
fn sessions_that_are_taken_up_are_granted_more_too() {
    let place = Place::new();
    let outside = place.home().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let write = format!("echo x > {0}/f && echo written", outside.display());
    let script = place.script(json!([call(&write), {"text": "planned"}, {"text": "done"}]));
    place.user(format!("model = 'scripted/{script}'\npermission = 'yolo'"));
    assert_eq!(place.run(&["run", "go", "--plan"]).said(), "planned\n");
    let sessions = place.run(&["sessions", "list", "--json"]).lines();
    let session = sessions[0]["session_id"].as_str().unwrap();
    let grant = format!("write={}", outside.display());
    assert_eq!(said(&place.run(&["plan", "approve", session, "--json", "--allow", &grant])), "written\n");
    // A session that a limit stopped goes on for another turn.
    std::fs::remove_file(outside.join("f")).unwrap();
    let script = place.script(json!([call("true"), call(&write), {"text": "done"}]));
    place.user(format!("model = 'scripted/{script}'\npermission = 'yolo'"));
    let stopped = place.run(&["run", "go", "--max-turns", "1", "--json"]);
    assert_eq!(stopped.code, Some(3), "{stopped:?}");
    let started: Value = serde_json::from_str(stopped.out.lines().next().unwrap()).unwrap();
    let session = started["session_id"].as_str().unwrap();
    let resumed = place.run(&["resume", session, "--allow", &grant]);
    assert_eq!(resumed.code, Some(3), "{resumed:?}");
    assert!(outside.join("f").exists(), "{resumed:?}");
}

#[test]
fn what_is_no_grant_is_an_error_with_what_was_meant() {
    let place = Place::new();
    for (given, told) in [
        ("netwrk", "`netwrk` is no grant: did you mean `network`?"),
        ("Network", "`Network` is no grant: did you mean `network`?"),
        ("wrte=/tmp", "`wrte` is no grant: did you mean `write`?"),
        ("write", "`write` needs a folder: --allow write=DIR"),
        ("write=", "`write` needs a folder: --allow write=DIR"),
        ("read", "`read` needs a file or folder: --allow read=DIR"),
        ("network=yes", "`network` takes nothing: --allow network"),
        ("everything", "`everything` is no grant: there are `network`, `write=DIR` and `read=DIR`"),
        ("", "`` is no grant: there are `network`, `write=DIR` and `read=DIR`"),
        ("write=missing", "`missing` is not there: make the folder first, or name another"),
        ("read=/no/such/place", "`/no/such/place` is not there: make the folder first, or name another"),
    ] {
        for args in [&["run", "go"][..], &["config", "show"], &["resume"], &["plan", "approve", "s"]] {
            let done = place.run(&[args, &["--allow", given]].concat());
            done.refused(&[&format!("--allow: {told}")]);
        }
    }
}

#[test]
fn a_refusal_reaches_the_person_the_model_and_the_journal() {
    let place = Place::new();
    let outside = place.home().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let outside = outside.display();
    let command = format!("echo '(sandbox: forged)'; echo x > {outside}/f");
    let line = format!("{outside}/f may not be changed; the user can allow it with --allow write={outside}");
    for tier in TIERS {
        let _ = std::fs::remove_dir_all(place.home().join("data"));
        let live = result(&run(&place, "", &["--sandbox", tier], &command));
        let text = live["content"][0]["text"].as_str().unwrap();
        assert!(text.ends_with(&format!("exit code 1\n(sandbox: {line})")), "{tier}: {text}");
        let details = json!([{"what": "write", "path": format!("{outside}/f"), "allow": format!("write={outside}"), "text": line}]);
        assert_eq!(live["details"]["refused"], details, "{tier}");
        // What is read from the journal later is the same.
        let sessions = place.run(&["sessions", "list", "--json"]).lines();
        let session = sessions[0]["session_id"].as_str().unwrap();
        assert_eq!(result(&place.run(&["sessions", "events", session])), live, "{tier}");
        // A person sees it below the call, and not what the command printed.
        let _ = std::fs::remove_dir_all(place.home().join("data"));
        let shown = place.run(&["run", "go", "--sandbox", tier]);
        let lines: Vec<&str> = shown.err.lines().collect();
        let at = lines.iter().position(|text| text.contains("(exit 1)")).unwrap_or_else(|| panic!("{shown:?}"));
        assert_eq!(lines[at + 1].trim(), format!("sandbox: {line}"), "{tier}: {shown:?}");
        assert!(!shown.err.contains("forged)\n"), "{tier}: {shown:?}");
    }
}
