//! A cap on a call's tasks that the kernel itself keeps, where it lets us have one: a control group with `pids.max`, and
//! beside it one that counts the call's memory.
//!
//! The watch ends a call with too many processes, but a bomb can double faster than anyone looks. In a cage its forks
//! fail instead; and where nothing can get out, the group is the list of what the call has: nobody needs to search the
//! process table for it. Root can make one where the `pids` controller is mounted; others where a group was delegated
//! to them. Where it cannot be had, the watch, the table and the user's own limits must do.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
use rustix::io::Errno;

use super::groups::{self, TASKS};
use super::memory::MemoryGroup;
use super::watch::{Exceeded, THREADS, Watcher};
use super::{Confined, ProcessLimits};
#[cfg(target_os = "linux")]
use crate::process::proc_table;
use crate::process::proc_table::ProcessEntry;

/// Tasks beyond the limit, so that the watch sees who is over it.
const SLACK: u64 = 16;

/// What the kernel gives a call here, if anything.
pub(super) fn tried() -> Option<Cage> {
    Cage::make(ProcessLimits::default(), &Watcher::default(), "")
}

/// A group of processes that cannot become too many. Removed when it is dropped, if it is empty by then, or later.
#[derive(Debug)]
pub(crate) struct Cage {
    folder: PathBuf,
    /// What counts the memory of what is in it, if something does.
    memory: Option<MemoryGroup>,
    most: u64,
    hold: Hold,
    is_shut: AtomicBool,
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
    /// An empty cage for a call; `None` where the kernel gives none.
    pub(super) fn new(confined: &Confined) -> Option<Self> {
        Self::make(confined.sandbox.rules.limits, &confined.watcher, &confined.house)
    }

    fn make(limits: ProcessLimits, watcher: &Watcher, house: &str) -> Option<Self> {
        let base = TASKS.as_ref()?;
        watcher.remove_cages();
        let name = groups::new_name(house);
        let most = u64::from(limits.processes).saturating_mul(THREADS).saturating_add(SLACK);
        let folder = base.make(&name)?;
        let mut cage = Self {
            folder,
            memory: None,
            most,
            hold: Hold::Unsure,
            is_shut: AtomicBool::new(false),
            watcher: watcher.clone(),
        };
        // Without the controller there is no such file, and the kernel lets none be made.
        fs::write(cage.folder.join("pids.max"), most.to_string()).ok()?;
        cage.memory = MemoryGroup::beside(&cage.folder, &name);
        Some(cage)
    }

    /// Puts the calling thread into it, and so what it starts. Only the older kind of groups can.
    #[cfg(target_os = "linux")]
    pub(super) fn enter(&mut self) -> io::Result<()> {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        self.put("tasks", &thread.to_string())
    }

    /// Puts a task into it.
    #[cfg(target_os = "linux")]
    fn put(&mut self, list: &str, task: &str) -> io::Result<()> {
        let write =
            |folder: &Path| fs::OpenOptions::new().write(true).open(folder.join(list))?.write_all(task.as_bytes());
        write(&self.folder)?;
        let counted = self.memory.as_ref().and_then(MemoryGroup::own_folder).map_or(Ok(()), write);
        let is_gone = |error: &io::Error| error.raw_os_error() == Some(Errno::SRCH.raw_os_error());
        if counted.is_err_and(|error| !is_gone(&error)) {
            // Then the memory of its processes is summed up, as where there is no group.
            self.forget_memory();
        }
        Ok(())
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
    pub(crate) fn members(&self) -> Vec<ProcessEntry> {
        groups::members(&self.folder)
    }

    /// Whether the kernel counts the memory of what is in it.
    pub(super) fn counts_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Whether what is in it, and what it left, has more bytes of memory than these, as far as they are counted.
    pub(super) fn has_more_memory(&self, than: u64) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.exceeds(than))
    }

    /// Lets nothing more begin in it.
    pub(crate) fn shut(&self) {
        self.is_shut.store(true, Ordering::Release);
        // Where that is refused, what is in it still cannot be more than it may.
        let _ = fs::write(self.folder.join("pids.max"), "0");
    }

    /// Whether nothing more can begin in it.
    #[cfg(target_os = "linux")]
    pub(super) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Acquire)
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
    pub(super) fn take(&mut self, leader: u32) -> bool {
        if self.put("cgroup.procs", &leader.to_string()).is_err() {
            return false;
        }
        proc_table::each_descendant(leader, |process| {
            let _ = self.put("cgroup.procs", &process.to_string());
        });
        true
    }

    fn forget_memory(&mut self) {
        if let Some(MemoryGroup::Own(folder)) = self.memory.take() {
            self.watcher.remove(folder);
        }
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        self.forget_memory();
        self.watcher.remove(std::mem::take(&mut self.folder));
    }
}
