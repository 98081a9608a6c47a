//! What a command that failed says of why it did.
//!
//! Its words only lead to what is then checked: they may be wrong, in another program's style, or written to deceive.

use std::path::Path;

use super::judge::{Judge, Missing};
use super::{Ended, Refusal};
use playhouse_shell as shell;

/// How many lines of each stream are looked at, the last ones, and how long one may be.
const MOST_LINES: usize = 400;
const LONGEST: usize = 4_096;
/// How many names are looked up on the disk.
const MOST_NAMES: usize = 200;
/// How many lines above a reason may belong to it.
const ABOVE: usize = 3;

/// What those say who get no network, in small letters.
const NETWORK: [&str; 18] = [
    "network is unreachable",
    "could not resolve host",
    "couldn't resolve host",
    "name resolution",
    "name or service not known",
    "nodename nor servname",
    "failed to lookup address",
    "getaddrinfo",
    "dns error",
    "dns lookup failed",
    "connection refused",
    "couldn't connect to server",
    "failed to connect to",
    "unable to connect to",
    "econnrefused",
    "enetunreach",
    "urlopen error",
    "/dev/tcp/",
];

/// What those say to whom the kernel gives no socket.
const SOCKET: [&str; 3] = ["socket", "connect", "bind"];

/// Programs that say nothing when they are told to be silent, and what they exit with when there is no network.
const SILENT: [(&str, &[i32]); 8] = [
    ("curl", &[5, 6, 7, 28]),
    ("wget", &[4]),
    ("ssh", &[255]),
    ("scp", &[1, 255]),
    ("sftp", &[255]),
    ("nc", &[1]),
    ("ncat", &[1]),
    ("ping", &[1, 2]),
];

/// How words begin that are said of a change and not of a look, in small letters.
const CHANGES: [&str; 20] = [
    "creat", "touch", "mkdir", "remov", "mov", "unlink", "renam", "writ", "chang", "setting", "preserv", "chmod",
    "chown", "truncat", "delet", "lock", "overwrit", "sav", "install", "link",
];

/// The signal to one whose file grows too large, to which a shell adds 128.
const TOO_LARGE: i32 = 25;
/// What those say who don't die of it, in small letters.
const TOO_LARGE_WORDS: [&str; 3] = ["file too large", "file size limit exceeded", "efbig"];

/// Why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Permission denied.
    Denied,
    /// Operation not permitted.
    NotPermitted,
    /// Read-only file system.
    ReadOnly,
    /// Device or resource busy.
    Busy,
    /// No such file or directory.
    Missing,
}

const REASONS: [(&str, Reason); 10] = [
    ("permission denied", Reason::Denied),
    ("eacces", Reason::Denied),
    ("operation not permitted", Reason::NotPermitted),
    ("eperm", Reason::NotPermitted),
    ("read-only file system", Reason::ReadOnly),
    ("erofs", Reason::ReadOnly),
    ("device or resource busy", Reason::Busy),
    ("ebusy", Reason::Busy),
    ("no such file or directory", Reason::Missing),
    ("enoent", Reason::Missing),
];

/// What a command was perhaps refused.
pub(super) fn refusals(ended: &Ended, judge: &Judge<'_>) -> Vec<Refusal> {
    let reader = Reader::new(ended, judge);
    let mut found = Vec::new();
    if reader.is_silent_without_network() {
        found.push(Refusal::Network);
    }
    if is_too_large(ended) {
        found.push(Refusal::FileSize(judge.most_of_a_file()));
    }
    let mut names = 0;
    for text in &ended.printed {
        let mut lines: Vec<&str> = text.lines().rev().filter(|line| line.len() <= LONGEST).take(MOST_LINES).collect();
        lines.reverse();
        for (at, line) in lines.iter().enumerate() {
            let small = line.to_lowercase();
            let above = lines.get(at.saturating_sub(ABOVE)..at).unwrap_or_default();
            if says_no_network(&small, above) {
                found.push(Refusal::Network);
            }
            if TOO_LARGE_WORDS.iter().any(|words| small.contains(words)) {
                found.push(Refusal::FileSize(judge.most_of_a_file()));
            }
            if says_no_socket(&small, above) {
                continue;
            }
            let Some((text, reason)) = REASONS.iter().find(|(text, _)| small.contains(text)) else { continue };
            // Some name the file first, and the bare reason below.
            let above = if small.trim_start().starts_with(text) { above } else { &[] };
            let near = std::iter::once(line).chain(above.iter().rev());
            let candidates = near.map(|line| named(line)).find(|names| !names.is_empty());
            for name in candidates.unwrap_or_default() {
                names += 1;
                if names > MOST_NAMES {
                    return found;
                }
                found.extend(reader.refusal(*reason, &small, name));
            }
        }
    }
    found
}

fn is_too_large(ended: &Ended) -> bool {
    use std::os::unix::process::ExitStatusExt;
    ended.status.signal() == Some(TOO_LARGE) || ended.status.code() == Some(128 + TOO_LARGE)
}

/// Whether a line says that there is no network, with those above it: the kernel's own words say little.
fn says_no_network(small: &str, above: &[&str]) -> bool {
    NETWORK.iter().any(|words| small.contains(words)) || says_no_socket(small, above)
}

/// Whether it was a socket that was not given, and no file.
fn says_no_socket(small: &str, above: &[&str]) -> bool {
    let is_denied =
        ["operation not permitted", "permission denied", "eperm", "eacces"].iter().any(|it| small.contains(it));
    let has_word = |line: &str| words(line).any(|word| SOCKET.contains(&word));
    is_denied && (has_word(small) || (named(small).is_empty() && above.iter().any(|line| has_word(line))))
}

/// The words of a line, without paths, which may hold any.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let plain = line.split_whitespace().filter(|part| !part.contains('/'));
    plain.flat_map(|part| part.split(|c: char| !c.is_alphabetic())).filter(|word| !word.is_empty())
}

struct Reader<'a> {
    ended: &'a Ended,
    judge: &'a Judge<'a>,
    /// The commands that could be read of the line.
    seen: Vec<Vec<String>>,
}

impl<'a> Reader<'a> {
    fn new(ended: &'a Ended, judge: &'a Judge<'a>) -> Self {
        Self { ended, judge, seen: shell::read(&ended.command).seen() }
    }

    fn runs(&self, program: &str) -> bool {
        let named = self.seen.iter().filter_map(|argv| argv.first());
        named.into_iter().any(|name| name.rsplit('/').next() == Some(program))
    }

    fn is_silent_without_network(&self) -> bool {
        let Some(code) = self.ended.status.code() else { return false };
        SILENT.iter().any(|(program, codes)| codes.contains(&code) && self.runs(program))
    }

    /// What was refused, if a file of this name was.
    fn refusal(&self, reason: Reason, small: &str, name: &str) -> Option<Refusal> {
        let named = Path::new(name);
        // After these only the shell knows what a name is relative to.
        if named.is_relative() && ["cd", "pushd", "popd"].iter().any(|program| self.runs(program)) {
            return None;
        }
        let path = self.judge.real(named);
        let is_there = path.symlink_metadata().is_ok();
        let says_change = |word: &str| CHANGES.iter().any(|start| word.starts_with(start));
        let is_change = || words(small).any(says_change) || self.is_written_to(name);
        let changed = || Some(Refusal::Change(path.clone()));
        match (reason, self.judge.missing) {
            (Reason::ReadOnly | Reason::NotPermitted, _) => changed(),
            // What something is bound to cannot be replaced; what is busy otherwise is no matter of the sandbox.
            (Reason::Busy, _) => self.judge.is_read_only(&path).then_some(Refusal::Change(path)),
            (Reason::Denied, _) if !is_there || self.judge.may_read(&path) || is_change() => changed(),
            (Reason::Denied, _) => Some(Refusal::Read(path)),
            (Reason::Missing, Missing::IsMissing) => None,
            (Reason::Missing, Missing::MayBeRefused) if is_there && !is_change() => Some(Refusal::Read(path)),
            (Reason::Missing, Missing::MayBeRefused) => {
                // Nothing of its folder is there for the command, and so it was not this file that it missed.
                let folder = path.parent().filter(|folder| folder.is_dir() && !self.judge.may_read(folder))?;
                if is_change() {
                    return changed();
                }
                self.judge.is_whole(folder).then(|| Refusal::Read(folder.to_owned()))
            }
        }
    }

    /// Whether the command's text sends output to this name.
    fn is_written_to(&self, name: &str) -> bool {
        let text = &self.ended.command;
        let before = text.match_indices(name).filter_map(|(at, _)| text.get(..at));
        let before = before.map(|before| before.trim_end_matches([' ', '\t', '"', '\'']));
        before.into_iter().any(|before| before.ends_with('>') || before.ends_with(">|"))
    }
}

/// What may be names of files in a line: in quotes, or between colons.
fn named(line: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (open, close) in [('\'', '\''), ('"', '"'), ('`', '`'), ('‘', '’')] {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(open) {
            let Some((inside, after)) = after.split_once(close) else { break };
            names.push(inside);
            rest = after;
        }
    }
    for part in line.split(": ") {
        let part = part.trim();
        let last = part.rsplit(char::is_whitespace).next().unwrap_or_default().trim_matches(['\'', '"', '`']);
        names.extend([part, last].into_iter().filter(|name| name.contains('/')));
    }
    let bare = line.split_whitespace().map(|part| part.trim_matches(['\'', '"', '`', '(', ')', ',', ';', ':']));
    names.extend(bare.filter(|name| name.starts_with('/')));
    names.retain(|name| !name.is_empty() && !name.contains("://"));
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_ways_of_many_programs() {
        for (line, name) in [
            ("cat: /srv/a: Permission denied", "/srv/a"),
            ("bash: line 1: /srv/a b: Permission denied", "/srv/a b"),
            ("touch: cannot touch '/srv/a b': Read-only file system", "/srv/a b"),
            ("ls: cannot open directory ‘/srv/a’: Permission denied", "/srv/a"),
            ("PermissionError: [Errno 13] Permission denied: '/srv/a'", "/srv/a"),
            ("Error: EACCES: permission denied, open '/srv/a'", "/srv/a"),
            ("tar: /srv/a: Cannot open: Permission denied", "/srv/a"),
            ("error: could not lock config file /srv/a: Permission denied", "/srv/a"),
            ("fatal: cannot mkdir /srv/a: Permission denied", "/srv/a"),
            ("open /srv/a: permission denied", "/srv/a"),
            ("E: Could not open lock file /srv/a - open (13: Permission denied)", "/srv/a"),
            ("awk: can't open '/srv/a': Permission denied", "/srv/a"),
            ("  failed to write `/srv/a`", "/srv/a"),
            ("cp: cannot create regular file 'sub/a': Permission denied", "sub/a"),
        ] {
            assert!(named(line).contains(&name), "{line}: {:?}", named(line));
        }
        for line in ["", "Permission denied", "fatal: unable to access 'http://x/y': Permission denied", "''", "'"] {
            assert_eq!(named(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn the_words_of_those_without_network_are_known() {
        for line in [
            "curl: (6) Could not resolve host: x",
            "connect: Network is unreachable",
            "socket: Operation not permitted",
        ] {
            assert!(says_no_network(&line.to_lowercase(), &[]), "{line}");
        }
        assert!(says_no_network("permissionerror: [errno 1] operation not permitted", &["_socket.socket.__init__("]));
        assert!(!says_no_network("chmod: changing permissions of '/x': operation not permitted", &["socket"]));
        assert!(!says_no_network("operation not permitted", &[]));
        assert!(!says_no_network("cat: /srv/socket/connect: permission denied", &[]));
        // A local one too: it is not its file that is not granted.
        assert!(says_no_socket("dial unix /var/run/docker.sock: socket: operation not permitted", &[]));
    }
}
