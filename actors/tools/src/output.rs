//! Long outputs of a session, whole: files that a later call reads as `output:/<name>`, and nothing else does.
//!
//! A result shows the head and the tail of what a tool gave; the rest is here. A room is a folder that belongs to one
//! session, private, made when there is something to keep. It is reached by descriptors: a name is checked, opened
//! in the folder's descriptor and not followed if it is a link. A file is at most 64 MiB, a room at most 256 MiB: the
//! oldest files make way before a new one begins.

mod folders;
pub(crate) mod spool;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use playhouse_protocol::{ToolCallId, ToolError, lock};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, openat, statat, unlinkat};

pub use folders::Outputs;

use crate::runtime::SCOPE;
use folders::HouseFolder;

/// What a path that names an output begins with.
pub(crate) const PREFIX: &str = "output:/";
/// The most that is kept of one call.
pub(crate) const MAX_FILE: u64 = 64 << 20;
/// The most that a room holds.
const MAX_ROOM: u64 = 256 << 20;
/// The longest name of an output, in bytes.
const MAX_NAME: usize = 64;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The room of the session whose tool is running here, if it has one.
pub(crate) fn here() -> Option<Arc<OutputRoom>> {
    SCOPE.try_with(|scope| scope.output.clone()).ok().flatten()
}

/// Where a session's long outputs are. Making one does nothing on disk.
pub struct OutputRoom {
    place: OutputFolder,
    most: u64,
    /// Names that are being written, which are never removed to make room.
    open: Mutex<HashSet<String>>,
}

enum OutputFolder {
    /// As long as the session.
    OfSession(PathBuf),
    /// As long as the house.
    OfHouse(Arc<HouseFolder>, String),
}

impl OutputRoom {
    /// A room in this folder, which is made when something is to be kept. Whoever removes the session removes it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::at(OutputFolder::OfSession(folder.into()))
    }

    /// A room that goes with its house.
    pub(crate) fn in_house(root: Arc<HouseFolder>, name: String) -> Self {
        Self::at(OutputFolder::OfHouse(root, name))
    }

    fn at(place: OutputFolder) -> Self {
        Self { place, most: MAX_ROOM, open: Mutex::default() }
    }

    fn folder(&self) -> io::Result<PathBuf> {
        match &self.place {
            OutputFolder::OfSession(folder) => Ok(folder.clone()),
            OutputFolder::OfHouse(root, name) => Ok(root.folder()?.join(name)),
        }
    }

    /// Begins the file of a call. Blocks.
    pub(crate) fn begin(self: &Arc<Self>, call: &ToolCallId) -> io::Result<(File, Draft)> {
        let folder = self.folder()?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let folder = open(&folder, FOLDER, Mode::empty())?;
        let name = name_of(call);
        // One that an earlier incarnation of the call left is not whole.
        remove(&folder, &name);
        let mut being_written = self.lock_open();
        self.make_room(&folder, &being_written)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, file_name(&name), flags, Mode::RUSR | Mode::WUSR)?;
        being_written.insert(name.clone());
        Ok((File::from(file), Draft { room: self.clone(), folder, name, is_kept: false }))
    }

    /// Removes the oldest files until one more of the largest size fits, whatever is still being written.
    fn make_room(&self, folder: &OwnedFd, being_written: &HashSet<String>) -> io::Result<()> {
        let mut there: Vec<((i64, i64), u64, String)> = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let Ok(Some(name)) = entry.file_name().to_str().map(|name| name.strip_suffix(".txt")) else { continue };
            if being_written.contains(name) {
                continue;
            }
            let Ok(seen) = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile {
                let bytes = u64::try_from(seen.st_size).unwrap_or_default();
                there.push(((seen.st_mtime, seen.st_mtime_nsec as i64), bytes, name.to_owned()));
            }
        }
        there.sort();
        let reserved = (being_written.len() as u64 + 1) * MAX_FILE;
        let mut held: u64 = there.iter().map(|(_, bytes, _)| bytes).sum();
        let mut oldest = there.into_iter();
        while held + reserved > self.most {
            let Some((_, bytes, name)) = oldest.next() else {
                return Err(io::Error::other("too many long outputs are being written at once"));
            };
            remove(folder, &name);
            held -= bytes;
        }
        Ok(())
    }

    /// Opens an output to read it. Blocks.
    pub(crate) fn open(&self, name: &OutputName) -> io::Result<File> {
        let folder = open(self.folder()?, FOLDER, Mode::empty())?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&folder, file_name(&name.0), flags, Mode::empty())?);
        // A second name of some other file is none of ours.
        let seen = file.metadata()?;
        if !seen.is_file() || seen.nlink() != 1 {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(file)
    }

    fn lock_open(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.open)
    }
}

impl fmt::Debug for OutputRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OutputRoom");
        match &self.place {
            OutputFolder::OfSession(folder) => shown.field("folder", folder),
            OutputFolder::OfHouse(_, name) => shown.field("passing", name),
        };
        shown.finish_non_exhaustive()
    }
}

/// A file that is removed unless its call ends with a result that names it.
pub(crate) struct Draft {
    room: Arc<OutputRoom>,
    folder: OwnedFd,
    name: String,
    is_kept: bool,
}

impl Draft {
    /// The path by which a later call reads it.
    pub(crate) fn keep(mut self) -> String {
        self.is_kept = true;
        format!("{PREFIX}{}", self.name)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let mut open = self.room.lock_open();
        open.remove(&self.name);
        if !self.is_kept {
            remove(&self.folder, &self.name);
        }
    }
}

/// What cannot be removed stays, and counts against the room.
fn remove(folder: &OwnedFd, name: &str) {
    let _ = unlinkat(folder, OsStr::new(&file_name(name)), AtFlags::empty());
}

fn file_name(name: &str) -> String {
    format!("{name}.txt")
}

/// The name of an output, as a path has it: checked, so that it is a name and nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputName(String);

impl OutputName {
    /// The output that a path names; `None` if it is a path like any other.
    pub(crate) fn of(path: &str) -> Option<Result<Self, ToolError>> {
        let name = path.strip_prefix(PREFIX)?;
        Some(if is_name(name) { Ok(Self(name.to_owned())) } else { Err(unknown(path)) })
    }
}

/// That there is no such output.
pub(crate) fn unknown(path: &str) -> ToolError {
    let text = format!("there is no `{path}` in this session, or no more: old outputs make way for new ones");
    ToolError::Failed(format!("{text}; run the command again"))
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(plain)
}

/// A call's id if it can be a name, else what stands for it.
fn name_of(call: &ToolCallId) -> String {
    if is_name(call.as_str()) {
        return call.as_str().to_owned();
    }
    blake3::hash(call.as_str().as_bytes()).to_hex().chars().take(24).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    fn room(folder: &std::path::Path, most: u64) -> Arc<OutputRoom> {
        Arc::new(OutputRoom { most, ..OutputRoom::new(folder.join("room")) })
    }

    fn kept(room: &Arc<OutputRoom>, call: &str, text: &str) -> String {
        let (mut file, draft) = room.begin(&call.into()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        draft.keep()
    }

    fn read(room: &OutputRoom, path: &str) -> io::Result<String> {
        let mut text = String::new();
        room.open(&OutputName::of(path).unwrap().unwrap())?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn an_output_is_private_and_read_by_its_name_alone() {
        let folder = tempfile::tempdir().unwrap();
        let room = room(folder.path(), MAX_ROOM);
        assert_eq!(kept(&room, "call_1", "one"), "output:/call_1");
        assert_eq!(read(&room, "output:/call_1").unwrap(), "one");
        let odd = kept(&room, "../../odd|id", "two");
        assert!(is_name(odd.strip_prefix(PREFIX).unwrap()), "{odd}");
        assert_eq!(read(&room, &odd).unwrap(), "two");
        let mode = |path: &str| fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("room"), mode("room/call_1.txt")), (0o700, 0o600));
        for path in
            ["output:/", "output:/../x", "output:/a/b", "output:/.", "output:/a.txt", "output:/a\n", "output://a"]
        {
            assert_eq!(OutputName::of(path), Some(Err(unknown(path))), "{path}");
        }
        assert_eq!(OutputName::of("./output:/a"), None);
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        std::os::unix::fs::symlink("../secret.txt", folder.path().join("room/link.txt")).unwrap();
        fs::hard_link(folder.path().join("secret.txt"), folder.path().join("room/second.txt")).unwrap();
        fs::create_dir(folder.path().join("room/folder.txt")).unwrap();
        for path in ["output:/link", "output:/second", "output:/folder", "output:/none"] {
            assert!(read(&room, path).is_err(), "{path}");
        }
    }

    #[test]
    fn what_no_result_names_is_removed_and_what_a_crash_left_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let room = room(folder.path(), MAX_ROOM);
        let (mut file, draft) = room.begin(&"a".into()).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(read(&room, "output:/a").unwrap(), "half", "readable while it is written");
        drop(draft);
        assert!(read(&room, "output:/a").is_err());
        fs::write(folder.path().join("room/a.txt"), "left by a crash").unwrap();
        assert_eq!(read(&room, "output:/a").unwrap(), "left by a crash");
        kept(&room, "a", "new");
        assert_eq!(read(&room, "output:/a").unwrap(), "new");
    }

    #[test]
    fn f16_the_oldest_outputs_make_way_and_those_being_written_do_not() {
        let folder = tempfile::tempdir().unwrap();
        // Room for one that is being written and ten bytes.
        let small = room(folder.path(), MAX_FILE + 10);
        for (age, name) in [(30, "c"), (10, "a"), (20, "b")] {
            kept(&small, name, "12345");
            let file = File::options().write(true).open(folder.path().join(format!("room/{name}.txt"))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        kept(&small, "d", "1");
        assert!(read(&small, "output:/c").is_err(), "the oldest");
        for there in ["a", "b", "d"] {
            assert!(read(&small, &format!("output:/{there}")).is_ok(), "{there}");
        }
        let (_file, writing) = small.begin(&"e".into()).unwrap();
        let refused = small.begin(&"f".into()).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("at once"), "{refused}");
        assert!(read(&small, "output:/e").is_ok(), "it is being written");
        drop(writing);
        kept(&small, "f", "1");
    }
}
