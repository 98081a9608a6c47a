//! Conversations as a service has been sent them, kept while they live: a turn encodes only what is new.
//!
//! Messages are immutable and shared, so one that stands at the same address is the same message. A transcript is
//! found by the address of its last message and counts only if all before it are the same as well. It holds weak
//! references, which keep addresses from being given to other messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use playhouse_protocol::{AgentMessage, Message};

use super::messages::Messages;

/// How many messages a turn may add: past that, a conversation is encoded anew.
const LOOK_BACK: usize = 64;

/// The transcripts of one connection.
#[derive(Debug)]
pub(crate) struct Transcripts {
    cap: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    by_last: HashMap<usize, Transcript>,
}

/// One conversation.
#[derive(Debug, Default)]
struct Transcript {
    messages: Vec<Weak<AgentMessage>>,
    /// Those of the messages that are sent.
    sent: Messages,
}

impl Transcripts {
    /// Keeps at most about `cap` bytes.
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, held: Mutex::default() }
    }

    /// Calls `send` with all messages that are sent; `encode` appends one.
    pub(crate) fn with<T, E>(
        &self,
        messages: &[Arc<AgentMessage>],
        encode: impl Fn(&Message, &mut Messages) -> Result<(), E>,
        send: impl FnOnce(&Messages) -> T,
    ) -> Result<T, E> {
        let mut transcript = self.lock().take(messages).unwrap_or_default();
        let known = transcript.messages.len();
        for message in messages.iter().skip(known) {
            transcript.add(message, &encode)?;
        }
        let sent = send(&transcript.sent);
        self.lock().put(transcript, self.cap);
        Ok(sent)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The longest transcript that `messages` begin with. Whoever has it brings it back.
    fn take(&mut self, messages: &[Arc<AgentMessage>]) -> Option<Transcript> {
        for known in (1..=messages.len()).rev().take(LOOK_BACK) {
            let last = address(messages.get(known - 1)?);
            if self.by_last.get(&last).is_some_and(|transcript| transcript.begins(messages, known)) {
                let transcript = self.by_last.remove(&last)?;
                self.bytes -= transcript.sent.len();
                return Some(transcript);
            }
        }
        None
    }

    fn put(&mut self, transcript: Transcript, cap: usize) {
        let Some(last) = transcript.messages.last().map(|message| message.as_ptr().addr()) else { return };
        if transcript.sent.len() > cap {
            return;
        }
        if self.bytes + transcript.sent.len() > cap {
            self.by_last.retain(|_, held| held.messages.last().is_some_and(|last| last.strong_count() > 0));
            self.bytes = self.by_last.values().map(|held| held.sent.len()).sum();
            // Still more than half: dropping all and encoding again is cheaper than sweeping every time.
            if self.bytes > cap / 2 {
                self.by_last.clear();
                self.bytes = 0;
            }
        }
        self.bytes += transcript.sent.len();
        if let Some(other) = self.by_last.insert(last, transcript) {
            self.bytes -= other.sent.len();
        }
    }
}

impl Transcript {
    /// Whether the first `known` of `messages` are these.
    fn begins(&self, messages: &[Arc<AgentMessage>], known: usize) -> bool {
        self.messages.len() == known
            && self.messages.iter().zip(messages).all(|(held, message)| held.as_ptr() == Arc::as_ptr(message))
    }

    fn add<E>(
        &mut self,
        message: &Arc<AgentMessage>,
        encode: &impl Fn(&Message, &mut Messages) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(sent) = message.llm().filter(|message| message.is_sendable()) {
            encode(sent, &mut self.sent)?;
        }
        self.messages.push(Arc::downgrade(message));
        Ok(())
    }
}

fn address(message: &Arc<AgentMessage>) -> usize {
    Arc::as_ptr(message).addr()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use playhouse_protocol::Message;

    use super::*;

    fn user(text: &str) -> Arc<AgentMessage> {
        Arc::new(Message::user(text, 0).into())
    }

    /// The JSON that is sent, and how many messages were encoded for it.
    fn send(transcripts: &Transcripts, messages: &[Arc<AgentMessage>]) -> (String, usize) {
        let encoded = Cell::new(0);
        let encode = |message: &Message, out: &mut Messages| {
            encoded.set(encoded.get() + 1);
            out.item("user", &message.text())
        };
        let json = transcripts.with(messages, encode, |sent| {
            let mut json = Vec::new();
            sent.write_to(&mut json, None);
            String::from_utf8(json).unwrap().replace('"', "")
        });
        (json.unwrap(), encoded.get())
    }

    #[test]
    fn a_turn_encodes_only_what_is_new() {
        let transcripts = Transcripts::new(1 << 20);
        let mut messages = vec![user("a"), user("b")];
        assert_eq!(send(&transcripts, &messages), ("a,b".to_owned(), 2));
        assert_eq!(send(&transcripts, &messages), ("a,b".to_owned(), 0));
        messages.extend([user("c"), Arc::new(AgentMessage::extension("note", serde_json::json!(1))), user("d")]);
        assert_eq!(send(&transcripts, &messages), ("a,b,c,d".to_owned(), 2));
        assert_eq!(send(&transcripts, &messages), ("a,b,c,d".to_owned(), 0));
    }

    #[test]
    fn a_conversation_that_was_changed_is_encoded_anew() {
        let transcripts = Transcripts::new(1 << 20);
        let (a, b, c) = (user("a"), user("b"), user("c"));
        assert_eq!(send(&transcripts, &[a.clone(), b.clone(), c.clone()]), ("a,b,c".to_owned(), 3));
        // The same last message at the same place, after others.
        assert_eq!(send(&transcripts, &[a.clone(), user("x"), c.clone()]), ("a,x,c".to_owned(), 3));
        assert_eq!(send(&transcripts, &[b.clone(), c.clone()]), ("b,c".to_owned(), 2));
        assert_eq!(send(&transcripts, std::slice::from_ref(&a)), ("a".to_owned(), 1));
        assert_eq!(send(&transcripts, &[a, b]), ("a,b".to_owned(), 1));
        assert_eq!(send(&transcripts, &[]), (String::new(), 0));
    }

    #[test]
    fn conversations_that_are_over_leave_and_the_rest_stays_under_the_cap() {
        let transcripts = Transcripts::new(10_000);
        let check = || {
            let held = transcripts.lock();
            assert_eq!(held.by_last.values().map(|held| held.sent.len()).sum::<usize>(), held.bytes);
            assert!(held.bytes <= 10_000);
            held.by_last.len()
        };
        let alive: Vec<_> = (0..20).map(|n| vec![user(&format!("{n:0>100}"))]).collect();
        for messages in &alive {
            send(&transcripts, messages);
        }
        for round in 0..200 {
            send(&transcripts, &[user(&format!("{round:0>1000}"))]);
            check();
        }
        assert_eq!(send(&transcripts, &alive[0]).1, 0, "those alive stayed");
        assert_eq!(send(&transcripts, &[user(&"x".repeat(20_000))]).1, 1);
        assert!(check() <= 30);
    }
}
