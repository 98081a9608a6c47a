//! The house of a command: as it is configured, with the person at the terminal to answer questions.

use std::path::PathBuf;

use playhouse::config::Config;
use playhouse::from_config::FromConfig;
use playhouse::session::StoreError;
use playhouse::{House, OpenError};

use crate::cli::args::RecordingArgs;
use crate::cli::exit::Exit;
use crate::cli::terminal::ask::{Asking, approvals};
use crate::cli::terminal::signals;

/// What makes the house and its agents.
pub fn from_config(config: Config, asking: &Asking, recordings: &RecordingArgs) -> FromConfig {
    let (approvals, sub_agent_approvals) = approvals(asking, config.question_timeout.value);
    FromConfig { config, approvals, sub_agent_approvals, exchanges: recordings.exchanges() }
}

/// Opens a house whose sessions are in this folder; in memory without one.
pub async fn open_house(from: &FromConfig, folder: Option<PathBuf>) -> Result<House, Exit> {
    let mut builder = from.house().map_err(Exit::refused)?;
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
