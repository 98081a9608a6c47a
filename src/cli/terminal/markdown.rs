//! Markdown on a terminal, line by line as it streams: headings, lists, code, quotes and tables, wrapped by words.
//!
//! A line is shown when it is complete, so nothing that was shown changes; a table, and a line with a mark that a later
//! line may close, are shown together with what follows. Lines stay lines, and what is no Markdown is shown as it is.

mod inline;

use crate::cli::terminal::text::{harmless, width_of};
use crate::cli::terminal::wrap::broken;

#[cfg(test)]
use inline::BOLD;
use inline::{CODE, DIM, Marks, OFF, Style, Styled, shown, styled};

/// How many lines wait for the end of a mark that one of them has begun.
const WAITING: usize = 10;

/// A line for the screen, without its end, and how many columns it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenLine {
    pub text: String,
    pub columns: usize,
}

impl ScreenLine {
    fn plain(text: &str, code: &str) -> Self {
        let columns = width_of(text);
        let text = if code.is_empty() || text.is_empty() { text.to_owned() } else { format!("{code}{text}{OFF}") };
        Self { text, columns }
    }
}

/// A message on its way to the screen.
#[derive(Debug)]
pub struct Markdown {
    columns: usize,
    /// What has come of a line.
    line: String,
    /// Lines that are not shown yet: those of a table, or with an open mark.
    block: Vec<String>,
    /// The fence that ends the code this is in.
    fence: Option<String>,
}

impl Markdown {
    /// For a screen of so many columns.
    pub fn new(columns: usize) -> Self {
        Self { columns: columns.clamp(20, 200), line: String::new(), block: Vec::new(), fence: None }
    }

    /// Takes a piece of text; gives what is complete.
    pub fn push(&mut self, text: &str) -> Vec<ScreenLine> {
        let mut out = Vec::new();
        for piece in harmless(text).split_inclusive('\n') {
            self.line.push_str(piece);
            if self.line.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.take(&line, &mut out);
            }
        }
        out
    }

    /// The rest of the message.
    pub fn end(&mut self) -> Vec<ScreenLine> {
        let mut out = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(&line, &mut out);
        }
        self.close(&mut out);
        self.fence = None;
        out
    }

    /// The text that is not shown yet, its last line.
    pub fn pending(&self) -> Option<&str> {
        let last = if self.line.is_empty() { self.block.last().map(String::as_str) } else { Some(self.line.as_str()) };
        last.filter(|line| !line.trim().is_empty())
    }

    fn take(&mut self, line: &str, out: &mut Vec<ScreenLine>) {
        let line = line.trim_end().replace('\t', "    ");
        let bare = line.trim_start();
        if let Some(fence) = &self.fence {
            if bare.starts_with(fence.as_str()) && bare.trim_matches(['`', '~']).is_empty() {
                self.fence = None;
            } else {
                out.push(ScreenLine::plain(&format!("  {line}"), CODE));
            }
            return;
        }
        let is_row = bare.starts_with('|');
        if self.block.first().is_some_and(|first| first.trim_start().starts_with('|') != is_row) {
            self.close(out);
        }
        match bare {
            "" => {
                self.close(out);
                out.push(ScreenLine::plain("", ""));
            }
            _ if is_row => self.block.push(line),
            _ if fence(bare).is_some() => {
                self.close(out);
                self.fence = fence(bare);
            }
            _ if heading(bare).is_some() => {
                self.close(out);
                let bold = Style { bold: true, ..Style::default() };
                let (text, _) = styled(heading(bare).unwrap_or_default(), bold);
                out.extend(wrapped(&text, "", "", self.columns));
            }
            _ if is_rule(bare) => {
                self.close(out);
                out.push(ScreenLine::plain(&"─".repeat(self.columns.min(40)), DIM));
            }
            _ => {
                if Opening::of(&line).begins_block {
                    self.close(out);
                }
                self.block.push(line);
                if self.block.len() >= WAITING || self.styled_block().1 == Marks::Closed {
                    self.close(out);
                }
            }
        }
    }

    /// The lines that wait, without what they begin with, as one text.
    fn styled_block(&self) -> (Vec<Styled>, Marks) {
        let texts: Vec<&str> = self.block.iter().map(|line| Opening::of(line).text).collect();
        let dim = self.block.first().is_some_and(|line| is_quote(line.trim_start()));
        styled(&texts.join("\n"), Style { dim, ..Style::default() })
    }

    /// Shows the lines that wait.
    fn close(&mut self, out: &mut Vec<ScreenLine>) {
        if let Some(rows) = table(&self.block, self.columns) {
            out.extend(rows);
        } else {
            let (text, _) = self.styled_block();
            let lines = text.split(|(c, _)| *c == '\n');
            for (line, text) in self.block.iter().zip(lines) {
                let Opening { lead, hang, .. } = Opening::of(line);
                out.extend(wrapped(text, &lead, &hang, self.columns));
            }
        }
        self.block.clear();
    }
}

/// What a line begins with.
struct Opening<'a> {
    lead: String,
    /// The same for the lines that it is broken into.
    hang: String,
    text: &'a str,
    /// Whether it is an item or a quote: marks of the lines before are not closed in it.
    begins_block: bool,
}

impl<'a> Opening<'a> {
    fn of(line: &'a str) -> Self {
        let bare = line.trim_start();
        let indent = " ".repeat((line.len() - bare.len()).min(40));
        if let Some(text) = bare.strip_prefix('>').filter(|_| is_quote(bare)) {
            let lead = format!("{indent}│ ");
            return Self { hang: lead.clone(), lead, text: text.strip_prefix(' ').unwrap_or(text), begins_block: true };
        }
        if let Some((mark, text)) = item(bare) {
            let hang = format!("{indent}{} ", " ".repeat(width_of(&mark)));
            return Self { lead: format!("{indent}{mark} "), hang, text, begins_block: true };
        }
        Self { lead: indent.clone(), hang: indent, text: bare, begins_block: false }
    }
}

/// The marks that end the code which begins here.
fn fence(bare: &str) -> Option<String> {
    let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let marks: String = bare.chars().take_while(|c| *c == mark).collect();
    let is_fence = marks.len() >= 3 && !(mark == '`' && bare.trim_start_matches('`').contains('`'));
    is_fence.then_some(marks)
}

fn heading(bare: &str) -> Option<&str> {
    let text = bare.trim_start_matches('#');
    let level = bare.len() - text.len();
    let text = text.strip_prefix(' ').filter(|_| (1..=6).contains(&level))?.trim();
    let closed = text.trim_end_matches('#');
    // `C#` has no marks at its end.
    Some(if closed.is_empty() || closed.ends_with(' ') { closed.trim_end() } else { text })
}

fn is_rule(bare: &str) -> bool {
    let bare: String = bare.chars().filter(|c| !c.is_whitespace()).collect();
    bare.len() >= 3 && ["-", "*", "_"].iter().any(|mark| bare.replace(mark, "").is_empty())
}

/// Whether a line is a quote, and does not just begin with `>=`.
fn is_quote(bare: &str) -> bool {
    bare.strip_prefix('>').is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '>']))
}

/// The mark of an item and its text. A `+` may be a line of a diff.
fn item(bare: &str) -> Option<(String, &str)> {
    for (mark, shown) in [("- ", "•"), ("* ", "•"), ("+ ", "+")] {
        if let Some(text) = bare.strip_prefix(mark) {
            return Some((shown.to_owned(), text));
        }
    }
    let digits: String = bare.chars().take_while(char::is_ascii_digit).collect();
    let rest = bare.strip_prefix(digits.as_str()).filter(|_| (1..=9).contains(&digits.len()))?;
    let end = rest.chars().next().filter(|c| matches!(c, '.' | ')'))?;
    let text = rest.strip_prefix(end)?.strip_prefix(' ')?;
    Some((format!("{digits}{end}"), text))
}

/// A line as lines of at most so many columns.
fn wrapped(text: &[Styled], lead: &str, hang: &str, columns: usize) -> Vec<ScreenLine> {
    let chars: Vec<char> = text.iter().map(|(c, _)| *c).collect();
    let (first, others) = (width_of(lead), width_of(hang));
    // An indent that leaves no room is not kept.
    let (lead, hang) = if first.max(others) > columns / 2 { ("", "") } else { (lead, hang) };
    let ranges = broken(&chars, width_of(lead), width_of(hang), columns);
    let of = |(place, range): (usize, std::ops::Range<usize>)| {
        let lead = if place == 0 { lead } else { hang };
        let lead = lead.chars().map(|c| (c, Style::default()));
        shown(&lead.chain(text.get(range).unwrap_or_default().iter().copied()).collect::<Vec<_>>())
    };
    ranges.into_iter().enumerate().map(of).collect()
}

/// A table with its columns in line. `None` if these lines are none, or if it is wider than the screen.
fn table(lines: &[String], columns: usize) -> Option<Vec<ScreenLine>> {
    let cells = |line: &str| -> Vec<String> {
        // A `|` that is part of a cell is written `\|`.
        let line = line.trim().replace("\\|", "\0");
        let line = line.strip_prefix('|').unwrap_or(&line);
        let line = line.strip_suffix('|').unwrap_or(line);
        line.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
    };
    let is_ruler =
        |row: &Vec<String>| row.iter().all(|cell| cell.contains('-') && cell.trim_matches([':', '-']).is_empty());
    let rows: Vec<Vec<String>> = lines.iter().map(|line| cells(line)).collect();
    rows.get(1).filter(|row| is_ruler(row))?;
    let inner = |cell: &str, style: Style| shown(&styled(cell, style).0);
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..count)
        .map(|at| {
            let cells = rows.iter().filter(|row| !is_ruler(row)).filter_map(|row| row.get(at));
            cells.map(|cell| inner(cell, Style::default()).columns).max().unwrap_or_default()
        })
        .collect();
    if widths.iter().sum::<usize>() + 3 * count.saturating_sub(1) > columns {
        return None;
    }
    let mut out = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        if is_ruler(row) {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push(ScreenLine::plain(&rule.join("─┼─"), DIM));
            continue;
        }
        let style = Style { bold: place == 0, ..Style::default() };
        let (mut text, mut total) = (String::new(), 0);
        for (at, width) in widths.iter().enumerate() {
            let cell = inner(row.get(at).map_or("", String::as_str), style);
            let last = at + 1 == widths.len();
            let (gap, between) = if last { (0, "") } else { (width.saturating_sub(cell.columns), " │ ") };
            text.push_str(&format!("{}{}{between}", cell.text, " ".repeat(gap)));
            total += cell.columns + gap + width_of(between);
        }
        out.push(ScreenLine { text, columns: total });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "# A *big* title\n\nSome **bold** and `code` and snake_case_name,\nflowing 2 * 3 * 4.\n\n- one\n  more\n- two\n\n1. first\n\n```rust\nfn main() {}\n```\n> quoted\n\n| a | bb |\n|---|---|\n| ccc | d |\n";

    fn plain(lines: &[ScreenLine]) -> String {
        let mut text = String::new();
        for line in lines {
            let mut rest = line.text.as_str();
            while let Some((before, after)) = rest.split_once('\x1b') {
                text.push_str(before);
                rest = after.split_once('m').unwrap().1;
            }
            text.push_str(rest);
            text.push('\n');
        }
        text
    }

    fn whole(text: &str, columns: usize) -> Vec<ScreenLine> {
        let mut page = Markdown::new(columns);
        let mut lines = page.push(text);
        lines.extend(page.end());
        lines
    }

    #[test]
    fn a_page_reads_as_it_was_meant() {
        let lines = whole(SAMPLE, 80);
        assert_eq!(
            plain(&lines),
            "A big title\n\nSome bold and code and snake_case_name,\nflowing 2 * 3 * 4.\n\n• one\n  more\n• two\n\n1. first\n\n  \
             fn main() {}\n│ quoted\n\na   │ bb\n────┼───\nccc │ d\n"
        );
        let text: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert!(text[0].contains(BOLD) && text[2].contains(&format!("{BOLD}bold{OFF}")), "{text:?}");
        assert!(text[2].contains(&format!("{CODE}code{OFF}")), "{text:?}");
    }

    #[test]
    fn any_pieces_give_the_same_page() {
        for size in 1..12 {
            let mut page = Markdown::new(40);
            let chars: Vec<char> = SAMPLE.chars().collect();
            let mut lines: Vec<ScreenLine> =
                chars.chunks(size).flat_map(|piece| page.push(&piece.iter().collect::<String>())).collect();
            lines.extend(page.end());
            assert_eq!(lines, whole(SAMPLE, 40), "{size}");
        }
    }

    #[test]
    fn lines_fit_the_screen_and_no_word_is_broken_that_fits() {
        let text = "- The quick brown fox, 漢字漢字漢字, jumps over the **lazy dog and goes on** for a while longer.";
        for columns in 40..=200 {
            let lines = whole(text, columns);
            assert!(lines.iter().all(|line| line.columns <= columns), "{columns}: {lines:?}");
            let words: Vec<String> = plain(&lines).split_whitespace().map(str::to_owned).collect();
            assert_eq!(words.join(" "), text.replace("**", "").replacen('-', "•", 1), "{columns}");
        }
        assert!(whole(&"x".repeat(500), 40).iter().all(|line| line.columns <= 40));
    }

    #[test]
    fn what_is_no_markdown_stays_and_nothing_controls_the_screen() {
        for text in ["a * b * c", "_start", "**open", "`tick", "x < y > z", "a_b_c", "5 > 3"] {
            assert_eq!(plain(&whole(text, 80)), format!("{text}\n"));
        }
        for text in
            ["|x| is not\n|y|", ">= 3 is fine", "```a``` is code", "1) one\n  2) two", "+ new", "a  b   c", "end \\"]
        {
            let expected = text.replace("```", if text.starts_with('`') { "" } else { "```" });
            assert_eq!(plain(&whole(text, 80)), format!("{expected}\n"));
        }
        assert_eq!(plain(&whole("a\x1b[2Jb\u{202e}", 80)), "a[2Jb\\u{202e}\n");
    }

    #[test]
    fn lines_stay_lines_and_are_shown_as_they_come() {
        let mut page = Markdown::new(40);
        let text: String = (1..=150).map(|n| format!("line {n} of many\n")).collect();
        assert_eq!(plain(&page.push(&text)), text);
        let poem = "Roses are **red\nand blue**,\n    indented\nfar";
        assert_eq!(plain(&page.push(poem)), "Roses are red\nand blue,\n    indented\n");
        assert_eq!(plain(&page.end()), "far\n");
        assert_eq!(plain(&page.push(&"*a\n".repeat(12))), "*a\n".repeat(10), "none waits for ever");
    }

    #[test]
    fn nested_lists_tables_and_code_keep_their_form() {
        let text =
            "- a\n    - b that goes on for a while longer\n\t1. c\n\n```\n\tx = __init__\n```\n# C#\n## Two ##\n";
        let shown = "• a\n    • b that goes on for\n      a while longer\n    1. c\n\n      x = __init__\nC#\nTwo\n";
        assert_eq!(plain(&whole(text, 25)), shown);
        let table = "| a \\| b | ✅ |\n|:--|--:|\n| 漢字 | **x** |\n";
        assert_eq!(plain(&whole(table, 40)), "a | b │ ✅\n──────┼───\n漢字  │ x\n");
        let wide = "| some words | and some more |\n|---|---|\n| x | y |\n";
        assert_eq!(plain(&whole(wide, 20)), "| some words | and\nsome more |\n|---|---|\n| x | y |\n");
    }
}
