//! A cap on a call's tasks that the kernel itself keeps, where it lets us have one: a control group with `pids.max`.
//!
//! The watch ends a call with too many processes, but a bomb can double faster than anyone looks. In a cage its forks
//! fail instead. Root can make one where the `pids` controller is mounted; others where a group was delegated to them.
//! Where it cannot be had, the watch and the user's own limits must do.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::ProcessLimits;
use super::watch::THREADS;
use crate::mark::nonce;

/// Tasks beyond the limit, so that the watch sees who is over it.
const SLACK: u64 = 16;
/// How many processes are put into a cage one by one.
const MOST_TAKEN: usize = 256;
/// What the names of our groups begin with.
const NAME: &str = "playhouse-";

/// Where groups can be made, if anywhere.
static BASE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let base = base(&fs::read_to_string("/proc/self/cgroup").ok()?)?;
    clear_after_the_dead(&base);
    Some(base)
});

/// Groups whose last process was not gone when they were to be removed.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Whether the kernel caps the tasks of a call here.
pub(super) fn works() -> bool {
    Cage::new(ProcessLimits::default()).is_some()
}

/// A group of processes that cannot become too many. Removed when it is dropped, if it is empty by then, or later.
#[derive(Debug)]
pub(crate) struct Cage {
    folder: PathBuf,
}

impl Cage {
    /// An empty cage; `None` where the kernel gives none.
    pub(crate) fn new(limits: ProcessLimits) -> Option<Self> {
        let base = BASE.as_deref()?;
        remove_what_is_left();
        let folder = base.join(format!("{NAME}{}-{:016x}", process::id(), nonce()));
        fs::create_dir(&folder).ok()?;
        let cage = Self { folder };
        let most = u64::from(limits.processes).saturating_mul(THREADS).saturating_add(SLACK);
        // Without the controller there is no such file, and the kernel lets none be made.
        fs::write(cage.folder.join("pids.max"), most.to_string()).ok()?;
        Some(cage)
    }

    /// Puts the calling thread into it, and so what it starts. Only the older kind of groups can.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        fs::OpenOptions::new().write(true).open(self.folder.join("tasks"))?.write_all(thread.to_string().as_bytes())
    }

    /// Puts a process that has just started into it, what it has started itself, and so what they start from then on.
    /// What is gone meanwhile is not missed.
    pub(crate) fn take(&self, leader: u32) {
        let mut known = Vec::from([leader]);
        let mut next = 0;
        while let Some(process) = known.get(next).copied() {
            next += 1;
            let _ = fs::write(self.folder.join("cgroup.procs"), process.to_string());
            let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse::<u32>().ok());
            known.extend(children.filter(|child| *child != leader).take(MOST_TAKEN.saturating_sub(next)));
        }
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        if fs::remove_dir(&self.folder).is_err() {
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.folder));
        }
    }
}

fn remove_what_is_left() {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain(|folder| fs::remove_dir(folder).is_err());
}

/// Removes what processes left that are gone.
fn clear_after_the_dead(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split_once('-')?.0.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The group that this process is in, as `/proc/self/cgroup` tells it: of the `pids` controller, or of the one hierarchy
/// that has all.
fn base(groups: &str) -> Option<PathBuf> {
    let group = |mounted: &str, of: &dyn Fn(&str) -> bool| {
        let path = groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            of(controllers).then_some(path)
        })?;
        let folder = Path::new(mounted).join(path.trim_start_matches('/'));
        folder.join("cgroup.procs").exists().then_some(folder)
    };
    group("/sys/fs/cgroup/pids", &|controllers| controllers.split(',').any(|name| name == "pids"))
        .or_else(|| group("/sys/fs/cgroup", &|controllers| controllers.is_empty()))
}
