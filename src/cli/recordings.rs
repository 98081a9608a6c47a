//! Exchanges with services that are kept, or played again.

use std::path::PathBuf;

use clap::Args;
use playhouse::from_config::Exchanges;

/// What is done with the exchanges with services.
#[derive(Clone, Debug, Default, Args)]
pub struct RecordingArgs {
    /// Keep every exchange with a service in this folder, without keys
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Let the exchanges in this folder answer: no network, no keys
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
}

impl RecordingArgs {
    /// As a house takes it.
    pub fn exchanges(&self) -> Exchanges {
        match (&self.record, &self.replay) {
            (Some(folder), _) => Exchanges::Recorded(folder.clone()),
            (None, Some(folder)) => Exchanges::Replayed(folder.clone()),
            (None, None) => Exchanges::Live,
        }
    }
}
