//! Heads and sessions: continuing, going back, changing the session, clearing and restoring.

use std::sync::Arc;

use playhouse_agent::machine::{Holes, HookPoint, Machine};
use playhouse_protocol::{
    AgentEvent, AgentMessage, Command, ContinuationKind, EntryBody, EntryId, Op, SessionId, StopReason,
    ToolExecutionStrategy,
};

use crate::rig::{Rig, assistant};

fn rerun() -> ContinuationKind {
    ContinuationKind::Rerun { tag: "2026-01-01T00:00:00Z".into() }
}

fn branch(entry: Option<EntryId>) -> ContinuationKind {
    ContinuationKind::Branch { tag: "2026-01-01T00:00:00Z".into(), entry }
}

/// Two runs: one plain, one with a tool.
fn two_runs() -> Rig {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.says("first");
    rig.prompt("two");
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    rig.says("second");
    rig
}

fn heads(rig: &Rig) -> Vec<String> {
    let head = |body: &EntryBody| match body {
        EntryBody::Head { to, first: None, messages: None } => to.as_ref().map(EntryId::to_string),
        _ => None,
    };
    rig.bodies().filter_map(head).collect()
}

#[test]
fn a_rerun_goes_back_to_before_the_last_run_s_first_response() {
    let mut rig = two_runs();
    assert_eq!(rig.go_on(rerun())[..3], ["> ack i3", "AgentStart", "TurnStart 0 Continuation"]);
    assert_eq!(
        (heads(&rig), rig.talk()),
        (vec!["s.c.2#10".into()], vec!["user: one".into(), "model Stop: first".into(), "user: two".into()])
    );
    let start = rig.event(|event| matches!(event, AgentEvent::AgentStart { .. })).cloned();
    let Some(AgentEvent::AgentStart { parent_loop_id, continuation_kind, .. }) = start else { panic!("{start:?}") };
    assert_eq!((parent_loop_id, continuation_kind), (Some("s.c.2".into()), Some(rerun())));
    rig.says("second again");
    // And again, from the same place.
    rig.go_on(rerun());
    rig.restart();
    rig.says("third time");
    assert_eq!(rig.talk()[2..], ["user: two", "model Stop: third time"]);
    assert_eq!(heads(&rig), ["s.c.2#10", "s.c.2#10"]);
}

#[test]
fn a_branch_goes_on_from_the_entry_named() {
    let mut rig = two_runs();
    let after = |count: usize| {
        let record = rig.machine.durable().record.clone();
        let found = record.entries().find(|entry| record.up_to(&record.after(entry).unwrap()).len() == count).cloned();
        found.unwrap()
    };
    let (turn_of_two, left, rests) = (after(3), after(5), after(2));
    assert_eq!(rig.go_on(branch(Some(turn_of_two)))[1..3], ["AgentStart", "TurnStart 0 Branch"]);
    assert_eq!(rig.talk().len(), 3);
    rig.says("another second");
    // What the branch left behind is no longer part of the conversation.
    assert_eq!(
        rig.go_on(branch(Some(left.clone()))),
        [format!("> refuse i4: entry `{left}` is not part of this conversation")]
    );
    // From the entry after the tool's result there is something to answer; after the model's message there is not.
    let nothing =
        "the conversation ends with the model's message, so there is nothing to continue: send a prompt instead";
    assert_eq!(rig.go_on(branch(Some(rests))), [format!("> refuse i5: {nothing}")]);
    assert_eq!(rig.go_on(ContinuationKind::Default), [format!("> refuse i6: {nothing}")]);
    assert_eq!(Rig::new().go_on(rerun()), ["> refuse i1: there is no run to repeat"]);
}

#[test]
fn a_run_that_ended_open_can_be_continued() {
    let mut rig = Rig::with(|_, settings| settings.limits.max_turns = Some(1));
    rig.prompt("hi");
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    assert_eq!(rig.go_on(ContinuationKind::Default)[2], "TurnStart 0 Continuation");
    rig.says("done");
    assert_eq!(rig.machine.durable().loop_counters.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_change_of_session_keeps_conversation_queues_and_what_was_seen() {
    let mut rig = two_runs();
    rig.follow_up("later");
    rig.steer("soon");
    let talk = rig.talk();
    assert_eq!(rig.rotate("t"), ["> rotated to t", "> ack i5"]);
    assert_eq!(rig.talk(), talk);
    let old = &rig.journals[&SessionId::new("s").unwrap()];
    let new = &rig.journals[&SessionId::new("t").unwrap()];
    assert!(matches!(&old.last().unwrap().1.body, EntryBody::RotatedTo { session } if session.as_str() == "t"));
    let EntryBody::Opened(opened) = &new[0].1.body else { panic!("{new:?}") };
    let continues = opened.continues.as_ref().unwrap();
    assert_eq!((continues.session.as_str(), &continues.entry), ("s", &old[old.len() - 2].1.id));
    // The old one says where to go on.
    let folded = Machine::fold(old.iter().map(|(s, e)| (*s, e.as_ref())), rig.setup.clone(), Holes::None).unwrap();
    assert_eq!(folded.durable().rotated_to, Some(SessionId::new("t").unwrap()));

    rig.restart();
    let repeated = Command::new("i4", Op::Steer { message: Arc::new(AgentMessage::user("soon", 1)) });
    assert_eq!(rig.tell(repeated), ["> ack i4"]);
    rig.prompt("three");
    assert_eq!(rig.machine.durable().last_loop_id, Some("t.c.1".into()));
    assert_eq!(rig.talk()[6..], ["user: three", "user: soon"]);
    rig.come_to_rest();
    assert_eq!(rig.talk()[9], "user: later");
}

#[test]
fn a_change_of_session_takes_nothing_in_until_it_is_done() {
    let mut rig = two_runs();
    rig.held = true;
    rig.rotate("t");
    assert_eq!(rig.steer("now"), [""; 0]);
    rig.commit();
    assert_eq!(rig.commit(), ["> rotated to t", "> ack i3"]);
    assert_eq!(rig.lines[rig.lines.len() - 3], "> refuse i4: too many inputs wait for this agent: try again later");

    // One that a crash cuts short has not happened, and can be asked for again.
    let mut rig = two_runs();
    rig.held = true;
    rig.rotate("t");
    rig.commit();
    assert_eq!(rig.restart(), [""; 0]);
    rig.held = false;
    assert_eq!(rig.session.as_str(), "s");
    assert_eq!(rig.rotate("t").last().unwrap(), "> ack i4");
    assert_eq!(rig.machine.durable().session_id.as_str(), "t");
}

#[test]
fn two_journals_may_become_durable_in_any_order() {
    let mut rig = Rig::hooked([HookPoint::AfterLoop]);
    rig.prompt("hi");
    rig.says("done");
    rig.held = true;
    rig.allow();
    rig.rotate("t");
    // The new session's writer is faster than the old one's.
    assert_eq!(rig.queued.len(), 2);
    rig.queued.swap(0, 1);
    rig.commit();
    rig.commit();
    assert_eq!(rig.commit(), ["> rotated to t", "> ack i2"]);
    assert!(rig.machine.is_at_rest());
}

#[test]
fn a_session_without_a_journal_leaves_none_behind() {
    let mut rig = Rig::new();
    assert_eq!(rig.rotate("t"), ["> rotated to t", "> ack i1"]);
    assert_eq!(rig.journals.keys().map(|session| session.as_str()).collect::<Vec<_>>(), ["t"]);
    rig.prompt("hi");
    assert_eq!(rig.machine.durable().last_loop_id, Some("t.c.1".into()));
}

#[test]
fn after_loop_of_the_old_session_has_its_deadline_in_the_new_one() {
    let mut rig = Rig::hooked([HookPoint::AfterLoop, HookPoint::BeforeLoop]);
    rig.prompt("hi");
    rig.allow();
    rig.says("done");
    rig.rotate("t");
    let timer = rig.timers[0].0.clone();
    rig.prompt("again");
    assert_eq!(rig.time_up(timer), ["> cancel hook"]);
    assert_eq!(rig.allow()[0], "AgentStart");
}

#[test]
fn reset_and_restore_replace_the_conversation() {
    let mut rig = two_runs();
    rig.follow_up("later");
    rig.steer("soon");
    assert_eq!(rig.tell(Command::new("r", Op::Reset)), ["> ack r"]);
    let durable = rig.machine.durable();
    assert!(durable.record.messages().is_empty() && durable.follow_ups.is_empty() && durable.steering.is_empty());
    assert_eq!(rig.go_on(rerun()), ["> refuse i5: there is no run to repeat"]);

    let user = Arc::new(AgentMessage::user("hello", 1));
    let open = Arc::new(assistant("", &[("x", "read")], StopReason::ToolUse).into());
    let hole = Command::new("h", Op::Restore { messages: vec![user.clone(), open] });
    let lines = rig.tell(hole);
    assert!(lines[0].starts_with("> refuse h: this conversation cannot be restored: tool call `x`"), "{lines:?}");
    assert!(rig.talk().is_empty());
    assert_eq!(rig.tell(Command::new("k", Op::Restore { messages: vec![user] })), ["> ack k"]);
    assert_eq!(rig.go_on(ContinuationKind::Default)[1], "AgentStart");
    rig.says("hi");
    assert_eq!(rig.talk(), ["user: hello", "model Stop: hi"]);
}

#[test]
fn settings_change_between_runs_only_and_only_when_they_differ() {
    let mut rig = two_runs();
    let mut settings = Box::new(rig.machine.durable().settings.as_ref().clone());
    let configure = |settings: &playhouse_protocol::entry::Settings| {
        Command::new("c", Op::Configure { settings: Box::new(settings.clone()) })
    };
    let entries = rig.bodies().count();
    assert_eq!(rig.tell(configure(&settings)), ["> ack c"]);
    assert_eq!(rig.bodies().count(), entries);
    settings.tool_execution = ToolExecutionStrategy::Sequential;
    settings.config_id = Some("New One".into());
    assert_eq!(rig.tell(configure(&settings)), ["> ack c"]);
    rig.prompt("three");
    assert_eq!(rig.machine.durable().last_loop_id, Some("s.new-one.1".into()));
    rig.wants(&[("c2", "read"), ("c3", "read")]);
    assert_eq!(rig.tools.len(), 1);
}

#[test]
fn what_replaces_the_conversation_is_taken_once_whatever_comes_between() {
    let restored = vec![Arc::new(AgentMessage::user("restored", 1))];
    let inputs = [Command::new("again", Op::Reset), Command::new("again", Op::Restore { messages: restored })];
    for input in inputs {
        let mut rig = two_runs();
        rig.tell(input.clone());
        rig.restart();
        rig.prompt("three");
        rig.says("third");
        let before = rig.talk();
        assert_eq!(rig.tell(input.clone()), ["> ack again"]);
        rig.rotate("next");
        assert_eq!(rig.tell(input), ["> ack again"]);
        assert_eq!(rig.talk(), before);
    }
}
