//! Exchanges with services that are kept, or played again.

use std::path::PathBuf;

use clap::Args;
use playhouse::HouseBuilder;
use playhouse::provider::Answers;

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
    /// Who answers.
    pub fn answers(&self) -> Answers {
        match self.replay {
            Some(_) => Answers::Recording,
            None => Answers::Services,
        }
    }

    /// A house that does so.
    pub fn wire(&self, house: HouseBuilder) -> HouseBuilder {
        match (&self.record, &self.replay) {
            (Some(folder), _) => house.record(folder),
            (None, Some(folder)) => house.replay(folder),
            (None, None) => house,
        }
    }
}
