//! Which file a program's name means. A name says nothing if the file lies where agents write.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use playhouse_protocol::{Level, Subject};
use playhouse_shell::{self as shell, Line, Reading, SimpleCommand};
use rustix::fs::Access;

use crate::sandbox::hidden_places;
use crate::text::cut;

/// Where programs are looked for when the environment does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How much of two files of one length is compared, in bytes: calls are judged by whoever must not wait for long.
const COMPARED: u64 = 1024 * 1024;

/// The search path of this process as commands that were read have it.
pub(crate) fn search_path() -> OsString {
    absolute(&std::env::var_os("PATH").unwrap_or_default())
}

/// A search path without the folders that depend on where one is: a name must not mean what lies there.
fn absolute(path: &OsStr) -> OsString {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    match std::env::join_paths(folders) {
        Ok(path) if !path.is_empty() => path,
        _ => DEFAULT_PATH.into(),
    }
}

/// Where names of programs are looked up.
#[derive(Clone, Debug)]
pub(crate) struct Programs<'a> {
    path: OsString,
    /// Where names with a slash start.
    cwd: &'a Path,
}

impl<'a> Programs<'a> {
    pub(crate) fn seen_from(cwd: &'a Path) -> Self {
        Self { path: search_path(), cwd }
    }

    /// The file that a name would run, links not followed; `None` if there is none.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let is_program = |file: &PathBuf| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok();
        if name.contains('/') {
            return Some(self.cwd.join(name)).filter(is_program);
        }
        std::env::split_paths(&self.path).map(|folder| folder.join(name)).find(is_program)
    }

    /// Why a name can run nothing, in the shell's words; `None` if it can.
    pub(crate) fn why_not(&self, name: &str) -> Option<String> {
        if self.find(name).is_some() {
            return None;
        }
        let why = match (name.contains('/'), self.cwd.join(name)) {
            (true, file) if file.is_dir() => "Is a directory",
            (true, file) if file.exists() => "Permission denied",
            (true, _) => "No such file or directory",
            (false, _) => "command not found",
        };
        Some(format!("{}: {why}", cut(name, 80)))
    }

    /// The name of the file that links lead to from a name, if it is another.
    pub(crate) fn linked_name(&self, name: &str) -> Option<String> {
        let real = self.find(name)?.canonicalize().ok()?;
        let file = real.file_name()?.to_str()?;
        let is_other = Path::new(name).file_name().is_none_or(|own| own != file);
        (is_other && !goes_by_name(file)).then(|| file.to_owned())
    }

    /// Whether two names mean the same file, or two with the same content, or of the same length if they can't be read.
    pub(crate) fn is_same(&self, name: &str, other: &str) -> bool {
        let (Some(one), Some(other)) = (self.find(name), self.find(other)) else { return false };
        let (Ok(one), Ok(other)) = (one.canonicalize(), other.canonicalize()) else { return false };
        if other.file_name().and_then(OsStr::to_str).is_none_or(goes_by_name) {
            return false;
        }
        one == other || is_same_file(&one, &other).unwrap_or(true)
    }

    /// Whether a name means a file beneath the working directory, or leads to one.
    fn is_beneath(&self, name: &str) -> bool {
        let Some(file) = self.find(name) else { return false };
        // A working directory that cannot be resolved is no place that a command could run in.
        let Ok(cwd) = self.cwd.canonicalize() else { return true };
        let folder = file.parent().map(Path::canonicalize);
        file.starts_with(self.cwd)
            || folder.is_none_or(|folder| folder.is_ok_and(|folder| folder.starts_with(&cwd)))
            || file.canonicalize().is_ok_and(|file| file.starts_with(&cwd))
    }
}

/// Whether a file is many programs at once, and its name decides which: a link to it is what the link is called.
fn goes_by_name(file: &str) -> bool {
    const MANY: [&str; 9] =
        ["busybox", "toybox", "coreutils", "sbase-box", "ubase-box", "rustup", "snap", "ccache", "distcc"];
    MANY.iter().any(|many| file.strip_prefix(many).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)))
}

/// Whether two files are one, or a program and its copy: as long as it, and beginning as it does. Scripts are not compared by content: the same one often stands
/// in for many programs, and its name decides for which.
fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    let (this, that) = (one.metadata()?, other.metadata()?);
    if (this.dev(), this.ino()) == (that.dev(), that.ino()) {
        return Ok(true);
    }
    if this.len() != that.len() {
        return Ok(false);
    }
    let start = |path: &Path| {
        let mut bytes = Vec::new();
        File::open(path)?.take(COMPARED).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    let (ours, theirs) = (start(one)?, start(other)?);
    Ok(ours == theirs && !ours.is_empty() && !ours.starts_with(b"#!"))
}

/// How much harm a call can do here: a command is known by the names of its programs only where none of them, nor the
/// shell, is a file beneath the working directory, and only reads where none of its files leads elsewhere.
pub fn level_here(level: Level, subject: &Subject, cwd: &Path) -> Level {
    let Subject::Command(text) = subject else { return level };
    if level >= Level::Execute {
        return level;
    }
    let Reading::Plain(line) = shell::read(text) else { return level };
    if reads_elsewhere(&line, cwd) {
        return Level::Execute;
    }
    let programs = Programs::seen_from(cwd);
    let named =
        line.commands().iter().filter(|command| !command.is_builtin()).filter_map(|command| command.argv.first());
    if named.map(String::as_str).chain(["bash"]).any(|name| programs.is_beneath(name)) { Level::Execute } else { level }
}

/// How many files of a line are looked at, and how long a cluster of short options may be: a longer one does not count as
/// one that only reads. Calls are judged by whoever must not wait for long.
const MAX_FILES: usize = 4_096;
const MAX_CLUSTER: usize = 64;

/// Whether a line of programs that only read is pointed at a file that is elsewhere, or kept from tools, by a link: what
/// words tell was looked at before. A file that is not there is nobody's to read.
fn reads_elsewhere(line: &Line, cwd: &Path) -> bool {
    let Ok(root) = cwd.canonicalize() else { return true };
    let hidden = hidden_places();
    // Each `cd` may take place or not.
    let mut folders = vec![root.clone()];
    let mut count = 0;
    for SimpleCommand { argv, .. } in line.commands() {
        let Some((program, args)) = argv.split_first().filter(|(program, _)| shell::reads_files(program)) else {
            continue;
        };
        for (word, folder) in args.iter().flat_map(|word| folders.iter().map(move |folder| (word, folder))) {
            let Some(places) = named(folder, word) else { return true };
            count += places.len();
            let mut reals = places.iter().filter_map(|place| place.canonicalize().ok());
            // Of two folders `diff` compares what has the same name, and follows links.
            let leads_away = |real: PathBuf| {
                let is_away = !real.starts_with(&root) && real != Path::new("/dev/null");
                is_away || hidden.iter().any(|hidden| real.starts_with(hidden)) || (program == "diff" && real.is_dir())
            };
            if count > MAX_FILES || reals.any(leads_away) {
                return true;
            }
        }
        if program == "cd" {
            let entered: Vec<PathBuf> =
                args.iter().flat_map(|to| folders.iter().map(move |folder| folder.join(to))).collect();
            folders.extend(entered);
        }
    }
    false
}

/// The files that a word may name: all of it, the value of a long option, and what follows a short one. `None` if those
/// are too many to look at.
fn named(folder: &Path, word: &str) -> Option<Vec<PathBuf>> {
    let value = word.split_once('=').map(|(_, value)| value);
    let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
    let behind = cluster.char_indices().skip(1).filter_map(|(at, _)| cluster.get(at..));
    let names = [word].into_iter().chain(value).chain(behind);
    (cluster.len() <= MAX_CLUSTER).then(|| names.map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f46_programs_are_not_looked_for_where_one_happens_to_be() {
        assert_eq!(absolute(OsStr::new("/a::bin:.:/b:../c:")), "/a:/b");
        assert_eq!(absolute(OsStr::new(".:")), DEFAULT_PATH);
    }

    #[test]
    fn f62_a_link_that_leads_out_is_not_only_read() {
        let folder = tempfile::tempdir().unwrap();
        let (cwd, out) = (folder.path().join("work"), folder.path().join("out"));
        for made in [&cwd.join("sub"), &out] {
            std::fs::create_dir_all(made).unwrap();
        }
        for file in [cwd.join("a"), cwd.join("sub/b"), out.join("key")] {
            std::fs::write(file, "x").unwrap();
        }
        for (to, link) in [("../out/key", "lnk"), ("../out", "dl"), ("a", "in"), ("../../out/key", "sub/deep")] {
            std::os::unix::fs::symlink(to, cwd.join(link)).unwrap();
        }
        let level = |text: &str| {
            let Reading::Plain(line) = shell::read(text) else { panic!("{text}") };
            let level = line.commands().iter().map(shell::level).max().unwrap();
            level_here(level, &Subject::Command(text.to_owned()), &cwd)
        };
        for asked in [
            "cat lnk",
            "cat a lnk",
            "cat dl/key",
            "cat ./dl/./key",
            "sort lnk",
            "grep -r x dl",
            "grep -f lnk a",
            "grep -flnk a",
            "grep --file=lnk a",
            "cd sub && cat deep",
            "cd dl && cat key",
            "cd sub; cat lnk",
            "ls dl",
            "find dl",
            "sed -n 1p lnk",
            "diff sub .",
            "grep -Rh x .",
            "find -L .",
            "ls -LR .",
            "du -aL .",
            "diff -r . sub",
            "cd sub; cd sub; cd sub; cd sub; cd sub; cd sub; cd sub; cd sub; cd sub; cd sub; cd sub; cd sub; cd sub; ls",
        ] {
            assert_eq!(level(asked), Level::Execute, "{asked}");
        }
        for read in [
            "cat in",
            "cat a",
            "cat gone",
            "ls -la",
            "grep -rn x .",
            "find . -name a",
            "echo lnk",
            "cd sub && cat b",
            "diff a in",
        ] {
            assert_eq!(level(read), Level::ReadOnly, "{read}");
        }
    }
}
