//! Where things that people know from elsewhere are here: `docs/lineage.md`, and a document per project beside it.
//!
//! A row is `| theirs | kind | ours | shown by |`. It names ours with the test that shows it, or says what is to bring
//! it (`later: …`), or why it is not to be (`not: …`).

use std::collections::HashMap;
use std::path::Path;

use crate::catalogue::{Fault, Findings, Row, quoted, tables};
use crate::sources::{Sources, Unreadable, files, read};

/// The document that leads to the others.
const INDEX: &str = "docs/lineage.md";

/// Where the others are.
const FOLDER: &str = "docs/lineage";

const HEADER: [&str; 4] = ["theirs", "kind", "ours", "shown by"];

/// What a row can be about.
const KINDS: [&str; 12] =
    ["api", "config", "default", "entity", "error", "event", "file", "flow", "hook", "table", "tool", "wire"];

/// What stands in the last column when there is no test.
const NONE: &str = "–";

/// A document of the lineage.
#[derive(Debug)]
struct Document {
    /// Its path from the workspace's folder.
    file: String,
    /// What it says.
    text: String,
}

/// What is said of ours.
enum Ours<'a> {
    /// It is there.
    Here(&'a str),
    /// This is to bring it.
    Later(&'a str),
    /// It is not to be, and this is why.
    Not(&'a str),
}

impl<'a> Ours<'a> {
    fn parse(cell: &'a str) -> Self {
        match cell.split_once(':') {
            Some(("later", capability)) => Self::Later(capability.trim()),
            Some(("not", reason)) => Self::Not(reason.trim()),
            _ => Self::Here(cell),
        }
    }
}

/// Checks the lineage of the workspace in `root`.
pub fn of(root: &Path) -> Result<Findings, Unreadable> {
    let index = Document { file: INDEX.to_owned(), text: read(&root.join(INDEX))? };
    let mut documents = Vec::new();
    for path in files(&root.join(FOLDER))? {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        documents.push(Document { file: format!("{FOLDER}/{name}"), text: read(&path)? });
    }
    Ok(check(&index, &documents, &Sources::read(root)?))
}

/// Checks the lineage against the names and tests there are. `index` leads to the other documents.
fn check(index: &Document, documents: &[Document], sources: &Sources) -> Findings {
    let mut findings = Findings::default();
    let mut total = [0_usize; 3];
    for document in documents {
        let name = document.file.strip_prefix("docs/").unwrap_or(&document.file);
        if !index.text.contains(&format!("({name})")) {
            let text = format!("no link to {name}: add one, so that people find it");
            findings.faults.push(Fault { file: index.file.clone(), line: None, text });
        }
    }
    for document in std::iter::once(index).chain(documents) {
        let counts = check_one(document, sources, &mut findings);
        total.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [here, later, not] = total;
    findings.summary = format!("{} rows: {here} here, {later} later, {not} not", here + later + not);
    if here + later + not == 0 {
        let text = format!("there is no row: write a table `| {} |`", HEADER.join(" | "));
        findings.faults.push(Fault { file: index.file.clone(), line: None, text });
    }
    findings
}

/// Checks one document; gives how many of its rows are here, for later and not to be.
fn check_one(document: &Document, sources: &Sources, findings: &mut Findings) -> [usize; 3] {
    let mut counts = [0; 3];
    let mut seen: HashMap<(String, String), usize> = HashMap::new();
    let mut fault = |line, text: String| {
        findings.faults.push(Fault { file: document.file.clone(), line: Some(line), text });
    };
    let found = tables(&document.text);
    if !found.is_empty() {
        findings.list.push(document.file.clone());
    }
    for table in &found {
        if table.header != HEADER {
            fault(table.line, format!("a table of other columns: name them `{}`", HEADER.join(" | ")));
            continue;
        }
        for row in &table.rows {
            let Some([theirs, kind, ours, shown_by]) = row.cells.as_deref() else {
                fault(row.line, no_row());
                continue;
            };
            for why in wrong(theirs, kind, ours, shown_by, sources) {
                fault(row.line, why);
            }
            if let Some(first) = seen.insert((theirs.clone(), kind.clone()), row.line) {
                fault(row.line, format!("{theirs} ({kind}) stands on line {first} already: say it once"));
            }
            let [here, later, not] = &mut counts;
            match Ours::parse(ours) {
                Ours::Here(_) => *here += 1,
                Ours::Later(_) => *later += 1,
                Ours::Not(_) => *not += 1,
            }
            findings.list.push(line(row, theirs, ours));
        }
    }
    counts
}

fn no_row() -> String {
    format!("this is no row: write `| {} |`, with \\| for a bar inside of a cell", HEADER.join(" | "))
}

/// A row for people.
fn line(row: &Row, theirs: &str, ours: &str) -> String {
    let shown = row.cells.as_ref().and_then(|cells| cells.last()).map_or("", String::as_str);
    let shown = if shown == NONE { String::new() } else { format!("  [{}]", shown.replace('`', "")) };
    format!("  {}  →  {}{shown}", theirs.replace('`', ""), ours.replace('`', ""))
}

/// What is wrong with a row.
fn wrong(theirs: &str, kind: &str, ours: &str, shown_by: &str, sources: &Sources) -> Vec<String> {
    let mut all = Vec::new();
    if theirs.is_empty() {
        all.push("the first cell is empty: name what people know".to_owned());
    }
    if !KINDS.contains(&kind) {
        all.push(format!("`{kind}` is no kind: use one of {}", KINDS.join(", ")));
    }
    let tests = quoted(shown_by);
    for fault in tests.iter().filter_map(|test| sources.fault_of_test(test)) {
        all.push(format!("{fault}; name the test that shows this"));
    }
    if tests.is_empty() && shown_by != NONE {
        all.push(format!("`{shown_by}` names no test: write it in backticks, or `{NONE}` for none"));
    }
    match Ours::parse(ours) {
        Ours::Here(text) => {
            let names = quoted(text);
            if names.is_empty() {
                all.push("ours has no name in backticks: give it, or say `later: …` or `not: …`".to_owned());
            }
            for name in names.iter().filter(|name| !sources.knows(name)) {
                all.push(format!("there is no `{name}` in the sources: use the name it has now"));
            }
            if shown_by == NONE {
                all.push("no test shows this: name one, or say `later: …` or `not: …`".to_owned());
            }
        }
        Ours::Later(capability) => {
            if capability.is_empty() {
                all.push("`later:` says nothing: say what is to bring it".to_owned());
            }
            if !tests.is_empty() {
                all.push("what is for later has a test: say what is here".to_owned());
            }
        }
        Ours::Not(reason) => {
            if reason.is_empty() {
                all.push("`not:` says nothing: say why".to_owned());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Part;

    const HEAD: &str = "| theirs | kind | ours | shown by |\n|---|---|---|---|\n";

    fn sources() -> Sources {
        let mut sources = Sources::default();
        sources.add(Part::Library, "a.rs", "impl Agent { fn prompt() {} } #[test] fn it_answers() {}");
        sources.add(Part::CommandLine, "b.rs", "enum Command { Resume } struct Args { max_turns: u32 }");
        sources
    }

    fn document(file: &str, text: impl Into<String>) -> Document {
        Document { file: file.to_owned(), text: text.into() }
    }

    fn checked(rows: &str) -> Findings {
        let index = document(INDEX, "# Lineage\n\n- [one](lineage/one.md)\n");
        check(&index, &[document("docs/lineage/one.md", format!("{HEAD}{rows}"))], &sources())
    }

    /// What is said about the third line, which is the first row.
    fn faults(row: &str) -> Vec<String> {
        let all = checked(&format!("{row}\n")).faults.into_iter();
        all.map(|fault| fault.to_string().replace("docs/lineage/one.md:3: ", "")).collect()
    }

    #[test]
    fn good_rows_are_listed_and_counted() {
        let findings = checked(
            "| `ask()` | api | `Agent::prompt`, `--max-turns` | `it_answers` |\n\
             | `a \\| b` | flow | `playhouse resume` | `it_answers` |\n\
             | dance | event | later: legs | – |\n\
             | panic | error | not: a typed error | `it_answers` |\n",
        );
        assert_eq!(findings.faults, []);
        assert_eq!(findings.summary, "4 rows: 2 here, 1 later, 1 not");
        assert_eq!(
            findings.list,
            [
                "docs/lineage/one.md",
                "  ask()  →  Agent::prompt, --max-turns  [it_answers]",
                "  a | b  →  playhouse resume  [it_answers]",
                "  dance  →  later: legs",
                "  panic  →  not: a typed error  [it_answers]",
            ]
        );
    }

    #[test]
    fn what_is_here_has_a_test_and_a_name_that_is_there() {
        assert_eq!(
            faults("| x | api | `Agent::prompt` | – |"),
            ["no test shows this: name one, or say `later: …` or `not: …`"]
        );
        assert_eq!(
            faults("| x | api | `Agent::prompt` | `it_sings` |"),
            ["there is no test `it_sings`; name the test that shows this"]
        );
        assert_eq!(
            faults("| x | api | `Agent::ask` | `it_answers` |"),
            ["there is no `Agent::ask` in the sources: use the name it has now"]
        );
        assert_eq!(
            faults("| x | api | `playhouse dance`, `--min-turns` | `it_answers` |"),
            [
                "there is no `playhouse dance` in the sources: use the name it has now",
                "there is no `--min-turns` in the sources: use the name it has now",
            ]
        );
        assert_eq!(
            faults("| x | api | somewhere | `it_answers` |"),
            ["ours has no name in backticks: give it, or say `later: …` or `not: …`"]
        );
    }

    #[test]
    fn what_is_not_here_says_why() {
        assert_eq!(faults("| x | api | later: | – |"), ["`later:` says nothing: say what is to bring it"]);
        assert_eq!(faults("| x | api | not: | – |"), ["`not:` says nothing: say why"]);
        assert_eq!(
            faults("| x | api | later: legs | `it_answers` |"),
            ["what is for later has a test: say what is here"]
        );
    }

    #[test]
    fn rows_that_cannot_be_read_are_said() {
        let kinds = "api, config, default, entity, error, event, file, flow, hook, table, tool, wire";
        assert_eq!(faults("| x | thing | later: legs | – |"), [format!("`thing` is no kind: use one of {kinds}")]);
        assert_eq!(faults("|  | api | later: legs | – |"), ["the first cell is empty: name what people know"]);
        assert_eq!(
            faults("| x | api | later: legs | none |"),
            ["`none` names no test: write it in backticks, or `–` for none"]
        );
        for row in ["| x | api | later: legs |", "| x | y | api | later: legs | – |", "| x | api | later: legs | –"]
        {
            assert_eq!(faults(row)[0], no_row(), "{row}");
        }
        let findings = checked("| x | api | later: legs | – |\n| x | api | later: arms | – |\n");
        let fault = "docs/lineage/one.md:4: x (api) stands on line 3 already: say it once";
        assert_eq!(findings.faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [fault]);
    }

    #[test]
    fn every_document_is_linked_and_has_tables_of_these_columns() {
        let index = document(INDEX, "# Lineage\n");
        let other = document("docs/lineage/one.md", "| a | b |\n|---|---|\n| 1 | 2 |\n");
        let found: Vec<String> = check(&index, &[other], &sources()).faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/lineage.md: no link to lineage/one.md: add one, so that people find it",
                "docs/lineage/one.md:1: a table of other columns: name them `theirs | kind | ours | shown by`",
                "docs/lineage.md: there is no row: write a table `| theirs | kind | ours | shown by |`",
            ]
        );
    }
}
