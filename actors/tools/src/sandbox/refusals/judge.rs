//! Whether the sandbox refused something, and what would allow it.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use playhouse_protocol::Network;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::{Grant, Refusal, Remedy, Told};
use crate::files::guarded::{InBwrap, PLACES};
use crate::sandbox::grants::{self, Grants, Right};
use crate::sandbox::{Confined, places};

/// What it means that a command finds no file of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// That there is none.
    IsMissing,
    /// Perhaps that it is not granted: only what is granted exists. Guarded places can only be read.
    MayBeRefused,
}

/// Knows what one sandbox grants.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    confined: &'a Confined,
    pub(super) missing: Missing,
    /// Looked up when it is first needed: it takes a look at the disk.
    grants: OnceCell<Grants>,
    hidden: Vec<PathBuf>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(confined: &'a Confined, missing: Missing) -> Self {
        Self { confined, missing, grants: OnceCell::new(), hidden: confined.hidden() }
    }

    /// How large a file may become, in bytes.
    pub(super) fn most_of_a_file(&self) -> u64 {
        self.confined.sandbox.rules.limits.file
    }

    /// The real path of what a command named, seen from the working directory.
    pub(super) fn real(&self, named: &Path) -> PathBuf {
        places::real(&self.confined.cwd.join(named))
    }

    pub(super) fn may_read(&self, real: &Path) -> bool {
        self.grants().iter().any(|(path, right)| match right {
            Right::Read | Right::Device | Right::Write => real.starts_with(path),
            Right::List => false,
        })
    }

    fn may_write(&self, real: &Path) -> bool {
        self.grants().iter().any(|(path, right)| match right {
            Right::Device | Right::Write => real.starts_with(path),
            Right::Read | Right::List => false,
        })
    }

    fn grants(&self) -> &Grants {
        self.grants.get_or_init(|| grants::of(self.confined))
    }

    /// The refusal with what would help, if it is one: not what would have failed without a sandbox too.
    pub(super) fn told(&self, refusal: Refusal) -> Option<Told> {
        let rules = &self.confined.sandbox.rules;
        // Under one name, whoever tells of it.
        let refusal = match refusal {
            Refusal::Change(path) => Refusal::Change(self.real(&path)),
            Refusal::Read(path) => Refusal::Read(self.real(&path)),
            Refusal::Network | Refusal::FileSize(_) => refusal,
        };
        let remedy = match &refusal {
            Refusal::Network => match (rules.network, rules.bounds.network) {
                (Network::Granted, _) => return None,
                (Network::Denied, Some(Network::Denied)) => Remedy::OfProject,
                (Network::Denied, Some(Network::Granted) | None) => Remedy::Allow(Grant::Network),
            },
            Refusal::FileSize(most) if rules.bounds.file == Some(*most) => Remedy::OfProject,
            Refusal::FileSize(_) => Remedy::Raise,
            Refusal::Change(path) => self.about_change(path)?,
            Refusal::Read(path) => self.about_read(path)?,
        };
        Some(Told { refusal, remedy })
    }

    fn about_change(&self, real: &Path) -> Option<Remedy> {
        if self.may_write(real) {
            return self.is_read_only(real).then_some(Remedy::FileTools);
        }
        if self.is_not_granted(real) || !can_change(real) {
            return None;
        }
        let remedy = self.hidden_by(real).unwrap_or_else(|| self.remedy(real, Grant::Write));
        // What is to be made far below such a folder is made elsewhere first, or only in someone's words.
        let is_far = || real.parent().is_some_and(|folder| !folder.exists());
        (!matches!(remedy, Remedy::Beside(_)) || !is_far()).then_some(remedy)
    }

    fn about_read(&self, real: &Path) -> Option<Remedy> {
        if self.may_read(real) || self.is_not_granted(real) || !can(real, Access::READ_OK) {
            return None;
        }
        Some(self.hidden_by(real).unwrap_or_else(|| self.remedy(real, Grant::Read)))
    }

    fn hidden_by(&self, real: &Path) -> Option<Remedy> {
        self.hidden.iter().any(|hidden| real.starts_with(hidden)).then_some(Remedy::KeptFromTools)
    }

    /// The smallest grant that is of use: a folder, or a file whose folder cannot be granted as a whole.
    fn remedy(&self, real: &Path, grant: fn(PathBuf) -> Grant) -> Remedy {
        let there = nearest(real);
        let (folder, file) =
            if there.is_dir() { (there, None) } else { (there.parent().unwrap_or(there), Some(there)) };
        match (self.hidden_in(folder), file) {
            (None, _) => Remedy::Allow(grant(folder.to_owned())),
            (Some(_), Some(file)) => Remedy::Allow(grant(file.to_owned())),
            (Some(hidden), None) => Remedy::Beside(hidden.clone()),
        }
    }

    /// Whether a folder can be granted with all that is in it.
    pub(super) fn is_whole(&self, folder: &Path) -> bool {
        self.hidden_in(folder).is_none()
    }

    fn hidden_in(&self, folder: &Path) -> Option<&PathBuf> {
        self.hidden.iter().find(|hidden| hidden.starts_with(folder))
    }

    /// Whether a grant is not the answer: of this a sandbox has its own, which no grant replaces, or it is a socket or a
    /// device, which gives more than a file does.
    fn is_not_granted(&self, real: &Path) -> bool {
        if fs::metadata(real).is_ok_and(|seen| !seen.is_file() && !seen.is_dir()) {
            return true;
        }
        let is_own = ["/proc", "/sys", "/dev"].iter().any(|own| real.starts_with(own));
        is_own && !(self.missing == Missing::IsMissing && real.starts_with("/dev/shm"))
    }

    /// Whether bubblewrap binds it so that it can be read only, although what is around it may be written.
    pub(super) fn is_read_only(&self, real: &Path) -> bool {
        if self.missing == Missing::IsMissing {
            return false;
        }
        let cwd = places::real(&self.confined.cwd);
        let is_in = |name: PathBuf| real.starts_with(cwd.join(name));
        let of_table = PLACES.iter().any(|place| match place.in_bwrap {
            InBwrap::Open => false,
            InBwrap::ReadOnly => is_in(place.name.into()),
            InBwrap::Kept(inside) => inside.iter().any(|name| is_in(Path::new(place.name).join(name))),
        });
        of_table || self.confined.sandbox.rules.guarded.iter().any(|name| is_in(name.into()))
    }
}

/// The path, or the nearest above it that is there.
fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(path)
}

/// Whether this process may, by its effective ids.
fn can(path: &Path, access: Access) -> bool {
    accessat(CWD, path, access, AtFlags::EACCESS).is_ok()
}

/// Whether this process could write or make it, or change its mode.
fn can_change(path: &Path) -> bool {
    let there = nearest(path);
    let is_mine = || fs::metadata(there).is_ok_and(|seen| seen.uid() == rustix::process::geteuid().as_raw());
    can(there, Access::WRITE_OK) || (there == path && is_mine())
}
