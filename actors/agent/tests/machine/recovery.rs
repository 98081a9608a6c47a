//! Going on from the journal.

use std::time::Duration;

use playhouse_agent::machine::{HookPoint, Timer};
use playhouse_agent::testing::Report;
use playhouse_protocol::{
    Command, EntryBody, ExecutionLimits, Fate, Op, PermissionDecision, ProviderError, ToolResult,
};

use crate::rig::{EVERY_HOOK, Rig};

const UNKNOWN: &str = "started at 2026-01-01T00:00:03Z, outcome unknown; verify before repeating";

#[test]
fn a_restart_keeps_loop_and_turn_and_opens_a_new_message() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    rig.delta("half");
    assert_eq!(rig.restart(), ["AgentRestarted", "ModelRequestStart t1a1 1", "> call 1"]);
    let run = rig.machine.durable().run.as_ref().unwrap();
    assert_eq!((run.loop_id.as_str(), run.turn().unwrap().index), ("s.c.1", 1));
    assert_eq!(
        rig.says("whole"),
        [
            "MessageStart model t1a1",
            "MessageEnd model t1a1 = model Stop: whole",
            "TurnEnd 1",
            "AgentEnd stop (4)",
            "> finish stop",
        ]
    );
    assert_eq!(rig.lines.iter().filter(|line| line.starts_with("AgentStart")).count(), 1);
    assert_eq!(rig.lines.iter().filter(|line| line.starts_with("TurnStart 1")).count(), 1);
}

#[test]
fn a_started_tool_is_taken_up_by_its_class() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wait(3_000);
    rig.wants(&[("c1", "once"), ("c2", "read"), ("c3", "same"), ("c4", "probe"), ("c5", "child")]);
    rig.wait(60_000);
    assert_eq!(
        rig.restart(),
        [
            "AgentRestarted",
            "ToolExecutionEnd c1",
            "MessageStart c1/result",
            &format!("MessageEnd c1/result = c1 error: {UNKNOWN}"),
            "> run c2 Again",
            "> run c3 Again",
            "> run c4 Again",
            "> spawn c5 in s-c5",
        ]
    );
}

#[test]
fn an_executor_that_dies_takes_its_tools_but_not_their_results_nor_children() {
    let mut rig = Rig::hooked([HookPoint::BeforeUpdate]);
    rig.prompt("hi");
    rig.wait(3_000);
    rig.wants(&[("c1", "once"), ("c2", "once"), ("c3", "read"), ("c4", "child")]);
    rig.tool_shows("c2", "half");
    rig.tool_shows("c1", "half");
    // It is done; its end only waits for the hook.
    rig.done("c2");
    assert_eq!(
        rig.tell(Report::ExecutorLost),
        [
            "> cancel hook",
            "ToolExecutionEnd c1",
            "MessageStart c1/result",
            &format!("MessageEnd c1/result = c1 error: {UNKNOWN}"),
            "> run c3 Again",
        ]
    );
    assert_eq!(rig.allow()[1..3], ["ToolExecutionEnd c2", "MessageStart c2/result"]);
    rig.come_to_rest();
    assert_eq!(rig.talk()[3], "c2 result: c2 ok");
}

#[test]
fn a_result_that_is_in_the_journal_is_never_made_again() {
    let mut rig = Rig::hooked([HookPoint::AfterTool]);
    rig.prompt("hi");
    rig.wants(&[("c1", "once")]);
    rig.done("c1");
    // The hook has no journaled answer, so it runs again; the tool does not.
    assert_eq!(rig.restart(), ["AgentRestarted", "> hook AfterTool"]);
    assert_eq!(rig.allow()[..2], ["MessageStart c1/result", "MessageEnd c1/result = c1 result: c1 ok"]);
}

#[test]
fn f40_time_limits_follow_the_monotonic_clock_and_do_not_count_downtime() {
    let two_seconds = ExecutionLimits { max_duration: Some(Duration::from_secs(2)), ..ExecutionLimits::none() };
    let mut rig = Rig::with(|_, settings| settings.limits = two_seconds);
    rig.prompt("hi");
    rig.wait(900);
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    // The wall clock jumps, back and forth; the other does not.
    rig.clock.0 += 3_600_000;
    rig.wants(&[("c2", "read")]);
    rig.clock.0 -= 7_200_000;
    rig.done("c2");
    assert_eq!(rig.calls.len(), 1);
    let elapsed = |rig: &Rig| rig.machine.durable().run.as_ref().unwrap().tracker.elapsed;
    assert_eq!(elapsed(&rig), Duration::from_millis(900));
    // A process that is down uses nothing, and the next one's monotonic clock begins anywhere.
    rig.clock.1 = 5;
    rig.clock.0 += 100_000_000;
    rig.restart();
    rig.wait(1_000);
    rig.wants(&[("c3", "read")]);
    rig.done("c3");
    assert_eq!(elapsed(&rig), Duration::from_millis(1_900));
    rig.wait(100);
    rig.wants(&[("c4", "read")]);
    assert_eq!(rig.done("c4").last().unwrap(), "> finish limit max duration reached (2 s)");
}

#[test]
fn a_question_is_asked_again_under_its_id_and_answered_once() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    let lines = rig.wants(&[("c1", "risky"), ("c2", "risky")]);
    assert_eq!(lines[2..], ["PermissionRequired c1/ask", "> ask c1/ask", "PermissionRequired c2/ask", "> ask c2/ask"]);
    assert_eq!(
        rig.restart(),
        ["AgentRestarted", "PermissionRequired c1/ask", "PermissionRequired c2/ask", "> ask c1/ask", "> ask c2/ask"]
    );
    assert_eq!(
        rig.permit("c2/ask", PermissionDecision::Allow),
        ["PermissionResolved c2/ask: allow", "> ack i2", "ToolExecutionStart c2", "> run c2 First"]
    );
    let second = rig.permit("c2/ask", PermissionDecision::Deny { reason: "no".into() });
    assert_eq!(second, ["> refuse i3: permission `c2/ask` is not waiting for an answer"]);
    rig.permit("c1/ask", PermissionDecision::Deny { reason: "too risky".into() });
    // A denial that was given is not asked for again, nor a grant.
    assert!(!rig.restart().iter().any(|line| line.contains("Permission")));
    rig.come_to_rest();
    assert_eq!(rig.talk()[2], "c1 error: too risky");
}

#[test]
fn a_grant_survives_and_the_tool_starts_once() {
    let mut rig = Rig::hooked([HookPoint::BeforeTool]);
    rig.prompt("hi");
    rig.wants(&[("c1", "risky")]);
    rig.permit("c1/ask", PermissionDecision::Allow);
    assert_eq!(rig.restart(), ["AgentRestarted", "> hook BeforeTool"]);
    assert_eq!(rig.allow(), ["ToolExecutionStart c1", "> run c1 First"]);
}

#[test]
fn a_question_nobody_answers_is_denied() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("c1", "risky")]);
    assert_eq!(rig.timers, [(Timer::Permission("c1/ask-c6963825a2fc401f".into()), Duration::from_secs(120))]);
    assert_eq!(
        rig.time_up(Timer::Permission("c1/ask-c6963825a2fc401f".into()))[..4],
        [
            "PermissionResolved c1/ask: nobody answered within 120 s",
            "ToolBlocked c1 Approval",
            "MessageStart c1/result",
            "MessageEnd c1/result = c1 error: nobody answered within 120 s",
        ]
    );
    // The timer that an answer overtook says nothing.
    rig.wants(&[("c2", "risky")]);
    rig.permit("c2/ask", PermissionDecision::Allow);
    assert_eq!(rig.timers, []);
    assert_eq!(rig.time_up(Timer::Permission("c2/ask".into())), [""; 0]);
}

#[test]
fn a_question_without_anyone_left_to_ask_is_denied() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("c1", "risky")]);
    rig.setup.approver = playhouse_agent::machine::Approver::Nobody;
    rig.restart();
    assert_eq!(rig.talk()[2], "c1 error: there is nobody to ask any more");
}

#[test]
fn hooks_without_a_journaled_answer_run_again() {
    let mut rig = Rig::hooked(EVERY_HOOK);
    rig.prompt("hi");
    assert_eq!(rig.restart(), ["AgentRestarted", "> hook BeforeLoop"]);
    rig.answer_hook();
    assert_eq!(rig.restart(), ["AgentRestarted", "> hook SessionStart"]);
    assert_eq!(rig.answer_hook(), ["> hook Filter"]);
    rig.answer_hook();
    assert_eq!(rig.restart(), ["AgentRestarted", "> hook SessionStart"]);
    for _ in 0..3 {
        rig.answer_hook();
    }
    rig.wants(&[("c1", "read")]);
    assert_eq!(rig.restart(), ["AgentRestarted", "> hook BeforeTool"]);
    rig.answer_hook();
    rig.done("c1");
    rig.answer_hook();
    assert_eq!(rig.restart(), ["AgentRestarted", "> hook AfterTurn"]);
    rig.answer_hook();
    rig.answer_hook();
    rig.says("done");
    rig.answer_hook();
    assert_eq!(rig.restart(), ["AgentRestarted", "> hook AfterTurn"]);
    assert_eq!(rig.answer_hook(), ["> hook Stop"]);
    rig.answer_hook();
    // The run is over and told: only its last hook is due.
    assert_eq!(rig.restart(), ["> hook AfterLoop"]);
    rig.answer_hook();
    assert!(rig.machine.is_at_rest());
    assert_eq!(rig.restart(), [""; 0]);
}

#[test]
fn a_lost_writer_is_sent_everything_again_in_order() {
    let mut rig = Rig::new();
    rig.held = true;
    rig.prompt("hi");
    rig.steer("one");
    rig.steer("two");
    let sent: Vec<u64> = rig.queued.drain(..).map(|(_, batch)| batch.number).collect();
    rig.tell(Report::WriterLost);
    let again: Vec<u64> = rig.queued.iter().map(|(_, batch)| batch.number).collect();
    assert_eq!((sent, again), (vec![0, 1, 2], vec![0, 1, 2]));
    rig.held = false;
    rig.commit();
    rig.come_to_rest();
    assert_eq!(rig.talk()[1..4], ["model Stop: done", "user: one", "model Stop: done"]);
}

#[test]
fn a_failed_commit_refuses_what_it_held_and_parks() {
    let mut rig = Rig::new();
    rig.held = true;
    rig.prompt("hi");
    rig.steer("one");
    let batch = rig.queued[0].1.number;
    let lines = rig.tell(Report::CommitFailed { batch, error: "disk full".into(), fate: Fate::NotWritten });
    let not_journaled = "the journal could not be written, so nothing was accepted: disk full";
    assert_eq!(
        lines,
        [
            format!("> refuse i1: {not_journaled}"),
            format!("> refuse i2: {not_journaled}"),
            "> park: the journal could not be written: disk full".into()
        ]
    );
    let parked = "> refuse i3: the agent is parked: the journal could not be written: disk full";
    assert_eq!(rig.steer("two"), [parked]);
    rig.held = false;
    rig.restart();
    // Nothing was accepted, so nothing is there.
    assert!(rig.machine.is_at_rest() && rig.journals.is_empty());
}

#[test]
fn f54_what_may_be_in_the_journal_is_not_refused() {
    let mut rig = Rig::new();
    rig.held = true;
    rig.prompt("hi");
    let batch = rig.queued[0].1.number;
    let lines = rig.tell(Report::CommitFailed { batch, error: "EIO".into(), fate: Fate::Unknown });
    let unknown = "it is not known whether this was accepted (EIO): send it again under the id `i1`, and it is taken \
                   once";
    assert_eq!(lines, [format!("> refuse i1: {unknown}"), "> park: the journal could not be written: EIO".into()]);
}

#[test]
fn f54_what_a_writer_that_died_may_have_written_is_not_refused() {
    let mut rig = Rig::new();
    rig.held = true;
    rig.prompt("hi");
    let batch = rig.queued[0].1.number;
    rig.tell(Report::WriterLost);
    // The next writer has written nothing of it, and knows nothing of the last one.
    let lines = rig.tell(Report::CommitFailed { batch, error: "disk full".into(), fate: Fate::NotWritten });
    assert!(lines[0].contains("it is not known whether this was accepted"), "{lines:?}");
}

#[test]
fn f24_what_the_journal_has_is_not_refused_because_something_later_could_not_be_written() {
    let mut rig = Rig::new();
    let messages = vec![std::sync::Arc::new(playhouse_protocol::AgentMessage::user("hi", 1))];
    let prompt = Command::new("same", Op::prompt(messages));
    rig.tell(prompt.clone());
    rig.held = true;
    rig.steer("one");
    assert_eq!(rig.tell(prompt), ["> ack same"]);
    let batch = rig.queued[0].1.number;
    let lines = rig.tell(Report::CommitFailed { batch, error: "disk full".into(), fate: Fate::NotWritten });
    assert!(lines.iter().all(|line| !line.contains("same")), "{lines:?}");
}

#[test]
fn f24_a_repeated_input_is_acknowledged_and_not_taken_twice() {
    let mut rig = Rig::new();
    let prompt = |rig: &mut Rig| {
        let messages = vec![std::sync::Arc::new(playhouse_protocol::AgentMessage::user("hi", 1))];
        rig.tell(Command::new("same", Op::prompt(messages)))
    };
    rig.held = true;
    prompt(&mut rig);
    prompt(&mut rig);
    rig.held = false;
    rig.commit();
    assert_eq!(rig.lines.iter().filter(|line| *line == "> ack same").count(), 2);
    rig.restart();
    assert_eq!(prompt(&mut rig), ["> ack same"]);
    rig.says("done");
    assert_eq!(prompt(&mut rig), ["> ack same"]);
    assert_eq!(rig.talk(), ["user: hi", "model Stop: done"]);
}

#[test]
fn what_is_refused_leaves_no_trace() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    let entries = rig.bodies().count();
    let running = "a run is under way: wait for it, steer it, or abort it first";
    assert_eq!(rig.prompt("again"), [format!("> refuse i2: {running}")]);
    assert_eq!(rig.go_on(playhouse_protocol::ContinuationKind::Default), [format!("> refuse i3: {running}")]);
    assert_eq!(rig.rotate("t"), [format!("> refuse i4: {running}")]);
    let reset = Command::new("r", Op::Reset);
    assert_eq!(rig.tell(reset), [format!("> refuse r: {running}")]);
    let restore = Command::new("r", Op::Restore { messages: Vec::new() });
    assert_eq!(rig.tell(restore), [format!("> refuse r: {running}")]);
    assert_eq!(
        rig.steer(""),
        ["> refuse i5: there is nothing in this input for a model: give it a user message with text or an image"]
    );
    let message = std::sync::Arc::new(crate::rig::assistant("me", &[], playhouse_protocol::StopReason::Stop).into());
    let steer = Command::new("m", Op::Steer { message });
    assert_eq!(rig.tell(steer), ["> refuse m: only user messages and extensions can be given as input"]);
    assert_eq!(rig.bodies().count(), entries);
}

#[test]
fn a_late_update_of_a_tool_is_not_shown() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("c1", "read"), ("c2", "read")]);
    rig.done("c1");
    assert_eq!(rig.tool_shows("c1", "late"), [""; 0]);
    assert_eq!(rig.tell(Report::ToolProgress { call: "c1".into(), text: "late".into() }), [""; 0]);
    assert_eq!(rig.tool_ends("c1", Ok(ToolResult::text("twice"))), [""; 0]);
    assert_eq!(rig.tell(Report::ToolProgress { call: "c2".into(), text: "busy".into() }), ["ProgressMessage c2 busy"]);
    assert_eq!(rig.bodies().filter(|body| matches!(body, EntryBody::ToolEnded { .. })).count(), 1);
}

#[test]
fn f60_restarts_that_lead_nowhere_park_the_agent_until_someone_asks_for_it() {
    const PARKED: &str = "it was restarted 10 times without getting anywhere: find out why it crashes, then resume it";
    let mut rig = Rig::new();
    rig.prompt("hi");
    for _ in 0..7 {
        assert_eq!(rig.restart().last().unwrap().split(' ').nth(1), Some("call"));
    }
    // Getting somewhere makes them few again. A failed attempt is no answer.
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    for _ in 0..10 {
        assert_eq!(rig.restart().last().unwrap().split(' ').nth(1), Some("call"));
        rig.retrying(ProviderError::RateLimited { message: String::new(), retry_after_ms: None }, 1);
    }
    assert_eq!(rig.restart(), ["AgentRestarted", &format!("Error {PARKED}"), &format!("> park: {PARKED}")]);
    assert_eq!(rig.machine.durable().parked.as_deref(), Some(PARKED));
    // Another process finds it so, writes nothing and asks nothing.
    let before = rig.bodies().count();
    assert_eq!(rig.restart(), [format!("> park: {PARKED}")]);
    assert_eq!(rig.steer("hello?"), [format!("> refuse i2: the agent is parked: {PARKED}")]);
    assert_eq!(rig.bodies().count(), before);
    let lines = rig.resume();
    assert_eq!((lines[0].as_str(), lines.last().unwrap().starts_with("> call")), ("AgentRestarted", true), "{lines:?}");
    for _ in 0..10 {
        assert!(rig.restart().last().unwrap().starts_with("> call"));
    }
    assert_eq!(rig.restart().last().unwrap(), &format!("> park: {PARKED}"));
}

#[test]
fn f60_waiting_for_a_person_through_restarts_is_no_crash_loop() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("c1", "risky")]);
    for _ in 0..30 {
        assert_eq!(rig.restart(), ["AgentRestarted", "PermissionRequired c1/ask", "> ask c1/ask"]);
    }
    rig.permit("c1/ask", PermissionDecision::Allow);
    assert_eq!(rig.tools.len(), 1);
}

#[test]
fn f60_restarts_beneath_which_a_sub_agent_works_are_counted_by_the_sub_agent() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("c1", "child")]);
    for _ in 0..30 {
        assert_eq!(rig.restart().first().unwrap(), "AgentRestarted");
        assert_eq!((rig.tools.len(), rig.machine.durable().parked.as_ref()), (1, None));
    }
    rig.done("c1");
    for _ in 0..10 {
        rig.restart();
    }
    assert!(rig.restart().last().unwrap().starts_with("> park"));
}

#[test]
fn an_answer_that_is_repeated_after_a_crash_is_known_and_decides_nothing_else() {
    let mut rig = Rig::new();
    rig.prompt("go");
    rig.wants(&[("c1", "lasting"), ("c2", "risky")]);
    let asked: Vec<_> = rig.asks.clone();
    let answer =
        |at: usize| Op::Answer { permission_id: asked[at].clone(), decision: PermissionDecision::AllowSession };
    assert!(rig.tell(Command::new("yes", answer(0))).contains(&"> ack yes".to_owned()));
    rig.restart();
    let entries = rig.bodies().count();
    assert_eq!(rig.tell(Command::new("yes", answer(0))), ["> ack yes"]);
    // The id stands for the first answer, whatever comes under it.
    assert_eq!(rig.tell(Command::new("yes", answer(1))), ["> ack yes"]);
    assert_eq!(rig.bodies().count(), entries);
}
