//! Threads that start processes, each confined to what its processes are to be confined to.
//!
//! To give up rights and to enter a cage takes longer than to start a program: the kernel waits for all processors before
//! it moves a thread to another group. So a thread whose process has ended and left nothing is kept for a moment, and
//! starts the next process of the same sandbox.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use playhouse_protocol::lock;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::cage::{Cage, Hold};
use super::grants::{self, Grants, Right};
use super::seccomp::Asked;
use super::supervisor::{self, Current};
use super::{Confined, Tier, Watcher};
use crate::process::mark::Mark;

/// For how long a thread starts processes: what was granted when it began may be another file by then.
const FRESH: Duration = Duration::from_secs(2);
/// How many bytes one call may leave in memory, as files say, and the next still be counted with it.
const LEFT: u64 = 16 << 20;
/// How many threads there are, at work and idle, before none is kept any more.
const MOST: usize = 16;

/// The threads of a house that start processes.
#[derive(Debug, Default)]
pub(super) struct Starters {
    idle: Mutex<Vec<Starter>>,
    /// How many there are, at work and idle.
    threads: Arc<AtomicUsize>,
}

impl Starters {
    /// Lets those go that are too old to be used, or whose sandbox nobody has any more.
    pub(super) fn let_go(&self) {
        let is_old = |starter: &mut Starter| !starter.is_fresh() || starter.confined.strong_count() == 0;
        let old: Vec<Starter> = lock(&self.idle).extract_if(.., is_old).collect();
        drop(old);
    }

    pub(super) fn let_all_go(&self) {
        let all = std::mem::take(&mut *lock(&self.idle));
        drop(all);
    }
}

struct Job {
    command: Command,
    runtime: Handle,
    reply: SyncSender<io::Result<Child>>,
}

/// A thread that starts processes in one sandbox. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Starter {
    confined: Weak<Confined>,
    /// What it was granted besides the system, and which files that were.
    own: Vec<(PathBuf, Option<(u64, u64)>)>,
    since: Instant,
    cage: Option<Arc<Cage>>,
    /// The call that its processes belong to.
    current: Arc<Current>,
    jobs: SyncSender<Job>,
}

impl Starter {
    /// One for this sandbox: an idle one, or a new one.
    pub(super) fn of(confined: &Arc<Confined>, tier: &Tier) -> io::Result<Self> {
        let grants = if *tier == Tier::Landlock { grants::own(confined) } else { Vec::new() };
        let own: Vec<_> = grants.iter().map(|(path, _)| (path.clone(), identity(path))).collect();
        let known = {
            let mut idle = lock(&confined.watcher.starters().idle);
            let is_fit = |starter: &Starter| {
                std::ptr::eq(starter.confined.as_ptr(), Arc::as_ptr(confined))
                    && starter.is_fresh()
                    && starter.own == own
            };
            let at = idle.iter().position(is_fit);
            at.map(|at| idle.swap_remove(at))
        };
        known.map_or_else(|| Self::new(confined, tier, grants, own), Ok)
    }

    fn new(
        confined: &Arc<Confined>,
        tier: &Tier,
        grants: Grants,
        own: Vec<(PathBuf, Option<(u64, u64)>)>,
    ) -> io::Result<Self> {
        let cage = Cage::new(confined);
        let (tell, told) = sync_channel(1);
        let (jobs, queue) = sync_channel(1);
        let (is_landlock, network) = (*tier == Tier::Landlock, confined.sandbox.rules.network);
        let system = if is_landlock { grants::system(confined) } else { Vec::new() };
        let writable: Vec<PathBuf> =
            grants.iter().filter(|(_, right)| *right == Right::Write).map(|(path, _)| path.clone()).collect();
        let thread = std::thread::Builder::new().name("playhouse-start".to_owned());
        // The cage goes into the thread and back: what is put into it decides how well it holds.
        let threads = confined.watcher.starters().threads.clone();
        thread.spawn(move || {
            let _counted = Counted::new(threads);
            let cage = cage.and_then(|mut cage| cage.enter().is_ok().then_some(cage));
            let all = system.into_iter().chain(grants);
            let confined = if is_landlock { super::landlock::confine(network, all) } else { Ok(Asked::Nobody) };
            let hold = if is_landlock { Hold::Sure } else { Hold::Unsure };
            let cage = cage.map(|cage| Arc::new(cage.with(hold)));
            let is_ready = confined.is_ok();
            if tell.send(confined.map(|asked| (cage, asked))).is_ok() && is_ready {
                serve(&queue, if is_landlock { spawn_below } else { spawn });
            }
        })?;
        let panicked = |_| io::Error::other("the thread that starts processes panicked");
        let (cage, asked) = told.recv().map_err(panicked)?.map_err(io::Error::other)?;
        let current = Arc::new(Current::default());
        match asked {
            // Not by the thread above: it would be asking itself.
            Asked::Listener(listener) => {
                let (answering, current) =
                    (std::thread::Builder::new().name("playhouse-calls".to_owned()), current.clone());
                answering.spawn(move || supervisor::serve(&listener, &writable, &current))?;
            }
            Asked::Nobody => {}
        }
        Ok(Self { confined: Arc::downgrade(confined), own, since: Instant::now(), cage, current, jobs })
    }

    /// What holds its processes.
    pub(super) fn cage(&self) -> Option<Arc<Cage>> {
        self.cage.clone()
    }

    /// Starts a command, whose processes bear this mark. Blocks for as long as that takes.
    pub(super) fn start(&self, command: Command, mark: &Mark, runtime: Handle) -> io::Result<Child> {
        self.current.begin(mark);
        let (reply, replied) = sync_channel(1);
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.jobs.send(Job { command, runtime, reply }).map_err(|_| gone())?;
        let child = replied.recv().map_err(|_| gone())?;
        self.current.started();
        child
    }

    /// Whether it may be kept after its process.
    pub(super) fn is_spare(&self, among: &Starters) -> bool {
        self.cage.as_ref().is_some_and(|cage| cage.is_sure()) && among.threads.load(Ordering::Relaxed) <= MOST
    }

    /// Keeps it for the next process: its last one has left nothing.
    pub(crate) fn keep(self, watcher: &Watcher) {
        let is_used = |cage: &Arc<Cage>| cage.refused().is_some() || cage.has_more_memory(LEFT);
        if self.is_fresh() && !self.cage.as_ref().is_some_and(is_used) {
            lock(&watcher.starters().idle).push(self);
            watcher.attend();
        }
    }

    /// Whether it can start another one: its last one may have been ended together with all that there would be.
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < FRESH && !self.cage.as_ref().is_some_and(|cage| cage.is_shut())
    }
}

fn identity(path: &PathBuf) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn serve(queue: &Receiver<Job>, spawn: fn(Command, Handle) -> io::Result<Child>) {
    while let Ok(Job { command, runtime, reply }) = queue.recv() {
        let _ = reply.send(spawn(command, runtime));
    }
}

fn spawn(mut command: Command, runtime: Handle) -> io::Result<Child> {
    let _inside = runtime.enter();
    command.spawn()
}

/// Starts a command from a thread of its own, which has the command's rights and is gone when this returns: the one that
/// stays has more, and is out of the command's reach.
fn spawn_below(command: Command, runtime: Handle) -> io::Result<Child> {
    let thread = std::thread::Builder::new().name("playhouse-start".to_owned()).spawn(move || {
        super::landlock::step_down().map_err(io::Error::other)?;
        spawn(command, runtime)
    });
    thread?.join().map_err(|_| io::Error::other("the thread that starts a process panicked"))?
}

/// A thread is counted for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(threads: Arc<AtomicUsize>) -> Self {
        threads.fetch_add(1, Ordering::Relaxed);
        Self(threads)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
