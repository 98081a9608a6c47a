//! The tier of the kernel's own: Landlock for files and signals, seccomp for the rest.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::grants::Right;
use super::seccomp::{self, Asked};
use super::{Network, SandboxError};

/// What must be there: without it a file that may only be read could still be emptied.
const LEAST: ABI = ABI::V3;
/// The newest that was tried here.
const MOST: ABI = ABI::V9;

/// What root keeps: its rights over files, which the file rules bound.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Confines this thread and everything it starts, for good. Somebody else has to answer what they ask.
pub(super) fn confine(
    network: Network,
    grants: impl IntoIterator<Item = (PathBuf, Right)>,
) -> Result<Asked, SandboxError> {
    let failed = |error: RulesetError| SandboxError::Failed(error.to_string());
    let mut rules = ruleset(network).map_err(failed)?;
    for (path, right) in grants {
        rules = grant(rules, &path, right)?;
    }
    rules.restrict_self().map_err(failed)?;
    give_up_rights().map_err(|error| SandboxError::Failed(format!("rights of root could not be given up: {error}")))?;
    seccomp::apply(network)
}

/// Confines this thread once more, so that what it starts has fewer rights than the thread that started it: whoever has
/// the same may signal that one, and so end the house, and read its memory. Of files nothing more is taken away: every
/// layer keeps them from being moved to another folder unless it grants just that, and this one does everywhere.
pub(super) fn step_down() -> Result<(), SandboxError> {
    let rules = Ruleset::default().handle_access(AccessFs::Refer);
    let rules =
        rules.and_then(|rules| rules.set_compatibility(CompatLevel::BestEffort).scope(Scope::from_all(MOST))?.create());
    let rules = rules.map_err(|error| SandboxError::Failed(error.to_string()))?;
    let root = openat2(rustix::fs::CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty());
    let root = root.map_err(|error| SandboxError::Failed(format!("/: {error}")))?;
    let confined = rules.add_rule(PathBeneath::new(root, AccessFs::Refer)).and_then(RulesetCreated::restrict_self);
    confined.map(drop).map_err(|error| SandboxError::Failed(error.to_string()))
}

fn ruleset(network: Network) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(MOST))?
        .scope(Scope::from_all(MOST))?;
    match network {
        Network::Denied => rules.handle_access(AccessNet::from_all(MOST))?.create(),
        Network::Granted => rules.create(),
    }
}

/// Adds a rule. What is not there needs none.
fn grant(rules: RulesetCreated, path: &Path, right: Right) -> Result<RulesetCreated, SandboxError> {
    // The path is real: a link on the way was put there since.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = match openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(opened) => opened,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => return Ok(rules),
        Err(error) => return Err(SandboxError::Failed(format!("{}: {error}", path.display()))),
    };
    let rule = PathBeneath::new(opened, access(right));
    rules.add_rule(rule).map_err(|error| SandboxError::Failed(format!("{}: {error}", path.display())))
}

fn access(right: Right) -> BitFlags<AccessFs> {
    let read = AccessFs::from_read(MOST);
    match right {
        Right::List => AccessFs::ReadDir.into(),
        Right::Read => read,
        Right::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
        Right::Write => AccessFs::from_all(MOST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev),
    }
}

/// Gives up what root may do beyond its files. Whoever is not root has nothing to give up.
fn give_up_rights() -> rustix::io::Result<()> {
    let has = capabilities(None)?;
    let kept = CapabilitySets {
        effective: has.effective & KEPT,
        permitted: has.permitted & KEPT,
        inheritable: has.inheritable & KEPT,
    };
    if (kept.effective, kept.permitted, kept.inheritable) == (has.effective, has.permitted, has.inheritable) {
        return Ok(());
    }
    set_capabilities(None, kept)
}

/// Why this tier does not work here; otherwise what is known of it.
pub(super) fn version() -> Result<String, String> {
    use landlock::LandlockStatus::{Available, NotEnabled, NotImplemented};
    // The crate tells only someone who restricts itself.
    let tried = std::thread::spawn(|| {
        let rules = Ruleset::default().handle_access(AccessFs::Execute)?.create()?;
        Ok::<_, RulesetError>((rules.restrict_self()?.landlock, seccomp::apply(Network::Denied)))
    });
    let (landlock, asked) = match tried.join() {
        Ok(tried) => tried.map_err(|error| error.to_string())?,
        Err(_) => return Err("it could not be tried".to_owned()),
    };
    let version = match landlock {
        Available { effective_abi, kernel_abi } => kernel_abi.unwrap_or(effective_abi as i32),
        NotEnabled => return Err("Landlock is not enabled: add it to the kernel's `lsm=` parameter".to_owned()),
        NotImplemented => {
            return Err("the kernel has no Landlock (Linux 6.2 has, if it was built with it)".to_owned());
        }
    };
    let least = LEAST as i32;
    if version < least {
        return Err(format!("the kernel has version {version} of Landlock, version {least} is needed (Linux 6.2)"));
    }
    let unable = "commands cannot change modes, owners and times of files";
    match asked.map_err(|error| error.to_string())? {
        Asked::Nobody => Ok(format!("version {version}; another program supervises system calls here, so {unable}")),
        Asked::Listener(_) if !can_look_into_others() => {
            Ok(format!("version {version}; the kernel's `yama.ptrace_scope` is 2 or more, so {unable}"))
        }
        Asked::Listener(_) => Ok(format!("version {version}, with seccomp")),
    }
}

/// Whether the words of a system call can be read, which are in its caller's memory.
fn can_look_into_others() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_open = scope.trim().parse::<u32>().is_ok_and(|scope| scope < 2) || scope.is_empty();
    is_open || capabilities(None).is_ok_and(|has| has.effective.contains(CapabilitySet::SYS_PTRACE))
}
