//! A process of a tool, which never outlives its owner, nor does anything it started.

pub mod mark;
pub(crate) mod proc_table;
pub(crate) mod reap;
pub(crate) mod sweeps;

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Access;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

#[cfg(target_os = "linux")]
use crate::sandbox::Starter;
use crate::sandbox::{Cage, Exceeded, Started, Tier, Watched, Watcher};

pub use reap::{adopt_orphans, kill_leftovers};

use mark::Mark;
use reap::{Group, Reaper, Target, kill_group};
use sweeps::{SweepGuard, Sweeps};

const REAP_WAIT: Duration = Duration::from_secs(1);

/// What ends the processes of one house; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    /// The searches for survivors of all its calls.
    pub(crate) sweeps: Sweeps,
    pub(crate) reaper: Reaper,
    pub(crate) watcher: Watcher,
}

/// A running process, the leader of its own group. It needs a runtime with I/O and time.
///
/// Dropped, it kills its group at once and has everything else that came from it found and killed in the background
/// ([`ToolRuntime::settled`](crate::ToolRuntime::settled) tells when). A call's end waits for that: `Finished` means that nothing of it runs any more.
#[derive(Debug)]
pub struct Process {
    /// Taken when the process is over and reaped.
    child: Option<Child>,
    leader: i32,
    start: u64,
    mark: Mark,
    tier: Tier,
    group: Group,
    /// Dropped after the processes are gone.
    cage: Option<Arc<Cage>>,
    #[cfg(target_os = "linux")]
    starter: Option<Starter>,
    #[cfg(target_os = "linux")]
    exit: Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>>,
}

impl Process {
    /// Starts a command in its own process group, with the marks by which its descendants are found.
    ///
    /// It gets only the variables of this process that may pass (see [`passes`](crate::sandbox::passes)), and runs in
    /// the sandbox of the agent whose tool starts it; bubblewrap gives it an empty input. A command that can set its own limit on
    /// file locks to [`Mark::tag`] should do so first; it is set from here too, but only once the process runs.
    pub fn spawn(mut command: Command, mark: Mark) -> io::Result<Self> {
        mark.put_on(&mut command);
        command.process_group(0).kill_on_drop(false);
        let started = match mark.confined.clone() {
            Some(confined) => crate::sandbox::start(command, &mark, &confined)?,
            None => Started::plain(command.spawn()?),
        };
        let (child, tier) = (started.child, started.tier);
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
        // From here on the guard holds: an early return kills.
        let mut process = Self {
            child: Some(child),
            leader,
            start: 0,
            mark,
            tier,
            group: Group::Held,
            cage: started.cage,
            #[cfg(target_os = "linux")]
            starter: started.starter,
            #[cfg(target_os = "linux")]
            exit: None,
        };
        process.start = proc_table::find(leader).map(|seen| seen.start).unwrap_or_default();
        #[cfg(target_os = "linux")]
        process.prepare(leader)?;
        Ok(process)
    }

    #[cfg(target_os = "linux")]
    fn prepare(&mut self, leader: i32) -> io::Result<()> {
        use rustix::process::{PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, prlimit};
        let Some(pid) = Pid::from_raw(leader) else { return Ok(()) };
        let tag = Rlimit { current: Some(self.mark.tag()), maximum: getrlimit(Resource::Locks).maximum };
        // Where it is refused the other marks must do.
        let _ = prlimit(Some(pid), Resource::Locks, tag);
        if !self.cage.as_ref().is_some_and(|cage| cage.is_sure()) {
            // It may have started something already, and may not be allowed to set that limit itself.
            proc_table::each_descendant(leader.unsigned_abs(), |child| {
                let child = i32::try_from(child).ok().and_then(Pid::from_raw);
                let _ = child.map(|child| prlimit(Some(child), Resource::Locks, tag));
            });
        }
        if let Some(limits) = self.mark.confined.as_ref().map(|confined| confined.sandbox.rules.limits) {
            let files = [(Resource::Core, Some(0)), (Resource::Fsize, Some(limits.file))];
            for (resource, most) in files.into_iter().chain([(Resource::Nproc, limits.of_user())]) {
                let lowered = most.map(|most| getrlimit(resource).maximum.map_or(most, |hard| hard.min(most)));
                let _ = lowered
                    .map(|most| prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(most) }));
            }
        }
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::NONBLOCK) {
            #[allow(deprecated, reason = "its flaw is types that lie about their descriptor; `OwnedFd` does not")]
            let exit = tokio::io::unix::AsyncFd::with_interest(handle, tokio::io::Interest::READABLE)?;
            self.exit = Some(exit);
        }
        Ok(())
    }

    /// Why it runs in no sandbox although it should, if so.
    pub(crate) fn unconfined(&self) -> Option<&str> {
        match &self.tier {
            Tier::Absent(reason) => Some(reason),
            Tier::Off | Tier::Landlock | Tier::Bwrap => None,
        }
    }

    /// What it runs in.
    pub(crate) fn tier(&self) -> &Tier {
        &self.tier
    }

    /// Resolves when it and what it started take more than they may; never otherwise.
    pub(crate) fn exceeded(&self) -> impl Future<Output = Exceeded> + Send + use<> {
        let Mark { run, tag, confined, processes, .. } = self.mark.clone();
        let (leader, start) = (self.leader, self.start);
        let limits = confined.map(|confined| confined.sandbox.rules.limits);
        let cage = self.cage.clone();
        let watched = limits.map(|limits| processes.watcher.watch(Watched { leader, start, tag, run, limits, cage }));
        async move {
            match watched {
                Some(watched) => watched.await,
                None => std::future::pending().await,
            }
        }
    }

    /// What the kernel refused to it and to what it started, if anything.
    pub(crate) fn refused(&self) -> Option<Exceeded> {
        self.cage.as_ref()?.refused()
    }

    /// Its standard input, once, if it was piped.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.as_mut()?.stdin.take()
    }

    /// Its standard output, once, if it was piped.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.as_mut()?.stdout.take()
    }

    /// Its standard error, once, if it was piped.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.as_mut()?.stderr.take()
    }

    /// Resolves when the process itself has ended. What it started may live on until [`Process::kill_tree`].
    ///
    /// Where the system allows, the process is not reaped by this, so its group's id stays its own.
    pub async fn exited(&mut self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(exit) = &self.exit {
            // Left unread: readiness of an ended process never goes away.
            exit.readable().await?.retain_ready();
            return Ok(());
        }
        if let Some(child) = &mut self.child {
            child.wait().await?;
            self.group = Group::Released;
        }
        Ok(())
    }

    /// Kills the process and everything that came from it, and tells how the process itself ended.
    pub async fn kill_tree(mut self) -> io::Result<ExitStatus> {
        let is_clean = self.has_left_nothing();
        if !is_clean {
            // The group is not killed first: the tree below it can only be traced while its parents live.
            let (done, swept) = oneshot::channel();
            let guards = self.guards();
            self.mark.processes.reaper.submit(self.target(None, guards, Some(done)));
            // An error means that the search broke off; the wait below still holds for the process itself.
            let _ = swept.await;
        }
        let Some(mut child) = self.child.take() else {
            return Err(io::Error::other("the process is gone"));
        };
        // It is dead by now, unless the kernel would not let go of it.
        let status = match tokio::time::timeout(REAP_WAIT, child.wait()).await {
            Ok(status) => status?,
            Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "it was killed and did not end")),
        };
        #[cfg(target_os = "linux")]
        if let Some(starter) = self.starter.take().filter(|_| is_clean) {
            starter.keep(&self.mark.processes.watcher);
        }
        Ok(status)
    }

    /// Whether it is over and, for certain, nothing that came from it is left, not even to be reaped.
    fn has_left_nothing(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.leader).filter(|_| self.group == Group::Held) else { return false };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let is_over = || matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)));
        // It itself is counted until it is reaped, and so is who started it.
        #[cfg(target_os = "linux")]
        let known = 1 + u64::from(self.starter.is_some());
        #[cfg(not(target_os = "linux"))]
        let known = 1;
        let is_alone = |cage: &Arc<Cage>| cage.is_sure() && cage.tasks().is_some_and(|tasks| tasks <= known);
        is_over() && self.cage.as_ref().is_some_and(is_alone)
    }

    fn guards(&self) -> Vec<SweepGuard> {
        let own = self.mark.sweeps.as_ref().map(Sweeps::begin);
        own.into_iter().chain([self.mark.processes.sweeps.begin()]).collect()
    }

    fn target(&self, child: Option<Child>, guards: Vec<SweepGuard>, done: Option<oneshot::Sender<()>>) -> Target {
        if let Some(cage) = &self.cage {
            cage.shut();
        }
        let Mark { run, tag, confined, .. } = self.mark.clone();
        let (leader, group, start, cage) = (self.leader, self.group, self.start, self.cage.clone());
        Target { leader, group, start, run, tag, cage, child, guards, done, confined }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let guards = self.guards();
            if self.group == Group::Held {
                kill_group(self.leader);
            }
            self.mark.processes.reaper.submit(self.target(Some(child), guards, None));
        }
    }
}

/// A command with no input and both outputs piped. The program is looked for here: only one that is named by its path is
/// started without a copy of this process, however large that is.
pub(crate) fn quiet(program: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(program));
    let found = places.into_iter().find(|place| rustix::fs::access(place, Access::EXEC_OK).is_ok() && place.is_file());
    let mut command = Command::new(found.as_deref().map_or(OsStr::new(program), Path::as_os_str));
    command.arg0(program).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
