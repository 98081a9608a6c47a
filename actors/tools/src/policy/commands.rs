//! What a call reaches, as rules see it: nothing, a path, or the programs of a command line.

use std::path::{Component, Path};

use playhouse_protocol::{Level, Subject};
use playhouse_shell::{self as shell, Meant, Pattern, Reading, SimpleCommand};

use crate::programs::Programs;

/// How many words of a command are looked up as programs: calls are judged by whoever must not wait for long.
const MAX_LOOKED_UP: usize = 256;

/// What a call reaches.
#[derive(Debug)]
pub(super) enum Reach<'a> {
    /// Nothing that a rule could name.
    Nothing,
    /// A path beneath the working directory; `None` for one that leads out of it.
    Path(Option<String>),
    /// What a command line runs, as far as it can be read.
    Command(CommandLine<'a>),
}

/// A command line, and where its programs are looked for.
#[derive(Debug)]
pub(super) struct CommandLine<'a> {
    pub(super) reading: Reading,
    programs: Programs<'a>,
}

impl<'a> Reach<'a> {
    pub(super) fn of(subject: &Subject, cwd: &'a Path) -> Self {
        match subject {
            Subject::Nothing => Self::Nothing,
            Subject::Path(path) => Self::Path(beneath(path, cwd)),
            Subject::Command(text) => {
                Self::Command(CommandLine { reading: shell::read(text), programs: Programs::seen_from(cwd) })
            }
        }
    }

    /// What it is as a command line, if it is one.
    fn reading(&self) -> Option<&Reading> {
        match self {
            Self::Nothing | Self::Path(_) => None,
            Self::Command(line) => Some(&line.reading),
        }
    }

    /// Whether it may do more than can be read.
    pub(super) fn is_unproven(&self) -> bool {
        match self.reading() {
            None => false,
            Some(Reading::Opaque(_)) => true,
            Some(Reading::Plain(line)) => {
                let commands = line.commands();
                // A program that was named by a path may be put there by a command before it.
                let changes = commands.iter().position(|command| shell::level(command) > Level::ReadOnly);
                let is_placed = |command: &SimpleCommand| command.argv.first().is_some_and(|name| name.contains('/'));
                commands.iter().any(|command| shell::wraps(&command.argv))
                    || changes.is_some_and(|at| commands.iter().skip(at + 1).any(is_placed))
            }
        }
    }

    /// Why only a shell can say what it does, if so.
    pub(super) fn why_unread(&self) -> Option<&str> {
        match self.reading() {
            Some(Reading::Opaque(opaque)) => Some(&opaque.why),
            None | Some(Reading::Plain(_)) => None,
        }
    }

    /// Whether its meaning depends on where one is: in another project the same words are another thing.
    pub(super) fn is_local(&self) -> bool {
        match (self, self.reading()) {
            (Self::Path(_), _) => true,
            (_, Some(Reading::Plain(line))) => line.commands().iter().any(SimpleCommand::is_relative),
            (_, None | Some(Reading::Opaque(_))) => false,
        }
    }

    /// The rules that a yes for longer would add; `None` where it can only be for this once.
    pub(super) fn rules_for(&self, tool: &str) -> Option<Vec<String>> {
        match self {
            Self::Nothing => Some(vec![tool.to_owned()]),
            Self::Path(None) => None,
            Self::Path(Some(path)) => Some(vec![format!("{tool}({})", globset::escape(path))]),
            Self::Command(CommandLine { reading: Reading::Opaque(_), .. }) => None,
            Self::Command(CommandLine { reading: Reading::Plain(line), .. }) => {
                // What is done elsewhere is not what the same words do here.
                if line.commands().len() > 1 && line.commands().iter().any(moves) {
                    return None;
                }
                Some(shell::grant(line)?.iter().map(|words| format!("{tool}({words})")).collect())
            }
        }
    }
}

impl CommandLine<'_> {
    /// Every command that can be read in it, under the name it was given and under that of the file a link leads to.
    pub(super) fn seen(&self) -> Vec<Vec<String>> {
        let mut seen = self.reading.seen();
        let linked = seen.iter().filter_map(|argv| {
            let (program, args) = argv.split_first()?;
            let name = self.programs.linked_name(program)?;
            Some([name].into_iter().chain(args.iter().cloned()).collect())
        });
        let linked: Vec<Vec<String>> = linked.collect();
        if !linked.is_empty() {
            seen.extend(shell::seen_in(&linked));
        }
        seen
    }

    /// Whether a pattern speaks of a command, by its name or by the file that would run: a link or a copy of a program
    /// is that program.
    pub(super) fn meant(&self, pattern: &Pattern, argv: &[String]) -> Meant {
        let by_name = pattern.meant(argv);
        let (Some(forbidden), Some((program, args))) = (pattern.program(), argv.split_first()) else { return by_name };
        let renamed: Vec<String> = [forbidden.to_owned()].into_iter().chain(args.iter().cloned()).collect();
        let by_file = pattern.meant(&renamed);
        if by_file > by_name && self.programs.is_same(program, forbidden) { by_file } else { by_name }
    }

    /// Whether a program of which nobody here knows what it does with its words has one that is the forbidden program.
    pub(super) fn may_start(&self, pattern: &Pattern, argv: &[String]) -> bool {
        let Some(forbidden) = pattern.program().filter(|_| !shell::starts_none(argv)) else { return false };
        let is_it = |at: usize, word: &str| {
            let name = word.rsplit('/').next().unwrap_or(word);
            name == forbidden || (at <= MAX_LOOKED_UP && self.programs.is_same(word, forbidden))
        };
        argv.iter().enumerate().skip(1).any(|(at, word)| {
            let with_rest = || {
                let rest = argv.iter().skip(at + 1).cloned();
                pattern.meant(&[forbidden.to_owned()].into_iter().chain(rest).collect::<Vec<_>>()) > Meant::No
            };
            // Within a word it may be given other arguments than those that follow.
            let has_parts = word.contains([' ', '\t', '\n', '=']);
            let mut parts = word.split([' ', '\t', '\n', '=', ';', '|', '&']).filter(|part| !part.is_empty());
            (is_it(at, word) && with_rest()) || (has_parts && parts.any(|part| is_it(at, part)))
        })
    }
}

fn moves(command: &SimpleCommand) -> bool {
    matches!(command.argv.first().map(String::as_str), Some("cd" | "pushd" | "popd"))
}

/// The path as seen from the working directory, `.` and `..` resolved by name; `None` if it leads out.
fn beneath(path: &str, cwd: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(path).strip_prefix(cwd).unwrap_or(Path::new(path)).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}
