//! What a dead process left is finished, what a live one holds is left alone.

use serde_json::{Value, json};

use super::support::Desk;

/// A session whose process was killed while its tool ran.
fn killed(desk: &Desk, prompt: &str, script: &str) -> String {
    let args = ["run", prompt, "--script", script, "--permission", "yolo"];
    let running = desk.start_until(&args, "ToolExecutionStart");
    let session = running.session.clone();
    running.kill();
    session
}

fn endless(answer: &str) -> Value {
    json!([{"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]}, {"text": answer}, {"text": "more"}])
}

fn status(desk: &Desk, session: &str) -> Value {
    let sessions = desk.sessions();
    sessions.iter().find(|one| one["session_id"] == session).map(|one| one["status"].clone()).unwrap()
}

#[test]
fn nothing_to_resume_is_no_error() {
    let desk = Desk::new();
    let done = desk.run(&["resume"]);
    done.said("");
    assert!(done.err.contains("nothing to resume") && !desk.data().exists(), "{done:?}");
    let script = desk.script("s.json", json!([{"text": "ok"}]));
    desk.run(&["run", "a", "--script", &script]).said("ok\n");
    let done = desk.run(&["resume", "--json"]);
    done.said("");
    assert!(done.err.contains("nothing to resume"), "{done:?}");
    let done = desk.run(&["resume", &desk.session()]);
    done.said("");
    assert!(done.err.contains("nothing to resume"), "{done:?}");
}

#[test]
fn a_killed_run_is_finished_and_every_event_is_printed() {
    let desk = Desk::new();
    let script = desk.script("s.json", endless("finished"));
    let session = killed(&desk, "go", &script);
    assert_eq!(status(&desk, &session), "unfinished");
    let done = desk.run(&["resume", &session, "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let names = done.names();
    let expected = [
        "AgentRestarted",
        "ToolExecutionEnd",
        "MessageStart",
        "MessageEnd",
        "TurnEnd",
        "TurnStart",
        "ModelRequestStart",
        "MessageStart",
        "MessageUpdate",
        "MessageEnd",
        "TurnEnd",
        "AgentEnd",
    ];
    assert_eq!(names, expected, "{done:?}");
    assert!(done.out.contains("outcome unknown; verify before repeating"), "{done:?}");
    assert_eq!(status(&desk, &session), "done");
}

#[test]
fn run_in_a_session_finishes_what_is_open_and_then_prompts() {
    let desk = Desk::new();
    let mut turns = endless("finished").as_array().unwrap().clone();
    turns.insert(2, json!({"tool_calls": [{"name": "list_files", "arguments": {}}]}));
    let script = desk.script("s.json", Value::from(turns));
    let session = killed(&desk, "go", &script);
    let done = desk.run(&["run", "and now?", "--session", &session, "--tools", "none"]);
    done.said("more\n");
    assert!(done.err.contains("finished\n"), "what came before is narrated: {done:?}");
    assert!(done.err.contains("outcome unknown"), "{done:?}");
    assert!(done.err.contains("list_files did not run"), "the tools changed for the prompt: {done:?}");
    let prompts: Vec<Value> =
        desk.entries(&session).into_iter().filter(|entry| entry["body"]["type"] == "input").collect();
    assert_eq!(prompts.len(), 2);
}

#[test]
fn all_that_can_be_finished_is_and_the_rest_is_parked_and_told() {
    let desk = Desk::new();
    let gone = desk.script("gone.json", endless("back again"));
    let here = desk.script("here.json", endless("finished"));
    let parked = killed(&desk, "one", &gone);
    let fine = killed(&desk, "two", &here);
    let hidden = desk.work().join("hidden.json");
    std::fs::rename(&gone, &hidden).unwrap();
    let done = desk.run(&["resume"]);
    assert_eq!((done.code, done.out.as_str()), (Some(1), "finished\n"), "{done:?}");
    assert!(done.err.contains(&format!("error: session `{parked}` cannot go on")), "{done:?}");
    assert!(done.err.contains("gone.json"), "{done:?}");
    assert_eq!((status(&desk, &parked), status(&desk, &fine)), (json!("parked"), json!("done")));
    assert!(desk.run(&["sessions", "list"]).out.contains("parked: session"));
    desk.run(&["run", "x", "--session", &parked]).refused(&["gone.json"]);
    std::fs::rename(&hidden, &gone).unwrap();
    desk.run(&["resume"]).said("back again\n");
    assert_eq!(status(&desk, &parked), "done");
}

#[test]
fn f33_a_session_that_another_process_holds_is_left_alone() {
    let desk = Desk::new();
    let script = desk.script("s.json", endless("never"));
    let args = ["run", "go", "--script", &script, "--permission", "yolo"];
    let running = desk.start_until(&args, "ToolExecutionStart");
    let session = running.session.clone();
    let held = ["held by another process", "pid"];
    desk.run(&["run", "hi", "--session", &session]).refused(&held);
    desk.run(&["run", "hi", "--continue"]).refused(&held);
    desk.run(&["resume", &session]).refused(&held);
    desk.run(&["sessions", "rm", &session]).refused(&held);
    let done = desk.run(&["resume"]);
    done.said("");
    assert!(done.err.contains("nothing to resume"), "{done:?}");
    assert!(desk.run(&["sessions", "list"]).out.contains("running (pid"));
    let other = desk.script("other.json", json!([{"text": "beside it"}]));
    desk.run(&["run", "b", "--script", &other]).said("beside it\n");
    running.kill();
    desk.run(&["resume"]).said("never\n");
}

#[test]
fn what_a_killed_program_had_no_time_to_print_is_printed_later_without_a_gap_or_a_repeat() {
    let desk = Desk::new();
    let script = desk.script("s.json", endless("finished"));
    let args = ["run", "go", "--script", &script, "--permission", "yolo"];
    // It is stopped at an event in the middle: what came after it is read by nobody.
    let mut running = desk.start_until(&args, "AgentStart");
    let last = running.wait_for("TurnStart")["id"].as_str().unwrap().to_owned();
    running.wait_for("ToolExecutionStart");
    let session = running.session.clone();
    running.kill();
    let events = |after: &str| -> Vec<Value> {
        let done = desk.run(&["sessions", "events", &session, "--after", after]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let missed = events(&last);
    let id = |event: &Value| event["id"].as_str().unwrap().to_owned();
    assert_eq!(missed.last().unwrap()["type"], "ToolExecutionStart", "{missed:#?}");
    let resumed = desk.run(&["resume", &session, "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    // Those before and those told since are all there are, each once; what no journal holds aside.
    let rest: Vec<String> = events(&id(missed.last().unwrap())).iter().map(id).collect();
    let live: Vec<String> = resumed.out.lines().map(|line| id(&serde_json::from_str(line).unwrap())).collect();
    assert!(rest.iter().all(|one| live.contains(one)), "{rest:?} {live:?}");
    let whole = desk.run(&["sessions", "events", &session]);
    let whole: Vec<String> = whole.out.lines().map(|line| id(&serde_json::from_str(line).unwrap())).collect();
    let from = whole.iter().position(|one| *one == id(&missed[0])).unwrap();
    let told: Vec<String> = missed.iter().map(id).chain(rest).collect();
    assert_eq!(whole[from..], told);
    let done = desk.run(&["sessions", "events", "nobody"]);
    assert_eq!(done.code, Some(2), "{done:?}");
}
