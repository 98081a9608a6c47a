//! What Landlock has no rule for: a file's mode, owner, times and attributes; priorities; marks. Each call is answered by
//! the supervisor, so it must do beneath the working directory what it does without a sandbox, and nothing elsewhere.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{Bench, text, unique_sleep};
use playhouse_protocol::SandboxMode;
use playhouse_tools::{Sandbox, SandboxRules};
use serde_json::json;

/// Every call there is that changes a file otherwise than by opening it, on `f`, a file; `l`, a link to it; and `d`, a
/// folder. Tells what each gave and how the file is then.
const CALLS: &str = r#"
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
f, l, d = sys.argv[1:4]
fd, path, folder = os.open(f, os.O_RDONLY), os.open(f, os.O_PATH), os.open(d, os.O_RDONLY)
parent, name = os.path.split(f)
near = os.open(parent or '.', os.O_RDONLY)
def raw(number, *arguments):
    ctypes.set_errno(0)
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def longs(*numbers): return (ctypes.c_long * len(numbers))(*numbers)
me, us = os.getuid(), os.getgid()
F, E = f.encode(), b''
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2
x86 = platform.machine() == 'x86_64'
calls = {
    'chmod': lambda: os.chmod(f, 0o640),
    'chmod link': lambda: os.chmod(l, 0o641),
    'chmod folder': lambda: os.chmod(d, 0o2750),
    'fchmod': lambda: os.chmod(fd, 0o604),
    'fchmodat': lambda: os.chmod(name, 0o605, dir_fd=near),
    'chmod of a descriptor by its name': lambda: os.chmod('/proc/self/fd/%d' % fd, 0o601),
    'chmod of a descriptor by another name': lambda: os.chmod('/dev/fd/%d' % fd, 0o600),
    'chmod of a path descriptor': lambda: os.chmod('/proc/thread-self/fd/%d' % path, 0o602),
    'fchmodat2 empty': lambda: raw(452, path, E, 0o603, 0x1000),
    'fchmodat2 nothing': lambda: raw(452, path, E, 0o607, 0),
    'fchmodat2 link itself': lambda: raw(452, -100, l.encode(), 0o777, 0x100),
    'chmod too long': lambda: os.chmod('x' * 5000, 0o600),
    'chmod nowhere': lambda: os.chmod(f + '.none', 0o600),
    'chmod bad address': lambda: raw(90 if x86 else 53, *((1, 0o600) if x86 else (-100, 1, 0o600))),
    'fchmod bad descriptor': lambda: os.chmod(99, 0o600),
    'fchmodat bad descriptor': lambda: os.chmod(name, 0o600, dir_fd=99),
    'chown': lambda: os.chown(f, me, us),
    'chown nothing': lambda: os.chown(f, -1, -1),
    'lchown': lambda: os.lchown(l, me, us),
    'fchown': lambda: os.chown(fd, me, us),
    'fchownat': lambda: os.chown(name, me, -1, dir_fd=near),
    'utimensat': lambda: os.utime(f, ns=(1_000_000_007, 2_000_000_009)),
    'utimensat link': lambda: os.utime(l, ns=(3_000_000_007, 4_000_000_009)),
    'utimensat link itself': lambda: os.utime(l, ns=(5, 6), follow_symlinks=False),
    'futimens': lambda: os.utime(fd, ns=(7_000_000_000, 8_000_000_001)),
    'utimensat in a folder': lambda: os.utime(name, ns=(9_000_000_000, 1_000_000_001), dir_fd=near),
    'utimensat omit': lambda: raw(280 if x86 else 88, -100, F, longs(0, OMIT, 77, 5), 0),
    'utimensat bad number': lambda: raw(280 if x86 else 88, -100, F, longs(0, 1 << 40, 77, 5), 0),
    'utimensat empty': lambda: raw(280 if x86 else 88, path, E, longs(5, 6, 7, 8), 0x1000),
    'setxattr': lambda: os.setxattr(f, 'user.one', b'first'),
    'setxattr again': lambda: os.setxattr(f, 'user.one', b'other', os.XATTR_CREATE),
    'fsetxattr': lambda: os.setxattr(fd, 'user.two', b'second'),
    'setxattr link': lambda: os.setxattr(l, 'user.three', b''),
    'setxattr link itself': lambda: os.setxattr(l, 'user.four', b'x', follow_symlinks=False),
    'setxattr long name': lambda: os.setxattr(f, 'user.' + 'x' * 300, b'x'),
    'removexattr': lambda: os.removexattr(f, 'user.one'),
    'fremovexattr': lambda: os.removexattr(fd, 'user.two'),
    'removexattr none': lambda: os.removexattr(f, 'user.none'),
}
if x86:
    calls |= {
        'old chown': lambda: raw(92, F, me, us),
        'old utime': lambda: raw(132, F, longs(11, 12)),
        'old utimes': lambda: raw(235, F, longs(13, 14, 15, 16)),
        'old utimes bad number': lambda: raw(235, F, longs(13, 1_000_000, 15, 16)),
        'old futimesat': lambda: raw(261, near, name.encode(), longs(17, 18, 19, 20)),
    }
if 'Denied' not in sys.argv:
    for each in (f, l): os.utime(each, ns=(1, 1), follow_symlinks=False)
for call, run in calls.items():
    try:
        run(); gave = 'done'
    except OSError as error:
        gave = errno.errorcode[error.errno]
    s = os.lstat(f)
    print(call, '|', gave, '|', oct(s.st_mode), s.st_uid == me, s.st_gid == us, s.st_mtime_ns, sorted(os.listxattr(f)),
          oct(os.stat(d).st_mode), os.lstat(l).st_mtime_ns if 'link' in call else '')
if 'Denied' not in sys.argv:
    os.utime(f); print(os.stat(f).st_mtime_ns > 1_000_000_000_000_000_000)
"#;

fn sandbox(mode: SandboxMode) -> Sandbox {
    Sandbox { mode, rules: Arc::new(SandboxRules::default()) }
}

fn workdir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

async fn bash(bench: &mut Bench, command: &str) -> (String, Option<i64>) {
    let answer = bench.run("bash", json!({"command": command, "timeout_ms": 60_000})).await;
    let code = answer.as_ref().expect("a result").details["exit_code"].as_i64();
    (text(&answer), code)
}

fn put_files_into(folder: &Path) {
    fs::write(folder.join("calls.py"), CALLS).unwrap();
    fs::write(folder.join("f"), "text").unwrap();
    fs::set_permissions(folder.join("f"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("f", folder.join("l")).unwrap();
    fs::create_dir(folder.join("d")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beneath_the_working_directory_files_are_changed_as_without_a_sandbox() {
    let mut seen = Vec::new();
    for mode in [SandboxMode::Off, SandboxMode::Landlock] {
        let workdir = workdir();
        put_files_into(workdir.path());
        let mut bench = Bench::confined(workdir.path(), sandbox(mode)).await;
        let (said, code) = bash(&mut bench, "python3 calls.py f l d; python3 calls.py $PWD/f $PWD/l $PWD/d").await;
        assert_eq!(code, Some(0), "{mode:?}: {said}");
        assert!(said.contains("fchmodat2 empty | done | 0o100603"), "{mode:?}: {said}");
        seen.push(said);
    }
    for (without, within) in seen[0].lines().zip(seen[1].lines()) {
        assert_eq!(without, within);
    }
    assert_eq!(seen[0], seen[1]);
}

/// Mode, owner, times, attributes: whatever can be changed of a file.
fn state(path: &Path) -> String {
    let seen = fs::symlink_metadata(path).unwrap();
    let names = Command::new("getfattr").args(["-h", "-d", "-m", "-"]).arg(path).output().map(|out| out.stdout);
    let owner = (seen.uid(), seen.gid());
    format!("{:o} {owner:?} {:?} {:?}", seen.mode(), (seen.mtime(), seen.mtime_nsec()), names.ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elsewhere_nothing_is_changed() {
    let (workdir, outside) = (workdir(), workdir());
    put_files_into(outside.path());
    put_files_into(workdir.path());
    for name in ["f", "d"] {
        let link = workdir.path().join(format!("to-{name}"));
        std::os::unix::fs::symlink(outside.path().join(name), link).unwrap();
    }
    std::os::unix::fs::symlink(outside.path(), workdir.path().join("out")).unwrap();
    let rules = SandboxRules { read: vec![outside.path().to_owned()], ..SandboxRules::default() };
    let sandbox = Sandbox { mode: SandboxMode::Landlock, rules: Arc::new(rules) };
    let mut bench = Bench::confined(workdir.path(), sandbox).await;
    let before: Vec<String> = ["f", "l", "d", ""].iter().map(|name| state(&outside.path().join(name))).collect();
    let out = outside.path().display();
    for names in [format!("{out}/f {out}/l {out}/d"), "to-f to-f to-d".to_owned(), "out/f out/l out/d".to_owned()] {
        let (said, _) = bash(&mut bench, &format!("python3 calls.py {names} Denied")).await;
        for line in said.lines().filter(|line| line.contains(" | ")) {
            let [call, gave, _] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
            // A link in the working directory is its own to change.
            let is_own_link = names.starts_with("to-") && (call.contains("link itself") || call == "lchown");
            let is_no_file =
                ["bad descriptor", "bad address", "nowhere", "too long", "nothing", "long name", "bad number"];
            let is_harmless = is_no_file.iter().any(|kind| call.contains(kind)) && call != "chown nothing";
            assert!(is_own_link || is_harmless || gave == "EPERM", "{names}: {line}");
        }
        assert!(said.contains("chmod | EPERM") && said.contains("setxattr | EPERM"), "{said}");
    }
    // What leads to the file by another way: a descriptor of its folder, the root, what others have open.
    let me = std::process::id();
    for attack in [
        format!("chmod 777 /proc/self/root{out}/f"),
        format!("cd {out} && chmod 777 f ./f ../{}/f", outside.path().file_name().unwrap().display()),
        format!("exec 5<{out}/f; chmod 777 /proc/$$/fd/5 /dev/fd/5"),
        format!("exec 5<{out}/f; ln -s /proc/self/fd/5 five; chmod 777 five"),
        format!("for i in $(seq 0 200); do ln -sfn /proc/self/fd/$i any; chmod 777 any /proc/{me}/fd/$i; done"),
        format!("cp --preserve=all f {out}/f; touch -r f {out}/f; touch {out}/f"),
        format!("ln {out}/f hard; chmod 777 hard"),
        format!("chattr +d {out}/f; setfacl -m u::rwx {out}/f; setfattr -n user.x -v y {out}/f; chgrp -h 0 {out}/l"),
        "chmod 700 /; chmod 777 /etc/passwd /dev/null; chmod 777 ~ ~/.ssh".to_owned(),
    ] {
        let (said, _) = bash(&mut bench, &attack).await;
        let after: Vec<String> = ["f", "l", "d", ""].iter().map(|name| state(&outside.path().join(name))).collect();
        assert_eq!(after, before, "{attack}: {said}");
    }
    assert_eq!(fs::metadata("/dev/null").unwrap().mode() & 0o777, 0o666);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_elsewhere_in_the_meantime_leads_nowhere() {
    let (workdir, outside) = (workdir(), workdir());
    put_files_into(outside.path());
    let before = state(&outside.path().join("f"));
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Landlock)).await;
    let race = r#"
import os, sys, threading
out = sys.argv[1]
os.mkdir('real'); open('real/f', 'w').close()
os.symlink(out, 'away')
os.mkdir('a'); os.symlink('../real', 'a/x'); os.mkdir('b'); os.symlink(out, 'b/x')
done = False
def swap():
    while not done:
        os.symlink('real', 'n'); os.rename('n', 'name')
        os.symlink(out, 'n'); os.rename('n', 'name')
os.symlink('real', 'name')
threading.Thread(target=swap).start()
went = refused = 0
for i in range(4000):
    try:
        os.chmod('name/f', 0o777); os.utime('name/f', ns=(1, 1)); went += 1
    except OSError:
        refused += 1
done = True
print(went > 0, refused > 0)
"#;
    fs::write(workdir.path().join("race.py"), race).unwrap();
    let (said, code) = bash(&mut bench, &format!("python3 race.py {}", outside.path().display())).await;
    assert_eq!((said.as_str(), code), ("True True\n", Some(0)));
    assert_eq!(state(&outside.path().join("f")), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_threads_and_signals_get_their_answers() {
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Landlock)).await;
    let crowd = r#"
import os, signal, subprocess, threading
signal.signal(signal.SIGALRM, lambda *_: None)
# As most programs have it: a call that a signal interrupts is made again.
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def work(name):
    open(name, 'w').close()
    for i in range(300):
        os.chmod(name, 0o600 | i % 8); os.utime(name, ns=(i, i))
threads = [threading.Thread(target=work, args=('t%d' % i,)) for i in range(8)]
for t in threads: t.start()
for i in range(8):
    if os.fork() == 0:
        signal.setitimer(signal.ITIMER_REAL, 0); work('p%d' % i); os._exit(0)
for t in threads: t.join()
signal.setitimer(signal.ITIMER_REAL, 0)
for i in range(8): os.wait()
# One that is killed while it waits for its answer.
for i in range(30):
    p = subprocess.Popen(['bash', '-c', ': > k; while :; do chmod 600 k; done'])
    p.kill(); p.wait()
print(sorted({oct(os.stat(n).st_mode & 0o777) + str(os.stat(n).st_mtime_ns) for n in os.listdir() if n[0] in 'tp'}))
"#;
    fs::write(workdir.path().join("crowd.py"), crowd).unwrap();
    let (said, code) = bash(&mut bench, "python3 crowd.py").await;
    assert_eq!((said.as_str(), code), ("['0o603299']\n", Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priorities_are_the_callers_own_alone() {
    let mut sleeping = Command::new("sleep");
    sleeping.arg(unique_sleep()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut other = sleeping.spawn().unwrap();
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Landlock)).await;
    let own = "python3 -c 'import os, threading as t; os.setpriority(0, 0, 3); os.setpriority(0, os.getpid(), 4); \
               os.sched_setaffinity(0, {0}); os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)); \
               x = t.Thread(target=lambda: os.sched_setaffinity(t.get_native_id(), {0})); x.start(); x.join()' \
               && nice -n 5 true && ionice -c 3 true && taskset -c 0 true && echo done";
    assert_eq!(bash(&mut bench, own).await, ("done\n".to_owned(), Some(0)));
    for pid in [other.id(), std::process::id()] {
        for attack in [
            format!("renice -n 19 -p {pid}"),
            format!("taskset -p 1 {pid}"),
            format!("ionice -c 3 -p {pid}"),
            format!("chrt --batch -p 0 {pid}"),
            format!("python3 -c 'import os; os.setpriority(os.PRIO_PGRP, os.getpgid({pid}), 19)'"),
            "python3 -c 'import os; os.setpriority(os.PRIO_USER, os.getuid(), 19)'".to_owned(),
            "python3 -c 'import os; os.setpriority(os.PRIO_PGRP, 0, 19)'".to_owned(),
        ] {
            let (said, code) = bash(&mut bench, &attack).await;
            assert_ne!(code, Some(0), "{attack}: {said}");
            assert!(said.contains("not permitted"), "{attack}: {said}");
        }
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_keeps_its_mark() {
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Landlock)).await;
    let (mark, _) = bash(&mut bench, "ulimit -S -x").await;
    assert!(mark.trim().parse::<u64>().is_ok_and(|mark| mark & (1 << 62) != 0), "{mark}");
    for shed in ["ulimit -S -x unlimited", "ulimit -H -x 7", "ulimit -x 0", "prlimit --locks=5 true"] {
        let (said, _) =
            bash(&mut bench, &format!("{shed}; test $(ulimit -S -x) -gt 4000000000000000000 && echo kept")).await;
        assert!(said.contains("not permitted") && said.contains("kept\n"), "{shed}: {said}");
    }
    // Its own, again, is no change; and all other limits are as they were.
    let (said, code) = bash(&mut bench, "ulimit -S -x $(ulimit -S -x) && ulimit -n 64 && ulimit -n").await;
    assert_eq!((said.as_str(), code), ("64\n", Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_shared_with_everyone() {
    let workdir = workdir();
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Landlock)).await;
    for attack in ["ipcmk -M 4096", "ipcmk -S 1", "ipcmk -Q"] {
        let (said, code) = bash(&mut bench, attack).await;
        assert!(code != Some(0) && said.contains("not permitted"), "{attack}: {said}");
    }
}

/// Known, not guessed: these commands print nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_said_though_the_command_is_silent() {
    let (workdir, outside) = (workdir(), workdir());
    put_files_into(outside.path());
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Landlock)).await;
    let file = outside.path().join("f").canonicalize().unwrap();
    for (command, line) in [
        (
            format!("chmod 777 {} 2>/dev/null", file.display()),
            format!("(sandbox: {} may not be changed", file.display()),
        ),
        ("python3 -c 'import socket; socket.socket()' 2>/dev/null".to_owned(), "(sandbox: no network here".to_owned()),
    ] {
        let (said, code) = bash(&mut bench, &command).await;
        assert!(code != Some(0) && said.contains(&line), "{command}: {said}");
        // It belongs to that call alone.
        let (said, _) = bash(&mut bench, "exit 3").await;
        assert!(!said.contains("(sandbox: "), "{said}");
    }
    // Also to one that tries again until its time is over.
    let stubborn = "echo begun; python3 -c 'import socket, time\nwhile True:\n  try: socket.socket()\n  except OSError: time.sleep(0.01)'";
    let late = text(&bench.run("bash", json!({"command": stubborn, "timeout_ms": 3_000})).await);
    assert!(late.starts_with("begun\nstopped: it ran for more than 3s\n(sandbox: no network here"), "{late}");
    // And to nobody who only speaks of it.
    assert!(!bash(&mut bench, "echo 'Connection refused' >&2; exit 1").await.0.contains("(sandbox: "));
    let local = "python3 -c 'import socket; socket.socket(socket.AF_UNIX)' 2>/dev/null";
    assert!(!bash(&mut bench, local).await.0.contains("network"));
}
