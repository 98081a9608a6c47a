//! A running digest of a conversation: each message is hashed once, when it enters.

use std::fmt;
use std::io;

use playhouse_protocol::{AgentMessage, Content, Message};
use serde::Serialize;

/// A hash over every message so far. It tells conversations apart; it is no protection against malice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes in the next message of the conversation.
    pub fn add(&mut self, message: &AgentMessage) {
        match message.llm() {
            // What tools give may be long: it is taken as it is.
            Some(Message::ToolResult { tool_call_id, tool_name, content, is_error, timestamp }) => {
                self.add_json(&(tool_call_id, tool_name, is_error, timestamp));
                for block in content {
                    match block {
                        Content::Text { text } => self.take(text.as_bytes()),
                        other => self.add_json(other),
                    }
                }
            }
            _ => self.add_json(message),
        }
    }

    fn add_json(&mut self, value: &impl Serialize) {
        // A message that cannot be written as JSON cannot have come from a journal; it leaves the digest as it is.
        let _ = serde_json::to_writer(&mut *self, value);
    }

    /// Eight bytes at a time, and how many there were.
    fn take(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.mix(u64::from(*byte)));
        self.mix(bytes.len() as u64);
    }

    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// The digest of a call's arguments.
pub(in crate::machine) fn of(args: &serde_json::Value) -> Digest {
    let mut digest = Digest::default();
    digest.add_json(args);
    digest
}

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}
