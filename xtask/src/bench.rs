//! `cargo xtask bench`: builds the benchmark in release and runs it: the table, then what a turn allocates.

use std::path::Path;
use std::process::ExitCode;

use crate::cargo;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// What stands in `docs/performance.md`: about ten minutes.
    Full,
    /// Less than a minute, for a look.
    Short,
}

/// Runs both programs of `benches/`; the second also when the first failed, so that one look shows everything.
pub fn run(root: &Path, length: Length) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for program in ["playhouse-bench", "playhouse-allocations"] {
        let mut command = cargo::command();
        command.args(["run", "--locked", "--quiet", "--release", "--package", "playhouse-bench", "--bin", program]);
        match length {
            Length::Full => {}
            Length::Short => drop(command.args(["--", "--short"])),
        }
        match command.current_dir(root).status() {
            Ok(status) if status.success() => {}
            Ok(_) => code = ExitCode::FAILURE,
            Err(error) => {
                eprintln!("error: {} did not start: {error}", cargo::name().display());
                return ExitCode::FAILURE;
            }
        }
    }
    code
}
