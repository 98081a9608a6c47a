//! Callbacks: users' code that is called with each event, on a thread where it may take its time. A house has a bounded
//! number of threads for them; those that find none free wait in line, and lag.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use playhouse_protocol::Event;
use playhouse_supervision::Threads;

use super::Subscription;

/// With how many events a callback is called before another one may have its thread.
const IN_A_ROW: usize = 64;

/// What a user wants to be called with each event. It is called in order, one event at a time; it may block, but while
/// it does, pieces of text merge and a full ring tells it `Lagged`.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// Calls back until the agent is gone for good and everything was read.
pub(super) async fn serve(mut events: Subscription, callback: Callback, threads: Threads) {
    while let Some(first) = events.next().await {
        let callback = callback.clone();
        let served = threads.permit().await.run(move || {
            call(&callback, &first);
            for _ in 1..IN_A_ROW {
                let Some(event) = events.try_next() else { break };
                call(&callback, &event);
            }
            events
        });
        match served.await {
            Ok(left) => events = left,
            // A callback's own panic is caught below.
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
