//! Places beneath a working directory that other programs of the user's run, or are led by: git, editors, shells, agents.
//! Whoever changes them decides what those programs do later, outside of any sandbox. So a change of them is dangerous
//! for every tool that names a path, and bubblewrap keeps them from commands as far as work goes on.
//!
//! A call is judged by the path it names, before anything is opened. What the path leads to is only known when it is
//! opened, so there a change of such a place under another name is refused: it can be asked for by its own.

use std::path::{Component, Path, PathBuf};

/// What bubblewrap makes of a place in the working directory, if it is there when a command starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InBwrap {
    /// It can be read and not written.
    ReadOnly,
    /// It can be written, neither moved nor removed; of what is in it, these can only be read.
    Kept(&'static [&'static str]),
    /// As any other file: it comes and goes with what git checks out.
    Open,
}

/// A place: a file, or a folder with all beneath it, wherever in the working directory it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardedPlace {
    pub(crate) name: &'static str,
    pub(crate) in_bwrap: InBwrap,
}

const fn place(name: &'static str, in_bwrap: InBwrap) -> GuardedPlace {
    GuardedPlace { name, in_bwrap }
}

/// The places that are guarded in every house. `guarded` in the configuration adds to them.
pub(crate) const PLACES: [GuardedPlace; 10] = [
    place(".git", InBwrap::Kept(&["hooks", "config", "config.worktree", "info/attributes"])),
    place(".envrc", InBwrap::ReadOnly),
    place("playhouse.toml", InBwrap::ReadOnly),
    place(".playhouse", InBwrap::ReadOnly),
    place(".claude", InBwrap::ReadOnly),
    place(".mcp.json", InBwrap::ReadOnly),
    place("AGENTS.md", InBwrap::Open),
    place("CLAUDE.md", InBwrap::Open),
    place(".vscode", InBwrap::Open),
    place(".husky", InBwrap::Open),
];

/// The most folders of submodules and worktrees that are looked at when a command starts.
const MOST_FOLDERS: usize = 512;

/// The place that a path is or lies in: of the table, or of `more`.
pub(crate) fn guarded<'a>(path: &Path, more: &'a [String]) -> Option<&'a str> {
    let places = PLACES.iter().map(|place| place.name).chain(more.iter().map(String::as_str));
    places.into_iter().find(|place| is_in(path, place))
}

/// Whether a path is a place or lies in it, at whatever depth. Case does not count: on some disks it does not.
pub(crate) fn is_in(path: &Path, place: &str) -> bool {
    let (parts, place) = (names(path), names(Path::new(place)));
    !place.is_empty() && parts.windows(place.len()).any(|window| window == place)
}

/// Whether two paths are the same but for case.
pub(crate) fn same(one: &Path, other: &Path) -> bool {
    names(one) == names(other)
}

/// A path as a call names it, seen from the working directory, `.` and `..` resolved by name.
pub(crate) fn beneath(path: &Path, cwd: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.strip_prefix(cwd).unwrap_or(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(part),
        }
    }
    plain
}

/// The folders within a `.git` that can hold what git runs, or lead to it: `info`, and those of submodules and worktrees
/// with all that are on the way to them. Were one of them moved away, another could be put in its place.
pub(crate) fn folders_kept(git: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = ["info", "modules", "worktrees"].map(|name| git.join(name)).to_vec();
    while let Some(folder) = open.pop().filter(|_| found.len() < MOST_FOLDERS) {
        if folder.is_symlink() || !folder.is_dir() {
            continue;
        }
        if folder.join("HEAD").is_file() {
            open.extend(["info", "modules", "worktrees"].map(|name| folder.join(name)));
        } else if let Ok(entries) = folder.read_dir() {
            // The name of a submodule may have slashes in it.
            open.extend(entries.flatten().map(|entry| entry.path()));
        }
        found.push(folder);
    }
    found
}

fn names(path: &Path) -> Vec<String> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
        Component::CurDir | Component::ParentDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_by_any_name_and_at_any_depth() {
        let more = ["deploy/prod.yaml".to_owned()];
        let found = |path: &str| guarded(&beneath(Path::new(path), Path::new("/work")), &more);
        for (path, place) in [
            (".git", ".git"),
            (".git/config", ".git"),
            ("./sub/.GIT/hooks/pre-commit", ".git"),
            ("a/../.envrc", ".envrc"),
            ("/work/agents.MD", "AGENTS.md"),
            ("deep/down/CLAUDE.md", "CLAUDE.md"),
            ("deploy/prod.yaml", "deploy/prod.yaml"),
            ("x/Deploy/./prod.yaml", "deploy/prod.yaml"),
            ("/elsewhere/.vscode/tasks.json", ".vscode"),
        ] {
            assert_eq!(found(path), Some(place), "{path}");
        }
        for path in ["", ".", "a.txt", ".gitignore", "git/config", ".github/x", "prod.yaml", "deploy/x/prod.yaml"] {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
