//! Bad input: one line on what is wrong and what to do, exit code 2, nothing made.

use serde_json::json;

use super::support::Desk;

#[test]
fn a_model_that_cannot_be_used_is_refused() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "ok"}]));
    desk.run(&["run", "a"]).refused(&["--model", "--script"]);
    desk.run(&["run", "a", "--model", "mystery/one"]).refused(&["`mystery`", "playhouse models"]);
    desk.run(&["run", "a", "--model", "gpt"]).refused(&["`gpt`", "PROVIDER/ID"]);
    desk.run(&["run", "a", "--model", "openai/gpt"]).refused(&["OPENAI_API_KEY"]);
    let elsewhere = ["run", "a", "--model", "openai/gpt", "--base-url", "http://models.example/v1"];
    desk.run(&elsewhere).refused(&["OPENAI_API_KEY"]);
    desk.run(&["run", "a", "--model", "openai/gpt", "--base-url", "nonsense"]).refused(&["base URL"]);
    desk.run(&["run", "a", "--script", &script, "--base-url", "http://127.0.0.1:1"]).refused(&["--base-url"]);
    desk.run(&["run", "a", "--script", &script, "--model", "openai/x"]).refused(&["--script", "--model"]);
    assert!(!desk.data().exists(), "nothing was made");
    desk.run(&["run", "a", "--model", &format!("scripted/{script}")]).said("ok\n");
}

#[test]
fn a_script_that_cannot_be_used_is_refused() {
    let desk = Desk::new();
    let script = |turns| desk.script("bad.json", turns);
    desk.run(&["run", "a", "--script", "missing.json"]).refused(&["missing.json", "cannot be read"]);
    desk.run(&["run", "a", "--script", "."]).refused(&["cannot be read"]);
    let bad = script(json!([{"text": "fine"}, {"txt": "oops"}]));
    desk.run(&["run", "a", "--script", &bad]).refused(&["bad.json", "step 2", "`txt`"]);
    desk.write("bad.json", "{");
    desk.run(&["run", "a", "--script", "bad.json"]).refused(&["no JSON"]);
    assert!(!desk.data().exists(), "nothing was made");
}

#[test]
fn flags_that_cannot_be_are_refused() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "ok"}]));
    let with = |flags: &[&str]| desk.run(&[&["run", "a", "--script", &script], flags].concat());
    with(&["--tools", "bahs"]).refused(&["`bahs`", "did you mean `bash`?"]);
    with(&["--tools", ""]).refused(&["--tools", "none"]);
    with(&["--permission", "maybe"]).refused(&["'maybe'", "strict, ask, auto-safe, yolo"]);
    with(&["--durability", "some"]).refused(&["'some'", "flush, os, none"]);
    with(&["--max-turns", "0"]).refused(&["--max-turns"]);
    with(&["--max-turns", "many"]).refused(&["--max-turns"]);
    with(&["--cwd", "nowhere"]).refused(&["nowhere", "directory"]);
    with(&["--cwd", "s.json"]).refused(&["s.json", "directory"]);
    with(&["--session", "x", "--continue"]).refused(&["--session", "--continue"]);
    with(&["--accept-broken-chain"]).refused(&["--session", "--continue"]);
    with(&["--session", "../x"]).refused(&["no session id"]);
    with(&["--session", "unknown"]).refused(&["no session `unknown`"]);
    with(&["--colour"]).refused(&["--colour"]);
    desk.run(&["resume", "unknown"]).refused(&["no session `unknown`"]);
    desk.run(&["resume", "a/b"]).refused(&["no session id"]);
    desk.run(&["sessions", "show", "unknown"]).refused(&["no session `unknown`"]);
    desk.run(&["fly"]).refused(&["fly"]);
}

#[test]
fn f34_a_data_directory_that_cannot_be_used_is_refused() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "ok"}]));
    let run = |folder: &str| desk.run(&["run", "a", "--script", &script, "--data-dir", folder]);
    desk.write("file", "not a folder");
    run("file").refused(&["file", "not a folder", "data directory"]);
    run("file/below").refused(&["file", "data directory"]);
    std::os::unix::fs::symlink(desk.work(), desk.work().join("link")).unwrap();
    run("link").refused(&["link", "symbolic link"]);
    // Not even root can write there.
    run("/proc/playhouse").refused(&["/proc/playhouse", "data directory"]);
    desk.run(&["sessions", "list", "--data-dir", "file"]).refused(&["file", "not a folder"]);
    desk.run(&["resume", "--data-dir", "file"]).refused(&["file", "not a folder"]);
}

#[test]
fn help_and_version_are_there() {
    let desk = Desk::new();
    let version = desk.run(&["--version"]);
    version.said(&format!("playhouse {}\n", env!("CARGO_PKG_VERSION")));
    for args in [&["--help"][..], &["run", "--help"], &["resume", "--help"]] {
        let help = desk.run(args);
        assert!(help.code == Some(0) && help.out.contains("Exit codes:\n  0    done"), "{help:?}");
    }
    for args in [&[][..], &["sessions"]] {
        let help = desk.run(args);
        assert!(help.code == Some(2) && help.out.is_empty() && help.err.contains("Usage:"), "{help:?}");
    }
}
