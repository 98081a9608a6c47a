//! What tools say of a call before anyone is asked about it: the error that its run would give, and nothing is changed.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use common::{Bench, text};
use playhouse_protocol::ToolError;
use playhouse_tools::{Sandbox, SandboxRules, default_tools};
use serde_json::{Value, json};

fn edit(path: &str, old: &str) -> Value {
    json!({"path": path, "edits": [{"old_text": old, "new_text": "new"}]})
}

fn write(path: &str) -> Value {
    json!({"path": path, "content": "x"})
}

/// Everything beneath a folder, with the content of files.
fn all_beneath(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let content = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.push((path.display().to_string(), content));
        if entry.file_type().unwrap().is_dir() {
            found.extend(all_beneath(&path));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn what_would_fail_is_said_in_the_words_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (cwd, outside) = (folder.path().join("work"), folder.path().join("outside"));
    fs::create_dir_all(cwd.join("folder")).unwrap();
    fs::create_dir_all(cwd.join(".git")).unwrap();
    fs::create_dir_all(cwd.join("kept")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(cwd.join("a.txt"), "one two two").unwrap();
    fs::write(cwd.join("kept/key"), "x").unwrap();
    fs::write(cwd.join("binary"), b"a\0b").unwrap();
    symlink(".git", cwd.join("link")).unwrap();
    let rules = SandboxRules { hidden: vec![cwd.join("kept")], ..SandboxRules::default() };
    let sandbox = Sandbox { rules: Arc::new(rules), ..Sandbox::default() };
    let mut bench = Bench::confined(&cwd, sandbox).await;
    let failing = [
        ("edit_file", edit("a.txt", "three")),
        ("edit_file", edit("a.txt", "two")),
        ("edit_file", edit("a.txt", "new")),
        ("edit_file", edit("gone.txt", "one")),
        ("edit_file", edit("folder", "one")),
        ("edit_file", edit("binary", "a")),
        ("edit_file", edit("../outside/a.txt", "one")),
        ("edit_file", edit("kept/key", "x")),
        ("write_file", write("a.txt")),
        ("write_file", write("folder")),
        ("write_file", write("../outside/a.txt")),
        ("write_file", write("kept/deep/down")),
        ("write_file", write("link/config")),
        ("write_file", write("a.txt/below")),
        ("write_file", json!({"path": "b.txt", "content": "x".repeat(1_000_001)})),
        ("read_file", json!({"path": "gone.txt"})),
        ("read_file", json!({"path": "kept/key"})),
        ("read_file", json!({"path": "a.txt", "offset": 1, "byte_offset": 1})),
        ("list_files", json!({"path": "gone"})),
        ("list_files", json!({"path": "a.txt"})),
        ("search", json!({"pattern": "("})),
        ("search", json!({"pattern": "x", "path": "gone"})),
        ("bash", json!({"command": "rm -rf /"})),
    ];
    let before = all_beneath(folder.path());
    for (name, args) in &failing {
        let looked = bench.check(name, args.clone()).await;
        let said = looked.expect_err(&format!("{name} {args}"));
        assert_eq!(all_beneath(folder.path()), before, "{name} {args} changed something");
        assert_eq!(bench.run(name, args.clone()).await, Err(said), "{name} {args}");
    }
}

#[tokio::test]
async fn what_may_work_is_let_through_and_nothing_is_done() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one two two").unwrap();
    fs::write(folder.path().join("b.txt"), "known").unwrap();
    let mut bench = Bench::in_house(default_tools(), "test-house", folder.path().to_owned()).await;
    bench.run("read_file", json!({"path": "b.txt"})).await.unwrap();
    let before = all_beneath(folder.path());
    for (name, args) in [
        ("edit_file", edit("a.txt", "one")),
        ("write_file", write("new.txt")),
        ("write_file", write("deep/down/new.txt")),
        ("write_file", write("b.txt")),
        ("read_file", json!({"path": "a.txt"})),
        ("list_files", json!({})),
        ("search", json!({"pattern": "one"})),
        ("bash", json!({"command": "touch c.txt"})),
        ("no_such_tool", json!({})),
    ] {
        assert_eq!(bench.check(name, args.clone()).await, Ok(()), "{name} {args}");
    }
    assert_eq!(all_beneath(folder.path()), before);
    bench.run("write_file", write("deep/down/new.txt")).await.unwrap();
    bench.run("edit_file", edit("a.txt", "one")).await.unwrap();
}

#[tokio::test]
async fn a_command_alone_whose_program_is_not_there_is_said_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plain"), "x").unwrap();
    let mut bench = Bench::in_house(default_tools(), "test-house", folder.path().to_owned()).await;
    for (command, words) in [
        ("no-such-program-here x", "no-such-program-here: command not found"),
        ("./gone.sh", "./gone.sh: No such file or directory"),
        ("./plain", "./plain: Permission denied"),
    ] {
        let args = json!({ "command": command });
        let Err(ToolError::Failed(said)) = bench.check("bash", args.clone()).await else { panic!("{command}") };
        assert!(said.starts_with(&format!("bash: {words}")), "{said}");
        let ran = bench.run("bash", args).await;
        assert!(text(&ran).contains(words), "the shell says the same: {ran:?}");
    }
    for command in [
        "no-such-program-here || true",
        "touch made && ./made",
        "cd .. && ./x",
        "no-such-program-here $X",
        "cd nowhere",
        "true",
        "ls -l",
    ] {
        assert_eq!(bench.check("bash", json!({ "command": command })).await, Ok(()), "{command}");
    }
}
