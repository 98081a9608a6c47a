//! A run's deadline: it ends what is under way, and counts running time alone.

use std::time::Duration;

use playhouse_agent::machine::{Doing, FilterVerdict, Filtered, HookPoint, Timer, Verdict};
use playhouse_protocol::{EntryBody, ExecutionLimits, LimitHit, Outcome, PermissionDecision, ToolError};

use crate::rig::{EVERY_HOOK, Rig};

const TWO: Duration = Duration::from_secs(2);
const STOPPED: &str = "Aborted while it ran; it may have taken effect in part.";

fn rig(hooks: &[HookPoint]) -> Rig {
    Rig::with(|setup, settings| {
        setup.hooks = hooks.iter().fold(setup.hooks, |set, point| set.with(*point));
        settings.limits = ExecutionLimits { max_duration: Some(TWO), ..ExecutionLimits::none() };
    })
}

/// When the deadline is due, if it is armed.
fn armed(rig: &Rig) -> Option<Duration> {
    rig.timers.iter().find(|(timer, _)| *timer == Timer::Deadline).map(|(_, after)| *after)
}

fn millis(millis: u64) -> Option<Duration> {
    Some(Duration::from_millis(millis))
}

fn is_over(rig: &Rig) {
    assert!(rig.machine.is_at_rest());
    assert_eq!((rig.timers.as_slice(), rig.hooks.len()), ([].as_slice(), 0));
    let reached = rig.bodies().filter(|body| matches!(body, EntryBody::LimitReached { .. })).count();
    assert_eq!(reached, 1);
    assert_eq!(rig.talk().last().unwrap(), "user: [Agent stopped: max duration reached (2 s)]");
}

#[test]
fn it_ends_a_call_with_what_has_come_of_it() {
    let mut rig = rig(&[]);
    rig.prompt("hi");
    assert_eq!(armed(&rig), Some(TWO));
    rig.delta("half");
    rig.wait(2_000);
    let lines = rig.time_up(Timer::Deadline);
    assert_eq!(lines[..2], ["> cancel call 0", "MessageEnd model t0a0 = model Aborted: half"]);
    assert_eq!(lines.last().unwrap(), "> finish limit max duration reached (2 s)");
    assert_eq!(rig.talk()[..2], ["user: hi", "model Aborted: half"]);
    is_over(&rig);
}

#[test]
fn it_ends_tools_and_sub_agents_and_answers_for_what_has_not_started() {
    let mut rig = rig(&[]);
    rig.prompt("hi");
    rig.wants(&[("c1", "once"), ("c2", "child")]);
    rig.wait(2_500);
    assert_eq!(rig.time_up(Timer::Deadline), ["> cancel tool c1", "> cancel child c2"]);
    rig.tool_ends("c1", Err(ToolError::Cancelled));
    // The other does not listen.
    let lines = rig.time_up(Timer::AbortGrace);
    assert_eq!(lines.last().unwrap(), "> finish limit max duration reached (2 s)");
    assert_eq!(rig.talk()[2], format!("c1 error: {STOPPED}"));
    is_over(&rig);
}

#[test]
fn it_ends_hooks_and_places_nothing_that_the_filters_have_not_passed() {
    let mut rig = rig(&[HookPoint::Filter]);
    rig.prompt("hi");
    rig.wait(2_000);
    assert_eq!(rig.time_up(Timer::Deadline)[0], "> cancel hook");
    assert_eq!(rig.talk().len(), 1);
    is_over(&rig);
}

#[test]
fn it_survives_a_crash_with_what_is_left() {
    let mut rig = rig(&[]);
    rig.prompt("hi");
    rig.wait(1_200);
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    rig.restart();
    assert_eq!(armed(&rig), millis(800));
    // Reached, and the process ends before the tools have stopped.
    rig.wants(&[("c2", "same")]);
    rig.wait(800);
    rig.time_up(Timer::Deadline);
    let lines = rig.restart();
    assert_eq!(lines.last().unwrap(), "> finish limit max duration reached (2 s)", "{lines:?}");
    is_over(&rig);
}

#[test]
fn it_stands_still_while_nothing_goes_on_until_a_person_answers() {
    let mut rig = rig(&[]);
    rig.prompt("hi");
    rig.wait(500);
    rig.wants(&[("c1", "risky"), ("c2", "read")]);
    // A tool runs beside the question.
    rig.wait(500);
    assert!(armed(&rig).is_some());
    rig.done("c2");
    assert_eq!(armed(&rig), None);
    rig.wait(3_600_000);
    rig.permit("c1/ask", PermissionDecision::Allow);
    assert_eq!(armed(&rig), millis(1_000));
    rig.wait(300);
    rig.done("c1");
    assert_eq!(rig.machine.durable().run.as_ref().unwrap().tracker.elapsed, Duration::from_millis(1_300));
    rig.says("done");
    assert_eq!((armed(&rig), rig.reports[0].outcome.clone()), (None, Outcome::Stop));
}

#[test]
fn it_stands_still_while_sub_agents_do_nothing_but_wait_for_a_person() {
    let mut rig = rig(&[]);
    rig.prompt("hi");
    rig.wants(&[("c1", "child"), ("c2", "child"), ("c3", "risky")]);
    rig.wait(500);
    rig.child_is("c1", Doing::WaitingForAPerson);
    assert!(armed(&rig).is_some(), "the other is at work");
    rig.child_is("c2", Doing::WaitingForAPerson);
    assert_eq!((armed(&rig), rig.machine.doing()), (None, Doing::WaitingForAPerson));
    rig.wait(3_600_000);
    rig.child_is("c1", Doing::AtWork);
    assert_eq!((armed(&rig), rig.machine.doing()), (millis(1_500), Doing::AtWork));
    rig.wait(500);
    rig.done("c1");
    assert_eq!(armed(&rig), None);
    // One that is gone has nothing to say.
    rig.child_is("c1", Doing::AtWork);
    assert_eq!(armed(&rig), None);
    rig.wait(3_600_000);
    rig.permit("c3/ask", PermissionDecision::Allow);
    assert_eq!(armed(&rig), millis(1_000));
}

#[test]
fn a_timer_that_comes_early_is_armed_for_the_rest() {
    let mut rig = rig(&[]);
    rig.prompt("hi");
    rig.wait(1_500);
    assert_eq!(rig.time_up(Timer::Deadline), [""; 0]);
    assert_eq!(armed(&rig), millis(500));
}

#[test]
fn from_every_step_of_a_run_it_comes_to_an_end() {
    for answers in 0..100 {
        let mut rig = rig(&EVERY_HOOK);
        rig.prompt("hi");
        for _ in 0..answers {
            if !rig.hooks.is_empty() {
                rig.answer_hook();
            } else if !rig.calls.is_empty() && rig.machine.durable().responses == 0 {
                rig.wants(&[("c1", "once")]);
            } else if !rig.calls.is_empty() {
                rig.says("done");
            } else if !rig.tools.is_empty() {
                rig.done("c1");
            }
        }
        if rig.machine.is_at_rest() {
            assert!(answers > 8, "{answers}");
            return;
        }
        // Before the run has begun and after it has ended there is nothing to end.
        let Some(_) = armed(&rig) else { continue };
        rig.wait(2_000);
        rig.time_up(Timer::Deadline);
        // What only follows is still asked, and a tool that is told to stop does.
        for _ in 0..10 {
            match (rig.hooks.front(), rig.tools.is_empty()) {
                (Some(_), _) => drop(rig.answer_hook()),
                (None, false) => drop(rig.tool_ends("c1", Err(ToolError::Cancelled))),
                (None, true) => break,
            }
        }
        assert_eq!(rig.reports.last().unwrap().outcome, Outcome::Limit { limit: LimitHit::Duration(TWO) }, "{answers}");
        is_over(&rig);
    }
    panic!("the run does not end");
}

#[test]
fn filters_that_passed_before_it_count() {
    let mut rig = rig(&[HookPoint::Filter, HookPoint::BeforeTurn]);
    rig.prompt("hi");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass])));
    rig.wait(2_000);
    rig.time_up(Timer::Deadline);
    assert_eq!(rig.talk()[0], "user: hi");
    is_over(&rig);
}
