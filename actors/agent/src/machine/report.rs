//! What the actors around an agent report to its machine: the connection, the executor, the writer, hooks, sub-agents
//! and timers.

use playhouse_protocol::{CallId, Fate, Message, ProviderError, Seq, StreamDelta, ToolCallId, ToolError, ToolResult};

use crate::machine::{HookId, Timer, Verdict};

/// What happened, as an actor tells it. A report is believed: a forged one could release effects before they are
/// durable. So the type has no name outside of this crate.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "beside what is said, the names and types of its fields say it")]
pub enum Report {
    /// Pieces of the response that streams.
    Delta { call: CallId, attempt: u32, deltas: Vec<StreamDelta> },
    /// An attempt failed and will be repeated.
    Retrying {
        call: CallId,
        /// The attempt that failed, from 0 within the turn.
        attempt: u32,
        error: ProviderError,
        /// The pause before the next.
        delay_ms: u64,
    },
    /// The response is complete.
    Responded {
        call: CallId,
        attempt: u32,
        /// An assistant message; any other counts as a failed call.
        message: Message,
    },
    /// The call failed and is not repeated.
    CallFailed {
        call: CallId,
        /// The last one that was made.
        attempt: u32,
        error: ProviderError,
    },
    /// A hook answered, or failed: then the verdict says what that means at its point.
    HookDone { hook: HookId, verdict: Verdict },
    /// A tool shows a partial result.
    ToolUpdated {
        call: ToolCallId,
        /// All of the result so far, not only what is new.
        partial: ToolResult,
    },
    /// A tool has a line on its progress for people.
    ToolProgress { call: ToolCallId, text: String },
    /// A tool is done and nothing of it runs any more.
    ToolFinished { call: ToolCallId, result: Result<ToolResult, ToolError>, duration_ms: u64 },
    /// A sub-agent is done, and what it gave answers the call that asked for it.
    ChildEnded {
        /// The call that asked for it.
        call: ToolCallId,
        result: Result<ToolResult, ToolError>,
        duration_ms: u64,
    },
    /// A sub-agent tells what it does.
    ChildIs {
        /// The call that asked for it.
        call: ToolCallId,
        doing: Doing,
    },
    /// A batch is as durable as its class asks.
    Committed {
        batch: u64,
        /// The number of each entry.
        seqs: Vec<Seq>,
    },
    /// A batch is not durable and will not be.
    CommitFailed {
        batch: u64,
        error: String,
        /// Whether it may be in the journal all the same.
        fate: Fate,
    },
    /// The writer died: what is not committed must be sent again.
    WriterLost,
    /// The connection died, and the open call with it.
    ConnectionLost {
        /// For the attempt that is journaled as failed.
        reason: String,
    },
    /// The executor died, and the running tools with it.
    ExecutorLost,
    /// A timer that was armed has run out.
    Timer { timer: Timer },
}

/// What an agent in a run does, as whoever waits for it should know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// A model, a tool or a hook is at work, or is about to be.
    #[default]
    AtWork,
    /// Nothing goes on, here or in any of its sub-agents, until a person answers.
    WaitingForAPerson,
}
