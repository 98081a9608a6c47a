//! A run as the journal tells it: where it stands, turn by turn and call by call.

use std::sync::Arc;

use playhouse_protocol::{
    AgentMessage, CallId, ContinuationKind, EffectClass, ExecutionTracker, InputId, LlmMessage, LoopId, Message,
    MessageId, Outcome, PermissionId, ResponseFormat, StopReason, ToolCallId, ToolResult, TurnId, Usage,
};
use serde_json::Value;

/// An accepted prompt or continuation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The input.
    pub input_id: InputId,
    /// What it asks for.
    pub ask: Ask,
    /// The form that the answer must have.
    pub format: Option<Arc<ResponseFormat>>,
    /// Whether it was aborted before it began.
    pub aborting: bool,
}

/// What starts a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// New messages.
    Prompt(Vec<Arc<AgentMessage>>),
    /// The conversation as it stands.
    Continue(ContinuationKind),
}

/// A run that has begun and not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its id.
    pub loop_id: LoopId,
    /// The input that started it.
    pub input_id: InputId,
    /// How it continues; `None` for a prompt.
    pub continuation: Option<ContinuationKind>,
    /// The prompt, until its first turn places it.
    pub prompt: Vec<Arc<AgentMessage>>,
    /// How many messages the conversation had when it began.
    pub start: usize,
    /// How many it had before the first response.
    pub first_response: Option<usize>,
    /// Where it stands.
    pub phase: Phase,
    /// What it used of its limits.
    pub tracker: ExecutionTracker,
    /// What its calls consumed.
    pub usage: Usage,
    /// The form that its answer must have.
    pub format: Option<Arc<ResponseFormat>>,
    /// Whether an abort was accepted.
    pub aborting: bool,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Before its first turn.
    Opening,
    /// In a turn.
    Turn(Box<Turn>),
    /// After a turn.
    Between(Wants),
}

/// What a finished turn asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wants {
    /// Another turn: its tools have answered.
    More,
    /// Nothing: the run stops unless something waits.
    Stop,
    /// The end, whatever waits.
    End(Outcome),
}

/// A turn that has begun and not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// From 0 within the run.
    pub index: u32,
    /// The number of the next attempt.
    pub next_attempt: u32,
    /// The model of the next attempt: 0 is the settings' own, then those it falls back on.
    pub model: u32,
    /// How many answers were empty.
    pub empty: u32,
    /// The latest request.
    pub requested: Option<(CallId, MessageId)>,
    /// The model's message.
    pub response: Option<Arc<AgentMessage>>,
    /// Its calls, in order.
    pub calls: Vec<CallSlot>,
}

/// A tool call of the turn.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSlot {
    /// The call.
    pub id: ToolCallId,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub args: Arc<Value>,
    /// Where it stands.
    pub state: CallState,
}

/// Where a tool call stands.
#[derive(Clone, Debug, PartialEq)]
pub enum CallState {
    /// Nothing happened yet.
    Open,
    /// It waits for a yes.
    Asked {
        /// The question.
        permission_id: PermissionId,
        /// What for.
        reason: String,
    },
    /// It got its yes.
    Granted,
    /// It was refused; the block that tells the model follows.
    Denied {
        /// Why.
        reason: String,
    },
    /// It was started.
    Started {
        /// What a crash means.
        effect: EffectClass,
        /// When, in unix milliseconds.
        at: u64,
    },
    /// It has its result.
    Ended {
        /// The answer to the model.
        message: Arc<AgentMessage>,
        /// Whether observers still wait for `after_tool_execution`.
        hook_due: bool,
    },
}

impl CallSlot {
    /// Whether it has its result and nothing is due.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, CallState::Ended { hook_due: false, .. })
    }

    /// The message that answers it.
    pub fn answer(&self, result: &ToolResult, is_error: bool, at: u64, turn_id: TurnId) -> AgentMessage {
        AgentMessage::Llm(LlmMessage {
            message: Message::ToolResult {
                tool_call_id: self.id.clone(),
                tool_name: self.name.clone(),
                content: result.content.clone(),
                is_error,
                timestamp: at,
            },
            turn_id: Some(turn_id),
        })
    }
}

impl Run {
    /// The open turn.
    pub fn turn(&self) -> Option<&Turn> {
        match &self.phase {
            Phase::Turn(turn) => Some(turn),
            Phase::Opening | Phase::Between(_) => None,
        }
    }

    pub(super) fn turn_mut(&mut self) -> Option<&mut Turn> {
        match &mut self.phase {
            Phase::Turn(turn) => Some(turn),
            Phase::Opening | Phase::Between(_) => None,
        }
    }

    /// The name of a turn of this run.
    pub fn turn_id(&self, turn_index: u32) -> TurnId {
        TurnId { loop_id: self.loop_id.clone(), turn_index }
    }
}

impl Turn {
    /// What it asks for, once it is over.
    pub(super) fn wants(&self) -> Wants {
        match self.response.as_ref().and_then(|message| message.llm()) {
            Some(Message::Assistant { stop_reason, error_message, .. }) => match stop_reason {
                StopReason::Error => {
                    let message = error_message.clone().unwrap_or_default();
                    Wants::End(Outcome::Error { message })
                }
                StopReason::Aborted => Wants::End(Outcome::Aborted),
                StopReason::Stop | StopReason::Length | StopReason::ToolUse if !self.calls.is_empty() => Wants::More,
                StopReason::Length => Wants::End(Outcome::Length),
                StopReason::Stop | StopReason::ToolUse => Wants::Stop,
            },
            Some(Message::User { .. } | Message::ToolResult { .. }) | None => Wants::Stop,
        }
    }

    /// The answers so far, in call order.
    pub fn answers(&self) -> impl Iterator<Item = &Arc<AgentMessage>> {
        self.calls.iter().filter_map(|slot| match &slot.state {
            CallState::Ended { message, .. } => Some(message),
            CallState::Open
            | CallState::Asked { .. }
            | CallState::Granted
            | CallState::Denied { .. }
            | CallState::Started { .. } => None,
        })
    }

    /// The call with this id.
    pub fn slot(&self, id: &ToolCallId) -> Option<&CallSlot> {
        self.calls.iter().find(|slot| slot.id == *id)
    }
}
