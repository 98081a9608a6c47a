//! Where a command works: its folder, and where sessions are kept.

use std::path::{Path, PathBuf};

use playhouse::config::{Config, Origin};
use playhouse::from_config::FromConfigError;

use crate::cli::args::SharedArgs;
use crate::cli::exit::Exit;
use crate::cli::terminal::follow::SessionHome;

/// Where sessions are kept, and how that is said to someone who looks for one.
pub fn data_dir(config: &Config, shared: &SharedArgs) -> Result<(PathBuf, SessionHome), Exit> {
    let folder = config.data_dir.value.clone().ok_or_else(|| Exit::refused(FromConfigError::NoDataDir))?;
    let kept = match (&config.data_dir.origin, &shared.config) {
        (Origin::Flag(_), _) => SessionHome::Under(shared.data_dir.clone().unwrap_or_else(|| folder.clone())),
        // A file that only this command was given.
        (Origin::User(_), Some(_)) => SessionHome::Under(folder.clone()),
        (Origin::Default | Origin::User(_) | Origin::Project(_) | Origin::Environment(_), _) => {
            SessionHome::ByDefault(folder.clone())
        }
    };
    Ok((folder, kept))
}

/// The folder that `--cwd` names.
pub fn real_folder(path: &Path) -> Result<PathBuf, Exit> {
    let refused = |reason: String| Exit::Refused(format!("--cwd {}: {reason}; give a directory", path.display()));
    let real = path.canonicalize().map_err(|error| refused(error.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(refused("not a directory".to_owned())) }
}

/// The current directory, which may have been removed.
pub fn here() -> Result<PathBuf, Exit> {
    std::env::current_dir()
        .and_then(|path| path.canonicalize())
        .map_err(|error| Exit::Refused(format!("the current directory cannot be used ({error}): give --cwd DIR")))
}
