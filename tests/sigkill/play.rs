//! One play: a data directory, a model, and the processes that work on it one after the other, each killed or left to
//! its end. What every death may and may not cost is checked here.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use playhouse::protocol::Outcome;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::journal::Journals;
use crate::model::{DONE, Key, LINES, LINGER, Model, PROMPT, REPORT, TASK};

/// Nothing here takes this long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Marks the processes of a play, whoever their parent is by now.
const MARK: &str = "SIGKILL_PLAY";
const NOTE: &str = "the treasure is under the stage";

/// A fail point and its count, for `PLAYHOUSE_FAIL`.
pub type Fail<'a> = Option<(&'a str, u64)>;

/// A process that is over.
#[derive(Debug)]
pub struct Ended {
    pid: u32,
    status: ExitStatus,
    /// One per line of its output that is whole.
    events: Vec<Value>,
    stderr: String,
    /// How long it lived.
    pub took: Duration,
}

impl Ended {
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    pub fn is_well(&self) -> bool {
        self.status.success()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid: _, status, events, stderr, took: _ } = self;
        writeln!(f, "{status}; on stderr:\n{stderr}\nthe last of {} events:", events.len())?;
        events.iter().rev().take(5).rev().try_for_each(|event| writeln!(f, "{event}"))
    }
}

/// What was journaled when a process died, and how many requests had come.
#[derive(Debug)]
struct Death {
    pid: u32,
    journals: Journals,
    asked: usize,
}

/// One session that is killed and resumed until it is through.
#[derive(Debug)]
pub struct Play {
    folder: TempDir,
    pub model: Model,
    durability: &'static str,
    prompt: &'static str,
    name: String,
    deaths: Vec<Death>,
    /// What its processes showed.
    events: Vec<Value>,
    /// How many processes there were.
    processes: usize,
}

impl Drop for Play {
    fn drop(&mut self) {
        // What is left of a play that went wrong is worth a look.
        self.folder.disable_cleanup(std::thread::panicking());
    }
}

impl Play {
    pub async fn new(prompt: &'static str, durability: &'static str, pause: Duration) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        fs::write(folder.path().join("work/note.txt"), NOTE).unwrap();
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let model = Model::start(pause).await;
        Self { folder, model, durability, prompt, name, deaths: Vec::new(), events: Vec::new(), processes: 0 }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn cwd(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub fn deaths(&self) -> usize {
        self.deaths.len()
    }

    /// Starts `playhouse run`, which ends itself at the fail point.
    pub fn start(&mut self, fail: Fail<'_>) -> Process {
        let (base_url, cwd, prompt) = (self.model.base_url.clone(), self.cwd(), self.prompt);
        let mut command = self.command("run", fail);
        command.arg(prompt).args(["--model", "openai/test", "--base-url", &base_url, "--permission", "yolo"]);
        command.args(["--tools", "read_file,bash,sub_agent", "--durability", self.durability]).arg("--cwd").arg(cwd);
        self.spawn(command)
    }

    /// Starts `playhouse resume`, which ends itself at the fail point.
    pub fn start_resume(&mut self, fail: Fail<'_>) -> Process {
        let mut command = self.command("resume", fail);
        // The play works elsewhere.
        command.arg("--all");
        self.spawn(command)
    }

    fn command(&self, verb: &str, fail: Fail<'_>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_playhouse"));
        command.arg(verb).arg("--json").arg("--data-dir").arg(self.data()).current_dir(self.folder.path());
        command.env("OPENAI_API_KEY", "test").env("NO_PROXY", "127.0.0.1").env(MARK, &self.name);
        command.env("PLAYHOUSE_CONFIG", "/dev/null").env("PLAYHOUSE_TOOL_ENV", MARK);
        match fail {
            Some((point, n)) => command.env("PLAYHOUSE_FAIL", format!("{point}:{n}")),
            None => command.env_remove("PLAYHOUSE_FAIL"),
        };
        command
    }

    fn spawn(&mut self, mut command: Command) -> Process {
        self.processes += 1;
        let file = |stream: &str| self.folder.path().join(format!("{stream}-{}", self.processes));
        let (stdout, stderr) = (file("stdout"), file("stderr"));
        command.stdin(Stdio::null()).stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        let child = command.kill_on_drop(true).spawn().unwrap();
        let pid = child.id().unwrap();
        Process { pid, child, stdout, stderr, began: Instant::now() }
    }

    /// Waits for a process to end, and kills it if it has not by this moment of its life.
    pub async fn end_by(&mut self, mut process: Process, moment: Duration) -> Ended {
        if tokio::time::timeout(moment, process.child.wait()).await.is_err() {
            process.kill();
        }
        self.end(process).await
    }

    /// Waits for a process to end.
    pub async fn end(&mut self, mut process: Process) -> Ended {
        let status = tokio::time::timeout(PATIENCE, process.child.wait()).await;
        let read = |path| fs::read_to_string(path).unwrap();
        let (stdout, stderr) = (read(&process.stdout), read(&process.stderr));
        let Ok(status) = status else { panic!("{self}: a process hangs; it said:\n{stdout}\n{stderr}") };
        // The last line may have been cut by the kill.
        let whole = stdout.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let events: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        self.events.extend(events.iter().cloned());
        Ended { pid: process.pid, status: status.unwrap(), events, stderr, took: process.began.elapsed() }
    }

    /// Notes a process that was killed; what it showed must be journaled.
    pub fn died(&mut self, ended: &Ended) {
        let journals = Journals::read(&self.data());
        for event in &ended.events {
            let (id, session) = (event["id"].as_str().unwrap(), event["session_id"].as_str().unwrap());
            let seq: u64 = id.split_once('.').unwrap().0.parse().unwrap();
            assert!(seq <= journals.last(session), "{self}: shown but not journaled: {event}");
        }
        if !ended.events.is_empty() {
            assert!(journals.prompts.iter().any(|prompt| prompt == self.prompt), "{self}: the prompt is lost");
        }
        self.deaths.push(Death { pid: ended.pid, journals, asked: self.model.asked().len() });
    }

    /// Resumes to the end and checks everything.
    pub async fn finish(&mut self) {
        let process = self.start_resume(None);
        let ended = self.end(process).await;
        assert!(ended.is_well(), "{self}: {ended}");
        let journals = Journals::read(&self.data());
        if journals.prompts.is_empty() {
            // It died before it had accepted anything, so nobody was told that it had.
            assert_eq!((self.model.asked().len(), self.lines().as_str()), (0, ""), "{self}");
        } else {
            self.check_responses();
            self.check_calls(&journals);
            self.check_events();
            self.check_whole(&journals);
        }
        self.check_nothing_is_left(&journals).await;
    }

    /// The play was given from its prompt to its last word, and nothing happened twice.
    pub fn check_whole(&self, journals: &Journals) {
        let (prompts, responses, calls): (&[_], &[_], &[_]) = match self.prompt {
            LINGER => (&[LINGER], &[(LINGER, 0), (LINGER, 1)], &["linger"]),
            _ => (
                &[PROMPT, TASK],
                &[(PROMPT, 0), (PROMPT, 1), (PROMPT, 2), (TASK, 0), (TASK, 1)],
                &["child", "child-1", "note", "parent-1", "parent-2"],
            ),
        };
        assert_eq!(sorted(journals.prompts.iter().map(String::as_str)), prompts, "{self}");
        assert_eq!(sorted(journals.responses.iter().map(|(first, n)| (first.as_str(), *n))), responses, "{self}");
        assert_eq!(sorted(journals.calls.keys().map(String::as_str)), calls, "{self}");
        assert_eq!(journals.outcomes, vec![Outcome::Stop; prompts.len()], "{self}");
        assert_eq!(journals.sessions.len(), prompts.len(), "{self}");
        assert_eq!(journals.last_words[self.prompt], DONE, "{self}");
    }

    /// No response that a death found journaled was asked for again, and none without need.
    fn check_responses(&self) {
        let asked = self.model.asked();
        for death in &self.deaths {
            let again = asked[death.asked..].iter().find(|asked| death.journals.responses.contains(&asked.key));
            assert!(again.is_none(), "{self}: asked again for {again:?}");
        }
        let distinct: BTreeSet<&Key> = asked.iter().map(|asked| &asked.key).collect();
        // Only one model works at a time here, so a death costs one response at most.
        assert!(asked.len() <= distinct.len() + self.deaths.len(), "{self}: {asked:#?}");
    }

    /// Every call has one answer; a command that was begun when a process died has the one that says so, and no
    /// command was run twice.
    fn check_calls(&self, journals: &Journals) {
        let begun: BTreeSet<String> = self.deaths.iter().flat_map(|death| death.journals.open_calls()).collect();
        let lines = self.lines();
        for (id, call) in &journals.calls {
            let [answer] = call.answers.as_slice() else { panic!("{self}: {id} has not one answer: {call:?}") };
            match id.as_str() {
                "note" => assert!(!answer.is_error && answer.text.contains(NOTE), "{self}: {answer:?}"),
                "child" => assert_eq!((answer.is_error, answer.text.as_str()), (false, REPORT), "{self}"),
                command => {
                    let written = lines.lines().filter(|line| *line == command).count();
                    assert_eq!(answer.is_unknown(), begun.contains(command), "{self}: {command}: {answer:?}");
                    match answer.is_unknown() {
                        true => assert!(written <= 1, "{self}: {command} was run again: {lines}"),
                        false => assert_eq!((written, answer.is_error), (1, false), "{self}: {command}: {answer:?}"),
                    }
                    // Who is killed may not have shown it any more.
                    if answer.is_unknown() && self.deaths.len() == 1 {
                        assert!(self.showed_unknown(command), "{self}: {:#?}", self.events);
                    }
                }
            }
        }
    }

    fn showed_unknown(&self, call: &str) -> bool {
        self.events.iter().any(|event| {
            let is_end = event["type"] == "ToolExecutionEnd" && event["tool_call_id"] == call;
            is_end && event["result"].to_string().contains("outcome unknown")
        })
    }

    /// What begins or ends something is shown once at most over all processes: whoever resumes goes on, and does not
    /// begin again.
    fn check_events(&self) {
        let mut seen = BTreeSet::new();
        for event in &self.events {
            let name = event["type"].as_str().unwrap();
            if ["AgentStart", "AgentEnd", "TurnStart", "TurnEnd", "ToolExecutionStart", "ToolExecutionEnd"]
                .contains(&name)
            {
                let whose = event["agent_id"].to_string();
                let what = (name, whose, event["turn_index"].to_string(), event["tool_call_id"].to_string());
                assert!(seen.insert(what), "{self}: shown again: {event}");
            }
        }
    }

    /// The play is over: nothing runs, and another resume finds nothing to do.
    async fn check_nothing_is_left(&mut self, journals: &Journals) {
        assert_eq!(self.running(), Vec::<u32>::new(), "{self}");
        let owners = fs::read_dir(self.data().join("owners")).into_iter().flatten().map(|file| file.unwrap().path());
        for lock in owners.filter(|path| path.extension().is_some_and(|extension| extension == "lock")) {
            let lock = fs::read_to_string(lock).unwrap();
            let dead = self.deaths.iter().find(|death| lock.contains(&format!("\"pid\":{}}}", death.pid)));
            assert!(dead.is_none(), "{self}: not buried: {lock}");
        }
        let asked = self.model.asked().len();
        let process = self.start_resume(None);
        let again = self.end(process).await;
        assert!(again.is_well() && again.events.is_empty(), "{self}: {again}");
        assert_eq!(self.model.asked().len(), asked, "{self}");
        assert_eq!(&Journals::read(&self.data()), journals, "{self}");
    }

    /// What the commands wrote.
    pub fn lines(&self) -> String {
        fs::read_to_string(self.cwd().join(LINES)).unwrap_or_default()
    }

    /// The processes of this play, whoever their parent is.
    pub fn running(&self) -> Vec<u32> {
        let mark = format!("{MARK}={}", self.name);
        let is_ours = |pid: &u32| {
            // A process that has just ended, or that is another user's, is none of ours.
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort();
    all
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deaths: Vec<usize> = self.deaths.iter().map(|death| death.journals.entries()).collect();
        write!(
            f,
            "durability {}, killed with {deaths:?} entries journaled, in {}",
            self.durability,
            self.folder.path().display()
        )
    }
}

/// A process of a play; killed when dropped.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    began: Instant,
}

impl Process {
    pub fn kill(&mut self) {
        // One that has ended by itself cannot be killed.
        let _ = self.child.start_kill();
    }
}
