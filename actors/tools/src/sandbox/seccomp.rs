//! The system calls that a tool's process does not get.
//!
//! A call is refused with `EPERM`, so that programs say what they could not do; `clone3` with `ENOSYS`, because its
//! flags cannot be looked at, and every C library then uses `clone`, whose flags can. What is refused:
//!
//! - reaching into other processes, their memory and their descriptors;
//! - `io_uring`, which does what the filter refuses past the filter;
//! - new namespaces and mounts, keys of the kernel, programs and modules for it, its clock and its name;
//! - sockets, unless the network is granted; then those of the internet and local ones. Pairs of connected sockets are
//!   always there. Without this a local socket would be a way to a container engine or a key agent;
//! - putting words into a terminal, and changing other processes' limits;
//! - on x86-64, the calls of its 32-bit-pointer twin, which have other numbers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::{Network, SandboxError};

/// System calls that are refused with and without the network.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Namespaces that `clone` and `unshare` could make.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    // CLONE_NEWTIME: `clone` has the low byte for its signal, so only `unshare` takes it.
    0x80,
];

/// Sockets that a granted network has.
const SOCKETS: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Requests to a terminal that put words into it.
const WORDS: [u64; 2] = [0x5412, 0x541c];

/// Whose sockets a process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    /// No sockets at all.
    None,
    /// Those of the network it is in.
    Network,
}

impl From<Network> for Sockets {
    fn from(network: Network) -> Self {
        match network {
            Network::Denied => Self::None,
            Network::Granted => Self::Network,
        }
    }
}

/// The filter, as the kernel takes it.
pub(super) fn filter(sockets: Sockets) -> Result<&'static BpfProgram, SandboxError> {
    static WITHOUT: LazyLock<Result<BpfProgram, String>> = LazyLock::new(|| compile(Sockets::None));
    static WITH: LazyLock<Result<BpfProgram, String>> = LazyLock::new(|| compile(Sockets::Network));
    let compiled = match sockets {
        Sockets::None => &*WITHOUT,
        Sockets::Network => &*WITH,
    };
    compiled.as_ref().map_err(|error| SandboxError::Failed(error.clone()))
}

/// Puts the filter on this thread, for good, and on everything it starts.
pub(super) fn apply(sockets: Sockets) -> Result<(), SandboxError> {
    seccompiler::apply_filter(filter(sockets)?).map_err(|error| SandboxError::Failed(error.to_string()))
}

fn compile(sockets: Sockets) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("there is no filter for {} processors", std::env::consts::ARCH))?;
    let rules = rules(sockets).map_err(|error| error.to_string())?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM), arch);
    let compiled: BpfProgram = filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())?;
    Ok(beginning().into_iter().chain(compiled).collect())
}

const EPERM: u32 = libc::EPERM as u32;
const ENOSYS: u32 = libc::ENOSYS as u32;

/// What the compiler cannot say: another answer for one call, and a range of numbers.
fn beginning() -> Vec<sock_filter> {
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, skip, k| sock_filter { code, jt: 0, jf: skip, k };
    let mut steps = vec![
        // The call's number.
        step(LOAD, 0, 0),
        step(IF_EQUAL, 1, libc::SYS_clone3 as u32),
        step(RETURN, 0, ERRNO | ENOSYS),
    ];
    if cfg!(target_arch = "x86_64") {
        steps.extend([step(IF_AT_LEAST, 1, 0x4000_0000), step(RETURN, 0, ERRNO | EPERM)]);
    }
    steps
}

fn rules(sockets: Sockets) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces: Vec<u64> = NAMESPACES.iter().map(|flag| u64::from(flag.unsigned_abs())).collect();
    let has = |flag: u64| when(&[(0, Qword, MaskedEq(flag), flag)]);
    let of_clone = namespaces.iter().filter(|flag| **flag > 0xff);
    rules.insert(libc::SYS_clone, of_clone.map(|flag| has(*flag)).collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_unshare, namespaces.iter().map(|flag| has(*flag)).collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_ioctl, WORDS.iter().map(|word| when(&[(1, Dword, Eq, *word)])).collect::<Result<_, _>>()?);
    // Only its own limits, and only what it is or how it is asked.
    rules.insert(libc::SYS_prlimit64, vec![when(&[(0, Dword, Ne, 0)])?]);
    rules.insert(libc::SYS_personality, vec![when(&[(0, Dword, Ne, 0), (0, Dword, Ne, 0xffff_ffff)])?]);
    let socket = match sockets {
        Sockets::None => Vec::new(),
        Sockets::Network => {
            let others: Vec<_> =
                SOCKETS.iter().map(|family| (0, Dword, Ne, u64::from(family.unsigned_abs()))).collect();
            vec![when(&others)?]
        }
    };
    rules.insert(libc::SYS_socket, socket);
    Ok(rules)
}

/// A rule that holds when all of this is so: argument, width, comparison, value.
fn when(all: &[(u8, SeccompCmpArgLen, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = all
        .iter()
        .map(|(argument, width, is, value)| SeccompCondition::new(*argument, width.clone(), is.clone(), *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_filter_stays_on_its_thread() {
        let inside = std::thread::spawn(|| {
            apply(Sockets::None).unwrap();
            let refused = std::net::UdpSocket::bind("127.0.0.1:0").unwrap_err();
            let pair = UnixStream::pair().is_ok();
            // What the C library starts threads and processes with still works.
            let thread = std::thread::spawn(|| 7).join().unwrap();
            let process = std::process::Command::new("true").status().unwrap().success();
            (refused.raw_os_error(), pair, thread, process)
        });
        assert_eq!(inside.join().unwrap(), (Some(libc::EPERM), true, 7, true));
        assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_ok());
        let granted = std::thread::spawn(|| {
            apply(Sockets::Network).unwrap();
            std::net::UdpSocket::bind("127.0.0.1:0").is_ok()
        });
        assert!(granted.join().unwrap());
    }

    /// Without the other guards, on a terminal that is its own: the kernel itself refuses any other, with the same words.
    #[test]
    fn the_filter_refuses_words_for_a_terminal() {
        const ATTACK: &str = "
import fcntl, os, termios
keyboard, terminal = os.openpty()
os.setsid()
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
for request in (0x5412, 0x541c):
    try:
        print(fcntl.ioctl(terminal, request, b'x'))
    except OSError as error:
        print(error.strerror)
";
        let attacked = std::thread::spawn(|| {
            apply(Sockets::Network).unwrap();
            std::process::Command::new("python3").args(["-c", ATTACK]).output().unwrap()
        });
        let said = String::from_utf8(attacked.join().unwrap().stdout).unwrap();
        assert_eq!(said, "Operation not permitted\nOperation not permitted\n");
    }
}
