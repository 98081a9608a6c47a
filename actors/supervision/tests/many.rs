//! Many children, and what is left when they are gone.

mod kit;

use std::sync::Arc;
use std::time::Instant;

use kit::*;
use playhouse_supervision::*;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{mpsc, oneshot};

/// Says in the directory that it is up.
struct Listed {
    id: Arc<str>,
    directory: Directory<Order>,
}

impl Actor for Listed {
    type Msg = Order;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<Order>, (): ()) -> Result<(), ActorProcessingErr> {
        self.directory.publish(self.id.clone(), myself);
        Ok(())
    }

    async fn handle(&self, myself: ActorRef<Order>, order: Order, (): &mut ()) -> Result<(), ActorProcessingErr> {
        match order {
            Order::Ping(reply) => drop(reply.send(())),
            Order::Finish => finish(&myself),
            _ => panic!("told to panic"),
        }
        Ok(())
    }
}

fn listed(id: &str, directory: &Directory<Order>) -> ChildSpec {
    let (id, directory) = (Arc::<str>::from(id), directory.clone());
    let name = id.to_string();
    spec(&name, start_fn(move |above| spawn(Listed { id: id.clone(), directory: directory.clone() }, above)))
}

async fn house(directory: &Directory<Order>) -> (ActorRef<SupervisorMsg>, Tree, mpsc::UnboundedReceiver<Notice>) {
    let (tree, (tx, rx)) = (Tree::default(), mpsc::unbounded_channel());
    let there = directory.clone();
    let notice: NoticeFn = Arc::new(move |notice| {
        match &notice {
            Notice::Ended { id } => there.retire(id),
            Notice::Parked { id, reason } => there.park(id.clone(), reason.as_str()),
            Notice::Started { .. } | Notice::Restarted { .. } => {}
        }
        let _ = tx.send(notice);
    });
    let args = SupervisorArgs {
        shutdown_order: ShutdownOrder::Together,
        notice: Some(notice),
        ..SupervisorArgs::new("stage", tree.clone())
    };
    (Supervisor::root(args).await.unwrap(), tree, rx)
}

fn ask_start(of: &ActorRef<SupervisorMsg>, spec: ChildSpec) {
    of.send_message(SupervisorMsg::Start { spec: spec.into(), reply: oneshot::channel().0.into() }).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_children_that_ended_leave_nothing() {
    let directory = Directory::new();
    let (of, tree, mut notices) = house(&directory).await;
    let mut ended = 0;
    for n in 0..3_000 {
        let id = format!("agent/{n}");
        let restart = if n % 5 == 4 { RestartPolicy::Permanent } else { RestartPolicy::Temporary };
        let spec = ChildSpec { restart, budget: budget(0), ..listed(&id, &directory) };
        let cell = soon(Supervisor::start(&of, spec)).await.unwrap();
        let actor: ActorRef<Order> = cell.clone().into();
        match n % 5 {
            0 => actor.send_message(Order::Finish).unwrap(),
            1 => actor.send_message(Order::Panic).unwrap(),
            2 => cell.kill(),
            3 => soon(Supervisor::stop(&of, &id)).await.unwrap(),
            _ => {
                cell.kill();
                let parked = soon(directory.live(&id, Some(cell.get_id()))).await;
                assert!(matches!(parked, Err(Absent::Parked { .. })), "{parked:?}");
                soon(Supervisor::stop(&of, &id)).await.unwrap();
            }
        }
    }
    while ended < 3_000 {
        match soon(notices.recv()).await.unwrap() {
            Notice::Ended { .. } => ended += 1,
            Notice::Started { .. } | Notice::Restarted { .. } | Notice::Parked { .. } => {}
        }
    }
    assert_eq!(soon(Supervisor::census(&of)).await, Ok(Census::default()));
    assert_eq!((tree.len(), directory.len(), of.get_children().len()), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_finds_the_next_incarnation_after_every_crash() {
    let directory = Directory::new();
    let (of, _tree, _notices) = house(&directory).await;
    let spec = ChildSpec { budget: budget(1_000), ..listed("agent/1", &directory) };
    soon(Supervisor::start(&of, spec)).await.unwrap();
    let mut not = None;
    for _ in 0..200 {
        let now = soon(directory.live("agent/1", not)).await.unwrap();
        ping(now.clone()).await;
        not = Some(now.get_id());
        now.send_message(Order::Panic).unwrap();
    }
}

const MANY: usize = 100_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_children_under_one_supervisor() {
    let directory = Directory::new();
    let (of, tree, mut notices) = house(&directory).await;
    let begun = Instant::now();
    for n in 0..MANY {
        ask_start(&of, listed(&format!("agent/{n}"), &directory));
    }
    for _ in 0..MANY {
        assert!(matches!(soon(notices.recv()).await.unwrap(), Notice::Started { .. }));
    }
    let started = begun.elapsed();
    assert_eq!((tree.len(), directory.len()), (MANY, MANY));

    let begun = Instant::now();
    for n in (0..MANY).step_by(20) {
        directory.get(&format!("agent/{n}")).unwrap().kill();
    }
    for _ in (0..MANY).step_by(20) {
        assert!(matches!(soon(notices.recv()).await.unwrap(), Notice::Restarted { .. }));
    }
    let restarted = begun.elapsed();
    let census = soon(Supervisor::census(&of)).await.unwrap();
    assert_eq!(census, Census { children: MANY, actors: MANY, ..Census::default() });

    let begun = Instant::now();
    soon(Supervisor::shutdown(&of)).await.unwrap();
    let ended = begun.elapsed();
    assert_eq!((tree.len(), directory.len()), (0, 0));
    println!("{MANY} started in {started:?}, {} restarted in {restarted:?}, ended in {ended:?}", MANY / 20);
}

/// Floods an actor that is busy: what does not fit is refused at once, and the places come back with the messages.
#[tokio::test]
async fn f22_a_flood_is_answered_busy_and_the_depth_never_exceeds_its_limit() {
    struct Slow;
    #[allow(dead_code)]
    #[derive(Debug)]
    struct Input(Permit, Option<oneshot::Receiver<()>>);
    impl Actor for Slow {
        type Msg = Input;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Input>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn handle(&self, _: ActorRef<Input>, input: Input, (): &mut ()) -> Result<(), ActorProcessingErr> {
            let Input(_permit, until) = input;
            if let Some(until) = until {
                let _ = until.await;
            }
            Ok(())
        }
    }
    let tree = Tree::default();
    let node = tree.enter("slow", "slow", None);
    let admission = Admission::counting(64, node.queue());
    let depth = || tree.get("slow").unwrap().queue_depth;
    for killed in [false, true] {
        let (actor, _) = Actor::spawn(None, Slow, ()).await.unwrap();
        let (release, until) = oneshot::channel();
        let permit = admission.try_admit().unwrap();
        actor.send_message(Input(permit, Some(until))).unwrap();
        let (mut taken, mut refused) = (1, 0);
        for _ in 0..10_000 {
            match admission.try_admit() {
                Ok(permit) => {
                    actor.send_message(Input(permit, None)).unwrap();
                    taken += 1;
                }
                Err(Busy { limit }) => {
                    assert_eq!(limit, 64);
                    refused += 1;
                }
            }
        }
        assert_eq!((taken, refused, depth()), (64, 9_937, 64));
        if killed {
            actor.kill();
        } else {
            drop(release);
            actor.drain().unwrap();
        }
        soon(actor.wait(None)).await.unwrap();
        assert_eq!(depth(), 0, "handled or lost, every place is free again");
    }
}
