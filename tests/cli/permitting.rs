//! Plans, and answers that last, with the real program.

use serde_json::json;

use crate::support::Desk;

/// A script that writes two files, says so, and says so again.
fn planner(desk: &Desk) -> String {
    desk.script(
        "plan.json",
        json!([
            {"text": "Two files.", "tool_calls": [
                {"name": "write_file", "arguments": {"path": "a.txt", "content": "one\ntwo\n"}},
                {"name": "write_file", "arguments": {"path": "b.txt", "content": "three"}},
                {"name": "list_files", "arguments": {}}
            ]},
            {"text": "That is the plan."},
            {"text": "All is done."}
        ]),
    )
}

/// The session that a run in this place left.
fn session(desk: &Desk) -> String {
    let listed = desk.run(&["sessions", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(listed.out.lines().next().unwrap()).unwrap();
    listed["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_plan_is_shown_approved_in_part_and_rejected() {
    let desk = Desk::new();
    let script = planner(&desk);
    let planned = desk.run(&["run", "--plan", "--script", &script, "plan it"]);
    assert_eq!((planned.code, planned.out.as_str()), (Some(0), "That is the plan.\n"), "{planned:?}");
    assert!(planned.err.starts_with("Two files.\n"), "{planned:?}");
    let session = session(&desk);
    assert!(planned.err.contains("planned as change 1"), "{planned:?}");
    assert!(
        planned.err.contains(&format!("2 changes wait for approval: playhouse plan show {}", &session[..12])),
        "{planned:?}"
    );
    assert!(!desk.work().join("a.txt").exists() && !desk.work().join("b.txt").exists());

    desk.run(&["plan", "show", &session]).said(
        "1. write_file\n   content:\n   | one\n   | two\n   path: a.txt\n2. write_file\n   content: three\n   path: b.txt\n",
    );
    let lines = desk.run(&["plan", "show", "--json", &session]);
    let first: serde_json::Value = serde_json::from_str(lines.out.lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        json!({"change": 1, "tool_name": "write_file", "args": {"path": "a.txt", "content": "one\ntwo\n"}})
    );

    desk.run(&["plan", "approve", &session, "9"]).refused(&["the plan has no change 9"]);
    let approved = desk.run(&["plan", "approve", &session, "2"]);
    assert_eq!((approved.code, approved.out.as_str()), (Some(0), "All is done.\n"), "{approved:?}");
    assert_eq!(std::fs::read_to_string(desk.work().join("b.txt")).unwrap(), "three");
    assert!(!desk.work().join("a.txt").exists(), "only the second was approved");
    assert!(approved.err.contains("1 change waits for approval"), "{approved:?}");

    desk.run(&["plan", "reject", &session, "--reason", "no need"]).said("");
    desk.run(&["plan", "show", &session]).said("nothing is planned\n");
    let shown = desk.run(&["sessions", "show", &session]);
    assert!(shown.out.contains("[rejected: change 1]") && shown.out.contains("Reason: no need"), "{shown:?}");
    desk.run(&["plan", "approve", &session]).refused(&["nothing is planned"]);
    let trail = desk.run(&["audit", "show", &session]);
    for word in ["planned", "plan approved", "the approved plan", "plan rejected"] {
        assert!(trail.out.contains(word), "{word}: {trail:?}");
    }
}

#[test]
fn an_answer_on_the_terminal_lasts_as_long_as_it_says() {
    let desk = Desk::new();
    let call = json!({"text": "", "tool_calls": [{"name": "bash", "arguments": {"command": "touch a.txt"}}]});
    let script = desk.script("write.json", json!([call, {"text": "Written."}]));
    // Not where tools work: a command there could not make files beside it.
    let config = desk.work().with_file_name("config.toml");
    std::fs::write(&config, "# mine\n").unwrap();
    let run = ["run", "--script", script.as_str(), "write"];
    let (code, screen) = desk.on_terminal_answering(&run, &config, "n use another name\r");
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("[y/s/a/n/?]") && screen.contains("the user said no: use another name"), "{screen}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "# mine\n");

    let (code, screen) = desk.on_terminal_answering(&run, &config, "a\r");
    assert_eq!(code, Some(0), "{screen}");
    assert!(desk.work().join("a.txt").exists());
    let kept = std::fs::read_to_string(&config).unwrap();
    assert!(kept.contains("# mine") && kept.contains("allow = [\"bash(touch a.txt)\"]"), "{kept}");

    // From now on nobody is asked, not even where nobody could be.
    std::fs::remove_file(desk.work().join("a.txt")).unwrap();
    let mut command = desk.command(&run);
    let done = command.env("PLAYHOUSE_CONFIG", &config).output().unwrap();
    assert!(done.status.success() && desk.work().join("a.txt").exists(), "{done:?}");
}

#[test]
fn a_yes_for_the_session_ends_when_the_session_moves() {
    let desk = Desk::new();
    let call = json!({"text": "", "tool_calls": [{"name": "bash", "arguments": {"command": "touch a.txt"}}]});
    let turns = [call.clone(), json!({"text": "One."}), call.clone(), json!({"text": "Two."}), call];
    let script = desk.script("touch.json", json!([turns.as_slice(), &[json!({"text": "Three."})]].concat()));
    let config = desk.work().with_file_name("config.toml");
    std::fs::write(&config, "").unwrap();
    let (code, screen) = desk.on_terminal_answering(&["run", "--script", &script, "go"], &config, "s\r");
    assert_eq!((code, desk.work().join("a.txt").exists()), (Some(0), true), "{screen}");
    let session = session(&desk);
    let done = desk.run(&["run", "--session", &session, "go"]);
    assert!(!done.err.contains("did not run"), "{done:?}");
    let elsewhere = desk.work().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let done = desk.run(&["run", "--session", &session, "--cwd", elsewhere.to_str().unwrap(), "go"]);
    assert!(done.err.contains("bash did not run") && !elsewhere.join("a.txt").exists(), "{done:?}");
}

#[test]
fn what_is_typed_before_a_question_is_no_answer_to_it() {
    let desk = Desk::new();
    let call = json!({"text": "Wait for it, it takes a while.", "chunk": 2, "delay_ms": 60, "tool_calls": [
        {"name": "bash", "arguments": {"command": "touch a.txt"}}
    ]});
    let script = desk.script("slow.json", json!([call, {"text": "Done."}]));
    let (code, screen) = desk.on_terminal_typing_ahead(&["run", "--script", &script, "go"], "y\r", "n\r");
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("the user said no") && !desk.work().join("a.txt").exists(), "{screen}");
    assert!(screen.contains("(run a shell command) s, a: bash(touch a.txt)"), "{screen}");
}

#[test]
fn a_project_can_forbid_and_not_allow() {
    let desk = Desk::new();
    let call = json!({"text": "", "tool_calls": [{"name": "bash", "arguments": {"command": "echo hi"}}]});
    let script = desk.script("echo.json", json!([call.clone(), {"text": "Done."}, call, {"text": "Done."}]));
    desk.write("playhouse.toml", "[permissions]\nforbid = [\"bash(echo *)\"]\n");
    let done = desk.run(&["run", "--permission", "yolo", "--script", &script, "go"]);
    assert!(done.err.contains("bash did not run: `bash` is forbidden here by the rule `bash(echo *)`"), "{done:?}");
    // Taken up from elsewhere, where there is no such file, it is still forbidden.
    std::fs::remove_file(desk.work().join("playhouse.toml")).unwrap();
    let session = session(&desk);
    let done = desk.run(&["run", "--session", &session, "go"]);
    assert!(done.err.contains("is forbidden here"), "{done:?}");
    desk.write("playhouse.toml", "[permissions]\nallow = [\"bash\"]\n");
    desk.run(&["run", "--script", &script, "go"]).refused(&["playhouse.toml", "permissions.allow"]);
}

#[test]
fn a_yes_for_good_means_the_same_when_it_is_read_again() {
    let desk = Desk::new();
    let config = desk.work().with_file_name("config.toml");
    // Read as they stand, the first fails the next start, the second allows another command.
    for (command, file) in [("touch '${NOT_SET}'", "${NOT_SET}"), ("touch '${HOME}$$x'", "${HOME}$$x")] {
        std::fs::write(&config, "").unwrap();
        let call = json!({"text": "", "tool_calls": [{"name": "bash", "arguments": {"command": command}}]});
        let script = desk.script("touch.json", json!([call, {"text": "Done."}]));
        let run = ["run", "--script", script.as_str(), "go"];
        let (code, screen) = desk.on_terminal_answering(&run, &config, "a\r");
        let (made, kept) = (desk.work().join(file), std::fs::read_to_string(&config).unwrap());
        assert!(code == Some(0) && made.exists(), "{screen}\n{kept}");
        std::fs::remove_file(&made).unwrap_or_else(|error| panic!("{error}: {screen}\n{kept}"));
        let done = desk.command(&run).env("PLAYHOUSE_CONFIG", &config).output().unwrap();
        assert!(done.status.success() && made.exists(), "{kept}\n{done:?}");
    }
}

#[test]
fn a_hooks_answer_that_cannot_be_read_blocks() {
    let desk = Desk::new();
    let config = desk.work().with_file_name("config.toml");
    let call = json!({"text": "", "tool_calls": [{"name": "bash", "arguments": {"command": "touch a.txt"}}]});
    let script = desk.script("touch.json", json!([call, {"text": "Done."}]));
    let deny = r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not that"}}"#;
    let (marked, wide) =
        (format!("\u{feff}{deny}"), deny.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    let answers: [(&[u8], &str); 8] = [
        (marked.as_bytes(), "not that"),
        (&[b"checking...\n", deny.as_bytes()].concat(), "cannot be read as one"),
        (&[b"checking: ", deny.as_bytes()].concat(), "cannot be read as one"),
        (&[b"[", deny.as_bytes(), b"]"].concat(), "cannot be read as one"),
        (&[&[0xff, 0xfe], wide.as_slice()].concat(), "cannot be read as one"),
        (br#""deny""#, "cannot be read as one"),
        (br#"{"permissionDecision": "deny"}"#, "`permissionDecision` where it means nothing"),
        (br#"{"Decision": "block"}"#, "`Decision` where it means nothing"),
    ];
    for (answer, told) in answers {
        std::fs::write(desk.work().join("answer"), answer).unwrap();
        let hook = "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ncommand = 'cat answer'\n";
        std::fs::write(&config, hook).unwrap();
        let mut command = desk.command(&["run", "--permission", "yolo", "--script", &script, "go"]);
        let done = command.env("PLAYHOUSE_CONFIG", &config).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!desk.work().join("a.txt").exists(), "{}: {said}", String::from_utf8_lossy(answer));
        assert!(said.contains(told), "{told}: {said}");
    }
    // What is plainly no answer says nothing.
    std::fs::write(desk.work().join("answer"), "[info] all {fine}\n").unwrap();
    let mut command = desk.command(&["run", "--permission", "yolo", "--script", &script, "go"]);
    let done = command.env("PLAYHOUSE_CONFIG", &config).output().unwrap();
    assert!(desk.work().join("a.txt").exists(), "{done:?}");
}

#[test]
fn a_question_shows_both_ends_of_a_command_and_takes_only_the_keys_it_offers() {
    let desk = Desk::new();
    let config = desk.work().with_file_name("config.toml");
    std::fs::write(&config, "").unwrap();
    let command =
        format!("touch first.txt; echo {} > /dev/null; rm -r middle; sh -c 'touch last.txt'", "x".repeat(5_000));
    let call = json!({"text": "", "tool_calls": [{"name": "bash", "arguments": {"command": command}}]});
    let script = desk.script("long.json", json!([call, {"text": "Done."}]));
    // Neither a key that is not offered nor none at all is an answer.
    let steps = [
        ("[y/n/?] ", "a\r"),
        ("Answer with one of these keys; ? explains them.\r\n[y/n/?] ", "?\r"),
        ("All of it:", ""),
        ("[y/n/?] ", "\r"),
        ("Answer with one of these keys; ? explains them.\r\n[y/n/?] ", "n not that\r"),
    ];
    let run = ["run", "--script", script.as_str(), "go"];
    let (code, screen) = desk.on_terminal_typing(&run, &config, &steps);
    assert_eq!(code, Some(0), "{screen}");
    let (asked, _) = screen.split_once("[y/n/?] ").unwrap();
    assert!(
        asked.contains("Allow bash (dangerous): touch first.txt; echo xxx") && asked.contains("touch last.txt'"),
        "{asked}"
    );
    assert!(asked.contains("characters are left out: ? shows them") && asked.chars().count() < 900, "{asked}");
    assert!(asked.contains("It runs touch, echo, rm, sh"), "{asked}");
    assert!(screen.contains(&"x".repeat(80)) && screen.contains("a yes for longer is not offered"), "{screen}");
    assert!(screen.contains("the user said no: not that") && !desk.work().join("first.txt").exists(), "{screen}");
}

#[test]
fn an_edit_is_asked_about_as_a_diff_with_its_path_first() {
    let desk = Desk::new();
    let config = desk.work().with_file_name("config.toml");
    std::fs::write(&config, "").unwrap();
    desk.write("a.txt", "one\ntwo\nthree\n");
    let edits = json!([{"old_text": "one\ntwo", "new_text": "one\n2"}]);
    let call =
        json!({"text": "", "tool_calls": [{"name": "edit_file", "arguments": {"edits": edits, "path": "a.txt"}}]});
    let script = desk.script("edit.json", json!([call, {"text": "Done."}]));
    let (code, screen) = desk.on_terminal_answering(&["run", "--script", &script, "go"], &config, "y\r");
    assert_eq!(code, Some(0), "{screen}");
    let keys = "Keys: y yes, s yes in this session, n no (what follows it is told to the model), ? shows all";
    assert!(screen.contains(keys), "the keys are explained: {screen:?}");
    let plain = ["\x1b[31m", "\x1b[32m", "\x1b[0m"].iter().fold(screen.clone(), |text, code| text.replace(code, ""));
    assert_ne!(plain, screen, "in colours");
    assert!(plain.contains("Allow edit_file: a.txt\r\n  one\r\n- two\r\n+ 2\r\n(edit a file)"), "{screen:?}");
    assert_eq!(std::fs::read_to_string(desk.work().join("a.txt")).unwrap(), "one\n2\nthree\n");
}
