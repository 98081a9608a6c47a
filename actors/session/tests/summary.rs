//! What a list says about a session, from its entries.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{entry, id, numbered, opened, prompt};
use playhouse_protocol::entry::{InputKind, QueuedInput};
use playhouse_protocol::{
    AgentMessage, ContinuationKind, Durability, Entry, EntryBody, FailureKind, LimitHit, Message, Seq, StopReason,
    Usage,
};
use playhouse_session::record::BadLine;
use playhouse_session::{Damage, DamageKind, Holder, SessionStatus, SessionSummary};
use serde_json::json;

/// An entry of a run, from its wire form.
fn in_loop(name: &str, run: &str, body: serde_json::Value) -> Arc<Entry> {
    let mut entry = Arc::unwrap_or_clone(entry(name, 3_000, serde_json::from_value(body).unwrap()));
    entry.loop_id = Some(run.into());
    Arc::new(entry)
}

fn started(run: &str, input: &str) -> Arc<Entry> {
    let config = json!({"model": "m", "provider": "p", "config_id": "c", "api": "scripted", "thinking_level": "off"});
    let body = json!({"type": "loop_started", "input_id": input, "config": config});
    in_loop(&format!("{run}/started"), run, body)
}

fn ended(run: &str) -> Arc<Entry> {
    let body = json!({"type": "loop_ended", "outcome": {"type": "stop"}});
    in_loop(&format!("{run}/ended"), run, body)
}

fn sum(entries: &[Arc<Entry>]) -> SessionSummary {
    SessionSummary::of(&id("s"), &numbered(1, entries), None, vec![])
}

#[test]
fn a_whole_summary() {
    let said = Arc::new(AgentMessage::user("hi", 2_000));
    let placed = json!([{"input_id": "in-p", "messages": [said]}]);
    let turn = json!({"type": "turn_started", "turn_index": 0, "triggered_by": "User", "placed": placed});
    let over = json!({"type": "turn_ended", "turn_index": 0, "usage": Usage::default(), "elapsed": Duration::ZERO});
    let entries = [
        opened("s"),
        prompt("p", &"ü".repeat(300)),
        started("s.c.1", "in-p"),
        in_loop("t", "s.c.1", turn),
        in_loop("e", "s.c.1", over),
        ended("s.c.1"),
    ];
    let expected = SessionSummary {
        session_id: id("s"),
        agent_id: Some("agent-1".into()),
        kind: Some("cli".into()),
        cwd: Some("/work".into()),
        model: Some("scripted/script".into()),
        started_at: Some(1_000),
        last_active_at: Some(3_000),
        entries: 6,
        messages: 1,
        first_prompt: Some("ü".repeat(200)),
        status: SessionStatus::Done,
        parent: None,
        durability: Some(Durability::Flush),
        held_by: None,
        damage: vec![],
    };
    assert_eq!(sum(&entries), expected);
    let bad = BadLine::UnknownEntry { seq: Seq(2), epoch: 1, reason: "new".into() };
    let damaged = SessionSummary {
        status: SessionStatus::Parked { reason: "spent".into() },
        held_by: Some(Holder { node: "n".into(), pid: 7 }),
        damage: vec![Damage { line: 2, offset: 9, kind: DamageKind::BadLine(bad) }],
        ..expected
    };
    let wire = serde_json::to_value(&damaged).unwrap();
    assert_eq!((&wire["status"], &wire["reason"]), (&json!("parked"), &json!("spent")));
    let damage = json!({
        "line": 2, "offset": 9, "damage": "bad_line", "problem": "unknown_entry", "seq": 2, "epoch": 1, "reason": "new",
    });
    assert_eq!(wire["damage"], json!([damage]));
    assert_eq!(serde_json::from_value::<SessionSummary>(wire).unwrap(), damaged);
}

#[test]
fn unfinished_is_an_accepted_input_without_its_end() {
    let continued = EntryBody::ContinueAsked { input_id: "in-c".into(), kind: Box::new(ContinuationKind::Default) };
    let steps = [
        (opened("s"), SessionStatus::Done),
        (prompt("p", "x"), SessionStatus::Unfinished { unreachable: None }),
        (started("s.c.1", "in-p"), SessionStatus::Unfinished { unreachable: None }),
        (ended("s.c.1"), SessionStatus::Done),
        (entry("c", 1, continued), SessionStatus::Unfinished { unreachable: None }),
        (started("s.c.2", "in-c"), SessionStatus::Unfinished { unreachable: None }),
        // The end of another run is not its end.
        (ended("s.c.1"), SessionStatus::Unfinished { unreachable: None }),
        (ended("s.c.2"), SessionStatus::Done),
    ];
    for length in 1..=steps.len() {
        let entries: Vec<_> = steps[..length].iter().map(|(entry, _)| entry.clone()).collect();
        assert_eq!(sum(&entries).status, steps[length - 1].1, "after {length} entries");
    }
    let waits = QueuedInput { input_id: "f".into(), kind: InputKind::FollowUp, messages: vec![], format: None };
    assert_eq!(sum(&[opened("s"), entry("f", 1, EntryBody::Input(waits))]).status, SessionStatus::Done);
}

/// A run that ended so, after a response with this failure.
fn ended_with(outcome: serde_json::Value, failure: Option<FailureKind>) -> SessionStatus {
    let message = Message::Assistant {
        content: vec![],
        stop_reason: StopReason::Error,
        model: "m".into(),
        provider: "p".into(),
        usage: Usage::default(),
        timestamp: 1,
        error_message: None,
    };
    let message = Arc::new(AgentMessage::from(message));
    let responded = EntryBody::Responded { call_id: "c".into(), message_id: "m".into(), message, failure };
    let responded = serde_json::to_value(responded).unwrap();
    let (run, over) = ("s.c.1", json!({"type": "loop_ended", "outcome": outcome}));
    let entries =
        [opened("s"), prompt("p", "x"), started(run, "in-p"), in_loop("r", run, responded), in_loop("e", run, over)];
    sum(&entries).status
}

#[test]
fn how_the_last_run_ended_is_how_the_session_stands() {
    let failed = |message: &str| SessionStatus::Failed { message: message.to_owned() };
    assert_eq!(ended_with(json!({"type": "stop"}), None), SessionStatus::Done);
    assert_eq!(ended_with(json!({"type": "length"}), None), SessionStatus::Done);
    assert_eq!(ended_with(json!({"type": "error", "message": "no key"}), None), failed("no key"));
    let unreachable = SessionStatus::Unfinished { unreachable: Some("no route".to_owned()) };
    assert_eq!(
        ended_with(json!({"type": "error", "message": "no route"}), Some(FailureKind::Unreachable)),
        unreachable
    );
    assert_eq!(ended_with(json!({"type": "aborted"}), None), SessionStatus::Aborted);
    let limited = SessionStatus::Limited { limit: LimitHit::Turns(3) };
    assert_eq!(ended_with(json!({"type": "limit", "limit": {"turns": 3}}), None), limited);
    let rejected = failed("the prompt was rejected: no");
    assert_eq!(ended_with(json!({"type": "rejected", "reason": "no"}), None), rejected);
    assert_eq!(ended_with(json!({"type": "halted", "reason": "no"}), None), failed("the run was halted: no"));
}

#[test]
fn a_question_that_nobody_answered_is_waited_for() {
    let asked = json!({"type": "permission_asked", "permission_id": "q", "tool_call_id": "t", "reason": "rm -r x"});
    let decision = json!({"type": "allow"});
    let answered =
        json!({"type": "permission_resolved", "permission_id": "q", "tool_call_id": "t", "decision": decision});
    let mut entries = vec![opened("s"), prompt("p", "x"), started("s.c.1", "in-p"), in_loop("q", "s.c.1", asked)];
    assert_eq!(sum(&entries).status, SessionStatus::Waiting { question: "rm -r x".to_owned() });
    entries.push(in_loop("a", "s.c.1", answered));
    assert_eq!(sum(&entries).status, SessionStatus::Unfinished { unreachable: None });
}

#[test]
fn parked_is_shown_until_the_agent_goes_on() {
    let mut entries = vec![opened("s"), prompt("p", "x"), started("s.c.1", "in-p")];
    entries.push(entry("k", 4, EntryBody::Parked { reason: "crashed 40 times".into() }));
    assert_eq!(sum(&entries).status, SessionStatus::Parked { reason: "crashed 40 times".into() });
    entries.push(entry("r", 5, EntryBody::Recovered { reason: "resumed".into(), wake: Default::default() }));
    assert_eq!(sum(&entries).status, SessionStatus::Unfinished { unreachable: None });
}

#[test]
fn a_session_without_a_readable_first_entry_is_still_summed_up() {
    let summary = sum(&[prompt("p", "x")]);
    assert_eq!((summary.agent_id, summary.model, summary.entries), (None, None, 1));
    let nothing = sum(&[]);
    assert_eq!((nothing.started_at, nothing.last_active_at, nothing.status), (None, None, SessionStatus::Done));
}
