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
    /// Write these entries, in order after all others of this session, and report `Committed` or `CommitFailed`.
    Append {
        /// The journal's session: another than the agent's own while it changes session.
        session: SessionId,
        /// Numbered, so that the report says which it is about.
        batch: Batch,
    },
    /// Send a request to the model. `Delta`, `Retrying`, `Responded` or `CallFailed` follow.
    Call {
        /// Reports on it name this.
        call: CallId,
        /// The whole request, with the key of the model that answers.
        config: Box<StreamConfig>,
    },
    /// The attempt that failed is in the journal: make the next.
    GoOn {
        /// The one that `Retrying` was reported of.
        call: CallId,
        /// Its number, from 0 within the turn.
        attempt: u32,
    },
    /// Run a tool. `ToolUpdated` and `ToolProgress` may follow, then `ToolFinished`.
    RunTool {
        /// Reports on it name this.
        call: ToolCallId,
        /// As the model wrote it; there is such a tool, since the call was vetted.
        name: String,
        /// Checked against the tool's schema.
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
        /// The tool that stands for the sub-agent.
        name: String,
        /// What the sub-agent is to do.
        args: Arc<Value>,
        /// The child's own journal; if it is there already, the child goes on from it.
        session: SessionId,
    },
    /// Run a hook. `HookDone` follows; a timer is armed beside it.
    Hook {
        /// The report on it names this.
        hook: HookId,
        /// Which, and what it is told.
        call: HookCall,
    },
    /// Put a question to whoever answers.
    Ask {
        /// An answer names this.
        permission_id: PermissionId,
        /// The call that waits for the answer.
        tool_call_id: ToolCallId,
        /// The tool that it wants to run.
        tool_name: String,
        /// What it would run with.
        args: Arc<Value>,
        /// What the call wants, how much harm it can do, and how long a yes may hold.
        question: Box<Question>,
    },
    /// Keep rules for good, for every agent.
    Remember {
        /// In the form of the permission rules of the user's configuration, which keeps them.
        rules: Vec<String>,
    },
    /// Stop something that is under way. It may still report: the machine knows what that is worth.
    Cancel(CancelTarget),
    /// Tell observers. Events come in the order of their ids.
    Emit(Event),
    /// An input is in the journal.
    Ack {
        /// The command, by its sender's id.
        input_id: InputId,
    },
    /// An input was not taken.
    Refuse {
        /// The command, by its sender's id.
        input_id: InputId,
        /// Its text says what the sender can do.
        error: InputError,
    },
    /// Report `Timer` after this time, unless it is disarmed; arming a timer again starts it anew.
    Arm {
        /// What the report will name.
        timer: Timer,
        /// Counted from now.
        after: Duration,
    },
    /// Forget a timer, if it is armed. With that of a question, the question is taken back.
    Disarm(Timer),
    /// A run is over: whoever waits for it gets this.
    Finish(Arc<RunReport>),
    /// The agent goes on in another session.
    Rotated {
        /// Its journal is open, and the old one has ended.
        to: SessionId,
    },
    /// The journal cannot be written: drop everything and wait.
    Park {
        /// For people, and for the senders of commands that come meanwhile.
        reason: String,
    },
}

/// What a tool should know of an earlier start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStart {
    /// It was not started before.
    First,
    /// It was started before and its outcome is not known; its class allows another start.
    Again,
}

/// What [`Effect::Cancel`] stops.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CancelTarget {
    /// The open model call.
    Call(CallId),
    /// A running tool, with its processes.
    Tool(ToolCallId),
    /// The sub-agent that this call started.
    Child(ToolCallId),
    /// A hook; nobody waits for its answer any more.
    Hook(HookId),
}

/// What time can be up for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// A hook has had its time, and counts as failed.
    Hook(HookId),
    /// An answer to a question.
    Permission(PermissionId),
    /// Tools that were told to stop.
    AbortGrace,
    /// The run has used up the time that its limits give it.
    Deadline,
}
