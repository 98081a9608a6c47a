//! The supervisor's bookkeeping: what becomes of each child. Nothing here waits.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ractor::{ActorCell, ActorId, ActorRef, RpcReplyPort};
use tokio::time::Instant;

use super::close::{outcome, tell};
use super::{
    Census, Notice, NoticeFn, Report, ShutdownOrder, StartReply, Step, StopReply, SupervisorArgs, SupervisorError,
    SupervisorMsg, answer,
};
use crate::child::{ChildSpec, EndResult, end};
use crate::restart::{Decision, Exit, RestartHistory};
use crate::task::Task;
use crate::threads::panic_text;
use crate::tree::{NodeState, Tree, TreeNode};

/// Everything a supervisor owns.
pub struct State {
    pub(super) myself: ActorRef<SupervisorMsg>,
    pub(super) id: Arc<str>,
    pub(super) shutdown_order: ShutdownOrder,
    tree: Tree,
    pub(super) notice: Option<NoticeFn>,
    first: Vec<Arc<ChildSpec>>,
    since: Instant,
    tokens: u64,
    /// Boxed: a map has room for more than it holds.
    pub(super) children: HashMap<Arc<str>, Box<Child>>,
    /// By the number of their actor.
    pub(super) alive: HashMap<u64, Arc<str>>,
    starting: usize,
    /// Exits that overtook the report of their start; empty whenever nothing starts.
    early: HashMap<ActorId, Exit>,
    pub(super) closing: Vec<RpcReplyPort<()>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("id", &self.id).field("census", &self.census()).finish_non_exhaustive()
    }
}

pub(super) struct Child {
    place: u64,
    pub(super) spec: Arc<ChildSpec>,
    pub(super) node: TreeNode,
    pub(super) phase: Phase,
    /// Most children never need one.
    history: Option<Box<RestartHistory>>,
    restarts: u64,
    /// Why it is being started again; `None` the first time.
    cause: Option<Box<str>>,
    /// Who waits for its start.
    asked: Option<Box<StartReply>>,
}

pub(super) enum Phase {
    Starting {
        token: u64,
        _task: Task,
    },
    Alive {
        cell: ActorCell,
    },
    /// Its end was asked for: the intent that tells this exit from a crash.
    Ending {
        cell: ActorCell,
        token: u64,
        /// Who waits for its end.
        replies: Vec<StopReply>,
        _task: Task,
    },
    /// Dead, to be started again when the pause is over.
    Waiting {
        token: u64,
        _timer: Task,
    },
    /// Dead or not started yet, for as long as one step takes.
    Down,
    Parked,
}

impl State {
    pub(super) fn new(myself: ActorRef<SupervisorMsg>, args: SupervisorArgs) -> Self {
        let SupervisorArgs { id, shutdown_order, tree, notice, children } = args;
        Self {
            myself,
            id,
            shutdown_order,
            tree,
            notice,
            first: children,
            since: Instant::now(),
            tokens: 0,
            children: HashMap::new(),
            alive: HashMap::new(),
            starting: 0,
            early: HashMap::new(),
            closing: Vec::new(),
        }
    }

    pub(super) fn start_first_children(&mut self) {
        for spec in std::mem::take(&mut self.first) {
            self.add(spec, None);
        }
    }

    pub(super) fn add(&mut self, spec: Arc<ChildSpec>, asked: Option<StartReply>) {
        if self.children.contains_key(&spec.id) {
            tracing::warn!(supervisor = &*self.id, child = &*spec.id, "a child with this id is already there");
            if let Some(asked) = asked {
                answer(asked, Err(SupervisorError::AlreadyThere { id: spec.id.to_string() }));
            }
            return;
        }
        let id = spec.id.clone();
        let place = self.token();
        let node = self.tree.enter(id.clone(), spec.kind, Some(&self.id));
        let child = Box::new(Child {
            place,
            spec,
            node,
            phase: Phase::Down,
            history: None,
            restarts: 0,
            cause: None,
            asked: asked.map(Box::new),
        });
        self.children.insert(id.clone(), child);
        self.begin(&id);
    }

    pub(super) fn stop(&mut self, id: &str, reply: StopReply) {
        let Some(child) = self.children.get_mut(id) else {
            return answer(reply, Err(SupervisorError::Unknown { id: id.to_owned() }));
        };
        match &mut child.phase {
            Phase::Alive { cell } => {
                let cell = cell.clone();
                self.end(id, cell, reply);
            }
            Phase::Ending { replies, .. } => replies.push(reply),
            Phase::Starting { .. } | Phase::Waiting { .. } | Phase::Down | Phase::Parked => {
                self.forget(id);
                answer(reply, Ok(()));
            }
        }
    }

    pub(super) fn resume(&mut self, id: &str, reply: StartReply) {
        let Some(child) = self.children.get_mut(id) else {
            return answer(reply, Err(SupervisorError::Unknown { id: id.to_owned() }));
        };
        let Phase::Parked = &child.phase else {
            return answer(reply, Err(SupervisorError::NotParked { id: id.to_owned() }));
        };
        child.asked = Some(Box::new(reply));
        child.history = None;
        child.cause = Some("resumed".into());
        self.begin(id);
    }

    pub(super) fn census(&self) -> Census {
        let parked = self.children.values().filter(|child| matches!(child.phase, Phase::Parked));
        Census {
            children: self.children.len(),
            actors: self.alive.len(),
            starting: self.starting,
            parked: parked.count(),
            pending: self.early.len(),
        }
    }

    pub(super) fn report(&mut self, step: Step) {
        match step {
            Step::Started { id, token, result } => self.started(&id, token, result),
            Step::Due { id, token } => match self.children.get(&id).map(|child| &child.phase) {
                Some(Phase::Waiting { token: awaited, .. }) if *awaited == token => self.begin(&id),
                Some(_) | None => {}
            },
            Step::Ended { id, token, how } => self.ended(&id, token, how),
        }
    }

    /// An actor that was linked to this supervisor has died.
    pub(super) fn exited(&mut self, actor: ActorId, exit: Exit) {
        let Some(id) = self.alive.get(&actor.pid()).cloned() else {
            if self.starting > 0 {
                self.early.insert(actor, exit);
            }
            return;
        };
        match self.children.get(&id).map(|child| &child.phase) {
            // Asked for: the task that ends it reports.
            Some(Phase::Ending { .. }) => {}
            Some(Phase::Alive { .. }) => {
                self.alive.remove(&actor.pid());
                self.settle(&id, &exit);
            }
            Some(Phase::Starting { .. } | Phase::Waiting { .. } | Phase::Down | Phase::Parked) | None => {
                self.alive.remove(&actor.pid());
            }
        }
    }

    /// Starts a child that is down. The start runs in a task: it may wait, fail or panic.
    fn begin(&mut self, id: &str) {
        let token = self.token();
        let Some(child) = self.children.get_mut(id) else { return };
        child.node.set_state(NodeState::Starting);
        let (id, start) = (child.spec.id.clone(), child.spec.start.clone());
        let myself = self.myself.clone();
        let task = Task::spawn(async move {
            let above = myself.get_cell();
            let start = AssertUnwindSafe(async move { start(above).await }).catch_unwind();
            let result =
                start.await.unwrap_or_else(|panic| Err(format!("its start panicked: {}", panic_text(&*panic))));
            let _ = myself.send_message(SupervisorMsg::Report(Report(Step::Started { id, token, result })));
        });
        child.phase = Phase::Starting { token, _task: task };
        self.starting += 1;
    }

    fn started(&mut self, id: &str, token: u64, result: Result<ActorCell, String>) {
        let child = self.children.get_mut(id);
        let child =
            child.filter(|child| matches!(child.phase, Phase::Starting { token: awaited, .. } if awaited == token));
        let Some(child) = child else {
            // Stopped before it was up: whatever came of it is nobody's.
            if let Ok(cell) = result {
                self.early.remove(&cell.get_id());
                cell.unlink(self.myself.get_cell());
                cell.kill();
            }
            return;
        };
        match result {
            Ok(cell) => {
                let actor = cell.get_id();
                child.phase = Phase::Alive { cell: cell.clone() };
                child.node.started();
                let asked = child.asked.take();
                let id = child.spec.id.clone();
                let notice = match child.cause.take() {
                    None => Notice::Started { id: id.clone() },
                    Some(reason) => {
                        child.restarts += 1;
                        child.node.set_restarts(child.restarts);
                        Notice::Restarted { id: id.clone(), reason: reason.into(), restarts: child.restarts }
                    }
                };
                self.alive.insert(actor.pid(), id);
                let early = self.early.remove(&actor);
                self.one_start_less();
                self.tell(notice);
                if let Some(asked) = asked {
                    answer(*asked, Ok(cell));
                }
                if let Some(exit) = early {
                    self.exited(actor, exit);
                }
            }
            Err(reason) => {
                if let Some(asked) = child.asked.take() {
                    answer(*asked, Err(SupervisorError::StartFailed { id: id.to_owned(), reason: reason.clone() }));
                }
                child.phase = Phase::Down;
                self.one_start_less();
                self.settle(id, &Exit::Failed(format!("it did not start: {reason}")));
            }
        }
    }

    /// Decides what becomes of a child whose actor is gone.
    fn settle(&mut self, id: &str, exit: &Exit) {
        let (now, roll) = (self.since.elapsed(), fastrand::f64());
        let Some(child) = self.children.get_mut(id) else { return };
        child.phase = Phase::Down;
        let history = child.history.get_or_insert_default();
        match history.on_exit(now, exit, child.spec.restart, &child.spec.budget, roll) {
            Decision::Leave => self.forget(id),
            Decision::Restart { after } => {
                child.cause = Some(exit.to_string().into());
                child.node.set_state(NodeState::Restarting);
                self.tokens += 1;
                let (id, token) = (child.spec.id.clone(), self.tokens);
                let timer = later(&self.myself, after, Step::Due { id, token });
                child.phase = Phase::Waiting { token, _timer: timer };
            }
            Decision::Park { reason } => self.park(id, reason),
        }
    }

    /// Ends a living child for good.
    fn end(&mut self, id: &str, cell: ActorCell, reply: StopReply) {
        let token = self.token();
        let Some(child) = self.children.get_mut(id) else { return };
        let (id, shutdown) = (child.spec.id.clone(), child.spec.shutdown);
        let (myself, ending) = (self.myself.clone(), cell.clone());
        let task = Task::spawn(async move {
            let how = end(ending, shutdown).await;
            let _ = myself.send_message(SupervisorMsg::Report(Report(Step::Ended { id, token, how })));
        });
        child.phase = Phase::Ending { cell, token, replies: vec![reply], _task: task };
    }

    fn ended(&mut self, id: &str, token: u64, how: EndResult) {
        let Some(child) = self.children.get_mut(id) else { return };
        match std::mem::replace(&mut child.phase, Phase::Down) {
            Phase::Ending { cell, token: awaited, replies, .. } if awaited == token => {
                self.alive.remove(&cell.get_id().pid());
                if how == EndResult::Stuck {
                    cell.unlink(self.myself.get_cell());
                }
                self.forget(id);
                let outcome = outcome(id, how);
                for reply in replies {
                    answer(reply, outcome.clone());
                }
            }
            other => child.phase = other,
        }
    }

    /// Lists a child that is down as parked.
    fn park(&mut self, id: &str, reason: String) {
        let Some(child) = self.children.get_mut(id) else { return };
        child.phase = Phase::Parked;
        child.node.set_state(NodeState::Parked { reason: reason.clone() });
        let (asked, id) = (child.asked.take(), child.spec.id.clone());
        self.tell(Notice::Parked { id: id.clone(), reason: reason.clone() });
        if let Some(asked) = asked {
            answer(*asked, Err(SupervisorError::StartFailed { id: id.to_string(), reason }));
        }
    }

    /// Every child with its place, in the order in which they were added.
    pub(super) fn in_order(&self) -> Vec<(u64, Arc<str>)> {
        let mut all: Vec<_> = self.children.iter().map(|(id, child)| (child.place, id.clone())).collect();
        all.sort_unstable_by_key(|(place, _)| *place);
        all
    }

    /// Removes every trace of a child that is down.
    fn forget(&mut self, id: &str) {
        let Some(mut child) = self.children.remove(id) else { return };
        let (asked, id) = (child.asked.take(), child.spec.id.clone());
        if let Phase::Starting { .. } = child.phase {
            self.one_start_less();
        }
        drop(child);
        shrink(&mut self.children);
        shrink(&mut self.alive);
        self.tell(Notice::Ended { id: id.clone() });
        if let Some(asked) = asked {
            answer(*asked, Err(SupervisorError::StoppedFirst { id: id.to_string() }));
        }
    }

    fn token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    fn one_start_less(&mut self) {
        self.starting = self.starting.saturating_sub(1);
        if self.starting == 0 {
            self.early = HashMap::new();
        }
    }

    fn tell(&self, notice: Notice) {
        tell(self.notice.as_ref(), notice);
    }
}

/// Reports `step` after a pause.
fn later(to: &ActorRef<SupervisorMsg>, after: Duration, step: Step) -> Task {
    let to = to.clone();
    Task::after(after, move || {
        let _ = to.send_message(SupervisorMsg::Report(Report(step)));
    })
}

/// Gives memory back when most of a big map has gone, at a cost that stays constant per removal.
fn shrink<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > 1_024 && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}
