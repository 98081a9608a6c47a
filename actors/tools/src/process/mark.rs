//! How a tool's processes are told from all others, wherever they run to.
//!
//! Three marks, each surviving what the others don't:
//!
//! - the process group, until a process leaves it (`setsid`, job control);
//! - two environment variables, until a process clears its environment (`env -i`);
//! - the soft limit on file locks, a number that Linux has ignored since 2.4 but still hands down through every fork
//!   and exec. Only a process that sets that very limit sheds it.
//!
//! A house inside a tool of another house adds its names to those it was started under, so the outer one still finds
//! everything.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::hash::BuildHasher;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use playhouse_protocol::ToolError;
use tokio::process::Command;

use crate::process::Processes;
use crate::process::sweeps::Sweeps;
use crate::runtime::{SCOPE, Scope, ToolRuntime};
use crate::sandbox::refusals::Refusals;
use crate::sandbox::{Confined, ProcessLimits, passed};

/// The variable that names the house a process belongs to.
pub const HOUSE_VAR: &str = "PLAYHOUSE_HOUSE";
/// The variable that names the run a process belongs to.
pub const RUN_VAR: &str = "PLAYHOUSE_RUN";

/// Marks a limit as ours: no one else sets it to numbers like this.
const TAG_BIT: u64 = 1 << 62;
const TAG_HOUSE: u64 = (1 << 30) - 1;

/// Parts of variable names that speak of secrets.
const SECRET_PARTS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// The marks of one run's processes.
#[derive(Clone, Debug)]
pub struct Mark {
    pub(crate) run: String,
    pub(crate) tag: u64,
    /// The searches of the call that the processes belong to, if they belong to one.
    pub(crate) sweeps: Option<Sweeps>,
    /// What the processes are kept in.
    pub(crate) confined: Option<Arc<Confined>>,
    /// What the sandbox has refused them, as far as that is known for certain.
    pub(crate) refusals: Refusals,
    /// What ends the processes when the run is over.
    pub(crate) processes: Processes,
    house: String,
}

impl Mark {
    /// A new mark, for the house whose tool is running here.
    pub(crate) fn here() -> Result<Self, ToolError> {
        let confined = Some(Scope::confined()?);
        let sweeps = SCOPE.try_with(|scope| scope.sweeps.clone()).ok();
        Ok(Self { sweeps, confined, ..ToolRuntime::here().mark() })
    }

    pub(crate) fn new(house: &str, processes: Processes) -> Self {
        let house = plain(house);
        let nonce = nonce();
        let tag = TAG_BIT | (house_hash(&house) << 32) | (nonce >> 32);
        let run = format!("{nonce:016x}-{}", process::id());
        Self { run, tag, sweeps: None, confined: None, refusals: Refusals::default(), processes, house }
    }

    /// The number that is to be the soft limit on file locks.
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// The limits that bind each process by itself, as the shell's `ulimit` takes them.
    pub(crate) fn limits(&self) -> String {
        let limits = self.confined.as_ref().map(|confined| confined.sandbox.rules.limits);
        limits.map_or_else(|| "-c 0".to_owned(), ProcessLimits::for_shell)
    }

    /// Puts the marks on a command, and gives it the variables that may pass beside those it has itself.
    pub(crate) fn put_on(&self, command: &mut Command) {
        let given = |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_owned(), value?.to_owned()));
        let own: Vec<(OsString, OsString)> = command.as_std().get_envs().filter_map(given).collect();
        let confined = self.confined.as_deref();
        let named = confined.map(|confined| confined.sandbox.rules.environment.as_slice()).unwrap_or_default();
        command.env_clear().envs(passed(named)).envs(own);
        if let Some(temp) = confined.and_then(Confined::temp) {
            command.env("TMPDIR", temp);
        }
        command.env(HOUSE_VAR, within(HOUSE_VAR, &self.house)).env(RUN_VAR, within(RUN_VAR, &self.run));
    }
}

/// Whether a variable's name says that its value is not for tools.
///
/// Refused are names that contain `KEY`, `TOKEN`, `SECRET`, `PASSWORD` or `CREDENTIAL`, in any case.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// Whether a tag is that of a house.
pub(crate) fn is_tag_of(tag: u64, house: &str) -> bool {
    tag & !(u64::from(u32::MAX)) == TAG_BIT | (house_hash(&plain(house)) << 32)
}

/// Whether a variable's value names this house or run, at any depth.
pub(crate) fn names(value: &str, name: &str) -> bool {
    let name = plain(name);
    value.split('/').any(|part| part == name)
}

fn within(variable: &str, name: &str) -> String {
    match std::env::var(variable) {
        // The bound is for houses within houses without end.
        Ok(outer) if !outer.is_empty() && outer.len() < 4_096 => format!("{outer}/{name}"),
        _ => name.to_owned(),
    }
}

pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}

/// FNV-1a, because it must be the same in every build: a later house looks for an earlier one's tags.
pub(crate) fn house_hash(house: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in house.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 30)) & TAG_HOUSE
}

/// A number no other run has, in this process or another.
pub(crate) fn nonce() -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    SEED.hash_one((process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_its_own_mark_and_shows_its_house() {
        let (a, b) = (Mark::new("h1", Processes::default()), Mark::new("h1", Processes::default()));
        assert!(a.run != b.run && a.tag != b.tag);
        assert!(is_tag_of(a.tag, "h1") && is_tag_of(b.tag, "h1") && !is_tag_of(a.tag, "h2"));
        assert!(!is_tag_of(u64::MAX, "h1") && !is_tag_of(1_024, "h1"));
    }

    #[test]
    fn names_are_found_at_any_depth_and_only_whole() {
        assert!(names("outer/inner", "outer") && names("outer/inner", "inner") && names("a_b", "a b"));
        assert!(!names("outer/inner", "inn"));
    }

    #[test]
    fn f48_names_of_secrets_are_known() {
        for name in ["OPENAI_API_KEY", "github_token", "MY_SECRET_1", "PGPASSWORD", "GOOGLE_APPLICATION_CREDENTIALS"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "LANG", "CARGO_TARGET_DIR"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
