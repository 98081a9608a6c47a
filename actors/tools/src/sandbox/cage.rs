//! A cap on a call's tasks that the kernel itself keeps, where it lets us have one: a control group with `pids.max`.
//!
//! The watch ends a call with too many processes, but a bomb can double faster than anyone looks. In a cage its forks
//! fail instead; and where nothing can get out, the group is the list of what the call has: nobody needs to search the
//! process table for it. Root can make one where the `pids` controller is mounted; others where a group was delegated
//! to them. Where it cannot be had, the watch, the table and the user's own limits must do.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::LazyLock;

use super::ProcessLimits;
use super::watch::{Exceeded, THREADS, Watcher};
use crate::process::mark::nonce;
use crate::process::proc_table::{self, ProcessEntry};

/// Tasks beyond the limit, so that the watch sees who is over it.
const SLACK: u64 = 16;
/// How many processes are put into a cage one by one.
const MOST_TAKEN: usize = 256;
/// What the names of our groups begin with.
const NAME: &str = "playhouse-";

/// Where groups can be made, if anywhere: beneath the one that this process is in.
static BASE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let base = base(&fs::read_to_string("/proc/self/cgroup").ok()?)?;
    clear_after_the_dead(&base);
    Some(base)
});

/// Whether the kernel caps the tasks of a call here.
pub(super) fn works() -> bool {
    Cage::new(ProcessLimits::default(), &Watcher::default()).is_some()
}

/// A group of processes that cannot become too many. Removed when it is dropped, if it is empty by then, or later.
#[derive(Debug)]
pub(crate) struct Cage {
    folder: PathBuf,
    most: u64,
    hold: Hold,
    /// Who removes it when its last process is gone.
    watcher: Watcher,
}

/// Whether all that a call has is in its cage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It was in it before it ran, and cannot write to where groups are changed.
    Sure,
    /// Something may have got out.
    Unsure,
}

impl Cage {
    /// An empty cage; `None` where the kernel gives none.
    pub(crate) fn new(limits: ProcessLimits, watcher: &Watcher) -> Option<Self> {
        let base = BASE.as_deref()?;
        watcher.remove_cages();
        let folder = base.join(format!("{NAME}{}-{:016x}", process::id(), nonce()));
        let most = u64::from(limits.processes).saturating_mul(THREADS).saturating_add(SLACK);
        fs::create_dir(&folder).ok()?;
        let cage = Self { folder, most, hold: Hold::Unsure, watcher: watcher.clone() };
        // Without the controller there is no such file, and the kernel lets none be made.
        fs::write(cage.folder.join("pids.max"), most.to_string()).ok()?;
        Some(cage)
    }

    /// Puts the calling thread into it, and so what it starts. Only the older kind of groups can.
    #[cfg(target_os = "linux")]
    pub(super) fn enter(&self) -> io::Result<()> {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        fs::OpenOptions::new().write(true).open(self.folder.join("tasks"))?.write_all(thread.to_string().as_bytes())
    }

    /// Says how well it holds what was put into it.
    pub(super) fn with(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// Whether everything that came from what was put into it is in it.
    pub(crate) fn is_sure(&self) -> bool {
        self.hold == Hold::Sure
    }

    /// How many tasks there are in it, those that wait to be reaped too.
    pub(crate) fn tasks(&self) -> Option<u64> {
        fs::read_to_string(self.folder.join("pids.current")).ok()?.trim().parse().ok()
    }

    /// Every process in it.
    pub(super) fn members(&self) -> Vec<ProcessEntry> {
        let list = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        let found = list.lines().filter_map(|line| proc_table::find(line.trim().parse().ok()?));
        // An id may be another's by now. This process is in the list too, by the thread that starts processes.
        let me = i32::try_from(process::id()).unwrap_or_default();
        found.filter(|seen| seen.pid != me && self.has(seen.pid)).collect()
    }

    fn has(&self, pid: i32) -> bool {
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.lines().any(|line| line.rsplit_once('/').is_some_and(|(_, last)| last == name))
    }

    /// Lets nothing more begin in it.
    pub(crate) fn shut(&self) {
        // Where that is refused, what is in it still cannot be more than it may.
        let _ = fs::write(self.folder.join("pids.max"), "0");
    }

    /// What the kernel refused it, if anything. A crowd that dies of that is gone before the watch looks.
    pub(crate) fn refused(&self) -> Option<Exceeded> {
        let events = fs::read_to_string(self.folder.join("pids.events")).ok()?;
        let is_refused = events.lines().any(|line| line.strip_prefix("max ").is_some_and(|times| times.trim() != "0"));
        is_refused.then_some(Exceeded::Tasks(self.most))
    }

    /// Puts a process that has just started into it, what it has started itself, and so what they start from then on.
    /// What is gone meanwhile is not missed. Tells whether the process itself is in it.
    #[cfg(target_os = "linux")]
    pub(super) fn take(&self, leader: u32) -> bool {
        let put = |process: u32| fs::write(self.folder.join("cgroup.procs"), process.to_string());
        if put(leader).is_err() {
            return false;
        }
        let mut known = Vec::from([leader]);
        let mut next = 0;
        while let Some(process) = known.get(next).copied() {
            next += 1;
            let _ = put(process);
            let children = children_of(process);
            known.extend(children.into_iter().filter(|child| *child != leader).take(MOST_TAKEN.saturating_sub(next)));
        }
        true
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        if fs::remove_dir(&self.folder).is_err() {
            self.watcher.remove_later(std::mem::take(&mut self.folder));
        }
    }
}

/// What each thread of a process has started and still has.
#[cfg(target_os = "linux")]
fn children_of(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>())
        .collect()
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
