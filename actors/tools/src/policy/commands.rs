//! What a call reaches, as rules see it: nothing, a path, or the programs of a command line.

use std::path::{Component, Path};

use playhouse_protocol::Subject;
use playhouse_shell::{self as shell, Reading, SimpleCommand};

/// What a call reaches.
#[derive(Debug)]
pub(super) enum Reach {
    /// Nothing that a rule could name.
    Nothing,
    /// A path beneath the working directory; `None` for one that leads out of it.
    Path(Option<String>),
    /// What a command line runs, as far as it can be read.
    Command(Reading),
}

impl Reach {
    pub(super) fn of(subject: &Subject, cwd: &Path) -> Self {
        match subject {
            Subject::Nothing => Self::Nothing,
            Subject::Path(path) => Self::Path(beneath(path, cwd)),
            Subject::Command(text) => Self::Command(shell::read(text)),
        }
    }

    /// Whether it may do more than can be read.
    pub(super) fn is_unproven(&self) -> bool {
        match self {
            Self::Nothing | Self::Path(_) => false,
            Self::Command(Reading::Opaque(_)) => true,
            Self::Command(Reading::Plain(line)) => line.commands().iter().any(|command| shell::wraps(&command.argv)),
        }
    }

    /// Why only a shell can say what it does, if so.
    pub(super) fn why_unread(&self) -> Option<&str> {
        match self {
            Self::Command(Reading::Opaque(opaque)) => Some(&opaque.why),
            Self::Nothing | Self::Path(_) | Self::Command(Reading::Plain(_)) => None,
        }
    }

    /// Whether its meaning depends on where one is: in another project the same words are another thing.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Nothing | Self::Command(Reading::Opaque(_)) => false,
            Self::Path(_) => true,
            Self::Command(Reading::Plain(line)) => line.commands().iter().any(SimpleCommand::is_relative),
        }
    }

    /// The rules that a yes for longer would add; `None` where it can only be for this once.
    pub(super) fn rules_for(&self, tool: &str) -> Option<Vec<String>> {
        match self {
            Self::Nothing => Some(vec![tool.to_owned()]),
            Self::Path(None) => None,
            Self::Path(Some(path)) => Some(vec![format!("{tool}({})", globset::escape(path))]),
            Self::Command(Reading::Opaque(_)) => None,
            // What is done elsewhere is not what the same words do here.
            Self::Command(Reading::Plain(line)) if line.commands().len() > 1 && line.commands().iter().any(moves) => {
                None
            }
            Self::Command(Reading::Plain(line)) => {
                Some(shell::grant(line)?.iter().map(|words| format!("{tool}({words})")).collect())
            }
        }
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
