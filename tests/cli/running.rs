//! What a run prints and keeps.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::support::{Desk, files};

#[test]
fn a_run_prints_the_answer_on_stdout_and_its_tools_on_stderr() {
    let desk = Desk::new();
    desk.write("note.txt", "under the stage");
    let turns = json!([
        {"thinking": "hm", "text": "Let me look.", "tool_calls": [{"name": "read_file", "arguments": {"path": "note.txt"}}]},
        {"text": "It is under\nthe stage.", "chunk": 3},
    ]);
    let script = desk.script("s.json", turns);
    let done = desk.run(&["run", "find it", "--script", &script]);
    done.said("It is under\nthe stage.\n");
    assert!(done.err.starts_with("Let me look.\n▸ read_file: note.txt\n• read_file: note.txt (15 bytes) "), "{done:?}");
    assert!(!done.err.contains('\x1b') && !done.err.contains("waiting"), "nothing fancy without a terminal: {done:?}");
}

#[test]
fn a_run_edits_files_and_shows_that_in_a_line() {
    let desk = Desk::new();
    desk.write("note.txt", "under the stage");
    let edits = json!([{"old_text": "under", "new_text": "behind"}]);
    let turns = json!([
        {"tool_calls": [{"name": "search", "arguments": {"pattern": "stage", "glob": "note.*"}}]},
        {"tool_calls": [{"name": "edit_file", "arguments": {"path": "note.txt", "edits": edits}}]},
        {"tool_calls": [{"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}}]},
        {"text": "Moved."},
    ]);
    let script = desk.script("s.json", turns);
    let done = desk.run(&["run", "move it", "--script", &script, "--permission", "yolo"]);
    done.said("Moved.\n");
    for line in ["• search: stage (1 match) ", "• edit_file: note.txt (1 edit) ", "• write_file: new.txt (1 byte) "]
    {
        assert!(done.err.contains(line), "{line}: {done:?}");
    }
    let read = |name: &str| std::fs::read_to_string(desk.work().join(name)).unwrap();
    assert_eq!((read("note.txt").as_str(), read("new.txt").as_str()), ("behind the stage", "x"));
}

#[test]
fn json_is_one_event_per_line_in_the_order_of_the_contract() {
    let desk = Desk::new();
    let turns = json!([
        {"tool_calls": [{"name": "list_files", "arguments": {}}]},
        {"text": "a few words", "chunk": 2},
    ]);
    let script = desk.script("s.json", turns);
    let done = desk.run(&["run", "go", "--script", &script, "--json"]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
    let turn = ["TurnStart", "ModelRequestStart", "MessageStart", "MessageUpdate", "MessageEnd"];
    let tool = ["ToolExecutionStart", "ToolExecutionEnd", "MessageStart", "MessageEnd"];
    let mut expected = vec!["AgentStart", "TurnStart", "MessageStart", "MessageEnd"];
    expected.extend(&turn[1..]);
    expected.extend(tool);
    expected.push("TurnEnd");
    expected.extend(turn);
    expected.extend(["TurnEnd", "AgentEnd"]);
    assert_eq!(done.names(), expected);
    let events = done.events();
    assert!(events.iter().all(|event| event.session_id == events[0].session_id && event.loop_id == events[0].loop_id));
    assert!(events.is_sorted_by(|a, b| a.id < b.id), "ids only grow");
}

#[test]
fn a_prompt_can_come_from_stdin() {
    let desk = Desk::new();
    let turns = json!([{"text": "piped", "when": {"prompt_contains": "two\nlines"}}, {"text": "other"}]);
    let script = desk.script("s.json", turns);
    desk.pipe(&["run", "--script", &script], b"two\nlines\n").said("piped\n");
    desk.pipe(&["run", "-", "--script", &script], "two\nlines".as_bytes()).said("piped\n");
    desk.pipe(&["run", "given", "--script", &script], b"two\nlines").said("piped\n");
    desk.run(&["run", "given", "--script", &script]).said("other\n");
    desk.pipe(&["run", "--script", &script], b" \n ").refused(&["the prompt is empty"]);
    desk.pipe(&["run", "--script", &script], b"\xff\xfe").refused(&["stdin", "UTF-8"]);
    desk.run(&["run", "", "--script", &script]).refused(&["the prompt is empty"]);
}

#[test]
fn bash_is_denied_without_a_terminal_and_runs_with_yolo() {
    let desk = Desk::new();
    let turns = json!([{"tool_calls": [{"name": "bash", "arguments": {"command": "echo x > made"}}]}, {"text": "ok"}]);
    let script = desk.script("s.json", turns);
    let done = desk.run(&["run", "go", "--script", &script]);
    done.said("ok\n");
    assert!(done.err.contains("bash did not run") && done.err.contains("--permission yolo"), "{done:?}");
    assert!(!desk.work().join("made").exists());
    let done = desk.run(&["run", "go", "--script", &script, "--permission", "yolo"]);
    done.said("ok\n");
    assert!(done.err.contains("• bash: echo x > made (exit 0)"), "{done:?}");
    assert!(desk.work().join("made").exists());
}

#[test]
fn tools_are_those_that_are_named() {
    let desk = Desk::new();
    let turns = json!([
        {"tool_calls": [{"name": "sub_agent", "arguments": {"task": "count"}}]},
        {"text": "done"},
        {"tool_calls": [{"name": "list_files", "arguments": {}}], "when": {"prompt_contains": "count"}},
        {"text": "one two", "when": {"prompt_contains": "count"}},
    ]);
    let script = desk.script("s.json", turns);
    let run = |tools: &[&str]| desk.run(&[&["run", "go", "--script", &script, "--json"], tools].concat());
    assert!(run(&[]).names().contains(&"ToolBlocked".to_owned()), "no helper unless it is asked for");
    assert!(run(&["--tools", "none"]).names().contains(&"ToolBlocked".to_owned()));
    let done = run(&["--tools", "list_files,sub_agent"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("one two") && done.names().contains(&"SubAgentEnd".to_owned()), "{done:?}");
    let sessions = desk.sessions();
    let child = sessions.iter().find(|session| session["parent"].is_string()).unwrap();
    assert_eq!((child["kind"].as_str(), child["messages"].as_u64()), (Some("cli/sub_agent"), Some(4)), "{child}");
    let list = desk.run(&["sessions", "list"]);
    let child = child["session_id"].as_str().unwrap();
    assert!(list.out.contains(&format!("\n└ {child}")), "{list:?}");
    desk.run(&["run", "hi", "--session", child]).refused(&["belongs to a sub-agent", "resume its parent"]);
    desk.run(&["resume", child]).refused(&["belongs to a sub-agent"]);
    desk.run(&["sessions", "rm", child]).refused(&["belongs to a sub-agent", "remove its parent"]);
}

#[test]
fn a_session_goes_on_and_given_flags_change_it() {
    let desk = Desk::new();
    let first = desk.script("first.json", json!([{"text": "one"}, {"text": "two"}, {"text": "never"}]));
    desk.run(&["run", "a", "--script", &first, "--system", "old", "--max-turns", "7"]).said("one\n");
    let session = desk.session();
    desk.run(&["run", "b", "--session", &session]).said("two\n");
    let configured = |desk: &Desk| -> Vec<Value> {
        let entries = desk.entries(&session).into_iter();
        entries.map(|entry| entry["body"].clone()).filter(|body| body["type"] == "configured").collect()
    };
    assert_eq!(configured(&desk), Vec::<Value>::new(), "nothing was changed");

    let second = desk.script("second.json", json!([{"text": "x"}, {"text": "x"}, {"text": "other script"}]));
    std::fs::remove_file(&first).unwrap();
    desk.run(&["run", "c", "--session", &session]).refused(&["first.json", "cannot be read"]);
    let done =
        desk.run(&["run", "c", "--session", &session, "--script", &second, "--system", "new", "--tools", "bash"]);
    done.said("other script\n");
    let changed = configured(&desk);
    assert_eq!(changed.len(), 1, "{changed:?}");
    let settings = &changed[0]["settings"];
    assert_eq!(settings["system_prompt"], "new");
    assert_eq!(settings["tools"], json!(["bash"]));
    assert_eq!(settings["limits"]["max_turns"], 7, "what was not given stays");
    assert_eq!(settings["model"]["script"], second);
    assert_eq!(desk.session(), session);
    let shown = desk.run(&["sessions", "show", &session]);
    for part in ["user:\na\n", "assistant:\none\n", "user:\nc\n", "assistant:\nother script\n"] {
        assert!(shown.out.contains(part), "{part}: {shown:?}");
    }
    let refused = desk.run(&["run", "d", "--session", &session, "--durability", "none"]);
    refused.refused(&["--durability none"]);
}

#[test]
fn continue_is_the_newest_session_of_the_directory() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "one"}, {"text": "two"}]));
    std::fs::create_dir(desk.work().join("deeper")).unwrap();
    desk.run(&["run", "a", "--continue"]).refused(&["no session of", "without --continue"]);
    desk.run(&["run", "here", "--script", &script]).said("one\n");
    desk.run(&["run", "there", "--script", &script, "--cwd", "deeper"]).said("one\n");
    desk.run(&["run", "more", "--continue"]).said("two\n");
    desk.run(&["run", "more", "--continue", "--cwd", "work/../deeper"]).refused(&["--cwd"]);
    desk.run(&["run", "more", "--continue", "--cwd", "deeper/../deeper"]).said("two\n");
    let prompts: Vec<Value> = desk.sessions().into_iter().map(|session| session["first_prompt"].clone()).collect();
    assert_eq!(prompts, ["there", "here"], "no third session was made");
}

#[test]
fn sessions_are_listed_shown_and_removed() {
    let desk = Desk::new();
    let done = desk.run(&["sessions", "list"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""));
    assert!(done.err.contains("no sessions") && !desk.data().exists(), "looking makes nothing: {done:?}");
    let script = desk.script("s.json", json!([{"text": "one"}]));
    desk.run(&["run", "first\nprompt", "--script", &script]).said("one\n");
    let session = desk.session();
    let listed = desk.run(&["sessions", "list"]);
    let line = listed.out.lines().nth(1).unwrap();
    assert!(
        line.starts_with(&session) && line.ends_with("done           2  scripted/script           first prompt"),
        "{line}"
    );
    let removed = desk.run(&["sessions", "rm", &session, "--json"]);
    removed.said(&format!("{{\"removed\":\"{session}\"}}\n"));
    desk.run(&["sessions", "show", &session]).refused(&["no session", &session]);
    desk.run(&["sessions", "rm", &session]).refused(&["no session", &session]);
    assert_eq!(desk.sessions(), Vec::<Value>::new());
}

#[test]
fn without_durability_nothing_is_kept() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "gone"}]));
    let done = desk.run(&["run", "a", "--script", &script, "--durability", "none"]);
    done.said("gone\n");
    assert!(done.err.contains("cannot be resumed"), "{done:?}");
    assert!(!desk.data().exists());
}

#[test]
fn f29_a_journal_with_a_bad_line_opens_and_says_so() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "one"}, {"text": "two"}]));
    desk.run(&["run", "a", "--script", &script]).said("one\n");
    let session = desk.session();
    let journal =
        files(&desk.data()).into_iter().find(|path| path.extension().is_some_and(|e| e == "journal")).unwrap();
    let mut lines: Vec<String> = std::fs::read_to_string(&journal).unwrap().lines().map(str::to_owned).collect();
    lines[2] = "garbage".to_owned();
    std::fs::write(&journal, format!("{}\n", lines.join("\n"))).unwrap();
    let listed = desk.run(&["sessions", "list"]);
    assert!(listed.code == Some(0) && listed.out.contains("damaged: line 3 was skipped"), "{listed:?}");
    let shown = desk.run(&["sessions", "show", &session]);
    assert!(shown.code == Some(0) && shown.out.contains("one") && shown.err.contains("line 3"), "{shown:?}");
    let done = desk.run(&["run", "b", "--session", &session, "--accept-broken-chain", "--script", &script]);
    done.said("one\n");
    assert!(done.err.contains("warning: the journal of session") && done.err.contains("line 3"), "{done:?}");
}

/// Answers one request with a short stream, and gives the request.
fn serve(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "from afar"}, "finish_reason": "stop"}]});
    let answer = format!("data: {piece}\n\ndata: [DONE]\n\n");
    let start = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{start}{answer}").as_bytes()).unwrap();
    head + &String::from_utf8(body).unwrap()
}

#[test]
fn a_model_over_http_gets_the_key_and_the_journal_does_not() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || [serve(&listener), serve(&listener), serve(&listener)]);
    let ask = |args: &[&str], key: Option<&str>, from_environment: Option<&str>| {
        let mut command = desk.command(args);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        key.map(|key| command.env("OPENAI_API_KEY", key));
        from_environment.map(|url| command.env("OPENAI_BASE_URL", url));
        super::support::finish(command.spawn().unwrap())
    };
    let model = ["--model", "openai/some-model"];
    ask(&[&["run", "a", "--base-url", &url][..], &model].concat(), Some("sk-canary"), Some("http://127.0.0.1:1/v1"))
        .said("from afar\n");
    ask(&[&["run", "b"][..], &model].concat(), None, Some(&url)).said("from afar\n");
    ask(&["run", "c", "--continue"], Some("sk-canary"), None).said("from afar\n");
    let requests = serving.join().unwrap();
    let keys = requests.each_ref().map(|request| request.to_lowercase().contains("authorization: bearer sk-canary"));
    assert_eq!(keys, [true, false, true], "a service on this machine can do without a key");
    assert!(requests[0].contains("POST /v1/chat/completions") && requests[0].contains("some-model"));
    assert!(requests[2].contains("from afar"), "the conversation goes on: {}", requests[2]);
    for file in files(&desk.data()) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("canary"), "{}", file.display());
    }
}
