//! What the machine is told with, asks of tools, and answers to commands that it does not take. All of it is plain data.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::entry::BlockStage;
use playhouse_protocol::transcript::TranscriptError;
use playhouse_protocol::{
    Access, Durability, EffectClass, EntryId, InputId, Level, LoopId, PermissionId, PermissionMode, Restrictions,
    Ruling, SessionId, ToolCallId, ToolDefinition, ToolError, ToolResult,
};
use serde_json::Value;

pub use super::hook::{HookCall, HookId, HookPoint, HookSet, SessionSource, SlowHooks};
pub use super::verdict::{AfterTool, BeforeTool, FilterVerdict, Filtered, MayStop, Opening, Permit, Verdict};

/// The time, passed in: the machine has no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix milliseconds, for people.
    pub wall: u64,
    /// A clock that never goes back, for deadlines.
    pub mono: Duration,
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
    /// The run that makes the call.
    pub run: &'a LoopId,
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
    /// The journal is kept where it cannot be that safe.
    #[error(
        "durability `{asked}` was asked for, and the store keeps `{strongest}` at most for this session: ask for that, or begin a session of that durability in a house with a data directory"
    )]
    Durability {
        /// How safe the session is to be.
        asked: Durability,
        /// The most that is kept where its journal is.
        strongest: Durability,
    },
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
