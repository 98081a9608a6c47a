//! What the machine asks of hooks. All of it is plain data; what they say is in `verdict`.

use std::sync::Arc;

use playhouse_protocol::{AgentMessage, History, Level, Ruling, ToolCallId, Usage};
use serde_json::Value;

use crate::machine::RunReport;

/// A hook that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HookId(pub u64);

/// A hook's point, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// Before a run begins: it can be refused.
    BeforeLoop,
    /// After a run has ended and was reported.
    AfterLoop,
    /// Before a turn begins: the run can be ended.
    BeforeTurn,
    /// After a turn has ended.
    AfterTurn,
    /// Before a tool starts: the call can be blocked, changed or asked about.
    BeforeTool,
    /// After a tool has its result: something can be added to it.
    AfterTool,
    /// Before a partial result is shown.
    BeforeUpdate,
    /// After a partial result was shown.
    AfterUpdate,
    /// When a call failed for good: the run ends with the failure.
    OnError,
    /// Before an input enters the conversation: it can be rejected or get a warning.
    Filter,
    /// When a run would stop.
    Stop,
    /// Before the first prompt of a session in this incarnation.
    SessionStart,
    /// When a call is judged.
    Policy,
    /// Before a person is asked about a call: its tool says whether it would fail at once. Set where there are tools.
    Check,
}

/// How a session came to its first prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSource {
    /// It was opened by this agent.
    Startup,
    /// It was folded from its journal.
    Resume,
}

impl SessionSource {
    /// Its name in a hook's JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
        }
    }
}

/// The hooks an agent has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookSet(u16);

impl HookSet {
    /// The same hooks and this one.
    pub fn with(self, point: HookPoint) -> Self {
        Self(self.0 | 1 << point as u16)
    }

    /// Whether there is a hook at this point.
    pub fn has(self, point: HookPoint) -> bool {
        self.0 & (1 << point as u16) != 0
    }
}

/// The hooks that may take longer than others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowHooks {
    /// The points whose hooks may take longer.
    pub points: HookSet,
    /// How many seconds more each of them may take.
    pub seconds: u16,
}

/// A hook with its arguments.
#[derive(Clone, Debug)]
pub enum HookCall {
    /// The conversation and how many runs came before.
    BeforeLoop {
        /// With the prompt that starts the run.
        history: History,
        /// How many runs the session had before.
        loop_index: u32,
    },
    /// What the run amounts to.
    AfterLoop {
        /// What the run added, consumed and ended with.
        report: Arc<RunReport>,
    },
    /// The conversation and the turn's number.
    BeforeTurn {
        /// Up to the turn, without the inputs that enter with it.
        history: History,
        /// The turn's number, from 0 within the run.
        turn_index: u32,
    },
    /// The conversation and what the turn consumed.
    AfterTurn {
        /// With the turn's message and results.
        history: History,
        /// What the turn's call consumed.
        usage: Usage,
    },
    /// A call that may run, unless the hook objects.
    BeforeTool {
        /// The tool's name.
        name: String,
        /// The model's id for the call.
        call: ToolCallId,
        /// What it would run with.
        args: Arc<Value>,
    },
    /// The call and how it went.
    AfterTool {
        /// The tool's name.
        name: String,
        /// The model's id for the call.
        call: ToolCallId,
        /// The arguments it ran with.
        args: Arc<Value>,
        /// Its result, as the model gets it.
        result: Arc<AgentMessage>,
        /// Whether the result is an error: the tool failed, or was stopped.
        is_error: bool,
    },
    /// The call and the text so far.
    BeforeUpdate {
        /// The tool's name.
        name: String,
        /// The model's id for the call.
        call: ToolCallId,
        /// The text blocks of the partial result, joined.
        text: String,
    },
    /// The call and the text that was shown.
    AfterUpdate {
        /// The tool's name.
        name: String,
        /// The model's id for the call.
        call: ToolCallId,
        /// The text blocks of the partial result, joined.
        text: String,
    },
    /// A model call that failed for good.
    OnError {
        /// The error's text, as the run's outcome will have it.
        message: String,
    },
    /// Inputs to look at, each with its messages.
    Filter {
        /// Each input with its messages, in order; the verdicts must be as many.
        inputs: Vec<Vec<Arc<AgentMessage>>>,
    },
    /// The conversation, and how often in a row the run was not let stop.
    Stop {
        /// With the model's last message.
        history: History,
        /// Counted from 0, and anew when somebody else says something.
        refusals: u32,
    },
    /// How the session came here.
    SessionStart {
        /// New, or from its journal.
        source: SessionSource,
    },
    /// A call that the house's rules would let run or ask about.
    Policy {
        /// The tool's name.
        name: String,
        /// The model's id for the call.
        call: ToolCallId,
        /// What it would run with.
        args: Arc<Value>,
        /// How much harm it can do.
        level: Level,
        /// What the house's own rules say.
        ours: Ruling,
    },
    /// A call that a person is to be asked about.
    Check {
        /// The tool's name.
        name: String,
        /// The model's id for the call.
        call: ToolCallId,
        /// What it would run with.
        args: Arc<Value>,
    },
}

impl HookCall {
    /// The point that it belongs to.
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
            Self::Stop { .. } => HookPoint::Stop,
            Self::SessionStart { .. } => HookPoint::SessionStart,
            Self::Policy { .. } => HookPoint::Policy,
            Self::Check { .. } => HookPoint::Check,
        }
    }
}
