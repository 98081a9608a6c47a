//! A model call from its request to its response.

use std::collections::BTreeSet;
use std::sync::Arc;

use playhouse_protocol::transcript::{self, TranscriptEnd};
use playhouse_protocol::{
    AgentEvent, AgentMessage, CallId, Content, EntryBody, FailureKind, LlmMessage, Message, MessageId, ProviderError,
    Purpose, StopReason, StreamConfig, StreamDelta, ToolCallId, Usage,
};
use serde_json::Value;

use crate::machine::state::durable::model_after;
use crate::machine::state::flight::OpenCall;
use crate::machine::state::run::Run;
use crate::machine::{CancelTarget, Effect, Holes, Machine, events};

/// How often a turn asks again for an answer that was empty.
const MAX_EMPTY: u32 = 2;

impl Machine {
    /// Journals the intent and asks the model once it is durable.
    pub(super) fn request(&mut self) {
        let Some((run, turn)) = self.durable.run_and_turn() else { return };
        let attempt = turn.next_attempt;
        let call: CallId = format!("{}/{}/{attempt}", run.loop_id, turn.index).into();
        let message_id = message_id(run, turn.index, attempt);
        let config = Box::new(self.stream_config(attempt));
        self.push(EntryBody::Requested {
            call_id: call.clone(),
            message_id: message_id.clone(),
            attempt,
            request_hash: self.durable.digest.to_string(),
        });
        self.flight.run.call = Some(Box::new(OpenCall::new(call.clone(), attempt, message_id)));
        if self.holes == Holes::Possible
            && transcript::validate(config.messages.sendable(), TranscriptEnd::Open).is_err()
        {
            let message = "the journal has lost the message that was to be answered: send it again".to_owned();
            self.fail_with(&ProviderError::Other { message });
            return;
        }
        self.act(Effect::Call { call, config });
    }

    fn stream_config(&self, attempt: u32) -> StreamConfig {
        let settings = &self.durable.settings;
        StreamConfig {
            model_config: model_after(self.durable.fallen_back(), &self.setup.model, &self.setup.fallbacks).clone(),
            system_prompt: settings.system_prompt.clone(),
            conversation: self.durable.session_id.shared(),
            tail: Vec::new(),
            messages: self.view(),
            tools: self.setup.catalog.definitions(),
            thinking_level: settings.thinking_level,
            max_tokens: settings.max_tokens,
            temperature: settings.temperature,
            cache_config: settings.cache,
            purpose: Purpose::Turn,
            response: self.durable.responses,
            attempt,
            first_prompt: self.durable.first_prompt.clone(),
            response_format: self.durable.run.as_ref().and_then(|run| run.format.clone()),
        }
    }

    /// Whether there is another model, should this one fail.
    pub fn can_fall_back(&self) -> bool {
        usize::try_from(self.durable.fallen_back()).is_ok_and(|fallen| fallen < self.setup.fallbacks.len())
    }

    pub(super) fn is_open(&self, call: &CallId, attempt: u32) -> bool {
        self.flight.run.call.as_ref().is_some_and(|open| open.id == *call && open.attempt == attempt)
    }

    /// Makes sure that observers know of the message before they hear more of it.
    fn show_message(&mut self) {
        let at = self.now.wall;
        let Some(open) = &mut self.flight.run.call else { return };
        if !open.shown {
            open.shown = true;
            let message_id = open.message_id.clone();
            let message = Arc::new(events::response(&self.durable, Vec::new(), StopReason::Stop, at).into());
            self.tell(AgentEvent::MessageStart { message_id, message });
        }
    }

    pub(in crate::machine) fn delta(&mut self, call: &CallId, attempt: u32, deltas: Vec<StreamDelta>) {
        if !self.is_open(call, attempt) {
            return;
        }
        self.show_message();
        for delta in deltas {
            let Some(open) = &mut self.flight.run.call else { return };
            if let StreamDelta::Text { delta } = &delta {
                open.text.push_str(delta);
            }
            let message_id = open.message_id.clone();
            self.tell(AgentEvent::MessageUpdate { message_id, delta });
        }
    }

    pub(in crate::machine) fn retrying(&mut self, call: &CallId, attempt: u32, error: ProviderError, delay_ms: u64) {
        if !self.is_open(call, attempt) {
            return;
        }
        self.attempt_failed(error, delay_ms, self.durable.fallen_back());
        let Some((run, turn)) = self.durable.run_and_turn() else { return };
        let next = attempt.saturating_add(1);
        let message_id = message_id(run, turn.index, next);
        if let Some(open) = &mut self.flight.run.call {
            open.attempt = next;
            open.message_id = message_id;
            open.shown = false;
            open.text.clear();
        }
        self.act(Effect::GoOn { call: call.clone(), attempt: next });
    }

    /// Journals that an attempt failed, and which model the next one asks.
    fn attempt_failed(&mut self, error: ProviderError, delay_ms: u64, model: u32) {
        self.show_message();
        let Some(open) = &self.flight.run.call else { return };
        let (call_id, message_id, attempt) = (open.id.clone(), open.message_id.clone(), open.attempt);
        let error = Box::new(error);
        self.push(EntryBody::AttemptFailed { call_id, message_id, attempt, error, delay_ms, model });
    }

    pub(in crate::machine) fn responded(&mut self, call: &CallId, attempt: u32, message: Message) {
        if !self.is_open(call, attempt) {
            return;
        }
        match message {
            Message::Assistant { usage, .. } if is_empty(&message) => self.empty(usage),
            Message::Assistant { .. } => self.answer_with(message),
            Message::User { .. } | Message::ToolResult { .. } => {
                let message = "the provider answered with something other than a model's message".to_owned();
                self.fail_with(&ProviderError::Other { message });
            }
        }
    }

    pub(in crate::machine) fn call_failed(&mut self, call: &CallId, attempt: u32, error: ProviderError) {
        if !self.is_open(call, attempt) {
            return;
        }
        match error {
            // Another model would be asked the same: what is too long for one is for compaction.
            error @ (ProviderError::ContextOverflow { .. } | ProviderError::Cancelled) => self.fail_with(&error),
            // What is refused once is refused for ever: the conversation goes on without it.
            error @ ProviderError::Picture { .. } if self.durable.record.has_pictures() => {
                self.attempt_failed(error, 0, self.durable.fallen_back());
                self.flight.run.call = None;
            }
            error @ (ProviderError::RateLimited { .. }
            | ProviderError::Unavailable { .. }
            | ProviderError::Network { .. }
            | ProviderError::Auth { .. }
            | ProviderError::Api { .. }
            | ProviderError::Picture { .. }
            | ProviderError::Empty { .. }
            | ProviderError::Other { .. }
            // The connection has asked again as often as it may.
            | ProviderError::Lost { .. }
            | ProviderError::Incomplete { .. }) => self.fall_back_or_fail(error),
        }
    }

    /// Asks the next model, if there is one.
    fn fall_back_or_fail(&mut self, error: ProviderError) {
        if !self.can_fall_back() {
            self.fail_with(&error);
            return;
        }
        self.attempt_failed(error, 0, self.durable.fallen_back().saturating_add(1));
        self.flight.run.call = None;
        self.flight.run.lost = 0;
    }

    /// The answer holds nothing. It is asked for again, but not for ever.
    fn empty(&mut self, usage: Usage) {
        let error = ProviderError::Empty { usage: Box::new(usage) };
        let before = self.durable.turn().map_or(0, |turn| turn.empty);
        if before < MAX_EMPTY {
            self.attempt_failed(error, 0, self.durable.fallen_back());
            self.flight.run.call = None;
            return;
        }
        self.fall_back_or_fail(error);
    }

    pub(in crate::machine) fn connection_lost(&mut self, reason: String) {
        if self.flight.run.call.as_ref().is_some_and(|open| open.sent) {
            self.lost(reason);
        }
    }

    /// The call died with its connection: asked again, as often as a failed attempt would be.
    fn lost(&mut self, message: String) {
        let error = ProviderError::Lost { message };
        if self.flight.run.lost >= self.durable.settings.retry.max_retries {
            self.fall_back_or_fail(error);
            return;
        }
        self.flight.run.lost += 1;
        self.attempt_failed(error, 0, self.durable.fallen_back());
        self.flight.run.call = None;
    }

    fn fail_with(&mut self, error: &ProviderError) {
        let mut message = events::failed_response(&self.durable, error, self.now.wall);
        if let (Message::Assistant { usage, .. }, ProviderError::Empty { usage: used }) = (&mut message, error) {
            *usage = **used;
        }
        self.close_call(message, error.kind());
    }

    /// Ends the open call, or the turn's missing one, as aborted, with what has come of it.
    pub(super) fn abort_call(&mut self) {
        if self.flight.run.call.is_none() {
            let Some((run, turn)) = self.durable.run_and_turn() else { return };
            let id: CallId = format!("{}/{}/{}", run.loop_id, turn.index, turn.next_attempt).into();
            let message_id = message_id(run, turn.index, turn.next_attempt);
            let attempt = turn.next_attempt;
            self.flight.run.call = Some(Box::new(OpenCall::new(id, attempt, message_id)));
        }
        let Some(open) = &mut self.flight.run.call else { return };
        let text = std::mem::take(&mut open.text);
        if open.sent {
            let call = open.id.clone();
            self.out.push(Effect::Cancel(CancelTarget::Call(call)));
        }
        let content = if text.is_empty() { Vec::new() } else { vec![Content::text(text)] };
        self.answer_with(events::response(&self.durable, content, StopReason::Aborted, self.now.wall));
    }

    pub(super) fn answer_with(&mut self, message: Message) {
        self.close_call(message, None);
    }

    fn close_call(&mut self, message: Message, failure: Option<FailureKind>) {
        self.show_message();
        let Some(open) = self.flight.run.call.take() else { return };
        self.flight.run.lost = 0;
        let Some((run, turn)) = self.durable.run_and_turn() else { return };
        let turn_id = run.turn_id(turn.index);
        let message = with_unique_calls(message, &open.id, &self.durable.call_ids);
        let message = Arc::new(AgentMessage::Llm(LlmMessage { message, turn_id: Some(turn_id) }));
        self.push(EntryBody::Responded { call_id: open.id, message_id: open.message_id, message, failure });
    }
}

/// Whether a whole answer says nothing: it may have thought, but there is neither a word nor a call.
fn is_empty(message: &Message) -> bool {
    let Message::Assistant { content, stop_reason, .. } = message else { return false };
    let says = |block: &Content| match block {
        Content::Text { text } => !text.trim().is_empty(),
        Content::Image { .. } | Content::ToolCall { .. } => true,
        Content::Thinking { .. } => false,
    };
    matches!(stop_reason, StopReason::Stop | StopReason::ToolUse) && !content.iter().any(says)
}

fn message_id(run: &Run, turn: u32, attempt: u32) -> MessageId {
    format!("{}/t{turn}a{attempt}", run.loop_id).into()
}

/// Gives calls an id of our own where the provider's is missing or was used before in this session. Arguments that are
/// no object become text, which is never run. A response that was not completed keeps no calls.
fn with_unique_calls(message: Message, call: &CallId, used: &BTreeSet<ToolCallId>) -> Message {
    let Message::Assistant { mut content, stop_reason, model, provider, usage, timestamp, error_message } = message
    else {
        return message;
    };
    if matches!(stop_reason, StopReason::Error | StopReason::Aborted) {
        content.retain(|block| !matches!(block, Content::ToolCall { .. }));
    }
    let mut here: BTreeSet<ToolCallId> = BTreeSet::new();
    for (n, block) in content.iter_mut().enumerate() {
        if let Content::ToolCall { id, arguments, .. } = block {
            let mut own = format!("{call}/{n}").replace(['/', '.'], "_");
            while id.as_str().is_empty() || used.contains(id) || here.contains(id) {
                *id = own.as_str().into();
                own.push('_');
            }
            here.insert(id.clone());
            if !arguments.is_object() && !arguments.is_string() {
                *arguments = Value::String(arguments.to_string());
            }
        }
    }
    // It grew block by block, and stays for as long as the conversation does.
    content.shrink_to_fit();
    Message::Assistant { content, stop_reason, model, provider, usage, timestamp, error_message }
}
