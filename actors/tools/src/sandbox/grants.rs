//! What a sandbox grants of the file system, as a list of paths; and how it grants around what is hidden.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Confined, Network, places};

/// Devices that every program expects. Not the terminal: what writes to it can imitate the house.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// How many rules there are at most. A folder with more children than this around something hidden is not granted
/// as a whole, only as far as this goes.
const MOST: usize = 4_096;

/// What may be done with a path and all beneath it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Its folders may be listed.
    List,
    /// It may be read and executed.
    Read,
    /// It may be used as a device.
    Device,
    /// Everything, but making devices.
    Write,
}

/// The rules of a sandbox, each path real.
pub(super) type Grants = Vec<(PathBuf, Right)>;

/// What a sandbox grants: nothing of what is hidden, unless the rules name it themselves.
pub(super) fn of(confined: &Confined) -> Grants {
    let mut grants = system(confined);
    grants.append(&mut own(confined));
    grants
}

/// What every sandbox of a house grants.
pub(super) fn system(confined: &Confined) -> Grants {
    let mut grants = vec![(PathBuf::from("/"), Right::List)];
    grants.extend(DEVICES.iter().map(|device| (PathBuf::from(device), Right::Device)));
    let hidden = confined.hidden();
    for root in places::readable() {
        around(root, Right::Read, &hidden, &mut grants);
    }
    if confined.sandbox.rules.network == Network::Granted {
        grants.extend([(PathBuf::from("/run/nscd"), Right::Read), (PathBuf::from("/run/resolvconf"), Right::Read)]);
    }
    grants
}

/// What it grants besides: where its agent works, and what the rules name.
pub(super) fn own(confined: &Confined) -> Grants {
    let (rules, hidden) = (&confined.sandbox.rules, confined.hidden());
    let mut grants = Grants::new();
    let cwd = places::real(&confined.cwd);
    // Who works in the whole machine is not to change the whole machine.
    let right = if cwd.parent().is_some() { Right::Write } else { Right::Read };
    around(&cwd, right, &hidden, &mut grants);
    grants.extend(confined.temp().map(|temp| (temp.to_owned(), Right::Write)));
    for (named, right) in [(&rules.read, Right::Read), (&rules.write, Right::Write)] {
        for path in named {
            let path = places::real(path);
            // Their word on the place itself counts more than the list; about what lies beneath it they said nothing.
            let others: Vec<PathBuf> = hidden.iter().filter(|hidden| !path.starts_with(hidden)).cloned().collect();
            around(&path, right, &others, &mut grants);
        }
    }
    grants
}

/// Grants a path, or what is around the hidden things beneath it.
fn around(path: &Path, right: Right, hidden: &[PathBuf], grants: &mut Grants) {
    if grants.len() >= MOST || hidden.iter().any(|hidden| path.starts_with(hidden)) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        grants.push((path.to_owned(), right));
        return;
    }
    for child in fs::read_dir(path).into_iter().flatten().flatten() {
        // A link grants nothing: where it leads is granted by itself, or not.
        if child.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            around(&child.path(), right, hidden, grants);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f49_what_is_hidden_is_granted_around() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for path in ["a", "config/secret/deep", "config/other", "z"] {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        std::os::unix::fs::symlink("/", base.join("link")).unwrap();
        let granted = |hidden: &[&str]| {
            let hidden: Vec<PathBuf> = hidden.iter().map(|path| base.join(path)).collect();
            let mut grants = Vec::new();
            around(&base, Right::Write, &hidden, &mut grants);
            let mut paths: Vec<String> =
                grants.iter().map(|(path, _)| path.strip_prefix(&base).unwrap().display().to_string()).collect();
            paths.sort();
            paths
        };
        assert_eq!(granted(&[]), [""]);
        assert_eq!(granted(&["config/secret"]), ["a", "config/other", "z"]);
        assert_eq!(granted(&["config/secret/deep", "a"]), ["config/other", "z"]);
        // What is not there yet is not to be made either.
        assert_eq!(granted(&["config/new"]), ["a", "config/other", "config/secret", "z"]);
        assert_eq!(granted(&[""]), [""; 0]);
    }
}
