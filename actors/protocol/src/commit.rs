//! What passes between an agent and the writer of its journal.

use std::sync::Arc;

use crate::entry::{Class, Entry};
use crate::ids::{Seq, SessionId};

/// Entries that one input made: written in order, flushed once.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The agent's number for it, echoed in the report.
    pub number: u64,
    /// In the order they were made; each names the one before it.
    pub entries: Arc<[Arc<Entry>]>,
    /// The strictest class among them.
    pub class: Class,
}

/// Whether a batch that was not committed may be in the journal all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing of it is in the journal, now or later.
    NotWritten,
    /// It may be there: a flush failed after the write, or the write was cut short. The next load finds out.
    Unknown,
}

/// What it means for an agent that its batch was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Someone else owns the session: the agent leaves it, and does not take it back.
    Fenced,
    /// The journal takes nothing more until it is loaded again: the agent parks.
    Broken,
}

/// What a writer tells the agent it works for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitReport {
    /// The batch is as durable as its class asks. Also the answer for entries that were there already.
    Committed {
        /// The journal that it was written to.
        session: SessionId,
        /// The agent's number for it.
        batch: u64,
        /// The number of each of its entries.
        seqs: Vec<Seq>,
    },
    /// The batch is not durable and never will be by itself; what follows it is refused too.
    Failed {
        /// The journal that it was to be written to.
        session: SessionId,
        /// The agent's number for it.
        batch: u64,
        /// Why, and what to do.
        error: String,
        /// Whether it may be in the journal.
        fate: Fate,
        /// What to do about it.
        refusal: Refusal,
    },
}
