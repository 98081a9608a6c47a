//! How a run ends other than well: failures, limits, signals, readers that leave.

use std::io::Read;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use super::support::{Desk, Running, finish, send};

fn slow() -> Value {
    json!([{"text": "slow ".repeat(2_000), "chunk": 1, "delay_ms": 20}])
}

#[test]
fn a_run_that_fails_is_1_and_one_that_hits_a_limit_is_3() {
    let desk = Desk::new();
    let broken = desk.script("broken.json", json!([{"error": {"status": 400, "message": "no such model"}}]));
    let done = desk.run(&["run", "a", "--script", &broken]);
    assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{done:?}");
    assert!(done.err.starts_with("error: the run failed: ") && done.err.contains("no such model"), "{done:?}");
    let short = desk.script("short.json", json!([]));
    let done = desk.run(&["run", "a", "--script", &short]);
    assert_eq!(done.code, Some(1), "a script that is over: {done:?}");
    let turn = json!({"tool_calls": [{"name": "list_files", "arguments": {}}]});
    let turns = desk.script("turns.json", json!([turn, turn, {"text": "never"}]));
    let done = desk.run(&["run", "a", "--script", &turns, "--max-turns", "2"]);
    assert_eq!((done.code, done.out.as_str()), (Some(3), ""), "{done:?}");
    assert!(done.err.contains("error: stopped: max turns reached (2)"), "{done:?}");
    assert!(done.err.contains("playhouse resume "), "it says how to go on: {done:?}");
}

#[test]
fn an_interrupt_aborts_the_run_and_says_what_is_saved() {
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let desk = Desk::new();
        let script = desk.script("s.json", slow());
        let running = desk.start_until(&["run", "a", "--script", &script], "MessageUpdate");
        let session = running.session.clone();
        running.signal(signal);
        let (code, events, err) = running.end();
        assert_eq!(code, Some(expected), "{err}");
        let short = &session[..12];
        let line = format!("interrupted; session {short} is saved, go on with: playhouse resume {short}\n");
        assert_eq!(err, line);
        let end = events.last().unwrap();
        assert_eq!((&end["type"], &end["outcome"]["type"]), (&json!("AgentEnd"), &json!("aborted")));
        assert_eq!(desk.sessions()[0]["status"], "aborted", "the abort is journaled");
    }
}

#[test]
fn an_interrupt_leaves_no_process_behind() {
    let desk = Desk::new();
    // A partial result is shown while it runs: by then the file is there.
    let command = "echo $$ > pid; echo here; exec sleep 600";
    let turns = json!([{"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": "x"}]);
    let script = desk.script("s.json", turns);
    let args = ["run", "a", "--script", &script, "--permission", "yolo", "--data-dir", "../elsewhere"];
    let running = desk.start_until(&args, "ToolExecutionUpdate");
    running.signal(Signal::INT);
    let (code, _, err) = running.end();
    assert_eq!(code, Some(130));
    assert!(err.contains("--data-dir ../elsewhere"), "the hint finds the session again: {err}");
    let pid = std::fs::read_to_string(desk.work().join("pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_err(), "it is gone");
}

#[test]
fn an_interrupt_aborts_what_is_being_resumed() {
    let desk = Desk::new();
    let script = desk.script("s.json", slow());
    desk.start_until(&["run", "a", "--script", &script], "MessageUpdate").kill();
    let running = desk.start_until(&["resume"], "MessageUpdate");
    running.signal(Signal::INT);
    let (code, events, err) = running.end();
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("interrupted; session") && err.ends_with("playhouse resume\n"), "{err}");
    assert_eq!(events.last().unwrap()["outcome"]["type"], "aborted");
    assert_eq!(desk.sessions()[0]["status"], "aborted");
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let desk = Desk::new();
    // More than a pipe holds: with nobody reading, the program is stuck in a write and the abort cannot be shown.
    let script = desk.script("s.json", json!([{"text": "x".repeat(1 << 20)}]));
    let mut child = desk.start(&["run", "a", "--script", &script]);
    let mut first = [0];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    // Two kinds, since two of one kind can arrive as one.
    send(&child, Signal::INT);
    send(&child, Signal::TERM);
    // Which of two that come together is the first is the kernel's matter.
    assert!(matches!(finish(child).code, Some(130 | 143)));
    drop(stdout);
}

#[test]
fn a_reader_that_leaves_ends_the_run_quietly() {
    for json in [&[][..], &["--json"]] {
        let desk = Desk::new();
        let script = desk.script("s.json", slow());
        let mut child = desk.start(&[&["run", "a", "--script", &script], json].concat());
        if !json.is_empty() {
            let mut some = [0; 4];
            child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
        }
        drop(child.stdout.take());
        let done = finish(child);
        assert_eq!((done.code, done.err.as_str()), (Some(130), ""), "no panic, no words");
        assert_eq!(desk.sessions()[0]["status"], "aborted");
    }
}

/// Starts a run whose tool has a child that left its session, and gives the pids of both.
fn with_escaped_child(desk: &Desk) -> (Running, Vec<Pid>) {
    // Neither ends when it is asked to: an abort takes its time, and a second signal comes before that is over.
    let command = "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM INT HUP; echo $$ > far; while :; do sleep 1; done' & \
                   echo $$ > near; until [ -s far ]; do sleep 0.01; done; echo here; while :; do sleep 1; done";
    let turns = json!([{"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": "x"}]);
    let script = desk.script("s.json", turns);
    let args = ["run", "a", "--script", &script, "--permission", "yolo", "--sandbox", "off"];
    let running = desk.start_until(&args, "ToolExecutionUpdate");
    let pid = |name: &str| {
        let text = std::fs::read_to_string(desk.work().join(name)).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    };
    (running, vec![pid("near"), pid("far")])
}

/// Whether a process is there and not only unburied.
fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn no_signal_leaves_a_process_of_a_tool_behind() {
    for (signals, code) in [
        (&[Signal::HUP][..], 129),
        (&[Signal::INT], 130),
        (&[Signal::TERM], 143),
        (&[Signal::QUIT], 131),
        // Two kinds, since two of one kind can arrive as one.
        (&[Signal::INT, Signal::TERM], 130),
        (&[Signal::TERM, Signal::HUP], 143),
        (&[Signal::INT, Signal::QUIT], 131),
    ] {
        let desk = Desk::new();
        let (running, pids) = with_escaped_child(&desk);
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        for signal in signals {
            running.signal(*signal);
        }
        let (ended, _, err) = running.end();
        let alive: Vec<&Pid> = pids.iter().filter(|pid| is_alive(**pid)).collect();
        for pid in &pids {
            // Whatever the outcome, the test leaves nothing either.
            let _ = rustix::process::kill_process(*pid, Signal::KILL);
        }
        assert!(alive.is_empty(), "{signals:?}: {alive:?} are alive");
        // Two that come together are taken in any order.
        let codes = if signals.len() == 1 { vec![code] } else { vec![129, 130, 131, 143] };
        assert!(ended.is_some_and(|ended| codes.contains(&ended)), "{signals:?}: {ended:?}, not {code}: {err}");
    }
}

#[test]
fn a_hang_up_that_was_ignored_at_the_start_stays_ignored() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "slow ".repeat(20), "chunk": 1, "delay_ms": 5}]));
    let mut command = desk.command_by(&["nohup"], &["run", "a", "--script", &script, "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    send(&child, Signal::HUP);
    let done = finish(child);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(desk.sessions()[0]["status"], "done");
}
