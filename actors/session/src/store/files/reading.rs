//! Reading a journal one record at a time.
//!
//! Whether a record counts is known at the journal's end: an owner that took over may have begun again before it. So the
//! lines that count are found first, and only where they are is kept; then each is read when it is asked for.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use playhouse_protocol::entry::FORMAT_VERSION;
use playhouse_protocol::{Entry, Seq};

use super::blob_files::{BlobFiles, Reading};
use super::recovery::BUFFER;
use crate::format::record::{BadLine, decode_with};
use crate::format::scan::{Damage, DamageKind, LineAt, Scan};
use crate::store::Records;
use crate::store::error::StoreError;

/// The records of a journal's file.
#[derive(Debug)]
pub(crate) struct FileRecords {
    path: PathBuf,
    file: BufReader<File>,
    /// Where the next line to be read begins.
    offset: u64,
    left: std::vec::IntoIter<(Seq, LineAt)>,
    blobs: BlobFiles,
    damage: Vec<Damage>,
    /// The highest epoch of any whole line.
    pub epoch: u64,
    /// The torn tail, which is damage unless a live owner is writing it right now.
    pub torn: Option<Damage>,
    /// The format's version, when it is newer than this build.
    pub newer: Option<u32>,
}

impl FileRecords {
    pub fn open(path: &Path, file: File, reading: Reading) -> Result<Self, StoreError> {
        let failed = |e| StoreError::io("read", path, &e);
        let mut file = BufReader::with_capacity(BUFFER, file);
        let index = Scan::index(&mut file).map_err(failed)?;
        file.rewind().map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            offset: 0,
            blobs: BlobFiles::new(path.with_extension("blobs"), reading),
            epoch: index.epoch,
            torn: index.tail(None),
            newer: index.newer,
            damage: index.no_chain().into_iter().chain(index.damage).collect(),
            left: index.entries.into_iter(),
        })
    }

    /// Leaves out the records before this one.
    pub fn skip_to(&mut self, from: Seq) {
        let before = self.left.as_slice().partition_point(|(seq, _)| *seq < from);
        // Nothing before the first.
        if let Some(last) = before.checked_sub(1) {
            self.left.nth(last);
        }
    }

    /// Fails if a newer build wrote it.
    pub fn refuse_newer(&self) -> Result<(), StoreError> {
        match self.newer {
            Some(version) => Err(self.written_by_newer(version)),
            None => Ok(()),
        }
    }

    fn written_by_newer(&self, version: u32) -> StoreError {
        StoreError::NewerFormat { place: self.path.as_path().into(), version, supported: FORMAT_VERSION }
    }

    /// Reads the line that begins there; `None` if its entry is none that this build knows.
    fn read(&mut self, seq: Seq, at: LineAt) -> Result<Option<Arc<Entry>>, StoreError> {
        let failed = |path: &Path, e| StoreError::io("read", path, &e);
        let ahead = i64::try_from(at.offset.saturating_sub(self.offset)).unwrap_or(i64::MAX);
        self.file.seek_relative(ahead).map_err(|e| failed(&self.path, e))?;
        let mut line = Vec::new();
        let length = self.file.read_until(b'\n', &mut line).map_err(|e| failed(&self.path, e))?;
        self.offset = at.offset + length as u64;
        let damage = |kind| Damage { line: at.number, offset: at.offset, kind };
        match decode_with(&line, &self.blobs) {
            Ok(record) => {
                self.blobs.result()?;
                self.damage.extend(record.lost.into_iter().map(|lost| damage(DamageKind::LostBlob { seq, lost })));
                Ok(Some(Arc::new(record.entry)))
            }
            Err(BadLine::Newer { version }) => Err(self.written_by_newer(version)),
            Err(bad) => {
                self.damage.push(damage(DamageKind::BadLine(bad)));
                Ok(None)
            }
        }
    }
}

impl Iterator for FileRecords {
    type Item = Result<(Seq, Arc<Entry>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (seq, at) = self.left.next()?;
            match self.read(seq, at) {
                Ok(Some(entry)) => return Some(Ok((seq, entry))),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Records for FileRecords {
    fn damage(mut self: Box<Self>) -> Vec<Damage> {
        // What was found when a line was read follows what was found out about it before.
        self.damage.sort_by_key(|damage| damage.line);
        self.damage.extend(self.torn);
        self.damage
    }
}
