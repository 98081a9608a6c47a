//! What the machine is told, and what it asks of hooks and tools. All of it is plain data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::entry::{BlockStage, Settings};
use playhouse_protocol::transcript::TranscriptError;
use playhouse_protocol::{
    AgentMessage, CallId, ContinuationKind, EffectClass, EntryId, History, InputId, Message, PermissionDecision,
    PermissionId, ProviderError, ResponseFormat, Seq, SessionId, StreamDelta, ToolCallId, ToolDefinition, ToolError,
    ToolResult, Usage,
};
use serde_json::Value;

use super::report::RunReport;

/// The time, passed in: the machine has no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix milliseconds, for people.
    pub wall: u64,
    /// A clock that never goes back, for deadlines.
    pub mono: Duration,
}

/// A hook that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HookId(pub u64);

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
            | Self::Approved { input_id, .. } => Some(input_id),
            Self::Delta { .. }
            | Self::Retrying { .. }
            | Self::Responded { .. }
            | Self::CallFailed { .. }
            | Self::HookDone { .. }
            | Self::ToolUpdated { .. }
            | Self::ToolProgress { .. }
            | Self::ToolFinished { .. }
            | Self::ChildEnded { .. }
            | Self::Committed { .. }
            | Self::CommitFailed { .. }
            | Self::WriterLost
            | Self::ConnectionLost { .. }
            | Self::ExecutorLost { .. }
            | Self::Timer { .. } => None,
        }
    }
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
}

/// A hook's point, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// Before a run.
    BeforeLoop,
    /// After a run.
    AfterLoop,
    /// Before a turn.
    BeforeTurn,
    /// After a turn.
    AfterTurn,
    /// Before a tool.
    BeforeTool,
    /// After a tool.
    AfterTool,
    /// Before a partial result is shown.
    BeforeUpdate,
    /// After a partial result was shown.
    AfterUpdate,
    /// When the provider failed.
    OnError,
    /// When input is taken.
    Filter,
}

/// The hooks an agent has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookSet(u16);

impl HookSet {
    /// With one more.
    pub fn with(self, point: HookPoint) -> Self {
        Self(self.0 | 1 << point as u16)
    }

    /// Whether it is there.
    pub fn has(self, point: HookPoint) -> bool {
        self.0 & (1 << point as u16) != 0
    }
}

/// A hook with its arguments.
#[derive(Clone, Debug)]
pub enum HookCall {
    /// The conversation and how many runs came before.
    BeforeLoop {
        /// The conversation.
        history: History,
        /// From 0.
        loop_index: u32,
    },
    /// What the run amounts to.
    AfterLoop {
        /// The run.
        report: Arc<RunReport>,
    },
    /// The conversation and the turn's number.
    BeforeTurn {
        /// The conversation.
        history: History,
        /// From 0.
        turn_index: u32,
    },
    /// The conversation and what the turn consumed.
    AfterTurn {
        /// The conversation.
        history: History,
        /// The run's usage so far.
        usage: Usage,
    },
    /// The call.
    BeforeTool {
        /// The tool.
        name: String,
        /// The call.
        call: ToolCallId,
        /// Its arguments.
        args: Arc<Value>,
    },
    /// The call and how it went.
    AfterTool {
        /// The tool.
        name: String,
        /// The call.
        call: ToolCallId,
        /// Whether it failed.
        is_error: bool,
    },
    /// The call and the text so far.
    BeforeUpdate {
        /// The tool.
        name: String,
        /// The call.
        call: ToolCallId,
        /// The text.
        text: String,
    },
    /// The call and the text that was shown.
    AfterUpdate {
        /// The tool.
        name: String,
        /// The call.
        call: ToolCallId,
        /// The text.
        text: String,
    },
    /// What failed.
    OnError {
        /// The provider's reason.
        message: String,
    },
    /// Inputs to look at, each with its messages.
    Filter {
        /// One per input.
        inputs: Vec<Vec<Arc<AgentMessage>>>,
    },
}

impl HookCall {
    /// Its point.
    pub fn point(&self) -> HookPoint {
        match self {
            Self::BeforeLoop { .. } => HookPoint::BeforeLoop,
            Self::AfterLoop { .. } => HookPoint::AfterLoop,
            Self::BeforeTurn { .. } => HookPoint::BeforeTurn,
            Self::AfterTurn { .. } => HookPoint::AfterTurn,
            Self::BeforeTool { .. } => HookPoint::BeforeTool,
            Self::AfterTool { .. } => HookPoint::AfterTool,
            Self::BeforeUpdate { .. } => HookPoint::BeforeUpdate,
            Self::AfterUpdate { .. } => HookPoint::AfterUpdate,
            Self::OnError { .. } => HookPoint::OnError,
            Self::Filter { .. } => HookPoint::Filter,
        }
    }
}

/// What a hook said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Go,
    /// Don't.
    Stop {
        /// Why.
        reason: String,
    },
    /// What the filters said of each input.
    Filtered(Vec<FilterVerdict>),
}

/// What an input filter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterVerdict {
    /// Take it as it is.
    Pass,
    /// Take it, with this appended to its last user message.
    Warn(String),
    /// Don't take it.
    Reject(String),
}

/// What a tool call is before anything happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vetting {
    /// It can be run.
    Ready {
        /// What a crash means.
        effect: EffectClass,
        /// What to ask for in `PermissionMode::Ask`; `None` needs no yes.
        ask: Option<String>,
    },
    /// It cannot.
    Blocked {
        /// The stage that refuses.
        stage: BlockStage,
        /// Why; the model gets this.
        reason: String,
    },
}

/// The tools as the machine sees them: pure questions, no running.
pub trait Catalog: Send + Sync {
    /// The tools on offer.
    fn definitions(&self) -> Arc<[ToolDefinition]>;
    /// What a call is.
    fn vet(&self, session: &SessionId, call: &ToolCallId, name: &str, args: &Value) -> Vetting;
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
    /// The conversation would be refused by providers.
    #[error("this conversation cannot be restored: {0}")]
    InvalidTranscript(#[from] TranscriptError),
    /// The journal could not be written.
    #[error("the journal could not be written, so nothing was accepted: {0}")]
    NotJournaled(String),
    /// The conversation goes on elsewhere.
    #[error("this conversation goes on in session `{0}`: use that")]
    Rotated(SessionId),
    /// The agent waits to be resumed.
    #[error("the agent is parked: {0}")]
    Parked(String),
}
