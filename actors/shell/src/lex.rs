//! The strict reader: it knows every character that it lets pass, and gives up at the first it does not.

use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

use thiserror::Error;

use crate::chars::is_hidden;
use crate::{Join, MAX_TEXT, Redirect};

/// Why a line is not plain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum NotPlain {
    #[error("it is longer than {MAX_TEXT} bytes")]
    Long,
    #[error("it contains the character {0:?}, which cannot be seen")]
    Hidden(char),
    #[error("it has no command")]
    Nothing,
    #[error("a command is missing beside an operator")]
    Gap,
    #[error("`{0}` makes bash put in something else")]
    Expansion(char),
    #[error("`{0}` unquoted is a pattern for file names")]
    Glob(char),
    #[error("braces are expanded or group commands")]
    Brace,
    #[error("parentheses start a subshell, a function or a list")]
    Parenthesis,
    #[error("`&` runs a command in the background")]
    Background,
    #[error("`|&` or another rare operator joins commands")]
    Operator,
    #[error("it redirects to or from a file")]
    Redirect,
    #[error("it has a comment")]
    Comment,
    #[error("a line is continued by a backslash, or a backslash ends it")]
    Backslash,
    #[error("a quote is not closed")]
    Unterminated,
    #[error("`{0}` is not the plain name of a program")]
    Name(String),
    #[error("`{0}` is a word of bash's own language")]
    Reserved(String),
    #[error("`{0}` changes the shell or runs what its arguments say")]
    Builtin(String),
    #[error("`cd` decides which program `{0}` is")]
    Misplaced(String),
    #[error("two readers of bash do not agree on it")]
    Readers,
}

/// A literal word and where it stands.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Range<usize>,
}

/// A simple command, and how it is joined to the one before.
#[derive(Debug)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    pub(super) join: Join,
}

impl Simple {
    fn after(join: Join) -> Self {
        Self { words: Vec::new(), redirects: Vec::new(), join }
    }
}

/// How a word was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Bare,
    Quoted,
}

/// Reads a line, or says why it is not plain.
pub(super) fn lex(text: &str) -> Result<Vec<Simple>, NotPlain> {
    if text.len() > MAX_TEXT {
        return Err(NotPlain::Long);
    }
    if let Some(c) = text.chars().find(|c| is_hidden(*c)) {
        return Err(NotPlain::Hidden(c));
    }
    let mut lexer = Lexer {
        chars: text.char_indices().peekable(),
        end: text.len(),
        done: Vec::new(),
        now: Simple::after(Join::Then),
    };
    lexer.line()?;
    Ok(lexer.done)
}

struct Lexer<'a> {
    chars: Peekable<CharIndices<'a>>,
    end: usize,
    done: Vec<Simple>,
    now: Simple,
}

impl Lexer<'_> {
    fn line(&mut self) -> Result<(), NotPlain> {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.skip(),
                '\n' => {
                    self.skip();
                    self.newline()?;
                }
                ';' => {
                    self.skip();
                    if matches!(self.peek(), Some(';' | '&')) {
                        return Err(NotPlain::Operator);
                    }
                    self.close(Join::Then)?;
                }
                '&' => {
                    self.skip();
                    match self.peek() {
                        Some('&') => {
                            self.skip();
                            self.close(Join::And)?;
                        }
                        Some('>') => {
                            self.skip();
                            self.null()?;
                            self.now.redirects.extend([Redirect::OutToNull, Redirect::ErrToNull]);
                        }
                        _ => return Err(NotPlain::Background),
                    }
                }
                '|' => {
                    self.skip();
                    match self.peek() {
                        Some('|') => {
                            self.skip();
                            self.close(Join::Or)?;
                        }
                        Some('&') => return Err(NotPlain::Operator),
                        _ => self.close(Join::Pipe)?,
                    }
                }
                '<' | '>' => self.redirect(None)?,
                '(' | ')' => return Err(NotPlain::Parenthesis),
                '#' => return Err(NotPlain::Comment),
                _ => self.word()?,
            }
        }
        if !self.is_blank() {
            self.close(Join::Then)
        } else if self.now.join != Join::Then {
            Err(NotPlain::Gap)
        } else if self.done.is_empty() {
            Err(NotPlain::Nothing)
        } else {
            Ok(())
        }
    }

    /// A newline ends a command; after an operator, or with no command yet, it means nothing.
    fn newline(&mut self) -> Result<(), NotPlain> {
        if self.is_blank() { Ok(()) } else { self.close(Join::Then) }
    }

    fn is_blank(&self) -> bool {
        self.now.words.is_empty() && self.now.redirects.is_empty()
    }

    fn close(&mut self, next: Join) -> Result<(), NotPlain> {
        if self.now.words.is_empty() {
            return Err(if self.now.redirects.is_empty() { NotPlain::Gap } else { NotPlain::Redirect });
        }
        self.done.push(std::mem::replace(&mut self.now, Simple::after(next)));
        Ok(())
    }

    fn word(&mut self) -> Result<(), NotPlain> {
        let start = self.at();
        let mut text = String::new();
        let mut style = Style::Bare;
        // What stands before the next character, quoted or not.
        let mut before = None;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' => break,
                '(' | ')' => return Err(NotPlain::Parenthesis),
                '<' | '>' => {
                    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                    return match (is_number, style) {
                        (true, Style::Bare) => self.redirect(Some(&text)),
                        (true, Style::Quoted) => Err(NotPlain::Redirect),
                        (false, _) => {
                            let span = start..self.at();
                            self.now.words.push(Word { text, span });
                            Ok(())
                        }
                    };
                }
                '\'' => {
                    style = Style::Quoted;
                    self.skip();
                    self.single(&mut text)?;
                }
                '"' => {
                    style = Style::Quoted;
                    self.skip();
                    self.double(&mut text)?;
                }
                '\\' => {
                    style = Style::Quoted;
                    self.skip();
                    match self.take() {
                        Some(escaped) if escaped.is_ascii_graphic() || escaped == ' ' => text.push(escaped),
                        _ => return Err(NotPlain::Backslash),
                    }
                }
                '$' | '`' | '!' => return Err(NotPlain::Expansion(c)),
                '~' if matches!(before, None | Some(':' | '=')) => return Err(NotPlain::Expansion(c)),
                '^' if before.is_none() => return Err(NotPlain::Expansion(c)),
                '*' | '?' => return Err(NotPlain::Glob(c)),
                '[' | ']' => {
                    self.skip();
                    let is_first = self.now.words.is_empty();
                    if before.is_some() || !self.is_at_delimiter() || is_first != (c == '[') {
                        return Err(NotPlain::Glob(c));
                    }
                    text.push(c);
                }
                '{' => {
                    self.skip();
                    if before.is_some() || self.peek() != Some('}') {
                        return Err(NotPlain::Brace);
                    }
                    self.skip();
                    if !self.is_at_delimiter() {
                        return Err(NotPlain::Brace);
                    }
                    text.push_str("{}");
                }
                '}' => return Err(NotPlain::Brace),
                c => {
                    self.skip();
                    text.push(c);
                }
            }
            before = Some(c);
        }
        let span = start..self.at();
        self.now.words.push(Word { text, span });
        Ok(())
    }

    fn single(&mut self, text: &mut String) -> Result<(), NotPlain> {
        loop {
            match self.take() {
                None => return Err(NotPlain::Unterminated),
                Some('\'') => return Ok(()),
                Some(c) => text.push(c),
            }
        }
    }

    fn double(&mut self, text: &mut String) -> Result<(), NotPlain> {
        loop {
            match self.take() {
                None => return Err(NotPlain::Unterminated),
                Some('"') => return Ok(()),
                Some(c @ ('$' | '`' | '!')) => return Err(NotPlain::Expansion(c)),
                Some('\\') => match self.peek() {
                    None => return Err(NotPlain::Unterminated),
                    Some('\n') => return Err(NotPlain::Backslash),
                    Some(c @ ('$' | '`' | '"' | '\\')) => {
                        self.skip();
                        text.push(c);
                    }
                    Some(_) => text.push('\\'),
                },
                Some(c) => text.push(c),
            }
        }
    }

    /// A redirection, from its `<` or `>` on.
    fn redirect(&mut self, descriptor: Option<&str>) -> Result<(), NotPlain> {
        let redirect = match (self.take(), descriptor) {
            (Some('<'), None | Some("0")) => {
                self.null()?;
                Redirect::InFromNull
            }
            (Some('>'), None | Some("1")) => match self.target()? {
                Target::Null => Redirect::OutToNull,
                Target::Err => Redirect::OutToErr,
                Target::Out => return Err(NotPlain::Redirect),
            },
            (Some('>'), Some("2")) => match self.target()? {
                Target::Null => Redirect::ErrToNull,
                Target::Out => Redirect::ErrToOut,
                Target::Err => return Err(NotPlain::Redirect),
            },
            _ => return Err(NotPlain::Redirect),
        };
        self.now.redirects.push(redirect);
        Ok(())
    }

    fn target(&mut self) -> Result<Target, NotPlain> {
        match self.peek() {
            Some('&') => {
                self.skip();
                let target = match self.take() {
                    Some('1') => Target::Out,
                    Some('2') => Target::Err,
                    _ => return Err(NotPlain::Redirect),
                };
                if self.is_at_delimiter() { Ok(target) } else { Err(NotPlain::Redirect) }
            }
            Some('>') => {
                self.skip();
                self.null().map(|()| Target::Null)
            }
            _ => self.null().map(|()| Target::Null),
        }
    }

    /// The bare word `/dev/null`, blanks before it.
    fn null(&mut self) -> Result<(), NotPlain> {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.skip();
        }
        let is_null = "/dev/null".chars().all(|c| self.take() == Some(c));
        if is_null && self.is_at_delimiter() { Ok(()) } else { Err(NotPlain::Redirect) }
    }

    fn is_at_delimiter(&mut self) -> bool {
        matches!(self.peek(), None | Some(' ' | '\t' | '\n' | ';' | '&' | '|'))
    }

    fn at(&mut self) -> usize {
        self.chars.peek().map_or(self.end, |(at, _)| *at)
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, c)| *c)
    }

    fn take(&mut self) -> Option<char> {
        self.chars.next().map(|(_, c)| c)
    }

    fn skip(&mut self) {
        self.chars.next();
    }
}

/// Where a redirected stream goes.
enum Target {
    Null,
    Out,
    Err,
}
