//! The event hub: what agents tell, and who listens.
//!
//! A [`Topic`] belongs to an agent's id, not to an actor: it outlives restarts, and so do its subscriptions. Each
//! subscriber has a ring of its own with a bound. Publishing never waits: pieces of one message merge, and when a ring
//! is full the oldest event that closes nothing gives way, a [`AgentEvent::Lagged`] telling what to fetch from the
//! journal.

mod ring;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use dashmap::DashMap;
use playhouse_protocol::{AgentEvent, AgentId, Event};

use ring::Ring;

/// How many events a ring holds unless the subscriber says otherwise.
pub const RING: usize = 1_024;

/// All topics of a house; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<DashMap<AgentId, Arc<Topic>>>);

impl Hub {
    /// The topic of an agent, made when it is first asked for.
    pub fn topic(&self, agent: &AgentId) -> Arc<Topic> {
        self.0.entry(agent.clone()).or_default().clone()
    }

    /// Forgets an agent that is gone for good; its subscribers get what they have not read, then the end.
    pub fn close(&self, agent: &AgentId) {
        if let Some((_, topic)) = self.0.remove(agent) {
            topic.close();
        }
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What one agent tells, and who listens to it.
#[derive(Default)]
pub struct Topic(Mutex<Vec<Arc<Ring>>>);

impl Topic {
    /// Tells everyone who listens. Never waits.
    pub fn publish(&self, event: Event) {
        let rings = self.rings();
        if rings.is_empty() {
            return;
        }
        let event = Arc::new(event);
        for ring in rings.iter() {
            ring.push(event.clone());
        }
    }

    /// Listens from here on, with room for `capacity` events.
    pub fn subscribe(self: &Arc<Self>, capacity: usize) -> Subscription {
        let ring = Arc::new(Ring::new(capacity));
        self.rings().push(ring.clone());
        Subscription { ring, topic: Arc::downgrade(self) }
    }

    /// How many listen.
    pub fn subscribers(&self) -> usize {
        self.rings().len()
    }

    fn close(&self) {
        for ring in self.rings().drain(..) {
            ring.close();
        }
    }

    fn rings(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Ring>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("subscribers", &self.subscribers()).finish()
    }
}

/// A subscriber's end of a topic. Dropping it ends the subscription.
pub struct Subscription {
    ring: Arc<Ring>,
    topic: Weak<Topic>,
}

impl Subscription {
    /// The next event; `None` when the agent is gone for good and everything was read.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        self.ring.next().await
    }

    /// The next event if one is there.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        self.ring.try_next()
    }

    /// Reads until the run that is under way ends, and gives its last event.
    pub async fn end_of_run(&mut self) -> Option<Arc<Event>> {
        while let Some(event) = self.next().await {
            if matches!(event.event, AgentEvent::AgentEnd { .. }) {
                return Some(event);
            }
        }
        None
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(topic) = self.topic.upgrade() {
            topic.rings().retain(|ring| !Arc::ptr_eq(ring, &self.ring));
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
