//! `cargo xtask fuzz`: has libFuzzer look for inputs that the targets of `fuzz/` cannot bear. Stable Rust is enough; a
//! C++ compiler builds libFuzzer.

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

/// What makes the compiler count what an input reaches; libFuzzer reads it.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// An input that takes longer than this, in seconds, or more memory than this, in megabytes, is a finding.
const LONGEST: u32 = 20;
const MOST_MEMORY: u32 = 1_024;
/// The longest input, in bytes.
const MAX_INPUT: u32 = 4_096;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// One target; all of them otherwise.
    target: Option<String>,
    work: Work,
}

/// What is done with each target.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    /// Look for so many seconds.
    Look(u32),
    /// Play one input again.
    Play(PathBuf),
}

/// Why nothing was looked for.
#[derive(Debug)]
pub enum Refusal {
    /// The arguments say nothing that can be done.
    Usage(String),
    /// A file or program is not as it should be.
    Broken { what: String, error: io::Error },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) => f.write_str(why),
            Self::Broken { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

pub fn broken(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Refusal {
    move |error| Refusal::Broken { what: what.to_string(), error }
}

impl Asked {
    /// Reads the arguments after `fuzz`.
    pub fn read(args: &[&str]) -> Result<Self, Refusal> {
        let usage = |why: &str| Err(Refusal::Usage(why.to_owned()));
        let (mut target, mut seconds, mut input) = (None, None, None);
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let slot = match *flag {
                "--target" => &mut target,
                "--seconds" => &mut seconds,
                "--input" => &mut input,
                unknown => return usage(&format!("`fuzz` knows no `{unknown}`")),
            };
            let Some(value) = args.next() else { return usage(&format!("`{flag}` needs a value")) };
            *slot = Some((*value).to_owned());
        }
        let work = match (seconds.map(|seconds| seconds.parse()), input) {
            (Some(Ok(seconds)), None) if seconds > 0 => Work::Look(seconds),
            (None, Some(input)) if target.is_some() => Work::Play(PathBuf::from(input)),
            (None, Some(_)) => return usage("`--input` needs `--target`: whose input is it?"),
            (None, None) => return usage("`fuzz` needs `--seconds N`, or `--target NAME --input FILE`"),
            (Some(_), Some(_)) => return usage("`--seconds` looks for inputs, `--input` plays one: choose"),
            (Some(_), None) => return usage("`--seconds` is a whole number, at least 1"),
        };
        Ok(Self { target, work })
    }
}

/// Looks at each target for the time given, or plays one input; fails if one of them could not bear it.
pub fn run(root: &Path, asked: &Asked) -> Result<ExitCode, Refusal> {
    let known = targets(root)?;
    let chosen = match &asked.target {
        Some(name) if known.contains(name) => std::slice::from_ref(name),
        Some(name) => return Err(Refusal::Usage(format!("there is no target `{name}`: {}", known.join(", ")))),
        None => known.as_slice(),
    };
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |it| root.join(it)).join("fuzz");
    let temporary = folder.join("tmp");
    // What an earlier finding left: it ends without cleaning up.
    let _ = fs::remove_dir_all(&temporary);
    for folder in [&temporary, &folder.join("found")] {
        fs::create_dir_all(folder).map_err(broken(folder.display()))?;
    }
    let host = host()?;
    let mut found = Vec::new();
    for target in chosen {
        let mut command = cargo(root, &folder, &host);
        command.env("FUZZ_TARGET", target).env("TMPDIR", &temporary);
        match &asked.work {
            Work::Look(seconds) => {
                println!("\n=== {target}: {seconds} s");
                let corpus = folder.join("corpus").join(target);
                fs::create_dir_all(&corpus).map_err(broken(corpus.display()))?;
                command.env("FUZZ_SEEDS", &corpus).arg(&corpus).args(look(&folder, target, *seconds));
            }
            Work::Play(input) => drop(command.arg(input)),
        }
        let status = command.status().map_err(broken("cargo did not start"))?;
        if !status.success() {
            found.push((target, status));
        }
    }
    let _ = fs::remove_dir_all(&temporary);
    for (target, status) in &found {
        eprintln!("error: `{target}` {}; {}", ended(*status), again(&asked.work, target));
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn ended(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("ended with {code}"))
}

fn again(work: &Work, target: &str) -> String {
    match work {
        Work::Look(_) => {
            format!("if it found an input, `cargo xtask fuzz --target {target} --input FILE` plays it again")
        }
        Work::Play(_) => "see above".to_owned(),
    }
}

/// What libFuzzer is told.
fn look(folder: &Path, target: &str, seconds: u32) -> Vec<String> {
    let found = folder.join("found").join(format!("{target}-"));
    vec![
        format!("-max_total_time={seconds}"),
        format!("-artifact_prefix={}", found.display()),
        format!("-max_len={MAX_INPUT}"),
        format!("-timeout={LONGEST}"),
        format!("-rss_limit_mb={MOST_MEMORY}"),
        "-print_final_stats=1".to_owned(),
    ]
}

/// A cargo that builds what it runs with coverage, in a folder of its own. Naming the host as the target leaves build
/// scripts and procedural macros without: nothing would count for them.
fn cargo(root: &Path, folder: &Path, host: &str) -> Command {
    let mut command = crate::cargo::command();
    command.args(["run", "--locked", "--quiet", "--package", "playhouse-fuzz", "--features", "libfuzzer"]);
    command.args(["--profile", "fuzz", "--target", host, "--target-dir"]).arg(folder).arg("--");
    command.env("RUSTFLAGS", COVERAGE.join(" ")).current_dir(root);
    command
}

/// The names of the targets: each is a file.
fn targets(root: &Path) -> Result<Vec<String>, Refusal> {
    let folder = root.join("fuzz/src/targets");
    let entries = fs::read_dir(&folder).map_err(broken(folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let sources = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> =
        sources.filter_map(|path| path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

/// The machine that this is, as the compiler names it.
fn host() -> Result<String, Refusal> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).arg("-vV").output().map_err(broken(rustc.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.ok_or_else(|| Refusal::Usage(format!("`{} -vV` names no host", rustc.display())))
}
