//! The writer: it commits, fails, dies, or loses the process with what was queued.

use std::collections::BTreeSet;
use std::sync::Arc;

use playhouse_agent::machine::{Holes, Machine};
use playhouse_agent::testing::Report;
use playhouse_protocol::entry::Wake;
use playhouse_protocol::{Entry, Fate, Seq, SessionId};

use crate::common::Input;
use crate::props::pick;
use crate::world::World;

impl World {
    /// Each journal has a writer of its own: the oldest batch of one of them is durable.
    pub fn commit(&mut self, machine: &mut Machine) {
        let journals: BTreeSet<_> = self.queued.iter().map(|(session, _)| session.clone()).collect();
        let Some(journal) = pick(&mut self.rng, &journals) else { return self.person(machine) };
        let at = self.queued.iter().position(|(session, _)| *session == journal);
        let Some((session, batch)) = at.and_then(|at| self.queued.remove(at)) else { return };
        let seqs = self.write(&session, &batch.entries);
        self.send(machine, Report::Committed { batch: batch.number, seqs });
    }

    pub fn commit_failed(&mut self, machine: &mut Machine) {
        let Some((_, batch)) = self.queued.front().cloned() else { return self.person(machine) };
        let fate = if self.rng.bool() { Fate::Unknown } else { Fate::NotWritten };
        match fate {
            Fate::Unknown => self.lose_queue(),
            Fate::NotWritten => self.queued.clear(),
        }
        self.send(machine, Report::CommitFailed { batch: batch.number, error: "disk full".into(), fate });
    }

    /// Writes the first `entries` of what is queued; those the journal has are not written again.
    fn write(&mut self, session: &SessionId, entries: &[Arc<Entry>]) -> Vec<Seq> {
        let mut seqs = Vec::new();
        for entry in entries {
            let journal = self.journals.entry(session.clone()).or_default();
            if let Some((seq, _)) = journal.iter().find(|(_, held)| held.id == entry.id) {
                seqs.push(*seq);
                continue;
            }
            let seq = Seq(journal.len() as u64 + 1);
            journal.push((seq, entry.clone()));
            self.checks.written(session, seq, entry);
            seqs.push(seq);
        }
        seqs
    }

    /// What was queued is lost, but may be there in part.
    pub fn lose_queue(&mut self) {
        let mut survivors = self.rng.usize(..4);
        for (session, batch) in std::mem::take(&mut self.queued) {
            let part = survivors.min(batch.entries.len());
            self.write(&session, &batch.entries[..part]);
            survivors -= part;
            if part < batch.entries.len() {
                break;
            }
        }
    }

    /// The process ends.
    pub fn crash(&mut self, machine: &mut Machine) {
        self.delivered.insert("Crash");
        self.inputs += 1;
        self.lose_queue();
        self.wake(machine, Wake::Restarted);
    }

    pub fn wake(&mut self, machine: &mut Machine, wake: Wake) {
        self.queued.clear();
        self.calls.clear();
        self.waiting.clear();
        self.hooks.clear();
        self.tools.clear();
        self.asks.clear();
        self.timers.clear();
        self.unanswered.clear();
        // A hook ends with the incarnation that asked it.
        self.old.retain(|input| !matches!(input, Input::Report(Report::HookDone { .. })));
        self.checks.restarted();
        let Some(journal) = self.journals.get(&self.session) else {
            let opened = self.checks.opened.clone();
            *machine = Machine::new(opened, self.setup.clone());
            return;
        };
        let entries = journal.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
        *machine = Machine::fold(entries, self.setup.clone(), Holes::None).unwrap();
        self.checks.live(machine.durable(), [].iter());
        if let Some(to) = machine.durable().rotated_to.clone() {
            self.session = to;
            return self.wake(machine, wake);
        }
        let now = self.now();
        let effects = machine.recover(now, "restarted", wake);
        self.carry_out(machine, effects);
    }
}
