//! Children that start, end, fail and are parked in any order.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kit::*;
use playhouse_supervision::*;
use ractor::ActorRef;

/// Whatever happens in whatever order: when it is calm again every child is up or parked, and nothing hangs.
#[tokio::test(start_paused = true)]
async fn under_chaos_every_child_ends_up_alive_or_parked() {
    for seed in 0..60 {
        chaos(seed).await;
    }
}

async fn chaos(seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    fastrand::seed(seed); // the supervisor's jitter; everything runs on this thread
    let mut stand = Stand::one_by_one().await;
    let flaky = Arc::new(AtomicUsize::new(0));
    let one = |n: usize, dice: &mut fastrand::Rng| {
        let (id, log, flaky) = (format!("w{n}"), stand.log.clone(), flaky.clone());
        let restart = [RestartPolicy::Permanent, RestartPolicy::Transient, RestartPolicy::Temporary][dice.usize(0..3)];
        let shutdown = [Shutdown::Kill, Shutdown::Stop(DEADLINE), Shutdown::Drain(DEADLINE)][dice.usize(0..3)];
        let start = start_fn({
            let id = id.clone();
            move |above| {
                let (fail, worker) =
                    (flaky.fetch_add(1, Ordering::SeqCst) % 7 == 6, Worker { id: id.clone(), log: log.clone() });
                async move { if fail { Err("flaky".into()) } else { spawn(worker, above).await } }
            }
        });
        ChildSpec { restart, shutdown, budget: budget(4), ..spec(&id, start) }
    };
    for _ in 0..60 {
        let n = dice.usize(0..6);
        let id = format!("w{n}");
        match dice.usize(0..7) {
            0 | 1 => {
                let (tx, _) = tokio::sync::oneshot::channel();
                let spec = one(n, &mut dice);
                stand.of.send_message(SupervisorMsg::Start { spec: spec.into(), reply: tx.into() }).unwrap();
            }
            2 => {
                let (tx, _) = tokio::sync::oneshot::channel();
                stand.of.send_message(SupervisorMsg::Stop { id, reply: tx.into() }).unwrap();
            }
            3 => {
                let (tx, _) = tokio::sync::oneshot::channel();
                stand.of.send_message(SupervisorMsg::Resume { id, reply: tx.into() }).unwrap();
            }
            4..=6 => {
                let mut children = stand.of.get_children();
                children.sort_by_key(|cell| cell.get_id());
                if let Some(cell) = children.get(dice.usize(0..children.len().max(1))) {
                    match dice.usize(0..3) {
                        0 => cell.kill(),
                        1 => cell.stop(None),
                        _ => drop(ActorRef::<Order>::from(cell.clone()).send_message(Order::Panic)),
                    }
                }
            }
            _ => unreachable!(),
        }
        for _ in 0..dice.usize(0..20) {
            tokio::task::yield_now().await;
        }
        if dice.usize(0..8) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.u64(0..10))).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (census, nodes) = (stand.census().await, stand.tree.snapshot());
    let what = format!("seed {seed}: {census:?} {nodes:?}");
    assert_eq!((census.starting, census.pending), (0, 0), "{what}");
    assert_eq!(census.actors + census.parked, census.children, "{what}");
    assert_eq!(stand.of.get_children().len(), census.actors, "{what}");
    assert_eq!(nodes.len(), census.children, "{what}");
    let idle = nodes.iter().filter(|node| node.state == NodeState::Idle).count();
    assert_eq!(idle, census.actors, "{what}");
    for cell in stand.of.get_children() {
        ping(cell).await;
    }
    let ups = |notice: &Notice| matches!(notice, Notice::Started { .. });
    let ends = |notice: &Notice| matches!(notice, Notice::Ended { .. });
    let notices = stand.waiting_notices();
    assert!(notices.iter().filter(|n| ups(n)).count() > 0 && notices.iter().filter(|n| ends(n)).count() > 0, "{what}");
    soon(Supervisor::shutdown(&stand.of)).await.unwrap();
    assert!(stand.tree.is_empty(), "{what}");
}
