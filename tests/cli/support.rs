//! Running the real program in a directory of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use playhouse::protocol::Event;
use playhouse::provider::{Access, PRESETS};
use serde_json::Value;

/// Nothing here takes this long, on any machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// A working directory and a data directory.
pub struct Desk {
    folder: tempfile::TempDir,
    /// The process whose mounts the program sees, if not ours.
    mounts_of: Option<u32>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    /// Its events, which are all of its stdout.
    pub fn events(&self) -> Vec<Event> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    /// The names of its events, pieces of one message counted once.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for event in self.events() {
            let name = serde_json::to_value(&event.event).unwrap()["type"].as_str().unwrap().to_owned();
            if name != "MessageUpdate" || names.last() != Some(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Fails unless it was refused with one line that says all of this, or in clap's layout if a flag was wrong.
    #[track_caller]
    pub fn refused(&self, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        let of_flags = self.err.ends_with("\n\nFor more information, try '--help'.\n");
        assert!(self.err.starts_with("error: ") && (of_flags || self.err.trim_end().lines().count() == 1), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word}: {self:?}");
        }
    }

    /// Fails unless it ended well with this on stdout.
    #[track_caller]
    pub fn said(&self, text: &str) {
        assert_eq!((self.code, self.out.as_str()), (Some(0), text), "{self:?}");
    }
}

impl Desk {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder, mounts_of: None }
    }

    /// Lets the program see the mounts of another process.
    pub fn see_mounts_of(&mut self, pid: u32) {
        self.mounts_of = Some(pid);
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The working directory, as the program sees it.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a script with these turns and gives its name.
    pub fn script(&self, name: &str, turns: Value) -> String {
        let path = self.write(name, &serde_json::json!({ "turns": turns }).to_string());
        path.to_str().unwrap().to_owned()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_playhouse");
        let mut command = match self.mounts_of {
            None => Command::new(program),
            Some(pid) => {
                let mut command = Command::new("nsenter");
                command.args(["--user", "--mount", "--preserve-credentials", "--target", &pid.to_string()]);
                // Whoever enters other mounts stands at their root.
                command.args(["sh", "-c", r#"cd "$0" && exec "$@""#]).arg(self.work()).arg(program);
                command
            }
        };
        command.args(args).current_dir(self.work()).stdin(Stdio::null()).env("PLAYHOUSE_HOME", self.data());
        for name in ["NO_COLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        for preset in PRESETS {
            let (Access::Key(keys) | Access::MaybeKey(keys) | Access::KeyOrLogin(keys, _)) = preset.access;
            for name in keys.iter().chain(preset.base_url_variables) {
                command.env_remove(name);
            }
        }
        // The settings of whoever runs the tests are not theirs.
        command.env("PLAYHOUSE_CONFIG", "/dev/null").env("TMPDIR", self.folder.path().join("tmp"));
        command
    }

    /// The program, started by another one with these words.
    pub fn command_by(&self, starter: &[&str], args: &[&str]) -> Command {
        let inner = self.command(args);
        let mut command = Command::new(starter[0]);
        command.args(&starter[1..]).arg(inner.get_program()).args(inner.get_args());
        command.current_dir(self.work()).stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// What is left where temporary files are made.
    pub fn left_in_tmp(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join("tmp")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Done {
        finish(self.start(args))
    }

    #[track_caller]
    pub fn pipe(&self, args: &[&str], input: &[u8]) -> Done {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A program that refuses its flags does not read.
        let _ = child.stdin.take().unwrap().write_all(input);
        finish(child)
    }

    pub fn start(&self, args: &[&str]) -> Child {
        // Whoever runs the tests may ignore signals, and that is handed down.
        let mut command = self.command_by(&["env", "--default-signal=HUP,INT,QUIT,TERM"], args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts a run with `--json` and waits until an event of this name was seen.
    pub fn start_until(&self, args: &[&str], event: &str) -> Running {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let mut child = self.start(&args);
        let (lines, events) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if lines.send(serde_json::from_str::<Value>(&line).unwrap()).is_err() {
                    break;
                }
            }
        });
        let mut running = Running { child, events, session: String::new() };
        let seen = running.wait_for(event);
        running.session = seen["session_id"].as_str().unwrap().to_owned();
        running
    }

    pub fn sessions(&self) -> Vec<Value> {
        let done = self.run(&["sessions", "list", "--json"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The journal's entries of a session.
    pub fn entries(&self, session: &str) -> Vec<Value> {
        let done = self.run(&["sessions", "show", session, "--json"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The one session there is.
    #[track_caller]
    pub fn session(&self) -> String {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0]["session_id"].as_str().unwrap().to_owned()
    }
}

/// A program at work.
pub struct Running {
    child: Child,
    events: mpsc::Receiver<Value>,
    pub session: String,
}

impl Running {
    pub fn wait_for(&mut self, name: &str) -> Value {
        loop {
            let event = self.events.recv_timeout(DEADLINE).unwrap_or_else(|e| panic!("no {name}: {e}"));
            if event["type"] == name {
                return event;
            }
        }
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        send(&self.child, signal);
    }

    /// Waits for its end; gives the events that were left and its stderr.
    pub fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        let stderr = self.child.stderr.take().unwrap();
        let done = finish(self.child);
        let mut err = String::new();
        let _ = BufReader::new(stderr).read_to_string(&mut err);
        (done.code, self.events.iter().collect(), err)
    }

    pub fn kill(self) {
        self.signal(rustix::process::Signal::KILL);
        self.end();
    }
}

pub fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Waits for the end of a program, with a deadline.
#[track_caller]
pub fn finish(child: Child) -> Done {
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(DEADLINE) {
        Ok(output) => {
            let output = output.unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            Done { code: code(output.status), out: text(output.stdout), err: text(output.stderr) }
        }
        Err(_) => {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("the program did not end");
        }
    }
}

fn code(status: ExitStatus) -> Option<i32> {
    status.code()
}

/// Every file below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}
