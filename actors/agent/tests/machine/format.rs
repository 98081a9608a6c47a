//! Journals of format 1 fold as they did. `tests/fixtures/format1` has them, line for line as a build of that format
//! wrote them, and beside each what its fold looked like then: the whole of it at the end, a few numbers after every line.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use playhouse_agent::machine::run::{CallState, Run, RunPhase};
use playhouse_agent::machine::{Durable, Holes, Machine, events};
use playhouse_protocol::{Command, ContinuationKind, Entry, EntryId, Op, Seq};
use playhouse_session::record;
use serde_json::{Value, json};

use crate::rig::Rig;

type Entries = Vec<(Seq, Arc<Entry>)>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format1")
}

fn read(path: &Path) -> Entries {
    let text = fs::read(path).unwrap();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| record::decode(line).unwrap()).map(|record| (record.seq, Arc::new(record.entry))).collect()
}

fn fold(entries: &Entries) -> Machine {
    let lines = entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
    Machine::fold(lines, Rig::new().setup, Holes::None).unwrap()
}

/// What a fold looks like.
fn look(entries: &Entries) -> Value {
    let machine = fold(entries);
    let durable = machine.durable();
    let lines = entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
    json!({
        "agent": durable.agent_id,
        "session": durable.session_id,
        "settings": durable.settings,
        "conversation": durable.record.messages(),
        "shown": durable.transcript(),
        "steering": durable.steering,
        "follow_ups": durable.follow_ups,
        "pending": durable.pending.as_ref().map(|pending| json!([pending.input_id, pending.aborting])),
        "run": durable.run.as_deref().map(run),
        "plan": durable.plan(),
        "last_change": durable.last_change(),
        "grants": durable.grants(),
        "restarts": durable.restarts(),
        "ended": durable.ended.iter().map(|report| json!({
            "loop": report.loop_id,
            "input": report.input_id,
            "outcome": report.outcome,
            "messages": report.messages,
            "usage": report.usage,
        })).collect::<Vec<_>>(),
        "loops": durable.loop_counters,
        "last_loop": durable.last_loop_id,
        "last_active": durable.last_active_at,
        "responses": durable.responses,
        "call_ids": durable.call_ids,
        "first_prompt": durable.first_prompt,
        "parked": durable.parked,
        "rotated_to": durable.rotated_to,
        "seen": durable.seen.iter().collect::<Vec<_>>(),
        "events": events::replay(lines, None).unwrap(),
        "back": back(entries),
        "prefixes": (1..=entries.len()).map(|len| numbers(fold(&entries[..len].to_vec()).durable())).collect::<Vec<_>>(),
    })
}

fn run(run: &Run) -> Value {
    let phase = match &run.phase {
        RunPhase::Opening => json!("opening"),
        RunPhase::Between(_) => json!("between"),
        RunPhase::Turn(turn) => {
            let calls: Vec<_> =
                turn.calls.iter().map(|slot| json!([slot.id, slot.name, slot.args, state(&slot.state)])).collect();
            json!({"turn": turn.index, "attempt": turn.next_attempt, "model": turn.model, "calls": calls})
        }
    };
    json!({
        "loop": run.loop_id,
        "input": run.input_id,
        "phase": phase,
        "usage": run.usage,
        "turns": run.tracker.turns,
        "aborting": run.aborting,
        "limit": run.limit.is_some(),
        "halt": run.halt,
        "refusals": run.refusals,
    })
}

fn state(state: &CallState) -> &'static str {
    match state {
        CallState::Open => "open",
        CallState::Asked { .. } => "asked",
        CallState::Granted { .. } => "granted",
        CallState::Denied { .. } => "denied",
        CallState::Started { .. } => "started",
        CallState::Ended { .. } => "ended",
    }
}

/// A few numbers: what each line did.
fn numbers(durable: &Durable) -> Value {
    json!([
        durable.record.messages().len(),
        durable.transcript().len(),
        durable.steering.len() + durable.follow_ups.len(),
        durable.run.as_deref().map(run),
        durable.ended.len(),
        durable.responses,
    ])
}

/// Where the conversation can go back to: for each entry the messages that the model is then asked with, or why not.
fn back(entries: &Entries) -> Vec<Value> {
    let tag = String::from("t");
    let branches = entries.iter().map(|(_, entry)| Some(entry.id.clone()));
    let kinds = branches.map(|entry: Option<EntryId>| ContinuationKind::Branch { tag: tag.clone(), entry });
    let rerun = ContinuationKind::Rerun { tag: tag.clone() };
    kinds
        .chain([rerun])
        .map(|kind| {
            let mut rig = Rig::folded(entries, &Rig::new().setup, Holes::None);
            let lines = rig.tell(Command::new("back", Op::Continue { kind }));
            let refused = lines.iter().find(|line| line.starts_with("> refuse")).cloned();
            json!(refused.unwrap_or_else(|| format!("{} messages", rig.requests[0].messages.len())))
        })
        .collect()
}

#[test]
fn journals_of_format_1_fold_as_they_did() {
    let mut seen = 0;
    for file in fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_none_or(|kind| kind != "jsonl") {
            continue;
        }
        let then: Value = serde_json::from_slice(&fs::read(file.with_extension("json")).unwrap()).unwrap();
        let now = look(&read(&file));
        for (name, then) in then.as_object().unwrap() {
            assert_eq!(&now[name], then, "{name} of {}", file.display());
        }
        assert_eq!(now.as_object().unwrap().len(), then.as_object().unwrap().len());
        seen += 1;
    }
    assert_eq!(seen, 12);
}
