//! Conversations as a service has been sent them, kept while they live: a turn encodes only what is new.
//!
//! A transcript is found by its conversation's key. Messages are immutable and shared, so one that stands at the same
//! address is the same message: a transcript counts only if the conversation begins with all of its messages. It holds
//! weak references, which keep addresses from being given to other messages. What follows a conversation in one request is
//! encoded each time, and is no part of its transcript.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use playhouse_protocol::{AgentMessage, Message, StreamConfig, lock};

use super::messages::Messages;

/// The transcripts of one connection.
#[derive(Debug)]
pub(crate) struct Transcripts {
    cap: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    by_key: HashMap<Arc<str>, Transcript>,
}

/// What was sent of one conversation.
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

    /// Calls `send` with all messages that are sent, the tail last; `encode` appends one.
    pub(crate) fn with<T, E>(
        &self,
        config: &StreamConfig,
        encode: impl Fn(&Message, &mut Messages) -> Result<(), E>,
        send: impl FnOnce(&Messages) -> T,
    ) -> Result<T, E> {
        let messages = config.messages.as_slice();
        let mut transcript = lock(&self.held).take(&config.conversation, messages).unwrap_or_default();
        let known = transcript.messages.len();
        for message in messages.iter().skip(known) {
            transcript.add(message, &encode)?;
        }
        let end = transcript.sent.here();
        for message in &config.tail {
            append(message, &encode, &mut transcript.sent)?;
        }
        let sent = send(&transcript.sent);
        transcript.sent.back_to(&end);
        lock(&self.held).put(config.conversation.clone(), transcript, self.cap);
        Ok(sent)
    }
}

impl Held {
    /// The transcript of a conversation, if that begins with it. Whoever has it brings it back.
    fn take(&mut self, key: &str, messages: &[Arc<AgentMessage>]) -> Option<Transcript> {
        let transcript = self.by_key.remove(key)?;
        self.bytes -= transcript.sent.len();
        transcript.begins(messages).then_some(transcript)
    }

    fn put(&mut self, key: Arc<str>, transcript: Transcript, cap: usize) {
        if transcript.messages.is_empty() || transcript.sent.len() > cap {
            return;
        }
        if self.bytes + transcript.sent.len() > cap {
            self.by_key.retain(|_, held| held.messages.last().is_some_and(|last| last.strong_count() > 0));
            self.bytes = self.by_key.values().map(|held| held.sent.len()).sum();
            // Still more than half: dropping all and encoding again is cheaper than sweeping every time.
            if self.bytes > cap / 2 {
                self.by_key.clear();
                self.bytes = 0;
            }
        }
        self.bytes += transcript.sent.len();
        if let Some(other) = self.by_key.insert(key, transcript) {
            self.bytes -= other.sent.len();
        }
    }
}

impl Transcript {
    /// Whether `messages` begin with these.
    fn begins(&self, messages: &[Arc<AgentMessage>]) -> bool {
        self.messages.len() <= messages.len()
            && self.messages.iter().zip(messages).all(|(held, message)| held.as_ptr() == Arc::as_ptr(message))
    }

    fn add<E>(
        &mut self,
        message: &Arc<AgentMessage>,
        encode: &impl Fn(&Message, &mut Messages) -> Result<(), E>,
    ) -> Result<(), E> {
        append(message, encode, &mut self.sent)?;
        self.messages.push(Arc::downgrade(message));
        Ok(())
    }
}

/// Encodes a message, if it is one that is sent.
fn append<E>(
    message: &AgentMessage,
    encode: &impl Fn(&Message, &mut Messages) -> Result<(), E>,
    sent: &mut Messages,
) -> Result<(), E> {
    match message.llm().filter(|message| message.is_sendable()) {
        Some(message) => encode(message, sent),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use playhouse_protocol::Message;

    use super::*;
    use crate::testing::config;

    fn user(text: &str) -> Arc<AgentMessage> {
        Arc::new(Message::user(text, 0).into())
    }

    /// The JSON that is sent, and how many messages were encoded for it.
    fn send(transcripts: &Transcripts, messages: &[Arc<AgentMessage>]) -> (String, usize) {
        send_as("one", transcripts, messages, &[])
    }

    fn send_as(
        key: &str,
        transcripts: &Transcripts,
        messages: &[Arc<AgentMessage>],
        tail: &[Arc<AgentMessage>],
    ) -> (String, usize) {
        let conversation = StreamConfig {
            conversation: key.into(),
            messages: messages.to_vec().into(),
            tail: tail.to_vec(),
            ..config("")
        };
        let encoded = Cell::new(0);
        let encode = |message: &Message, out: &mut Messages| {
            encoded.set(encoded.get() + 1);
            out.item("user", &message.text())
        };
        let json = transcripts.with(&conversation, encode, |sent| {
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
    fn what_follows_a_conversation_is_sent_and_leaves_no_trace_in_it() {
        let transcripts = Transcripts::new(1 << 20);
        let (mut messages, tail) = (vec![user("a"), user("b")], [user("now"), user("here")]);
        assert_eq!(send_as("one", &transcripts, &messages, &tail), ("a,b,now,here".to_owned(), 4));
        assert_eq!(send_as("one", &transcripts, &messages, &tail[..1]), ("a,b,now".to_owned(), 1));
        messages.push(user("c"));
        assert_eq!(send_as("one", &transcripts, &messages, &[]), ("a,b,c".to_owned(), 1));
        assert_eq!(send_as("two", &transcripts, &messages, &[]), ("a,b,c".to_owned(), 3), "another conversation");
        assert_eq!(send_as("one", &transcripts, &messages, &[]), ("a,b,c".to_owned(), 0));
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
            let held = lock(&transcripts.held);
            assert_eq!(held.by_key.values().map(|held| held.sent.len()).sum::<usize>(), held.bytes);
            assert!(held.bytes <= 10_000);
            held.by_key.len()
        };
        let alive: Vec<_> = (0..20).map(|n| vec![user(&format!("{n:0>100}"))]).collect();
        for (n, messages) in alive.iter().enumerate() {
            send_as(&format!("alive {n}"), &transcripts, messages, &[]);
        }
        for round in 0..200 {
            send_as(&format!("round {round}"), &transcripts, &[user(&format!("{round:0>1000}"))], &[]);
            check();
        }
        assert_eq!(send_as("alive 0", &transcripts, &alive[0], &[]).1, 0, "those alive stayed");
        assert_eq!(send(&transcripts, &[user(&"x".repeat(20_000))]).1, 1);
        assert!(check() <= 30);
    }
}
