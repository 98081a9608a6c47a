//! Folders and paths of a data directory: made private, never through a link, with errors that name the path.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use playhouse_protocol::SessionId;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::disk::Disk;
use crate::store::error::StoreError;

/// Refuses to open a symbolic link.
pub(crate) const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Whether a folder was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Now,
    Before,
}

/// Where a session's files are.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub folder: PathBuf,
    pub journal: PathBuf,
    pub owner: PathBuf,
    pub blobs: PathBuf,
}

impl Paths {
    pub fn of(sessions: &Path, session: &SessionId) -> Self {
        let folder = sessions.join(format!("{:02x}", stable_hash(session) & 0xff));
        let journal = folder.join(format!("{session}.journal"));
        let owner = folder.join(format!("{session}.owner"));
        let blobs = folder.join(format!("{session}.blobs"));
        Self { folder, journal, owner, blobs }
    }

    /// Where long outputs of its tools are, which others write.
    pub fn output(&self) -> PathBuf {
        self.journal.with_extension("output")
    }

    /// Where the n-th torn tail is kept.
    pub fn torn(&self, n: u32) -> PathBuf {
        self.journal.with_extension(format!("journal.torn-{n}"))
    }
}

/// Where a store has its files, on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir(PathBuf);

impl DataDir {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The folder that everything is in.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file that a session's journal is in, whether it is there yet or not.
    pub fn journal(&self, session: &SessionId) -> PathBuf {
        self.of(session).journal
    }

    /// The folder for long outputs of a session's tools. It is whoever writes them who makes it; it is removed with the
    /// session.
    pub fn outputs(&self, session: &SessionId) -> PathBuf {
        self.of(session).output()
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    pub(super) fn owners(&self) -> PathBuf {
        self.0.join("owners")
    }

    pub(super) fn of(&self, session: &SessionId) -> Paths {
        Paths::of(&self.sessions(), session)
    }
}

/// A hash that is the same in every build and on every machine: paths depend on it.
pub(crate) fn stable_hash(session: &SessionId) -> u32 {
    crc32fast::hash(session.as_str().as_bytes())
}

/// Makes a private folder, or accepts one that is there; never a link or anything else.
pub(crate) fn ensure(disk: &dyn Disk, path: &Path) -> Result<Made, StoreError> {
    match disk.make_folder(path) {
        Ok(()) => Ok(Made::Now),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => check(path).map(|()| Made::Before),
        Err(e) => Err(StoreError::io("create the folder", path, &e)),
    }
}

/// As [`ensure`], and a folder that was made survives a power cut.
pub(crate) fn ensure_named(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    match (ensure(disk, path)?, path.parent()) {
        (Made::Before, _) => Ok(()),
        (Made::Now, Some(parent)) if !parent.as_os_str().is_empty() => sync(disk, parent),
        (Made::Now, _) => sync(disk, Path::new(".")),
    }
}

/// As [`ensure_named`], with the folders above it.
pub(crate) fn ensure_all(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(path) {
        Ok(_) => check(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            if let Some(parent) = parent
                && !exists(parent)?
            {
                ensure_all(disk, parent)?;
            }
            ensure_named(disk, path)
        }
        Err(e) => Err(StoreError::io("look at", path, &e)),
    }
}

/// Fails if something other than a folder is there; nothing at all is fine.
pub(crate) fn check_if_there(path: &Path) -> Result<(), StoreError> {
    match exists(path)? {
        true => check(path),
        false => Ok(()),
    }
}

fn check(path: &Path) -> Result<(), StoreError> {
    let meta = fs::symlink_metadata(path).map_err(|e| StoreError::io("look at", path, &e))?;
    if meta.file_type().is_symlink() {
        return Err(StoreError::Symlink { place: path.into() });
    }
    if !meta.is_dir() {
        return Err(StoreError::NotAFolder { place: path.into() });
    }
    Ok(())
}

/// As [`check_private`]; nothing at all is fine, and a link is refused by whoever opens it.
pub(crate) fn check_private_if_there(path: &Path) -> Result<(), StoreError> {
    match exists(path)? && !path.is_symlink() {
        true => check_private(path),
        false => Ok(()),
    }
}

/// Fails if users other than this one and root can change a file, or what is in a folder: what a journal says is what an
/// agent may do.
pub(crate) fn check_private(path: &Path) -> Result<(), StoreError> {
    let meta = fs::symlink_metadata(path).map_err(|e| StoreError::io("look at", path, &e))?;
    let owner = Some(meta.uid()).filter(|owner| ![0, rustix::process::geteuid().as_raw()].contains(owner));
    match owner.is_some() || meta.mode() & 0o022 != 0 {
        true => Err(StoreError::Shared { place: path.into(), owner }),
        false => Ok(()),
    }
}

/// Whether something is there; a link that leads nowhere counts.
pub(crate) fn exists(path: &Path) -> Result<bool, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("look at", path, &e)),
    }
}

/// Removes a file; one that is not there is removed already.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    match disk.remove(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StoreError::io("remove", path, &e)),
    }
}

/// How a private file is made that nobody has made before; never through a link.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).mode(0o600).custom_flags(NO_FOLLOW);
    options
}

/// Opens a file to read it, if it is there; never through a link.
pub(crate) fn open_to_read(path: &Path) -> Result<Option<File>, StoreError> {
    match OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("open", path, &e)),
    }
}

/// Makes names in a folder survive a power cut.
pub(crate) fn sync(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|folder| disk.sync(&folder)).map_err(|e| StoreError::io("flush the folder", path, &e))
}

/// Fails with the reason if nothing may be made in a folder.
pub(crate) fn check_writable(path: &Path) -> Result<(), StoreError> {
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, path, wanted, AtFlags::EACCESS).map_err(|e| StoreError::io("write to", path, &e.into()))
}
