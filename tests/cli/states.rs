//! How a session stands after each way to end, what lists say of it, and what `resume` does: docs/outcomes.md.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{Desk, finish};
use super::wires::{Answer, WIRES};

/// What the list says of the one session, in JSON and in words.
fn stands(desk: &Desk) -> (Value, String) {
    let session = desk.sessions().remove(0);
    (session["status"].clone(), desk.run(&["sessions", "list"]).out)
}

/// Nothing is left to do by itself.
#[track_caller]
fn rests(desk: &Desk) {
    let done = desk.run(&["resume"]);
    done.said("");
    assert!(done.err.contains("nothing to resume"), "{done:?}");
}

#[test]
fn a_failed_session_is_called_so_and_goes_on_from_where_it_failed() {
    let desk = Desk::new();
    let look = json!({"tool_calls": [{"name": "list_files", "arguments": {}}]});
    let refused = json!({"error": {"status": 401, "message": "bad key"}});
    let script = desk.script("s.json", json!([look, refused]));
    let done = desk.run(&["run", "go", "--script", &script]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let (status, list) = stands(&desk);
    assert_eq!(status, "failed");
    assert!(list.contains("  failed  ") && list.contains("failed: the provider refused the key"), "{list}");
    let session = desk.session();
    assert!(desk.run(&["sessions", "show", &session]).err.contains("failed: the provider refused the key"));
    rests(&desk);
    // It failed for good: it is asked for by name, and then what was done is not done again.
    desk.script("s.json", json!([look, {"text": "there now"}]));
    desk.run(&["resume", &session]).said("there now\n");
    assert_eq!(stands(&desk).0, "done");
    let looked = desk.entries(&session).iter().filter(|entry| entry["body"]["type"] == "tool_started").count();
    assert_eq!(looked, 1);
    let done = desk.run(&["resume", &session]);
    done.said("");
    assert!(done.err.contains("is finished: nothing to resume"), "{done:?}");
}

#[test]
fn a_limited_session_goes_on_under_a_fresh_allowance() {
    let desk = Desk::new();
    let look = json!({"tool_calls": [{"name": "list_files", "arguments": {}}]});
    let script = desk.script("s.json", json!([look, look, look, {"text": "at last"}]));
    let done = desk.run(&["run", "go", "--script", &script, "--max-turns", "2"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let (status, list) = stands(&desk);
    assert_eq!((&status, &desk.sessions()[0]["limit"]), (&json!("limited"), &json!({"turns": 2})));
    assert!(list.contains("limited: max turns reached (2)"), "{list}");
    rests(&desk);
    desk.run(&["resume", &desk.session()]).said("at last\n");
    assert_eq!(stands(&desk).0, "done");
}

#[test]
fn an_aborted_session_goes_on_without_what_it_was_saying() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "half ".repeat(2_000), "chunk": 1, "delay_ms": 20}]));
    let running = desk.start_until(&["run", "go", "--script", &script], "MessageUpdate");
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(130));
    assert_eq!(stands(&desk).0, "aborted");
    rests(&desk);
    desk.script("s.json", json!([{"text": "whole"}]));
    desk.run(&["resume", &desk.session()]).said("whole\n");
    assert_eq!(stands(&desk).0, "done");
}

#[test]
fn a_session_that_reached_no_service_stays_unfinished() {
    let desk = Desk::new();
    let settings = desk.write("once.toml", "[retry]\nmax_retries = 0\n");
    let settings = settings.to_str().unwrap();
    // A port on which nobody listens, until later.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let service = format!("http://127.0.0.1:{port}/v1");
    let run = ["run", "go", "--config", settings, "--model", "vllm/m", "--base-url", &service, "--tools", "none"];
    assert_eq!(desk.run(&run).code, Some(1));
    let (status, list) = stands(&desk);
    assert_eq!(status, "unfinished", "{list}");
    assert!(list.contains("unfinished: no answer from the provider: "), "{list}");
    // However often there is no network, nothing is used up.
    for _ in 0..2 {
        assert_eq!(desk.run(&["resume", "--config", settings]).code, Some(1));
        assert_eq!(stands(&desk).0, "unfinished");
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let _ = socket.read(&mut [0; 65_536]);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let part = |delta: Value, reason: Value| {
                let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
                format!("data: {}\n\n", json!({"id": "x", "model": "m", "choices": [choice]}))
            };
            let (text, end) = (part(json!({"content": "here I am"}), Value::Null), part(json!({}), json!("stop")));
            let _ = write!(socket, "{head}{text}{end}data: [DONE]\n\n");
        }
    });
    desk.run(&["resume", "--config", settings]).said("here I am\n");
    assert_eq!(stands(&desk).0, "done");
}

#[test]
fn a_session_that_a_service_had_no_time_for_stays_unfinished_and_the_hint_goes_on_with_it() {
    let wire = &WIRES[1];
    for status in [429, 500, 502, 503, 529] {
        let desk = Desk::new();
        let url = wire.serve(move |number, _| if number == 0 { Answer::Fails(status) } else { Answer::Says("Here.") });
        let asked = |args: &[&str]| {
            let mut command = desk.command(args);
            command.env(wire.address.0, &url).envs(wire.variables.iter().copied());
            command.env("PLAYHOUSE_RETRY_MAX_RETRIES", "0").stdout(Stdio::piped()).stderr(Stdio::piped());
            finish(command.spawn().unwrap())
        };
        let done = asked(&["run", "go", "--model", "openai/m", "--tools", "none"]);
        let hint = format!("go on with: playhouse resume {}\n", &desk.session()[..12]);
        assert!(done.code == Some(1) && done.err.ends_with(&hint), "{status}: {done:?}");
        let (state, list) = stands(&desk);
        assert_eq!(state, "unfinished", "{status}: {list}");
        asked(&["resume"]).said("Here.\n");
        assert_eq!(stands(&desk).0, "done", "{status}");
    }
}

/// Sessions whose processes were killed.
fn killed(desk: &Desk, script: &str, event: &str, count: usize) -> Vec<String> {
    let start = |_| {
        let running = desk.start_until(&["run", "go", "--script", script, "--permission", "yolo"], event);
        let session = running.session.clone();
        running.kill();
        session
    };
    (0..count).map(start).collect()
}

#[test]
fn sessions_that_wait_for_a_silent_model_keep_nobody_out() {
    let desk = Desk::new();
    let silent = desk.script("silent.json", json!([{"text": "ab", "chunk": 1, "delay_ms": 3_600_000}]));
    killed(&desk, &silent, "ModelRequestStart", 12);
    let sleep = json!({"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]});
    let healthy = desk.script("healthy.json", json!([sleep, {"text": "done"}]));
    let mut healthy = killed(&desk, &healthy, "ToolExecutionStart", 4);
    let mut running = desk.start_until(&["resume"], "AgentRestarted");
    while !healthy.is_empty() {
        let ended = running.wait_for("AgentEnd")["session_id"].clone();
        healthy.retain(|session| ended != session.as_str());
    }
    running.kill();
}

#[test]
fn what_another_process_goes_on_with_is_no_failure() {
    let desk = Desk::new();
    let sleep = json!({"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]});
    let script = desk.script("s.json", json!([sleep, {"text": "a few words", "chunk": 1, "delay_ms": 5}]));
    killed(&desk, &script, "ToolExecutionStart", 6);
    let all: Vec<_> = (0..8).map(|_| desk.start(&["resume"])).collect();
    for child in all {
        let done = finish(child);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert!(desk.sessions().iter().all(|one| one["status"] == "done"), "{:#?}", desk.sessions());
}

#[cfg(feature = "fail-points")]
#[test]
fn f54_a_prompt_that_may_be_in_the_journal_is_not_called_refused() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "hello"}]));
    let mut command = desk.command(&["run", "go", "--script", &script]);
    let done = command.env("PLAYHOUSE_FAIL", "flush-error:1").output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    let session = desk.session();
    assert_eq!((done.status.code(), stands(&desk).0), (Some(1), json!("unfinished")), "{err}");
    for words in ["it is not known whether", &format!("playhouse sessions show {}", &session[..12]), "playhouse resume"]
    {
        assert!(err.contains(words), "{words}: {err}");
    }
    assert!(desk.run(&["sessions", "show", &session]).out.contains("go"));
    desk.run(&["resume", &session]).said("hello\n");
}
