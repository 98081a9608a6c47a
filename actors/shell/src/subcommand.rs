//! The options that stand before a command's subcommand, as in `git -C . push`.

use crate::git;
use crate::name::{file, is_option};
use crate::options::Options;

/// How much is known of a program's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Which of them take a value, without a doubt.
    All,
    /// What it usually takes: `npm --json false publish` publishes.
    Mostly,
}

const PROGRAMS: [(&str, Known, Options); 4] = [
    (
        "cargo",
        Known::All,
        Options {
            short: "VvqhZ:C:",
            long: "version verbose quiet help list frozen locked offline color: config: explain:",
        },
    ),
    (
        "npm",
        Known::Mostly,
        Options {
            short: "sdqgyfhvw:C:",
            long: "silent quiet verbose global json yes force help version dry-run offline workspaces prefix: registry: \
                   workspace: loglevel: userconfig: cache: tag: otp: access:",
        },
    ),
    (
        "pnpm",
        Known::Mostly,
        Options {
            short: "srwhvC:F:",
            long: "silent recursive workspace-root help version dir: filter: reporter: loglevel:",
        },
    ),
    ("yarn", Known::Mostly, Options { short: "shv", long: "silent verbose json offline help version cwd: registry:" }),
];

/// Whether a word before a subcommand is none itself; `+stable` is cargo's.
pub(super) fn is_before(word: &str) -> bool {
    is_option(word) || word.starts_with('+')
}

/// A command without the options that stand before its subcommand; `None` if there are none, or one is not known.
pub(super) fn without_options(argv: &[String]) -> Option<(Vec<String>, Known)> {
    let (program, args) = argv.split_first()?;
    args.first().filter(|word| is_before(word))?;
    let (rest, known) = match file(program) {
        "git" => (git::split(args)?.1, Known::All),
        name => {
            let (_, known, options) = PROGRAMS.iter().find(|(known, ..)| *known == name)?;
            let args = match args.split_first() {
                Some((toolchain, rest)) if name == "cargo" && toolchain.starts_with('+') => rest,
                _ => args,
            };
            (options.after(args)?, *known)
        }
    };
    Some(([program].into_iter().chain(rest).cloned().collect(), known))
}
