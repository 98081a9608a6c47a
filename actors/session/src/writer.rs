//! The session writer: appends for many agents, flushed in groups.
//!
//! - **Supervised by** the sessions supervisor, one Writer per shard ([`shard`] says which session goes where). A
//!   restarted Writer gets a clone of the same [`WriterArgs`].
//! - **Owns** the order of a shard's appends, and nothing that the journals don't have: files are the store's.
//! - **Takes** [`WriterMsg`]: appends, loads, and what ends a session's stay. A handler only queues. One blocking job
//!   at a time takes everything that waits, writes it in order, flushes each journal once if any of its batches asks
//!   for it, and then says what happened; meanwhile the next group gathers. A job begins when everyone who is at work
//!   on this thread has had a turn: alone that is at once, among many it saves most of the changes of thread.
//! - **Dies** when a job panics. What was queued is gone, unacknowledged: agents see the death and send those batches
//!   again, and the store answers entries it already has with their numbers. A job that outlives its Writer finishes
//!   the append it is in, does nothing more and tells nobody; its successor's first job waits for that.
//!
//! The queue is bounded by its senders: an agent has one batch per admitted input and per running tool waiting at
//! most, since its machine holds the next step until `Committed`, and both are admitted against credits. Its depth is
//! in [`WriterArgs::depth`].

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use playhouse_protocol::{Batch, CommitReport, Durability, SessionId};
use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef, RpcReplyPort, SupervisionEvent};
use tokio::task::JoinHandle;

use crate::folder::stable_hash;
use crate::job::{Append, Control, Job, Outbox, Shard, Ticket, Work, take_job};
use crate::memory::MemoryStore;
use crate::store::{Loaded, Store, StoreError};

/// The shard of `n` that a session belongs to.
pub fn shard(session: &SessionId, n: usize) -> usize {
    stable_hash(session) as usize % n.max(1)
}

/// What a [`Writer`] is asked.
#[derive(Debug)]
pub enum WriterMsg {
    /// Append a batch and report when it is as durable as its class asks. The first append to a session that was
    /// not loaded takes ownership of it.
    Append {
        /// Whose journal.
        session: SessionId,
        /// What [`Class::D`](playhouse_protocol::Class) costs there.
        durability: Durability,
        /// The entries.
        batch: Batch,
        /// Who is told.
        reply: DerivedActorRef<CommitReport>,
    },
    /// Take ownership and read everything, after the appends that came before. A session that refused appends takes
    /// them again.
    Load {
        /// Whose journal.
        session: SessionId,
        /// Who is told.
        reply: RpcReplyPort<Result<Loaded, StoreError>>,
    },
    /// Free the memory of a session that will be quiet for a while; it stays this process's.
    Rest {
        /// Whose.
        session: SessionId,
    },
    /// As `Rest`, and let other processes have it.
    Release {
        /// Whose.
        session: SessionId,
    },
    /// Delete a session for good.
    Remove {
        /// Whose.
        session: SessionId,
        /// Who is told.
        reply: RpcReplyPort<Result<(), StoreError>>,
    },
    /// Answered when everything that came before it is done.
    Settle {
        /// Who is told.
        reply: RpcReplyPort<()>,
    },
    /// From the Writer's own job.
    Job(JobNews),
}

impl WriterMsg {
    /// Every name that [`WriterMsg::name`] gives.
    pub const NAMES: [&'static str; 7] = ["Append", "Load", "Rest", "Release", "Remove", "Settle", "Job"];

    /// The message's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Append { .. } => "Append",
            Self::Load { .. } => "Load",
            Self::Rest { .. } => "Rest",
            Self::Release { .. } => "Release",
            Self::Remove { .. } => "Remove",
            Self::Settle { .. } => "Settle",
            Self::Job(_) => "Job",
        }
    }
}

/// What a Writer's job tells it; nobody else can make one.
#[derive(Debug)]
pub struct JobNews(News);

#[derive(Debug)]
enum News {
    /// Whoever had something to add has added it.
    Gathered,
    /// There are reports to deliver.
    Progress,
    /// The job is over.
    Finished,
    /// The job panicked.
    Panicked(String),
}

/// What a Writer works with. Clones share one shard: give every Writer its own, and its successors clones of it.
#[derive(Clone, Debug)]
pub struct WriterArgs {
    /// Journals that last.
    pub store: Arc<dyn Store>,
    /// Journals of durability `none`.
    pub memory: Arc<MemoryStore>,
    /// How many messages wait or are being worked on.
    pub depth: Arc<AtomicUsize>,
    shard: Shard,
}

impl WriterArgs {
    /// The arguments of a new shard.
    pub fn new(store: Arc<dyn Store>, memory: Arc<MemoryStore>, depth: Arc<AtomicUsize>) -> Self {
        Self { store, memory, depth, shard: Shard::default() }
    }
}

/// The session-writer actor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writer;

/// A Writer's state.
#[derive(Debug)]
pub struct WriterState {
    args: WriterArgs,
    queue: VecDeque<Work>,
    phase: Phase,
    outbox: Arc<Outbox>,
    /// Set when the Writer is gone: a job that still runs stops before its next step.
    gone: Arc<AtomicBool>,
}

/// What a Writer is at.
#[derive(Debug)]
enum Phase {
    /// Nothing waits.
    Idle,
    /// A group gathers.
    Gathering,
    /// A job runs.
    Working(JoinHandle<()>),
}

impl Drop for WriterState {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::SeqCst);
        match &self.phase {
            Phase::Idle | Phase::Gathering => {}
            Phase::Working(job) => job.abort(),
        }
    }
}

impl WriterState {
    fn ticket(&self) -> Ticket {
        Ticket::new(self.args.depth.clone())
    }

    fn control(&mut self, myself: &ActorRef<WriterMsg>, control: Control) {
        let ticket = self.ticket();
        self.queue.push_back(Work::Control(control, ticket));
        self.gather(myself);
    }

    /// Lets a group gather for the next job, unless one runs.
    fn gather(&mut self, myself: &ActorRef<WriterMsg>) {
        match self.phase {
            Phase::Gathering | Phase::Working(_) => {}
            Phase::Idle if self.queue.is_empty() => {}
            Phase::Idle => {
                self.phase = Phase::Gathering;
                let writer = myself.clone();
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    // A Writer that is gone has no group.
                    let _ = writer.cast(WriterMsg::Job(JobNews(News::Gathered)));
                });
            }
        }
    }

    /// Starts a job with everything that waits.
    fn start(&mut self, myself: &ActorRef<WriterMsg>) {
        let (appends, controls) = take_job(&mut self.queue);
        let job = Job {
            store: self.args.store.clone(),
            memory: self.args.memory.clone(),
            shard: self.args.shard.clone(),
            outbox: self.outbox.clone(),
            gone: self.gone.clone(),
            appends,
            controls,
        };
        let writer = myself.clone();
        self.phase = Phase::Working(tokio::task::spawn_blocking(move || {
            // A send that fails means that the Writer is gone or ending; then it looks for itself, or nobody does.
            let tell = |news| drop(writer.cast(WriterMsg::Job(JobNews(news))));
            match catch_unwind(AssertUnwindSafe(|| job.run(&|| tell(News::Progress)))) {
                Ok(()) => tell(News::Finished),
                Err(panic) => tell(News::Panicked(panic_text(panic.as_ref()))),
            }
        }));
    }
}

impl Actor for Writer {
    type Msg = WriterMsg;
    type State = WriterState;
    type Arguments = WriterArgs;

    async fn pre_start(&self, _: ActorRef<WriterMsg>, args: WriterArgs) -> Result<WriterState, ActorProcessingErr> {
        Ok(WriterState {
            args,
            queue: VecDeque::new(),
            phase: Phase::Idle,
            outbox: Arc::default(),
            gone: Arc::default(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<WriterMsg>,
        message: WriterMsg,
        state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        playhouse_supervision::chaos::strike("writer", message.name());
        match message {
            WriterMsg::Append { session, durability, batch, reply } => {
                let ticket = state.ticket();
                state.queue.push_back(Work::Append(Append { session, durability, batch, reply, ticket }));
                state.gather(&myself);
            }
            WriterMsg::Load { session, reply } => state.control(&myself, Control::Load(session, reply)),
            WriterMsg::Rest { session } => state.control(&myself, Control::Rest(session)),
            WriterMsg::Release { session } => state.control(&myself, Control::Release(session)),
            WriterMsg::Remove { session, reply } => state.control(&myself, Control::Remove(session, reply)),
            WriterMsg::Settle { reply } => state.control(&myself, Control::Settle(reply)),
            WriterMsg::Job(JobNews(news)) => {
                state.outbox.deliver();
                match news {
                    News::Gathered => state.start(&myself),
                    News::Progress => {}
                    News::Finished => {
                        state.phase = Phase::Idle;
                        state.gather(&myself);
                    }
                    News::Panicked(text) => return Err(format!("a writer's job panicked: {text}").into()),
                }
            }
        }
        Ok(())
    }

    /// Ends in order: what was accepted is written and reported first.
    async fn post_stop(&self, myself: ActorRef<WriterMsg>, state: &mut WriterState) -> Result<(), ActorProcessingErr> {
        loop {
            if let Phase::Working(job) = std::mem::replace(&mut state.phase, Phase::Idle) {
                job.await?;
            }
            state.outbox.deliver();
            if state.queue.is_empty() {
                return Ok(());
            }
            state.start(&myself);
        }
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<WriterMsg>,
        _: SupervisionEvent,
        _: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
