//! Steering and follow-ups: when they are taken, how many, and what that means for tools.

use playhouse_agent::machine::{FilterVerdict, Filtered, HookPoint, Verdict};
use playhouse_protocol::{QueueMode, ToolExecutionStrategy};

use crate::rig::Rig;

const SKIPPED: &str = "Skipped due to queued user message.";

fn running(strategy: ToolExecutionStrategy) -> Rig {
    Rig::with(|_, settings| settings.tool_execution = strategy)
}

fn five_calls(rig: &mut Rig) {
    rig.prompt("hi");
    rig.wants(&[("c1", "read"), ("c2", "read"), ("c3", "nothing"), ("c4", "once"), ("c5", "read")]);
}

fn at_work(rig: &Rig) -> Vec<&str> {
    rig.tools.iter().map(|(call, _)| call.as_str()).collect()
}

#[test]
fn one_after_the_other_steering_is_delivered_after_each_tool() {
    let mut rig = running(ToolExecutionStrategy::Sequential);
    five_calls(&mut rig);
    assert_eq!(at_work(&rig), ["c1"]);
    rig.done("c1");
    assert_eq!(at_work(&rig), ["c2"]);
    assert_eq!(rig.steer("stop that"), ["> ack i2"]);
    let skipped = |call: &str| {
        [
            format!("ToolExecutionStart {call}"),
            format!("ToolExecutionEnd {call}"),
            format!("MessageStart {call}/result"),
            format!("MessageEnd {call}/result = {call} error: {SKIPPED}"),
        ]
    };
    let mut expected = vec![
        "ToolExecutionEnd c2".to_owned(),
        "MessageStart c2/result".into(),
        "MessageEnd c2/result = c2 result: c2 ok".into(),
    ];
    expected.extend(["c3", "c4", "c5"].iter().flat_map(|call| skipped(call)));
    expected.extend(
        [
            "TurnEnd 0",
            "TurnStart 1 Continuation",
            "MessageStart i2/0",
            "MessageEnd i2/0 = user: stop that",
            "ModelRequestStart t1a0 0",
            "> call 0",
        ]
        .map(str::to_owned),
    );
    assert_eq!(rig.done("c2"), expected);
}

#[test]
fn in_groups_steering_is_delivered_after_each_group() {
    let mut rig = running(ToolExecutionStrategy::Batched { size: 2 });
    five_calls(&mut rig);
    assert_eq!(at_work(&rig), ["c1", "c2"]);
    rig.steer("stop that");
    rig.done("c2");
    assert_eq!(at_work(&rig), ["c1"]);
    rig.done("c1");
    assert_eq!(at_work(&rig), [""; 0]);
    let results = &rig.talk()[2..7];
    let skipped = |call| format!("{call} error: {SKIPPED}");
    assert_eq!(
        results,
        ["c1 result: c1 ok".to_owned(), "c2 result: c2 ok".into(), skipped("c3"), skipped("c4"), skipped("c5")]
    );

    // Without steering the groups follow each other; one that was blocked does not hold its group back.
    let mut rig = running(ToolExecutionStrategy::Batched { size: 2 });
    five_calls(&mut rig);
    rig.done("c1");
    rig.done("c2");
    assert_eq!(at_work(&rig), ["c4"]);
    rig.done("c4");
    assert_eq!(at_work(&rig), ["c5"]);
}

#[test]
fn all_at_once_steering_waits_for_the_whole_batch() {
    let mut rig = running(ToolExecutionStrategy::Parallel);
    five_calls(&mut rig);
    rig.steer("and this");
    assert_eq!(at_work(&rig), ["c1", "c2", "c4", "c5"]);
    for call in ["c5", "c4", "c2", "c1"] {
        rig.done(call);
    }
    assert_eq!(
        rig.talk()[2..],
        [
            "c1 result: c1 ok",
            "c2 result: c2 ok",
            "c3 error: no such tool",
            "c4 result: c4 ok",
            "c5 result: c5 ok",
            "user: and this"
        ]
    );
}

#[test]
fn steering_is_polled_at_the_start_and_after_each_turn() {
    let mut rig = Rig::new();
    assert_eq!(rig.steer("early"), ["> ack i1"]);
    rig.prompt("hi");
    assert_eq!(rig.talk(), ["user: hi", "user: early"]);
    rig.steer("late");
    rig.says("one");
    assert_eq!(rig.talk()[2..], ["model Stop: one", "user: late"]);
    rig.says("two");
    assert!(rig.machine.is_at_rest());
}

#[test]
fn follow_ups_are_taken_only_when_the_run_would_stop() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.follow_up("then this");
    rig.steer("first that");
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    assert_eq!(rig.talk()[3..], ["user: first that"]);
    rig.steer("and that");
    rig.says("one");
    assert_eq!(rig.talk()[4..], ["model Stop: one", "user: and that"]);
    assert_eq!(
        rig.says("two"),
        [
            "MessageStart model t2a0",
            "MessageEnd model t2a0 = model Stop: two",
            "TurnEnd 2",
            "TurnStart 3 Continuation",
            "MessageStart i2/0",
            "MessageEnd i2/0 = user: then this",
            "ModelRequestStart t3a0 0",
            "> call 0",
        ]
    );
}

#[test]
fn a_queue_gives_one_or_all_as_its_mode_says() {
    for (mode, taken) in [(QueueMode::OneAtATime, 1), (QueueMode::All, 3)] {
        let mut rig = Rig::with(|_, settings| settings.steering_mode = mode);
        rig.prompt("hi");
        for text in ["a", "b", "c"] {
            rig.steer(text);
        }
        rig.says("one");
        assert_eq!(rig.talk().len(), 2 + taken, "steering {mode:?}");

        let mut rig = Rig::with(|_, settings| settings.follow_up_mode = mode);
        rig.prompt("hi");
        for text in ["a", "b", "c"] {
            rig.follow_up(text);
        }
        rig.says("one");
        assert_eq!(rig.talk().len(), 2 + taken, "follow-ups {mode:?}");
        rig.come_to_rest();
        assert_eq!(rig.talk().len(), 2 + 3 + if taken == 1 { 3 } else { 1 });
    }
}

#[test]
fn f22_a_queue_that_nobody_empties_is_full_at_some_time() {
    let mut rig = Rig::new();
    rig.held = true;
    for _ in 0..1_024 {
        rig.steer("more");
    }
    rig.held = false;
    rig.commit();
    let full = "too many inputs wait for this agent: try again later";
    assert_eq!(rig.steer("one too many"), [format!("> refuse i1025: {full}")]);
    assert_eq!(rig.follow_up("one too many"), [format!("> refuse i1026: {full}")]);
    // A run makes room.
    rig.prompt("hi");
    assert_eq!(rig.steer("room again"), ["> ack i1028"]);
}

#[test]
fn what_comes_while_the_filters_are_at_work_is_not_judged_unseen() {
    let mut rig = Rig::with(|setup, settings| {
        setup.hooks = setup.hooks.with(HookPoint::Filter);
        settings.steering_mode = QueueMode::All;
    });
    rig.prompt("hi");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass])));
    rig.steer("seen");
    rig.says("one");
    rig.steer("unseen");
    assert_eq!(rig.hooks.len(), 1);
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass])));
    assert_eq!(rig.talk()[2..], ["user: seen"]);
    rig.says("two");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass])));
    assert_eq!(rig.talk()[4..], ["user: unseen"]);

    // Nor does it fall with what the filters did not answer for.
    rig.steer("slow");
    rig.says("three");
    rig.steer("innocent");
    let timer = rig.timers[0].0.clone();
    assert_eq!(
        rig.time_up(timer),
        ["> cancel hook", "InputRejected i4: the hook did not answer in time", "> hook Filter"]
    );
}

#[test]
fn a_verdict_on_a_follow_up_is_not_taken_for_one_on_steering() {
    let mut rig = Rig::hooked([HookPoint::Filter]);
    rig.prompt("hi");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass])));
    rig.follow_up("good");
    rig.says("one");
    rig.steer("bad");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass])));
    assert_eq!(rig.talk()[2..], ["user: good"]);
    rig.says("two");
    rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Reject("bad".into())])));
    assert_eq!(rig.talk()[2..], ["user: good", "model Stop: two"]);
    assert!(rig.machine.is_at_rest());
}

#[test]
fn steering_during_before_turn_does_not_ask_it_twice() {
    let mut rig = Rig::hooked([HookPoint::BeforeTurn, HookPoint::Filter]);
    rig.prompt("hi");
    assert_eq!(
        rig.verdict(Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass]))),
        ["AgentStart", "> hook BeforeTurn"][1..]
    );
    assert_eq!(rig.steer("meanwhile"), ["> ack i2"]);
    assert_eq!(rig.refuse("no")[2..], ["AgentEnd halted before_turn: no (1)", "> finish halted before_turn: no"]);
}

#[test]
fn a_limit_reached_during_before_turn_waits_for_it() {
    let mut rig = Rig::with(|setup, settings| {
        setup.hooks = setup.hooks.with(HookPoint::BeforeTurn);
        settings.limits.max_duration = Some(std::time::Duration::from_secs(1));
    });
    rig.prompt("hi");
    rig.wait(2_000);
    assert_eq!(rig.steer("meanwhile"), ["> ack i2"]);
    assert_eq!(rig.allow()[0], "TurnStart 0 User");
}
