//! Why a command is not taken.

use playhouse_protocol::transcript::TranscriptError;
use playhouse_protocol::{Durability, EntryId, InputId, PermissionId, SessionId};

/// Why an input was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A run is under way.
    #[error("a run is under way: wait for it, steer it, or abort it first")]
    Running,
    /// Too much waits for this agent.
    #[error("too many inputs wait for this agent: try again later")]
    Busy,
    /// It has no user message with text or an image.
    #[error("there is nothing in this input for a model: give it a user message with text or an image")]
    Empty,
    /// Something other than a user's message was given.
    #[error("only user messages and extensions can be given as input")]
    NotFromUser,
    /// The last message is the model's, so there is nothing to answer.
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
    /// There is no change to approve or reject.
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
        /// Which failure made it unknown.
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
