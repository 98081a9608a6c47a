//! What hooks say beyond yes and no: other arguments, a question, something for the model, an end, a refusal to end.

use std::sync::Arc;

use playhouse_agent::machine::{AfterTool, BeforeTool, HookCall, HookPoint, SessionStart, Timer, Verdict};
use playhouse_protocol::{AgentEvent, EntryBody, ExecutionLimits, PermissionDecision, PermissionMode, Seq};
use serde_json::{Value, json};

use crate::rig::Rig;

fn amend(args: Value) -> Verdict {
    Verdict::BeforeTool(BeforeTool::Amend { args: Arc::new(args) })
}

fn asks(args: Option<Value>) -> Verdict {
    Verdict::BeforeTool(BeforeTool::Ask { reason: "sure?".into(), args: args.map(Arc::new) })
}

/// A run whose call waits for `before_tool_execution`.
fn at_the_tool(name: &str) -> Rig {
    let mut rig = Rig::hooked([HookPoint::BeforeTool]);
    rig.prompt("hi");
    rig.wants(&[("c1", name)]);
    if name == "risky" {
        rig.permit("c1/ask", PermissionDecision::Allow);
    }
    rig
}

/// The arguments that observers are told a tool runs with.
fn started_with(rig: &Rig) -> Value {
    match rig.event(|event| matches!(event, AgentEvent::ToolExecutionStart { .. })) {
        Some(AgentEvent::ToolExecutionStart { args, .. }) => args.clone(),
        other => panic!("nothing started: {other:?}"),
    }
}

#[test]
fn a_tool_runs_with_the_arguments_that_a_hook_gives_it_and_the_hook_is_not_asked_again() {
    let mut rig = at_the_tool("once");
    assert_eq!(rig.verdict(amend(json!({"n": 2}))), ["ToolExecutionStart c1", "> run c1 First"]);
    assert_eq!(started_with(&rig), json!({"n": 2}));
    assert!(rig.hooks.is_empty());
    rig.done("c1");
    assert_eq!(rig.talk()[2], "c1 result: c1 ok");
}

#[test]
fn other_arguments_are_looked_over_from_the_start() {
    let mut rig = at_the_tool("once");
    assert_eq!(rig.verdict(amend(json!("no JSON")))[0], "ToolBlocked c1 Schema");

    // A yes was to the old arguments: the new ones need their own, under an id of their own.
    let mut rig = at_the_tool("risky");
    let lines = rig.verdict(amend(json!({"n": 2})));
    assert_eq!(lines, ["PermissionRequired c1/ask/hooked", "> ask c1/ask/hooked"]);
    let Some(AgentEvent::PermissionRequired { args, .. }) =
        rig.event(|event| matches!(event, AgentEvent::PermissionRequired { .. }))
    else {
        panic!("nobody was asked")
    };
    assert_eq!(*args, json!({"n": 2}));
    let lines = rig.permit("c1/ask/hooked", PermissionDecision::Allow);
    assert_eq!(lines[2..], ["ToolExecutionStart c1", "> run c1 First"], "{lines:?}");
}

#[test]
fn what_a_hook_made_of_a_call_survives_a_crash() {
    let mut rig = at_the_tool("risky");
    rig.verdict(amend(json!({"n": 2})));
    let lines = rig.restart();
    assert_eq!(lines, ["AgentRestarted", "PermissionRequired c1/ask/hooked", "> ask c1/ask/hooked"]);
    rig.permit("c1/ask/hooked", PermissionDecision::Allow);
    assert_eq!(started_with(&rig), json!({"n": 2}));

    let mut rig = at_the_tool("once");
    rig.verdict(asks(None));
    assert_eq!(rig.restart(), ["AgentRestarted", "PermissionRequired c1/ask/hooked", "> ask c1/ask/hooked"]);
}

#[test]
fn a_hook_that_asks_is_answered_before_the_tool_runs() {
    for (name, mode) in [("once", PermissionMode::Ask), ("risky", PermissionMode::Yolo)] {
        let mut rig = Rig::with(|setup, settings| {
            setup.hooks = setup.hooks.with(HookPoint::BeforeTool);
            settings.permission = mode;
        });
        rig.prompt("hi");
        rig.wants(&[("c1", name)]);
        assert_eq!(rig.verdict(asks(None)), ["PermissionRequired c1/ask/hooked", "> ask c1/ask/hooked"]);
        let lines = rig.permit("c1/ask/hooked", PermissionDecision::Allow);
        assert_eq!(lines[2..], ["ToolExecutionStart c1", "> run c1 First"], "{lines:?}");
    }
    let mut rig = at_the_tool("once");
    rig.verdict(asks(None));
    rig.permit("c1/ask/hooked", PermissionDecision::Deny { reason: "no".into() });
    assert_eq!((rig.tools.len(), rig.talk()[2].as_str()), (0, "c1 error: no"));
    let mut rig = at_the_tool("once");
    rig.verdict(asks(None));
    rig.time_up(Timer::Permission("c1/ask/hooked-c6963825a2fc401f".into()));
    assert_eq!(rig.talk()[2], "c1 error: nobody answered within 120 s");
}

#[test]
fn one_yes_covers_what_a_hook_asks_and_what_the_tool_asks_for_the_same_arguments() {
    let mut rig = at_the_tool("risky");
    assert_eq!(rig.verdict(asks(Some(json!({"n": 2}))))[0], "PermissionRequired c1/ask/hooked");
    rig.permit("c1/ask/hooked", PermissionDecision::Allow);
    assert_eq!((rig.asks.len(), rig.tools.len(), started_with(&rig)), (0, 1, json!({"n": 2})));
}

#[test]
fn a_hook_that_asks_without_anyone_to_ask_is_a_no() {
    let mut rig = Rig::hooked([HookPoint::BeforeTool]);
    rig.setup.approver = playhouse_agent::machine::Approver::Nobody;
    rig.machine.set_setup(rig.setup.clone());
    rig.prompt("hi");
    rig.wants(&[("c1", "once")]);
    rig.verdict(asks(None));
    assert_eq!(
        rig.talk()[2],
        "c1 error: `once` needs permission to go past a hook that says: sure?, and there is nobody to ask"
    );
}

#[test]
fn a_hook_that_ends_the_run_blocks_its_call_and_those_that_have_not_started() {
    let mut rig = Rig::with(|setup, settings| {
        setup.hooks = setup.hooks.with(HookPoint::BeforeTool);
        settings.tool_execution = playhouse_protocol::ToolExecutionStrategy::Sequential;
    });
    rig.prompt("hi");
    rig.wants(&[("c1", "once"), ("c2", "once")]);
    let lines = rig.halt("enough");
    assert_eq!(lines.iter().filter(|line| line.ends_with("Hook")).count(), 2, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "> finish halted enough");
    assert_eq!(rig.talk()[2..], ["c1 error: enough", "c2 error: the run is being ended: enough"]);
    assert!(rig.machine.is_at_rest() && rig.tools.is_empty());
}

#[test]
fn after_a_tool_a_hook_adds_to_the_result_and_that_is_journaled() {
    let mut rig = Rig::hooked([HookPoint::AfterTool]);
    rig.prompt("hi");
    rig.wants(&[("c1", "once")]);
    rig.done("c1");
    let Some((_, HookCall::AfterTool { name, is_error, result, .. })) = rig.hooks.front() else { panic!("no hook") };
    assert_eq!((name.as_str(), *is_error, crate::lines::said(result)), ("once", false, "c1 result: c1 ok".into()));
    let lines = rig.verdict(Verdict::AfterTool(AfterTool::Say { text: " and more".into() }));
    assert_eq!(lines[..2], ["MessageStart c1/result", "MessageEnd c1/result = c1 result: c1 ok and more"]);
    // It is part of the conversation that the model is sent, now and after a crash.
    rig.restart();
    let (_, _, config) = rig.calls.last().unwrap();
    let sent: Vec<String> = config.messages.as_slice().iter().map(|message| crate::lines::said(message)).collect();
    assert_eq!(sent[2], "c1 result: c1 ok and more");
}

#[test]
fn a_hook_after_a_tool_ends_the_run_with_its_result() {
    let mut rig = Rig::hooked([HookPoint::AfterTool]);
    rig.prompt("hi");
    rig.wants(&[("c1", "once")]);
    rig.done("c1");
    assert_eq!(rig.halt("enough").last().unwrap(), "> finish halted enough");
    assert_eq!(rig.talk()[2], "c1 result: c1 ok");
}

#[test]
fn a_run_that_may_not_stop_goes_on_with_the_reason() {
    let mut rig = Rig::hooked([HookPoint::Stop]);
    rig.prompt("hi");
    assert_eq!(rig.says("done").last().unwrap(), "> hook Stop");
    let lines = rig.refuse("test it");
    assert_eq!(
        lines,
        [
            "TurnStart 1 Continuation",
            "MessageStart s.c.1/stop/1/0",
            "MessageEnd s.c.1/stop/1/0 = user: test it",
            "ModelRequestStart t1a0 0",
            "> call 0",
        ]
    );
    rig.says("tested");
    let Some((_, HookCall::Stop { refusals, .. })) = rig.hooks.front() else { panic!("no hook") };
    assert_eq!(*refusals, 1);
    assert_eq!(rig.allow().last().unwrap(), "> finish stop");
    assert_eq!(rig.talk(), ["user: hi", "model Stop: done", "user: test it", "model Stop: tested"]);
}

#[test]
fn a_refusal_to_stop_survives_a_crash_and_is_counted() {
    let mut rig = Rig::hooked([HookPoint::Stop]);
    rig.prompt("hi");
    rig.says("done");
    rig.held = true;
    rig.refuse("test it");
    // The refusal is durable, the turn that follows from it is not.
    let refused = rig.queued[0].1.entries[0].clone();
    assert!(matches!(refused.body, EntryBody::StopRefused { .. }), "{refused:?}");
    let journal = rig.journals.get_mut(&rig.session).unwrap();
    journal.push((Seq(journal.len() as u64 + 1), refused));
    rig.held = false;
    let lines = rig.restart();
    assert_eq!(lines[..2], ["AgentRestarted", "TurnStart 1 Continuation"], "{lines:?}");
    rig.says("tested");
    let Some((_, HookCall::Stop { refusals, .. })) = rig.hooks.front() else { panic!("no hook") };
    assert_eq!(*refusals, 1);
}

#[test]
fn a_hook_keeps_a_run_from_stopping_eight_times_in_a_row_and_no_more() {
    let mut rig = Rig::hooked([HookPoint::Stop]);
    rig.prompt("hi");
    for _ in 0..8 {
        rig.says("done");
        rig.refuse("");
    }
    assert_eq!(rig.says("done").last().unwrap(), "> finish stop");
    assert_eq!(rig.talk()[2], "user: You are not done yet: a hook does not let you stop.");

    // Somebody else's word begins the count anew.
    rig.prompt("again");
    rig.says("done");
    rig.refuse("more");
    rig.steer("listen");
    rig.says("done");
    rig.says("done");
    let Some((_, HookCall::Stop { refusals, .. })) = rig.hooks.front() else { panic!("no hook") };
    assert_eq!(*refusals, 0);
}

#[test]
fn what_is_said_while_a_hook_is_asked_about_the_end_is_heard() {
    let mut rig = Rig::hooked([HookPoint::Stop]);
    rig.prompt("hi");
    rig.says("done");
    assert_eq!(rig.steer("one thing"), ["> ack i2"]);
    let lines = rig.allow();
    assert_eq!(lines[..3], ["TurnStart 1 Continuation", "MessageStart i2/0", "MessageEnd i2/0 = user: one thing"]);
    // The next end is asked about again.
    assert_eq!(rig.says("done").last().unwrap(), "> hook Stop");
    assert_eq!(rig.allow().last().unwrap(), "> finish stop");
}

#[test]
fn only_a_run_that_is_done_is_asked_about() {
    let once = ExecutionLimits { max_turns: Some(1), ..ExecutionLimits::none() };
    let mut rig = Rig::with(|setup, settings| {
        setup.hooks = setup.hooks.with(HookPoint::Stop);
        settings.limits = once;
    });
    rig.prompt("hi");
    rig.wants(&[("c1", "read")]);
    assert_eq!(rig.done("c1").last().unwrap(), "> finish limit max turns reached (1)");
    // A refusal does not lift a limit.
    rig.prompt("again");
    rig.says("done");
    assert_eq!(rig.refuse("more").last().unwrap(), "> finish limit max turns reached (1)");
}

#[test]
fn a_hook_that_does_not_answer_ends_the_run_it_was_asked_about() {
    let mut rig = Rig::hooked([HookPoint::Stop]);
    rig.prompt("hi");
    rig.says("done");
    let (timer, _) = rig.timers[0].clone();
    assert_eq!(rig.time_up(timer).last().unwrap(), "> finish halted the hook did not answer in time");
    let mut rig = Rig::hooked([HookPoint::Stop]);
    rig.prompt("hi");
    rig.says("done");
    assert_eq!(rig.abort().last().unwrap(), "> finish aborted");
}

#[test]
fn a_sessions_start_is_told_once_and_adds_to_its_first_prompt() {
    let mut rig = Rig::hooked([HookPoint::SessionStart]);
    assert_eq!(rig.prompt("hi").last().unwrap(), "> hook SessionStart");
    let source = |rig: &Rig| match rig.hooks.front() {
        Some((_, HookCall::SessionStart { source })) => source.as_str(),
        other => panic!("{other:?}"),
    };
    assert_eq!(source(&rig), "startup");
    rig.verdict(Verdict::SessionStart(SessionStart::Say { text: " (on main)".into() }));
    rig.says("done");
    rig.prompt("again");
    rig.says("done");
    assert_eq!(rig.talk(), ["user: hi (on main)", "model Stop: done", "user: again", "model Stop: done"]);
    rig.restart();
    rig.prompt("and again");
    assert_eq!(source(&rig), "resume");
    assert_eq!(rig.refuse("no").last().unwrap(), "> finish halted session_start: no");
    // It did not start, so the next prompt tries again.
    rig.prompt("please");
    assert_eq!(source(&rig), "resume");
}

#[test]
fn a_prompt_that_is_rejected_leaves_the_sessions_start_to_the_next() {
    let mut rig = Rig::hooked([HookPoint::SessionStart, HookPoint::Filter]);
    rig.prompt("rude");
    rig.verdict(Verdict::SessionStart(SessionStart::Say { text: " (on main)".into() }));
    rig.refuse("rude");
    rig.prompt("kind");
    rig.verdict(Verdict::SessionStart(SessionStart::Say { text: " (on main)".into() }));
    rig.allow();
    assert_eq!(rig.talk(), ["user: kind (on main)"]);
}
