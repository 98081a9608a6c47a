//! The machine's processes, read from `/proc`. Elsewhere than on Linux the table is empty and process groups must do.

#[cfg(target_os = "linux")]
pub(crate) use linux::{each_descendant, environ, find, kill_exact, lock_limit, since, survey};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{environ, find, kill_exact, lock_limit, since, survey};

/// A process as seen at one moment. Its id and its start together name it for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// In clock ticks since the machine started.
    pub(crate) start: u64,
    pub(crate) life: Life,
}

/// Whether a process still does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    /// Over, and waiting for its parent to take notice.
    Zombie,
}

/// What came of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    /// The signal is on its way.
    Sent,
    /// There is no such process any more.
    Gone,
    /// The kernel refused: it belongs to another user.
    Refused,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{self, File};
    use std::io::Read;
    use std::sync::LazyLock;

    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

    use super::{Killed, Life, ProcessEntry};

    /// No environment that matters is longer.
    const MAX_ENVIRON: u64 = 1 << 20;

    /// How many descendants of a process are looked for.
    const MAX_DESCENDANTS: usize = 256;

    /// How many processes that began during a survey are looked at before it is left for the next one.
    const MAX_CHASE: u32 = 8_192;

    /// Shows every process that is alive at the end, and some that are not.
    ///
    /// A list of processes is old when it is read: one that forks and ends faster than it is looked at would never be
    /// seen. But ids are given out in order, so after the list come all that began since, until there are no more.
    pub(crate) fn survey(mut visit: impl FnMut(ProcessEntry)) {
        let mut before = newest();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            find(pid).into_iter().for_each(&mut visit);
        }
        let mut looked = 0;
        while let (Some(from), Some(to)) = (before, newest())
            && from != to
            && looked < MAX_CHASE
        {
            let mut pid = from;
            while pid != to && looked < MAX_CHASE {
                pid = if pid >= id_limit() { 1 } else { pid + 1 };
                looked += 1;
                find(pid).into_iter().for_each(&mut visit);
            }
            before = Some(to);
        }
    }

    /// Shows those whose ids were given out after this one, the last of them if they are many, and tells which was the
    /// last.
    pub(crate) fn since(before: Option<i32>, mut visit: impl FnMut(ProcessEntry)) -> Option<i32> {
        let last = newest();
        if let (Some(from), Some(to)) = (before, last)
            && from < to
        {
            let first = (from + 1).max(to.saturating_sub(i32::try_from(MAX_CHASE).unwrap_or(i32::MAX)));
            (first..=to).filter_map(find).for_each(&mut visit);
        }
        last
    }

    /// The id that was given out last.
    fn newest() -> Option<i32> {
        fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
    }

    /// Where ids begin again.
    fn id_limit() -> i32 {
        static LIMIT: LazyLock<i32> = LazyLock::new(|| {
            let limit = fs::read_to_string("/proc/sys/kernel/pid_max").ok();
            limit.and_then(|limit| limit.trim().parse().ok()).unwrap_or(1 << 22)
        });
        *LIMIT
    }

    pub(crate) fn find(pid: i32) -> Option<ProcessEntry> {
        parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `pid (name) state ppid pgrp …`; the name may hold anything, parentheses too.
    pub(super) fn parse(pid: i32, stat: &[u8]) -> Option<ProcessEntry> {
        let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let text = std::str::from_utf8(stat.get(after..)?).ok()?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<i64>().ok());
        let threads = number(17)?;
        let life = match *fields.first()? {
            // A process whose first thread has ended lives on in the others.
            "Z" | "X" | "x" if threads <= 1 => Life::Zombie,
            _ => Life::Alive,
        };
        Some(ProcessEntry {
            pid,
            parent: i32::try_from(number(1)?).ok()?,
            group: i32::try_from(number(2)?).ok()?,
            start: fields.get(19)?.parse().ok()?,
            life,
        })
    }

    /// Shows what a process has started, and what that has, each before its own are looked for: what is done to one
    /// holds for all that it starts later. What is gone meanwhile is not missed.
    pub(crate) fn each_descendant(ancestor: u32, mut visit: impl FnMut(u32)) {
        let mut known = Vec::from([ancestor]);
        let mut next = 0;
        while let Some(process) = known.get(next).copied() {
            next += 1;
            if process != ancestor {
                visit(process);
            }
            let more = MAX_DESCENDANTS.saturating_sub(known.len());
            known.extend(children_of(process).into_iter().filter(|child| *child != ancestor).take(more));
        }
    }

    /// What each thread of a process has started and still has.
    fn children_of(process: u32) -> Vec<u32> {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
        lists
            .flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>())
            .collect()
    }

    /// The soft limit on file locks, if there is one.
    pub(crate) fn lock_limit(pid: i32) -> Option<u64> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits.lines().find(|line| line.starts_with("Max file locks"))?;
        line.split_ascii_whitespace().nth(3)?.parse().ok()
    }

    /// The value of a variable that the process was started with.
    pub(crate) fn environ(pid: i32, variable: &str) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(format!("/proc/{pid}/environ")).ok()?.take(MAX_ENVIRON).read_to_end(&mut bytes).ok()?;
        bytes.split(|byte| *byte == 0).find_map(|pair| {
            let value = pair.strip_prefix(variable.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        })
    }

    /// Kills this very process and never one that got its id since: the handle is taken first, then checked.
    pub(crate) fn kill_exact(seen: &ProcessEntry) -> Killed {
        let Some(pid) = Pid::from_raw(seen.pid) else { return Killed::Gone };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Some(handle),
            Err(Errno::SRCH) => return Killed::Gone,
            // No such call here, or no descriptors left: the check below must do.
            Err(_) => None,
        };
        if find(seen.pid).is_none_or(|now| now.start != seen.start) {
            return Killed::Gone;
        }
        let sent = match handle {
            Some(handle) => pidfd_send_signal(handle, Signal::KILL),
            None => kill_process(pid, Signal::KILL),
        };
        match sent {
            Ok(()) => Killed::Sent,
            Err(Errno::PERM) => Killed::Refused,
            Err(_) => Killed::Gone,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use super::{Killed, ProcessEntry};

    pub(crate) fn survey(_visit: impl FnMut(ProcessEntry)) {}

    pub(crate) fn since(_before: Option<i32>, _visit: impl FnMut(ProcessEntry)) -> Option<i32> {
        None
    }

    pub(crate) fn find(_pid: i32) -> Option<ProcessEntry> {
        None
    }

    pub(crate) fn lock_limit(_pid: i32) -> Option<u64> {
        None
    }

    pub(crate) fn environ(_pid: i32, _variable: &str) -> Option<String> {
        None
    }

    pub(crate) fn kill_exact(_seen: &ProcessEntry) -> Killed {
        Killed::Gone
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"7 (a) Z 1 (b) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 999 0 0";
        let expected = ProcessEntry { pid: 7, parent: 3, group: 4, start: 999, life: Life::Alive };
        assert_eq!(linux::parse(7, line), Some(expected));
        assert_eq!(linux::parse(7, b"7 (a"), None);
        assert_eq!(linux::parse(7, b"\xff\xfe"), None);
    }

    #[test]
    fn this_process_finds_itself() {
        let me = i32::try_from(std::process::id()).unwrap();
        let seen = find(me).unwrap();
        assert_eq!((seen.pid, seen.life), (me, Life::Alive));
        let mut found = false;
        survey(|other| found |= other.pid == me && other.start == seen.start);
        assert!(found);
        assert_eq!(environ(me, "PATH"), std::env::var("PATH").ok());
    }

    #[test]
    fn f14_a_process_that_begins_during_a_survey_is_seen_in_it() {
        let mut born: Option<std::process::Child> = None;
        let mut seen = Vec::new();
        survey(|process| {
            seen.push(process.pid);
            born.get_or_insert_with(|| std::process::Command::new("sleep").arg("1000").spawn().unwrap());
        });
        let mut born = born.unwrap();
        born.kill().unwrap();
        born.wait().unwrap();
        assert!(seen.contains(&i32::try_from(born.id()).unwrap()));
    }

    #[test]
    fn a_process_that_took_over_an_id_is_not_killed() {
        let me = find(i32::try_from(std::process::id()).unwrap()).unwrap();
        let before = ProcessEntry { start: me.start - 1, ..me };
        assert_eq!(kill_exact(&before), Killed::Gone);
    }
}
