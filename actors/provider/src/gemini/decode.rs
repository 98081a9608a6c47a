//! The response side of Gemini; pure: bytes in, events and one whole response out.
//!
//! There is no terminal event of its own kind: the response is complete when a candidate gave its finish reason and the
//! body has ended. What the call consumed may come with that reason or after it.

use playhouse_protocol::{Content, ProviderError, StreamEvent, Wordless};

use super::chunk::{Candidate, Chunk, FunctionCall, Part, UsageReport};
use super::failure;
use crate::provider::excerpt;
use crate::wire::decoder::{Decoder, Finish, Limits, Response, SseEvents, SseReply, Step, unreadable};
use crate::wire::draft::{Block, BlockIndex, Draft, Stopped};
use crate::wire::sse::Frame;

/// A decoder for one response. A call of the tool named `answer` is the answer itself.
pub(crate) fn decoder(limits: Limits, answer: Option<String>) -> Box<dyn Decoder> {
    Box::new(SseReply::new(limits, Reply::new(limits, answer)))
}

/// A response so far.
#[derive(Debug)]
struct Reply {
    draft: Draft,
    begun: bool,
    usage: UsageReport,
    finish: Option<Reason>,
    /// The tool whose arguments are the answer.
    answer: Option<String>,
    /// Where the answer stands.
    answer_at: Option<BlockIndex>,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Done,
    Length,
    /// The service declined, in its own word.
    Declined(String),
}

impl Reply {
    fn new(limits: Limits, answer: Option<String>) -> Self {
        let usage = UsageReport::default();
        Self { draft: Draft::new(limits), begun: false, usage, finish: None, answer, answer_at: None }
    }
}

impl SseEvents for Reply {
    fn event(&mut self, frame: &Frame<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<Step, ProviderError> {
        let data = frame.data.as_ref();
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| unreadable(&error, data))?;
        if chunk.error.is_some() {
            return Err(failure::classify_in_place(data).unwrap_or_else(|| ProviderError::classify_in_stream(data)));
        }
        let known = chunk.candidates.is_some()
            || chunk.prompt_feedback.is_some()
            || chunk.usage_metadata.is_some()
            || chunk.model_version.is_some();
        if !known {
            return Ok(Step::Unknown);
        }
        if !std::mem::replace(&mut self.begun, true) {
            emit(StreamEvent::Start);
        }
        if let Some(model) = chunk.model_version.filter(|model| self.draft.model.is_none() && !model.0.is_empty()) {
            self.draft.model = Some(model.0.into_owned());
        }
        if let Some(report) = chunk.usage_metadata {
            self.usage = report.after(self.usage);
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            self.finish = Some(Reason::Declined(reason.0.into_owned()));
        }
        let mut step = Step::Data;
        for candidate in chunk.candidates.into_iter().flatten().filter(|one| one.index.unwrap_or(0) == 0) {
            if self.candidate(candidate, emit)? == Step::Unknown {
                step = Step::Unknown;
            }
        }
        Ok(step)
    }

    fn whole(mut self, with: &Finish<'_>) -> Result<Response, ProviderError> {
        let Some(reason) = self.finish.take() else {
            return Err(ProviderError::Incomplete { message: self.missing() });
        };
        let ended = match reason {
            Reason::Done => Stopped::Whole,
            Reason::Length => Stopped::Length,
            Reason::Declined(_) => Stopped::CutShort,
        };
        let answer = self.take_answer();
        self.draft.usage = self.usage.classes();
        let calls = self.draft.has_calls();
        let mut response = self.draft.whole(ended, with);
        if let Some(text) = answer.filter(|_| !calls) {
            // The answer is what was asked for; words around it would make it something else than JSON.
            response.content.retain(|block| !matches!(block, Content::Text { .. }));
            response.content.push(Content::Text { text });
        }
        if let Reason::Declined(reason) = reason
            && response.content.iter().all(|block| matches!(block, Content::Thinking { .. }))
        {
            response.content.push(Content::text(Wordless::Declined.stand_in(&excerpt(&reason, 100))));
        }
        Ok(response)
    }

    fn missing(&self) -> String {
        "the stream ended before a finish reason".to_owned()
    }

    fn body_ended(&mut self) -> Step {
        match self.finish {
            Some(_) => Step::Done,
            None => Step::Data,
        }
    }
}

impl Reply {
    fn candidate(
        &mut self,
        candidate: Candidate<'_>,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<Step, ProviderError> {
        let mut step = Step::Data;
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            if self.part(part, emit)? == Step::Unknown {
                step = Step::Unknown;
            }
        }
        let Some(reason) = candidate.finish_reason else { return Ok(step) };
        let message = || match &candidate.finish_message {
            Some(message) => format!("{}: {}", reason.0, excerpt(&message.0, 200)),
            None => reason.0.clone().into_owned(),
        };
        self.finish = match reason.0.as_ref() {
            "" | "FINISH_REASON_UNSPECIFIED" => return Ok(step),
            "MAX_TOKENS" => Some(Reason::Length),
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "LANGUAGE"
            | "OTHER"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "IMAGE_OTHER"
            | "NO_IMAGE" => Some(Reason::Declined(reason.0.into_owned())),
            // The model wrote something that is no call; another try often is one.
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MALFORMED_RESPONSE" => {
                return Err(ProviderError::Incomplete {
                    message: format!("the model's answer is unusable ({})", message()),
                });
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                return Err(ProviderError::Api { message: message() });
            }
            // `STOP`, and whatever is invented.
            _ => Some(Reason::Done),
        };
        Ok(step)
    }

    fn part(&mut self, part: Part<'_>, emit: &mut dyn FnMut(StreamEvent)) -> Result<Step, ProviderError> {
        let seal = part.thought_signature.map(|seal| seal.0).unwrap_or_default();
        if let Some(call) = part.function_call {
            self.call(call, &seal, emit)?;
            return Ok(Step::Data);
        }
        let Some(text) = part.text else {
            if !seal.is_empty() {
                self.seal(&seal, emit)?;
            }
            return Ok(Step::Unknown);
        };
        if part.thought == Some(true) {
            let at = match self.draft.last() {
                Some((at, Block::Thinking { seal, .. })) if seal.is_empty() => at,
                Some(_) | None => {
                    self.draft.open(Block::Thinking { text: String::new(), seal: String::new() }, emit)?
                }
            };
            self.draft.say(at, &text.0, emit)?;
            self.draft.seal(at, &seal)?;
            return Ok(Step::Data);
        }
        if !seal.is_empty() {
            self.seal(&seal, emit)?;
        }
        if text.0.is_empty() {
            return Ok(Step::Data);
        }
        match self.draft.last() {
            Some((at, Block::Text(_))) if self.answer_at != Some(at) => self.draft.say(at, &text.0, emit)?,
            Some(_) | None => {
                self.draft.open(Block::Text(text.0.into_owned()), emit)?;
            }
        }
        Ok(Step::Data)
    }

    /// Puts the seal of a part before it, in a block of reasoning that says nothing.
    fn seal(&mut self, seal: &str, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), ProviderError> {
        let block = Block::Thinking { text: String::new(), seal: seal.to_owned() };
        self.draft.open(block, emit).map(|_| ())
    }

    fn call(
        &mut self,
        call: FunctionCall<'_>,
        seal: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ProviderError> {
        let name = call.name.map(|name| name.0.into_owned()).unwrap_or_default();
        let arguments = call.args.map(|args| args.get().to_owned()).unwrap_or_default();
        if self.answer.as_ref().is_some_and(|answer| *answer == name) {
            if self.answer_at.is_none() && !arguments.is_empty() {
                self.answer_at = Some(self.draft.open(Block::Text(arguments), emit)?);
            }
            return Ok(());
        }
        if !seal.is_empty() {
            self.seal(seal, emit)?;
        }
        let id = call.id.map(|id| id.0.into_owned()).unwrap_or_default();
        self.draft.open(Block::Call { id, name, arguments }, emit).map(|_| ())
    }

    /// The answer, out of the draft.
    fn take_answer(&mut self) -> Option<String> {
        match self.draft.block(self.answer_at?)? {
            Block::Text(text) => Some(std::mem::take(text)),
            Block::Thinking { .. } | Block::Call { .. } => None,
        }
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
