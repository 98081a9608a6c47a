//! The response side of OpenAI chat completions; pure: bytes in, events and one whole response out.
//!
//! A response is complete only when `[DONE]` came after a `finish_reason`. Everything else that ends a stream is
//! [`ProviderError::Incomplete`], however much of it had arrived.

use std::borrow::Cow;

use playhouse_protocol::compat::{ReasoningField, ToolNames};
use playhouse_protocol::{
    Content, OpenAiCompat, ProviderError, StopReason, StreamConfig, StreamEvent, Usage, Wordless,
};
use serde_json::Value;

use super::chunk::{Chunk, Delta, Text, ToolCallDelta};
use super::details::Details;
use super::stencil::{Stencil, StringField};
use super::structured::answer_tool;
use crate::wire::decoder::{
    Decoder, Finish as With, Limits, Response, SseEvents, SseReply, Step, too_long, unreadable,
};
use crate::wire::draft::{parse_arguments, unique_ids};
use crate::wire::failure::classify_object;
use crate::wire::sse::Frame;

/// About what a block of `reasoning_details` takes beyond its bytes.
const DETAIL_BYTES: usize = 512;

/// A decoder for one response of OpenAI's.
pub fn decoder(limits: Limits) -> Box<dyn Decoder> {
    reader(limits, Reading::default())
}

/// A decoder for one response of a service that is read as `reading` says.
pub(super) fn reader(limits: Limits, reading: Reading) -> Box<dyn Decoder> {
    Box::new(SseReply::new(limits, Reply::new(limits, reading)))
}

/// The failure that an answer in plain JSON is, if it is one.
pub(super) fn plain_failure(body: &str) -> Option<ProviderError> {
    let chunk: Chunk<'_> = serde_json::from_str(body).ok()?;
    chunk.failure(body)
}

/// How a response is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    reasoning: ReasoningField,
    names: ToolNames,
    /// The tool by which the answer is given, if it is given by one.
    answer: Option<String>,
}

impl Reading {
    pub(super) fn of(compat: &OpenAiCompat, config: &StreamConfig) -> Self {
        Self { reasoning: compat.reasoning_field, names: compat.tool_names, answer: answer_tool(config, compat) }
    }

    /// The name of a tool without what the model let slip in after it.
    fn name<'a>(&self, name: &'a str) -> &'a str {
        match self.names {
            ToolNames::AsTheyCome => name,
            ToolNames::CutAtMark => name.split("<|").next().unwrap_or_default(),
        }
    }

    fn role(&self, name: &str) -> Role {
        if self.answer.as_deref() == Some(self.name(name)) { Role::Answer } else { Role::Tool }
    }
}

/// A response so far.
#[derive(Debug)]
struct Reply {
    limits: Limits,
    reading: Reading,
    content_bytes: usize,
    begun: bool,
    /// What the last event leaves for those like it.
    stencil: Option<Stencil>,
    text: String,
    /// Whether some of the text came as a refusal.
    refused: bool,
    thinking: String,
    details: Details,
    calls: Vec<OpenCall>,
    finish: Option<Finish>,
    usage: Usage,
    model: Option<String>,
}

/// What a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// A call of a tool, for the agent to run.
    #[default]
    Tool,
    /// The answer, in the form of a call.
    Answer,
}

impl Role {
    /// The event of a piece of the call's arguments.
    fn said(self, delta: String) -> StreamEvent {
        match self {
            Self::Tool => StreamEvent::ToolCallDelta { delta },
            Self::Answer => StreamEvent::TextDelta { delta },
        }
    }
}

#[derive(Debug, Default)]
struct OpenCall {
    index: Option<u64>,
    role: Role,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    Stop,
    Length,
    /// The service or the model would not go on, for this reason.
    Filtered(&'static str),
    /// `tool_calls`, and whatever a service invents.
    Other,
}

impl Reply {
    fn new(limits: Limits, reading: Reading) -> Self {
        Self {
            limits,
            reading,
            content_bytes: 0,
            begun: false,
            stencil: None,
            text: String::new(),
            refused: false,
            thinking: String::new(),
            details: Details::default(),
            calls: Vec::new(),
            finish: None,
            usage: Usage::default(),
            model: None,
        }
    }
}

/// What a `finish_reason` means. Some are failures: Z.ai's, DeepSeek's and OpenRouter's.
fn finish(reason: &str) -> Result<Finish, ProviderError> {
    let message = || format!("the service ended the response with `{reason}`");
    match reason {
        "stop" => Ok(Finish::Stop),
        "length" | "model_length" | "max_tokens" => Ok(Finish::Length),
        "content_filter" => Ok(Finish::Filtered("content_filter")),
        "refusal" => Ok(Finish::Filtered("refusal")),
        "sensitive" => Ok(Finish::Filtered("sensitive")),
        "insufficient_system_resource" => Err(ProviderError::RateLimited { message: message(), retry_after_ms: None }),
        "model_context_window_exceeded" => Err(ProviderError::ContextOverflow { message: message() }),
        "error" | "network_error" => Err(ProviderError::Incomplete { message: message() }),
        _ => Ok(Finish::Other),
    }
}

impl SseEvents for Reply {
    fn missing(&self) -> String {
        match self.finish {
            Some(_) => "the stream ended before `[DONE]`".to_owned(),
            None => "the stream ended before the response was finished".to_owned(),
        }
    }

    fn whole(self, with: &With<'_>) -> Result<Response, ProviderError> {
        let Some(finish) = self.finish else {
            return Err(ProviderError::Incomplete { message: "`[DONE]` came without a finish reason".to_owned() });
        };
        let cut_short = matches!(finish, Finish::Length | Finish::Filtered(_));
        let last = self.calls.len().saturating_sub(1);
        let (mut text, mut answer, mut calls) = (self.text, None, Vec::with_capacity(self.calls.len()));
        for (place, call) in self.calls.into_iter().enumerate() {
            match call.role {
                Role::Tool => calls.push((call, place == last)),
                Role::Answer => answer = answer.or(Some(call.arguments)),
            }
        }
        // With calls beside it, the answer was given too early. Else it is all that the model says.
        if let Some(answer) = answer.filter(|_| calls.is_empty()) {
            text = if answer.trim().is_empty() && !cut_short { "{}".to_owned() } else { answer };
        }
        if let Finish::Filtered(reason) = finish
            && text.trim().is_empty()
            && calls.is_empty()
        {
            text = Wordless::Declined.stand_in(reason);
        }
        let stop_reason = match (finish, calls.is_empty()) {
            (Finish::Length, _) => StopReason::Length,
            (Finish::Stop | Finish::Filtered(_) | Finish::Other, false) => StopReason::ToolUse,
            (Finish::Filtered(_), true) => StopReason::Refusal,
            (Finish::Stop | Finish::Other, true) if self.refused => StopReason::Refusal,
            (Finish::Stop | Finish::Other, true) => StopReason::Stop,
        };
        let mut content = Vec::with_capacity(calls.len() + 2);
        let signature = self.details.seal();
        if !self.thinking.is_empty() || signature.is_some() {
            content.push(Content::Thinking { thinking: self.thinking, signature });
        }
        if !text.is_empty() {
            content.push(Content::Text { text });
        }
        let own: Vec<&str> = calls.iter().map(|(call, _)| call.id.as_str()).collect();
        let ids = unique_ids(&own, with);
        for ((call, is_last), id) in calls.into_iter().zip(ids) {
            let arguments = if call.arguments.trim().is_empty() && cut_short && is_last {
                // The response was cut before this call's arguments: they are unknown, not empty.
                Value::String(call.arguments)
            } else {
                parse_arguments(call.arguments)
            };
            let name = self.reading.name(&call.name).to_owned();
            content.push(Content::ToolCall { id: id.into(), name, arguments });
        }
        Ok(Response { content, stop_reason, usage: self.usage, model: self.model })
    }

    fn event(&mut self, frame: &Frame<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<Step, ProviderError> {
        let data = frame.data.as_ref();
        if frame.event.is_empty()
            && let Some((slot, piece)) = self.stencil.as_ref().and_then(|stencil| stencil.read(data))
        {
            self.piece(slot, &piece, emit)?;
            return Ok(Step::Data);
        }
        self.stencil = None;
        if data.trim() == "[DONE]" {
            return Ok(Step::Done);
        }
        if frame.event == "ping" {
            return Ok(Step::KeepAlive);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| match frame.event.as_ref() {
            "error" => classify_object(data),
            _ => unreadable(&error, data),
        })?;
        if let Some(failure) = chunk.failure(data) {
            return Err(failure);
        }
        if frame.event == "error" {
            return Err(classify_object(data));
        }
        if chunk.is_foreign() {
            return Ok(Step::Unknown);
        }
        if !std::mem::replace(&mut self.begun, true) {
            emit(StreamEvent::Start);
        }
        let stencil = Stencil::of(data, &chunk);
        if let Some(usage) = chunk.usage() {
            self.usage = usage.classes();
        }
        if let Some(model) = chunk.model.filter(|model| self.model.is_none() && !model.0.is_empty()) {
            self.model = Some(model.0.into_owned());
        }
        for choice in chunk.choices.unwrap_or_default().into_iter().filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, emit)?;
            }
            // Some services say "" until there is a reason.
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.0.is_empty()) {
                self.finish = Some(finish(&reason.0)?);
            }
        }
        self.stencil = stencil;
        Ok(Step::Data)
    }
}

impl Reply {
    /// Takes a piece of what the response has begun to say.
    fn piece(
        &mut self,
        slot: StringField,
        piece: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ProviderError> {
        self.count(piece.len())?;
        let delta = piece.to_owned();
        match slot {
            StringField::Text => {
                self.text.push_str(piece);
                emit(StreamEvent::TextDelta { delta });
            }
            StringField::Thinking => {
                self.thinking.push_str(piece);
                emit(StreamEvent::ThinkingDelta { delta });
            }
            StringField::Arguments { index } => {
                if let Some(call) = self.calls.iter_mut().rfind(|call| call.index == Some(index)) {
                    call.arguments.push_str(piece);
                    emit(call.role.said(delta));
                }
            }
        }
        Ok(())
    }

    fn say(&mut self, slot: StringField, piece: &str, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), ProviderError> {
        if piece.is_empty() { Ok(()) } else { self.piece(slot, piece, emit) }
    }

    fn delta<'a>(&mut self, delta: Delta<'a>, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), ProviderError> {
        // Services send one of the names; one that sends more sends the same text by each.
        let said = |text: Option<Text<'a>>| text.map(|text| text.0).filter(|text| !text.is_empty());
        let (content, reasoning) = (said(delta.reasoning_content), said(delta.reasoning));
        let thinking = match self.reading.reasoning {
            ReasoningField::ReasoningContent => content.or(reasoning),
            ReasoningField::Reasoning => reasoning.or(content),
            ReasoningField::ReasoningDetails => {
                let details = match delta.reasoning_details {
                    None => String::new(),
                    Some(list) => {
                        let before = self.details.len();
                        let words = self.details.add(list);
                        // As of a call, the memory of a block beyond its bytes.
                        self.count(list.get().len() + (self.details.len() - before) * DETAIL_BYTES)?;
                        words
                    }
                };
                reasoning.or(content).or(Some(Cow::Owned(details)))
            }
        };
        let spoken = delta.content.unwrap_or_default();
        for thinking in [thinking, Some(Cow::Owned(spoken.thinking))].into_iter().flatten() {
            self.say(StringField::Thinking, &thinking, emit)?;
        }
        self.refused |= delta.refusal.as_ref().is_some_and(|text| !text.0.is_empty());
        for text in [Some(spoken.text), delta.refusal.map(|text| text.0)].into_iter().flatten() {
            self.say(StringField::Text, &text, emit)?;
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call_delta(call, emit)?;
        }
        Ok(())
    }

    fn call_delta(&mut self, delta: ToolCallDelta<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), ProviderError> {
        let id = delta.id.map(|id| id.0).unwrap_or_default();
        let function = delta.function.unwrap_or_default();
        let name = function.name.map(|name| name.0).unwrap_or_default();
        let arguments = function.arguments.map(|arguments| arguments.0).unwrap_or_default();
        self.count(id.len() + name.len() + arguments.len())?;

        let place = match delta.index {
            Some(index) => self.calls.iter().rposition(|call| call.index == Some(index)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        };
        // Some services number every call 0: a second id with a second name is a second call.
        let place = place.filter(|place| {
            self.calls.get(*place).is_none_or(|call| {
                id.is_empty() || name.is_empty() || call.id.is_empty() || call.name.is_empty() || call.id == id
            })
        });
        let place = match place {
            Some(place) => place,
            None => {
                // A call costs memory beyond its bytes; the cap on content then bounds their number too.
                self.count(std::mem::size_of::<OpenCall>())?;
                self.calls.push(OpenCall { index: delta.index, ..OpenCall::default() });
                match self.reading.role(&name) {
                    Role::Answer => {}
                    Role::Tool => {
                        let name = self.reading.name(&name).to_owned();
                        emit(StreamEvent::ToolCallStart { id: id.as_ref().into(), name });
                    }
                }
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(place) else { return Ok(()) };
        if call.id.is_empty() {
            call.id.push_str(&id);
        }
        // A name comes whole, in pieces, or again with every piece.
        if !name.is_empty() && call.name != name {
            call.name.push_str(&name);
            call.role = self.reading.role(&call.name);
        }
        if !arguments.is_empty() {
            call.arguments.push_str(&arguments);
            emit(call.role.said(arguments.into_owned()));
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), ProviderError> {
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        if self.content_bytes > self.limits.content_bytes {
            return Err(too_long(self.limits.content_bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "fixture_tests.rs"]
mod fixture_tests;
