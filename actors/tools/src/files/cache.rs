//! The content of files that were read lately: up to 5 MiB, for up to five minutes, for all agents of a house.
//!
//! A file is the one that was read if its marks are: number, size, and when it was last written and changed, to the
//! nanosecond. The file system keeps those times by a clock that ticks every few milliseconds, so two changes within a
//! tick look like one. As git does, marks are trusted only if they were old when the file was read: then any change
//! since has a later time. The one writer that can change a file without that is one that maps it into memory, until
//! the kernel next writes its pages to disk. Checks before a change never look here: they read the file.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use playhouse_protocol::lock;
use playhouse_supervision::Lru;

use crate::files::paths::FileKey;
use crate::files::versions::Version;

/// The most that is kept, in bytes of content.
const MOST: usize = 5 << 20;
/// How long it is kept.
const KEPT: Duration = Duration::from_secs(300);
/// How old a file's marks must be when it is read. The coarsest clock of a file system ticks every two seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Arc<[u8]>,
    /// What it is told by.
    pub(crate) version: Version,
}

/// The content of files that were read lately.
#[derive(Debug)]
pub(crate) struct ContentCache(Mutex<Cache>);

impl Default for ContentCache {
    fn default() -> Self {
        Self(Mutex::new(Cache::new(MOST)))
    }
}

impl ContentCache {
    /// The content of a file that has these marks now, if it is known.
    pub(crate) fn get(&self, file: &FileKey, marks: &Version) -> Option<Content> {
        lock(&self.0).get(file, marks, Instant::now())
    }

    /// Keeps what was read of a file that had these marks before and after, the first time no earlier than `looked`.
    pub(crate) fn put(&self, file: &FileKey, marks: Version, looked: SystemTime, content: &Content) {
        if is_settled(&marks, looked) {
            lock(&self.0).put(file, marks, content.clone(), Instant::now());
        }
    }

    /// Drops a file: somebody changes it, or tried to.
    pub(crate) fn forget(&self, file: &FileKey) {
        lock(&self.0).forget(file);
    }
}

/// Whether a change from `looked` on must show in the marks.
fn is_settled(marks: &Version, looked: SystemTime) -> bool {
    match marks {
        // Only the time of the last change counts: the other can be set at will, which is a change.
        Version::Marks { times: [_, changed], .. } => {
            let looked = looked.duration_since(UNIX_EPOCH).map(|time| time.as_nanos()).unwrap_or_default();
            let settled = changed.saturating_add(i128::try_from(SETTLED.as_nanos()).unwrap_or(i128::MAX));
            i128::try_from(looked).is_ok_and(|looked| settled <= looked)
        }
        Version::Content { .. } => false,
    }
}

#[derive(Debug)]
struct Cache {
    most: usize,
    bytes: usize,
    files: Lru<FileKey, CachedFile>,
}

#[derive(Debug)]
struct CachedFile {
    marks: Version,
    content: Content,
    since: Instant,
}

impl Cache {
    fn new(most: usize) -> Self {
        Self { most, bytes: 0, files: Lru::default() }
    }

    fn get(&mut self, file: &FileKey, marks: &Version, now: Instant) -> Option<Content> {
        let kept = self.files.get(file)?;
        if kept.marks != *marks || now.duration_since(kept.since) > KEPT {
            self.forget(file);
            return None;
        }
        Some(kept.content.clone())
    }

    fn put(&mut self, file: &FileKey, marks: Version, content: Content, now: Instant) {
        self.forget(file);
        if content.bytes.len() > self.most {
            return;
        }
        self.bytes += content.bytes.len();
        self.files.insert(file.clone(), CachedFile { marks, content, since: now });
        // An empty file takes room too, if not of this kind.
        while self.bytes > self.most || self.files.len() > self.most / 1024 {
            let Some((_, oldest)) = self.files.pop_oldest() else { break };
            self.bytes -= oldest.content.bytes.len();
        }
    }

    fn forget(&mut self, file: &FileKey) {
        if let Some(kept) = self.files.remove(file) {
            self.bytes -= kept.content.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::AskedPath;
    use crate::files::paths::Root;

    fn keys(count: usize) -> Vec<FileKey> {
        let folder = tempfile::tempdir().unwrap();
        let asked = |n: usize| AskedPath::for_test(&n.to_string(), folder.path());
        (0..count).map(|n| Root::open(&asked(n)).unwrap().spot().unwrap().key().unwrap()).collect()
    }

    fn content(size: usize) -> Content {
        Content { bytes: vec![b'x'; size].into(), version: Version::of(b"x") }
    }

    fn marks(inode: u64, changed: i128) -> Version {
        Version::Marks { inode, bytes: 1, times: [0, changed] }
    }

    #[test]
    fn the_least_recently_read_goes_first_and_all_go_in_time() {
        let (files, now) = (keys(4), Instant::now());
        let mut cache = Cache::new(30_000);
        for file in &files[..3] {
            cache.put(file, marks(1, 1), content(10_000), now);
        }
        assert!(cache.get(&files[0], &marks(1, 1), now).is_some());
        cache.put(&files[3], marks(1, 1), content(10_000), now);
        let there = |cache: &mut Cache, now| -> Vec<bool> {
            files.iter().map(|file| cache.get(file, &marks(1, 1), now).is_some()).collect()
        };
        assert_eq!(there(&mut cache, now), [true, false, true, true]);
        assert_eq!(cache.bytes, 30_000);
        cache.put(&files[1], marks(1, 1), content(30_001), now);
        assert_eq!(cache.bytes, 30_000, "what is larger than all of it is not kept");
        let later = now + KEPT + Duration::from_millis(1);
        assert_eq!(there(&mut cache, later), [false; 4]);
        assert_eq!((cache.bytes, cache.files.len()), (0, 0));
    }

    #[test]
    fn other_marks_are_another_content() {
        let (files, now) = (keys(1), Instant::now());
        let mut cache = Cache::new(30_000);
        cache.put(&files[0], marks(1, 1), content(1), now);
        assert!(cache.get(&files[0], &marks(1, 1), now).is_some());
        assert!(cache.get(&files[0], &marks(2, 1), now).is_none());
        assert!(cache.get(&files[0], &marks(1, 1), now).is_none(), "it is gone");
    }

    #[test]
    fn marks_that_are_young_or_from_the_future_are_not_trusted() {
        let looked = UNIX_EPOCH + Duration::from_secs(100);
        let second = 1_000_000_000;
        for (changed, settled) in [(0, true), (98 * second, true), (98 * second + 1, false), (200 * second, false)] {
            assert_eq!(is_settled(&marks(1, changed), looked), settled, "{changed}");
        }
    }
}
