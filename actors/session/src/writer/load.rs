//! Loads: journals that are read beside a Writer's job, so that one which takes long holds up its own session alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use playhouse_protocol::{Entry, EntryBody, Seq, SessionId, lock};
use ractor::{ActorRef, RpcReplyPort};
use tokio::sync::Notify;

use super::WriterMsg;
use super::job::{Keeper, Outbox, Queued, Readiness, ShardJournals, Ticket};
use crate::store::error::{Failure, StoreError};
use crate::store::{Loaded, Sync, Take};

/// A journal to be read.
#[derive(Debug)]
pub(crate) struct Load {
    pub session: SessionId,
    pub then: Then,
    pub ticket: Ticket,
}

/// What is done with a journal that was read.
#[derive(Debug)]
pub(crate) enum Then {
    /// Whoever asked goes on with it.
    Give(RpcReplyPort<Result<Loaded, StoreError>>),
    /// The house has something to say in it.
    Note(Note, RpcReplyPort<Result<Option<Seq>, StoreError>>),
}

/// What the house itself has to say in a session that no agent writes to.
#[derive(Clone, Debug)]
pub struct Note {
    /// The content of the entry that says it.
    pub body: EntryBody,
    /// When, in unix milliseconds; `None` if it is no sign of life, and so as old as what stands before it.
    pub at: Option<u64>,
}

impl Note {
    /// The entry that says it after those of a journal; `None` if there are none, or the last one says so already.
    fn entry(self, session: &SessionId, loaded: &Loaded) -> Option<Entry> {
        let (_, last) = loaded.entries.last().filter(|(_, last)| last.body != self.body)?;
        Some(Entry {
            id: format!("{session}#note{}", loaded.entries.len()).into(),
            loop_id: None,
            parent: Some(last.id.clone()),
            at: self.at.unwrap_or(last.at),
            body: self.body,
        })
    }
}

/// A shard's loads, whichever Writer began them: a successor waits for its predecessor's as for its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads(Arc<ShardLoads>);

#[derive(Debug, Default)]
struct ShardLoads {
    under_way: Mutex<UnderWay>,
    /// For a Writer that ends and handles no more messages.
    ended: Notify,
}

/// Loads that have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// How many have begun so far.
    begun: u64,
    /// Which number each has, from 1.
    numbers: HashMap<SessionId, u64>,
    /// Who is told of their ends: the Writer that came last.
    writer: Option<ActorRef<WriterMsg>>,
}

impl UnderWay {
    pub fn has(&self, session: &SessionId) -> bool {
        self.numbers.contains_key(session)
    }

    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether one of the first `count` has not ended.
    pub fn is_under_way(&self, count: u64) -> bool {
        self.numbers.values().any(|number| *number <= count)
    }

    pub fn begin(&mut self, session: SessionId) {
        self.begun += 1;
        self.numbers.insert(session, self.begun);
    }
}

impl Loads {
    pub fn lock(&self) -> MutexGuard<'_, UnderWay> {
        lock(&self.0.under_way)
    }

    /// Has this Writer told of every end from now on.
    pub fn report_to(&self, writer: ActorRef<WriterMsg>) {
        self.lock().writer = Some(writer);
    }

    /// What ends a load when it is dropped, done or not: whoever waits for its session goes on, and the Writer that came
    /// last gets `news`.
    pub fn end_of(&self, session: SessionId, news: fn() -> WriterMsg) -> LoadEnd {
        LoadEnd { loads: self.clone(), session, news }
    }

    /// Waits until one ends; `false` if there is none.
    pub async fn one_ended(&self) -> bool {
        if self.lock().numbers.is_empty() {
            return false;
        }
        self.0.ended.notified().await;
        true
    }
}

/// Ends a load when it is dropped: see [`Loads::end_of`].
#[derive(Debug)]
pub(crate) struct LoadEnd {
    loads: Loads,
    session: SessionId,
    news: fn() -> WriterMsg,
}

impl Drop for LoadEnd {
    fn drop(&mut self) {
        let mut under_way = self.loads.lock();
        under_way.numbers.remove(&self.session);
        if let Some(writer) = &under_way.writer {
            // One that is ending looks for itself.
            let _ = writer.cast((self.news)());
        }
        drop(under_way);
        self.loads.0.ended.notify_one();
    }
}

impl ShardJournals {
    /// Reads a journal to go on with it. If the Writer is gone by then, nobody is told: whoever asked asks its successor.
    pub fn load(&self, Load { session, then, ticket }: Load, outbox: &Outbox) {
        if self.is_gone() {
            return;
        }
        // A job of the Writer before may still be in its last append, which the journal is to be read with.
        drop(self.shard.lock());
        let keeper = if self.memory.has(&session) { Keeper::Memory } else { Keeper::Store };
        let loaded = self.keeper(keeper).load(&session, Take::Own);
        let readiness = match &loaded {
            Err(error) if error.failure() == Failure::Away => {
                return outbox.put_again(Queued::Load(Load { session, then, ticket }));
            }
            Ok(loaded) if loaded.entries.is_empty() => Readiness::Empty { epoch: loaded.epoch },
            Ok(loaded) => Readiness::Ready { keeper, epoch: loaded.epoch },
            Err(error) => Readiness::Refused(Box::new(error.clone())),
        };
        self.shard.lock().insert(session.clone(), readiness);
        match then {
            Then::Give(reply) if !self.is_gone() => {
                drop(ticket);
                let _ = reply.send(loaded);
            }
            Then::Note(note, reply) if !self.is_gone() => {
                let noted = loaded.and_then(|loaded| self.note(&session, keeper, note, &loaded));
                drop(ticket);
                let _ = reply.send(noted);
            }
            Then::Give(_) | Then::Note(..) => {}
        }
    }

    fn note(
        &self,
        session: &SessionId,
        keeper: Keeper,
        note: Note,
        loaded: &Loaded,
    ) -> Result<Option<Seq>, StoreError> {
        let Some(entry) = note.entry(session, loaded) else { return Ok(None) };
        let written = self.keeper(keeper).append(session, loaded.epoch, &[Arc::new(entry)], Sync::Disk);
        if let Err(error) = &written {
            self.shard.lock().insert(session.clone(), Readiness::Refused(Box::new(error.clone())));
        }
        Ok(written?.first().copied())
    }
}
