//! The way to journals: a writer for each shard of sessions, and a reader for those who watch.

use std::sync::Arc;

use playhouse_protocol::SessionId;
use playhouse_session::{Reader, WriterMsg, shard};
use playhouse_supervision::{Absent, Directory};
use ractor::{ActorRef, RpcReplyPort};

/// The writers and the reader of a house's journals.
#[derive(Debug)]
pub struct Journals {
    /// Writers by address, as [`Journals::address`] gives it.
    pub writers: Directory<WriterMsg>,
    /// The address of each shard's writer.
    addresses: Vec<Arc<str>>,
    /// Reads journals without their writers.
    pub reader: Reader,
}

/// The address of a shard's writer.
pub fn writer_id(shard: usize) -> Arc<str> {
    format!("writer/{shard}").into()
}

impl Journals {
    /// The journals of `shards` shards, whose writers are yet to start: whoever asks for one waits.
    pub fn new(shards: usize, reader: Reader) -> Self {
        let (writers, addresses) = (Directory::new(), (0..shards).map(writer_id).collect::<Vec<_>>());
        addresses.iter().for_each(|address| writers.expect(address.clone()));
        Self { writers, addresses, reader }
    }

    /// The address of a session's writer.
    pub fn address(&self, session: &SessionId) -> Arc<str> {
        self.addresses.get(shard(session, self.addresses.len())).cloned().unwrap_or_default()
    }

    /// A session's writer, unless it is about to be started or parked.
    pub fn writer(&self, session: &SessionId) -> Option<ActorRef<WriterMsg>> {
        self.writers.get(&self.address(session))
    }

    /// Asks a session's writer, and whoever comes after it if it dies before it answers.
    pub async fn ask<T: Send + 'static>(
        &self,
        session: &SessionId,
        question: impl Fn(RpcReplyPort<T>) -> WriterMsg,
    ) -> Result<T, Absent> {
        self.writers.ask(&self.address(session), question).await
    }

    /// Lets other processes have a session.
    pub fn release(&self, session: SessionId) {
        if let Some(writer) = self.writer(&session) {
            // A writer that is dead holds nothing.
            let _ = writer.cast(WriterMsg::Release { session });
        }
    }

    /// Waits until everything that was sent to the session's writer is done. One that dies meanwhile has nothing left to
    /// do.
    pub async fn settle(&self, session: &SessionId) {
        let Ok(writer) = self.writers.live(&self.address(session), None).await else { return };
        let _ = ractor::call!(writer, |reply| WriterMsg::Settle { reply });
    }

    /// Deletes a session that was kept in memory only.
    pub(crate) fn remove(&self, session: SessionId) {
        if let Some(writer) = self.writer(&session) {
            let (done, _) = ractor::concurrency::oneshot();
            let _ = writer.cast(WriterMsg::Remove { session, reply: done.into() });
        }
    }

    /// As `remove`, and waits until it is done.
    pub(crate) async fn removed(&self, session: SessionId) {
        let Ok(writer) = self.writers.live(&self.address(&session), None).await else { return };
        // A writer that dies meanwhile holds nothing of it; what it kept in memory goes with the house.
        let _ = ractor::call!(writer, |reply| WriterMsg::Remove { session, reply });
    }
}
