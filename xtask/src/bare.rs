//! Runs the suites whose programs look for other programs, with a PATH that has only what every system has. What nobody
//! installs (`rg`, `bwrap`, `git`, `strace`, an interpreter) must not be needed by a command of the README.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::ci::{FAIL_POINTS, Failure, find};

/// Tests that are about one of the programs that are missing here.
const WITH_BWRAP: [&str; 1] = ["telling::where_no_sandbox_works_nobody_says_that_one_does"];
const ABOUT_BWRAP: [&str; 5] = [
    "allowing::a_flag_grants_what_it_names_beside_the_configuration",
    "allowing::a_refusal_reaches_the_person_the_model_and_the_journal",
    "allowing::the_network_is_granted_by_a_flag",
    "confining::a_sandbox_is_there_unless_it_is_turned_off",
    "confining::the_doctor_says_what_works_and_fails_when_runs_would",
];

/// The suites: the name of the test target, and what of it is left out.
const SUITES: [(&str, &[&str]); 4] = [("smoke", &[]), ("files", &[]), ("cli", &WITH_BWRAP), ("config", &ABOUT_BWRAP)];

/// What is on the path: the shell that agents need, what tests' commands are made of, `script` and `setsid`, with which
/// tests make terminals (`stty`) and sessions, and what they mount a small disk with. One that this machine has not is
/// left out.
const PROGRAMS: [&str; 39] = [
    "bash", "sh", "script", "setpriv", "setsid", "stty", "mount", "nsenter", "unshare", "cat", "chmod", "cp", "cut",
    "date", "dd", "echo", "env", "false", "grep", "head", "id", "kill", "ln", "ls", "mkdir", "mkfifo", "mv", "nohup",
    "printf", "pwd", "rm", "sed", "seq", "sleep", "sort", "tail", "tee", "touch", "true",
];

/// Builds the suites and runs each in its package, one after the other.
pub fn run(name: &'static str, root: &Path) -> Result<(), Failure> {
    let folder = bare_path(root).map_err(|error| Failure::NotStarted {
        program: "a folder of links below target/".into(),
        reason: error.to_string(),
    })?;
    for suite in built(name, root)? {
        println!("--- {} in {}", suite.program.display(), suite.package.display());
        let mut command = Command::new(&suite.program);
        for skipped in suite.left_out {
            command.args(["--skip", skipped]);
        }
        command.env("PATH", &folder).current_dir(&suite.package);
        passed(name, &mut command)?;
    }
    Ok(())
}

/// A test program, with the folder of its package.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    program: PathBuf,
    package: PathBuf,
    left_out: &'static [&'static str],
}

/// The suites, built as the tests of CI are, so that nothing is built twice.
fn built(name: &'static str, root: &Path) -> Result<Vec<Suite>, Failure> {
    let mut command = crate::cargo::command();
    command.args([
        "test",
        "--locked",
        "--workspace",
        "--no-run",
        "--message-format=json-render-diagnostics",
        FAIL_POINTS,
    ]);
    for (suite, _) in SUITES {
        command.args(["--test", suite]);
    }
    let not_started =
        |error: std::io::Error| Failure::NotStarted { program: crate::cargo::name(), reason: error.to_string() };
    let output = command.current_dir(root).stderr(Stdio::inherit()).output().map_err(not_started)?;
    if !output.status.success() {
        return Err(failed(name, output.status.code()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(suite).collect())
}

/// The suite that a line of cargo's tells of, if it does.
fn suite(line: &str) -> Option<Suite> {
    let text = |key: &str| {
        let (_, rest) = line.split_once(&format!("\"{key}\":\""))?;
        rest.split_once('"').map(|(value, _)| PathBuf::from(value))
    };
    let program = text("executable")?;
    // cargo puts a hash after the name of the target.
    let (target, _) = program.file_name()?.to_str()?.rsplit_once('-')?;
    let (_, left_out) = SUITES.into_iter().find(|(suite, _)| *suite == target)?;
    let package = text("manifest_path")?.parent()?.to_path_buf();
    Some(Suite { program, package, left_out })
}

/// Runs a command to its end.
pub fn passed(name: &'static str, command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(name, status.code())),
        Err(error) => Err(Failure::NotStarted { program, reason: error.to_string() }),
    }
}

fn failed(name: &'static str, code: Option<i32>) -> Failure {
    // Without a code a signal ended it.
    Failure::Step { name, code: code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1) }
}

/// A folder of links to [`PROGRAMS`], made anew.
fn bare_path(root: &Path) -> std::io::Result<PathBuf> {
    let folder = root.join("target/bare-path");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for program in PROGRAMS {
        if let Some(file) = find(program) {
            symlink(file, folder.join(program))?;
        }
    }
    Ok(folder)
}
