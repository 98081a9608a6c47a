//! A model call from its request to its response.

use std::collections::BTreeSet;
use std::sync::Arc;

use playhouse_context::repaired;
use playhouse_protocol::transcript::{self, Ending};
use playhouse_protocol::{
    AgentEvent, AgentMessage, CallId, Content, EntryBody, LlmMessage, Message, MessageId, ProviderError, Purpose,
    StopReason, StreamConfig, StreamDelta, ToolCallId, Usage,
};
use serde_json::Value;

use super::durable::Run;
use super::effect::{Effect, Target};
use super::events;
use super::flight::OpenCall;
use super::{Journal, Machine};

impl Machine {
    /// Journals the intent and asks the model once it is durable.
    pub(super) fn request(&mut self) {
        let Some(run) = &self.durable.run else { return };
        let Some(turn) = run.turn() else { return };
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
        self.flight.call = Some(Box::new(OpenCall::new(call.clone(), attempt, message_id)));
        if self.journal == Journal::Damaged && transcript::validate(config.messages.sendable(), Ending::Open).is_err() {
            let message = "the journal has lost the message that was to be answered: send it again".to_owned();
            self.fail_with(&ProviderError::Other { message });
            return;
        }
        self.act(Effect::Call { call, config });
    }

    fn stream_config(&self, attempt: u32) -> StreamConfig {
        let settings = &self.durable.settings;
        let messages = match self.journal {
            Journal::Whole => self.durable.history.clone(),
            Journal::Damaged => repaired(&self.durable.history),
        };
        StreamConfig {
            model_config: self.setup.model.clone(),
            system_prompt: settings.system_prompt.clone(),
            messages,
            tools: self.setup.catalog.definitions(),
            thinking_level: settings.thinking_level,
            max_tokens: settings.max_tokens,
            temperature: settings.temperature,
            cache_config: settings.cache,
            purpose: Purpose::Turn,
            response: self.durable.responses,
            attempt,
            first_prompt: self.durable.first_prompt.clone(),
        }
    }

    fn is_open(&self, call: &CallId, attempt: u32) -> bool {
        self.flight.call.as_ref().is_some_and(|open| open.id == *call && open.attempt == attempt)
    }

    /// Makes sure that observers know of the message before they hear more of it.
    fn show_message(&mut self) {
        let at = self.now.wall;
        let Some(open) = &mut self.flight.call else { return };
        if !open.shown {
            open.shown = true;
            let message_id = open.message_id.clone();
            let message = Arc::new(events::shell(&self.durable, at));
            self.tell(AgentEvent::MessageStart { message_id, message });
        }
    }

    pub(super) fn delta(&mut self, call: &CallId, attempt: u32, deltas: Vec<StreamDelta>) {
        if !self.is_open(call, attempt) {
            return;
        }
        self.show_message();
        for delta in deltas {
            let Some(open) = &mut self.flight.call else { return };
            if let StreamDelta::Text { delta } = &delta {
                open.text.push_str(delta);
            }
            let message_id = open.message_id.clone();
            self.tell(AgentEvent::MessageUpdate { message_id, delta });
        }
    }

    pub(super) fn retrying(&mut self, call: &CallId, attempt: u32, error: ProviderError, delay_ms: u64) {
        if !self.is_open(call, attempt) {
            return;
        }
        self.attempt_failed(error, delay_ms);
        let Some(run) = &self.durable.run else { return };
        let Some(turn) = run.turn() else { return };
        let message_id = message_id(run, turn.index, attempt.saturating_add(1));
        if let Some(open) = &mut self.flight.call {
            open.attempt = attempt.saturating_add(1);
            open.message_id = message_id;
            open.shown = false;
            open.text.clear();
        }
    }

    fn attempt_failed(&mut self, error: ProviderError, delay_ms: u64) {
        self.show_message();
        let Some(open) = &self.flight.call else { return };
        let (call_id, message_id, attempt) = (open.id.clone(), open.message_id.clone(), open.attempt);
        let error = Box::new(error);
        self.push(EntryBody::AttemptFailed { call_id, message_id, attempt, error, delay_ms });
    }

    pub(super) fn responded(&mut self, call: &CallId, attempt: u32, message: Message) {
        if !self.is_open(call, attempt) {
            return;
        }
        match message {
            Message::Assistant { .. } => self.answer_with(message),
            Message::User { .. } | Message::ToolResult { .. } => {
                let message = "the provider answered with something other than a model's message".to_owned();
                self.fail_with(&ProviderError::Other { message });
            }
        }
    }

    pub(super) fn call_failed(&mut self, call: &CallId, attempt: u32, error: ProviderError) {
        if !self.is_open(call, attempt) {
            return;
        }
        match error {
            ProviderError::Lost { message } => self.lost(message),
            error @ (ProviderError::RateLimited { .. }
            | ProviderError::Network { .. }
            | ProviderError::Auth { .. }
            | ProviderError::Api { .. }
            | ProviderError::ContextOverflow { .. }
            | ProviderError::Cancelled
            | ProviderError::Other { .. }
            | ProviderError::Incomplete { .. }) => self.fail_with(&error),
        }
    }

    pub(super) fn connection_lost(&mut self, reason: String) {
        if self.flight.call.as_ref().is_some_and(|open| open.sent) {
            self.lost(reason);
        }
    }

    /// The call died with its connection: asked again, as often as a failed attempt would be.
    fn lost(&mut self, message: String) {
        let error = ProviderError::Lost { message };
        if self.flight.lost >= self.durable.settings.retry.max_retries {
            self.fail_with(&error);
            return;
        }
        self.flight.lost += 1;
        self.attempt_failed(error, 0);
        self.flight.call = None;
    }

    fn fail_with(&mut self, error: &ProviderError) {
        let failed = events::failed_message(&self.durable, error, self.now.wall);
        if let AgentMessage::Llm(LlmMessage { message, .. }) = failed {
            self.answer_with(message);
        }
    }

    /// Ends the open call, or the turn's missing one, as aborted, with what has come of it.
    pub(super) fn abort_call(&mut self) {
        if self.flight.call.is_none() {
            let Some(run) = &self.durable.run else { return };
            let Some(turn) = run.turn() else { return };
            let id: CallId = format!("{}/{}/{}", run.loop_id, turn.index, turn.next_attempt).into();
            let message_id = message_id(run, turn.index, turn.next_attempt);
            let attempt = turn.next_attempt;
            self.flight.call = Some(Box::new(OpenCall::new(id, attempt, message_id)));
        }
        let Some(open) = &mut self.flight.call else { return };
        let text = std::mem::take(&mut open.text);
        if open.sent {
            let call = open.id.clone();
            self.out.push(Effect::Cancel(Target::Call(call)));
        }
        let model = &self.durable.settings.model;
        self.answer_with(Message::Assistant {
            content: if text.is_empty() { Vec::new() } else { vec![Content::text(text)] },
            stop_reason: StopReason::Aborted,
            model: model.id.clone(),
            provider: model.provider.clone(),
            usage: Usage::default(),
            timestamp: self.now.wall,
            error_message: None,
        });
    }

    fn answer_with(&mut self, message: Message) {
        self.show_message();
        let Some(open) = self.flight.call.take() else { return };
        self.flight.lost = 0;
        let Some(run) = &self.durable.run else { return };
        let Some(turn) = run.turn() else { return };
        let turn_id = run.turn_id(turn.index);
        let message = with_unique_calls(message, &open.id, &self.durable.call_ids);
        let message = Arc::new(AgentMessage::Llm(LlmMessage { message, turn_id: Some(turn_id) }));
        self.push(EntryBody::Responded { call_id: open.id, message_id: open.message_id, message });
    }
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
