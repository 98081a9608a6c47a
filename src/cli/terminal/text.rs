//! What is written to a terminal: colours, lines on stderr, how much fits.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use playhouse::protocol::mask_patterns;
use playhouse::text::is_bidirectional;
pub use playhouse::text::{cut, harmless, one_line, spelled_out};

use crate::cli::terminal::wrap::wrapped;

/// How much further in a line goes on that is wider than the screen, in columns.
pub const HANG: usize = 2;

/// How a line on stderr looks on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// In the terminal's own colours.
    None,
    /// For what matters less.
    Dim,
    /// For what went wrong.
    Red,
    /// For what went well.
    Green,
    /// For what is unusual.
    Yellow,
}

impl Tint {
    /// The codes before and after, where colours are wanted.
    pub fn codes(self, colours: bool) -> (&'static str, &'static str) {
        match self {
            Self::Dim if colours => ("\x1b[2m", "\x1b[0m"),
            Self::Red if colours => ("\x1b[31m", "\x1b[0m"),
            Self::Green if colours => ("\x1b[32m", "\x1b[0m"),
            Self::Yellow if colours => ("\x1b[33m", "\x1b[0m"),
            Self::None | Self::Dim | Self::Red | Self::Green | Self::Yellow => ("", ""),
        }
    }
}

/// Whether stderr shows colours: a terminal, and nobody said no.
pub fn stderr_colours() -> bool {
    io::stderr().is_terminal() && colours_are_wanted()
}

/// As [`stderr_colours`], for stdout.
pub fn stdout_colours() -> bool {
    io::stdout().is_terminal() && colours_are_wanted()
}

fn colours_are_wanted() -> bool {
    let no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no && !is_dumb()
}

/// Whether the terminal cannot be drawn on.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|value| value == "dumb")
}

/// Writes one line to stderr, with its beginning in colour and without what has the shape of a key; on a terminal,
/// wrapped by words.
pub fn error_line(head: &str, text: &str, tint: Tint) {
    let line = wrapped(&format!("{head}{}", one_line(&mask_patterns(text))), HANG, stderr_width());
    let (on, off) = tint.codes(stderr_colours() && !head.is_empty());
    let line = match line.strip_prefix(head) {
        Some(rest) => format!("{on}{head}{off}{rest}"),
        None => line,
    };
    // With stderr gone there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// The text as stdout gets it: on a terminal, what would turn text around or control it unseen is written out, in a way
/// that JSON reads as the same.
pub fn for_stdout(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| is_bidirectional(c) || matches!(c, '\u{80}'..='\u{9f}');
    if !text.contains(is_odd) || !io::stdout().is_terminal() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_odd(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// How many columns a text takes: two for wide characters, none for marks on others.
pub fn width_of(text: &str) -> usize {
    let columns = |c: char| match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f => 2,
        // Signs that terminals show as pictures.
        0x231a..=0x231b | 0x23e9..=0x23ec | 0x23f0 | 0x23f3 | 0x25fd..=0x25fe | 0x2614..=0x2615 | 0x2648..=0x2653 => 2,
        0x267f | 0x2693 | 0x26a1 | 0x26aa..=0x26ab | 0x26bd..=0x26be | 0x26c4..=0x26c5 | 0x26ce | 0x26d4 | 0x26ea => 2,
        0x26f2..=0x26f3 | 0x26f5 | 0x26fa | 0x26fd | 0x2705 | 0x270a..=0x270b | 0x2728 | 0x274c | 0x274e => 2,
        0x2753..=0x2755 | 0x2757 | 0x2795..=0x2797 | 0x27b0 | 0x27bf | 0x2b1b..=0x2b1c | 0x2b50 | 0x2b55 => 2,
        0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    };
    text.chars().map(columns).sum()
}

/// As much of a line as fits so many columns.
pub fn fitted(text: &str, columns: usize) -> String {
    if width_of(text) <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let kept = text.chars().take_while(|c| {
        taken += width_of(c.encode_utf8(&mut [0; 4]));
        taken < columns
    });
    kept.chain(['…']).collect()
}

/// The columns and rows of the terminal on stderr; `None` when there is none that can be drawn on.
pub fn stderr_size() -> Option<(usize, usize)> {
    if !stderr_colours() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row))).filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

/// How wide the terminal on stderr is; `None` when there is none.
pub fn stderr_width() -> Option<usize> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// How wide the terminal on stdout is; `None` when there is none.
pub fn width() -> Option<usize> {
    window().map(|(columns, _)| columns)
}

/// The columns and rows of the terminal on stdout; `None` when there is none that can be drawn on.
pub fn size() -> Option<(usize, usize)> {
    if is_dumb() { None } else { window() }
}

fn window() -> Option<(usize, usize)> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row))).filter(|(columns, _)| *columns > 0)
}
