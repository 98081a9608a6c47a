//! Whoever waits for the answer to a system call: its memory, and the files that it means.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use playhouse_seccomp::Call;
use rustix::fs::{CWD, Mode, OFlags, openat, readlink};
use rustix::io::Errno;

/// The longest path that the kernel takes, with the zero at its end.
const LONGEST_PATH: usize = 4_096;
/// Reads never cross one of these: what is beyond may not be there.
const PAGE: u64 = 4_096;

/// A thread that waits. What is found under its id is its own only if it still waits afterwards.
#[derive(Debug)]
pub(super) struct Caller {
    thread: u32,
    memory: File,
}

/// The file that a call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// An open one.
    Descriptor(u64),
    /// One by its name, as seen from a folder.
    Path {
        /// The descriptor of the folder, or the number that stands for the working directory.
        at: u64,
        /// Where the name is in the caller's memory.
        name: u64,
        /// What becomes of a link at its end.
        link: Link,
        /// What an empty name means.
        empty: Empty,
    },
}

/// What becomes of a link at the end of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It is followed.
    Followed,
    /// It is what is meant.
    Meant,
}

/// What an empty name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// Nothing, as everywhere.
    Nothing,
    /// The folder itself, which may be a file then.
    Folder,
}

/// A file that was found, to be looked at and changed by its descriptor alone.
#[derive(Debug)]
pub(super) struct Found(OwnedFd);

impl Caller {
    pub(super) fn new(call: &Call) -> Result<Self, Errno> {
        let memory = File::open(format!("/proc/{}/mem", call.thread)).map_err(|_| Errno::PERM)?;
        Ok(Self { thread: call.thread, memory })
    }

    /// So many bytes of its memory.
    pub(super) fn bytes<const N: usize>(&self, at: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, at).map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// As many bytes as it says.
    pub(super) fn all_bytes(&self, at: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        self.memory.read_exact_at(&mut bytes, at).map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// A text that ends with a zero; `too_long` if there is none among the first `most` bytes.
    pub(super) fn text(&self, at: u64, most: usize, too_long: Errno) -> Result<Vec<u8>, Errno> {
        let mut text = Vec::new();
        let mut page = [0; PAGE as usize];
        while text.len() < most {
            let next = at.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            let rest = usize::try_from(PAGE - next % PAGE).unwrap_or_default();
            let part = page.get_mut(..rest).unwrap_or_default();
            self.memory.read_exact_at(part, next).map_err(|_| Errno::FAULT)?;
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                text.extend(part.iter().take(end));
                return if text.len() < most { Ok(text) } else { Err(too_long) };
            }
            text.extend_from_slice(part);
        }
        Err(too_long)
    }

    /// Opens the file that is meant, for nothing but to know which it is.
    pub(super) fn open(&self, object: Object) -> Result<Found, Errno> {
        match object {
            Object::Descriptor(number) => self.folder(number),
            Object::Path { at, name, link, empty } => {
                let name = self.text(name, LONGEST_PATH, Errno::NAMETOOLONG)?;
                let name = Path::new(OsStr::from_bytes(&name));
                if name.as_os_str().is_empty() {
                    return match empty {
                        Empty::Folder => self.folder(at),
                        Empty::Nothing => Err(Errno::NOENT),
                    };
                }
                let flags = match link {
                    Link::Followed => OFlags::empty(),
                    Link::Meant => OFlags::NOFOLLOW,
                };
                if name.is_absolute() {
                    return found(CWD, &self.own(name), flags);
                }
                found(self.folder(at)?.0.as_fd(), name, flags)
            }
        }
    }

    fn folder(&self, number: u64) -> Result<Found, Errno> {
        // A descriptor is 32 bits wide, whatever is above them.
        let place = match number as i32 {
            libc::AT_FDCWD => format!("/proc/{}/cwd", self.thread),
            number => format!("/proc/{}/fd/{number}", self.thread),
        };
        found(CWD, Path::new(&place), OFlags::empty()).map_err(|error| match error {
            Errno::NOENT => Errno::BADF,
            other => other,
        })
    }

    /// A path as the caller would follow it: what is its own is not ours. Through a link such a path leads to our own
    /// files, which lie where nothing may be changed.
    fn own(&self, path: &Path) -> PathBuf {
        let of_caller = Path::new("/proc").join(self.thread.to_string());
        let places = [("/proc/self", ""), ("/proc/thread-self", ""), ("/dev/fd", "fd"), ("/dev/stdin", "fd/0")];
        let places = places.into_iter().chain([("/dev/stdout", "fd/1"), ("/dev/stderr", "fd/2")]);
        let mut found = places.filter_map(|(from, to)| Some((to, path.strip_prefix(from).ok()?)));
        match found.next() {
            Some((to, rest)) if rest.as_os_str().is_empty() => of_caller.join(to),
            Some((to, rest)) => of_caller.join(to).join(rest),
            None => path.to_owned(),
        }
    }
}

fn found(at: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<Found, Errno> {
    openat(at, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty()).map(Found)
}

impl Found {
    /// Where it lies, as the kernel knows it.
    pub(super) fn place(&self) -> Result<PathBuf, Errno> {
        let place = readlink(self.path(), Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(place.into_bytes())))
    }

    /// A name that leads to it and to nothing else.
    pub(super) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

impl AsFd for Found {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
