//! A session whose journal is damaged is called so, is passed over by nobody, and goes on when a person accepts it.

use std::path::PathBuf;

use playhouse::protocol::SessionId;
use playhouse::session::{FileStore, Store};
use serde_json::json;

use super::support::{Desk, Done, files};

/// A desk with one session whose process was killed while its tool ran; its journal, and the session.
fn killed() -> (Desk, PathBuf, String) {
    let desk = Desk::new();
    let sleep = json!({"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]});
    let script = desk.script("s.json", json!([sleep, {"text": "finished"}]));
    let running =
        desk.start_until(&["run", "say it", "--script", &script, "--permission", "yolo"], "ToolExecutionStart");
    let session = running.session.clone();
    running.kill();
    let journal = files(&desk.data()).into_iter().find(|path| path.extension().is_some_and(|end| end == "journal"));
    (desk, journal.unwrap(), session)
}

/// `resume` of the one session, accepted, with a model of today.
fn accept(desk: &Desk, session: &str) -> Done {
    let script = desk.script("today.json", json!([{"text": "as far as it goes"}]));
    let mut command = desk.command(&["resume", session, "--accept-broken-chain"]);
    command.env("PLAYHOUSE_MODEL", format!("scripted/{script}"));
    super::support::finish(
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap(),
    )
}

#[test]
fn f57_a_session_with_any_line_unreadable_is_damaged_and_goes_on_when_that_is_accepted() {
    let (desk, journal, session) = killed();
    let whole = std::fs::read(&journal).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    assert!(lines.len() > 5, "{}", lines.len());
    for broken in 0..lines.len() {
        let mut bytes = Vec::new();
        for (n, line) in lines.iter().enumerate() {
            if n == broken { bytes.extend_from_slice(b"garbage\n") } else { bytes.extend_from_slice(line) }
        }
        std::fs::write(&journal, &bytes).unwrap();
        let listed = desk.sessions().into_iter().find(|one| one["session_id"] == session.as_str()).unwrap();
        assert_eq!((&listed["status"], &listed["last_run"]), (&json!("damaged"), &json!("unknown")), "line {broken}");
        let words = desk.run(&["sessions", "list"]).out;
        assert!(words.contains("  damaged  ") && words.contains("--accept-broken-chain"), "line {broken}: {words}");
        let done = desk.run(&["resume"]);
        assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "line {broken}: {done:?}");
        assert!(done.err.contains(&session[..12]), "line {broken}: {done:?}");
        desk.run(&["resume", &session]).refused(&["is damaged", "--accept-broken-chain"]);
        desk.run(&["run", "on", "--session", &session]).refused(&["is damaged", "--accept-broken-chain"]);
        assert_eq!(std::fs::read(&journal).unwrap(), bytes, "line {broken}: looking changes nothing");

        let done = accept(&desk, &session);
        done.said("as far as it goes\n");
        let sessions = desk.sessions();
        let new = sessions.iter().find(|one| one["session_id"] != session.as_str()).unwrap();
        assert_eq!((&new["status"], &new["kind"]), (&json!("done"), &json!("cli")), "line {broken}");
        let new = new["session_id"].as_str().unwrap().to_owned();
        assert!(done.err.contains(&new[..12]), "line {broken}: {done:?}");
        // The prompt is there whichever line was lost: `input` and `turn_started` both have it.
        assert!(desk.run(&["sessions", "show", &new]).out.contains("say it"), "line {broken}");
        let opened = &desk.entries(&new)[0]["body"];
        assert_eq!(opened["settings"]["permission"], "ask", "line {broken}: today's settings");
        // It went on: nothing is left to do, and nothing is named any more.
        let done = desk.run(&["resume"]);
        done.said("");
        desk.run(&["sessions", "rm", &new]);
    }
}

#[test]
fn f57_a_journal_that_is_garbage_is_damaged_and_nothing_goes_on() {
    let (desk, journal, session) = killed();
    for garbage in [&b"garbage\n"[..], b"garbage\ngarbage\n", &[0xff; 4_096]] {
        std::fs::write(&journal, garbage).unwrap();
        assert_eq!(desk.sessions()[0]["status"], "damaged", "{garbage:?}");
        let done = desk.run(&["resume"]);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains(&session[..12]) && !done.err.contains("nothing to resume"), "{done:?}");
        let done = accept(&desk, &session);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains("can be read: remove it"), "{done:?}");
    }
}

#[test]
fn f57_a_session_that_had_ended_is_damaged_and_waits_for_nobody() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "ok"}, {"text": "again"}]));
    desk.run(&["run", "a", "--script", &script]).said("ok\n");
    let session = desk.session();
    let journal = files(&desk.data()).into_iter().find(|path| path.extension().is_some_and(|end| end == "journal"));
    let journal = journal.unwrap();
    let text = std::fs::read_to_string(&journal).unwrap();
    let second = text.lines().nth(1).unwrap();
    std::fs::write(&journal, text.replace(second, "garbage")).unwrap();
    let listed = desk.sessions().remove(0);
    assert_eq!((&listed["status"], &listed["last_run"]), (&json!("damaged"), &json!("ended")));
    let done = desk.run(&["resume"]);
    done.said("");
    let done = desk.run(&["run", "b", "--session", &session, "--accept-broken-chain", "--script", &script]);
    done.said("ok\n");
    assert_ne!(desk.sessions()[0]["session_id"], session.as_str());
}

#[test]
fn f57_a_journal_under_another_sessions_name_does_not_go_on() {
    let (desk, journal, session) = killed();
    let copy = "copy-of-it";
    let whole = std::fs::read(&journal).unwrap();
    let data = FileStore::look(desk.data()).unwrap().data_dir().unwrap();
    let named = data.journal(&SessionId::new(copy).unwrap());
    std::fs::create_dir_all(named.parent().unwrap()).unwrap();
    std::fs::write(&named, &whole).unwrap();
    let done = desk.run(&["resume", copy]);
    assert!(done.code != Some(0) && done.err.contains(&session), "{done:?}");
    let done = desk.run(&["run", "b", "--session", copy]);
    assert!(done.code != Some(0) && done.err.contains(&session), "{done:?}");
    assert_eq!(std::fs::read(&journal).unwrap(), whole, "the session itself is as it was");
}

#[test]
fn f57_what_is_said_of_a_damaged_session_names_it_by_a_short_id() {
    let (desk, journal, session) = killed();
    let whole = std::fs::read_to_string(&journal).unwrap();
    let second = whole.lines().nth(1).unwrap();
    std::fs::write(&journal, whole.replace(second, "garbage")).unwrap();
    let short = &session[..12];
    let show = format!("playhouse sessions show {short}`");
    for args in [&["resume"][..], &["resume", short], &["run", "on", "--session", short], &["sessions", "show", short]]
    {
        let done = desk.run(args);
        assert!(done.err.contains(&show) && !done.err.contains(&session), "{args:?}: {done:?}");
    }
    let done = desk.run(&["audit", "show", short]);
    assert!(done.err.contains(&format!("session {short}: line 2")) && !done.err.contains(&session), "{done:?}");
    let elsewhere = desk.run(&["--data-dir", desk.data().to_str().unwrap(), "resume", short]);
    let flag = format!("playhouse resume {short} --data-dir {} --accept-broken-chain`", desk.data().display());
    assert!(elsewhere.err.contains(&flag), "{elsewhere:?}");
    let done = accept(&desk, short);
    done.said("as far as it goes\n");
    assert!(
        done.err.contains(&format!("session {short} goes on as session ")) && !done.err.contains(&session),
        "{done:?}"
    );
}

#[test]
fn f57_a_torn_tail_is_no_damage() {
    let (desk, journal, session) = killed();
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes.extend_from_slice(b"{\"seq\":99,\"epo");
    std::fs::write(&journal, bytes).unwrap();
    assert_eq!(desk.sessions()[0]["status"], "unfinished");
    desk.run(&["resume", &session]).said("finished\n");
}

#[test]
fn f57_a_sub_agent_whose_journal_is_damaged_repeats_nothing_and_its_parent_is_told() {
    let desk = Desk::new();
    let bash = json!({"name": "bash", "arguments": {"command": "echo ran >> ran.txt; echo so; sleep 600"}});
    let turns = json!([
        {"when": {"prompt_contains": "parent"}, "tool_calls": [{"name": "sub_agent", "arguments": {"task": "child"}}]},
        {"when": {"prompt_contains": "parent"}, "text": "told"},
        {"when": {"prompt_contains": "child"}, "tool_calls": [bash]},
        {"when": {"prompt_contains": "child"}, "text": "went on"},
    ]);
    let script = desk.script("s.json", turns);
    let args = ["run", "parent", "--script", &script, "--tools", "bash,sub_agent", "--permission", "yolo"];
    desk.start_until(&args, "ToolExecutionUpdate").kill();
    let sessions = desk.sessions();
    let is_child = |session: &&serde_json::Value| !session["parent"].is_null();
    let child = sessions.iter().find(is_child).unwrap()["session_id"].as_str().unwrap().to_owned();
    let parent = sessions.iter().find(|one| !is_child(one)).unwrap()["session_id"].as_str().unwrap().to_owned();
    let stored: Vec<(PathBuf, Vec<u8>)> = files(&desk.data())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "journal" || end == "owner"))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    let is_its = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap() == format!("{child}.journal");
    let (journal, whole) = stored.iter().find(|(path, _)| is_its(path)).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let without = |broken: usize| {
        let mut left = lines.clone();
        left[broken] = b"garbage\n";
        left.concat()
    };
    let mut damages: Vec<Vec<u8>> = (0..lines.len()).map(without).collect();
    damages.push(b"nothing of this is a journal ".repeat(100));
    for (n, damaged) in damages.iter().enumerate() {
        for (path, bytes) in &stored {
            std::fs::write(path, bytes).unwrap();
        }
        std::fs::write(journal, damaged).unwrap();
        let done = desk.run(&["resume", &parent]);
        done.said("told\n");
        let result = desk.run(&["sessions", "show", &parent]).out;
        assert!(result.contains("is damaged") && result.contains("verify before repeating"), "{n}: {result}");
        assert_eq!(std::fs::read_to_string(desk.work().join("ran.txt")).unwrap(), "ran\n", "{n}: {done:?}");
    }
}

#[cfg(feature = "fail-points")]
#[test]
fn f57_what_no_guard_has_passed_is_not_in_the_conversation_that_goes_on() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "hello"}]));
    let mut command = desk.command(&["run", "say it", "--script", &script]);
    // Killed when the prompt is journaled, before anything came of it.
    command.env("PLAYHOUSE_FAIL", "append-after:2").output().unwrap();
    let session = desk.session();
    let journal = files(&desk.data()).into_iter().find(|path| path.extension().is_some_and(|end| end == "journal"));
    let journal = journal.unwrap();
    let text = std::fs::read_to_string(&journal).unwrap();
    let prompt = text.lines().nth(1).unwrap();
    std::fs::write(&journal, format!("garbage\n{prompt}\n")).unwrap();
    let config = desk.work().with_file_name("config.toml");
    let guard = r#"[[hooks.UserPromptSubmit]]
hooks = [{ type = "command", command = "echo 'not this' >&2; exit 2" }]
"#;
    std::fs::write(&config, guard).unwrap();
    let today = desk.script("today.json", json!([{"text": "never"}]));
    let mut command = desk.command(&["resume", &session, "--accept-broken-chain"]);
    command.env("PLAYHOUSE_MODEL", format!("scripted/{today}")).env("PLAYHOUSE_CONFIG", &config);
    let done = command.output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(1), &b""[..]), "{told}");
    assert!(told.contains("rejected") && told.contains("not this"), "{told}");
    let sessions = desk.sessions();
    let new = sessions.iter().find(|one| one["session_id"] != session.as_str()).unwrap();
    assert_eq!(new["messages"], 0, "{new}");
}
