//! Commands: each is refused with a reason, or journaled and then acknowledged.

use std::sync::Arc;

use playhouse_protocol::entry::{InputKind, QueuedInput};
use playhouse_protocol::transcript::{self, TranscriptEnd};
use playhouse_protocol::{
    AgentMessage, Command, ContinuationKind, EntryBody, GrantScope, History, InputId, Message, Op, PermissionAnswer,
    PermissionDecision, PermissionId, Point, Question,
};

use crate::machine::state::run::{CallSlot, CallState};
use crate::machine::{Durable, Effect, InputError, Machine, Timer, overdue};

/// How many steers and follow-ups may wait for their turn.
const MAX_QUEUED: usize = 1_024;

impl Machine {
    pub(in crate::machine) fn accept(&mut self, Command { id: input_id, op }: Command) {
        if let Some(reason) = &self.flight.parked {
            let error = InputError::Parked(reason.clone());
            self.act(Effect::Refuse { input_id, error });
            return;
        }
        if self.durable.seen.contains(&input_id) {
            let ack = Effect::Ack { input_id: input_id.clone() };
            // What the journal has is not refused because of what comes after it.
            if self.is_on_its_way(&input_id) {
                self.act(ack)
            } else {
                self.out.push(ack)
            }
            return;
        }
        if let Some(error) = self.closed() {
            self.act(Effect::Refuse { input_id, error });
            return;
        }
        match self.take(&input_id, op) {
            Ok(Acknowledged::WhenDurable) => self.act(Effect::Ack { input_id }),
            Ok(Acknowledged::Later) => {}
            Err(error) => self.act(Effect::Refuse { input_id, error }),
        }
    }

    /// Why nothing new is taken at all.
    fn closed(&self) -> Option<InputError> {
        if self.flight.rotation.is_some() {
            return Some(InputError::Busy);
        }
        self.durable.rotated_to.clone().map(InputError::Rotated)
    }

    fn take(&mut self, input_id: &InputId, op: Op) -> Result<Acknowledged, InputError> {
        let input_id = input_id.clone();
        match op {
            Op::Prompt { messages, format } => {
                self.must_be_idle()?;
                self.queue(QueuedInput { input_id, kind: InputKind::Prompt, messages, format })
            }
            Op::Steer { message } => {
                self.queue(QueuedInput { input_id, kind: InputKind::Steer, messages: vec![message], format: None })
            }
            Op::FollowUp { message } => {
                self.queue(QueuedInput { input_id, kind: InputKind::FollowUp, messages: vec![message], format: None })
            }
            Op::Continue { kind } => {
                self.must_be_idle()?;
                let point = continues_at(&self.durable, &kind)?;
                must_be_open(self.durable.record.up_to(&point))?;
                self.push(EntryBody::ContinueAsked { input_id, kind: Box::new(kind) });
                Ok(Acknowledged::WhenDurable)
            }
            Op::Abort => {
                self.abort(input_id);
                Ok(Acknowledged::WhenDurable)
            }
            Op::Reset => {
                self.must_be_idle()?;
                self.push(EntryBody::Reset { input_id: Some(input_id) });
                Ok(Acknowledged::WhenDurable)
            }
            Op::Restore { messages } => {
                self.must_be_idle()?;
                if !messages.is_empty() {
                    let history = History::from(messages.clone());
                    transcript::validate(history.as_slice().iter().filter_map(|m| m.llm()), TranscriptEnd::Any)?;
                }
                self.push(EntryBody::Restored { input_id: Some(input_id), messages });
                Ok(Acknowledged::WhenDurable)
            }
            Op::Configure { settings } => {
                self.must_be_idle()?;
                // Elsewhere, the paths of what is planned would mean other files.
                if settings.cwd != self.durable.settings.cwd && !self.durable.plan().is_empty() {
                    return Err(InputError::Planned);
                }
                if *self.durable.settings != *settings {
                    self.push(EntryBody::Configured { input_id: Some(input_id), settings: Arc::from(settings) });
                }
                Ok(Acknowledged::WhenDurable)
            }
            Op::Rotate { to } => {
                self.must_be_idle()?;
                self.rotate(input_id, to);
                Ok(Acknowledged::Later)
            }
            Op::Answer { permission_id, decision } => {
                self.resolve(&permission_id, decision, Some(input_id))?;
                Ok(Acknowledged::WhenDurable)
            }
            Op::Plan { decision } => {
                self.must_be_idle()?;
                self.decide_plan(input_id, decision)?;
                Ok(Acknowledged::WhenDurable)
            }
        }
    }

    fn must_be_idle(&self) -> Result<(), InputError> {
        if self.is_running() { Err(InputError::Running) } else { Ok(()) }
    }

    fn queue(&mut self, input: QueuedInput) -> Result<Acknowledged, InputError> {
        must_be_from_user(&input.messages)?;
        if self.durable.steering.len() + self.durable.follow_ups.len() >= MAX_QUEUED && input.kind != InputKind::Prompt
        {
            return Err(InputError::Busy);
        }
        self.push(EntryBody::Input(input));
        Ok(Acknowledged::WhenDurable)
    }

    fn abort(&mut self, input_id: InputId) {
        let aborting = match (&self.durable.run, &self.durable.pending) {
            (Some(run), _) => run.aborting,
            (None, Some(pending)) => pending.aborting,
            (None, None) => true,
        };
        if aborting {
            return;
        }
        self.push(EntryBody::AbortAsked { input_id });
        self.cancel_hooks();
    }

    /// The call that waits for an answer to this question.
    pub(super) fn asked(&self, permission_id: &PermissionId) -> Option<(&CallSlot, &Question)> {
        self.durable.calls().iter().find_map(|slot| match &slot.state {
            CallState::Asked { permission_id: open, question } if open == permission_id => {
                Some((slot, question.as_ref()))
            }
            CallState::Open
            | CallState::Asked { .. }
            | CallState::Granted { .. }
            | CallState::Denied { .. }
            | CallState::Started { .. }
            | CallState::Ended { .. } => None,
        })
    }

    fn resolve(
        &mut self,
        permission_id: &PermissionId,
        decision: PermissionDecision,
        input_id: Option<InputId>,
    ) -> Result<(), InputError> {
        let Some((slot, question)) = self.asked(permission_id) else {
            return Err(InputError::UnknownPermission(permission_id.clone()));
        };
        let scope = decision.scope().unwrap_or_default();
        if scope > question.offer {
            return Err(InputError::NotOffered(permission_id.clone()));
        }
        let rules = if scope == GrantScope::Once { Vec::new() } else { question.rules.clone() };
        let tool_call_id = slot.id.clone();
        self.flight.run.tools.remove(&tool_call_id);
        self.out.push(Effect::Disarm(Timer::Permission(permission_id.clone())));
        let permission_id = permission_id.clone();
        if scope == GrantScope::Always {
            self.act(Effect::Remember { rules: rules.clone() });
        }
        let answer = Box::new(PermissionAnswer { decision, rules, input_id });
        self.push(EntryBody::PermissionResolved { permission_id, tool_call_id, answer });
        Ok(())
    }

    pub(in crate::machine) fn permission_overdue(&mut self, permission_id: &PermissionId) {
        // An answer that came first makes this a question that is no longer open.
        let _ = self.resolve(permission_id, overdue(), None);
    }
}

/// When the sender of a command that was taken is told so.
enum Acknowledged {
    /// Once what it made is durable.
    WhenDurable,
    /// By what it set in motion: a change of session has two journals to wait for.
    Later,
}

fn must_be_from_user(messages: &[Arc<AgentMessage>]) -> Result<(), InputError> {
    let mut spoken = false;
    for message in messages {
        match message.llm() {
            None => {}
            Some(llm @ Message::User { .. }) => spoken |= llm.is_sendable(),
            Some(Message::Assistant { .. } | Message::ToolResult { .. }) => return Err(InputError::NotFromUser),
        }
    }
    if spoken { Ok(()) } else { Err(InputError::Empty) }
}

/// The point that a continuation goes on from.
pub(super) fn continues_at(durable: &Durable, kind: &ContinuationKind) -> Result<Point, InputError> {
    let record = &durable.record;
    match kind {
        ContinuationKind::Initial
        | ContinuationKind::Default
        | ContinuationKind::Compaction
        | ContinuationKind::Plan { .. }
        | ContinuationKind::Branch { entry: None, .. } => Ok(record.here()),
        ContinuationKind::Rerun { .. } => durable.rerun_point.as_deref().cloned().ok_or(InputError::NothingToRerun),
        ContinuationKind::Branch { entry: Some(entry), .. } => {
            record.after(entry).ok_or_else(|| InputError::UnknownEntry(entry.clone()))
        }
    }
}

/// Whether a model can answer these messages.
fn must_be_open(messages: &[Arc<AgentMessage>]) -> Result<(), InputError> {
    let last = messages.iter().filter_map(|m| m.llm()).rfind(|m| m.is_sendable());
    match last {
        Some(Message::User { .. } | Message::ToolResult { .. }) => Ok(()),
        Some(Message::Assistant { .. }) | None => Err(InputError::NothingToContinue),
    }
}
