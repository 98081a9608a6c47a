//! The response side of OpenAI Responses; pure: bytes in, events and one whole response out.
//!
//! A response is complete only when `response.completed` or `response.incomplete` came. Its items open one after the
//! other; what belongs to one is found by `output_index` and `item_id`. What comes at an item's end is the whole of it
//! once more: taken where the pieces did not say it all.

use std::cmp::Ordering;

use playhouse_protocol::{ProviderError, StreamEvent, Wordless};
use serde::{Deserialize, Serialize};

use super::event::{Delta, EventKind, Item, ItemEvent, Part, ResponseEvent, Summary, Text};
use super::failure;
use crate::wire::decoder::{Decoder, Finish, Limits, Response, SseEvents, SseReply, Step, unreadable};
use crate::wire::draft::{Block, BlockIndex, Draft, Stopped};
use crate::wire::sse::Frame;

/// What separates the parts of reasoning.
const BLANK_LINE: &str = "\n\n";

/// A decoder for one response.
pub(crate) fn decoder(limits: Limits) -> Box<dyn Decoder> {
    let reply =
        Reply { draft: Draft::new(limits), begun: false, spoke: false, refused: false, items: Vec::new(), ended: None };
    Box::new(SseReply::new(limits, reply))
}

/// A response so far.
#[derive(Debug)]
struct Reply {
    draft: Draft,
    begun: bool,
    /// A message has said something.
    spoke: bool,
    /// Whether a message is, or has, a refusal.
    refused: bool,
    /// The items that have opened; each has a block, so their number is bounded as that of blocks is.
    items: Vec<Open>,
    ended: Option<Stopped>,
}

/// An item that has opened.
#[derive(Debug)]
struct Open {
    what: What,
    index: Option<u64>,
    id: String,
    /// Its block; of a message with several parts, the last part's.
    place: BlockIndex,
    /// The part that is being said.
    part: Option<u64>,
    whole: Whole,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Message,
    Reasoning,
    Call,
}

/// Whether an item's end came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    NotYet,
    Yes,
}

/// What lets a block of reasoning be sent back, as it is kept.
#[derive(Serialize)]
struct Seal<'a> {
    id: &'a str,
    encrypted_content: &'a str,
}

type Emit<'a> = &'a mut dyn FnMut(StreamEvent);

impl SseEvents for Reply {
    fn event(&mut self, frame: &Frame<'_>, emit: Emit<'_>) -> Result<Step, ProviderError> {
        let data = frame.data.as_ref();
        let kind = EventKind::of(frame).map_err(|error| unreadable(&error, data))?;
        let is_part = !matches!(kind, EventKind::KeepAlive | EventKind::Unknown | EventKind::Error | EventKind::Failed);
        if is_part && !std::mem::replace(&mut self.begun, true) {
            emit(StreamEvent::Start);
        }
        match kind {
            EventKind::TextDelta => self.delta(What::Message, &read(data)?, emit),
            EventKind::SummaryDelta | EventKind::ReasoningDelta => self.delta(What::Reasoning, &read(data)?, emit),
            EventKind::ArgumentsDelta => self.delta(What::Call, &read(data)?, emit),
            EventKind::ArgumentsDone => self.arguments_done(&read(data)?, emit),
            EventKind::ItemAdded => self.item_added(&read(data)?, emit),
            EventKind::ItemDone => {
                let ItemEvent { output_index, item } = read(data)?;
                self.item_done(output_index, &item, emit)
            }
            EventKind::Begun => {
                self.about(summary(data)?);
                Ok(Step::Data)
            }
            EventKind::Repeated => Ok(Step::Data),
            EventKind::Completed => self.end(Stopped::Whole, summary(data)?, emit),
            EventKind::Incomplete => self.end(Stopped::CutShort, summary(data)?, emit),
            EventKind::Failed => Err(failed(&summary(data)?)),
            EventKind::Error => Err(failure::classify_event(data)),
            EventKind::KeepAlive => Ok(Step::KeepAlive),
            EventKind::Unknown => Ok(Step::Unknown),
        }
    }

    fn whole(mut self, with: &Finish<'_>) -> Result<Response, ProviderError> {
        let Some(ended) = self.ended else { return Err(ProviderError::Incomplete { message: self.missing() }) };
        if ended != Stopped::Whole {
            self.leave_unknown_what_was_cut();
        }
        Ok(self.draft.whole(ended, with))
    }

    fn missing(&self) -> String {
        "the stream ended before `response.completed`".to_owned()
    }
}

impl Reply {
    /// Takes a piece of an item. A message or reasoning that did not open opens here; a call cannot, since its name
    /// is not known: its end brings all of it.
    fn delta(&mut self, what: What, delta: &Delta<'_>, emit: Emit<'_>) -> Result<Step, ProviderError> {
        let piece = text_of(&delta.delta);
        if piece.is_empty() {
            return Ok(Step::Data);
        }
        let (index, id) = (delta.output_index, text_of(&delta.item_id));
        let part = delta.summary_index.or(delta.content_index).unwrap_or_default();
        match what {
            What::Message | What::Reasoning => {
                let at = self.find_or_open(what, index, id, emit)?;
                self.turn_to(at, part, emit)?;
                self.say(at, piece, emit)?;
            }
            What::Call => {
                if let Some(at) = self.find(what, index, id) {
                    self.say(at, piece, emit)?;
                }
            }
        }
        Ok(Step::Data)
    }

    fn arguments_done(&mut self, done: &Delta<'_>, emit: Emit<'_>) -> Result<Step, ProviderError> {
        if let Some(at) = self.find(What::Call, done.output_index, text_of(&done.item_id)) {
            self.complete(at, text_of(&done.arguments), emit)?;
        }
        Ok(Step::Data)
    }

    fn item_added(&mut self, event: &ItemEvent<'_>, emit: Emit<'_>) -> Result<Step, ProviderError> {
        let index = event.output_index;
        let (what, id, block) = match &event.item {
            Item::Message { id, .. } => (What::Message, text_of(id), empty(What::Message)),
            Item::Reasoning { id, .. } => (What::Reasoning, text_of(id), empty(What::Reasoning)),
            Item::FunctionCall { id, call_id, name, arguments, .. } => {
                (What::Call, text_of(id), call(text_of(call_id), text_of(name), text_of(arguments)))
            }
            Item::Other => return Ok(Step::Unknown),
        };
        let twice = |open: &Open| open.what == what && open.index == index && open.id == id;
        if !self.items.iter().any(twice) {
            self.open(what, index, id, block, emit)?;
        }
        Ok(Step::Data)
    }

    fn item_done(&mut self, index: Option<u64>, item: &Item<'_>, emit: Emit<'_>) -> Result<Step, ProviderError> {
        let at = match item {
            Item::Message { id, content } => {
                let at = self.find_or_open(What::Message, index, text_of(id), emit)?;
                self.refused |= parts(content).iter().any(Part::is_refusal);
                for (part, piece) in (0..).zip(parts(content)) {
                    let said = self.items.get(at).and_then(|open| open.part);
                    match said.map_or(Ordering::Greater, |said| part.cmp(&said)) {
                        Ordering::Less => {}
                        Ordering::Equal => self.complete(at, piece.says(), emit)?,
                        Ordering::Greater => {
                            self.turn_to(at, part, emit)?;
                            self.say(at, piece.says(), emit)?;
                        }
                    }
                }
                at
            }
            Item::Reasoning { id, summary, content, encrypted_content } => {
                let at = self.find_or_open(What::Reasoning, index, text_of(id), emit)?;
                let said = if parts(summary).is_empty() { parts(content) } else { parts(summary) };
                let said: Vec<&str> = said.iter().map(Part::says).filter(|text| !text.is_empty()).collect();
                self.complete(at, &said.join(BLANK_LINE), emit)?;
                self.seal(at, text_of(id), text_of(encrypted_content))?;
                at
            }
            Item::FunctionCall { id, call_id, name, arguments, status } => {
                let (id, call_id, name) = (text_of(id), text_of(call_id), text_of(name));
                let at = match self.find(What::Call, index, id) {
                    Some(at) => at,
                    None => self.open(What::Call, index, id, call(call_id, name, ""), emit)?,
                };
                self.name_call(at, call_id, name);
                self.complete(at, text_of(arguments), emit)?;
                if text_of(status) == "incomplete" {
                    return Ok(Step::Data);
                }
                at
            }
            Item::Other => return Ok(Step::Unknown),
        };
        if let Some(open) = self.items.get_mut(at) {
            open.whole = Whole::Yes;
        }
        Ok(Step::Data)
    }

    /// Takes what an event says about the response as a whole.
    fn about(&mut self, summary: Summary<'_>) {
        if let Some(model) = summary.model.filter(|model| self.draft.model.is_none() && !model.0.is_empty()) {
            self.draft.model = Some(model.0.into_owned());
        }
        if let Some(usage) = summary.usage {
            self.draft.usage = usage.classes();
        }
    }

    /// Takes the terminal event. `ended` is how, unless it gives a reason.
    fn end(&mut self, ended: Stopped, summary: Summary<'_>, emit: Emit<'_>) -> Result<Step, ProviderError> {
        if let Some(output) = summary.output.filter(|_| self.items.is_empty()) {
            // A service that streams nothing says it all here.
            let items: Vec<Item<'_>> = read(output.get())?;
            for (index, item) in (0..).zip(&items) {
                self.item_done(Some(index), item, emit)?;
            }
        }
        let reason = summary.incomplete_details.as_ref().map_or("", |details| text_of(&details.reason));
        self.ended = Some(match reason {
            "max_output_tokens" | "max_tokens" => Stopped::Length,
            "content_filter" => {
                if !self.spoke && !self.draft.has_calls() {
                    let note = Wordless::Declined.stand_in("content_filter");
                    self.draft.open(Block::Text(note), emit)?;
                }
                Stopped::CutShort
            }
            _ if self.refused => Stopped::CutShort,
            _ => ended,
        });
        self.about(summary);
        Ok(Step::Done)
    }

    /// The item that an event speaks of: by both of its names, else by its place, else by its id, which some services
    /// change from event to event; one without either is the last of its kind.
    fn find(&self, what: What, index: Option<u64>, id: &str) -> Option<usize> {
        let last = |fits: &dyn Fn(&Open) -> bool| self.items.iter().rposition(|open| open.what == what && fits(open));
        let same_id = |open: &Open| !id.is_empty() && open.id == id;
        last(&|open| open.index == index && same_id(open))
            .or_else(|| last(&|open| index.is_some() && open.index == index))
            .or_else(|| last(&same_id))
            .or_else(|| last(&|_| index.is_none() && id.is_empty()))
    }

    fn find_or_open(
        &mut self,
        what: What,
        index: Option<u64>,
        id: &str,
        emit: Emit<'_>,
    ) -> Result<usize, ProviderError> {
        match self.find(what, index, id) {
            Some(at) => Ok(at),
            None => self.open(what, index, id, empty(what), emit),
        }
    }

    fn open(
        &mut self,
        what: What,
        index: Option<u64>,
        id: &str,
        block: Block,
        emit: Emit<'_>,
    ) -> Result<usize, ProviderError> {
        let place = self.draft.open(block, emit)?;
        self.items.push(Open { what, index, id: id.to_owned(), place, part: None, whole: Whole::NotYet });
        Ok(self.items.len() - 1)
    }

    /// Turns to a part of an item: of a message a block of its own, of reasoning a paragraph.
    fn turn_to(&mut self, at: usize, part: u64, emit: Emit<'_>) -> Result<(), ProviderError> {
        let Some(open) = self.items.get_mut(at) else { return Ok(()) };
        match open.part.replace(part) {
            None => Ok(()),
            Some(same) if same == part => Ok(()),
            Some(_) => match open.what {
                What::Message => {
                    open.place = self.draft.open(empty(What::Message), emit)?;
                    Ok(())
                }
                What::Reasoning => self.say(at, BLANK_LINE, emit),
                What::Call => Ok(()),
            },
        }
    }

    fn say(&mut self, at: usize, piece: &str, emit: Emit<'_>) -> Result<(), ProviderError> {
        let Some(open) = self.items.get(at) else { return Ok(()) };
        self.spoke |= open.what == What::Message && !piece.is_empty();
        self.draft.say(open.place, piece, emit)
    }

    /// Adds what the pieces of a block left out of it. Where they said something else, they stand.
    fn complete(&mut self, at: usize, whole: &str, emit: Emit<'_>) -> Result<(), ProviderError> {
        let Some(open) = self.items.get(at) else { return Ok(()) };
        let said = match self.draft.block(open.place) {
            Some(Block::Text(text) | Block::Thinking { text, .. } | Block::Call { arguments: text, .. }) => {
                text.as_str()
            }
            None => return Ok(()),
        };
        match whole.strip_prefix(said) {
            Some(rest) => self.say(at, rest, emit),
            None => Ok(()),
        }
    }

    /// Keeps what lets a block of reasoning be sent back, if the service gave it.
    fn seal(&mut self, at: usize, id: &str, encrypted_content: &str) -> Result<(), ProviderError> {
        let Some(open) = self.items.get(at).filter(|open| open.whole == Whole::NotYet) else { return Ok(()) };
        if id.is_empty() || encrypted_content.is_empty() {
            return Ok(());
        }
        let seal = serde_json::to_string(&Seal { id, encrypted_content })
            .map_err(|error| ProviderError::Other { message: format!("reasoning could not be kept: {error}") })?;
        self.draft.seal(open.place, &seal)
    }

    /// Gives a call the id and the name that it opened without.
    fn name_call(&mut self, at: usize, call_id: &str, called: &str) {
        let Some(open) = self.items.get(at) else { return };
        if let Some(Block::Call { id, name, .. }) = self.draft.block(open.place) {
            for (own, given) in [(id, call_id), (name, called)] {
                if own.is_empty() {
                    given.clone_into(own);
                }
            }
        }
    }

    /// A call that was cut before its arguments came has none that are known. Blank ones would mean `{}`.
    fn leave_unknown_what_was_cut(&mut self) {
        let cut = |open: &&Open| open.what == What::Call && open.whole == Whole::NotYet;
        for open in self.items.iter().filter(cut) {
            if let Some(Block::Call { arguments, .. }) = self.draft.block(open.place)
                && arguments.trim().is_empty()
            {
                arguments.push('{');
            }
        }
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(data).map_err(|error| unreadable(&error, data))
}

/// What an event says about the response as a whole.
fn summary(data: &str) -> Result<Summary<'_>, ProviderError> {
    let event: ResponseEvent<'_> = read(data)?;
    Ok(event.response.unwrap_or_default())
}

/// The error of a response that failed.
fn failed(summary: &Summary<'_>) -> ProviderError {
    match summary.error {
        Some(error) => failure::classify(error.get()),
        None => {
            let message = "the response failed, and the service did not say why".to_owned();
            ProviderError::Network { message }
        }
    }
}

/// A block that says nothing yet.
fn empty(what: What) -> Block {
    match what {
        What::Message => Block::Text(String::new()),
        What::Reasoning => Block::Thinking { text: String::new(), seal: String::new() },
        What::Call => call("", "", ""),
    }
}

fn call(id: &str, name: &str, arguments: &str) -> Block {
    Block::Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

fn text_of<'a>(text: &'a Option<Text<'_>>) -> &'a str {
    text.as_ref().map_or("", |text| &text.0)
}

fn parts<'a, 'b>(parts: &'a Option<Vec<Part<'b>>>) -> &'a [Part<'b>] {
    parts.as_deref().unwrap_or_default()
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
