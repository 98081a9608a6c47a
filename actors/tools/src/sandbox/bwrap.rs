//! The tier of bubblewrap: a file system of its own, in which only what is granted exists, and namespaces of its own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command as Std, Stdio};
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::process::{Child, Command};

use super::grants::{self, Right};
use super::seccomp::{self, Within};
use super::{Confined, Network, SandboxError, places};
use crate::files::guarded::{InBwrap, PLACES, folders_kept};

const PROGRAM: &str = "bwrap";
/// The smallest file system in memory, in bytes: to the kernel none is one without a bound.
const MIN_SIZE: u64 = 1 << 20;

/// Whether it can bound a file system in memory. Old ones cannot.
static KNOWS_SIZES: LazyLock<bool> = LazyLock::new(|| {
    let told = Std::new(PROGRAM).arg("--help").stdin(Stdio::null()).output();
    told.is_ok_and(|told| String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).contains("--size"))
});

/// Starts a command in it. Its input is empty and both of its outputs are piped. The command itself begins when the gate
/// is dropped; bubblewrap prepares everything meanwhile.
pub(super) fn start(command: &Command, confined: &Confined) -> Result<io::Result<(Child, Gate)>, SandboxError> {
    let failed =
        |error: io::Error| SandboxError::Failed(format!("what it begins with could not be handed over: {error}"));
    let (waits, gate) = gate().map_err(failed)?;
    let network = confined.sandbox.rules.network;
    let filter = handed_over().map_err(failed)?;
    let asked = command.as_std();
    let mut outer = Command::new(PROGRAM);
    outer.args(arguments(confined, network)).arg("--add-seccomp-fd").arg(filter.as_raw_fd().to_string());
    outer.arg("--block-fd").arg(waits.as_raw_fd().to_string());
    outer.arg("--chdir").arg(places::real(&confined.cwd)).arg("--").arg(asked.get_program()).args(asked.get_args());
    outer.env_clear();
    for (name, value) in asked.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        outer.env(name, if name == "TMPDIR" { OsStr::new("/tmp") } else { value });
    }
    outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    outer.process_group(0).kill_on_drop(false);
    Ok(outer.spawn().map(|child| (child, gate)))
}

/// Held shut by whoever has it. No process inherits it: it opens when this one ends, too.
pub(super) struct Gate(#[expect(dead_code, reason = "is there to be dropped")] PipeWriter);

/// A gate, and what tells whether it is open: that the next process to be started inherits. Whoever else is started
/// meanwhile has it too, and can do nothing with it: what opens the gate is the end of the pipe, which nobody can take.
fn gate() -> io::Result<(PipeReader, Gate)> {
    let (waits, gate) = io::pipe()?;
    fcntl_setfd(&waits, FdFlags::empty())?;
    Ok((waits, Gate(gate)))
}

fn arguments(confined: &Confined, network: Network) -> Vec<OsString> {
    let mut all: Vec<OsString> = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"].map(OsString::from).into();
    if network == Network::Granted {
        all.push("--share-net".into());
    }
    let mut add = |parts: &[&OsStr]| all.extend(parts.iter().map(|part| (*part).to_owned()));
    let text = OsStr::new;
    let (grants, cwd) = (grants::of(confined), places::real(&confined.cwd));
    let temp = confined.temp();
    // What is in memory has a bound where bubblewrap knows one.
    let size = OsString::from((confined.sandbox.rules.limits.memory / 2).max(MIN_SIZE).to_string());
    let bound: &[&OsStr] = if *KNOWS_SIZES { &[text("--size"), &size] } else { &[] };
    // The namespace has its own of these.
    let own = [Path::new("/proc"), Path::new("/sys"), Path::new("/dev")];
    // In the order of the paths, so that what is beneath another comes after it.
    let mut binds: Vec<(&Path, &OsStr)> = Vec::new();
    for (path, right) in &grants {
        match right {
            Right::List | Right::Device => {}
            Right::Read if own.contains(&path.as_path()) => {}
            Right::Write if Some(path.as_path()) == temp => {}
            Right::Read => binds.push((path, text("--ro-bind-try"))),
            Right::Write => binds.push((path, text("--bind-try"))),
        }
    }
    binds.sort();
    match temp {
        Some(temp) => add(&[text("--bind"), temp.as_os_str(), text("/tmp")]),
        None => add(&[bound, &[text("--tmpfs"), text("/tmp")]].concat()),
    }
    add(&[text("--proc"), text("/proc"), text("--dev"), text("/dev")]);
    add(&[bound, &[text("--tmpfs"), text("/dev/shm"), text("--remount-ro"), text("/dev")]].concat());
    // Links such as /bin that lead to a granted place.
    for link in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
        if let Ok(target) = std::fs::read_link(link) {
            add(&[text("--symlink"), target.as_os_str(), text(link)]);
        }
    }
    // Where the working directory is granted only in parts, it is a folder of those parts.
    let in_parts = !grants.iter().any(|(path, _)| *path == cwd);
    if in_parts {
        add(&[text("--tmpfs"), cwd.as_os_str()]);
    }
    for (path, how) in binds {
        add(&[how, path.as_os_str(), path.as_os_str()]);
    }
    let hidden = confined.hidden();
    for (path, how) in guarded_binds(&cwd, &confined.sandbox.rules.guarded) {
        // What holds something hidden is granted in parts already.
        if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            add(&[text(how), path.as_os_str(), path.as_os_str()]);
        }
    }
    // The folders that lead to what is granted are nobody's to write in.
    if in_parts {
        add(&[text("--remount-ro"), cwd.as_os_str()]);
    }
    add(&[text("--remount-ro"), text("/")]);
    // Its own, but with settings of the whole machine in it, which are root's to write without any right.
    add(&[text("--remount-ro"), text("/proc")]);
    all
}

/// The guarded places of the working directory, and how each is bound. What something is bound to cannot be moved, so the
/// folders that lead to a place are bound too.
fn guarded_binds(cwd: &Path, more: &[String]) -> Vec<(PathBuf, &'static str)> {
    const READ_ONLY: &str = "--ro-bind-try";
    // First: what is bound later lies over what was bound before.
    let mut binds: Vec<(PathBuf, &str)> = Vec::new();
    for name in more.iter().filter(|_| cwd.parent().is_some()) {
        let folders: Vec<&Path> =
            Path::new(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).collect();
        let folders = folders.into_iter().rev().map(|folder| cwd.join(folder));
        // Nothing can be bound to a link itself.
        binds.extend(folders.filter(|folder| !folder.is_symlink()).map(|folder| (folder, "--bind-try")));
    }
    for place in PLACES {
        let path = cwd.join(place.name);
        match place.in_bwrap {
            InBwrap::Open => {}
            InBwrap::ReadOnly => binds.push((path, READ_ONLY)),
            // In a worktree it is a file that says where the rest is.
            InBwrap::Kept(_) if path.is_file() => binds.push((path, READ_ONLY)),
            InBwrap::Kept(inside) => {
                let folders: Vec<PathBuf> = [path.clone()].into_iter().chain(folders_kept(&path)).collect();
                // Nothing can be bound to a link itself.
                let kept = folders.iter().filter(|folder| !folder.is_symlink());
                binds.extend(kept.map(|folder| (folder.clone(), "--bind-try")));
                // After the folders: what is bound later lies over what was bound before.
                let inside = folders.iter().flat_map(|folder| inside.iter().map(|name| folder.join(name)));
                binds.extend(inside.map(|path| (path, READ_ONLY)));
            }
        }
    }
    binds.extend(more.iter().map(|name| (cwd.join(name), READ_ONLY)));
    binds
}

/// The filter in a file without a name, which the next process to be started inherits, and nobody can change.
fn handed_over() -> io::Result<OwnedFd> {
    let filter = seccomp::filter(Within::Bwrap).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(filter.len() * 8);
    for step in filter {
        bytes.extend(step.code.to_ne_bytes());
        bytes.extend([step.jt, step.jf]);
        bytes.extend(step.k.to_ne_bytes());
    }
    // Not closed on exec: bubblewrap is to read it. Whoever else is started meanwhile learns what the filter is.
    let mut file = File::from(memfd_create("filter", MemfdFlags::ALLOW_SEALING)?);
    file.write_all(&bytes)?;
    file.rewind()?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Why this tier does not work here; otherwise the program's version.
pub(super) fn version() -> Result<String, String> {
    let run = |args: &[&str]| Std::new(PROGRAM).args(args).stdin(Stdio::null()).output();
    let told = match run(&["--version"]) {
        Ok(told) => told,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err("there is no `bwrap`: install the package bubblewrap".to_owned());
        }
        Err(error) => return Err(format!("`bwrap` could not be started: {error}")),
    };
    let tried = run(&["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "true"]);
    match tried {
        Ok(tried) if tried.status.success() => Ok(String::from_utf8_lossy(&told.stdout).trim().to_owned()),
        Ok(tried) => {
            let why = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
            Err(format!("`bwrap` cannot make namespaces ({why}): allow user namespaces"))
        }
        Err(error) => Err(format!("`bwrap` could not be started: {error}")),
    }
}
