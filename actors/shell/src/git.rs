//! What a `git` command is: much of git can start a program.

use crate::name::{is_long, is_short};

/// Commands of git itself, which no alias can replace. Others may be an alias, or a program named `git-…`.
const OWN: [&str; 62] = [
    "add",
    "am",
    "apply",
    "archive",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-ignore",
    "checkout",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "count-objects",
    "describe",
    "diff",
    "diff-index",
    "diff-tree",
    "fetch",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "init",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge",
    "merge-base",
    "mv",
    "name-rev",
    "notes",
    "prune",
    "pull",
    "push",
    "range-diff",
    "rebase",
    "reflog",
    "remote",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "show-ref",
    "sparse-checkout",
    "stash",
    "status",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "version",
    "worktree",
];

/// Options that name a program or change the configuration.
const LONG: [&str; 10] = [
    "config-env",
    "exec-path",
    "upload-pack",
    "receive-pack",
    "exec",
    "extcmd",
    "open-files-in-pager",
    "config",
    "template",
    "server-option",
];

/// Whether a `git` command may run what its arguments, or a configuration of theirs, say.
pub(super) fn wraps(args: &[String]) -> bool {
    let Some((own, rest)) = split(args) else { return true };
    let Some((command, rest)) = rest.split_first() else { return false };
    let is_config = |word: &String| is_short(word, &['c']) || is_long(word, &LONG);
    if own.iter().any(is_config) || !OWN.contains(&command.as_str()) {
        return true;
    }
    let runs = |word: &String| {
        is_long(word, &LONG)
            // A transport of one's own: `ext::sh -c …`.
            || word.contains("::")
            || match command.as_str() {
                "fetch" | "pull" | "clone" | "ls-remote" => is_short(word, &['u', 'c']),
                "rebase" => is_short(word, &['x', 'i']),
                "grep" => is_short(word, &['O']),
                "help" => true,
                _ => false,
            }
    };
    rest.iter().any(runs)
}

/// Whether a `git` command throws work away or sends it elsewhere.
pub(super) fn is_dangerous(args: &[String]) -> bool {
    let Some((_, rest)) = split(args) else { return false };
    let Some((command, rest)) = rest.split_first() else { return false };
    let has = |words: &[&str]| rest.iter().any(|word| words.contains(&word.as_str()));
    match command.as_str() {
        "push" | "clean" | "filter-branch" | "filter-repo" | "update-ref" | "prune" | "send-email" => true,
        "reset" => rest.iter().any(|word| is_long(word, &["hard", "merge", "keep"])),
        "checkout" | "switch" => {
            has(&[".", "--"])
                || rest.iter().any(|word| is_short(word, &['f']) || is_long(word, &["force", "discard-changes"]))
        }
        "restore" => true,
        "branch" | "tag" => {
            rest.iter().any(|word| is_short(word, &['d', 'D', 'f', 'M']) || is_long(word, &["delete", "force"]))
        }
        "stash" => has(&["drop", "clear"]),
        "reflog" => has(&["expire", "delete"]),
        "gc" => rest.iter().any(|word| is_long(word, &["prune"])),
        "worktree" => has(&["remove", "prune"]),
        "remote" => has(&["remove", "rm", "set-url"]),
        _ => false,
    }
}

/// The options of git itself, and its command with the rest. `None` where an option's value is missing.
pub(super) fn split(args: &[String]) -> Option<(&[String], &[String])> {
    let mut at = 0;
    while let Some(word) = args.get(at) {
        at += match word.as_str() {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--config-env" | "--super-prefix"
            | "--exec-path" | "--list-cmds" | "--attr-source" => 2,
            option if option.starts_with('-') => 1,
            _ => break,
        };
    }
    args.split_at_checked(at)
}
