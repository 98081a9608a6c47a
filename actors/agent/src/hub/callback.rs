//! Callbacks: users' code that is called with each event, on a thread where it may take its time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use playhouse_protocol::Event;

use super::Subscription;

/// What a user wants to be called with each event. It is called in order, one event at a time; it may block, but while
/// it does, pieces of text merge and a full ring tells it `Lagged`.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// Calls back until the agent is gone for good and everything was read.
pub(super) async fn serve(mut events: Subscription, callback: Callback) {
    while let Some(event) = events.next().await {
        let callback = callback.clone();
        let served = tokio::task::spawn_blocking(move || {
            let mut next = Some(event);
            while let Some(event) = next {
                call(&callback, &event);
                next = events.try_next();
            }
            events
        });
        match served.await {
            Ok(left) => events = left,
            // The runtime ends.
            Err(_) => return,
        }
    }
}

/// A callback that panics misses that event and hurts nobody.
fn call(callback: &Callback, event: &Event) {
    if catch_unwind(AssertUnwindSafe(|| callback(event))).is_err() {
        tracing::warn!(id = %event.id, agent = %event.agent_id, "a callback for events panicked");
    }
}
