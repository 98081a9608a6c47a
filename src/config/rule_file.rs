//! The user's file as the place where a yes for good is kept: rules are added to `permissions.allow`, and everything
//! else in it stays as it was written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use playhouse_agent::RuleBook;
use toml_edit::{Array, DocumentMut, Item, Table, TomlError, Value};

use crate::config::sources::expand::{Reading, expand};

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
    #[error("`{path}` would not say `{rule}` when it is read again, and was left as it is; add the rule yourself")]
    ReadsDifferently { path: PathBuf, rule: String },
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
        let new = write_new(&path, &text).map_err(failed)?;
        let kept = fs::read_to_string(&new).map_err(failed).and_then(|kept| self.check(&kept, rules));
        if let Err(error) = kept {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        fs::rename(&new, &path).map_err(failed)
    }

    /// Whether whoever reads this text as a configuration finds the rules in it.
    fn check(&self, text: &str, rules: &[String]) -> Result<(), RuleFileError> {
        let document: DocumentMut =
            text.parse().map_err(|source| RuleFileError::NotToml { path: self.path.clone(), source })?;
        let allow = document.get("permissions").and_then(|permissions| permissions.get("allow")?.as_array());
        match rules.iter().find(|rule| !allow.is_some_and(|allow| allow.iter().any(|known| says(known, rule)))) {
            None => Ok(()),
            Some(rule) => Err(RuleFileError::ReadsDifferently { path: self.path.clone(), rule: rule.clone() }),
        }
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
            if !allow.iter().any(|known| says(known, rule)) {
                // As the file's strings have it, where `${NAME}` is a variable.
                allow.push(rule.replace('$', "$$"));
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

/// Whether a string of the file is this rule, whatever variables there are.
fn says(known: &Value, rule: &str) -> bool {
    known.as_str().is_some_and(|known| expand(known, Reading::Nothing).as_deref() == Ok(rule))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{ending}"));
    path.with_file_name(name)
}

/// Writes the text to a file beside the one that it is to replace.
fn write_new(path: &Path, text: &str) -> io::Result<PathBuf> {
    let new = beside(path, "new");
    let mut file = File::create(&new)?;
    if let Ok(found) = fs::metadata(path) {
        file.set_permissions(found.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(new)
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
    fn a_dollar_is_written_so_that_it_is_read_as_one() {
        for (rule, written) in [
            ("bash(echo '${HOME}')", "bash(echo '$${HOME}')"),
            ("bash(echo '$$x')", "bash(echo '$$$$x')"),
            ("bash(echo '$5')", "bash(echo '$$5')"),
        ] {
            let text = add("", &[rule]);
            assert_eq!(text, format!("[permissions]\nallow = [\"{written}\"]\n"));
            assert_eq!(add(&text, &[rule]), text, "it is there already");
        }
        // Written by hand, a lone dollar needs no second one.
        let by_hand = "[permissions]\nallow = [\"bash(echo '$5')\"]\n";
        assert_eq!(add(by_hand, &["bash(echo '$5')"]), by_hand);
    }

    #[test]
    fn a_rule_that_would_be_read_as_another_is_not_kept() {
        let file = RuleFile::new("config.toml");
        let rule = "bash(echo '${HOME}')".to_owned();
        let error = file.check(&format!("[permissions]\nallow = [\"{rule}\"]\n"), &[rule]).unwrap_err();
        assert!(matches!(error, RuleFileError::ReadsDifferently { .. }), "{error}");
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
