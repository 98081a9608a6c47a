//! What is kept from the file tools, with the real program.

use std::path::PathBuf;

use serde_json::json;

use crate::support::{Desk, Done};

/// A key that lies in a place that is kept from tools.
const CANARY: &str = "canary-of-a-key";

/// A run of the program whose home is where its tools work.
fn at_home(desk: &Desk, args: &[&str]) -> Done {
    let mut command = desk.command(args);
    for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env_remove(name);
    }
    let output = command.env("HOME", desk.work()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A script in which each call has a turn of its own: after five failures in one turn the rest would not run.
fn one_by_one(desk: &Desk, calls: &[serde_json::Value]) -> String {
    let turns = calls.iter().map(|call| json!({"text": "", "tool_calls": [call]})).chain([json!({"text": "Done."})]);
    desk.script("calls.json", turns.collect())
}

#[test]
fn f63_no_file_tool_shows_what_is_kept_from_tools() {
    let desk = Desk::new();
    for path in [".ssh/id_ed25519", ".aws/credentials", ".config/playhouse/config.toml", ".cargo/credentials.toml"] {
        let path = desk.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, CANARY).unwrap();
    }
    std::os::unix::fs::symlink(".ssh", desk.work().join("keys")).unwrap();
    desk.write("notes.txt", "canary-of-nobody\n");
    // Has hidden folders walked like any others.
    desk.write(".ignore", "!.*\n");
    let search = |path: &str| json!({"name": "search", "arguments": {"pattern": "canary", "path": path}});
    let calls = [".", ".config", ".cargo", ".ssh", ".ssh/id_ed25519", "keys", "keys/id_ed25519"].map(search);
    let list = json!({"name": "list_files", "arguments": {"path": ".", "depth": 3}});
    let read = json!({"name": "read_file", "arguments": {"path": "keys/id_ed25519"}});
    let calls: Vec<_> = calls.into_iter().chain([list, read]).collect();
    let script = one_by_one(&desk, &calls);
    let done = at_home(&desk, &["run", "--json", "--permission", "yolo", "--script", &script, "go"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("canary-of-nobody"), "it did search: {done:?}");
    assert!(!done.out.contains(CANARY), "{done:?}");
    assert!(!done.out.contains(".ssh/id_ed25519\\n"), "not even its name is listed: {done:?}");
}

/// What a call of `write_file` is, in a script.
fn write(path: &str) -> serde_json::Value {
    json!({"name": "write_file", "arguments": {"path": path, "content": "written"}})
}

#[test]
fn a_guarded_place_is_changed_by_nobody_who_was_not_asked_about_it() {
    let desk = Desk::new();
    for folder in [".git/hooks", "src/.git", ".claude", "a", "deploy"] {
        std::fs::create_dir_all(desk.work().join(folder)).unwrap();
    }
    std::os::unix::fs::symlink(".git", desk.work().join("link")).unwrap();
    std::os::unix::fs::symlink("../.envrc", desk.work().join("a/innocent")).unwrap();
    std::os::unix::fs::symlink("a", desk.work().join(".vscode")).unwrap();
    desk.write(".git/config", "[core]\n");
    desk.write("AGENTS.md", "Be good.\n");
    let places = [
        ".git/hooks/pre-commit",
        ".GIT/hooks/pre-commit",
        "src/.git/config",
        "a/../.envrc",
        "playhouse.toml",
        ".playhouse/rules.md",
        ".claude/settings.json",
        ".mcp.json",
        "src/CLAUDE.md",
        ".husky/pre-push",
        "link/new",
        "link/deep/new",
        "a/innocent",
        "deploy/prod.yaml",
    ];
    let absolute = desk.work().join(".envrc");
    let mut calls: Vec<_> = places.iter().copied().chain([absolute.to_str().unwrap()]).map(write).collect();
    let edits = json!([{"old_text": "Be good.", "new_text": "Be bad."}]);
    calls.push(json!({"name": "edit_file", "arguments": {"path": "agents.md/../AGENTS.md", "edits": edits}}));
    let edits = json!([{"old_text": "[core]", "new_text": "[core]\nfsmonitor = x"}]);
    calls.push(json!({"name": "edit_file", "arguments": {"path": "link/config", "edits": edits}}));
    calls.extend([write("fine.txt"), write("a/fine.txt"), write(".gitignore")]);
    let script = one_by_one(&desk, &calls);
    let mut command = desk.command(&["run", "--permission", "auto-safe", "--script", &script, "go"]);
    let done = command.env("PLAYHOUSE_GUARDED", "deploy/prod.yaml").output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{told}");
    for place in places.iter().filter(|place| !place.starts_with("link")) {
        assert!(!desk.work().join(place).exists(), "{place}: {told}");
    }
    assert_eq!(std::fs::read_to_string(desk.work().join(".git/config")).unwrap(), "[core]\n");
    assert_eq!(std::fs::read_to_string(desk.work().join("AGENTS.md")).unwrap(), "Be good.\n");
    let in_git: Vec<_> =
        std::fs::read_dir(desk.work().join(".git")).unwrap().flatten().map(|it| it.file_name()).collect();
    assert_eq!(in_git.len(), 2, "{in_git:?}");
    for fine in ["fine.txt", "a/fine.txt", ".gitignore"] {
        assert!(desk.work().join(fine).exists(), "{fine}: {told}");
    }
    assert!(told.contains("it is `.git/new`, which is"), "{told}");
}

#[test]
fn a_guarded_place_is_changed_after_a_yes_and_in_yolo() {
    let desk = Desk::new();
    let script = desk.script("write.json", json!([{"text": "", "tool_calls": [write(".envrc")]}, {"text": "Done."}]));
    let config = desk.work().with_file_name("config.toml");
    std::fs::write(&config, "").unwrap();
    let run = ["run", "--permission", "auto-safe", "--script", script.as_str(), "go"];
    let (code, screen) = desk.on_terminal_answering(&run, &config, "y\r");
    assert_eq!(code, Some(0), "{screen}");
    assert!(
        screen.contains("(dangerous)") && screen.contains("other programs run or follow what is in `.envrc`"),
        "{screen}"
    );
    assert_eq!(std::fs::read_to_string(desk.work().join(".envrc")).unwrap(), "written");
    std::fs::remove_file(desk.work().join(".envrc")).unwrap();
    desk.run(&["run", "--permission", "yolo", "--script", &script, "go"]).said("Done.\n");
    assert!(desk.work().join(".envrc").exists());
}

#[test]
fn a_rule_that_names_a_tool_alone_does_not_open_guarded_places() {
    let desk = Desk::new();
    let script = one_by_one(&desk, &[write(".envrc"), write("AGENTS.md"), write("fine.txt")]);
    let config = desk.work().with_file_name("config.toml");
    let run = |allow: &str| {
        std::fs::write(&config, format!("[permissions]\nallow = {allow}\n")).unwrap();
        let run = ["--config", config.to_str().unwrap(), "run", "--permission", "ask", "--script", &script, "go"];
        assert!(desk.command(&run).output().unwrap().status.success());
        [".envrc", "AGENTS.md", "fine.txt"].map(|name| desk.work().join(name).exists())
    };
    assert_eq!(run(r#"["write_file"]"#), [false, false, true]);
    assert_eq!(run(r#"["write_file(**)"]"#), [false, false, true]);
    assert_eq!(run(r#"["write_file", "write_file(.envrc)"]"#), [true, false, true]);
}

#[test]
fn a_refused_write_leaves_no_folder_behind() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.work().join(".ssh")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", desk.work().join("out")).unwrap();
    let long = format!("new/deep/{}", "x".repeat(300));
    let calls: Vec<_> = [".ssh/new/key", "out/new/x", "made/deep/../../../x", &long].map(write).into();
    let script = one_by_one(&desk, &calls);
    let before = names(&desk);
    let done = at_home(&desk, &["run", "--permission", "yolo", "--script", &script, "go"]);
    assert_eq!((done.code, names(&desk)), (Some(0), before), "{done:?}");
}

/// What lies in the working directory, at any depth.
fn names(desk: &Desk) -> Vec<PathBuf> {
    let (mut names, mut folders) = (Vec::new(), vec![desk.work()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            names.push(entry.path());
        }
    }
    names.sort();
    names
}

#[test]
fn f52_a_secret_is_not_shown_however_a_file_writes_it() {
    let desk = Desk::new();
    let value = "tok/en value+9&\"x\"";
    // In base64 as `base64 -w 20` writes it, with a user's name before it.
    let files = [
        ("lines.txt", "dXNlcjp0b2svZW4gdmFs\ndWUrOSYieCI=\n"),
        ("json.txt", r#"{"k":"tok\/en value+9\u0026\"x\""}"#),
        ("nested.txt", r#"{"a":"{\"k\":\"tok\\/en value+9\\u0026\\\"x\\\"\"}"}"#),
        ("lower.txt", "k=tok%2fen%20value%2b9%26%22x%22"),
        ("upper.txt", "k=tok%2Fen%20value%2B9%26%22x%22"),
        ("form.txt", "k=tok%2Fen+value%2B9%26%22x%22"),
        ("html.txt", "<b>tok/en value+9&amp;&quot;x&quot;</b>"),
        ("numbers.txt", "tok&#47;en value&#x2b;9&#38;&#34;x&#34;"),
    ];
    let mut calls = Vec::new();
    for (name, text) in files {
        desk.write(name, text);
        calls.push(json!({"name": "read_file", "arguments": {"path": name}}));
        calls.push(json!({"name": "bash", "arguments": {"command": format!("cat {name}")}}));
    }
    let script = one_by_one(&desk, &calls);
    let mut command = desk.command(&["run", "--json", "--permission", "yolo", "--script", &script, "go"]);
    let done = command.env("MY_TOKEN", value).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{said}");
    let results: Vec<&str> = said.lines().filter(|line| line.contains("\"ToolExecutionEnd\"")).collect();
    assert_eq!(results.len(), calls.len(), "{said}");
    for result in results {
        assert!(result.contains("[secret:MY_TOKEN]"), "{result}");
    }
}
