//! The failure catalogue, `docs/failures.md`: what goes wrong in agent runtimes, what happens here, which tests show it.
//!
//! A row is `| # | what goes wrong | here | status | shown by |`. Its tests carry its number: `f07_…`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::catalogue::{Fault, Findings, Row, quoted, tables};
use crate::sources::{Sources, Unreadable, file_and_name, read};

/// The document.
const FILE: &str = "docs/failures.md";

const HEADER: [&str; 5] = ["#", "what goes wrong", "here", "status", "shown by"];

/// How many failures are known.
const COUNT: u32 = 67;

/// How far a failure is dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Status {
    /// Tests show it.
    Covered,
    /// Tests show some of it; this is missing.
    Partly(String),
    /// This is to bring it.
    Later(String),
}

impl Status {
    fn parse(cell: &str) -> Option<Self> {
        let rest = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        match cell.split_once(':') {
            None if cell == "covered" => Some(Self::Covered),
            Some(("partly", missing)) => rest(missing).map(Self::Partly),
            Some(("later", capability)) => rest(capability).map(Self::Later),
            _ => None,
        }
    }
}

struct Failure<'a> {
    number: u32,
    what: &'a str,
    here: &'a str,
    status: Status,
    named: Vec<&'a str>,
}

/// Checks the catalogue of the workspace in `root`.
pub fn of(root: &Path) -> Result<Findings, Unreadable> {
    Ok(check(&read(&root.join(FILE))?, &Sources::read(root)?))
}

/// Checks the catalogue against the tests there are.
fn check(text: &str, sources: &Sources) -> Findings {
    let mut faults = Vec::new();
    let mut fault = |line, text: String| faults.push(Fault { file: FILE.to_owned(), line, text });
    let mut tests: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (number, test) in sources.numbered_tests() {
        tests.entry(number).or_default().push(test);
    }
    let tables = tables(text);
    let mut rows: BTreeMap<u32, (usize, Failure<'_>)> = BTreeMap::new();
    for table in &tables {
        if table.header != HEADER {
            fault(Some(table.line), format!("a table of other columns: name them `{}`", HEADER.join(" | ")));
            continue;
        }
        for row in &table.rows {
            match parse(row) {
                Err(why) => fault(Some(row.line), why),
                Ok(failure) => {
                    if let Some((first, _)) = rows.get(&failure.number) {
                        let number = failure.number;
                        fault(
                            Some(row.line),
                            format!("{number:02} stands on line {first} already: give it a number of its own"),
                        );
                    } else {
                        rows.insert(failure.number, (row.line, failure));
                    }
                }
            }
        }
    }
    for (line, failure) in rows.values() {
        for why in wrong(failure, tests.get(&failure.number).map_or(&[], Vec::as_slice), sources) {
            fault(Some(*line), why);
        }
    }
    for number in (1..=COUNT).filter(|number| !rows.contains_key(number)) {
        fault(None, format!("there is no row {number:02}: add it"));
    }
    for (number, (line, _)) in rows.range(COUNT + 1..) {
        fault(
            Some(*line),
            format!("{number:02} is more than the {COUNT} rows there are: raise COUNT in xtask/src/failures.rs"),
        );
    }
    for (number, tests) in &tests {
        if !rows.contains_key(number) {
            fault(
                None,
                format!("there is no row {number:02} for `{}`: add it, or rename the test", tests.join("`, `")),
            );
        }
    }
    let mut list = Vec::new();
    let mut counts = [0_usize; 3];
    for (number, (_, failure)) in &rows {
        let (which, status) = match &failure.status {
            Status::Covered => (0, "covered".to_owned()),
            Status::Partly(missing) => (1, format!("partly, missing: {missing}")),
            Status::Later(capability) => (2, format!("later, with: {capability}")),
        };
        counts.iter_mut().skip(which).take(1).for_each(|count| *count += 1);
        list.push(format!("{number:02}  {}", failure.what));
        list.push(format!("    {status}"));
        list.extend(tests.get(number).into_iter().flatten().map(|test| format!("      {test}")));
    }
    let [covered, partly, later] = counts;
    let shown: usize = tests.values().map(Vec::len).sum();
    let summary = format!("{} failures: {covered} covered, {partly} partly, {later} later; {shown} tests", rows.len());
    Findings { list, summary, faults }
}

fn parse(row: &Row) -> Result<Failure<'_>, String> {
    let Some([number, what, here, status, named]) = row.cells.as_deref() else {
        return Err(format!("this is no row: write `| {} |`, with \\| for a bar inside of a cell", HEADER.join(" | ")));
    };
    let parsed = number.parse().ok().filter(|_| number.len() == 2);
    let Some(parsed) = parsed else { return Err(format!("`{number}` is no number: write two digits, such as 07")) };
    let Some(status) = Status::parse(status) else {
        let known = "`covered`, `partly: what is missing` or `later: what brings it`";
        return Err(format!("`{status}` is no status: write {known}"));
    };
    Ok(Failure { number: parsed, what, here, status, named: quoted(named) })
}

/// What is wrong with a row, given the tests that carry its number.
fn wrong(failure: &Failure<'_>, tests: &[&str], sources: &Sources) -> Vec<String> {
    let number = failure.number;
    let mut all = Vec::new();
    if failure.what.is_empty() || failure.here.is_empty() {
        all.push(format!("{number:02} does not say what goes wrong, or what happens here: say it"));
    }
    for fault in failure.named.iter().filter_map(|name| sources.fault_of_test(name)) {
        all.push(format!("{fault}; name the test that shows {number:02}"));
    }
    let names_own = failure.named.iter().any(|name| tests.contains(&file_and_name(name).1));
    match &failure.status {
        Status::Covered | Status::Partly(_) if tests.is_empty() => {
            all.push(format!("there is no test `f{number:02}_…`: write one, or say what is to bring {number:02}"));
        }
        Status::Covered | Status::Partly(_) if !names_own => {
            all.push(format!("{number:02} names none of its tests: name one that begins with `f{number:02}_`"));
        }
        Status::Later(_) if !tests.is_empty() => {
            let tests = tests.join("`, `");
            all.push(format!("{number:02} is for later and has `{tests}`: say `partly`, and what is missing"));
        }
        Status::Covered | Status::Partly(_) | Status::Later(_) => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Part;

    const HEAD: &str = "| # | what goes wrong | here | status | shown by |\n|---|---|---|---|---|\n";

    fn sources() -> Sources {
        let mut sources = Sources::default();
        sources.add(Part::Library, "a.rs", "#[test] fn f01_a() {} #[test] fn f02_b() {} #[test] fn other() {}");
        sources
    }

    /// A whole catalogue: `rows`, and `later` for every number from `from` on.
    fn catalogue(rows: &str, from: u32) -> String {
        let rest: String = (from..=COUNT).map(|n| format!("| {n:02} | w | h | later: x | – |\n")).collect();
        format!("# Failures\n\n{HEAD}{rows}{rest}")
    }

    fn faults(text: &str) -> Vec<String> {
        check(text, &sources()).faults.iter().map(ToString::to_string).collect()
    }

    const TWO: &str = "| 01 | w | h | covered | `f01_a` |\n| 02 | w2 | h | partly: more | `f02_b`, `other` |\n";

    #[test]
    fn a_good_catalogue_is_listed_and_counted() {
        let findings = check(&catalogue(TWO, 3), &sources());
        assert_eq!(findings.faults, []);
        assert_eq!(findings.summary, "67 failures: 1 covered, 1 partly, 65 later; 2 tests");
        let expected = ["01  w", "    covered", "      f01_a", "02  w2", "    partly, missing: more", "      f02_b"];
        assert_eq!(findings.list[..6], expected);
        assert_eq!(findings.list[6..8], ["03  w", "    later, with: x"]);
    }

    #[test]
    fn tables_of_one_catalogue_may_stand_apart() {
        let text = catalogue(TWO, 3).replace("| 03 |", &format!("\n## More\n\n{HEAD}| 03 |"));
        assert_eq!(faults(&text), [""; 0]);
    }

    #[test]
    fn a_covered_row_needs_a_test_with_its_number() {
        let rows = TWO.to_owned() + "| 03 | w | h | covered | `other` |\n";
        assert_eq!(
            faults(&catalogue(&rows, 4)),
            ["docs/failures.md:7: there is no test `f03_…`: write one, or say what is to bring 03"]
        );
        let rows = TWO.replace("`f01_a`", "`other`");
        assert_eq!(
            faults(&catalogue(&rows, 3)),
            ["docs/failures.md:5: 01 names none of its tests: name one that begins with `f01_`"]
        );
    }

    #[test]
    fn a_test_that_is_named_must_be_there() {
        let rows = TWO.replace("`other`", "`gone`");
        assert_eq!(
            faults(&catalogue(&rows, 3)),
            ["docs/failures.md:6: there is no test `gone`; name the test that shows 02"]
        );
    }

    #[test]
    fn a_row_for_later_has_no_tests() {
        assert_eq!(
            faults(&catalogue(&TWO.replace("partly: more", "later: more"), 3)),
            ["docs/failures.md:6: 02 is for later and has `f02_b`: say `partly`, and what is missing"]
        );
    }

    #[test]
    fn an_unknown_status_is_refused() {
        let known = "write `covered`, `partly: what is missing` or `later: what brings it`";
        for bad in ["done", "partly", "partly:", "later: ", "covered: yes", ""] {
            let text = catalogue(TWO, 3).replace("| 03 | w | h | later: x |", &format!("| 03 | w | h | {bad} |"));
            let bad = bad.trim();
            assert_eq!(
                faults(&text),
                [
                    format!("docs/failures.md:7: `{bad}` is no status: {known}"),
                    "docs/failures.md: there is no row 03: add it".to_owned()
                ]
            );
        }
    }

    #[test]
    fn numbers_are_two_digits_unique_and_without_gaps() {
        let twice = TWO.to_owned() + "| 02 | w | h | later: x | – |\n";
        assert_eq!(
            faults(&catalogue(&twice, 3)),
            ["docs/failures.md:7: 02 stands on line 6 already: give it a number of its own"]
        );
        let words = TWO.to_owned() + "| 3 | w | h | later: x | – |\n";
        assert_eq!(
            faults(&catalogue(&words, 3)),
            ["docs/failures.md:7: `3` is no number: write two digits, such as 07"]
        );
        assert_eq!(faults(&catalogue(TWO, 4)), ["docs/failures.md: there is no row 03: add it"]);
        let more = catalogue(TWO, 3) + "| 68 | w | h | later: x | – |\n";
        assert_eq!(
            faults(&more),
            ["docs/failures.md:72: 68 is more than the 67 rows there are: raise COUNT in xtask/src/failures.rs"]
        );
    }

    #[test]
    fn every_numbered_test_belongs_to_a_row() {
        let mut sources = sources();
        sources.add(Part::Library, "b.rs", "#[test] fn f77_c() {}");
        let found = check(&catalogue(TWO, 3), &sources).faults;
        assert_eq!(found[0].text, "there is no row 77 for `f77_c`: add it, or rename the test");
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let row = "| 03 | a bar | here | and | there | – |\n";
        let found = faults(&catalogue(&(TWO.to_owned() + row), 4));
        assert!(found[0].starts_with("docs/failures.md:7: this is no row: write `| # |"), "{found:?}");
        let found = faults(&catalogue(TWO, 3).replace("status", "state"));
        assert!(found[0].starts_with("docs/failures.md:3: a table of other columns"), "{found:?}");
        let found = faults(&catalogue(&TWO.replace("| w2 | h |", "| w2 |  |"), 3));
        let said = "02 does not say what goes wrong, or what happens here: say it";
        assert_eq!(found, [format!("docs/failures.md:6: {said}")]);
    }
}
