//! Patterns as ECMAScript has them, for an engine that has a few things its own way.

use std::fmt;

use fancy_regex::{Regex, RegexBuilder};

/// How often a search may go back: patterns and texts come from others, and a search must not hold up its caller.
const BACKTRACK_LIMIT: usize = 50_000;

/// A pattern that may match anywhere in a text.
pub(crate) struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    pub fn new(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(&translated(text)).backtrack_limit(BACKTRACK_LIMIT).build();
        Ok(Self { text: text.to_owned(), regex: regex.map_err(|error| error.to_string())? })
    }

    /// Whether it matches; a search that takes too long has not.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text).unwrap_or(false)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

/// What `\s` is in ECMAScript.
const SPACE: &str = r"\t\n\x0B\x0C\r \u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}";

/// The pattern for the engine. There, `\d`, `\w` and `\s` know more characters, and a class may be made of others, so that
/// `[`, `&&`, `--` and `~~` in one mean something.
fn translated(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    let (mut in_class, mut after_dash) = (false, false);
    while let Some(c) = chars.next() {
        let was_dash = std::mem::replace(&mut after_dash, false);
        match (c, in_class) {
            ('\\', _) => match chars.next() {
                Some('d') if in_class => out.push_str("0-9"),
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') if in_class => out.push_str("A-Za-z0-9_"),
                Some('w') => out.push_str("[A-Za-z0-9_]"),
                Some('W') => out.push_str("[^A-Za-z0-9_]"),
                Some('s') if in_class => out.push_str(SPACE),
                Some('s') => out.extend(["[", SPACE, "]"]),
                Some('S') => out.extend(["[^", SPACE, "]"]),
                // A control character by its letter.
                Some('c') if chars.peek().is_some_and(char::is_ascii_alphabetic) => {
                    let letter = chars.next().map_or(0, |letter| u32::from(letter) % 32);
                    out.push_str(&format!("\\x{letter:02X}"));
                }
                Some('0') if !chars.peek().is_some_and(char::is_ascii_digit) => out.push_str(r"\x00"),
                Some('b') if in_class => out.push_str(r"\x08"),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            ('[', false) => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // Nothing, or anything: classes that the engine has not.
                if chars.next_if_eq(&']').is_some() {
                    in_class = false;
                    let is_any = out.ends_with('^');
                    out.truncate(out.len() - if is_any { 2 } else { 1 });
                    out.push_str(if is_any { r"[\s\S]" } else { r"[^\s\S]" });
                }
            }
            (']', true) => {
                in_class = false;
                out.push(']');
            }
            ('[' | '&' | '~', true) => out.extend(['\\', c]),
            ('-', true) if was_dash => out.push_str(r"\-"),
            ('-', true) => {
                after_dash = true;
                out.push('-');
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_ecmascript() {
        for (pattern, yes, no) in [
            (r"^\d+$", "42", "٤٢"),
            (r"^\w$", "a", "ä"),
            (r"^[\w-]+$", "a-b", "a b"),
            (r"^\s$", "\u{feff}", "\u{85}"),
            (r"^\S+$", "ab", "a b"),
            (r"^[^\d\s]+$", "ab", "a1"),
            (r"^[[\]]$", "[", "a"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[+--]$", ",", "*"),
            (r"^(?!admin)\w+$", "adam", "administrator"),
            (r"^(a)\1$", "aa", "ab"),
            (r"^[^]$", "\n", ""),
            (r"^\cJ$", "\n", "J"),
            (r"^\u00e4\/$", "ä/", "a/"),
            ("b", "abc", "ac"),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            assert!(pattern.matches(yes), "{pattern:?} {yes}");
            assert!(!pattern.matches(no), "{pattern:?} {no}");
        }
        assert!(Pattern::new("(").is_err() && Pattern::new("[a").is_err());
    }

    #[test]
    fn a_search_ends() {
        assert!(!Pattern::new(r"^(?=(a+)+$)(a|a)*\1$").unwrap().matches(&("a".repeat(40) + "!")));
    }
}
