//! The response side of Anthropic Messages; pure: bytes in, events and one whole response out.
//!
//! A response is complete only when `message_stop` came after a `stop_reason`. Everything else that ends a stream is
//! [`ProviderError::Incomplete`], however much of it had arrived.

use std::borrow::Cow;

use playhouse_protocol::{ProviderError, StreamEvent, Wordless};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::event::{
    Counts, Ending, Event, InputJson, Opening, Redacted, Saying, StopDetails, Text, Thought, ToolUse, TypeOnly,
};
use super::failure::classify_error;
use super::message::REDACTED;
use crate::wire::decoder::{Decoder, Finish, Limits, Response, SseEvents, SseReply, Step, unreadable};
use crate::wire::draft::{Block, BlockIndex, Draft, Stopped};
use crate::wire::sse::Frame;

/// A decoder for one response. A call of `answer_tool` is the answer itself: it becomes text.
pub(super) fn decoder(answer_tool: Option<String>, limits: Limits) -> Box<dyn Decoder> {
    let reply = Reply {
        answer_tool,
        draft: Draft::new(limits),
        begun: false,
        open: Vec::new(),
        texts: Vec::new(),
        answers: Vec::new(),
        counts: Counts::default(),
        ended: None,
    };
    Box::new(SseReply::new(limits, reply))
}

/// A response so far.
#[derive(Debug)]
struct Reply {
    answer_tool: Option<String>,
    draft: Draft,
    begun: bool,
    /// The blocks that have started and not stopped, by the service's index.
    open: Vec<(u64, OpenBlock)>,
    /// Blocks of plain text.
    texts: Vec<BlockIndex>,
    /// Calls of the answer tool.
    answers: Vec<BlockIndex>,
    counts: Counts,
    ended: Option<Stopped>,
}

/// What the pieces of a block are added to.
#[derive(Clone, Copy, Debug)]
enum OpenBlock {
    Text(BlockIndex),
    Thinking(BlockIndex),
    Arguments(BlockIndex),
    /// Of a type that is not known, or whole from its start.
    Closed,
}

impl SseEvents for Reply {
    fn missing(&self) -> String {
        match self.ended {
            Some(_) => "the stream ended before `message_stop`".to_owned(),
            None => "the stream ended before the response was finished".to_owned(),
        }
    }

    fn whole(mut self, with: &Finish<'_>) -> Result<Response, ProviderError> {
        let Some(ended) = self.ended else {
            return Err(ProviderError::Incomplete { message: "`message_stop` came without a stop reason".to_owned() });
        };
        self.settle_answer(ended);
        Ok(self.draft.whole(ended, with))
    }

    fn event(&mut self, frame: &Frame<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<Step, ProviderError> {
        let data = frame.data.as_ref();
        let event: Event<'_> = match serde_json::from_str(data) {
            Ok(event) => event,
            Err(_) if frame.event == "error" => return Err(classify_error(data)),
            Err(error) => return Err(unreadable(&error, data)),
        };
        let kind = event.kind.as_ref().map_or(frame.event.as_ref(), |kind| kind.0.as_ref());
        match kind {
            "ping" => return Ok(Step::KeepAlive),
            "error" => return Err(classify_error(event.error.map_or(data, RawValue::get))),
            _ => {}
        }
        if !std::mem::replace(&mut self.begun, true) {
            emit(StreamEvent::Start);
        }
        let index = event.index.and_then(|index| index.get().parse::<u64>().ok()).unwrap_or(0);
        match (kind, event.message, event.content_block, event.delta) {
            ("message_start", Some(message), _, _) => self.opening(&read(message)?),
            ("content_block_start", _, Some(block), _) => self.start(index, block, emit),
            ("content_block_delta", _, _, Some(delta)) => self.piece(index, delta, emit),
            ("content_block_stop", _, _, _) => {
                if let Some(at) = self.open.iter().rposition(|(open, _)| *open == index) {
                    self.open.remove(at);
                }
                Ok(Step::Data)
            }
            ("message_delta", _, _, delta) => {
                if let Some(usage) = event.usage {
                    self.count(read(usage)?);
                }
                if let Some(delta) = delta {
                    self.ending(&read(delta)?, emit)?;
                }
                Ok(Step::Data)
            }
            ("message_stop", _, _, _) => Ok(Step::Done),
            _ => Ok(Step::Unknown),
        }
    }
}

impl Reply {
    fn opening(&mut self, message: &Opening<'_>) -> Result<Step, ProviderError> {
        if let Some(model) = message.model.as_ref().filter(|model| !model.0.is_empty()) {
            self.draft.model = Some(model.0.clone().into_owned());
        }
        if let Some(usage) = message.usage {
            self.count(read(usage)?);
        }
        Ok(Step::Data)
    }

    fn count(&mut self, counts: Counts) {
        self.counts = self.counts.and(counts);
        self.draft.usage = self.counts.classes();
    }

    fn start(
        &mut self,
        index: u64,
        block: &RawValue,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<Step, ProviderError> {
        let (slot, step) = match kind_of(block)?.as_ref() {
            "text" => {
                let Saying { text } = read(block)?;
                let at = self.draft.open(Block::Text(owned(text)), emit)?;
                self.texts.push(at);
                (OpenBlock::Text(at), Step::Data)
            }
            "thinking" => {
                let Thought { thinking, signature } = read(block)?;
                let block = Block::Thinking { text: owned(thinking), seal: owned(signature) };
                (OpenBlock::Thinking(self.draft.open(block, emit)?), Step::Data)
            }
            "redacted_thinking" => {
                let Redacted { data } = read(block)?;
                let seal = format!("{REDACTED}{}", owned(data));
                self.draft.open(Block::Thinking { text: String::new(), seal }, emit)?;
                (OpenBlock::Closed, Step::Data)
            }
            "tool_use" => (self.start_call(read(block)?, emit)?, Step::Data),
            _ => (OpenBlock::Closed, Step::Unknown),
        };
        self.open.push((index, slot));
        Ok(step)
    }

    fn start_call(&mut self, call: ToolUse<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<OpenBlock, ProviderError> {
        let name = owned(call.name);
        // Arguments that came whole are not added to.
        let arguments = call.input.map(RawValue::get).filter(|input| says_something(input)).unwrap_or_default();
        let slot = |at| if arguments.is_empty() { OpenBlock::Arguments(at) } else { OpenBlock::Closed };
        if self.answer_tool.as_ref().is_some_and(|answer| *answer == name) {
            let at = self.draft.open(Block::Text(arguments.to_owned()), emit)?;
            self.answers.push(at);
            return Ok(slot(at));
        }
        let block = Block::Call { id: owned(call.id), name, arguments: arguments.to_owned() };
        Ok(slot(self.draft.open(block, emit)?))
    }

    fn piece(
        &mut self,
        index: u64,
        delta: &RawValue,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<Step, ProviderError> {
        let slot = self.open.iter().rfind(|(open, _)| *open == index).map_or(OpenBlock::Closed, |(_, slot)| *slot);
        match (kind_of(delta)?.as_ref(), slot) {
            ("text_delta", OpenBlock::Text(at)) => {
                let Saying { text } = read(delta)?;
                self.draft.say(at, &text.unwrap_or_default().0, emit)?;
            }
            ("thinking_delta", OpenBlock::Thinking(at)) => {
                let Thought { thinking, .. } = read(delta)?;
                self.draft.say(at, &thinking.unwrap_or_default().0, emit)?;
            }
            ("signature_delta", OpenBlock::Thinking(at)) => {
                let Thought { signature, .. } = read(delta)?;
                self.draft.seal(at, &signature.unwrap_or_default().0)?;
            }
            ("input_json_delta", OpenBlock::Arguments(at)) => {
                let InputJson { partial_json } = read(delta)?;
                self.draft.say(at, &partial_json.unwrap_or_default().0, emit)?;
            }
            _ => return Ok(Step::Unknown),
        }
        Ok(Step::Data)
    }

    fn ending(&mut self, ending: &Ending<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), ProviderError> {
        let Some(reason) = &ending.stop_reason else { return Ok(()) };
        self.ended = Some(match reason.0.as_ref() {
            // The service stopped in the middle of work of its own, which is sent for again.
            "pause_turn" => {
                let message = "the service paused the turn and is asked to go on".to_owned();
                return Err(ProviderError::Incomplete { message });
            }
            "max_tokens" | "model_context_window_exceeded" => Stopped::Length,
            "refusal" => Stopped::CutShort,
            // `end_turn`, `stop_sequence`, `tool_use`, and whatever the service invents.
            _ => Stopped::Whole,
        });
        if self.ended == Some(Stopped::CutShort) && !self.said_something() {
            let details = ending.stop_details.and_then(|details| read::<StopDetails<'_>>(details).ok());
            let category = details.and_then(|details| details.category);
            let category = category.map(|category| format!(", {}", category.0)).unwrap_or_default();
            let text = Wordless::Declined.stand_in(&format!("{}{category}", reason.0));
            let at = self.draft.open(Block::Text(text), emit)?;
            self.texts.push(at);
        }
        Ok(())
    }

    /// Whether there is anything beside reasoning.
    fn said_something(&mut self) -> bool {
        let draft = &mut self.draft;
        draft.has_calls()
            || self.texts.iter().chain(&self.answers).any(|at| match draft.block(*at) {
                Some(Block::Text(text)) => !text.trim().is_empty(),
                Some(Block::Thinking { .. } | Block::Call { .. }) | None => false,
            })
    }

    /// Where the answer was asked for in a form, it is the last call of the answer tool and nothing else. With calls of
    /// other tools beside it, it came too early and is dropped.
    fn settle_answer(&mut self, ended: Stopped) {
        let answer = if self.draft.has_calls() { None } else { self.answers.pop() };
        let dropped = match answer {
            Some(_) => self.texts.iter().chain(&self.answers),
            None => [].iter().chain(&self.answers),
        };
        for at in dropped {
            if let Some(Block::Text(text)) = self.draft.block(*at) {
                text.clear();
            }
        }
        if let Some(Block::Text(text)) = answer.and_then(|at| self.draft.block(at))
            && text.trim().is_empty()
            && ended == Stopped::Whole
        {
            *text = "{}".to_owned();
        }
    }
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, ProviderError> {
    serde_json::from_str(raw.get()).map_err(|error| unreadable(&error, raw.get()))
}

fn kind_of(raw: &RawValue) -> Result<Cow<'_, str>, ProviderError> {
    let TypeOnly { kind } = read(raw)?;
    Ok(kind.unwrap_or_default().0)
}

fn owned(text: Option<Text<'_>>) -> String {
    text.unwrap_or_default().0.into_owned()
}

/// Whether a call's first `input` holds arguments.
fn says_something(input: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(input).is_ok_and(|arguments| !arguments.is_empty())
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
