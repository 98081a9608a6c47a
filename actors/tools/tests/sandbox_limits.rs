//! What a call has, in numbers and to the end: memory that no process has mapped, and daemons that nothing names.
//!
//! Each is tried as whoever runs the tests and, where that is root, as an ordinary user too, who can make no control groups.

mod common;

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use common::{Answer, Bench, alive, eventually, text, unique_sleep};
use playhouse_protocol::{SandboxMode, ToolError};
use playhouse_tools::{ProcessLimits, Sandbox, SandboxRules, adopt_orphans, default_tools, kill_leftovers};
use serde_json::json;

const TIERS: [SandboxMode; 2] = [SandboxMode::Landlock, SandboxMode::Bwrap];
/// Nobody's.
const USER: u32 = 12_345;
const MEBIBYTE: u64 = 1 << 20;

fn sandbox(mode: SandboxMode, memory: u64) -> Sandbox {
    let limits = ProcessLimits { memory, ..ProcessLimits::default() };
    Sandbox { mode, rules: Arc::new(SandboxRules { limits, ..SandboxRules::default() }) }
}

/// A folder to work in: one that was made for this process, or a new one.
fn workdir() -> tempfile::TempDir {
    let within = std::env::var_os("TEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    tempfile::tempdir_in(within).unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs one of the ignored tests below in a process of its own.
fn other_process(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Has an ignored test pass as an ordinary user.
fn passes_as_an_ordinary_user(test: &str) {
    let folder = workdir();
    let mut command = other_process(test);
    // Temporary files are in a folder of the house's name, which is its user's.
    command.env("TEST_DIR", folder.path()).env("HOME", folder.path()).env("TMPDIR", folder.path());
    if is_root() {
        chown(folder.path(), Some(USER), Some(USER)).unwrap();
        command.uid(USER).gid(USER);
    }
    let out = command.current_dir("/").output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.contains("1 passed"), "{said}\n{errors}");
}

async fn bash(bench: &mut Bench, command: &str) -> Answer {
    bench.run("bash", json!({"command": command, "timeout_ms": 50_000})).await
}

/// Which limit ended a command.
async fn limit_of(bench: &mut Bench, command: &str) -> String {
    let answer = bash(bench, command).await;
    let limit = answer.as_ref().map(|result| result.details["limit"].as_str().unwrap_or("none").to_owned());
    limit.unwrap_or_else(|error| format!("{error:?}"))
}

/// Writes `$1` mebibytes to a file without a name, `$2` of which it maps, and waits for `$3` seconds. `copy` writes as
/// much to a copy of its own besides.
const MEMFD: &str = r#"hog() { python3 -c '
import mmap, os, sys, time
size, mapped = int(sys.argv[1]), int(sys.argv[2])
file = os.memfd_create("hog")
for _ in range(size): os.write(file, bytes(1 << 20))
if mapped: sum(mmap.mmap(file, mapped << 20)[::4096])
time.sleep(int(sys.argv[3]))' "$@"; }
copy() { python3 -c '
import mmap, os, sys, time
size = int(sys.argv[1]) << 20
file = os.memfd_create("copy")
os.ftruncate(file, size)
own = mmap.mmap(file, size, flags=mmap.MAP_PRIVATE)
for at in range(0, size, 4096): own[at] = 1
time.sleep(60)' "$@"; }
"#;

/// Fills 400 MiB of segments, one after the other, lets go of each and waits.
const SEGMENT: &str = r#"python3 -c '
import ctypes, time
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(40):
    at = libc.shmat(libc.shmget(0, 10 << 20, 0o1600), None, 0)
    ctypes.memset(ctypes.c_void_p(at), 1, 10 << 20)
    libc.shmdt(ctypes.c_void_p(at))
time.sleep(60)'"#;

async fn memory_by_memfd_is_bounded() {
    for mode in TIERS {
        let workdir = workdir();
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, 200 * MEBIBYTE)).await;
        for hog in ["hog 400 0 60", "hog 150 0 60 & hog 150 0 60 & wait", "copy 150"] {
            let limit = limit_of(&mut bench, &format!("{MEMFD}{hog}")).await;
            assert_eq!(limit, "memory", "{mode:?}: {hog}");
        }
        // What is mapped as well is counted once; so is what two have open. The files of a disk are nobody's memory.
        let modest = "hog 150 150 1 && head -c 400M /dev/zero > big && cat big > /dev/null && rm big && echo done";
        assert_eq!(text(&bash(&mut bench, &format!("{MEMFD}{modest}")).await), "done\n", "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_memory_that_no_process_has_mapped_is_bounded() {
    memory_by_memfd_is_bounded().await;
}

#[test]
fn f20_memory_that_no_process_has_mapped_is_bounded_for_an_ordinary_user() {
    passes_as_an_ordinary_user("an_ordinary_user_writes_memory");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above"]
async fn an_ordinary_user_writes_memory() {
    memory_by_memfd_is_bounded().await;
}

/// Shared memory has a size in the strict tier, whoever runs it; what is in it is counted where there is a control group.
async fn shared_memory_is_bounded() {
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Bwrap, 200 * MEBIBYTE)).await;
    let answer = bash(&mut bench, "head -c 400M /dev/zero > /dev/shm/big; stat -c %s /dev/shm/big").await.unwrap();
    let size = text(&Ok(answer.clone()));
    let size = size.lines().find_map(|line| line.trim().parse::<u64>().ok());
    let is_bounded = answer.details["limit"] == "memory" || size.is_some_and(|size| size <= 200 * MEBIBYTE);
    assert!(is_bounded, "{answer:?}");
    // No other folder of its own can be written without a bound.
    for folder in ["/dev", "/", "/run", "/proc"] {
        let said = text(&bash(&mut bench, &format!("touch {folder}/new 2>&1 || echo refused")).await);
        assert!(said.contains("refused"), "{folder}: {said}");
    }
    let said = text(&bash(&mut bench, "echo x | tee /dev/null /dev/shm/a > /tmp/b; cat /dev/shm/a /tmp/b").await);
    assert_eq!(said, "x\nx\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_files_in_memory_are_bounded() {
    shared_memory_is_bounded().await;
}

#[test]
fn f20_files_in_memory_are_bounded_for_an_ordinary_user() {
    passes_as_an_ordinary_user("an_ordinary_user_writes_files_in_memory");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above"]
async fn an_ordinary_user_writes_files_in_memory() {
    shared_memory_is_bounded().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_a_segment_that_nobody_has_attached_is_counted_where_a_group_can_be_made() {
    if !is_root() {
        return;
    }
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Bwrap, 200 * MEBIBYTE)).await;
    assert_eq!(limit_of(&mut bench, SEGMENT).await, "memory");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_call_left_in_memory_is_not_counted_for_the_next() {
    // A working directory whose files are memory.
    let workdir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Landlock, 200 * MEBIBYTE)).await;
    for name in ["a", "b", "c"] {
        let command = format!("head -c 150M /dev/zero > {name}; sleep 0.3; echo done");
        assert_eq!(text(&bash(&mut bench, &command).await), "done\n", "{name}");
    }
}

/// A daemon: two forks, a session of its own, no environment, not to be looked into. `TIME` is how it is found, `SHED` what
/// else it does first. The command goes on when it sits there.
const DAEMON: &str = r#"env -i bash -c 'SHED exec perl -e "use POSIX; fork and exit; setsid; fork and exit; syscall(157, 4, 0, 0, 0, 0);
    open my \$ready, q(>), q(ready); close \$ready; sleep 7777" TIME' </dev/null >/dev/null 2>&1
until [ -e ready ]; do sleep 0.01; done; rm ready; "#;

fn daemon(time: &str, shed: &str, then: &str) -> String {
    DAEMON.replace("SHED", shed).replace("TIME", time) + then
}

/// However its call ends, a daemon ends with it.
async fn a_daemon_dies_with_its_call(modes: &[SandboxMode], shed: &str) {
    adopt_orphans().unwrap();
    for mode in modes {
        let workdir = workdir();
        let mut bench = Bench::confined(workdir.path(), sandbox(*mode, 1 << 30)).await;
        let time = unique_sleep();
        let answer = bash(&mut bench, &daemon(&time, shed, "touch there; echo done")).await;
        assert_eq!(text(&answer), "done\n", "{mode:?}");
        assert_eq!(alive(&time), Vec::<u32>::new(), "{mode:?}: after its call");
        let there = workdir.path().join("there");
        let begin = async |bench: &Bench| {
            fs::remove_file(&there).unwrap();
            bench.start("c", "bash", json!({"command": daemon(&time, shed, "touch there; sleep 7777")}));
            eventually("the daemon", || there.exists()).await;
            assert!(!alive(&time).is_empty(), "{mode:?}");
        };
        begin(&bench).await;
        bench.cancel("c");
        assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
        assert_eq!(alive(&time), Vec::<u32>::new(), "{mode:?}: cancelled");
        begin(&bench).await;
        bench.executor.kill();
        eventually("the executor's end", || bench.executor.get_status() == ractor::ActorStatus::Stopped).await;
        tokio::time::timeout(common::DEADLINE, bench.runtime.settled()).await.unwrap();
        assert_eq!(alive(&time), Vec::<u32>::new(), "{mode:?}: dismissed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_a_daemon_that_sheds_every_mark_dies_with_its_call() {
    let modes = if is_root() { &[SandboxMode::Landlock, SandboxMode::Bwrap, SandboxMode::Off][..] } else { &TIERS };
    a_daemon_dies_with_its_call(modes, "ulimit -x unlimited;").await;
}

#[test]
fn f14_a_daemon_of_an_ordinary_user_dies_with_its_call() {
    passes_as_an_ordinary_user("an_ordinary_user_starts_a_daemon");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above"]
async fn an_ordinary_user_starts_a_daemon() {
    a_daemon_dies_with_its_call(&TIERS, "").await;
    a_daemon_dies_with_its_call(&[SandboxMode::Bwrap], "ulimit -x unlimited;").await;
}

#[test]
fn f14_a_daemon_of_an_ordinary_user_cannot_shed_its_last_mark() {
    passes_as_an_ordinary_user("an_ordinary_user_starts_a_daemon_without_marks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above"]
async fn an_ordinary_user_starts_a_daemon_without_marks() {
    a_daemon_dies_with_its_call(&TIERS, "ulimit -x unlimited;").await;
}

/// A house in a process of its own; it ends with its test, also one that fails, and so does all it started.
struct OtherHouse {
    process: std::process::Child,
    node: String,
}

impl OtherHouse {
    fn start(node: &str, mode: &str, time: &str, folder: &Path) -> Self {
        let mut command = other_process("a_house_with_a_daemon");
        command.env("TEST_NODE", node).env("TEST_TIER", mode).env("TEST_TIME", time).env("TEST_DIR", folder);
        Self { process: command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), node: node.to_owned() }
    }

    fn die(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for OtherHouse {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        kill_leftovers(&[&self.node]);
    }
}

async fn ends_what_died(mode: &str) {
    let (time, kept) = (unique_sleep(), unique_sleep());
    let (folder, other) = (workdir(), workdir());
    let (node, name) = (format!("dead-{mode}-{}", std::process::id()), format!("live-{mode}-{}", std::process::id()));
    let mut house = OtherHouse::start(&node, mode, &time, folder.path());
    let _alive = OtherHouse::start(&name, mode, &kept, other.path());
    eventually("daemons", || folder.path().join("there").exists() && other.path().join("there").exists()).await;
    house.die();
    let ended = move |node: String| tokio::task::spawn_blocking(move || kill_leftovers(&[&node]));
    assert_eq!(ended(format!("{node}-not")).await.unwrap(), 0);
    // Bubblewrap's own die with their house.
    assert!(mode == "bwrap" || !alive(&time).is_empty(), "{mode}: nobody was there to end it");
    ended(node).await.unwrap();
    assert_eq!(alive(&time), Vec::<u32>::new(), "{mode}");
    assert!(!alive(&kept).is_empty(), "{mode}: a live house's daemon is left alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_a_daemon_without_marks_is_found_after_its_house_was_killed() {
    for mode in if is_root() { &["landlock", "bwrap", "off"][..] } else { &["bwrap"] } {
        ends_what_died(mode).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is killed by the test above"]
async fn a_house_with_a_daemon() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let mode = match variable("TEST_TIER").as_str() {
        "landlock" => SandboxMode::Landlock,
        "bwrap" => SandboxMode::Bwrap,
        _ => SandboxMode::Off,
    };
    adopt_orphans().unwrap();
    let folder = PathBuf::from(variable("TEST_DIR"));
    let bench = Bench::with(default_tools(), &variable("TEST_NODE"), folder, sandbox(mode, 1 << 30)).await;
    let command = daemon(&variable("TEST_TIME"), "ulimit -x unlimited;", "touch there; sleep 7777");
    bench.start("c", "bash", json!({"command": command}));
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn what_a_call_costs() {
    for mode in TIERS {
        let workdir = workdir();
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, 1 << 30)).await;
        for _ in 0..3 {
            let begun = Instant::now();
            for _ in 0..200 {
                bash(&mut bench, "true").await.unwrap();
            }
            println!("{mode:?}: 200 calls of true: {:?} each", begun.elapsed() / 200);
        }
    }
}
