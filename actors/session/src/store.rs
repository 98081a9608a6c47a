//! What keeps journals: one trait, and what it is asked.
//!
//! A store's calls block. The [`Writer`](crate::Writer) makes them on threads of its own; whoever else calls them does
//! the same, since the runtime's blocking pool may be full of work that never ends.

pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod memory;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use playhouse_protocol::{Durability, Entry, NodeId, Seq, SessionId};
use serde::{Deserialize, Serialize};

use crate::format::scan::Damage;
use crate::views::summary::SessionSummary;
use crate::views::verify::Verification;
use error::StoreError;
use files::folder::DataDir;

/// How many of a journal's latest entries are known when they are sent again: a sender repeats only what was not
/// acknowledged, which is far less.
pub(crate) const REMEMBERED: usize = 4_096;

/// How a journal is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// To go on with it: takes ownership, repairs a torn tail.
    Own,
    /// To look at it: changes nothing in the store.
    Peek,
}

/// How far an append goes before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Handed to the kernel.
    Kernel,
    /// Handed to the kernel, its blobs flushed to disk first: for an append whose flush follows. The kernel may write
    /// a record to disk whenever it likes, and then its blobs are there.
    Blobs,
    /// Flushed to disk, its blobs first.
    Disk,
}

/// A journal that was read whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The entries that count, by their numbers.
    pub entries: Vec<(Seq, Arc<Entry>)>,
    /// What the owner's appends must name.
    pub epoch: u64,
    /// What was wrong with it.
    pub damage: Vec<Damage>,
}

/// A live process that holds something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its name among those that share the store.
    pub node: NodeId,
    /// Its process id, on its own machine.
    pub pid: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another process (pid {}, node {})", self.pid, self.node)
    }
}

/// What a store keeps its word on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// The strongest durability that it keeps. With [`Durability::None`] its sessions end with the process.
    pub strongest: Durability,
}

impl Promises {
    /// Whether a session of this durability is as safe there as it asks to be.
    pub fn keeps(self, asked: Durability) -> bool {
        match (asked, self.strongest) {
            (Durability::None, _) | (Durability::Os, Durability::Os) | (_, Durability::Flush) => true,
            (Durability::Os | Durability::Flush, Durability::None) | (Durability::Flush, Durability::Os) => false,
        }
    }
}

/// What is known of a session before its journal is read: enough to choose which ones to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHead {
    /// Whose journal it is.
    pub session_id: SessionId,
    /// The session of the agent that started its agent; `None` also when that cannot be read.
    pub parent: Option<SessionId>,
    /// Whether it works in the directory that was asked about.
    pub whereabouts: Whereabouts,
}

/// Whether a session works in a directory, as far as that can be told before its journal is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It was there once, or nobody knows where it is. Its summary tells.
    MaybeHere,
    /// It never was there.
    Elsewhere,
}

impl SessionHead {
    fn of(summary: SessionSummary, directory: &Path) -> Self {
        let whereabouts = match summary.cwd {
            Some(cwd) if cwd != directory => Whereabouts::Elsewhere,
            Some(_) | None => Whereabouts::MaybeHere,
        };
        Self { session_id: summary.session_id, parent: summary.parent, whereabouts }
    }
}

/// A batch for one journal.
#[derive(Clone, Debug)]
pub struct Group {
    /// The session that it is for.
    pub session: SessionId,
    /// What [`Store::own`] or [`Store::load`] gave.
    pub epoch: u64,
    /// Written in this order.
    pub entries: Arc<[Arc<Entry>]>,
    /// How safe it must be before it is answered.
    pub sync: Sync,
}

/// What came of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// Its place among the groups that were given, from 0.
    pub group: usize,
    /// The number of each of its entries.
    pub seqs: Result<Vec<Seq>, StoreError>,
}

/// A journal that is read one record at a time, by whoever has the time.
pub trait Records: Iterator<Item = Result<(Seq, Arc<Entry>), StoreError>> + Send + fmt::Debug {
    /// What is wrong with the journal, as far as it was read.
    fn damage(self: Box<Self>) -> Vec<Damage>;
}

/// Records that are in memory already.
#[derive(Debug)]
struct InMemory(std::vec::IntoIter<(Seq, Arc<Entry>)>, Vec<Damage>);

impl Iterator for InMemory {
    type Item = Result<(Seq, Arc<Entry>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl Records for InMemory {
    fn damage(self: Box<Self>) -> Vec<Damage> {
        self.1
    }
}

/// Where journals are kept.
pub trait Store: Send + std::marker::Sync + fmt::Debug + 'static {
    /// What it keeps its word on.
    fn promises(&self) -> Promises;

    /// Reads a journal. An unknown session is empty for [`Take::Own`], and makes nothing; for [`Take::Peek`] it is
    /// [`StoreError::Unknown`]. `Own` also lets a journal take appends again after a failure.
    fn load(&self, session: &SessionId, take: Take) -> Result<Loaded, StoreError>;

    /// Looks at a journal from one of its records on, one at a time: as [`Take::Peek`], without the whole in memory.
    fn read(&self, session: &SessionId, from: Seq) -> Result<Box<dyn Records>, StoreError> {
        let Loaded { mut entries, damage, .. } = self.load(session, Take::Peek)?;
        entries.retain(|(seq, _)| *seq >= from);
        Ok(Box::new(InMemory(entries.into_iter(), damage)))
    }

    /// Whether a session has a journal.
    fn exists(&self, session: &SessionId) -> Result<bool, StoreError> {
        match self.read(session, Seq::default()) {
            Ok(_) => Ok(true),
            Err(StoreError::Unknown { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The epoch to append with, taking ownership if need be; reads the journal only if the store does not have it
    /// open. A journal that refuses appends goes on refusing them.
    fn own(&self, session: &SessionId) -> Result<u64, StoreError> {
        self.load(session, Take::Own).map(|loaded| loaded.epoch)
    }

    /// Appends in order and answers each entry's number. Entries that are there already (by id, among the last 4096)
    /// are not written again; one whose content is another is [`StoreError::Conflict`]. After an error other than
    /// [`StoreError::Away`] the journal refuses appends, with the same error, until it is loaded again;
    /// [`StoreError::fate`] says whether something of the failed batch may be in it then.
    fn append(
        &self,
        session: &SessionId,
        epoch: u64,
        entries: &[Arc<Entry>],
        sync: Sync,
    ) -> Result<Vec<Seq>, StoreError>;

    /// Flushes to disk what was appended. An error is final for the journal until it is loaded again.
    fn flush(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError>;

    /// Appends for many sessions at once and answers each group once, a session's in their order: `answer` is called
    /// with whatever is known by then, those that need no flush before those that do. What follows a group that failed
    /// in its own session is not written. There are no more groups when `groups` ends, which may be early.
    fn append_all(&self, groups: &mut dyn Iterator<Item = Group>, answer: &mut dyn FnMut(Vec<Appended>)) {
        let (mut written, mut waiting) = (Vec::new(), Vec::new());
        let mut failed: Vec<(SessionId, StoreError)> = Vec::new();
        // Journals whose answers wait for a flush, in the order of their first, with the answers.
        let mut unflushed: Vec<(SessionId, u64, Vec<Appended>)> = Vec::new();
        for (group, Group { session, epoch, entries, sync }) in groups.enumerate() {
            let seqs = match (failed.iter().find(|(other, _)| *other == session), sync) {
                (Some((_, error)), _) => Err(error.clone()),
                (None, Sync::Disk) => self.append(&session, epoch, &entries, Sync::Blobs),
                (None, Sync::Kernel | Sync::Blobs) => self.append(&session, epoch, &entries, sync),
            };
            if let Err(error) = &seqs {
                failed.push((session.clone(), error.clone()));
            }
            // Answers of one session keep their order, so what follows one that waits also waits.
            let waits = sync == Sync::Disk && seqs.is_ok();
            let appended = Appended { group, seqs };
            match unflushed.iter_mut().find(|(other, ..)| *other == session) {
                Some((.., answers)) => answers.push(appended),
                None if waits => unflushed.push((session, epoch, vec![appended])),
                None => written.push(appended),
            }
        }
        if !written.is_empty() {
            answer(written);
        }
        for (session, epoch, answers) in unflushed {
            match self.flush(&session, epoch) {
                Ok(()) => waiting.extend(answers),
                Err(error) => {
                    let error = error.in_doubt();
                    waiting.extend(answers.into_iter().map(|done| Appended { seqs: Err(error.clone()), ..done }));
                }
            }
        }
        if !waiting.is_empty() {
            answer(waiting);
        }
    }

    /// Every session, newest first. A damaged one is listed with its damage.
    fn list(&self) -> Result<Vec<SessionSummary>, StoreError>;

    /// The summaries of these sessions, newest first. One that is gone is left out.
    fn summaries(&self, sessions: &[SessionId]) -> Result<Vec<SessionSummary>, StoreError> {
        let wanted: HashSet<&SessionId> = sessions.iter().collect();
        let mut all = self.list()?;
        all.retain(|session| wanted.contains(&session.session_id));
        Ok(all)
    }

    /// What is known of every session before it is read, the one that was written to last first; and whether it may be
    /// one that works in `directory`.
    fn heads(&self, directory: &Path) -> Result<Vec<SessionHead>, StoreError> {
        Ok(self.list()?.into_iter().map(|session| SessionHead::of(session, directory)).collect())
    }

    /// Every session's id, in order.
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let mut all: Vec<SessionId> = self.list()?.into_iter().map(|session| session.session_id).collect();
        all.sort();
        Ok(all)
    }

    /// Every session's id, the one that was written to last first.
    fn newest_first(&self) -> Result<Vec<SessionId>, StoreError> {
        Ok(self.list()?.into_iter().map(|session| session.session_id).collect())
    }

    /// Checks a journal, whoever holds it, and changes nothing. A store that keeps no hashes has no chain to check.
    fn verify(&self, session: &SessionId) -> Result<Verification, StoreError> {
        Verification::unchained(self.read(session, Seq::default())?)
    }

    /// Deletes a session for good, unless another live process holds it.
    fn remove(&self, session: &SessionId) -> Result<(), StoreError>;

    /// Forgets what is held in memory for a session that will not be written to for a while. It stays owned.
    fn rest(&self, session: &SessionId) -> Result<(), StoreError>;

    /// As [`Store::rest`], and gives up ownership: another process may take it.
    fn release(&self, session: &SessionId) -> Result<(), StoreError>;

    /// Gives up every session, so that another house may have them. Nothing more can be taken here.
    fn close(&self) {}

    /// The live process that holds a session, this one included; `None` in a store that one process has for itself.
    fn holder(&self, _session: &SessionId) -> Result<Option<Holder>, StoreError> {
        Ok(None)
    }

    /// This process's name among those that share the store, if it is shared.
    fn node(&self) -> Option<NodeId> {
        None
    }

    /// Nodes that died without order. Whoever has cleaned up after them calls [`Store::bury`].
    fn dead_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        Ok(Vec::new())
    }

    /// Forgets dead nodes, and removes what they were in the middle of writing.
    fn bury(&self, _nodes: &[NodeId]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Where its files are, if it has any on this machine.
    fn data_dir(&self) -> Option<DataDir> {
        None
    }
}
