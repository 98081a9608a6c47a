//! Variables: those of the process, and which of them are ours.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use playhouse_tools::is_secret;
use playhouse_tools::mark::{HOUSE_VAR, RUN_VAR};

use crate::config::keys::value::Given;
use crate::config::keys::{Key, keys};
use crate::config::problem::Problem;
use crate::config::sources::put;
use crate::config::{Config, Origin};
use crate::nearest::nearest;

/// What ours begin with.
const PREFIX: &str = "PLAYHOUSE_";
/// Names the user's file.
pub(crate) const FILE: &str = "PLAYHOUSE_CONFIG";
/// Variables that begin like ours and are no settings: the marks of tools' processes, where to log,
/// what hooks are told, and what tests set.
const OTHERS: [&str; 8] = [
    HOUSE_VAR,
    RUN_VAR,
    "PLAYHOUSE_LOG",
    "PLAYHOUSE_PROJECT_DIR",
    "PLAYHOUSE_FAIL",
    "PLAYHOUSE_SEED",
    "PLAYHOUSE_RUNS",
    "PLAYHOUSE_BLOW",
];

/// The variables of a process. Their values may be secrets: nothing prints them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// Those of this process, as of now.
    pub(crate) fn of_this_process() -> Self {
        std::env::vars_os().collect()
    }

    /// A variable's value; one that is empty counts as unset.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Those that begin like ours, by name.
    fn ours(&self) -> impl Iterator<Item = (String, &OsString)> {
        let named = self.0.iter().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
        named.filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
    }
}

impl FromIterator<(OsString, OsString)> for Variables {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Variables").field(&self.0.len()).finish()
    }
}

/// Lays the variables over a configuration.
pub(crate) fn lay_over(
    config: &mut Config,
    variables: &Variables,
    folder: Option<&std::path::Path>,
    problems: &mut Vec<Problem>,
) {
    for (name, value) in variables.ours() {
        if name == FILE || OTHERS.contains(&name.as_str()) {
            continue;
        }
        match keys().iter().find(|key| key.variable() == name) {
            Some(key) => {
                let found = format!("{:?}", value.to_string_lossy());
                put(config, key, (Given::Plain(value.clone()), &found), folder, Origin::Environment(name), problems);
            }
            None => problems.push(unknown(name)),
        }
    }
}

fn unknown(name: String) -> Problem {
    let bare = name.strip_prefix(PREFIX).unwrap_or(&name);
    let known = keys().iter().map(|key| (key.name(), Some(key)));
    let near = nearest(bare, known.chain([("config", None)]));
    // A slip in `MAX_TOKENS` is no secret.
    if is_secret(bare) && near.is_none_or(|near| near.distance > 2) {
        return Problem::SecretVariable { name };
    }
    let nearest = near.map(|near| near.candidate.map_or(FILE.to_owned(), Key::variable));
    Problem::UnknownVariable { name, nearest }
}
