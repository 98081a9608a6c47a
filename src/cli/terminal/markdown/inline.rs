//! Marks within lines of Markdown: `*`, `_` and backticks. A mark that is none is shown.

use crate::cli::terminal::text::width_of;

use super::ScreenLine;

pub const BOLD: &str = "\x1b[1m";
const ITALIC: &str = "\x1b[3m";
pub const CODE: &str = "\x1b[36m";
pub const DIM: &str = "\x1b[2m";
pub const OFF: &str = "\x1b[0m";
/// How far apart two marks may be that belong together, in characters.
const FAR: usize = 500;
/// What may stand before the beginning of something, and after its end.
const BEGINS: &str = "([{\"'“‘*_—–>|:";
const ENDS: &str = ")]}\"'”’*_—–<|:.,;!?…";

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub dim: bool,
    pub bold: bool,
    pub italic: bool,
    pub code: bool,
}

impl Style {
    fn codes(self) -> String {
        let parts = [(self.dim, DIM), (self.bold, BOLD), (self.italic, ITALIC), (self.code, CODE)];
        parts.iter().filter(|(is_on, _)| *is_on).map(|(_, code)| *code).collect()
    }

    /// Between so many stars.
    fn marked(self, count: usize) -> Self {
        Self { bold: self.bold || count > 1, italic: self.italic || count != 2, ..self }
    }
}

pub type Styled = (char, Style);

/// Whether every mark that begins something has its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    Closed,
    /// What follows may close one.
    Open,
}

/// The text without its marks, each character with what they say.
pub fn styled(text: &str, style: Style) -> (Vec<Styled>, Marks) {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Vec::with_capacity(chars.len());
    let marks = read(&chars, style, &mut out);
    (out, marks)
}

fn read(chars: &[char], style: Style, out: &mut Vec<Styled>) -> Marks {
    let (mut at, mut marks) = (0, Marks::Closed);
    while let Some(c) = chars.get(at).copied() {
        let next = chars.get(at + 1).copied();
        let count = run(chars, at);
        let inner = |end: usize| chars.get(at + count..end).unwrap_or_default();
        let may_open = c == '`' || opens(chars, at, count);
        let end = if may_open { closing(chars, at, count) } else { None };
        at += match (c, end) {
            ('\\', _) if matches!(next, Some('*' | '_' | '`' | '#')) => {
                out.extend(next.map(|next| (next, style)));
                2
            }
            ('`', Some(end)) => {
                out.extend(inner(end).iter().map(|c| (*c, Style { code: true, ..style })));
                end + count - at
            }
            ('*' | '_', Some(end)) => {
                if read(inner(end), style.marked(count), out) == Marks::Open {
                    marks = Marks::Open;
                }
                end + count - at
            }
            ('*' | '_' | '`', _) => {
                if may_open {
                    marks = Marks::Open;
                }
                out.extend(std::iter::repeat_n((c, style), count));
                count
            }
            _ => {
                out.push((c, style));
                1
            }
        };
    }
    marks
}

/// How many of the same character there are from here on.
fn run(chars: &[char], at: usize) -> usize {
    chars.iter().skip(at).take_while(|c| Some(*c) == chars.get(at)).count()
}

/// Whether something may begin here: not within a word or a path, and not with `__`, which is part of names.
fn opens(chars: &[char], at: usize, count: usize) -> bool {
    let most = match chars.get(at) {
        Some('*') => 3,
        Some('_') => 1,
        _ => 0,
    };
    let before = at.checked_sub(1).and_then(|place| chars.get(place));
    let begins = before.is_none_or(|c| c.is_whitespace() || BEGINS.contains(*c));
    let goes_on = chars.get(at + count).is_some_and(|c| c.is_alphanumeric() || "([{\"'“‘*_`$#@<\\~+-".contains(*c));
    (1..=most).contains(&count) && begins && goes_on
}

/// Where what begins here ends: at as many of the same mark, after a word and before none.
fn closing(chars: &[char], at: usize, count: usize) -> Option<usize> {
    let mark = *chars.get(at)?;
    let (mut place, mut wider) = (at + count, None);
    while let Some(c) = chars.get(place).copied().filter(|_| place - at <= FAR) {
        let length = run(chars, place);
        match c {
            '\\' if mark != '`' => place += 2,
            '`' if mark == '`' && length == count => return Some(place),
            // Stars within code are no marks.
            '`' if mark != '`' => place = closing(chars, place, length).unwrap_or(place) + length,
            _ if c == mark && mark != '`' => {
                let is_end = chars.get(place - 1).is_some_and(|c| !c.is_whitespace() && !"([{/".contains(*c))
                    && chars.get(place + length).is_none_or(|c| c.is_whitespace() || ENDS.contains(*c));
                match length {
                    _ if is_end && length == count => return Some(place),
                    // The end of this and of what is within it.
                    3 if is_end && wider.is_none() => wider = Some(place + length - count),
                    _ => {}
                }
                place += length;
            }
            _ if c == mark => place += length,
            _ => place += 1,
        }
    }
    wider
}

/// A line for the screen.
pub fn shown(line: &[Styled]) -> ScreenLine {
    let (mut text, mut now, mut columns) = (String::new(), Style::default(), 0);
    for (c, style) in line {
        if *style != now {
            if now != Style::default() {
                text.push_str(OFF);
            }
            text.push_str(&style.codes());
            now = *style;
        }
        text.push(*c);
        columns += width_of(c.encode_utf8(&mut [0; 4]));
    }
    if now != Style::default() {
        text.push_str(OFF);
    }
    ScreenLine { text, columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        styled(text, Style::default()).0.iter().map(|(c, _)| *c).collect()
    }

    #[test]
    fn names_paths_sums_and_open_marks_are_shown_as_they_are() {
        for text in [
            "__init__ and __main__",
            "snake_case_name and _start",
            "2 * 3 * 4 and 2*3*4",
            "src/*.rs and tests/*.rs, *.toml and *.md",
            "use *args and **kwargs; f(*a, *b) src/*.rs",
            "**open and *more and `tick",
            "a_b*c_d*e",
            r"C:\dir\name \d+\.\d+ \( x \)",
            "char *a, *b;",
        ] {
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn marks_that_belong_together_are_styles() {
        let of = |text: &str| shown(&styled(text, Style::default()).0).text;
        assert_eq!(of("a **b** c"), format!("a {BOLD}b{OFF} c"));
        assert_eq!(of("*b*, _c_."), format!("{ITALIC}b{OFF}, {ITALIC}c{OFF}."));
        assert_eq!(of("**Done.** (*yes*)"), format!("{BOLD}Done.{OFF} ({ITALIC}yes{OFF})"));
        assert_eq!(of("***b***"), format!("{BOLD}{ITALIC}b{OFF}"));
        assert_eq!(of("**a *b* c**"), format!("{BOLD}a {OFF}{BOLD}{ITALIC}b{OFF}{BOLD} c{OFF}"));
        assert_eq!(of("**a *b***"), format!("{BOLD}a {OFF}{BOLD}{ITALIC}b{OFF}"));
        assert_eq!(of("**`*a`**"), format!("{BOLD}{CODE}*a{OFF}"));
        assert_eq!(of("``a ` b``"), format!("{CODE}a ` b{OFF}"));
        assert_eq!(of(r"\*a\*"), "*a*");
    }

    #[test]
    fn an_open_mark_is_told_and_a_flood_of_them_costs_little() {
        let marks = |text: &str| styled(text, Style::default()).1;
        assert_eq!(
            [marks("a **b"), marks("a `b"), marks("a **b**"), marks("2 * 3")].map(|m| m == Marks::Open),
            [true, true, false, false]
        );
        assert_eq!(plain(&"*a ".repeat(5_000)), "*a ".repeat(5_000));
        assert_eq!(plain(&"(*".repeat(5_000)), "(*".repeat(5_000));
    }
}
