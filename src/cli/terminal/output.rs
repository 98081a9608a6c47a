//! How a run is printed: the flags for it, the document of `--output json`, the file of `--last-message`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use playhouse::agent::RunReport;
use playhouse::protocol::{Message, Outcome, SessionId, StopReason};
use serde_json::{Value, json};

use crate::cli::exit::Exit;
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
    /// Write the last message to this file too, unless the run fails
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
        if path.is_dir() {
            return Err(refuse("this is a directory: name a file"));
        }
        if !folder_of(path).is_dir() {
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

    /// What an incomplete answer means for the program.
    pub fn judged(&self, incomplete: Option<Incomplete>) -> Result<(), Exit> {
        match incomplete {
            Some(incomplete) if self.fail_incomplete => Err(Exit::Incomplete(incomplete.to_string())),
            Some(_) | None => Ok(()),
        }
    }

    /// Writes the last message where it was asked for: all of it, or nothing.
    pub fn keep(&self, answer: &str) -> Result<(), Exit> {
        let Some(path) = &self.last_message else { return Ok(()) };
        write_whole(path, answer).map_err(|error| {
            Exit::Failed(format!("the last message could not be written to {}: {error}", path.display()))
        })
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write_whole(path: &Path, answer: &str) -> io::Result<()> {
    let text = closed(answer);
    // Where a link leads is written, not the link; a device or a pipe is no file that could be replaced.
    let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if place.exists() && !place.is_file() {
        return std::fs::OpenOptions::new().write(true).open(&place)?.write_all(text.as_bytes());
    }
    let mut file = tempfile::Builder::new();
    file.prefix(".playhouse-");
    #[cfg(unix)]
    // What the user's mask takes away is taken away, as from any file.
    file.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = file.tempfile_in(folder_of(&place))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&place)?;
    Ok(())
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
    /// What is missing in a run's answer; `None` if it is whole, or if there is none.
    pub fn of(report: &RunReport) -> Option<Self> {
        let spoken = report.messages.iter().rev().filter_map(|message| message.llm());
        let refusal =
            |message: &Message| matches!(message, Message::Assistant { stop_reason: StopReason::Refusal, .. });
        match &report.outcome {
            Outcome::Length => Some(Self::Length),
            Outcome::Stop if spoken.take(1).any(refusal) => Some(Self::Refusal),
            Outcome::Stop if report.text().trim().is_empty() => Some(Self::Empty),
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
        "incomplete": report_ok.and_then(Incomplete::of).map(Incomplete::name),
        "error": error,
        "exit_code": code,
    });
    if let (Value::Object(fields), Value::Object(counted)) = (&mut document, totals.document()) {
        fields.extend(counted);
    }
    format!("{document}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_and_a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::fs::write(&file, "old").unwrap();
        write_whole(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n");
        assert!(link.is_symlink());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_ne!(mode & 0o200, 0, "{mode:o}");
        assert!(write_whole(&folder.path().join("no/such"), "x").is_err());
    }
}
