//! The agent's mailbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use playhouse_protocol::{
    AgentId, CallReport, Command, CommitReport, History, InputId, LoopId, SessionId, ToolCallId, ToolError, ToolReport,
    ToolResult,
};
use playhouse_provider::ConnectionMsg;
use playhouse_session::WriterMsg;
use playhouse_supervision::{Absent, Permit};
use ractor::{ActorRef, RpcReplyPort};

use super::recovery::{NoRecovery, Recovery};
use crate::machine::{Doing, HookId, InputError, Machine, RunReport, Timer, Verdict};

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

/// What an agent is told.
#[derive(Debug)]
pub enum AgentMsg {
    /// A command; the reply comes when it is in the journal.
    Submit {
        /// What is asked.
        command: Command,
        /// Its place in the queue.
        permit: Permit,
        /// Who is told.
        reply: Reply,
    },
    /// Tell me how the run of an input ended, now or later.
    Await {
        /// The input.
        input_id: InputId,
        /// Who is told.
        reply: Waiter,
    },
    /// Tell me when nothing is under way and everything is in the journal.
    AwaitRest {
        /// Who is told.
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
        /// Who is told.
        reply: RpcReplyPort<Result<AgentState, InputError>>,
    },
    /// From the connection.
    Call(CallReport),
    /// From the executor.
    Tool(ToolReport),
    /// From the writer.
    Commit(CommitReport),
    /// A hook answered.
    HookDone {
        /// Which.
        hook: HookId,
        /// What it said.
        verdict: Verdict,
    },
    /// Time is up.
    TimerDue(Timer),
    /// The journal was folded, or could not be.
    Recovered(Box<Result<Recovery, NoRecovery>>),
    /// A writer that was searched for.
    WriterIs {
        /// Its address.
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
        /// What it gave.
        result: Result<ToolResult, ToolError>,
    },
    /// A sub-agent cannot go on until something is mended.
    ChildParked {
        /// The call that asked for it.
        call: ToolCallId,
        /// Why.
        reason: String,
    },
    /// A sub-agent tells what it does: when it begins, and when that changes.
    ChildIs {
        /// The call that asked for it.
        call: ToolCallId,
        /// What.
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

    /// The message's name.
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
    /// The agent.
    pub agent_id: AgentId,
    /// Its session.
    pub session_id: SessionId,
    /// Runs so far, by configuration.
    pub loop_counters: BTreeMap<String, u32>,
    /// The latest run.
    pub last_loop_id: Option<LoopId>,
    /// The input of the latest run, or of the one that is about to begin.
    pub last_input: Option<InputId>,
    /// When it was last prompted, in unix milliseconds.
    pub last_active_at: Option<u64>,
    /// Whether a run is under way.
    pub is_streaming: bool,
    /// The conversation.
    pub messages: History,
    /// Changes that wait for someone to approve of them.
    pub plan: Vec<playhouse_protocol::entry::PlannedChange>,
    /// Inputs that wait in its queues: steering, follow-ups.
    pub queued: (usize, usize),
    /// How it is configured.
    pub settings: playhouse_protocol::entry::Settings,
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
