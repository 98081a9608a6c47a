//! Listens to the system calls of a thread and of everything it starts.
//!
//! A filter of the kernel's can hand a call over instead of letting it through or refusing it: the caller waits until
//! the listener has answered. The listener may carry the call out itself, on what it looked at, so that nothing can be
//! changed between the look and the deed.
//!
//! This crate is only the kernel's interface, which has no safe form, so that there is no unsafe code anywhere else. What
//! is asked and what is answered is decided by `playhouse-tools`.
#![cfg(target_os = "linux")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use seccompiler::sock_filter;

/// Puts a filter on this thread, for good, and on everything it starts from now on. What the filter hands over
/// (`SECCOMP_RET_USER_NOTIF`) comes to the listener, which another thread has to serve: when it is dropped, calls that
/// are handed over fail with `ENOSYS`.
///
/// The thread gets no new rights from then on, and neither does what it starts. There can be one listener only: where
/// the thread is under one already, this fails with `EBUSY`.
pub fn listen(filter: &[sock_filter]) -> io::Result<Listener> {
    let length = u16::try_from(filter.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    rustix::thread::set_no_new_privs(true)?;
    // The same two types: `seccompiler` has the one of the kernel's by its own name.
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut().cast() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the kernel reads `len` instructions behind `filter`, which live until it returns, and writes nothing.
    // `sock_filter` is `repr(C)` with the kernel's fields.
    let made =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(&program)) };
    let made = i32::try_from(made).ok().filter(|made| *made >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(made) }))
}

/// To whom calls are handed over.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    id: u64,
    /// The thread that calls.
    pub thread: u32,
    /// The number of the call.
    pub number: i64,
    /// What it was called with: numbers, or addresses in the caller's memory.
    pub arguments: [u64; 6],
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done: the caller gets this value, and the kernel does nothing.
    Done(i64),
    /// The caller gets this error number.
    Failed(i32),
    /// The kernel carries it out as it stands. What its addresses lead to may have been changed since it was looked at.
    GoOn,
}

impl Listener {
    /// The next call; `None` when nobody is left who could make one.
    pub fn next(&self) -> io::Result<Option<Call>> {
        loop {
            let mut waits = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut waits, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [waits] = &waits;
            if !waits.revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            match self.receive() {
                Ok(call) => return Ok(Some(call)),
                // The caller was killed before it was heard.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR | libc::EAGAIN)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn receive(&self) -> io::Result<Call> {
        let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
        // The kernel wants it to be all zeros.
        let mut heard = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
        self.request(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut heard)?;
        Ok(Call { id: heard.id, thread: heard.pid, number: i64::from(heard.data.nr), arguments: heard.data.args })
    }

    /// Whether the caller still waits. Until this was asked, what was found under its id may be another's.
    pub fn is_waiting(&self, call: &Call) -> bool {
        let mut id = call.id;
        self.request(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id).is_ok()
    }

    /// Answers a call, once. A caller that was killed meanwhile, or has its answer, needs none: that is no error.
    pub fn answer(&self, call: &Call, answer: Answer) -> io::Result<()> {
        let (val, error, flags) = match answer {
            Answer::Done(value) => (value, 0, 0),
            Answer::Failed(number) => (0, -number.abs(), 0),
            Answer::GoOn => (0, 0, GO_ON),
        };
        let mut told = libc::seccomp_notif_resp { id: call.id, val, error, flags };
        match self.request(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut told) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINPROGRESS)) => Ok(()),
            told => told,
        }
    }

    fn request<T>(&self, request: libc::Ioctl, with: &mut T) -> io::Result<()> {
        // SAFETY: each caller passes the type that belongs to its request; the kernel reads and writes no more than that.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request, std::ptr::from_mut(with)) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

const GO_ON: u32 = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::mpsc::channel;
    use std::thread;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

    /// A filter that hands over `getppid` and nothing else.
    fn filter() -> BpfProgram {
        let rules = BTreeMap::from([(libc::SYS_getppid, Vec::new())]);
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trace(0), arch).unwrap();
        let mut program = BpfProgram::try_from(filter).unwrap();
        for step in program.iter_mut().filter(|step| step.k == libc::SECCOMP_RET_TRACE) {
            step.k = libc::SECCOMP_RET_USER_NOTIF;
        }
        program
    }

    fn parent() -> i64 {
        // SAFETY: it takes nothing and gives a number.
        unsafe { libc::syscall(libc::SYS_getppid) }
    }

    #[test]
    fn a_call_is_answered_refused_or_carried_out() {
        let (tell, told) = channel();
        let caller = thread::spawn(move || {
            tell.send(listen(&filter()).unwrap()).unwrap();
            let seen = [parent(), parent(), parent()];
            (seen, io::Error::last_os_error().raw_os_error(), listen(&filter()).unwrap_err().raw_os_error())
        });
        let listener: Listener = told.recv().unwrap();
        let mut thread = None;
        for answer in [Answer::Done(7), Answer::GoOn, Answer::Failed(libc::EPERM)] {
            let call = listener.next().unwrap().unwrap();
            assert_eq!(call.number, libc::SYS_getppid);
            assert_eq!(*thread.get_or_insert(call.thread), call.thread);
            assert!(listener.is_waiting(&call));
            listener.answer(&call, answer).unwrap();
            assert!(!listener.is_waiting(&call));
            // Once more is once too often, and harmless.
            listener.answer(&call, answer).unwrap();
        }
        let (seen, error, twice) = caller.join().unwrap();
        assert_eq!(seen, [7, parent(), -1]);
        assert_eq!((error, twice), (Some(libc::EPERM), Some(libc::EBUSY)));
        assert!(listener.next().unwrap().is_none(), "nobody is left");
    }

    #[test]
    fn without_a_listener_nothing_is_carried_out() {
        let caller = thread::spawn(|| {
            drop(listen(&filter()).unwrap());
            (parent(), io::Error::last_os_error().raw_os_error())
        });
        assert_eq!(caller.join().unwrap(), (-1, Some(libc::ENOSYS)));
    }
}
