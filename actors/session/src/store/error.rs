//! The errors that every store answers with, and what each means for a commit.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use playhouse_protocol::{AgentId, EntryId, Fate, NodeId, SessionId};

use super::Holder;
use crate::format::record::Unencodable;

/// Where something is, in a store's own words: a path, an address, the name of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(String);

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Location {
    fn from(words: &str) -> Self {
        Self(words.to_owned())
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Self(path.display().to_string())
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        path.as_path().into()
    }
}

/// What a failed commit means for whoever wanted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Someone else owns the session: leave it, and do not take it back.
    Fenced,
    /// The store cannot be reached for now: send it again.
    Away,
    /// The journal takes nothing more until it is loaded again.
    Broken,
}

/// Why a store did not do what was asked, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("there is no session `{session}`; list the sessions to see which there are")]
    Unknown {
        /// The session that was asked for.
        session: SessionId,
    },
    /// Another live process has it.
    #[error("session `{session}` is held by another process (pid {pid}, node {node}); end that process or wait for it")]
    Held {
        /// The session that was asked for.
        session: SessionId,
        /// The name of the process that has it.
        node: NodeId,
        /// Its process id.
        pid: u32,
    },
    /// An agent of this process has it, or it is being removed.
    #[error(
        "session `{session}` is in use {}: dismiss the agent first",
        .agent.as_ref().map_or_else(|| "by the house".to_owned(), |agent| format!("by agent `{agent}`, which is on stage"))
    )]
    InUse {
        /// The session that was asked for.
        session: SessionId,
        /// The agent at the top of the tree that has it.
        agent: Option<AgentId>,
    },
    /// Another process took it over.
    #[error(
        "session `{session}` was taken over by {} and is no longer epoch {epoch} here; go on with it there",
        .by.as_ref().map_or_else(|| "another process".to_owned(), ToString::to_string)
    )]
    Fenced {
        /// The session that is no longer this process's.
        session: SessionId,
        /// The epoch that is over.
        epoch: u64,
        /// Who has it now, if that can be told.
        by: Option<Holder>,
    },
    /// The store cannot be reached for now. It may have what was sent, or not: send it again.
    #[error("{place} cannot be reached ({reason}); what is to be written is sent again")]
    Away {
        /// The store that did not answer.
        place: Location,
        /// What was said instead of an answer.
        reason: String,
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
        /// The session that is to be loaded first.
        session: SessionId,
    },
    /// An entry's id is in the journal with other content.
    #[error(
        "session `{session}` has another entry `{entry}`: two writers use this session as one; stop one of them, then load the session again"
    )]
    Conflict {
        /// The session that both use.
        session: SessionId,
        /// The id that both used.
        entry: EntryId,
    },
    /// A journal was to begin that is there already.
    #[error(
        "session `{session}` has a conversation already, which a new one must not overwrite: take an id that is not in use"
    )]
    Begun {
        /// The session that was to begin.
        session: SessionId,
    },
    /// Someone else changed the file.
    #[error("{place} was changed by someone else: it has {found} bytes instead of {expected}; load the session again")]
    Changed {
        /// The journal that was changed.
        place: Location,
        /// Its length as this process left it, in bytes.
        expected: u64,
        /// Its length now, in bytes.
        found: u64,
    },
    /// It was written by a newer version.
    #[error("{place} has format version {version}, this build reads up to {supported}; use a newer version")]
    NewerFormat {
        /// The journal that cannot be read.
        place: Location,
        /// The version that it was written in.
        version: u32,
        /// The newest version that this build reads.
        supported: u32,
    },
    /// The entry cannot be written.
    #[error("session `{session}`: {reason}")]
    Unencodable {
        /// The session that it was for.
        session: SessionId,
        /// What is in it that cannot be written.
        reason: Unencodable,
    },
    /// A node's name that is in use or cannot be one.
    #[error("node `{node}` {reason}")]
    Node {
        /// The name that was asked for.
        node: NodeId,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A link stands where a folder or file of the store belongs.
    #[error("{place} is a symbolic link; the store follows none: give the real path")]
    Symlink {
        /// Where the link is.
        place: Location,
    },
    /// Something else stands where a folder belongs.
    #[error("{place} is not a folder; move it away or choose another data directory")]
    NotAFolder {
        /// What stands there.
        place: Location,
    },
    /// Other users can change what is in it.
    #[error(
        "other users can write to {place}, so nobody knows who wrote what its journals say: {}",
        match .owner {
            Some(owner) => format!("it belongs to user {owner}; name a folder of your own as data directory"),
            None => format!("keep them out with `chmod go-w {place}`"),
        }
    )]
    Shared {
        /// The folder, or the journal itself.
        place: Location,
        /// The user it belongs to, if that is neither this one nor root.
        owner: Option<u32>,
    },
    /// The file system takes no changes.
    #[error("{place} is on a read-only file system; choose another data directory")]
    ReadOnly {
        /// What was to be used.
        place: Location,
    },
    /// The user may not.
    #[error("{place}: no permission; make it yours and writable (folders 0700), or choose another data directory")]
    Denied {
        /// What was to be used.
        place: Location,
    },
    /// There is no room.
    #[error("{place}: the disk is full; free some space, then resume")]
    DiskFull {
        /// What was to be used.
        place: Location,
    },
    /// A flush failed: what was written may not be on the disk.
    #[error("{place} could not be flushed to disk ({reason}); check the disk, then load the session again")]
    FlushFailed {
        /// The journal, or a blob.
        place: Location,
        /// What the system says about it.
        reason: String,
    },
    /// Something failed after the batch, or a part of it, was handed to the kernel: it may be in the journal or not. The
    /// next load finds out.
    #[error("{cause}; what was being written may be in the journal all the same")]
    InDoubt {
        /// What failed after the write.
        cause: Box<StoreError>,
    },
    /// Anything else the system said.
    #[error("{place}: could not {doing}: {reason}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What was to be used.
        place: Location,
        /// What the system says about it.
        reason: String,
    },
}

/// What an error speaks of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concerns {
    /// All of the journal.
    Journal,
    /// The batch that met it, and nothing that was appended before.
    Batch,
}

impl StoreError {
    /// Whether an append that failed with this error may have left something of its batch in the journal.
    pub fn fate(&self) -> Fate {
        match (self, self.failure()) {
            (Self::InDoubt { .. }, _) | (_, Failure::Away) => Fate::Unknown,
            (_, Failure::Fenced | Failure::Broken) => Fate::NotWritten,
        }
    }

    /// What it means for whoever wanted to commit.
    pub fn failure(&self) -> Failure {
        self.meaning().0
    }

    /// Whether it says nothing of what was appended before the batch that met it.
    pub(crate) fn is_of_its_batch_alone(&self) -> bool {
        self.meaning().1 == Concerns::Batch
    }

    /// What is to be done about it, and what it speaks of.
    fn meaning(&self) -> (Failure, Concerns) {
        match self {
            Self::InDoubt { cause } => cause.meaning(),
            Self::Fenced { .. } | Self::Held { .. } | Self::InUse { .. } => (Failure::Fenced, Concerns::Journal),
            Self::Away { .. } => (Failure::Away, Concerns::Journal),
            Self::DiskFull { .. }
            | Self::Io { .. }
            | Self::Unencodable { .. }
            | Self::Conflict { .. }
            | Self::Begun { .. } => (Failure::Broken, Concerns::Batch),
            Self::Unknown { .. }
            | Self::Closed
            | Self::OnlyLooks
            | Self::NotLoaded { .. }
            | Self::Changed { .. }
            | Self::NewerFormat { .. }
            | Self::Node { .. }
            | Self::Symlink { .. }
            | Self::NotAFolder { .. }
            | Self::Shared { .. }
            | Self::ReadOnly { .. }
            | Self::Denied { .. }
            | Self::FlushFailed { .. } => (Failure::Broken, Concerns::Journal),
        }
    }

    /// The same failure, met when something of the batch may have been written.
    pub(crate) fn in_doubt(self) -> Self {
        match self {
            Self::InDoubt { .. } => self,
            other => Self::InDoubt { cause: Box::new(other) },
        }
    }

    /// Sorts an I/O error by what can be done about it.
    pub(crate) fn io(doing: &'static str, path: &Path, error: &io::Error) -> Self {
        let place = Location::from(path);
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { place },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { place },
            io::ErrorKind::PermissionDenied => Self::Denied { place },
            io::ErrorKind::NotADirectory => Self::NotAFolder { place },
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Self::Symlink { place },
            _ => Self::Io { doing, place, reason: error.to_string() },
        }
    }
}
