//! What the actors around an agent report to its machine: the connection, the executor, the writer, hooks, sub-agents
//! and timers.

use playhouse_protocol::{CallId, Fate, Message, ProviderError, Seq, StreamDelta, ToolCallId, ToolError, ToolResult};

use crate::machine::{HookId, Timer, Verdict};

/// What happened, as an actor tells it. A report is believed: a forged one could release effects before they are
/// durable. So the type has no name outside of this crate.
#[derive(Clone, Debug)]
pub enum Report {
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
