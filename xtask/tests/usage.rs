//! The program as it is called, with a cargo that only writes down what it was asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn xtask(args: &[&str], cargo: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).env("CARGO", cargo).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn executable(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A cargo that appends the commands it is given to a file, and fails at one of them.
fn cargo_failing_at(command: &str, code: u8) -> (PathBuf, PathBuf) {
    let folder = folder(&format!("fails-at-{command}"));
    let (cargo, log) = (folder.join("cargo"), folder.join("log"));
    let script = format!("#!/bin/sh\necho \"$1\" >>'{}'\n[ \"$1\" != {command} ] || exit {code}\n", log.display());
    executable(&cargo, &script);
    (cargo, log)
}

#[test]
fn an_unknown_command_prints_the_usage_and_exits_2() {
    for (args, why) in [
        (&["dance"][..], "error: there is no command `dance`\n"),
        (&[], "error: there is no command\n"),
        (&["ci", "--fast"], "error: `ci` takes no argument, and was given `--fast`\n"),
    ] {
        let (code, stdout, stderr) = xtask(args, Path::new("/nowhere"));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(stderr.starts_with(why) && stderr.contains("usage: cargo xtask ci"), "{stderr}");
    }
}

#[test]
fn the_first_failure_ends_it_with_its_code() {
    let (cargo, log) = cargo_failing_at("clippy", 7);
    let (code, stdout, stderr) = xtask(&["ci"], &cargo);
    assert_eq!(code, Some(7), "{stdout}{stderr}");
    assert_eq!(fs::read_to_string(log).unwrap(), "fmt\ncheck\nclippy\n");
    assert!(stdout.contains("=== format: passed in ") && stdout.contains("=== clippy: cargo clippy"), "{stdout}");
    assert_eq!(stderr, "\nerror: `clippy` did not pass (exit code 7); see above\n");
}

#[test]
fn everything_is_run_in_order_and_timed() {
    let (cargo, log) = cargo_failing_at("nothing", 1);
    let (code, stdout, stderr) = xtask(&["ci"], &cargo);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert_eq!(fs::read_to_string(log).unwrap(), "fmt\ncheck\nclippy\ntest\ntest\ndoc\n");
    assert!(stdout.contains("=== everything passed in "), "{stdout}");
}

#[test]
fn a_tool_that_is_missing_is_named_with_its_package() {
    let folder = folder("no-tools");
    executable(&folder.join("cargo-fmt"), "#!/bin/sh\n");
    executable(&folder.join("cargo-clippy"), "#!/bin/sh\n");
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("ci").env("PATH", &folder).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("tests need `bash`: install it (on Debian: apt-get install bash)"), "{stderr}");
}
