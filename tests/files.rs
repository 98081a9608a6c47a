//! The file tools end to end: a scripted model calls them through a house, its agents and their executors.

use std::fs;
use std::path::Path;
use std::time::Duration;

use playhouse::prelude::*;
use serde_json::{Value, json};

fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

/// One call in each turn, then an answer.
fn one_by_one(calls: Vec<Value>) -> Scripted {
    let mut turns: Vec<Value> = calls.into_iter().map(|call| json!({"tool_calls": [call]})).collect();
    turns.push(json!({"text": "done"}));
    Scripted::from_json(&json!({"turns": turns}).to_string()).unwrap()
}

/// Each result as the model sees it, and whether it is an error.
async fn results(house: &House, folder: &Path, mode: PermissionMode, calls: Vec<Value>) -> Vec<(String, bool)> {
    let agent = house.agent().provider_override(one_by_one(calls)).tools(default_tools()).permission(mode);
    let agent = agent.cwd(folder).spawn().await.unwrap();
    let report = agent.prompt("go").await.unwrap();
    assert_eq!(report.text(), "done", "{report:#?}");
    let told = report.messages.iter().filter_map(|message| match message.llm()? {
        message @ Message::ToolResult { is_error, .. } => Some((message.text(), *is_error)),
        _ => None,
    });
    told.collect()
}

fn ok(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

#[tokio::test]
async fn an_agent_searches_reads_edits_and_writes_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("play.txt"), "act one\nact two\n").unwrap();
    let house = House::in_memory().await.unwrap();
    let edit = |old: &str, new: &str| json!({"path": "play.txt", "edits": [{"old_text": old, "new_text": new}]});
    let calls = vec![
        call("search", json!({"pattern": "two$", "glob": "*.txt"})),
        call("read_file", json!({"path": "play.txt"})),
        call("edit_file", edit("two", "three")),
        call("bash", json!({"command": "echo encore >> play.txt"})),
        call("edit_file", edit("one", "1")),
        call("write_file", json!({"path": "play.txt", "content": "curtain\n"})),
        call("read_file", json!({"path": "play.txt"})),
        call("write_file", json!({"path": "play.txt", "content": "curtain\n"})),
        call("write_file", json!({"path": "props/list.txt", "content": "a skull\n"})),
        call("write_file", json!({"path": "../out.txt", "content": "x"})),
    ];
    let changed = "`play.txt` was changed since you last read or wrote it; nothing was written: read it again, then \
                   repeat your change";
    let out = format!(
        "`../out.txt` leads out of the working directory `{}`; file tools work beneath it only",
        folder.path().display()
    );
    let expected = [
        ok("play.txt:2: act two"),
        ok("act one\nact two\n"),
        ok("1 edit made in `play.txt`"),
        ok("(no output)"),
        (changed.to_owned(), true),
        (changed.to_owned(), true),
        ok("act one\nact three\nencore\n"),
        ok("replaced `play.txt`: 8 bytes"),
        ok("created `props/list.txt`: 8 bytes"),
        (out, true),
    ];
    assert_eq!(results(&house, folder.path(), PermissionMode::Yolo, calls).await, expected);
    assert_eq!(fs::read_to_string(folder.path().join("play.txt")).unwrap(), "curtain\n");
    assert_eq!(fs::read_to_string(folder.path().join("props/list.txt")).unwrap(), "a skull\n");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn writing_asks_and_is_denied_when_nobody_can_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("play.txt"), "act one\n").unwrap();
    let house = House::in_memory().await.unwrap();
    let calls = vec![
        call("search", json!({"pattern": "act"})),
        call("read_file", json!({"path": "play.txt"})),
        call("edit_file", json!({"path": "play.txt", "edits": [{"old_text": "one", "new_text": "two"}]})),
        call("write_file", json!({"path": "play.txt", "content": "x"})),
        call("write_file", json!({"path": "new.txt", "content": "x"})),
    ];
    let denied =
        |tool: &str, what: &str| (format!("`{tool}` needs permission to {what}, and there is nobody to ask"), true);
    let expected = [
        ok("play.txt:1: act one"),
        ok("act one\n"),
        denied("edit_file", "edit a file"),
        denied("write_file", "write a file"),
        denied("write_file", "write a file"),
    ];
    assert_eq!(results(&house, folder.path(), PermissionMode::Ask, calls).await, expected);
    assert_eq!(fs::read_to_string(folder.path().join("play.txt")).unwrap(), "act one\n");
    assert!(!folder.path().join("new.txt").exists());
    house.shutdown(Duration::ZERO).await;
}

/// A long output, a look into the middle of it, and a look for one that belongs to nobody here.
fn long_output() -> Scripted {
    let part = json!({"path": "output:/first", "offset": 150_000, "limit": 2});
    one_by_one(vec![
        json!({"name": "bash", "id": "first", "arguments": {"command": "seq 1 200000"}}),
        call("read_file", part),
        call("read_file", json!({"path": "output:/other"})),
    ])
}

async fn told(agent: &AgentHandle) -> Vec<(String, bool)> {
    let report = agent.prompt("go").await.unwrap();
    let told = report.messages.iter().filter_map(|message| match message.llm()? {
        message @ Message::ToolResult { is_error, .. } => Some((message.text(), *is_error)),
        _ => None,
    });
    told.collect()
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => all.extend(files_below(&entry)),
            false => all.push(entry),
        }
    }
    all
}

#[tokio::test]
async fn f16_a_long_output_is_read_in_parts_stays_with_its_session_and_goes_with_it() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let house = House::builder().data_dir(data.path()).open().await.unwrap();
    let agent = house.agent().provider_override(long_output()).tools(default_tools());
    let agent = agent.permission(PermissionMode::Yolo).cwd(folder.path()).spawn().await.unwrap();
    let told = told(&agent).await;
    assert!(told[0].0.contains("read_file `output:/first` with `offset` and `limit`"), "{}", told[0].0.len());
    assert_eq!(told[1], ok("150000\n150001\n"));
    assert!(told[2].1 && told[2].0.starts_with("there is no `output:/other` in this session"), "{:?}", told[2]);
    let session = agent.session_id();
    let kept = |name: &str| files_below(data.path()).into_iter().find(|path| path.ends_with(name));
    let file = kept(&format!("{session}.output/first.txt")).expect("its output, beside its journal");
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 200_000);
    assert_eq!(file.parent().unwrap().with_extension("journal"), kept(&format!("{session}.journal")).unwrap());
    house.dismiss(agent.id()).await;
    assert!(file.exists(), "who resumes the session has it");
    house.remove_session(&session).await.unwrap();
    assert!(!file.parent().unwrap().exists());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn f16_a_long_output_of_a_session_without_a_journal_goes_with_its_agent() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().provider_override(long_output()).tools(default_tools());
    let agent = agent.permission(PermissionMode::Yolo).cwd(folder.path()).spawn().await.unwrap();
    assert_eq!(told(&agent).await[1], ok("150000\n150001\n"));
    let session = agent.session_id();
    let place = || {
        let all = fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().path());
        all.map(|path| path.join(session.to_string())).find(|path| path.join("first.txt").exists())
    };
    let kept = place().expect("among the temporary files");
    house.dismiss(agent.id()).await;
    let started = std::time::Instant::now();
    while kept.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "it goes with its agent");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(kept.parent().unwrap().exists());
    house.shutdown(Duration::ZERO).await;
    assert!(!kept.parent().unwrap().exists(), "all of it goes with the house");
}

/// Fifty agents, each a hundred edits, ten at once, in files that all of them edit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_agents_of_a_house_edit_the_same_files_and_every_edit_is_there() {
    const AGENTS: usize = 50;
    const FILES: usize = 10;
    const ROUNDS: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    let line = |agent: usize, count: usize| format!("agent {agent:02}: {count} edits\n");
    for file in 0..FILES {
        let lines: String = (0..AGENTS).map(|agent| line(agent, 0)).collect();
        fs::write(folder.path().join(format!("{file}.txt")), lines).unwrap();
    }
    let house = House::in_memory().await.unwrap();
    let mut running = Vec::new();
    for number in 0..AGENTS {
        let edit = |file: usize, round: usize| {
            let edits = json!([{"old_text": line(number, round), "new_text": line(number, round + 1)}]);
            call("edit_file", json!({"path": format!("{file}.txt"), "edits": edits}))
        };
        let round = |round: usize| json!({"tool_calls": (0..FILES).map(|file| edit(file, round)).collect::<Vec<_>>()});
        let mut turns: Vec<Value> = (0..ROUNDS).map(round).collect();
        turns.push(json!({"text": "done"}));
        let script = Scripted::from_json(&json!({"turns": turns}).to_string()).unwrap();
        let agent = house.agent().provider_override(script).tools(default_tools()).permission(PermissionMode::Yolo);
        let agent = agent.cwd(folder.path()).spawn().await.unwrap();
        running.push(tokio::spawn(async move { agent.prompt("go").await.unwrap().text() }));
    }
    for run in running {
        assert_eq!(run.await.unwrap(), "done");
    }
    let expected: String = (0..AGENTS).map(|agent| line(agent, ROUNDS)).collect();
    for file in 0..FILES {
        assert_eq!(fs::read_to_string(folder.path().join(format!("{file}.txt"))).unwrap(), expected);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), FILES, "nothing temporary is left");
    house.shutdown(Duration::ZERO).await;
}
