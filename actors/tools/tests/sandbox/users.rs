//! The same tests again, for somebody who is not root.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the folder in which tests make theirs, if that is not the one beneath `target`.
const FOLDER: &str = "SANDBOX_TEST_FOLDER";

/// What does not hold where no control group can be made, as docs/sandbox.md says: a bomb grows faster than it is
/// counted, and a crowd may have given up before anybody looked.
const NEED_A_GROUP: [&str; 2] =
    ["f20_a_fork_bomb_is_dead_within_seconds_and_nothing_is_left", "f20_a_crowd_that_gives_up_at_once_is_told_why"];

/// Whose rights the tests of this process have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Root,
    Ordinary,
}

impl User {
    pub fn current() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::Ordinary }
    }
}

/// Where tests make their folders.
pub fn folder() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

/// Root starts all the other tests of this program as a user who owns nothing but one folder. The user has a number and
/// no name: no account has to be made for it.
#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if User::current() == User::Ordinary {
        // Past the harness, which would keep it to itself.
        let line = "the sandbox's tests ran for this user only: run them as root to have them run for root and for a \
                    user without rights\n";
        io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    // Not beneath the shared temporary folder, which the strict tier replaces, nor beneath a crate.
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let of = |name: &str| place.path().join(name);
    // A number that hardly anybody has, and another one in every run.
    let id = 20_000 + std::process::id() % 30_000;
    for name in ["home", "tmp", "tests"] {
        fs::create_dir(of(name)).unwrap();
        chown(of(name), Some(id), Some(id)).unwrap();
    }
    linked(&std::env::current_exe().unwrap(), &of("suite"));
    toolchain(&of("home/.rustup/toolchains/own"));
    registry(&of("home/.cargo"));
    let path = std::env::var_os("PATH").unwrap();
    let open_to_all = |folder: &PathBuf| {
        folder.ancestors().all(|above| fs::metadata(above).is_ok_and(|found| found.mode() & 0o001 != 0))
    };
    let path = std::env::split_paths(&path).filter(open_to_all);
    let path = std::env::join_paths(std::iter::once(of("home/.rustup/toolchains/own/bin")).chain(path)).unwrap();
    // A user's processes are counted together: those that make too many are not to disturb the others.
    let [bomb, crowd] = NEED_A_GROUP;
    io::stderr().write_all(format!("for an ordinary user {bomb} and {crowd} were not tried\n").as_bytes()).unwrap();
    for part in [
        &["--skip", "users::", "--skip", "limits::"][..],
        &["limits::", "--test-threads=1", "--skip", bomb, "--skip", crowd],
    ] {
        let mut suite = Command::new(of("suite"));
        suite.args(part).args(std::env::args().filter(|given| given == "--nocapture"));
        suite.env_clear().env("PATH", &path).env("HOME", of("home"));
        suite.env("TMPDIR", of("tmp")).env(FOLDER, of("tests")).env("LANG", "C.UTF-8");
        // The groups of root are left behind with its number.
        suite.current_dir(place.path()).uid(id).gid(id);
        let out = suite.output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        println!("as user {id}:\n{said}");
        assert!(out.status.success(), "as user {id}: see above");
    }
}

/// What the user can run of the toolchain that this test was built with.
fn toolchain(to: &Path) {
    let said = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let from = PathBuf::from(String::from_utf8(said.stdout).unwrap().trim());
    for name in ["bin", "lib"] {
        linked(&from.join(name), &to.join(name));
    }
}

/// What cargo has fetched of the one crate that a test builds with.
fn registry(to: &Path) {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap()).join(".cargo"));
    for part in ["index", "cache", "src"] {
        for source in fs::read_dir(home.join("registry").join(part)).unwrap().flatten() {
            let to = to.join("registry").join(part).join(source.file_name());
            let wanted: Vec<PathBuf> = match part {
                "index" => vec!["config.json".into(), ".cache/me/mc/memchr".into()],
                _ => fs::read_dir(source.path())
                    .unwrap()
                    .map(|entry| PathBuf::from(entry.unwrap().file_name()))
                    .filter(|name| name.to_str().is_some_and(|name| name.starts_with("memchr-")))
                    .collect(),
            };
            for name in wanted.into_iter().filter(|name| source.path().join(name).exists()) {
                linked(&source.path().join(&name), &to.join(&name));
            }
        }
    }
}

/// The same file, or folder with all in it, at a second place; a copy where that cannot be.
fn linked(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let copied = |how: &str| {
        let mut command = Command::new("cp");
        command.arg(how).arg("--no-target-directory").args([from, to]).output().unwrap().status.success()
    };
    assert!(copied("-aLl") || copied("-aLf"), "{} cannot be copied to {}", from.display(), to.display());
}
