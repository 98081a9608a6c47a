//! Catalogues: Markdown documents whose tables name tests, and what a check of one found.
//!
//! Pure: text in, tables and faults out.

use std::fmt;

/// A table of a document.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// The line of its header, from 1.
    pub line: usize,
    /// The names of its columns.
    pub header: Vec<String>,
    /// What follows, the line of dashes left out.
    pub rows: Vec<Row>,
}

/// A line of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The line it stands on, from 1.
    pub line: usize,
    /// Its cells; `None` when it does not begin and end with `|`.
    pub cells: Option<Vec<String>>,
}

/// The tables of a document, in order. What stands in a fenced block is no table.
pub fn tables(text: &str) -> Vec<Table> {
    let mut found: Vec<Table> = Vec::new();
    let mut open = false;
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        let (number, line) = (at + 1, line.trim());
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced || line.is_empty() || line.starts_with("```") {
            open = false;
            continue;
        }
        match (open, found.last_mut()) {
            // Markdown takes every line up to the next empty one for a row.
            (true, Some(table)) => table.rows.push(Row { line: number, cells: cells(line) }),
            _ if line.starts_with('|') => {
                found.push(Table { line: number, header: cells(line).unwrap_or_default(), rows: Vec::new() });
                open = true;
            }
            _ => {}
        }
    }
    for table in &mut found {
        let is_dashes = |row: &Row| {
            let dashes = |cell: &String| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':'));
            row.cells.as_ref().is_some_and(|cells| cells.iter().all(dashes))
        };
        if table.rows.first().is_some_and(is_dashes) {
            table.rows.remove(0);
        }
    }
    found
}

/// The cells of a row; a `|` inside of one is written `\|`.
fn cells(line: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut cell = String::new();
    let mut chars = line.trim().strip_prefix('|')?.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'|').is_some() => cell.push('|'),
            '|' => all.push(std::mem::take(&mut cell).trim().to_owned()),
            other => cell.push(other),
        }
    }
    // What follows the last `|` is no cell: it would be lost.
    cell.is_empty().then_some(all)
}

/// What stands between backticks.
pub fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Something wrong with a catalogue, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The document.
    pub file: String,
    /// The line in it, where it is about one.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// What a check of a catalogue found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The catalogue, a line per row.
    pub list: Vec<String>,
    /// The catalogue in one line.
    pub summary: String,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: usize, cells: &[&str]) -> Row {
        Row { line, cells: Some(cells.iter().map(|cell| (*cell).to_owned()).collect()) }
    }

    #[test]
    fn tables_are_found_with_their_lines() {
        let text =
            "intro\n\n| a | b |\n|---|:-:|\n| 1 | `x` |\n\n```\n| no | table |\n```\ntext\n| c |\n|---|\n| 2 |\n";
        let first = Table { line: 3, header: vec!["a".into(), "b".into()], rows: vec![row(5, &["1", "`x`"])] };
        let second = Table { line: 11, header: vec!["c".into()], rows: vec![row(13, &["2"])] };
        assert_eq!(tables(text), [first, second]);
    }

    #[test]
    fn an_escaped_bar_is_part_of_its_cell() {
        assert_eq!(cells(r"| a \| b | `c\|d` | \ |"), Some(vec!["a | b".into(), "`c|d`".into(), "\\".into()]));
        assert_eq!(cells("| | |"), Some(vec![String::new(), String::new()]));
    }

    #[test]
    fn what_is_no_row_is_kept_as_one_without_cells() {
        let rows = |text: &str| tables(text).remove(0).rows;
        assert_eq!(rows("| a |\n|---|\n| 1\n"), [Row { line: 3, cells: None }]);
        assert_eq!(rows("| a |\n|---|\n| 1 |\na second line\n"), [row(3, &["1"]), Row { line: 4, cells: None }]);
        assert_eq!(rows("| a |\n|---|\n| 1 | lost\n"), [Row { line: 3, cells: None }]);
    }

    #[test]
    fn backticks_hold_names() {
        assert_eq!(quoted("`a`, then `b::c` and `open"), ["a", "b::c", "open"]);
        assert_eq!(quoted("none"), [""; 0]);
    }

    #[test]
    fn a_fault_says_where() {
        let fault = |line| Fault { file: "docs/x.md".into(), line, text: "is wrong: mend it".into() };
        assert_eq!(fault(Some(3)).to_string(), "docs/x.md:3: is wrong: mend it");
        assert_eq!(fault(None).to_string(), "docs/x.md: is wrong: mend it");
    }
}
