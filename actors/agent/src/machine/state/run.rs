//! A run as the journal tells it: where it stands, turn by turn and call by call, and what it amounts to when it is over.

use std::sync::Arc;

use playhouse_protocol::entry::{Placed, PlannedChange};
use playhouse_protocol::{
    AgentMessage, Content, ContinuationKind, EffectClass, ExecutionTracker, FailureKind, InputId, LimitHit, LlmMessage,
    LoopId, Message, Outcome, PermissionId, Point, Question, ResponseFormat, SessionId, StopReason, ToolCallId,
    ToolResult, TurnId, Usage,
};
use serde_json::Value;

/// An accepted prompt or continuation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The command that asks for it.
    pub input_id: InputId,
    /// What the run begins with.
    pub request: RunRequest,
    /// The form that the answer must have.
    pub(in crate::machine) format: Option<Arc<ResponseFormat>>,
    /// Whether it was aborted before it began.
    pub aborting: bool,
}

/// What a run begins with.
#[derive(Clone, Debug, PartialEq)]
pub enum RunRequest {
    /// These messages, placed by its first turn.
    Prompt(Vec<Arc<AgentMessage>>),
    /// The conversation as it stands.
    Continue(ContinuationKind),
    /// Changes that were planned and approved.
    Plan(Vec<PlannedChange>),
}

/// A run that has begun and not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// `{session}.{config}.{n}`, given when it began.
    pub loop_id: LoopId,
    /// The input that started it.
    pub input_id: InputId,
    /// How it continues; `None` for a prompt.
    pub(in crate::machine) continuation: Option<ContinuationKind>,
    /// The prompt, until its first turn places it.
    pub prompt: Vec<Arc<AgentMessage>>,
    /// Where the conversation stood when it began.
    pub(in crate::machine) start: Point,
    /// Where it stood before the first response.
    pub(in crate::machine) first_response: Option<Point>,
    /// Which part of the run the next step is about.
    pub phase: RunPhase,
    /// What it used of its limits.
    pub tracker: ExecutionTracker,
    /// What all of its calls consumed together, empty answers included.
    pub usage: Usage,
    /// What the call of its last turn consumed.
    pub(in crate::machine) turn_usage: Usage,
    /// What kind of failure its last response was, if it was one.
    pub(in crate::machine) failure: Option<FailureKind>,
    /// The form that its answer must have.
    pub(in crate::machine) format: Option<Arc<ResponseFormat>>,
    /// The planned changes that its first turn carries out.
    pub(in crate::machine) plan: Vec<PlannedChange>,
    /// Whether an abort was accepted.
    pub aborting: bool,
    /// The limit that ends what is under way.
    pub limit: Option<LimitHit>,
    /// Why a hook ends it.
    pub halt: Option<String>,
    /// What it goes on with because a hook did not let it stop, until its next turn places it.
    pub(in crate::machine) go_on_with: Option<Placed>,
    /// How often in a row a hook did not let it stop, nobody else having said anything.
    pub refusals: u32,
}

/// Which part of a run the next step is about.
#[derive(Clone, Debug, PartialEq)]
pub enum RunPhase {
    /// It has begun, and no turn has.
    Opening,
    /// A turn is under way.
    Turn(Box<Turn>),
    /// A turn is over; what comes next depends on what it asks for.
    Between(Wants),
}

/// What a finished turn asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wants {
    /// Another turn: its tools have answered.
    More,
    /// Nothing: the run stops unless something waits.
    Stop,
    /// The run is over, whatever waits in the queues.
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
    pub(in crate::machine) empty: u32,
    /// The model's message; `None` until it is complete.
    pub(in crate::machine) response: Option<Arc<AgentMessage>>,
    /// The calls in the response, in its order.
    pub calls: Vec<CallSlot>,
}

/// A tool call of the turn.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSlot {
    /// The model's id for it, or ours if that was missing or taken.
    pub id: ToolCallId,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The model's, or what a hook put in their place.
    pub args: Arc<Value>,
    /// Who asks for it: the calls of a plan were approved with it.
    pub(in crate::machine) origin: CallOrigin,
    /// What `before_tool_execution` said of it.
    pub(in crate::machine) hook: ToolHookState,
    /// How far it has come, as the journal tells.
    pub state: CallState,
    /// Rules that its answer made to last.
    pub(in crate::machine) lasting_rules: Vec<String>,
}

/// Who asks for a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrigin {
    /// The model, in its response.
    Model,
    /// A plan that was approved.
    Plan,
}

/// What `before_tool_execution` said of a call that has not started.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolHookState {
    /// It was not asked yet, or there is none.
    Due,
    /// It may run; it is not asked again.
    Passed,
    /// It may run after a yes to this.
    Asks(Box<str>),
}

/// Where a tool call stands.
#[derive(Clone, Debug, PartialEq)]
pub enum CallState {
    /// The journal has nothing of it but the response.
    Open,
    /// It waits for a yes.
    Asked {
        /// An answer must name this.
        permission_id: PermissionId,
        /// Kept to be put again after a restart.
        question: Box<Question>,
    },
    /// Someone said yes, and it has not started.
    Granted {
        /// The answer to this question.
        permission_id: PermissionId,
    },
    /// It was refused; the block that tells the model follows.
    Denied {
        /// Why, for the model.
        reason: String,
    },
    /// Its intent to start is in the journal: it may have had its effect.
    Started {
        /// What it means if its end is not in the journal after a crash.
        effect: EffectClass,
        /// When it was started, in unix milliseconds.
        at: u64,
    },
    /// It has its result, or was refused or skipped.
    Ended {
        /// The answer to the model.
        message: Arc<AgentMessage>,
        /// Whether observers still wait for `after_tool_execution`.
        hook_due: bool,
    },
}

impl CallSlot {
    /// Whether it ended and failed.
    pub(in crate::machine) fn has_failed(&self) -> bool {
        match &self.state {
            CallState::Ended { message, .. } => {
                matches!(message.llm(), Some(Message::ToolResult { is_error: true, .. }))
            }
            CallState::Open
            | CallState::Asked { .. }
            | CallState::Granted { .. }
            | CallState::Denied { .. }
            | CallState::Started { .. } => false,
        }
    }

    /// Whether it has its result and nothing is due.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, CallState::Ended { hook_due: false, .. })
    }

    /// The id of the next question about it. The arguments, and so the question, may be others once a hook has spoken.
    pub(in crate::machine) fn question(&self) -> PermissionId {
        match self.hook {
            ToolHookState::Due => format!("{}/ask", self.id).into(),
            ToolHookState::Passed | ToolHookState::Asks(_) => format!("{}/ask/hooked", self.id).into(),
        }
    }

    /// A hook changed it, or wants a yes for it. With other arguments it is looked over again: a yes was to the old.
    pub(super) fn hooked(&mut self, args: Option<&Arc<Value>>, ask: Option<&str>) {
        self.hook = ask.map_or(ToolHookState::Passed, |reason| ToolHookState::Asks(reason.into()));
        if let Some(args) = args
            && !matches!(self.state, CallState::Ended { .. })
        {
            self.args = args.clone();
            self.state = CallState::Open;
        }
    }

    /// Whoever answers after a hook has spoken answers to what the hook made of the call.
    pub(super) fn hook_answered(&mut self) {
        if matches!(self.hook, ToolHookState::Asks(_)) {
            self.hook = ToolHookState::Passed;
        }
    }

    /// `after_tool_execution` is done, and adds this to the result.
    pub(super) fn answered(&mut self, note: Option<&str>) {
        if let CallState::Ended { message, hook_due } = &mut self.state
            && std::mem::replace(hook_due, false)
        {
            *message = noted(message, note);
        }
    }

    /// The message that answers it.
    pub(in crate::machine) fn answer(
        &self,
        result: &ToolResult,
        is_error: bool,
        at: u64,
        turn_id: TurnId,
    ) -> AgentMessage {
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
    /// The turn under way; `None` between turns.
    pub fn turn(&self) -> Option<&Turn> {
        match &self.phase {
            RunPhase::Turn(turn) => Some(turn),
            RunPhase::Opening | RunPhase::Between(_) => None,
        }
    }

    /// Whether what is under way is being ended: by an abort, or by a limit.
    pub(in crate::machine) fn is_stopping(&self) -> bool {
        self.aborting || self.limit.is_some()
    }

    pub(super) fn turn_mut(&mut self) -> Option<&mut Turn> {
        match &mut self.phase {
            RunPhase::Turn(turn) => Some(turn),
            RunPhase::Opening | RunPhase::Between(_) => None,
        }
    }

    /// A hook did not let it stop: the reason is what it goes on with.
    pub(super) fn go_on(&mut self, reason: &str, at: u64) {
        let input_id = format!("{}/stop/{}", self.loop_id, self.tracker.turns).into();
        self.go_on_with = Some(Placed { input_id, messages: vec![Arc::new(AgentMessage::user(reason, at))] });
        self.refusals = self.refusals.saturating_add(1);
    }

    /// A turn begins with these. When somebody else says something, the hook's refusals are no longer in a row.
    pub(super) fn take_go_on_with(&mut self, placed: &[Placed]) {
        let own = self.go_on_with.take();
        if placed.iter().any(|input| own.as_ref().is_none_or(|own| own.input_id != input.input_id)) {
            self.refusals = 0;
        }
    }

    /// The name of a turn of this run.
    pub(in crate::machine) fn turn_id(&self, turn_index: u32) -> TurnId {
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
                StopReason::Stop | StopReason::Length | StopReason::Refusal | StopReason::ToolUse
                    if !self.calls.is_empty() =>
                {
                    Wants::More
                }
                StopReason::Length => Wants::End(Outcome::Length),
                StopReason::Stop | StopReason::Refusal | StopReason::ToolUse => Wants::Stop,
            },
            Some(Message::User { .. } | Message::ToolResult { .. }) | None => Wants::Stop,
        }
    }

    /// The answers so far, in call order.
    pub(in crate::machine) fn answers(&self) -> impl Iterator<Item = &Arc<AgentMessage>> {
        self.calls.iter().filter_map(|slot| match &slot.state {
            CallState::Ended { message, .. } => Some(message),
            CallState::Open
            | CallState::Asked { .. }
            | CallState::Granted { .. }
            | CallState::Denied { .. }
            | CallState::Started { .. } => None,
        })
    }

    /// The call with this id.
    pub(in crate::machine) fn slot(&self, id: &ToolCallId) -> Option<&CallSlot> {
        self.calls.iter().find(|slot| slot.id == *id)
    }
}

/// A run that ended, for whoever waits for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// The session that it ran in.
    pub session_id: SessionId,
    /// The run's id, `{session}.{config}.{n}`.
    pub loop_id: LoopId,
    /// The input that started it.
    pub input_id: InputId,
    /// Whether there is an answer, or why there is none.
    pub outcome: Outcome,
    /// Of a run that ended with an error, what kind of failure the model's was, where that makes a difference.
    pub failure: Option<FailureKind>,
    /// What it added to the conversation.
    pub messages: Vec<Arc<AgentMessage>>,
    /// What all of its calls consumed together.
    pub usage: Usage,
}

impl RunReport {
    /// The last text of the model that is not empty: a run that was stopped may end with nothing.
    pub(crate) fn last_words(&self) -> Option<String> {
        let messages = self.messages.iter().rev().filter_map(|message| message.llm());
        let said = messages.filter(|message| matches!(message, Message::Assistant { .. })).map(Message::text);
        said.into_iter().find(|text| !text.trim().is_empty())
    }

    /// What the model said in its last message, empty when there is none.
    pub fn text(&self) -> String {
        self.last_message().map(Message::words).unwrap_or_default()
    }

    /// The same as it stands in the conversation, where something stands in for a refusal without words.
    pub(crate) fn shown(&self) -> String {
        self.last_message().map(Message::text).unwrap_or_default()
    }

    fn last_message(&self) -> Option<&Message> {
        let mut messages = self.messages.iter().rev().filter_map(|message| message.llm());
        messages.find(|message| matches!(message, Message::Assistant { .. }))
    }
}

/// A call's answer with what a hook adds to it.
pub(super) fn noted(message: &Arc<AgentMessage>, note: Option<&str>) -> Arc<AgentMessage> {
    let Some(note) = note else { return message.clone() };
    let AgentMessage::Llm(LlmMessage {
        message: Message::ToolResult { tool_call_id, tool_name, content, is_error, timestamp },
        turn_id,
    }) = message.as_ref()
    else {
        return message.clone();
    };
    let mut content = content.clone();
    content.push(Content::text(note));
    let message = Message::ToolResult {
        tool_call_id: tool_call_id.clone(),
        tool_name: tool_name.clone(),
        content,
        is_error: *is_error,
        timestamp: *timestamp,
    };
    Arc::new(AgentMessage::Llm(LlmMessage { message, turn_id: turn_id.clone() }))
}
