//! A stranger at the keyboard: attacks through the real `bash`, in each sandbox that this machine must have.
//!
//! Nothing here is skipped: where the kernel can't keep processes in, these tests fail.

mod common;

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use common::{Bench, alive, eventually, sleepers, text, unique_sleep};
use playhouse_protocol::{SandboxMode, ToolError};
use playhouse_tools::{Network, ProcessLimits, Sandbox, SandboxRules, adopt_orphans};
use serde_json::json;

const TIERS: [SandboxMode; 2] = [SandboxMode::Landlock, SandboxMode::Bwrap];

fn sandbox(mode: SandboxMode, rules: SandboxRules) -> Sandbox {
    Sandbox { mode, rules: Arc::new(rules) }
}

fn plain(mode: SandboxMode) -> Sandbox {
    sandbox(mode, SandboxRules::default())
}

/// A folder to work in, not beneath the shared temporary one, which the strict tier replaces with its own.
fn workdir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// What a command says, and its exit code.
async fn bash(bench: &mut Bench, command: &str) -> (String, Option<i64>) {
    let answer = bench.run("bash", json!({"command": command, "timeout_ms": 60_000})).await;
    let code = answer.as_ref().expect("a result").details["exit_code"].as_i64();
    (text(&answer), code)
}

/// A system call by its number, from a program that has no other way.
fn call(number: i64, arguments: &str) -> String {
    format!(
        "python3 -c 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); r = l.syscall({number}, {arguments}); \
         print(r, os.strerror(ctypes.get_errno()) if r < 0 else \"done\")'"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f47_nothing_is_written_outside_of_the_working_directory() {
    for mode in TIERS {
        let (workdir, outside) = (workdir(), workdir());
        fs::write(outside.path().join("kept"), "kept").unwrap();
        std::os::unix::fs::symlink(outside.path(), workdir.path().join("link")).unwrap();
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        let out = outside.path().display();
        for attack in [
            format!("echo x > {out}/new"),
            format!("echo x >> {out}/kept"),
            format!("truncate -s 0 {out}/kept"),
            format!("rm {out}/kept"),
            format!("mv {out}/kept ."),
            format!("ln {out}/kept hard && echo x > hard"),
            format!("mkdir {out}/folder"),
            format!("chmod 777 {out}/kept && echo x > {out}/kept"),
            "echo x > link/new".to_owned(),
            "echo x > link/kept".to_owned(),
            "cd link && echo x > kept".to_owned(),
            "echo x > /etc/playhouse-was-here".to_owned(),
            "echo x > ~/playhouse-was-here".to_owned(),
            "mknod disk b 8 0 && cat disk".to_owned(),
        ] {
            let (said, code) = bash(&mut bench, &attack).await;
            assert_ne!(code, Some(0), "{mode:?}: {attack}: {said}");
        }
        let names: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["kept"]);
        assert_eq!(fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
        assert!(!Path::new("/etc/playhouse-was-here").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f47_a_folder_that_is_swapped_for_a_link_while_it_is_written_to_leads_nowhere() {
    for mode in TIERS {
        let (workdir, outside) = (workdir(), workdir());
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        let race = format!(
            "mkdir real; (for i in $(seq 300); do mv -T real tmp 2>/dev/null; ln -sfn {out} real; rm -f real; \
             mv -T tmp real; done) & for i in $(seq 2000); do echo x > real/f$i; done 2>/dev/null; wait; echo over",
            out = outside.path().display()
        );
        let (said, _) = bash(&mut bench, &race).await;
        assert!(said.contains("over"), "{said}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_and_the_houses_own_files_are_not_read() {
    let home = workdir();
    for name in [".ssh", "projects/mine", ".rustup", ".config/playhouse"] {
        fs::create_dir_all(home.path().join(name)).unwrap();
    }
    for name in [".ssh/id", ".netrc", "projects/other", ".config/playhouse/config.toml"] {
        fs::write(home.path().join(name), "sekret-canary").unwrap();
    }
    fs::write(home.path().join(".rustup/tool"), "toolchain").unwrap();
    for tier in ["landlock", "bwrap"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["reads_what_a_home_has", "--exact", "--ignored", "--nocapture"]).stderr(Stdio::null());
        let out = command.env("HOME", home.path()).env("TEST_TIER", tier).output().unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        assert!(out.contains("toolchain") && out.contains("attacked"), "{tier}: {out}");
        assert!(!out.contains("sekret-canary"), "{tier}: {out}");
        assert!(!out.contains("root:$") && !out.contains("root:*:"), "{tier}: {out}");
    }
}

fn tier_of_this_test() -> SandboxMode {
    let named = std::env::var("TEST_TIER").unwrap();
    SandboxMode::ALL.into_iter().find(|mode| mode.as_str() == named).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above, with a home of its own"]
async fn reads_what_a_home_has() {
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap());
    let mut bench = Bench::confined(&home.join("projects/mine"), plain(tier_of_this_test())).await;
    let attack = "cat ~/.rustup/tool; cat ~/.ssh/id ~/.netrc ../other ~/.config/playhouse/config.toml; \
                  cp ~/.ssh/id . && cat id; ln ~/.ssh/id hard && cat hard; tar c ~/.ssh | cat; \
                  python3 -c 'print(open(\"'$HOME'/.netrc\").read())'; cat /etc/shadow; echo attacked";
    println!("{}", bash(&mut bench, attack).await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f49_the_users_rules_are_out_of_reach_wherever_tools_work() {
    for tier in ["off", "landlock", "bwrap"] {
        let home = workdir();
        fs::create_dir_all(home.path().join(".config/playhouse")).unwrap();
        fs::create_dir_all(home.path().join("project")).unwrap();
        fs::write(home.path().join(".config/playhouse/config.toml"), "permission = \"ask\"\n").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["edits_the_rules", "--exact", "--ignored", "--nocapture"]);
        let out = command.env("HOME", home.path()).env("TEST_TIER", tier).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{tier}: {said}");
        let left = fs::read_to_string(home.path().join(".config/playhouse/config.toml")).unwrap();
        assert_eq!(left, "permission = \"ask\"\n", "{tier}");
        assert_eq!(fs::read_dir(home.path().join(".config/playhouse")).unwrap().count(), 1, "{tier}");
        assert!(home.path().join("project/made").exists(), "{tier}: what is around it can be used: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above, with a home of its own"]
async fn edits_the_rules() {
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap());
    let tier = tier_of_this_test();
    // The worst case: the working directory holds them.
    let mut bench = Bench::confined(&home, plain(tier)).await;
    let path = ".config/playhouse/config.toml";
    let yolo = "permission = \"yolo\"\n";
    fs::create_dir(home.join("links")).unwrap();
    std::os::unix::fs::symlink("../.config/playhouse", home.join("links/rules")).unwrap();
    for (tool, args) in [
        ("write_file", json!({"path": path, "content": yolo})),
        ("write_file", json!({"path": ".config/playhouse/other.toml", "content": yolo})),
        ("write_file", json!({"path": "links/rules/config.toml", "content": yolo})),
        ("edit_file", json!({"path": path, "edits": [{"old_text": "ask", "new_text": "yolo"}]})),
        ("read_file", json!({"path": path})),
        ("list_files", json!({"path": ".config/playhouse"})),
        ("search", json!({"pattern": "permission", "path": ".config/playhouse"})),
    ] {
        let answer = bench.run(tool, args.clone()).await;
        let Err(ToolError::Failed(reason)) = &answer else { panic!("{tool} {args}: {answer:?}") };
        assert!(reason.contains("is kept from tools"), "{tool} {args}: {reason}");
    }
    let made = bench.run("write_file", json!({"path": "project/made", "content": "x"})).await;
    assert!(made.is_ok(), "{made:?}");
    if tier != SandboxMode::Off {
        for attack in [
            format!("echo '{yolo}' > {path}"),
            format!("sed -i s/ask/yolo/ {path}"),
            "mv .config .old; mkdir -p .config/playhouse; echo x > .config/playhouse/config.toml".to_owned(),
            "rm -r .config".to_owned(),
            "echo x > .config/playhouse/other.toml".to_owned(),
        ] {
            let (said, code) = bash(&mut bench, &attack).await;
            assert_ne!(code, Some(0), "{attack}: {said}");
        }
        let (said, code) = bash(&mut bench, "echo x >> project/made && cat project/made").await;
        assert_eq!(code, Some(0), "{said}");
    }
}

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
        command.args(["prints_its_variables", "--exact", "--ignored", "--nocapture"]).stderr(Stdio::null());
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

/// Programs that multiply until someone stops them; the well-known spelling is refused before it runs.
const BOMBS: [&str; 4] = [
    "bomb() { bomb | bomb & }; bomb; sleep 7777",
    "python3 -c 'import os\nwhile True: os.fork()'",
    "perl -e 'fork while fork or 1'",
    // Each in a session of its own, with no environment and no parent.
    "b='sleep 0.4; for i in 1 2 3; do (env -i PATH=\"$PATH\" setsid bash -c \"$1\" b \"$1\" &); done; sleep 60'; bash -c \"$b\" b \"$b\"; sleep 7777",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_a_fork_bomb_is_dead_within_seconds_and_nothing_is_left() {
    adopt_orphans().unwrap();
    let limits = ProcessLimits { processes: 200, ..ProcessLimits::default() };
    for mode in TIERS {
        for bomb in BOMBS {
            let workdir = workdir();
            let rules = SandboxRules { limits, ..SandboxRules::default() };
            let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
            let begun = Instant::now();
            let answer = bench.run("bash", json!({"command": bomb, "timeout_ms": 60_000})).await;
            let took = begun.elapsed();
            println!("{mode:?}: {took:?}: {bomb}");
            let result = answer.unwrap();
            assert_eq!(result.details["limit"], "processes", "{mode:?} {bomb}: {result:?}");
            tokio::time::timeout(common::DEADLINE, bench.runtime.settled()).await.unwrap();
            let marked = || of_this_folder(workdir.path());
            assert_eq!(marked(), 0, "{mode:?} {bomb}: what is left");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_a_crowd_that_gives_up_at_once_is_told_why() {
    let limits = ProcessLimits { processes: 4, ..ProcessLimits::default() };
    for mode in TIERS {
        let workdir = workdir();
        let rules = SandboxRules { limits, ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        let crowd = "perl -e 'for (1..500) { my $p = fork; defined $p or exit 3; $p or (sleep 99, exit) } exit 4'";
        let result = bench.run("bash", json!({"command": crowd})).await.unwrap();
        assert_eq!(result.details["limit"], "processes", "{mode:?}: {result:?}");
        let text = text(&Ok(result));
        assert!(text.contains("at once") && !text.contains("exit code 4"), "{mode:?}: {text}");
    }
}

/// How many processes work in a folder.
fn of_this_folder(folder: &Path) -> usize {
    let folder = folder.canonicalize().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&folder))).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_memory_threads_and_file_sizes_are_bounded() {
    let limits = ProcessLimits { processes: 50, memory: 200 << 20, file: 1 << 20 };
    for mode in TIERS {
        let workdir = workdir();
        let rules = SandboxRules { limits, ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        for (hog, limit) in [
            ("python3 -c 'x = bytearray(400 << 20); import time; time.sleep(60)'", "memory"),
            (
                "for i in 1 2 3 4; do python3 -c 'x = bytearray(80 << 20); import time; time.sleep(60)' & done; wait",
                "memory",
            ),
            (
                "python3 -c 'import threading as t, time\nt.stack_size(65536)\nfor i in range(600): t.Thread(target=time.sleep, args=(60,)).start()'",
                "threads",
            ),
        ] {
            // None of them ends by itself: without the watch the deadline would be the answer.
            let result = bench.run("bash", json!({"command": hog, "timeout_ms": 50_000})).await.unwrap();
            assert_eq!(result.details["limit"], limit, "{mode:?} {hog}: {result:?}");
        }
        // Pages that processes share are counted once.
        let shared = "python3 -c 'import os, time\nx = bytearray(100 << 20)\nfor i in range(5): os.fork() or time.sleep(1) or os._exit(0)\ntime.sleep(1); print(\"done\")'";
        assert_eq!(bash(&mut bench, shared).await.0, "done\n", "{mode:?}");
        let (said, code) = bash(&mut bench, "head -c 3000000 /dev/zero > big").await;
        assert_ne!(code, Some(0), "{mode:?}: {said}");
        assert_eq!(fs::metadata(workdir.path().join("big")).unwrap().len(), 1 << 20, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_no_grandchild_escapes_from_a_sandbox() {
    adopt_orphans().unwrap();
    for mode in TIERS {
        let workdir = workdir();
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        for escape in [
            "(setsid S &); S",
            "nohup S >/dev/null 2>&1 & S",
            "(setsid bash -c '(env -i nohup setsid S </dev/null >/dev/null 2>&1 &)' &); S",
            "(bash -c 'ulimit -x unlimited; exec setsid S' >/dev/null 2>&1 &); S",
        ] {
            let time = unique_sleep();
            bench.start("c", "bash", json!({"command": escape.replace('S', &format!("sleep {time}"))}));
            eventually(escape, || sleepers(&time) >= 2).await;
            bench.cancel("c");
            assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
            assert_eq!(alive(&time), Vec::<u32>::new(), "{mode:?}: {escape}");
            // And when the command ends by itself.
            let hidden = escape.replace("; S", "").replace("& S", "&").replace('S', &format!("sleep {time}"));
            assert!(bash(&mut bench, &format!("{hidden}\necho done")).await.0.contains("done"));
            assert_eq!(alive(&time), Vec::<u32>::new(), "{mode:?}: {escape}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_work_goes_on() {
    for mode in TIERS {
        let (workdir, more) = (workdir(), workdir());
        fs::write(more.path().join("given"), "given").unwrap();
        let rules = SandboxRules { read: vec![more.path().to_owned()], ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        for good in [
            "ls / /usr/bin >/dev/null",
            "echo x > f && cat f | tr x y | grep -q y && rm f && mkdir -p a/b && mv a c",
            "printf x > \"$TMPDIR/t\" && test -s \"$TMPDIR/t\"",
            "cat <(echo a) > /dev/null; echo error >/dev/stderr; echo x | tee /dev/null",
            "python3 -c 'import json, subprocess, tempfile; tempfile.TemporaryFile(); subprocess.check_call([\"true\"])'",
            "cargo --version",
            "git init -q . && git config user.email a@b && git config user.name n && echo x > g && git add g && \
             git commit -qm one && test -z \"$(git status --porcelain)\"",
            "ps >/dev/null && test \"$(id -u)\" = \"$(stat -c %u .)\"",
            "set -m; sleep 0.01 & wait; timeout 5 true",
            "perl -e 'use threads; threads->create(sub {})->join' 2>/dev/null || true",
        ] {
            let (said, code) = bash(&mut bench, good).await;
            assert_eq!(code, Some(0), "{mode:?}: {good}: {said}");
        }
        let given = more.path().join("given");
        assert_eq!(bash(&mut bench, &format!("cat {}", given.display())).await.0, "given", "{mode:?}");
        assert_ne!(bash(&mut bench, &format!("echo x > {}", given.display())).await.1, Some(0), "{mode:?}");
        let rules = SandboxRules { write: vec![more.path().to_owned()], ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        assert_eq!(bash(&mut bench, &format!("echo x > {}", given.display())).await.1, Some(0), "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_bwrap_what_other_programs_run_is_neither_changed_nor_moved_away() {
    let workdir = workdir();
    let init =
        "git init -q . && git config user.email a@b && git config user.name n && mkdir -p .git/hooks .claude deploy";
    assert!(Command::new("sh").args(["-c", init]).current_dir(workdir.path()).status().unwrap().success());
    fs::write(workdir.path().join("deploy/prod.yaml"), "kept").unwrap();
    let config = fs::read_to_string(workdir.path().join(".git/config")).unwrap();
    let rules = SandboxRules { guarded: vec!["deploy/prod.yaml".to_owned()], ..SandboxRules::default() };
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Bwrap, rules)).await;
    for attack in [
        "echo x >> .git/config",
        "echo x > .git/hooks/pre-commit",
        "mv .git g; cp -r g .git; echo x >> .git/config; echo x > .git/hooks/pre-commit",
        "mv .git/hooks .git/h; mkdir .git/hooks; echo x > .git/hooks/pre-commit",
        "rm -rf .git .claude; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
        "mv .claude c; mkdir .claude; echo x > .claude/settings.json",
        "ln -s . l; mv l/.git g",
        "python3 -c 'import os; os.rename(\".git\", \"g\")'",
        "echo x > deploy/prod.yaml",
        "mv deploy/prod.yaml deploy/p; echo x > deploy/prod.yaml",
    ] {
        let (said, _) = bash(&mut bench, attack).await;
        let is_there = |path: &str| workdir.path().join(path).exists();
        assert!(is_there(".git/hooks") && !is_there("g") && !is_there("c"), "{attack}: {said}");
        assert!(!is_there(".git/hooks/pre-commit") && !is_there(".claude/settings.json"), "{attack}: {said}");
        assert_eq!(fs::read_to_string(workdir.path().join(".git/config")).unwrap(), config, "{attack}: {said}");
        assert_eq!(fs::read_to_string(workdir.path().join("deploy/prod.yaml")).unwrap(), "kept", "{attack}: {said}");
        // What the attack could take away is nothing that matters here.
        let again = Command::new("git").args(["init", "-q", "."]).current_dir(workdir.path()).status().unwrap();
        assert!(again.success());
    }
    let work = "echo x > g.txt && git add g.txt && git commit -qm one && git checkout -qb two && git gc -q";
    let (said, code) = bash(&mut bench, work).await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_granted_is_what_is_there_at_the_call() {
    for mode in TIERS {
        let workdir = workdir();
        let (cwd, hidden) = (workdir.path().join("work"), workdir.path().join("work/keys"));
        fs::create_dir(&cwd).unwrap();
        let mut bench = Bench::confined(&cwd, sandbox(mode, SandboxRules::default())).await;
        for number in 0..3 {
            // Another folder of the same name.
            fs::remove_dir_all(&cwd).unwrap();
            fs::create_dir(&cwd).unwrap();
            let (said, code) = bash(&mut bench, "touch new && test -e new").await;
            assert_eq!(code, Some(0), "{mode:?} {number}: {said}");
        }
        // Around something hidden, each thing is granted by itself: also one that has just come.
        let rules = SandboxRules { hidden: vec![hidden.clone()], ..SandboxRules::default() };
        let mut bench = Bench::confined(&cwd, sandbox(mode, rules)).await;
        fs::write(&hidden, "sekret-canary").unwrap();
        for number in 0..3 {
            fs::write(cwd.join(format!("file-{number}")), "given").unwrap();
            let (said, code) = bash(&mut bench, &format!("cat file-{number}; cat keys 2>/dev/null")).await;
            assert_eq!((said.contains("given"), said.contains("sekret")), (true, false), "{mode:?} {number}: {said}");
            assert_ne!(code, Some(0), "{mode:?} {number}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crate_with_a_dependency_is_built_offline() {
    // The one that this very test was built with. Not beneath another crate: cargo would want to read its settings.
    let workdir = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\nmemchr = \"2\"\n";
    fs::write(workdir.path().join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(workdir.path().join("src")).unwrap();
    fs::write(workdir.path().join("src/main.rs"), "fn main() { println!(\"{:?}\", memchr::memchr(b'b', b\"abc\")) }")
        .unwrap();
    let mut bench = Bench::confined(workdir.path(), plain(SandboxMode::Landlock)).await;
    let (said, code) = bash(&mut bench, "cargo run --offline --quiet").await;
    assert_eq!((said.as_str(), code), ("Some(1)\n", Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_files_are_one_runs_own_and_go_with_it() {
    for mode in [SandboxMode::Off, SandboxMode::Landlock, SandboxMode::Bwrap] {
        let workdir = workdir();
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        let (place, _) = bash(&mut bench, "echo x > $TMPDIR/kept; mkdir $TMPDIR/folder; echo $TMPDIR").await;
        assert_eq!(bash(&mut bench, "cat $TMPDIR/kept").await.0, "x\n", "{mode:?}: it stays for the run");
        let mut other = Bench::confined(workdir.path(), plain(mode)).await;
        assert_ne!(bash(&mut other, "cat $TMPDIR/kept").await.1, Some(0), "{mode:?}: it is nobody else's");
        bench.executor.stop(None);
        if mode != SandboxMode::Bwrap {
            eventually("its end", || !Path::new(place.trim()).exists()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tier_that_does_not_work_here_runs_nothing() {
    let workdir = workdir();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["asks_for_bwrap_where_there_is_none", "--exact", "--ignored", "--nocapture"]);
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
