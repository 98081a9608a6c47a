//! `cargo xtask bench` with a cargo that only writes down what it was asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

#[test]
fn both_programs_are_run_in_release_even_when_the_first_fails() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (cargo, log) = (folder.join("cargo"), folder.join("log"));
    fs::write(&cargo, format!("#!/bin/sh\necho \"$@\" >>'{}'\nexit 1\n", log.display())).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(args).env("CARGO", &cargo).env("CARGO_MANIFEST_DIR", folder.join("xtask"));
        let code = command.output().unwrap().status.code();
        (code, fs::read_to_string(&log).unwrap_or_default())
    };
    let first = "run --locked --quiet --release --package playhouse-bench --bin playhouse-bench";
    let second = "run --locked --quiet --release --package playhouse-bench --bin playhouse-allocations";
    assert_eq!(run(&["bench"]), (Some(1), format!("{first}\n{second}\n")));
    fs::remove_file(&log).unwrap();
    assert_eq!(run(&["bench", "--short"]), (Some(1), format!("{first} -- --short\n{second} -- --short\n")));
    fs::remove_file(&log).unwrap();
    assert_eq!(run(&["bench", "--long"]), (Some(2), String::new()));
}
