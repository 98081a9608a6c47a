//! What can be wrong with a configuration, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use crate::config::{Key, Origin, Position};

/// One thing that is wrong. Its text says where it stands, what it is about and what to do.
#[expect(missing_docs, reason = "fields without a word are what the text of their variant names")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A file that was named, or is there, cannot be read.
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable {
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A file is not UTF-8.
    #[error("{at}: this is not UTF-8 text: save the file as UTF-8")]
    NotUtf8 {
        /// Where it stops being text.
        at: Position,
    },
    /// A file is no TOML.
    #[error("{at}: this is not TOML: {reason}")]
    NotToml {
        at: Position,
        /// What is wrong there.
        reason: String,
    },
    /// There is no such key.
    #[error("{at}: there is no key `{name}`{}", hint(nearest.as_deref()))]
    UnknownKey {
        at: Position,
        name: String,
        /// The key or section that was probably meant.
        nearest: Option<String>,
    },
    /// The key of a service, in a file.
    #[error("{at}: `{name}` does not belong in a file: set the service's own variable instead, such as OPENAI_API_KEY")]
    SecretKey { at: Position, name: String },
    /// A section was given a value.
    #[error("{at}: `{section}` is a section: write [{section}] on a line of its own, and its keys below")]
    NotASection { at: Position, section: String },
    /// A value is not what its key takes.
    #[error("{} is {found}: it takes {takes}", subject(at, key))]
    BadValue {
        at: Origin,
        key: String,
        found: String,
        /// What the key takes.
        takes: &'static str,
    },
    /// A value has the right form and still cannot be used.
    #[error("{}: {reason}", subject(at, key))]
    Unusable {
        at: Origin,
        key: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A variable is no text.
    #[error("{name} is not UTF-8 text: set it again, or unset it")]
    NotText {
        /// The variable or flag.
        name: String,
    },
    /// A `${…}` cannot be replaced.
    #[error("{at}: {key}: {reason}")]
    Expansion {
        at: Position,
        key: String,
        /// What is wrong with it.
        reason: ExpandError,
    },
    /// A project's file sets what it may not.
    #[error("{at}: a project's file may not set {}{}: {}", key.name(), because(*why), elsewhere(key))]
    NotByProject {
        at: Position,
        key: &'static Key,
        /// Why it may not set this value, where it may set others.
        why: Option<&'static str>,
    },
    /// Something in a section with names of its own cannot be.
    #[error("{at}: {name}: {reason}")]
    InSection {
        at: Position,
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A project's file has a section that it may not have.
    #[error("{at}: a project's file may not have the section [{section}]: put it in your own file")]
    SectionByProject { at: Position, section: &'static str },
    /// A variable begins like ours and is none.
    #[error("playhouse has no variable {name}: {}", other_variable(nearest.as_deref()))]
    UnknownVariable {
        name: String,
        /// The variable that was probably meant.
        nearest: Option<String>,
    },
    /// The key of a service, in a variable of ours.
    #[error("playhouse has no variable {name}: set the service's own instead, such as OPENAI_API_KEY")]
    SecretVariable { name: String },
    /// A flag that sets nothing.
    #[error("no key is set by {name}")]
    UnknownFlag { name: &'static str },
}

/// What is wrong with a `${…}`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// Its end is missing.
    #[error("`${{{0}` has no end: write ${{NAME}}, or $$ for a dollar")]
    Unterminated(String),
    /// It names no variable.
    #[error("`${{{0}}}` names no variable: write ${{NAME}} or ${{NAME:-default}}, or $$ for a dollar")]
    NoName(String),
    /// The variable is not set.
    #[error("the variable {0} is not set: set it, or give a default as in ${{{0}:-default}}")]
    Unset(String),
    /// The variable is no text.
    #[error("the variable {0} is not UTF-8 text: set it again")]
    NotText(String),
    /// The variable's name says that it is a secret.
    #[error("the variable {0} looks like a secret, and settings are written to the journal: leave it out")]
    Secret(String),
    /// A project's file may not read the environment.
    #[error("a project's file may not read the environment: write the value out, or $$ for a dollar")]
    ByProject,
}

/// All that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!(": did you mean `{name}`?"),
        None => ": `playhouse config show` lists what there is".to_owned(),
    }
}

fn other_variable(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("did you mean {name}?"),
        None => "unset it, or rename it if it is another program's".to_owned(),
    }
}

/// What a sentence about a value begins with.
fn subject(at: &Origin, key: &str) -> String {
    match at {
        Origin::User(place) | Origin::Project(place) => format!("{place}: {key}"),
        Origin::Environment(name) => name.clone(),
        Origin::Flag(name) => (*name).to_owned(),
        Origin::Default => key.to_owned(),
    }
}

fn because(why: Option<&str>) -> String {
    why.map(|why| format!(" to this, since {why}")).unwrap_or_default()
}

/// Where a key can be set that a project's file may not set.
fn elsewhere(key: &Key) -> String {
    let flags: String = key.flags().iter().map(|flag| format!(" or {flag}")).collect();
    format!("set it in your own file, or with {}{flags}", key.variable())
}
