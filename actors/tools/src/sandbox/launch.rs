//! Starting a process in its sandbox.

use std::io;
use std::sync::Arc;

use playhouse_protocol::SandboxMode;
use tokio::process::{Child, Command};

use super::cage::Cage;
#[cfg(target_os = "linux")]
use super::cage::Hold;
#[cfg(target_os = "linux")]
use super::starter::Starter;
use super::{Confined, SandboxError, probe};
use crate::process::mark::Mark;

/// What a process really runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// No sandbox, because none was asked for.
    Off,
    /// Nothing, for want of anything that works; with the reason.
    Absent(String),
    Landlock,
    Bwrap,
}

/// What a mode means on this machine.
pub(crate) fn tier(mode: SandboxMode) -> Result<Tier, SandboxError> {
    let must = |ability: &probe::Ability, tier| match ability {
        Ok(_) => Ok(()),
        Err(reason) => Err(SandboxError::Unavailable { tier, reason: reason.clone() }),
    };
    match mode {
        SandboxMode::Off => Ok(Tier::Off),
        SandboxMode::Landlock => must(probe::landlock(), "landlock").map(|()| Tier::Landlock),
        SandboxMode::Bwrap => must(probe::bwrap(), "bwrap").map(|()| Tier::Bwrap),
        SandboxMode::Auto => Ok(match (probe::landlock(), probe::bwrap) {
            (Ok(_), _) => Tier::Landlock,
            (Err(_), bwrap) if bwrap().is_ok() => Tier::Bwrap,
            (Err(reason), _) => Tier::Absent(reason.clone()),
        }),
    }
}

/// A process that was started, what it runs in, and what keeps its number of tasks.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) tier: Tier,
    pub(crate) cage: Option<Arc<Cage>>,
    /// Who started it, if that one can start more.
    #[cfg(target_os = "linux")]
    pub(crate) starter: Option<Starter>,
}

impl Started {
    /// One that nothing is kept from.
    pub(crate) fn plain(child: Child) -> Self {
        Self::in_tier(child, Tier::Off)
    }

    fn in_tier(child: Child, tier: Tier) -> Self {
        Self {
            child,
            tier,
            cage: None,
            #[cfg(target_os = "linux")]
            starter: None,
        }
    }
}

/// Starts a command, from a thread that has put itself under the limits the command is to have: those are handed down.
/// Its processes bear the mark. Blocks for as long as that takes; needs a runtime.
#[cfg(target_os = "linux")]
pub(crate) fn start(command: Command, mark: &Mark, confined: &Arc<Confined>) -> io::Result<Started> {
    let tier = tier(confined.sandbox.mode).map_err(io::Error::other)?;
    if tier == Tier::Bwrap {
        // It dies with the thread that starts it: not with one of those that come and go.
        let (child, gate) = super::bwrap::start(&command, confined).map_err(io::Error::other)??;
        let caged = put_in_a_cage(Started::in_tier(child, tier), confined, Hold::Sure);
        drop(gate);
        return Ok(caged);
    }
    let starter = Starter::of(confined, &tier)?;
    let child = starter.start(command, mark, tokio::runtime::Handle::try_current().map_err(io::Error::other)?)?;
    match starter.cage() {
        None => Ok(put_in_a_cage(Started::in_tier(child, tier), confined, Hold::Unsure)),
        cage => Ok(Started {
            child,
            tier,
            cage,
            starter: Some(starter).filter(|starter| starter.is_spare(confined.watcher.starters())),
        }),
    }
}

/// Puts a process into a cage that was started without. One of bubblewrap's waits at its gate, and its namespace dies
/// with it: nothing gets out.
#[cfg(target_os = "linux")]
fn put_in_a_cage(started: Started, confined: &Confined, hold: Hold) -> Started {
    let taken = Cage::new(confined).and_then(|mut cage| cage.take(started.child.id()?).then_some(cage));
    Started { cage: taken.map(|cage| Arc::new(cage.with(hold))), ..started }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn start(mut command: Command, _: &Mark, confined: &Arc<Confined>) -> io::Result<Started> {
    let tier = tier(confined.sandbox.mode).map_err(io::Error::other)?;
    command.spawn().map(|child| Started::in_tier(child, tier))
}
