//! The way to journals: a writer for each shard of sessions, and a reader for those who watch.

use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::{Seq, SessionId};
use playhouse_session::{Note, Reader, StoreError, Writer, WriterArgs, WriterMsg, shard};
use playhouse_supervision::{Absent, ChildSpec, Directory, RestartBudget, RestartPolicy, Shutdown, Tree, start_fn};
use ractor::{Actor, ActorRef, RpcReplyPort};

/// The writers and the reader of a house's journals.
#[derive(Debug)]
pub struct Journals {
    /// Writers by address, as [`Journals::address`] gives it. Nobody outside can put another in their place, which could
    /// say that something is durable.
    pub(crate) writers: Directory<WriterMsg>,
    /// The address of each shard's writer.
    addresses: Vec<Arc<str>>,
    /// Reads journals without their writers.
    pub reader: Reader,
}

/// The address of a shard's writer.
fn writer_id(shard: usize) -> Arc<str> {
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

    /// The writers, for their supervisor. `args` is asked for what each works with, and `patience` is how long it may take
    /// to write what it has when the house closes.
    pub fn specs(&self, tree: &Tree, args: impl Fn() -> WriterArgs, patience: Duration) -> Vec<ChildSpec> {
        let spec = |id: &Arc<str>| {
            let (tree, writers, id, args) = (tree.clone(), self.writers.clone(), id.clone(), args());
            ChildSpec {
                id: id.clone(),
                kind: "writer",
                restart: RestartPolicy::Permanent,
                budget: RestartBudget::default(),
                shutdown: Shutdown::Drain(patience),
                start: start_fn(move |above| {
                    let (tree, writers, id, args) = (tree.clone(), writers.clone(), id.clone(), args.clone());
                    async move {
                        let depth = args.depth.clone();
                        let started = Actor::spawn_linked(None, Writer, args, above).await;
                        let (actor, _) = started.map_err(|error| error.to_string())?;
                        tree.set_queue(&id, depth);
                        writers.publish(id, actor.clone());
                        Ok(actor.get_cell())
                    }
                }),
            }
        };
        self.addresses.iter().map(spec).collect()
    }

    /// A writer is parked: whoever waits for it is told why.
    pub fn park(&self, address: &str, reason: &str) {
        self.writers.park(address, reason);
    }

    /// All of them are parked.
    pub fn park_all(&self, reason: &str) {
        self.writers.park_all(reason);
    }

    /// Has the session's writer append an entry, unless the journal ends with it already; `None` if nothing was written.
    /// A writer that dies before it answers may have said it; what it said is not said twice.
    pub async fn note(&self, session: &SessionId, note: &Note) -> Result<Result<Option<Seq>, StoreError>, Absent> {
        self.ask(session, |reply| WriterMsg::Note { session: session.clone(), note: note.clone(), reply }).await
    }

    /// A session's writer, unless it is about to be started or parked.
    fn writer(&self, session: &SessionId) -> Option<ActorRef<WriterMsg>> {
        self.writers.get(&self.address(session))
    }

    /// Asks a session's writer, and whoever comes after it if it dies before it answers.
    pub(crate) async fn ask<T: Send + 'static>(
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
