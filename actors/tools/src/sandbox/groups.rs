//! The control groups of the kernel: where ours can be made, and whose each of them is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::LazyLock;

use crate::process::mark::{house_hash, nonce, plain};
use crate::process::proc_table::{self, Life, ProcessEntry};

/// What the names of our groups begin with.
const NAME: &str = "playhouse-";
/// How many groups of the machine are gone through for those that dead houses left.
const MOST_GROUPS: usize = 16_384;

/// Where groups can be made that count tasks: beneath the one that this process is in.
pub(super) static TASKS: LazyLock<Option<Base>> =
    LazyLock::new(|| Base::of("/sys/fs/cgroup/pids", "pids").or_else(|| Base::of("/sys/fs/cgroup", "")));

/// The same for memory, where that has a hierarchy of its own. In the one that has all, a group counts its tasks' memory too.
pub(super) static MEMORY: LazyLock<Option<Base>> = LazyLock::new(|| Base::of("/sys/fs/cgroup/memory", "memory"));

/// A hierarchy, and the group in it that this process is in.
#[derive(Debug)]
pub(super) struct Base {
    mounted: PathBuf,
    group: PathBuf,
}

impl Base {
    /// The hierarchy of a controller; of the one that has all, if none is named.
    fn of(mounted: &str, controller: &str) -> Option<Self> {
        let path = own_group(&fs::read_to_string("/proc/self/cgroup").ok()?, controller)?;
        let group = Path::new(mounted).join(path.trim_start_matches('/'));
        if !group.join("cgroup.procs").exists() {
            return None;
        }
        for (folder, owner) in owned_in(&group) {
            if owner.is_gone() {
                // One that still has somebody in it stays, until its house is said to be dead.
                let _ = fs::remove_dir(folder);
            }
        }
        Some(Self { mounted: mounted.into(), group })
    }

    /// Makes a group; `None` where the kernel allows none.
    pub(super) fn make(&self, name: &str) -> Option<PathBuf> {
        let folder = self.group.join(name);
        fs::create_dir(&folder).ok()?;
        Some(folder)
    }
}

/// The group of this process, as `/proc/self/cgroup` tells it.
fn own_group(groups: &str, controller: &str) -> Option<String> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
    })
}

/// Our groups right beneath another, with their owners.
fn owned_in(group: &Path) -> Vec<(PathBuf, Owner)> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), Owner::parse(entry.file_name().to_str()?)?))).collect()
}

/// A name for a group of a house's, of this process.
pub(super) fn new_name(house: &str) -> String {
    let Owner { house, namespace, pid, start } = Owner { house: house_hash(&plain(house)), ..*ME };
    format!("{NAME}{house:08x}-{namespace}-{pid}-{start}-{:016x}", nonce())
}

/// Every process in a group but this one, which is in it by the thread that starts processes.
pub(super) fn members(group: &Path) -> Vec<ProcessEntry> {
    let list = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let found = list.lines().filter_map(|line| proc_table::find(line.trim().parse().ok()?));
    // An id may be another's by now.
    found.filter(|seen| seen.pid != ME.pid && has(group, seen.pid)).collect()
}

fn has(group: &Path, pid: i32) -> bool {
    let name = group.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups.lines().any(|line| line.rsplit_once('/').is_some_and(|(_, last)| last == name))
}

/// The groups of houses whose processes are gone, or are this one, which ends.
#[derive(Debug)]
pub(crate) struct LeftGroups(Vec<(PathBuf, Owner)>);

impl LeftGroups {
    /// Looks for them all over the machine: a house may have been started in another group than this one was.
    pub(crate) fn of(houses: &[&str]) -> Self {
        let hashes: Vec<u64> = houses.iter().map(|house| house_hash(&plain(house))).collect();
        let is_left = |owner: &Owner| {
            hashes.contains(&owner.house) && (owner.is_gone() || (owner.pid, owner.start) == ME.process())
        };
        let mut left = Vec::new();
        for base in [TASKS.as_ref(), MEMORY.as_ref()].into_iter().flatten() {
            let mut folders = Vec::from([base.mounted.clone()]);
            let mut next = 0;
            while let Some(folder) = folders.get(next).cloned().filter(|_| next < MOST_GROUPS) {
                next += 1;
                left.extend(owned_in(&folder).into_iter().filter(|(_, owner)| is_left(owner)));
                let beneath = fs::read_dir(&folder).into_iter().flatten().flatten();
                let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
                folders.extend(beneath.filter(is_folder).map(|entry| entry.path()));
            }
        }
        Self(left)
    }

    /// What is in them.
    pub(crate) fn members(&self) -> Vec<ProcessEntry> {
        self.0.iter().flat_map(|(folder, _)| members(folder)).collect()
    }

    /// Removes those that are empty by now.
    pub(crate) fn remove(self) {
        for (folder, owner) in self.0 {
            if owner.is_gone() {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// Who made a group. An id alone may be another's by now, and means nothing in another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    house: u64,
    /// The namespace of process ids.
    namespace: u64,
    pid: i32,
    start: u64,
}

static ME: LazyLock<Owner> = LazyLock::new(|| {
    let pid = i32::try_from(process::id()).unwrap_or_default();
    // `pid:[4026531836]`
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>();
    let start = proc_table::find(pid).map(|seen| seen.start).unwrap_or_default();
    Owner { house: 0, namespace: namespace.parse().unwrap_or_default(), pid, start }
});

impl Owner {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(NAME)?.split('-');
        let house = u64::from_str_radix(parts.next()?, 16).ok()?;
        let (namespace, pid, start) =
            (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        // The rest tells it from others of the same.
        parts.next()?;
        Some(Self { house, namespace, pid, start })
    }

    fn process(&self) -> (i32, u64) {
        (self.pid, self.start)
    }

    /// Whether the process is gone for certain.
    fn is_gone(&self) -> bool {
        let is_it = |seen: ProcessEntry| seen.start == self.start && seen.life == Life::Alive;
        self.namespace == ME.namespace && !proc_table::find(self.pid).is_some_and(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_tells_whose_it_is() {
        let mine = Owner::parse(&new_name("h 1")).unwrap();
        assert_eq!(mine, Owner { house: house_hash("h_1"), ..*ME });
        assert!(!mine.is_gone());
        for name in ["playhouse-", "playhouse-12-0123456789abcdef", "other-1-2-3-4-5", "playhouse-x-2-3-4-5"] {
            assert_eq!(Owner::parse(name), None, "{name}");
        }
    }

    #[test]
    fn one_that_got_the_id_of_another_is_not_taken_for_it() {
        let me = *ME;
        assert!(Owner { start: me.start - 1, ..me }.is_gone());
        // Who is called that elsewhere is not known here.
        assert!(!Owner { start: me.start - 1, namespace: me.namespace + 1, ..me }.is_gone());
    }

    #[test]
    fn the_group_of_a_controller_is_found() {
        let groups = "9:name=systemd:/a\n8:cpu,pids:/b\n4:memory:/c/d\n0::/e\n";
        let of = |controller| own_group(groups, controller);
        assert_eq!((of("pids"), of("memory"), of("")), (Some("/b".into()), Some("/c/d".into()), Some("/e".into())));
        assert_eq!(of("systemd"), None);
    }
}
