//! What the documents name exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands between backticks on a line of text.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn documents() -> Vec<String> {
    let mut all: Vec<String> = ["README.md", "CONTRIBUTING.md", "docs/architecture.md"].map(str::to_owned).into();
    for entry in fs::read_dir(root().join("actors")).unwrap() {
        all.push(format!("actors/{}/README.md", entry.unwrap().file_name().to_str().unwrap()));
    }
    all
}

/// The names of all functions in the workspace.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for line in fs::read_to_string(&path).unwrap().lines() {
                let Some((_, rest)) = line.split_once("fn ") else { continue };
                let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                found.insert(name.to_owned());
            }
        }
    }
}

#[test]
fn every_invariant_names_tests_that_exist() {
    let mut known = BTreeSet::new();
    for folder in ["actors", "src", "tests"] {
        functions(&root().join(folder), &mut known);
    }
    let text = read("CONTRIBUTING.md");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")).collect();
    assert!(rows.len() >= 15, "{rows:?}");
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit_once(" | ").unwrap().1;
        assert!(quoted(tests).next().is_some(), "no test: {row}");
        for name in quoted(tests) {
            assert!(known.contains(name), "there is no test `{name}`: {row}");
        }
    }
}

#[test]
fn every_file_that_a_document_names_exists() {
    for document in documents() {
        let above = Path::new(&document).parent().unwrap().to_path_buf();
        let text = read(&document);
        for line in text.lines() {
            let words = line.split(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)));
            let is_file = |word: &&str| word.ends_with(".rs") || word.ends_with(".json");
            let paths = words.filter(is_file).filter(|word| word.contains('/') && !word.starts_with("//"));
            for path in paths {
                let near =
                    [root().join(path), root().join(&above).join(path), root().join("actors/agent/src").join(path)];
                assert!(near.iter().any(|path| path.exists()), "{document} names {path}");
            }
        }
    }
}

#[test]
fn the_readme_shows_the_example_as_it_is() {
    let example = read("examples/hello.rs");
    let program = example.split_once("\n\n").unwrap().1.trim();
    assert!(read("README.md").contains(program), "README.md shows another program than examples/hello.rs");
}
