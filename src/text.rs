//! Text for people: one line, cut, without what could control a terminal.

pub use playhouse_tools::shell::spelled_out;

/// The text on one line, control characters made visible as spaces.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    harmless(&words.join(" "))
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

/// The text without characters that control a terminal, and with those that turn text around written out; lines and
/// tabs stay.
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => {}
            c if is_bidirectional(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// Whether a character changes the direction of its neighbours: a text with one does not read as it is.
pub fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_cannot_control_a_terminal() {
        assert_eq!(one_line(" a\n\tb\x1b[31m  c "), "a b [31m c");
        assert_eq!(harmless("a\x1b[2J\r\n\tb\u{7}"), "a[2J\n\tb");
        assert_eq!(harmless("a\u{202e}b\u{2066}\nשלום"), "a\\u{202e}b\\u{2066}\nשלום");
        assert_eq!(one_line("a\u{202e}b\n\u{61c}c"), "a\\u{202e}b \\u{61c}c");
        assert_eq!(spelled_out("ls\nrm\x1b \u{202e}x"), "ls\\nrm\\u{1b} \\u{202e}x");
    }

    #[test]
    fn whatever_a_command_cannot_be_read_with_is_written_out() {
        assert_eq!(
            spelled_out("rm\u{a0}a\u{ad}b\u{3164}\u{e0041}c\u{2800}"),
            r"rm\u{a0}a\u{ad}b\u{3164}\u{e0041}c\u{2800}"
        );
        for c in (char::MIN..=char::MAX).filter(|c| playhouse_tools::shell::is_hidden(*c) || c.is_control()) {
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
