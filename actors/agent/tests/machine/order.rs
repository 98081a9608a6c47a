//! The order of events and hooks in a run.

use playhouse_agent::machine::{FilterVerdict, Filtered, HookPoint, Verdict};
use playhouse_protocol::{AgentEvent, ExecutionLimits, Message, PermissionMode, ProviderError, Usage};
use std::time::Duration;

use crate::rig::{EVERY_HOOK, Rig};

fn passed(inputs: usize) -> Verdict {
    Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass; inputs]))
}

#[test]
fn a_run_with_every_hook_goes_in_the_order_of_the_contract() {
    let mut rig = Rig::hooked(EVERY_HOOK);
    rig.prompt("hi");
    rig.allow(); // before_loop
    rig.allow(); // session_start
    rig.verdict(passed(1));
    rig.allow(); // before_turn
    rig.delta("on");
    rig.wants(&[("c1", "read")]);
    rig.allow(); // before_tool_execution
    rig.tool_shows("c1", "half");
    rig.allow(); // before_tool_execution_update
    rig.allow(); // after_tool_execution_update
    rig.done("c1");
    rig.allow(); // after_tool_execution
    rig.allow(); // after_turn
    rig.allow(); // before_turn
    rig.call_failed(ProviderError::Api { message: "no".into() });
    rig.allow(); // on_error
    rig.allow(); // after_turn
    rig.allow(); // after_loop
    assert!(rig.machine.is_at_rest());
    assert_eq!(
        rig.lines,
        [
            "> ack i1",
            "> hook BeforeLoop",
            "AgentStart",
            "> hook SessionStart",
            "> hook Filter",
            "> hook BeforeTurn",
            "TurnStart 0 User",
            "MessageStart i1/0",
            "MessageEnd i1/0 = user: hi",
            "ModelRequestStart t0a0 0",
            "> call 0",
            "MessageStart model t0a0",
            "MessageUpdate on",
            "MessageEnd model t0a0 = model ToolUse: on it",
            "> hook BeforeTool",
            "ToolExecutionStart c1",
            "> run c1 First",
            "> hook BeforeUpdate",
            "ToolExecutionUpdate c1",
            "> hook AfterUpdate",
            "ToolExecutionEnd c1",
            "> hook AfterTool",
            "MessageStart c1/result",
            "MessageEnd c1/result = c1 result: c1 ok",
            "TurnEnd 0",
            "> hook AfterTurn",
            "> hook BeforeTurn",
            "TurnStart 1 Continuation",
            "ModelRequestStart t1a0 0",
            "> call 0",
            "MessageStart model t1a0",
            "MessageEnd model t1a0 = model Error: ",
            "> hook OnError",
            "TurnEnd 1",
            "> hook AfterTurn",
            "AgentEnd error the provider refused the request: no (4)",
            "> finish error the provider refused the request: no",
            "> hook AfterLoop",
        ]
    );
}

#[test]
fn before_loop_false_ends_with_no_messages_and_without_a_start() {
    let mut rig = Rig::hooked([HookPoint::BeforeLoop, HookPoint::AfterLoop]);
    rig.prompt("hi");
    assert_eq!(
        rig.refuse("not today"),
        ["AgentEnd halted before_loop: not today (0)", "> finish halted before_loop: not today", "> hook AfterLoop"]
    );
    rig.allow();
    assert!(rig.machine.is_at_rest() && rig.talk().is_empty());
    // It counts as a run: the next one has a name of its own.
    rig.prompt("again");
    rig.allow();
    assert_eq!(rig.machine.durable().last_loop_id, Some("s.c.2".into()));
}

#[test]
fn before_turn_false_ends_the_run_and_keeps_the_prompt() {
    let mut rig = Rig::hooked([HookPoint::BeforeTurn]);
    rig.prompt("hi");
    assert_eq!(
        rig.refuse("enough"),
        [
            "MessageStart i1/0",
            "MessageEnd i1/0 = user: hi",
            "AgentEnd halted before_turn: enough (1)",
            "> finish halted before_turn: enough",
        ]
    );
    assert!(rig.machine.is_at_rest());
}

#[test]
fn a_denied_tool_has_no_execution_events_and_the_reason_is_its_error() {
    let mut rig = Rig::hooked([HookPoint::BeforeTool, HookPoint::AfterTool]);
    rig.prompt("hi");
    rig.wants(&[("c1", "once")]);
    assert_eq!(
        rig.refuse("too dangerous"),
        [
            "ToolBlocked c1 Hook",
            "MessageStart c1/result",
            "MessageEnd c1/result = c1 error: too dangerous",
            "TurnEnd 0",
            "TurnStart 1 Continuation",
            "ModelRequestStart t1a0 0",
            "> call 0",
        ]
    );
    assert!(rig.tools.is_empty());
}

#[test]
fn a_suppressed_update_changes_nothing_else() {
    let mut rig = Rig::hooked([HookPoint::BeforeUpdate, HookPoint::AfterUpdate]);
    rig.prompt("hi");
    rig.wants(&[("c1", "read")]);
    assert_eq!(rig.tool_shows("c1", "a"), ["> hook BeforeUpdate"]);
    // While one is looked at, the latest waits, and so does the end.
    assert_eq!(rig.tool_shows("c1", "b"), [""; 0]);
    assert_eq!(rig.tool_shows("c1", "c"), [""; 0]);
    assert_eq!(rig.refuse("hush"), ["> hook BeforeUpdate"]);
    assert_eq!(rig.done("c1"), [""; 0]);
    assert_eq!(rig.allow(), ["ToolExecutionUpdate c1", "> hook AfterUpdate"]);
    let shown = rig.event(|event| matches!(event, AgentEvent::ToolExecutionUpdate { .. }));
    assert!(format!("{shown:?}").contains("\"c\""), "not the latest: {shown:?}");
    assert_eq!(rig.allow()[..2], ["ToolExecutionEnd c1", "MessageStart c1/result"]);
}

#[test]
fn a_refused_call_is_blocked_at_its_stage() {
    let mut rig = Rig::with(|setup, _| setup.approver = playhouse_agent::machine::Approver::Nobody);
    rig.prompt("hi");
    let lines = rig.wants(&[("c1", "nothing"), ("c2", "risky")]);
    assert_eq!(
        lines[1..7],
        [
            "MessageEnd model t0a0 = model ToolUse: on it",
            "ToolBlocked c1 Lookup",
            "MessageStart c1/result",
            "MessageEnd c1/result = c1 error: no such tool",
            "ToolBlocked c2 Approval",
            "MessageStart c2/result",
        ]
    );
    assert_eq!(rig.talk()[3], "c2 error: `risky` needs permission to take a risk, and there is nobody to ask");
    let mut rig = Rig::with(|_, settings| settings.permission = PermissionMode::Yolo);
    rig.prompt("hi");
    assert!(rig.wants(&[("c1", "risky")]).contains(&"> run c1 First".to_owned()));
}

#[test]
fn filters_warn_and_reject() {
    let mut rig = Rig::hooked([HookPoint::Filter]);
    rig.prompt("rude");
    assert_eq!(
        rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Reject("rude".into())]))),
        ["InputRejected i1: rude", "AgentEnd rejected rude (0)", "> finish rejected rude"]
    );
    let rejection = rig.event(|event| matches!(event, AgentEvent::AgentEnd { .. }));
    assert!(matches!(rejection, Some(AgentEvent::AgentEnd { rejection: Some(reason), .. }) if reason == "rude"));

    rig.prompt("odd");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Warn(" [careful]".into())])));
    rig.steer("rude");
    rig.steer("fine");
    assert_eq!(rig.says("well")[2..], ["TurnEnd 0", "> hook Filter"]);
    assert_eq!(
        rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Reject("rude".into())]))),
        ["InputRejected i3: rude", "> hook Filter"]
    );
    rig.verdict(passed(1));
    rig.says("done");
    assert_eq!(rig.talk(), ["user: odd [careful]", "model Stop: well", "user: fine", "model Stop: done"]);
    assert!(rig.machine.is_at_rest());

    // A filter that gives no verdict rejects, and so does one that does not answer.
    rig.prompt("what");
    assert_eq!(
        rig.verdict(Verdict::Filter(Filtered::Each(Vec::new())))[0],
        "InputRejected i5: the filter gave no verdict"
    );
    rig.prompt("slow");
    let timer = rig.timers[0].0.clone();
    assert_eq!(rig.time_up(timer)[..2], ["> cancel hook", "InputRejected i6: the hook did not answer in time"]);
}

#[test]
fn every_hook_has_its_deadline_and_a_short_one_in_an_abort() {
    let mut rig = Rig::hooked([HookPoint::BeforeTurn, HookPoint::AfterTurn]);
    rig.prompt("hi");
    assert_eq!(rig.timers[0].1, Duration::from_secs(60));
    rig.allow();
    assert_eq!(rig.timers, []);
    rig.abort();
    assert_eq!(rig.timers[0].1, Duration::from_millis(100));
    let timer = rig.timers[0].0.clone();
    assert_eq!(rig.time_up(timer), ["> cancel hook", "AgentEnd aborted (2)", "> finish aborted"]);
}

#[test]
fn a_limit_leaves_its_note_and_ends_the_run_in_order() {
    let limited = |limits| Rig::with(move |_, settings| settings.limits = limits);
    let mut rig = limited(ExecutionLimits { max_turns: Some(1), ..ExecutionLimits::none() });
    rig.prompt("hi");
    rig.wants(&[("c1", "read")]);
    rig.steer("and this");
    assert_eq!(
        rig.done("c1")[3..],
        [
            "TurnEnd 0",
            "MessageStart i2/0",
            "MessageEnd i2/0 = user: and this",
            "MessageStart s.c.1#10/note",
            "MessageEnd s.c.1#10/note = user: [Agent stopped: max turns reached (1)]",
            "AgentEnd limit max turns reached (1) (5)",
            "> finish limit max turns reached (1)",
        ]
    );
    assert!(rig.machine.is_at_rest());

    // Without a turn at all, everything is closed all the same.
    let mut rig = limited(ExecutionLimits { max_turns: Some(0), ..ExecutionLimits::none() });
    assert_eq!(rig.prompt("hi")[1..3], ["AgentStart", "MessageStart i1/0"]);
    assert_eq!(rig.talk(), ["user: hi", "user: [Agent stopped: max turns reached (0)]"]);

    let mut rig = limited(ExecutionLimits { max_total_tokens: Some(5), ..ExecutionLimits::none() });
    rig.prompt("hi");
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    assert_eq!(rig.talk()[3], "user: [Agent stopped: max tokens reached (5)]");
    assert_eq!(rig.reports[0].usage, Usage::of(3, 2, 0, 0, 0));

    let mut rig = limited(ExecutionLimits { max_duration: Some(Duration::from_secs(2)), ..ExecutionLimits::none() });
    rig.prompt("hi");
    rig.wants(&[("c1", "read")]);
    rig.wait(2_000);
    rig.done("c1");
    assert_eq!(rig.talk()[3], "user: [Agent stopped: max duration reached (2 s)]");
}

#[test]
fn a_failed_call_ends_the_run_with_its_error() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.follow_up("later");
    assert_eq!(
        rig.call_failed(ProviderError::Api { message: "no".into() }),
        [
            "MessageStart model t0a0",
            "MessageEnd model t0a0 = model Error: ",
            "TurnEnd 0",
            "AgentEnd error the provider refused the request: no (2)",
            "> finish error the provider refused the request: no",
        ]
    );
    let last = rig.machine.durable().record.messages().as_slice().last().unwrap().llm().cloned();
    let Some(Message::Assistant { error_message: Some(text), .. }) = last else { panic!("{last:?}") };
    assert_eq!(text, "the provider refused the request: no");
    assert_eq!(rig.machine.durable().follow_ups.len(), 1);
}

#[test]
fn events_are_numbered_by_the_entry_they_derive_from() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.delta("a");
    rig.says("done");
    let ids: Vec<String> = rig.events.iter().map(|event| event.id.to_string()).collect();
    assert_eq!(ids, ["3.0", "4.0", "4.1", "4.2", "5.0", "5.1", "5.2", "6.0", "7.0", "8.0"]);
    let loops: Vec<_> = rig.events.iter().map(|event| event.loop_id.as_ref().map(|id| id.as_str())).collect();
    assert_eq!(loops, [Some("s.c.1"); 10]);
}
