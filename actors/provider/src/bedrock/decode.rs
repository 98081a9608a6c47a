//! The response side of Bedrock's ConverseStream; pure: bytes in, events and one whole response out.
//!
//! `messageStop` ends what the model says; `metadata`, the last event, says what it cost. A body that ends between the
//! two is a whole response of unknown cost: it was paid for and is not asked for again.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use playhouse_protocol::{ProviderError, StreamEvent, Usage, Wordless};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::{AnswerTool, Shape};
use super::failure::in_stream;
use super::frames::{Frame, FrameError, Frames};
use crate::wire::decoder::{Decoder, Finish, Limits, Progress, Response, Step, too_long, unreadable};
use crate::wire::draft::{Block, BlockIndex, Draft, Stopped};

/// What the seal of reasoning that the service keeps to itself begins with; the rest is its base64.
pub(super) const REDACTED: &str = "redacted:";

/// A decoder for one response; `answer` is the tool whose call is the answer.
pub(super) fn decoder(limits: Limits, answer: Option<AnswerTool>) -> Box<dyn Decoder> {
    Box::new(Reply {
        limits,
        frames: Frames::new(limits.frame_bytes),
        wire_bytes: 0,
        data_events: 0,
        unknown_events: 0,
        progress: Progress::Open,
        begun: false,
        draft: Draft::new(limits),
        open: HashMap::new(),
        texts: Vec::new(),
        answer,
        answers: Vec::new(),
        ended: None,
        metered: false,
    })
}

/// A response so far.
struct Reply {
    limits: Limits,
    frames: Frames,
    wire_bytes: usize,
    data_events: u64,
    unknown_events: u64,
    progress: Progress,
    begun: bool,
    draft: Draft,
    /// The blocks that may still grow, by the service's index.
    open: HashMap<u64, (BlockIndex, BlockKind)>,
    /// The model's plain text.
    texts: Vec<BlockIndex>,
    answer: Option<AnswerTool>,
    /// Calls of the answer's tool, held as text.
    answers: Vec<BlockIndex>,
    /// How the response stopped, once `messageStop` came.
    ended: Option<Stopped>,
    /// Whether `metadata` came, which has the usage.
    metered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    Call,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart<'a> {
    #[serde(default)]
    content_block_index: u64,
    #[serde(borrow, default)]
    start: Start<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow, default)]
    tool_use: Option<ToolStart<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolStart<'a> {
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta<'a> {
    #[serde(default)]
    content_block_index: u64,
    #[serde(borrow, default)]
    delta: Delta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_use: Option<ToolDelta<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<ReasoningDelta<'a>>,
}

#[derive(Deserialize)]
struct ToolDelta<'a> {
    #[serde(borrow, default)]
    input: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningDelta<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    redacted_content: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStop {
    #[serde(default)]
    content_block_index: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop {
    #[serde(default)]
    stop_reason: String,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    usage: Tokens,
}

/// `inputTokens` counts neither what was read from the cache nor what was written to it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tokens {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_write_input_tokens: u64,
}

impl Decoder for Reply {
    fn feed(&mut self, bytes: &[u8], emit: &mut dyn FnMut(StreamEvent)) -> Result<Progress, ProviderError> {
        if self.progress == Progress::Done {
            return Ok(Progress::Done);
        }
        self.wire_bytes = self.wire_bytes.saturating_add(bytes.len());
        if self.wire_bytes > self.limits.wire_bytes {
            return Err(too_long(self.limits.wire_bytes));
        }
        self.frames.push(bytes);
        match self.read(emit) {
            // The model's last word is here already: nothing that comes after can take it back.
            Err(_) if self.ended.is_some() => self.progress = Progress::Done,
            Err(error) => return Err(error),
            Ok(progress) => self.progress = progress,
        }
        Ok(self.progress)
    }

    fn data_events(&self) -> u64 {
        self.data_events
    }

    fn unknown_events(&self) -> u64 {
        self.unknown_events
    }

    fn finish(self: Box<Self>, with: &Finish<'_>) -> Result<Response, ProviderError> {
        let mut reply = *self;
        let Some(ended) = reply.ended else {
            let message = "the stream ended before `messageStop`".to_owned();
            return Err(ProviderError::Incomplete { message });
        };
        reply.settle_answer();
        Ok(reply.draft.whole(ended, with))
    }
}

impl Reply {
    fn read(&mut self, emit: &mut dyn FnMut(StreamEvent)) -> Result<Progress, ProviderError> {
        loop {
            let frame = match self.frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(Progress::Open),
                Err(error @ FrameError::TooLong { .. }) => {
                    return Err(ProviderError::Other { message: format!("the response was refused: {error}") });
                }
                Err(error @ FrameError::Damaged(_)) => {
                    return Err(ProviderError::Incomplete { message: error.to_string() });
                }
            };
            let step = self.frame(&frame, emit)?;
            match step {
                Step::KeepAlive => continue,
                Step::Unknown => self.unknown_events += 1,
                Step::Data | Step::Done => {}
            }
            self.data_events += 1;
            if step == Step::Done {
                return Ok(Progress::Done);
            }
        }
    }

    fn frame(&mut self, frame: &Frame, emit: &mut dyn FnMut(StreamEvent)) -> Result<Step, ProviderError> {
        let payload = String::from_utf8_lossy(&frame.payload);
        match frame.text(":message-type") {
            Some("exception") => return Err(in_stream(frame.text(":exception-type").unwrap_or_default(), &payload)),
            Some("error") => {
                let said = frame.text(":error-message").unwrap_or(&payload);
                return Err(in_stream(frame.text(":error-code").unwrap_or_default(), said));
            }
            Some("event") | None => {}
            Some(_) => return Ok(Step::Unknown),
        }
        self.event(frame.text(":event-type").unwrap_or_default(), &payload, emit)
    }

    fn event(&mut self, name: &str, payload: &str, emit: &mut dyn FnMut(StreamEvent)) -> Result<Step, ProviderError> {
        let known = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"];
        if known.contains(&name) && !std::mem::replace(&mut self.begun, true) {
            emit(StreamEvent::Start);
        }
        match name {
            "messageStart" => Ok(Step::Data),
            "contentBlockStart" => {
                let event: BlockStart<'_> = borrowed(payload)?;
                let Some(call) = event.start.tool_use else { return Ok(Step::Unknown) };
                self.call(event.content_block_index, call, emit)?;
                Ok(Step::Data)
            }
            "contentBlockDelta" => {
                let event: BlockDelta<'_> = borrowed(payload)?;
                self.delta(event.content_block_index, event.delta, emit)
            }
            "contentBlockStop" => {
                let event: BlockStop = owned(payload)?;
                self.open.remove(&event.content_block_index);
                Ok(Step::Data)
            }
            "messageStop" => {
                let event: MessageStop = owned(payload)?;
                self.stop(&event.stop_reason, emit)?;
                Ok(if self.metered { Step::Done } else { Step::Data })
            }
            "metadata" => {
                let tokens = owned::<Metadata>(payload)?.usage;
                let (read, write) = (tokens.cache_read_input_tokens, tokens.cache_write_input_tokens);
                self.draft.usage = Usage::of(tokens.input_tokens, tokens.output_tokens, read, write, 0);
                self.metered = true;
                Ok(if self.ended.is_some() { Step::Done } else { Step::Data })
            }
            _ => Ok(Step::Unknown),
        }
    }

    fn call(
        &mut self,
        index: u64,
        call: ToolStart<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ProviderError> {
        let place = if self.answer.as_ref().is_some_and(|answer| answer.name == call.name) {
            let place = self.draft.open(Block::Text(String::new()), emit)?;
            self.answers.push(place);
            place
        } else {
            let (id, name) = (call.tool_use_id.into_owned(), call.name.into_owned());
            self.draft.open(Block::Call { id, name, arguments: String::new() }, emit)?
        };
        self.open.insert(index, (place, BlockKind::Call));
        Ok(())
    }

    fn delta(
        &mut self,
        index: u64,
        delta: Delta<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<Step, ProviderError> {
        let mut step = Step::Unknown;
        if let Some(text) = delta.text {
            let at = self.place(index, BlockKind::Text, emit)?;
            self.draft.say(at, &text, emit)?;
            step = Step::Data;
        }
        if let Some(call) = delta.tool_use {
            let at = self.place(index, BlockKind::Call, emit)?;
            self.draft.say(at, &call.input, emit)?;
            step = Step::Data;
        }
        if let Some(reasoning) = delta.reasoning_content {
            let at = self.place(index, BlockKind::Thinking, emit)?;
            self.draft.say(at, reasoning.text.as_deref().unwrap_or_default(), emit)?;
            self.draft.seal(at, reasoning.signature.as_deref().unwrap_or_default())?;
            if let Some(hidden) = reasoning.redacted_content {
                self.hide(at, &hidden)?;
            }
            step = Step::Data;
        }
        Ok(step)
    }

    /// The block of an index. Text and reasoning are not announced: they open with their first piece.
    fn place(
        &mut self,
        index: u64,
        kind: BlockKind,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<BlockIndex, ProviderError> {
        if let Some((place, _)) = self.open.get(&index).filter(|(_, open)| *open == kind) {
            return Ok(*place);
        }
        let block = match kind {
            BlockKind::Text => Block::Text(String::new()),
            BlockKind::Thinking => Block::Thinking { text: String::new(), seal: String::new() },
            BlockKind::Call => Block::Call { id: String::new(), name: String::new(), arguments: String::new() },
        };
        let place = self.draft.open(block, emit)?;
        if kind == BlockKind::Text {
            self.texts.push(place);
        }
        self.open.insert(index, (place, kind));
        Ok(place)
    }

    /// Adds to reasoning that the service keeps to itself. Pieces are joined as bytes: each is base64 with its own end.
    fn hide(&mut self, at: BlockIndex, piece: &str) -> Result<(), ProviderError> {
        let Some(Block::Thinking { seal, .. }) = self.draft.block(at) else { return Ok(()) };
        let Some(before) = seal.strip_prefix(REDACTED) else {
            return self.draft.seal(at, &format!("{REDACTED}{piece}"));
        };
        let joined = STANDARD.decode(before).and_then(|mut bytes| {
            bytes.extend(STANDARD.decode(piece)?);
            Ok(STANDARD.encode(bytes))
        });
        let Ok(joined) = joined else {
            return Err(ProviderError::Incomplete { message: "redacted reasoning is no base64".to_owned() });
        };
        seal.clear();
        self.draft.seal(at, &format!("{REDACTED}{joined}"))
    }

    fn stop(&mut self, reason: &str, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), ProviderError> {
        let (ended, silence) = match reason {
            "max_tokens" | "model_context_window_exceeded" => (Stopped::Length, None),
            "guardrail_intervened" | "content_filtered" | "refusal" => (Stopped::CutShort, Some(Wordless::Declined)),
            "malformed_model_output" | "malformed_tool_use" => (Stopped::CutShort, Some(Wordless::NoUse)),
            _ => (Stopped::Whole, None),
        };
        let says_nothing = !self.draft.has_calls() && !self.says_text();
        if let Some(silence) = silence.filter(|_| says_nothing) {
            let place = self.draft.open(Block::Text(silence.stand_in(reason)), emit)?;
            self.texts.push(place);
        }
        self.ended = Some(ended);
        Ok(())
    }

    fn says_text(&mut self) -> bool {
        let Self { draft, texts, answers, .. } = self;
        texts
            .iter()
            .chain(answers.iter())
            .any(|at| matches!(draft.block(*at), Some(Block::Text(text)) if !text.trim().is_empty()))
    }

    /// The call of the answer's tool is the answer, and other text is not; beside calls of real tools it is nothing.
    fn settle_answer(&mut self) {
        let Some(answer) = &self.answer else { return };
        let Some((first, others)) = self.answers.split_first() else { return };
        let drop = |draft: &mut Draft, at: BlockIndex| {
            if let Some(Block::Text(text)) = draft.block(at) {
                text.clear();
            }
        };
        others.iter().for_each(|at| drop(&mut self.draft, *at));
        if self.draft.has_calls() {
            drop(&mut self.draft, *first);
            return;
        }
        self.texts.iter().for_each(|at| drop(&mut self.draft, *at));
        let Some(Block::Text(text)) = self.draft.block(*first) else { return };
        match answer.shape {
            _ if self.ended != Some(Stopped::Whole) => {}
            Shape::Object if text.trim().is_empty() => *text = "{}".to_owned(),
            Shape::Object => {}
            Shape::Wrapped => {
                if let Ok(Value::Object(mut object)) = serde_json::from_str(text)
                    && let Some(value) = object.remove(super::answer::VALUE)
                {
                    *text = value.to_string();
                }
            }
        }
    }
}

fn borrowed<'a, T: Deserialize<'a>>(payload: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(payload).map_err(|error| unreadable(&error, payload))
}

fn owned<T: DeserializeOwned>(payload: &str) -> Result<T, ProviderError> {
    serde_json::from_str(payload).map_err(|error| unreadable(&error, payload))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
