//! What a Writer has done on its shard's threads: one group of work at a time (write all, flush once per journal,
//! report), and loads beside it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use playhouse_protocol::{
    Batch, Class, CommitReport, Durability, Entry, EntryBody, Fate, Refusal, Seq, SessionId, lock,
};
use ractor::{DerivedActorRef, RpcReplyPort};

use super::load::{Load, UnderWay};
use super::observers::Observers;
use crate::store::error::{Failure, StoreError};
use crate::store::files::fail;
use crate::store::memory::MemoryStore;
use crate::store::{Appended, Group, Store, Sync};

/// Counts a message from its arrival to its answer.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<AtomicUsize>);

impl Ticket {
    pub fn new(depth: Arc<AtomicUsize>) -> Self {
        depth.fetch_add(1, Ordering::Relaxed);
        Self(depth)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A batch that waits.
#[derive(Debug)]
pub(crate) struct Append {
    pub session: SessionId,
    pub durability: Durability,
    pub batch: Batch,
    pub reply: DerivedActorRef<CommitReport>,
    pub ticket: Ticket,
}

/// Anything that is no append.
#[derive(Debug)]
pub(crate) enum Control {
    Rest(SessionId),
    Release(SessionId),
    Remove(SessionId, RpcReplyPort<Result<(), StoreError>>),
    /// `after`: how many loads had begun when everything before it had. They are waited for, later ones are not.
    Settle {
        reply: RpcReplyPort<()>,
        after: Option<u64>,
    },
}

/// What waits in a Writer's queue.
#[derive(Debug)]
pub(crate) enum Queued {
    Append(Append),
    Load(Load),
    Control(Control, Ticket),
}

impl Queued {
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Append(Append { session, .. })
            | Self::Load(Load { session, .. })
            | Self::Control(Control::Rest(session) | Control::Release(session) | Control::Remove(session, _), _) => {
                Some(session)
            }
            Self::Control(Control::Settle { .. }, _) => None,
        }
    }
}

/// What can be done now. The loads count as begun.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub appends: Vec<Append>,
    /// Carried out after the appends, in this order.
    pub controls: Vec<(Control, Ticket)>,
    pub loads: Vec<Load>,
}

/// Takes from the queue what can be done now: one job's appends and controls, and loads. A session's messages keep
/// their order: an append after a control waits for the next job, a load waits until its session has nothing in the
/// job, and everything waits for a load of its session. So does whatever follows what waits.
///
/// What waits for a session that is `away` is put off until the store is back; nobody else waits for that.
pub(crate) fn take(queue: &mut VecDeque<Queued>, loads: &mut UnderWay, away: &[Queued]) -> Taken {
    let mut taken = Taken::default();
    let (mut appended, mut controlled) = (HashSet::new(), HashSet::new());
    let mut waiting: HashSet<SessionId> = away.iter().filter_map(Queued::session).cloned().collect();
    let (put_off, mut are_some_left) = (waiting.clone(), false);
    let mut left = VecDeque::new();
    for mut work in queue.drain(..) {
        let waits = match &mut work {
            Queued::Control(Control::Settle { after, .. }, _) => {
                are_some_left || loads.is_under_way(*after.get_or_insert(loads.begun()))
            }
            Queued::Append(Append { session, .. })
            | Queued::Load(Load { session, .. })
            | Queued::Control(Control::Rest(session) | Control::Release(session) | Control::Remove(session, _), _)
                if waiting.contains(session) || loads.has(session) =>
            {
                true
            }
            Queued::Append(append) => controlled.contains(&append.session),
            Queued::Load(load) => appended.contains(&load.session) || controlled.contains(&load.session),
            Queued::Control(..) => false,
        };
        if waits {
            are_some_left |= !work.session().is_some_and(|session| put_off.contains(session));
            waiting.extend(work.session().cloned());
            left.push_back(work);
            continue;
        }
        match work {
            Queued::Append(append) => {
                appended.insert(append.session.clone());
                taken.appends.push(append);
            }
            Queued::Load(load) => {
                loads.begin(load.session.clone());
                taken.loads.push(load);
            }
            Queued::Control(control, ticket) => {
                match &control {
                    Control::Rest(session) | Control::Release(session) | Control::Remove(session, _) => {
                        controlled.insert(session.clone());
                    }
                    Control::Settle { .. } => {}
                }
                taken.controls.push((control, ticket));
            }
        }
    }
    *queue = left;
    taken
}

/// What a job or a load leaves for the Writer. Reports go through it so that a dead Writer reports nothing: its agents
/// have sent the batches again by then.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<Done>);

/// What came of batches.
#[derive(Debug, Default)]
struct Done {
    reports: Vec<(Append, CommitReport)>,
    /// What the store was away for, a session's in their order.
    again: Vec<Queued>,
}

impl Done {
    fn is_away(&self, session: &SessionId) -> bool {
        self.again.iter().any(|work| work.session() == Some(session))
    }

    fn committed(&mut self, append: Append, seqs: Vec<Seq>) {
        let (session, batch) = (append.session.clone(), append.batch.number);
        self.reports.push((append, CommitReport::Committed { session, batch, seqs }));
    }

    fn failed(&mut self, append: Append, error: StoreError, sessions: &mut HashMap<SessionId, Readiness>) {
        let refusal = match error.failure() {
            Failure::Away => return self.again.push(Queued::Append(append)),
            Failure::Fenced => Refusal::Fenced,
            Failure::Broken => Refusal::Broken,
        };
        let fate = match sessions.get(&append.session) {
            // It may be sent again: then it can be what failed, or have been written before that.
            Some(Readiness::Refused(_)) => Fate::Unknown,
            Some(Readiness::Empty { .. } | Readiness::Ready { .. }) | None => error.fate(),
        };
        let (session, batch) = (append.session.clone(), append.batch.number);
        let report = CommitReport::Failed { session, batch, error: error.to_string(), fate, refusal };
        sessions.insert(append.session.clone(), Readiness::Refused(Box::new(error)));
        self.reports.push((append, report));
    }
}

impl Outbox {
    fn put(&self, done: &mut Done) {
        let mut outbox = lock(&self.0);
        outbox.reports.append(&mut done.reports);
        outbox.again.append(&mut done.again);
    }

    /// Leaves work that is to be done again later.
    pub fn put_again(&self, work: Queued) {
        lock(&self.0).again.push(work);
    }

    /// Sends what is there, and gives what is to be done again. Agents that are gone don't need theirs.
    pub fn deliver(&self, observers: &Observers) -> Vec<Queued> {
        let Done { reports, again } = std::mem::take(&mut *lock(&self.0));
        for (Append { reply, ticket, .. }, report) in reports {
            // No longer counted when its sender hears of it.
            drop(ticket);
            let session = match &report {
                CommitReport::Committed { session, .. } => Some(session.clone()),
                CommitReport::Failed { .. } => None,
            };
            let _ = reply.send_message(report);
            session.iter().for_each(|session| observers.tell(session));
        }
        again
    }
}

/// What keeps a session's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    Store,
    Memory,
}

/// What a shard knows of a session.
#[derive(Clone, Debug)]
pub(crate) enum Readiness {
    /// Loaded and empty: its first append decides where it is kept.
    Empty { epoch: u64 },
    /// It is owned under this epoch, and appends go to this keeper.
    Ready { keeper: Keeper, epoch: u64 },
    /// Something failed: nothing is accepted until the session is loaded.
    Refused(Box<StoreError>),
}

/// What a shard knows of its sessions: those loaded or appended to, until they are released. A job holds the lock while
/// it runs; a load takes it when it is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shard(Arc<Mutex<HashMap<SessionId, Readiness>>>);

impl Shard {
    pub fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Readiness>> {
        self.0.lock().unwrap_or_else(|poisoned| {
            // A job panicked. What it was sure of is asked of the store again; what was refused stays refused.
            let mut sessions = poisoned.into_inner();
            sessions.retain(|_, readiness| matches!(readiness, Readiness::Refused(_)));
            self.0.clear_poison();
            sessions
        })
    }
}

/// What jobs and loads of one Writer share.
#[derive(Clone, Debug)]
pub(crate) struct ShardJournals {
    pub store: Arc<dyn Store>,
    pub memory: Arc<MemoryStore>,
    pub shard: Shard,
    /// Whether the Writer is gone: then nothing more is begun, and nobody is told anything.
    pub gone: Arc<AtomicBool>,
}

impl ShardJournals {
    pub fn keeper(&self, keeper: Keeper) -> &dyn Store {
        match keeper {
            Keeper::Store => &*self.store,
            Keeper::Memory => &*self.memory,
        }
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

/// One group of work.
#[derive(Debug)]
pub(crate) struct Job {
    pub journals: ShardJournals,
    pub outbox: Arc<Outbox>,
    pub appends: Vec<Append>,
    pub controls: Vec<(Control, Ticket)>,
}

impl Job {
    /// Does the work; `progress` is called when there is something in the outbox long before the job is over.
    pub fn run(mut self, progress: &dyn Fn()) {
        let shard = self.journals.shard.clone();
        let mut sessions = shard.lock();
        let (mut stored, mut in_memory, mut done) = (Vec::new(), Vec::new(), Done::default());
        for append in std::mem::take(&mut self.appends) {
            if self.journals.is_gone() {
                return;
            }
            if done.is_away(&append.session) {
                done.again.push(Queued::Append(append));
                continue;
            }
            match self.ready(&append, &mut sessions) {
                Ok((Keeper::Store, epoch)) => stored.push((append, epoch)),
                Ok((Keeper::Memory, epoch)) => in_memory.push((append, epoch)),
                Err(error) => done.failed(append, error, &mut sessions),
            }
        }
        self.append_all(Keeper::Memory, in_memory, &mut sessions, &mut done, progress);
        self.append_all(Keeper::Store, stored, &mut sessions, &mut done, progress);
        fail::job_flushed();
        self.outbox.put(&mut done);
        if self.controls.is_empty() {
            // Whoever hears that the job is over looks into the outbox as well.
            return;
        }
        progress();
        for (control, ticket) in std::mem::take(&mut self.controls) {
            if self.journals.is_gone() {
                return;
            }
            self.control(control, ticket, &mut sessions);
        }
    }

    /// Writes what goes to one keeper. Whoever need not wait for a flush is told before that.
    fn append_all(
        &self,
        keeper: Keeper,
        appends: Vec<(Append, u64)>,
        sessions: &mut HashMap<SessionId, Readiness>,
        done: &mut Done,
        progress: &dyn Fn(),
    ) {
        if appends.is_empty() {
            return;
        }
        let group = |(append, epoch): &(Append, u64)| Group {
            session: append.session.clone(),
            epoch: *epoch,
            entries: append.batch.entries.clone(),
            sync: match (keeper, append.batch.class, append.durability) {
                (Keeper::Store, Class::D, Durability::Flush) => Sync::Disk,
                (Keeper::Store | Keeper::Memory, Class::P | Class::D, _) => Sync::Kernel,
            },
        };
        let groups: Vec<Group> = appends.iter().map(group).collect();
        let (mut appends, mut left): (Vec<_>, _) = (appends.into_iter().map(Some).collect(), groups.len());
        let mut answer = |answers: Vec<Appended>| {
            left = left.saturating_sub(answers.len());
            for Appended { group, seqs } in answers {
                let Some((append, _)) = appends.get_mut(group).and_then(Option::take) else { continue };
                match seqs {
                    Ok(seqs) if !are_numbers_of(&append.batch.entries, &seqs) => {
                        let (doing, place) = ("use the numbers of", "the store".into());
                        let reason = format!("it numbered {} entries as {seqs:?}", append.batch.entries.len());
                        done.failed(append, StoreError::Io { doing, place, reason }.in_doubt(), sessions);
                    }
                    Ok(seqs) => done.committed(append, seqs),
                    Err(error) => done.failed(append, error, sessions),
                }
            }
            if left > 0 {
                self.outbox.put(done);
                progress();
            }
        };
        let mut groups = groups.into_iter().take_while(|_| !self.journals.is_gone());
        self.journals.keeper(keeper).append_all(&mut groups, &mut answer);
        if self.journals.is_gone() {
            return;
        }
        // A store that says nothing of a group may have kept it: it is sent again, and known by its ids.
        for (append, _) in appends.into_iter().flatten() {
            let (place, reason) = ("the store".into(), "it gave no answer".to_owned());
            done.failed(append, StoreError::Away { place, reason }, sessions);
        }
    }

    /// Where a session's next batch goes, and under which epoch. One that nobody loaded is taken now.
    fn ready(
        &self,
        append: &Append,
        sessions: &mut HashMap<SessionId, Readiness>,
    ) -> Result<(Keeper, u64), StoreError> {
        let session = &append.session;
        let empty = match sessions.get(session) {
            Some(Readiness::Ready { keeper, epoch }) => return Ok((*keeper, *epoch)),
            Some(Readiness::Refused(error)) => return Err(error.as_ref().clone()),
            Some(Readiness::Empty { epoch }) => Some(*epoch),
            None => None,
        };
        // A journal that begins with this batch is nowhere yet.
        let first = append.batch.entries.first().filter(|first| matches!(first.body, EntryBody::Opened(_)));
        let begins = first.is_some();
        let keeper = match (empty, append.durability) {
            (None, _) if self.journals.memory.has(session) => Keeper::Memory,
            (None, Durability::None) if !begins && self.journals.store.exists(session)? => Keeper::Store,
            (_, Durability::None) => Keeper::Memory,
            (_, Durability::Flush | Durability::Os) => Keeper::Store,
        };
        if let (Some(first), None) = (first, empty)
            && has_begun(self.journals.keeper(keeper), session, first)?
        {
            return Err(StoreError::Begun { session: session.clone() });
        }
        match keeper {
            Keeper::Memory => {
                // The store in memory knows its own, and there may be very many.
                sessions.remove(session);
                Ok((keeper, self.journals.memory.own(session)?))
            }
            Keeper::Store => {
                let epoch = empty.map_or_else(|| self.journals.store.own(session), Ok)?;
                sessions.insert(session.clone(), Readiness::Ready { keeper, epoch });
                Ok((keeper, epoch))
            }
        }
    }

    fn control(&self, control: Control, ticket: Ticket, sessions: &mut HashMap<SessionId, Readiness>) {
        match control {
            Control::Rest(session) => {
                // What is refused stays so until it is loaded.
                if let Some(Readiness::Refused(_)) = sessions.get(&session) {
                    return;
                }
                sessions.remove(&session);
                let _ = self.journals.memory.rest(&session);
                let _ = self.journals.store.rest(&session);
            }
            Control::Release(session) => {
                sessions.remove(&session);
                let _ = self.journals.memory.release(&session);
                // A record that could not be changed still frees the session when this process ends.
                let _ = self.journals.store.release(&session);
            }
            Control::Remove(session, reply) => {
                let removed = match self.journals.memory.has(&session) {
                    true => self.journals.memory.remove(&session),
                    false => self.journals.store.remove(&session),
                };
                if removed.is_ok() {
                    sessions.remove(&session);
                }
                drop(ticket);
                let _ = reply.send(removed);
            }
            Control::Settle { reply, .. } => {
                drop(ticket);
                let _ = reply.send(());
            }
        }
    }
}

/// Whether a journal has more than openings, and not this one: a change of session that a crash cut short leaves an
/// opening, and what was sent before a writer died is sent again.
fn has_begun(store: &dyn Store, session: &SessionId, first: &Entry) -> Result<bool, StoreError> {
    if !store.exists(session)? {
        return Ok(false);
    }
    let mut has_more = false;
    for record in store.read(session, Seq::default())? {
        let (_, entry) = record?;
        if entry.id == first.id {
            return Ok(false);
        }
        has_more |= !matches!(entry.body, EntryBody::Opened(_));
    }
    Ok(has_more)
}

/// Whether these can be the numbers of entries: one for each, rising.
fn are_numbers_of(entries: &[Arc<Entry>], seqs: &[Seq]) -> bool {
    entries.len() == seqs.len() && seqs.first().is_none_or(|first| first.0 > 0) && seqs.is_sorted_by(|a, b| a < b)
}
