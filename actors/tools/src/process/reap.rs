//! Finds and kills every process of a run, and what dead houses left.
//!
//! One thread serves all runs of a house: it reads the process table once per round for everyone who waits, kills what belongs
//! to them or sits in their cages, and lets a run go after two rounds in a row that found nothing, or after [`PATIENCE`]. It exists only
//! while there is something to look for. Its queue holds at most one target per process being ended.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use playhouse_protocol::lock;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process_group, waitpid};
use tokio::process::Child;
use tokio::sync::oneshot;

use crate::process::mark::{HOUSE_VAR, RUN_VAR, is_tag_of, names};
use crate::process::proc_table::{self, Killed, Life, ProcessEntry};
use crate::process::sweeps::SweepGuard;
use crate::sandbox::{Cage, Confined, LeftGroups};

/// How long a search goes on when something won't die (a process in an uninterruptible wait, say).
const PATIENCE: Duration = Duration::from_millis(1_800);
/// How long when it is a crowd that has to die: each of them needs the processor for that.
const CROWD_PATIENCE: Duration = Duration::from_secs(20);
const CROWD: usize = 64;

/// What to look for.
#[derive(Debug)]
pub(crate) struct Target {
    /// The process that was started, which leads its group. Until it is reaped nobody else can get its id.
    pub(crate) leader: i32,
    pub(crate) group: Group,
    /// When the leader started: nothing older can come from it.
    pub(crate) start: u64,
    pub(crate) run: String,
    pub(crate) tag: u64,
    /// What is in it is the run's, whatever else it shed.
    pub(crate) cage: Option<Arc<Cage>>,
    /// Reaped at the end, when nobody else is left to do it.
    pub(crate) child: Option<Child>,
    pub(crate) guards: Vec<SweepGuard>,
    pub(crate) done: Option<oneshot::Sender<()>>,
    /// What it ran in: its temporary files go when nothing of it is left.
    pub(crate) confined: Option<Arc<Confined>>,
}

/// Whether the leader's id still names its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The leader is not reaped.
    Held,
    /// It is, so the id may be another's by now.
    Released,
}

#[derive(Debug)]
struct Search {
    target: Target,
    /// Every process seen to belong to it, by id, with its start.
    known: HashMap<i32, u64>,
    /// How many rounds it has been through.
    rounds: u32,
    /// Rounds in a row that found nothing.
    clean: u32,
    begun: Instant,
}

/// Ends what is left of a house's runs; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaper(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Target>,
    thread: Thread,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Thread {
    #[default]
    Absent,
    Running,
}

impl Reaper {
    /// Has everything of a run killed. Returns at once; `done` and `guards` tell when it is over.
    pub(crate) fn submit(&self, target: Target) {
        let before = {
            let mut queue = lock(&self.0);
            queue.waiting.push(target);
            std::mem::replace(&mut queue.thread, Thread::Running)
        };
        if before == Thread::Absent {
            let reaper = self.clone();
            let started = std::thread::Builder::new().name("playhouse-reap".to_owned()).spawn(move || reaper.serve());
            if let Err(error) = started {
                tracing::warn!(%error, "no thread for ending processes; doing it here");
                self.serve();
            }
        }
    }

    fn serve(&self) {
        let _leaving = Leaving(self);
        hurry();
        let mut searches: Vec<Search> = Vec::new();
        let mut pause = Duration::ZERO;
        loop {
            {
                let mut queue = lock(&self.0);
                if !queue.waiting.is_empty() {
                    pause = Duration::ZERO;
                }
                searches.extend(queue.waiting.drain(..).map(Search::new));
                if searches.is_empty() {
                    queue.thread = Thread::Absent;
                    return;
                }
            }
            let found = round(&mut searches);
            let now = Instant::now();
            for index in (0..searches.len()).rev() {
                if searches.get(index).is_some_and(|search| search.is_over(now)) {
                    searches.swap_remove(index).finish();
                }
            }
            pause = match found {
                RoundResult::Nothing => Duration::ZERO,
                RoundResult::Something => (pause * 2).clamp(Duration::from_millis(1), Duration::from_millis(20)),
            };
            std::thread::sleep(pause);
        }
    }
}

/// Says that the thread is gone, even if it panicked.
struct Leaving<'a>(&'a Reaper);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.0).thread = Thread::Absent;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundResult {
    Nothing,
    Something,
}

impl Search {
    fn new(target: Target) -> Self {
        let known = HashMap::from([(target.leader, target.start)]);
        Self { target, known, rounds: 0, clean: 0, begun: Instant::now() }
    }

    fn is_over(&self, now: Instant) -> bool {
        let patience = if self.known.len() > CROWD { CROWD_PATIENCE } else { PATIENCE };
        self.clean >= 2 || now.duration_since(self.begun) >= patience
    }

    fn finish(self) {
        let Target { leader, run, child, guards, done, confined, .. } = self.target;
        if self.clean < 2 {
            tracing::warn!(leader, run, "processes of a tool would not die");
        }
        if let Some(mut child) = child {
            // What cannot be reaped now goes to the runtime's own queue when `child` is dropped.
            let _ = child.try_wait();
        }
        drop(confined);
        if let Some(done) = done {
            let _ = done.send(());
        }
        drop(guards);
    }

    /// Whether a process is a child of one that belongs to this run; `starts` says who has which id now.
    fn begot(&self, seen: &ProcessEntry, starts: &HashMap<i32, u64>) -> bool {
        let parent = self.known.get(&seen.parent);
        parent.is_some() && parent == starts.get(&seen.parent) && seen.start >= self.target.start
    }

    /// Deals with a process of this run.
    fn meet(&mut self, seen: &ProcessEntry, me: i32) -> RoundResult {
        self.known.insert(seen.pid, seen.start);
        match seen.life {
            Life::Alive => match proc_table::kill_exact(seen) {
                Killed::Sent => RoundResult::Something,
                Killed::Gone => RoundResult::Nothing,
                Killed::Refused => {
                    tracing::warn!(pid = seen.pid, "a tool's process belongs to another user and lives on");
                    RoundResult::Nothing
                }
            },
            // An orphan that came to us: ours to reap, by its own id. The leader is its owner's.
            Life::Zombie if seen.parent == me && seen.pid != self.target.leader => {
                reap(seen.pid);
                RoundResult::Something
            }
            Life::Zombie => RoundResult::Nothing,
        }
    }
}

/// Takes down whole trees before anything in them is killed: what loses its parent loses that trace.
fn trace(searches: &mut [Search]) {
    if searches.iter().all(|search| search.rounds > 0) {
        return;
    }
    let mut table: Vec<ProcessEntry> = Vec::new();
    proc_table::survey(|seen| table.push(seen));
    let starts: HashMap<i32, u64> = table.iter().map(|seen| (seen.pid, seen.start)).collect();
    for search in searches.iter_mut().filter(|search| search.rounds == 0) {
        loop {
            let before = search.known.len();
            for seen in &table {
                if search.begot(seen, &starts) {
                    search.known.insert(seen.pid, seen.start);
                }
            }
            if search.known.len() == before {
                break;
            }
        }
    }
}

/// Looks once through the table for everyone.
fn round(searches: &mut [Search]) -> RoundResult {
    trace(searches);
    let me = getpid().as_raw_nonzero().get();
    let mut groups = HashMap::new();
    let mut tags = HashMap::new();
    let mut runs = HashMap::new();
    for (at, search) in searches.iter_mut().enumerate() {
        search.rounds += 1;
        if search.target.group == Group::Held {
            groups.insert(search.target.leader, at);
            kill_group(search.target.leader);
        }
        tags.insert(search.target.tag, at);
        runs.insert(search.target.run.clone(), at);
    }
    let oldest = searches.iter().map(|search| search.target.start).min().unwrap_or_default();
    let mut found = vec![RoundResult::Nothing; searches.len()];
    let mut others: Vec<ProcessEntry> = Vec::new();
    let mut starts: HashMap<i32, u64> = HashMap::new();
    for at in 0..searches.len() {
        let cage = searches.get(at).and_then(|search| search.target.cage.clone());
        for seen in cage.map(|cage| cage.members()).unwrap_or_default() {
            note(searches, &mut found, at, &seen, me);
        }
    }
    proc_table::survey(|seen| {
        if seen.start < oldest || seen.pid == me {
            return;
        }
        starts.insert(seen.pid, seen.start);
        let by_known = || searches.iter().position(|search| search.known.get(&seen.pid) == Some(&seen.start));
        let by_group = || groups.get(&seen.group).copied();
        let by_tag = || proc_table::lock_limit(seen.pid).and_then(|tag| tags.get(&tag).copied());
        let by_run = || {
            let value = proc_table::environ(seen.pid, RUN_VAR)?;
            value.split('/').find_map(|run| runs.get(run).copied())
        };
        match by_known().or_else(by_group).or_else(by_tag).or_else(by_run) {
            Some(at) => note(searches, &mut found, at, &seen, me),
            None => others.push(seen),
        }
    });
    // What is left may still be a child of something known; and its children after it.
    loop {
        let before = others.len();
        others.retain(|seen| match searches.iter().position(|search| search.begot(seen, &starts)) {
            Some(at) => {
                note(searches, &mut found, at, seen, me);
                false
            }
            None => true,
        });
        if others.len() == before {
            break;
        }
    }
    for (search, found) in searches.iter_mut().zip(&found) {
        search.clean = if *found == RoundResult::Nothing { search.clean + 1 } else { 0 };
    }
    if found.contains(&RoundResult::Something) { RoundResult::Something } else { RoundResult::Nothing }
}

fn note(searches: &mut [Search], found: &mut [RoundResult], at: usize, seen: &ProcessEntry, me: i32) {
    if let (Some(search), Some(found)) = (searches.get_mut(at), found.get_mut(at))
        && search.meet(seen, me) == RoundResult::Something
    {
        *found = RoundResult::Something;
    }
}

/// Lets this thread go before what it has to end, where that is allowed: a thousand busy processes would starve it.
pub(crate) fn hurry() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, -20);
}

/// Kills a group whose leader is not reaped.
pub(crate) fn kill_group(leader: i32) {
    if let Some(pid) = Pid::from_raw(leader) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Makes this process the parent of what its tools orphan, so that nothing of theirs goes to `init`.
///
/// Once is enough. Orphans of tools are reaped when their run ends; a program that starts daemons of its own becomes
/// their parent too, and is to reap them.
pub fn adopt_orphans() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Kills every process that dead houses left behind, and tells how many there were. Blocks, at most about 2 s. However
/// many houses there are, the processes of the machine are gone through once, and again while something is found.
///
/// Never touches this process nor those it was started by.
pub fn kill_leftovers(dead_nodes: &[&str]) -> usize {
    dead_nodes.iter().for_each(|node| crate::sandbox::clear_temp(node));
    if dead_nodes.is_empty() {
        return 0;
    }
    let me = getpid().as_raw_nonzero().get();
    let deadline = Instant::now() + PATIENCE;
    let spared = lineage(me);
    // Inside a tool of the dead house, our own tools bear its name too.
    let inside = std::env::var(HOUSE_VAR).is_ok_and(|value| dead_nodes.iter().any(|node| names(&value, node)));
    let groups = LeftGroups::of(dead_nodes);
    let mut killed = HashSet::new();
    let mut clean = 0;
    while clean < 2 && Instant::now() < deadline {
        let mut table: Vec<ProcessEntry> = Vec::new();
        let mut doomed: HashMap<i32, ProcessEntry> = HashMap::new();
        let mut found = RoundResult::Nothing;
        let mut end = |seen: &ProcessEntry| match seen.life {
            Life::Alive if proc_table::kill_exact(seen) == Killed::Sent => {
                killed.insert((seen.pid, seen.start));
                found = RoundResult::Something;
            }
            Life::Zombie if seen.parent == me => reap(seen.pid),
            Life::Alive | Life::Zombie => {}
        };
        let grouped: HashSet<(i32, u64)> = groups.members().iter().map(|seen| (seen.pid, seen.start)).collect();
        proc_table::survey(|seen| {
            let is_ours = || spared.contains(&seen.pid) || (inside && descends(seen.pid, me));
            let is_left = || grouped.contains(&(seen.pid, seen.start)) || is_left_by(seen.pid, dead_nodes);
            if is_left() && !is_ours() {
                end(&seen);
                doomed.insert(seen.pid, seen);
            } else {
                table.push(seen);
            }
        });
        loop {
            let is_child = |seen: &ProcessEntry| doomed.contains_key(&seen.parent) && !spared.contains(&seen.pid);
            let (children, rest): (Vec<ProcessEntry>, Vec<ProcessEntry>) = table.into_iter().partition(is_child);
            table = rest;
            if children.is_empty() {
                break;
            }
            children.iter().for_each(&mut end);
            doomed.extend(children.into_iter().map(|seen| (seen.pid, seen)));
        }
        if found == RoundResult::Something {
            clean = 0;
            std::thread::sleep(Duration::from_millis(2));
        } else {
            clean += 1;
        }
    }
    groups.remove();
    killed.len()
}

fn is_left_by(pid: i32, dead_nodes: &[&str]) -> bool {
    proc_table::lock_limit(pid).is_some_and(|tag| dead_nodes.iter().any(|node| is_tag_of(tag, node)))
        || proc_table::environ(pid, HOUSE_VAR).is_some_and(|value| dead_nodes.iter().any(|node| names(&value, node)))
}

/// This process and all above it.
fn lineage(me: i32) -> HashSet<i32> {
    let mut all = HashSet::from([me]);
    let mut at = me;
    while let Some(seen) = proc_table::find(at).filter(|seen| seen.parent > 0 && all.insert(seen.parent)) {
        at = seen.parent;
    }
    all
}

fn descends(pid: i32, from: i32) -> bool {
    let mut at = pid;
    let mut passed = HashSet::new();
    while let Some(seen) = proc_table::find(at).filter(|seen| passed.insert(seen.pid)) {
        if seen.parent == from {
            return true;
        }
        at = seen.parent;
    }
    false
}
