//! What the machine is told, and what it asks of tools. All of it is plain data.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::entry::{BlockStage, Settings};
use playhouse_protocol::transcript::TranscriptError;
use playhouse_protocol::{
    Access, AgentMessage, CallId, ContinuationKind, EffectClass, EntryId, Fate, InputId, Level, Message,
    PermissionDecision, PermissionId, PermissionMode, ProviderError, ResponseFormat, Restrictions, Ruling, Seq,
    SessionId, StreamDelta, ToolCallId, ToolDefinition, ToolError, ToolResult,
};
use serde_json::Value;

pub use super::hook::{FilterVerdict, HookCall, HookId, HookPoint, HookSet, SessionSource, SlowHooks, Verdict};

/// The time, passed in: the machine has no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix milliseconds, for people.
    pub wall: u64,
    /// A clock that never goes back, for deadlines.
    pub mono: Duration,
}

/// What the machine is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// Start a run.
    Prompt {
        /// The sender's id.
        input_id: InputId,
        /// What is said.
        messages: Vec<Arc<AgentMessage>>,
    },
    /// Start a run whose answer must have a form.
    PromptFor {
        /// The sender's id.
        input_id: InputId,
        /// What is said.
        messages: Vec<Arc<AgentMessage>>,
        /// The form.
        format: Arc<ResponseFormat>,
    },
    /// Say something into the run, between tools or turns.
    Steer {
        /// The sender's id.
        input_id: InputId,
        /// What is said.
        message: Arc<AgentMessage>,
    },
    /// Say something when the run would stop.
    FollowUp {
        /// The sender's id.
        input_id: InputId,
        /// What is said.
        message: Arc<AgentMessage>,
    },
    /// Start a run on the conversation as it stands.
    Continue {
        /// The sender's id.
        input_id: InputId,
        /// How it relates to what was.
        kind: ContinuationKind,
    },
    /// End the run.
    Abort {
        /// The sender's id.
        input_id: InputId,
    },
    /// Clear the conversation and its queues.
    Reset {
        /// The sender's id.
        input_id: InputId,
    },
    /// Replace the conversation.
    Restore {
        /// The sender's id.
        input_id: InputId,
        /// By this.
        messages: Vec<Arc<AgentMessage>>,
    },
    /// Change the settings.
    Configure {
        /// The sender's id.
        input_id: InputId,
        /// From here on.
        settings: Box<Settings>,
    },
    /// Go on in a new session.
    Rotate {
        /// The sender's id.
        input_id: InputId,
        /// The new session.
        to: SessionId,
    },
    /// An answer to a question for permission.
    Approved {
        /// The sender's id.
        input_id: InputId,
        /// The question.
        permission_id: PermissionId,
        /// The answer.
        decision: PermissionDecision,
    },
    /// A decision on planned changes.
    Plan {
        /// The sender's id.
        input_id: InputId,
        /// What is decided.
        decision: PlanDecision,
    },
    /// Pieces of a response.
    Delta {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What came.
        deltas: Vec<StreamDelta>,
    },
    /// An attempt failed and will be repeated.
    Retrying {
        /// The call.
        call: CallId,
        /// The attempt that failed.
        attempt: u32,
        /// Why.
        error: ProviderError,
        /// The pause before the next.
        delay_ms: u64,
    },
    /// The whole response.
    Responded {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// An assistant message.
        message: Message,
    },
    /// The call failed.
    CallFailed {
        /// The call.
        call: CallId,
        /// The last attempt.
        attempt: u32,
        /// Why.
        error: ProviderError,
    },
    /// A hook answered.
    HookDone {
        /// Which.
        hook: HookId,
        /// What it said.
        verdict: Verdict,
    },
    /// A tool shows a partial result.
    ToolUpdated {
        /// The call.
        call: ToolCallId,
        /// The result so far.
        partial: ToolResult,
    },
    /// A tool shows progress.
    ToolProgress {
        /// The call.
        call: ToolCallId,
        /// The line.
        text: String,
    },
    /// A tool is done and nothing of it runs any more.
    ToolFinished {
        /// The call.
        call: ToolCallId,
        /// What it gave.
        result: Result<ToolResult, ToolError>,
        /// How long it ran.
        duration_ms: u64,
    },
    /// A sub-agent is done.
    ChildEnded {
        /// The call that asked for it.
        call: ToolCallId,
        /// What it gave.
        result: Result<ToolResult, ToolError>,
        /// How long it ran.
        duration_ms: u64,
    },
    /// A sub-agent tells what it does.
    ChildIs {
        /// The call that asked for it.
        call: ToolCallId,
        /// What.
        doing: Doing,
    },
    /// A batch is durable.
    Committed {
        /// Which.
        batch: u64,
        /// The number of each entry.
        seqs: Vec<Seq>,
    },
    /// A batch is not durable and will not be.
    CommitFailed {
        /// Which.
        batch: u64,
        /// Why.
        error: String,
        /// Whether it may be in the journal all the same.
        fate: Fate,
    },
    /// The writer died: what is not committed must be sent again.
    WriterLost,
    /// The connection died, and the open call with it.
    ConnectionLost {
        /// How.
        reason: String,
    },
    /// The executor died, and the running tools with it.
    ExecutorLost {
        /// How.
        reason: String,
    },
    /// Time is up.
    Timer {
        /// For what.
        timer: Timer,
    },
}

/// What an agent in a run does, as whoever waits for it should know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// Something goes on.
    #[default]
    AtWork,
    /// Nothing goes on, here or in any of its sub-agents, until a person answers.
    WaitingForAPerson,
}

impl Input {
    /// The sender's id, for an input from outside.
    pub fn id(&self) -> Option<&InputId> {
        match self {
            Self::Prompt { input_id, .. }
            | Self::PromptFor { input_id, .. }
            | Self::Steer { input_id, .. }
            | Self::FollowUp { input_id, .. }
            | Self::Continue { input_id, .. }
            | Self::Abort { input_id }
            | Self::Reset { input_id }
            | Self::Restore { input_id, .. }
            | Self::Configure { input_id, .. }
            | Self::Rotate { input_id, .. }
            | Self::Approved { input_id, .. }
            | Self::Plan { input_id, .. } => Some(input_id),
            Self::Delta { .. }
            | Self::Retrying { .. }
            | Self::Responded { .. }
            | Self::CallFailed { .. }
            | Self::HookDone { .. }
            | Self::ToolUpdated { .. }
            | Self::ToolProgress { .. }
            | Self::ToolFinished { .. }
            | Self::ChildEnded { .. }
            | Self::ChildIs { .. }
            | Self::Committed { .. }
            | Self::CommitFailed { .. }
            | Self::WriterLost
            | Self::ConnectionLost { .. }
            | Self::ExecutorLost { .. }
            | Self::Timer { .. } => None,
        }
    }
}

/// What is decided on planned changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanDecision {
    /// Carry them out, in the plan's order.
    Approve {
        /// Which; all of them for `None`.
        changes: Option<Vec<u32>>,
    },
    /// Drop them, and tell the model.
    Reject {
        /// Which; all of them for `None`.
        changes: Option<Vec<u32>>,
        /// Why.
        reason: String,
    },
}

/// What time can be up for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// A hook.
    Hook(HookId),
    /// An answer to a question.
    Permission(PermissionId),
    /// Tools that were told to stop.
    AbortGrace,
    /// The run.
    Deadline,
}

/// What a tool call is before anything happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vetting {
    /// It can be run, if the policy lets it.
    Ready {
        /// What a crash means.
        effect: EffectClass,
        /// How much harm it can do.
        level: Level,
        /// What the policy says.
        ruling: Ruling,
    },
    /// It cannot.
    Blocked {
        /// The stage that refuses.
        stage: BlockStage,
        /// Why; the model gets this.
        reason: String,
    },
}

/// What an agent may do as far as its journal tells.
#[derive(Clone, Copy, Debug)]
pub struct Authority<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// What happens to calls that no rule speaks of.
    pub mode: PermissionMode,
    /// Rules that someone's yes has added.
    pub grants: &'a [String],
    /// Rules that the session brings with it.
    pub restrictions: &'a Restrictions,
    /// Where relative paths start.
    pub cwd: &'a Path,
}

/// The tools as the machine sees them: pure questions, no running.
pub trait Catalog: Send + Sync {
    /// The tools on offer.
    fn definitions(&self) -> Arc<[ToolDefinition]>;
    /// What a call is.
    fn vet(&self, authority: Authority<'_>, call: &ToolCallId, name: &str, args: &Value) -> Vetting;
    /// What a call touches.
    fn access(&self, name: &str, args: &Value) -> Access;
    /// One line on what a call did, for people.
    fn summary(&self, name: &str, args: &Value, result: &Result<ToolResult, ToolError>) -> String;
}

impl fmt::Debug for dyn Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Catalog")
    }
}

/// Why an input was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A run is under way.
    #[error("a run is under way: wait for it, steer it, or abort it first")]
    Running,
    /// Too much waits for this agent.
    #[error("too many inputs wait for this agent: try again later")]
    Busy,
    /// Nothing was said.
    #[error("there is nothing in this input for a model: give it a user message with text or an image")]
    Empty,
    /// Something other than a user's message was given.
    #[error("only user messages and extensions can be given as input")]
    NotFromUser,
    /// The conversation rests.
    #[error("the conversation ends with the model's message, so there is nothing to continue: send a prompt instead")]
    NothingToContinue,
    /// There is no run to repeat.
    #[error("there is no run to repeat")]
    NothingToRerun,
    /// The entry is not part of the conversation.
    #[error("entry `{0}` is not part of this conversation")]
    UnknownEntry(EntryId),
    /// The question is not open.
    #[error("permission `{0}` is not waiting for an answer")]
    UnknownPermission(PermissionId),
    /// The yes is for longer than was offered.
    #[error("permission `{0}` cannot be given for that long: the question says what is offered; allow it once")]
    NotOffered(PermissionId),
    /// The plan has no such change.
    #[error("the plan has no change {0}: look at the plan for its numbers")]
    UnknownChange(u32),
    /// The plan is empty.
    #[error("nothing is planned: there is nothing to approve or reject")]
    NothingPlanned,
    /// The directory cannot change under a plan.
    #[error("changes are planned for the present working directory: approve or reject them before you move elsewhere")]
    Planned,
    /// The conversation would be refused by providers.
    #[error("this conversation cannot be restored: {0}")]
    InvalidTranscript(#[from] TranscriptError),
    /// The journal could not be written.
    #[error("the journal could not be written, so nothing was accepted: {0}")]
    NotJournaled(String),
    /// The journal may have it, or not.
    #[error(
        "it is not known whether this was accepted ({reason}): send it again under the id `{input_id}`, and it is taken once"
    )]
    OutcomeUnknown {
        /// The id to repeat it under.
        input_id: InputId,
        /// Why.
        reason: String,
    },
    /// Nobody knows of such a run any more.
    #[error(
        "no run of input `{0}` is under way or among the last that ended: the conversation has what came of it, and the journal's events"
    )]
    UnknownRun(InputId),
    /// The conversation goes on elsewhere.
    #[error("this conversation goes on in session `{0}`: use that")]
    Rotated(SessionId),
    /// Someone else owns its session, so the agent has left it.
    #[error("the agent has left its session: {0}")]
    TakenOver(String),
    /// The agent waits to be resumed.
    #[error("the agent is parked: {0}")]
    Parked(String),
}
