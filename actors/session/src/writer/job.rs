//! What a Writer has done on its shard's threads: one group of work at a time (write all, flush once per journal,
//! report), and loads beside it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use playhouse_protocol::{Batch, Class, CommitReport, Durability, Fate, Seq, SessionId};
use ractor::{DerivedActorRef, RpcReplyPort};

use super::load::{Load, UnderWay};
use crate::store::files::fail;
use crate::store::memory::MemoryStore;
use crate::store::{Store, StoreError, Sync, Take};

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
pub(crate) enum Work {
    Append(Append),
    Load(Load),
    Control(Control, Ticket),
}

impl Work {
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
    /// After the appends.
    pub controls: Vec<(Control, Ticket)>,
    pub loads: Vec<Load>,
}

/// Takes from the queue what can be done now: one job's appends and controls, and loads. A session's messages keep
/// their order: an append after a control waits for the next job, a load waits until its session has nothing in the
/// job, and everything waits for a load of its session. So does whatever follows what waits.
pub(crate) fn take(queue: &mut VecDeque<Work>, loads: &mut UnderWay) -> Taken {
    let mut taken = Taken::default();
    let (mut appended, mut controlled, mut waiting) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut left = VecDeque::new();
    for mut work in queue.drain(..) {
        let waits = match &mut work {
            Work::Control(Control::Settle { after, .. }, _) => {
                !left.is_empty() || loads.is_under_way(*after.get_or_insert(loads.begun()))
            }
            Work::Append(Append { session, .. })
            | Work::Load(Load { session, .. })
            | Work::Control(Control::Rest(session) | Control::Release(session) | Control::Remove(session, _), _)
                if waiting.contains(session) || loads.has(session) =>
            {
                true
            }
            Work::Append(append) => controlled.contains(&append.session),
            Work::Load(load) => appended.contains(&load.session) || controlled.contains(&load.session),
            Work::Control(..) => false,
        };
        if waits {
            waiting.extend(work.session().cloned());
            left.push_back(work);
            continue;
        }
        match work {
            Work::Append(append) => {
                appended.insert(append.session.clone());
                taken.appends.push(append);
            }
            Work::Load(load) => {
                loads.begin(load.session.clone());
                taken.loads.push(load);
            }
            Work::Control(control, ticket) => {
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

/// Reports that the Writer is to deliver. They go through it so that a dead Writer reports nothing: its agents have
/// sent the batches again by then.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<Vec<(Append, CommitReport)>>);

impl Outbox {
    fn put(&self, reports: &mut Vec<(Append, CommitReport)>) {
        lock(&self.0).append(reports);
    }

    /// Sends what is there. Agents that are gone don't need theirs.
    pub fn deliver(&self) {
        let reports = std::mem::take(&mut *lock(&self.0));
        for (Append { reply, ticket, .. }, report) in reports {
            // No longer counted when its sender hears of it.
            drop(ticket);
            let _ = reply.send_message(report);
        }
    }
}

/// Where a session's journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Store,
    Memory,
}

/// What a shard knows of a session.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    /// Loaded and empty: its first append decides where it is kept.
    Empty { epoch: u64 },
    /// Appends go there.
    Ready { place: Place, epoch: u64 },
    /// Something failed: nothing is accepted until the session is loaded.
    Refused(Box<StoreError>),
}

/// What a shard knows of its sessions: those loaded or appended to, until they are released. A job holds the lock while
/// it runs; a load takes it when it is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shard(Arc<Mutex<HashMap<SessionId, Standing>>>);

impl Shard {
    pub fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Standing>> {
        self.0.lock().unwrap_or_else(|poisoned| {
            // A job panicked. What it was sure of is asked of the store again; what was refused stays refused.
            let mut standings = poisoned.into_inner();
            standings.retain(|_, standing| matches!(standing, Standing::Refused(_)));
            self.0.clear_poison();
            standings
        })
    }
}

/// What jobs and loads of one Writer share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub store: Arc<dyn Store>,
    pub memory: Arc<MemoryStore>,
    pub shard: Shard,
    /// Whether the Writer is gone: then nothing more is begun, and nobody is told anything.
    pub gone: Arc<AtomicBool>,
}

impl Shared {
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

/// One group of work.
#[derive(Debug)]
pub(crate) struct Job {
    pub shared: Shared,
    pub outbox: Arc<Outbox>,
    pub appends: Vec<Append>,
    pub controls: Vec<(Control, Ticket)>,
}

impl Job {
    /// Does the work; `progress` is called whenever there are reports in the outbox.
    pub fn run(mut self, progress: &dyn Fn()) {
        let shard = self.shared.shard.clone();
        let mut standings = shard.lock();
        let (mut reports, mut waiting) = (Vec::new(), Vec::new());
        // Sessions whose reports wait for a flush, in the order of their first.
        let mut unflushed: Vec<(SessionId, u64)> = Vec::new();
        for append in std::mem::take(&mut self.appends) {
            if self.shared.is_gone() {
                return;
            }
            let session = append.session.clone();
            let done = self.append(&append, &mut standings);
            let report = match &done {
                Ok((_, seqs)) => {
                    CommitReport::Committed { session: session.clone(), batch: append.batch.number, seqs: seqs.clone() }
                }
                Err((error, fate)) => failed(&append, error, *fate),
            };
            let waits = unflushed.iter().any(|(other, _)| *other == session);
            match done {
                Ok((Some(epoch), _)) if !waits => unflushed.push((session, epoch)),
                // Reports of one session keep their order, so what follows a batch that waits also waits.
                Ok(_) if waits => {}
                Err(_) if waits => {}
                Ok(_) | Err(_) => {
                    reports.push((append, report));
                    continue;
                }
            }
            waiting.push((append, report));
        }
        // Whoever hears that the job is over looks into the outbox as well.
        if !reports.is_empty() {
            self.outbox.put(&mut reports);
            if !(unflushed.is_empty() && self.controls.is_empty()) {
                progress();
            }
        }
        for (session, epoch) in unflushed {
            let Err(error) = self.shared.store.flush(&session, epoch) else { continue };
            for (append, report) in waiting.iter_mut().filter(|(append, _)| append.session == session) {
                *report = failed(append, &error, Fate::Unknown);
            }
            standings.insert(session, Standing::Refused(Box::new(error)));
        }
        fail::job_flushed();
        if !waiting.is_empty() {
            self.outbox.put(&mut waiting);
            if !self.controls.is_empty() {
                progress();
            }
        }
        for (control, ticket) in std::mem::take(&mut self.controls) {
            if self.shared.is_gone() {
                return;
            }
            self.control(control, ticket, &mut standings);
        }
    }

    /// Writes a batch. Answers the epoch to flush with, if its class and durability ask for a flush; or why it was not
    /// written, and whether it may be there all the same.
    #[allow(clippy::type_complexity)]
    fn append(
        &self,
        append: &Append,
        standings: &mut HashMap<SessionId, Standing>,
    ) -> Result<(Option<u64>, Vec<Seq>), (StoreError, Fate)> {
        let session = &append.session;
        if let Some(Standing::Refused(error)) = standings.get(session) {
            // It may be sent again: then it can be what failed, or have been written before that.
            return Err((error.as_ref().clone(), Fate::Unknown));
        }
        let (place, epoch) = self.stand(append, standings).map_err(|error| {
            let fate = error.fate();
            (error, fate)
        })?;
        let store: &dyn Store = match place {
            Place::Store => &*self.shared.store,
            Place::Memory => &*self.shared.memory,
        };
        let (sync, flush) = match (place, append.batch.class, append.durability) {
            (Place::Store, Class::D, Durability::Flush) => (Sync::Blobs, Some(epoch)),
            (Place::Store | Place::Memory, Class::P | Class::D, _) => (Sync::Kernel, None),
        };
        match store.append(session, epoch, &append.batch.entries, sync) {
            Ok(seqs) => {
                match (place, standings.get(session)) {
                    (Place::Store, Some(Standing::Ready { .. })) | (Place::Memory, None) => {}
                    (Place::Store, Some(Standing::Empty { .. } | Standing::Refused(_)) | None) => {
                        standings.insert(session.clone(), Standing::Ready { place, epoch });
                    }
                    // The store in memory knows its own, and there may be very many.
                    (Place::Memory, Some(_)) => drop(standings.remove(session)),
                }
                Ok((flush, seqs))
            }
            Err(error) => {
                standings.insert(session.clone(), Standing::Refused(Box::new(error.clone())));
                let fate = error.fate();
                Err((error, fate))
            }
        }
    }

    /// Where a session's next batch goes. One that nobody loaded is taken now.
    fn stand(&self, append: &Append, standings: &mut HashMap<SessionId, Standing>) -> Result<(Place, u64), StoreError> {
        let session = &append.session;
        let empty = match standings.get(session) {
            Some(Standing::Ready { place, epoch }) => return Ok((*place, *epoch)),
            Some(Standing::Refused(error)) => return Err(error.as_ref().clone()),
            Some(Standing::Empty { epoch }) => Some(*epoch),
            None => None,
        };
        let in_memory = || self.shared.memory.own(session).map(|epoch| (Place::Memory, epoch));
        let taken = match (empty, append.durability) {
            (Some(_), Durability::None) => in_memory(),
            (Some(epoch), Durability::Flush | Durability::Os) => Ok((Place::Store, epoch)),
            (None, _) if self.shared.memory.has(session) => in_memory(),
            (None, Durability::None) => match self.shared.store.load(session, Take::Peek) {
                Err(StoreError::Unknown { .. }) => in_memory(),
                Ok(_) => self.shared.store.own(session).map(|epoch| (Place::Store, epoch)),
                Err(error) => Err(error),
            },
            (None, Durability::Flush | Durability::Os) => {
                self.shared.store.own(session).map(|epoch| (Place::Store, epoch))
            }
        };
        if let Err(error) = &taken {
            standings.insert(session.clone(), Standing::Refused(Box::new(error.clone())));
        }
        taken
    }

    fn control(&self, control: Control, ticket: Ticket, standings: &mut HashMap<SessionId, Standing>) {
        match control {
            Control::Rest(session) => {
                // What is refused stays so until it is loaded.
                if let Some(Standing::Refused(_)) = standings.get(&session) {
                    return;
                }
                standings.remove(&session);
                let _ = self.shared.memory.rest(&session);
                let _ = self.shared.store.rest(&session);
            }
            Control::Release(session) => {
                standings.remove(&session);
                let _ = self.shared.memory.release(&session);
                // A record that could not be changed still frees the session when this process ends.
                let _ = self.shared.store.release(&session);
            }
            Control::Remove(session, reply) => {
                let removed = match self.shared.memory.has(&session) {
                    true => self.shared.memory.remove(&session),
                    false => self.shared.store.remove(&session),
                };
                if removed.is_ok() {
                    standings.remove(&session);
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

fn failed(append: &Append, error: &StoreError, fate: Fate) -> CommitReport {
    let (session, batch) = (append.session.clone(), append.batch.number);
    CommitReport::Failed { session, batch, error: error.to_string(), fate }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
