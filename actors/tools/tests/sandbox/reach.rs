//! Who is reached: others on the network, other processes, the kernel, a terminal; and what reaches a command.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use playhouse_protocol::{SandboxMode, ToolError};
use playhouse_tools::{Network, SandboxRules};
use serde_json::json;

use crate::common::{Bench, unique_sleep};
use crate::{TIERS, bash, call, plain, sandbox, tier_of_this_test, workdir};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_reached_unless_the_network_is_granted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5).sendall(b\"x\")' && echo through"
    );
    for mode in TIERS {
        let workdir = workdir();
        let local = workdir.path().join("s");
        let unix = UnixListener::bind(&local).unwrap();
        unix.set_nonblocking(true).unwrap();
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        let (said, code) = bash(&mut bench, &connect).await;
        assert_ne!(code, Some(0), "{mode:?}: {said}");
        let (said, code) = bash(&mut bench, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).await;
        assert_ne!(code, Some(0), "{mode:?}: {said}");
        assert!(listener.accept().is_err(), "{mode:?}");
        // A socket that is a file: in the strict tier only those that are granted exist.
        if mode == SandboxMode::Landlock {
            let attack = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"s\")'";
            let (said, code) = bash(&mut bench, attack).await;
            assert!(code != Some(0) && said.contains("not permitted"), "{mode:?}: {said}");
            assert!(unix.accept().is_err(), "{mode:?}");
        }
        let pair = "python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); print(b.recv(1))'";
        assert_eq!(bash(&mut bench, pair).await.0, "b'x'\n", "{mode:?}");

        let rules = SandboxRules { network: Network::Granted, ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        assert_eq!(bash(&mut bench, &connect).await.0, "through\n", "{mode:?}");
        let (mut peer, _) = listener.accept().unwrap();
        peer.set_nonblocking(false).unwrap();
        let mut heard = String::new();
        peer.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "x");
        // Neither grants raw packets, nor the way out of a virtual machine.
        for family in ["AF_PACKET", "AF_VSOCK", "AF_ALG"] {
            let raw = format!("python3 -c 'import socket; socket.socket(socket.{family}, socket.SOCK_SEQPACKET)'");
            let (said, code) = bash(&mut bench, &raw).await;
            assert!(code != Some(0) && said.contains("not permitted"), "{mode:?} {family}: {said}");
        }
    }
}

/// A process of the user's that is none of the tools'. It ends with its test, also one that fails, and holds nothing of
/// the test's output open.
struct Victim(std::process::Child);

impl Victim {
    fn new() -> Self {
        let mut command = Command::new("sleep");
        command.arg(unique_sleep()).env("CANARY", "sekret-canary");
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_processes_and_the_kernel_are_out_of_reach() {
    let me = std::process::id();
    let mut victim = Victim::new();
    for mode in TIERS {
        let workdir = workdir();
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        #[cfg(target_arch = "x86_64")]
        let numbers = [101, 310, 425, 321, 298, 250, 165, 272, 304, 155, 161];
        #[cfg(target_arch = "aarch64")]
        let numbers = [117, 270, 425, 280, 241, 219, 40, 97, 265, 41, 51];
        let names = [
            "ptrace",
            "process_vm_readv",
            "io_uring_setup",
            "bpf",
            "perf_event_open",
            "keyctl",
            "mount",
            "unshare",
            "open_by_handle_at",
            "pivot_root",
            "chroot",
        ];
        for (name, number) in names.into_iter().zip(numbers) {
            // To unshare what is 0x10000000, the user namespace, is the beginning of most ways out.
            let arguments = match name {
                "unshare" => "0x10000000, 0, 0, 0",
                "io_uring_setup" => "4, ctypes.create_string_buffer(256), 0, 0",
                "ptrace" => "0, 0, 0, 0",
                _ => "0, 0, 0, 0, 0",
            };
            let said = bash(&mut bench, &call(number, arguments)).await.0;
            assert_eq!(said, "-1 Operation not permitted\n", "{mode:?}: {name}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(bash(&mut bench, &call(0x4000_0000 + 39, "0")).await.0, "-1 Operation not permitted\n", "{mode:?}");
        // Threads are still to be had, by the old call.
        assert_eq!(bash(&mut bench, &call(435, "0, 0")).await.0, "-1 Function not implemented\n", "{mode:?}");
        for pid in [me, victim.0.id()] {
            for file in ["environ", "mem", "maps", "fd/0"] {
                let (said, code) = bash(
                    &mut bench,
                    &format!("head -c 1000 /proc/{pid}/{file} | tr '\\0' '\\n'; exit ${{PIPESTATUS[0]}}"),
                )
                .await;
                assert_ne!(code, Some(0), "{mode:?}: {file}: {said}");
                assert!(!said.contains("sekret-canary"));
            }
            let (said, code) = bash(&mut bench, &format!("kill -KILL {pid}")).await;
            assert_ne!(code, Some(0), "{mode:?}: {said}");
            let (said, code) = bash(&mut bench, &format!("prlimit --pid {pid} --nofile=1:1")).await;
            assert_ne!(code, Some(0), "{mode:?}: {said}");
        }
        assert_eq!(victim.0.try_wait().unwrap(), None, "{mode:?}: it lives");
        let (said, code) = bash(&mut bench, "sudo -n true || su -c true nobody").await;
        assert_ne!(code, Some(0), "{mode:?}: {said}");
        let rights = bash(&mut bench, "grep -E '^(NoNewPrivs|Seccomp|CapEff)' /proc/self/status").await.0;
        assert!(rights.contains("NoNewPrivs:\t1") && rights.contains("Seccomp:\t2"), "{mode:?}: {rights}");
        let effective = rights.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
        let effective = u64::from_str_radix(effective, 16).unwrap();
        assert_eq!(effective & (1 << 21 | 1 << 19 | 1 << 17 | 1 << 12), 0, "{mode:?}: no rights over the machine");
    }
}

/// `TIOCSTI` types into a terminal; `TIOCLINUX` can paste into the console. From a process whose own terminal it is: any
/// other one the kernel itself refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_words_are_put_into_a_terminal() {
    let attack = "python3 -c '
import fcntl, os, termios
keyboard, terminal = os.openpty()
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for request in (0x5412, 0x541c):
        try:
            print(fcntl.ioctl(terminal, request, b\"x\"), flush=True)
        except OSError as error:
            print(error.strerror, flush=True)
    os._exit(0)
os.wait()'";
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), plain(SandboxMode::Bwrap)).await;
    let (said, code) = bash(&mut bench, attack).await;
    assert_eq!((said.as_str(), code), ("Operation not permitted\nOperation not permitted\n", Some(0)));
    // There no terminal can be opened in the first place.
    let mut bench = Bench::confined(workdir.path(), plain(SandboxMode::Landlock)).await;
    let (said, code) = bash(&mut bench, attack).await;
    assert!(said.contains("Permission denied") && code == Some(1), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f48_only_listed_variables_reach_tools() {
    for tier in ["off", "landlock", "bwrap"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["reach::prints_its_variables", "--exact", "--ignored", "--nocapture"]).stderr(Stdio::null());
        command.envs([("CANARY", "sekret-canary"), ("LC_CANARY", "may-pass"), ("NAMED_TOKEN", "was-named")]);
        command.envs([("BASH_ENV", "/dev/null"), ("BASH_FUNC_ls%%", "() { echo sekret-canary; }")]);
        let out = command.env("TEST_TIER", tier).output().unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        for wanted in ["PATH=", "LC_CANARY=may-pass", "NAMED_TOKEN=was-named", "PLAYHOUSE_HOUSE=", "TMPDIR="] {
            assert!(out.contains(wanted), "{tier}: {wanted}: {out}");
        }
        for unwanted in ["sekret-canary", "BASH_ENV", "TEST_TIER"] {
            assert!(!out.contains(unwanted), "{tier}: {unwanted}: {out}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above"]
async fn prints_its_variables() {
    let rules = SandboxRules { environment: vec!["NAMED_TOKEN".to_owned()], ..SandboxRules::default() };
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), sandbox(tier_of_this_test(), rules)).await;
    println!("{}", bash(&mut bench, "env; ls").await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tier_that_does_not_work_here_runs_nothing() {
    let workdir = workdir();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["reach::asks_for_bwrap_where_there_is_none", "--exact", "--ignored", "--nocapture"]);
    let out = command.env("PATH", workdir.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above, with an empty path"]
async fn asks_for_bwrap_where_there_is_none() {
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), plain(SandboxMode::Bwrap)).await;
    let answer = bench.run("bash", json!({"command": "echo x > ran"})).await;
    let Err(ToolError::Failed(reason)) = answer else { panic!("{answer:?}") };
    assert!(reason.contains("install the package bubblewrap") && reason.contains("playhouse doctor"), "{reason}");
    assert!(!workdir.path().join("ran").exists());
}
