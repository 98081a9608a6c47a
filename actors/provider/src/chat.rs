//! The response side of OpenAI chat completions; pure: bytes in, events and one whole response out.
//!
//! A response is complete only when `[DONE]` came after a `finish_reason`. Everything else that ends a stream is
//! [`ProviderError::Incomplete`], however much of it had arrived.

use std::ops::ControlFlow;

use playhouse_protocol::{Content, ProviderError, StopReason, StreamEvent, Usage};
use serde_json::Value;

use crate::provider::excerpt;
use crate::sse::{Frame, SseDecoder};
use crate::stencil::{Slot, Stencil};
use crate::wire::{Chunk, Delta, ErrorReport, ToolCallDelta};

/// How much one response may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one event.
    pub frame_bytes: usize,
    /// Bytes of text, reasoning and arguments together.
    pub content_bytes: usize,
    /// Bytes on the wire; one token can take several hundred.
    pub wire_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_bytes: 4 << 20, content_bytes: 16 << 20, wire_bytes: 256 << 20 }
    }
}

/// Whether the terminal event has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More is to come.
    Open,
    /// `[DONE]` came; what follows on the wire has no meaning.
    Done,
}

/// A whole response.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Reasoning, text and tool calls, in this order.
    pub content: Vec<Content>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// What the call consumed; zero where the service did not say.
    pub usage: Usage,
    /// The model that the service says answered.
    pub model: Option<String>,
}

/// Reads one response.
#[derive(Debug)]
pub struct ChatDecoder {
    sse: SseDecoder,
    wire_bytes: usize,
    reply: Reply,
}

/// A response so far.
#[derive(Debug)]
struct Reply {
    limits: Limits,
    content_bytes: usize,
    data_events: u64,
    progress: Progress,
    /// What the last event leaves for those like it.
    stencil: Option<Stencil>,
    text: String,
    thinking: String,
    calls: Vec<OpenCall>,
    finish: Option<Finish>,
    usage: Usage,
    model: Option<String>,
}

#[derive(Debug, Default)]
struct OpenCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    Stop,
    Length,
    Filtered,
    /// `tool_calls`, and whatever a service invents.
    Other,
}

impl ChatDecoder {
    /// A decoder for one response.
    pub fn new(limits: Limits) -> Self {
        Self {
            sse: SseDecoder::new(limits.frame_bytes),
            wire_bytes: 0,
            reply: Reply {
                limits,
                content_bytes: 0,
                data_events: 0,
                progress: Progress::Open,
                stencil: None,
                text: String::new(),
                thinking: String::new(),
                calls: Vec::new(),
                finish: None,
                usage: Usage::default(),
                model: None,
            },
        }
    }

    /// How many data events have come; keep-alive comments are none.
    pub fn data_events(&self) -> u64 {
        self.reply.data_events
    }

    /// Takes the next bytes and hands the events in them to `emit`.
    pub fn feed(&mut self, bytes: &[u8], emit: &mut dyn FnMut(StreamEvent)) -> Result<Progress, ProviderError> {
        let Self { sse, wire_bytes, reply } = self;
        if reply.progress == Progress::Done {
            return Ok(Progress::Done);
        }
        *wire_bytes = wire_bytes.saturating_add(bytes.len());
        if *wire_bytes > reply.limits.wire_bytes {
            return Err(too_long(reply.limits.wire_bytes));
        }
        let fed = sse.feed(bytes, |frame| match reply.frame(&frame, emit) {
            Ok(Progress::Open) => ControlFlow::Continue(()),
            Ok(Progress::Done) => ControlFlow::Break(Ok(())),
            Err(error) => ControlFlow::Break(Err(error)),
        });
        match fed {
            Ok(ControlFlow::Continue(())) => Ok(Progress::Open),
            Ok(ControlFlow::Break(Err(error))) => Err(error),
            Ok(ControlFlow::Break(Ok(()))) => {
                reply.progress = Progress::Done;
                Ok(Progress::Done)
            }
            Err(error) => Err(ProviderError::Other { message: format!("the response was refused: {error}") }),
        }
    }

    /// The stream has ended: gives the response if its terminal event came.
    ///
    /// Calls get internal ids (`call_<response>_<place>`) where the service gave none, gave one twice, or gave one
    /// that `taken` says the conversation already has.
    pub fn finish(self, response: u64, taken: impl Fn(&str) -> bool) -> Result<Response, ProviderError> {
        self.reply.finish(response, taken)
    }
}

impl Reply {
    fn finish(self, response: u64, taken: impl Fn(&str) -> bool) -> Result<Response, ProviderError> {
        let finish = match (self.progress, self.finish) {
            (Progress::Done, Some(finish)) => finish,
            (Progress::Done, None) => return Err(incomplete("`[DONE]` came without a finish reason")),
            (Progress::Open, Some(_)) => return Err(incomplete("the stream ended before `[DONE]`")),
            (Progress::Open, None) => return Err(incomplete("the stream ended before the response was finished")),
        };
        let stop_reason = match (finish, self.calls.is_empty()) {
            (Finish::Length, _) => StopReason::Length,
            (Finish::Stop | Finish::Filtered | Finish::Other, false) => StopReason::ToolUse,
            (Finish::Stop | Finish::Filtered | Finish::Other, true) => StopReason::Stop,
        };
        let mut content = Vec::with_capacity(self.calls.len() + 2);
        if !self.thinking.is_empty() {
            content.push(Content::Thinking { thinking: self.thinking, signature: None });
        }
        if !self.text.is_empty() {
            content.push(Content::Text { text: self.text });
        }
        let cut_short = matches!(finish, Finish::Length | Finish::Filtered);
        let last = self.calls.len().saturating_sub(1);
        let ids = unique_ids(&self.calls, response, taken);
        for (place, (call, id)) in self.calls.into_iter().zip(ids).enumerate() {
            let arguments = if call.arguments.trim().is_empty() && cut_short && place == last {
                // The response was cut before this call's arguments: they are unknown, not empty.
                Value::String(call.arguments)
            } else {
                parse_arguments(call.arguments)
            };
            content.push(Content::ToolCall { id: id.into(), name: call.name, arguments });
        }
        Ok(Response { content, stop_reason, usage: self.usage, model: self.model })
    }

    fn frame(&mut self, frame: &Frame<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<Progress, ProviderError> {
        self.data_events += 1;
        let data = frame.data.as_ref();
        if frame.event.is_empty()
            && let Some((slot, piece)) = self.stencil.as_ref().and_then(|stencil| stencil.read(data))
        {
            self.piece(slot, &piece, emit)?;
            return Ok(Progress::Open);
        }
        self.stencil = None;
        if data.trim() == "[DONE]" {
            return Ok(Progress::Done);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| ProviderError::Incomplete {
            message: format!("event {} is no chunk of a response ({error}): {}", self.data_events, excerpt(data, 200)),
        })?;
        if let Some(error) = chunk.error {
            return Err(ErrorReport::classify(error.get()));
        }
        // Some services send the error's fields by themselves.
        if frame.event == "error" || chunk.object.as_ref().is_some_and(|object| object.0 == "error") {
            return Err(ErrorReport::classify(data));
        }
        if self.data_events == 1 {
            emit(StreamEvent::Start);
        }
        let stencil = Stencil::of(data, &chunk);
        if let Some(model) = chunk.model.filter(|model| self.model.is_none() && !model.0.is_empty()) {
            self.model = Some(model.0.into_owned());
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.classes();
        }
        for choice in chunk.choices.unwrap_or_default().into_iter().filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, emit)?;
            }
            if let Some(reason) = choice.finish_reason {
                self.finish = Some(match reason.0.as_ref() {
                    "stop" => Finish::Stop,
                    "length" => Finish::Length,
                    "content_filter" => Finish::Filtered,
                    _ => Finish::Other,
                });
            }
        }
        self.stencil = stencil;
        Ok(Progress::Open)
    }

    /// Takes a piece of what the response has begun to say.
    fn piece(&mut self, slot: Slot, piece: &str, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), ProviderError> {
        self.count(piece.len())?;
        let delta = piece.to_owned();
        match slot {
            Slot::Text => {
                self.text.push_str(piece);
                emit(StreamEvent::TextDelta { delta });
            }
            Slot::Thinking => {
                self.thinking.push_str(piece);
                emit(StreamEvent::ThinkingDelta { delta });
            }
            Slot::Arguments { index } => {
                if let Some(call) = self.calls.iter_mut().rfind(|call| call.index == Some(index)) {
                    call.arguments.push_str(piece);
                    emit(StreamEvent::ToolCallDelta { delta });
                }
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), ProviderError> {
        // Services send one of the two names; one that sends both sends the same text.
        if let Some(thinking) = delta.reasoning_content.or(delta.reasoning).filter(|text| !text.0.is_empty()) {
            self.count(thinking.0.len())?;
            self.thinking.push_str(&thinking.0);
            emit(StreamEvent::ThinkingDelta { delta: thinking.0.into_owned() });
        }
        for text in [delta.content, delta.refusal].into_iter().flatten().filter(|text| !text.0.is_empty()) {
            self.count(text.0.len())?;
            self.text.push_str(&text.0);
            emit(StreamEvent::TextDelta { delta: text.0.into_owned() });
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
                emit(StreamEvent::ToolCallStart { id: id.as_ref().into(), name: name.clone().into_owned() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(place) else { return Ok(()) };
        if call.id.is_empty() {
            call.id.push_str(&id);
        }
        // A name comes whole, in pieces, or again with every piece.
        if call.name != name {
            call.name.push_str(&name);
        }
        if !arguments.is_empty() {
            call.arguments.push_str(&arguments);
            emit(StreamEvent::ToolCallDelta { delta: arguments.into_owned() });
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

/// Empty arguments are `{}`; what is no JSON object stays the text it is, and is never run.
fn parse_arguments(raw: String) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    match serde_json::from_str::<Value>(&raw) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) | Err(_) => Value::String(raw),
    }
}

fn unique_ids(calls: &[OpenCall], response: u64, taken: impl Fn(&str) -> bool) -> Vec<String> {
    let mut ids: Vec<String> = Vec::with_capacity(calls.len());
    for (place, call) in calls.iter().enumerate() {
        let own = call.id.trim();
        let free = |ids: &[String], id: &str| !taken(id) && !ids.iter().any(|used| used == id);
        if !own.is_empty() && free(&ids, own) {
            ids.push(own.to_owned());
            continue;
        }
        let reserved = |id: &str| calls.iter().any(|call| call.id == id);
        let mut id = format!("call_{response}_{place}");
        while reserved(&id) || !free(&ids, &id) {
            id.push('x');
        }
        ids.push(id);
    }
    ids
}

fn incomplete(message: &str) -> ProviderError {
    ProviderError::Incomplete { message: message.to_owned() }
}

fn too_long(cap: usize) -> ProviderError {
    ProviderError::Other { message: format!("the response is longer than {cap} bytes and was stopped") }
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
