//! Why the program ends other than well, and the exit code for it.

use crate::cli::terminal::signals;
use crate::cli::terminal::text::{Tint, error_line};

/// The exit code of a program that was interrupted from the keyboard, or whose output nobody reads any more.
pub const INTERRUPTED: u8 = 130;

/// Every exit code and what it means, for the help; docs/outcomes.md has the same table.
const CODES: [(u8, &str); 9] = [
    (0, "done, or nothing to do"),
    (1, "the run failed, or a check found something wrong"),
    (2, "refused before a run started"),
    (3, "a limit stopped the run"),
    (4, "the answer is incomplete, and --fail-incomplete was given"),
    (129, "ended by SIGHUP"),
    (130, "ended by SIGINT, or whoever read the output left"),
    (131, "ended by SIGQUIT"),
    (143, "ended by SIGTERM"),
];

/// The exit codes, below the help.
pub fn codes_help() -> String {
    let lines: Vec<String> = CODES.iter().map(|(code, meaning)| format!("  {code:<3}  {meaning}")).collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

/// Why the program does not end with 0. The text is one line that says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The run began and failed.
    Failed(String),
    /// Refused before a run started.
    Refused(String),
    /// A limit stopped the run.
    Limit(String),
    /// The run is done and its answer is incomplete, which `--fail-incomplete` does not accept.
    Incomplete(String),
    /// A signal asked to stop.
    Interrupted(String),
    /// Whoever read the output is gone.
    HungUp,
    /// Everything was said already; this is the exit code.
    Told(u8),
}

impl Exit {
    /// Refuses for the reason that an error gives.
    pub fn refused(error: impl std::fmt::Display) -> Self {
        Self::Refused(error.to_string())
    }

    /// The exit code; docs/outcomes.md lists them.
    pub fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Refused(_) => 2,
            Self::Limit(_) => 3,
            Self::Incomplete(_) => 4,
            Self::Interrupted(_) => signals::exit_code(),
            Self::HungUp => INTERRUPTED,
            Self::Told(code) => *code,
        }
    }

    /// What is wrong, unless that was said already.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Failed(text)
            | Self::Refused(text)
            | Self::Limit(text)
            | Self::Incomplete(text)
            | Self::Interrupted(text) => Some(text),
            Self::HungUp | Self::Told(_) => None,
        }
    }

    /// Says it on stderr.
    pub fn tell(&self) {
        self.tell_of("");
    }

    /// Says it on stderr, after the label of whose it is.
    pub fn tell_of(&self, label: &str) {
        match self {
            Self::Failed(text) | Self::Refused(text) | Self::Limit(text) | Self::Incomplete(text) => {
                error_line(&format!("{label}error: "), text, Tint::Red);
            }
            Self::Interrupted(text) => error_line(label, text, Tint::None),
            Self::HungUp | Self::Told(_) => {}
        }
    }
}
