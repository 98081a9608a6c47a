//! Listing the journals of a data directory. What is damaged is listed with its damage.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

use playhouse_protocol::{SessionId, lock};

use super::blob_files::Reading;
use super::folder;
use super::reading::FileRecords;
use crate::format::record::BadLine;
use crate::format::scan::{Damage, DamageKind};
use crate::store::error::StoreError;
use crate::store::{Holder, Records};
use crate::views::along::fold_chain;
use crate::views::summary::{Fold, SessionSummary};

/// How many threads read journals, at most.
const MOST_THREADS: usize = 8;
/// For fewer journals than this a further thread is not worth its start.
const A_THREADS_WORTH: usize = 16;

/// The summaries of these journals, newest first. One that is gone is left out.
pub(crate) fn summaries(
    journals: &[(SessionId, PathBuf)],
    holder: impl Fn(&SessionId) -> Result<Option<Holder>, StoreError> + Sync,
) -> Vec<SessionSummary> {
    let mut all = side_by_side(journals, |(session, path)| summarise(session, path, &holder));
    all.sort_by(|a, b| b.last_active_at.cmp(&a.last_active_at).then_with(|| a.session_id.cmp(&b.session_id)));
    all
}

/// Does the same with each of these, on as many threads as there are processors. What came of it is in any order.
pub(super) fn side_by_side<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(all.len())));
    let share = || {
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(one);
            lock(&done).extend(result);
        }
    };
    let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(all.len() / A_THREADS_WORTH);
    thread::scope(|scope| {
        // One that cannot be started leaves its share to the others.
        for _ in 1..threads {
            let _ = thread::Builder::new().name("journals".to_owned()).spawn_scoped(scope, share);
        }
        share();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Every session below `sessions`, by when its file was changed, the latest first. Reads none of them.
pub(crate) fn newest_first(sessions: &Path) -> Result<Vec<SessionId>, StoreError> {
    let changed = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    let mut all: Vec<_> = journals(sessions)?.into_iter().map(|(session, path)| (changed(&path), session)).collect();
    all.sort_by(|a, b| b.cmp(a));
    Ok(all.into_iter().map(|(_, session)| session).collect())
}

/// The journals below `sessions`, in any order.
pub(crate) fn journals(sessions: &Path) -> Result<Vec<(SessionId, PathBuf)>, StoreError> {
    let mut all = Vec::new();
    for shard in folders(sessions)? {
        for entry in read_folder(&shard)? {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".journal")) else { continue };
            let Ok(session) = SessionId::new(id) else { continue };
            all.push((session, entry.path()));
        }
    }
    Ok(all)
}

/// The folders that journals are in.
pub(crate) fn folders(sessions: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut all = Vec::new();
    for entry in read_folder(sessions)? {
        let is_shard = matches!(entry.file_name().as_encoded_bytes(), [a, b] if is_hex(*a) && is_hex(*b));
        if is_shard && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.push(entry.path());
        }
    }
    Ok(all)
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// `None` when the journal was removed meanwhile.
fn summarise(
    session: &SessionId,
    path: &Path,
    holder: impl Fn(&SessionId) -> Result<Option<Holder>, StoreError>,
) -> Option<SessionSummary> {
    let unreadable = |reason: String| Damage { line: 1, offset: 0, kind: DamageKind::Unreadable { reason } };
    let (held_by, mut damage) = match holder(session) {
        Ok(held_by) => (held_by, Vec::new()),
        Err(e) => (None, vec![unreadable(e.to_string())]),
    };
    let gone = || StoreError::Unknown { session: session.clone() };
    let open = || {
        let file = folder::open_to_read(path)?.ok_or_else(gone)?;
        FileRecords::open(path, file, Reading::Beginning).map(Box::new)
    };
    Some(match fold_chain(open, Fold::take) {
        Ok((fold, mut records)) => {
            if let Some(version) = records.newer {
                damage.push(Damage { line: 1, offset: 0, kind: DamageKind::BadLine(BadLine::Newer { version }) });
            }
            if records.newer.is_some() || held_by.is_some() {
                records.torn = None;
            }
            damage.append(&mut records.damage());
            fold.end(session, held_by, damage)
        }
        Err(StoreError::Unknown { .. }) => return None,
        Err(e) => {
            damage.push(unreadable(e.to_string()));
            Fold::default().end(session, held_by, damage)
        }
    })
}

/// What is in a folder. One that is gone, or was never there, holds nothing.
pub(crate) fn read_folder(path: &Path) -> Result<Vec<fs::DirEntry>, StoreError> {
    match fs::read_dir(path).and_then(|entries| entries.collect::<io::Result<_>>()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|e| StoreError::io("list", path, &e)),
    }
}
