//! Files beneath a folder, reached by descriptors: neither `..`, nor a link, nor a folder that is swapped for a link
//! meanwhile leads out.
//!
//! A path is never resolved first and opened later. The kernel walks it from the working directory's descriptor and
//! refuses to leave (`openat2` with `RESOLVE_BENEATH`, through cap-std); the last step is a plain name in the folder
//! that was reached, and is not followed if it is a link.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use playhouse_protocol::ToolError;
use rustix::fs::{Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;

use crate::files::guarded::{beneath, guarded, same};
use crate::files::{AskedPath, Use};
use crate::output::OutputName;
use crate::policy::off_limits::OffLimits;
use crate::sandbox::Confined;

/// How many links in a row are followed, as the kernel has it.
const MAX_LINKS: usize = 40;

/// The working directory, and where in it a call's path is.
#[derive(Debug)]
pub(crate) struct Root {
    /// The folder to stay beneath.
    pub(crate) dir: Dir,
    /// The path, seen from there.
    pub(crate) path: PathBuf,
    confined: Arc<Confined>,
    pub(crate) off_limits: OffLimits,
}

/// Folders that were made for a file which is not there yet. Without it they are removed, the innermost first.
#[derive(Debug)]
pub(crate) struct NewFolders<'a> {
    root: &'a Dir,
    paths: Vec<PathBuf>,
}

impl NewFolders<'_> {
    /// The file is there: they stay.
    pub(crate) fn keep(mut self) {
        self.paths.clear();
    }
}

impl Drop for NewFolders<'_> {
    fn drop(&mut self) {
        for path in self.paths.iter().rev() {
            // One that somebody else has put something into is not empty and stays.
            let _ = self.root.remove_dir(path);
        }
    }
}

/// A name in a folder that was reached beneath the root; what has the name need not exist.
#[derive(Debug)]
pub(crate) struct Spot {
    /// The folder that the path leads to, by descriptor.
    pub(crate) dir: Dir,
    /// The name in it.
    pub(crate) name: OsString,
}

/// Which file it is, by whatever path it is reached: its folder and its name. A file that is replaced keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    device: u64,
    folder: u64,
    name: OsString,
}

impl Root {
    /// Opens the working directory. An absolute path must begin with it.
    pub(crate) fn open(asked: &AskedPath) -> Result<Self, ToolError> {
        if OutputName::of(&asked.shown).is_some() {
            return Err(asked.is_output());
        }
        let dir = Dir::open_ambient_dir(&asked.cwd, ambient_authority()).map_err(|error| {
            let text = format!("the working directory `{}` could not be opened: {error}", asked.cwd.display());
            ToolError::Failed(text)
        })?;
        let given = Path::new(&asked.shown);
        let path = if given.is_relative() { Some(given.to_owned()) } else { within(given, &asked.cwd) };
        let path = path.ok_or_else(|| asked.outside())?;
        let path = if path.as_os_str().is_empty() { ".".into() } else { path };
        Ok(Self { dir, path, confined: asked.confined.clone(), off_limits: asked.off_limits.clone() })
    }

    /// The folder and the name that the path leads to, links followed as long as they stay beneath the root.
    pub(crate) fn spot(&self) -> io::Result<Spot> {
        let mut path = self.path.clone();
        for _ in 0..MAX_LINKS {
            let Some(name) = path.file_name().map(OsStr::to_owned) else {
                // It ends in `.` or `..`: it may still lead out, which is the more telling error.
                self.dir.open_dir(&path)?;
                return Err(io::ErrorKind::IsADirectory.into());
            };
            let parent = folder_of(&path);
            let dir = self.dir.open_dir(&parent)?;
            match readlinkat(&dir, &name, Vec::new()) {
                Ok(target) => path = parent.join(OsString::from_vec(target.into_bytes())),
                Err(Errno::INVAL | Errno::NOENT) => {
                    self.guard(&dir, Path::new(&name))?;
                    return Ok(Spot { dir, name });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::LOOP.into())
    }

    /// As [`Root::spot`], for a change: a guarded place is changed under its own name only.
    pub(crate) fn spot_to_write(&self) -> io::Result<Spot> {
        let spot = self.spot()?;
        self.refuse_other_name(&spot.dir, Path::new(&spot.name))?;
        Ok(spot)
    }

    /// Whether the folders that the path goes through may be made, as far as those that are there tell.
    pub(crate) fn may_make_folders(&self) -> io::Result<()> {
        let folder = folder_of(&self.path);
        for above in folder.ancestors() {
            let there = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            if let (Ok(dir), Ok(rest)) = (self.dir.open_dir(there), self.path.strip_prefix(above)) {
                self.guard(&dir, rest)?;
                return self.refuse_other_name(&dir, rest);
            }
        }
        Ok(())
    }

    /// Makes the folders that the path goes through. They go again, unless they are kept or something is in them.
    pub(crate) fn make_folders(&self) -> io::Result<NewFolders<'_>> {
        self.may_make_folders()?;
        let folder = folder_of(&self.path);
        let mut made = NewFolders { root: &self.dir, paths: Vec::new() };
        let mut path = PathBuf::new();
        for part in folder.components() {
            path.push(part);
            match self.dir.create_dir(&path) {
                Ok(()) => made.paths.push(path.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // `.` and `..` are no names to make, but may lead on, or out.
                Err(_) if matches!(part, Component::CurDir | Component::ParentDir) => {
                    self.dir.open_dir(&path)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    /// Refuses a change of a guarded place that the call did not name: it was judged, and perhaps approved, by its name.
    fn refuse_other_name(&self, opened: impl AsFd, rest: &Path) -> io::Result<()> {
        let (found, cwd) = (place_of(opened, rest)?, place_of(&self.dir, Path::new(""))?);
        let found = found.strip_prefix(&cwd).unwrap_or(&found);
        match guarded(found, &self.confined.sandbox.rules.guarded) {
            Some(_) if !same(found, &beneath(&self.path, Path::new(""))) => {
                let name = found.display();
                Err(io::Error::other(format!("it is `{name}`, which is guarded: name it so, and it is asked about")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses what is kept from tools, and what rules forbid this one. Where it is, is asked of what was opened: no link
    /// and no race leads past this.
    pub(crate) fn guard(&self, opened: impl AsFd, rest: &Path) -> io::Result<()> {
        let hidden = self.confined.hidden_here();
        if hidden.is_empty() && self.off_limits.is_empty() {
            return Ok(());
        }
        let path = place_of(opened, rest)?;
        if hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return Err(io::Error::other("it is kept from tools: it holds keys, or the rules that they are under"));
        }
        match self.off_limits.forbids(&path) {
            Some(rule) => Err(io::Error::other(format!("it is forbidden here by the rule `{rule}`; do without it"))),
            None => Ok(()),
        }
    }
}

impl Spot {
    /// Which file it is.
    pub(crate) fn key(&self) -> io::Result<FileKey> {
        let seen = fstat(&self.dir)?;
        Ok(FileKey { device: seen.st_dev, folder: seen.st_ino, name: self.name.clone() })
    }

    /// Opens the file; a link is refused, and nothing is waited for.
    pub(crate) fn open(&self, wanted: Use) -> io::Result<File> {
        let access = match wanted {
            Use::Read => OFlags::RDONLY,
            Use::Write => OFlags::RDWR,
        };
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(File::from(openat(&self.dir, &self.name, flags, Mode::empty())?))
    }
}

/// Opens a regular file and nothing else: what is no file might never answer.
pub(crate) fn open_regular(asked: &AskedPath, spot: &Spot, wanted: Use) -> Result<File, ToolError> {
    let missing = || asked.unusable(wanted, &io::ErrorKind::NotFound.into());
    open_if_there(asked, spot, wanted)?.ok_or_else(missing)
}

/// Opens a regular file, if anything has that name.
pub(crate) fn open_if_there(asked: &AskedPath, spot: &Spot, wanted: Use) -> Result<Option<File>, ToolError> {
    let no_file =
        || ToolError::Failed(format!("`{}` is not a regular file (a pipe, a device or a socket)", asked.shown));
    let file = match spot.open(wanted) {
        Ok(file) => file,
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => return Ok(None),
            Some(Errno::ISDIR) => return Err(asked.is_directory()),
            Some(Errno::NXIO) => return Err(no_file()),
            _ => return Err(asked.unusable(wanted, &error)),
        },
    };
    let meta = file.metadata().map_err(|error| asked.unusable(wanted, &error))?;
    match (meta.is_dir(), meta.is_file()) {
        (true, _) => Err(asked.is_directory()),
        (false, false) => Err(no_file()),
        (false, true) => Ok(Some(file)),
    }
}

/// Opens a folder in a folder; a link is refused.
pub(crate) fn open_folder(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Dir::from_std_file(File::from(openat(dir, name, flags, Mode::empty())?)))
}

/// Where something lies beneath what was opened.
fn place_of(opened: impl AsFd, rest: &Path) -> io::Result<PathBuf> {
    let path = fs::read_link(format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd()))?;
    Ok(if rest.as_os_str().is_empty() { path } else { beneath(&path.join(rest), Path::new("")) })
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => ".".into(),
    }
}

/// The rest of a path that begins with the working directory, by the name it was given or by its real one, which is
/// what `pwd` shows. Only names are compared here: what is opened is opened beneath the root.
fn within(path: &Path, cwd: &Path) -> Option<PathBuf> {
    if let Ok(rest) = path.strip_prefix(cwd) {
        return Some(rest.to_owned());
    }
    let real = fs::canonicalize(cwd).ok()?;
    path.strip_prefix(real).ok().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f47_a_name_that_becomes_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("real"), "x").unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        let asked = AskedPath::for_test("a", folder.path());
        let spot = Root::open(&asked).unwrap().spot().unwrap();
        fs::remove_file(folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("real", folder.path().join("a")).unwrap();
        for wanted in [Use::Read, Use::Write] {
            assert_eq!(spot.open(wanted).unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        }
        fs::create_dir(folder.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("folder", folder.path().join("link")).unwrap();
        assert!(open_folder(&spot.dir, OsStr::new("folder")).is_ok());
        assert!(open_folder(&spot.dir, OsStr::new("link")).is_err());
    }

    #[test]
    fn links_in_a_circle_end() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        let asked = AskedPath::for_test("a", folder.path());
        let error = Root::open(&asked).unwrap().spot().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn absolute_paths_may_begin_with_either_name_of_the_working_directory() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("real")).unwrap();
        std::os::unix::fs::symlink("real", real.join("named")).unwrap();
        let path = |shown: String| Root::open(&AskedPath::for_test(&shown, &real.join("named"))).map(|root| root.path);
        assert_eq!(path(format!("{}/named/x", real.display())), Ok("x".into()));
        assert_eq!(path(format!("{}/real/x", real.display())), Ok("x".into()));
        assert_eq!(path(format!("{}/real", real.display())), Ok(".".into()));
        assert!(path(format!("{}/realx", real.display())).is_err());
    }
}
