//! Sessions as people name them: by the beginning of an id, or as the last one of a directory.

use std::path::Path;

use playhouse::journal::short_id;
use playhouse::protocol::SessionId;
use playhouse::session::{SessionHead, SessionSummary, Store, StoreError, Whereabouts};

use crate::cli::commands::sessions::look;
use crate::cli::exit::Exit;

/// The newest session of a directory, by this name.
const LAST: &str = "last";
/// The least of an id that is looked for: what fewer characters name may be another one tomorrow.
const FEWEST: usize = 4;
/// How many of the newest sessions are read before it is looked through all which ones may be of a directory.
const GLANCE: usize = 4;
/// How many sessions an error lists.
const LISTED: usize = 5;

/// A session as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionName {
    /// The newest of a directory, sub-agents' aside.
    Last,
    /// A whole id, or the beginning of one.
    Beginning(SessionId),
}

impl SessionName {
    /// For flags and arguments.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            LAST => Ok(Self::Last),
            _ => SessionId::new(text).map(Self::Beginning).map_err(|error| error.to_string()),
        }
    }

    /// The session that is named; `directory` is whose last one it may be. Reads no journal but for `last`.
    pub fn find(
        &self,
        folder: &Path,
        directory: impl FnOnce() -> Result<std::path::PathBuf, Exit>,
    ) -> Result<SessionId, Exit> {
        match self {
            Self::Last => {
                let directory = directory()?;
                newest(folder, &directory, |_| true)?.ok_or_else(|| {
                    let directory = directory.display();
                    Exit::Refused(format!("there is no session of {directory}: see `playhouse sessions list --all`"))
                })
            }
            Self::Beginning(text) if !folder.exists() => {
                Err(Exit::refused(StoreError::Unknown { session: text.clone() }))
            }
            Self::Beginning(text) => named(&*look(folder)?, text),
        }
    }
}

fn named(store: &dyn Store, text: &SessionId) -> Result<SessionId, Exit> {
    if store.exists(text).map_err(Exit::refused)? {
        return Ok(text.clone());
    }
    let all = store.sessions().map_err(Exit::refused)?;
    let found: Vec<&SessionId> = all.iter().filter(|id| id.as_str().starts_with(text.as_str())).collect();
    match found.as_slice() {
        [_, ..] if text.as_str().len() < FEWEST => {
            Err(Exit::Refused(format!("no session has the id `{text}`: give at least {FEWEST} characters of one")))
        }
        [] => Err(Exit::refused(StoreError::Unknown { session: text.clone() })),
        [one] => Ok((*one).clone()),
        several => {
            let listed: Vec<&str> = several.iter().take(LISTED).map(|id| id.as_str()).collect();
            let more = match several.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let (count, listed) = (several.len(), listed.join(", "));
            Err(Exit::Refused(format!(
                "{count} sessions have ids that begin with `{text}`: {listed}{more}; give more of it"
            )))
        }
    }
}

/// The newest session of a directory that is no sub-agent's and is one of these. Reads the journals that may be of that
/// directory, the newest first, until it has it.
pub fn newest(
    folder: &Path,
    directory: &Path,
    is_one: impl Fn(&SessionSummary) -> bool,
) -> Result<Option<SessionId>, Exit> {
    if !folder.exists() {
        return Ok(None);
    }
    let store = look(folder)?;
    let is_it = |session: &SessionId| {
        // One that is gone, or cannot be read, is not the one that is meant.
        let Ok(summary) = SessionSummary::read(&*store, session) else { return false };
        summary.parent.is_none() && summary.cwd.as_deref() == Some(directory) && is_one(&summary)
    };
    let newest = store.newest_first().map_err(Exit::refused)?;
    if let Some(found) = newest.iter().take(GLANCE).find(|session| is_it(session)) {
        return Ok(Some(found.clone()));
    }
    if newest.len() <= GLANCE {
        return Ok(None);
    }
    let may_be = |head: &SessionHead| head.parent.is_none() && head.whereabouts == Whereabouts::MaybeHere;
    let heads = store.heads(directory).map_err(Exit::refused)?;
    Ok(heads.into_iter().filter(may_be).map(|head| head.session_id).find(is_it))
}

/// As much of an id as a person needs to name the session.
pub fn short(folder: &Path, session: &SessionId) -> String {
    let all = look(folder).and_then(|store| store.sessions().map_err(Exit::refused));
    // What cannot be looked at has no other ids that are known.
    let all = all.unwrap_or_default();
    short_id(session, all.iter()).to_owned()
}
