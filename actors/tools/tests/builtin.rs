//! The built-in tools, through an executor.

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::{Bench, text};
use playhouse_protocol::{Cancel, Content, EffectClass, SessionId, ToolContext, ToolError, ToolReport};
use playhouse_tools::default_tools;
use serde_json::json;
use tempfile::TempDir;

async fn bench() -> (TempDir, Bench) {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::in_house(default_tools(), "test-house", folder.path().to_owned()).await;
    (folder, bench)
}

fn failure(answer: common::Answer) -> String {
    match answer {
        Err(ToolError::Failed(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn f63_the_built_in_tools_refuse_to_work_outside_of_a_call() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "needle").unwrap();
    let ctx = |name: &str| ToolContext {
        tool_call_id: "call".into(),
        tool_name: name.to_owned(),
        session_id: SessionId::new("s").unwrap(),
        cwd: folder.path().to_owned(),
        effect: EffectClass::Once,
        reconcile: false,
        cancel: Cancel::new(),
        states: Default::default(),
        on_update: None,
        on_progress: None,
    };
    let edits = json!([{"old_text": "needle", "new_text": "x"}]);
    let args = json!({"path": "a", "pattern": "needle", "command": "touch b", "content": "x", "edits": edits});
    for tool in default_tools() {
        let said = failure(tool.execute(args.clone(), ctx(tool.name())).await);
        assert!(said.contains("not known what is kept from tools"), "{}: {said}", tool.name());
    }
    assert!(!folder.path().join("b").exists() && fs::read_to_string(folder.path().join("a")).unwrap() == "needle");
    // By itself, and kept in.
    let runtime = playhouse_tools::ToolRuntime::new("alone");
    let found = runtime.call(&playhouse_tools::Search, Default::default(), args, ctx("search")).await;
    assert_eq!(text(&found), "a:1: needle");
}

#[tokio::test]
async fn bash_tells_output_and_exit_code() {
    let (folder, mut bench) = bench().await;
    let answer = bench.run("bash", json!({"command": "pwd; echo oops >&2; exit 3"})).await;
    let real = folder.path().canonicalize().unwrap();
    assert_eq!(text(&answer), format!("{}\nstderr:\noops\nexit code 3", real.display()));
    assert_eq!(answer.unwrap().details, json!({"exit_code": 3, "truncated": false}));
    let answer = bench.run("bash", json!({"command": "kill -9 $$"})).await;
    assert_eq!(text(&answer), "(no output)\nkilled by signal 9");
    assert_eq!(answer.unwrap().details, json!({"exit_code": null, "signal": 9, "truncated": false}));
    let answer =
        bench.run("bash", json!({"command": "echo \"$0 $# $1\"; cat; ulimit -S -n >/dev/null && printf x"})).await;
    assert_eq!(text(&answer), "bash 0 \nx", "a plain shell without input");
    let answer = bench.run("bash", json!({"command": "if"})).await;
    assert!(text(&answer).contains("syntax error") && text(&answer).ends_with("exit code 2"), "{answer:?}");
}

#[tokio::test]
async fn bash_refuses_what_is_denied_and_says_where_it_cannot_start() {
    let (folder, mut bench) = bench().await;
    assert!(failure(bench.run("bash", json!({"command": "rm -rf /"})).await).contains("refused"));
    drop(folder);
    assert!(failure(bench.run("bash", json!({"command": "ls"})).await).contains("could not be started in"));
}

#[tokio::test]
async fn f17_bytes_that_are_no_text_are_shown_lossy() {
    let (_folder, mut bench) = bench().await;
    let answer = bench.run("bash", json!({"command": r"printf 'a\xff\xfeb\x00c\xe2\x82'"})).await;
    assert_eq!(text(&answer), "a\u{FFFD}\u{FFFD}b\0c\u{FFFD}");
    // Characters of three bytes, cut where the cap falls.
    let answer = bench.run("bash", json!({"command": "yes '€€€' | head -c 1000001"})).await;
    let shown = text(&answer);
    assert!(!shown.trim_end_matches('\u{FFFD}').contains('\u{FFFD}'), "no character is split");
    assert!(shown.contains("bytes omitted") && shown.len() < 300_000, "{}", shown.len());
    assert_eq!(answer.unwrap().details, json!({"exit_code": 0, "truncated": true}));
    let answer =
        bench.run("bash", json!({"command": "head -c 700000 /dev/urandom; head -c 700000 /dev/urandom >&2"})).await;
    assert!(text(&answer).matches("bytes omitted").count() == 2);
}

#[tokio::test]
async fn bash_shows_output_while_it_runs() {
    let (folder, mut bench) = bench().await;
    let gate = folder.path().join("gate");
    bench.start("c", "bash", json!({"command": "echo early; until [ -e gate ]; do sleep 0.01; done; echo late"}));
    match bench.report().await {
        ToolReport::Updated { partial, .. } => assert_eq!(text(&Ok(partial)), "early\n"),
        other => panic!("{other:?}"),
    }
    fs::write(gate, "").unwrap();
    assert_eq!(text(&bench.finished().await.1), "early\nlate\n");
}

#[tokio::test]
async fn read_file_reads_text_and_parts_of_it() {
    let (folder, mut bench) = bench().await;
    fs::write(folder.path().join("a.txt"), "one\ntwo\nthree").unwrap();
    assert_eq!(text(&bench.run("read_file", json!({"path": "a.txt"})).await), "one\ntwo\nthree");
    assert_eq!(text(&bench.run("read_file", json!({"path": "a.txt", "offset": 2, "limit": 1})).await), "two\n");
    assert_eq!(text(&bench.run("read_file", json!({"path": "a.txt", "offset": 3})).await), "three");
    assert_eq!(text(&bench.run("read_file", json!({"path": "a.txt", "offset": 9})).await), "");
    fs::write(folder.path().join("latin"), b"caf\xe9").unwrap();
    let answer = bench.run("read_file", json!({"path": "latin"})).await;
    let version = "blake3:c2c41df3263b878a6a3e61ced548e19478f609b2178524e10c87ab3a99d6f912";
    let details = json!({"bytes": 4, "lossy": true, "version": version});
    assert_eq!((text(&answer), answer.unwrap().details), ("caf\u{FFFD}".into(), details));
    let big: String = (0..300_000).map(|i| format!("{i}\n")).collect();
    fs::write(folder.path().join("big"), &big).unwrap();
    assert!(failure(bench.run("read_file", json!({"path": "big"})).await).contains("1 MB"));
    let part = bench.run("read_file", json!({"path": "big", "offset": 299_999, "limit": 5})).await;
    assert_eq!(text(&part), "299998\n299999\n");
    let exact = "x".repeat(1_000_000);
    fs::write(folder.path().join("exact"), &exact).unwrap();
    assert_eq!(text(&bench.run("read_file", json!({"path": "exact"})).await).len(), 1_000_000);
}

#[tokio::test]
async fn read_file_returns_images_by_content() {
    let (folder, mut bench) = bench().await;
    let images: [(&[u8], &str); 4] = [
        (b"\x89PNG\r\n\x1a\n\0rest", "image/png"),
        (b"\xff\xd8\xff\xe0\0rest", "image/jpeg"),
        (b"GIF89a\0rest", "image/gif"),
        (b"RIFF\0\0\0\0WEBPrest", "image/webp"),
    ];
    for (bytes, kind) in images {
        fs::write(folder.path().join("image.txt"), bytes).unwrap();
        let answer = bench.run("read_file", json!({"path": "image.txt"})).await.unwrap();
        match answer.content.as_slice() {
            [Content::Image { mime_type, data }] => {
                assert_eq!(mime_type, kind);
                assert!(!data.is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
    let mut large = vec![0; 20_000_001];
    large[..8].copy_from_slice(b"\x89PNG\r\n\x1a\n");
    fs::write(folder.path().join("large.png"), large).unwrap();
    assert!(failure(bench.run("read_file", json!({"path": "large.png"})).await).contains("20 MB"));
}

#[tokio::test]
async fn read_file_refuses_what_is_no_readable_file_and_never_hangs() {
    let (folder, mut bench) = bench().await;
    fs::write(folder.path().join("binary"), b"ab\0cd").unwrap();
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("fifo")).status().unwrap();
    assert!(made.success());
    let started = Instant::now();
    for (path, said) in [
        (".", "is a directory"),
        ("missing", "does not exist"),
        ("binary", "binary file"),
        ("fifo", "not a regular file"),
        ("binary/x", "not a directory"),
        ("/dev/zero", "leads out of the working directory"),
    ] {
        let text = failure(bench.run("read_file", json!({"path": path})).await);
        assert!(text.contains(said), "{path}: {text}");
    }
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(matches!(bench.run("read_file", json!({"path": "a\0b"})).await, Err(ToolError::InvalidArgs(_))));
}

#[tokio::test]
async fn list_files_lists_sorted_bounded_and_without_following_links() {
    let (folder, mut bench) = bench().await;
    assert_eq!(text(&bench.run("list_files", json!({})).await), "(empty)");
    fs::create_dir_all(folder.path().join("b/c")).unwrap();
    for file in ["z", "a", "b/y", "b/c/x", "b/c/line\nbreak"] {
        fs::write(folder.path().join(file), "").unwrap();
    }
    std::os::unix::fs::symlink(folder.path(), folder.path().join("b/loop")).unwrap();
    assert_eq!(text(&bench.run("list_files", json!({})).await), "a\nb/\nz");
    let all = bench.run("list_files", json!({"depth": 9})).await;
    assert_eq!(text(&all), "a\nb/\nb/c/\nb/c/line\u{FFFD}break\nb/c/x\nb/loop@\nb/y\nz");
    assert_eq!(all.unwrap().details, json!({"entries": 8, "truncated": false}));
    let some = text(&bench.run("list_files", json!({"limit": 2})).await);
    assert_eq!(some, "a\nb/\n… at least 1 more entries; choose a `path` or raise `limit`");
    assert_eq!(text(&bench.run("list_files", json!({"path": "b/c"})).await), "line\u{FFFD}break\nx");
    assert!(failure(bench.run("list_files", json!({"path": "a"})).await).contains("not a directory"));
    assert!(failure(bench.run("list_files", json!({"path": "nowhere"})).await).contains("does not exist"));
    for i in 0..2_000 {
        fs::write(folder.path().join(format!("b/c/{i:04}")), "").unwrap();
    }
    let many = bench.run("list_files", json!({"path": "b/c"})).await;
    let lines: Vec<String> = text(&many).lines().map(str::to_owned).collect();
    assert_eq!((lines.len(), lines[0].as_str(), lines[499].as_str()), (501, "0000", "0499"));
    assert!(lines[500].contains("at least 1502 more"), "{}", lines[500]);
}
