//! Writing to an owned journal.
//!
//! A batch is one `write(2)`. If it fails, the journal takes nothing more until it is loaded again, and what it left in
//! the file stays: only a load, which makes sure that the journal is still ours, may cut. So a batch of which something
//! was written is in doubt ([`StoreError::InDoubt`]): its whole records count when the journal is loaded. A failed flush
//! is final in the same way, and the next load writes the file anew, since a kernel may drop what it could not flush
//! and still show it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;

use playhouse_protocol::{Entry, Fate, Seq, SessionId, lock};

use super::FileStore;
use super::disk::{flush_folder, write_batch};
use super::folder::{self, Made, NO_FOLLOW, Paths};
use super::journal::{Journal, KnownEntry, Presence};
use super::recovery;
use crate::format::blob;
use crate::format::hash_chain::ChainHash;
use crate::format::record::{self, Form, Print};
use crate::store::Sync;
use crate::store::error::StoreError;

/// Room to encode a batch in: the JSON of one record, the lines of all.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    json: Vec<u8>,
    lines: Vec<u8>,
}

/// The most room that is kept for the next records.
const KEPT_ROOM: usize = 256 << 10;

impl FileStore {
    /// The journal's file, from the open ones, else from the disk, else new.
    fn journal_file(&self, session: &SessionId, paths: &Paths, journal: &mut Journal) -> Result<Arc<File>, StoreError> {
        if let Some(file) = lock(&self.descriptors).get(session) {
            return Ok(file);
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).mode(0o600).custom_flags(NO_FOLLOW);
        options.create_new(journal.presence != Presence::File);
        let opened = match journal.presence {
            Presence::File => options.open(&paths.journal),
            Presence::Nothing | Presence::Claimed => self.disk.create(&options, &paths.journal),
        };
        let opened = opened.map_err(|e| StoreError::io("open", &paths.journal, &e))?;
        journal.presence = Presence::File;
        let file = Arc::new(opened);
        lock(&self.descriptors).put(session, file.clone());
        Ok(file)
    }

    pub(crate) fn write(
        &self,
        session: &SessionId,
        journal: &mut Journal,
        entries: &[Arc<Entry>],
        sync: Sync,
    ) -> Result<Vec<Seq>, StoreError> {
        let (seqs, fresh) = number(session, journal, entries)?;
        if fresh.is_empty() {
            return Ok(seqs);
        }
        let paths = journal.paths.clone();
        let epoch = journal.epoch;
        if journal.presence == Presence::Nothing {
            if folder::ensure(&*self.disk, &paths.folder)? == Made::Now {
                folder::sync(&*self.disk, &self.sessions)?;
            }
            self.owners.claim_new(session, &paths.owner, epoch)?;
            journal.presence = Presence::Claimed;
        }
        let file = self.journal_file(session, &paths, journal)?;
        self.owners.check(session, &paths.owner, epoch, &mut journal.stamp)?;
        let found = file.metadata().map_err(|e| StoreError::io("look at", &paths.journal, &e))?;
        let expected = journal.len.max(journal.lost.end);
        if found.len() != expected || found.nlink() == 0 {
            let found = if found.nlink() == 0 { 0 } else { found.len() };
            return Err(StoreError::Changed { place: paths.journal.clone().into(), expected, found });
        }
        recovery::cut_tail(&*self.disk, &paths, &file, std::mem::take(&mut journal.lost))?;
        let mut buffers = lock(&self.buffers).pop().unwrap_or_default();
        buffers.lines.clear();
        let mut head = journal.head;
        let mut encoded = Vec::with_capacity(fresh.len());
        let ready = fresh
            .iter()
            .try_for_each(|(entry, seq)| {
                let print = self.encode(session, journal, &mut head, (*seq, entry), &mut buffers)?;
                encoded.push((entry.id.clone(), KnownEntry { seq: *seq, print: Some(print) }));
                Ok(())
            })
            .and_then(|()| match sync {
                Sync::Kernel => Ok(()),
                Sync::Blobs | Sync::Disk => self.flush_blobs(session, &paths, journal),
            });
        let written = ready.and_then(|()| {
            write_batch(&*self.disk, &file, &buffers.lines, &paths.journal).map_err(|error| match file.metadata() {
                Ok(found) if found.len() == journal.len => error,
                Ok(_) | Err(_) => error.in_doubt(),
            })
        });
        if let Err(error) = written {
            match error.fate() {
                // Their room may be needed. An owner that lost the journal leaves them: its successor may name them.
                Fate::NotWritten => drop(self.owners.while_ours(session, &paths.owner, epoch, || {
                    journal.blobs.roll_back(&*self.disk, &paths.blobs);
                })),
                Fate::Unknown => {}
            }
            journal.blobs.keep();
            return Err(error);
        }
        let len = journal.len + buffers.lines.len() as u64;
        if buffers.json.capacity() + buffers.lines.capacity() <= KEPT_ROOM {
            lock(&self.buffers).push(buffers);
        }
        journal.blobs.keep();
        journal.unflushed = true;
        // Whoever took over between the check above and the writes has not seen them: then they don't count.
        let ours = self.owners.check(session, &paths.owner, epoch, &mut journal.stamp);
        ours.map_err(StoreError::in_doubt)?;
        journal.len = len;
        journal.next_seq += encoded.len() as u64;
        journal.head = head;
        for (id, known) in encoded {
            journal.recent.push(id, known);
        }
        Ok(seqs)
    }

    /// Adds the line for an entry and answers what its content is known by. The line follows the record whose hash is
    /// `head`. Its long strings are written to their files, one entry's at a time.
    fn encode(
        &self,
        session: &SessionId,
        journal: &mut Journal,
        head: &mut ChainHash,
        (seq, entry): (Seq, &Entry),
        Buffers { json, lines }: &mut Buffers,
    ) -> Result<Print, StoreError> {
        json.clear();
        let print = print(session, entry, json)?;
        let put = |content: &str| journal.blobs.put(&*self.disk, &journal.paths.blobs, journal.epoch, content);
        let place = (seq, journal.epoch);
        *head = match blob::extract(json, put)? {
            None => record::seal(head, place, Form::Plain, json, lines),
            Some(json) => record::seal(head, place, Form::WithBlobs, json.as_bytes(), lines),
        };
        Ok(print)
    }

    /// Flushes the blobs that records name, so that the records may be.
    fn flush_blobs(&self, session: &SessionId, paths: &Paths, journal: &mut Journal) -> Result<(), StoreError> {
        let flushed = journal.blobs.flush(&*self.disk, &paths.blobs, journal.epoch);
        if flushed.is_err() {
            lock(&self.suspects).insert(session.clone());
        }
        flushed
    }

    /// Flushes the journal and its name.
    pub(crate) fn flush_journal(&self, session: &SessionId, journal: &mut Journal) -> Result<(), StoreError> {
        if journal.presence != Presence::File || !(journal.unflushed || journal.folder_unflushed) {
            return Ok(());
        }
        let paths = journal.paths.clone();
        let file = self.journal_file(session, &paths, journal)?;
        self.flush_blobs(session, &paths, journal)?;
        let flushed = match journal.unflushed {
            true => self.disk.flush(&file).map_err(|e| e.to_string()),
            false => Ok(()),
        };
        let named = flushed.and_then(|()| match journal.folder_unflushed {
            true => flush_folder(&*self.disk, &paths.folder).map_err(|e| e.to_string()),
            false => Ok(()),
        });
        if let Err(reason) = named {
            lock(&self.suspects).insert(session.clone());
            return Err(StoreError::FlushFailed { place: paths.journal.clone().into(), reason });
        }
        journal.unflushed = false;
        journal.folder_unflushed = false;
        Ok(())
    }
}

/// The number of each entry, and those that the journal does not have.
#[allow(clippy::type_complexity)]
fn number<'a>(
    session: &SessionId,
    journal: &Journal,
    entries: &'a [Arc<Entry>],
) -> Result<(Vec<Seq>, Vec<(&'a Arc<Entry>, Seq)>), StoreError> {
    let mut fresh: Vec<(&Arc<Entry>, Seq)> = Vec::new();
    let mut seqs = Vec::with_capacity(entries.len());
    for entry in entries {
        let seq = match journal.recent.get(&entry.id) {
            Some(KnownEntry { seq, print: None }) => seq,
            Some(KnownEntry { seq, print: Some(known) }) if print(session, entry, &mut Vec::new())? == known => seq,
            Some(KnownEntry { print: Some(_), .. }) => return Err(conflict(session, entry)),
            None => match fresh.iter().find(|(other, _)| other.id == entry.id) {
                Some((other, seq)) if other.body == entry.body => *seq,
                Some(_) => return Err(conflict(session, entry)),
                None => {
                    let seq = Seq(journal.next_seq + fresh.len() as u64);
                    fresh.push((entry, seq));
                    seq
                }
            },
        };
        seqs.push(seq);
    }
    Ok((seqs, fresh))
}

/// What an entry's content is known by. `json` is empty and gets the entry's JSON.
fn print(session: &SessionId, entry: &Entry, json: &mut Vec<u8>) -> Result<Print, StoreError> {
    record::to_json(entry, json).map_err(|reason| StoreError::Unencodable { session: session.clone(), reason })?;
    Ok(Print::of(json))
}

fn conflict(session: &SessionId, entry: &Entry) -> StoreError {
    StoreError::Conflict { session: session.clone(), entry: entry.id.clone() }
}
