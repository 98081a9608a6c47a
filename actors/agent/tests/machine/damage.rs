//! f35: whatever is left of a journal, there is a conversation that every provider takes and a way to go on. Tried on
//! every prefix of a few recorded journals, and on each of them with any one or two lines missing.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use playhouse_agent::machine::run::Run;
use playhouse_agent::machine::{AfterTool, BeforeTool, Durable, Holes, HookPoint, Machine, Verdict, events};
use playhouse_agent::testing::Report;
use playhouse_protocol::transcript::{self, TranscriptEnd};
use playhouse_protocol::{
    AgentEvent, AgentMessage, Command, ContinuationKind, Entry, EntryBody, MessageCount, Op, Outcome,
    PermissionDecision, ProviderError, Seq, StopReason, ToolError, ToolExecutionStrategy,
};
use playhouse_provider::rules::Services;

use crate::rig::{EVERY_HOOK, Rig, assistant};

type Entries = Vec<(Seq, Arc<Entry>)>;

fn tools_questions_and_queues() -> Rig {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.follow_up("then");
    rig.wants(&[("c1", "once"), ("c2", "child"), ("c3", "risky"), ("c4", "nothing")]);
    rig.steer("also");
    rig.permit("c3/ask", PermissionDecision::Allow);
    for call in ["c2", "c3", "c1"] {
        rig.done(call);
    }
    rig.wants(&[("c5", "risky")]);
    rig.permit("c5/ask", PermissionDecision::Deny { reason: "no".into() });
    rig.says("fine");
    rig.says("over");
    rig
}

fn every_hook() -> Rig {
    let mut rig = Rig::hooked(EVERY_HOOK);
    rig.prompt("one");
    for _ in 0..4 {
        rig.answer_hook();
    }
    rig.wants(&[("c1", "read"), ("c2", "once")]);
    for _ in 0..2 {
        rig.answer_hook();
    }
    rig.done("c2");
    rig.answer_hook();
    rig.tool_ends("c1", Err(ToolError::Failed("broken".into())));
    for _ in 0..3 {
        rig.answer_hook();
    }
    rig.call_failed(ProviderError::Api { message: "no".into() });
    rig.come_to_rest();
    rig
}

fn hooks_that_change() -> Rig {
    let mut rig = Rig::hooked([HookPoint::BeforeTool, HookPoint::AfterTool, HookPoint::Stop]);
    let args = || Arc::new(serde_json::json!({"n": 2}));
    rig.prompt("one");
    rig.wants(&[("c1", "risky"), ("c2", "once")]);
    rig.verdict(Verdict::BeforeTool(BeforeTool::Ask { reason: "sure?".into(), args: Some(args()) }));
    rig.permit("c1/ask", PermissionDecision::Allow);
    rig.verdict(Verdict::BeforeTool(BeforeTool::Amend { args: args() }));
    rig.permit("c2/ask/hooked", PermissionDecision::Allow);
    rig.permit("c1/ask/hooked", PermissionDecision::Allow);
    for call in ["c1", "c2"] {
        rig.done(call);
        rig.verdict(Verdict::AfterTool(AfterTool::Say { text: " noted".into() }));
    }
    rig.says("done");
    rig.refuse("more");
    rig.wants(&[("c3", "once")]);
    rig.halt("enough");
    rig.come_to_rest();
    rig
}

fn aborts_and_heads() -> Rig {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.wants(&[("c1", "read"), ("c2", "once")]);
    rig.abort();
    rig.tool_ends("c1", Err(ToolError::Cancelled));
    rig.done("c2");
    rig.prompt("two");
    rig.says("second");
    rig.go_on(ContinuationKind::Rerun { tag: "t".into() });
    rig.delta("sec");
    rig.abort();
    let first = rig.machine.durable().record.entries().next().unwrap().clone();
    rig.go_on(ContinuationKind::Branch { tag: "t".into(), entry: Some(first) });
    rig.says("another way");
    rig
}

fn retries_and_skips() -> Rig {
    let mut rig = Rig::with(|_, settings| settings.tool_execution = ToolExecutionStrategy::Sequential);
    rig.prompt("one");
    rig.retrying(ProviderError::RateLimited { message: String::new(), retry_after_ms: None }, 5);
    rig.tell(Report::ConnectionLost { reason: "gone".into() });
    rig.respond(assistant("cut", &[("", "read"), ("c2", "once")], StopReason::Length));
    rig.steer("no");
    rig.done("s_c_1_0_2_1");
    rig.restart();
    rig.wants(&[("c3", "once")]);
    rig.restart();
    rig.says("over");
    rig
}

fn refusals_and_resets() -> Rig {
    let mut rig = Rig::with(|setup, settings| {
        setup.hooks = setup.hooks.with(HookPoint::BeforeLoop).with(HookPoint::AfterLoop);
        settings.limits.max_turns = Some(1);
    });
    rig.prompt("no");
    rig.refuse("no");
    rig.allow();
    rig.prompt("one");
    rig.allow();
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    rig.allow();
    let messages = vec![Arc::new(AgentMessage::user("hello", 1))];
    rig.tell(Command::new("r", Op::Restore { messages }));
    rig.go_on(ContinuationKind::Default);
    rig.allow();
    rig.says("hi");
    rig.allow();
    rig.tell(Command::new("z", Op::Reset));
    let mut settings = Box::new(rig.machine.durable().settings.as_ref().clone());
    settings.limits.max_turns = None;
    rig.tell(Command::new("c", Op::Configure { settings }));
    rig.prompt("two");
    rig.come_to_rest();
    rig
}

fn another_session() -> Rig {
    let mut rig = tools_questions_and_queues();
    rig.steer("waiting");
    rig.rotate("t");
    rig.prompt("three");
    rig.wants(&[("c9", "child")]);
    rig.done("c9");
    rig.come_to_rest();
    rig.rotate("u");
    rig.session = playhouse_protocol::SessionId::new("t").unwrap();
    rig
}

fn recorded() -> Vec<(&'static str, Rig)> {
    vec![
        ("tools", tools_questions_and_queues()),
        ("hooks", every_hook()),
        ("hooks that change", hooks_that_change()),
        ("aborts", aborts_and_heads()),
        ("retries", retries_and_skips()),
        ("refusals", refusals_and_resets()),
        ("rotated", another_session()),
    ]
}

/// Folds, looks and goes on until everything rests. Every request on the way is checked by the rig.
fn goes_on(entries: &Entries, of: &Rig, journal: Holes) -> Rig {
    let mut rig = Rig::folded(entries, &of.setup, journal);
    let shown = rig.machine.durable().transcript();
    if shown.sendable().next().is_some() {
        transcript::validate(shown.sendable(), TranscriptEnd::Any).unwrap();
    }
    if rig.machine.durable().rotated_to.is_some() {
        return rig;
    }
    rig.recover();
    rig.come_to_rest();
    // What was written since is what a new process finds.
    let all = &rig.journals[&rig.session];
    let folded = Machine::fold(all.iter().map(|(s, e)| (*s, e.as_ref())), of.setup.clone(), journal).unwrap();
    assert_eq!(folded.durable(), rig.machine.durable());
    let ids: HashSet<_> = all.iter().map(|(_, entry)| &entry.id).collect();
    assert_eq!(ids.len(), all.len(), "two entries of one id");
    rig
}

/// Every prompt that is in the journal has come to its end.
fn every_prompt_ended(rig: &Rig) {
    let ended: HashSet<_> = rig.machine.durable().ended.iter().map(|report| &report.input_id).collect();
    for body in rig.bodies() {
        if let EntryBody::Input(input) = body
            && input.kind == playhouse_protocol::entry::InputKind::Prompt
        {
            assert!(ended.contains(&input.input_id), "{} has not ended", input.input_id);
        }
    }
}

#[test]
fn f35_every_prefix_can_be_gone_on_from() {
    for (name, rig) in recorded() {
        let entries = rig.journals[&rig.session].clone();
        println!("{name}: {} entries", entries.len());
        for len in 1..=entries.len() {
            let rig = goes_on(&entries[..len].to_vec(), &rig, Holes::None);
            if rig.machine.durable().rotated_to.is_none() {
                every_prompt_ended(&rig);
            }
        }
    }
}

#[test]
fn f35_every_service_takes_the_requests_that_every_prefix_leads_to() {
    let services = Services::all().unwrap();
    let mut known = HashSet::new();
    for (name, rig) in recorded() {
        let entries = rig.journals[&rig.session].clone();
        for len in 1..=entries.len() {
            // As it is, and without any one of its lines.
            for lost in 1..=len {
                let mut left = entries[..len].to_vec();
                let journal = if lost < len { Holes::Possible } else { Holes::None };
                if lost < len {
                    left.remove(lost);
                }
                for request in goes_on(&left, &rig, journal).requests {
                    let talk: Vec<String> = request.messages.sendable().map(|message| format!("{message:?}")).collect();
                    if known.insert(talk.join("\n")) {
                        let refused = services.refusals(&request);
                        assert_eq!(refused, [""; 0], "{name}, {len} lines without {lost}:\n{}", talk.join("\n"));
                    }
                }
            }
        }
    }
    assert!(known.len() > 100, "{}", known.len());
}

#[test]
fn messages_are_counted_from_the_entries_alone_as_the_record_has_them() {
    for (name, rig) in recorded() {
        let mut count = MessageCount::default();
        let messages = rig.journals[&rig.session].iter().map(|(_, entry)| count.apply(entry)).last();
        let entries = rig.journals[&rig.session].iter().map(|(seq, entry)| (*seq, entry.as_ref()));
        let folded = Machine::fold(entries, rig.setup.clone(), Holes::None).unwrap();
        assert_eq!(messages, Some(folded.durable().record.messages().len()), "{name}");
    }
}

#[test]
fn f35_any_two_lines_may_be_missing() {
    for (name, rig) in recorded() {
        let entries = rig.journals[&rig.session].clone();
        for first in 1..entries.len() {
            for second in first..entries.len() {
                let mut left = entries.clone();
                left.remove(second);
                if first < second {
                    left.remove(first);
                }
                let what = format!("{name} without lines {first} and {second}");
                let went = catch_unwind(AssertUnwindSafe(|| drop(goes_on(&left, &rig, Holes::Possible))));
                assert!(went.is_ok(), "{what}");
            }
        }
    }
}

#[test]
fn f35_any_half_of_the_lines_may_be_missing() {
    for (name, rig) in recorded() {
        let entries = rig.journals[&rig.session].clone();
        for seed in 0..100 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let left =
                entries.iter().enumerate().filter(|(at, _)| *at == 0 || rng.bool()).map(|(_, entry)| entry.clone());
            let left = left.collect();
            let went = catch_unwind(AssertUnwindSafe(|| drop(goes_on(&left, &rig, Holes::Possible))));
            assert!(went.is_ok(), "{name} with seed {seed}");
        }
    }
}

#[test]
fn f29_without_its_first_line_a_journal_is_none() {
    let rig = every_hook();
    let entries = &rig.journals[&rig.session];
    let rest = entries[1..].iter().map(|(seq, entry)| (*seq, entry.as_ref()));
    assert!(Machine::fold(rest, rig.setup.clone(), Holes::Possible).is_err());
    assert!(Machine::fold([], rig.setup.clone(), Holes::None).is_err());
}

/// The journal of `rig` without the entries that `lost` names.
fn without(rig: &Rig, lost: impl Fn(&EntryBody) -> bool) -> Entries {
    rig.journals[&rig.session].iter().filter(|(_, entry)| !lost(&entry.body)).cloned().collect()
}

#[test]
fn entries_after_a_lost_line_are_not_taken_for_those_before_it() {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.wants(&[("c1", "once")]);
    let left = without(&rig, |body| matches!(body, EntryBody::Requested { .. }));
    let mut rig = goes_on(&left, &rig, Holes::Possible);
    rig.prompt("two");
    rig.come_to_rest();
    let (loops, turns) = rig.bodies().fold((0, 0), |(loops, turns), body| match body {
        EntryBody::LoopEnded { .. } => (loops + 1, turns),
        EntryBody::TurnEnded { .. } => (loops, turns + 1),
        _ => (loops, turns),
    });
    assert_eq!((loops, turns), (2, 3));
}

#[test]
fn a_prompt_behind_a_run_whose_end_was_lost_still_has_its_turn() {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.says("first");
    rig.held = true;
    rig.prompt("two");
    rig.held = false;
    let mut left = without(&rig, |body| matches!(body, EntryBody::LoopEnded { .. }));
    let (_, batch) = &rig.queued[0];
    left.push((Seq(99), batch.entries[0].clone()));
    let went = goes_on(&left, &rig, Holes::Possible);
    assert_eq!(went.talk(), ["user: one", "model Stop: first", "user: two", "model Stop: done"]);
    every_prompt_ended(&went);
}

#[test]
fn a_turn_whose_question_was_lost_ends_with_an_error_that_says_so() {
    let mut rig = Rig::new();
    rig.prompt("one");
    let left = without(&rig, |body| matches!(body, EntryBody::Input(_) | EntryBody::TurnStarted { .. }));
    let rig = goes_on(&left, &rig, Holes::Possible);
    let Outcome::Error { message } = &rig.reports[0].outcome else { panic!("{:?}", rig.reports) };
    assert!(message.contains("the journal has lost the message"), "{message}");
}

#[test]
fn a_known_result_is_kept_when_the_end_of_its_turn_was_lost() {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.wants(&[("c1", "once")]);
    rig.done("c1");
    rig.says("first");
    let left = without(&rig, |body| matches!(body, EntryBody::TurnEnded { turn_index: 0, .. }));
    let went = goes_on(&left, &rig, Holes::Possible);
    assert_eq!(went.talk(), rig.talk());

    // Nor does it go when the end of its run was lost too.
    let mut rig = Rig::with(|_, settings| settings.limits.max_turns = Some(1));
    rig.prompt("one");
    rig.wants(&[("c1", "once")]);
    rig.done("c1");
    let lost = |body: &EntryBody| matches!(body, EntryBody::TurnEnded { .. });
    let whole = rig.reports[0].messages.len();
    let went = goes_on(&without(&rig, lost), &rig, Holes::Possible);
    assert_eq!(went.machine.durable().ended[0].messages.len(), whole);
    let before = fold_until(&without(&rig, lost), |body| matches!(body, EntryBody::LoopEnded { .. }));
    let [.., AgentEvent::AgentEnd { messages, .. }] = &events::derive(&before.0, &before.1)[..] else { panic!() };
    assert_eq!(messages.len(), whole);
    rig.prompt("two");
    let lost = |body: &EntryBody| matches!(body, EntryBody::TurnEnded { .. } | EntryBody::LoopEnded { .. });
    let went = goes_on(&without(&rig, lost), &rig, Holes::Possible);
    assert_eq!(went.talk()[..3], ["user: one", "model ToolUse: on it", "c1 result: c1 ok"]);
}

/// The state before the first entry that `test` names, and that entry.
fn fold_until(entries: &Entries, test: impl Fn(&EntryBody) -> bool) -> (Durable, Arc<Entry>) {
    let EntryBody::Opened(opened) = &entries[0].1.body else { panic!("no journal") };
    let mut durable = Durable::new(opened);
    let at = entries.iter().position(|(_, entry)| test(&entry.body)).unwrap();
    entries[..at].iter().for_each(|(_, entry)| durable.apply(entry));
    (durable, entries[at].1.clone())
}

#[test]
fn a_call_that_has_its_result_keeps_it_whatever_comes_later() {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.wants(&[("c1", "once"), ("c2", "read")]);
    rig.done("c1");
    let mut entries = rig.journals[&rig.session].clone();
    let again = entries.iter().find(|(_, entry)| matches!(entry.body, EntryBody::ToolStarted { .. })).unwrap().clone();
    entries.push(again);
    let folded = Machine::fold(entries.iter().map(|(s, e)| (*s, e.as_ref())), rig.setup.clone(), Holes::Possible);
    let folded = folded.unwrap();
    let turn = folded.durable().run.as_deref().and_then(Run::turn).unwrap();
    assert!(turn.calls[0].is_settled(), "{:?}", turn.calls);
}

#[test]
fn turns_after_a_lost_end_are_not_numbered_twice() {
    let mut rig = Rig::new();
    rig.prompt("one");
    for call in ["c1", "c2"] {
        rig.wants(&[(call, "read")]);
        rig.done(call);
    }
    let left = without(&rig, |body| matches!(body, EntryBody::TurnEnded { turn_index: 0, .. }));
    let mut rig = Rig::folded(&left, &rig.setup, Holes::Possible);
    rig.recover();
    rig.wants(&[("c3", "read")]);
    assert_eq!(rig.done("c3")[3..5], ["TurnEnd 2", "TurnStart 3 Continuation"]);
}

#[test]
fn a_new_session_has_no_holes() {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.wants(&[("c1", "once")]);
    rig.done("c1");
    rig.says("first");
    let left = without(&rig, |body| matches!(body, EntryBody::ToolEnded { .. } | EntryBody::TurnEnded { .. }));
    let mut rig = goes_on(&left, &rig, Holes::Possible);
    rig.rotate("t");
    // Its own journal is whole, so nobody looks it over again.
    rig.journal = Holes::None;
    rig.restart();
    rig.prompt("two");
    assert_eq!(rig.calls.len(), 1);
}

#[test]
fn a_run_after_one_whose_start_was_lost_has_a_name_of_its_own() {
    let mut rig = Rig::new();
    rig.prompt("one");
    rig.says("first");
    rig.prompt("two");
    rig.says("second");
    let is_of_run = |n: &str, entry: &Entry| entry.loop_id.as_ref().is_some_and(|id| id.as_str().ends_with(n));
    let mut left = without(&rig, |body| matches!(body, EntryBody::Input(_) | EntryBody::LoopStarted { .. }));
    left.retain(|(_, entry)| !is_of_run(".1", entry));
    let mut rig = goes_on(&left, &rig, Holes::Possible);
    rig.prompt("three");
    assert_eq!(rig.machine.durable().last_loop_id, Some("s.c.3".into()));
}
