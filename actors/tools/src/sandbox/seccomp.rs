//! The system calls that a tool's process does not get.
//!
//! A call is refused with `EPERM`, so that programs say what they could not do; `clone3` with `ENOSYS`, because its
//! flags cannot be looked at, and every C library then uses `clone`, whose flags can. What is refused:
//!
//! - reaching into other processes, their memory and their descriptors;
//! - `io_uring`, which does what the filter refuses past the filter;
//! - new namespaces and mounts, keys of the kernel, programs and modules for it, its clock and its name;
//! - putting words into a terminal, and changing other processes' limits;
//! - sockets of any kind but those of the internet and local ones. Pairs of connected sockets are always there;
//! - on x86-64, the calls of its 32-bit-pointer twin, which have other numbers;
//! - in the tier `landlock`, which has no namespaces: what System V and POSIX queues share with everyone, and whatever
//!   `ioctl` and `fcntl` could change of a file that is not open for writing.
//!
//! In that tier a second filter hands over what a filter cannot judge: see [`asked`] and `supervisor.rs`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use playhouse_seccomp::Listener;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::{Network, SandboxError, supervisor};

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

/// Kinds of `ioctl` requests that go to terminals, pipes and sockets, by their second byte.
const KINDS: [u32; 3] = [0x5400, 0x8900, 0x8a00];

/// Requests to files that change nothing, or need one that is open for writing. All others might change a file or folder that
/// is only open for reading: its flags, its version, whether it is encrypted, what volumes are in it.
const REQUESTS: [u32; 12] = [
    0x0000_0002, // FIGETBSZ
    0x8008_6601, // FS_IOC_GETFLAGS, and as 32-bit programs ask
    0x8004_6601,
    0xc020_660b, // FS_IOC_FIEMAP
    0x8008_7601, // FS_IOC_GETVERSION
    0x8004_7601,
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x8100_9431, // FS_IOC_GETFSLABEL
    0x8011_1500, // FS_IOC_GETFSUUID
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
    0xc040_ff0b, // PIDFD_GET_INFO
];

/// What `fcntl` does to a file that others feel: leases, which hold up whoever opens it, and hints that stay with it.
const FCNTL: [u64; 3] = [1_024, 1_036, 1_038];

/// An access that is neither to read nor to write: Landlock asks for no right then.
const NEITHER: u64 = 3;

/// What is shared with everyone who is in no namespace of their own, and outlives whoever made it.
const SHARED: [libc::c_long; 13] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// What a filter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Within {
    /// Namespaces of its own keep the rest from it; sockets reach nobody in a network of its own.
    Bwrap,
    /// Nothing else keeps it but the file rules and the supervisor.
    Landlock(Network),
}

impl Within {
    const ALL: [Self; 3] = [Self::Bwrap, Self::Landlock(Network::Denied), Self::Landlock(Network::Granted)];
}

/// The filter, as the kernel takes it.
pub(super) fn filter(within: Within) -> Result<&'static BpfProgram, SandboxError> {
    static ALL: LazyLock<BTreeMap<Within, Result<BpfProgram, String>>> = LazyLock::new(|| {
        let compiled =
            |within| compile(rules(within)).map(|program| beginning(within).into_iter().chain(program).collect());
        Within::ALL.into_iter().map(|within| (within, compiled(within))).collect()
    });
    match ALL.get(&within) {
        Some(Ok(program)) => Ok(program),
        Some(Err(error)) => Err(SandboxError::Failed(error.clone())),
        None => Err(SandboxError::Failed("there is no such filter".to_owned())),
    }
}

/// Who answers what a filter hands over.
#[derive(Debug)]
pub(super) enum Asked {
    /// Whoever serves this.
    Listener(Listener),
    /// Nobody: this process is under another one's listener, and the kernel allows one. All of it is refused.
    Nobody,
}

/// Puts both filters of the tier `landlock` on this thread, for good, and on everything it starts.
pub(super) fn apply(network: Network) -> Result<Asked, SandboxError> {
    let failed = |error: &dyn std::error::Error| SandboxError::Failed(error.to_string());
    let put_on = |program: &BpfProgram| seccompiler::apply_filter(program).map_err(|error| failed(&error));
    put_on(filter(Within::Landlock(network))?)?;
    let mut asking = compile(asked(network)).map_err(SandboxError::Failed)?;
    for step in asking.iter_mut().filter(|step| **step == returned(REFUSE)) {
        *step = returned(HAND_OVER);
    }
    match playhouse_seccomp::listen(&asking) {
        Ok(listener) => Ok(Asked::Listener(listener)),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            put_on(&compile(asked(network)).map_err(SandboxError::Failed)?)?;
            Ok(Asked::Nobody)
        }
        Err(error) => Err(failed(&error)),
    }
}

type Rules = Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError>;

fn compile(rules: Rules) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("there is no filter for {} processors", std::env::consts::ARCH))?;
    let rules = rules.map_err(|error| error.to_string())?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM), arch);
    filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())
}

const EPERM: u32 = libc::EPERM as u32;
const ENOSYS: u32 = libc::ENOSYS as u32;

const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | EPERM;
const HAND_OVER: u32 = libc::SECCOMP_RET_USER_NOTIF;

/// The step of a filter that ends with this answer.
fn returned(answer: u32) -> sock_filter {
    const RETURN: u16 = 0x06;
    sock_filter { code: RETURN, jt: 0, jf: 0, k: answer }
}

/// What the compiler cannot say: another answer for one call, a range of numbers, and all but some requests.
fn beginning(within: Within) -> Vec<sock_filter> {
    let step = |code, skip, k| sock_filter { code, jt: 0, jf: skip, k };
    let mut steps = vec![
        step(LOAD, 0, NUMBER),
        step(IF_EQUAL, 1, libc::SYS_clone3 as u32),
        returned(libc::SECCOMP_RET_ERRNO | ENOSYS),
    ];
    if cfg!(target_arch = "x86_64") {
        steps.extend([step(IF_AT_LEAST, 1, 0x4000_0000), returned(REFUSE)]);
    }
    if let Within::Landlock(_) = within {
        let mut requests = requests();
        // The answers are fewer than a jump can skip.
        steps.push(step(IF_EQUAL, requests.len() as u8, libc::SYS_ioctl as u32));
        steps.append(&mut requests);
    }
    steps
}

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
/// Where the number of the call is, and the lower half of its second argument.
const NUMBER: u32 = 0;
const SECOND: u32 = if cfg!(target_endian = "little") { 24 } else { 28 };

/// Refuses all requests of `ioctl` but those of some kinds and some others.
fn requests() -> Vec<sock_filter> {
    let allowed = REQUESTS.len() + KINDS.len();
    let mut steps = vec![sock_filter { code: LOAD, jt: 0, jf: 0, k: SECOND }];
    let mut left = allowed + 1;
    let mut go_on_if = |steps: &mut Vec<sock_filter>, k: u32, between: usize| {
        left -= 1;
        // Over those that are still to come, what stands between them, and the refusal.
        steps.push(sock_filter { code: IF_EQUAL, jt: (left + between) as u8, jf: 0, k });
    };
    REQUESTS.iter().for_each(|request| go_on_if(&mut steps, *request, 1));
    steps.push(sock_filter { code: AND, jt: 0, jf: 0, k: 0xff00 });
    KINDS.iter().for_each(|kind| go_on_if(&mut steps, *kind, 0));
    steps.push(returned(REFUSE));
    steps
}

fn rules(within: Within) -> Rules {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces: Vec<u64> = NAMESPACES.iter().map(|flag| u64::from(flag.unsigned_abs())).collect();
    let has = |flag: u64| when(&[(0, Qword, MaskedEq(flag), flag)]);
    let of_clone = namespaces.iter().filter(|flag| **flag > 0xff);
    rules.insert(libc::SYS_clone, of_clone.map(|flag| has(*flag)).collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_unshare, namespaces.iter().map(|flag| has(*flag)).collect::<Result<_, _>>()?);
    // Only its own limits, and only what it is or how it is asked.
    rules.insert(libc::SYS_prlimit64, vec![when(&[(0, Dword, Ne, 0)])?]);
    rules.insert(libc::SYS_personality, vec![when(&[(0, Dword, Ne, 0), (0, Dword, Ne, 0xffff_ffff)])?]);
    let others: Vec<_> = SOCKETS.iter().map(|family| (0, Dword, Ne, u64::from(family.unsigned_abs()))).collect();
    match within {
        Within::Bwrap => {}
        Within::Landlock(_) => {
            rules.extend(SHARED.iter().map(|call| (*call, Vec::new())));
            rules.insert(
                libc::SYS_fcntl,
                FCNTL.iter().map(|what| when(&[(1, Dword, Eq, *what)])).collect::<Result<_, _>>()?,
            );
            rules.insert(libc::SYS_openat, vec![when(&[(2, Dword, MaskedEq(NEITHER), NEITHER)])?]);
            #[cfg(target_arch = "x86_64")]
            rules.insert(libc::SYS_open, vec![when(&[(1, Dword, MaskedEq(NEITHER), NEITHER)])?]);
        }
    }
    // Without the network each of them is asked about.
    if within != Within::Landlock(Network::Denied) {
        rules.insert(libc::SYS_socket, vec![when(&others)?]);
    }
    rules.insert(libc::SYS_ioctl, WORDS.iter().map(|word| when(&[(1, Dword, Eq, *word)])).collect::<Result<_, _>>()?);
    Ok(rules)
}

/// What is asked about in the tier `landlock`: changes of files that Landlock has no rule for, the priorities of
/// processes, the limit that is a call's mark, and sockets where there is no network.
fn asked(network: Network) -> Rules {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = supervisor::ASKED.iter().map(|call| (*call, Vec::new())).collect();
    // Not `u64::from`: the constant is unsigned in glibc and signed in musl.
    let locks = libc::RLIMIT_LOCKS as u64;
    rules.insert(libc::SYS_prlimit64, vec![when(&[(1, Dword, Eq, locks), (2, Qword, Ne, 0)])?]);
    rules.insert(libc::SYS_setrlimit, vec![when(&[(0, Dword, Eq, locks)])?]);
    match network {
        Network::Denied => rules.insert(libc::SYS_socket, Vec::new()),
        Network::Granted => None,
    };
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
    use rustix::process::Resource;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_filter_stays_on_its_thread() {
        let inside = std::thread::spawn(|| {
            seccompiler::apply_filter(filter(Within::Bwrap).unwrap()).unwrap();
            // By its id it might be another process.
            let own = rustix::process::getrlimit(Resource::Core);
            let refused = rustix::process::prlimit(Some(rustix::process::getpid()), Resource::Core, own).unwrap_err();
            let pair = UnixStream::pair().is_ok();
            // What the C library starts threads and processes with still works.
            let thread = std::thread::spawn(|| 7).join().unwrap();
            let process = std::process::Command::new("true").status().unwrap().success();
            (refused.raw_os_error(), pair, thread, process)
        });
        assert_eq!(inside.join().unwrap(), (libc::EPERM, true, 7, true));
    }

    /// The kernel allows one listener. Under another one's, all that would be asked about is refused.
    #[test]
    fn what_nobody_can_be_asked_about_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let inside = std::thread::spawn(move || {
            let Asked::Listener(_other) = apply(Network::Granted).unwrap() else { panic!("a listener") };
            assert!(matches!(apply(Network::Denied).unwrap(), Asked::Nobody));
            let mode = rustix::fs::chmod(file.path(), rustix::fs::Mode::RWXU);
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap_err();
            (mode, socket.raw_os_error())
        });
        assert_eq!(inside.join().unwrap(), (Err(rustix::io::Errno::PERM), Some(libc::EPERM)));
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
            seccompiler::apply_filter(filter(Within::Bwrap).unwrap()).unwrap();
            std::process::Command::new("python3").args(["-c", ATTACK]).output().unwrap()
        });
        let said = String::from_utf8(attacked.join().unwrap().stdout).unwrap();
        assert_eq!(said, "Operation not permitted\nOperation not permitted\n");
    }
}
