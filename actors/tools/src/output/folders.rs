//! Where a house keeps long outputs: beside the journals of sessions that last, and in a folder of its own for those
//! that don't.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use playhouse_protocol::{Durability, SessionId, lock};
use rustix::fs::{FlockOperation, flock};

use crate::output::OutputRoom;
use crate::process::mark::nonce;

/// What the names of folders that go with their house begin with.
const NAME: &str = "playhouse-output-";
/// A folder younger than this may not have its lock yet.
const YOUNG: Duration = Duration::from_secs(60);

type FolderFn = Arc<dyn Fn(&SessionId) -> PathBuf + Send + Sync>;

/// Where a house keeps the long outputs of its sessions. Clones are the same.
#[derive(Clone, Default)]
pub struct Outputs {
    lasting: Option<FolderFn>,
    of_house: Arc<HouseFolder>,
}

impl Outputs {
    /// Those of sessions that have a journal go where `folder` says.
    pub fn beside_journals(folder: impl Fn(&SessionId) -> PathBuf + Send + Sync + 'static) -> Self {
        Self { lasting: Some(Arc::new(folder)), of_house: Arc::default() }
    }

    /// The room of a session. Does nothing on disk.
    pub fn room(&self, session: &SessionId, durability: Durability) -> OutputRoom {
        match (durability, &self.lasting) {
            (Durability::Flush | Durability::Os, Some(folder)) => OutputRoom::new(folder(session)),
            (Durability::None, _) | (Durability::Flush | Durability::Os, None) => {
                OutputRoom::in_house(self.of_house.clone(), session.to_string())
            }
        }
    }

    /// Removes what is kept of all sessions without a journal, when their house ends. Blocks.
    pub fn close(&self) {
        self.of_house.remove();
    }

    /// Whether anything of sessions without a journal was kept.
    pub fn have_passing(&self) -> bool {
        self.of_house.lock().is_some()
    }

    /// Removes what is kept of a session without a journal. Blocks.
    pub fn forget(&self, session: &SessionId) {
        if let Some((root, _)) = &*self.of_house.lock() {
            // Most sessions have none; what cannot be removed goes with the house.
            let _ = fs::remove_dir_all(root.join(session.to_string()));
        }
    }
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").field("lasting", &self.lasting.is_some()).finish_non_exhaustive()
    }
}

/// A folder among the machine's temporary files, made when it is first needed and removed with its owner. It is locked
/// while its owner lives, so that another house can tell what a dead one left.
#[derive(Default)]
pub(crate) struct HouseFolder(Mutex<Option<(PathBuf, File)>>);

impl HouseFolder {
    /// The folder, which is made the first time. Blocks.
    pub(crate) fn folder(&self) -> io::Result<PathBuf> {
        let mut made = self.lock();
        if let Some((path, _)) = &*made {
            return Ok(path.clone());
        }
        let above = std::env::temp_dir();
        remove_leftovers(&above);
        let path = above.join(format!("{NAME}{:016x}", nonce()));
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = File::open(&path)?;
        flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
        *made = Some((path.clone(), folder));
        Ok(path)
    }

    fn remove(&self) {
        if let Some((path, _lock)) = self.lock().take() {
            // What cannot be removed is left for the next house to try.
            let _ = fs::remove_dir_all(path);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(PathBuf, File)>> {
        lock(&self.0)
    }
}

impl Drop for HouseFolder {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes the folders of houses that were killed.
fn remove_leftovers(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else { return };
    let own = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME));
        // Of the entry itself, not of what a link leads to.
        let Some(seen) = is_ours.then(|| entry.metadata().ok()).flatten() else { continue };
        let is_old = seen.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age > YOUNG);
        if !seen.is_dir() || seen.uid() != own || !is_old {
            continue;
        }
        let free = File::open(entry.path()).is_ok_and(|folder| {
            let locked = flock(&folder, FlockOperation::NonBlockingLockExclusive);
            locked.is_ok()
        });
        if free {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn what_a_killed_house_left_is_removed_and_what_a_living_one_has_is_not() {
        let above = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * YOUNG;
        let made = |name: &str| {
            let path = above.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("x"), "x").unwrap();
            let folder = File::open(&path).unwrap();
            folder.set_modified(old).unwrap();
            (path, folder)
        };
        let (dead, _) = made("playhouse-output-dead");
        let (living, lock) = made("playhouse-output-living");
        let (other, _) = made("other");
        let (young, folder) = made("playhouse-output-young");
        folder.set_modified(SystemTime::now()).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        remove_leftovers(above.path());
        let there = [&dead, &living, &other, &young].map(|path| path.exists());
        assert_eq!(there, [false, true, true, true]);
    }

    #[test]
    fn outputs_without_a_journal_go_with_their_session_and_with_their_house() {
        let outputs = Outputs::default();
        let session = SessionId::new("s").unwrap();
        let room = Arc::new(outputs.room(&session, Durability::Os));
        let (_, draft) = room.begin(&"a".into()).unwrap();
        draft.keep();
        let root = outputs.of_house.folder().unwrap();
        assert!(outputs.have_passing() && root.join("s/a.txt").exists());
        outputs.forget(&session);
        assert!(root.exists() && !root.join("s").exists());
        drop((outputs, room));
        assert!(!root.exists());
    }
}
