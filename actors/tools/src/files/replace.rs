//! Replaces a file's content: whole or not at all, and only the content that the agent knows.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cap_std::fs::{Dir, OpenOptions};
use playhouse_protocol::{Cancel, ToolError};
use rustix::fs::{
    Gid, Mode, RenameFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, renameat_with,
};
use rustix::io::Errno;

use crate::files::claims::{Claim, Holder};
use crate::files::leftovers;
use crate::files::paths::Spot;
use crate::files::{AskedPath, Files, Use};

/// How many replaced files are closed beside the calls that replaced them; further ones are closed in their calls.
const MAX_CLOSING: usize = 32;

/// The most bytes that the names of a file's attributes have together, and that one of their values has.
const MAX_ATTRIBUTE: usize = 64 * 1024;

/// What a change is to replace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Old<'a> {
    /// Nothing: the name must still be free.
    Nothing,
    /// This file, whose owner, permissions and `user.*` attributes are kept.
    File(&'a File),
}

/// Puts the bytes where the spot is, if the claim on it still holds. What was there is whole until what comes is; a
/// link there is replaced, never written through.
pub(crate) fn replace(
    asked: &AskedPath,
    spot: &Spot,
    old: Old<'_>,
    bytes: &[u8],
    claim: &Claim,
    cancel: &Cancel,
) -> Result<(), ToolError> {
    let failed = |error: io::Error| asked.unusable(Use::Write, &error);
    leftovers::remove_from(&spot.dir, &claim.files.cleaned);
    let mut temporary = Temporary::create(&spot.dir).map_err(failed)?;
    temporary.file.write_all(bytes).map_err(failed)?;
    if let Old::File(file) = old {
        keep_attributes(file, &temporary.file);
        keep_owner_and_mode(file, &temporary.file).map_err(failed)?;
    }
    // The last moment at which a call that nobody waits for can be without effect.
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let put = claim.replacing(|| put_in_place(asked, spot, old, &mut temporary));
    put.map_err(|holder| taken_over(asked, &holder))?
}

fn put_in_place(asked: &AskedPath, spot: &Spot, old: Old<'_>, temporary: &mut Temporary<'_>) -> Result<(), ToolError> {
    let failed = |error: io::Error| asked.unusable(Use::Write, &error);
    match old {
        Old::File(_) => spot.dir.rename(&temporary.name, &spot.dir, &spot.name).map_err(failed)?,
        Old::Nothing => {
            match renameat_with(&spot.dir, &temporary.name, &spot.dir, &spot.name, RenameFlags::NOREPLACE) {
                Ok(()) => {}
                Err(Errno::EXIST) => return Err(changed(asked)),
                // File systems that can't do this can do a second name, which is refused in the same way.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    let linked = spot.dir.hard_link(&temporary.name, &spot.dir, &spot.name);
                    return linked.map_err(|error| match error.kind() {
                        io::ErrorKind::AlreadyExists => changed(asked),
                        _ => failed(error),
                    });
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
    temporary.is_in_place = true;
    Ok(())
}

/// Closes a file that was replaced. The file system frees it then, which can take longer than all the rest of a change,
/// and nobody needs to wait for it.
pub(crate) fn let_go(replaced: File, files: &Files) {
    let count = files.closing.clone();
    let is_one_of_few = count.fetch_add(1, Ordering::Relaxed) < MAX_CLOSING;
    let closing = Closing { file: Some(replaced), count };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) if is_one_of_few => drop(runtime.spawn_blocking(move || drop(closing))),
        Ok(_) | Err(_) => drop(closing),
    }
}

/// A file that is counted until it is closed.
struct Closing {
    file: Option<File>,
    count: Arc<AtomicUsize>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        drop(self.file.take());
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// That a file is not what the agent knows.
pub(crate) fn changed(asked: &AskedPath) -> ToolError {
    let text = format!("`{}` was changed since you last read or wrote it; nothing was written", asked.shown);
    ToolError::Failed(format!("{text}: read it again, then repeat your change"))
}

/// That a call held a file for too long.
fn taken_over(asked: &AskedPath, holder: &Holder) -> ToolError {
    let text = format!("`{}` was held for more than a minute and then given to {holder}", asked.shown);
    ToolError::Failed(format!("{text}; nothing was written: read it again, then repeat your change"))
}

/// Only the permissions proper: a program that is rewritten does not stay set-user-ID.
fn keep_owner_and_mode(from: &File, to: &File) -> io::Result<()> {
    let (old, new) = (from.metadata()?, to.metadata()?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        // Only root may give files away; anyone else becomes the owner of what he writes.
        let _ = fchown(to, Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
    }
    fchmod(to, Mode::from_raw_mode(old.mode() & 0o777))?;
    Ok(())
}

/// What users noted on the file (`user.*`), as far as the file system keeps such notes.
fn keep_attributes(from: &File, to: &File) {
    let mut names = vec![0; MAX_ATTRIBUTE];
    let Ok(length @ 1..) = flistxattr(from, &mut names[..]) else { return };
    let mut value = vec![0; MAX_ATTRIBUTE];
    let names = names.get(..length).unwrap_or_default().split(|byte| *byte == 0);
    for name in names.filter(|name| name.starts_with(b"user.")) {
        let length = fgetxattr(from, name, &mut value[..]);
        if let Some(value) = length.ok().and_then(|length| value.get(..length)) {
            let _ = fsetxattr(to, name, value, XattrFlags::empty());
        }
    }
}

/// A file that is removed unless it gets its place.
struct Temporary<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    is_in_place: bool,
}

impl<'a> Temporary<'a> {
    fn create(dir: &'a Dir) -> io::Result<Self> {
        let name = leftovers::draft_name();
        let file = dir.open_with(&name, OpenOptions::new().write(true).create_new(true))?.into_std();
        Ok(Self { dir, name, file, is_in_place: false })
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_in_place {
            // Where it cannot be removed it stays, under a name that says whose it is.
            let _ = self.dir.remove_file(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::paths::Root;
    use rustix::fs::setxattr;
    use std::fs;
    use std::path::Path;

    fn place(folder: &Path, name: &str) -> (AskedPath, Spot) {
        let asked = AskedPath::for_test(name, folder);
        let spot = Root::open(&asked).unwrap().spot().unwrap();
        (asked, spot)
    }

    fn claimed(spot: &Spot) -> Claim {
        Claim::for_test(&spot.key().unwrap(), "test")
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_name_that_was_free_and_is_taken_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (asked, spot) = place(folder.path(), "a");
        fs::write(folder.path().join("a"), "theirs").unwrap();
        let answer = replace(&asked, &spot, Old::Nothing, b"mine", &claimed(&spot), &Cancel::new());
        assert_eq!(answer, Err(changed(&asked)));
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "theirs");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_link_that_comes_meanwhile_is_replaced_and_not_written_through() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("a"), "old").unwrap();
        fs::write(outside.path().join("a"), "theirs").unwrap();
        let (asked, spot) = place(folder.path(), "a");
        let old = spot.open(Use::Write).unwrap();
        fs::remove_file(folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("a"), folder.path().join("a")).unwrap();
        replace(&asked, &spot, Old::File(&old), b"mine", &claimed(&spot), &Cancel::new()).unwrap();
        assert_eq!(fs::read_to_string(outside.path().join("a")).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "mine");
    }

    #[test]
    fn what_a_user_noted_on_a_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let long = vec![b'x'; 3_000];
        let kept: [(&str, &[u8]); 3] = [("user.k", b"v"), ("user.empty", b""), ("user.long", &long)];
        for (name, value) in kept {
            match setxattr(&path, name, value, XattrFlags::empty()) {
                Err(Errno::NOTSUP) => return,
                set => set.unwrap(),
            }
        }
        let (asked, spot) = place(folder.path(), "a");
        let old = spot.open(Use::Write).unwrap();
        replace(&asked, &spot, Old::File(&old), b"new", &claimed(&spot), &Cancel::new()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        for (name, value) in kept {
            let mut found = vec![0; 4_096];
            let length = rustix::fs::getxattr(&path, name, &mut found[..]).expect(name);
            assert_eq!(&found[..length], value, "{name}");
        }
    }

    #[test]
    fn a_call_that_nobody_waits_for_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "old").unwrap();
        let (asked, spot) = place(folder.path(), "a");
        let (old, cancel) = (spot.open(Use::Write).unwrap(), Cancel::new());
        cancel.cancel();
        assert_eq!(
            replace(&asked, &spot, Old::File(&old), b"new", &claimed(&spot), &cancel),
            Err(ToolError::Cancelled)
        );
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "old");
        assert_eq!(names(folder.path()), ["a"]);
    }
}
