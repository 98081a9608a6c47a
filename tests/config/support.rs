//! The real program with a home and a working directory of its own, and nothing in its environment but what is set.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// Nothing here takes this long, on any machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// A home, a working directory and an environment.
pub struct Place {
    folder: tempfile::TempDir,
    variables: BTreeMap<OsString, OsString>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    /// What it said, if it ended well.
    #[track_caller]
    pub fn said(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.out
    }

    /// Its lines of JSON, if it ended well.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        self.said().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Fails unless it was refused with exactly these lines.
    #[track_caller]
    pub fn refused(&self, problems: &[&str]) {
        let lines: Vec<String> = problems.iter().map(|problem| format!("error: {problem}")).collect();
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        assert_eq!(self.err.lines().collect::<Vec<_>>(), lines);
    }
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut place = Self { folder, variables: BTreeMap::new() };
        place.set("HOME", place.home());
        place.set("XDG_CONFIG_HOME", place.home().join("config"));
        place.set("XDG_DATA_HOME", place.home().join("data"));
        // Tools start programs, which are found by it.
        place.set("PATH", std::env::var_os("PATH").unwrap());
        place
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home").canonicalize().unwrap()
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    pub fn user_file(&self) -> PathBuf {
        self.home().join("config/playhouse/config.toml")
    }

    pub fn project_file(&self) -> PathBuf {
        self.work().join("playhouse.toml")
    }

    /// Writes the user's file.
    pub fn user(&self, text: impl AsRef<[u8]>) -> &Self {
        write(&self.user_file(), text);
        self
    }

    /// Writes the project's file.
    pub fn project(&self, text: impl AsRef<[u8]>) -> &Self {
        write(&self.project_file(), text);
        self
    }

    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    pub fn unset(&mut self, name: &str) {
        self.variables.remove(OsStr::new(name));
    }

    /// Writes a script with these turns and gives its name.
    pub fn script(&self, turns: Value) -> String {
        let path = self.work().join("script.json");
        write(&path, json!({ "turns": turns }).to_string());
        path.to_str().unwrap().to_owned()
    }

    pub fn run(&self, args: &[&str]) -> Done {
        self.run_in(&self.work(), args)
    }

    pub fn start(&self, folder: &Path, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_playhouse"));
        command.args(args).current_dir(folder).env_clear().envs(&self.variables);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub fn run_in(&self, folder: &Path, args: &[&str]) -> Done {
        let child = self.start(folder, args);
        let pid = rustix::process::Pid::from_child(&child);
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = receiver.recv_timeout(DEADLINE) else {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("the program did not end");
        };
        let output = output.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// `config show --json` with these flags: every key's object without the key.
    #[track_caller]
    pub fn shown(&self, flags: &[&str]) -> BTreeMap<String, Value> {
        let done = self.run(&[&["config", "show", "--json"], flags].concat());
        let split = |mut row: Value| {
            let key = row.as_object_mut().unwrap().remove("key").unwrap();
            (key.as_str().unwrap().to_owned(), row)
        };
        done.lines().into_iter().map(split).collect()
    }

    /// The settings in the first entry of the one session there is.
    #[track_caller]
    pub fn settings(&self) -> Value {
        let sessions = self.run(&["sessions", "list", "--json"]).lines();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        let id = sessions[0]["session_id"].as_str().unwrap();
        self.run(&["sessions", "show", id, "--json"]).lines()[0]["body"]["settings"].clone()
    }
}

pub fn write(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
