//! Plan mode: what would change something waits, and is carried out when someone approves of it.

use playhouse_agent::machine::HookPoint;
use playhouse_protocol::entry::SpawnRef;
use playhouse_protocol::{Command, EntryBody, Mode, Op, PermissionMode, PlanDecision};

use crate::rig::Rig;

fn planning() -> Rig {
    Rig::with(|_, settings| settings.mode = Mode::Plan)
}

fn decide(rig: &mut Rig, decision: PlanDecision) -> Vec<String> {
    rig.tell(Command::new("decision", Op::Plan { decision }))
}

fn approve(rig: &mut Rig, changes: Option<&[u32]>) -> Vec<String> {
    decide(rig, PlanDecision::Approve { changes: changes.map(<[u32]>::to_vec) })
}

/// A run that has planned two changes and read something.
fn planned() -> Rig {
    let mut rig = planning();
    rig.prompt("hi");
    rig.wants(&[("a", "once"), ("r", "read"), ("b", "risky")]);
    rig.done("r");
    rig.says("that is the plan");
    rig
}

fn changes(rig: &Rig) -> Vec<(u32, String)> {
    rig.machine.durable().plan().iter().map(|planned| (planned.change, planned.tool_name.clone())).collect()
}

#[test]
fn what_changes_something_is_queued_and_what_reads_runs() {
    let mut rig = planning();
    assert_eq!(rig.prompt("hi")[..2], ["ModeChanged Plan", "> ack i1"]);
    let lines = rig.wants(&[("a", "once"), ("r", "read"), ("b", "risky")]);
    assert!(lines.contains(&"PlanChangeQueued a as 1".to_owned()), "{lines:?}");
    assert!(lines.contains(&"PlanChangeQueued b as 2".to_owned()), "nobody is asked about what waits: {lines:?}");
    assert_eq!((rig.tools.len(), rig.asks.len()), (1, 0));
    rig.done("r");
    rig.says("that is the plan");
    assert_eq!(changes(&rig), [(1, "once".to_owned()), (2, "risky".to_owned())]);
    assert!(rig.talk()[2].starts_with("a result: Queued as change 1 of the plan."), "{:?}", rig.talk());
    rig.restart();
    assert_eq!(changes(&rig).len(), 2, "the plan is in the journal");
}

#[test]
fn approval_carries_the_changes_out_one_after_the_other_and_the_model_goes_on() {
    let mut rig = planned();
    let lines = approve(&mut rig, None);
    assert_eq!(lines[0], "PlanResolved [1, 2] []");
    assert_eq!(changes(&rig), []);
    assert!(rig.calls.is_empty(), "no model is asked before the plan is carried out");
    let first = rig.tools[0].0.clone();
    assert_eq!(rig.tools.len(), 1, "one after the other");
    // The second needed a yes; the plan's approval is it.
    rig.done(first.as_str());
    assert_eq!((rig.tools.len(), rig.asks.len()), (1, 0));
    let second = rig.tools[0].0.clone();
    let lines = rig.done(second.as_str());
    assert!(lines.iter().any(|line| line.starts_with("ModelRequestStart")), "{lines:?}");
    rig.says("all done");
    let talk = rig.talk();
    assert_eq!(talk[5], "model Stop: that is the plan");
    assert_eq!(talk[6], "user: The plan is approved. Carried out now: change 1 (once), change 2 (risky).");
    assert!(talk[8].ends_with(" ok") && talk[9].ends_with(" ok"), "{talk:#?}");
    assert_eq!(talk[10], "model Stop: all done");
    let by = rig.bodies().filter_map(|body| match body {
        EntryBody::ToolStarted { passage, .. } => passage.as_ref().map(|passage| passage.allowed_by.to_string()),
        _ => None,
    });
    assert_eq!(by.last().as_deref(), Some("the approved plan"));
}

#[test]
fn a_plan_is_carried_out_across_restarts_and_no_change_twice() {
    for crash_after in 0..6 {
        let mut rig = planned();
        approve(&mut rig, None);
        for step in 0..6 {
            if step == crash_after {
                rig.restart();
            }
            if let Some((call, _)) = rig.tools.first().cloned() {
                rig.done(call.as_str());
            }
        }
        rig.come_to_rest();
        let started = rig.bodies().filter(|body| matches!(body, EntryBody::ToolStarted { .. })).count();
        assert_eq!(started, 3, "the read, and each change once; crash after {crash_after}");
    }
}

#[test]
fn part_of_a_plan_can_be_approved_and_the_rest_rejected() {
    let mut rig = planned();
    approve(&mut rig, Some(&[2]));
    rig.come_to_rest();
    assert_eq!(changes(&rig), [(1, "once".to_owned())]);
    let reject = PlanDecision::Reject { changes: Some(vec![1]), reason: "use the other file".into() };
    let lines = rig.tell(Command::new("no", Op::Plan { decision: reject }));
    assert_eq!(lines[0], "PlanResolved [] [1]");
    assert_eq!(changes(&rig), []);
    let talk = rig.talk();
    let told = "user: These changes of the plan were rejected and will not be made: change 1 (once). Reason: use the other file";
    assert_eq!(talk.last().map(String::as_str), Some(told));
    // Numbers are not given twice.
    rig.prompt("again");
    assert!(rig.wants(&[("c", "once")]).contains(&"PlanChangeQueued c as 3".to_owned()));
}

#[test]
fn nonsense_about_a_plan_is_refused_and_a_repeated_decision_counts_once() {
    let mut rig = planned();
    let lines = approve(&mut rig, Some(&[1, 7]));
    assert_eq!(lines, ["> refuse decision: the plan has no change 7: look at the plan for its numbers"]);
    let mut idle = Rig::new();
    let lines = approve(&mut idle, None);
    assert_eq!(lines, ["> refuse decision: nothing is planned: there is nothing to approve or reject"]);
    approve(&mut rig, Some(&[1]));
    rig.come_to_rest();
    assert_eq!(approve(&mut rig, Some(&[1])), ["> ack decision"], "told again after it was taken");
    rig.prompt("go on");
    let lines = rig.tell(Command::new("late", Op::Plan { decision: PlanDecision::Approve { changes: None } }));
    assert!(lines[0].starts_with("> refuse late: a run is under way"), "{lines:?}");
}

#[test]
fn what_an_abort_kept_from_being_carried_out_is_planned_again() {
    let mut rig = Rig::with(|setup, settings| {
        settings.mode = Mode::Plan;
        setup.hooks = setup.hooks.with(HookPoint::BeforeTurn);
    });
    rig.prompt("hi");
    rig.allow();
    rig.wants(&[("a", "once")]);
    rig.allow();
    rig.says("planned");
    approve(&mut rig, None);
    assert_eq!(changes(&rig), []);
    rig.abort();
    assert!(rig.machine.is_at_rest());
    assert_eq!(changes(&rig), [(1, "once".to_owned())]);
}

#[test]
fn a_sub_agent_of_a_planning_agent_changes_nothing() {
    let parent = SpawnRef {
        parent_session_id: playhouse_protocol::SessionId::new("p").unwrap(),
        parent_loop_id: "p.c.1".into(),
        tool_call_id: "t".into(),
        tool_name: "helper".into(),
    };
    let mut rig = Rig::spawned(parent, |_, settings| {
        settings.mode = Mode::Plan;
        settings.permission = PermissionMode::Yolo;
    });
    rig.prompt("hi");
    assert!(rig.wants(&[("a", "once")]).contains(&"ToolBlocked a Plan".to_owned()));
    assert_eq!((rig.tools.len(), changes(&rig).len()), (0, 0));
}

#[test]
fn a_change_of_mode_is_told_and_acting_agents_act() {
    let mut rig = planned();
    let mut settings = rig.machine.durable().settings.as_ref().clone();
    settings.mode = Mode::Act;
    let lines = rig.tell(Command::new("act", Op::Configure { settings: Box::new(settings) }));
    assert_eq!(lines[0], "ModeChanged Act");
    rig.prompt("do it");
    assert!(rig.wants(&[("c", "once")]).contains(&"> run c First".to_owned()));
}

#[test]
fn a_plan_moves_with_its_conversation() {
    let mut rig = planned();
    rig.rotate("s2");
    assert_eq!(changes(&rig).len(), 2);
    approve(&mut rig, Some(&[1]));
    rig.come_to_rest();
    assert_eq!(changes(&rig), [(2, "risky".to_owned())]);
}

#[test]
fn the_directory_does_not_change_under_a_plan() {
    let mut rig = planned();
    let elsewhere = |rig: &mut Rig, id: &str| {
        let mut settings = rig.machine.durable().settings.as_ref().clone();
        settings.cwd = "/elsewhere".into();
        rig.tell(Command::new(id, Op::Configure { settings: Box::new(settings) }))
    };
    let lines = elsewhere(&mut rig, "move");
    assert!(lines[0].contains("planned for the present working directory"), "{lines:?}");
    assert_eq!(changes(&rig).len(), 2);
    decide(&mut rig, PlanDecision::Reject { changes: None, reason: "no".to_owned() });
    elsewhere(&mut rig, "move again");
    assert_eq!(rig.machine.durable().settings.cwd, std::path::Path::new("/elsewhere"));
}
