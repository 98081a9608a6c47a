//! `cargo xtask outside providers`: holds the requests of every service against the types of the vendors' own libraries.
//!
//! It needs Python 3.11 and the package index, so it is no part of `ci`. The libraries go into `target/outside/venv`.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::cargo;

/// Where the script, its list of libraries and the list of differences are.
const PLACE: &str = "tests/outside/providers";

/// Why the check did not run to its end.
#[derive(Debug)]
pub struct Broken(String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fetches the libraries unless they are there, writes every request to a file, and checks them.
pub fn providers(root: &Path) -> Result<ExitCode, Broken> {
    let folder = root.join("target/outside");
    let (venv, requests) = (folder.join("venv"), folder.join("requests.jsonl"));
    let wanted = root.join(PLACE).join("requirements.txt");
    fs::create_dir_all(&folder).map_err(|error| Broken(format!("{}: {error}", folder.display())))?;
    let python = venv.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
        .arg(&wanted))?;
    let mut dump = cargo::command();
    dump.args(["run", "--locked", "--quiet", "--package", "playhouse-provider", "--features", "request-rules"]);
    dump.args(["--example", "requests"]).current_dir(root);
    let written = dump.output().map_err(|error| Broken(format!("cargo did not start: {error}")))?;
    if !written.status.success() {
        return Err(Broken(format!("the requests were not written: {}", String::from_utf8_lossy(&written.stderr))));
    }
    fs::write(&requests, written.stdout).map_err(|error| Broken(format!("{}: {error}", requests.display())))?;
    let place = root.join(PLACE);
    let mut check = Command::new(&python);
    check.arg(place.join("check.py")).arg(&requests).arg(place.join("differences.toml"));
    let status = check.status().map_err(|error| Broken(format!("{} did not start: {error}", python.display())))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(command: &mut Command) -> Result<(), Broken> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Broken(format!("{name} ended with {status}: it needs Python 3.11 and the package index"))),
        Err(error) => Err(Broken(format!("{name} did not start: {error}"))),
    }
}
