//! Where things are on a platform: the user's file, the project's file, the data directory.

use std::path::{Path, PathBuf};

use crate::config::sources::environment::{FILE, Variables};

/// The name of a project's file.
const PROJECT: &str = "playhouse.toml";

/// What decides where a user's things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Both are in `~/Library/Application Support`.
    Mac,
    /// The base directory specification: `XDG_CONFIG_HOME`, `XDG_DATA_HOME`.
    Xdg,
}

impl Platform {
    /// That of this build.
    pub fn here() -> Self {
        if cfg!(target_os = "macos") { Self::Mac } else { Self::Xdg }
    }

    /// Where sessions are kept when nobody says; `None` without a home.
    pub(crate) fn data_dir(self, variables: &Variables) -> Option<PathBuf> {
        Some(self.base(variables, "XDG_DATA_HOME", ".local/share")?.join("playhouse"))
    }

    /// Where the user's file is when nobody says; `None` without a home.
    pub(crate) fn config_file(self, variables: &Variables) -> Option<PathBuf> {
        Some(self.base(variables, "XDG_CONFIG_HOME", ".config")?.join("playhouse/config.toml"))
    }

    fn base(self, variables: &Variables, xdg: &str, below_home: &str) -> Option<PathBuf> {
        let home = || home(variables);
        match self {
            Self::Mac => Some(home()?.join("Library/Application Support")),
            Self::Xdg => {
                // The specification has relative paths ignored.
                let named = variables.get(xdg).map(PathBuf::from).filter(|path| path.is_absolute());
                named.or_else(|| Some(home()?.join(below_home)))
            }
        }
    }
}

pub(crate) fn home(variables: &Variables) -> Option<PathBuf> {
    variables.get("HOME").map(PathBuf::from)
}

/// A file, and whether someone named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// It was named, so it must be there.
    Named(PathBuf),
    /// It is looked for.
    Usual(PathBuf),
}

/// The user's file: the one that a flag names, or the variable, or the platform's.
pub(crate) fn user_file(
    flag: Option<&Path>,
    variables: &Variables,
    platform: Platform,
    folder: Option<&Path>,
) -> Option<Candidate> {
    let named = flag.map(Path::to_owned).or_else(|| variables.get(FILE).map(PathBuf::from));
    match named {
        Some(path) => Some(Candidate::Named(folder.map_or(path.clone(), |folder| folder.join(&path)))),
        None => platform.config_file(variables).map(Candidate::Usual),
    }
}

/// Where a project's file may be, the nearest first: in `start` and above, as far as the home directory. Folders that
/// everyone may write to, like `/tmp`, are left out with all above them.
pub(crate) fn project_files(start: &Path, variables: &Variables) -> Vec<PathBuf> {
    let home = home(variables).map(|home| home.canonicalize().unwrap_or(home));
    let mut files = Vec::new();
    for folder in start.ancestors() {
        if is_shared(folder) {
            break;
        }
        files.push(folder.join(PROJECT));
        if home.as_deref() == Some(folder) {
            break;
        }
    }
    files
}

/// Whether anyone may put a file there, for others to find.
#[cfg(unix)]
fn is_shared(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    const STICKY_AND_OPEN: u32 = 0o1002;
    std::fs::metadata(folder).is_ok_and(|found| found.mode() & STICKY_AND_OPEN == STICKY_AND_OPEN)
}

#[cfg(not(unix))]
fn is_shared(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn the_platform_says_where_things_are() {
        let all = variables(&[("XDG_DATA_HOME", "/d"), ("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]);
        let home = variables(&[("XDG_DATA_HOME", "relative"), ("XDG_CONFIG_HOME", ""), ("HOME", "/h")]);
        let places =
            |platform: Platform, variables: &Variables| (platform.data_dir(variables), platform.config_file(variables));
        let some = |data: &str, file: &str| (Some(PathBuf::from(data)), Some(PathBuf::from(file)));
        assert_eq!(places(Platform::Xdg, &all), some("/d/playhouse", "/c/playhouse/config.toml"));
        assert_eq!(places(Platform::Xdg, &home), some("/h/.local/share/playhouse", "/h/.config/playhouse/config.toml"));
        let mac = "/h/Library/Application Support/playhouse";
        assert_eq!(places(Platform::Mac, &all), some(mac, &format!("{mac}/config.toml")));
        assert_eq!(places(Platform::Xdg, &Variables::default()), (None, None));
        assert_eq!(places(Platform::Mac, &Variables::default()), (None, None));
    }

    #[test]
    fn the_users_file_is_the_flags_then_the_variables_then_the_platforms() {
        let (home, both) = (variables(&[("HOME", "/h")]), variables(&[("HOME", "/h"), (FILE, "v.toml")]));
        let file = |flag: Option<&str>, variables| {
            user_file(flag.map(Path::new), variables, Platform::Xdg, Some(Path::new("/w")))
        };
        assert_eq!(file(Some("f.toml"), &both), Some(Candidate::Named("/w/f.toml".into())));
        assert_eq!(file(None, &both), Some(Candidate::Named("/w/v.toml".into())));
        assert_eq!(file(None, &home), Some(Candidate::Usual("/h/.config/playhouse/config.toml".into())));
        assert_eq!(file(None, &Variables::default()), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_projects_file_is_looked_for_up_to_home_and_never_in_a_shared_folder() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let deep = root.join("home/project/src");
        std::fs::create_dir_all(&deep).unwrap();
        let home = variables(&[("HOME", root.join("home").to_str().unwrap())]);
        let files = |below: &[&str]| below.iter().map(|below| root.join(below).join(PROJECT)).collect::<Vec<_>>();
        assert_eq!(project_files(&deep, &home), files(&["home/project/src", "home/project", "home"]));
        assert_eq!(project_files(&root.join("home"), &home), files(&["home"]));
        // Without a home on the way it goes on to the top, or to the shared folder that temporary folders are in.
        assert!(project_files(&deep, &Variables::default()).starts_with(&files(&["home/project/src"])));
        std::fs::set_permissions(root.join("home/project"), std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(project_files(&deep, &home), files(&["home/project/src"]));
        assert_eq!(project_files(&root.join("home/project"), &home), Vec::<PathBuf>::new());
    }
}
