//! Running one command of a hook: its event on stdin, its answer in its output and exit code.
//!
//! It is a [`Process`], so nothing of it outlives it, whether it ends, runs out of time, or is called off by an abort.

use std::fmt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use playhouse_protocol::{PermissionMode, SessionId};
use playhouse_tools::{Capture, Process, ToolRuntime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::commands::CommandHook;

/// What is kept of each stream; an answer that is longer is none.
const STREAM_CAP: usize = 256 * 1024;
/// How long what outlives the command may go on writing.
const DRAIN: Duration = Duration::from_millis(200);
/// Sets the limit that marks its descendants, then becomes the shell that runs the command.
const WRAPPER: &str = r#"ulimit -S -x "$1" 2>/dev/null; exec bash -c "$2""#;
/// Where the project is, for hooks that were written for Claude Code.
const CLAUDE_PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";
/// Where the project is.
const PROJECT_DIR: &str = "PLAYHOUSE_PROJECT_DIR";

/// Where a hook runs, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// The session of the agent that consults it.
    pub session_id: SessionId,
    /// Its journal's file, if it has one.
    pub transcript: Option<PathBuf>,
    /// The folder that the agent's tools work in.
    pub cwd: PathBuf,
    /// The agent's permission mode.
    pub permission: PermissionMode,
    /// What ends its processes.
    pub tools: ToolRuntime,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It ended by itself, with what it wrote.
    Exited { code: i32, out: Output, err: Output },
    /// A signal ended it; what it wrote is not looked at.
    Killed { signal: i32 },
    /// It was still running when its time was up.
    TimedOut,
    /// It did not start.
    NotStarted { reason: String },
}

/// What a command wrote to one stream.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Output {
    /// Everything that it wrote.
    Whole(String),
    /// More than is kept.
    Cut(String),
}

impl Output {
    fn of(kept: &Capture) -> Self {
        if kept.is_truncated() { Self::Cut(kept.text()) } else { Self::Whole(kept.text()) }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Whole(text) | Self::Cut(text) => text,
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.text().len())
    }
}

/// Runs a command with this on its stdin.
pub(super) async fn run(hook: &CommandHook, input: &[u8], scene: &Scene) -> Ended {
    let mark = scene.tools.mark();
    let mut shell = Command::new("bash");
    shell
        .args(["-c", WRAPPER, "bash", &mark.tag().to_string(), &hook.command])
        .current_dir(&scene.cwd)
        .env(CLAUDE_PROJECT_DIR, &scene.cwd)
        .env(PROJECT_DIR, &scene.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = match Process::spawn(shell, mark) {
        Ok(process) => process,
        Err(error) => {
            let reason = format!("bash could not be started in `{}`: {error}", scene.cwd.display());
            return Ended::NotStarted { reason };
        }
    };
    let (mut out, mut err) = (Capture::new(STREAM_CAP), Capture::new(STREAM_CAP));
    let in_time = timeout(hook.timeout, talk(&mut process, input, &mut out, &mut err)).await.is_ok();
    let status = process.kill_tree().await;
    match (in_time, status) {
        (false, _) => Ended::TimedOut,
        (true, Ok(status)) => ended(status, &out, &err),
        (true, Err(error)) => Ended::NotStarted { reason: format!("its end could not be seen: {error}") },
    }
}

/// Writes the input and reads the output until the process has ended. A command need not read its input.
async fn talk(process: &mut Process, input: &[u8], out: &mut Capture, err: &mut Capture) {
    let (stdin, stdout, stderr) = (process.take_stdin(), process.take_stdout(), process.take_stderr());
    let feed = async {
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(input).await;
        }
    };
    let listen = async { tokio::join!(keep(stdout, out), keep(stderr, err)) };
    tokio::pin!(feed, listen);
    let (mut is_fed, mut is_heard) = (false, false);
    loop {
        tokio::select! {
            () = &mut feed, if !is_fed => is_fed = true,
            _ = &mut listen, if !is_heard => is_heard = true,
            // An error would come again, and the process is killed after this in any case.
            _ = process.exited() => break,
        }
    }
    if !is_heard {
        let _ = timeout(DRAIN, listen).await;
    }
}

async fn keep(from: Option<impl AsyncRead + Unpin>, kept: &mut Capture) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        kept.push(buffer.get(..count).unwrap_or_default());
    }
}

fn ended(status: ExitStatus, out: &Capture, err: &Capture) -> Ended {
    use std::os::unix::process::ExitStatusExt;
    match status.code() {
        Some(code) => Ended::Exited { code, out: Output::of(out), err: Output::of(err) },
        None => Ended::Killed { signal: status.signal().unwrap_or_default() },
    }
}
