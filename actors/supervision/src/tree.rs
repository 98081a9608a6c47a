//! The live tree: what is alive, under whom, since when.
//!
//! A node is entered by whoever starts an actor and leaves the tree when its guard is dropped. Readers get a
//! snapshot; nobody holds a lock across an await.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use dashmap::DashMap;
use playhouse_protocol::lock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an actor is doing, in one word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum NodeState {
    /// Not ready yet, or folding its journal.
    Starting,
    /// Waiting for something to do.
    Idle,
    /// Busy with a message, a run or a call.
    Running,
    /// Dead; comes back after a pause.
    Restarting,
    /// Its restarts are spent; it comes back when resumed.
    Parked {
        /// The last exit, and what to do about it.
        reason: String,
    },
}

/// A node as seen at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSnapshot {
    /// Its address, such as `agent/<id>`.
    pub id: String,
    /// The kind of actor.
    pub kind: String,
    /// The node above it.
    pub parent: Option<String>,
    /// What it is doing.
    #[serde(flatten)]
    pub state: NodeState,
    /// When it entered this state, in unix milliseconds.
    pub since: u64,
    /// How often it was restarted.
    pub restarts: u64,
    /// Messages that wait for it.
    pub queue_depth: usize,
    /// What it says beyond that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// Gives what a node says of itself, at the moment somebody looks. It must not block.
type DetailFn = Arc<dyn Fn() -> Value + Send + Sync>;

/// The live tree; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tree(Arc<DashMap<Arc<str>, Arc<Node>>>);

struct Node {
    id: Arc<str>,
    kind: &'static str,
    parent: Option<Arc<str>>,
    state: std::sync::Mutex<(NodeState, u64)>,
    restarts: AtomicU64,
    queue: std::sync::Mutex<Arc<AtomicUsize>>,
    detail: OnceLock<std::sync::Mutex<DetailFn>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A place in the tree, given up when dropped.
#[derive(Debug)]
pub struct TreeNode {
    tree: Tree,
    node: Arc<Node>,
}

impl Tree {
    /// Enters a node. One that is already there under this id gives way, and its guard then removes nothing.
    pub fn enter(&self, id: impl Into<Arc<str>>, kind: &'static str, parent: Option<&Arc<str>>) -> TreeNode {
        let node = Arc::new(Node {
            id: id.into(),
            kind,
            parent: parent.cloned(),
            state: std::sync::Mutex::new((NodeState::Starting, now())),
            restarts: AtomicU64::new(0),
            queue: std::sync::Mutex::default(),
            detail: OnceLock::new(),
        });
        self.0.insert(node.id.clone(), node.clone());
        TreeNode { tree: self.clone(), node }
    }

    /// Everything alive, ordered by id.
    pub fn snapshot(&self) -> Vec<NodeSnapshot> {
        let mut all: Vec<_> = self.0.iter().map(|entry| entry.value().snapshot()).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// One node, if it is alive.
    pub fn get(&self, id: &str) -> Option<NodeSnapshot> {
        self.0.get(id).map(|node| node.snapshot())
    }

    /// Says what a node is doing now, for code that has the id and not the guard. An id that left is ignored.
    pub fn set_state(&self, id: &str, state: NodeState) {
        if let Some(node) = self.0.get(id) {
            node.set_state(state);
        }
    }

    /// The counter behind a node's `queue_depth`, for whoever counts what waits.
    pub fn queue(&self, id: &str) -> Option<Arc<AtomicUsize>> {
        self.0.get(id).map(|node| node.queue().clone())
    }

    /// Lets a counter that exists already stand behind a node's `queue_depth`.
    pub fn set_queue(&self, id: &str, counter: Arc<AtomicUsize>) {
        if let Some(node) = self.0.get(id) {
            *node.queue() = counter;
        }
    }

    /// Lets a node say more of itself to whoever looks.
    pub fn set_detail(&self, id: &str, detail: DetailFn) {
        if let Some(node) = self.0.get(id) {
            let held = node.detail.get_or_init(|| std::sync::Mutex::new(detail.clone()));
            *lock(held) = detail;
        }
    }

    /// How many nodes are alive.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is alive.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Node {
    fn queue(&self) -> std::sync::MutexGuard<'_, Arc<AtomicUsize>> {
        lock(&self.queue)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, (NodeState, u64)> {
        lock(&self.state)
    }

    fn set_state(&self, state: NodeState) {
        let mut held = self.held();
        if held.0 != state {
            *held = (state, now());
        }
    }

    fn snapshot(&self) -> NodeSnapshot {
        let (state, since) = self.held().clone();
        NodeSnapshot {
            id: self.id.to_string(),
            kind: self.kind.to_owned(),
            parent: self.parent.as_deref().map(str::to_owned),
            state,
            since,
            restarts: self.restarts.load(Ordering::Relaxed),
            queue_depth: self.queue().load(Ordering::Relaxed),
            detail: self.detail.get().map(|detail| {
                let detail = lock(detail).clone();
                detail()
            }),
        }
    }
}

impl TreeNode {
    /// Says what the actor is doing now.
    pub fn set_state(&self, state: NodeState) {
        self.node.set_state(state);
    }

    /// Says that it is up. What the actor itself has said since it started stands.
    pub(crate) fn started(&self) {
        let mut held = self.node.held();
        if held.0 == NodeState::Starting {
            *held = (NodeState::Idle, now());
        }
    }

    /// Says how often it was restarted.
    pub fn set_restarts(&self, restarts: u64) {
        self.node.restarts.store(restarts, Ordering::Relaxed);
    }

    /// The counter behind `queue_depth`, for whoever counts what waits.
    pub fn queue(&self) -> Arc<AtomicUsize> {
        self.node.queue().clone()
    }
}

impl Drop for TreeNode {
    fn drop(&mut self) {
        self.tree.0.remove_if(&self.node.id, |_, held| Arc::ptr_eq(held, &self.node));
    }
}

fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_leaves_with_its_guard_and_a_successor_stays() {
        let tree = Tree::default();
        let first = tree.enter("agent/1", "agent", Some(&"stage".into()));
        let second = tree.enter("agent/1", "agent", Some(&"stage".into()));
        second.set_state(NodeState::Running);
        drop(first);
        let seen = tree.get("agent/1").unwrap();
        assert_eq!((seen.state, seen.parent.as_deref()), (NodeState::Running, Some("stage")));
        drop(second);
        assert!(tree.is_empty());
    }

    #[test]
    fn an_actor_names_its_state_by_id_and_being_started_does_not_overwrite_it() {
        let tree = Tree::default();
        let node = tree.enter("agent/1", "agent", None);
        node.started();
        assert_eq!(tree.get("agent/1").unwrap().state, NodeState::Idle);
        tree.set_state("agent/1", NodeState::Running);
        tree.set_state("nobody", NodeState::Running);
        node.started();
        assert_eq!(tree.get("agent/1").unwrap().state, NodeState::Running);
        assert!(Arc::ptr_eq(&tree.queue("agent/1").unwrap(), &node.queue()));
        assert_eq!(tree.len(), 1);
    }
}
