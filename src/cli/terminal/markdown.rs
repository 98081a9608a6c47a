//! Markdown on a terminal, block by block as it streams: headings, lists, code, quotes and tables, wrapped by words.
//!
//! A block is shown when it is complete, so nothing that was shown changes. What is no Markdown is shown as it is.

use crate::cli::terminal::text::{harmless, width_of};

const BOLD: &str = "\x1b[1m";
const ITALIC: &str = "\x1b[3m";
const CODE: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const OFF: &str = "\x1b[0m";

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
    /// The lines of a block that is not complete: a paragraph, an item or a table.
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
                self.take(line.trim_end(), &mut out);
            }
        }
        out
    }

    /// The rest of the message.
    pub fn end(&mut self) -> Vec<ScreenLine> {
        let mut out = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(line.trim_end(), &mut out);
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
        let bare = line.trim_start();
        if let Some(fence) = &self.fence {
            if bare.starts_with(fence.as_str()) && bare.trim_matches(['`', '~']).is_empty() {
                self.fence = None;
            } else {
                out.push(ScreenLine::plain(&format!("  {line}"), CODE));
            }
            return;
        }
        let is_table = bare.starts_with('|');
        if self.block.first().is_some_and(|first| first.trim_start().starts_with('|') != is_table) {
            self.close(out);
        }
        match bare {
            "" => {
                self.close(out);
                out.push(ScreenLine::plain("", ""));
            }
            _ if bare.starts_with("```") || bare.starts_with("~~~") => {
                self.close(out);
                let mark = bare.chars().next().unwrap_or('`');
                self.fence = Some(bare.chars().take_while(|c| *c == mark).collect());
            }
            _ if heading(bare).is_some() => {
                self.close(out);
                out.extend(wrapped(&styled(heading(bare).unwrap_or_default(), BOLD), "", "", self.columns));
            }
            _ if is_rule(bare) => {
                self.close(out);
                out.push(ScreenLine::plain(&"─".repeat(self.columns.min(40)), DIM));
            }
            _ if item(line).is_some() || bare.starts_with('>') => {
                self.close(out);
                self.block.push(line.to_owned());
            }
            _ => self.block.push(line.to_owned()),
        }
    }

    /// Shows the block that was open.
    fn close(&mut self, out: &mut Vec<ScreenLine>) {
        let block = std::mem::take(&mut self.block);
        let Some(first) = block.first() else { return };
        if first.trim_start().starts_with('|') {
            out.extend(table(&block, self.columns));
            return;
        }
        let rest = block.iter().skip(1).map(|line| line.trim());
        if let Some((indent, mark, text)) = item(first) {
            let (lead, hang) = (format!("{indent}{mark} "), format!("{indent}{} ", " ".repeat(width_of(&mark))));
            let text = std::iter::once(text).chain(rest).collect::<Vec<_>>().join(" ");
            out.extend(wrapped(&styled(&text, ""), &lead, &hang, self.columns));
            return;
        }
        if let Some(text) = first.trim_start().strip_prefix('>') {
            let text = std::iter::once(text.trim()).chain(rest).collect::<Vec<_>>().join(" ");
            out.extend(wrapped(&styled(&text, DIM), "│ ", "│ ", self.columns));
            return;
        }
        // Lines of a paragraph flow together, unless one ends with a break.
        let mut text = String::new();
        for line in &block {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text.push_str(line.trim_start().trim_end_matches('\\'));
            if line.ends_with('\\') {
                text.push('\n');
            }
        }
        for line in text.split('\n') {
            out.extend(wrapped(&styled(line, ""), "", "", self.columns));
        }
    }
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    text.strip_prefix(' ').filter(|_| (1..=6).contains(&level)).map(|text| text.trim().trim_end_matches('#').trim_end())
}

fn is_rule(line: &str) -> bool {
    let bare: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    bare.len() >= 3 && ["-", "*", "_"].iter().any(|mark| bare.replace(mark, "").is_empty())
}

/// The indent of an item, its mark and its text.
fn item(line: &str) -> Option<(String, String, &str)> {
    let bare = line.trim_start();
    let indent = " ".repeat((line.len() - bare.len()).min(12));
    for mark in ["- ", "* ", "+ "] {
        if let Some(text) = bare.strip_prefix(mark) {
            return Some((indent, "•".to_owned(), text.trim_start()));
        }
    }
    let digits: String = bare.chars().take_while(char::is_ascii_digit).collect();
    let rest = bare.strip_prefix(digits.as_str())?;
    let text = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))?;
    (1..=9).contains(&digits.len()).then(|| (indent, format!("{digits}."), text.trim_start()))
}

/// A character with the codes that are on while it is shown.
type Styled = (char, String);

/// The text without its marks, each character with what they say.
fn styled(text: &str, base: &str) -> Vec<Styled> {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (Vec::new(), 0);
    let (mut bold, mut italic) = (false, false);
    let runs_to = |from: usize, mark: &[char]| {
        (from..chars.len()).find(|place| chars.get(*place..place + mark.len()) == Some(mark))
    };
    while let Some(c) = chars.get(at).copied() {
        let code = format!("{base}{}{}", if bold { BOLD } else { "" }, if italic { ITALIC } else { "" });
        let next = chars.get(at + 1).copied();
        let before = at.checked_sub(1).and_then(|place| chars.get(place)).copied();
        let opens = next.is_some_and(|next| !next.is_whitespace());
        match c {
            '\\' if next.is_some_and(|next| next.is_ascii_punctuation()) => {
                out.push((next.unwrap_or(c), code));
                at += 1;
            }
            '`' => {
                let ticks: Vec<char> = chars.iter().skip(at).take_while(|c| **c == '`').copied().collect();
                let from = at + ticks.len();
                match runs_to(from, &ticks) {
                    Some(end) => {
                        let said = chars.get(from..end).unwrap_or_default();
                        out.extend(said.iter().map(|c| (*c, format!("{base}{CODE}"))));
                        at = end + ticks.len() - 1;
                    }
                    None => out.push((c, code)),
                }
            }
            '*' if next == Some(c) && (bold || runs_to(at + 2, &[c, c]).is_some()) => {
                bold = !bold;
                at += 1;
            }
            '*' | '_'
                if (italic && before.is_some_and(|before| !before.is_whitespace()))
                    || (!italic
                        && opens
                        && next != Some(c)
                        && before.is_none_or(|before| !before.is_alphanumeric())
                        && runs_to(at + 1, &[c]).is_some()) =>
            {
                // Within a word `_` is a letter.
                let within = c == '_' && next.is_some_and(char::is_alphanumeric) && italic;
                if within {
                    out.push((c, code));
                } else {
                    italic = !italic;
                }
            }
            _ => out.push((c, code)),
        }
        at += 1;
    }
    out
}

/// The text in lines of at most so many columns, broken between words.
fn wrapped(text: &[Styled], lead: &str, hang: &str, columns: usize) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    let mut line: Vec<Styled> = lead.chars().map(|c| (c, String::new())).collect();
    let width = |line: &[Styled]| line.iter().map(|(c, _)| width_of(c.encode_utf8(&mut [0; 4]))).sum::<usize>();
    let mut is_begun = false;
    for word in text.split(|(c, _)| c.is_whitespace()).filter(|word| !word.is_empty()) {
        let mut word = word;
        if is_begun && width(&line) + 1 + width(word) > columns {
            lines.push(shown(&line));
            line = hang.chars().map(|c| (c, String::new())).collect();
            is_begun = false;
        }
        if is_begun {
            let code = if line.last().map(|(_, code)| code) == word.first().map(|(_, code)| code) {
                word.first().map(|(_, code)| code.clone()).unwrap_or_default()
            } else {
                String::new()
            };
            line.push((' ', code));
        }
        // A word that is longer than a line is broken.
        while width(&line) + width(word) > columns {
            let room = columns.saturating_sub(width(&line)).max(1).min(word.len());
            let (head, rest) = word.split_at(room);
            line.extend_from_slice(head);
            lines.push(shown(&line));
            line = hang.chars().map(|c| (c, String::new())).collect();
            word = rest;
        }
        line.extend_from_slice(word);
        is_begun = true;
    }
    if is_begun || lines.is_empty() {
        lines.push(shown(&line));
    }
    lines
}

fn shown(line: &[Styled]) -> ScreenLine {
    let (mut text, mut now, mut columns) = (String::new(), "", 0);
    for (c, code) in line {
        if code != now {
            if !now.is_empty() {
                text.push_str(OFF);
            }
            text.push_str(code);
            now = code;
        }
        text.push(*c);
        columns += width_of(c.encode_utf8(&mut [0; 4]));
    }
    if !now.is_empty() {
        text.push_str(OFF);
    }
    ScreenLine { text, columns }
}

/// A table with its columns in line, if it fits; else its lines as they came.
fn table(lines: &[String], columns: usize) -> Vec<ScreenLine> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_start_matches('|');
        line.strip_suffix('|').unwrap_or(line).split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let is_ruler =
        |row: &Vec<String>| row.iter().all(|cell| cell.contains('-') && cell.trim_matches([':', '-']).is_empty());
    let rows: Vec<Vec<String>> = lines.iter().map(|line| cells(line)).collect();
    let inner = |cell: &str| shown(&styled(cell, ""));
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..count)
        .map(|at| {
            let cells = rows.iter().filter(|row| !is_ruler(row)).filter_map(|row| row.get(at));
            cells.map(|cell| inner(cell).columns).max().unwrap_or_default()
        })
        .collect();
    if widths.iter().sum::<usize>() + 3 * count.saturating_sub(1) > columns {
        return lines.iter().map(|line| ScreenLine::plain(line.trim(), "")).collect();
    }
    let mut out = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        if is_ruler(row) {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push(ScreenLine::plain(&rule.join("─┼─"), DIM));
            continue;
        }
        let is_head = place == 0 && rows.get(1).is_some_and(is_ruler);
        let (mut text, mut total) = (String::new(), 0);
        for (at, width) in widths.iter().enumerate() {
            let cell = shown(&styled(row.get(at).map_or("", String::as_str), if is_head { BOLD } else { "" }));
            let last = at + 1 == widths.len();
            let (gap, between) = if last { (0, "") } else { (width.saturating_sub(cell.columns), " │ ") };
            text.push_str(&format!("{}{}{between}", cell.text, " ".repeat(gap)));
            total += cell.columns + gap + width_of(between);
        }
        out.push(ScreenLine { text, columns: total });
    }
    out
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
            "A big title\n\nSome bold and code and snake_case_name, flowing 2 * 3 * 4.\n\n• one more\n• two\n\n1. first\n\n  \
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
        assert_eq!(plain(&whole("a\x1b[2Jb\u{202e}", 80)), "a[2Jb\\u{202e}\n");
    }
}
