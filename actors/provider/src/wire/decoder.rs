//! From the bytes of an answer to its events and the whole response; pure.

use std::ops::ControlFlow;

use playhouse_protocol::{Content, ProviderError, StopReason, StreamEvent, Usage};

use super::sse::{Frame, SseDecoder};

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
    /// The terminal event came; what follows on the wire has no meaning.
    Done,
}

/// What one event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A part of the response.
    Data,
    /// A sign of life and no more: it does not push deadlines away.
    KeepAlive,
    /// Of a kind that the decoder does not know: passed over and counted. It is a part of the response.
    Unknown,
    /// The event without which a response is not whole.
    Done,
}

/// A response whose terminal event has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Reasoning, text and tool calls, as the model gave them.
    pub content: Vec<Content>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// What the call consumed; zero where the service did not say.
    pub usage: Usage,
    /// The model that the service says answered.
    pub model: Option<String>,
}

/// What the whole response is made with.
pub struct Finish<'a> {
    /// How many responses the conversation had before: for the ids of calls that have none.
    pub response: u64,
    /// Whether the conversation has a call of this id already.
    pub taken: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Finish<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finish").field("response", &self.response).finish_non_exhaustive()
    }
}

/// Reads one response, from bytes that may be split anywhere.
pub trait Decoder: Send {
    /// Takes the next bytes and hands the events in them to `emit`.
    fn feed(&mut self, bytes: &[u8], emit: &mut dyn FnMut(StreamEvent)) -> Result<Progress, ProviderError>;

    /// How many data events have come; keep-alives are none.
    fn data_events(&self) -> u64;

    /// How many events of unknown kinds were passed over.
    fn unknown_events(&self) -> u64;

    /// The stream has ended: gives the response if its terminal event came, else [`ProviderError::Incomplete`].
    fn finish(self: Box<Self>, with: &Finish<'_>) -> Result<Response, ProviderError>;
}

/// What a protocol over server-sent events makes of them.
pub(crate) trait SseEvents: Send {
    /// Takes the next event, and hands on what the agent is to see of it.
    fn event(&mut self, frame: &Frame<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<Step, ProviderError>;

    /// The whole response; called only after [`Step::Done`].
    fn whole(self, with: &Finish<'_>) -> Result<Response, ProviderError>;

    /// What is missing when the stream ends without its terminal event, in a few words.
    fn missing(&self) -> String;

    /// The end of the body came before a terminal event. A protocol whose last event is known by what it says, and
    /// followed by nothing, has read it already and need not do anything.
    fn body_ended(&mut self) -> Step {
        Step::Data
    }
}

/// A decoder of server-sent events.
#[derive(Debug)]
pub(crate) struct SseReply<E> {
    limits: Limits,
    sse: SseDecoder,
    wire_bytes: usize,
    data_events: u64,
    unknown_events: u64,
    progress: Progress,
    events: E,
}

impl<E: SseEvents> SseReply<E> {
    pub(crate) fn new(limits: Limits, events: E) -> Self {
        Self {
            limits,
            sse: SseDecoder::new(limits.frame_bytes),
            wire_bytes: 0,
            data_events: 0,
            unknown_events: 0,
            progress: Progress::Open,
            events,
        }
    }
}

impl<E: SseEvents> Decoder for SseReply<E> {
    fn feed(&mut self, bytes: &[u8], emit: &mut dyn FnMut(StreamEvent)) -> Result<Progress, ProviderError> {
        let Self { limits, sse, wire_bytes, data_events, unknown_events, progress, events } = self;
        if *progress == Progress::Done {
            return Ok(Progress::Done);
        }
        *wire_bytes = wire_bytes.saturating_add(bytes.len());
        if *wire_bytes > limits.wire_bytes {
            return Err(too_long(limits.wire_bytes));
        }
        let fed = sse.feed(bytes, |frame| {
            let step = match events.event(&frame, emit) {
                Ok(step) => step,
                Err(error) => return ControlFlow::Break(Err(error)),
            };
            match step {
                Step::KeepAlive => return ControlFlow::Continue(()),
                Step::Unknown => *unknown_events += 1,
                Step::Data | Step::Done => {}
            }
            *data_events += 1;
            match step {
                Step::Done => ControlFlow::Break(Ok(())),
                Step::Data | Step::KeepAlive | Step::Unknown => ControlFlow::Continue(()),
            }
        });
        match fed {
            Ok(ControlFlow::Continue(())) => Ok(Progress::Open),
            Ok(ControlFlow::Break(Err(error))) => Err(error),
            Ok(ControlFlow::Break(Ok(()))) => {
                *progress = Progress::Done;
                Ok(Progress::Done)
            }
            Err(error) => Err(ProviderError::Other { message: format!("the response was refused: {error}") }),
        }
    }

    fn data_events(&self) -> u64 {
        self.data_events
    }

    fn unknown_events(&self) -> u64 {
        self.unknown_events
    }

    fn finish(self: Box<Self>, with: &Finish<'_>) -> Result<Response, ProviderError> {
        let mut reply = *self;
        if reply.progress == Progress::Open && reply.events.body_ended() == Step::Done {
            reply.progress = Progress::Done;
        }
        match reply.progress {
            Progress::Done => reply.events.whole(with),
            Progress::Open => Err(ProviderError::Incomplete { message: reply.events.missing() }),
        }
    }
}

/// The error of a response that does not end.
pub(crate) fn too_long(cap: usize) -> ProviderError {
    ProviderError::Other { message: format!("the response is longer than {cap} bytes and was stopped") }
}

/// The error of an event that cannot be read.
pub(crate) fn unreadable(error: &serde_json::Error, data: &str) -> ProviderError {
    let data = crate::provider::excerpt(data, 200);
    ProviderError::Incomplete { message: format!("an event of the response cannot be read ({error}): {data}") }
}
