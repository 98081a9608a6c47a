//! What this machine can do, asked once.

use std::sync::OnceLock;

/// Something that works here, with what is known of it; or why it doesn't, and what to do.
pub type Ability = Result<String, String>;

/// What this machine can do to keep processes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Whether the kernel can keep a process to some files and system calls.
    pub landlock: Ability,
    /// Whether bubblewrap can give a process a file system and a network of its own.
    pub bwrap: Ability,
    /// A cap of the kernel's on the tasks of a call, in any tier.
    pub cage: Ability,
}

/// What this machine can do. Starts a process the first time: not for a handler.
pub fn abilities() -> Abilities {
    Abilities { landlock: landlock().clone(), bwrap: bwrap().clone(), cage: cage() }
}

#[cfg(target_os = "linux")]
fn cage() -> Ability {
    if let Some(cage) = super::cage::tried() {
        let memory = if cage.counts_memory() { "that counts its memory too" } else { "that does not count its memory" };
        return Ok(format!("a control group with pids.max for each call, {memory}"));
    }
    let why = "no control group with the pids controller can be made here";
    Err(format!("{why}: run as root or in a delegated group; until then processes are counted, which is slower"))
}

#[cfg(not(target_os = "linux"))]
fn cage() -> Ability {
    elsewhere().clone()
}

#[cfg(target_os = "linux")]
pub(super) fn landlock() -> &'static Ability {
    static ABILITY: OnceLock<Ability> = OnceLock::new();
    ABILITY.get_or_init(super::landlock::version)
}

#[cfg(target_os = "linux")]
pub(super) fn bwrap() -> &'static Ability {
    static ABILITY: OnceLock<Ability> = OnceLock::new();
    ABILITY.get_or_init(super::bwrap::version)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn landlock() -> &'static Ability {
    elsewhere()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn bwrap() -> &'static Ability {
    elsewhere()
}

#[cfg(not(target_os = "linux"))]
fn elsewhere() -> &'static Ability {
    static ABILITY: OnceLock<Ability> = OnceLock::new();
    ABILITY.get_or_init(|| Err("there are sandboxes on Linux only".to_owned()))
}
