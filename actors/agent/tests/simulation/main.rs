//! Drives the machine through thousands of seeded interleavings of everything that can reach it, in a world made of
//! plain data: a writer that commits, fails, dies or loses the process; a model, tools, children, hooks, people and
//! timers that answer in any order or not at all.
//!
//! A failing run prints its seed; `PLAYHOUSE_SEED=<seed> cargo test -p playhouse-agent --test simulation` plays it
//! again. `PLAYHOUSE_RUNS` sets how many seeds are played.

mod branches;
mod checks;
#[path = "../common/mod.rs"]
mod common;
mod hooks;
mod model;
mod person;
mod props;
mod world;
mod writer;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use world::World;

/// Every command and every report; the list is checked against what the runs delivered.
const VARIANTS: [&str; 28] = [
    "Prompt",
    "PromptFor",
    "Steer",
    "FollowUp",
    "Continue",
    "Abort",
    "Reset",
    "Restore",
    "Configure",
    "Rotate",
    "Approved",
    "Plan",
    "Delta",
    "Retrying",
    "Responded",
    "CallFailed",
    "HookDone",
    "ToolUpdated",
    "ToolProgress",
    "ToolFinished",
    "ChildEnded",
    "ChildIs",
    "Committed",
    "CommitFailed",
    "WriterLost",
    "ConnectionLost",
    "ExecutorLost",
    "Timer",
];

#[test]
fn every_interleaving_keeps_the_promises() {
    if let Some(seed) = std::env::var("PLAYHOUSE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let world = World::play(seed);
        println!("seed {seed}: {} inputs {:?}", world.inputs, world.delivered);
        return;
    }
    let runs: u64 = std::env::var("PLAYHOUSE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(20_000);
    let next = AtomicU64::new(0);
    let seen: Mutex<BTreeMap<&'static str, u64>> = Mutex::default();
    let failed: Mutex<Vec<u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= runs || !failed.lock().unwrap().is_empty() {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| World::play(seed))) {
                        Ok(world) => {
                            assert!(world.inputs >= 30, "seed {seed}: only {} inputs", world.inputs);
                            let mut seen = seen.lock().unwrap();
                            for name in world.delivered {
                                *seen.entry(name).or_default() += 1;
                            }
                        }
                        Err(_) => failed.lock().unwrap().push(seed),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failing seeds {failed:?}: play one again with PLAYHOUSE_SEED={}", failed[0]);
    let mut seen = seen.into_inner().unwrap();
    println!("{runs} runs; runs in which each was seen: {seen:?}");
    for name in VARIANTS {
        let count = seen.remove(name).unwrap_or_default();
        assert!(count >= runs / 20, "{name} was delivered in only {count} of {runs} runs");
    }
    for verdict in ["HookAsks", "HookAmends", "HookSays", "HookHalts", "PolicyJudges", "CheckFails", "CheckPasses"] {
        let count = seen.remove(verdict).unwrap_or_default();
        assert!(count >= runs / 100, "{verdict} happened in only {count} of {runs} runs");
    }
    let unknown = seen.remove("OutcomeUnknown").unwrap_or_default();
    assert!(unknown >= runs / 100, "an outcome was unknown in only {unknown} of {runs} runs");
    for special in ["Parallel", "Sequential", "Batched", "AbortBeforeCommit", "Crash"] {
        let count = seen.remove(special).unwrap_or_default();
        assert!(count >= runs / 20, "{special} happened in only {count} of {runs} runs");
    }
    let branches = seen.remove("Branches").unwrap_or_default();
    assert!(branches >= runs / 500, "branches grew in only {branches} of {runs} runs");
    assert!(seen.is_empty(), "unlisted: {seen:?}");
}
