//! Drafts of files that a kill left: removed when somebody next writes in their folder.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, MetadataExt};
use playhouse_protocol::lock;

use crate::process::mark::nonce;

/// No replacement takes this long: an older draft is nobody's.
const ABANDONED: Duration = Duration::from_secs(3_600);
/// The most names that are looked at: a folder of millions is not read for this.
const MOST: usize = 10_000;
/// How many folders are remembered as seen; then they are forgotten and looked at again.
const FOLDERS: usize = 4_096;

/// The folders that a house has looked through.
#[derive(Debug, Default)]
pub(super) struct CleanedFolders(Mutex<HashSet<Folder>>);

/// A folder: device, number, and when it was made, since a number is given again.
type Folder = (u64, u64, Option<(i64, u32)>);

/// A name for a draft that no other has.
pub(crate) fn draft_name() -> String {
    format!(".playhouse-{:016x}.tmp", nonce())
}

fn is_draft(name: &OsStr) -> bool {
    let middle = name.to_str().and_then(|name| name.strip_prefix(".playhouse-")?.strip_suffix(".tmp"));
    middle.is_some_and(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// When a folder was made, where the system knows.
#[cfg(target_os = "linux")]
fn made(dir: &Dir) -> Option<(i64, u32)> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let seen = statx(dir.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    Some((seen.stx_btime.tv_sec, seen.stx_btime.tv_nsec))
}

#[cfg(not(target_os = "linux"))]
fn made(_: &Dir) -> Option<(i64, u32)> {
    None
}

/// Removes old drafts from a folder, the first time that this house writes there.
pub(super) fn remove_from(dir: &Dir, cleaned: &CleanedFolders) {
    let Ok(seen) = rustix::fs::fstat(dir.as_fd()) else { return };
    let folder = (seen.st_dev, seen.st_ino, made(dir));
    {
        let mut folders = lock(&cleaned.0);
        if folders.len() >= FOLDERS {
            folders.clear();
        }
        if !folders.insert(folder) {
            return;
        }
    }
    let Ok(entries) = dir.entries() else { return };
    for entry in entries.take(MOST).flatten() {
        let name = entry.file_name();
        if !is_draft(&name) {
            continue;
        }
        // Of the entry itself: a link is no draft of ours.
        let Ok(found) = dir.symlink_metadata(&name) else { continue };
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.mtime()).unwrap_or_default());
        if found.is_file() && written.elapsed().is_ok_and(|age| age > ABANDONED) {
            // What cannot be removed stays, under a name that says whose it is.
            let _ = dir.remove_file(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_have_names_of_their_own() {
        assert!(is_draft(OsStr::new(&draft_name())));
        assert_ne!(draft_name(), draft_name());
        for other in [".playhouse-.tmp", ".playhouse-0123456789abcdeg.tmp", "playhouse-0123456789abcdef.tmp", "a.tmp"] {
            assert!(!is_draft(OsStr::new(other)), "{other}");
        }
    }
}
