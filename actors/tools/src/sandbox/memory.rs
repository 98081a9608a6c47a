//! How much memory a call has: what its processes have mapped, and what none of them has.
//!
//! A control group counts all of it, wherever it is: files without a name, segments that nobody has attached, files of a
//! file system in memory. Where there is none, the processes' own numbers are summed up, and those of the files without a
//! name that they have open.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::groups;
use crate::process::proc_table::ProcessEntry;

/// How many descriptors of a call's processes are looked at.
const MOST_DESCRIPTORS: usize = 65_536;

/// What counts the memory of a group of processes.
#[derive(Debug)]
pub(super) enum MemoryGroup {
    /// A group of its own kind.
    Own(PathBuf),
    /// The one that holds the tasks counts their memory too.
    WithTasks(PathBuf),
}

impl MemoryGroup {
    /// One for what is in a group of tasks; `None` where the kernel gives none.
    pub(super) fn beside(tasks: &Path, name: &str) -> Option<Self> {
        if tasks.join("memory.stat").exists() {
            return Some(Self::WithTasks(tasks.to_owned()));
        }
        groups::MEMORY.as_ref()?.make(name).map(Self::Own)
    }

    /// Whatever has to be entered and removed beside the group of tasks.
    pub(super) fn own_folder(&self) -> Option<&Path> {
        match self {
            Self::Own(folder) => Some(folder),
            Self::WithTasks(_) => None,
        }
    }

    /// Whether there are more bytes of it than these, anonymous and shared ones; what is kept of a disk's files is not the call's.
    pub(super) fn exceeds(&self, most: u64) -> bool {
        let (Self::Own(folder) | Self::WithTasks(folder)) = self;
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        // All of it, at little cost. The kernel's older and newer names.
        let all = read("memory.usage_in_bytes").or_else(|| read("memory.current"));
        let is_possible = all.and_then(|all| all.trim().parse::<u64>().ok()).is_none_or(|all| all > most);
        is_possible && read("memory.stat").is_some_and(|stat| counted(&stat) > most)
    }
}

/// The anonymous and the shared memory in `memory.stat`, older and newer.
fn counted(stat: &str) -> u64 {
    let number = |name: &str| field(stat, name);
    let anonymous = number("total_rss ").or_else(|| number("anon ")).unwrap_or(0);
    anonymous + number("total_shmem ").or_else(|| number("shmem ")).unwrap_or(0)
}

/// Whether these processes have more than so many bytes; `mapped` is what they have mapped, each its own.
pub(super) fn exceeds(members: &[ProcessEntry], mapped: u64, most: u64) -> bool {
    // Whatever they share or have open and unmapped is part of what the machine has of that.
    let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let shared = 1_024 * field(&machine, "Shmem:").unwrap_or(0);
    if mapped.saturating_add(shared) <= most {
        return false;
    }
    let open = open_memory(members);
    let of_open: u64 = open.values().sum();
    if mapped.saturating_add(of_open) <= most {
        return false;
    }
    // What processes share was counted for each of them, and what is open and mapped twice: the exact sum matters now.
    let inodes: HashSet<u64> = open.into_keys().collect();
    let is_open = |seen: &ProcessEntry| mapped_of(seen, &inodes);
    let twice: u64 = if inodes.is_empty() { 0 } else { members.iter().map(is_open).sum() };
    (shared_out(members).unwrap_or(mapped) + of_open).saturating_sub(twice) > most
}

/// The bytes of the files without a name that the processes have open, by their inodes.
fn open_memory(members: &[ProcessEntry]) -> HashMap<u64, u64> {
    let folders = members.iter().filter_map(|seen| fs::read_dir(format!("/proc/{}/fd", seen.pid)).ok());
    let mut open = HashMap::new();
    for descriptor in folders.flatten().flatten().take(MOST_DESCRIPTORS) {
        let path = descriptor.path();
        let is_memory = fs::read_link(&path).is_ok_and(|to| to.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
        if let Some(file) = is_memory.then(|| fs::metadata(&path).ok()).flatten() {
            open.insert(file.ino(), 512 * file.blocks());
        }
    }
    open
}

/// What a process has mapped of these files without a name, its share of what others have mapped too.
fn mapped_of(seen: &ProcessEntry, inodes: &HashSet<u64>) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/smaps", seen.pid)).unwrap_or_default();
    let (mut total, mut share, mut is_its) = (0, 0_u64, false);
    for line in maps.lines() {
        // `7f…-7f… rw-s 00000000 00:01 1027 /memfd:x (deleted)` begins a mapping; `Pss: 4 kB` is what is in it, and
        // `Anonymous: 0 kB`, further down, how much of that is the process's own copy.
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Pss:"), Some(kibibytes)) => share = kibibytes.parse().unwrap_or(0),
            (Some("Anonymous:"), Some(copied)) if is_its => {
                total += 1_024 * share.saturating_sub(copied.parse().unwrap_or(0));
            }
            (Some(range), _) if !range.ends_with(':') => {
                let inode = words.nth(2).and_then(|inode| inode.parse().ok());
                is_its = words.next().is_some_and(|name| name.starts_with("/memfd:"))
                    && inode.is_some_and(|inode| inodes.contains(&inode));
            }
            _ => {}
        }
    }
    total
}

/// What the processes have mapped, each page counted once; `None` if one of them does not let itself be looked into.
fn shared_out(members: &[ProcessEntry]) -> Option<u64> {
    let of = |seen: &ProcessEntry| match fs::read_to_string(format!("/proc/{}/smaps_rollup", seen.pid)) {
        Ok(rollup) => {
            Some(1_024 * (field(&rollup, "Pss_Anon:").unwrap_or(0) + field(&rollup, "Pss_Shmem:").unwrap_or(0)))
        }
        // One that is ending, or gone by now, has no memory any more.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Some(0),
        Err(_) => None,
    };
    members.iter().map(of).sum()
}

/// The number behind a name at the beginning of a line.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_their_names() {
        let text = "Name:\tx\nRssAnon:\t     104 kB\nThreads:\t7\n";
        assert_eq!((field(text, "RssAnon:"), field(text, "Threads:"), field(text, "Pss:")), (Some(104), Some(7), None));
    }

    #[test]
    fn a_group_counts_what_is_anonymous_and_what_is_shared_in_either_kind() {
        let older = "cache 900\nrss 1\nshmem 2\ntotal_cache 900\ntotal_rss 30\ntotal_rss_huge 7\ntotal_shmem 40\n";
        let newer = "anon 30\nfile 900\nshmem 40\nanon_thp 5\nshmem_thp 5\n";
        assert_eq!((counted(older), counted(newer), counted("")), (70, 70, 0));
    }
}
