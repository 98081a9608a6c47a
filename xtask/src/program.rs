//! A reader's first program: the dependencies and the `hello` of the README in a folder outside of the workspace, with
//! the library alone. It must compile nothing that only the command line needs, and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::bare::passed;
use crate::ci::Failure;
use crate::crates::{COMMAND_LINE, among, listed};
use crate::sources::Unreadable;

/// What the README says of a clone; here it is this one.
const CLONE: &str = "path = \"../playhouse\"";

/// Makes the program, looks at its crates, and runs it.
pub fn run(name: &'static str, root: &Path) -> Result<(), Failure> {
    let program = Program::new(root).map_err(Failure::Unreadable)?;
    let unreadable = |error| Failure::Unreadable(Unreadable { path: program.0.clone(), error });
    let crates = listed(program.cargo(root, "tree")).map_err(unreadable)?;
    let surplus: Vec<&str> = among(&crates, &COMMAND_LINE).collect();
    for name in &surplus {
        eprintln!("error: a program without the command line compiles {name}: put it behind the feature `cli`");
    }
    match surplus.len() {
        0 => passed(name, &mut program.cargo(root, "run")),
        count => Err(Failure::Faults { name, count }),
    }
}

/// The program's folder, which goes with this.
struct Program(PathBuf);

impl Program {
    fn new(root: &Path) -> Result<Self, Unreadable> {
        let folder = env::temp_dir().join(format!("playhouse-program-{}", std::process::id()));
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |error| Unreadable { path, error }
        };
        let readme = root.join("README.md");
        let text = fs::read_to_string(&readme).map_err(unreadable(&readme))?;
        let manifest = manifest(&text, root).ok_or_else(|| {
            let why = format!("it has no `[dependencies]` with `{CLONE}`, which a reader with a clone can copy");
            unreadable(&readme)(io::Error::other(why))
        })?;
        let program = Self(folder);
        let folder = &program.0;
        fs::create_dir_all(folder.join("src")).map_err(unreadable(folder))?;
        fs::write(folder.join("Cargo.toml"), manifest).map_err(unreadable(folder))?;
        // The versions that the workspace was tested with, which are there already.
        for (from, to) in [("Cargo.lock", "Cargo.lock"), ("examples/hello.rs", "src/main.rs")] {
            let from = root.join(from);
            fs::copy(&from, folder.join(to)).map_err(unreadable(&from))?;
        }
        Ok(program)
    }

    /// A command of cargo about the program. What it shares with the workspace is built once: in the same folder and with
    /// the same debugging information.
    fn cargo(&self, root: &Path, command: &str) -> Command {
        let mut cargo = crate::cargo::command();
        cargo.args([command, "--offline"]).current_dir(&self.0).env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        if env::var_os("CARGO_TARGET_DIR").is_none() {
            cargo.env("CARGO_TARGET_DIR", root.join("target"));
        }
        cargo
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A manifest with the dependencies of the README, of this clone and without the command line.
fn manifest(readme: &str, root: &Path) -> Option<String> {
    let (_, after) = readme.split_once("```toml\n[dependencies]\n")?;
    let (dependencies, _) = after.split_once("```")?;
    let (before, after) = dependencies.split_once(CLONE)?;
    let package = "[package]\nname = \"playhouse-program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let clone = format!("path = {:?}, default-features = false", root.display().to_string());
    Some(format!("{package}\n[dependencies]\n{before}{clone}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_the_dependencies_of_the_readme_and_this_clone() {
        let readme = "# A\n```toml\n[dependencies]\na = { path = \"../playhouse\" } # yours\nb = \"1\"\n```\nmore\n";
        let package = "[package]\nname = \"playhouse-program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        let dependencies = "a = { path = \"/x\", default-features = false } # yours\nb = \"1\"\n";
        let expected = format!("{package}\n[dependencies]\n{dependencies}");
        assert_eq!(manifest(readme, Path::new("/x")), Some(expected));
        assert_eq!(manifest("```toml\n[dependencies]\na = { git = \"…\" }\n```\n", Path::new("/x")), None);
    }
}
