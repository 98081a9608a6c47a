//! Text for people: one line, cut, without what could control a terminal.

use std::io::{self, IsTerminal, Write};

use playhouse::protocol::mask_patterns;
pub use playhouse::tools::shell::spelled_out;

/// How a line on stderr looks on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// As it is.
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
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|value| value == "dumb")
}

/// Writes one line to stderr, with its beginning in colour and without what has the shape of a key.
pub fn error_line(head: &str, text: &str, tint: Tint) {
    let (on, off) = tint.codes(stderr_colours());
    // With stderr gone there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{on}{head}{off}{}", one_line(&mask_patterns(text)));
}

/// The text on one line, control characters made visible as spaces.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ")
}

/// At most `max` characters, the last one `…` if some are missing.
pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(max.saturating_sub(1)).collect();
            format!("{kept}…")
        }
    }
}

/// The text without characters that control a terminal; lines and tabs stay.
pub fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_cannot_control_a_terminal() {
        assert_eq!(one_line(" a\n\tb\x1b[31m  c "), "a b [31m c");
        assert_eq!(harmless("a\x1b[2J\r\n\tb\u{7}"), "a[2J\n\tb");
        assert_eq!(spelled_out("ls\nrm\x1b \u{202e}x"), "ls\\nrm\\u{1b} \\u{202e}x");
    }

    #[test]
    fn whatever_a_command_cannot_be_read_with_is_written_out() {
        assert_eq!(
            spelled_out("rm\u{a0}a\u{ad}b\u{3164}\u{e0041}c\u{2800}"),
            r"rm\u{a0}a\u{ad}b\u{3164}\u{e0041}c\u{2800}"
        );
        for c in (char::MIN..=char::MAX).filter(|c| playhouse::tools::shell::is_hidden(*c) || c.is_control()) {
            assert_eq!(spelled_out(&c.to_string()), c.escape_default().to_string());
        }
        assert_eq!(spelled_out("grüße 漢字 🦀 — …"), "grüße 漢字 🦀 — …");
    }

    #[test]
    fn texts_are_cut_on_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("", 0), "");
    }
}
