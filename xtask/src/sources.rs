//! What the workspace's sources hold: its tests, and the names that documents may use.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::rust::{Token, test_names, tokens};

/// Where sources are. Anything else, above all what is built, is not looked at.
const FOLDERS: [&str; 7] = ["actors", "benches", "examples", "fuzz", "src", "tests", "xtask"];

/// What a source file counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The command line and the table of keys: flags and commands are looked up here.
    CommandLine,
    /// The tools for this workspace: their tests count, their names don't.
    Tools,
    /// Everything else.
    Library,
}

impl Part {
    /// The part that a file belongs to, by its path from the workspace's folder.
    fn of(path: &Path) -> Self {
        if path.starts_with("src/cli") || path == Path::new("src/config/keys/table.rs") {
            Self::CommandLine
        } else if path.starts_with("xtask") || path.starts_with("fuzz") {
            Self::Tools
        } else {
            Self::Library
        }
    }
}

/// The sources, as far as documents speak of them.
#[derive(Debug, Default)]
pub struct Sources {
    /// The files in which a test of each name stands, by their paths from the workspace's folder.
    tests: BTreeMap<String, BTreeSet<String>>,
    words: HashSet<String>,
    command_line: HashSet<String>,
    texts: Vec<String>,
}

/// A file or folder that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read: {}", self.path.display(), self.error)
    }
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String, Unreadable> {
    fs::read_to_string(path).map_err(|error| Unreadable { path: path.to_owned(), error })
}

/// The files of a folder, sorted.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = entries.map_err(|error| Unreadable { path: folder.to_owned(), error })?;
    paths.sort();
    Ok(paths)
}

impl Sources {
    /// Reads every source file below the workspace's folder.
    pub fn read(root: &Path) -> Result<Self, Unreadable> {
        let mut sources = Self::default();
        for folder in FOLDERS.map(|folder| root.join(folder)) {
            if folder.is_dir() {
                sources.read_folder(root, &folder)?;
            }
        }
        Ok(sources)
    }

    fn read_folder(&mut self, root: &Path, folder: &Path) -> Result<(), Unreadable> {
        for path in files(folder)? {
            if path.is_dir() {
                self.read_folder(root, &path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let shown = path.strip_prefix(root).unwrap_or(&path);
                self.add(Part::of(shown), &shown.to_string_lossy(), &read(&path)?);
            }
        }
        Ok(())
    }

    /// Adds the text of a source file.
    pub fn add(&mut self, part: Part, file: &str, text: &str) {
        let tokens = tokens(text);
        for test in test_names(&tokens) {
            self.tests.entry(test.to_owned()).or_default().insert(file.to_owned());
        }
        if part == Part::Tools {
            return;
        }
        for token in tokens {
            match token {
                Token::Word(word) => self.learn(part, word),
                Token::Text(text) => {
                    self.texts.push(text.to_owned());
                    text.split(|c: char| !c.is_alphanumeric() && c != '_').for_each(|word| self.learn(part, word));
                }
                Token::Mark(_) => {}
            }
        }
    }

    fn learn(&mut self, part: Part, word: &str) {
        if part == Part::CommandLine {
            self.command_line.insert(word.to_owned());
        }
        self.words.insert(word.to_owned());
    }

    /// What is wrong with a document's word for a test: its name, after the path of its file where several files have a
    /// test of that name, as in `tests/house.rs::it_opens`.
    pub fn fault_of_test(&self, word: &str) -> Option<String> {
        let (file, name) = file_and_name(word);
        let Some(files) = self.tests.get(name) else { return Some(format!("there is no test `{name}`")) };
        match file {
            Some(file) if files.contains(file) => None,
            Some(file) => Some(format!("there is no test `{name}` in {file}")),
            None if files.len() == 1 => None,
            None => {
                let all: Vec<String> = files.iter().map(|file| format!("`{file}::{name}`")).collect();
                Some(format!("`{name}` stands in several files: write {}", all.join(" or ")))
            }
        }
    }

    /// The tests that carry numbers of the failure catalogue, each with the number: `f07_…`, or `f30_f31_…` for two.
    pub fn numbered_tests(&self) -> Vec<(u32, &str)> {
        let mut all = Vec::new();
        for test in self.tests.keys() {
            let parts = test.split('_').map_while(number);
            all.extend(parts.map(|number| (number, test.as_str())));
        }
        all.sort_unstable();
        all
    }

    /// Whether a name that a document gives for something of ours is still there.
    ///
    /// `--max-turns` is a flag, `playhouse sessions list` a command; of `House::agent` every part must be a word of
    /// the sources, comments not counted; anything else must stand in a string as it is.
    pub fn knows(&self, name: &str) -> bool {
        if let Some(flag) = name.strip_prefix("--") {
            return self.command_line.contains(&flag.replace('-', "_"));
        }
        if let Some(command) = name.strip_prefix("playhouse ") {
            return command.split(' ').all(|word| self.command_line.contains(&capitalised(word)));
        }
        let is_word = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
        if name.split("::").all(is_word) {
            return name.split("::").all(|part| self.words.contains(part));
        }
        !name.is_empty() && self.texts.iter().any(|text| text.contains(name))
    }
}

/// The file and the name in a document's word for a test.
pub fn file_and_name(word: &str) -> (Option<&str>, &str) {
    match word.rsplit_once("::") {
        Some((file, name)) => (Some(file), name),
        None => (None, word),
    }
}

/// The number of a name's part like `f07`.
fn number(part: &str) -> Option<u32> {
    part.strip_prefix('f').filter(|digits| digits.len() == 2)?.parse().ok()
}

/// A command's name as its variant has it.
fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        let mut sources = Sources::default();
        sources.add(
            Part::Library,
            "a.rs",
            "/// Of a Ghost.\nimpl House { pub fn agent() { say(\"see a/b.toml, HOME_DIR\"); } }",
        );
        sources.add(Part::CommandLine, "b.rs", "enum Command { Sessions(Args) } struct Args { max_turns: u32 }");
        sources.add(Part::Tools, "c.rs", "fn hammer() {} #[test] fn f07_b() {}");
        sources.add(Part::Library, "d.rs", "#[test] fn f30_f31_c() {} #[test] fn fast_a() {} #[test] fn f7_d() {}");
        sources
    }

    #[test]
    fn names_are_known_whole_and_outside_comments() {
        let sources = sources();
        for known in ["House", "House::agent", "HOME_DIR", "a/b.toml", "--max-turns", "playhouse sessions"] {
            assert!(sources.knows(known), "{known}");
        }
        for unknown in ["Hous", "House::agents", "Ghost", "b/a.toml", "--max", "playhouse sessions list", "hammer", ""]
        {
            assert!(!sources.knows(unknown), "{unknown}");
        }
    }

    #[test]
    fn numbered_tests_are_found_under_each_of_their_numbers() {
        let sources = sources();
        assert_eq!(sources.numbered_tests(), [(7, "f07_b"), (30, "f30_f31_c"), (31, "f30_f31_c")]);
    }

    #[test]
    fn a_test_is_known_by_its_name_and_by_its_file_where_there_are_several() {
        let mut sources = sources();
        sources.add(Part::Library, "e.rs", "#[test] fn fast_a() {} mod more { #[test] fn twice() {} }");
        sources.add(Part::Library, "f/g.rs", "#[test] fn twice() {} mod more { #[test] fn twice() {} }");
        for known in ["f07_b", "c.rs::f07_b", "e.rs::fast_a", "f/g.rs::twice"] {
            assert_eq!(sources.fault_of_test(known), None, "{known}");
        }
        let fault = |word: &str| sources.fault_of_test(word).unwrap();
        assert_eq!(fault("hammer"), "there is no test `hammer`");
        assert_eq!(fault("a.rs::twice"), "there is no test `twice` in a.rs");
        assert_eq!(fault("twice"), "`twice` stands in several files: write `e.rs::twice` or `f/g.rs::twice`");
    }

    #[test]
    fn this_test_is_found_in_the_workspace() {
        let sources = Sources::read(&crate::root()).unwrap();
        assert_eq!(sources.fault_of_test("xtask/src/sources.rs::this_test_is_found_in_the_workspace"), None);
        assert!(sources.knows("AgentHandle::prompt") && sources.knows("playhouse run") && sources.knows("--data-dir"));
    }

    #[test]
    fn a_file_that_is_no_text_is_named() {
        let root = std::env::temp_dir().join(format!("xtask-sources-{}", std::process::id()));
        fs::create_dir_all(root.join("src")).unwrap();
        fs::write(root.join("src/a.rs"), b"\xff").unwrap();
        let error = Sources::read(&root).unwrap_err();
        assert_eq!(error.path, root.join("src/a.rs"));
        fs::remove_dir_all(root).unwrap();
    }
}
