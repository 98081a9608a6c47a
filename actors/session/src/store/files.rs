//! Journals as files: `sessions/<2 hex>/<id>.journal`, shared by several processes.
//!
//! How batches are written and flushed is `append.rs`. Which process may write is `ownership.rs`; long strings are files
//! of their own, see `blob_files.rs`.

mod append;
mod blob_files;
pub mod disk;
pub(crate) mod fail;
pub(crate) mod folder;
mod heads;
pub(crate) mod journal;
mod listing;
mod loading;
pub(crate) mod ownership;
mod reading;
pub(crate) mod recovery;
mod resting;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use playhouse_protocol::{Durability, Entry, NodeId, Seq, SessionId, lock};
use rustix::process::{Resource, getrlimit};

use append::Buffers;
use disk::Disk;
use fail::DefaultDisk;
use folder::{DataDir, Paths};
use journal::{Descriptors, Journal};
use ownership::{OWNER_DRAFT, Owners, read_record};
use recovery::JOURNAL_DRAFT;
use resting::Resting;

use crate::store::error::StoreError;
use crate::store::{Holder, Loaded, Promises, Records, SessionHead, Store, Sync, Take};
use crate::views::summary::SessionSummary;
use crate::views::verify::Verification;

/// How a [`FileStore`] is opened.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The process's name among those that share the directory: new for every process. A random one by default.
    pub node: Option<NodeId>,
    /// How many journals are kept open at once: by default half of the descriptors that the process may have, at most
    /// 4,096.
    pub open_files: usize,
    /// How records reach the disk.
    pub disk: Arc<dyn Disk>,
}

impl Default for FileOptions {
    fn default() -> Self {
        let allowed = getrlimit(Resource::Nofile).current.and_then(|n| usize::try_from(n).ok()).unwrap_or(OPEN_FILES);
        Self { node: None, open_files: (allowed / 2).clamp(64, OPEN_FILES), disk: Arc::new(DefaultDisk) }
    }
}

/// The most journals that are kept open without being asked to.
const OPEN_FILES: usize = 4_096;

type Slot = Arc<Mutex<Option<Journal>>>;

/// Journals in a data directory.
#[derive(Debug)]
pub struct FileStore {
    data_dir: DataDir,
    sessions: PathBuf,
    pub(crate) owners: Owners,
    pub(crate) disk: Arc<dyn Disk>,
    /// The journals of sessions that are in use; an agent that rests is not among them.
    slots: Mutex<HashMap<SessionId, Slot>>,
    /// Owned journals of agents that rest.
    resting: Mutex<HashMap<SessionId, Resting>>,
    pub(crate) descriptors: Mutex<Descriptors>,
    /// Room to encode records in, as often as writers work at once.
    pub(crate) buffers: Mutex<Vec<Buffers>>,
    /// Journals whose flush failed: what the kernel shows of them may not be on the disk.
    pub(crate) suspects: Mutex<HashSet<SessionId>>,
}

impl FileStore {
    /// Opens a data directory, making it if need be, and takes a place among the processes that share it.
    pub fn open(data_dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_with(data_dir, FileOptions::default())
    }

    /// As [`FileStore::open`], with options.
    pub fn open_with(data_dir: impl Into<PathBuf>, options: FileOptions) -> Result<Self, StoreError> {
        let data_dir = DataDir::new(data_dir.into());
        folder::ensure_all(&*options.disk, data_dir.path())?;
        let (sessions, owners) = (data_dir.sessions(), data_dir.owners());
        folder::ensure_named(&*options.disk, &sessions)?;
        folder::ensure_named(&*options.disk, &owners)?;
        for folder in [data_dir.path(), &sessions, &owners] {
            folder::check_private(folder)?;
        }
        folder::check_writable(&sessions)?;
        let node = options.node.clone().unwrap_or_else(new_node);
        let owners = Owners::open(owners, node, options.disk.clone())?;
        Ok(Self::with(data_dir, owners, options))
    }

    /// Opens a data directory to look at it: nothing in it is made or changed, and nothing can be taken. It may be
    /// read-only, or not be there.
    pub fn look(data_dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let data_dir = DataDir::new(data_dir.into());
        for folder in [data_dir.path(), &data_dir.sessions(), &data_dir.owners()] {
            folder::check_if_there(folder)?;
        }
        let options = FileOptions::default();
        let owners = Owners::look(data_dir.owners(), new_node(), options.disk.clone());
        Ok(Self::with(data_dir, owners, options))
    }

    fn with(data_dir: DataDir, owners: Owners, options: FileOptions) -> Self {
        Self {
            sessions: data_dir.sessions(),
            owners,
            disk: options.disk,
            slots: Mutex::default(),
            resting: Mutex::default(),
            descriptors: Mutex::new(Descriptors::new(options.open_files)),
            buffers: Mutex::default(),
            suspects: Mutex::default(),
            data_dir,
        }
    }

    /// This process's name among those that share the directory.
    pub fn node(&self) -> &NodeId {
        self.owners.node()
    }

    /// Removes a draft that no live process works on.
    fn sweep(&self, path: &Path) -> Result<(), StoreError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let session = |draft: &str| name.strip_suffix(draft)?.strip_suffix('.').and_then(|id| SessionId::new(id).ok());
        if session(OWNER_DRAFT).is_some() {
            return folder::remove_if_there(&*self.disk, path);
        }
        match session(JOURNAL_DRAFT) {
            Some(session) if self.holder(&session)?.is_none() => folder::remove_if_there(&*self.disk, path),
            Some(_) | None => Ok(()),
        }
    }

    /// How many journals are open.
    pub fn open_files(&self) -> usize {
        lock(&self.descriptors).len()
    }

    pub(crate) fn paths(&self, session: &SessionId) -> Paths {
        Paths::of(&self.sessions, session)
    }

    fn slot(&self, session: &SessionId) -> Slot {
        lock(&self.slots).entry(session.clone()).or_default().clone()
    }

    /// Runs `work`, which appends `entries`, on a loaded journal that is ours under `epoch`; what fails, fails for all
    /// that follow. `refuses` says which earlier failures stand in the way. A journal that has let go of ids is read
    /// again if it may have one of the entries.
    fn with_journal<T>(
        &self,
        session: &SessionId,
        epoch: u64,
        entries: &[Arc<Entry>],
        refuses: impl FnOnce(&StoreError) -> bool,
        work: impl FnOnce(&mut Journal) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let slot = lock(&self.slots).get(session).cloned();
        let not_loaded = || StoreError::NotLoaded { session: session.clone() };
        let slot = slot.ok_or_else(not_loaded)?;
        let mut slot = lock_journal(&slot);
        if slot.as_ref().is_some_and(|journal| journal.epoch == epoch && journal.may_have(entries)) {
            let again = self.load_into(session, &mut slot)?;
            if again.epoch != epoch {
                return Err(self.fenced(session, epoch));
            }
        }
        let journal = slot.as_mut().ok_or_else(not_loaded)?;
        if let Some(error) = journal.broken.as_ref().filter(|error| refuses(error)) {
            return Err(error.clone());
        }
        if journal.epoch != epoch {
            return Err(self.fenced(session, epoch));
        }
        let done = work(journal);
        if let Err(error) = &done {
            journal.broken = Some(error.clone());
        }
        done
    }

    fn fenced(&self, session: &SessionId, epoch: u64) -> StoreError {
        let by = self.holder(session).ok().flatten().filter(|by| by.node != *self.owners.node());
        StoreError::Fenced { session: session.clone(), epoch, by }
    }

    fn forget(&self, session: &SessionId) {
        let slot = self.slot(session);
        *lock_journal(&slot) = None;
        lock(&self.descriptors).forget(session);
        // Two are the map's and ours: nobody else has it, and nobody can get it while the map is locked.
        let mut slots = lock(&self.slots);
        if Arc::strong_count(&slot) == 2 {
            slots.remove(session);
        }
    }
}

impl Store for FileStore {
    fn promises(&self) -> Promises {
        Promises { strongest: Durability::Flush }
    }

    fn load(&self, session: &SessionId, take: Take) -> Result<Loaded, StoreError> {
        match take {
            Take::Own => self.load_owned(session),
            Take::Peek => self.peek(session),
        }
    }

    fn read(&self, session: &SessionId, from: Seq) -> Result<Box<dyn Records>, StoreError> {
        let mut records = self.records(session)?;
        records.skip_to(from);
        Ok(Box::new(records))
    }

    fn exists(&self, session: &SessionId) -> Result<bool, StoreError> {
        folder::exists(&self.paths(session).journal)
    }

    fn own(&self, session: &SessionId) -> Result<u64, StoreError> {
        let slot = lock(&self.slots).get(session).cloned();
        if let Some(journal) = slot.as_ref().map(|slot| lock_journal(slot)).as_deref().and_then(Option::as_ref) {
            return match &journal.broken {
                Some(error) => Err(error.clone()),
                None => Ok(journal.epoch),
            };
        }
        if let Some(resting) = lock(&self.resting).remove(session) {
            let journal = resting.wake(Arc::new(self.paths(session)));
            return Ok(lock_journal(&self.slot(session)).insert(journal).epoch);
        }
        self.load_owned(session).map(|loaded| loaded.epoch)
    }

    fn append(
        &self,
        session: &SessionId,
        epoch: u64,
        entries: &[Arc<Entry>],
        sync: Sync,
    ) -> Result<Vec<Seq>, StoreError> {
        self.with_journal(
            session,
            epoch,
            entries,
            |_| true,
            |journal| {
                let seqs = self.write(session, journal, entries, sync)?;
                match sync {
                    Sync::Kernel | Sync::Blobs => {}
                    Sync::Disk => self.flush_journal(session, journal).map_err(StoreError::in_doubt)?,
                }
                Ok(seqs)
            },
        )
    }

    fn flush(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError> {
        // A batch that could not be written does not take away what was written before it.
        let refuses = |error: &StoreError| !error.is_of_its_batch_alone();
        self.with_journal(session, epoch, &[], refuses, |journal| {
            self.flush_journal(session, journal).map_err(StoreError::in_doubt)
        })
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let all = listing::journals(&self.sessions)?;
        Ok(listing::summaries(&all, |session| self.holder(session)))
    }

    fn summaries(&self, sessions: &[SessionId]) -> Result<Vec<SessionSummary>, StoreError> {
        let path = |session: &SessionId| (session.clone(), self.paths(session).journal);
        let all: Vec<_> = sessions.iter().map(path).collect();
        Ok(listing::summaries(&all, |session| self.holder(session)))
    }

    fn heads(&self, directory: &Path) -> Result<Vec<SessionHead>, StoreError> {
        heads::heads(&self.sessions, directory)
    }

    fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        let paths = self.paths(session);
        let slot = self.slot(session);
        let mut journal = lock_journal(&slot);
        let removed = self.owners.exclusively(|| {
            if let Some(record) = read_record(&paths.owner)? {
                self.owners.refuse_if_held(session, &record)?;
            }
            if !folder::exists(&paths.journal)? {
                return Err(StoreError::Unknown { session: session.clone() });
            }
            // First: should it end here, the session is still there to be removed again.
            blob_files::remove(&*self.disk, &paths.blobs)?;
            blob_files::remove(&*self.disk, &paths.output())?;
            folder::remove_if_there(&*self.disk, &paths.journal)?;
            for torn in recovery::torn_files(&paths)? {
                folder::remove_if_there(&*self.disk, &torn)?;
            }
            folder::remove_if_there(&*self.disk, &paths.journal.with_extension(JOURNAL_DRAFT))?;
            folder::remove_if_there(&*self.disk, &paths.owner)?;
            folder::sync(&*self.disk, &paths.folder)
        });
        if removed.is_ok() {
            *journal = None;
            lock(&self.resting).remove(session);
            lock(&self.suspects).remove(session);
        }
        let unused = journal.is_none();
        drop(journal);
        drop(slot);
        if unused {
            self.forget(session);
        }
        removed
    }

    fn rest(&self, session: &SessionId) -> Result<(), StoreError> {
        let slot = lock(&self.slots).get(session).cloned();
        let Some(slot) = slot else { return Ok(()) };
        let resting = lock_journal(&slot).take().and_then(Resting::of);
        drop(slot);
        if let Some(resting) = resting {
            lock(&self.resting).insert(session.clone(), resting);
        }
        self.forget(session);
        Ok(())
    }

    fn release(&self, session: &SessionId) -> Result<(), StoreError> {
        self.forget(session);
        lock(&self.resting).remove(session);
        let record = self.paths(session).owner;
        match fs::symlink_metadata(&record) {
            Ok(_) => self.owners.give_up(&record),
            Err(_) => Ok(()),
        }
    }

    fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let mut all: Vec<SessionId> =
            listing::journals(&self.sessions)?.into_iter().map(|(session, _)| session).collect();
        all.sort();
        Ok(all)
    }

    fn newest_first(&self) -> Result<Vec<SessionId>, StoreError> {
        listing::newest_first(&self.sessions)
    }

    fn verify(&self, session: &SessionId) -> Result<Verification, StoreError> {
        let (paths, file) = self.open_to_look(session)?;
        let scan = recovery::read(&paths, |blobs| Verification::scan(recovery::buffered(&file), blobs))?;
        // What a live owner is writing right now is not torn.
        let torn = if self.holder(session)?.is_some() { None } else { scan.tail(None) };
        Ok(Verification::of(session, scan, torn))
    }

    fn close(&self) {
        self.owners.close();
    }

    fn holder(&self, session: &SessionId) -> Result<Option<Holder>, StoreError> {
        self.owners.holder(read_record(&self.paths(session).owner)?.as_ref())
    }

    fn node(&self) -> Option<NodeId> {
        Some(self.owners.node().clone())
    }

    fn dead_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.owners.dead_nodes()
    }

    fn bury(&self, nodes: &[NodeId]) -> Result<(), StoreError> {
        if nodes.is_empty() {
            return Ok(());
        }
        // Under the lock no owner record is being written and no session changes hands.
        self.owners.exclusively(|| {
            for folder in listing::folders(&self.sessions)? {
                for entry in listing::read_folder(&folder)? {
                    self.sweep(&entry.path())?;
                }
            }
            Ok(())
        })?;
        nodes.iter().try_for_each(|node| self.owners.bury(node))
    }

    fn data_dir(&self) -> Option<DataDir> {
        Some(self.data_dir.clone())
    }
}

/// Opens a data directory as [`FileStore::open`] does, for one who needs no more than a store.
pub fn open(data_dir: impl Into<PathBuf>) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(FileStore::open(data_dir)?))
}

/// Opens a data directory as [`FileStore::look`] does, for one who needs no more than a store.
pub fn look(data_dir: impl Into<PathBuf>) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(FileStore::look(data_dir)?))
}

fn new_node() -> NodeId {
    uuid::Uuid::new_v4().simple().to_string().into()
}

/// Locks a journal. One that was being changed when its thread panicked is forgotten: the file is the truth.
fn lock_journal(slot: &Mutex<Option<Journal>>) -> MutexGuard<'_, Option<Journal>> {
    slot.lock().unwrap_or_else(|poisoned| {
        let mut slot_guard = poisoned.into_inner();
        *slot_guard = None;
        slot.clear_poison();
        slot_guard
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse_protocol::EntryBody;
    use playhouse_protocol::entry::{InputKind, QueuedInput};

    fn chain(from: usize, to: usize) -> Vec<Arc<Entry>> {
        let one = |n: usize| {
            let input_id = format!("in-{n}").as_str().into();
            let input = QueuedInput { input_id, kind: InputKind::Prompt, messages: Vec::new(), format: None };
            let parent = n.checked_sub(1).map(|before| format!("e{before}").as_str().into());
            let id = format!("e{n}").as_str().into();
            Arc::new(Entry { id, loop_id: None, parent, at: 1, body: EntryBody::Input(input) })
        };
        (from..to).map(one).collect()
    }

    #[test]
    fn f41_a_long_journal_at_rest_is_small_goes_on_unread_and_still_knows_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path()).unwrap();
        let session = SessionId::new("s").unwrap();
        let epoch = store.own(&session).unwrap();
        store.append(&session, epoch, &chain(0, 10_000), Sync::Kernel).unwrap();
        store.rest(&session).unwrap();
        assert_eq!((lock(&store.slots).len(), lock(&store.resting).len(), store.open_files()), (0, 1, 0));
        assert!(size_of::<Resting>() <= 256, "{} bytes, one id and no path", size_of::<Resting>());
        // Nothing is read: a journal that cannot be read takes what follows.
        let path = store.paths(&session).journal;
        let whole = fs::read(&path).unwrap();
        fs::write(&path, vec![b'x'; whole.len()]).unwrap();
        assert_eq!(store.own(&session).unwrap(), epoch);
        assert_eq!(
            store.append(&session, epoch, &chain(10_000, 10_002), Sync::Kernel).unwrap(),
            [10_001, 10_002].map(Seq)
        );
        let added = fs::read(&path).unwrap().split_off(whole.len());
        fs::write(&path, [whole, added].concat()).unwrap();
        // Sent again: known without reading. An entry from before the rest: read again, and known.
        assert_eq!(
            store.append(&session, epoch, &chain(10_000, 10_002), Sync::Kernel).unwrap(),
            [10_001, 10_002].map(Seq)
        );
        assert_eq!(store.append(&session, epoch, &chain(9_000, 9_001), Sync::Kernel).unwrap(), [Seq(9_001)]);
        assert_eq!(store.load(&session, Take::Own).unwrap().entries.len(), 10_002);
        store.rest(&session).unwrap();
        store.release(&session).unwrap();
        assert_eq!((lock(&store.slots).len(), lock(&store.resting).len()), (0, 0));
    }
}
