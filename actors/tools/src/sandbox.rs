//! What the processes of tools are kept in.
//!
//! A thread can restrict itself for good, and what it starts inherits that. So every process of a tool is started by a
//! thread that first gave up what the process is not to have, and starts nothing else (see `starter.rs`): no code
//! between fork and exec, nothing that the house itself gives up.
//!
//! | tier | files | network | the rest |
//! |---|---|---|---|
//! | `landlock` | written: the working directory, `$TMPDIR`, what `sandbox_write` names; read: also the system, toolchains, `sandbox_read`; names alone can be listed everywhere | no sockets at all, unless granted | system calls that reach into other processes or the kernel are refused (see `seccomp.rs`); of root's rights those over files stay |
//! | `bwrap` | the same, and nothing else is there to be seen; what git and hooks run beneath the working directory cannot be written | a loopback of its own, unless granted | other processes cannot be seen either |
//!
//! What is kept from tools is kept from them in every tier, and from the file tools too ([`SandboxRules::hidden`]): if
//! it lies beneath the working directory, everything around it is granted one by one, and nothing new can be made in
//! the folders on the way to it.

#[cfg(target_os = "linux")]
mod bwrap;
mod cage;
#[cfg(target_os = "linux")]
mod caller;
mod environment;
#[cfg(target_os = "linux")]
mod grants;
mod groups;
#[cfg(target_os = "linux")]
mod landlock;
mod launch;
mod memory;
#[cfg(target_os = "linux")]
mod metadata;
mod places;
mod probe;
pub(crate) mod refusals;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod starter;
#[cfg(target_os = "linux")]
mod supervisor;
mod temp;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub use playhouse_protocol::Network;
use playhouse_protocol::{SandboxBounds, SandboxMode};

pub(crate) use cage::Cage;
pub(crate) use environment::passed;
pub use environment::{NEVER_PASSED, passes};
pub(crate) use groups::LeftGroups;
pub(crate) use launch::{Started, Tier, start};
pub use probe::{Abilities, Ability, abilities};
#[cfg(target_os = "linux")]
pub(crate) use starter::Starter;
pub(crate) use temp::{TempFolder, clear as clear_temp};
pub use watch::Exceeded;
pub(crate) use watch::{LATE, Watched, Watcher};

use crate::files::guarded;
use crate::runtime::ToolRuntime;

/// Why a process was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The tier that was asked for does not work here.
    #[error(
        "the sandbox `{tier}` does not work here: {reason}; `playhouse doctor` says what does, `--sandbox auto` takes \
         it, `--sandbox off` runs without"
    )]
    Unavailable {
        /// The tier that was asked for: `landlock` or `bwrap`.
        tier: &'static str,
        /// What the machine lacks.
        reason: String,
    },
    /// It works, but not this time.
    #[error("the sandbox could not be set up: {0}")]
    Failed(String),
}

/// How much the processes of one call may take. One that takes more is ended with all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Processes at once; threads, eight times as many.
    pub processes: u32,
    /// Memory of all of them together, in bytes.
    pub memory: u64,
    /// The largest file one of them may write, in bytes.
    pub file: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { processes: 512, memory: 4 << 30, file: 10 << 30 }
    }
}

impl ProcessLimits {
    /// As the shell's `ulimit` takes them.
    pub(crate) fn for_shell(self) -> String {
        let processes = self.of_user().map(|most| format!(" -u {most}")).unwrap_or_default();
        format!("-c 0 -f {}{processes}", self.file / 1_024)
    }

    /// How many tasks the user may have: all that there are now and those of the call. The kernel counts a user's
    /// tasks, not a call's, so this is for the worst, and the exact number is watched. It does not bind root.
    pub(crate) fn of_user(self) -> Option<u64> {
        if rustix::process::geteuid().is_root() {
            return None;
        }
        Some(watch::tasks()? + watch::THREADS * u64::from(self.processes))
    }
}

/// What the sandboxes of a house grant beyond the working directory, and what they keep from tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxRules {
    /// Files and folders that may be read and executed beside the system's own.
    pub read: Vec<PathBuf>,
    /// Folders that may be written.
    pub write: Vec<PathBuf>,
    /// Whether processes may use the network at all.
    pub network: Network,
    /// How much a call may take.
    pub limits: ProcessLimits,
    /// Variables that are passed on beside the usual ones.
    pub environment: Vec<String>,
    /// Files and folders that no tool gets, wherever it works: what decides over tools, and the house's own records.
    /// The well-known places of keys are kept from them besides.
    pub hidden: Vec<PathBuf>,
    /// Files and folders, as seen from a working directory, whose change is dangerous beside that of git's, editors' and
    /// agents' own. They are found at any depth, and in any case.
    pub guarded: Vec<String>,
    /// What a session's project does without; no grant gives it back. Set by [`SandboxRules::within`].
    pub bounds: SandboxBounds,
}

impl SandboxRules {
    /// The guarded place that a path is or lies in, by its name alone: `.git` for `/work/.git/config`.
    pub fn guarding(&self, path: &Path, cwd: &Path) -> Option<&str> {
        guarded::guarded(&guarded::beneath(path, cwd), &self.guarded)
    }

    /// These rules as far as a session's bounds let them go: never wider.
    pub fn within(self: &Arc<Self>, bounds: &SandboxBounds) -> Arc<Self> {
        let SandboxBounds { network, processes, memory, file } = *bounds;
        let limits = ProcessLimits {
            processes: least(self.limits.processes, processes),
            memory: least(self.limits.memory, memory),
            file: least(self.limits.file, file),
        };
        let network = least(self.network, network);
        if (network, limits) == (self.network, self.limits) && bounds.network != Some(Network::Denied) {
            return self.clone();
        }
        Arc::new(Self { network, limits, bounds: *bounds, ..Self::clone(self) })
    }
}

fn least<T: Ord>(granted: T, bound: Option<T>) -> T {
    match bound {
        Some(bound) => granted.min(bound),
        None => granted,
    }
}

/// The sandbox of an agent's tools.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    /// Which tier is asked for, or that the best there is will do.
    pub mode: SandboxMode,
    /// What the house grants, and how much its processes may take.
    pub rules: Arc<SandboxRules>,
}

/// A sandbox about a working directory, for as long as someone works there.
#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) sandbox: Sandbox,
    pub(crate) cwd: PathBuf,
    house: Arc<str>,
    /// Looks at its processes.
    watcher: Watcher,
    temp: OnceLock<Option<TempFolder>>,
    hidden_here: OnceLock<Vec<PathBuf>>,
}

impl Confined {
    pub(crate) fn new(sandbox: Sandbox, cwd: PathBuf, runtime: &ToolRuntime) -> Self {
        let (house, watcher) = (runtime.house.clone(), runtime.processes.watcher.clone());
        Self { sandbox, cwd, house, watcher, temp: OnceLock::new(), hidden_here: OnceLock::new() }
    }

    /// The folder for temporary files, made when it is first asked for.
    pub(crate) fn temp(&self) -> Option<&Path> {
        let made = || match TempFolder::new(&self.house) {
            Ok(folder) => Some(folder),
            Err(error) => {
                tracing::warn!("no folder for tools' temporary files: {error}");
                None
            }
        };
        self.temp.get_or_init(made).as_ref().map(TempFolder::path)
    }

    /// What is kept from tools and lies beneath the working directory, or holds it.
    pub(crate) fn hidden_here(&self) -> &[PathBuf] {
        self.hidden_here.get_or_init(|| {
            let cwd = places::real(&self.cwd);
            let concerns = |hidden: &PathBuf| hidden.starts_with(&cwd) || cwd.starts_with(hidden);
            self.hidden().into_iter().filter(concerns).collect()
        })
    }

    /// What is kept from tools.
    pub(crate) fn hidden(&self) -> Vec<PathBuf> {
        places::hidden(&self.sandbox.rules.hidden)
    }
}

/// Whether processes are kept in anything here, under this mode. May start a process the first time: not for a handler.
pub fn is_confining(mode: SandboxMode) -> bool {
    match launch::tier(mode) {
        Ok(Tier::Landlock | Tier::Bwrap) => true,
        Ok(Tier::Off | Tier::Absent(_)) | Err(_) => false,
    }
}

/// The well-known places of keys, which are kept from tools wherever they work.
pub(crate) fn hidden_places() -> Vec<PathBuf> {
    places::hidden(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_only_narrow() {
        let limits = ProcessLimits { processes: 50, memory: 500, file: 5_000 };
        let read = vec![PathBuf::from("/data")];
        let wide = SandboxRules { read, network: Network::Granted, limits, ..SandboxRules::default() };
        let wide = Arc::new(wide);
        assert!(Arc::ptr_eq(&wide, &wide.within(&SandboxBounds::default())));
        let wider = SandboxBounds {
            network: Some(Network::Granted),
            processes: Some(51),
            memory: Some(501),
            file: Some(5_001),
        };
        assert_eq!(wide.within(&wider), wide);
        assert_eq!(Arc::new(SandboxRules::default()).within(&wider).network, Network::Denied);
        let narrow =
            SandboxBounds { network: Some(Network::Denied), processes: Some(5), memory: Some(50), file: Some(500) };
        let limits = ProcessLimits { processes: 5, memory: 50, file: 500 };
        let expected = SandboxRules { network: Network::Denied, limits, bounds: narrow, ..SandboxRules::clone(&wide) };
        assert_eq!(*wide.within(&narrow), expected);
    }
}
