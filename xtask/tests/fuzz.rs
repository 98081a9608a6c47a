//! `cargo xtask fuzz` with a cargo that only writes down what it was asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A workspace with two targets, and a cargo that fails for one of them.
fn workspace(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("fuzz/src/targets")).unwrap();
    for target in ["paths", "output"] {
        fs::write(folder.join(format!("fuzz/src/targets/{target}.rs")), "").unwrap();
    }
    let cargo = folder.join("cargo");
    let written = "echo \"$FUZZ_TARGET $RUSTFLAGS $TMPDIR $@ $FUZZ_SEEDS\" >>log\n\
                   echo \"$PLAYHOUSE_SECONDS:$PLAYHOUSE_LINES:$PLAYHOUSE_SEED $@\" >>bounds\n\
                   [ \"$PLAYHOUSE_SEED\" != 13 ] || exit 101";
    fs::write(&cargo, format!("#!/bin/sh\n{written}\n[ \"$FUZZ_TARGET\" != paths ] || exit 77\n")).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// What it exits with, what it says on stderr, and what cargo was asked.
fn fuzz(folder: &Path, args: &[&str]) -> (Option<i32>, String, Vec<String>) {
    let _ = fs::remove_file(folder.join("log"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("fuzz").args(args).env("CARGO", folder.join("cargo")).env_remove("CARGO_TARGET_DIR");
    let output = command.env("CARGO_MANIFEST_DIR", folder.join("xtask")).output().unwrap();
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let lines = log.lines().map(str::to_owned).collect();
    (output.status.code(), String::from_utf8(output.stderr).unwrap(), lines)
}

#[test]
fn every_target_is_looked_at_with_coverage_even_when_one_finds_something() {
    let folder = workspace("fuzz-all");
    let (code, stderr, asked) = fuzz(&folder, &["--seconds", "7"]);
    let again = "if it found an input, `cargo xtask fuzz --target paths --input FILE` plays it again";
    assert_eq!((code, stderr), (Some(1), format!("error: `paths` ended with 77; {again}\n")));
    assert_eq!(asked.len(), 2, "{asked:?}");
    let built = folder.join("target/fuzz");
    for (line, target) in asked.iter().zip(["output", "paths"]) {
        let told = [
            format!("{target} -Cpasses=sancov-module "),
            format!(" {} run --locked ", built.join("tmp").display()),
            " --package playhouse-fuzz --features libfuzzer --profile fuzz --target ".to_owned(),
            format!(" --target-dir {} -- {} ", built.display(), built.join("corpus").join(target).display()),
            " -max_total_time=7 ".to_owned(),
            format!(" -artifact_prefix={}- ", built.join("found").join(target).display()),
        ];
        let seeds = format!(" {}", built.join("corpus").join(target).display());
        assert!(
            line.ends_with(&seeds) && line.starts_with(&told[0]) && told.iter().all(|part| line.contains(part)),
            "{line}\n{told:#?}"
        );
    }
}

#[test]
fn one_target_is_looked_at_or_plays_one_input_again() {
    let folder = workspace("fuzz-one");
    let (code, stderr, asked) = fuzz(&folder, &["--target", "output", "--seconds", "7"]);
    assert_eq!((code, stderr.as_str(), asked.len()), (Some(0), "", 1));
    assert!(asked[0].starts_with("output "), "{asked:?}");
    let (code, stderr, asked) = fuzz(&folder, &["--target", "paths", "--input", "some/file"]);
    assert_eq!((code, stderr.as_str()), (Some(1), "error: `paths` ended with 77; see above\n"));
    assert!(asked.len() == 1 && asked[0].ends_with(" -- some/file "), "{asked:?}");
}

#[test]
fn what_cannot_be_done_is_refused_with_the_usage() {
    let folder = workspace("fuzz-refused");
    for (args, why) in [
        (&[][..], "`fuzz` needs `--seconds N`"),
        (&["--seconds"], "`--seconds` needs a value"),
        (&["--seconds", "0"], "at least 1"),
        (&["--seconds", "many"], "at least 1"),
        (&["--minutes", "1"], "`fuzz` knows no `--minutes`"),
        (&["--input", "file"], "`--input` needs `--target`"),
        (&["--target", "paths", "--input", "file", "--seconds", "1"], "choose"),
        (&["--target", "pahts", "--seconds", "1"], "there is no target `pahts`: output, paths"),
    ] {
        let (code, stderr, asked) = fuzz(&folder, args);
        assert_eq!((code, asked.len()), (Some(2), 0), "{args:?}: {stderr}");
        assert!(stderr.contains(why) && stderr.contains("usage: cargo xtask COMMAND"), "{args:?}: {stderr}");
    }
}

#[test]
fn readers_are_run_for_a_time_or_a_number_of_lines_and_a_seed_makes_the_same_again() {
    let folder = workspace("fuzz-readers");
    let readers = |args: &[&str]| {
        let _ = fs::remove_file(folder.join("bounds"));
        let (code, stderr, _) = fuzz(&folder, &[&["readers"], args].concat());
        (code, stderr, fs::read_to_string(folder.join("bounds")).unwrap_or_default())
    };
    let test = "test --locked --quiet --package playhouse-tools --test shell f62_";
    let (code, stderr, asked) = readers(&["--seconds", "7"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(asked.starts_with("7::") && asked.contains(test), "{asked}");
    let (code, stderr, asked) = readers(&["--lines", "100000", "--seed", "13"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("`--seed 13` makes the same lines again"), "{stderr}");
    assert!(asked.starts_with(":100000:13 ") && asked.contains(test), "{asked}");
    for (args, why) in [
        (&[][..], "needs `--seconds N` or `--lines N`"),
        (&["--seconds", "0"], "at least 1"),
        (&["--lines", "many"], "`--lines` is a whole number"),
        (&["--seconds", "1", "--lines", "1"], "choose"),
        (&["--target", "1"], "knows no `--target`"),
    ] {
        let (code, stderr, asked) = readers(args);
        assert_eq!((code, asked.as_str()), (Some(2), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(why) && stderr.contains("usage: cargo xtask COMMAND"), "{args:?}: {stderr}");
    }
}
