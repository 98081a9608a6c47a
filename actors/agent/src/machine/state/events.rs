//! The events that an entry stands for. Derived from the state before the entry and the entry alone, so that they
//! come out the same whenever they are derived again.

use std::sync::Arc;

use jiff::Timestamp;
use playhouse_protocol::chain::chain;
use playhouse_protocol::entry::Placed;
use playhouse_protocol::{
    AgentEvent, AgentMessage, Content, EffectClass, Entry, EntryBody, Event, EventId, LoopId, Message, MessageId, Mode,
    Outcome, Passage, PermissionId, ProviderError, Question, Seq, StopReason, ToolResult, Usage,
};

use super::rare::queued_as;
use super::run::{CallSlot, CallState, Run, Turn, noted};
use crate::machine::{Durable, FoldError};

/// The events of a journal that come after `after`, as they were told when it was written, but for those that no entry
/// holds. `after` may be one of those.
pub fn replay<'a>(
    entries: impl IntoIterator<Item = (Seq, &'a Entry)>,
    after: Option<EventId>,
) -> Result<Vec<Event>, FoldError> {
    let entries: Vec<_> = entries.into_iter().collect();
    let mut replay = Replay::new(after);
    for (seq, entry) in chain(&entries, None).copied() {
        replay.take(seq, entry)?;
    }
    replay.end()
}

/// As [`replay`], entry by entry along the chain.
#[derive(Debug)]
pub struct Replay {
    after: Option<EventId>,
    /// After the entries so far; `None` before the first.
    state: Option<Durable>,
    told: Vec<Event>,
}

impl Replay {
    /// Of a journal from its first entry on.
    pub fn new(after: Option<EventId>) -> Self {
        Self { after, state: None, told: Vec::new() }
    }

    /// Takes the next entry in.
    pub fn take(&mut self, seq: Seq, entry: &Entry) -> Result<(), FoldError> {
        let state = match (&mut self.state, &entry.body) {
            (Some(state), _) => state,
            (none, EntryBody::Opened(opened)) => none.insert(Durable::new(opened)),
            (None, _) => return Err(FoldError::NotOpened),
        };
        if self.after.is_none_or(|after| seq >= after.seq) {
            for (k, event) in (0..).zip(derive(state, entry)) {
                let id = EventId { seq, k };
                if self.after.is_none_or(|after| id > after) {
                    self.told.push(stamped(state, id, entry.loop_id.clone(), entry.at, event));
                }
            }
        }
        state.apply(entry);
        Ok(())
    }

    /// The events of the entries since it was last asked, in their order.
    pub fn told(&mut self) -> impl Iterator<Item = Event> {
        self.told.drain(..)
    }

    /// The events that nobody asked for; an error if there was no entry.
    pub fn end(self) -> Result<Vec<Event>, FoldError> {
        self.state.map(|_| self.told).ok_or(FoldError::Empty)
    }
}

/// An event with its address.
pub(in crate::machine) fn stamped(
    state: &Durable,
    id: EventId,
    loop_id: Option<LoopId>,
    at: u64,
    event: AgentEvent,
) -> Event {
    let millis = i64::try_from(at).unwrap_or(i64::MAX);
    Event {
        id,
        agent_id: state.agent_id.clone(),
        session_id: state.session_id.clone(),
        loop_id,
        timestamp: Timestamp::from_millisecond(millis).unwrap_or_default(),
        event,
    }
}

/// The events of `entry`, given the state before it.
pub fn derive(before: &Durable, entry: &Entry) -> Vec<AgentEvent> {
    let mut out = Vec::new();
    match &entry.body {
        EntryBody::LoopStarted { parent_loop_id, continuation, input_id: _, config, metadata } => {
            out.push(AgentEvent::AgentStart {
                parent_loop_id: parent_loop_id.clone(),
                continuation_kind: continuation.as_deref().cloned(),
                config: config.clone(),
                metadata: metadata.clone(),
            });
        }
        EntryBody::InputRejected { input_id, reason } => {
            out.push(AgentEvent::InputRejected { input_id: input_id.clone(), reason: reason.clone() });
        }
        EntryBody::TurnStarted { turn_index, triggered_by, placed } => {
            out.push(AgentEvent::TurnStart { turn_index: *turn_index, triggered_by: *triggered_by });
            show_placed(placed, &mut out);
        }
        EntryBody::Requested { message_id, attempt, .. } => out.push(AgentEvent::ModelRequestStart {
            message_id: message_id.clone(),
            model: before.model().id.clone(),
            attempt: *attempt,
        }),
        EntryBody::AttemptFailed { message_id, attempt, error, delay_ms, model, .. } => {
            let message = Arc::new(failed_response(before, error, entry.at).into());
            out.push(AgentEvent::MessageEnd { message_id: message_id.clone(), message });
            out.push(AgentEvent::ProviderRetry {
                attempt: *attempt,
                error: error.as_ref().clone(),
                delay_ms: *delay_ms,
                falls_back_on: fallen_back(before, *model),
            });
        }
        EntryBody::Responded { message_id, message, .. } => {
            out.push(AgentEvent::MessageEnd { message_id: message_id.clone(), message: message.clone() });
        }
        EntryBody::PermissionAsked { permission_id, tool_call_id, question } => {
            if let Some((_, _, slot)) = find(before, tool_call_id) {
                out.push(required(slot, permission_id, question));
            }
        }
        EntryBody::PermissionResolved { permission_id, tool_call_id, answer } => {
            out.push(AgentEvent::PermissionResolved {
                permission_id: permission_id.clone(),
                tool_call_id: tool_call_id.clone(),
                decision: answer.decision.clone(),
            });
        }
        EntryBody::ToolQueued { tool_call_id, change } => {
            if let Some((run, turn, slot)) = find(before, tool_call_id) {
                out.push(AgentEvent::PlanChangeQueued {
                    tool_call_id: slot.id.clone(),
                    tool_name: slot.name.clone(),
                    args: slot.args.as_ref().clone(),
                    change: *change,
                });
                show_answer(run, turn, slot, &queued_as(*change), false, entry.at, &mut out);
            }
        }
        EntryBody::PlanApproved { changes, .. } => {
            out.push(AgentEvent::PlanResolved { approved: changes.clone(), rejected: Vec::new() });
        }
        EntryBody::PlanRejected { changes, message, .. } => {
            out.push(AgentEvent::PlanResolved { approved: Vec::new(), rejected: changes.clone() });
            show(format!("{}/plan", entry.id).as_str().into(), message, &mut out);
        }
        EntryBody::ToolStarted { tool_call_id, effect, passage } => {
            if let Some((_, _, slot)) = find(before, tool_call_id) {
                if let EffectClass::Child { session } = effect {
                    out.push(AgentEvent::SubAgentStart {
                        tool_call_id: slot.id.clone(),
                        tool_name: slot.name.clone(),
                        child_session_id: session.clone(),
                    });
                }
                out.push(started(slot, passage.as_deref()));
            }
        }
        EntryBody::ToolEnded { tool_call_id, result, is_error, duration_ms, summary, hook_follows } => {
            if let Some((run, turn, slot)) = find(before, tool_call_id) {
                if let CallState::Started { effect: EffectClass::Child { session }, .. } = &slot.state {
                    out.push(AgentEvent::SubAgentEnd {
                        tool_call_id: slot.id.clone(),
                        child_session_id: session.clone(),
                        is_error: *is_error,
                    });
                }
                out.push(ended(slot, result, *is_error, *duration_ms, summary));
                if !hook_follows {
                    show_answer(run, turn, slot, result, *is_error, entry.at, &mut out);
                }
            }
        }
        EntryBody::ToolAnswered { tool_call_id, note } => {
            if let Some((_, _, slot)) = find(before, tool_call_id)
                && let CallState::Ended { message, .. } = &slot.state
            {
                show(result_id(slot), &noted(message, note.as_deref()), &mut out);
            }
        }
        EntryBody::ToolBlocked { tool_call_id, stage, reason } => {
            if let Some((run, turn, slot)) = find(before, tool_call_id) {
                out.push(AgentEvent::ToolBlocked {
                    tool_call_id: slot.id.clone(),
                    tool_name: slot.name.clone(),
                    stage: *stage,
                    reason: reason.clone(),
                });
                show_answer(run, turn, slot, &ToolResult::text(reason), true, entry.at, &mut out);
            }
        }
        EntryBody::ToolSkipped { tool_call_id, reason } => {
            if let Some((run, turn, slot)) = find(before, tool_call_id) {
                let result = Arc::new(ToolResult::text(reason));
                out.push(started(slot, None));
                out.push(ended(slot, &result, true, 0, reason));
                show_answer(run, turn, slot, &result, true, entry.at, &mut out);
            }
        }
        EntryBody::TurnEnded { turn_index, usage, .. } => {
            if let Some(turn) = before.turn()
                && let Some(message) = &turn.response
            {
                out.push(AgentEvent::TurnEnd {
                    turn_index: *turn_index,
                    message: message.clone(),
                    usage: **usage,
                    tool_results: turn.answers().cloned().collect(),
                });
            }
        }
        EntryBody::LoopEnded { outcome, placed, note, .. } => {
            show_placed(placed, &mut out);
            if let Some(note) = note {
                show(format!("{}/note", entry.id).as_str().into(), note, &mut out);
            }
            end(before, outcome, placed, note.as_ref(), &mut out);
        }
        EntryBody::Recovered { reason, .. } => {
            out.push(AgentEvent::AgentRestarted { reason: reason.clone() });
            ask_again(before, &mut out);
        }
        EntryBody::Parked { reason } => out.push(AgentEvent::Error { message: reason.clone() }),
        EntryBody::Opened(opened) => {
            // A conversation that moved here goes on as it was.
            if opened.settings.mode == Mode::Plan && opened.continues.is_none() {
                out.push(AgentEvent::ModeChanged { mode: Mode::Plan });
            }
        }
        EntryBody::Configured { settings, .. } => {
            if settings.mode != before.settings.mode {
                out.push(AgentEvent::ModeChanged { mode: settings.mode });
            }
        }
        EntryBody::Input(_)
        | EntryBody::ContinueAsked { .. }
        | EntryBody::Head { .. }
        | EntryBody::AbortAsked { .. }
        | EntryBody::ToolHooked { .. }
        | EntryBody::HaltAsked { .. }
        | EntryBody::LimitReached { .. }
        | EntryBody::StopRefused { .. }
        | EntryBody::LoopClosed
        | EntryBody::Reset { .. }
        | EntryBody::Restored { .. }
        | EntryBody::RotatedTo { .. } => {}
    }
    out
}

/// The model that is asked next, if it is another.
fn fallen_back(before: &Durable, model: u32) -> Option<Arc<str>> {
    let asked = before.fallen_back();
    let next = before.settings.fallbacks.get(usize::try_from(model).ok()?.checked_sub(1)?)?;
    (model != asked).then(|| format!("{}/{}", next.provider, next.id).into())
}

/// The model's message of an attempt that failed.
pub(in crate::machine) fn failed_response(before: &Durable, error: &ProviderError, at: u64) -> Message {
    let mut message = response(before, Vec::new(), StopReason::Error, at);
    if let Message::Assistant { error_message, .. } = &mut message {
        *error_message = Some(error.to_string());
    }
    message
}

/// A message of the model that answers now, but for what it consumed.
pub(in crate::machine) fn response(
    before: &Durable,
    content: Vec<Content>,
    stop_reason: StopReason,
    at: u64,
) -> Message {
    let model = before.model();
    Message::Assistant {
        content,
        stop_reason,
        model: model.id.clone(),
        provider: model.provider.clone(),
        usage: Usage::default(),
        timestamp: at,
        error_message: None,
    }
}

fn find<'a>(before: &'a Durable, id: &playhouse_protocol::ToolCallId) -> Option<(&'a Run, &'a Turn, &'a CallSlot)> {
    let (run, turn) = before.run_and_turn()?;
    Some((run, turn, turn.slot(id)?))
}

fn required(slot: &CallSlot, permission_id: &PermissionId, question: &Question) -> AgentEvent {
    AgentEvent::PermissionRequired {
        permission_id: permission_id.clone(),
        tool_call_id: slot.id.clone(),
        tool_name: slot.name.clone(),
        args: slot.args.as_ref().clone(),
        question: question.clone(),
    }
}

fn started(slot: &CallSlot, passage: Option<&Passage>) -> AgentEvent {
    AgentEvent::ToolExecutionStart {
        tool_call_id: slot.id.clone(),
        tool_name: slot.name.clone(),
        args: slot.args.as_ref().clone(),
        passage: passage.cloned(),
    }
}

fn ended(slot: &CallSlot, result: &Arc<ToolResult>, is_error: bool, duration_ms: u64, summary: &str) -> AgentEvent {
    AgentEvent::ToolExecutionEnd {
        tool_call_id: slot.id.clone(),
        tool_name: slot.name.clone(),
        result: result.clone(),
        is_error,
        child_loop_id: result.child_loop_id.clone(),
        duration_ms,
        summary: summary.to_owned(),
    }
}

fn result_id(slot: &CallSlot) -> MessageId {
    format!("{}/result", slot.id).as_str().into()
}

fn show_answer(
    run: &Run,
    turn: &Turn,
    slot: &CallSlot,
    result: &ToolResult,
    is_error: bool,
    at: u64,
    out: &mut Vec<AgentEvent>,
) {
    let message = Arc::new(slot.answer(result, is_error, at, run.turn_id(turn.index)));
    show(result_id(slot), &message, out);
}

fn show_placed(placed: &[Placed], out: &mut Vec<AgentEvent>) {
    for input in placed {
        for (n, message) in input.messages.iter().enumerate() {
            show(format!("{}/{n}", input.input_id).as_str().into(), message, out);
        }
    }
}

fn show(message_id: MessageId, message: &Arc<AgentMessage>, out: &mut Vec<AgentEvent>) {
    out.push(AgentEvent::MessageStart { message_id: message_id.clone(), message: message.clone() });
    out.push(AgentEvent::MessageEnd { message_id, message: message.clone() });
}

fn end(
    before: &Durable,
    outcome: &Outcome,
    placed: &[Placed],
    note: Option<&Arc<AgentMessage>>,
    out: &mut Vec<AgentEvent>,
) {
    let rejection = match outcome {
        Outcome::Rejected { reason } => Some(reason.clone()),
        Outcome::Stop
        | Outcome::Length
        | Outcome::Error { .. }
        | Outcome::Aborted
        | Outcome::Limit { .. }
        | Outcome::Halted { .. } => None,
    };
    let input_id = before.run.as_ref().map(|run| &run.input_id);
    if let (Some(reason), Some(input_id)) = (&rejection, input_id) {
        out.push(AgentEvent::InputRejected { input_id: input_id.clone(), reason: reason.clone() });
    }
    let mut messages = Vec::new();
    let mut usage = Usage::default();
    if let Some(run) = &before.run {
        messages.extend_from_slice(before.record.since(&run.start));
        if let Some(turn) = run.turn() {
            messages.extend(turn.answers().cloned());
        }
        usage = run.usage;
    }
    messages.extend(placed.iter().flat_map(|input| input.messages.iter().cloned()));
    messages.extend(note.cloned());
    out.push(AgentEvent::AgentEnd { messages, usage, outcome: outcome.clone(), rejection });
}

/// Open questions are shown again under the same id.
fn ask_again(before: &Durable, out: &mut Vec<AgentEvent>) {
    let Some(turn) = before.turn() else { return };
    for slot in &turn.calls {
        if let CallState::Asked { permission_id, question } = &slot.state {
            out.push(required(slot, permission_id, question));
        }
    }
}
