//! Ends a call whose processes are too many or too big.
//!
//! The kernel's own limits count a user's processes, not a call's, and don't bind root. So one thread of a house looks
//! at all its calls that have run for a while. Where a cage holds a call's processes it tells their number and memory
//! at every glance; for the others there is one look through the process table for everyone, and a rest ten times as
//! long as that took, unless the machine's tasks become many meanwhile. The thread exists only while there is someone
//! to look at.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use playhouse_protocol::lock;
use tokio::sync::oneshot;

use super::memory::{self, field};
#[cfg(target_os = "linux")]
use super::starter::Starters;
use super::{Cage, ProcessLimits};
use crate::process::mark::RUN_VAR;
use crate::process::proc_table::{self, Killed, Life, ProcessEntry};
use crate::process::reap::kill_group;

/// How long a call is left alone, and how long there is between two looks at least.
const EVERY: Duration = Duration::from_millis(100);
/// How much longer than a look the rest after it is, and how long at most.
const REST: u32 = 10;
const LONGEST: Duration = Duration::from_secs(2);
/// How often the number of the machine's tasks is looked at meanwhile, and by how many they may grow.
const GLANCE: Duration = Duration::from_millis(20);
const GROWTH: u64 = 100;
/// How many glances the thread waits for someone to look at before it goes; longer than anything is kept after a call.
const IDLE: u32 = 150;
/// Threads for each process that a call may have.
pub(super) const THREADS: u64 = 8;

/// What there was too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Processes; this many may be.
    Processes(u32),
    /// Threads of all its processes; this many may be.
    Threads(u64),
    /// Processes and threads: the kernel let no more than this many be, and the command went on without the rest.
    Tasks(u64),
    /// Memory of all its processes; this many bytes may be.
    Memory(u64),
    /// Time; this long it may run.
    Time(Duration),
    /// Nobody knows: there was no thread to look.
    Unwatched,
}

/// The name of time as a limit.
pub(crate) const LATE: &str = "time";

impl Exceeded {
    /// Its name for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Processes(_) | Self::Tasks(_) => "processes",
            Self::Threads(_) => "threads",
            Self::Memory(_) => "memory",
            Self::Time(_) => LATE,
            Self::Unwatched => "unwatched",
        }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes(most) => write!(f, "stopped: more than {most} processes at once"),
            Self::Threads(most) => write!(f, "stopped: more than {most} threads at once"),
            Self::Tasks(most) => write!(f, "more than {most} processes and threads at once were refused"),
            Self::Memory(most) => write!(f, "stopped: more than {} MiB of memory", most >> 20),
            Self::Time(most) => write!(f, "stopped: it ran for more than {:?}", most),
            Self::Unwatched => write!(f, "stopped: its processes could not be watched; try again when there are fewer"),
        }
    }
}

/// Whom to look at.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) leader: i32,
    pub(crate) start: u64,
    pub(crate) tag: u64,
    pub(crate) run: String,
    pub(crate) limits: ProcessLimits,
    pub(crate) cage: Option<Arc<Cage>>,
}

impl Watched {
    /// Whether its cage has all of its processes for certain.
    fn is_held(&self) -> bool {
        self.cage.as_ref().is_some_and(|cage| cage.is_sure())
    }

    /// Whether its cage tells all there is to know, so that its processes need not be looked at one by one.
    fn is_counted(&self) -> bool {
        self.is_held() && self.cage.as_ref().is_some_and(|cage| cage.counts_memory())
    }
}

#[derive(Debug)]
struct WatchedCall {
    watched: Watched,
    since: Instant,
    /// Every process seen to belong to it, by id, with its start.
    known: HashMap<i32, u64>,
    /// Closed when nobody waits for it any more.
    tell: Option<oneshot::Sender<Exceeded>>,
}

/// Looks at the calls of a house, and lets go what is kept for a moment after them; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watcher(Arc<WatcherState>);

#[derive(Debug, Default)]
struct WatcherState {
    queue: Mutex<Queue>,
    #[cfg(target_os = "linux")]
    starters: Starters,
    /// Groups whose last process was not gone when they were to be removed.
    cages_left: Mutex<Vec<PathBuf>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<WatchedCall>,
    thread: Thread,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Thread {
    #[default]
    Absent,
    Running,
}

impl Watcher {
    /// Has a call looked at. What comes back resolves when it takes more than it may, and what it has is being killed;
    /// never otherwise. The call is looked at until that is dropped.
    pub(crate) fn watch(&self, watched: Watched) -> impl Future<Output = Exceeded> + Send + use<> {
        let (tell, told) = oneshot::channel();
        let known = HashMap::from([(watched.leader, watched.start)]);
        lock(&self.0.queue).waiting.push(WatchedCall { watched, since: Instant::now(), known, tell: Some(tell) });
        self.attend();
        async move {
            match told.await {
                Ok(exceeded) => exceeded,
                // The thread could not be started, or panicked.
                Err(_) => Exceeded::Unwatched,
            }
        }
    }

    /// The threads that start processes.
    #[cfg(target_os = "linux")]
    pub(super) fn starters(&self) -> &Starters {
        &self.0.starters
    }

    /// Removes a group, as soon as its last process is gone.
    pub(super) fn remove(&self, group: PathBuf) {
        if fs::remove_dir(&group).is_err() {
            lock(&self.0.cages_left).push(group);
            self.attend();
        }
    }

    /// Removes groups that could not be removed when they were to be.
    pub(super) fn remove_cages(&self) {
        let is_left = |folder: &PathBuf| fs::remove_dir(folder).is_err_and(|error| error.kind() != ErrorKind::NotFound);
        lock(&self.0.cages_left).retain(is_left);
    }

    /// Sees to it that the thread is there: it also lets go what is kept for a moment after calls.
    pub(super) fn attend(&self) {
        let before = std::mem::replace(&mut lock(&self.0.queue).thread, Thread::Running);
        if before == Thread::Running {
            return;
        }
        let watcher = self.clone();
        let started = std::thread::Builder::new().name("playhouse-watch".to_owned()).spawn(move || watcher.serve());
        if let Err(error) = started {
            tracing::warn!(%error, "no thread for watching processes: calls that need it are ended");
            self.leave();
        }
    }

    fn leave(&self) {
        let mut queue = lock(&self.0.queue);
        queue.thread = Thread::Absent;
        queue.waiting.clear();
        drop(queue);
        // Nobody is left who would let them go, and each holds what they are kept in.
        #[cfg(target_os = "linux")]
        self.0.starters.let_all_go();
    }

    fn serve(&self) {
        let _leaving = Leaving(self);
        crate::process::reap::hurry();
        let mut entries: Vec<WatchedCall> = Vec::new();
        let mut strangers: HashSet<(i32, u64)> = HashSet::new();
        let mut idle = 0;
        let (mut next, mut before) = (Instant::now(), tasks());
        let mut newest = proc_table::since(None, |_| {});
        loop {
            entries.retain(|entry| entry.tell.as_ref().is_some_and(|tell| !tell.is_closed()));
            {
                let mut queue = lock(&self.0.queue);
                if !queue.waiting.is_empty() {
                    // Who is a stranger to all others may be one of theirs.
                    strangers.clear();
                }
                entries.append(&mut queue.waiting);
                idle = if entries.is_empty() { idle + 1 } else { 0 };
                if idle > IDLE {
                    queue.thread = Thread::Absent;
                    return;
                }
            }
            #[cfg(target_os = "linux")]
            self.0.starters.let_go();
            self.remove_cages();
            count(&mut entries);
            let (now, tasks) = (Instant::now(), tasks());
            let is_loose = entries.iter().any(|entry| !entry.watched.is_held());
            let is_growing =
                is_loose && matches!((before, tasks), (Some(before), Some(tasks)) if tasks > before + GROWTH);
            let is_old = |entry: &WatchedCall| now.duration_since(entry.since) >= EVERY;
            let is_due = now >= next && entries.iter().any(|entry| !entry.watched.is_counted() && is_old(entry));
            let _first = is_growing.then(First::go);
            newest = if is_growing { glance(&mut entries, newest) } else { proc_table::since(None, |_| {}) };
            if !entries.is_empty() && (is_growing || is_due) {
                look(&mut entries, &mut strangers);
                next = Instant::now() + (now.elapsed() * REST).clamp(EVERY, LONGEST);
                before = tasks;
            } else {
                before = before.min(tasks);
            }
            std::thread::sleep(GLANCE);
        }
    }
}

/// Says that the thread is gone, even if it panicked.
struct Leaving<'a>(&'a Watcher);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.leave();
        }
    }
}

/// How many tasks the machine has.
pub(super) fn tasks() -> Option<u64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// What a call's processes take.
#[derive(Debug, Default)]
struct Taken {
    members: Vec<ProcessEntry>,
    threads: u64,
    memory: u64,
}

/// Looks at those whose cage tells how many there are, or how much memory they have.
fn count(entries: &mut Vec<WatchedCall>) {
    let over = |entry: &WatchedCall| {
        let (limits, cage) = (entry.watched.limits, entry.watched.cage.as_ref()?);
        if cage.has_more_memory(limits.memory) {
            return Some(Exceeded::Memory(limits.memory));
        }
        let most = limits.processes;
        let tasks = cage.tasks().filter(|tasks| cage.is_sure() && *tasks > u64::from(most))?;
        if cage.members().len() > usize::try_from(most).unwrap_or(usize::MAX) {
            return Some(Exceeded::Processes(most));
        }
        let threads = THREADS * u64::from(most);
        (tasks > threads).then_some(Exceeded::Threads(threads))
    };
    while let Some((at, exceeded)) =
        entries.iter().enumerate().find_map(|(at, entry)| over(entry).map(|exceeded| (at, exceeded)))
    {
        end(entries.swap_remove(at), exceeded);
    }
}

/// Looks at those that began since the last glance, by their groups alone: a crowd that is still
/// one group is ended before the whole table could be read. Tells which was the last to begin.
fn glance(entries: &mut Vec<WatchedCall>, newest: Option<i32>) -> Option<i32> {
    let leaders: HashSet<i32> = entries.iter().map(|entry| entry.watched.leader).collect();
    let mut groups: HashMap<i32, u32> = HashMap::new();
    let last = proc_table::since(newest, |seen| {
        if seen.life == Life::Alive && leaders.contains(&seen.group) && is_process(seen.pid) {
            *groups.entry(seen.group).or_default() += 1;
        }
    });
    let is_over = |entry: &WatchedCall| {
        groups.get(&entry.watched.leader).is_some_and(|count| *count > entry.watched.limits.processes)
    };
    while let Some(at) = entries.iter().position(is_over) {
        let entry = entries.swap_remove(at);
        let most = entry.watched.limits.processes;
        end(entry, Exceeded::Processes(most));
    }
    last
}

fn end(mut entry: WatchedCall, exceeded: Exceeded) {
    tracing::warn!(run = entry.watched.run, "{exceeded}");
    if let Some(cage) = &entry.watched.cage {
        cage.shut();
    }
    // First, or the end of its leader would be seen without a reason.
    let _ = entry.tell.take().map(|tell| tell.send(exceeded));
    // On a thread of its own: the others are to be looked at meanwhile.
    let hunter = std::thread::Builder::new().name("playhouse-hunt".to_owned());
    let started = hunter.spawn(move || {
        crate::process::reap::hurry();
        hunt(&mut entry);
    });
    if let Err(error) = started {
        tracing::warn!(%error, "no thread for hunting processes: the sweep after the call ends them");
    }
}

/// Looks once at everyone, and ends who takes too much.
fn look(entries: &mut Vec<WatchedCall>, strangers: &mut HashSet<(i32, u64)>) {
    let taken = census(entries, strangers);
    for (at, mut taken) in taken.into_iter().enumerate().rev() {
        let seen = entries.get(at).map(|entry| &entry.watched).filter(|watched| !watched.is_counted());
        let Some(limits) = seen.map(|watched| watched.limits) else { continue };
        if let Some(exceeded) = taken.exceeds(&limits) {
            end(entries.swap_remove(at), exceeded);
        }
    }
}

/// Kills what a call has. The sweep that follows is thorough; but who has to begin it may not get the processor for as
/// long as a crowd has it.
fn hunt(entry: &mut WatchedCall) {
    let mut first = Some(First::go());
    let mut doomed: HashSet<(i32, u64)> = HashSet::new();
    let until = Instant::now() + LONGEST * 5;
    while Instant::now() < until {
        let leader = proc_table::find(entry.watched.leader);
        if leader.is_some_and(|leader| leader.start == entry.watched.start) {
            kill_group(entry.watched.leader);
        }
        let found = census(std::slice::from_mut(entry), &mut HashSet::new());
        let alive: Vec<&ProcessEntry> = found.iter().flat_map(|taken| &taken.members).collect();
        let mut fresh = 0;
        for seen in &alive {
            if doomed.insert((seen.pid, seen.start)) && proc_table::kill_exact(seen) == Killed::Sent {
                fresh += 1;
            }
        }
        match (alive.len(), fresh) {
            (0, _) => return,
            // They need the processor to die: it is theirs.
            (_, 0) => {
                first = None;
                std::thread::sleep(EVERY);
            }
            (_, _) => first = first.or_else(|| Some(First::go())),
        }
    }
}

/// Lets this session go before all others for a while, where that is allowed. The kernel may share the processor out
/// between sessions first: then a thousand of them leave little to this one, however urgent its thread is.
struct First(Option<String>);

impl First {
    const PLACE: &str = "/proc/self/autogroup";

    fn go() -> Self {
        // `/autogroup-7 nice 0`
        let usual = fs::read_to_string(Self::PLACE).ok();
        let usual = usual.and_then(|text| Some(text.rsplit_once(' ')?.1.trim().to_owned()));
        Self(usual.filter(|usual| usual != "-20" && fs::write(Self::PLACE, "-20").is_ok()))
    }
}

impl Drop for First {
    fn drop(&mut self) {
        let _ = self.0.take().map(|usual| fs::write(Self::PLACE, usual));
    }
}

/// What belongs to whom, by their cages and by one look through the table.
fn census(entries: &mut [WatchedCall], strangers: &mut HashSet<(i32, u64)>) -> Vec<Taken> {
    let mut taken: Vec<Taken> = entries.iter().map(|entry| Taken::in_cage(&entry.watched)).collect();
    if entries.iter().all(|entry| entry.watched.is_held()) {
        return taken;
    }
    let numbered = || entries.iter().enumerate().filter(|(_, entry)| !entry.watched.is_held());
    let mut caged: HashMap<(i32, u64), usize> = HashMap::new();
    for (at, entry) in numbered() {
        let members = entry.watched.cage.as_ref().map(|cage| cage.members()).unwrap_or_default();
        caged.extend(members.iter().map(|seen| ((seen.pid, seen.start), at)));
    }
    let groups: HashMap<i32, usize> = numbered().map(|(at, entry)| (entry.watched.leader, at)).collect();
    let tags: HashMap<u64, usize> = numbered().map(|(at, entry)| (entry.watched.tag, at)).collect();
    let runs: HashMap<String, usize> = numbered().map(|(at, entry)| (entry.watched.run.clone(), at)).collect();
    let oldest = numbered().map(|(_, entry)| entry.watched.start).min().unwrap_or_default();
    let mut seen_strangers = HashSet::new();
    let me = rustix::process::getpid().as_raw_nonzero().get();
    proc_table::survey(|seen| {
        if seen.start < oldest || seen.life == Life::Zombie {
            return;
        }
        let name = (seen.pid, seen.start);
        let find = |is_its: &dyn Fn(&WatchedCall) -> bool| {
            entries.iter().position(|entry| !entry.watched.is_held() && is_its(entry))
        };
        let by_known = || find(&|entry| entry.known.get(&seen.pid) == Some(&seen.start));
        let by_group = || groups.get(&seen.group).copied();
        let by_parent = || find(&|entry| entry.known.contains_key(&seen.parent));
        let by_marks = || {
            if strangers.contains(&name) {
                return None;
            }
            let by_tag = proc_table::lock_limit(seen.pid).and_then(|tag| tags.get(&tag).copied());
            // Reading this may wait for a process that waits for the processor. Who shed its limit, its group and its
            // parent has come to this process, or to the first one.
            by_tag.or_else(|| {
                let value =
                    (seen.parent == me || seen.parent == 1).then(|| proc_table::environ(seen.pid, RUN_VAR))??;
                value.split('/').find_map(|run| runs.get(run).copied())
            })
        };
        let by_cage = || caged.get(&name).copied();
        match by_known().or_else(by_group).or_else(by_cage).or_else(by_parent).or_else(by_marks) {
            Some(at) => {
                if let (Some(entry), Some(taken)) = (entries.get_mut(at), taken.get_mut(at))
                    && is_process(seen.pid)
                {
                    entry.known.insert(seen.pid, seen.start);
                    taken.members.push(seen);
                }
            }
            None => {
                seen_strangers.insert(name);
            }
        }
    });
    *strangers = seen_strangers;
    for (entry, taken) in entries.iter_mut().zip(&taken) {
        // Ids are given out again: only those who live are known.
        let leader = (entry.watched.leader, entry.watched.start);
        entry.known = taken.members.iter().map(|seen| (seen.pid, seen.start)).chain([leader]).collect();
    }
    taken
}

impl Taken {
    /// What a cage knows that has all.
    fn in_cage(watched: &Watched) -> Self {
        let cage = watched.cage.as_ref().filter(|_| watched.is_held());
        let members = cage.map(|cage| cage.members()).unwrap_or_default();
        let alive = members.into_iter().filter(|seen| seen.life == Life::Alive);
        Self { members: alive.collect(), ..Self::default() }
    }

    fn exceeds(&mut self, limits: &ProcessLimits) -> Option<Exceeded> {
        if self.members.len() > usize::try_from(limits.processes).unwrap_or(usize::MAX) {
            return Some(Exceeded::Processes(limits.processes));
        }
        for seen in &self.members {
            let status = fs::read_to_string(format!("/proc/{}/status", seen.pid)).unwrap_or_default();
            self.threads += field(&status, "Threads:").unwrap_or(1);
            self.memory += 1_024 * (field(&status, "RssAnon:").unwrap_or(0) + field(&status, "RssShmem:").unwrap_or(0));
        }
        let threads = THREADS * u64::from(limits.processes);
        if self.threads > threads {
            return Some(Exceeded::Threads(threads));
        }
        memory::exceeds(&self.members, self.memory, limits.memory).then_some(Exceeded::Memory(limits.memory))
    }
}

/// Whether an id is a process's: threads can be looked up by theirs too.
fn is_process(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    field(&status, "Tgid:") == u64::try_from(pid).ok()
}
