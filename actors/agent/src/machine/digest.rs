//! A running digest of a conversation: each message is hashed once, when it enters.

use std::fmt;
use std::io;

use playhouse_protocol::AgentMessage;

/// FNV-1a over the JSON of every message so far. It tells conversations apart; it is no protection against malice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes a message in.
    pub fn add(&mut self, message: &AgentMessage) {
        // A message that cannot be written as JSON cannot have come from a journal; it leaves the digest as it is.
        let _ = serde_json::to_writer(&mut *self, message);
    }
}

/// The digest of a call's arguments.
pub(super) fn of(args: &serde_json::Value) -> Digest {
    let mut digest = Digest::default();
    let _ = serde_json::to_writer(&mut digest, args);
    digest
}

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
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
