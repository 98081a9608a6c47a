//! What the machine asks for: plain data, carried out by the actor around it.

use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::{
    Batch, CallId, EffectClass, Event, InputId, PermissionId, Question, SessionId, StreamConfig, ToolCallId,
};
use serde_json::Value;

use crate::machine::{HookCall, HookId, InputError, RunReport};

/// What the machine asks for. An effect is only handed out when it may happen.
#[derive(Debug)]
pub enum Effect {
    /// Make these entries durable.
    Append {
        /// In which journal.
        session: SessionId,
        /// The entries.
        batch: Batch,
    },
    /// Ask the model.
    Call {
        /// The call.
        call: CallId,
        /// What to send.
        config: Box<StreamConfig>,
    },
    /// The attempt that failed is in the journal: make the next.
    GoOn {
        /// The call.
        call: CallId,
        /// The next attempt.
        attempt: u32,
    },
    /// Run a tool.
    RunTool {
        /// The call.
        call: ToolCallId,
        /// The tool.
        name: String,
        /// Its arguments.
        args: Arc<Value>,
        /// The class it was started under.
        effect: EffectClass,
        /// What it should know of an earlier start.
        start: ToolStart,
    },
    /// Start a sub-agent, or go on with one.
    Spawn {
        /// The call that asks for it.
        call: ToolCallId,
        /// The tool in it.
        name: String,
        /// Its arguments.
        args: Arc<Value>,
        /// The child's session.
        session: SessionId,
    },
    /// Run a hook.
    Hook {
        /// Its id.
        hook: HookId,
        /// Which, and what it is told.
        call: HookCall,
    },
    /// Put a question to whoever answers.
    Ask {
        /// The question.
        permission_id: PermissionId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        args: Arc<Value>,
        /// What is asked.
        question: Box<Question>,
    },
    /// Keep rules for good, for every agent.
    Remember {
        /// The rules.
        rules: Vec<String>,
    },
    /// Stop something.
    Cancel(CancelTarget),
    /// Tell observers.
    Emit(Event),
    /// An input is in the journal.
    Ack {
        /// Which.
        input_id: InputId,
    },
    /// An input was not taken.
    Refuse {
        /// Which.
        input_id: InputId,
        /// Why.
        error: InputError,
    },
    /// Wake the machine later.
    Arm {
        /// For what.
        timer: Timer,
        /// How much later.
        after: Duration,
    },
    /// Forget a timer.
    Disarm(Timer),
    /// A run is over.
    Finish(Arc<RunReport>),
    /// The agent goes on in another session.
    Rotated {
        /// Which.
        to: SessionId,
    },
    /// The journal cannot be written: drop everything and wait.
    Park {
        /// Why.
        reason: String,
    },
}

/// What a tool should know of an earlier start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStart {
    /// There was none.
    First,
    /// It was started before and its outcome is not known; its class allows another start.
    Again,
}

/// What can be stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CancelTarget {
    /// A model call.
    Call(CallId),
    /// A tool.
    Tool(ToolCallId),
    /// A sub-agent.
    Child(ToolCallId),
    /// A hook.
    Hook(HookId),
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
