//! Blobs as files: `<id>.blobs/<name>` beside the journal, and which of them may not be on the disk yet.
//!
//! A blob is written under a draft name and renamed, before the record that names it is written. Before a flush of the
//! journal, every blob that its records name and that may not be on the disk is flushed, and the names with it: no
//! record outlives its blobs. While there are such blobs, the folder has a file `unflushed-<epoch>`, so that whoever
//! loads the journal next knows too; a power cut ends it with what it speaks of.
//!
//! A crash between a blob and its record leaves a blob, or a draft of one, that no record names. It is harmless, is
//! used if its entry comes again, and goes when the session is removed.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::disk::{Disk, flush_folder};
use super::folder::{self, NO_FOLLOW};
use crate::format::blob::{BlobName, BlobProblem, BlobRef, BlobSource};
use crate::store::error::StoreError;

/// How many blobs are remembered by name; what is more is forgotten and looked up.
const REMEMBERED: usize = 1024;

/// How much of a blob a list needs: more than the characters of a prompt that it shows.
const BEGINNING: u64 = 1024;

const MARKER: &str = "unflushed-";

/// What is known of an owned journal's blobs.
#[derive(Debug, Default)]
pub(crate) struct Blobs {
    unflushed: Unflushed,
    /// Some that are on the disk.
    flushed: HashSet<BlobName>,
    /// Made by the batch that is being written.
    fresh: Vec<BlobName>,
    /// Whether the folder's own name is on the disk.
    folder_named: bool,
}

/// Blobs that may not be on the disk.
#[derive(Debug, Default)]
enum Unflushed {
    #[default]
    Nothing,
    These(BTreeSet<BlobName>),
    /// Whatever is in the folder.
    All,
}

impl Blobs {
    /// What is known of blobs that someone left.
    pub fn found(folder: &Path) -> Result<Self, StoreError> {
        let unflushed = match contents(folder).map_err(|e| StoreError::io("list", folder, &e))?.marked.is_empty() {
            true => Unflushed::Nothing,
            false => Unflushed::All,
        };
        Ok(Self { unflushed, ..Self::default() })
    }

    /// Sees that there is a blob with this content.
    pub fn put(&mut self, disk: &dyn Disk, folder: &Path, epoch: u64, content: &str) -> Result<BlobRef, StoreError> {
        let blob = BlobRef::to(content);
        if folder::ensure(disk, folder)? == folder::Made::Now {
            self.folder_named = false;
        }
        let path = folder.join(blob.name.as_str());
        let before = compare(&path, content.as_bytes()).map_err(|e| StoreError::io("read a blob", &path, &e))?;
        if before == Before::Same && self.flushed.contains(&blob.name) {
            return Ok(blob);
        }
        self.owe(disk, folder, epoch, &blob.name)?;
        match before {
            Before::Same => return Ok(blob),
            Before::Nothing => self.fresh.push(blob.name.clone()),
            Before::Other => {}
        }
        let draft = folder.join(format!("{}.{epoch}.new", blob.name.as_str()));
        write_draft(disk, &draft, |file| disk.write_blob(file, content.as_bytes()))
            .and_then(|()| disk.rename(&draft, &path))
            .map_err(|e| {
                let _ = disk.remove(&draft);
                StoreError::io("write a blob", &path, &e)
            })?;
        Ok(blob)
    }

    fn owe(&mut self, disk: &dyn Disk, folder: &Path, epoch: u64, name: &BlobName) -> Result<(), StoreError> {
        match &mut self.unflushed {
            Unflushed::All => {}
            Unflushed::These(names) if names.len() >= REMEMBERED => self.unflushed = Unflushed::All,
            Unflushed::These(names) => drop(names.insert(name.clone())),
            Unflushed::Nothing => {
                let marker = marker(folder, epoch);
                let mut options = OpenOptions::new();
                options.create(true).append(true).mode(0o600).custom_flags(NO_FOLLOW);
                disk.create(&options, &marker).map_err(|e| StoreError::io("write a blob", &marker, &e))?;
                self.unflushed = Unflushed::These(BTreeSet::from([name.clone()]));
            }
        }
        Ok(())
    }

    /// Flushes what may not be on the disk. After an error it is in doubt what is: see [`write_anew`].
    pub fn flush(&mut self, disk: &dyn Disk, folder: &Path, epoch: u64) -> Result<(), StoreError> {
        let Contents { blobs: names, marked } = match &self.unflushed {
            Unflushed::Nothing => return Ok(()),
            Unflushed::These(names) => Contents { blobs: names.iter().cloned().collect(), marked: vec![epoch] },
            Unflushed::All => contents(folder).map_err(|e| flush_failed(folder, &e))?,
        };
        for name in &names {
            let path = folder.join(name.as_str());
            open(&path).and_then(|file| disk.flush(&file)).map_err(|e| flush_failed(&path, &e))?;
        }
        let parent = folder.parent().filter(|_| !self.folder_named);
        for folder in [folder].into_iter().chain(parent) {
            flush_folder(disk, folder).map_err(|e| flush_failed(folder, &e))?;
        }
        self.folder_named = true;
        self.unflushed = Unflushed::Nothing;
        if self.flushed.len() + names.len() > REMEMBERED {
            self.flushed.clear();
        }
        self.flushed.extend(names.into_iter().take(REMEMBERED));
        unmark(disk, folder, marked.into_iter().filter(|by| *by <= epoch));
        Ok(())
    }

    /// What must not be forgotten: which blobs may not be on the disk.
    pub fn at_rest(self) -> Self {
        Self { flushed: HashSet::new(), fresh: Vec::new(), ..self }
    }

    /// The batch is written.
    pub fn keep(&mut self) {
        self.fresh.clear();
    }

    /// The batch was cut off: nothing names its blobs, and their room may be needed.
    pub fn roll_back(&mut self, disk: &dyn Disk, folder: &Path) {
        for name in self.fresh.drain(..) {
            // What stays is harmless.
            let _ = disk.remove(&folder.join(name.as_str()));
            self.flushed.remove(&name);
            if let Unflushed::These(names) = &mut self.unflushed {
                names.remove(&name);
            }
        }
    }
}

/// Writes blobs that may not be on the disk to new files that take their names, as is done with a journal whose flush
/// failed. One at a time.
pub(crate) fn write_anew(disk: &dyn Disk, folder: &Path) -> Result<(), StoreError> {
    let found = contents(folder).map_err(|e| flush_failed(folder, &e))?;
    if found.marked.is_empty() {
        return Ok(());
    }
    for name in &found.blobs {
        let path = folder.join(name.as_str());
        let draft = path.with_extension("anew.new");
        let mut content = Vec::new();
        open(&path)
            .and_then(|mut file| file.read_to_end(&mut content))
            .and_then(|_| {
                write_draft(disk, &draft, |file| disk.write_blob(file, &content).and_then(|()| disk.flush(file)))
            })
            .and_then(|()| disk.rename(&draft, &path))
            .map_err(|e| {
                let _ = disk.remove(&draft);
                flush_failed(&path, &e)
            })?;
    }
    for folder in [folder].into_iter().chain(folder.parent()) {
        flush_folder(disk, folder).map_err(|e| flush_failed(folder, &e))?;
    }
    unmark(disk, folder, found.marked);
    Ok(())
}

/// Removes a session's blobs, and what crashes left beside them.
pub(crate) fn remove(disk: &dyn Disk, folder: &Path) -> Result<(), StoreError> {
    match disk.remove_folder(folder) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StoreError::io("remove", folder, &e)),
    }
}

fn flush_failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::FlushFailed { place: path.into(), reason: error.to_string() }
}

/// Says that an owner's blobs may not be on the disk. Each owner has its own: one that has lost the journal and does
/// not know it must not speak for its successor.
fn marker(folder: &Path, epoch: u64) -> PathBuf {
    folder.join(format!("{MARKER}{epoch}"))
}

/// What is in a folder of blobs.
#[derive(Debug, Default)]
struct Contents {
    blobs: Vec<BlobName>,
    /// The epochs of owners that left a marker.
    marked: Vec<u64>,
}

fn contents(folder: &Path) -> io::Result<Contents> {
    let mut found = Contents::default();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        match name.strip_prefix(MARKER) {
            Some(epoch) => found.marked.extend(epoch.parse::<u64>()),
            None => found.blobs.extend(BlobName::try_from(name)),
        }
    }
    found.blobs.sort();
    Ok(found)
}

/// Removes markers. One that stays only makes the next load flush again.
fn unmark(disk: &dyn Disk, folder: &Path, epochs: impl IntoIterator<Item = u64>) {
    for epoch in epochs {
        let _ = disk.remove(&marker(folder, epoch));
    }
}

/// Opens a blob; never a link, a pipe or anything else that is no file.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW | NO_WAIT).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a file; move it away")),
    }
}

/// Opening a pipe does not wait for its other end.
const NO_WAIT: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

fn write_draft(disk: &dyn Disk, path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let file = match disk.create(&folder::new_file(), path) {
        // From a write that a panic ended.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(path).and_then(|()| disk.create(&folder::new_file(), path))?
        }
        opened => opened?,
    };
    write(&file)
}

/// What stands where a blob is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Same,
    /// What is left of one that was damaged.
    Other,
}

fn compare(path: &Path, content: &[u8]) -> io::Result<Before> {
    let mut file = match open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Before::Nothing),
        Err(e) => return Err(e),
    };
    if file.metadata()?.len() != content.len() as u64 {
        return Ok(Before::Other);
    }
    let mut buffer = vec![0; 1 << 16];
    for part in content.chunks(1 << 16) {
        let Some(buffer) = buffer.get_mut(..part.len()) else { return Ok(Before::Other) };
        match file.read_exact(buffer) {
            Ok(()) if buffer == part => {}
            Ok(()) => return Ok(Before::Other),
            Err(e) if is_damage(&e) => return Ok(Before::Other),
            Err(e) => return Err(e),
        }
    }
    Ok(Before::Same)
}

/// Whether reading again will not help.
fn is_damage(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// How much of a blob is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All of it, checked against its name.
    Whole,
    /// What a list shows; only its length is checked.
    Beginning,
}

/// A session's blobs, to read.
#[derive(Debug)]
pub(crate) struct BlobFiles {
    folder: PathBuf,
    reading: Reading,
    /// What went wrong that is no damage: too many open files, no permission. It may go well the next time, so it
    /// must not look like a loss.
    failed: RefCell<Option<StoreError>>,
}

impl BlobFiles {
    pub fn new(folder: PathBuf, reading: Reading) -> Self {
        Self { folder, reading, failed: RefCell::default() }
    }

    /// Fails if a blob that may be whole could not be read.
    pub fn result(&self) -> Result<(), StoreError> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    fn read(&self, path: &Path, blob: &BlobRef) -> io::Result<Result<String, BlobProblem>> {
        let file = match open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Err(BlobProblem::Missing)),
            Err(e) => return Err(e),
        };
        let found = file.metadata()?.len();
        if found != blob.bytes {
            return Ok(Err(BlobProblem::Length { expected: blob.bytes, found }));
        }
        let mut content = Vec::new();
        match self.reading {
            Reading::Whole => {
                let length = usize::try_from(found).unwrap_or(usize::MAX);
                content.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
                file.take(found).read_to_end(&mut content)?;
                if !blob.name.is_of(&content) {
                    return Ok(Err(BlobProblem::Altered));
                }
                Ok(String::from_utf8(content).map_err(|_| BlobProblem::Altered))
            }
            Reading::Beginning => {
                file.take(BEGINNING).read_to_end(&mut content)?;
                Ok(Ok(String::from_utf8_lossy(&content).into_owned()))
            }
        }
    }
}

impl BlobSource for BlobFiles {
    fn fetch(&self, blob: &BlobRef) -> Result<String, BlobProblem> {
        let path = self.folder.join(blob.name.as_str());
        self.read(&path, blob).unwrap_or_else(|e| {
            if !is_damage(&e) {
                self.failed.borrow_mut().get_or_insert(StoreError::io("read a blob", &path, &e));
            }
            Err(BlobProblem::Unreadable { reason: e.to_string() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::files::disk::Kernel;

    fn name(n: usize) -> BlobName {
        BlobName::of(&n.to_le_bytes())
    }

    #[test]
    fn what_is_remembered_has_a_bound_and_what_is_forgotten_is_flushed_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut blobs = Blobs::default();
        blobs.put(&Kernel, folder.path(), 1, "a blob").unwrap();
        for n in 1..REMEMBERED {
            blobs.owe(&Kernel, folder.path(), 1, &name(n)).unwrap();
        }
        assert!(matches!(&blobs.unflushed, Unflushed::These(names) if names.len() == REMEMBERED));
        blobs.owe(&Kernel, folder.path(), 1, &name(0)).unwrap();
        assert!(matches!(blobs.unflushed, Unflushed::All));
        blobs.flushed.extend((0..REMEMBERED).map(name));
        blobs.flush(&Kernel, folder.path(), 1).unwrap();
        assert!(matches!(blobs.unflushed, Unflushed::Nothing));
        assert_eq!(blobs.flushed, HashSet::from([BlobName::of(b"a blob")]));
    }

    #[test]
    fn an_owner_that_lost_the_journal_does_not_say_that_its_successor_s_blobs_are_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let marked = || contents(folder.path()).unwrap().marked;
        let (mut old, mut new) = (Blobs::default(), Blobs::default());
        old.put(&Kernel, folder.path(), 1, "old").unwrap();
        new.put(&Kernel, folder.path(), 2, "new").unwrap();
        old.unflushed = Unflushed::All;
        old.flush(&Kernel, folder.path(), 1).unwrap();
        assert_eq!(marked(), [2]);
        new.flush(&Kernel, folder.path(), 2).unwrap();
        assert_eq!(marked(), [0; 0]);
    }
}
