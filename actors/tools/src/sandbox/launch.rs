//! Starting a process in its sandbox.

use std::io;

use playhouse_protocol::SandboxMode;
use tokio::process::{Child, Command};

#[cfg(target_os = "linux")]
use super::Cage;
use super::{Confined, SandboxError, probe};

/// What a process really runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Nothing, as asked.
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
    #[cfg(target_os = "linux")]
    pub(crate) cage: Option<Cage>,
}

impl Started {
    /// One that nothing is kept from.
    pub(crate) fn plain(child: Child) -> Self {
        Self {
            child,
            tier: Tier::Off,
            #[cfg(target_os = "linux")]
            cage: None,
        }
    }
}

/// Starts a command, from a thread that has put itself under the limits the command is to have: those are handed down.
/// Blocks for as long as that takes; needs a runtime.
#[cfg(target_os = "linux")]
pub(crate) fn start(mut command: Command, confined: &Confined) -> io::Result<Started> {
    let tier = tier(confined.sandbox.mode).map_err(io::Error::other)?;
    let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
    let cage = Cage::new(confined.sandbox.rules.limits);
    let mut on_a_thread = || {
        let _inside = runtime.enter();
        let is_caged = cage.as_ref().is_some_and(|cage| cage.enter().is_ok());
        if tier == Tier::Landlock {
            super::landlock::confine(confined).map_err(io::Error::other)?;
        }
        command.spawn().map(|child| (child, is_caged))
    };
    let (child, is_caged) = match &tier {
        // It dies with the thread that starts it.
        Tier::Bwrap => (super::bwrap::start(&command, confined).map_err(io::Error::other)??, false),
        Tier::Off | Tier::Absent(_) | Tier::Landlock => std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("playhouse-start".to_owned());
            let thread = thread.spawn_scoped(scope, &mut on_a_thread)?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts processes panicked")))
        })?,
    };
    if let (Some(cage), false, Some(leader)) = (&cage, is_caged, child.id()) {
        cage.take(leader);
    }
    Ok(Started { child, tier, cage })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn start(mut command: Command, confined: &Confined) -> io::Result<Started> {
    let tier = tier(confined.sandbox.mode).map_err(io::Error::other)?;
    command.spawn().map(|child| Started { child, tier })
}
