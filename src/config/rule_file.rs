//! The user's file as the place where a yes for good is kept: rules are added to `permissions.allow`, and everything
//! else in it stays as it was written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use playhouse_agent::RuleBook;
use toml_edit::{Array, DocumentMut, Item, Table, TomlError, Value};

/// A file that rules are added to.
#[derive(Clone, Debug)]
pub struct RuleFile {
    path: PathBuf,
}

/// Why rules were not added to a file.
#[derive(Debug, thiserror::Error)]
enum RuleFileError {
    #[error("`{path}` cannot be changed: {source}; add the rule to its [permissions] yourself")]
    Io { path: PathBuf, source: io::Error },
    #[error("`{path}` is not TOML any more: {source}; mend it, then add the rule to its [permissions]")]
    NotToml { path: PathBuf, source: TomlError },
    #[error("`{path}` has something else in the place of the list `allow` of [permissions]: make it a list of rules")]
    NotAList { path: PathBuf },
}

impl RuleFile {
    /// The file at this place; it is made when it is needed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Adds rules that are not there yet. Processes that do it at the same time wait for each other, and a crash leaves
    /// the file as it was or with the rules.
    fn add(&self, rules: &[String]) -> Result<(), RuleFileError> {
        let failed = |source: io::Error| RuleFileError::Io { path: self.path.clone(), source };
        // A link to a file elsewhere stays one.
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        // A device that was named to have no file at all must not be replaced by one.
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(beside(&path, "lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(failed)?,
        };
        let Some(text) = self.with(&text, rules)? else { return Ok(()) };
        replace(&path, &text).map_err(failed)
    }

    /// The text with the rules in it; `None` if it has them all.
    fn with(&self, text: &str, rules: &[String]) -> Result<Option<String>, RuleFileError> {
        let mut document: DocumentMut =
            text.parse().map_err(|source| RuleFileError::NotToml { path: self.path.clone(), source })?;
        let taken = || RuleFileError::NotAList { path: self.path.clone() };
        let permissions = document.entry("permissions").or_insert(Item::Table(Table::new()));
        let permissions = permissions.as_table_like_mut().ok_or_else(taken)?;
        let allow = permissions.entry("allow").or_insert(Item::Value(Value::Array(Array::new())));
        let allow = allow.as_array_mut().ok_or_else(taken)?;
        let mut added = false;
        for rule in rules {
            if !allow.iter().any(|known| known.as_str() == Some(rule)) {
                allow.push(rule.as_str());
                added = true;
            }
        }
        Ok(added.then(|| document.to_string()))
    }
}

impl RuleBook for RuleFile {
    fn remember(&self, rules: &[String]) -> Result<(), String> {
        self.add(rules).map_err(|error| error.to_string())
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{ending}"));
    path.with_file_name(name)
}

/// All of the new text, or all of the old.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = beside(path, "new");
    let mut file = File::create(&new)?;
    if let Ok(found) = fs::metadata(path) {
        file.set_permissions(found.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &str, rules: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.toml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        RuleFile::new(&path).add(&rules).unwrap();
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn rules_are_added_and_nothing_else_changes() {
        assert_eq!(add("", &["bash(ls)"]), "[permissions]\nallow = [\"bash(ls)\"]\n");
        let before = "# mine\nmodel = \"openai/gpt-5\" # good\n\n[permissions]\nforbid = [\"bash(rm *)\"]\n\
                      allow = [\"bash(ls)\"] # few\n\n[limits]\nmax_turns = 3\n";
        let after = before.replace("[\"bash(ls)\"]", "[\"bash(ls)\", \"bash(git status)\"]");
        assert_eq!(add(before, &["bash(ls)", "bash(git status)"]), after);
        assert_eq!(add(before, &["bash(ls)"]), before);
    }

    #[test]
    fn a_file_that_is_not_there_is_made_and_one_that_is_wrong_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let rules = ["bash(ls)".to_owned()];
        let new = folder.path().join("a/b/config.toml");
        RuleFile::new(&new).add(&rules).unwrap();
        assert_eq!(fs::read_to_string(&new).unwrap(), "[permissions]\nallow = [\"bash(ls)\"]\n");
        for wrong in ["model = ", "permissions = 3\n", "[permissions]\nallow = \"all\"\n"] {
            let path = folder.path().join("wrong.toml");
            fs::write(&path, wrong).unwrap();
            let error = RuleFile::new(&path).add(&rules).unwrap_err().to_string();
            assert!(error.contains("wrong.toml") && error.contains("[permissions]"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), wrong);
        }
    }

    #[test]
    fn what_is_no_file_is_not_replaced_by_one_and_a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let rules = ["bash(ls)".to_owned()];
        let device = folder.path().join("nothing");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        let error = RuleFile::new(&device).add(&rules).unwrap_err().to_string();
        assert!(error.contains("it is not a regular file"), "{error}");
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("link.toml"));
        fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        RuleFile::new(&link).add(&rules).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("bash(ls)"));
    }

    #[test]
    fn many_writers_lose_no_rule() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::thread::scope(|scope| {
            for n in 0..40 {
                let path = &path;
                scope.spawn(move || RuleFile::new(path).add(&[format!("bash(ls {n})")]).unwrap());
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        assert!((0..40).all(|n| text.contains(&format!("\"bash(ls {n})\""))), "{text}");
    }
}
