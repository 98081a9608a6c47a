//! Why the program ends other than well, and the exit code for it.

use crate::cli::terminal::signals;
use crate::cli::terminal::text::{Tint, error_line};

/// The exit code of a program that was interrupted from the keyboard, or whose output nobody reads any more.
pub const INTERRUPTED: u8 = 130;

/// Why the program does not end with 0. The text is one line that says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The run began and failed.
    Failed(String),
    /// Refused before a run started.
    Refused(String),
    /// A limit stopped the run.
    Limit(String),
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

    /// The exit code; docs/command-line.md lists them.
    pub fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Refused(_) => 2,
            Self::Limit(_) => 3,
            Self::Interrupted(_) => signals::exit_code(),
            Self::HungUp => INTERRUPTED,
            Self::Told(code) => *code,
        }
    }

    /// Says it on stderr.
    pub fn tell(&self) {
        match self {
            Self::Failed(text) | Self::Refused(text) | Self::Limit(text) => error_line("error: ", text, Tint::Red),
            Self::Interrupted(text) => error_line("", text, Tint::None),
            Self::HungUp | Self::Told(_) => {}
        }
    }
}
