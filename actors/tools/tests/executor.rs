//! Every call is answered exactly once, whatever its tool does.

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use common::{Answer, Bench, alive, eventually, text, unique_sleep};
use playhouse_protocol::{ToolCallId, ToolContext, ToolError, ToolReport, ToolResult};
use playhouse_tools::{Bash, ExecutorMsg, Tool};
use ractor::ActorStatus;
use serde_json::{Value, json};

/// A tool that does what its `do` argument says.
struct Puppet;

#[async_trait]
impl Tool for Puppet {
    fn name(&self) -> &str {
        "puppet"
    }

    fn description(&self) -> &str {
        "does as told"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn timeout_for(&self, args: &Value) -> Duration {
        assert!(args["do"] != "panic about the time", "no time");
        Duration::from_millis(args["timeout"].as_u64().unwrap_or(60_000))
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let nap = Duration::from_millis(args["nap"].as_u64().unwrap_or(0));
        match args["do"].as_str().unwrap_or_default() {
            "return" => Ok(ToolResult::text("done")),
            "return after a nap" => {
                tokio::time::sleep(nap).await;
                Ok(ToolResult::text("rested"))
            }
            "fail" => Err(ToolError::Failed("on purpose".into())),
            "panic" => panic!("on purpose"),
            "panic after a nap" => {
                tokio::time::sleep(nap).await;
                panic!("{}", "after a nap")
            }
            "hang" => std::future::pending().await,
            "clean up" => {
                ctx.cancel.cancelled().await;
                Err(ToolError::Failed("cleaned up".into()))
            }
            "panic on cancel" => {
                ctx.cancel.cancelled().await;
                panic!("while cleaning up")
            }
            "tidy" => {
                ctx.cancel.cancelled().await;
                tokio::time::sleep(nap).await;
                Ok(ToolResult::text("tidied"))
            }
            "finish on cancel" => {
                ctx.cancel.cancelled().await;
                Ok(ToolResult::text("it happened"))
            }
            "block" => {
                std::thread::sleep(nap);
                Ok(ToolResult::text("blocked"))
            }
            "chatter" => {
                for i in 0..args["count"].as_u64().unwrap_or(10) {
                    ctx.update(ToolResult::text(i.to_string()));
                    ctx.progress(i.to_string());
                    // So that others on this thread get their turn.
                    if i % 100 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                if args["then"] == "hang" {
                    std::future::pending::<()>().await;
                }
                Ok(ToolResult::text("said"))
            }
            other => Err(ToolError::InvalidArgs(other.to_owned())),
        }
    }
}

async fn puppet_bench() -> Bench {
    quiet_panics();
    Bench::new(vec![Arc::new(Puppet), Arc::new(Bash::default())]).await
}

/// Panics on purpose need no trace; all others do.
fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let said = info.payload_as_str().unwrap_or_default();
            if !["on purpose", "after a nap", "while cleaning up", "no time"].contains(&said) {
                print(info);
            }
        }));
    });
}

async fn no_runs_left(bench: &Bench) {
    eventually("no runs", || bench.executor.get_children().is_empty()).await;
}

#[tokio::test]
async fn a_call_ends_with_what_its_tool_did() {
    let mut bench = puppet_bench().await;
    let cases: [(Value, Answer); 5] = [
        (json!({"do": "return"}), Ok(ToolResult::text("done"))),
        (json!({"do": "fail"}), Err(ToolError::Failed("on purpose".into()))),
        (json!({"do": "panic"}), Err(ToolError::Panicked("on purpose".into()))),
        (json!({"do": "panic after a nap", "nap": 1}), Err(ToolError::Panicked("after a nap".into()))),
        (json!({"do": "panic about the time"}), Err(ToolError::Panicked("no time".into()))),
    ];
    for (args, expected) in cases {
        assert_eq!(bench.run("puppet", args.clone()).await, expected, "{args}");
    }
    assert_eq!(bench.run("gone", json!({})).await, Err(ToolError::NotFound("gone".into())));
    no_runs_left(&bench).await;
}

#[tokio::test]
async fn a_cancelled_tool_may_clean_up_and_is_dropped_if_it_does_not() {
    let mut bench = puppet_bench().await;
    let cancelled = || Err(ToolError::Cancelled);
    let cases: [(&str, Answer); 4] = [
        ("clean up", cancelled()),
        ("hang", cancelled()),
        ("panic on cancel", cancelled()),
        ("finish on cancel", Ok(ToolResult::text("it happened"))),
    ];
    for (what, expected) in cases {
        bench.start("c", "puppet", json!({"do": what}));
        bench.cancel("c");
        bench.cancel("c");
        let (_, answer, took) = bench.finished().await;
        assert_eq!(answer, expected, "{what}");
        assert!(what == "hang" || took < 450, "{what} took {took} ms: it answers at once");
        assert_eq!(
            bench.run("puppet", json!({"do": what, "timeout": 5})).await,
            if answer.is_ok() { expected } else { Err(ToolError::TimedOut(5)) },
            "{what}"
        );
    }
    bench.cancel("unheard of");
    assert_eq!(bench.run("puppet", json!({"do": "return"})).await, Ok(ToolResult::text("done")));
    no_runs_left(&bench).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_and_a_cancel_at_once_leave_the_whole_grace() {
    let mut bench = puppet_bench().await;
    for round in 0..100 {
        for call in 0..10 {
            bench.start(&call.to_string(), "puppet", json!({"do": "tidy", "nap": 20, "timeout": 1 + call % 3}));
        }
        tokio::time::sleep(Duration::from_micros(1_000 + 20 * round)).await;
        bench.executor.send_message(ExecutorMsg::CancelAll).unwrap();
        for _ in 0..10 {
            assert_eq!(bench.finished().await.1, Ok(ToolResult::text("tidied")), "round {round}");
        }
    }
}

#[tokio::test]
async fn a_call_that_runs_is_not_run_twice() {
    let mut bench = puppet_bench().await;
    bench.start("c", "puppet", json!({"do": "hang"}));
    bench.start("c", "puppet", json!({"do": "return"}));
    bench.cancel("c");
    assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
    bench.start("d", "puppet", json!({"do": "return"}));
    assert_eq!(bench.finished().await.0, ToolCallId::from("d"), "nothing more of `c`");
}

#[tokio::test]
async fn a_run_killed_by_someone_else_is_answered() {
    let mut bench = puppet_bench().await;
    bench.start("c", "puppet", json!({"do": "hang"}));
    eventually("the run", || !bench.executor.get_children().is_empty()).await;
    bench.executor.get_children().iter().for_each(|run| run.kill());
    let (_, answer, _) = bench.finished().await;
    assert!(matches!(&answer, Err(ToolError::Failed(text)) if text.contains("from outside")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f18_ten_thousand_panics_disturb_nobody() {
    let mut bench = puppet_bench().await;
    bench.start("sibling", "puppet", json!({"do": "clean up"}));
    let mut answers: HashMap<ToolCallId, usize> = HashMap::new();
    for batch in 0..20 {
        for i in 0..500 {
            let what = if i % 2 == 0 { "panic" } else { "panic after a nap" };
            bench.start(&format!("{batch}.{i}"), "puppet", json!({"do": what}));
        }
        for _ in 0..500 {
            let (call, answer, _) = bench.finished().await;
            assert!(matches!(answer, Err(ToolError::Panicked(_))), "{answer:?}");
            *answers.entry(call).or_default() += 1;
        }
    }
    assert_eq!((answers.len(), answers.values().max()), (10_000, Some(&1)));
    assert_eq!(bench.executor.get_status(), ActorStatus::Running);
    assert_eq!(bench.executor.get_children().len(), 1, "the sibling, and it alone");
    bench.cancel("sibling");
    assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
    assert_eq!(bench.run("puppet", json!({"do": "return"})).await, Ok(ToolResult::text("done")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn f19_a_tool_that_blocks_its_thread_is_given_up_and_counted() {
    let mut bench = puppet_bench().await;
    let before = bench.runtime.abandoned();
    let answer = bench.run("puppet", json!({"do": "block", "nap": 4_000, "timeout": 10})).await;
    assert_eq!(answer, Err(ToolError::TimedOut(10)));
    assert!(bench.runtime.abandoned() > before);
    assert_eq!(bench.run("puppet", json!({"do": "return"})).await, Ok(ToolResult::text("done")));
    no_runs_left(&bench).await;
    assert!(bench.reports.try_recv().is_err(), "its late end is nobody's business");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_one_of_each_is_on_its_way() {
    let mut bench = puppet_bench().await;
    bench.start("c", "puppet", json!({"do": "chatter", "count": 1_000_000, "then": "hang"}));
    let (first, second) = (bench.report().await, bench.report().await);
    // The lane of a report, and the last thing it shows.
    let shown = |report: &ToolReport| match report {
        ToolReport::Updated { partial, .. } => ("update", text(&Ok(partial.clone()))),
        ToolReport::Progress { text, .. } if text.len() <= 4_096 => {
            ("progress", text.lines().last().unwrap_or_default().to_owned())
        }
        ToolReport::Progress { text, .. } => panic!("{} bytes of progress", text.len()),
        ToolReport::Finished { result, .. } => panic!("{result:?}"),
    };
    let mut last = HashMap::from([shown(&first), shown(&second)]);
    assert_eq!(last.len(), 2, "one partial result and one line of progress");
    // Nothing else comes while these two are held; then the newest.
    let quiet = tokio::time::timeout(Duration::from_millis(300), bench.reports.recv()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    drop((first, second));
    while last.values().any(|shown| shown != "999999") {
        let report = bench.report().await;
        last.extend([shown(&report)]);
    }
    bench.cancel("c");
    assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_shown_last_comes_before_the_end() {
    let mut bench = puppet_bench().await;
    bench.start("c", "puppet", json!({"do": "chatter", "count": 100_000}));
    let mut held = Vec::new();
    loop {
        let report = bench.report().await;
        let is_end = matches!(report, ToolReport::Finished { .. });
        held.push(report);
        if is_end {
            break;
        }
    }
    assert!(held.len() <= 5, "one and the last of each, and the end: {}", held.len());
    let mut updates = held.iter().filter_map(|report| match report {
        ToolReport::Updated { partial, .. } => Some(text(&Ok(partial.clone()))),
        ToolReport::Progress { .. } | ToolReport::Finished { .. } => None,
    });
    assert_eq!(updates.next_back().as_deref(), Some("99999"));
    drop(held);
    bench.start("d", "puppet", json!({"do": "return"}));
    assert!(matches!(bench.report().await, ToolReport::Finished { .. }), "credits that come late do nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn every_call_is_answered_exactly_once() {
    let marker = unique_sleep();
    let kills = AtomicUsize::new(0);
    for seed in 1..=6_u64 {
        let mut bench = puppet_bench().await;
        let mut random = seed;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let count = 300;
        for call in 0..count {
            let (nap, timeout) = (next(30), 1 + next(60));
            let what = [
                "return",
                "return after a nap",
                "fail",
                "panic",
                "panic after a nap",
                "hang",
                "clean up",
                "panic on cancel",
                "finish on cancel",
                "block",
                "chatter",
            ];
            let args = json!({"do": what[next(what.len() as u64) as usize], "nap": nap, "timeout": timeout});
            match next(20) {
                0 => bench.start(&call.to_string(), "gone", json!({})),
                1 => {
                    let command = format!("(env -i setsid sleep {marker} &); sleep {marker}");
                    bench.start(&call.to_string(), "bash", json!({"command": command, "timeout_ms": timeout}));
                }
                _ => bench.start(&call.to_string(), "puppet", args),
            }
            match next(6) {
                0 => bench.cancel(&next(call + 1).to_string()),
                1 => tokio::time::sleep(Duration::from_millis(next(4))).await,
                2 => {
                    if let Some(run) = bench.executor.get_children().first() {
                        run.kill();
                        kills.fetch_add(1, Ordering::Relaxed);
                    }
                }
                _ => {}
            }
            if next(100) == 0 {
                bench.executor.send_message(ExecutorMsg::CancelAll).unwrap();
            }
        }
        let mut answers: HashMap<ToolCallId, usize> = HashMap::new();
        for _ in 0..count {
            *answers.entry(bench.finished().await.0).or_default() += 1;
        }
        assert_eq!((answers.len() as u64, answers.values().max()), (count, Some(&1)), "seed {seed}");
        no_runs_left(&bench).await;
        bench.start("last", "puppet", json!({"do": "return"}));
        assert_eq!(bench.finished().await.0, ToolCallId::from("last"), "seed {seed}: an answer too many");
    }
    assert!(kills.load(Ordering::Relaxed) > 0, "nobody was killed from outside");
    common::runtime_of("test-house").settled().await;
    assert_eq!(alive(&marker), Vec::<u32>::new());
}
