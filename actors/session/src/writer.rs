//! The session writer: appends for many agents, flushed in groups.
//!
//! - **Supervised by** the sessions supervisor, one Writer per shard ([`shard`] says which session goes where). A
//!   restarted Writer gets a clone of the same [`WriterArgs`].
//! - **Owns** the order of a shard's appends, and nothing that the journals don't have: files are the store's.
//! - **Takes** [`WriterMsg`]: appends, loads, and what ends a session's stay. A handler only queues. One job at a time
//!   takes everything that waits, writes it in order, flushes each journal once if any of its batches asks for it, and
//!   then says what happened; meanwhile the next group gathers. A job begins when everyone who is at work on this
//!   thread has had a turn: alone that is at once, among many it saves most of the changes of thread. A load runs beside
//!   the job: what follows for its session waits for it, and nobody else does.
//!   What the store is away for is put off and done again every [`AWAY`], a session's messages in their order; nobody
//!   else waits for it.
//!   A session that rests is let go of by the next job, or after [`REST`], so that the end of a run costs no job.
//! - **Works** on threads of its shard's own, one for jobs and at most [`LOADS_AT_ONCE`] for loads, which live as long as
//!   the shard: users' code that fills the runtime's blocking pool cannot keep anyone from committing.
//! - **Dies** when a job or a load panics. What was queued is gone, unacknowledged: agents see the death and send those
//!   batches again, and the store answers entries it already has with their numbers. A job that outlives its Writer
//!   finishes the appends it is in, does nothing more and tells nobody; its successor's first job comes after that, on
//!   the same thread. A load that outlives its Writer tells nobody either: whoever asked asks the successor, where
//!   everything for that session waits until the old load is over.
//!
//! The queue is bounded by its senders: an agent has one batch per admitted input and per running tool waiting at
//! most, since its machine holds the next step until `Committed`, and both are admitted against credits. Its depth is
//! in [`WriterArgs::depth`].

mod job;
mod load;
mod observers;

use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use playhouse_protocol::{Batch, CommitReport, Durability, Seq, SessionId};
use playhouse_supervision::threads::panic_text;
use playhouse_supervision::{Task, Threads};
use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::oneshot;

use crate::store::error::StoreError;
use crate::store::files::folder::stable_hash;
use crate::store::memory::MemoryStore;
use crate::store::{Loaded, Store};
use job::{Append, Control, Job, Outbox, Queued, Shard, ShardJournals, Taken, Ticket, take};
use load::{Load, Loads, Then};

pub use load::Note;
pub use observers::{Committed, Observer, Observers};

/// How many journals a Writer reads at once; more wait for a thread.
const LOADS_AT_ONCE: usize = 4;

/// How long a session that rests may keep its memory while its Writer has nothing else to do.
pub const REST: Duration = Duration::from_secs(1);

/// How long a Writer waits before it sends again what the store was away for.
const AWAY: Duration = Duration::from_millis(250);

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
        /// The session that it is for.
        session: SessionId,
        /// What [`Class::D`](playhouse_protocol::Class) costs there.
        durability: Durability,
        /// Its entries, its class and the number that the report names.
        batch: Batch,
        /// Gets the report, once for each time that the batch was sent.
        reply: DerivedActorRef<CommitReport>,
    },
    /// Take ownership and read everything, after the appends that came before. A session that refused appends takes
    /// them again.
    Load {
        /// The session to read.
        session: SessionId,
        /// Gets the journal. Dropped if the Writer dies first: ask its successor.
        reply: RpcReplyPort<Result<Loaded, StoreError>>,
    },
    /// Say something in a stored session that no agent writes to, unless its journal ends with just that. Answers the
    /// entry's number; `None` when nothing was written, for one that has no journal too.
    Note {
        /// The session that it is said in.
        session: SessionId,
        /// The entry's content and time.
        note: Note,
        /// Gets the answer when the entry is flushed.
        reply: RpcReplyPort<Result<Option<Seq>, StoreError>>,
    },
    /// Free the memory of a session that will be quiet for a while, when it is convenient; it stays this process's. Any
    /// other message about it that comes before calls this off.
    Rest {
        /// The session that rests.
        session: SessionId,
    },
    /// As `Rest`, and let other processes have it.
    Release {
        /// The session to give up.
        session: SessionId,
    },
    /// Delete a session for good.
    Remove {
        /// The session to delete.
        session: SessionId,
        /// Gets the answer when nothing of it is left.
        reply: RpcReplyPort<Result<(), StoreError>>,
    },
    /// Answered when everything that came before it is done.
    Settle {
        /// Gets the answer.
        reply: RpcReplyPort<()>,
    },
    /// From the Writer's own job.
    Job(JobNews),
}

impl WriterMsg {
    /// Every name that [`WriterMsg::name`] gives.
    pub const NAMES: [&'static str; 8] = ["Append", "Load", "Note", "Rest", "Release", "Remove", "Settle", "Job"];

    /// The message's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Append { .. } => "Append",
            Self::Load { .. } => "Load",
            Self::Note { .. } => "Note",
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
    /// Sessions have rested long enough.
    Rested,
    /// There are reports to deliver.
    Progress,
    /// The job is over.
    Finished,
    /// A load is over, this Writer's or its predecessor's.
    Loaded,
    /// The store may be back.
    Again,
    /// The job or a load panicked.
    Panicked(String),
}

/// What a Writer works with. Clones share one shard: give every Writer its own, and its successors clones of it.
#[derive(Clone, Debug)]
pub struct WriterArgs {
    /// Keeps the journals of sessions that outlive the process.
    pub store: Arc<dyn Store>,
    /// Keeps the journals of durability `none`.
    pub memory: Arc<MemoryStore>,
    /// How many messages wait or are being worked on.
    pub depth: Arc<AtomicUsize>,
    /// Who is told of what was committed.
    pub observers: Observers,
    shard: Shard,
    loads: Loads,
    /// Where jobs run, one at a time.
    job_thread: Threads,
    load_threads: Threads,
}

impl WriterArgs {
    /// The arguments of a new shard.
    pub fn new(store: Arc<dyn Store>, memory: Arc<MemoryStore>, depth: Arc<AtomicUsize>) -> Self {
        let (job_thread, load_threads) = (Threads::new("writer", 1), Threads::new("writer-load", LOADS_AT_ONCE));
        let observers = Observers::default();
        Self {
            store,
            memory,
            depth,
            observers,
            shard: Shard::default(),
            loads: Loads::default(),
            job_thread,
            load_threads,
        }
    }
}

/// The actor that appends to the journals of one shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writer;

/// What a [`Writer`] has to do, and what it is at.
#[derive(Debug)]
pub struct WriterState {
    args: WriterArgs,
    journals: ShardJournals,
    queue: VecDeque<Queued>,
    /// Sessions to let go of with the next job, or when the timer ends.
    resting: HashSet<SessionId>,
    rest_timer: Option<Task>,
    /// What the store was away for, a session's in their order: done again when the timer ends.
    away: Vec<Queued>,
    away_timer: Option<Task>,
    phase: Phase,
    outbox: Arc<Outbox>,
}

/// What a Writer is at.
#[derive(Debug)]
enum Phase {
    /// No job runs, and none is due.
    Idle,
    /// A job is due when whoever is at work on this thread had a turn.
    Gathering,
    /// A job runs, until this ends.
    Working(oneshot::Receiver<()>),
}

impl Drop for WriterState {
    fn drop(&mut self) {
        self.journals.gone.store(true, Ordering::SeqCst);
    }
}

impl WriterState {
    /// Queues a message about a session, or about all.
    fn queue(&mut self, myself: &ActorRef<WriterMsg>, work: impl FnOnce(Ticket) -> Queued) {
        let work = work(Ticket::new(self.args.depth.clone()));
        if let Some(session) = work.session() {
            self.resting.remove(session);
        }
        self.queue.push_back(work);
        self.gather(myself);
    }

    fn rest(&mut self, myself: &ActorRef<WriterMsg>, session: SessionId) {
        // What is queued for it shows that it does not rest.
        if self.queue.iter().any(|work| work.session() == Some(&session)) {
            return;
        }
        self.resting.insert(session);
        if self.rest_timer.is_none() {
            self.time_rest(myself);
        }
    }

    fn time_rest(&mut self, myself: &ActorRef<WriterMsg>) {
        let writer = myself.clone();
        self.rest_timer = Some(Task::after(REST, move || tell(&writer, News::Rested)));
    }

    /// Tells what there is to tell, and puts off what the store was away for.
    fn deliver(&mut self, myself: &ActorRef<WriterMsg>) {
        self.away.append(&mut self.outbox.deliver(&self.args.observers));
        if self.away.is_empty() || self.away_timer.is_some() {
            return;
        }
        let writer = myself.clone();
        self.away_timer = Some(Task::after(AWAY, move || tell(&writer, News::Again)));
    }

    /// Puts what the store was away for before everything else.
    fn try_again(&mut self) {
        for work in self.away.drain(..).rev() {
            self.queue.push_front(work);
        }
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

    /// Starts what can be done now: loads, and a job if there is something for it.
    fn start(&mut self, myself: &ActorRef<WriterMsg>) -> io::Result<()> {
        let Taken { appends, mut controls, loads } = take(&mut self.queue, &mut self.args.loads.lock(), &self.away);
        for load in loads {
            let (journals, writer, outbox) = (self.journals.clone(), myself.clone(), self.outbox.clone());
            let end = self.args.loads.end_of(load.session.clone(), || WriterMsg::Job(JobNews(News::Loaded)));
            self.args.load_threads.start(move || {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| journals.load(load, &outbox))) {
                    tell(&writer, News::Panicked(panic_text(panic.as_ref())));
                }
                drop(end);
            })?;
        }
        for session in self.resting.drain() {
            controls.push((Control::Rest(session), Ticket::new(self.args.depth.clone())));
        }
        self.phase = Phase::Idle;
        if !(appends.is_empty() && controls.is_empty()) {
            let job = Job { journals: self.journals.clone(), outbox: self.outbox.clone(), appends, controls };
            let (end, over) = oneshot::channel();
            self.phase = Phase::Working(over);
            let writer = myself.clone();
            self.args.job_thread.start(move || {
                let done = catch_unwind(AssertUnwindSafe(|| job.run(&|| tell(&writer, News::Progress))));
                let panicked = |panic: Box<dyn Any + Send>| News::Panicked(panic_text(panic.as_ref()));
                tell(&writer, done.map_or_else(panicked, |()| News::Finished));
                drop(end);
            })?;
        }
        Ok(())
    }
}

/// A send that fails means that the Writer is gone or ending; then it looks for itself, or nobody does.
fn tell(writer: &ActorRef<WriterMsg>, news: News) {
    drop(writer.cast(WriterMsg::Job(JobNews(news))));
}

impl Actor for Writer {
    type Msg = WriterMsg;
    type State = WriterState;
    type Arguments = WriterArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<WriterMsg>,
        args: WriterArgs,
    ) -> Result<WriterState, ActorProcessingErr> {
        args.loads.report_to(myself);
        let journals = ShardJournals {
            store: args.store.clone(),
            memory: args.memory.clone(),
            shard: args.shard.clone(),
            gone: Arc::default(),
        };
        Ok(WriterState {
            args,
            journals,
            queue: VecDeque::new(),
            resting: HashSet::new(),
            rest_timer: None,
            away: Vec::new(),
            away_timer: None,
            phase: Phase::Idle,
            outbox: Arc::default(),
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
                let append = |ticket| Queued::Append(Append { session, durability, batch, reply, ticket });
                state.queue(&myself, append);
            }
            WriterMsg::Load { session, reply } => {
                state.queue(&myself, |ticket| Queued::Load(Load { session, then: Then::Give(reply), ticket }));
            }
            WriterMsg::Note { session, note, reply } => {
                state.queue(&myself, |ticket| Queued::Load(Load { session, then: Then::Note(note, reply), ticket }));
            }
            WriterMsg::Rest { session } => state.rest(&myself, session),
            WriterMsg::Release { session } => {
                state.queue(&myself, |ticket| Queued::Control(Control::Release(session), ticket));
            }
            WriterMsg::Remove { session, reply } => {
                state.queue(&myself, |ticket| Queued::Control(Control::Remove(session, reply), ticket));
            }
            WriterMsg::Settle { reply } => {
                state.queue(&myself, |ticket| Queued::Control(Control::Settle { reply, after: None }, ticket));
            }
            WriterMsg::Job(JobNews(news)) => {
                state.deliver(&myself);
                match news {
                    News::Gathered => state.start(&myself)?,
                    News::Rested => {
                        state.rest_timer = None;
                        match state.phase {
                            Phase::Idle if !state.resting.is_empty() => state.start(&myself)?,
                            // The job that gathers takes them.
                            Phase::Idle | Phase::Gathering => {}
                            // This job may be the last for long.
                            Phase::Working(_) => state.time_rest(&myself),
                        }
                    }
                    News::Progress => {}
                    News::Finished => {
                        state.phase = Phase::Idle;
                        state.gather(&myself);
                    }
                    News::Loaded => state.gather(&myself),
                    News::Again => {
                        state.away_timer = None;
                        state.try_again();
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
        // Once more; what the store is away for then was never acknowledged.
        state.try_again();
        loop {
            if let Phase::Working(over) = std::mem::replace(&mut state.phase, Phase::Idle) {
                // An end is an end, a panic's too.
                let _ = over.await;
            }
            state.deliver(&myself);
            state.start(&myself)?;
            if matches!(state.phase, Phase::Idle) && !state.args.loads.one_ended().await {
                return Ok(());
            }
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
