//! What a command line is, decided before it runs.
//!
//! A line is *plain* when every word of it can be read off the text: simple commands of literal words, joined by `&&`,
//! `||`, `;`, a newline or `|`. What a plain line runs is what was read, because it is run from the words
//! ([`Line::script`]) and never from the text. Everything else is *opaque*: it may well be harmless, but only bash
//! can say what it does.
//!
//! Two readers must agree before a line counts as plain: a strict one of our own (`lex.rs`), which knows every
//! character it lets pass, and the grammar of tree-sitter (`tree.rs`).
//!
//! Pure: no I/O, no clock, no randomness. Time and memory grow with the length of the text and no faster.

mod builtin;
mod chars;
mod git;
mod level;
mod lex;
mod name;
mod options;
mod pattern;
mod quote;
mod readers;
mod rough;
mod seen;
mod subcommand;
mod tree;
mod unwrap;
mod word;
mod wraps;

pub use chars::{is_hidden, spelled_out};
pub use level::level;
pub use pattern::{Meant, Pattern, PatternError};
pub use quote::quote;
pub use readers::{readers, reads_files};
pub use wraps::{starts_none, wraps};

use lex::NotPlain;
use playhouse_protocol::Level;

/// The longest text that is read as a plain line, in bytes.
pub const MAX_TEXT: usize = 64 * 1024;

/// What a command line turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Every word is known.
    Plain(Line),
    /// Only bash can say what it does.
    Opaque(Opaque),
}

/// A line of simple commands whose every word is a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    commands: Vec<SimpleCommand>,
}

/// One simple command of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// Where its streams go, in the order of the text.
    pub redirects: Vec<Redirect>,
    /// What stands between the command before and this one; [`Join::Then`] for the first.
    pub join: Join,
}

/// What stands between two simple commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `;` or a newline.
    Then,
    /// `&&`: only if the one before succeeded.
    And,
    /// `||`: only if the one before failed.
    Or,
    /// `|`: at once, reading what the one before writes.
    Pipe,
}

/// A redirection that touches no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// `>/dev/null`: its output is dropped.
    OutToNull,
    /// `2>/dev/null`: its errors are dropped.
    ErrToNull,
    /// `2>&1`: its errors go where its output goes.
    ErrToOut,
    /// `1>&2`: its output goes where its errors go.
    OutToErr,
    /// `</dev/null`: it has an empty input.
    InFromNull,
}

/// A line that is not plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Why, on one line, for people.
    pub why: String,
    /// The commands that could be read anywhere inside: in substitutions, bodies, wrappers and scripts within
    /// strings. A best effort, good enough to refuse a command by and never to allow one.
    pub seen: Vec<Vec<String>>,
    /// How much it can do, as far as can be told: [`Level::Dangerous`] where it might be, else [`Level::Execute`].
    pub level: Level,
}

/// Reads a command line.
pub fn read(command: &str) -> Reading {
    match plain(command) {
        Ok(line) => Reading::Plain(line),
        Err(why) => {
            let (seen, doubt) = seen::of_text(command);
            let level = level::of_opaque(&seen, doubt);
            Reading::Opaque(Opaque { why: spelled_out(&why.to_string()), seen, level })
        }
    }
}

fn plain(command: &str) -> Result<Line, NotPlain> {
    let simples = lex::lex(command)?;
    builtin::check(&simples)?;
    if !tree::agrees(command, &simples) {
        return Err(NotPlain::Readers);
    }
    let known = |simple: lex::Simple| SimpleCommand {
        argv: simple.words.into_iter().map(|word| word.text).collect(),
        redirects: simple.redirects,
        join: simple.join,
    };
    Ok(Line { commands: simples.into_iter().map(known).collect() })
}

/// The patterns that a lasting yes to this line adds, one for each command, as [`Pattern::parse`] takes them. `None` when
/// a command runs what its arguments say: a yes to that is for once.
pub fn grant(line: &Line) -> Option<Vec<String>> {
    if line.commands.iter().any(|command| wraps(&command.argv)) {
        return None;
    }
    let mut patterns: Vec<String> = Vec::new();
    for command in &line.commands {
        let text = pattern::exact(&command.argv);
        if !patterns.contains(&text) {
            patterns.push(text);
        }
    }
    Some(patterns)
}

/// These commands, and every command that can be read inside of them.
pub fn seen_in(argvs: &[Vec<String>]) -> Vec<Vec<String>> {
    seen::of_argvs(argvs.iter().map(Vec::as_slice))
}

impl Reading {
    /// Every command that could be read, those inside of wrappers too: what rules that refuse are held against.
    pub fn seen(&self) -> Vec<Vec<String>> {
        match self {
            Self::Plain(line) => seen::of_argvs(line.commands.iter().map(|command| command.argv.as_slice())),
            Self::Opaque(opaque) => opaque.seen.clone(),
        }
    }
}

impl Line {
    /// Its simple commands, in order; never empty.
    pub fn commands(&self) -> &[SimpleCommand] {
        &self.commands
    }

    /// Its only command, if it has just one.
    pub fn single(&self) -> Option<&SimpleCommand> {
        match self.commands.as_slice() {
            [command] => Some(command),
            _ => None,
        }
    }

    /// A script made from the parsed words alone, each in single quotes: what runs is what was read.
    pub fn script(&self) -> String {
        let mut script = String::new();
        for (place, command) in self.commands.iter().enumerate() {
            if place > 0 {
                script.push_str(command.join.text());
            }
            let words: Vec<String> = command.argv.iter().map(|word| quote(word)).collect();
            script.push_str(&words.join(" "));
            for redirect in &command.redirects {
                script.push(' ');
                script.push_str(redirect.text());
            }
        }
        script
    }
}

impl SimpleCommand {
    /// Whether the shell itself does this, so that it can't be run as a program.
    pub fn is_builtin(&self) -> bool {
        self.argv.first().is_some_and(|name| builtin::is_builtin(name))
    }

    /// Whether its program is named by a path from the working directory.
    pub fn is_relative(&self) -> bool {
        self.argv.first().is_some_and(|name| builtin::is_relative(name))
    }
}

impl Join {
    fn text(self) -> &'static str {
        match self {
            Self::Then => "; ",
            Self::And => " && ",
            Self::Or => " || ",
            Self::Pipe => " | ",
        }
    }
}

impl Redirect {
    fn text(self) -> &'static str {
        match self {
            Self::OutToNull => ">/dev/null",
            Self::ErrToNull => "2>/dev/null",
            Self::ErrToOut => "2>&1",
            Self::OutToErr => "1>&2",
            Self::InFromNull => "</dev/null",
        }
    }
}

#[cfg(test)]
mod tests;
