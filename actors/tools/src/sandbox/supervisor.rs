//! Answers the system calls that Landlock has no rule for and a filter cannot judge.
//!
//! Landlock bounds what is opened, made, moved and removed. The mode, owner, times and attributes of a file can be
//! changed without any of that: `chmod ~/.ssh` would go through. So these calls are handed over. The supervisor opens
//! the file that the call means, looks where it lies, and changes it itself, by the descriptor it looked at: whatever
//! happens to names and to the caller's memory meanwhile, only what may be written is changed. One difference is left: a
//! signal that comes before the call was heard, in a program whose handlers do not have calls made again, gives `EINTR`.
//!
//! Also handed over are the priorities of processes, which are the caller's own alone; the limit that is a call's mark
//! (see `process/mark.rs`), which stays; and sockets where there is no network, so that it is known why a command failed.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use playhouse_protocol::lock;
use playhouse_seccomp::{Answer, Call, Listener};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::caller::Caller;
use super::metadata::{self, Change};
use super::refusals::{Refusal, Refusals};
use crate::process::mark::Mark;

/// What is always asked about.
pub(super) const ASKED: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    metadata::FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
];

/// How long the start of a process takes at most, on a machine that has far too much to do.
const LONGEST_START: Duration = Duration::from_secs(30);

// Newer calls have the same numbers everywhere. What is so new that no program relies on it is said not to exist.
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

/// The call of a tool that a starter's processes belong to now.
#[derive(Debug, Default)]
pub(super) struct Current {
    owner: Mutex<Owner>,
    has_started: Condvar,
}

#[derive(Debug, Default)]
struct Owner {
    tag: u64,
    refusals: Refusals,
    start: Start,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Start {
    /// The thread that starts its process may still be there, and has the same rights.
    #[default]
    UnderWay,
    Done,
}

impl Current {
    /// What is started from now on bears this mark.
    pub(super) fn begin(&self, mark: &Mark) {
        *lock(&self.owner) = Owner { tag: mark.tag(), refusals: mark.refusals.clone(), start: Start::UnderWay };
    }

    /// The thread that started it is gone.
    pub(super) fn started(&self) {
        lock(&self.owner).start = Start::Done;
        self.has_started.notify_all();
    }

    /// The mark, as soon as the process has been started. `None` if that takes far too long.
    fn tag_when_started(&self) -> Option<u64> {
        let waited =
            self.has_started.wait_timeout_while(lock(&self.owner), LONGEST_START, |owner| owner.start != Start::Done);
        let (owner, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then_some(owner.tag)
    }

    fn refuse(&self, refusal: Refusal) -> Errno {
        lock(&self.owner).refusals.note(refusal);
        Errno::PERM
    }
}

/// Answers for as long as there is someone to ask.
pub(super) fn serve(listener: &Listener, writable: &[PathBuf], current: &Current) {
    loop {
        let answered = match listener.next() {
            Ok(Some(call)) => listener.answer(&call, answer(&call, listener, writable, current)),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = answered {
            tracing::warn!("system calls of a tool are refused from here on: {error}");
            return;
        }
    }
}

fn answer(call: &Call, listener: &Listener, writable: &[PathBuf], current: &Current) -> Answer {
    let done = match Change::of(call) {
        Some(change) => change_file(&change, call, listener, writable, current),
        None => others(call, listener, current),
    };
    done.unwrap_or_else(|error| Answer::Failed(error.raw_os_error()))
}

fn change_file(
    change: &Change,
    call: &Call,
    listener: &Listener,
    writable: &[PathBuf],
    current: &Current,
) -> Result<Answer, Errno> {
    let caller = Caller::new(call)?;
    let file = caller.open(change.object())?;
    let deed = change.read(&caller)?;
    let place = file.place()?;
    // Its id may have been given to another process while all that was read.
    if !listener.is_waiting(call) {
        return Err(Errno::SRCH);
    }
    if !may_change(&place, writable) {
        return Err(current.refuse(Refusal::Change(place)));
    }
    deed.carry_out(&file)?;
    Ok(Answer::Done(0))
}

/// Whether a file may be changed: one beneath what may be written, or one that has no place.
fn may_change(place: &Path, writable: &[PathBuf]) -> bool {
    const NOWHERE: [&[u8]; 4] = [b"/memfd:", b"pipe:[", b"socket:[", b"anon_inode:"];
    let bytes = place.as_os_str().as_encoded_bytes();
    writable.iter().any(|granted| place.starts_with(granted)) || NOWHERE.iter().any(|kind| bytes.starts_with(kind))
}

fn others(call: &Call, listener: &Listener, current: &Current) -> Result<Answer, Errno> {
    let [first, second, ..] = call.arguments;
    match call.number {
        // Not `u64::from`: the constant is unsigned in glibc and signed in musl.
        libc::SYS_setpriority if first == libc::PRIO_PROCESS as u64 => of_its_own(call, second),
        // 1 means a process here.
        libc::SYS_ioprio_set if first == 1 => of_its_own(call, second),
        libc::SYS_sched_setaffinity
        | libc::SYS_sched_setparam
        | libc::SYS_sched_setscheduler
        | libc::SYS_sched_setattr => of_its_own(call, first),
        libc::SYS_prlimit64 => mark(call, call.arguments[2], listener, current),
        libc::SYS_setrlimit => mark(call, second, listener, current),
        // Local ones are tried by the C library, which does well without.
        libc::SYS_socket if [libc::AF_INET, libc::AF_INET6].contains(&(first as i32)) => {
            Err(current.refuse(Refusal::Network))
        }
        SETXATTRAT | REMOVEXATTRAT | FILE_SETATTR => Err(Errno::NOSYS),
        _ => Err(Errno::PERM),
    }
}

/// Lets a call through that concerns a thread, if that is one of the caller's own process.
fn of_its_own(call: &Call, thread: u64) -> Result<Answer, Errno> {
    let is_own = || Path::new(&format!("/proc/{}/task/{}", call.thread, thread & 0xffff_ffff)).exists();
    if thread & 0xffff_ffff == 0 || is_own() { Ok(Answer::GoOn) } else { Err(Errno::PERM) }
}

/// Sets the limit that is the mark, if it is to be the mark: whoever sheds it would not be found again.
fn mark(call: &Call, limits: u64, listener: &Listener, current: &Current) -> Result<Answer, Errno> {
    let caller = Caller::new(call)?;
    let number = |at| Ok::<_, Errno>(u64::from_ne_bytes(caller.bytes(at)?));
    let wanted = (number(limits)?, number(limits.checked_add(8).ok_or(Errno::FAULT)?)?);
    let process = i32::try_from(call.thread).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    if !listener.is_waiting(call) {
        return Err(Errno::SRCH);
    }
    // A command sets its mark before anything else: until this is answered, it cannot look for who started it.
    let tag = current.tag_when_started().ok_or(Errno::AGAIN)?;
    let maximum = getrlimit(Resource::Locks).maximum;
    if wanted != (tag, maximum.unwrap_or(libc::RLIM_INFINITY)) {
        return Err(Errno::PERM);
    }
    prlimit(Some(process), Resource::Locks, Rlimit { current: Some(tag), maximum })?;
    Ok(Answer::Done(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_beneath_a_granted_folder_is_changed() {
        let writable = [PathBuf::from("/work/a"), PathBuf::from("/tmp/run")];
        for place in ["/work/a", "/work/a/b/c", "/tmp/run/#12 (deleted)", "/memfd:x (deleted)", "pipe:[7]"] {
            assert!(may_change(Path::new(place), &writable), "{place}");
        }
        for place in ["/", "/work", "/work/ab", "/work/a (deleted)", "/home/.ssh", "(unreachable)/work/a", "a"] {
            assert!(!may_change(Path::new(place), &writable), "{place}");
        }
    }
}
