//! A disk that fails at any change of the data directory: no room, an error, half a write. The real program runs a play
//! with a tool of its own and one of a sub-agent; one change after the other is made to fail, and then the disk is well
//! again. No effect may happen twice, nothing that was begun may be lost, and no exit code 0 may hide that.
//!
//! A library that is loaded before the C library counts and strikes (`faults.c`). CI strikes at every third change, with
//! another beginning each time; `PLAYHOUSE_EVERY=1` strikes at all of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// The kinds of errors, as the library calls them.
const KINDS: [&str; 3] = ["full", "eio", "short"];

/// The library, built by the compiler that Rust itself links with.
fn library(folder: &Path) -> PathBuf {
    let (source, built) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_disk/faults.c"), folder.join("faults.so"));
    let cc = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).arg(&source).arg("-ldl").output();
    let cc = cc.expect("`cc` is what Rust links with");
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    built
}

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let script = json!({"turns": [
            {"tool_calls": [
                {"name": "bash", "arguments": {"command": "echo parent >> effects"}},
                {"name": "sub_agent", "arguments": {"task": "leave a mark"}},
            ]},
            {"text": "all is done"},
            {"tool_calls": [{"name": "bash", "arguments": {"command": "echo child >> effects"}}],
                "when": {"prompt_contains": "leave a mark"}},
            {"text": "the mark is there", "when": {"prompt_contains": "leave a mark"}},
        ]});
        std::fs::write(folder.path().join("script.json"), script.to_string()).unwrap();
        Self { folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("data")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_playhouse"));
        command.arg("--data-dir").arg(self.data()).args(args);
        command.current_dir(self.folder.path().join("work"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs the play, with a disk that fails at a change.
    fn run(&self, library: &Path, at: u64, kind: &str) -> Output {
        let script = self.folder.path().join("script.json");
        let mut run = self.command(&["run", "--permission", "yolo", "--tools", "bash,sub_agent", "--script"]);
        run.arg(script).arg("begin").env("LD_PRELOAD", library).env("FAULTS_DIR", self.data());
        run.env("FAULTS_AT", at.to_string()).env("FAULTS_KIND", kind).env("FAULTS_SEEN", self.seen());
        run.output().unwrap()
    }

    fn seen(&self) -> PathBuf {
        self.folder.path().join("seen")
    }

    fn sessions(&self) -> Vec<Value> {
        let listed = self.command(&["sessions", "list", "--json"]).output().unwrap();
        assert!(listed.status.success(), "{listed:?}");
        String::from_utf8(listed.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How often each effect happened.
    fn effects(&self) -> (usize, usize) {
        let text = std::fs::read_to_string(self.folder.path().join("work/effects")).unwrap_or_default();
        let count = |who: &str| text.lines().filter(|line| *line == who).count();
        (count("parent"), count("child"))
    }
}

/// Plays once with a failure and mends it; gives what was wrong.
fn play(library: &Path, at: u64, kind: &str) -> Result<(), String> {
    let desk = Desk::new();
    let run = desk.run(library, at, kind);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    let wrong = |what: &str| Err(format!("{kind} at {at}: {what}\nout: {said}\nerr: {told}\n{:#?}", desk.sessions()));
    let Some(code) = run.status.code() else { return wrong("it was killed") };
    if told.contains("panicked") {
        return wrong("it panicked");
    }
    if code == 0 && (!said.contains("all is done") || desk.effects() != (1, 1)) {
        return wrong(&format!("exit 0, and the effects are {:?}", desk.effects()));
    }
    let root = |desk: &Desk| desk.sessions().into_iter().find(|session| session["parent"].is_null());
    if code == 0 && !root(&desk).is_some_and(|root| root["status"].to_string().contains("done")) {
        return wrong("exit 0, and the session is not done");
    }
    // The disk is well again. Whatever was begun is finished; it may take naming it.
    let resumed = desk.command(&["resume"]).output().unwrap();
    if !resumed.status.success() {
        return wrong(&format!("resume: {resumed:?}"));
    }
    let left = |session: &&Value| !session["status"].to_string().contains("done") && session["entries"] != json!(0);
    if let Some(session) = desk.sessions().iter().find(left) {
        let id = &session["session_id"];
        return wrong(&format!("{id} is not done after `resume`: {}", String::from_utf8_lossy(&resumed.stderr)));
    }
    let (parent, child) = desk.effects();
    if parent > 1 || child > 1 {
        return wrong(&format!("effects were repeated: {parent} and {child}"));
    }
    Ok(())
}

#[test]
fn f30_a_disk_that_fails_at_any_change_loses_nothing_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let desk = Desk::new();
    let whole = desk.run(&library, 0, "none");
    assert!(whole.status.success(), "{whole:?}");
    assert_eq!(desk.effects(), (1, 1));
    let changes: u64 = std::fs::read_to_string(desk.seen()).unwrap().parse().unwrap();
    assert!(changes > 40, "only {changes} changes were counted");
    let every = std::env::var("PLAYHOUSE_EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let first = u64::from(std::process::id()) % every + 1;
    let strikes: Vec<(u64, &str)> =
        (first..=changes).step_by(every as usize).flat_map(|at| KINDS.map(|kind| (at, kind))).collect();
    let (a, b) = strikes.split_at(strikes.len() / 2);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let tried = [a, b].map(|half| {
            let library = &library;
            scope.spawn(move || half.iter().filter_map(|(at, kind)| play(library, *at, kind).err()).collect::<Vec<_>>())
        });
        tried.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    println!("{changes} changes, {} strikes from the {first}th", strikes.len());
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), strikes.len(), wrong.join("\n\n"));
}
