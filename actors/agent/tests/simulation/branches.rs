//! Journals with side branches, made by hand: a machine that was folded to an entry in the middle goes on from there and
//! writes behind the rest. Every prefix of every chain must fold, to what it would be if nothing else were in the journal.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use playhouse_agent::machine::{
    AfterTool, BeforeTool, Durable, Effect, Filtered, Holes, HookCall, HookPoint, Machine, MayStop, Now, Permit,
    SessionStart, Setup, Verdict, events,
};
use playhouse_agent::testing::Report;
use playhouse_protocol::chain::chain;
use playhouse_protocol::entry::Wake;
use playhouse_protocol::{
    AgentMessage, Command, Content, Entry, EntryId, Op, PermissionDecision, Seq, SessionId, StopReason, ToolResult,
};
use serde_json::json;

use crate::props::assistant;

type Entries = Vec<(Seq, Arc<Entry>)>;

/// How many branches a journal gets.
const BRANCHES: u32 = 3;
/// How many reports bring any run to its end.
const REPORTS: u32 = 2_000;

fn lines(entries: &Entries) -> impl Iterator<Item = (Seq, &Entry)> {
    entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()))
}

/// Lets branches grow out of a journal, and looks at all of its chains.
pub fn grow(rng: &mut Rng, session: &SessionId, journal: &Entries, setup: &Setup) {
    let mut entries = journal.clone();
    for number in 0..BRANCHES {
        // Out of what was there before, or out of a branch.
        let tip = entries[rng.usize(..entries.len())].1.id.clone();
        let machine = Machine::fold_to(Some(&tip), lines(&entries), setup.clone(), Holes::None).unwrap();
        if machine.durable().rotated_to.is_none() {
            Branch { entries: &mut entries, session, number, calls: 0 }.go_on(machine);
        }
    }
    look(&entries, setup);
}

/// A branch that is being written.
struct Branch<'a> {
    entries: &'a mut Entries,
    session: &'a SessionId,
    number: u32,
    calls: u32,
}

impl Branch<'_> {
    fn go_on(&mut self, mut machine: Machine) {
        let now = Now { wall: 9_000_000, mono: Duration::from_secs(9_000) };
        let effects = machine.recover(now, "another branch", Wake::Asked);
        self.carry_out(&mut machine, now, effects);
        let message = Arc::new(AgentMessage::user("another way", 1));
        let prompt = Command::new(format!("branch {}", self.number), Op::prompt(vec![message]));
        let effects = machine.command(now, prompt);
        self.carry_out(&mut machine, now, effects);
        assert!(machine.is_at_rest(), "a branch that does not come to rest: {machine:#?}");
    }

    fn carry_out(&mut self, machine: &mut Machine, now: Now, mut effects: Vec<Effect>) {
        let (mut reports, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..REPORTS {
            for effect in effects {
                match effect {
                    Effect::Append { session, batch } => {
                        assert_eq!(session, *self.session);
                        let seqs = batch.entries.iter().map(|entry| self.write(entry)).collect();
                        reports.insert(0, Report::Committed { batch: batch.number, seqs });
                    }
                    Effect::Call { call, config } => {
                        self.calls += 1;
                        // The same id on every branch.
                        let one = Content::ToolCall { id: "c1".into(), name: "read".into(), arguments: json!({}) };
                        let calls = if self.calls % 2 == 1 { vec![one] } else { Vec::new() };
                        let stop = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
                        let message = assistant("on a branch", calls, stop);
                        reports.push(Report::Responded { call, attempt: config.attempt, message });
                    }
                    Effect::RunTool { call, .. } | Effect::Spawn { call, .. } => {
                        let result = Ok(ToolResult::text("done"));
                        reports.push(Report::ToolFinished { call, result, duration_ms: 1 });
                    }
                    Effect::Hook { hook, call } => reports.push(Report::HookDone { hook, verdict: kind_word(call) }),
                    Effect::Ask { permission_id, .. } => answers.push(permission_id),
                    _ => {}
                }
            }
            effects = match (reports.is_empty(), answers.pop()) {
                (false, answer) => {
                    answers.extend(answer);
                    machine.report(now, reports.remove(0))
                }
                (true, Some(permission_id)) => {
                    let id = format!("answer {} {permission_id}", self.number);
                    let decision = PermissionDecision::Allow;
                    machine.command(now, Command::new(id, Op::Answer { permission_id, decision }))
                }
                (true, None) => return,
            };
        }
        panic!("a branch that does not end");
    }

    fn write(&mut self, entry: &Arc<Entry>) -> Seq {
        let seq = Seq(self.entries.last().unwrap().0.0 + 1);
        self.entries.push((seq, entry.clone()));
        seq
    }
}

fn kind_word(call: HookCall) -> Verdict {
    match call {
        HookCall::Policy { ours, .. } => Verdict::Policy(ours),
        call => match call.point() {
            HookPoint::BeforeLoop | HookPoint::BeforeTurn | HookPoint::BeforeUpdate => Verdict::Permit(Permit::Yes),
            HookPoint::BeforeTool => Verdict::BeforeTool(BeforeTool::Run),
            HookPoint::AfterTool => Verdict::AfterTool(AfterTool::Done),
            HookPoint::Filter => Verdict::Filter(Filtered::PassAll),
            HookPoint::Stop => Verdict::Stop(MayStop::Yes),
            HookPoint::SessionStart => Verdict::SessionStart(SessionStart::Plain),
            _ => Verdict::Noted,
        },
    }
}

/// What a fold is, but for the names that other branches have used.
fn own(mut durable: Durable) -> Durable {
    (durable.entries, durable.loop_counters) = (0, Vec::new());
    durable.call_ids.clear();
    durable
}

fn look(entries: &Entries, setup: &Setup) {
    let ids: HashSet<&EntryId> = entries.iter().map(|(_, entry)| &entry.id).collect();
    assert_eq!(ids.len(), entries.len(), "two entries of one id");
    let parents: HashSet<&EntryId> = entries.iter().filter_map(|(_, entry)| entry.parent.as_ref()).collect();
    for tip in ids.difference(&parents) {
        let way: Entries = chain(entries, Some(tip)).cloned().collect();
        let follows = way.windows(2).all(|pair| pair[1].1.parent.as_ref().is_none_or(|parent| *parent == pair[0].1.id));
        assert!(follows, "the chain of {tip} has a hole");
        events::replay(lines(&way), None).unwrap();
        for len in 1..=way.len() {
            let (_, last) = &way[len - 1];
            let folded = Machine::fold_to(Some(&last.id), lines(entries), setup.clone(), Holes::None).unwrap();
            let alone = Machine::fold(lines(&way[..len].to_vec()), setup.clone(), Holes::None).unwrap();
            assert_eq!(own(folded.durable().clone()), own(alone.durable().clone()), "{}", last.id);
            let (all, few) = (folded.durable(), alone.durable());
            assert!(all.entries >= few.entries && all.call_ids.is_superset(&few.call_ids));
        }
    }
}
