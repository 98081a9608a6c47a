//! A subscriber's end of a topic.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::Stream;
use playhouse_protocol::{AgentEvent, Event};

use super::Topic;
use super::ring::Ring;

/// A subscriber's end of a topic: read it with [`Subscription::next`], or as a [`Stream`]. Dropping it ends the
/// subscription.
pub struct Subscription {
    pub(super) ring: Arc<Ring>,
    pub(super) topic: Weak<Topic>,
}

impl Subscription {
    /// The next event; `None` when the agent is gone for good and everything was read.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        poll_fn(|context| self.ring.poll_next(context)).await
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

impl Stream for Subscription {
    type Item = Arc<Event>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        self.ring.poll_next(context)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(topic) = self.topic.upgrade() {
            topic.leave(&self.ring);
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
