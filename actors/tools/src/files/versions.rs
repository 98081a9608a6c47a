//! Which version of a file each agent of a house has seen, whoever made its tools. An agent is known by its session.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use blake3::{Hash, Hasher};
use playhouse_protocol::{SessionId, lock};
use playhouse_supervision::Lru;
use rustix::fs::fstat;

use crate::files::paths::FileKey;

/// The most versions that are remembered; the oldest go first. A forgotten file has to be read again before it is
/// overwritten.
const MAX_SEEN: usize = 16_384;
/// The largest file that is told by its content; larger ones are told by their marks.
pub(crate) const MAX_HASHED: u64 = 10_000_000;

/// What a file was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Its content, all of it.
    Content {
        /// Its size, in bytes.
        bytes: u64,
        hash: Hash,
    },
    /// The marks that the file system changes with it.
    Marks {
        /// Its number in its file system.
        inode: u64,
        /// Its size, in bytes.
        bytes: u64,
        /// When it was last written, and when anything about it last changed, in nanoseconds.
        times: [i128; 2],
    },
}

impl Version {
    /// That of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::Content { bytes: bytes.len() as u64, hash: blake3::hash(bytes) }
    }

    /// That of the bytes a hash has seen.
    pub(crate) fn hashed(hasher: &Hasher) -> Self {
        Self::Content { bytes: hasher.count(), hash: hasher.finalize() }
    }

    /// That of a file which is too large to be told by its content.
    pub(crate) fn marks(file: &File) -> io::Result<Self> {
        let seen = fstat(file)?;
        let time = |seconds: i64, nanos: i128| i128::from(seconds) * 1_000_000_000 + nanos;
        let written = time(seen.st_mtime, seen.st_mtime_nsec.into());
        let changed = time(seen.st_ctime, seen.st_ctime_nsec.into());
        Ok(Self::Marks {
            inode: seen.st_ino,
            bytes: u64::try_from(seen.st_size).unwrap_or_default(),
            times: [written, changed],
        })
    }

    /// How large the file was.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Content { bytes, .. } | Self::Marks { bytes, .. } => *bytes,
        }
    }

    /// Whether an open file, read from its beginning, is still this.
    pub(crate) fn is_that_of(&self, file: &mut File) -> io::Result<bool> {
        match self {
            Self::Content { bytes, .. } => {
                if file.metadata()?.len() != *bytes {
                    return Ok(false);
                }
                let mut hasher = Hasher::new();
                hasher.update_reader(io::Read::take(file, bytes.saturating_add(1)))?;
                Ok(Self::hashed(&hasher) == *self)
            }
            Self::Marks { .. } => Ok(Self::marks(file)? == *self),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Content { hash, .. } => write!(f, "blake3:{hash}"),
            Self::Marks { inode, bytes, times: [written, changed] } => {
                write!(f, "marks:{inode:x}-{bytes:x}-{written:x}-{changed:x}")
            }
        }
    }
}

type SeenKey = (SessionId, FileKey);

/// What each agent has last seen of files.
#[derive(Debug)]
pub(crate) struct Versions {
    most: usize,
    seen: Mutex<Lru<Arc<SeenKey>, Version>>,
}

impl Default for Versions {
    fn default() -> Self {
        Self { most: MAX_SEEN, seen: Mutex::default() }
    }
}

impl Versions {
    /// Remembers what an agent has seen of a file.
    pub(crate) fn remember(&self, session: &SessionId, file: &FileKey, version: Version) {
        let mut seen = lock(&self.seen);
        seen.insert(Arc::new((session.clone(), file.clone())), version);
        if seen.len() > self.most {
            seen.pop_oldest();
        }
    }

    /// What an agent last saw of a file, if it is remembered.
    pub(crate) fn remembered(&self, session: &SessionId, file: &FileKey) -> Option<Version> {
        lock(&self.seen).peek(&(session.clone(), file.clone())).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::AskedPath;
    use crate::files::paths::Root;
    use std::fs;
    use std::path::Path;

    fn key(folder: &Path, path: &str) -> FileKey {
        let asked = AskedPath::for_test(path, folder);
        Root::open(&asked).unwrap().spot().unwrap().key().unwrap()
    }

    #[test]
    fn a_file_is_the_same_by_whatever_path_and_when_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        std::os::unix::fs::symlink("../a", folder.path().join("b/link")).unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let first = key(folder.path(), "a");
        fs::remove_file(folder.path().join("a")).unwrap();
        assert_eq!(key(folder.path(), "b/../a"), first);
        assert_eq!(key(folder.path(), "b/link"), first);
        assert_eq!(key(&folder.path().join("b/.."), "./a"), first);
        assert_ne!(key(folder.path(), "b/a"), first);
    }

    #[test]
    fn only_so_many_versions_are_remembered_and_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (SessionId::new("a").unwrap(), SessionId::new("b").unwrap());
        let files: Vec<FileKey> = (0..4).map(|n| key(folder.path(), &n.to_string())).collect();
        let seen = Versions { most: 3, ..Versions::default() };
        seen.remember(&a, &files[0], Version::of(b"0"));
        seen.remember(&b, &files[0], Version::of(b"other"));
        seen.remember(&a, &files[1], Version::of(b"1"));
        seen.remember(&a, &files[0], Version::of(b"again"));
        assert_eq!(seen.remembered(&a, &files[0]), Some(Version::of(b"again")));
        assert_eq!(seen.remembered(&b, &files[0]), Some(Version::of(b"other")));
        seen.remember(&a, &files[2], Version::of(b"2"));
        assert_eq!(seen.remembered(&b, &files[0]), None, "the oldest");
        seen.remember(&a, &files[3], Version::of(b"3"));
        assert_eq!(seen.remembered(&a, &files[1]), None, "the next");
        assert_eq!(seen.remembered(&a, &files[0]), Some(Version::of(b"again")));
        assert_eq!(lock(&seen.seen).len(), 3);
    }
}
