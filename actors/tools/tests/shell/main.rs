//! What `bash` makes of a plain command line, held against a shell and against what the kernel saw.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "what a line is read as is tested where the reader is")]
#[path = "../../../shell/tests/reader/corpus.rs"]
mod corpus;
mod readers;
mod trace;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Bench;
use playhouse_tools::default_tools;
use playhouse_tools::shell::{Line, Reading, read};
use serde_json::json;
use trace::Start;

/// Set for a process that runs its share of the corpus while it is watched: the folder it has for that.
const FOLDER_VAR: &str = "CORPUS_FOLDER";
/// Which share that is.
const SHARE_VAR: &str = "CORPUS_SHARE";
/// Being watched is slow, and mostly waiting.
const SHARES: usize = 4;

/// How a launcher of the tool begins.
const LAUNCHER: [&str; 5] = ["bash", "--noprofile", "--norc", "-p", "-c"];

/// Runs every plain line as the tool does, with the kernel as witness: `strace` reports every program that is started.
/// Nothing but stand-ins can be found by name, so that nothing happens.
#[test]
fn f46_no_command_runs_a_program_that_the_approval_did_not_name() {
    if let (Some(folder), Ok(share)) = (std::env::var_os(FOLDER_VAR), std::env::var(SHARE_VAR)) {
        return play(Path::new(&folder), share.parse().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let lines = plain_lines();
    let stubs = folder.path().join("stubs");
    let place = folder.path().join("place");
    for made in ["sub", "src/sub", "evil"] {
        fs::create_dir_all(place.join(made)).unwrap();
    }
    fs::create_dir(&stubs).unwrap();
    for name in lines.iter().flat_map(|(_, line)| line.commands()).map(|command| command.argv[0].as_str()) {
        let stub = match name.strip_prefix("./") {
            Some(here) => place.join(here),
            None if name.contains('/') => continue,
            None => stubs.join(name),
        };
        if name != "bash" && name != "[" && name != ":" && name != "." {
            fs::write(&stub, "#!/bin/sh\n:\n").unwrap();
            fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    std::os::unix::fs::symlink(find("bash"), stubs.join("bash")).unwrap();
    // What must not stand in for a program that was named: files, functions, and what lies in the working directory.
    let intruder = folder.path().join("intruder");
    for (file, text) in [
        (place.join("evil/git"), "#!/bin/sh\n:\n".to_owned()),
        (stubs.join("intruder"), "#!/bin/sh\n:\n".to_owned()),
        (intruder.clone(), "intruder\n".to_owned()),
    ] {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    let log = |share: usize| folder.path().join(format!("trace-{share}"));
    let watch = |share: usize| {
        Command::new(find("strace"))
            .args(["-f", "--seccomp-bpf", "-qq", "-xx", "-s", "65536", "-e", "trace=execve,execveat"])
            .args(["-e", "signal=none", "-o"])
            .arg(log(share))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "f46_no_command_runs_a_program_that_the_approval_did_not_name", "--nocapture"])
            .env("PATH", format!("evil:.:{}", stubs.display()))
            .env("BASH_ENV", &intruder)
            .env("BASH_FUNC_ls%%", "() { intruder; }")
            .env("BASH_FUNC_exec%%", "() { intruder; }")
            .env("BASH_FUNC_cd%%", "() { intruder; }")
            .env(FOLDER_VAR, folder.path())
            .env(SHARE_VAR, share.to_string())
            .output()
            .unwrap()
    };
    std::thread::scope(|scope| {
        let watched: Vec<_> = (0..SHARES)
            .map(|share| {
                scope.spawn({
                    let watch = &watch;
                    move || watch(share)
                })
            })
            .collect();
        for output in watched.into_iter().map(|thread| thread.join().unwrap()) {
            assert!(output.status.success(), "{output:?}");
        }
    });

    let starts: Vec<Start> =
        (0..SHARES).flat_map(|share| trace::read(&fs::read_to_string(log(share)).unwrap())).collect();
    let mut seen: usize = 0;
    for (number, line) in &lines {
        let begin = place_of(&starts, &format!("/line-{number}-begins"));
        let end = place_of(&starts, &format!("/line-{number}-ends"));
        let own: Vec<&Start> = starts[begin + 1..end]
            .iter()
            .filter(|start| start.has_succeeded && !start.argv.iter().zip(LAUNCHER).all(|(word, own)| word == own))
            .collect();
        for start in &own {
            let is_named = line.commands().iter().any(|command| command.argv.iter().take(32).eq(start.argv.iter()));
            assert!(is_named, "line {number} was read as {line:?} and started {start:?}");
            let is_found = start.argv[0].contains('/') || Path::new(&start.path) == stubs.join(&start.argv[0]);
            assert!(is_found, "line {number} found {start:?}");
        }
        assert!(own.len() <= line.commands().len(), "line {number}: {own:?}");
        let first = &line.commands()[0];
        let is_there = !first.is_builtin() && (stubs.join(&first.argv[0]).exists());
        let is_refused = first.argv.iter().any(|word| word.starts_with("mkfs"));
        assert!(!is_there || is_refused || !own.is_empty(), "line {number} started nothing: {line:?}");
        seen += own.len();
    }
    assert!(lines.len() >= 300 && seen >= 300, "{} lines, {seen} programs", lines.len());
}

fn plain_lines() -> Vec<(usize, Line)> {
    let plain = |case: corpus::Case| match read(&case.command) {
        Reading::Plain(line) => Some((case.number, line)),
        Reading::Opaque(_) => None,
    };
    corpus::read().into_iter().filter_map(plain).collect()
}

/// Where a program by this name was looked for.
fn place_of(starts: &[Start], name: &str) -> usize {
    starts.iter().position(|start| start.path.ends_with(name)).unwrap_or_else(|| panic!("no {name} in the trace"))
}

/// A watched process: each plain line of its share, between two programs that are not there.
fn play(folder: &Path, share: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut bench = Bench::in_house(default_tools(), "corpus", folder.join("place")).await;
        let mark = |name: String| Command::new(folder.join(name)).spawn().unwrap_err();
        for case in corpus::read() {
            if case.number % SHARES == share && matches!(read(&case.command), Reading::Plain(_)) {
                mark(format!("line-{}-begins", case.number));
                let _ = bench.run("bash", json!({"command": case.command, "timeout_ms": 20_000})).await;
                mark(format!("line-{}-ends", case.number));
            }
        }
    });
}

pub(crate) fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.exists()).unwrap_or_else(|| panic!("`{program}` is needed: install it"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_command_behaves_as_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("script"), "echo \"$0:$1\"").unwrap();
    fs::set_permissions(folder.path().join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut bench = Bench::in_house(default_tools(), "plain", folder.path().to_owned()).await;
    for (command, output, code) in [
        ("printf '%s|' 'a  b' \"c\\\"d\"", "a  b|c\"d|", 0),
        ("expr a : b", "0\nexit code 1", 1),
        ("no-such-program x", "stderr:\nbash: line 1: no-such-program: command not found\nexit code 127", 127),
        ("cd sub && basename x/y", "y\n", 0),
        ("false || basename z", "z\n", 0),
        ("basename a; basename b | tr b c", "a\nc\n", 0),
        ("ls none 2>/dev/null", "(no output)\nexit code 2", 2),
        ("basename a 1>&2", "stderr:\na\n", 0),
        ("./script here", "./script:here\n", 0),
        ("exit 3", "(no output)\nexit code 3", 3),
    ] {
        let answer = bench.run("bash", json!({"command": command})).await;
        assert_eq!(common::text(&answer), output, "{command}");
        assert_eq!(answer.unwrap().details["exit_code"], code, "{command}");
    }
    let kept: BTreeSet<String> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(kept, BTreeSet::from(["script".to_owned(), "sub".to_owned()]));
}
