//! `write_file` and `edit_file`, through executors: one for each agent.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use common::{Answer, Bench, text};
use playhouse_protocol::{Content, ToolError, ToolResult};
use playhouse_tools::default_tools;
use serde_json::{Value, json};
use tempfile::TempDir;

const CHANGED: &str = "`a.txt` was changed since you last read or wrote it; nothing was written: read it again, then repeat \
                       your change";

async fn agent(folder: &Path) -> Bench {
    Bench::in_house(default_tools(), "test-house", folder.to_owned()).await
}

async fn bench() -> (TempDir, Bench) {
    let folder = tempfile::tempdir().unwrap();
    let bench = agent(folder.path()).await;
    (folder, bench)
}

fn failure(answer: Answer) -> String {
    match answer {
        Err(ToolError::Failed(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn edits(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(old, new)| json!({"old_text": old, "new_text": new})).collect()
}

async fn edit(bench: &mut Bench, path: &str, pairs: &[(&str, &str)]) -> Answer {
    bench.run("edit_file", json!({"path": path, "edits": edits(pairs)})).await
}

async fn write(bench: &mut Bench, path: &str, content: &str) -> Answer {
    bench.run("write_file", json!({"path": path, "content": content})).await
}

async fn read(bench: &mut Bench, path: &str) -> Answer {
    bench.run("read_file", json!({"path": path})).await
}

fn result(text: &str, details: Value) -> Answer {
    Ok(ToolResult { content: vec![Content::text(text)], details, child_loop_id: None })
}

/// The names in a folder: nothing temporary may be left.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const VERSION_OF_X: &str = "blake3:3ae7d805f6789a6402acb70ad4096a85a56bf6804eaf25c0493ac697548d30b5";
const VERSION_OF_NOTHING: &str = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

#[tokio::test]
async fn a_file_is_made_with_its_folders_and_replaced_by_who_knows_it() {
    let (folder, mut bench) = bench().await;
    let made = write(&mut bench, "a/b/x.txt", "x").await;
    let details = json!({"bytes": 1, "created": true, "version": VERSION_OF_X});
    assert_eq!(made, result("created `a/b/x.txt`: 1 bytes", details));
    let path = folder.path().join("a/b/x.txt");
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let replaced = write(&mut bench, "a/b/x.txt", "").await;
    let details = json!({"bytes": 0, "created": false, "version": VERSION_OF_NOTHING});
    assert_eq!(replaced, result("replaced `a/b/x.txt`: 0 bytes", details), "its own write is known to it");
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o751, "the mode is kept");
    assert_eq!(names(&folder.path().join("a/b")), ["x.txt"]);
}

#[tokio::test]
async fn an_existing_file_is_not_overwritten_unread() {
    let (folder, mut bench) = bench().await;
    fs::write(folder.path().join("a.txt"), "theirs").unwrap();
    let said = failure(write(&mut bench, "a.txt", "mine").await);
    assert_eq!(said, "`a.txt` exists and you have not read it; read it first");
    let mut other = agent(folder.path()).await;
    read(&mut other, "a.txt").await.unwrap();
    let said = failure(write(&mut bench, "a.txt", "mine").await);
    assert_eq!(said, "`a.txt` exists and you have not read it; read it first", "another agent's reading is its own");
    edit(&mut bench, "a.txt", &[("theirs", "ours")]).await.unwrap();
    let said = failure(write(&mut bench, "a.txt", "mine").await);
    assert_eq!(said, "`a.txt` exists and you have not read it; read it first", "an edit shows nothing of the rest");
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "ours");
}

#[tokio::test]
async fn a_change_from_outside_is_a_conflict_until_it_is_read() {
    let (folder, mut bench) = bench().await;
    let path = folder.path().join("a.txt");
    fs::write(&path, "one\ntwo\n").unwrap();
    read(&mut bench, "a.txt").await.unwrap();
    fs::write(&path, "one\ntwO\n").unwrap();
    assert_eq!(failure(write(&mut bench, "a.txt", "mine").await), CHANGED);
    assert_eq!(failure(edit(&mut bench, "a.txt", &[("one", "1")]).await), CHANGED);
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwO\n");
    // A part is enough to have seen it: its version is that of the whole.
    bench.run("read_file", json!({"path": "a.txt", "limit": 1})).await.unwrap();
    edit(&mut bench, "a.txt", &[("one", "1")]).await.unwrap();
    edit(&mut bench, "a.txt", &[("1", "uno")]).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "uno\ntwO\n", "its own edits are no conflict");
    fs::write(&path, "uno\ntwO\n").unwrap();
    write(&mut bench, "a.txt", "same text is the same version").await.unwrap();
    fs::write(&path, "changed again").unwrap();
    bench.run("bash", json!({"command": "echo more >> a.txt"})).await.unwrap();
    assert_eq!(failure(edit(&mut bench, "a.txt", &[("again", "")]).await), CHANGED);
    fs::remove_file(&path).unwrap();
    let made = write(&mut bench, "a.txt", "anew").await.unwrap();
    assert_eq!(made.details["created"], json!(true), "nothing is overwritten where nothing is");
    assert_eq!(names(folder.path()), ["a.txt"]);
}

#[tokio::test]
async fn a_file_too_large_to_hash_is_known_by_its_marks() {
    let (folder, mut bench) = bench().await;
    let path = folder.path().join("a.txt");
    fs::write(&path, "line\n".repeat(2_100_000)).unwrap();
    let part = bench.run("read_file", json!({"path": "a.txt", "limit": 1})).await;
    assert_eq!(text(&part), "line\n");
    assert!(part.unwrap().details["version"].as_str().unwrap().starts_with("marks:"));
    let said = failure(edit(&mut bench, "a.txt", &[("line", "x")]).await);
    assert!(said.contains("more than 10 MB"), "{said}");
    fs::write(&path, "life\n".repeat(2_100_000)).unwrap();
    assert_eq!(failure(write(&mut bench, "a.txt", "small").await), CHANGED);
    bench.run("read_file", json!({"path": "a.txt", "limit": 1})).await.unwrap();
    write(&mut bench, "a.txt", "small").await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "small");
}

#[tokio::test]
async fn a_large_file_that_was_cut_from_outside_is_not_edited_until_it_is_read_again() {
    let (folder, mut bench) = bench().await;
    let path = folder.path().join("a.txt");
    fs::write(&path, format!("first\n{}", "line\n".repeat(2_100_000))).unwrap();
    bench.run("read_file", json!({"path": "a.txt", "limit": 1})).await.unwrap();
    // Small enough now to be edited, and what the edit looks for is there.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1_000_001).unwrap();
    assert_eq!(failure(edit(&mut bench, "a.txt", &[("first", "1st")]).await), CHANGED);
    let left = fs::read_to_string(&path).unwrap();
    assert_eq!((left.len(), left.starts_with("first\n")), (1_000_001, true));
    bench.run("read_file", json!({"path": "a.txt", "limit": 1})).await.unwrap();
    edit(&mut bench, "a.txt", &[("first", "1st")]).await.unwrap();
    assert!(fs::read_to_string(&path).unwrap().starts_with("1st\n"));
}

#[tokio::test]
async fn edits_are_made_together_and_the_diff_is_in_the_details() {
    let (folder, mut bench) = bench().await;
    let path = folder.path().join("a.txt");
    fs::write(&path, "one\ntwo\nthree").unwrap();
    let answer = edit(&mut bench, "a.txt", &[("three", "3"), ("one\n", "")]).await;
    let version = "blake3:1a2a3663a5f2d79482dd99bc2fbfd2fe5ed2361ce1d9f6cfd2fcf43f99af2083";
    let diff = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,2 @@\n-one\n two\n-three\n\\ No newline at end of file\n+3\n\\ No newline \
                at end of file\n";
    let details = json!({"edits": 2, "bytes": 5, "version": version, "diff": diff, "truncated": false});
    assert_eq!(answer, result("2 edits made in `a.txt`", details));
    assert_eq!(fs::read_to_string(&path).unwrap(), "two\n3");
    // Each is found in the file as it was, not as the edit before it left it.
    fs::write(&path, "a b").unwrap();
    let swapped = edit(&mut bench, "a.txt", &[("a", "b"), ("b", "a")]).await;
    assert_eq!(text(&swapped), "2 edits made in `a.txt`");
    assert_eq!(fs::read_to_string(&path).unwrap(), "b a");
    assert_eq!(text(&edit(&mut bench, "a.txt", &[("b a", "")]).await), "1 edit made in `a.txt`");
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[tokio::test]
async fn one_edit_that_does_not_fit_leaves_the_file_alone() {
    let (folder, mut bench) = bench().await;
    let path = folder.path().join("a.txt");
    let before = "one two two aaa\n";
    fs::write(&path, before).unwrap();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let first = inode(&path);
    let unique = "take in lines around it until it is unique";
    for (pairs, reason) in [
        (
            &[("one", "1"), ("three", "3")][..],
            "in edit 2, `old_text` does not occur; read the file and copy the text exactly",
        ),
        (&[("two", "2"), ("one", "1")], &format!("in edit 1, `old_text` occurs 2 times; {unique}")),
        (&[("aa", "b")], &format!("in edit 1, `old_text` occurs 2 times; {unique}")),
        (&[("two aaa", "x"), ("one two", "y"), ("aaa\n", "z")], "edits 1 and 3 touch the same text; make them one"),
        (&[("one", "1"), ("one", "2")], "edits 1 and 2 touch the same text; make them one"),
        (&[("one", "one")], "in edit 1, `old_text` and `new_text` are the same; leave it out"),
        (&[("One", "1")], "in edit 1, `old_text` does not occur; read the file and copy the text exactly"),
    ] {
        let said = failure(edit(&mut bench, "a.txt", pairs).await);
        assert_eq!(said, format!("`a.txt` was not edited: {reason}"));
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), inode(&path)), (before, first));
    }
    fs::write(&path, "x".repeat(1_000)).unwrap();
    let said = failure(edit(&mut bench, "a.txt", &[("x", "y")]).await);
    assert_eq!(said, format!("`a.txt` was not edited: in edit 1, `old_text` occurs at least 100 times; {unique}"));
    assert_eq!(names(folder.path()), ["a.txt"]);
}

#[tokio::test]
async fn files_of_every_kind_keep_the_bytes_that_were_not_edited() {
    let (folder, mut bench) = bench().await;
    let path = folder.path().join("a.txt");
    let huge = "x".repeat(2_000_000);
    type Case<'a> = (&'a [u8], (&'a str, &'a str), &'a [u8]);
    let cases: [Case<'_>; 5] = [
        (b"caf\xe9 one\n\xff\xfe", ("one", "1"), b"caf\xe9 1\n\xff\xfe"),
        (b"one\r\ntwo\r\n", ("one\r\ntwo", "1\r\n2"), b"1\r\n2\r\n"),
        (b"one\r\ntwo\r\n", ("two", "2"), b"one\r\n2\r\n"),
        (b"no end", ("end", "END"), b"no END"),
        (format!("{huge} one {huge}").leak().as_bytes(), ("one", "1"), format!("{huge} 1 {huge}").leak().as_bytes()),
    ];
    for (before, pair, after) in cases {
        fs::write(&path, before).unwrap();
        let answer = edit(&mut bench, "a.txt", &[pair]).await.unwrap();
        assert!(answer.details["diff"].as_str().unwrap().len() <= 64 * 1024 + 3);
        assert_eq!(answer.details["truncated"], json!(before.len() > 1_000_000));
        assert!(fs::read(&path).unwrap() == after, "{pair:?}");
    }
    fs::write(&path, "one\r\ntwo\r\n").unwrap();
    let said = failure(edit(&mut bench, "a.txt", &[("one\ntwo", "x")]).await);
    assert!(said.ends_with("the file's lines end in \\r\\n, so end those of the edit in \\r\\n too"), "{said}");
    fs::write(&path, "").unwrap();
    let said = failure(edit(&mut bench, "a.txt", &[("one", "x")]).await);
    assert!(said.ends_with("the file is empty; use write_file"), "{said}");
    fs::write(&path, b"one\0two").unwrap();
    assert!(failure(edit(&mut bench, "a.txt", &[("one", "x")]).await).contains("is a binary file"));
    assert!(failure(edit(&mut bench, "missing", &[("one", "x")]).await).contains("does not exist"));
    assert!(failure(edit(&mut bench, ".", &[("one", "x")]).await).contains("is a directory"));
    fs::create_dir(folder.path().join("folder")).unwrap();
    assert!(failure(write(&mut bench, "folder", "x").await).contains("is a directory"));
    assert!(failure(write(&mut bench, "a.txt/b", "x").await).contains("not a directory"));
    let most = "y".repeat(1_000_000);
    write(&mut bench, "most", &most).await.unwrap();
    let answer = write(&mut bench, "more", &format!("{most}y")).await;
    assert!(matches!(answer, Err(ToolError::InvalidArgs(_))), "{answer:?}");
    assert_eq!(names(folder.path()), ["a.txt", "folder", "most"]);
}

#[tokio::test]
async fn f47_no_path_leads_out_of_the_working_directory() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let (folder, mut bench) = bench().await;
    let inside = folder.path();
    std::os::unix::fs::symlink(outside.path(), inside.join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), inside.join("file")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new"), inside.join("dangling")).unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let absolute = outside.path().join("secret").to_str().unwrap().to_owned();
    let climbing = format!("../{name}/secret");
    let around = format!("{}/../{name}/secret", inside.display());
    for path in
        ["out/secret", "file", &absolute, &climbing, &around, "out/../out/secret", "dangling", "out/new/x", ".."]
    {
        let asked = [
            ("read_file", json!({"path": path})),
            ("list_files", json!({"path": path})),
            ("search", json!({"path": path, "pattern": "."})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("edit_file", json!({"path": path, "edits": edits(&[("secret", "x")])})),
        ];
        for (tool, args) in asked {
            let said = failure(bench.run(tool, args).await);
            let expected = format!(
                "`{path}` leads out of the working directory `{}`; file tools work beneath it only",
                inside.display()
            );
            assert_eq!(said, expected, "{tool}");
        }
    }
    assert_eq!(names(outside.path()), ["secret"]);
    assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
    // What stays inside is followed, and a link stays a link.
    fs::create_dir(inside.join("real")).unwrap();
    fs::write(inside.join("real/a.txt"), "one").unwrap();
    std::os::unix::fs::symlink("real", inside.join("linked")).unwrap();
    std::os::unix::fs::symlink("../linked/a.txt", inside.join("real/link")).unwrap();
    assert_eq!(text(&read(&mut bench, "linked/link").await), "one");
    let absolute = inside.join("real/a.txt").to_str().unwrap().to_owned();
    write(&mut bench, &absolute, "two").await.unwrap();
    edit(&mut bench, "linked/link", &[("two", "three")]).await.unwrap();
    assert_eq!(fs::read_to_string(inside.join("real/a.txt")).unwrap(), "three");
    assert!(inside.join("real/link").is_symlink());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f47_a_folder_that_is_swapped_for_a_link_leads_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a.txt"), "secret").unwrap();
    let (folder, mut bench) = bench().await;
    let inside = folder.path().to_owned();
    fs::create_dir(inside.join("real")).unwrap();
    fs::write(inside.join("real/a.txt"), "plain").unwrap();
    std::os::unix::fs::symlink(outside.path(), inside.join("link")).unwrap();
    std::os::unix::fs::symlink("real", inside.join("now")).unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (seen, place) = (stop.clone(), inside.clone());
    let swapper = std::thread::spawn(move || {
        let mut swaps = 0_u64;
        while !seen.load(std::sync::atomic::Ordering::Relaxed) {
            // The name is a folder beneath, then a link out of it, and never nothing.
            for target in ["link", "real"] {
                std::os::unix::fs::symlink(target, place.join("next")).unwrap();
                fs::rename(place.join("next"), place.join("now")).unwrap();
                swaps += 1;
            }
        }
        swaps
    });
    let (mut ok, mut refused) = (0, 0);
    for n in 0..400 {
        let (tool, args) = match n % 4 {
            0 => ("read_file", json!({"path": "now/a.txt"})),
            1 => ("search", json!({"path": "now", "pattern": "."})),
            2 => ("edit_file", json!({"path": "now/a.txt", "edits": edits(&[("plain", "plain ")])})),
            _ => ("write_file", json!({"path": "now/a.txt", "content": "plain"})),
        };
        match bench.run(tool, args).await {
            Ok(answer) => {
                assert!(!text(&Ok(answer)).contains("secret"));
                ok += 1;
            }
            Err(_) => refused += 1,
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    assert!(ok > 0 && refused > 0 && swaps > 100, "{ok} went, {refused} were refused, in {swaps} swaps");
    assert_eq!(names(outside.path()), ["a.txt"]);
    assert_eq!(fs::read_to_string(outside.path().join("a.txt")).unwrap(), "secret");
    assert_eq!(names(&inside.join("real")), ["a.txt"]);
}

/// Every agent counts on its own line of files that all of them edit. A lost update would be a number too low.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_agents_edit_the_same_files_and_no_edit_is_lost() {
    const AGENTS: usize = 50;
    const EDITS: usize = 100;
    const FILES: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    for file in 0..FILES {
        let lines: String = (0..AGENTS).map(|agent| format!("agent {agent:02}: 0 edits\n")).collect();
        fs::write(folder.path().join(format!("{file}.txt")), lines).unwrap();
    }
    let mut agents = Vec::new();
    for agent_number in 0..AGENTS {
        let mut bench = agent(folder.path()).await;
        agents.push(tokio::spawn(async move {
            let mut conflicts = 0_u64;
            for n in 0..EDITS {
                let (path, round) = (format!("{}.txt", n % FILES), n / FILES);
                let line = |count: usize| format!("agent {agent_number:02}: {count} edits\n");
                loop {
                    read(&mut bench, &path).await.unwrap();
                    match edit(&mut bench, &path, &[(&line(round), &line(round + 1))]).await {
                        Ok(_) => break,
                        Err(ToolError::Failed(text)) if text.contains("was changed since") => conflicts += 1,
                        other => panic!("{other:?}"),
                    }
                }
            }
            conflicts
        }));
    }
    let mut conflicts = 0;
    for agent in agents {
        conflicts += agent.await.unwrap();
    }
    let expected: String = (0..AGENTS).map(|agent| format!("agent {agent:02}: {} edits\n", EDITS / FILES)).collect();
    for file in 0..FILES {
        assert_eq!(fs::read_to_string(folder.path().join(format!("{file}.txt"))).unwrap(), expected);
    }
    assert!(conflicts > 0, "nobody met anybody: the test shows nothing");
    assert_eq!(names(folder.path()).len(), FILES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_make_the_same_file_one_does() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for n in 0..4 {
            let mut bench = agent(folder.path()).await;
            all.push(tokio::spawn(async move { write(&mut bench, "new.txt", &n.to_string()).await }));
        }
        let mut made = Vec::new();
        for (n, answer) in all.into_iter().enumerate() {
            match answer.await.unwrap() {
                Ok(_) => made.push(n.to_string()),
                Err(ToolError::Failed(text)) => assert!(text.contains("you have not read it"), "{text}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(made, [fs::read_to_string(folder.path().join("new.txt")).unwrap()]);
    }
}

/// Every agent reads a number and writes the next one. A lost update would be a number too low.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_count_in_one_file_miss_no_number() {
    const AGENTS: usize = 20;
    const TIMES: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("count.txt"), "0").unwrap();
    let mut agents = Vec::new();
    for _ in 0..AGENTS {
        let mut bench = agent(folder.path()).await;
        agents.push(tokio::spawn(async move {
            let mut done = 0;
            while done < TIMES {
                let count: usize = text(&read(&mut bench, "count.txt").await).parse().unwrap();
                match write(&mut bench, "count.txt", &(count + 1).to_string()).await {
                    Ok(_) => done += 1,
                    Err(ToolError::Failed(text)) => assert!(text.contains("was changed since"), "{text}"),
                    other => panic!("{other:?}"),
                }
            }
        }));
    }
    for agent in agents {
        agent.await.unwrap();
    }
    assert_eq!(fs::read_to_string(folder.path().join("count.txt")).unwrap(), (AGENTS * TIMES).to_string());
}

#[tokio::test]
async fn what_a_kill_left_behind_is_removed_by_the_next_write_in_its_folder() {
    let (folder, mut bench) = bench().await;
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 3_600);
    let left =
        [".playhouse-0123456789abcdef.tmp", ".playhouse-notes.tmp", "old.tmp", ".playhouse-fedcba9876543210.tmp"];
    for name in left {
        let file = fs::File::create(folder.path().join(name)).unwrap();
        if name != ".playhouse-fedcba9876543210.tmp" {
            file.set_modified(hours_ago).unwrap();
        }
    }
    write(&mut bench, "a.txt", "x").await.unwrap();
    let there = [".playhouse-fedcba9876543210.tmp", ".playhouse-notes.tmp", "a.txt", "old.tmp"];
    assert_eq!(names(folder.path()), there, "the first is nobody's any more, the last may be somebody's");
}
