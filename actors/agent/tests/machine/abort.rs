//! Abort, from every state a run can be in: what was taken stays, what has not started is answered for, everything
//! that was opened is closed, and the run ends `aborted`.

use std::time::Duration;

use playhouse_agent::machine::{FilterVerdict, Filtered, HookPoint, Timer, Verdict};
use playhouse_agent::testing::Report;
use playhouse_protocol::{EntryBody, Outcome, ProviderError, ToolError, ToolResult};

use crate::rig::{EVERY_HOOK, Rig};

const NOT_STARTED: &str = "Aborted before it started.";
const STOPPED: &str = "Aborted while it ran; it may have taken effect in part.";
const NOT_STOPPED: &str = "Aborted, but the tool did not stop in time; it may still take effect.";

/// Nothing is under way, and what a new process would find is the same.
fn is_over(rig: &mut Rig) {
    assert!(rig.machine.is_at_rest());
    assert_eq!(rig.reports.last().unwrap().outcome, Outcome::Aborted);
    assert_eq!(rig.restart(), [""; 0]);
    rig.prompt("still there?");
    rig.come_to_rest();
    assert_eq!(rig.reports.last().unwrap().outcome, Outcome::Stop);
}

#[test]
fn at_before_loop() {
    let mut rig = Rig::hooked([HookPoint::BeforeLoop]);
    rig.prompt("hi");
    assert_eq!(
        rig.abort(),
        [
            "> cancel hook",
            "> ack i2",
            "AgentStart",
            "MessageStart i1/0",
            "MessageEnd i1/0 = user: hi",
            "AgentEnd aborted (1)",
            "> finish aborted",
        ]
    );
    assert_eq!(rig.timers, []);
    is_over(&mut rig);
}

#[test]
fn at_the_filters() {
    let mut rig = Rig::hooked([HookPoint::Filter]);
    rig.prompt("hi");
    assert_eq!(rig.abort(), ["> cancel hook", "> ack i2", "AgentEnd aborted (0)", "> finish aborted"]);
    assert_eq!((rig.talk(), rig.reports[0].messages.len()), (Vec::<String>::new(), 0));
    is_over(&mut rig);

    // Steering that the filters were looking at waits for another run.
    let mut rig = Rig::hooked([HookPoint::Filter]);
    rig.prompt("hi");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass])));
    rig.steer("maybe");
    rig.says("one");
    assert_eq!(rig.abort(), ["> cancel hook", "> ack i3", "AgentEnd aborted (2)", "> finish aborted"]);
    assert_eq!(rig.machine.durable().steering.len(), 1);
    is_over(&mut rig);
}

#[test]
fn before_the_filters_are_asked() {
    let mut rig = Rig::hooked([HookPoint::BeforeLoop, HookPoint::Filter]);
    rig.prompt("hi");
    let lines = rig.abort();
    assert_eq!(lines[2..], ["AgentStart", "AgentEnd aborted (0)", "> finish aborted"], "{lines:?}");
    is_over(&mut rig);
}

#[test]
fn after_a_crash_between_the_filters_and_the_turn() {
    let mut rig = Rig::hooked([HookPoint::Filter, HookPoint::BeforeTurn]);
    rig.prompt("hi");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass])));
    // What the filters said is not in the journal: they are asked again, and have not answered.
    assert_eq!(rig.restart().last().unwrap(), "> hook Filter");
    rig.abort();
    assert_eq!(rig.talk(), [""; 0]);
    is_over(&mut rig);

    // What they have passed is never lost.
    let mut rig = Rig::hooked([HookPoint::Filter, HookPoint::BeforeTurn]);
    rig.prompt("hi");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Warn("careful".into())])));
    rig.abort();
    assert_eq!(rig.talk(), ["user: hicareful"]);
}

#[test]
fn at_before_turn() {
    let mut rig = Rig::hooked([HookPoint::BeforeTurn, HookPoint::AfterTurn]);
    rig.steer("also");
    rig.prompt("hi");
    let lines = rig.abort();
    assert_eq!(lines[..2], ["> cancel hook", "> ack i3"]);
    assert_eq!(lines.last().unwrap(), "> finish aborted");
    assert_eq!(rig.talk(), ["user: hi", "user: also"]);
    is_over(&mut rig);
}

#[test]
fn before_the_prompt_is_durable() {
    let mut rig = Rig::new();
    rig.held = true;
    assert_eq!(rig.prompt("hi"), [""; 0]);
    assert_eq!(rig.abort(), [""; 0]);
    rig.held = false;
    rig.commit();
    assert_eq!(
        rig.lines,
        [
            "> ack i1",
            "AgentStart",
            "TurnStart 0 User",
            "MessageStart i1/0",
            "MessageEnd i1/0 = user: hi",
            "ModelRequestStart t0a0 0",
            "> ack i2",
            "MessageStart model t0a0",
            "MessageEnd model t0a0 = model Aborted: ",
            "TurnEnd 0",
            "AgentEnd aborted (2)",
            "> finish aborted",
        ]
    );
    is_over(&mut rig);
}

#[test]
fn a_request_that_was_called_off_never_goes_out() {
    let mut rig = Rig::new();
    rig.held = true;
    rig.prompt("hi");
    rig.abort();
    rig.prompt("again");
    rig.held = false;
    rig.commit();
    assert_eq!(rig.lines.iter().filter(|line| line.starts_with("> call")).count(), 1);
    assert_eq!(rig.calls[0].0.as_str(), "s.c.2/0/0");
}

#[test]
fn before_a_tool_s_intent_is_durable() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.held = true;
    rig.wants(&[("c1", "once"), ("c2", "risky"), ("c3", "child")]);
    rig.abort();
    rig.held = false;
    rig.commit();
    assert!(rig.tools.is_empty() && rig.asks.is_empty(), "{:?}", rig.lines);
    let aborted = |call| format!("{call} error: {NOT_STARTED}");
    assert_eq!(rig.talk()[2..], [aborted("c1"), aborted("c2"), aborted("c3")]);
    is_over(&mut rig);
}

#[test]
fn while_text_streams() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.delta("half a ");
    rig.delta("thought");
    let (call, attempt, _) = rig.calls[0].clone();
    assert_eq!(
        rig.abort(),
        [
            "> cancel call 0",
            "> ack i2",
            "MessageEnd model t0a0 = model Aborted: half a thought",
            "TurnEnd 0",
            "AgentEnd aborted (2)",
            "> finish aborted",
        ]
    );
    // What the call still says is stale.
    let deltas = vec![playhouse_protocol::StreamDelta::Text { delta: "late".into() }];
    assert_eq!(rig.tell(Report::Delta { call, attempt, deltas }), [""; 0]);
    assert_eq!(rig.talk(), ["user: hi", "model Aborted: half a thought"]);
    is_over(&mut rig);
}

#[test]
fn in_a_backoff() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.delta("half");
    rig.retrying(ProviderError::RateLimited { message: String::new(), retry_after_ms: None }, 1_000);
    assert_eq!(
        rig.abort(),
        [
            "> cancel call 0",
            "> ack i2",
            "MessageStart model t0a1",
            "MessageEnd model t0a1 = model Aborted: ",
            "TurnEnd 0",
            "AgentEnd aborted (2)",
            "> finish aborted",
        ]
    );
    is_over(&mut rig);
}

#[test]
fn while_a_question_waits() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("c1", "risky")]);
    assert_eq!((rig.asks.len(), rig.timers.len()), (1, 1));
    assert_eq!(
        rig.abort(),
        [
            "> ack i2",
            "ToolExecutionStart c1",
            "ToolExecutionEnd c1",
            "MessageStart c1/result",
            &format!("MessageEnd c1/result = c1 error: {NOT_STARTED}"),
            "TurnEnd 0",
            "AgentEnd aborted (3)",
            "> finish aborted",
        ]
    );
    assert_eq!(rig.timers, []);
    let late = rig.permit("c1/ask", playhouse_protocol::PermissionDecision::Allow);
    assert_eq!(late, ["> refuse i3: permission `c1/ask-c6963825a2fc401f` is not waiting for an answer"]);
    is_over(&mut rig);
}

#[test]
fn while_tools_run() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("c1", "once"), ("c2", "read"), ("c3", "child"), ("c4", "once")]);
    assert_eq!(
        rig.abort(),
        ["> cancel tool c1", "> cancel tool c2", "> cancel child c3", "> cancel tool c4", "> ack i2"]
    );
    assert_eq!(rig.tool_shows("c1", "late"), [""; 0]);
    // One stops, one was done after all, one does not stop in time.
    rig.tool_ends("c1", Err(ToolError::Cancelled));
    rig.tool_ends("c2", Ok(ToolResult::text("done after all")));
    rig.tool_ends("c3", Err(ToolError::Cancelled));
    let grace = rig.timers.iter().find(|(timer, _)| *timer == Timer::AbortGrace).unwrap();
    assert_eq!(grace.1, Duration::from_secs(2));
    let lines = rig.time_up(Timer::AbortGrace);
    assert_eq!(lines[3..], ["TurnEnd 0", "AgentEnd aborted (6)", "> finish aborted"]);
    assert_eq!(
        rig.talk()[2..],
        [
            format!("c1 error: {STOPPED}"),
            "c2 result: done after all".into(),
            format!("c3 error: {STOPPED}"),
            format!("c4 error: {NOT_STOPPED}"),
        ]
    );
    // It is too late for the one that did not stop.
    assert_eq!(rig.done("c4"), [""; 0]);
    is_over(&mut rig);
}

#[test]
fn what_waits_behind_a_running_tool_is_answered_for() {
    let mut rig =
        Rig::with(|_, settings| settings.tool_execution = playhouse_protocol::ToolExecutionStrategy::Sequential);
    rig.prompt("hi");
    rig.steer("also");
    rig.wants(&[("c1", "read"), ("c2", "once")]);
    rig.abort();
    rig.tool_ends("c1", Err(ToolError::Cancelled));
    assert_eq!(rig.talk()[2..], [format!("c1 error: {STOPPED}"), format!("c2 error: {NOT_STARTED}")]);
    // Steering that was not taken still waits.
    assert_eq!(rig.machine.durable().steering.len(), 1);
    is_over(&mut rig);
}

#[test]
fn at_the_hooks_of_tools() {
    let mut rig = Rig::hooked([HookPoint::BeforeTool, HookPoint::AfterTool, HookPoint::BeforeUpdate]);
    rig.prompt("hi");
    rig.wants(&[("c1", "once"), ("c2", "once"), ("c3", "once"), ("c4", "once")]);
    for _ in 0..3 {
        rig.allow();
    }
    rig.tool_shows("c1", "half");
    rig.tool_shows("c3", "half");
    rig.tool_ends("c3", Ok(ToolResult::text("all")));
    rig.done("c2");
    // c1 shows a partial result, c2 is at `after_tool_execution`, c3 is done but still shows, c4 has not started.
    assert_eq!(rig.hooks.len(), 4);
    let lines = rig.abort();
    assert_eq!(lines.iter().filter(|line| *line == "> cancel hook").count(), 4);
    assert_eq!(lines.iter().filter(|line| line.starts_with("> cancel tool")).count(), 2);
    rig.tool_ends("c1", Err(ToolError::Cancelled));
    rig.come_to_rest();
    assert_eq!(
        rig.talk()[2..],
        [
            format!("c1 error: {STOPPED}"),
            "c2 result: c2 ok".into(),
            "c3 result: all".into(),
            format!("c4 error: {NOT_STARTED}"),
        ]
    );
    is_over(&mut rig);
}

#[test]
fn at_on_error_and_at_after_turn() {
    let mut rig = Rig::hooked([HookPoint::OnError, HookPoint::AfterTurn]);
    rig.prompt("hi");
    rig.call_failed(ProviderError::Api { message: "no".into() });
    assert_eq!(rig.abort(), ["> cancel hook", "> ack i2", "TurnEnd 0", "> hook AfterTurn"]);
    assert_eq!(rig.allow(), ["AgentEnd aborted (2)", "> finish aborted"]);

    rig.prompt("again");
    rig.says("one");
    // `after_turn` is over; it is not asked again.
    assert_eq!(rig.abort(), ["> cancel hook", "> ack i4", "AgentEnd aborted (2)", "> finish aborted"]);
    is_over(&mut rig);
}

#[test]
fn on_error_is_not_called() {
    let mut rig = Rig::hooked([HookPoint::OnError]);
    rig.prompt("hi");
    let lines = rig.abort();
    assert!(!lines.iter().any(|line| line.contains("hook")), "{lines:?}");
    is_over(&mut rig);
}

#[test]
fn at_after_loop_the_run_is_over_and_its_hook_goes_on() {
    let mut rig = Rig::hooked([HookPoint::AfterLoop]);
    rig.prompt("hi");
    rig.says("one");
    assert_eq!(rig.abort(), ["> ack i2"]);
    assert_eq!(rig.hooks.len(), 1);

    // A prompt that waits behind it can be aborted; the hook ends with that, and is not run twice.
    assert_eq!(rig.prompt("again"), ["> ack i3"]);
    let lines = rig.abort();
    assert_eq!(lines[..3], ["> cancel hook", "> ack i4", "AgentStart"]);
    assert_eq!(
        lines[3..],
        [
            "MessageStart i3/0",
            "MessageEnd i3/0 = user: again",
            "AgentEnd aborted (1)",
            "> finish aborted",
            "> hook AfterLoop"
        ]
    );
    rig.allow();
    assert!(rig.machine.is_at_rest());
}

#[test]
fn without_a_run_or_twice_it_changes_nothing() {
    let mut rig = Rig::new();
    assert_eq!(rig.abort(), ["> ack i1"]);
    assert!(rig.journals.is_empty());
    rig.prompt("hi");
    rig.wants(&[("c1", "once")]);
    rig.abort();
    assert_eq!(rig.abort(), ["> ack i4"]);
    assert_eq!(rig.bodies().filter(|body| matches!(body, EntryBody::AbortAsked { .. })).count(), 1);
}

#[test]
fn an_abort_that_a_crash_cuts_short_is_finished() {
    let mut rig = Rig::hooked(EVERY_HOOK);
    rig.prompt("hi");
    for _ in 0..4 {
        rig.answer_hook();
    }
    rig.wants(&[("c1", "once"), ("c2", "read"), ("c3", "child")]);
    for _ in 0..3 {
        rig.allow();
    }
    rig.wait(1_000);
    rig.abort();
    let lines = rig.restart();
    assert_eq!(lines[0], "AgentRestarted");
    assert!(!lines.iter().any(|line| line.starts_with("> run") || line.starts_with("> spawn")), "{lines:?}");
    rig.come_to_rest();
    let unknown = "started at 2026-01-01T00:00:00Z, outcome unknown; verify before repeating";
    assert_eq!(
        rig.talk()[2..],
        [format!("c1 error: {unknown}"), format!("c2 error: {STOPPED}"), format!("c3 error: {STOPPED}")]
    );
    is_over(&mut rig);
}
