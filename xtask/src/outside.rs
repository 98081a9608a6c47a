//! `cargo xtask outside providers`: holds the requests of every service, and what is read of their answers, against the
//! types of the vendors' own libraries.
//!
//! It needs Python 3.11 and the package index, so it is no part of `ci`. The libraries go into `target/outside/venv`.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::cargo;

/// Where the scripts, their list of libraries and the list of differences are.
const PLACE: &str = "tests/outside/providers";

/// Why the check did not run to its end.
#[derive(Debug)]
pub struct Broken(String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fetches the libraries unless they are there, writes every request to a file and checks them; then makes answers of the
/// libraries' types, reads them, and checks what was understood.
pub fn providers(root: &Path) -> Result<ExitCode, Broken> {
    let folder = root.join("target/outside");
    let venv = folder.join("venv");
    let [requests, answers, read] = ["requests", "answers", "read"].map(|name| folder.join(format!("{name}.jsonl")));
    let wanted = root.join(PLACE).join("requirements.txt");
    fs::create_dir_all(&folder).map_err(|error| Broken(format!("{}: {error}", folder.display())))?;
    let python = venv.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
        .arg(&wanted))?;
    let place = root.join(PLACE);
    let differences = place.join("differences.toml");
    save(&requests, &example(root, "requests", Stdio::null())?)?;
    let sent = ends_well(Command::new(&python).arg(place.join("check.py")).arg(&requests).arg(&differences))?;

    let script = place.join("answers.py");
    run(Command::new(&python).arg(&script).arg("write").arg(&answers))?;
    let input = fs::File::open(&answers).map_err(|error| Broken(format!("{}: {error}", answers.display())))?;
    save(&read, &example(root, "answers", Stdio::from(input))?)?;
    let came = ends_well(Command::new(&python).arg(&script).arg("check").args([&answers, &read, &differences]))?;
    Ok(if sent && came { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What an example of the crate of providers prints.
fn example(root: &Path, name: &str, input: Stdio) -> Result<Vec<u8>, Broken> {
    let mut command = cargo::command();
    command.args(["run", "--locked", "--quiet", "--package", "playhouse-provider", "--features", "request-rules"]);
    command.args(["--example", name]).current_dir(root).stdin(input);
    let ended = command.output().map_err(|error| Broken(format!("cargo did not start: {error}")))?;
    match ended.status.success() {
        true => Ok(ended.stdout),
        false => Err(Broken(format!("the example `{name}` failed: {}", String::from_utf8_lossy(&ended.stderr)))),
    }
}

fn save(file: &Path, bytes: &[u8]) -> Result<(), Broken> {
    fs::write(file, bytes).map_err(|error| Broken(format!("{}: {error}", file.display())))
}

/// Whether a check found nothing.
fn ends_well(command: &mut Command) -> Result<bool, Broken> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| Broken(format!("{name} did not start: {error}")))?;
    Ok(status.success())
}

fn run(command: &mut Command) -> Result<(), Broken> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Broken(format!("{name} ended with {status}: it needs Python 3.11 and the package index"))),
        Err(error) => Err(Broken(format!("{name} did not start: {error}"))),
    }
}
