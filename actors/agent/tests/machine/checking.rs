//! Nobody is asked about a call that would fail at once.

use playhouse_agent::machine::{Approver, HookPoint, HookSet, Timer};
use playhouse_protocol::{EntryBody, PermissionDecision};

use crate::rig::Rig;

/// Lines about questions and their calls.
fn told(lines: &[String]) -> Vec<&str> {
    let told = |line: &&String| line.starts_with("Tool") || line.starts_with("Permission") || line.starts_with("> ask");
    lines.iter().filter(told).map(String::as_str).collect()
}

fn asked(rig: &Rig) -> usize {
    rig.bodies().filter(|body| matches!(body, EntryBody::PermissionAsked { .. })).count()
}

#[test]
fn a_call_that_would_fail_is_answered_with_its_tools_error_and_nobody_is_asked() {
    let mut rig = Rig::hooked([HookPoint::Check]);
    rig.prompt("hi");
    rig.wants(&[("a", "risky")]);
    assert_eq!((asked(&rig), rig.asks.len()), (0, 0), "not before the tool has looked");
    let lines = rig.refuse("no such file");
    assert_eq!(told(&lines), ["ToolBlocked a Check"]);
    assert_eq!(rig.talk()[2], "a error: no such file");
    assert_eq!((asked(&rig), rig.timers.len()), (0, 0));
    rig.come_to_rest();
}

#[test]
fn a_call_that_may_work_is_asked_about_and_not_looked_at_again() {
    let mut rig = Rig::hooked([HookPoint::Check]);
    rig.prompt("hi");
    rig.wants(&[("a", "risky"), ("b", "once")]);
    assert_eq!((rig.hooks.len(), rig.tools.len()), (1, 1), "only what is asked about is looked at");
    rig.allow();
    assert_eq!((rig.asks.len(), rig.hooks.len()), (1, 0));
    rig.restart();
    assert_eq!((rig.asks.len(), rig.hooks.len()), (1, 0), "the journal has the question");
    rig.permit("a/ask", PermissionDecision::Allow);
    assert_eq!((rig.tools.len(), rig.hooks.len()), (1, 0));
    rig.come_to_rest();
}

#[test]
fn a_look_that_ends_in_no_answer_or_in_a_crash_is_no_reason_against_a_call() {
    let mut rig = Rig::hooked([HookPoint::Check]);
    rig.prompt("hi");
    rig.wants(&[("a", "risky")]);
    let (hook, _) = rig.hooks[0];
    rig.time_up(Timer::Hook(hook));
    assert_eq!((rig.asks.len(), rig.hooks.len()), (1, 0));

    let mut rig = Rig::hooked([HookPoint::Check]);
    rig.prompt("hi");
    rig.wants(&[("a", "risky")]);
    rig.restart();
    assert_eq!((rig.asks.len(), rig.hooks.len()), (0, 1), "what was not journaled is looked at anew");
    rig.allow();
    assert_eq!(rig.asks.len(), 1);

    let mut rig = Rig::hooked([HookPoint::Check]);
    rig.prompt("hi");
    rig.wants(&[("a", "risky")]);
    rig.abort();
    assert!(rig.machine.is_at_rest() && rig.hooks.is_empty());
    assert_eq!(rig.talk()[2], "a error: Aborted before it started.");
}

#[test]
fn what_an_earlier_call_may_change_is_not_looked_at_before_that_is_done() {
    let hooks = HookSet::default().with(HookPoint::Check);
    let calls = [("a", "risky alone"), ("b", "risky alone")];
    // Questions that are all put at once.
    let mut rig = Rig::with(|setup, _| setup.hooks = hooks);
    rig.prompt("hi");
    rig.wants(&calls);
    assert_eq!((rig.hooks.len(), rig.asks.len()), (1, 1), "the second is asked about without a look");

    // Questions that are seen one at a time.
    let mut rig = Rig::with(|setup, _| (setup.hooks, setup.approver) = (hooks, Approver::InTurn));
    rig.prompt("hi");
    rig.wants(&calls);
    assert_eq!((rig.hooks.len(), rig.asks.len()), (1, 0));
    rig.allow();
    rig.permit("a/ask", PermissionDecision::Allow);
    assert_eq!((rig.hooks.len(), rig.asks.len()), (0, 0), "the second waits while the first runs");
    rig.done("a");
    let lines = rig.refuse("its text is gone");
    assert_eq!(told(&lines), ["ToolBlocked b Check"]);
    rig.come_to_rest();
}

#[test]
fn a_question_that_waits_for_another_survives_a_restart_and_an_abort() {
    let in_turn = || Rig::with(|setup, _| setup.approver = Approver::InTurn);
    let mut rig = in_turn();
    rig.prompt("hi");
    rig.wants(&[("a", "risky alone"), ("b", "risky alone")]);
    rig.restart();
    assert_eq!(rig.asks.len(), 1);
    rig.permit("a/ask", PermissionDecision::Deny { reason: "no".into() });
    assert_eq!(rig.asks.len(), 1, "the next");
    rig.come_to_rest();
    let mut rig = in_turn();
    rig.prompt("hi");
    rig.wants(&[("a", "risky alone"), ("b", "risky alone")]);
    rig.abort();
    assert!(rig.machine.is_at_rest());
}
