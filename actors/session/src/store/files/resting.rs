//! What is kept of a journal whose agent rests: enough to append to it without reading it again, and little more.
//!
//! The ids of its entries are let go, all but the last one's. Whoever rests has nothing to repeat, so what follows the
//! last entry is new; for anything else the journal is read again before it is believed.

use std::sync::Arc;

use playhouse_protocol::{Entry, EntryId};

use super::blob_files::Blobs;
use super::folder::Paths;
use super::journal::{Journal, Presence};
use super::ownership::Stamp;
use crate::format::hash_chain::ChainHash;

/// An owned journal at rest.
#[derive(Debug)]
pub(crate) struct Resting {
    epoch: u64,
    next_seq: u64,
    head: ChainHash,
    len: u64,
    last: EntryId,
    unflushed: bool,
    folder_unflushed: bool,
    blobs: Blobs,
    stamp: Option<Stamp>,
}

impl Resting {
    /// Puts a journal to rest. One that is empty, or takes nothing more, has nothing to keep.
    pub fn of(journal: Journal) -> Option<Self> {
        let last = journal.recent.last().or(journal.follows)?;
        let is_well = journal.broken.is_none() && journal.lost.is_empty() && journal.presence == Presence::File;
        is_well.then_some(Self {
            epoch: journal.epoch,
            next_seq: journal.next_seq,
            head: journal.head,
            len: journal.len,
            last,
            unflushed: journal.unflushed,
            folder_unflushed: journal.folder_unflushed,
            blobs: journal.blobs.at_rest(),
            stamp: journal.stamp,
        })
    }

    pub fn wake(self, paths: Arc<Paths>) -> Journal {
        Journal {
            next_seq: self.next_seq,
            head: self.head,
            len: self.len,
            follows: Some(self.last),
            unflushed: self.unflushed,
            folder_unflushed: self.folder_unflushed,
            blobs: self.blobs,
            stamp: self.stamp,
            ..Journal::empty(paths, self.epoch, Presence::File)
        }
    }
}

impl Journal {
    /// Whether it may have one of these entries without knowing it: its older ids were let go, and the entry neither
    /// follows the last one nor is known.
    pub fn may_have(&self, entries: &[Arc<Entry>]) -> bool {
        let Some(follows) = &self.follows else { return false };
        let latest = self.recent.last();
        let mut last = latest.as_ref().unwrap_or(follows);
        for entry in entries {
            if self.recent.get(&entry.id).is_some() {
                continue;
            }
            if entry.parent.as_ref() != Some(last) {
                return true;
            }
            last = &entry.id;
        }
        false
    }
}
