//! What can be said of journals without reading them: what their first line says, and whether a directory is named
//! anywhere in them.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::SystemTime;

use memchr::memmem::Finder;
use playhouse_protocol::{EntryBody, SessionId};

use super::folder;
use super::listing::{journals, side_by_side};
use super::recovery::BUFFER;
use crate::format::record::decode;
use crate::store::error::StoreError;
use crate::store::{SessionHead, Whereabouts};

/// What is known of every session below `sessions`, the one that was written to last first.
pub(crate) fn heads(sessions: &Path, directory: &Path) -> Result<Vec<SessionHead>, StoreError> {
    let found = journals(sessions)?;
    let named = naming(directory);
    let named = named.as_ref().map(Finder::new);
    let mut all = side_by_side(&found, |(session, path)| head(session, path, directory, named.as_ref()));
    all.sort_by(|(a, head_a), (b, head_b)| b.cmp(a).then_with(|| head_a.session_id.cmp(&head_b.session_id)));
    Ok(all.into_iter().map(|(_, head)| head).collect())
}

/// How settings name the directory that tools work in; `None` for a directory that has no JSON, so that none name it.
fn naming(directory: &Path) -> Option<String> {
    serde_json::to_string(directory).ok().map(|json| format!("\"cwd\":{json}"))
}

/// A session's head, and when its journal was written to; `None` when it was removed meanwhile. One that cannot be read
/// may be anywhere: whoever reads it is told why.
fn head(
    session: &SessionId,
    path: &Path,
    directory: &Path,
    named: Option<&Finder<'_>>,
) -> Option<(Option<SystemTime>, SessionHead)> {
    let mut head = SessionHead { session_id: session.clone(), parent: None, whereabouts: Whereabouts::MaybeHere };
    let file = match folder::open_to_read(path) {
        Ok(file) => file?,
        Err(_) => return Some((None, head)),
    };
    let changed = file.metadata().and_then(|about| about.modified()).ok();
    let mut lines = BufReader::with_capacity(BUFFER, file);
    let mut line = Vec::new();
    let first = lines.read_until(b'\n', &mut line).ok().and_then(|_| decode(&line).ok());
    if let Some(EntryBody::Opened(opened)) = first.map(|record| record.entry.body) {
        head.parent = opened.spawned_by.as_ref().map(|by| by.parent_session_id.clone());
        // It may have been moved since.
        let is_elsewhere = opened.settings.cwd != directory && !names(lines, named).unwrap_or(true);
        if is_elsewhere {
            head.whereabouts = Whereabouts::Elsewhere;
        }
    }
    Some((changed, head))
}

/// Whether one of these lines has the words.
fn names(mut lines: impl BufRead, words: Option<&Finder<'_>>) -> io::Result<bool> {
    let Some(words) = words else { return Ok(false) };
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if words.find(&line).is_some() {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}
