//! How much a command may have, and that nothing of it is left.

use std::fs;
use std::path::Path;
use std::time::Instant;

use playhouse_protocol::ToolError;
use playhouse_tools::{ProcessLimits, SandboxRules, adopt_orphans};
use serde_json::json;

use crate::common::{self, Bench, alive, eventually, sleepers, text, unique_sleep};
use crate::{TIERS, bash, plain, sandbox, workdir};

/// Programs that multiply until someone stops them; the well-known spelling is refused before it runs.
const BOMBS: [&str; 4] = [
    "bomb() { bomb | bomb & }; bomb; sleep 7777",
    "python3 -c 'import os\nwhile True: os.fork()'",
    "perl -e 'fork while fork or 1'",
    // Each in a session of its own, with no environment and no parent.
    "b='sleep 0.4; for i in 1 2 3; do (env -i PATH=\"$PATH\" setsid bash -c \"$1\" b \"$1\" &); done; sleep 60'; bash -c \"$b\" b \"$b\"; sleep 7777",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_a_fork_bomb_is_dead_within_seconds_and_nothing_is_left() {
    adopt_orphans().unwrap();
    let limits = ProcessLimits { processes: 200, ..ProcessLimits::default() };
    for mode in TIERS {
        for bomb in BOMBS {
            let workdir = workdir();
            let rules = SandboxRules { limits, ..SandboxRules::default() };
            let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
            let begun = Instant::now();
            let answer = bench.run("bash", json!({"command": bomb, "timeout_ms": 60_000})).await;
            let took = begun.elapsed();
            println!("{mode:?}: {took:?}: {bomb}");
            let result = answer.unwrap();
            assert_eq!(result.details["limit"], "processes", "{mode:?} {bomb}: {result:?}");
            tokio::time::timeout(common::DEADLINE, bench.runtime.settled()).await.unwrap();
            let marked = || of_this_folder(workdir.path());
            assert_eq!(marked(), 0, "{mode:?} {bomb}: what is left");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_a_crowd_that_gives_up_at_once_is_told_why() {
    let limits = ProcessLimits { processes: 4, ..ProcessLimits::default() };
    for mode in TIERS {
        let workdir = workdir();
        let rules = SandboxRules { limits, ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        let crowd = "perl -e 'for (1..500) { my $p = fork; defined $p or exit 3; $p or (sleep 99, exit) } exit 4'";
        let result = bench.run("bash", json!({"command": crowd})).await.unwrap();
        assert_eq!(result.details["limit"], "processes", "{mode:?}: {result:?}");
        let text = text(&Ok(result));
        assert!(text.contains("at once") && !text.contains("exit code 4"), "{mode:?}: {text}");
    }
}

/// How many processes work in a folder.
fn of_this_folder(folder: &Path) -> usize {
    let folder = folder.canonicalize().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&folder))).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_memory_threads_and_file_sizes_are_bounded() {
    let limits = ProcessLimits { processes: 50, memory: 200 << 20, file: 1 << 20 };
    for mode in TIERS {
        let workdir = workdir();
        let rules = SandboxRules { limits, ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        for (hog, limit) in [
            ("python3 -c 'x = bytearray(400 << 20); import time; time.sleep(60)'", "memory"),
            (
                "for i in 1 2 3 4; do python3 -c 'x = bytearray(80 << 20); import time; time.sleep(60)' & done; wait",
                "memory",
            ),
            (
                "python3 -c 'import threading as t, time\nt.stack_size(65536)\nfor i in range(600): t.Thread(target=time.sleep, args=(60,)).start()'",
                "threads",
            ),
        ] {
            // None of them ends by itself: without the watch the deadline would be the answer.
            let result = bench.run("bash", json!({"command": hog, "timeout_ms": 50_000})).await.unwrap();
            assert_eq!(result.details["limit"], limit, "{mode:?} {hog}: {result:?}");
        }
        // Pages that processes share are counted once.
        let shared = "python3 -c 'import os, time\nx = bytearray(100 << 20)\nfor i in range(5): os.fork() or time.sleep(1) or os._exit(0)\ntime.sleep(1); print(\"done\")'";
        assert_eq!(bash(&mut bench, shared).await.0, "done\n", "{mode:?}");
        let (said, code) = bash(&mut bench, "head -c 3000000 /dev/zero > big").await;
        assert_ne!(code, Some(0), "{mode:?}: {said}");
        assert_eq!(fs::metadata(workdir.path().join("big")).unwrap().len(), 1 << 20, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_no_grandchild_escapes_from_a_sandbox() {
    adopt_orphans().unwrap();
    for mode in TIERS {
        let workdir = workdir();
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        for escape in [
            "(setsid S &); S",
            "nohup S >/dev/null 2>&1 & S",
            "(setsid bash -c '(env -i nohup setsid S </dev/null >/dev/null 2>&1 &)' &); S",
            "(bash -c 'ulimit -x unlimited; exec setsid S' >/dev/null 2>&1 &); S",
        ] {
            let time = unique_sleep();
            bench.start("c", "bash", json!({"command": escape.replace('S', &format!("sleep {time}"))}));
            eventually(escape, || sleepers(&time) >= 2).await;
            bench.cancel("c");
            assert_eq!(bench.finished().await.1, Err(ToolError::Cancelled));
            assert_eq!(alive(&time), Vec::<u32>::new(), "{mode:?}: {escape}");
            // And when the command ends by itself.
            let hidden = escape.replace("; S", "").replace("& S", "&").replace('S', &format!("sleep {time}"));
            assert!(bash(&mut bench, &format!("{hidden}\necho done")).await.0.contains("done"));
            assert_eq!(alive(&time), Vec::<u32>::new(), "{mode:?}: {escape}");
        }
    }
}
