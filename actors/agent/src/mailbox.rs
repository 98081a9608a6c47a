//! The agent's mailbox: everything that its actor is told, by handles, partners, children and itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use playhouse_protocol::entry::{PlannedChange, Settings, Wake};
use playhouse_protocol::{
    AgentId, CallReport, Command, CommitReport, Event, History, InputId, LoopId, Seq, SessionId, ToolCallId, ToolError,
    ToolReport, ToolResult,
};
use playhouse_provider::ConnectionMsg;
use playhouse_session::WriterMsg;
use playhouse_supervision::{Absent, Permit};
use ractor::{ActorRef, RpcReplyPort};

use crate::machine::{Doing, HookId, InputError, Machine, RunReport, Timer, Verdict};
use crate::services::Lease;

/// Who gets the answer to an input.
pub type Reply = RpcReplyPort<Result<(), InputError>>;
/// Who waits for a run's end.
pub type Waiter = RpcReplyPort<Result<Arc<RunReport>, InputError>>;

/// Why a model cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoConnection {
    /// Its provider cannot be made here.
    #[error("{0}")]
    Setup(String),
    /// Its connection is parked, or gone.
    #[error(transparent)]
    Absent(#[from] Absent),
}

/// A machine that was folded from its journal, ready to go on.
#[derive(Debug)]
pub struct Recovery {
    pub(crate) machine: Machine,
    /// Why it had to be folded, for the journal.
    pub(crate) reason: &'static str,
    pub(crate) wake: Wake,
    /// Its share in the connection that an unfinished run needs.
    pub(crate) lease: Option<Lease>,
    /// The number of the journal's last entry.
    pub(crate) last: Seq,
    /// What the last incarnation had journaled and did not live to tell.
    pub(crate) untold: Vec<Event>,
}

/// Why a journal did not give a machine to go on with.
#[derive(Debug)]
pub enum NoRecovery {
    /// Something has to be mended first: the agent parks.
    Parks(String),
    /// Someone else has the session: the agent leaves it.
    Leaves(String),
}

impl From<String> for NoRecovery {
    fn from(reason: String) -> Self {
        Self::Parks(reason)
    }
}

/// What an agent is told.
#[derive(Debug)]
pub enum AgentMsg {
    /// A command; the reply comes when it is in the journal.
    Submit {
        /// What is asked, under an id that the journal keeps.
        command: Command,
        /// Its place in the queue.
        permit: Permit,
        /// Told when the command is in the journal, or why it is not.
        reply: Reply,
    },
    /// Tell me how the run of an input ended, now or later.
    Await {
        /// The input that began the run.
        input_id: InputId,
        /// Told once, with the run's report.
        reply: Waiter,
    },
    /// Tell me when nothing is under way and everything is in the journal.
    AwaitRest {
        /// Told then, or why that will not be.
        reply: Reply,
    },
    /// Go on, if you are parked.
    Unpark {
        /// Who is told whether it was.
        reply: RpcReplyPort<Result<bool, InputError>>,
    },
    /// What is the agent's state?
    Look {
        /// Its place in the queue.
        permit: Permit,
        /// Told as soon as the journal is folded.
        reply: RpcReplyPort<Result<AgentState, InputError>>,
    },
    /// From the connection: pieces of a response, its end, or a failed attempt.
    Call(CallReport),
    /// From the executor: partial results, and the end of a call.
    Tool(ToolReport),
    /// From the writer: a batch is durable, or is not.
    Commit(CommitReport),
    /// A hook answered, or crashed.
    HookDone {
        /// The hook, by the number the machine gave it.
        hook: HookId,
        /// Its answer, of the kind that its point takes.
        verdict: Verdict,
    },
    /// A timer's time is up, unless it was disarmed meanwhile.
    TimerDue(Timer),
    /// The journal was folded, or could not be.
    Recovered(Box<Result<Recovery, NoRecovery>>),
    /// A writer that was searched for.
    WriterIs {
        /// The address it was searched under.
        address: Arc<str>,
        /// Its incarnation, or why there is none.
        writer: Result<ActorRef<WriterMsg>, String>,
    },
    /// The connection to the model, or why there is none.
    ConnectionIs(Result<ActorRef<ConnectionMsg>, NoConnection>),
    /// A sub-agent's run is over.
    ChildDone {
        /// The call that asked for it.
        call: ToolCallId,
        /// Its final text, or why there is none.
        result: Result<ToolResult, ToolError>,
    },
    /// A sub-agent cannot go on until something is mended.
    ChildParked {
        /// The call that asked for it.
        call: ToolCallId,
        /// Why, for whoever is to mend it.
        reason: String,
    },
    /// A sub-agent tells what it does: when it begins, and when that changes.
    ChildIs {
        /// The call that asked for it.
        call: ToolCallId,
        /// Whether it works or waits for a person.
        doing: Doing,
    },
    /// A sub-agent's pause before its restart is over.
    ChildDue {
        /// The call that asked for it.
        call: ToolCallId,
    },
    /// The inbox of questions is new: put those that wait into it.
    AskAgain,
    /// Fail, as a bug would make it fail. For tests and demonstrations.
    Crash,
}

impl AgentMsg {
    /// Every name that [`AgentMsg::name`] gives.
    pub const NAMES: [&'static str; 19] = [
        "Submit",
        "Await",
        "AwaitRest",
        "Unpark",
        "Look",
        "Call",
        "Tool",
        "Commit",
        "HookDone",
        "TimerDue",
        "Recovered",
        "WriterIs",
        "ConnectionIs",
        "ChildDone",
        "ChildParked",
        "ChildIs",
        "ChildDue",
        "AskAgain",
        "Crash",
    ];

    /// The message's name, by which tests strike at it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Submit { .. } => "Submit",
            Self::Await { .. } => "Await",
            Self::AwaitRest { .. } => "AwaitRest",
            Self::Unpark { .. } => "Unpark",
            Self::Look { .. } => "Look",
            Self::Call(_) => "Call",
            Self::Tool(_) => "Tool",
            Self::Commit(_) => "Commit",
            Self::HookDone { .. } => "HookDone",
            Self::TimerDue(_) => "TimerDue",
            Self::Recovered(_) => "Recovered",
            Self::WriterIs { .. } => "WriterIs",
            Self::ConnectionIs(_) => "ConnectionIs",
            Self::ChildDone { .. } => "ChildDone",
            Self::ChildParked { .. } => "ChildParked",
            Self::ChildIs { .. } => "ChildIs",
            Self::ChildDue { .. } => "ChildDue",
            Self::AskAgain => "AskAgain",
            Self::Crash => "Crash",
        }
    }
}

macro_rules! derived {
    ($($variant:ident($report:ty)),*) => {
        $(
            impl From<$report> for AgentMsg {
                fn from(report: $report) -> Self {
                    Self::$variant(report)
                }
            }

            impl TryFrom<AgentMsg> for $report {
                type Error = AgentMsg;
                fn try_from(msg: AgentMsg) -> Result<Self, AgentMsg> {
                    match msg {
                        AgentMsg::$variant(report) => Ok(report),
                        other => Err(other),
                    }
                }
            }
        )*
    };
}

derived!(Call(CallReport), Tool(ToolReport), Commit(CommitReport));

/// What an agent says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentState {
    /// The agent's id.
    pub agent_id: AgentId,
    /// The session it is in; another one after [`Agent::new_session`](crate::Agent::new_session).
    pub session_id: SessionId,
    /// Runs so far, by configuration.
    pub loop_counters: BTreeMap<String, u32>,
    /// The latest run, over or not; `None` before the first.
    pub last_loop_id: Option<LoopId>,
    /// The input of the latest run, or of the one that is about to begin.
    pub last_input: Option<InputId>,
    /// When it was last prompted, in unix milliseconds.
    pub last_active_at: Option<u64>,
    /// Whether a run is under way.
    pub is_streaming: bool,
    /// The conversation, as it would be saved.
    pub messages: History,
    /// Changes that wait for someone to approve of them.
    pub plan: Vec<PlannedChange>,
    /// Inputs that wait in its queues: steering, follow-ups.
    pub queued: (usize, usize),
    /// How it is configured.
    pub settings: Settings,
}

impl AgentState {
    pub(crate) fn of(machine: &Machine) -> Self {
        let durable = machine.durable();
        Self {
            agent_id: durable.agent_id.clone(),
            session_id: durable.session_id.clone(),
            loop_counters: durable.loop_counters.iter().map(|(config, n)| (config.to_string(), *n)).collect(),
            last_loop_id: durable.last_loop_id.clone(),
            last_input: durable.last_input().cloned(),
            last_active_at: durable.last_active_at,
            is_streaming: machine.is_running(),
            messages: durable.transcript(),
            plan: durable.plan().to_vec(),
            queued: (durable.steering.len(), durable.follow_ups.len()),
            settings: durable.settings.as_ref().clone(),
        }
    }
}
