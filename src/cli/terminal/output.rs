//! How a run is printed: the flags for it, and the document of `--output json`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use playhouse::agent::RunReport;
use playhouse::protocol::{FailureKind, Message, Outcome, SessionId, StopReason};
use serde_json::{Value, json};

use crate::cli::exit::Exit;
use crate::cli::terminal::last_message;
use crate::cli::terminal::totals::Totals;

/// What goes to stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// The answer
    #[default]
    Text,
    /// One document at the end, with the answer or the error
    Json,
    /// One event per line as it happens
    StreamJson,
}

/// How much is said beside the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Errors alone.
    Quiet,
    Usual,
    /// All of what tools print and of what the model thinks.
    All,
}

/// Flags on how a run is printed.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// What goes to stdout; everything else goes to stderr
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    output: OutputForm,
    /// The same as --output stream-json
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Print the answer and errors, nothing else
    #[arg(long)]
    quiet: bool,
    /// Print all of what tools print and of what the model thinks
    #[arg(long, conflicts_with = "quiet")]
    verbose: bool,
    /// Write the last message to this file too, unless the run fails; a device or a pipe is written to as it is
    #[arg(long, value_name = "FILE")]
    last_message: Option<PathBuf>,
    /// Exit with 4 if the answer is cut off by its length, a refusal, or empty
    #[arg(long)]
    fail_incomplete: bool,
}

impl OutputArgs {
    pub fn form(&self) -> OutputForm {
        if self.json { OutputForm::StreamJson } else { self.output }
    }

    pub fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (false, true) => Detail::All,
            (false, false) => Detail::Usual,
        }
    }

    /// Refuses a file for the last message that could not be written; to be asked before a run.
    pub fn check(&self) -> Result<(), Exit> {
        let Some(path) = &self.last_message else { return Ok(()) };
        let refuse = |why: &str| Exit::Refused(format!("--last-message {}: {why}", path.display()));
        if path == Path::new("-") {
            return Err(refuse(
                "the answer goes to stdout by itself: leave the flag out, or name a file (./- for `-`)",
            ));
        }
        if path.is_dir() {
            return Err(refuse("this is a directory: name a file"));
        }
        let place = last_message::behind_links(path).map_err(|error| refuse(&error.to_string()))?;
        if !last_message::folder_of(&place).is_dir() {
            return Err(refuse("there is no such directory: make it first"));
        }
        Ok(())
    }

    /// Refuses a file for the last message where there may be several.
    pub fn check_several(&self) -> Result<(), Exit> {
        if self.last_message.is_none() {
            return Ok(());
        }
        let text = "--last-message is about one run: name its session (playhouse resume SESSION --last-message FILE)";
        Err(Exit::Refused(text.to_owned()))
    }

    /// What an incomplete answer means for the program; `done` is what the end of the run means otherwise.
    pub fn judged(&self, done: Result<(), Exit>, incomplete: Option<Incomplete>) -> Result<(), Exit> {
        match (done, incomplete) {
            (Ok(()), Some(incomplete)) if self.fail_incomplete => Err(Exit::Incomplete(incomplete.to_string())),
            (Err(Exit::Failed(text)), Some(Incomplete::Empty)) if self.fail_incomplete => Err(Exit::Incomplete(text)),
            (done, _) => done,
        }
    }

    /// Writes the last message where it was asked for: all of it, or nothing.
    pub fn keep(&self, answer: &str) -> Result<(), Exit> {
        let Some(path) = &self.last_message else { return Ok(()) };
        last_message::write(path, &closed(answer)).map_err(|error| {
            Exit::Failed(format!("the last message could not be written to {}: {error}", path.display()))
        })
    }
}

/// The text with a line break at its end.
pub fn closed(text: &str) -> String {
    let missing = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{missing}")
}

/// Why an answer is not all that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomplete {
    Length,
    Refusal,
    Empty,
}

impl Incomplete {
    /// What is missing in a run's answer; `None` if it is whole, or if the run failed for another reason.
    pub fn of(report: &RunReport) -> Option<Self> {
        let spoken = report.messages.iter().rev().filter_map(|message| message.llm());
        let refusal =
            |message: &Message| matches!(message, Message::Assistant { stop_reason: StopReason::Refusal, .. });
        match &report.outcome {
            Outcome::Length => Some(Self::Length),
            Outcome::Stop if spoken.take(1).any(refusal) => Some(Self::Refusal),
            Outcome::Stop if report.text().trim().is_empty() => Some(Self::Empty),
            Outcome::Error { .. } if report.failure == Some(FailureKind::Empty) => Some(Self::Empty),
            Outcome::Stop
            | Outcome::Error { .. }
            | Outcome::Aborted
            | Outcome::Limit { .. }
            | Outcome::Rejected { .. }
            | Outcome::Halted { .. } => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Refusal => "refusal",
            Self::Empty => "empty",
        }
    }
}

impl std::fmt::Display for Incomplete {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Length => "the answer is cut off: the model ran into its output limit; raise it with --max-tokens",
            Self::Refusal => "the model declined to answer: change the prompt, or ask another model with --model",
            Self::Empty => "the answer is empty: ask again, or ask another model with --model",
        })
    }
}

/// The document of `--output json`; docs/events.md describes it.
pub fn document(session: &SessionId, report: Option<&RunReport>, totals: &Totals, done: &Result<(), Exit>) -> String {
    let report_ok = report.filter(|report| report.outcome.is_success());
    let (error, code) = match done {
        Ok(()) => (None, 0),
        Err(exit) => (exit.text(), exit.code()),
    };
    let mut document = json!({
        "session_id": session,
        "answer": report_ok.map(RunReport::text),
        "outcome": report.map(|report| &report.outcome),
        "incomplete": report.and_then(Incomplete::of).map(Incomplete::name),
        "error": error,
        "exit_code": code,
    });
    if let (Value::Object(fields), Value::Object(counted)) = (&mut document, totals.document()) {
        fields.extend(counted);
    }
    format!("{document}\n")
}
