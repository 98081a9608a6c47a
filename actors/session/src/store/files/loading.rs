//! Reading a journal, to go on with it or to look at it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use playhouse_protocol::{Durability, Entry, EntryBody, Seq, SessionId, lock};

use super::blob_files::{self, Blobs, Reading};
use super::folder::{self, NO_FOLLOW, Paths};
use super::journal::{Journal, KnownEntry, Presence};
use super::ownership::Claim;
use super::reading::FileRecords;
use super::recovery;
use super::{FileStore, lock_journal};
use crate::format::record::Print;
use crate::format::scan::Scan;
use crate::store::error::StoreError;
use crate::store::{Loaded, REMEMBERED, Records, Store};

impl FileStore {
    pub(super) fn load_owned(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        let loaded = self.load_into(session, &mut lock_journal(&self.slot(session)));
        if loaded.is_err() {
            self.forget(session);
        }
        loaded
    }

    pub(super) fn load_into(&self, session: &SessionId, slot: &mut Option<Journal>) -> Result<Loaded, StoreError> {
        *slot = None;
        lock(&self.resting).remove(session);
        lock(&self.descriptors).forget(session);
        let paths = Arc::new(self.paths(session));
        folder::check_if_there(&paths.folder)?;
        folder::check_if_there(&paths.blobs)?;
        for place in [&paths.folder, &paths.journal] {
            folder::check_private_if_there(place)?;
        }
        recovery::refuse_newer(&paths.journal)?;
        let mut epoch = match self.owners.claim(session, &paths.owner, &paths.journal)? {
            Claim::Ours(epoch) => epoch,
            Claim::Never => {
                *slot = Some(Journal::empty(paths, 1, Presence::Nothing));
                return Ok(Loaded { entries: Vec::new(), epoch: 1, damage: Vec::new() });
            }
        };
        if lock(&self.suspects).contains(session) {
            blob_files::write_anew(&*self.disk, &paths.blobs)?;
            recovery::write_anew(&*self.disk, &paths)?;
            lock(&self.suspects).remove(session);
        }
        let Some(file) = open_existing(&paths.journal)? else {
            *slot = Some(Journal::empty(paths, epoch, Presence::Claimed));
            return Ok(Loaded { entries: Vec::new(), epoch, damage: Vec::new() });
        };
        let scan = recovery::read(&paths, |blobs| Scan::read_with(recovery::buffered(&file), blobs))?;
        if scan.epoch > epoch {
            let higher = scan.epoch.saturating_add(1);
            self.owners.raise(session, &paths.owner, epoch, higher)?;
            epoch = higher;
        }
        let tail = scan.good_end..scan.end;
        let (kept_aside, lost) = match scan.loses_its_tail() {
            true => (None, tail),
            false => (recovery::cut_tail(&*self.disk, &paths, &file, tail)?, 0..0),
        };
        let mut journal = Journal::empty(paths.clone(), epoch, Presence::File);
        journal.next_seq = scan.last_seq.saturating_add(1);
        journal.head = scan.head();
        journal.len = scan.good_end;
        journal.lost = lost;
        journal.unflushed = scan.good_end > 0;
        journal.blobs = Blobs::found(&paths.blobs)?;
        let prints: HashMap<Seq, Print> = scan.prints.iter().copied().collect();
        let latest = scan.entries.len().saturating_sub(REMEMBERED);
        for (seq, entry) in scan.entries.iter().skip(latest) {
            let print = prints.get(seq).copied();
            journal.recent.push(entry.id.clone(), KnownEntry { seq: *seq, print });
        }
        lock(&self.descriptors).put(session, Arc::new(file));
        // Whoever wrote it may have died before its flush: nobody acts on what a power cut could take back.
        match durability(&scan.entries) {
            Some(Durability::Os | Durability::None) => {}
            Some(Durability::Flush) | None => self.flush_journal(session, &mut journal)?,
        }
        *slot = Some(journal);
        let tail = scan.tail(kept_aside);
        let damage = scan.no_chain().into_iter().chain(scan.damage).chain(tail).collect();
        Ok(Loaded { entries: scan.entries, epoch, damage })
    }

    pub(super) fn peek(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        let mut records = Box::new(self.records(session)?);
        let entries = records.by_ref().collect::<Result<_, _>>()?;
        Ok(Loaded { entries, epoch: records.epoch, damage: records.damage() })
    }

    pub(super) fn records(&self, session: &SessionId) -> Result<FileRecords, StoreError> {
        let (paths, file) = self.open_to_look(session)?;
        let mut records = FileRecords::open(&paths.journal, file, Reading::Whole)?;
        records.refuse_newer()?;
        if self.holder(session)?.is_some() {
            // What a live owner is writing right now is no damage.
            records.torn = None;
        }
        Ok(records)
    }

    pub(super) fn open_to_look(&self, session: &SessionId) -> Result<(Paths, File), StoreError> {
        let paths = self.paths(session);
        folder::check_if_there(&paths.folder)?;
        folder::check_if_there(&paths.blobs)?;
        let file = folder::open_to_read(&paths.journal)?;
        let file = file.ok_or_else(|| StoreError::Unknown { session: session.clone() })?;
        Ok((paths, file))
    }
}

/// What a journal's last settings say; `None` if they cannot be read.
fn durability(entries: &[(Seq, Arc<Entry>)]) -> Option<Durability> {
    entries.iter().rev().find_map(|(_, entry)| match &entry.body {
        EntryBody::Opened(opened) => Some(opened.settings.durability),
        EntryBody::Configured { settings, .. } => Some(settings.durability),
        _ => None,
    })
}

fn open_existing(path: &Path) -> Result<Option<File>, StoreError> {
    match OpenOptions::new().read(true).append(true).custom_flags(NO_FOLLOW).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("open", path, &e)),
    }
}
