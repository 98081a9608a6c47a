//! Patterns for commands: `git status`, `cargo test *`, `*`.

use thiserror::Error;

use crate::chars::is_hidden;
use crate::quote::quote;
use crate::subcommand::{self, Known};

/// A command, or a kind of command, that a rule speaks of.
///
/// It is held against the words of a command, never against its text. Without a `*` it is exactly that command. A `*`
/// as the last word stands for any further arguments, also none; a `*` elsewhere for any characters within its word.
/// Quotes and backslashes make a character stand for itself, as in a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    words: Vec<Glob>,
    tail: Tail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    Nothing,
    Anything,
}

/// Whether a rule that refuses or asks means a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meant {
    /// It does not.
    No,
    /// It may, if options of the command are left out that nobody here knows.
    Perhaps,
    /// It does, as it stands or without the options before its subcommand.
    Yes,
}

/// The literal pieces of a word; between two of them is anything.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob(Vec<String>);

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// There is nothing in it.
    #[error("the pattern is empty; name a program, or write `*` for any")]
    Empty,
    /// A quote or a backslash has no end.
    #[error("the pattern `{0}` ends within a quote; close it")]
    Unterminated(String),
    /// It holds a character that cannot be seen.
    #[error("the pattern has the character {0:?}, which cannot be seen; leave it out")]
    Hidden(char),
    /// A sign of the shell's, which is no part of a word: no command would ever match.
    #[error(
        "`{}` joins commands or leads their streams elsewhere, and the words of one command are compared: write a rule for \
         each command, as in `bash(curl *)` and `bash(sh *)`, or quote it where it is a part of a word",
        .0.escape_default()
    )]
    Operator(char),
}

impl Pattern {
    /// Reads a pattern: words as a shell has them, `*` for any text in one, and as the last for any further words.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if let Some(c) = text.chars().find(|c| is_hidden(*c)) {
            return Err(PatternError::Hidden(c));
        }
        let unterminated = || PatternError::Unterminated(text.to_owned());
        let mut words: Vec<Glob> = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(start) = chars.peek() {
            if *start == '\n' {
                return Err(PatternError::Operator('\n'));
            }
            if start.is_ascii_whitespace() {
                chars.next();
                continue;
            }
            let mut pieces = vec![String::new()];
            while let Some(c) = chars.next_if(|c| !c.is_ascii_whitespace()) {
                let Some(piece) = pieces.last_mut() else { break };
                match c {
                    '*' => pieces.push(String::new()),
                    '\\' => piece.push(chars.next().ok_or_else(unterminated)?),
                    '\'' => loop {
                        match chars.next().ok_or_else(unterminated)? {
                            '\'' => break,
                            c => piece.push(c),
                        }
                    },
                    '"' => loop {
                        match chars.next().ok_or_else(unterminated)? {
                            '"' => break,
                            '\\' if chars.peek().is_some_and(|c| matches!(c, '"' | '\\' | '$' | '`')) => {
                                piece.extend(chars.next());
                            }
                            c => piece.push(c),
                        }
                    },
                    '|' | ';' | '&' | '<' | '>' | '(' | ')' | '`' => return Err(PatternError::Operator(c)),
                    c => piece.push(c),
                }
            }
            words.push(Glob(pieces));
        }
        let is_tail = |glob: &Glob| glob.0.len() > 1 && glob.0.iter().all(String::is_empty);
        let tail = if words.last().is_some_and(is_tail) {
            words.pop();
            Tail::Anything
        } else {
            Tail::Nothing
        };
        if words.is_empty() && tail == Tail::Nothing { Err(PatternError::Empty) } else { Ok(Self { words, tail }) }
    }

    /// The one program that it speaks of; `None` if it speaks of several.
    pub fn program(&self) -> Option<&str> {
        match self.words.first()?.0.as_slice() {
            [whole] => Some(whole),
            _ => None,
        }
    }

    /// Whether a command is one that this speaks of.
    pub fn matches(&self, argv: &[String]) -> bool {
        let is_length = match self.tail {
            Tail::Nothing => argv.len() == self.words.len(),
            Tail::Anything => argv.len() >= self.words.len(),
        };
        is_length && self.words.iter().zip(argv).all(|(glob, word)| glob.matches(word))
    }

    /// Whether a rule that refuses or asks means a command: `git -C . push` is a `git push`. Never good enough to allow
    /// one by.
    pub fn meant(&self, argv: &[String]) -> Meant {
        let plainer = subcommand::without_options(argv);
        if self.matches(argv) || plainer.as_ref().is_some_and(|(argv, _)| self.matches(argv)) {
            return Meant::Yes;
        }
        let rest = match &plainer {
            Some((plainer, Known::All)) => plainer,
            Some((_, Known::Mostly)) | None => argv,
        };
        if self.is_among(rest) { Meant::Perhaps } else { Meant::No }
    }

    /// Whether its words are among those of a command, in their order, with nothing between them but what an option
    /// begins.
    fn is_among(&self, argv: &[String]) -> bool {
        let mut rest = argv;
        let mut leaves_out = false;
        for glob in &self.words {
            let at = match rest.first() {
                Some(next) if glob.matches(next) => 0,
                Some(next) if rest.len() < argv.len() && subcommand::is_before(next) => {
                    leaves_out = true;
                    let Some(at) = rest.iter().position(|word| glob.matches(word)) else { return false };
                    at
                }
                Some(_) | None => return false,
            };
            rest = rest.get(at + 1..).unwrap_or_default();
        }
        leaves_out
    }
}

impl Glob {
    /// Each piece is taken where it first occurs: if any way matches, that one does.
    fn matches(&self, word: &str) -> bool {
        let [first, middle @ .., last] = self.0.as_slice() else {
            return self.0.first().is_some_and(|only| only == word);
        };
        let Some(mut rest) = word.strip_prefix(first.as_str()) else { return false };
        for piece in middle {
            let Some((_, after)) = rest.split_once(piece.as_str()) else { return false };
            rest = after;
        }
        rest.ends_with(last.as_str())
    }
}

/// The pattern of exactly this command.
pub(super) fn exact(argv: &[String]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-./,:@%+=".contains(c);
    let word = |word: &String| if word.is_empty() || !word.chars().all(bare) { quote(word) } else { word.clone() };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}
