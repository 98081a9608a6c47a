//! The way of a response's pieces to the agent: merged, and at most one batch at a time.
//!
//! A batch carries a [`Credit`]; while it is out, what streams in is merged into one pending batch, which goes when
//! the credit comes back. So an agent that is busy costs memory for one response (whose size the wire protocol caps)
//! and never a growing mailbox. The last batch of an attempt does not wait for its credit: it must come before the
//! attempt's end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use futures::future::BoxFuture;
use playhouse_protocol::{CallId, CallReport, Credit, StreamDelta, StreamEvent, lock};
use ractor::DerivedActorRef;

/// Takes a response's events and sends them on as [`CallReport::Delta`] batches. Clones share one stream.
#[derive(Clone)]
pub struct StreamSink(Arc<SinkState>);

struct SinkState {
    call: CallId,
    attempt: u32,
    out: Box<dyn Fn(CallReport) + Send + Sync>,
    /// Called when the response begins, for who waits for that.
    on_start: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What is left to do when the response is whole.
    rest: Mutex<Option<BoxFuture<'static, ()>>>,
    /// Whether a batch is out whose credit has not come back.
    in_flight: AtomicBool,
    pending: Mutex<Pending>,
}

struct Pending {
    deltas: Vec<StreamDelta>,
    /// A tool call opened after the last delta: the next one does not merge into it.
    boundary: bool,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing goes out any more.
    Closed,
}

impl StreamSink {
    /// A sink that reports to an agent. An agent that is dead is no error: the reports are dropped.
    pub(crate) fn new(call: CallId, attempt: u32, reply: DerivedActorRef<CallReport>) -> Self {
        Self::with(call, attempt, move |report| {
            let _ = reply.send_message(report);
        })
    }

    /// A sink that hands its batches to `out`, which must not block.
    pub(crate) fn with(call: CallId, attempt: u32, out: impl Fn(CallReport) + Send + Sync + 'static) -> Self {
        Self(Arc::new(SinkState {
            call,
            attempt,
            out: Box::new(out),
            on_start: Mutex::new(None),
            rest: Mutex::new(None),
            in_flight: AtomicBool::new(false),
            pending: Mutex::new(Pending { deltas: Vec::new(), boundary: false, phase: Phase::Open }),
        }))
    }

    /// A sink that forgets everything, for callers who only want the whole response.
    pub fn discard() -> Self {
        Self::with("discard".into(), 0, drop)
    }

    /// The same sink, which calls `tell` when the response begins. It must not block.
    pub(crate) fn on_start(self, tell: impl FnOnce() + Send + 'static) -> Self {
        *lock(&self.0.on_start) = Some(Box::new(tell));
        self
    }

    /// Leaves something to be done after the response, which is whole, has been told: until then its request counts as
    /// one that is under way. It must end by itself, and soon.
    pub(crate) fn leave(&self, rest: impl Future<Output = ()> + Send + 'static) {
        *lock(&self.0.rest) = Some(Box::pin(rest));
    }

    /// What [`StreamSink::leave`] left, once.
    pub(crate) fn rest(&self) -> Option<BoxFuture<'static, ()>> {
        lock(&self.0.rest).take()
    }

    /// Takes an event and sends it on, or as soon as its predecessors have been taken. Never waits.
    pub fn push(&self, event: StreamEvent) {
        self.hold(event);
        self.flush();
    }

    /// Takes an event and keeps it, for whoever sends several on at once with [`StreamSink::flush`].
    pub(crate) fn hold(&self, event: StreamEvent) {
        let delta = match event {
            StreamEvent::TextDelta { delta } => StreamDelta::Text { delta },
            StreamEvent::ThinkingDelta { delta } => StreamDelta::Thinking { delta },
            StreamEvent::ToolCallDelta { delta } => StreamDelta::ToolCallDelta { delta },
            StreamEvent::ToolCallStart { .. } => {
                self.0.lock().boundary = true;
                return;
            }
            StreamEvent::Start => {
                let tell = lock(&self.0.on_start).take();
                if let Some(tell) = tell {
                    tell();
                }
                return;
            }
            // The end of an attempt is the provider's return value, reported by the connection.
            StreamEvent::Done { .. } | StreamEvent::Error { .. } => return,
        };
        let mut pending = self.0.lock();
        if pending.phase == Phase::Closed {
            return;
        }
        let boundary = std::mem::take(&mut pending.boundary);
        let apart = match pending.deltas.last_mut() {
            Some(last) if !boundary => last.merge(delta).err(),
            Some(_) | None => Some(delta),
        };
        pending.deltas.extend(apart);
    }

    /// Sends on what is held, or as soon as its predecessors have been taken. Never waits.
    pub(crate) fn flush(&self) {
        self.0.pump();
    }

    /// Sends what is pending and closes the sink: after this, no delta of this attempt goes out.
    pub fn finish(&self) {
        let mut pending = self.0.lock();
        if pending.phase == Phase::Open && !pending.deltas.is_empty() {
            let deltas = std::mem::take(&mut pending.deltas);
            self.0.send(deltas, Credit::free());
        }
        pending.phase = Phase::Closed;
    }

    /// Forgets what is pending and closes the sink: the call was cancelled.
    pub(crate) fn abandon(&self) {
        let mut pending = self.0.lock();
        pending.deltas.clear();
        pending.phase = Phase::Closed;
    }
}

impl SinkState {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    fn send(&self, deltas: Vec<StreamDelta>, credit: Credit) {
        (self.out)(CallReport::Delta { call: self.call.clone(), attempt: self.attempt, deltas, credit });
    }

    /// Sends the pending batch if none is out.
    ///
    /// Sending happens under the lock, so that batches keep their order and `finish` comes last. A failed send drops
    /// its credit right there, under the lock: that is why this only tries the lock. Whoever holds it looks again
    /// after releasing it, so a credit that came back meanwhile is not missed.
    fn pump(self: &Arc<Self>) {
        loop {
            let mut pending = match self.pending.try_lock() {
                Ok(pending) => pending,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            if pending.phase == Phase::Closed || pending.deltas.is_empty() {
                return;
            }
            if !self.in_flight.swap(true, Ordering::SeqCst) {
                let deltas = std::mem::take(&mut pending.deltas);
                let shared = Arc::downgrade(self);
                let credit = Credit::new(move || {
                    if let Some(shared) = shared.upgrade() {
                        shared.in_flight.store(false, Ordering::SeqCst);
                        // Pairs with the fence below: either the lock is seen free here, or the flag is seen there.
                        fence(Ordering::SeqCst);
                        shared.pump();
                    }
                });
                self.send(deltas, credit);
                return;
            }
            drop(pending);
            fence(Ordering::SeqCst);
            if self.in_flight.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}

impl Drop for SinkState {
    /// Who asks without a connection has nobody to do the rest: it does itself.
    fn drop(&mut self) {
        let rest = lock(&self.rest).take();
        if let (Some(rest), Ok(runtime)) = (rest, tokio::runtime::Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

impl fmt::Debug for StreamSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSink")
            .field("call", &self.0.call)
            .field("attempt", &self.0.attempt)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
