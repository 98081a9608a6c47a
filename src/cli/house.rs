//! The house of a command: as it is configured, with the person at the terminal to answer questions.

use std::path::PathBuf;
use std::time::Duration;

use playhouse::agent::RuleBook;
use playhouse::config::{Config, RuleFile};
use playhouse::from_config::FromConfig;
use playhouse::session::StoreError;
use playhouse::{House, OpenError};

use crate::cli::args::RecordingArgs;
use crate::cli::exit::Exit;
use crate::cli::terminal::ask::{Asking, approvals};
use crate::cli::terminal::signals;
use crate::cli::terminal::text::{Tint, error_line};

/// What makes the house and its agents.
pub fn from_config(config: Config, asking: &Asking, recordings: &RecordingArgs) -> FromConfig {
    let (approvals, sub_agent_approvals) = approvals(asking, config.question_timeout.value);
    FromConfig { config, approvals, sub_agent_approvals, exchanges: recordings.exchanges() }
}

/// The user's file, for rules that last. A person who said always is told if that is not so.
struct UserRules {
    file: RuleFile,
    asking: Asking,
}

impl RuleBook for UserRules {
    fn remember(&self, rules: &[String]) -> Result<(), String> {
        self.file.remember(rules).inspect_err(|error| {
            let rules = rules.join(", ");
            self.asking.went_amiss(format!("{rules} is allowed until this program ends, and not always: {error}"));
        })
    }
}

/// Ends a house; says what its last answers came to.
pub async fn close_house(house: &House, asking: &Asking) {
    house.shutdown(Duration::ZERO).await;
    for text in asking.amiss() {
        error_line("warning: ", &text, Tint::Red);
    }
}

/// Opens a house whose sessions are in this folder; in memory without one.
pub async fn open_house(from: &FromConfig, asking: &Asking, folder: Option<PathBuf>) -> Result<House, Exit> {
    let mut builder = from.house().map_err(Exit::refused)?;
    if let Some(file) = &from.config.user_file {
        builder = builder.rule_book(UserRules { file: RuleFile::new(file), asking: asking.clone() });
    }
    if let Some(folder) = folder {
        builder = builder.data_dir(folder);
    }
    builder.open().await.inspect(signals::watch_over).map_err(|error| match error {
        OpenError::Store(error) => unusable(&error),
        OpenError::PanicAborts(_) | OpenError::Recordings(_) | OpenError::Rule { .. } | OpenError::Root(_) => {
            Exit::refused(error)
        }
    })
}

/// Why the data directory cannot be used, and what to do.
pub fn unusable(error: &StoreError) -> Exit {
    match error {
        StoreError::Io { .. } => Exit::Refused(format!("{error}; choose another data directory with --data-dir")),
        _ => Exit::refused(error),
    }
}
