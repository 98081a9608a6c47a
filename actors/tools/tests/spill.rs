//! Long outputs: what a result leaves out can be read by a later call of the session, and by nobody else.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use common::{Answer, Bench, eventually, text};
use playhouse_protocol::{ToolContext, ToolError, ToolReport, ToolResult};
use playhouse_tools::{OutputRoom, Tool, default_tools};
use serde_json::{Value, json};

/// An agent with a working directory and a room beside it.
async fn agent(folder: &Path, name: &str) -> Bench {
    let cwd = folder.join("cwd");
    fs::create_dir_all(&cwd).unwrap();
    let room = Arc::new(OutputRoom::new(folder.join(name)));
    let mut tools = default_tools();
    tools.push(Arc::new(Long));
    Bench::with_output(tools, cwd, Some(room)).await
}

/// Gives as many lines as it is asked for.
struct Long;

#[async_trait]
impl Tool for Long {
    fn name(&self) -> &str {
        "long"
    }

    fn description(&self) -> &str {
        "Long."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(&self, args: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        let lines = args["lines"].as_u64().unwrap_or_default();
        Ok(ToolResult::text((1..=lines).map(|n| format!("line {n}\n")).collect::<String>()))
    }
}

fn failure(answer: Answer) -> String {
    match answer {
        Err(ToolError::Failed(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn f16_what_a_result_leaves_out_is_read_in_parts_by_a_later_call() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = agent(folder.path(), "room").await;
    let wait = |gate: &str| format!("until [ -e {gate} ]; do sleep 0.01; done");
    let command = format!("seq 1 200000; {}; echo middle >&2; {}; echo end", wait("one"), wait("two"));
    bench.start("call_1", "bash", json!({"command": command}));
    // Each stream goes on when the other has been seen.
    let answer = loop {
        match bench.report().await {
            ToolReport::Updated { partial, .. } => {
                let shown = text(&Ok(partial));
                for (gate, seen) in [("one", "\n200000\n"), ("two", "middle\n")] {
                    if shown.contains(seen) {
                        fs::write(folder.path().join("cwd").join(gate), "").unwrap();
                    }
                }
            }
            ToolReport::Progress { .. } => {}
            ToolReport::Finished { result, .. } => break result,
        }
    };
    let shown = text(&answer);
    let (head, rest) = shown.split_once("\n… ").unwrap();
    let (note, tail) = rest.split_once(" …\n").unwrap();
    assert!(head.starts_with("1\n2\n") && tail.ends_with("\n200000\nend\nstderr:\nmiddle\n"));
    let omitted = note.strip_suffix(" bytes omitted; all of it: read_file `output:/call_1` with `offset` and `limit`");
    assert!(omitted.is_some_and(|count| count.parse::<usize>().is_ok()), "{note}");
    assert_eq!(answer.unwrap().details, json!({"exit_code": 0, "truncated": true, "output": "output:/call_1"}));

    let read = async |bench: &mut Bench, args: Value| bench.run("read_file", args).await;
    let part = read(&mut bench, json!({"path": "output:/call_1", "offset": 150_000, "limit": 2})).await;
    assert_eq!(text(&part), "150000\n150001\n");
    assert_eq!(part.unwrap().details, json!({"bytes": 14, "lossy": false}));
    let part = read(&mut bench, json!({"path": "output:/call_1", "offset": 200_000})).await;
    assert_eq!(text(&part), "200000\nmiddle\nend\n", "both streams, as they came");
    let part = read(&mut bench, json!({"path": "output:/call_1", "byte_offset": 3, "byte_limit": 6})).await;
    assert_eq!(text(&part), "\n3\n4\n5");
    assert!(failure(read(&mut bench, json!({"path": "output:/call_1"})).await).contains("more than 1 MB of text"));
    let found = bench.run("search", json!({"path": "output:/call_1", "pattern": "^19999[89]$|end"})).await;
    assert_eq!(
        text(&found),
        "output:/call_1:199998: 199998\noutput:/call_1:199999: 199999\noutput:/call_1:200002: end"
    );
}

#[tokio::test]
async fn f16_a_short_output_and_one_without_a_result_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = agent(folder.path(), "room").await;
    bench.run("bash", json!({"command": "seq 1 10000"})).await.unwrap();
    assert!(!folder.path().join("room").exists());
    bench.start("endless", "bash", json!({"command": "yes"}));
    let file = folder.path().join("room/endless.txt");
    eventually("its output is in a file", || fs::metadata(&file).is_ok_and(|file| file.len() > 1_000_000)).await;
    // A house that is killed now leaves this.
    assert!(fs::read_to_string(&file).unwrap().starts_with("y\ny\n"));
    bench.cancel("endless");
    assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
    assert!(!file.exists());
}

#[tokio::test]
async fn f16_any_tools_long_text_is_shortened_and_kept_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = agent(folder.path(), "room").await;
    let short = text(&bench.run("long", json!({"lines": 50_000})).await);
    assert_eq!(short.lines().count(), 50_000, "under a megabyte it is as it is");
    bench.start("call_2", "long", json!({"lines": 150_000}));
    let shown = text(&bench.finished().await.1);
    assert!(shown.len() < 300_000 && shown.ends_with("line 150000\n"), "{}", shown.len());
    assert!(shown.contains("bytes omitted; all of it: read_file `output:/call_2` with"), "it says where");
    let part = bench.run("read_file", json!({"path": "output:/call_2", "offset": 75_000, "limit": 1})).await;
    assert_eq!(text(&part), "line 75000\n");
    let mut roomless = Bench::new(vec![Arc::new(Long)]).await;
    let shown = text(&roomless.run("long", json!({"lines": 150_000})).await);
    assert!(shown.len() < 300_000 && shown.contains(" bytes omitted …\n"), "without a room it is cut all the same");
}

#[tokio::test]
async fn f47_an_output_path_reaches_the_sessions_own_outputs_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (mut mine, mut theirs) = (agent(folder.path(), "mine").await, agent(folder.path(), "theirs").await);
    theirs.start("secret", "bash", json!({"command": "yes secret | head -n 100000"}));
    theirs.finished().await.1.unwrap();
    assert!(text(&theirs.run("read_file", json!({"path": "output:/secret", "limit": 1})).await) == "secret\n");
    fs::create_dir(folder.path().join("mine")).unwrap();
    std::os::unix::fs::symlink("../theirs/secret.txt", folder.path().join("mine/link.txt")).unwrap();
    for path in ["output:/secret", "output:/link", "output:/../theirs/secret", "output:/", "output:/secret.txt"] {
        let said = format!(
            "there is no `{path}` in this session, or no more: old outputs make way for new ones; run the command again"
        );
        assert_eq!(failure(mine.run("read_file", json!({"path": path})).await), said);
        assert_eq!(failure(mine.run("search", json!({"path": path, "pattern": "s"})).await), said);
    }
    let edits = json!([{"old_text": "secret", "new_text": "x"}]);
    for (tool, args) in [
        ("write_file", json!({"path": "output:/secret", "content": "x"})),
        ("edit_file", json!({"path": "output:/secret", "edits": edits})),
        ("list_files", json!({"path": "output:/secret"})),
    ] {
        let said = failure(theirs.run(tool, args).await);
        assert_eq!(said, "`output:/secret` is the output of a call, which can only be read, with read_file and search");
    }
    assert_eq!(fs::read_dir(folder.path().join("cwd")).unwrap().count(), 0);
    // A folder of that name is reached as any other.
    fs::create_dir(folder.path().join("cwd/output:")).unwrap();
    fs::write(folder.path().join("cwd/output:/a"), "plain").unwrap();
    assert_eq!(text(&mine.run("read_file", json!({"path": "./output:/a"})).await), "plain");
}

#[tokio::test]
async fn parts_of_bytes_join_between_characters() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = agent(folder.path(), "room").await;
    let whole = "aä€😀".repeat(7);
    let large = format!("{whole}{}", "x".repeat(1_100_000));
    fs::write(folder.path().join("cwd/small"), &whole).unwrap();
    fs::write(folder.path().join("cwd/large"), &large).unwrap();
    for (path, steps) in [("small", 1..12), ("large", 5..7)] {
        for step in steps {
            let mut joined = String::new();
            for at in (0..whole.len()).step_by(step) {
                let args = json!({"path": path, "byte_offset": at, "byte_limit": step.min(whole.len() - at)});
                joined.push_str(&text(&bench.run("read_file", args).await));
            }
            assert_eq!(joined, whole, "{path} in steps of {step}");
        }
    }
    let both = json!({"path": "small", "offset": 1, "byte_limit": 1});
    assert!(matches!(bench.run("read_file", both).await, Err(ToolError::InvalidArgs(_))));
    let past = bench.run("read_file", json!({"path": "small", "byte_offset": 1_000})).await;
    assert_eq!(text(&past), "");
}
