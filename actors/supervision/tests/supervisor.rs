//! One child at a time: exits, restarts, parking, stopping.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kit::*;
use playhouse_supervision::*;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, ActorStatus};
use tokio::sync::oneshot;

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Finish,
    Asked,
    Panic,
    Error,
    Kill,
    OutsideStop,
    OutsideDrain,
}

impl End {
    const ALL: [Self; 7] =
        [Self::Finish, Self::Asked, Self::Panic, Self::Error, Self::Kill, Self::OutsideStop, Self::OutsideDrain];

    async fn of(self, child: &ActorRef<Order>, of: &ActorRef<SupervisorMsg>, id: &str) {
        let tell = |order| child.send_message(order).unwrap();
        match self {
            Self::Finish => tell(Order::Finish),
            Self::Asked => soon(Supervisor::stop(of, id)).await.unwrap(),
            Self::Panic => tell(Order::Panic),
            Self::Error => tell(Order::Fail),
            Self::Kill => child.kill(),
            Self::OutsideStop => child.stop(Some("by mistake".into())),
            Self::OutsideDrain => child.drain().unwrap(),
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Finish => "it finished",
            Self::Asked => "it was asked to end",
            Self::Panic => "told to panic",
            Self::Error => "told to fail",
            Self::Kill => "it was killed",
            Self::OutsideStop => "it was stopped without its supervisor being asked (by mistake)",
            Self::OutsideDrain => "it was stopped without its supervisor being asked (Drained)",
        }
    }
}

#[tokio::test]
async fn every_policy_meets_every_exit_as_the_table_says() {
    let mut stand = Stand::one_by_one().await;
    for policy in [RestartPolicy::Permanent, RestartPolicy::Transient, RestartPolicy::Temporary] {
        for end in End::ALL {
            let id = format!("{policy:?}/{end:?}");
            let child = stand.start(ChildSpec { restart: policy, ..worker(&id, &Log::default()) }).await;
            end.of(&child, &stand.of, &id).await;
            let comes_back = match (policy, end) {
                (_, End::Asked) | (RestartPolicy::Temporary, _) | (RestartPolicy::Transient, End::Finish) => false,
                (RestartPolicy::Permanent | RestartPolicy::Transient, _) => true,
            };
            let (seen, id_) = (stand.notice().await, id.as_str().into());
            if comes_back {
                assert_eq!(seen, Notice::Restarted { id: id_, reason: end.reason().into(), restarts: 1 });
                let node = stand.tree.get(&id).unwrap();
                assert_eq!((node.restarts, node.state, node.parent), (1, NodeState::Idle, Some("top".into())));
                soon(Supervisor::stop(&stand.of, &id)).await.unwrap();
                stand.notice().await;
            } else {
                assert_eq!(seen, Notice::Ended { id: id_ });
            }
            assert_eq!(stand.state(&id), None);
        }
    }
    assert_eq!(stand.census().await, Census::default());
}

/// Crashes as soon as it is up, as long as `well` is 0.
struct Fragile(Arc<AtomicUsize>);

impl Actor for Fragile {
    type Msg = Order;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Order>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn post_start(&self, _: ActorRef<Order>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        if self.0.load(Ordering::SeqCst) == 0 { Err("not well".into()) } else { Ok(()) }
    }

    async fn handle(&self, _: ActorRef<Order>, order: Order, (): &mut ()) -> Result<(), ActorProcessingErr> {
        match order {
            Order::Ping(reply) => drop(reply.send(())),
            _ => return Err("told to fail".into()),
        }
        Ok(())
    }
}

fn fragile(id: &str, well: &Arc<AtomicUsize>) -> ChildSpec {
    let well = well.clone();
    spec(id, start_fn(move |above| spawn(Fragile(well.clone()), above)))
}

#[tokio::test(start_paused = true)]
async fn f27_a_crash_loop_is_parked_visible_and_resumable() {
    let mut stand = Stand::one_by_one().await;
    let [sibling] = stand.workers(["sibling"]).await;
    let well = Arc::new(AtomicUsize::new(0));
    let spec = ChildSpec { budget: RestartBudget::default(), ..fragile("fragile", &well) };
    stand.start(spec).await;
    let begun = tokio::time::Instant::now();
    for restarts in 1..=40 {
        let expected = Notice::Restarted { id: "fragile".into(), reason: "not well".into(), restarts };
        assert_eq!(stand.notice().await, expected);
    }
    let reason = "40 restarts within 60s are spent; last exit: not well; resume it to try again".to_owned();
    assert_eq!(stand.notice().await, Notice::Parked { id: "fragile".into(), reason: reason.clone() });
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(stand.state("fragile"), Some(NodeState::Parked { reason }));
    assert_eq!(stand.census().await, Census { children: 2, actors: 1, parked: 1, ..Census::default() });
    ping(sibling).await;

    well.store(1, Ordering::SeqCst);
    let up = soon(Supervisor::resume(&stand.of, "fragile")).await.unwrap();
    assert_eq!(
        stand.notice().await,
        Notice::Restarted { id: "fragile".into(), reason: "resumed".into(), restarts: 41 }
    );
    ping(up.clone()).await;
    assert_eq!(stand.state("fragile"), Some(NodeState::Idle));
    ActorRef::<Order>::from(up).send_message(Order::Fail).unwrap();
    assert_eq!(
        stand.notice().await,
        Notice::Restarted { id: "fragile".into(), reason: "told to fail".into(), restarts: 42 },
        "it has a fresh budget"
    );
}

#[tokio::test]
async fn f27_a_parked_child_can_be_stopped_and_its_id_used_again() {
    let mut stand = Stand::one_by_one().await;
    let well = Arc::new(AtomicUsize::new(0));
    stand.start(ChildSpec { budget: budget(0), ..fragile("fragile", &well) }).await;
    assert!(matches!(stand.notice().await, Notice::Parked { .. }));
    soon(Supervisor::stop(&stand.of, "fragile")).await.unwrap();
    assert_eq!(stand.notice().await, Notice::Ended { id: "fragile".into() });
    assert_eq!((stand.census().await, stand.tree.len()), (Census::default(), 0));
    well.store(1, Ordering::SeqCst);
    ping(stand.start(fragile("fragile", &well)).await).await;
}

#[tokio::test]
async fn a_start_that_fails_or_panics_is_a_crash() {
    let mut stand = Stand::one_by_one().await;
    let (tries, log) = (Arc::new(AtomicUsize::new(0)), stand.log.clone());
    let start = start_fn(move |above| {
        let (nth, worker) = (tries.fetch_add(1, Ordering::SeqCst), Worker { id: "late".into(), log: log.clone() });
        async move {
            match nth {
                0 => Err("no luck".into()),
                1 => panic!("worse"),
                _ => spawn(worker, above).await,
            }
        }
    });
    let failed = soon(Supervisor::start(&stand.of, spec("late", start))).await.unwrap_err();
    assert_eq!(failed, SupervisorError::StartFailed { id: "late".into(), reason: "no luck".into() });
    let reason = "it did not start: its start panicked: worse".to_owned();
    assert_eq!(stand.notice().await, Notice::Restarted { id: "late".into(), reason, restarts: 1 });

    let hopeless = spec("hopeless", start_fn(|_| async { Err("no".to_owned()) }));
    soon(Supervisor::start(&stand.of, hopeless.clone())).await.unwrap_err();
    let reason = "5 restarts within 600s are spent; last exit: it did not start: no; resume it to try again";
    assert_eq!(stand.notice().await, Notice::Parked { id: "hopeless".into(), reason: reason.into() });
    let again = soon(Supervisor::resume(&stand.of, "hopeless")).await.unwrap_err();
    assert_eq!(again, SupervisorError::StartFailed { id: "hopeless".into(), reason: "no".into() });

    let once = ChildSpec { id: "once".into(), restart: RestartPolicy::Temporary, ..hopeless };
    soon(Supervisor::start(&stand.of, once)).await.unwrap_err();
    loop {
        if stand.notice().await == (Notice::Ended { id: "once".into() }) {
            break;
        }
    }
}

#[tokio::test]
async fn a_start_that_hangs_holds_nobody_up_and_can_be_stopped() {
    let mut stand = Stand::one_by_one().await;
    let (tx, dropped) = oneshot::channel::<()>();
    let tx = Arc::new(std::sync::Mutex::new(Some(tx)));
    let start = start_fn(move |_| {
        let held = tx.lock().unwrap().take();
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    let of = stand.of.clone();
    let hanging = tokio::spawn(async move { Supervisor::start(&of, spec("hanging", start)).await });
    stand.workers(["other"]).await;
    assert_eq!(stand.census().await.starting, 1);
    assert_eq!(stand.state("hanging"), Some(NodeState::Starting));
    soon(Supervisor::stop(&stand.of, "hanging")).await.unwrap();
    assert_eq!(soon(hanging).await.unwrap(), Err(SupervisorError::StoppedFirst { id: "hanging".into() }));
    soon(dropped).await.expect_err("the start's future is dropped");
    assert_eq!(stand.census().await, Census { children: 1, actors: 1, ..Census::default() });
}

/// The stop reaches the supervisor between the end of the start and its report: the actor must not live on.
#[tokio::test]
async fn an_actor_that_comes_up_after_its_stop_is_ended() {
    let stand = Stand::one_by_one().await;
    let up = Arc::new(std::sync::Mutex::new(None::<ActorCell>));
    let (seen, log, of) = (up.clone(), stand.log.clone(), stand.of.clone());
    let start = start_fn(move |above| {
        let (seen, of, worker) = (seen.clone(), of.clone(), Worker { id: "a".into(), log: log.clone() });
        async move {
            let cell = spawn(worker, above).await?;
            *seen.lock().unwrap() = Some(cell.clone());
            of.send_message(SupervisorMsg::Stop { id: "a".into(), reply: oneshot::channel().0.into() }).unwrap();
            Ok(cell)
        }
    });
    let stopped = soon(Supervisor::start(&stand.of, spec("a", start))).await;
    assert_eq!(stopped, Err(SupervisorError::StoppedFirst { id: "a".into() }));
    let cell = up.lock().unwrap().take().expect("it came up");
    soon(cell.wait(None)).await.unwrap();
    assert_eq!((stand.census().await, stand.tree.len()), (Census::default(), 0));
    assert_eq!(stand.of.get_children().len(), 0);
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let mut stand = Stand::one_by_one().await;
    let [child] = stand.workers(["a"]).await;
    let id = || "a".to_owned();
    let again = soon(Supervisor::start(&stand.of, worker("a", &stand.log))).await.unwrap_err();
    assert_eq!(again, SupervisorError::AlreadyThere { id: id() });
    assert_eq!(soon(Supervisor::resume(&stand.of, "a")).await, Err(SupervisorError::NotParked { id: id() }));
    let nobody = || SupervisorError::Unknown { id: "b".into() };
    assert_eq!(soon(Supervisor::stop(&stand.of, "b")).await, Err(nobody()));
    assert_eq!(soon(Supervisor::resume(&stand.of, "b")).await, Err(nobody()));
    ping(child).await;
    soon(Supervisor::shutdown(&stand.of)).await.unwrap();
    assert_eq!(soon(Supervisor::stop(&stand.of, "a")).await, Err(SupervisorError::Gone));
}

#[tokio::test]
async fn askers_that_went_away_and_listeners_that_panic_hurt_nobody() {
    let args = SupervisorArgs {
        notice: Some(Arc::new(|_| panic!("the listener panics"))),
        ..SupervisorArgs::new("top", Tree::default())
    };
    let of = Supervisor::root(args).await.unwrap();
    let gone = || oneshot::channel().0;
    of.send_message(SupervisorMsg::Start { spec: worker("a", &Log::default()).into(), reply: gone().into() }).unwrap();
    of.send_message(SupervisorMsg::Stop { id: "b".into(), reply: oneshot::channel().0.into() }).unwrap();
    of.send_message(SupervisorMsg::Resume { id: "a".into(), reply: gone().into() }).unwrap();
    of.send_message(SupervisorMsg::Census { reply: oneshot::channel().0.into() }).unwrap();
    of.send_message(SupervisorMsg::Stop { id: "a".into(), reply: oneshot::channel().0.into() }).unwrap();
    ping(soon(Supervisor::start(&of, worker("c", &Log::default()))).await.unwrap()).await;
    of.send_message(SupervisorMsg::Shutdown { reply: oneshot::channel().0.into() }).unwrap();
    soon(of.wait(None)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_the_pause_cancels_the_restart() {
    let mut stand = Stand::one_by_one().await;
    let hour = Duration::from_secs(3_600);
    let slow = RestartBudget { backoff: Backoff { initial: hour, max: hour }, ..budget(5) };
    let child = stand.start(ChildSpec { budget: slow, ..worker("a", &stand.log) }).await;
    child.send_message(Order::Panic).unwrap();
    soon(child.wait(None)).await.unwrap();
    assert_eq!(stand.census().await, Census { children: 1, ..Census::default() });
    assert_eq!(stand.state("a"), Some(NodeState::Restarting));
    soon(Supervisor::stop(&stand.of, "a")).await.unwrap();
    assert_eq!(stand.notice().await, Notice::Ended { id: "a".into() });
    let [_second] = stand.workers(["a"]).await;
    tokio::time::sleep(hour * 3).await;
    assert_eq!(stand.census().await, Census { children: 1, actors: 1, ..Census::default() });
    assert_eq!((stand.log.take(), stand.waiting_notices()), (vec![], vec![]), "it was not started twice");
}

#[tokio::test]
async fn a_stop_waits_for_the_message_at_work_and_all_askers_are_told() {
    let mut stand = Stand::one_by_one().await;
    let [child] = stand.workers(["a"]).await;
    let work = hold(&child).await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let (tx, answer) = oneshot::channel();
        stand.of.send_message(SupervisorMsg::Stop { id: "a".into(), reply: tx.into() }).unwrap();
        answers.push(answer);
    }
    assert_eq!(stand.census().await.actors, 1, "both have been heard, and it is still at work");
    assert!(answers.iter_mut().all(|answer| answer.try_recv().is_err()));
    drop(work);
    for answer in answers {
        assert_eq!(soon(answer).await, Ok(Ok(())));
    }
    assert_eq!(stand.log.take(), ["-a"]);
    assert_eq!(stand.notice().await, Notice::Ended { id: "a".into() });
}

#[tokio::test(start_paused = true)]
async fn what_does_not_stop_or_drain_in_time_is_killed() {
    let mut stand = Stand::one_by_one().await;
    let patience = Duration::from_secs(3);
    for shutdown in [Shutdown::Kill, Shutdown::Stop(patience), Shutdown::Drain(patience)] {
        let child = stand.start(ChildSpec { shutdown, ..worker("a", &stand.log) }).await;
        let _work = hold(&child).await;
        let begun = tokio::time::Instant::now();
        soon(Supervisor::stop(&stand.of, "a")).await.unwrap();
        let took = begun.elapsed();
        match shutdown {
            Shutdown::Kill => assert!(took < patience, "{took:?}"),
            Shutdown::Stop(_) | Shutdown::Drain(_) => assert!(took >= patience && took < patience * 2, "{took:?}"),
        }
        assert_eq!(stand.notice().await, Notice::Ended { id: "a".into() });
        assert_eq!(stand.log.take(), ["+a"], "a kill runs no post_stop");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_blocks_its_thread_is_given_up_and_said() {
    let mut stand = Stand::one_by_one().await;
    let child = stand.start(ChildSpec { shutdown: Shutdown::Kill, ..worker("a", &stand.log) }).await;
    // What a thread woke last waits in a slot that nobody can take it from. The child's first turn wakes the
    // supervisor, so it must be over before the thread is blocked.
    ping(child.clone()).await;
    stand.census().await;
    let unblock = block(&child).await;
    assert_eq!(soon(Supervisor::stop(&stand.of, "a")).await, Err(SupervisorError::Stuck { id: "a".into() }));
    assert_eq!((stand.census().await, stand.tree.len()), (Census::default(), 0));
    drop(unblock);
    soon(child.wait(None)).await.unwrap();
    assert_eq!(stand.census().await, Census::default());
}

#[tokio::test]
async fn a_shutdown_ends_the_last_first_each_in_its_way() {
    let mut stand = Stand::one_by_one().await;
    let mut children = Vec::new();
    for (id, shutdown) in [
        ("a", Shutdown::Stop(DEADLINE)),
        ("b", Shutdown::Drain(DEADLINE)),
        ("c", Shutdown::Kill),
        ("d", Shutdown::Stop(DEADLINE)),
    ] {
        children.push(stand.start(ChildSpec { shutdown, ..worker(id, &stand.log) }).await);
    }
    stand.log.take();
    let work = hold(&children[1]).await;
    for note in ["b handled 1", "b handled 2"] {
        children[1].send_message(Order::Note(note)).unwrap();
    }
    let of = stand.of.clone();
    let closing = tokio::spawn(async move { Supervisor::shutdown(&of).await });
    assert_eq!(stand.notices(2).await, [Notice::Ended { id: "d".into() }, Notice::Ended { id: "c".into() }]);
    assert!(children[0].get_status() < ActorStatus::Draining, "`a` is asked after `b` has ended");
    drop(work);
    soon(closing).await.unwrap().unwrap();
    assert_eq!(stand.notices(2).await, [Notice::Ended { id: "b".into() }, Notice::Ended { id: "a".into() }]);
    assert_eq!(stand.log.take(), ["-d", "b handled 1", "b handled 2", "-b", "-a"]);
    assert!(stand.tree.is_empty());
}

#[tokio::test]
async fn together_means_that_nobody_waits_for_a_slow_sibling() {
    let mut stand = Stand::new(ShutdownOrder::Together).await;
    let [_fast, slow] = stand.workers(["fast", "slow"]).await;
    let work = hold(&slow).await;
    let of = stand.of.clone();
    let closing = tokio::spawn(async move { Supervisor::shutdown(&of).await });
    assert_eq!(stand.notice().await, Notice::Ended { id: "fast".into() });
    drop(work);
    soon(closing).await.unwrap().unwrap();
    assert_eq!(stand.log.take(), ["-fast", "-slow"]);
}

#[tokio::test]
async fn a_supervisor_that_dies_comes_back_with_its_first_children() {
    let mut stand = Stand::one_by_one().await;
    let log = stand.log.clone();
    let inner = SupervisorArgs {
        children: vec![worker("leaf", &log).into()],
        ..SupervisorArgs::new("inner", stand.tree.clone())
    };
    let spec = ChildSpec {
        id: inner.id.clone(),
        kind: "supervisor",
        restart: RestartPolicy::Permanent,
        budget: RestartBudget::default(),
        shutdown: Shutdown::Stop(DEADLINE),
        start: start_fn(move |above| {
            let started = Actor::spawn_linked(None, Supervisor, inner.clone(), above);
            async { started.await.map(|(actor, _)| actor.get_cell()).map_err(|error| error.to_string()) }
        }),
    };
    let cell = soon(Supervisor::start(&stand.of, spec)).await.unwrap();
    assert_eq!(stand.notice().await, Notice::Started { id: "inner".into() });
    let inner: ActorRef<SupervisorMsg> = cell.into();
    let leaf = loop {
        if let Some(leaf) = inner.get_children().pop() {
            break leaf;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(stand.tree.get("leaf").unwrap().parent.as_deref(), Some("inner"));
    inner.kill();
    soon(leaf.wait(None)).await.unwrap();
    let restarted = Notice::Restarted { id: "inner".into(), reason: "it was killed".into(), restarts: 1 };
    assert_eq!(stand.notice().await, restarted);
    soon(async {
        while stand.state("leaf") != Some(NodeState::Idle) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon(Supervisor::shutdown(&stand.of)).await.unwrap();
    assert_eq!(log.take(), ["+leaf", "+leaf", "-leaf"], "killed with its supervisor, then stopped in order");
    assert!(stand.tree.is_empty());
}

#[tokio::test]
async fn a_child_says_itself_what_it_is_doing() {
    let mut stand = Stand::one_by_one().await;
    let (tree, log) = (stand.tree.clone(), stand.log.clone());
    let start = start_fn(move |above| {
        tree.set_state("a", NodeState::Running);
        spawn(Worker { id: "a".into(), log: log.clone() }, above)
    });
    stand.start(spec("a", start)).await;
    assert_eq!(stand.state("a"), Some(NodeState::Running));
    assert!(stand.tree.queue("a").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exit_that_overtakes_its_start_is_not_lost() {
    let mut stand = Stand::one_by_one().await;
    let well = Arc::new(AtomicUsize::new(0));
    for round in 0..500 {
        let id = format!("f{round}");
        let spec = ChildSpec { restart: RestartPolicy::Temporary, ..fragile(&id, &well) };
        soon(Supervisor::start(&stand.of, spec)).await.unwrap();
        let id: Arc<str> = id.into();
        assert_eq!(stand.notices(2).await, [Notice::Started { id: id.clone() }, Notice::Ended { id }]);
    }
    assert_eq!((stand.census().await, stand.tree.len()), (Census::default(), 0));
}
