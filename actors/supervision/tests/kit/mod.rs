//! A worker that does as it is told, a log of what happened, and waits with a deadline.

#![allow(dead_code)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use playhouse_supervision::*;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub const DEADLINE: Duration = Duration::from_secs(120);

pub async fn soon<T>(wait: impl Future<Output = T>) -> T {
    timeout(DEADLINE, wait).await.expect("nothing happened within the deadline")
}

/// What happened, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[derive(Debug)]
pub enum Order {
    Ping(RpcReplyPort<()>),
    Note(&'static str),
    Panic,
    Fail,
    Finish,
    /// Says that it is inside the handler, then waits there until the other end is dropped.
    Hold(oneshot::Sender<()>, oneshot::Receiver<()>),
    /// The same, blocking the thread.
    Block(oneshot::Sender<()>, std::sync::mpsc::Receiver<()>),
}

pub struct Worker {
    pub id: String,
    pub log: Log,
}

impl Actor for Worker {
    type Msg = Order;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Order>, (): ()) -> Result<(), ActorProcessingErr> {
        self.log.add(format!("+{}", self.id));
        Ok(())
    }

    async fn handle(&self, myself: ActorRef<Order>, order: Order, (): &mut ()) -> Result<(), ActorProcessingErr> {
        match order {
            Order::Ping(reply) => drop(reply.send(())),
            Order::Note(note) => self.log.add(note),
            Order::Panic => panic!("told to panic"),
            Order::Fail => return Err("told to fail".into()),
            Order::Finish => finish(&myself),
            Order::Hold(inside, until) => {
                let _ = inside.send(());
                drop(until.await);
            }
            Order::Block(inside, until) => {
                let _ = inside.send(());
                let _ = until.recv();
            }
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Order>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        self.log.add(format!("-{}", self.id));
        Ok(())
    }
}

pub fn budget(max: u32) -> RestartBudget {
    RestartBudget {
        max,
        within: Duration::from_secs(600),
        backoff: Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(5) },
    }
}

pub fn spec(id: &str, start: StartFn) -> ChildSpec {
    ChildSpec {
        id: id.into(),
        kind: "worker",
        restart: RestartPolicy::Permanent,
        budget: budget(5),
        shutdown: Shutdown::Stop(DEADLINE),
        start,
    }
}

pub fn worker(id: &str, log: &Log) -> ChildSpec {
    let (name, log) = (id.to_owned(), log.clone());
    spec(
        id,
        start_fn(move |above| {
            let worker = Worker { id: name.clone(), log: log.clone() };
            async move { spawn(worker, above).await }
        }),
    )
}

pub async fn spawn<A: Actor<Arguments = ()>>(actor: A, above: ActorCell) -> Result<ActorCell, String> {
    match Actor::spawn_linked(None, actor, (), above).await {
        Ok((actor, _)) => Ok(actor.get_cell()),
        Err(error) => Err(error.to_string()),
    }
}

/// A supervisor with its tree and its notices.
pub struct Stand {
    pub of: ActorRef<SupervisorMsg>,
    pub tree: Tree,
    pub log: Log,
    notices: mpsc::UnboundedReceiver<Notice>,
}

impl Stand {
    pub async fn new(shutdown_order: ShutdownOrder) -> Self {
        let tree = Tree::default();
        let (tx, notices) = mpsc::unbounded_channel();
        let notice: NoticeFn = Arc::new(move |notice| drop(tx.send(notice)));
        let args = SupervisorArgs { shutdown_order, notice: Some(notice), ..SupervisorArgs::new("top", tree.clone()) };
        Self { of: Supervisor::root(args).await.unwrap(), tree, log: Log::default(), notices }
    }

    pub async fn one_by_one() -> Self {
        Self::new(ShutdownOrder::OneByOne).await
    }

    pub async fn notice(&mut self) -> Notice {
        soon(self.notices.recv()).await.expect("the supervisor is gone")
    }

    pub async fn notices(&mut self, n: usize) -> Vec<Notice> {
        let mut all = Vec::new();
        for _ in 0..n {
            all.push(self.notice().await);
        }
        all
    }

    pub fn waiting_notices(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.notices.try_recv().ok()).collect()
    }

    /// Starts a child, waits for its notice and returns its actor.
    pub async fn start(&mut self, spec: ChildSpec) -> ActorRef<Order> {
        let id = spec.id.clone();
        let cell = soon(Supervisor::start(&self.of, spec)).await.unwrap();
        assert_eq!(self.notice().await, Notice::Started { id });
        cell.into()
    }

    pub async fn workers<const N: usize>(&mut self, ids: [&str; N]) -> [ActorRef<Order>; N] {
        let mut all = Vec::new();
        for id in ids {
            let spec = worker(id, &self.log);
            all.push(self.start(spec).await);
        }
        self.log.take();
        all.try_into().unwrap_or_else(|_| unreachable!())
    }

    pub async fn census(&self) -> Census {
        soon(Supervisor::census(&self.of)).await.unwrap()
    }

    pub fn state(&self, id: &str) -> Option<NodeState> {
        self.tree.get(id).map(|node| node.state)
    }
}

pub async fn ping(cell: impl Into<ActorRef<Order>>) {
    let (tx, rx) = oneshot::channel();
    cell.into().send_message(Order::Ping(tx.into())).expect("it takes messages");
    soon(rx).await.expect("it answers");
}

/// Keeps a worker inside its handler until the returned sender is dropped.
pub async fn hold(worker: &ActorRef<Order>) -> oneshot::Sender<()> {
    let (inside, entered) = oneshot::channel();
    let (release, until) = oneshot::channel();
    worker.send_message(Order::Hold(inside, until)).expect("it takes messages");
    soon(entered).await.expect("it is inside");
    release
}

/// Keeps a worker's thread blocked until the returned sender is dropped.
pub async fn block(worker: &ActorRef<Order>) -> std::sync::mpsc::Sender<()> {
    let (inside, entered) = oneshot::channel();
    let (release, until) = std::sync::mpsc::channel();
    worker.send_message(Order::Block(inside, until)).expect("it takes messages");
    soon(entered).await.expect("it is inside");
    release
}
