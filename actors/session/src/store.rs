//! What keeps journals: one trait, and the errors every store answers with.
//!
//! A store's calls block. The [`Writer`](crate::Writer) makes them on threads of its own; whoever else calls them does
//! the same, since the runtime's blocking pool may be full of work that never ends.

pub(crate) mod files;
pub(crate) mod memory;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use playhouse_protocol::{AgentId, Entry, EntryId, Fate, NodeId, Seq, SessionId};

use crate::format::record::Unencodable;
use crate::format::scan::Damage;
use crate::views::summary::SessionSummary;

/// How a journal is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// To go on with it: takes ownership, repairs a torn tail.
    Own,
    /// To look at it: changes nothing on disk.
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
    /// Flushed to disk.
    Disk,
}

/// A journal, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// In order.
    pub entries: Vec<(Seq, Arc<Entry>)>,
    /// What the owner's appends must name.
    pub epoch: u64,
    /// What was wrong with it.
    pub damage: Vec<Damage>,
}

/// Where journals are kept.
pub trait Store: Send + std::marker::Sync + std::fmt::Debug + 'static {
    /// Reads a journal. An unknown session is empty for [`Take::Own`], and makes no file; for [`Take::Peek`] it is
    /// [`StoreError::Unknown`]. `Own` also lets a journal take appends again after a failure.
    fn load(&self, session: &SessionId, take: Take) -> Result<Loaded, StoreError>;

    /// Whether a session has a journal.
    fn exists(&self, session: &SessionId) -> Result<bool, StoreError> {
        match self.load(session, Take::Peek) {
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
    /// are not written again; one whose content is another is [`StoreError::Conflict`]. After an error the journal refuses appends, with the same error, until it is loaded
    /// again; [`StoreError::fate`] says whether something of the failed batch may be in it then.
    fn append(
        &self,
        session: &SessionId,
        epoch: u64,
        entries: &[Arc<Entry>],
        sync: Sync,
    ) -> Result<Vec<Seq>, StoreError>;

    /// Flushes to disk what was appended. An error is final for the journal until it is loaded again.
    fn flush(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError>;

    /// Every session, newest first. A damaged one is listed with its damage.
    fn list(&self) -> Result<Vec<SessionSummary>, StoreError>;

    /// Deletes a session for good, unless another live process holds it.
    fn remove(&self, session: &SessionId) -> Result<(), StoreError>;

    /// The file that a journal is in, whether it is there yet or not; `None` for a store without files.
    fn path(&self, _session: &SessionId) -> Option<PathBuf> {
        None
    }

    /// Forgets what is held in memory for a session that will not be written to for a while. It stays owned.
    fn rest(&self, session: &SessionId) -> Result<(), StoreError>;

    /// As [`Store::rest`], and gives up ownership: another process may take it.
    fn release(&self, session: &SessionId) -> Result<(), StoreError>;
}

/// Why a store did not do what was asked, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("there is no session `{session}`; list the sessions to see which there are")]
    Unknown {
        /// Which.
        session: SessionId,
    },
    /// Another live process has it.
    #[error("session `{session}` is held by another process (pid {pid}, node {node}); end that process or wait for it")]
    Held {
        /// Which.
        session: SessionId,
        /// Its owner.
        node: NodeId,
        /// The owner's process.
        pid: u32,
    },
    /// An agent of this process has it, or it is being removed.
    #[error(
        "session `{session}` is in use {}: dismiss the agent first",
        .agent.as_ref().map_or_else(|| "by the house".to_owned(), |agent| format!("by agent `{agent}`, which is on stage"))
    )]
    InUse {
        /// Which.
        session: SessionId,
        /// The agent at the top of the tree that has it.
        agent: Option<AgentId>,
    },
    /// Another process took it over.
    #[error(
        "session `{session}` was taken over by another process (it is no longer epoch {epoch} here); load it again"
    )]
    Fenced {
        /// Which.
        session: SessionId,
        /// The epoch that is over.
        epoch: u64,
    },
    /// The house that used it has ended.
    #[error("this store is closed, because its house has ended; open the data directory again")]
    Closed,
    /// The store was opened with [`FileStore::look`](crate::FileStore::look).
    #[error("this data directory was opened to look at it only; open it as a house does to change something")]
    OnlyLooks,
    /// It was appended to before it was loaded.
    #[error("session `{session}` is not loaded here; load it before appending to it")]
    NotLoaded {
        /// Which.
        session: SessionId,
    },
    /// An entry's id is in the journal with other content.
    #[error(
        "session `{session}` has another entry `{entry}`: two writers use this session as one; stop one of them, then load the session again"
    )]
    Conflict {
        /// Which.
        session: SessionId,
        /// The id that both used.
        entry: EntryId,
    },
    /// Someone else changed the file.
    #[error("{path} was changed by someone else: it has {found} bytes instead of {expected}; load the session again")]
    Changed {
        /// The journal.
        path: PathBuf,
        /// Its length as left.
        expected: u64,
        /// Its length now.
        found: u64,
    },
    /// It was written by a newer version.
    #[error("{path} has format version {version}, this build reads up to {supported}; use a newer version")]
    NewerFormat {
        /// The journal.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// Ours.
        supported: u32,
    },
    /// The entry cannot be written.
    #[error("session `{session}`: {reason}")]
    Unencodable {
        /// Which.
        session: SessionId,
        /// Why.
        reason: Unencodable,
    },
    /// A node's name that is in use or cannot be one.
    #[error("node `{node}` {reason}")]
    Node {
        /// Which.
        node: NodeId,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A link stands where a folder or file of the store belongs.
    #[error("{path} is a symbolic link; the store follows none: give the real path")]
    Symlink {
        /// The link.
        path: PathBuf,
    },
    /// Something else stands where a folder belongs.
    #[error("{path} is not a folder; move it away or choose another data directory")]
    NotAFolder {
        /// What stands there.
        path: PathBuf,
    },
    /// The file system takes no changes.
    #[error("{path} is on a read-only file system; choose another data directory")]
    ReadOnly {
        /// Where.
        path: PathBuf,
    },
    /// The user may not.
    #[error("{path}: no permission; make it yours and writable (folders 0700), or choose another data directory")]
    Denied {
        /// Where.
        path: PathBuf,
    },
    /// There is no room.
    #[error("{path}: the disk is full; free some space, then resume")]
    DiskFull {
        /// Where.
        path: PathBuf,
    },
    /// A flush failed: what was written may not be on the disk.
    #[error("{path} could not be flushed to disk ({reason}); check the disk, then load the session again")]
    FlushFailed {
        /// The journal, or a blob.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// Something failed after the batch, or a part of it, was handed to the kernel: it may be in the journal or not. The
    /// next load finds out.
    #[error("{cause}; what was being written may be in the journal all the same")]
    InDoubt {
        /// What failed.
        cause: Box<StoreError>,
    },
    /// Anything else the system said.
    #[error("{path}: could not {doing}: {reason}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
}

impl StoreError {
    /// Whether an append that failed with this error may have left something of its batch in the journal.
    pub fn fate(&self) -> Fate {
        match self {
            Self::InDoubt { .. } => Fate::Unknown,
            Self::Unknown { .. }
            | Self::Held { .. }
            | Self::InUse { .. }
            | Self::Fenced { .. }
            | Self::Closed
            | Self::OnlyLooks
            | Self::NotLoaded { .. }
            | Self::Conflict { .. }
            | Self::Changed { .. }
            | Self::NewerFormat { .. }
            | Self::Unencodable { .. }
            | Self::Node { .. }
            | Self::Symlink { .. }
            | Self::NotAFolder { .. }
            | Self::ReadOnly { .. }
            | Self::Denied { .. }
            | Self::DiskFull { .. }
            | Self::FlushFailed { .. }
            | Self::Io { .. } => Fate::NotWritten,
        }
    }

    /// The same failure, met when something of the batch may have been written.
    pub(crate) fn in_doubt(self) -> Self {
        Self::InDoubt { cause: Box::new(self) }
    }

    /// Whether it says nothing of what was appended before the batch that met it.
    pub(crate) fn is_of_its_batch_alone(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::Io { .. } | Self::Unencodable { .. } | Self::Conflict { .. } => true,
            Self::InDoubt { cause } => cause.is_of_its_batch_alone(),
            Self::Unknown { .. }
            | Self::Held { .. }
            | Self::InUse { .. }
            | Self::Fenced { .. }
            | Self::Closed
            | Self::OnlyLooks
            | Self::NotLoaded { .. }
            | Self::Changed { .. }
            | Self::NewerFormat { .. }
            | Self::Node { .. }
            | Self::Symlink { .. }
            | Self::NotAFolder { .. }
            | Self::ReadOnly { .. }
            | Self::Denied { .. }
            | Self::FlushFailed { .. } => false,
        }
    }

    /// Sorts an I/O error by what can be done about it.
    pub(crate) fn io(doing: &'static str, path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::PermissionDenied => Self::Denied { path },
            io::ErrorKind::NotADirectory => Self::NotAFolder { path },
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Self::Symlink { path },
            _ => Self::Io { doing, path, reason: error.to_string() },
        }
    }
}
