//! The system calls that change a file's mode, owner, times or attributes: which file each means, and what it wants.

use playhouse_seccomp::Call;
use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use super::caller::{Caller, Empty, Found, Link, Object};

/// The same number everywhere.
pub(super) const FCHMODAT2: libc::c_long = 452;

/// The longest name and value of an attribute that the kernel takes.
const LONGEST_NAME: usize = 256;
const LONGEST_VALUE: u64 = 65_536;
/// Attributes that need no right but that to write the file.
const ATTRIBUTES: [&[u8]; 2] = [b"user.", b"system.posix_acl_"];

/// A change of a file, as it was called for: numbers, and addresses in the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    object: Object,
    wanted: Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Mode(u64),
    Owner { user: u64, group: u64 },
    Times { at: u64, unit: Unit },
    SetAttribute { name: u64, value: u64, length: u64, flags: u64 },
    RemoveAttribute { name: u64 },
}

/// What a time is counted in, behind its seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Nothing,
    Microseconds,
    Nanoseconds,
}

/// A change whose words were read: nobody can alter it any more.
#[derive(Debug)]
pub(super) enum Deed {
    Mode(Mode),
    Owner(Option<Uid>, Option<Gid>),
    Times(Timestamps),
    SetAttribute { name: Vec<u8>, value: Vec<u8>, flags: XattrFlags },
    RemoveAttribute { name: Vec<u8> },
}

impl Change {
    /// What a call changes; `None` if it is of another kind.
    pub(super) fn of(call: &Call) -> Option<Self> {
        use Wanted::{Mode, Owner, RemoveAttribute, SetAttribute, Times};
        let [a, b, c, d, e, _] = call.arguments;
        let here = libc::AT_FDCWD as u64;
        let named = |at, name, flags: u64| {
            let has = |flag: i32| flags & u64::from(flag.unsigned_abs()) != 0;
            let link = if has(libc::AT_SYMLINK_NOFOLLOW) { Link::Meant } else { Link::Followed };
            let empty = if has(libc::AT_EMPTY_PATH) { Empty::Folder } else { Empty::Nothing };
            Object::Path { at, name, link, empty }
        };
        let link_itself = u64::from(libc::AT_SYMLINK_NOFOLLOW.unsigned_abs());
        // Without a name it is the descriptor's file.
        let timed = |at, name, flags| if name == 0 { Object::Descriptor(at) } else { named(at, name, flags) };
        let (object, wanted) = match call.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => (named(here, a, 0), Mode(b)),
            libc::SYS_fchmod => (Object::Descriptor(a), Mode(b)),
            libc::SYS_fchmodat => (named(a, b, 0), Mode(c)),
            FCHMODAT2 => (named(a, b, d), Mode(c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => (named(here, a, 0), Owner { user: b, group: c }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => (named(here, a, link_itself), Owner { user: b, group: c }),
            libc::SYS_fchown => (Object::Descriptor(a), Owner { user: b, group: c }),
            libc::SYS_fchownat => (named(a, b, e), Owner { user: c, group: d }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => (named(here, a, 0), Times { at: b, unit: Unit::Nothing }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => (named(here, a, 0), Times { at: b, unit: Unit::Microseconds }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => (timed(a, b, 0), Times { at: c, unit: Unit::Microseconds }),
            libc::SYS_utimensat => (timed(a, b, d), Times { at: c, unit: Unit::Nanoseconds }),
            libc::SYS_setxattr => (named(here, a, 0), SetAttribute { name: b, value: c, length: d, flags: e }),
            libc::SYS_lsetxattr => {
                (named(here, a, link_itself), SetAttribute { name: b, value: c, length: d, flags: e })
            }
            libc::SYS_fsetxattr => (Object::Descriptor(a), SetAttribute { name: b, value: c, length: d, flags: e }),
            libc::SYS_removexattr => (named(here, a, 0), RemoveAttribute { name: b }),
            libc::SYS_lremovexattr => (named(here, a, link_itself), RemoveAttribute { name: b }),
            libc::SYS_fremovexattr => (Object::Descriptor(a), RemoveAttribute { name: b }),
            _ => return None,
        };
        Some(Self { object, wanted })
    }

    /// The file that is meant.
    pub(super) fn object(&self) -> Object {
        self.object
    }

    /// Reads what the caller's memory says of it, once.
    pub(super) fn read(&self, caller: &Caller) -> Result<Deed, Errno> {
        Ok(match self.wanted {
            Wanted::Mode(mode) => Deed::Mode(Mode::from_raw_mode(mode as u32 & 0o7777)),
            // All ones: it stays.
            Wanted::Owner { user, group } => {
                let id = |id: u64| Some(id as u32).filter(|id| *id != u32::MAX);
                Deed::Owner(id(user).map(Uid::from_raw), id(group).map(Gid::from_raw))
            }
            Wanted::Times { at, unit } => Deed::Times(times(caller, at, unit)?),
            Wanted::SetAttribute { name, value, length, flags } => {
                let name = attribute(caller, name)?;
                let length = usize::try_from(length).ok().filter(|_| length <= LONGEST_VALUE).ok_or(Errno::TOOBIG)?;
                let flags = XattrFlags::from_bits(flags as u32).ok_or(Errno::INVAL)?;
                Deed::SetAttribute { name, value: caller.all_bytes(value, length)?, flags }
            }
            Wanted::RemoveAttribute { name } => Deed::RemoveAttribute { name: attribute(caller, name)? },
        })
    }
}

/// The name of an attribute. What else there is needs rights that a confined process has given up, and we have not.
fn attribute(caller: &Caller, at: u64) -> Result<Vec<u8>, Errno> {
    let name = caller.text(at, LONGEST_NAME, Errno::RANGE)?;
    if ATTRIBUTES.iter().any(|beginning| name.starts_with(beginning)) { Ok(name) } else { Err(Errno::PERM) }
}

/// The time of the last access and that of the last change; now, if none are given.
fn times(caller: &Caller, at: u64, unit: Unit) -> Result<Timestamps, Errno> {
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    if at == 0 {
        let now = time(0, libc::UTIME_NOW);
        return Ok(Timestamps { last_access: now, last_modification: now });
    }
    let number = |index: u64| -> Result<i64, Errno> {
        let address = at.checked_add(8 * index).ok_or(Errno::FAULT)?;
        Ok(i64::from_ne_bytes(caller.bytes(address)?))
    };
    let micros =
        |micros: i64| micros.checked_mul(1_000).filter(|_| (0..1_000_000).contains(&micros)).ok_or(Errno::INVAL);
    let (last_access, last_modification) = match unit {
        Unit::Nothing => (time(number(0)?, 0), time(number(1)?, 0)),
        Unit::Microseconds => (time(number(0)?, micros(number(1)?)?), time(number(2)?, micros(number(3)?)?)),
        Unit::Nanoseconds => (time(number(0)?, number(1)?), time(number(2)?, number(3)?)),
    };
    Ok(Timestamps { last_access, last_modification })
}

impl Deed {
    /// Changes the file.
    pub(super) fn carry_out(&self, file: &Found) -> Result<(), Errno> {
        match self {
            Self::Mode(mode) => chmod(file.path(), *mode),
            Self::Owner(user, group) => chownat(file, "", *user, *group, AtFlags::EMPTY_PATH),
            Self::Times(times) => utimensat(file, "", times, AtFlags::EMPTY_PATH),
            Self::SetAttribute { name, value, flags } => setxattr(file.path(), name.as_slice(), value, *flags),
            Self::RemoveAttribute { name } => removexattr(file.path(), name.as_slice()),
        }
    }
}
