//! What is around the sandbox, and whether an attack has changed it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use playhouse_tools::{ProcessLimits, SandboxRules};

use crate::common::stat;

/// What nobody in a sandbox may read.
pub const CANARY: &str = "sekret-canary";

/// The files around the sandbox, from the folder that holds all of it, with their modes.
const FILES: [(&str, u32); 9] = [
    ("outside/kept", 0o640),
    ("outside/folder/inner", 0o600),
    ("home/.ssh/id", 0o600),
    ("home/.aws/credentials", 0o600),
    ("home/.netrc", 0o600),
    ("home/.config/playhouse/config.toml", 0o600),
    ("home/.local/share/playhouse/journal", 0o600),
    ("home/notes", 0o644),
    // What the sandbox grants to read.
    ("home/.rustup/tool", 0o644),
];

/// Makes the home directory of a house, with the keys that are in one.
pub fn home(place: &Path) -> PathBuf {
    furnish(place);
    place.join("home")
}

/// Makes the files around the sandbox, or mends them.
fn furnish(place: &Path) {
    for (name, mode) in FILES {
        let path = place.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = if name.ends_with("tool") { "toolchain" } else { CANARY };
        if fs::read_to_string(&path).is_ok_and(|found| found == content) {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        } else {
            let _ = fs::remove_file(&path);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    for (folder, mode) in [("outside", 0o750), ("outside/folder", 0o750), ("home/.ssh", 0o700)] {
        fs::set_permissions(place.join(folder), fs::Permissions::from_mode(mode)).unwrap();
    }
    let _ = symlink("kept", place.join("outside/link"));
}

/// A python program from a script, for a shell.
pub fn python(script: &str) -> String {
    format!("exec \"$PYTHON\" -IS - <<'ATTACK'\n{PRELUDE}\n{script}\nATTACK")
}

const PRELUDE: &str = r#"
import ctypes, errno, fcntl, mmap, os, signal, socket, stat, struct, sys, threading, time
OUT, HOME, TOOL, NAME, PTS = (os.environ[name] for name in ("OUT", "HOME", "TOOL", "NAME", "PTS"))
HOUSE, VICTIM, KEY, PORT, UDP = (int(os.environ[name]) for name in ("HOUSE", "VICTIM", "KEY", "PORT", "UDP"))
libc = ctypes.CDLL(None, use_errno=True)
IS_X86 = os.uname().machine == "x86_64"
def call(x86, aarch64, *arguments):
    """A system call by its number. Where the machine has none, it is taken for refused."""
    number = x86 if IS_X86 else aarch64
    if number is None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    got = libc.syscall(number, *[ctypes.c_long(given) if isinstance(given, int) else given for given in arguments])
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
"#;

/// A process of the user's, with a terminal. For every line that it reads it tells what others could have done to it.
const WITNESS: &str = r#"
import ctypes, os, resource, signal, sys
signals = []
signal.signal(signal.SIGWINCH, lambda *_: signals.append("signal"))
keyboard, terminal = os.openpty()
os.set_blocking(keyboard, False)
libc = ctypes.CDLL(None)
print(os.ttyname(terminal), flush=True)
limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
for line in sys.stdin:
    for path in line.split():
        try: os.getxattr(path, "user.kept")
        except OSError: os.setxattr(path, "user.kept", b"kept")
    try: shown = os.read(keyboard, 1000)
    except OSError: shown = b""
    priority = libc.syscall(252 if os.uname().machine == "x86_64" else 31, 1, 0)
    print((shown, signals, os.getpriority(0, 0), sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0), priority,
           os.getcwd(), [resource.getrlimit(getattr(resource, name)) for name in limits],
           open("/proc/self/oom_score_adj").read(), open("/proc/self/comm").read()), flush=True)
"#;

pub struct World {
    place: PathBuf,
    python: &'static str,
    /// What attacks name things by that they make outside.
    name: String,
    key: u32,
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
    abstract_unix: UnixListener,
    witness: Child,
    /// Dropping it ends the witness.
    ask: ChildStdin,
    told: BufReader<ChildStdout>,
    terminal: String,
    before: BTreeMap<String, String>,
}

impl World {
    /// The world of this process: around its home directory.
    pub fn new() -> Self {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        let place = home.parent().unwrap().canonicalize().unwrap();
        let name = format!("playhouse-was-here-{}", std::process::id());
        // What comes first on the path may be a script that looks for the real one: that takes long.
        let python = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
        let mut witness = Command::new(python);
        witness.args(["-IS", "-c", WITNESS]).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut witness = witness.spawn().unwrap();
        let (ask, mut told) = (witness.stdin.take().unwrap(), BufReader::new(witness.stdout.take().unwrap()));
        let mut terminal = String::new();
        told.read_line(&mut terminal).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let mut world = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            unix: UnixListener::bind(place.join("outside/socket")).unwrap(),
            abstract_unix: UnixListener::bind_addr(&address).unwrap(),
            key: 0x5000_0000 + std::process::id(),
            terminal: terminal.trim().to_owned(),
            before: BTreeMap::new(),
            place,
            python,
            name,
            witness,
            ask,
            told,
        };
        world.tcp.set_nonblocking(true).unwrap();
        world.udp.set_nonblocking(true).unwrap();
        world.unix.set_nonblocking(true).unwrap();
        world.abstract_unix.set_nonblocking(true).unwrap();
        world.clear();
        world.look();
        world.before = world.look();
        world
    }

    /// Where commands work.
    pub fn cwd(&self) -> PathBuf {
        self.place.join("work")
    }

    /// Limits that are soon reached.
    pub fn rules(&self) -> SandboxRules {
        let limits = ProcessLimits { processes: 50, memory: 200 << 20, file: 1 << 20 };
        SandboxRules { limits, ..SandboxRules::default() }
    }

    /// What attacks are told, as a shell sets it.
    pub fn variables(&self, mark: &str) -> String {
        let place = self.place.display();
        format!(
            "export OUT={place}/outside TOOL={place}/home/.rustup/tool HOUSE={} VICTIM={} MARK={mark} NAME={} KEY={} \
             PORT={} UDP={} PTS={} PYTHON={}",
            std::process::id(),
            self.witness.id(),
            self.name,
            self.key,
            self.tcp.local_addr().unwrap().port(),
            self.udp.local_addr().unwrap().port(),
            self.terminal,
            self.python,
        )
    }

    /// What is not as it was. From now on it is.
    pub fn changes(&mut self) -> Vec<String> {
        let now = self.look();
        let mut changes = Vec::new();
        for name in self.before.keys().chain(now.keys().filter(|name| !self.before.contains_key(*name))) {
            let (before, now) = (self.before.get(name), now.get(name));
            if before != now {
                changes.push(format!("has changed {name}: from {before:?} to {now:?}"));
            }
        }
        if !changes.is_empty() {
            for folder in SHARED {
                let _ = fs::remove_file(Path::new(folder).join(&self.name));
            }
            furnish(&self.place);
            self.look();
            self.before = self.look();
        }
        changes
    }

    /// Empties the working directory, but for what somebody's git would run.
    pub fn clear(&self) {
        let cwd = self.cwd();
        for entry in fs::read_dir(&cwd).into_iter().flatten().flatten() {
            let path = entry.path();
            if fs::remove_file(&path).is_err() && fs::remove_dir_all(&path).is_err() {
                let _ = Command::new("chmod").args(["-R", "u+rwx"]).arg(&path).status();
                fs::remove_dir_all(&path).unwrap();
            }
        }
        fs::create_dir_all(cwd.join(".git/hooks")).unwrap();
        fs::write(cwd.join(".git/config"), "").unwrap();
        fs::write(cwd.join("AGENTS.md"), "").unwrap();
    }

    /// Everything that an attack could have changed, by name.
    fn look(&mut self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for folder in ["outside", "home"] {
            files(&self.place.join(folder), &mut all);
        }
        for folder in SHARED {
            if fs::symlink_metadata(Path::new(folder).join(&self.name)).is_ok() {
                all.insert(format!("{folder}/{}", self.name), "is there".to_owned());
            }
        }
        for kind in ["shm", "sem", "msg"] {
            let list = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            let key = self.key.to_string();
            if list.lines().any(|line| line.split_whitespace().next() == Some(key.as_str())) {
                all.insert(format!("System V {kind}"), "is there".to_owned());
                let option = format!("-{}", kind[..1].to_uppercase());
                let _ = Command::new("ipcrm").args([&option, &key]).status();
            }
        }
        let mut heard = |what: &str, has: bool| {
            if has {
                all.insert(format!("the {what} socket"), "was reached".to_owned());
            }
        };
        heard("TCP", self.tcp.accept().is_ok());
        heard("UDP", self.udp.recv_from(&mut [0; 10]).is_ok());
        heard("local", self.unix.accept().is_ok());
        heard("abstract local", self.abstract_unix.accept().is_ok());
        all.insert("the user's process".to_owned(), self.witness());
        let own = |file: &str| fs::read_to_string(format!("/proc/self/{file}")).unwrap();
        // Its priority, niceness and policy, by their places after the name.
        let status = own("stat");
        let status: Vec<&str> = status.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let allowed = own("status").lines().find(|line| line.starts_with("Cpus_allowed_list")).map(str::to_owned);
        let house = (status[15], status[16], status[38], allowed, own("limits"), own("oom_score_adj"), own("comm"));
        all.insert("the house".to_owned(), format!("{house:?}"));
        all
    }

    fn witness(&mut self) -> String {
        match stat(self.witness.id()) {
            None | Some(('Z' | 'X', _)) => return "is dead".to_owned(),
            Some(('T', _)) => return "is stopped".to_owned(),
            Some(_) => {}
        }
        let mut line = String::new();
        let place = self.place.display();
        writeln!(self.ask, "{place}/outside/kept {place}/home/.rustup/tool").unwrap();
        self.told.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.witness.kill();
        let _ = self.witness.wait();
    }
}

/// Folders of everybody's, in which attacks make a file.
const SHARED: [&str; 8] = ["/", "/etc", "/usr", "/tmp", "/var/tmp", "/dev/shm", "/run", "/etc/cron.d"];

/// All that lies in a folder: every change of an inode, of its attributes and its links too, moves its time.
fn files(folder: &Path, all: &mut BTreeMap<String, String>) {
    let mut add = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        let changed = (found.ctime(), found.ctime_nsec());
        let content = if found.is_file() { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
        let shown = (found.mode(), found.uid(), found.gid(), found.nlink(), found.size(), changed, content);
        all.insert(path.display().to_string(), format!("{shown:?}"));
        found.is_dir()
    };
    if add(folder) {
        for entry in fs::read_dir(folder).unwrap() {
            files(&entry.unwrap().path(), all);
        }
    }
}
