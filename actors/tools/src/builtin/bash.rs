//! `bash`: runs a shell command.
//!
//! Nothing that a command starts survives the call: when bash has ended, what still holds its output gets
//! 200 ms to finish writing, then everything is killed, background jobs and daemons included.

use std::future::{pending, ready};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use async_trait::async_trait;
use playhouse_protocol::{EffectClass, Level, Redactor, Subject, ToolContext, ToolError, ToolResult};
use playhouse_shell::{self as shell, Reading};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::{Instant, sleep, sleep_until};

use crate::output;
use crate::output::spool::{Fits, Spool, Whole};
use crate::process::mark::Mark;
use crate::process::{Process, quiet};
use crate::programs::{Programs, search_path};
use crate::run::blocking;
use crate::sandbox::refusals::{Ended, Report, denial, report};
use crate::sandbox::{Exceeded, LATE};
use crate::secrets::secrets_here;
use crate::summary::CallSummary;
use crate::text::{Capture, cut};
use crate::tool::{DEFAULT_TIMEOUT, Tool};

/// What is kept of each stream.
const STREAM_CAP: usize = 256 * 1024;
/// How long what outlives bash may go on writing.
const DRAIN: Duration = Duration::from_millis(200);
/// Between two partial results.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// What a partial result shows of each stream.
const SHOW_BYTES: usize = 8 * 1024;
/// What is looked at of each stream's end for what the sandbox refused.
const LOOKED_AT: usize = 64 * 1024;
const MAX_TIMEOUT_MS: u64 = 3_600_000;
/// What it takes at most to end a command and tell of it: the time limit is kept here, so that what the command printed by
/// then is not lost.
const ROOM: Duration = Duration::from_secs(5);

/// Commands that are refused; see [`Bash::deny`].
const DENY: [&str; 17] = [
    "rm -rf /",
    "rm -fr /",
    "rm -r -f /",
    "rm -rf ~",
    "rm -fr ~",
    "rm -rf $HOME",
    "--no-preserve-root",
    ":(){ :|:& };:",
    ":(){:|:&};:",
    "mkfs*",
    "of=/dev/sd*",
    "of=/dev/hd*",
    "of=/dev/vd*",
    "of=/dev/nvme*",
    "of=/dev/mmcblk*",
    "> /dev/sd*",
    "> /dev/nvme*",
];

/// Becomes a program, whose words no shell reads.
const DIRECT: &str = concat!(
    r#"case $1 in */*) ;; *) type -P -- "$1" >/dev/null || "#,
    r#"{ printf 'bash: line 1: %s: command not found\n' "$1" >&2; exit 127; };; esac; exec -- "$@""#
);

const INHERIT_NOTHING: &str = concat!(
    r#"for REPLY in /proc/$$/fd/*; do REPLY=${REPLY##*/}; "#,
    r#"case $REPLY in 0|1|2|*[!0-9]*) ;; *) eval "exec $REPLY>&-";; esac; done; unset REPLY"#
);

/// Runs a command line in the working directory; its output is cut and kept.
#[derive(Clone, Debug)]
pub struct Bash {
    /// Commands that are refused, against accidents; a sandbox is what stops intent.
    ///
    /// A pattern matches where it occurs in the command as whole words, spaces being equal; one that ends in `*`
    /// matches longer words too. So `rm -rf /` refuses `rm -rf / x` and `rm -rf /*`, not `rm -rf /tmp/x`.
    pub deny: Vec<String>,
    /// How long a command may run that does not say.
    pub timeout: Duration,
}

impl Default for Bash {
    fn default() -> Self {
        Self { deny: DENY.iter().map(|pattern| (*pattern).to_owned()).collect(), timeout: DEFAULT_TIMEOUT }
    }
}

#[async_trait]
impl Tool for Bash {
    fn name(&self) -> &str {
        "bash"
    }

    fn label(&self) -> &str {
        "Shell"
    }

    fn description(&self) -> &str {
        "Runs a command with `bash -c` in the working directory and returns its output and exit code. There is no \
         input. Of long output the middle is left out, and kept to be read in parts. Everything the command started is \
         killed when it ends, so don't start servers in the background. Unless the user allowed more, files can be \
         written only in the working directory and in $TMPDIR, which is emptied later, and there is no network. What was \
         refused for that stands in the last lines, as `(sandbox: …)`."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "The command line."},
                "timeout_ms": {
                    "type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_MS,
                    "description": "How long it may run, in milliseconds; 120000 if not given."
                }
            },
            "required": ["command"],
            "additionalProperties": false
        })
    }

    fn effect(&self, _args: &Value) -> EffectClass {
        EffectClass::Once
    }

    fn timeout(&self) -> Duration {
        self.timeout.saturating_add(ROOM)
    }

    fn timeout_for(&self, args: &Value) -> Duration {
        self.time_for(args).saturating_add(ROOM)
    }

    fn needs_permission(&self, _args: &Value) -> Option<String> {
        Some("run a shell command".to_owned())
    }

    fn level(&self, args: &Value) -> Level {
        let command = args.get("command").and_then(Value::as_str).unwrap_or_default();
        if self.deny.iter().any(|pattern| matches(pattern, command)) {
            return Level::Forbidden;
        }
        match shell::read(command) {
            Reading::Plain(line) => line.commands().iter().map(shell::level).max().unwrap_or(Level::Execute),
            Reading::Opaque(opaque) => opaque.level,
        }
    }

    fn subject(&self, args: &Value) -> Subject {
        Subject::Command(args.get("command").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    fn summary(&self, args: &Value, result: Option<&ToolResult>) -> CallSummary {
        let command = args.get("command").and_then(Value::as_str).unwrap_or_default();
        let about = cut(&command.split_whitespace().collect::<Vec<_>>().join(" "), 80);
        let number = |key: &str| result.and_then(|result| result.details.get(key)?.as_i64());
        let is_late = result.is_some_and(|result| result.details.get("limit").is_some_and(|limit| limit == LATE));
        let ending = match (number("exit_code"), number("signal")) {
            _ if is_late => "timed out".to_owned(),
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => String::new(),
        };
        CallSummary { about, ending }
    }

    /// Whether there is such a program. Only a command that is alone is looked at: in a longer line one may make the
    /// next, or stand in for one that is missing.
    async fn check(&self, args: &Value, ctx: &ToolContext) -> Result<(), ToolError> {
        let Reading::Plain(line) = shell::read(self.command(args)?) else { return Ok(()) };
        let alone = line.single().filter(|command| !command.is_builtin());
        let Some(program) = alone.and_then(|command| command.argv.first()).cloned() else { return Ok(()) };
        let cwd = ctx.cwd.clone();
        let why_not = blocking(&ctx.cancel, move |_| Ok(Programs::seen_from(&cwd).why_not(&program))).await?;
        why_not.map_or(Ok(()), |why| Err(ToolError::Failed(format!("bash: {why}; use a program that is here"))))
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let command = self.command(&args)?;
        let mark = Mark::here()?;
        let mut shell = quiet("bash");
        set_out(&mut shell, command, &mark);
        shell.current_dir(&ctx.cwd);
        let (noted, confined) = (mark.refusals.clone(), mark.confined.clone());
        let process = Process::spawn(shell, mark).map_err(|error| {
            let at = ctx.cwd.display();
            ToolError::Failed(format!("bash could not be started in `{at}`: {error}"))
        })?;
        let tier = process.tier().clone();
        let ran = run(process, &ctx, self.time_for(&args)).await?;
        let report = match confined {
            Some(confined) if !ran.status.success() => {
                let ended = Ended { command: command.to_owned(), status: ran.status, printed: ran.printed() };
                let looked = blocking(&ctx.cancel, move |_| Ok(report(&ended, &noted, &confined, &tier))).await;
                // What the command did counts, also where nobody can look into why it failed.
                looked.unwrap_or_default()
            }
            Some(_) | None => Report::default(),
        };
        Ok(ran.result(&report))
    }
}

impl Bash {
    /// The command line, unless it must not be run.
    fn command<'a>(&self, args: &'a Value) -> Result<&'a str, ToolError> {
        let Some(command) = args.get("command").and_then(Value::as_str) else {
            return Err(ToolError::InvalidArgs("`command` is missing".to_owned()));
        };
        if let Some(pattern) = self.deny.iter().find(|pattern| matches(pattern, command)) {
            let reason = format!("refused: the command contains `{pattern}`; do it in a safer way");
            return Err(ToolError::Failed(reason));
        }
        if command.contains('\0') {
            return Err(ToolError::InvalidArgs("`command` contains a NUL character; leave it out".to_owned()));
        }
        Ok(command)
    }

    /// How long a command may run.
    fn time_for(&self, args: &Value) -> Duration {
        let given = args.get("timeout_ms").and_then(Value::as_u64);
        given.map_or(self.timeout, |ms| Duration::from_millis(ms.min(MAX_TIMEOUT_MS)))
    }
}

/// How a command is run: what was read of a plain line, from its words; anything else as it is written.
fn set_out(shell: &mut Command, command: &str, mark: &Mark) {
    let line = match shell::read(command) {
        Reading::Opaque(_) => {
            // In a shell of its own: what that says of the command's lines shows nothing else.
            shell.arg("-c").arg(limited(mark, r#"exec bash -c "$1""#)).args(["bash", command]);
            return;
        }
        Reading::Plain(line) => line,
    };
    // `-p` and less of an environment: no functions, files or options that could stand in for what was read.
    let functions =
        std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("BASH_FUNC_"));
    for name in functions.chain(["BASH_ENV".into(), "ENV".into()]) {
        shell.env_remove(name);
    }
    shell.args(["--noprofile", "--norc", "-p", "-c"]);
    match line.single() {
        Some(part) if !part.is_builtin() && part.redirects.is_empty() && !part.is_relative() => {
            shell.arg(limited(mark, DIRECT)).arg("bash").args(&part.argv);
        }
        // `exec` would tell `./program` that its name is the whole path.
        _ => {
            shell.arg(limited(mark, &line.script()));
        }
    }
    shell.env("PATH", search_path());
}

/// A script that first sets the limit that marks what it starts and those that bind it, and lets go of what it inherited
/// besides its input and output: whoever started this program may have left files open.
fn limited(mark: &Mark, script: &str) -> String {
    let (tag, limits) = (mark.tag(), mark.limits());
    format!("{{ ulimit -S -x {tag}; ulimit {limits}; }} 2>/dev/null; {INHERIT_NOTHING}; {script}")
}

/// One stream of the process, read until its end.
struct Stream<R> {
    from: Option<R>,
    buffer: Vec<u8>,
    /// Before anything is cut or kept: half a secret would not be found.
    redactor: Redactor,
    /// What was read last, without secrets.
    clean: Vec<u8>,
    kept: Capture,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(from: Option<R>) -> Self {
        let (redactor, kept) = (secrets_here().redactor(), Capture::new(STREAM_CAP));
        Self { from, buffer: vec![0; 16 * 1024], redactor, clean: Vec::new(), kept }
    }

    /// Reads once; never resolves after the end. Nothing is lost when it is dropped.
    async fn read(&mut self) {
        let Some(from) = &mut self.from else { return pending().await };
        match from.read(&mut self.buffer).await {
            Ok(0) | Err(_) => {
                self.from = None;
                self.clean = self.redactor.finish();
            }
            Ok(count) => self.clean = self.redactor.push(self.buffer.get(..count).unwrap_or_default()).into_owned(),
        }
        self.kept.push(&self.clean);
    }

    /// Hands on what was read last.
    async fn pass(&mut self, spool: &mut Spool) {
        let fits = if self.kept.is_truncated() { Fits::No } else { Fits::Yes };
        spool.take(&std::mem::take(&mut self.clean), fits).await;
    }

    /// Hands on what was held back, where the end was not read.
    async fn end(&mut self, spool: &mut Spool) {
        if self.from.take().is_some() {
            self.clean = self.redactor.finish();
            self.kept.push(&self.clean);
            self.pass(spool).await;
        }
    }
}

/// How a command ended, and what is kept of its output.
struct Ran {
    status: ExitStatus,
    limit: Option<Exceeded>,
    out: Capture,
    err: Capture,
    whole: Option<Whole>,
    /// Why it ran in no sandbox although it should, if so.
    unconfined: Option<String>,
}

async fn run(mut process: Process, ctx: &ToolContext, time: Duration) -> Result<Ran, ToolError> {
    let over = sleep(time);
    tokio::pin!(over);
    let mut out = Stream::new(process.take_stdout());
    let mut err = Stream::new(process.take_stderr());
    let mut spool = Spool::new(ctx.tool_call_id.clone(), output::here());
    let cancelled = ctx.cancel.cancelled();
    tokio::pin!(cancelled);
    let exceeded = process.exceeded();
    tokio::pin!(exceeded);
    let mut limit: Option<Exceeded> = None;
    let mut drained: Option<Instant> = None;
    let mut next_show = Instant::now() + SHOW_EVERY;
    let mut shown = 0;
    let has_ended = loop {
        let total = out.kept.total() + err.kept.total();
        if drained.is_some() && out.from.is_none() && err.from.is_none() {
            break true;
        }
        tokio::select! {
            () = &mut cancelled => break false,
            () = &mut over => {
                limit = Some(Exceeded::Time(time));
                break true;
            }
            over = &mut exceeded => {
                limit = Some(over);
                break true;
            }
            _ = process.exited(), if drained.is_none() => drained = Some(Instant::now() + DRAIN),
            () = sleep_until(drained.unwrap_or(next_show)), if drained.is_some() => break true,
            () = sleep_until(next_show), if total > shown => {
                shown = total;
                next_show = Instant::now() + SHOW_EVERY;
                ctx.update(ToolResult::text(joined(&out.kept.last(SHOW_BYTES), &err.kept.last(SHOW_BYTES))));
            }
            () = out.read() => out.pass(&mut spool).await,
            () = err.read() => err.pass(&mut spool).await,
        }
    };
    if limit.is_none() {
        // It may have been ended for this, and its end seen first.
        limit = tokio::select! { biased; over = &mut exceeded => Some(over), () = ready(()) => process.refused() };
    }
    let unconfined = process.unconfined().map(str::to_owned);
    let status = process.kill_tree().await;
    if !has_ended {
        return Err(ToolError::Cancelled);
    }
    let status = status.map_err(|error| ToolError::Failed(format!("the end of bash could not be seen: {error}")))?;
    out.end(&mut spool).await;
    err.end(&mut spool).await;
    let whole = spool.finish(out.kept.total() + err.kept.total()).await;
    Ok(Ran { status, limit, out: out.kept, err: err.kept, whole, unconfined })
}

impl Ran {
    /// The ends of its streams, where it says why it failed.
    fn printed(&self) -> [String; 2] {
        [&self.out, &self.err].map(|stream| stream.last(LOOKED_AT))
    }

    /// For the model: the output, below it how the command ended, and last what the sandbox refused it.
    fn result(self, report: &Report) -> ToolResult {
        let Self { status, limit, out, err, whole, unconfined } = self;
        let note = whole.as_ref().map(Whole::note).unwrap_or_default();
        let mut text = joined(&out.text_with(&note), &err.text_with(&note));
        let mut below: Vec<String> = ending(status, limit).into_iter().chain(report.lines()).collect();
        if report.lines().is_empty() {
            below.extend(denial(&text));
        }
        if text.is_empty() {
            text.push_str("(no output)");
        }
        for line in below {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&line);
        }
        let mut details = json!({"exit_code": status.code(), "truncated": out.is_truncated() || err.is_truncated()});
        let more = [
            ("signal", status.signal().map(Value::from)),
            ("output", whole.map(|whole| whole.path.into())),
            ("limit", limit.map(|limit| limit.name().into())),
            ("unconfined", unconfined.map(Value::from)),
            ("refused", report.details()),
        ];
        if let Some(details) = details.as_object_mut() {
            details.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        ToolResult { details, ..ToolResult::text(text) }
    }
}

/// How a command ended, unless it ended well.
fn ending(status: ExitStatus, limit: Option<Exceeded>) -> Option<String> {
    let ending = match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("killed by signal {signal}")),
        (None, None) => Some("ended without an exit code".to_owned()),
    };
    match (ending, limit) {
        (ending, None) => ending,
        // It ended by itself.
        (Some(ending), Some(refused @ Exceeded::Tasks(_))) => Some(format!("{ending}; {refused}")),
        (_, Some(limit)) => Some(limit.to_string()),
    }
}

fn joined(out: &str, err: &str) -> String {
    match (out.is_empty(), err.is_empty()) {
        (_, true) => out.to_owned(),
        (true, false) => format!("stderr:\n{err}"),
        (false, false) if out.ends_with('\n') => format!("{out}stderr:\n{err}"),
        (false, false) => format!("{out}\nstderr:\n{err}"),
    }
}

/// Whether a command contains a pattern as whole words.
fn matches(pattern: &str, command: &str) -> bool {
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    let (pattern, prefix) = match pattern.strip_suffix('*') {
        Some(start) => (start, true),
        None => (pattern, false),
    };
    let pattern = pattern.split_whitespace().collect::<Vec<_>>().join(" ");
    let part_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !pattern.is_empty()
        && command.match_indices(&pattern).any(|(at, found)| {
            let before = command.get(..at).and_then(|text| text.chars().next_back());
            let after = command.get(at + found.len()..).and_then(|text| text.chars().next());
            let begins = !pattern.starts_with(part_of_word) || !before.is_some_and(part_of_word);
            begins && (prefix || !after.is_some_and(|c| part_of_word(c) || c == '/'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_commands_are_known_and_their_neighbours_are_not() {
        let bash = Bash::default();
        let denied = |command: &str| bash.deny.iter().any(|pattern| matches(pattern, command));
        for bad in [
            "rm -rf /",
            "sudo rm  -rf   / --x",
            "cd /; rm -rf /*",
            "rm -rf /; ls",
            "/bin/rm -rf ~",
            ":(){ :|:& };:",
            "mkfs.ext4 /dev/sda1",
            "mkfs /dev/sda",
            "dd if=/dev/zero of=/dev/sda bs=1M",
            "echo x > /dev/sda",
            "rm -rf --no-preserve-root /",
        ] {
            assert!(denied(bad), "{bad}");
        }
        for good in
            ["rm -rf /tmp/x", "rm -rf ./x", "dd if=a of=/dev/null", "ls /", "rm -rf ~/x/y", "echo confirm -rf /"]
        {
            assert!(!denied(good), "{good}");
        }
    }

    #[test]
    fn a_timeout_in_the_arguments_counts() {
        let bash = Bash::default();
        assert_eq!(bash.time_for(&json!({"command": "x"})), Duration::from_secs(120));
        assert_eq!(bash.time_for(&json!({"command": "x", "timeout_ms": 7})), Duration::from_millis(7));
        assert_eq!(bash.timeout_for(&json!({"command": "x"})), Duration::from_secs(125));
    }
}
