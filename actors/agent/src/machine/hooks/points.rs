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
    /// When a run would stop.
    Stop,
    /// Before the first prompt of a session in this incarnation.
    SessionStart,
    /// When a call is judged.
    Policy,
}

/// How a session came to its first prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSource {
    /// It is new.
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
    /// With one more.
    pub fn with(self, point: HookPoint) -> Self {
        Self(self.0 | 1 << point as u16)
    }

    /// Whether it is there.
    pub fn has(self, point: HookPoint) -> bool {
        self.0 & (1 << point as u16) != 0
    }
}

/// The hooks that may take longer than others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowHooks {
    /// Which.
    pub points: HookSet,
    /// How much longer.
    pub seconds: u16,
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
        /// What the turn's call consumed.
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
        /// The arguments it ran with.
        args: Arc<Value>,
        /// Its result, as the model gets it.
        result: Arc<AgentMessage>,
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
    /// The conversation, and how often in a row the run was not let stop.
    Stop {
        /// The conversation.
        history: History,
        /// From 0.
        refusals: u32,
    },
    /// How the session came here.
    SessionStart {
        /// New, or from its journal.
        source: SessionSource,
    },
    /// A call to judge.
    Policy {
        /// The tool.
        name: String,
        /// The call.
        call: ToolCallId,
        /// Its arguments.
        args: Arc<Value>,
        /// How much harm it can do.
        level: Level,
        /// What the house's own rules say.
        ours: Ruling,
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
            Self::Stop { .. } => HookPoint::Stop,
            Self::SessionStart { .. } => HookPoint::SessionStart,
            Self::Policy { .. } => HookPoint::Policy,
        }
    }
}
