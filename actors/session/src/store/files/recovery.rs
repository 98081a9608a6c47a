//! Reading a journal, and what loading changes on disk: a torn tail is cut and kept aside, a doubtful file is written
//! anew. A tail that is more than one write which broke off stays until someone writes after it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use playhouse_protocol::entry::FORMAT_VERSION;

use super::blob_files::{BlobFiles, Reading};
use super::disk::{Disk, flush_folder};
use super::folder::{self, Paths};
use crate::format::record::{BadLine, decode};
use crate::format::scan::Scan;
use crate::store::error::StoreError;

/// How much of a journal is read at once, in bytes.
pub(crate) const BUFFER: usize = 1 << 16;

/// A journal's file, to be read from where it stands.
pub(crate) fn buffered(journal: &File) -> BufReader<&File> {
    BufReader::with_capacity(BUFFER, journal)
}

/// Has a journal read with its blobs.
pub(crate) fn read<T>(
    paths: &Paths,
    scan: impl FnOnce(&BlobFiles) -> io::Result<Scan<T>>,
) -> Result<Scan<T>, StoreError> {
    let blobs = BlobFiles::new(paths.blobs.clone(), Reading::Whole);
    let scan = scan(&blobs).map_err(|e| StoreError::io("read", &paths.journal, &e))?;
    blobs.result()?;
    match scan.newer {
        Some(version) => {
            Err(StoreError::NewerFormat { place: paths.journal.clone().into(), version, supported: FORMAT_VERSION })
        }
        None => Ok(scan),
    }
}

/// Fails if a journal's first line is of a newer format, before anything about it is changed.
pub(crate) fn refuse_newer(path: &Path) -> Result<(), StoreError> {
    let Some(file) = folder::open_to_read(path)? else { return Ok(()) };
    let mut line = Vec::new();
    BufReader::new(file).read_until(b'\n', &mut line).map_err(|e| StoreError::io("read", path, &e))?;
    match decode(&line) {
        Err(BadLine::Newer { version }) => {
            Err(StoreError::NewerFormat { place: path.into(), version, supported: FORMAT_VERSION })
        }
        Ok(_) | Err(BadLine::NotARecord { .. } | BadLine::Checksum { .. } | BadLine::UnknownEntry { .. }) => Ok(()),
    }
}

/// Cuts what follows the last whole record, after copying it to a file of its own. Answers where it is kept.
pub(crate) fn cut_tail(
    disk: &dyn Disk,
    paths: &Paths,
    mut journal: &File,
    tail: Range<u64>,
) -> Result<Option<PathBuf>, StoreError> {
    if tail.is_empty() {
        return Ok(None);
    }
    let (path, mut aside) = new_torn_file(disk, paths)?;
    let copied = journal
        .seek(SeekFrom::Start(tail.start))
        .and_then(|_| io::copy(&mut journal.take(tail.end - tail.start), &mut aside))
        .and_then(|_| disk.sync(&aside));
    if let Err(e) = copied {
        let _ = disk.remove(&path);
        return Err(StoreError::io("keep a torn tail aside", &path, &e));
    }
    journal
        .set_len(tail.start)
        .and_then(|()| disk.sync(journal))
        .map_err(|e| StoreError::io("cut a torn tail off", &paths.journal, &e))?;
    folder::sync(disk, &paths.folder)?;
    Ok(Some(path))
}

fn new_torn_file(disk: &dyn Disk, paths: &Paths) -> Result<(PathBuf, File), StoreError> {
    let mut n = 1;
    loop {
        let path = paths.torn(n);
        match disk.create(&folder::new_file(), &path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < u32::MAX => n += 1,
            Err(e) => return Err(StoreError::io("keep a torn tail aside", &path, &e)),
        }
    }
}

/// The files in which a session's torn tails are kept.
pub(crate) fn torn_files(paths: &Paths) -> Result<Vec<PathBuf>, StoreError> {
    let zeroth = paths.torn(0);
    let name = zeroth.file_name().and_then(|name| name.to_str());
    let Some(prefix) = name.and_then(|name| name.strip_suffix('0')) else { return Ok(Vec::new()) };
    let failed = |e: io::Error| StoreError::io("list", &paths.folder, &e);
    let mut found = Vec::new();
    for entry in fs::read_dir(&paths.folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// How the draft of a journal ends that is written anew, by its owner.
pub(crate) const JOURNAL_DRAFT: &str = "journal.new";

/// Writes a journal to a new file that takes its name. After a failed flush the kernel may count as clean, and show,
/// what never reached the disk: only bytes that are written again can be flushed again.
pub(crate) fn write_anew(disk: &dyn Disk, paths: &Paths) -> Result<(), StoreError> {
    let failed = |e: io::Error| StoreError::FlushFailed { place: paths.journal.clone().into(), reason: e.to_string() };
    let draft = paths.journal.with_extension(JOURNAL_DRAFT);
    folder::remove_if_there(disk, &draft)?;
    let Some(mut old) = folder::open_to_read(&paths.journal)? else { return Ok(()) };
    let mut new = disk.create(&folder::new_file(), &draft).map_err(failed)?;
    let written = copy(&mut old, &mut new).and_then(|()| disk.flush(&new));
    if let Err(e) = written.and_then(|()| disk.rename(&draft, &paths.journal)) {
        let _ = disk.remove(&draft);
        return Err(failed(e));
    }
    flush_folder(disk, &paths.folder).map_err(failed)
}

/// Copies through memory: `io::copy` may share the old file's blocks instead of writing them.
fn copy(old: &mut File, new: &mut File) -> io::Result<()> {
    let mut old = buffered(old);
    loop {
        let bytes = old.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        new.write_all(bytes)?;
        let length = bytes.len();
        old.consume(length);
    }
}
