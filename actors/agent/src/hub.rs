//! The event hub: what agents tell, and who listens.
//!
//! A [`Topic`] belongs to an agent's id, not to an actor: it outlives restarts, and so do its subscriptions. Each
//! subscriber has a ring of its own with a bound. Publishing never waits: pieces of one message merge, and when a ring
//! is full the oldest event that closes nothing gives way, a [`Lagged`](playhouse_protocol::AgentEvent::Lagged) telling
//! what to fetch from the journal.
//!
//! A sub-agent's topic is beneath its parent's, and all topics are beneath the house's: whoever listens to a
//! [`Scope::Tree`] hears everything beneath as well. Users' callbacks run here, never in an agent's handler.

mod callback;
mod ring;
mod subscription;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dashmap::DashMap;
use playhouse_protocol::{AgentId, Event, EventId, SessionId, lock};
use playhouse_supervision::Threads;
use tokio::sync::mpsc;

pub use callback::Callback;
use ring::Ring;
pub use subscription::Subscription;

/// How many events a ring holds unless the subscriber says otherwise.
pub const RING: usize = 1_024;
/// How many threads the callbacks of a house can block.
pub const CALLBACK_THREADS: usize = 128;

/// Whose events a subscriber hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the agent itself.
    Own,
    /// Those of its sub-agents as well, at any depth.
    Tree,
}

/// All topics of a house; clones share them.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    topics: DashMap<AgentId, Arc<Topic>>,
    /// Above all others: nothing is told here itself.
    house: Arc<Topic>,
    /// Held by every callback that is not done; gone when the hub waits for them.
    serving: Mutex<Option<mpsc::Sender<()>>>,
    served: tokio::sync::Mutex<mpsc::Receiver<()>>,
    /// Where callbacks are called.
    threads: Threads,
}

impl Default for Hub {
    fn default() -> Self {
        let (serving, served) = mpsc::channel(1);
        Self(Arc::new(Shared {
            topics: DashMap::new(),
            house: Arc::default(),
            serving: Mutex::new(Some(serving)),
            served: tokio::sync::Mutex::new(served),
            threads: Threads::new("playhouse-calls", CALLBACK_THREADS),
        }))
    }
}

impl Hub {
    /// The topic of an agent, made when it is first asked for.
    pub fn topic(&self, agent: &AgentId) -> Arc<Topic> {
        self.topic_beneath(agent, &self.0.house)
    }

    /// The topic of a sub-agent, beneath its parent's.
    pub fn topic_beneath(&self, agent: &AgentId, parent: &Arc<Topic>) -> Arc<Topic> {
        self.0.topics.entry(agent.clone()).or_insert_with(|| Arc::new(Topic::beneath(parent))).clone()
    }

    /// The house's own topic: a [`Scope::Tree`] there hears every agent.
    pub fn house(&self) -> &Arc<Topic> {
        &self.0.house
    }

    /// Calls back with everything that the topic tells from here on. Only the first time: a sub-agent that its
    /// restarted parent starts again still has its callbacks.
    pub fn call_back(&self, topic: &Arc<Topic>, callbacks: &[Callback]) {
        if callbacks.is_empty() || topic.calls_back.swap(true, Ordering::Relaxed) {
            return;
        }
        for callback in callbacks {
            let (callback, threads) = (callback.clone(), self.0.threads.clone());
            let serving = lock(&self.0.serving).clone();
            let events = topic.subscribe(RING, Scope::Own);
            tokio::spawn(async move {
                callback::serve(events, callback, threads).await;
                drop(serving);
            });
        }
    }

    /// Forgets an agent that is gone for good; its subscribers get what they have not read, then the end.
    pub fn close(&self, agent: &AgentId) {
        if let Some((_, topic)) = self.0.topics.remove(agent) {
            topic.close();
        }
    }

    /// Closes every topic and waits until callbacks have been called with all that was told, but no longer than
    /// `patience`.
    pub async fn end(&self, patience: Duration) {
        let agents: Vec<AgentId> = self.0.topics.iter().map(|topic| topic.key().clone()).collect();
        agents.iter().for_each(|agent| self.close(agent));
        self.0.house.close();
        lock(&self.0.serving).take();
        let mut served = self.0.served.lock().await;
        if tokio::time::timeout(patience, served.recv()).await.is_err() {
            tracing::warn!("a callback for events is still busy; the house does not wait for it any longer");
        }
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.0.topics.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.topics.is_empty()
    }
}

/// What one agent tells, and who listens to it.
#[derive(Default)]
pub struct Topic {
    listeners: Mutex<Listeners>,
    /// How many listen to everything beneath: without any, nobody takes the lock for what is told there.
    trees: AtomicUsize,
    /// Whether its callbacks are being called.
    calls_back: AtomicBool,
    parent: Option<Arc<Topic>>,
}

#[derive(Default)]
struct Listeners {
    rings: Vec<(Scope, Arc<Ring>)>,
    closed: bool,
    /// The last event that was told, whether or not anyone listened.
    told: Option<(SessionId, EventId)>,
}

impl Topic {
    fn beneath(parent: &Arc<Topic>) -> Self {
        Self { parent: Some(parent.clone()), ..Self::default() }
    }

    /// Tells everyone who listens, here and above. Never waits.
    pub fn publish(&self, event: Event) {
        let above = std::iter::successors(self.parent.as_deref(), |topic| topic.parent.as_deref());
        let mut above = above.filter(|topic| topic.trees.load(Ordering::Acquire) > 0).peekable();
        let mut listeners = self.listeners();
        match &mut listeners.told {
            Some((session, id)) if *session == event.session_id => *id = event.id,
            told => *told = Some((event.session_id.clone(), event.id)),
        }
        if listeners.rings.is_empty() && above.peek().is_none() {
            return;
        }
        let event = Arc::new(event);
        for (_, ring) in &listeners.rings {
            ring.push(&event);
        }
        drop(listeners);
        for topic in above {
            for (_, ring) in topic.listeners().rings.iter().filter(|(scope, _)| *scope == Scope::Tree) {
                ring.push(&event);
            }
        }
    }

    /// Listens from here on, with room for `capacity` events. A topic that is closed has nothing more to tell.
    pub fn subscribe(self: &Arc<Self>, capacity: usize, scope: Scope) -> Subscription {
        let ring = Arc::new(Ring::new(capacity));
        let mut listeners = self.listeners();
        if listeners.closed {
            ring.close();
        } else {
            if scope == Scope::Tree {
                self.trees.fetch_add(1, Ordering::Release);
            }
            listeners.rings.push((scope, ring.clone()));
        }
        Subscription { ring, topic: Arc::downgrade(self) }
    }

    /// The last event that was told: what comes after it in the journal, a successor of whoever died tells.
    pub(crate) fn told(&self) -> Option<(SessionId, EventId)> {
        self.listeners().told.clone()
    }

    /// From here on counts as told what a session holds up to `last`.
    pub(crate) fn told_up_to(&self, session: SessionId, last: EventId) {
        self.listeners().told = Some((session, last));
    }

    /// How many listen.
    pub fn subscribers(&self) -> usize {
        self.listeners().rings.len()
    }

    fn leave(&self, ring: &Arc<Ring>) {
        let mut listeners = self.listeners();
        let Some(place) = listeners.rings.iter().position(|(_, held)| Arc::ptr_eq(held, ring)) else { return };
        let (scope, _) = listeners.rings.swap_remove(place);
        if scope == Scope::Tree {
            self.trees.fetch_sub(1, Ordering::Release);
        }
        if listeners.rings.is_empty() {
            // Thousands may come and go: nothing of them is kept.
            listeners.rings = Vec::new();
        }
    }

    fn close(&self) {
        let mut listeners = self.listeners();
        listeners.closed = true;
        for (_, ring) in std::mem::take(&mut listeners.rings) {
            ring.close();
        }
        self.trees.store(0, Ordering::Release);
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        lock(&self.listeners)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("subscribers", &self.subscribers()).finish()
    }
}

#[cfg(test)]
#[path = "hub/hub_tests.rs"]
mod tests;
