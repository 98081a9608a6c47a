//! What a command runs that its arguments name.

use crate::name::{base, is_assignment, is_option};

/// Something that a command would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InnerCommand {
    /// A program with its arguments.
    Argv(Vec<String>),
    /// A text for a shell.
    Text(String),
}

const SHELLS: [&str; 12] = ["sh", "bash", "zsh", "dash", "ash", "ksh", "mksh", "fish", "csh", "tcsh", "rbash", "rsh"];

/// The rest of their words, after options, is a command.
pub(super) const PREFIXES: [&str; 66] = [
    "agetty",
    "at",
    "batch",
    "builtin",
    "busybox",
    "bwrap",
    "capsh",
    "catchsegv",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "dbus-run-session",
    "doas",
    "entr",
    "env",
    "exec",
    "fakeroot",
    "firejail",
    "flock",
    "gosu",
    "ionice",
    "linux",
    "ltrace",
    "nice",
    "nohup",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "run-parts",
    "runcon",
    "runuser",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "softlimit",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "su-exec",
    "sudo",
    "systemd-inhibit",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "tini",
    "tmux",
    "toybox",
    "tsocks",
    "proxychains",
    "torsocks",
    "unbuffer",
    "unshare",
    "valgrind",
    "watch",
    "xargs",
    "xvfb-run",
    "ssh",
];

/// Before the command they take something else.
const OPERANDS: [&str; 12] =
    ["chroot", "chrt", "flock", "timeout", "taskset", "su", "runuser", "gosu", "su-exec", "ssh", "setarch", "perf"];

/// They run a command somewhere among their words.
const ELSEWHERE: [&str; 8] = ["docker", "podman", "nerdctl", "kubectl", "lxc", "vagrant", "ip", "machinectl"];

/// The value of some of their options is a command.
const BY_OPTION: [&str; 7] = ["git", "tar", "rsync", "split", "sort", "scp", "sftp"];

/// Whether a program is a shell.
pub(super) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&base(program).as_str())
}

/// What a command runs that its arguments name, as far as they can be read; a guess may be among it.
pub(super) fn inside(argv: &[String]) -> Vec<InnerCommand> {
    let Some((program, args)) = argv.split_first() else { return Vec::new() };
    let name = base(program);
    let mut inner = Vec::new();
    match name.as_str() {
        shell if SHELLS.contains(&shell) => inner.extend(script(args)),
        "eval" => inner.push(InnerCommand::Text(args.join(" "))),
        "trap" => inner.extend(args.iter().find(|word| !is_option(word)).map(|word| InnerCommand::Text(word.clone()))),
        "alias" => inner.extend(args.iter().filter_map(|word| value(word))),
        "find" | "fd" | "fdfind" => inner.extend(executed(args)),
        prefix if PREFIXES.contains(&prefix) => {
            if matches!(prefix, "su" | "runuser" | "script" | "flock" | "env" | "watch" | "ssh" | "parallel") {
                inner.extend(script(args));
            }
            if prefix == "env" {
                let texts =
                    args.iter().filter_map(|word| word.strip_prefix("-S").or(word.strip_prefix("--split-string=")));
                inner.extend(texts.map(|text| InnerCommand::Text(text.to_owned())));
                inner.extend(
                    args.iter().skip_while(|word| *word != "-S").nth(1).map(|word| InnerCommand::Text(word.clone())),
                );
            }
            let operands = usize::from(OPERANDS.contains(&prefix));
            let starts = starts(args, operands);
            let rest: Vec<&[String]> = starts.into_iter().filter_map(|start| args.get(start..)).collect();
            // Those that hand their words to a shell have the command in one of them.
            inner.extend(
                rest.iter()
                    .filter_map(|rest| rest.first())
                    .filter(|word| word.contains(' '))
                    .cloned()
                    .map(InnerCommand::Text),
            );
            inner.extend(rest.into_iter().map(|rest| InnerCommand::Argv(rest.to_vec())));
        }
        elsewhere if ELSEWHERE.contains(&elsewhere) => {
            let starts = (0..args.len().min(12)).filter(|at| args.get(*at).is_some_and(|word| !is_option(word)));
            inner.extend(starts.filter_map(|start| args.get(start..)).map(|rest| InnerCommand::Argv(rest.to_vec())));
        }
        by_option if BY_OPTION.contains(&by_option) => inner.extend(options(by_option, args)),
        _ => {}
    }
    inner
}

/// The script of `-c`.
fn script(args: &[String]) -> Option<InnerCommand> {
    let mut rest = args.iter().skip_while(|word| !(is_option(word) && !word.starts_with("--") && word.contains('c')));
    rest.next()?;
    rest.find(|word| !is_option(word) && !word.starts_with('+')).map(|word| InnerCommand::Text(word.clone()))
}

/// What follows the first `=`.
fn value(word: &str) -> Option<InnerCommand> {
    word.split_once('=').map(|(_, value)| InnerCommand::Text(value.to_owned()))
}

/// The commands that follow `-exec` and its kin in the arguments of `find` and `fd`.
fn executed(args: &[String]) -> Vec<InnerCommand> {
    let mut found = Vec::new();
    let mut rest = args;
    while let Some(at) = rest.iter().position(|word| {
        matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch")
    }) {
        rest = rest.get(at + 1..).unwrap_or_default();
        found.push(InnerCommand::Argv(rest.iter().take_while(|word| *word != ";" && *word != "+").cloned().collect()));
    }
    found
}

/// Where a wrapper's command may start: after its options and what else it takes, and wherever a word may be an
/// option's value or not.
fn starts(args: &[String], operands: usize) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    let mut operands = operands;
    let mut from = 0;
    while found.len() < 4 {
        let next = args.iter().skip(from).position(|word| !is_option(word) && !is_assignment(word));
        let Some(at) = next.map(|next| from + next) else { break };
        found.push(at);
        let follows_option = at.checked_sub(1).and_then(|before| args.get(before)).is_some_and(|word| is_option(word));
        if !follows_option {
            let Some(fewer) = operands.checked_sub(1) else { break };
            operands = fewer;
        }
        from = at + 1;
    }
    found
}

/// Everything that an option may give as a command.
fn options(program: &str, args: &[String]) -> Vec<InnerCommand> {
    let mut found = Vec::new();
    for (at, word) in args.iter().enumerate() {
        if let Some((_, value)) = word.split_once('=') {
            let value = value.strip_prefix("exec=").unwrap_or(value);
            found.push(InnerCommand::Text(value.strip_prefix('!').unwrap_or(value).to_owned()));
            continue;
        }
        match (program, word.as_str()) {
            ("git", "foreach" | "run") => {
                found.push(InnerCommand::Text(args.get(at + 1..).unwrap_or_default().join(" ")));
            }
            ("git", "-x" | "-u" | "-O" | "--exec" | "--upload-pack" | "--receive-pack")
            | ("tar", "-I" | "-F" | "--to-command" | "--use-compress-program" | "--checkpoint-action")
            | ("rsync", "-e" | "--rsh" | "--rsync-path")
            | ("scp" | "sftp", "-S")
            | ("split", "--filter")
            | ("sort", "--compress-program") => found.extend(args.get(at + 1).cloned().map(InnerCommand::Text)),
            _ => {}
        }
    }
    found
}
