//! The record of a conversation: what was said, each part under the entry of the journal that brought it.

use std::sync::Arc;

use playhouse_protocol::{AgentMessage, Content, EntryId, History, LlmMessage, Message, Point};

/// What happened in a conversation. A place in it is a [`Point`], never a number of messages: those are only how it is
/// found in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    messages: History,
    /// After each entry that brought something, how many messages there were.
    marks: Vec<(EntryId, usize)>,
    /// How many messages it was loaded with; if there are any, the first mark is that of the entry that loaded them.
    loaded: usize,
}

impl Record {
    /// Begins anew, with these messages of one entry.
    pub fn load(&mut self, entry: &EntryId, messages: &[Arc<AgentMessage>]) {
        *self = Self::default();
        messages.iter().for_each(|message| self.push(message.clone()));
        self.loaded = messages.len();
        if self.loaded > 0 {
            self.mark(entry);
        }
    }

    /// Adds a message; [`Record::mark`] says whose it is.
    pub fn push(&mut self, message: Arc<AgentMessage>) {
        self.messages.push(message);
    }

    /// What was added since the last mark is this entry's.
    pub fn mark(&mut self, entry: &EntryId) {
        if self.marks.is_empty() {
            // The marks of one turn: for many agents it is their only one.
            self.marks.reserve_exact(3);
        }
        self.marks.push((entry.clone(), self.messages.len()));
    }

    /// Every message, oldest first.
    pub fn messages(&self) -> &History {
        &self.messages
    }

    /// Whether a model is shown a picture in it.
    pub fn has_pictures(&self) -> bool {
        self.messages.as_slice().iter().any(|message| shows_picture(message))
    }

    /// Puts a note in the place of each picture that no model has answered to yet; of every picture if there is no such.
    pub fn withhold_pictures(&mut self, note: &str) {
        let all = self.messages.as_slice();
        let is_answer = |message: &Arc<AgentMessage>| matches!(message.llm(), Some(answer @ Message::Assistant { .. }) if answer.is_sendable());
        let answered = all.iter().rposition(is_answer).map_or(0, |at| at + 1);
        let is_new = all.iter().skip(answered).any(|message| shows_picture(message));
        let from = if is_new { answered } else { 0 };
        let replaced = all.iter().enumerate().map(|(at, message)| match at >= from && shows_picture(message) {
            true => Arc::new(without_pictures(message, note)),
            false => message.clone(),
        });
        self.messages = replaced.collect::<Vec<_>>().into();
    }

    /// The entries that a conversation can go back to, oldest first. A conversation that was loaded has none in it.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &EntryId> {
        self.marks.iter().skip(usize::from(self.loaded > 0)).map(|(entry, _)| entry)
    }

    /// The point after an entry that the conversation can go back to.
    pub fn after(&self, entry: &EntryId) -> Option<Point> {
        let known = self.entries().any(|known| known == entry);
        known.then(|| Point::After { entry: entry.clone(), first: None })
    }

    /// The point where it stands.
    pub fn here(&self) -> Point {
        match self.marks.as_slice() {
            [] => Point::Start,
            [_] if self.loaded > 0 => self.within(self.loaded),
            [.., (entry, _)] => Point::After { entry: entry.clone(), first: None },
        }
    }

    /// The point after the first `first` of the messages that it was loaded with.
    pub fn within(&self, first: usize) -> Point {
        match self.marks.first().filter(|_| first > 0) {
            Some((entry, _)) => Point::After { entry: entry.clone(), first: u32::try_from(first).ok() },
            None => Point::Start,
        }
    }

    /// Whether the point is in it.
    pub fn has(&self, point: &Point) -> bool {
        self.find(point).is_some()
    }

    /// What was said up to a point; everything if the point is not in it.
    pub fn up_to(&self, point: &Point) -> &[Arc<AgentMessage>] {
        let all = self.messages.as_slice();
        self.find(point).and_then(|len| all.get(..len)).unwrap_or(all)
    }

    /// What was said after a point; nothing if the point is not in it.
    pub fn since(&self, point: &Point) -> &[Arc<AgentMessage>] {
        self.find(point).and_then(|len| self.messages.as_slice().get(len..)).unwrap_or_default()
    }

    /// Goes back to a point.
    pub fn cut(&mut self, point: &Point) {
        if let Some(len) = self.find(point) {
            self.keep(len);
        }
    }

    /// Goes back to the first `len` messages, as journals of format 1 say it.
    pub fn keep(&mut self, len: usize) {
        self.messages.truncate(len);
        if let Some((_, end)) = self.marks.first_mut().filter(|_| self.loaded > len) {
            (self.loaded, *end) = (len, len);
        }
        self.marks.retain(|(_, end)| *end <= len);
        if self.loaded == 0 && len == 0 {
            self.marks.clear();
        }
    }

    fn find(&self, point: &Point) -> Option<usize> {
        match point {
            Point::Start => Some(0),
            Point::After { entry, first: Some(first) } => {
                let (loader, _) = self.marks.first().filter(|_| self.loaded > 0)?;
                let first = usize::try_from(*first).unwrap_or(usize::MAX);
                (loader == entry).then(|| first.min(self.loaded))
            }
            Point::After { entry, first: None } => {
                self.marks.iter().rfind(|(known, _)| known == entry).map(|(_, end)| *end)
            }
        }
    }
}

fn shows_picture(message: &AgentMessage) -> bool {
    message.llm().is_some_and(|message| message.content().iter().any(|block| matches!(block, Content::Image { .. })))
}

fn without_pictures(message: &AgentMessage, note: &str) -> AgentMessage {
    let mut message = message.clone();
    if let AgentMessage::Llm(LlmMessage { message, .. }) = &mut message {
        let (Message::User { content, .. } | Message::Assistant { content, .. } | Message::ToolResult { content, .. }) =
            message;
        for block in content.iter_mut().filter(|block| matches!(block, Content::Image { .. })) {
            *block = Content::text(note);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Arc<AgentMessage> {
        Arc::new(AgentMessage::user(text, 1))
    }

    fn texts(messages: &[Arc<AgentMessage>]) -> Vec<String> {
        messages.iter().filter_map(|message| message.llm()).map(|message| message.text()).collect()
    }

    /// Two messages that were loaded, then one of each of two entries.
    fn record() -> Record {
        let mut record = Record::default();
        record.load(&"s#0".into(), &[said("a"), said("b")]);
        for (entry, text) in [("s#1", "c"), ("s#2", "d")] {
            record.push(said(text));
            record.mark(&entry.into());
        }
        record
    }

    #[test]
    fn a_point_is_found_by_its_entry_and_outlives_what_comes_after() {
        let mut record = record();
        let point = record.after(&"s#1".into()).unwrap();
        assert_eq!(
            (texts(record.up_to(&point)), texts(record.since(&point))),
            (vec!["a".into(), "b".into(), "c".into()], vec!["d".to_owned()])
        );
        record.cut(&point);
        assert_eq!((record.here(), texts(record.messages().as_slice()).len()), (point.clone(), 3));
        assert_eq!(record.after(&"s#2".into()), None);
        record.push(said("e"));
        record.mark(&"s#3".into());
        assert_eq!(texts(record.since(&point)), ["e"]);
    }

    #[test]
    fn a_note_takes_the_place_of_pictures_nobody_has_answered_to_or_of_all() {
        let picture = || Content::Image { data: "AAAA".into(), mime_type: "image/png".into() };
        let shown = |text: &str| {
            Arc::new(AgentMessage::from(Message::User { content: vec![Content::text(text), picture()], timestamp: 1 }))
        };
        let mut record = Record::default();
        record.push(shown("first"));
        record.push(Arc::new(AgentMessage::from(Message::Assistant {
            content: vec![Content::text("seen")],
            stop_reason: playhouse_protocol::StopReason::Stop,
            model: "m".into(),
            provider: "p".into(),
            usage: Default::default(),
            timestamp: 2,
            error_message: None,
        })));
        record.push(shown("second"));
        record.mark(&"s#1".into());
        let point = record.here();
        record.withhold_pictures("[none]");
        assert!(record.has_pictures());
        assert_eq!(texts(record.messages().as_slice()), ["first", "seen", "second[none]"]);
        record.withhold_pictures("[none]");
        assert!(!record.has_pictures());
        assert_eq!(texts(record.messages().as_slice()), ["first[none]", "seen", "second[none]"]);
        assert_eq!(record.here(), point);
    }

    #[test]
    fn what_was_loaded_has_points_by_their_number_within_it() {
        let mut record = record();
        let middle = record.within(1);
        assert_eq!(middle, Point::After { entry: "s#0".into(), first: Some(1) });
        assert_eq!((texts(record.up_to(&middle)), record.after(&"s#0".into())), (vec!["a".to_owned()], None));
        record.cut(&middle);
        assert_eq!((record.here(), record.entries().len()), (middle.clone(), 0));
        // Another conversation has no such point.
        record.load(&"s#9".into(), &[said("x")]);
        assert!(!record.has(&middle));
        assert_eq!(texts(record.since(&middle)), [""; 0]);
        assert_eq!(texts(record.up_to(&middle)), ["x"]);
        assert_eq!((Record::default().here(), record.has(&Point::Start)), (Point::Start, true));
    }
}
