//! The program as it is called, with a cargo that only writes down what it was asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the program in a workspace of `folder`, with a cargo of the test's.
fn xtask(args: &[&str], folder: &Path, cargo: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).env("CARGO", cargo).env("CARGO_MANIFEST_DIR", folder.join("xtask"));
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

const README: &str = "```toml\n[dependencies]\nplayhouse = { path = \"../playhouse\" }\n```\n";

/// A small workspace: one test, one name, and both catalogues as they should be.
fn workspace(name: &str) -> PathBuf {
    let folder = folder(name);
    for folder in ["src", "docs/lineage", "examples"].map(|part| folder.join(part)) {
        fs::create_dir_all(folder).unwrap();
    }
    let source = "pub fn prompt() {}\n#[test]\nfn f01_a_cut_stream_is_no_answer() {}\n";
    fs::write(folder.join("src/lib.rs"), source).unwrap();
    let later: String = (2..=67).map(|n| format!("| {n:02} | w | h | later: legs | – |\n")).collect();
    let first = "| 01 | a cut stream | asked again | covered | `f01_a_cut_stream_is_no_answer` |";
    let head = "| # | what goes wrong | here | status | shown by |\n|---|---|---|---|---|";
    fs::write(folder.join("docs/failures.md"), format!("{head}\n{first}\n{later}")).unwrap();
    fs::write(folder.join("docs/lineage.md"), "[peer](lineage/peer.md)\n").unwrap();
    let row = "| `ask()` | api | `prompt` | `f01_a_cut_stream_is_no_answer` |";
    let head = "| theirs | kind | ours | shown by |\n|---|---|---|---|";
    fs::write(folder.join("docs/lineage/peer.md"), format!("{head}\n{row}\n")).unwrap();
    for (file, text) in
        [("README.md", README), ("Cargo.lock", "version = 4\n"), ("examples/hello.rs", "fn main() {}\n")]
    {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
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
fn cargo_failing_at(command: &str, code: u8, folder: &Path) -> (PathBuf, PathBuf) {
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
        (&["outside"], "error: `outside` takes `providers`\n"),
        (&["ci", "--fast"], "error: `ci` takes no argument, and was given `--fast`\n"),
        (&["lineage", "--all"], "error: `lineage` takes no argument, and was given `--all`\n"),
    ] {
        let (code, stdout, stderr) = xtask(args, Path::new("/nowhere"), Path::new("/nowhere"));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(stderr.starts_with(why) && stderr.contains("usage: cargo xtask COMMAND"), "{stderr}");
    }
}

#[test]
fn the_first_failure_ends_it_with_its_code() {
    let folder = workspace("fails-at-clippy");
    let (cargo, log) = cargo_failing_at("clippy", 7, &folder);
    let (code, stdout, stderr) = xtask(&["ci"], &folder, &cargo);
    assert_eq!(code, Some(7), "{stdout}{stderr}");
    assert_eq!(fs::read_to_string(log).unwrap(), "fmt\ntree\ntree\ncheck\nclippy\n");
    assert!(stdout.contains("=== format: passed in ") && stdout.contains("=== clippy: cargo clippy"), "{stdout}");
    assert_eq!(stderr, "\nerror: `clippy` did not pass (exit code 7); see above\n");
}

#[test]
fn everything_is_run_in_order_and_timed() {
    let folder = workspace("fails-at-nothing");
    let (cargo, log) = cargo_failing_at("nothing", 1, &folder);
    let (code, stdout, stderr) = xtask(&["ci"], &folder, &cargo);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert_eq!(
        fs::read_to_string(log).unwrap(),
        "fmt\ntree\ntree\ncheck\nclippy\nclippy\nbuild\ntest\ntest\ntree\nrun\ntest\ntest\ndoc\n"
    );
    assert!(stdout.contains("=== everything passed in "), "{stdout}");
    let catalogues = ["67 failures: 1 covered, 0 partly, 66 later; 1 tests", "1 rows: 1 here, 0 later, 0 not"];
    assert!(catalogues.iter().all(|summary| stdout.contains(summary)), "{stdout}");
}

#[test]
fn a_fault_in_a_catalogue_ends_ci_before_anything_is_built() {
    let folder = workspace("fails-at-lineage");
    let (cargo, log) = cargo_failing_at("nothing", 1, &folder);
    fs::write(folder.join("src/lib.rs"), "#[test]\nfn f01_a_cut_stream_is_no_answer() {}\n").unwrap();
    let (code, stdout, stderr) = xtask(&["ci"], &folder, &cargo);
    assert_eq!((code, fs::read_to_string(log).unwrap().as_str()), (Some(1), "fmt\n"), "{stdout}");
    let fault = "error: docs/lineage/peer.md:3: there is no `prompt` in the sources: use the name it has now\n";
    assert_eq!(stderr, format!("{fault}\nerror: `lineage` did not pass: one fault; see above\n"));
}

#[test]
fn the_catalogues_are_listed_and_faults_exit_1() {
    let folder = workspace("catalogues");
    let run = |command| xtask(&[command], &folder, Path::new("/nowhere"));
    let (code, stdout, stderr) = run("failures");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let first = "01  a cut stream\n    covered\n      f01_a_cut_stream_is_no_answer\n02  w\n    later, with: legs\n";
    assert!(stdout.starts_with(first), "{stdout}");
    assert!(stdout.ends_with("\n67 failures: 1 covered, 0 partly, 66 later; 1 tests\n"), "{stdout}");
    let listed = "docs/lineage/peer.md\n  ask()  →  prompt  [f01_a_cut_stream_is_no_answer]\n";
    let expected = format!("{listed}1 rows: 1 here, 0 later, 0 not\n");
    assert_eq!(run("lineage"), (Some(0), expected.clone(), String::new()));

    fs::write(folder.join("src/lib.rs"), "pub fn prompt() {}\n").unwrap();
    let (code, _, stderr) = run("failures");
    let gone = "`f01_a_cut_stream_is_no_answer`; name the test that shows";
    let (failure, row) = ("docs/failures.md:3", "docs/lineage/peer.md:3");
    let none = "there is no test `f01_…`: write one, or say what is to bring 01";
    assert_eq!(code, Some(1));
    assert_eq!(stderr, format!("error: {failure}: there is no test {gone} 01\nerror: {failure}: {none}\n"));
    assert_eq!(run("lineage"), (Some(1), expected, format!("error: {row}: there is no test {gone} this\n")));

    fs::remove_file(folder.join("docs/lineage.md")).unwrap();
    let (code, stdout, stderr) = run("lineage");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("docs/lineage.md cannot be read"), "{stderr}");
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

#[test]
fn f67_suites_that_look_for_programs_run_where_there_are_none() {
    let folder = workspace("bare");
    let (cargo, suite) = (folder.join("cargo"), folder.join("smoke-0123456789abcdef"));
    let told = |program: &Path| {
        let manifest = folder.join("Cargo.toml");
        format!(r#"{{"manifest_path":"{}","executable":"{}"}}"#, manifest.display(), program.display())
    };
    let other = told(Path::new("/nowhere/other-0123456789abcdef"));
    executable(&cargo, &format!("#!/bin/sh\necho '{}'\necho '{other}'\n", told(&suite)));
    executable(
        &suite,
        "#!/bin/sh\npwd\nfor p in bash rg bwrap git strace perl; do command -v $p >/dev/null && echo has $p; done\n[ -e passes ]\n",
    );
    let (code, stdout, stderr) = xtask(&["bare"], &folder, &cargo);
    assert_eq!(
        (code, stderr.as_str()),
        (Some(1), "\nerror: `bare` did not pass (exit code 1); see above\n"),
        "{stdout}"
    );
    fs::write(folder.join("passes"), "").unwrap();
    let (code, stdout, stderr) = xtask(&["bare"], &folder, &cargo);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let here = folder.display();
    assert_eq!(stdout, format!("--- {} in {here}\n{here}\nhas bash\n", suite.display()));
}

#[test]
fn the_first_program_of_the_readme_is_run_outside_of_the_workspace_and_without_the_command_line() {
    let folder = workspace("program");
    let cargo = folder.join("cargo");
    // Says where it is and what is there, and fails where there is no lock file; its tree has the crates of a file.
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != tree ] || exec cat '{}/crates'\npwd\ncat Cargo.toml src/main.rs\n[ -e Cargo.lock ]\n",
        folder.display()
    );
    executable(&cargo, &script);
    fs::write(folder.join("crates"), "clap_lex v1.0.0\nserde v1.0.0\n").unwrap();
    let (code, stdout, stderr) = xtask(&["program"], &folder, &cargo);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let mut lines = stdout.lines();
    let there = Path::new(lines.next().unwrap());
    assert!(!there.starts_with(&folder) && !there.exists(), "{stdout}");
    let dependency = format!("playhouse = {{ path = {folder:?}, default-features = false }}");
    assert!(stdout.contains(&dependency) && stdout.ends_with("\nfn main() {}\n"), "{stdout}");

    fs::write(folder.join("crates"), "clap v4.0.0\nserde v1.0.0\n").unwrap();
    let (code, _, stderr) = xtask(&["program"], &folder, &cargo);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("error: a program without the command line compiles clap: "), "{stderr}");

    fs::write(folder.join("README.md"), "```toml\n[dependencies]\nplayhouse = { git = \"…\" }\n```\n").unwrap();
    let (code, _, stderr) = xtask(&["program"], &folder, &cargo);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("which a reader with a clone can copy"), "{stderr}");
}

/// A cargo whose tree has this many crates, and one more.
fn cargo_with_tree(crates: usize, one_more: &str, folder: &Path) -> PathBuf {
    let cargo = folder.join("cargo");
    let script = format!(
        "#!/bin/sh\nfor n in $(seq {crates}); do echo \"c$n v1.0.0\"; echo \"c$n v1.0.0 (*)\"; done\necho '{one_more}'\n"
    );
    executable(&cargo, &script);
    cargo
}

#[test]
fn more_crates_than_are_allowed_are_a_fault_and_so_is_the_command_lines_in_a_library() {
    let folder = folder("crates");
    let (code, stdout, stderr) = xtask(&["crates"], &folder, &cargo_with_tree(9, "c1 v2.0.0", &folder));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.starts_with("playhouse: 10 crates of at most "), "{stdout}");

    let (code, _, stderr) = xtask(&["crates"], &folder, &cargo_with_tree(9, "clap v4.0.0", &folder));
    assert_eq!(code, Some(1));
    let fault = "playhouse-outside: compiles clap, which only the command line needs: put it behind the feature `cli`";
    assert_eq!(stderr, format!("error: {fault}\n"));

    let (code, _, stderr) = xtask(&["crates"], &folder, &cargo_with_tree(999, "clap_derive v4.0.0", &folder));
    assert_eq!(code, Some(1));
    assert_eq!(stderr.matches("takes 1000 crates, and at most ").count(), 2, "{stderr}");

    // The real ones are held to the numbers too.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (code, stdout, stderr) = xtask(&["crates"], root, Path::new(env!("CARGO")));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
}
