//! How many crates are compiled before a demo or a program runs: each costs whoever builds it seconds.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::catalogue::{Fault, Findings};
use crate::sources::Unreadable;

/// What only the command line needs.
pub const COMMAND_LINE: [&str; 4] = ["clap", "tempfile", "toml_edit", "tracing-subscriber"];

/// Something that is built, the most crates that it may take, and those that it may not.
struct Build {
    package: &'static str,
    /// Goes up only together with what that buys, said in CHANGELOG.md.
    most: usize,
    without: &'static [&'static str],
}

const BUILDS: [Build; 2] = [
    // The program. The lock file holds idna_adapter at 1.0: later ones bring 21 crates for host names beyond ASCII. Help that is
    // wrapped at the width of the terminal takes terminal_size, completions take clap_complete.
    Build { package: "playhouse", most: 238, without: &[] },
    // The library alone, for a program of someone else's.
    Build { package: "playhouse-outside", most: 216, without: &COMMAND_LINE },
];

/// Counts the crates of each build, and compares.
pub fn of(root: &Path) -> Result<Findings, Unreadable> {
    let mut findings = Findings::default();
    for Build { package, most, without } in &BUILDS {
        let crates = crates(root, package)?;
        let count = crates.len();
        findings.list.push(format!("{package}: {count} crates of at most {most}"));
        let mut fault = |text| findings.faults.push(Fault { file: (*package).to_owned(), line: None, text });
        if count > *most {
            fault(format!(
                "takes {count} crates, and at most {most} are allowed: leave out what is not needed, or say in \
                 xtask/src/crates.rs and CHANGELOG.md what the others buy"
            ));
        }
        for name in among(&crates, without) {
            fault(format!("compiles {name}, which only the command line needs: put it behind the feature `cli`"));
        }
    }
    findings.summary = findings.list.join("; ");
    Ok(findings)
}

/// The crates that are compiled for a package, with their versions, on this system; itself included.
fn crates(root: &Path, package: &str) -> Result<BTreeSet<String>, Unreadable> {
    let unreadable = |error| Unreadable { path: root.join("Cargo.lock"), error };
    let mut command = crate::cargo::command();
    command.args(["tree", "--locked", "--package", package]).current_dir(root);
    listed(command).map_err(unreadable)
}

/// Which of these names are names of crates in a list.
pub fn among<'a>(crates: &'a BTreeSet<String>, names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    names.iter().copied().filter(|name| crates.iter().any(|line| line.split(' ').next() == Some(*name)))
}

/// The crates that a `cargo tree` gives, with their versions.
pub fn listed(mut tree: Command) -> io::Result<BTreeSet<String>> {
    let output = tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // A name and a version; what follows says where it is.
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Ok(text.lines().filter(|line| !line.is_empty()).map(name).collect())
}
