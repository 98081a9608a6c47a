//! What a store remembers of a journal while it writes to it, and the descriptors it keeps open.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use playhouse_protocol::{EntryId, Seq, SessionId};
use playhouse_supervision::Lru;

use super::blob_files::Blobs;
use super::folder::Paths;
use super::ownership::Stamp;
use crate::format::hash_chain::ChainHash;
use crate::format::record::Print;
use crate::store::REMEMBERED;
use crate::store::error::StoreError;

/// Whether a journal is on disk yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Neither file nor owner record.
    Nothing,
    /// An owner record, no file.
    Claimed,
    /// An owner record and a file.
    File,
}

/// A journal that this process owns and may append to.
#[derive(Debug)]
pub(crate) struct Journal {
    pub paths: Arc<Paths>,
    pub epoch: u64,
    pub presence: Presence,
    pub next_seq: u64,
    /// The hash of the last whole record.
    pub head: ChainHash,
    /// The end of the last whole record.
    pub len: u64,
    /// What follows that in the file and may have been acknowledged: kept aside before the next record is written.
    pub lost: Range<u64>,
    pub recent: RecentIds,
    /// The last entry's id when it woke from a rest: ids before that were let go. `None` if `recent` has all it may.
    pub follows: Option<EntryId>,
    /// Whether there may be bytes that are not on the disk. True after loading: another process may have left them.
    pub unflushed: bool,
    /// Whether its name may not be on the disk.
    pub folder_unflushed: bool,
    pub blobs: Blobs,
    /// The owner record as last seen.
    pub stamp: Option<Stamp>,
    /// Why it takes no more entries.
    pub broken: Option<StoreError>,
}

impl Journal {
    pub fn empty(paths: Arc<Paths>, epoch: u64, presence: Presence) -> Self {
        Self {
            paths,
            epoch,
            presence,
            next_seq: 1,
            head: ChainHash::START,
            len: 0,
            lost: 0..0,
            recent: RecentIds::default(),
            follows: None,
            unflushed: false,
            folder_unflushed: true,
            blobs: Blobs::default(),
            stamp: None,
            broken: None,
        }
    }
}

/// An entry that a journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownEntry {
    pub seq: Seq,
    /// `None` if a part of the entry is lost, so that it cannot be compared.
    pub print: Option<Print>,
}

/// The last entries' ids and what is known of them.
#[derive(Debug, Default)]
pub(crate) struct RecentIds {
    by_id: HashMap<EntryId, KnownEntry>,
    order: VecDeque<EntryId>,
}

impl RecentIds {
    pub fn get(&self, id: &EntryId) -> Option<KnownEntry> {
        self.by_id.get(id).copied()
    }

    /// The id of the latest entry.
    pub fn last(&self) -> Option<EntryId> {
        self.order.back().cloned()
    }

    pub fn push(&mut self, id: EntryId, known: KnownEntry) {
        if self.by_id.insert(id.clone(), known).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.by_id.remove(&oldest);
            }
        }
    }
}

/// Open journal files, the least recently used closed first. One in use stays open until its user is done, so the
/// limit can be passed by as many as are at work, which is one per writer.
#[derive(Debug)]
pub(crate) struct Descriptors {
    limit: usize,
    open: Lru<SessionId, Arc<File>>,
}

impl Descriptors {
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), open: Lru::default() }
    }

    pub fn get(&mut self, session: &SessionId) -> Option<Arc<File>> {
        self.open.get(session).cloned()
    }

    pub fn put(&mut self, session: &SessionId, file: Arc<File>) {
        self.open.insert(session.clone(), file);
        while self.open.len() > self.limit {
            self.open.pop_oldest();
        }
    }

    pub fn forget(&mut self, session: &SessionId) {
        self.open.remove(session);
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_remembered_up_to_a_bound() {
        let known = |n| KnownEntry { seq: Seq(n), print: None };
        let mut recent = RecentIds::default();
        for n in 0..10_000u64 {
            recent.push(format!("e{n}").as_str().into(), known(n));
        }
        assert_eq!((recent.by_id.len(), recent.order.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(recent.get(&"e9999".into()), Some(known(9999)));
        assert_eq!(recent.get(&format!("e{}", 10_000 - REMEMBERED).as_str().into()), Some(known(5904)));
        assert_eq!(recent.get(&"e5903".into()), None);
    }

    #[test]
    fn the_least_recently_used_descriptor_is_closed() {
        let id = |n: &str| SessionId::new(n).unwrap();
        let file = || Arc::new(File::open("/dev/null").unwrap());
        let mut open = Descriptors::new(2);
        open.put(&id("a"), file());
        open.put(&id("b"), file());
        open.get(&id("a")).unwrap();
        open.put(&id("c"), file());
        assert_eq!(open.len(), 2);
        assert!(open.get(&id("a")).is_some() && open.get(&id("c")).is_some() && open.get(&id("b")).is_none());
        open.forget(&id("a"));
        assert_eq!(open.len(), 1);
    }
}
