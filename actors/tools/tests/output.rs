//! Output without end. The whole process is measured, so this has one of its own.

#![cfg(target_os = "linux")]

mod common;

use std::sync::Arc;

use common::{Bench, text};
use playhouse_protocol::ToolReport;
use playhouse_tools::{OutputRoom, default_tools};
use serde_json::json;

/// Head and tail of both streams, and what is said of the rest.
const MOST: usize = 600_000;
const ALLOWED: usize = 32 << 20;

/// The most memory that this process ever had of the machine.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn f16_endless_output_is_bounded_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let room = Arc::new(OutputRoom::new(folder.path().join("room")));
    let mut bench = Bench::with_output(default_tools(), folder.path().to_owned(), Some(room)).await;
    bench.run("bash", json!({"command": "echo warm"})).await.unwrap();
    let before = peak();

    bench.start("endless", "bash", json!({"command": "yes & yes >&2", "timeout_ms": 2_000}));
    let mut shown = 0;
    let ended = loop {
        match bench.report().await {
            ToolReport::Updated { partial, .. } => shown = text(&Ok(partial)).len().max(shown),
            ToolReport::Progress { .. } => {}
            ToolReport::Finished { result, .. } => break result,
        }
    };
    // What it printed by then is told, and kept as far as that goes.
    assert_eq!(ended.as_ref().unwrap().details["limit"], "time");
    assert!(text(&ended).ends_with("\nstopped: it ran for more than 2s") && text(&ended).len() < MOST);
    assert!(std::fs::metadata(folder.path().join("room/endless.txt")).unwrap().len() <= 64 << 20);
    assert!((1..MOST).contains(&shown), "{shown} bytes were shown at once");

    let answer = bench.run("bash", json!({"command": "yes | head -c 1000000000; yes no | head -c 60000000 >&2"})).await;
    let whole = text(&answer);
    assert!(whole.starts_with("y\ny\n") && whole.ends_with("no\nno\n"), "{:?}", whole.get(..80));
    assert_eq!((whole.matches("bytes omitted").count(), whole.len() < MOST), (2, true), "{}", whole.len());
    let note = "bytes omitted; the first 67108864 bytes: read_file `output:/only` with `offset` and `limit` …";
    assert_eq!(whole.matches(note).count(), 2);
    assert_eq!(answer.unwrap().details, json!({"exit_code": 0, "truncated": true, "output": "output:/only"}));
    assert_eq!(std::fs::metadata(folder.path().join("room/only.txt")).unwrap().len(), 64 << 20);
    let part = bench.run("read_file", json!({"path": "output:/only", "offset": 33_554_432, "limit": 9})).await;
    assert_eq!(text(&part), "y\n", "its last line");

    let grown = peak() - before;
    assert!(grown <= ALLOWED, "{grown} bytes for output that is not kept in memory");
}
