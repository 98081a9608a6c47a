//! What is done to this workspace besides building it. `cargo xtask ci` is everything that CI checks, on a machine
//! that has only Rust; on Debian, as root, it installs the few tools that tests start.
//!
//! It has no dependencies, so that it is built in a second.

mod bare;
mod bench;
mod cargo;
mod catalogue;
mod ci;
mod crates;
mod failures;
mod fuzz;
mod lineage;
mod outside;
mod program;
mod readers;
mod rust;
mod sources;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::Length;
use catalogue::Findings;
use sources::Unreadable;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci          everything that is checked: format, the two catalogues and the count below, build without features,
              clippy, tests, some of them with nothing on the path, a program outside, doc tests, documentation
  bare        runs the tests of programs that look for others, with nothing on the path but what every system has
  program     builds and runs the first program of the README in a folder outside, with the library alone
  failures    lists docs/failures.md with its tests; fails when a row that is covered has none
  lineage     lists docs/lineage.md and what it leads to; fails when a name or a test of a row is gone
  crates      counts the crates of the program and of the library alone; fails when they are more than allowed
  bench       measures Playhouse beside a hand-written loop, in release; `--short` takes less than a minute
  fuzz        looks for inputs that a target of fuzz/ cannot bear: `--seconds N` for each, or `--target NAME` for one;
              `--target NAME --input FILE` plays one again.
              `fuzz readers` runs programs that are judged to only read, with generated options and under a tracer:
              `--seconds N` or `--lines N`, and `--seed N` for the same ones again
  outside providers
              holds the requests of every service against the types of the vendors' own libraries, which it fetches
              from PyPI; no part of `ci`";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ci"] => ended(ci::run()),
        ["bare"] => ended(bare::run("bare", &root())),
        ["program"] => ended(program::run("program", &root())),
        ["failures"] => show(failures::of(&root())),
        ["lineage"] => show(lineage::of(&root())),
        ["crates"] => show(crates::of(&root())),
        ["bench"] => bench::run(&root(), Length::Full),
        ["bench", "--short"] => bench::run(&root(), Length::Short),
        ["bench", unknown, ..] => refuse(&format!("`bench` takes `--short` only, and was given `{unknown}`")),
        ["fuzz", "readers", args @ ..] => {
            fuzzed(readers::Asked::read(args).and_then(|asked| readers::run(&root(), &asked)))
        }
        ["fuzz", args @ ..] => fuzzed(fuzz::Asked::read(args).and_then(|asked| fuzz::run(&root(), &asked))),
        ["outside", "providers"] => outside::providers(&root()).unwrap_or_else(|broken| {
            eprintln!("error: {broken}");
            ExitCode::FAILURE
        }),
        ["outside", ..] => refuse("`outside` takes `providers`"),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        [command @ ("ci" | "bare" | "failures" | "lineage" | "crates"), extra, ..] => {
            refuse(&format!("`{command}` takes no argument, and was given `{extra}`"))
        }
        [unknown, ..] => refuse(&format!("there is no command `{unknown}`")),
        [] => refuse("there is no command"),
    }
}

fn ended(done: Result<(), ci::Failure>) -> ExitCode {
    let Err(failure) = done else { return ExitCode::SUCCESS };
    eprintln!("\nerror: {failure}");
    ExitCode::from(failure.code())
}

fn fuzzed(done: Result<ExitCode, fuzz::Refusal>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(fuzz::Refusal::Usage(why)) => refuse(&why),
        Err(broken @ fuzz::Refusal::Broken { .. }) => {
            eprintln!("error: {broken}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a catalogue and what is wrong with it.
fn show(checked: Result<Findings, Unreadable>) -> ExitCode {
    let findings = match checked {
        Ok(findings) => findings,
        Err(unreadable) => {
            eprintln!("error: {unreadable}");
            return ExitCode::FAILURE;
        }
    };
    let list = findings.list.iter().map(|line| format!("{line}\n")).collect::<String>();
    // A reader that leaves, such as `head`, has seen enough.
    let _ = writeln!(io::stdout(), "{list}{}", findings.summary);
    for fault in &findings.faults {
        eprintln!("error: {fault}");
    }
    if findings.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("error: {why}\n\n{USAGE}");
    ExitCode::from(2)
}

/// The workspace's folder.
fn root() -> PathBuf {
    let here =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}
