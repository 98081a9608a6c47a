//! One-for-all and rest-for-one: siblings that live and die together.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kit::*;
use playhouse_supervision::*;
use ractor::ActorRef;

fn restarted(id: &str, reason: &str, restarts: u64) -> Notice {
    Notice::Restarted { id: id.into(), reason: reason.into(), restarts }
}

const WITH_B: &str = "`b`, which it works with, was restarted: told to panic";

#[tokio::test]
async fn one_for_all_ends_all_in_reverse_and_starts_all_in_order() {
    let mut stand = Stand::new(Strategy::OneForAll, Ending::OneByOne).await;
    let [_, b, _] = stand.workers(["a", "b", "c"]).await;
    b.send_message(Order::Panic).unwrap();
    let seen = stand.notices(3).await;
    assert_eq!(seen, [restarted("a", WITH_B, 1), restarted("b", "told to panic", 1), restarted("c", WITH_B, 1)]);
    assert_eq!(stand.log.take(), ["-c", "-a", "+a", "+b", "+c"]);
    assert_eq!(stand.census().await, Census { children: 3, actors: 3, ..Census::default() });
    assert_eq!(stand.tree.get("a").unwrap().restarts, 1);
}

#[tokio::test]
async fn rest_for_one_leaves_those_before_alone() {
    let mut stand = Stand::new(Strategy::RestForOne, Ending::OneByOne).await;
    let [a, b, _, _] = stand.workers(["a", "b", "c", "d"]).await;
    b.send_message(Order::Panic).unwrap();
    let seen = stand.notices(3).await;
    assert_eq!(seen, [restarted("b", "told to panic", 1), restarted("c", WITH_B, 1), restarted("d", WITH_B, 1)]);
    assert_eq!(stand.log.take(), ["-d", "-c", "+b", "+c", "+d"]);
    ping(a).await;
    assert_eq!(stand.tree.get("a").unwrap().restarts, 0);
}

#[tokio::test]
async fn an_exit_that_is_no_failure_touches_no_sibling() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let mut stand = Stand::new(strategy, Ending::OneByOne).await;
        let transient = ChildSpec { restart: Restart::Transient, ..worker("a", &stand.log) };
        let temporary = ChildSpec { restart: Restart::Temporary, ..worker("b", &stand.log) };
        let a = stand.start(transient).await;
        let b = stand.start(temporary).await;
        let [c, d] = stand.workers(["c", "d"]).await;
        a.send_message(Order::Finish).unwrap();
        assert_eq!(stand.notice().await, Notice::Ended { id: "a".into() });
        b.send_message(Order::Panic).unwrap();
        assert_eq!(stand.notice().await, Notice::Ended { id: "b".into() });
        soon(Supervisor::stop(&stand.of, "c")).await.unwrap();
        assert_eq!(stand.notice().await, Notice::Ended { id: "c".into() });
        soon(c.wait(None)).await.unwrap();
        ping(d).await;
        assert_eq!(stand.log.take(), ["-a", "-c"]);
        assert_eq!(stand.census().await, Census { children: 1, actors: 1, ..Census::default() });
    }
}

#[tokio::test]
async fn a_temporary_sibling_is_ended_and_not_started_again() {
    let mut stand = Stand::new(Strategy::OneForAll, Ending::OneByOne).await;
    stand.start(ChildSpec { restart: Restart::Temporary, ..worker("once", &stand.log) }).await;
    let [b] = stand.workers(["b"]).await;
    b.send_message(Order::Panic).unwrap();
    assert_eq!(stand.notices(2).await, [Notice::Ended { id: "once".into() }, restarted("b", "told to panic", 1)]);
    assert_eq!(stand.log.take(), ["-once", "+b"]);
    assert_eq!((stand.state("once"), stand.census().await.children), (None, 1));
}

#[tokio::test]
async fn f27_a_spent_budget_parks_those_that_depend_on_it_and_resume_brings_them_back_in_order() {
    for (strategy, parked) in [(Strategy::OneForAll, vec!["b", "c", "a"]), (Strategy::RestForOne, vec!["b", "c"])] {
        let mut stand = Stand::new(strategy, Ending::OneByOne).await;
        let [a] = stand.workers(["a"]).await;
        let b = stand.start(ChildSpec { budget: budget(0), ..worker("b", &stand.log) }).await;
        stand.workers(["c"]).await;
        b.send_message(Order::Fail).unwrap();
        let spent = "0 restarts within 600s are spent; last exit: told to fail; resume it to try again";
        for id in &parked {
            let reason =
                if *id == "b" { spent.to_owned() } else { format!("`b`, which it works with, is parked: {spent}") };
            assert_eq!(stand.notice().await, Notice::Parked { id: (*id).into(), reason: reason.clone() });
            assert_eq!(stand.state(id), Some(NodeState::Parked { reason }));
        }
        if strategy == Strategy::RestForOne {
            ping(a).await;
        }
        let census = stand.census().await;
        assert_eq!((census.parked, census.actors, census.pending), (parked.len(), 3 - parked.len(), 0));

        stand.log.take();
        ping(soon(Supervisor::resume(&stand.of, "c")).await.unwrap()).await;
        let mut ids = parked;
        ids.sort_unstable();
        for id in &ids {
            assert_eq!(stand.notice().await, restarted(id, "resumed", 1));
        }
        assert_eq!(stand.log.take(), ids.iter().map(|id| format!("+{id}")).collect::<Vec<_>>());
        assert_eq!(stand.census().await, Census { children: 3, actors: 3, ..Census::default() });
    }
}

#[tokio::test]
async fn a_member_that_fails_to_start_makes_the_group_begin_again() {
    let mut stand = Stand::new(Strategy::OneForAll, Ending::OneByOne).await;
    let [a] = stand.workers(["a"]).await;
    let (log, starts) = (stand.log.clone(), Arc::new(AtomicUsize::new(0)));
    let start = start_fn(move |above| {
        let (nth, worker) = (starts.fetch_add(1, Ordering::SeqCst), Worker { id: "b".into(), log: log.clone() });
        async move { if nth == 1 { Err("not this time".into()) } else { spawn(worker, above).await } }
    });
    stand.start(spec("b", start)).await;
    stand.workers(["c"]).await;
    a.send_message(Order::Panic).unwrap();
    let first = stand.notice().await;
    assert_eq!(first, restarted("a", "told to panic", 1));
    let with_b = "`b`, which it works with, was restarted: it did not start: not this time";
    let with_a = "`a`, which it works with, was restarted: told to panic";
    assert_eq!(
        stand.notices(3).await,
        [restarted("a", with_b, 2), restarted("b", "it did not start: not this time", 1), restarted("c", with_a, 1)]
    );
    assert_eq!(stand.log.take(), ["-c", "-b", "+a", "-a", "+a", "+b", "+c"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_started_before_everybody_has_ended() {
    let mut stand = Stand::new(Strategy::OneForAll, Ending::OneByOne).await;
    let [a, b, _] = stand.workers(["a", "b", "c"]).await;
    let work = hold(&b).await;
    a.send_message(Order::Panic).unwrap();
    tokio::time::sleep(DEADLINE / 2).await;
    assert_eq!((stand.log.take(), stand.waiting_notices()), (vec!["-c".to_owned()], vec![]));
    assert_eq!(stand.state("b"), Some(NodeState::Restarting));
    drop(work);
    stand.notices(3).await;
    assert_eq!(stand.log.take(), ["-b", "+a", "+b", "+c"]);
}

#[tokio::test(start_paused = true)]
async fn f27_a_member_that_is_being_ended_for_a_restart_is_parked_when_its_ground_is() {
    let mut stand = Stand::new(Strategy::RestForOne, Ending::OneByOne).await;
    let a = stand.start(ChildSpec { budget: budget(0), ..worker("a", &stand.log) }).await;
    let [b, c] = stand.workers(["b", "c"]).await;
    let work = hold(&c).await;
    b.send_message(Order::Panic).unwrap();
    soon(b.wait(None)).await.unwrap();
    a.send_message(Order::Panic).unwrap();
    let parked = |notice: &Notice| match notice {
        Notice::Parked { id, .. } => id.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(stand.notices(2).await.iter().map(parked).collect::<Vec<_>>(), ["a", "b"]);
    drop(work);
    assert_eq!(parked(&stand.notice().await), "c");
    tokio::time::sleep(DEADLINE).await;
    assert_eq!(stand.log.take(), ["-c"]);
    assert_eq!(stand.census().await, Census { children: 3, parked: 3, ..Census::default() });
    soon(Supervisor::resume(&stand.of, "a")).await.unwrap();
    stand.notices(3).await;
    assert_eq!(stand.log.take(), ["+a", "+b", "+c"]);
}

#[tokio::test(start_paused = true)]
async fn children_can_be_added_and_stopped_while_the_group_is_down() {
    let mut stand = Stand::new(Strategy::OneForAll, Ending::OneByOne).await;
    let pause = Duration::from_secs(60);
    let slow = RestartBudget { backoff: Backoff { initial: pause, max: pause }, ..budget(5) };
    let a = stand.start(ChildSpec { budget: slow, ..worker("a", &stand.log) }).await;
    let [_, c] = stand.workers(["b", "c"]).await;
    a.send_message(Order::Panic).unwrap();
    soon(c.wait(None)).await.unwrap();
    let of = stand.of.clone();
    let added = tokio::spawn({
        let spec = worker("d", &stand.log);
        async move { Supervisor::start(&of, spec).await }
    });
    soon(Supervisor::stop(&stand.of, "b")).await.unwrap();
    assert_eq!(stand.notice().await, Notice::Ended { id: "b".into() });
    ping(soon(added).await.unwrap().unwrap()).await;
    assert_eq!(stand.log.take(), ["-c", "-b", "+a", "+c", "+d"]);
    assert_eq!(stand.census().await, Census { children: 3, actors: 3, ..Census::default() });
}

/// Whatever happens in whatever order: when it is calm again every child is up or parked, and nothing hangs.
#[tokio::test(start_paused = true)]
async fn under_chaos_every_child_ends_up_alive_or_parked() {
    for seed in 0..60 {
        for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
            chaos(seed, strategy).await;
        }
    }
}

async fn chaos(seed: u64, strategy: Strategy) {
    let mut dice = fastrand::Rng::with_seed(seed);
    fastrand::seed(seed); // the supervisor's jitter; everything runs on this thread
    let mut stand = Stand::new(strategy, Ending::OneByOne).await;
    let flaky = Arc::new(AtomicUsize::new(0));
    let one = |n: usize, dice: &mut fastrand::Rng| {
        let (id, log, flaky) = (format!("w{n}"), stand.log.clone(), flaky.clone());
        let restart = [Restart::Permanent, Restart::Transient, Restart::Temporary][dice.usize(0..3)];
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
    let what = format!("seed {seed}, {strategy:?}: {census:?} {nodes:?}");
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
