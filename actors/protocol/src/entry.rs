//! What the journal holds. The fold of its entries is an agent's durable state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::ResponseFormat;
use crate::config::LimitHit;
use crate::ids::{CallId, EntryId, InputId, LoopId, MessageId, PermissionId, SessionId, ToolCallId};
use crate::message::AgentMessage;
pub use crate::opened::{Continues, Opened, PlannedChange, Settings, SpawnRef};
use crate::permission::{Passage, PermissionAnswer, Question};
use crate::provider_error::{FailureKind, ProviderError};
use crate::run::{ContinuationKind, LoopConfigSnapshot, Outcome, TurnTrigger};
use crate::tool::{EffectClass, ToolResult};
use crate::usage::Usage;

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The version of the journal's format that this build writes.
pub const FORMAT_VERSION: u32 = 2;

/// How safe an entry must be before what depends on it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Handed to the kernel: survives the end of the process.
    P,
    /// Flushed to disk: survives the end of the machine.
    D,
}

/// What a session's [`Class::D`] costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// [`Class::D`] is `fdatasync`: survives a power cut.
    #[default]
    Flush,
    /// D is `write`: survives `kill -9`, not a power cut.
    Os,
    /// Memory only: not listed, not resumable.
    None,
}

impl fmt::Display for Durability {
    /// As it is written in settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flush => "flush",
            Self::Os => "os",
            Self::None => "none",
        })
    }
}

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Derived by the machine: loop or session, and a counter.
    pub id: EntryId,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_id: Option<LoopId>,
    /// The entry before it, on its branch: [`chain`](crate::chain::chain) follows these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<EntryId>,
    /// When it was made, in unix milliseconds.
    pub at: u64,
    /// What happened, with all that the fold needs to know of it.
    pub body: EntryBody,
}

/// What an input is for, and so when it enters the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// It starts a run, and enters with the first turn.
    Prompt,
    /// Injected between tools or turns.
    Steer,
    /// Taken when the run would stop.
    FollowUp,
}

/// An acknowledged input that waits for its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuedInput {
    /// The sender's id for it.
    pub input_id: InputId,
    /// Which queue it waits in.
    pub kind: InputKind,
    /// As the sender gave them, before any filter.
    pub messages: Vec<Arc<AgentMessage>>,
    /// The form that the answer to a prompt must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Arc<ResponseFormat>>,
}

/// An input's message as it entered the conversation, after the filters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// The input it came from.
    pub input_id: InputId,
    /// With what filters and hooks have appended.
    pub messages: Vec<Arc<AgentMessage>>,
}

/// What happened. What is large or rare is boxed: a journal in memory is made of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EntryBody {
    /// The session began: the first entry of every journal.
    Opened(Arc<Opened>),
    /// The session's settings changed, from the next run on.
    Configured {
        /// The sender's id for it; journals of older builds have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_id: Option<InputId>,
        /// All of them, not only what is new.
        settings: Arc<Settings>,
    },
    /// A prompt, steer or follow-up was accepted.
    Input(QueuedInput),
    /// A continuation was accepted.
    ContinueAsked {
        /// The sender's id for it.
        input_id: InputId,
        /// How the run relates to those before it.
        kind: Box<ContinuationKind>,
    },
    /// The conversation goes on from an earlier point.
    Head {
        /// The last entry that still counts; `None` is the beginning.
        to: Option<EntryId>,
        /// How many of the messages that it brought count, where not all of them do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first: Option<u32>,
        /// How many messages of the conversation count: only in journals of format 1, and then only this says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        messages: Option<usize>,
    },
    /// A run began; every entry until its end carries its id.
    LoopStarted {
        /// The run before it, for a continuation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_loop_id: Option<LoopId>,
        /// How it continues; `None` for a prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continuation: Option<Box<ContinuationKind>>,
        /// The input that started it.
        input_id: InputId,
        /// The model and its settings, for people who read the journal.
        config: Box<LoopConfigSnapshot>,
        /// The program's own words about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Arc<Value>>,
    },
    /// A filter rejected a queued steer or follow-up.
    InputRejected {
        /// The input that will not enter the conversation.
        input_id: InputId,
        /// The filter's words.
        reason: String,
    },
    /// A turn began: its inputs are in the conversation now.
    TurnStarted {
        /// From 0 within the run.
        turn_index: u32,
        /// What the turn answers to.
        triggered_by: TurnTrigger,
        /// The inputs that entered the conversation with it, the prompt first.
        placed: Box<[Placed]>,
    },
    /// A model request is about to be sent.
    Requested {
        /// The loop, the turn and the attempt it starts from.
        call_id: CallId,
        /// The message that will stream.
        message_id: MessageId,
        /// The attempt it starts with.
        attempt: u32,
        /// A digest of the conversation it sends.
        request_hash: String,
    },
    /// An attempt failed, and another will be made.
    AttemptFailed {
        /// As in the request.
        call_id: CallId,
        /// The message that will not be finished.
        message_id: MessageId,
        /// The number of the attempt that failed, from 0 within the turn.
        attempt: u32,
        /// Why; that of an empty answer has what it consumed.
        error: Box<ProviderError>,
        /// The pause before the next.
        delay_ms: u64,
        /// The model of the next: 0 is the settings' own, then those it falls back on.
        #[serde(default, skip_serializing_if = "is_zero")]
        model: u32,
    },
    /// The model answered, or failed for good, or was aborted.
    Responded {
        /// As in the request.
        call_id: CallId,
        /// The message's id in events.
        message_id: MessageId,
        /// An assistant message; of a failed or aborted call, what is known of it.
        message: Arc<AgentMessage>,
        /// For a failure, its kind where that matters later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<FailureKind>,
    },
    /// A tool call needs a yes.
    PermissionAsked {
        /// The question's id, made from the call and its arguments.
        permission_id: PermissionId,
        /// The call that waits for the answer.
        tool_call_id: ToolCallId,
        /// What the call wants, how much harm it can do, and how long a yes may hold.
        #[serde(flatten)]
        question: Box<Question>,
    },
    /// The question was answered, by someone or because its time was up.
    PermissionResolved {
        /// The question that was open.
        permission_id: PermissionId,
        /// The call that waited for the answer.
        tool_call_id: ToolCallId,
        /// The decision, and the rules that follow from it.
        #[serde(flatten)]
        answer: Box<PermissionAnswer>,
    },
    /// A tool is about to start.
    ToolStarted {
        /// The call in the response that asks for it.
        tool_call_id: ToolCallId,
        /// What a crash from here on means.
        effect: EffectClass,
        /// How it came to be allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passage: Option<Box<Passage>>,
    },
    /// A call was put into the plan instead of being run.
    ToolQueued {
        /// The call in the response that asked for it; it is answered with the change's number.
        tool_call_id: ToolCallId,
        /// The change's number in the session's plan, from 1.
        change: u32,
    },
    /// Planned changes were approved; a run carries them out.
    PlanApproved {
        /// The sender's id for it.
        input_id: InputId,
        /// Their numbers in the plan.
        changes: Vec<u32>,
    },
    /// Planned changes were rejected: they leave the plan, and nothing runs.
    PlanRejected {
        /// The sender's id for it.
        input_id: InputId,
        /// Their numbers in the plan.
        changes: Vec<u32>,
        /// What the model is told of it.
        message: Arc<AgentMessage>,
    },
    /// A tool gave its result.
    ToolEnded {
        /// The call that was started.
        tool_call_id: ToolCallId,
        /// Its content answers the call; the rest is for programs.
        result: Arc<ToolResult>,
        /// Whether the result is an error's text.
        is_error: bool,
        /// How long the tool ran, in milliseconds.
        duration_ms: u64,
        /// One line for people on what the call did.
        summary: String,
        /// Whether `after_tool_execution` comes between this and [`EntryBody::ToolAnswered`].
        #[serde(default)]
        hook_follows: bool,
    },
    /// `after_tool_execution` is done: the result is part of the conversation for observers.
    ToolAnswered {
        /// The call, which has its result.
        tool_call_id: ToolCallId,
        /// What a hook adds to the result for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Box<str>>,
    },
    /// `before_tool_execution` has spoken, and the call is not started yet: it changed the arguments, or wants a yes.
    ToolHooked {
        /// The call, which has not started.
        tool_call_id: ToolCallId,
        /// The arguments from here on. The call is looked over again with them, from the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Arc<Value>>,
        /// What to ask before it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<Box<str>>,
    },
    /// A hook ends the run: no further tool starts, and no further turn.
    HaltAsked {
        /// The hook's words; the run's outcome has them.
        reason: String,
    },
    /// A hook did not let the run stop: it goes on with the reason as a user's message.
    StopRefused {
        /// What the model is told.
        reason: String,
    },
    /// A call was refused before it ran.
    ToolBlocked {
        /// The call, which is answered with the reason.
        tool_call_id: ToolCallId,
        /// The stage of the pipeline that refused it.
        stage: BlockStage,
        /// Why; the model gets this.
        reason: String,
    },
    /// A call was answered without running: steering came first, or an abort.
    ToolSkipped {
        /// The call, which is answered with the reason.
        tool_call_id: ToolCallId,
        /// The text of the answer that the model gets.
        reason: String,
    },
    /// The turn is over: its results are in the conversation now.
    TurnEnded {
        /// As in the entry that began it.
        turn_index: u32,
        /// What its model call consumed.
        usage: Box<Usage>,
        /// The run's running time so far.
        elapsed: Duration,
    },
    /// An abort was accepted.
    AbortAsked {
        /// The sender's id for it.
        input_id: InputId,
    },
    /// The run's time is up: what is under way is ended as by an abort.
    LimitReached {
        /// The limit that was reached.
        limit: LimitHit,
    },
    /// The run is over, whatever was under way.
    LoopEnded {
        /// Whether there is an answer, or why there is none.
        outcome: Outcome,
        /// Inputs that were taken but found no turn; they enter the conversation here.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        placed: Box<[Placed]>,
        /// The note that a limit leaves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Arc<AgentMessage>>,
        /// Whether `after_loop` comes between this and [`EntryBody::LoopClosed`].
        #[serde(default)]
        hook_follows: bool,
    },
    /// `after_loop` is done: nothing of the run is due any more.
    LoopClosed,
    /// An agent was folded from the journal and goes on.
    Recovered {
        /// What ended the agent before, for people.
        reason: String,
        /// Whether someone asked for it.
        #[serde(default, skip_serializing_if = "Wake::is_restarted")]
        wake: Wake,
    },
    /// The agent cannot go on, or its restarts are spent; it waits to be resumed.
    Parked {
        /// What is wrong and what to do about it, for people.
        reason: String,
    },
    /// The conversation and its queues were cleared.
    Reset {
        /// The sender's id for it; journals of older builds have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_id: Option<InputId>,
    },
    /// The conversation was replaced by another.
    Restored {
        /// The sender's id for it; journals of older builds have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_id: Option<InputId>,
        /// All of the new conversation.
        messages: Vec<Arc<AgentMessage>>,
    },
    /// The conversation goes on in another session.
    RotatedTo {
        /// Its journal is open by now, and has the conversation.
        session: SessionId,
    },
}

/// Why an agent is folded from its journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wake {
    /// It ended in the middle, or its process did.
    #[default]
    Restarted,
    /// It was parked, and someone wants it to go on: its restarts count from zero again.
    Asked,
}

impl Wake {
    fn is_restarted(&self) -> bool {
        *self == Self::Restarted
    }
}

/// The stage of the pipeline that refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockStage {
    /// There is no such tool.
    Lookup,
    /// Its arguments did not parse or don't fit the schema.
    Schema,
    /// The response had too many calls, or too many before it failed.
    Limit,
    /// It changes something, and this agent only plans.
    Plan,
    /// The policy forbids it, whoever says yes.
    Policy,
    /// It would fail at once, so nobody was asked about it.
    Check,
    /// It is too dangerous to run at all.
    Safety,
    /// Nobody could be asked, nobody answered in time, or the answer was no.
    Approval,
    /// A hook blocked it, or is ending the run.
    Hook,
}

impl EntryBody {
    /// The command that it takes, by its sender's id; `None` if it takes none.
    pub fn takes(&self) -> Option<&InputId> {
        match self {
            Self::Input(input) => Some(&input.input_id),
            Self::ContinueAsked { input_id, .. }
            | Self::PlanApproved { input_id, .. }
            | Self::PlanRejected { input_id, .. }
            | Self::AbortAsked { input_id } => Some(input_id),
            Self::Configured { input_id, .. } | Self::Reset { input_id } | Self::Restored { input_id, .. } => {
                input_id.as_ref()
            }
            Self::PermissionResolved { answer, .. } => answer.input_id.as_ref(),
            Self::Opened(_)
            | Self::Head { .. }
            | Self::LoopStarted { .. }
            | Self::InputRejected { .. }
            | Self::TurnStarted { .. }
            | Self::Requested { .. }
            | Self::AttemptFailed { .. }
            | Self::Responded { .. }
            | Self::PermissionAsked { .. }
            | Self::ToolStarted { .. }
            | Self::ToolQueued { .. }
            | Self::ToolEnded { .. }
            | Self::ToolAnswered { .. }
            | Self::ToolHooked { .. }
            | Self::HaltAsked { .. }
            | Self::StopRefused { .. }
            | Self::ToolBlocked { .. }
            | Self::ToolSkipped { .. }
            | Self::TurnEnded { .. }
            | Self::LimitReached { .. }
            | Self::LoopEnded { .. }
            | Self::LoopClosed
            | Self::Recovered { .. }
            | Self::Parked { .. }
            | Self::RotatedTo { .. } => None,
        }
    }

    /// How safe it must be before what depends on it happens.
    pub fn class(&self) -> Class {
        match self {
            Self::LoopStarted { .. }
            | Self::InputRejected { .. }
            | Self::TurnStarted { .. }
            | Self::Requested { .. }
            | Self::AttemptFailed { .. }
            | Self::PermissionAsked { .. }
            | Self::ToolAnswered { note: None, .. }
            | Self::StopRefused { .. }
            | Self::LoopClosed
            | Self::Recovered { .. }
            | Self::ToolStarted { effect: EffectClass::Read, .. } => Class::P,
            Self::Opened(_)
            | Self::Configured { .. }
            | Self::Input(_)
            | Self::ContinueAsked { .. }
            | Self::Head { .. }
            | Self::Responded { .. }
            | Self::PermissionResolved { .. }
            | Self::ToolStarted { .. }
            | Self::ToolEnded { .. }
            | Self::ToolAnswered { note: Some(_), .. }
            | Self::ToolHooked { .. }
            | Self::HaltAsked { .. }
            | Self::ToolBlocked { .. }
            | Self::ToolSkipped { .. }
            | Self::ToolQueued { .. }
            | Self::PlanApproved { .. }
            | Self::PlanRejected { .. }
            | Self::TurnEnded { .. }
            | Self::AbortAsked { .. }
            | Self::LimitReached { .. }
            | Self::LoopEnded { .. }
            | Self::Parked { .. }
            | Self::Reset { .. }
            | Self::Restored { .. }
            | Self::RotatedTo { .. } => Class::D,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_without_the_id_of_what_asked_for_them_are_read() {
        let body: EntryBody = serde_json::from_str(r#"{"type":"reset"}"#).unwrap();
        assert_eq!(body, EntryBody::Reset { input_id: None });
        assert_eq!(serde_json::to_string(&body).unwrap(), r#"{"type":"reset"}"#);
        let body: EntryBody = serde_json::from_str(r#"{"type":"restored","messages":[]}"#).unwrap();
        assert_eq!(body, EntryBody::Restored { input_id: None, messages: Vec::new() });
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<EntryBody>() <= 64, "{}", size_of::<EntryBody>());
        assert!(size_of::<Entry>() <= 136, "{}", size_of::<Entry>());
    }
}
