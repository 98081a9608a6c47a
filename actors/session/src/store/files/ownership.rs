//! Who may write to a session's journal, when several processes share a data directory.
//!
//! A process holds one lock for its life, `owners/<node>.lock`. A session's owner record, `<id>.owner` beside its
//! journal, names a node and an epoch; it binds only while that node's lock is held, so a dead process's sessions are
//! free. Records change under a short lock of `owners/takeover.lock`; taking over from another node raises the epoch.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use playhouse_protocol::{NodeId, SessionId, lock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::folder::{self, NO_FOLLOW};
use super::listing::read_folder;
use crate::store::Holder;
use crate::store::error::StoreError;

/// A session's owner record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnerRecord {
    pub node: NodeId,
    pub epoch: u64,
    pub pid: u32,
    #[serde(default)]
    pub standing: Standing,
}

/// Whether an owner still wants what it owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    #[default]
    Held,
    Released,
}

/// Tells one version of an owner record from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    changed: (i64, i64),
}

/// What a process may do with a session.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It is ours, under this epoch.
    Ours(u64),
    /// Nobody ever owned it.
    Never,
}

/// How safe a changed record must be. Losing a session's first record to a power cut costs nothing, since its epoch
/// is in the journal; losing a takeover would let two epochs look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Safety {
    Kernel,
    Disk,
}

/// This process's place among those that share the data directory.
#[derive(Debug)]
pub(crate) struct Owners {
    folder: PathBuf,
    node: NodeId,
    pid: u32,
    lock: Mutex<ProcessLock>,
    disk: Arc<dyn Disk>,
}

/// Whether a process has its lock.
#[derive(Debug)]
enum ProcessLock {
    /// The lock is held until the house that the process keeps here ends.
    Held(#[allow(dead_code, reason = "held, not read")] File),
    /// That house has ended.
    GivenUp,
    /// It never took one: it only looks.
    None,
}

impl Owners {
    /// Takes the process's own lock. `folder` exists.
    pub fn open(folder: PathBuf, node: NodeId, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        if SessionId::new(node.as_str()).is_err() {
            return Err(StoreError::Node { node, reason: "cannot be a name: use 1 to 80 letters, digits, `-` or `_`" });
        }
        let pid = std::process::id();
        let path = lock_path(&folder, &node);
        if node.as_str() == TAKEOVER || folder::exists(&path)? {
            return Err(StoreError::Node { node, reason: "is taken; every process needs a name of its own" });
        }
        let owners = Self { folder, node, pid, disk, lock: Mutex::new(ProcessLock::None) };
        let file = owners.alone(|| {
            owners.sweep()?;
            owners.take_place(&path)
        })?;
        *lock(&owners.lock) = ProcessLock::Held(file);
        Ok(owners)
    }

    /// For one who only looks at what others own.
    pub fn look(folder: PathBuf, node: NodeId, disk: Arc<dyn Disk>) -> Self {
        Self { folder, node, pid: std::process::id(), disk, lock: Mutex::new(ProcessLock::None) }
    }

    fn take_place(&self, path: &Path) -> Result<File, StoreError> {
        // Locked before it has its name, so that nobody ever sees it unlocked while this process lives.
        let (node, pid) = (&self.node, self.pid);
        let draft = self.folder.join(format!("{node}{DRAFT}"));
        let mut file = self
            .disk
            .create(&folder::new_file(), &draft)
            .map_err(|e| StoreError::io("create the process lock", &draft, &e))?;
        let content = serde_json::json!({ "node": node, "pid": pid }).to_string();
        let ready = file.try_lock().map_err(io::Error::from).and_then(|()| file.write_all(content.as_bytes()));
        if let Err(e) = ready.and_then(|()| self.disk.rename(&draft, path)) {
            let _ = self.disk.remove(&draft);
            return Err(StoreError::io("create the process lock", path, &e));
        }
        Ok(file)
    }

    /// Removes drafts of process locks whose makers are dead: they are locked for as long as somebody works on them.
    fn sweep(&self) -> Result<(), StoreError> {
        for entry in read_folder(&self.folder)? {
            let path = entry.path();
            if !entry.file_name().to_str().is_some_and(|name| name.ends_with(DRAFT)) {
                continue;
            }
            if folder::open_to_read(&path)?.is_some_and(|file| file.try_lock_shared().is_ok()) {
                folder::remove_if_there(&*self.disk, &path)?;
            }
        }
        Ok(())
    }

    /// Gives up the process's own lock, and with it every session: another house may have them.
    pub fn close(&self) {
        let mut lock = lock(&self.lock);
        if let ProcessLock::Held(_) = *lock {
            // Removed while it is locked, so that nobody takes an orderly end for a death.
            let _ = self.disk.remove(&lock_path(&self.folder, &self.node));
            *lock = ProcessLock::GivenUp;
        }
    }

    fn is_open(&self) -> Result<(), StoreError> {
        match *lock(&self.lock) {
            ProcessLock::Held(_) => Ok(()),
            ProcessLock::GivenUp => Err(StoreError::Closed),
            ProcessLock::None => Err(StoreError::OnlyLooks),
        }
    }

    pub fn node(&self) -> &NodeId {
        &self.node
    }

    /// Whether a process with this node's name lives.
    pub fn is_alive(&self, node: &NodeId) -> Result<bool, StoreError> {
        if *node == self.node {
            return Ok(self.is_open().is_ok());
        }
        if SessionId::new(node.as_str()).is_err() {
            return Ok(false);
        }
        let path = lock_path(&self.folder, node);
        let file = match OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(StoreError::io("open a process lock", &path, &e)),
        };
        // Shared, so that two processes that look at once don't take each other for the owner.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(StoreError::io("test a process lock", &path, &e)),
        }
    }

    /// Nodes whose process is gone but whose lock file is still there. One that died while it was starting another
    /// process is waited for: until that one has loaded its program, it has the lock too.
    pub fn dead_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        let deadline = Instant::now() + LINGERS;
        let mut dead = Vec::new();
        let entries = fs::read_dir(&self.folder).map_err(|e| StoreError::io("list", &self.folder, &e))?;
        for entry in entries {
            let name = entry.map_err(|e| StoreError::io("list", &self.folder, &e))?.file_name();
            let Some(node) = name.to_str().and_then(|name| name.strip_suffix(".lock")) else { continue };
            if node == TAKEOVER {
                continue;
            }
            let node = NodeId::from(node);
            let mut is_alive = self.is_alive(&node)?;
            while is_alive && self.has_no_process(&node) && Instant::now() < deadline {
                std::thread::sleep(LOOK_AGAIN);
                is_alive = self.is_alive(&node)?;
            }
            if !is_alive {
                dead.push(node);
            }
        }
        dead.sort();
        Ok(dead)
    }

    /// Whether the process that made a node's lock is not to be seen from here.
    fn has_no_process(&self, node: &NodeId) -> bool {
        let lock = fs::read(lock_path(&self.folder, node)).unwrap_or_default();
        let holder: Option<Holder> = serde_json::from_slice(&lock).ok();
        let pid = holder.and_then(|holder| Pid::from_raw(i32::try_from(holder.pid).ok()?));
        pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    /// Removes a dead node's lock file.
    pub fn bury(&self, node: &NodeId) -> Result<(), StoreError> {
        if self.is_alive(node)? {
            return Err(StoreError::Node { node: node.clone(), reason: "is alive; only a dead one can be buried" });
        }
        if SessionId::new(node.as_str()).is_err() || node.as_str() == TAKEOVER {
            return Ok(());
        }
        let path = lock_path(&self.folder, node);
        folder::remove_if_there(&*self.disk, &path)
    }

    /// Who holds the session of this record, if anyone does.
    pub fn holder(&self, record: Option<&OwnerRecord>) -> Result<Option<Holder>, StoreError> {
        match record {
            Some(record) if record.standing == Standing::Held && self.is_alive(&record.node)? => {
                Ok(Some(Holder { node: record.node.clone(), pid: record.pid }))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Makes an owned or once owned session ours. `journal` says whether it has a file, which then counts as owned
    /// by nobody knows whom.
    pub fn claim(&self, session: &SessionId, record: &Path, journal: &Path) -> Result<Claim, StoreError> {
        self.is_open()?;
        // Nothing is changed for a session that is not there, so nothing is locked for it either: many begin at once.
        // Whoever makes its record looks again, under the lock.
        if read_record(record)?.is_none() && !folder::exists(journal)? {
            return Ok(Claim::Never);
        }
        self.exclusively(|| {
            let held = read_record(record)?;
            match &held {
                Some(old) if old.node == self.node => {
                    if old.standing == Standing::Released {
                        self.write_record(record, old.epoch, Standing::Held, Safety::Kernel)?;
                    }
                    return Ok(Claim::Ours(old.epoch));
                }
                Some(old) => self.refuse_if_held(session, old)?,
                None if folder::exists(journal)? => {}
                None => return Ok(Claim::Never),
            }
            let epoch = held.map_or(0, |old| old.epoch).saturating_add(1);
            self.write_record(record, epoch, Standing::Held, Safety::Disk)?;
            Ok(Claim::Ours(epoch))
        })
    }

    /// Claims a session that has no record yet, under its first epoch.
    pub fn claim_new(&self, session: &SessionId, record: &Path, epoch: u64) -> Result<(), StoreError> {
        self.is_open()?;
        self.exclusively(|| match read_record(record)? {
            Some(old) if old.node != self.node => {
                self.refuse_if_held(session, &old)?;
                Err(self.fenced(session, epoch, Some(&old)))
            }
            Some(_) | None => self.write_record(record, epoch, Standing::Held, Safety::Kernel),
        })
    }

    /// Raises the epoch of a session that is ours: its journal knows a higher one than its record did.
    pub fn raise(&self, session: &SessionId, record: &Path, from: u64, to: u64) -> Result<(), StoreError> {
        self.exclusively(|| match read_record(record)? {
            Some(old) if old.node == self.node && old.epoch == from => {
                self.write_record(record, to, Standing::Held, Safety::Disk)
            }
            other => Err(self.fenced(session, from, other.as_ref())),
        })
    }

    /// Gives up a session, if it is ours.
    pub fn give_up(&self, record: &Path) -> Result<(), StoreError> {
        self.exclusively(|| match read_record(record)? {
            Some(old) if old.node == self.node && old.standing == Standing::Held => {
                self.write_record(record, old.epoch, Standing::Released, Safety::Kernel)
            }
            Some(_) | None => Ok(()),
        })
    }

    /// Checks that the session is still ours under `epoch`; cheap while its record has not changed since `seen`.
    pub fn check(
        &self,
        session: &SessionId,
        record: &Path,
        epoch: u64,
        seen: &mut Option<Stamp>,
    ) -> Result<(), StoreError> {
        let stamp = match fs::symlink_metadata(record) {
            Ok(meta) => Some(Stamp { inode: meta.ino(), changed: (meta.mtime(), meta.mtime_nsec()) }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(StoreError::io("look at the owner record", record, &e)),
        };
        if stamp.is_some() && stamp == *seen {
            return Ok(());
        }
        match read_record(record)? {
            Some(held) if held.node == self.node && held.epoch == epoch && held.standing == Standing::Held => {
                *seen = stamp;
                Ok(())
            }
            other => Err(self.fenced(session, epoch, other.as_ref())),
        }
    }

    /// What it means that a session's record is no longer ours under `epoch`.
    fn fenced(&self, session: &SessionId, epoch: u64, record: Option<&OwnerRecord>) -> StoreError {
        let by = self.holder(record).ok().flatten().filter(|by| by.node != self.node);
        StoreError::Fenced { session: session.clone(), epoch, by }
    }

    /// Runs `change` if the session is ours under `epoch`; nobody can take it over meanwhile.
    pub fn while_ours(
        &self,
        session: &SessionId,
        record: &Path,
        epoch: u64,
        change: impl FnOnce(),
    ) -> Result<(), StoreError> {
        self.exclusively(|| {
            self.check(session, record, epoch, &mut None)?;
            change();
            Ok(())
        })
    }

    /// Fails if another live process holds the session.
    pub fn refuse_if_held(&self, session: &SessionId, record: &OwnerRecord) -> Result<(), StoreError> {
        match self.holder(Some(record))? {
            Some(Holder { node, pid }) if node != self.node => {
                Err(StoreError::Held { session: session.clone(), node, pid })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Runs `change` while no other process, and nobody in this one, changes an owner record.
    pub fn exclusively<T>(&self, change: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match *lock(&self.lock) {
            ProcessLock::Held(_) | ProcessLock::GivenUp => {}
            ProcessLock::None => return Err(StoreError::OnlyLooks),
        }
        self.alone(change)
    }

    fn alone<T>(&self, change: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let path = lock_path(&self.folder, &NodeId::from(TAKEOVER));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(NO_FOLLOW)
            .open(&path)
            .map_err(|e| StoreError::io("open the takeover lock", &path, &e))?;
        file.lock().map_err(|e| StoreError::io("take the takeover lock", &path, &e))?;
        change()
    }

    fn write_record(&self, path: &Path, epoch: u64, standing: Standing, safety: Safety) -> Result<(), StoreError> {
        let record = OwnerRecord { node: self.node.clone(), epoch, pid: self.pid, standing };
        let failed = |e: io::Error| StoreError::io("write the owner record", path, &e);
        let json = serde_json::to_vec(&record).map_err(io::Error::from).map_err(failed)?;
        let draft = path.with_extension(OWNER_DRAFT);
        folder::remove_if_there(&*self.disk, &draft)?;
        let mut file = self.disk.create(&folder::new_file(), &draft).map_err(failed)?;
        let written = file.write_all(&json).and_then(|()| match safety {
            Safety::Kernel => Ok(()),
            Safety::Disk => self.disk.sync(&file),
        });
        if let Err(e) = written.and_then(|()| self.disk.rename(&draft, path)) {
            let _ = self.disk.remove(&draft);
            return Err(failed(e));
        }
        match (safety, path.parent()) {
            (Safety::Disk, Some(parent)) => folder::sync(&*self.disk, parent),
            _ => Ok(()),
        }
    }
}

impl Drop for Owners {
    /// A process that ends in order leaves nothing to bury.
    fn drop(&mut self) {
        self.close();
    }
}

/// Reads an owner record. One that a power cut left empty or torn counts as none: the journal knows the epoch.
pub(crate) fn read_record(path: &Path) -> Result<Option<OwnerRecord>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("read the owner record", path, &e)),
    }
}

/// How long a lock may be held by a process that has not loaded its program yet. A process on another machine, or in
/// another container, costs this much at every start.
const LINGERS: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The name of the lock under which owner records change; no node can have it.
const TAKEOVER: &str = "takeover";

/// How the draft of a process lock ends.
const DRAFT: &str = ".lock.new";
/// How the draft of an owner record ends. It is written under the takeover lock.
pub(crate) const OWNER_DRAFT: &str = "owner.new";

fn lock_path(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("{node}.lock"))
}
