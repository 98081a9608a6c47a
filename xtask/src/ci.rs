//! Everything that CI checks, in the order in which it fails fastest.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::catalogue::Findings;
use crate::sources::Unreadable;
use crate::{bare, crates, failures, lineage, program, root};

/// Compiles in what crash tests need.
pub const FAIL_POINTS: &str = "--features=playhouse/fail-points,playhouse-session/fail-points";

/// Lets the fuzzer's program be checked; it is linked by `cargo xtask fuzz` only.
const ENGINE: &str = "--features=playhouse-fuzz/engine";

/// Programs that tests start, with the Debian packages that have them.
const TOOLS: [(&str, &str); 17] = [
    ("bash", "bash"),
    // Rust links with it, and a test builds a library.
    ("cc", "gcc"),
    ("setsid", "util-linux"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("mkfifo", "coreutils"),
    ("ps", "procps"),
    ("script", "bsdutils"),
    ("bwrap", "bubblewrap"),
    ("python3", "python3"),
    ("perl", "perl"),
    ("git", "git"),
    ("strace", "strace"),
    ("make", "make"),
    ("tar", "tar"),
];

/// Parts of the Rust toolchain that a minimal installation leaves out: the program and its rustup component.
const COMPONENTS: [(&str, &str); 2] = [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")];

/// Something that must pass.
struct Step {
    name: &'static str,
    work: Work,
}

/// What a step does.
enum Work {
    /// Runs cargo.
    Cargo { args: &'static [&'static str], env: Option<(&'static str, &'static str)> },
    /// Runs the suites that look for programs where there are none.
    Bare,
    /// Builds and runs the README's first program outside of the workspace.
    Program,
    /// Checks a catalogue of the workspace, here.
    Catalogue(fn(&Path) -> Result<Findings, Unreadable>),
}

const fn cargo(name: &'static str, args: &'static [&'static str]) -> Step {
    Step { name, work: Work::Cargo { args, env: None } }
}

/// In this order: what fails fast comes first. The build without features shares its work with the documentation,
/// clippy with nobody, the tests with the doc tests.
const STEPS: [Step; 14] = [
    cargo("format", &["fmt", "--all", "--check"]),
    Step { name: "failures", work: Work::Catalogue(failures::of) },
    Step { name: "lineage", work: Work::Catalogue(lineage::of) },
    Step { name: "crates", work: Work::Catalogue(crates::of) },
    cargo("build without features", &["check", "--locked", "--workspace"]),
    cargo(
        "clippy",
        &["clippy", "--locked", "--workspace", "--all-targets", FAIL_POINTS, ENGINE, "--", "--deny", "warnings"],
    ),
    // What someone gets who wants no command line: `playhouse` and `playhouse-outside`, without what others switch on.
    cargo(
        "the library alone",
        &[
            "clippy",
            "--locked",
            "--workspace",
            "--exclude=playhouse-[!o]*",
            "--exclude=xtask",
            "--no-default-features",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ],
    ),
    // Tests run the examples as they are.
    cargo("examples", &["build", "--locked", "--workspace", "--examples", FAIL_POINTS]),
    // All that fails is to be seen at once.
    cargo("tests", &["test", "--locked", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests", FAIL_POINTS]),
    Step { name: "bare path", work: Work::Bare },
    Step { name: "a program outside", work: Work::Program },
    cargo(
        "a build that aborts",
        &["test", "--locked", "--workspace", "--test", "aborting", FAIL_POINTS, "--", "--ignored"],
    ),
    cargo("doc tests", &["test", "--locked", "--workspace", "--doc", FAIL_POINTS]),
    Step {
        name: "documentation",
        work: Work::Cargo {
            args: &["doc", "--locked", "--workspace", "--no-deps"],
            env: Some(("RUSTDOCFLAGS", "--deny warnings")),
        },
    },
];

/// Why CI ended early.
pub enum Failure {
    /// A step did not pass.
    Step { name: &'static str, code: u8 },
    /// A program did not start.
    NotStarted { program: OsString, reason: String },
    /// A tool that tests need is not there and cannot be installed from here.
    MissingTool { tool: &'static str, package: &'static str },
    /// A part of the Rust toolchain is not there and cannot be installed from here.
    MissingComponent { component: &'static str },
    /// A catalogue is not right.
    Faults { name: &'static str, count: usize },
    /// A catalogue or the sources cannot be read.
    Unreadable(Unreadable),
}

impl Failure {
    /// What to exit with.
    pub fn code(&self) -> u8 {
        match self {
            Self::Step { code, .. } => *code,
            Self::NotStarted { .. }
            | Self::MissingTool { .. }
            | Self::MissingComponent { .. }
            | Self::Faults { .. }
            | Self::Unreadable(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { name, code } => write!(f, "`{name}` did not pass (exit code {code}); see above"),
            Self::NotStarted { program, reason } => write!(f, "{} did not start: {reason}", program.display()),
            Self::MissingTool { tool, package } => {
                write!(f, "tests need `{tool}`: install it (on Debian: apt-get install {package}) and run this again")
            }
            Self::MissingComponent { component } => {
                write!(f, "the toolchain has no {component}: run `rustup component add {component}`, then this again")
            }
            Self::Faults { name, count: 1 } => write!(f, "`{name}` did not pass: one fault; see above"),
            Self::Faults { name, count } => write!(f, "`{name}` did not pass: {count} faults; see above"),
            Self::Unreadable(unreadable) => unreadable.fmt(f),
        }
    }
}

/// Runs every step; the first that does not pass ends it.
pub fn run() -> Result<(), Failure> {
    for (program, component) in COMPONENTS {
        ensure_component(program, component)?;
    }
    for (tool, package) in TOOLS {
        ensure(tool, package)?;
    }
    let begun = Instant::now();
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for step in &STEPS {
        println!("\n=== {}: {}", step.name, step.work);
        let begun = Instant::now();
        step.run()?;
        println!("=== {}: passed in {:.1} s", step.name, begun.elapsed().as_secs_f64());
        times.push((step.name, begun.elapsed()));
    }
    println!("\n=== everything passed in {:.1} s", begun.elapsed().as_secs_f64());
    for (name, time) in times {
        println!("{:>8.1} s  {name}", time.as_secs_f64());
    }
    Ok(())
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cargo { args, .. } => write!(f, "cargo {}", args.join(" ")),
            Self::Bare => f.write_str("the suites that look for programs, where there are none"),
            Self::Program => f.write_str("what the README begins with, in a folder of its own"),
            Self::Catalogue(_) => f.write_str("every row of it"),
        }
    }
}

impl Step {
    fn run(&self) -> Result<(), Failure> {
        match &self.work {
            Work::Cargo { args, env } => run_cargo(self.name, args, *env),
            Work::Bare => bare::run(self.name, &root()),
            Work::Program => program::run(self.name, &root()),
            Work::Catalogue(check) => {
                let findings = check(&root()).map_err(Failure::Unreadable)?;
                println!("{}", findings.summary);
                for fault in &findings.faults {
                    eprintln!("error: {fault}");
                }
                match findings.faults.len() {
                    0 => Ok(()),
                    count => Err(Failure::Faults { name: self.name, count }),
                }
            }
        }
    }
}

fn run_cargo(name: &'static str, args: &[&str], env: Option<(&str, &str)>) -> Result<(), Failure> {
    let mut command = crate::cargo::command();
    command.args(args).envs(env).current_dir(root());
    let not_started =
        |error: std::io::Error| Failure::NotStarted { program: crate::cargo::name(), reason: error.to_string() };
    let status = command.status().map_err(not_started)?;
    if status.success() {
        return Ok(());
    }
    // Without a code a signal ended it.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure::Step { name, code })
}

/// Makes sure that tests find a program: on Debian, as root, its package is installed if need be.
fn ensure(tool: &'static str, package: &'static str) -> Result<(), Failure> {
    if find(tool).is_some() {
        return Ok(());
    }
    if is_root() && find("apt-get").is_some() {
        println!("\n=== installing {package}, for `{tool}`");
        let apt = |args: &[&str]| {
            let ended = Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive").status();
            ended.is_ok_and(|status| status.success())
        };
        if apt(&["update", "-q"])
            && apt(&["install", "-qy", "--no-install-recommends", package])
            && find(tool).is_some()
        {
            return Ok(());
        }
    }
    Err(Failure::MissingTool { tool, package })
}

/// Makes sure that a part of the toolchain is there: rustup adds it if need be.
fn ensure_component(program: &str, component: &'static str) -> Result<(), Failure> {
    let works = || Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if works() {
        return Ok(());
    }
    println!("\n=== adding {component} to the toolchain");
    let added = Command::new("rustup").args(["component", "add", component]).current_dir(root()).status();
    if added.is_ok_and(|status| status.success()) && works() {
        return Ok(());
    }
    Err(Failure::MissingComponent { component })
}

/// The first executable file of this name on the path.
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    find_in(&path, tool)
}

fn find_in(path: &OsStr, tool: &str) -> Option<PathBuf> {
    env::split_paths(path)
        .map(|folder| folder.join(tool))
        .find(|file| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_that_resolves_dependencies_uses_the_lock_file() {
        for step in &STEPS {
            let Work::Cargo { args, .. } = step.work else { continue };
            if args.first() != Some(&"fmt") {
                assert!(args.contains(&"--locked") && args.contains(&"--workspace"), "{}", step.name);
            }
        }
    }

    #[test]
    fn ci_is_this_and_nothing_else() {
        let script = root().join(".ci/run");
        let text = fs::read_to_string(&script).unwrap();
        assert_eq!(text, "#!/usr/bin/env bash\nset -eu\ncd \"$(dirname \"$0\")/..\"\nexec cargo xtask ci\n");
        assert_ne!(fs::metadata(&script).unwrap().permissions().mode() & 0o111, 0);
    }

    #[test]
    fn only_an_executable_file_counts_as_a_tool() {
        assert!(find("sh").is_some());
        assert_eq!(find_in(OsStr::new("/nowhere:/etc"), "passwd"), None);
        assert_eq!(find_in(OsStr::new("/"), "etc"), None);
    }
}
