//! `search`, through an executor.

mod common;

use std::fs;

use common::{Answer, Bench, text};
use playhouse_protocol::{Content, ToolError, ToolResult};
use playhouse_tools::default_tools;
use serde_json::{Value, json};
use tempfile::TempDir;

async fn bench(files: &[(&str, &[u8])]) -> (TempDir, Bench) {
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let bench = Bench::in_house(default_tools(), "test-house", folder.path().to_owned()).await;
    (folder, bench)
}

fn result(text: &str, matches: usize, files: usize) -> Answer {
    let details = json!({"matches": matches, "files": files, "unreadable": 0, "truncated": false});
    Ok(ToolResult { content: vec![Content::text(text)], details, child_loop_id: None })
}

async fn search(bench: &mut Bench, args: Value) -> Answer {
    bench.run("search", args).await
}

const TREE: [(&str, &[u8]); 11] = [
    (".gitignore", b"target/\n*.log\n"),
    (".hidden/needle.rs", b"needle hidden\n"),
    ("a.rs", b"no\nneedle one\nNeedle two"),
    ("b/c.md", b"a needle in md\n"),
    ("b/d.rs", b"needle three\r\nlast needle\r\n"),
    ("b/.gitignore", b"own.rs\n"),
    ("b/own.rs", b"needle own\n"),
    ("binary", b"needle\nneedle\n\0\0"),
    ("latin", b"needle caf\xe9\n"),
    ("noise.log", b"needle log\n"),
    ("target/t.rs", b"needle target\n"),
];

#[tokio::test]
async fn search_shows_matching_lines_and_passes_over_what_is_ignored_hidden_or_binary() {
    let (folder, mut bench) = bench(&TREE).await;
    // What makes it binary comes late, after a match.
    fs::write(folder.path().join("late"), format!("needle\n{}\0", "text\n".repeat(100_000))).unwrap();
    let all = "a.rs:2: needle one\nb/c.md:1: a needle in md\nb/d.rs:1: needle three\nb/d.rs:2: last \
               needle\nlatin:1: needle caf\u{FFFD}";
    assert_eq!(search(&mut bench, json!({"pattern": "needle"})).await, result(all, 5, 4));
    let found = search(&mut bench, json!({"pattern": "^needle \\w+$", "path": "./b"})).await;
    assert_eq!(found, result("b/d.rs:1: needle three", 1, 1), "a line ends before its carriage return");
    let found = search(&mut bench, json!({"pattern": "NEEDLE T", "case_insensitive": true})).await;
    assert_eq!(found, result("a.rs:3: Needle two\nb/d.rs:1: needle three", 2, 2));
    assert_eq!(search(&mut bench, json!({"pattern": "nowhere"})).await, result("(no matches)", 0, 0));
    // Named outright, they are searched.
    for (path, said) in [
        ("noise.log", "noise.log:1: needle log"),
        (".hidden", ".hidden/needle.rs:1: needle hidden"),
        ("b/own.rs", "b/own.rs:1: needle own"),
    ] {
        assert_eq!(search(&mut bench, json!({"pattern": "needle", "path": path})).await, result(said, 1, 1));
    }
    assert_eq!(search(&mut bench, json!({"pattern": "needle", "path": "binary"})).await, result("(no matches)", 0, 0));
}

#[tokio::test]
async fn search_takes_globs_by_name_and_by_path() {
    let (_folder, mut bench) = bench(&TREE).await;
    for (glob, path, said, files) in [
        ("*.rs", ".", "a.rs:2: needle one\nb/d.rs:1: needle three", 2),
        ("b/*.{md,rs}", ".", "b/c.md:1: a needle in md\nb/d.rs:1: needle three", 2),
        ("**/*.md", "b", "b/c.md:1: a needle in md", 1),
        ("b/*.md", "b", "b/c.md:1: a needle in md", 1),
        ("./*.rs", ".", "a.rs:2: needle one", 1),
        ("*.log", ".", "(no matches)", 0),
    ] {
        let found = search(&mut bench, json!({"pattern": "needle (o|t|i)", "glob": glob, "path": path})).await;
        let lines = if files == 0 { 0 } else { said.lines().count() };
        assert_eq!(found, result(said, lines, files), "{glob} in {path}");
    }
    for args in [json!({"pattern": "("}), json!({"pattern": "x", "glob": "{a"})] {
        let answer = search(&mut bench, args).await;
        assert!(matches!(answer, Err(ToolError::InvalidArgs(_))), "{answer:?}");
    }
    let missing = search(&mut bench, json!({"pattern": "x", "path": "nowhere"})).await;
    assert!(matches!(&missing, Err(ToolError::Failed(text)) if text.contains("does not exist")), "{missing:?}");
}

#[tokio::test]
async fn search_is_bounded_in_lines_and_in_text() {
    let many: String = (0..5_000).map(|n| format!("needle {n}\n")).collect();
    let wide = format!("{}\n", "ä".repeat(3_000));
    let endless = "x".repeat(9 * 1024 * 1024);
    let files: [(&str, &[u8]); 3] = [("a", many.as_bytes()), ("w", wide.as_bytes()), ("z", endless.as_bytes())];
    let (folder, mut bench) = bench(&files).await;
    let more = "… there are more; narrow `pattern`, `path` or `glob`, or raise `max_results`";
    let found = search(&mut bench, json!({"pattern": "needle", "max_results": 2})).await;
    assert_eq!(text(&found), format!("a:1: needle 0\na:2: needle 1\n{more}"));
    let details = json!({"matches": 2, "files": 1, "unreadable": 0, "truncated": true});
    assert_eq!(found.unwrap().details, details);
    let found = search(&mut bench, json!({"pattern": "needle"})).await;
    assert_eq!(text(&found).lines().count(), 101);
    let found = search(&mut bench, json!({"pattern": "ä"})).await;
    assert_eq!(text(&found), format!("w:1: {}…", "ä".repeat(400)));
    assert_eq!(
        found.unwrap().details,
        json!({"matches": 1, "files": 1, "unreadable": 1, "truncated": false}),
        "the endless line is told, not held"
    );
    fs::write(folder.path().join("w"), wide.repeat(900)).unwrap();
    let found = text(&search(&mut bench, json!({"pattern": "ä", "max_results": 1000})).await);
    assert!(found.len() < 100_200 && found.ends_with(more), "{}", found.len());
    // Exactly as many as there is room for are not cut.
    fs::write(folder.path().join("w"), "needless\n").unwrap();
    let found = search(&mut bench, json!({"pattern": "needless", "path": "w", "max_results": 1})).await;
    assert_eq!(found, result("w:1: needless", 1, 1));
}
