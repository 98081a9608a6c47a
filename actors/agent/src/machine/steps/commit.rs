//! From an entry to what follows from it. An entry is applied when it is made; what may only happen once it is durable waits
//! in its batch, and is let go in order when the batch is.

use std::collections::HashSet;
use std::sync::Arc;

use playhouse_protocol::{
    AgentEvent, Batch, Class, Entry, EntryBody, EntryId, EventId, Fate, InputId, LoopId, Seq, SessionId,
};

use crate::machine::state::flight::{Deferred, PendingBatch, Rotation, RunHook, ToolPhase};
use crate::machine::{Effect, InputError, Machine, Timer, events};

impl Machine {
    /// Makes an entry and applies it; what follows from it waits until it is durable.
    pub(in crate::machine) fn push(&mut self, body: EntryBody) {
        let loop_id = self.durable.loop_id();
        self.push_in(loop_id, body);
    }

    pub(super) fn push_in(&mut self, loop_id: Option<LoopId>, body: EntryBody) {
        if let Some(opened) = self.opened.take() {
            self.push_in(None, EntryBody::Opened(opened));
        }
        let entry = Arc::new(Entry {
            id: self.next_entry_id(loop_id.as_ref()),
            loop_id,
            parent: self.durable.tail.clone(),
            at: self.now.wall,
            body,
        });
        let events = events::derive(&self.durable, &entry);
        self.durable.apply(&entry);
        self.flight.items.push(Deferred::Entry { entry: entry.clone(), events });
        self.flight.entries.push(entry);
    }

    fn next_entry_id(&self, loop_id: Option<&LoopId>) -> EntryId {
        let owner = loop_id.map_or_else(|| self.durable.session_id.shared(), LoopId::shared);
        EntryId::numbered(owner, self.durable.entries)
    }

    /// Something to do once everything made so far is durable.
    pub(in crate::machine) fn act(&mut self, effect: Effect) {
        self.flight.items.push(Deferred::Act(effect));
    }

    /// An event that no entry holds, in its place among those that entries hold.
    pub(super) fn tell(&mut self, event: AgentEvent) {
        let loop_id = self.durable.loop_id();
        self.flight.items.push(Deferred::Event { event, loop_id, at: self.now.wall });
    }

    /// Turns what this input made into one batch; without entries it waits for the newest batch, or happens now.
    pub(in crate::machine) fn seal(&mut self) {
        let items = std::mem::take(&mut self.flight.items);
        if self.flight.entries.is_empty() {
            match self.flight.pending.back_mut() {
                Some(newest) => items.into_iter().for_each(|item| newest.attach(item)),
                None => items.into_iter().for_each(|item| self.release(item, &mut [].iter())),
            }
            return;
        }
        let entries: Arc<[Arc<Entry>]> = std::mem::take(&mut self.flight.entries).into();
        self.enqueue(self.durable.session_id.clone(), entries, items);
    }

    pub(super) fn enqueue(&mut self, session: SessionId, entries: Arc<[Arc<Entry>]>, items: Vec<Deferred>) {
        let number = self.counters.next_batch;
        self.counters.next_batch += 1;
        let class = entries.iter().map(|entry| entry.body.class()).max().unwrap_or(Class::P);
        let batch = Batch { number, entries, class };
        self.out.push(Effect::Append { session: session.clone(), batch: batch.clone() });
        self.flight.pending.push_back(PendingBatch { session, batch, items, seqs: None, was_lost: false });
    }

    /// A batch is durable. What waits happens in the order it was made, even when a change of session has batches at
    /// two writers and the later one is faster.
    pub(in crate::machine) fn committed(&mut self, batch: u64, seqs: &[Seq]) {
        let Some(held) = self.flight.pending.iter_mut().find(|held| held.batch.number == batch) else { return };
        held.seqs = Some(seqs.into());
        while let Some(oldest) = self.flight.pending.pop_front() {
            let Some(seqs) = oldest.seqs else {
                self.flight.pending.push_front(oldest);
                return;
            };
            let mut seqs = seqs.iter();
            for item in oldest.items {
                self.release(item, &mut seqs);
            }
        }
        self.rotation_committed();
    }

    /// Whether the entry that takes a command is not yet durable.
    pub(super) fn is_on_its_way(&self, input_id: &InputId) -> bool {
        let entries = self.flight.pending.iter().flat_map(|held| held.batch.entries.iter());
        entries.map(|entry| entry.body.takes()).any(|taken| taken == Some(input_id))
    }

    fn release(&mut self, item: Deferred, seqs: &mut std::slice::Iter<'_, Seq>) {
        match item {
            Deferred::Entry { entry, events } => {
                self.counters.last_seq = seqs.next().copied().unwrap_or(self.counters.last_seq);
                self.counters.next_k = 0;
                for event in events {
                    self.emit(event, entry.loop_id.clone(), entry.at);
                }
            }
            Deferred::Event { event, loop_id, at } => self.emit(event, loop_id, at),
            Deferred::Act(effect) => {
                if self.is_still_wanted(&effect) {
                    self.out.push(effect);
                }
            }
        }
    }

    fn emit(&mut self, event: AgentEvent, loop_id: Option<LoopId>, at: u64) {
        let id = EventId { seq: self.counters.last_seq, k: self.counters.next_k };
        self.counters.next_k += 1;
        self.out.push(Effect::Emit(events::stamped(&self.durable, id, loop_id, at, event)));
    }

    /// What waited for its batch may have been called off in the meantime.
    fn is_still_wanted(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::Call { call, .. } => match &mut self.flight.run.call {
                Some(open) if open.id == *call => {
                    open.sent = true;
                    true
                }
                Some(_) | None => false,
            },
            Effect::GoOn { call, attempt } => self.is_open(call, *attempt),
            Effect::RunTool { call, .. } | Effect::Spawn { call, .. } => match self.flight.run.tools.get_mut(call) {
                Some(tool) if tool.phase == ToolPhase::Starting => {
                    tool.phase = ToolPhase::Running;
                    true
                }
                Some(_) | None => false,
            },
            Effect::Ask { tool_call_id, .. } => {
                self.flight.run.tools.get(tool_call_id).is_some_and(|tool| tool.phase == ToolPhase::Asking)
            }
            Effect::Hook { hook, .. } | Effect::Arm { timer: Timer::Hook(hook), .. } => self.is_waiting_for(*hook),
            Effect::Arm { timer: Timer::Permission(permission_id), .. } => self.asked(permission_id).is_some(),
            Effect::Append { .. }
            | Effect::Cancel(_)
            | Effect::Emit(_)
            | Effect::Remember { .. }
            | Effect::Ack { .. }
            | Effect::Refuse { .. }
            | Effect::Arm { timer: Timer::AbortGrace | Timer::Deadline, .. }
            | Effect::Disarm(_)
            | Effect::Finish(_)
            | Effect::Rotated { .. }
            | Effect::Park { .. } => true,
        }
    }

    /// The state is ahead of the journal: nothing more happens until someone folds again.
    pub(in crate::machine) fn commit_failed(&mut self, failed: u64, error: &str, fate: Fate) {
        // One that nobody waits for is of a machine before this one.
        let Some(held) = self.flight.pending.iter().find(|held| held.batch.number == failed) else { return };
        let journal = held.session.clone();
        let fate = if held.was_lost { Fate::Unknown } else { fate };
        if let (Fate::NotWritten, 1) = (fate, self.flight.pending.len())
            && let Some(Rotation::Opening { input_id, .. }) = self.flight.rotation.as_deref()
        {
            // The new journal was not begun: the old session goes on.
            let (input_id, error) = (input_id.clone(), InputError::NotJournaled(error.to_owned()));
            let items: Vec<Deferred> = self.flight.pending.drain(..).flat_map(|held| held.items).collect();
            self.flight.rotation = None;
            self.out.push(Effect::Refuse { input_id, error });
            for item in items {
                match item {
                    Deferred::Entry { .. } => {}
                    // It waited behind the opening, and for nothing else.
                    Deferred::Event { .. } | Deferred::Act(_) => self.release(item, &mut [].iter()),
                }
            }
            return;
        }
        let reason = format!("the journal could not be written: {error}");
        self.flight.items.clear();
        self.flight.entries.clear();
        let lost: Vec<_> = self.flight.pending.drain(..).collect();
        let entries = lost.iter().flat_map(|held| held.batch.entries.iter());
        let not_written: HashSet<InputId> = entries.filter_map(|entry| entry.body.takes().cloned()).collect();
        for held in lost {
            // A journal takes nothing after a failure; what went to another one may have been written there.
            let is_known = journal == held.session && !held.was_lost;
            let fate = if is_known { fate } else { Fate::Unknown };
            for item in held.items {
                if let Deferred::Act(Effect::Ack { input_id }) = item {
                    // It was repeated, and the journal has it.
                    if self.durable.seen.contains(&input_id) && !not_written.contains(&input_id) {
                        self.out.push(Effect::Ack { input_id });
                        continue;
                    }
                    let reason = error.to_owned();
                    let error = match fate {
                        Fate::NotWritten => InputError::NotJournaled(reason),
                        Fate::Unknown => InputError::OutcomeUnknown { input_id: input_id.clone(), reason },
                    };
                    self.out.push(Effect::Refuse { input_id, error });
                }
            }
        }
        self.flight.run.hook = RunHook::None;
        self.flight.parked = Some(reason.clone());
        self.out.push(Effect::Park { reason });
    }

    pub(in crate::machine) fn send_again(&mut self) {
        for pending in &mut self.flight.pending {
            pending.was_lost = true;
            self.out.push(Effect::Append { session: pending.session.clone(), batch: pending.batch.clone() });
        }
    }
}

impl PendingBatch {
    /// Adds something that waits; pieces of one message merge, so that a slow disk holds text, not events.
    fn attach(&mut self, item: Deferred) {
        if let (
            Some(Deferred::Event { event: AgentEvent::MessageUpdate { message_id: held, delta }, .. }),
            Deferred::Event { event: AgentEvent::MessageUpdate { message_id, delta: more }, loop_id, at },
        ) = (self.items.last_mut(), &item)
            && held == message_id
        {
            if let Err(delta) = delta.merge(more.clone()) {
                let event = AgentEvent::MessageUpdate { message_id: message_id.clone(), delta };
                self.items.push(Deferred::Event { event, loop_id: loop_id.clone(), at: *at });
            }
            return;
        }
        self.items.push(item);
    }
}
