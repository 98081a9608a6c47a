//! Loads: journals that are read beside a Writer's job, so that one which takes long holds up its own session alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use playhouse_protocol::SessionId;
use ractor::{ActorRef, RpcReplyPort};
use tokio::sync::Notify;

use super::WriterMsg;
use super::job::{Place, Shared, Standing, Ticket};
use crate::store::{Loaded, Store, StoreError, Take};

/// A journal to be read.
#[derive(Debug)]
pub(crate) struct Load {
    pub session: SessionId,
    pub reply: RpcReplyPort<Result<Loaded, StoreError>>,
    pub ticket: Ticket,
}

/// A shard's loads, whichever Writer began them: a successor waits for its predecessor's as for its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
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
        self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Ends a load.
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

impl Shared {
    /// Reads a journal to go on with it. If the Writer is gone by then, nobody is told: whoever asked asks its successor.
    pub fn load(&self, Load { session, reply, ticket }: Load) {
        if self.is_gone() {
            return;
        }
        // A job of the Writer before may still be in its last append, which the journal is to be read with.
        drop(self.shard.lock());
        let place = if self.memory.has(&session) { Place::Memory } else { Place::Store };
        let loaded = match place {
            Place::Store => self.store.load(&session, Take::Own),
            Place::Memory => self.memory.load(&session, Take::Own),
        };
        let standing = match &loaded {
            Ok(loaded) if loaded.entries.is_empty() => Standing::Empty { epoch: loaded.epoch },
            Ok(loaded) => Standing::Ready { place, epoch: loaded.epoch },
            Err(error) => Standing::Refused(Box::new(error.clone())),
        };
        self.shard.lock().insert(session, standing);
        if !self.is_gone() {
            drop(ticket);
            let _ = reply.send(loaded);
        }
    }
}
