//! No process of a tool outlives its call, whatever it does.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Answer, Bench, alive, eventually, sleepers, stat, text, unique_sleep};
use playhouse_protocol::ToolError;
use playhouse_tools::{adopt_orphans, default_tools, kill_leftovers};
use serde_json::json;

/// Ways to get away from a shell; `S` sleeps.
const ESCAPES: [&str; 12] = [
    "setsid S & wait",
    "(setsid S &); S",
    "nohup S >/dev/null 2>&1 & wait",
    "env -i setsid S & wait",
    "(env -i setsid S >/dev/null 2>&1 &); S",
    "(setsid bash -c '(env -i nohup setsid S </dev/null >/dev/null 2>&1 &)' &); S",
    "( ( exec -c setsid S </dev/null >/dev/null 2>&1 & ) & ); S",
    // These shed the marks too, but for one: the environment, the group, the parent.
    "(bash -c 'ulimit -x unlimited; exec setsid S' >/dev/null 2>&1 &); S",
    "(env -i bash -c 'ulimit -x unlimited; exec S' >/dev/null 2>&1 &); S",
    "env -i bash -c 'ulimit -x unlimited; setsid --wait S' & wait",
    "set -m; S & (set -m; env -i S &); S",
    "trap '' TERM HUP INT; coproc S; setsid env -i bash -c 'trap \"\" TERM; S; S' & wait",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_a_timeout_leaves_no_process() {
    let time = unique_sleep();
    let mut bench = Bench::new(default_tools()).await;
    let stubborn = format!("trap '' TERM INT HUP; while :; do sleep {time}; done");
    for command in [format!("sleep {time}"), stubborn] {
        let started = Instant::now();
        let answer = bench.run("bash", json!({"command": command, "timeout_ms": 300})).await;
        let took = started.elapsed();
        assert_eq!(answer.unwrap().details["limit"], "time", "{command}");
        assert_eq!(alive(&time), Vec::<u32>::new(), "{command}");
        assert!(took < Duration::from_millis(300 + 2_000), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_no_grandchild_escapes_an_abort() {
    adopt_orphans().unwrap();
    let mut bench = Bench::new(default_tools()).await;
    for round in 0..9 {
        for escape in ESCAPES {
            let time = unique_sleep();
            bench.start("c", "bash", json!({"command": escape.replace('S', &format!("sleep {time}"))}));
            let wanted = if escape.matches('S').count() > 1 { 2 } else { 1 };
            eventually(escape, || sleepers(&time) >= wanted).await;
            bench.cancel("c");
            assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
            assert_eq!(alive(&time), Vec::<u32>::new(), "round {round}: {escape}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_no_grandchild_survives_a_normal_end() {
    adopt_orphans().unwrap();
    let mut bench = Bench::new(default_tools()).await;
    for escape in ESCAPES {
        for _ in 0..3 {
            let time = unique_sleep();
            // Everything in the background, and the shell ends by itself.
            // The parent is the shell, so its trace ends with it.
            if escape.contains("--wait") {
                continue;
            }
            let hidden = escape.replace("; S", "").replace("& wait", "&").replace('S', &format!("sleep {time}"));
            let answer = bench.run("bash", json!({"command": format!("{hidden}\necho done")})).await;
            assert!(text(&answer).contains("done"), "{escape}: {answer:?}");
            assert_eq!(alive(&time), Vec::<u32>::new(), "{escape}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_a_process_that_forks_while_it_is_hunted_is_caught() {
    adopt_orphans().unwrap();
    let mut bench = Bench::new(default_tools()).await;
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let log = folder.path().join(round.to_string());
        let hops = || std::fs::metadata(&log).map_or(0, |meta| meta.len());
        // A chain of short-lived shells, each in a session of its own and with no environment, always one ahead. One
        // that got away would end with the folder.
        let hop = format!("printf . >>{} || exit; (env -i setsid bash -c \"$1\" hop \"$1\" &)", log.display());
        let command = format!("set -- '{hop}'; bash -c \"$1\" hop \"$1\"; sleep 7777");
        bench.start("c", "bash", json!({"command": command}));
        eventually("some hops", || hops() >= 5).await;
        bench.cancel("c");
        assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
        let last = hops();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(hops(), last, "it hops on in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_a_grandchild_that_holds_the_pipe_does_not_hold_the_call() {
    let time = unique_sleep();
    let mut bench = Bench::new(default_tools()).await;
    let started = Instant::now();
    let answer = bench.run("bash", json!({"command": format!("sleep {time} & echo here")})).await;
    assert_eq!(text(&answer), "here\n");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(alive(&time), Vec::<u32>::new());
    // What is still being said when bash ends is heard: the inner shell speaks when it sees that end.
    let answer = bench.run("bash", json!({"command": "exec 9> >(read -r _; echo late)"})).await;
    assert_eq!(text(&answer), "late\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adopted_orphans_leave_no_zombies() {
    adopt_orphans().unwrap();
    let mut bench = Bench::new(default_tools()).await;
    let answer =
        bench.run("bash", json!({"command": "for i in 1 2 3 4 5; do (setsid sleep 0.01 &); done; echo $$"})).await;
    text(&answer).trim().parse::<u32>().unwrap();
    let me = std::process::id();
    let zombies = || {
        let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| stat(*pid).is_some_and(|(state, parent)| state == 'Z' && parent == me)).count()
    };
    // Other tests' shells are zombies for a moment, until they are swept.
    eventually("no zombies", || zombies() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_the_end_of_an_executor_ends_its_processes() {
    for end in ["kill", "stop", "agent"] {
        let time = unique_sleep();
        let bench = Bench::new(default_tools()).await;
        for call in 0..3 {
            let command = format!("(env -i setsid sleep {time} &) ; sleep {time}");
            bench.start(&call.to_string(), "bash", json!({"command": command}));
        }
        eventually("six sleepers", || sleepers(&time) == 6).await;
        match end {
            "kill" => bench.executor.kill(),
            "stop" => bench.executor.stop(None),
            _ => bench.agent.kill(),
        }
        eventually("the executor's end", || bench.executor.get_status() == ractor::ActorStatus::Stopped).await;
        eventually("no sleepers", || sleepers(&time) == 0).await;
        tokio::time::timeout(common::DEADLINE, bench.runtime.settled()).await.unwrap();
        assert_eq!(alive(&time), Vec::<u32>::new(), "{end}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_a_run_killed_from_outside_is_answered_when_its_processes_are_dead() {
    let mut bench = Bench::new(default_tools()).await;
    for _ in 0..10 {
        let time = unique_sleep();
        bench.start("c", "bash", json!({"command": format!("(env -i setsid sleep {time} &) ; sleep {time}")}));
        eventually("two sleepers", || sleepers(&time) == 2).await;
        bench.executor.get_children().iter().for_each(|run| run.kill());
        assert!(matches!(bench.finished().await.1, Err(ToolError::Failed(_))));
        assert_eq!(alive(&time), Vec::<u32>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_an_abort_of_bash_settles_at_once() {
    adopt_orphans().unwrap();
    let mut bench = Bench::new(default_tools()).await;
    let mut took = Vec::new();
    for _ in 0..200 {
        let time = unique_sleep();
        bench.start("c", "bash", json!({"command": format!("sleep {time} & (setsid sleep {time} &); sleep {time}")}));
        eventually("three sleepers", || sleepers(&time) == 3).await;
        let asked = Instant::now();
        bench.cancel("c");
        assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
        took.push(asked.elapsed());
        assert_eq!(alive(&time), Vec::<u32>::new());
    }
    took.sort();
    println!("abort of bash with grandchildren: p50 {:?}, p99 {:?}, max {:?}", took[100], took[197], took[199]);
    assert!(took[197] < Duration::from_secs(1), "{:?}", took[197]);
}

/// Runs one of the ignored tests below in a process of its own.
fn other_process(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// A house in a process of its own; it ends with its test, also one that fails, and so does all it started.
struct OtherHouse {
    process: std::process::Child,
    node: String,
}

impl Drop for OtherHouse {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        kill_leftovers(&[&self.node]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_house_left_is_killed() {
    let (time, kept) = (unique_sleep(), unique_sleep());
    let node = format!("dead-{}", std::process::id());
    let mut house = other_process("the_house_that_will_be_killed");
    let house = house.env("TEST_NODE", &node).env("TEST_TIME", &time).spawn().unwrap();
    let mut house = OtherHouse { process: house, node: node.clone() };
    let bench = Bench::in_house(default_tools(), "live-house", std::env::temp_dir()).await;
    bench.start("c", "bash", json!({"command": format!("(env -i setsid sleep {kept} &); sleep {kept}")}));
    eventually("its four sleepers", || sleepers(&time) == 4 && sleepers(&kept) == 2).await;
    house.process.kill().unwrap();
    house.process.wait().unwrap();
    assert_eq!(sleepers(&time), 4, "nobody was there to end them");
    let (stranger, name) = (format!("{node}-not"), node.clone());
    assert_eq!(tokio::task::spawn_blocking(move || kill_leftovers(&[&stranger])).await.unwrap(), 0);
    let killed = tokio::task::spawn_blocking(move || kill_leftovers(&["nobody", &name])).await.unwrap();
    assert!(killed >= 4, "{killed}");
    assert_eq!(alive(&time), Vec::<u32>::new());
    assert_eq!(sleepers(&kept), 2, "a live house's processes are left alone");
    bench.executor.kill();
    eventually("the end", || sleepers(&kept) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is killed by the test above"]
async fn the_house_that_will_be_killed() {
    let (node, time) = (std::env::var("TEST_NODE").unwrap(), std::env::var("TEST_TIME").unwrap());
    adopt_orphans().unwrap();
    let bench = Bench::in_house(default_tools(), &node, std::env::temp_dir()).await;
    bench.start("a", "bash", json!({"command": format!("(env -i setsid sleep {time} &); sleep {time}")}));
    bench.start("b", "bash", json!({"command": format!("(setsid nohup sleep {time} &); sleep {time}")}));
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn f48_tools_see_no_keys() {
    let out =
        other_process("prints_the_environment_of_a_tool").env("CANARY_API_KEY", "sekret-canary").output().unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    assert!(out.contains("PATH=") && out.contains("PLAYHOUSE_HOUSE=test-house"), "{out}");
    assert!(!out.contains("sekret-canary"), "{out}");
}

#[tokio::test]
#[ignore = "is run by the test above"]
async fn prints_the_environment_of_a_tool() {
    let answer: Answer = Bench::new(default_tools()).await.run("bash", json!({"command": "env"})).await;
    println!("{}", text(&answer));
}
