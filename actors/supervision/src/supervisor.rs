//! The supervisor: a generic actor that keeps its children alive.
//!
//! - **Supervised by** another supervisor, or nobody (the root).
//! - **Owns** its children: their specs, their restarts so far, their places in the tree, the timers and tasks
//!   that start and end them (all aborted when it is dropped).
//! - **Takes** [`SupervisorMsg`]; exits of children come by ractor's supervision events. No handler waits: starts,
//!   ends and pauses are tasks that report back with a token, and a report with an old token is dropped.
//! - **When it dies**, its linked children are killed with it. Restarted by its own supervisor, it starts the
//!   children of its arguments; children that were added later are added again by whoever owns them.

mod close;
mod state;

use std::fmt;
use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr, SupervisionEvent};

use crate::child::{ChildSpec, EndResult, finish, unasked};
use crate::restart::Exit;
use crate::tree::Tree;
use state::State;

/// How the children are ended when the supervisor ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownOrder {
    /// One after the other, the last started first.
    OneByOne,
    /// All asked at once, each with its own deadline: for many children that do not need each other.
    Together,
}

/// Something that happened to a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is up for the first time.
    Started {
        /// The child's id in its spec.
        id: Arc<str>,
    },
    /// It is up again.
    Restarted {
        /// The child's id in its spec.
        id: Arc<str>,
        /// Why it had to be.
        reason: String,
        /// How often it was restarted so far.
        restarts: u64,
    },
    /// It stays down until it is resumed.
    Parked {
        /// The child's id in its spec.
        id: Arc<str>,
        /// The last exit, and what to do about it.
        reason: String,
    },
    /// It is gone for good and forgotten.
    Ended {
        /// The child's id, which is free again.
        id: Arc<str>,
    },
}

/// Told of every [`Notice`], in order, from within the supervisor: it must not block.
pub type NoticeFn = Arc<dyn Fn(Notice) + Send + Sync>;

/// Why a supervisor did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SupervisorError {
    /// The id is in use.
    #[error("`{id}` is already supervised here: stop it first, or resume it if it is parked")]
    AlreadyThere {
        /// The id that was to be used twice.
        id: String,
    },
    /// Nobody has this id: the child ended and was forgotten, or never was.
    #[error("there is no child `{id}` here: look in the tree for the ids that are")]
    Unknown {
        /// The id that was asked for.
        id: String,
    },
    /// It runs, starts or waits for its restart.
    #[error("`{id}` is not parked: only a parked child can be resumed")]
    NotParked {
        /// The child's id in its spec.
        id: String,
    },
    /// Its first start failed. That counts as a crash, and the supervisor goes on by its policy.
    #[error("`{id}` did not start: {reason}; its supervisor goes on by its restart policy, see the tree")]
    StartFailed {
        /// The child's id in its spec.
        id: String,
        /// What its start said, or that it panicked.
        reason: String,
    },
    /// It was stopped before it was up.
    #[error("`{id}` was stopped before it was up: start it again")]
    StoppedFirst {
        /// The child's id in its spec.
        id: String,
    },
    /// It was killed and is still there; it is forgotten here.
    #[error(
        "`{id}` blocks its thread and cannot be ended: it is supervised no longer, end the process to be rid of it"
    )]
    Stuck {
        /// The id it had here.
        id: String,
    },
    /// The supervisor itself is gone.
    #[error("the supervisor has ended: look it up again and repeat")]
    Gone,
}

/// Gets a started child.
type StartReply = RpcReplyPort<Result<ActorCell, SupervisorError>>;
/// Learns that a child has ended.
type StopReply = RpcReplyPort<Result<(), SupervisorError>>;

/// What a supervisor takes.
#[derive(Debug)]
pub enum SupervisorMsg {
    /// Adds a child and starts it; answered when its first start succeeded or failed.
    Start {
        /// The child; shared with whoever may have to start it again.
        spec: Arc<ChildSpec>,
        /// Gets the child's actor when it is up.
        reply: StartReply,
    },
    /// Ends a child for good; answered when it is gone.
    Stop {
        /// The child's id in its spec.
        id: String,
        /// Learns of its end.
        reply: StopReply,
    },
    /// Starts a parked child again with a fresh budget.
    Resume {
        /// The child's id in its spec.
        id: String,
        /// Gets the child's actor when it is up.
        reply: StartReply,
    },
    /// Ends every child, then itself; answered when the children are gone.
    Shutdown {
        /// Told when the last child is gone.
        reply: RpcReplyPort<()>,
    },
    /// Counts what the supervisor holds.
    Census {
        /// Gets the numbers as they are when the message is handled.
        reply: RpcReplyPort<Census>,
    },
    /// A task of the supervisor has something to say.
    Report(Report),
}

impl SupervisorMsg {
    /// The names of its messages, for fail points.
    pub const NAMES: [&'static str; 6] = ["Start", "Stop", "Resume", "Shutdown", "Census", "Report"];

    /// One of [`SupervisorMsg::NAMES`], for fail points.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "Start",
            Self::Stop { .. } => "Stop",
            Self::Resume { .. } => "Resume",
            Self::Shutdown { .. } => "Shutdown",
            Self::Census { .. } => "Census",
            Self::Report(_) => "Report",
        }
    }
}

/// What a supervisor holds; all zero when every child has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Children listed, in whatever state.
    pub children: usize,
    /// Actors that answer to them.
    pub actors: usize,
    /// Children whose start is under way.
    pub starting: usize,
    /// Children that are parked.
    pub parked: usize,
    /// Everything else that is remembered: exits that overtook the report of their start.
    pub pending: usize,
}

/// What the supervisor's own tasks report.
pub struct Report(pub(crate) Step);

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[derive(Debug)]
pub(crate) enum Step {
    Started { id: Arc<str>, token: u64, result: Result<ActorCell, String> },
    Due { id: Arc<str>, token: u64 },
    Ended { id: Arc<str>, token: u64, how: EndResult },
}

/// How a supervisor is made.
#[derive(Clone)]
pub struct SupervisorArgs {
    /// Its id: the parent of its children in the tree. Its own node is entered by whoever starts it.
    pub id: Arc<str>,
    /// How the children end when it ends.
    pub shutdown_order: ShutdownOrder,
    /// Where the children are shown.
    pub tree: Tree,
    /// Who is told of what happens.
    pub notice: Option<NoticeFn>,
    /// The children it starts with, in order, each time it is started.
    pub children: Vec<Arc<ChildSpec>>,
}

impl SupervisorArgs {
    /// A supervisor without children, which ends them one by one and tells nobody.
    pub fn new(id: impl Into<Arc<str>>, tree: Tree) -> Self {
        Self { id: id.into(), shutdown_order: ShutdownOrder::OneByOne, tree, notice: None, children: Vec::new() }
    }
}

impl fmt::Debug for SupervisorArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisorArgs")
            .field("id", &self.id)
            .field("shutdown_order", &self.shutdown_order)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

/// The supervisor actor; see the module for its contract.
#[derive(Clone, Copy, Debug)]
pub struct Supervisor;

impl Supervisor {
    /// Starts a supervisor that nobody supervises.
    pub async fn root(args: SupervisorArgs) -> Result<ActorRef<SupervisorMsg>, SpawnErr> {
        Ok(Actor::spawn(None, Self, args).await?.0)
    }

    /// Asks a supervisor to start a child.
    pub async fn start(
        of: &ActorRef<SupervisorMsg>,
        spec: impl Into<Arc<ChildSpec>>,
    ) -> Result<ActorCell, SupervisorError> {
        let spec = spec.into();
        ask(of, |reply| SupervisorMsg::Start { spec, reply }).await?
    }

    /// Asks a supervisor to end a child for good.
    pub async fn stop(of: &ActorRef<SupervisorMsg>, id: &str) -> Result<(), SupervisorError> {
        ask(of, |reply| SupervisorMsg::Stop { id: id.to_owned(), reply }).await?
    }

    /// Asks a supervisor to start a parked child again.
    pub async fn resume(of: &ActorRef<SupervisorMsg>, id: &str) -> Result<ActorCell, SupervisorError> {
        ask(of, |reply| SupervisorMsg::Resume { id: id.to_owned(), reply }).await?
    }

    /// Ends a supervisor with all its children and waits until it is gone.
    pub async fn shutdown(of: &ActorRef<SupervisorMsg>) -> Result<(), SupervisorError> {
        ask(of, |reply| SupervisorMsg::Shutdown { reply }).await?;
        // Without a timeout, waiting cannot fail.
        let _ = of.wait(None).await;
        Ok(())
    }

    /// Asks a supervisor what it holds.
    pub async fn census(of: &ActorRef<SupervisorMsg>) -> Result<Census, SupervisorError> {
        ask(of, |reply| SupervisorMsg::Census { reply }).await
    }
}

async fn ask<T: Send + 'static>(
    of: &ActorRef<SupervisorMsg>,
    question: impl FnOnce(RpcReplyPort<T>) -> SupervisorMsg,
) -> Result<T, SupervisorError> {
    let (reply, answer) = tokio::sync::oneshot::channel();
    of.send_message(question(reply.into())).map_err(|_| SupervisorError::Gone)?;
    answer.await.map_err(|_| SupervisorError::Gone)
}

/// Answers, whether or not the asker is still there.
pub(crate) fn answer<T>(port: RpcReplyPort<T>, with: T) {
    let _ = port.send(with);
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = State;
    type Arguments = SupervisorArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        args: SupervisorArgs,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State::new(myself, args))
    }

    async fn post_start(&self, _: ActorRef<SupervisorMsg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.start_first_children();
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // Nobody restarts the root: tests that strike supervisors leave it alone.
        crate::chaos::strike(&state.id, message.name());
        match message {
            SupervisorMsg::Start { spec, reply } => state.add(spec, Some(reply)),
            SupervisorMsg::Stop { id, reply } => state.stop(&id, reply),
            SupervisorMsg::Resume { id, reply } => state.resume(&id, reply),
            SupervisorMsg::Shutdown { reply } => {
                state.closing.push(reply);
                finish(&myself);
            }
            SupervisorMsg::Census { reply } => answer(reply, state.census()),
            SupervisorMsg::Report(Report(step)) => state.report(step),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                state.exited(cell.get_id(), Exit::Failed(error.to_string()));
            }
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                state.exited(cell.get_id(), unasked(reason.as_deref()));
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }

    /// Ends the children. It may wait here: the mailbox is closed, and a kill from above cuts it short.
    async fn post_stop(&self, _: ActorRef<SupervisorMsg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        Box::pin(state.close()).await;
        Ok(())
    }
}
