//! One subscriber's ring.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use playhouse_protocol::{AgentEvent, Event, EventId};
use tokio::sync::Notify;

pub(super) struct Ring {
    held: Mutex<Held>,
    changed: Notify,
    capacity: usize,
}

#[derive(Default)]
struct Held {
    events: VecDeque<Arc<Event>>,
    /// Events that gave way since the reader was last told.
    missed: u64,
    /// The last event the reader got.
    read: Option<EventId>,
    closed: bool,
}

impl Ring {
    pub fn new(capacity: usize) -> Self {
        Self { held: Mutex::default(), changed: Notify::new(), capacity: capacity.max(1) }
    }

    pub fn push(&self, event: Arc<Event>) {
        {
            let mut held = self.held();
            if !held.merge(&event) {
                held.events.push_back(event);
                if held.events.len() > self.capacity {
                    held.give_way();
                }
            }
        }
        self.changed.notify_one();
    }

    pub fn close(&self) {
        self.held().closed = true;
        self.changed.notify_one();
    }

    pub fn try_next(&self) -> Option<Arc<Event>> {
        self.held().take()
    }

    pub async fn next(&self) -> Option<Arc<Event>> {
        loop {
            {
                let mut held = self.held();
                if let Some(event) = held.take() {
                    return Some(event);
                }
                if held.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// A piece of the message whose last piece is unread joins that piece.
    fn merge(&mut self, event: &Event) -> bool {
        let AgentEvent::MessageUpdate { message_id, delta } = &event.event else { return false };
        let Some(last) = self.events.back_mut() else { return false };
        let AgentEvent::MessageUpdate { message_id: held, delta: so_far } = &last.event else { return false };
        if held != message_id || std::mem::discriminant(so_far) != std::mem::discriminant(delta) {
            return false;
        }
        let last = Arc::make_mut(last);
        last.id = event.id;
        match &mut last.event {
            AgentEvent::MessageUpdate { delta: so_far, .. } => so_far.merge(delta.clone()).is_ok(),
            _ => false,
        }
    }

    /// The oldest event that closes nothing is dropped; if all close something, the oldest.
    fn give_way(&mut self) {
        let oldest = self.events.iter().position(|event| !event.event.is_terminal()).unwrap_or(0);
        if self.events.remove(oldest).is_some() {
            self.missed += 1;
        }
    }

    fn take(&mut self) -> Option<Arc<Event>> {
        if self.missed > 0 {
            let next = self.events.front()?;
            let marker = Event {
                id: self.read.unwrap_or_default(),
                agent_id: next.agent_id.clone(),
                session_id: next.session_id.clone(),
                loop_id: next.loop_id.clone(),
                timestamp: next.timestamp,
                event: AgentEvent::Lagged { missed: self.missed, after: self.read },
            };
            self.missed = 0;
            return Some(Arc::new(marker));
        }
        let event = self.events.pop_front()?;
        self.read = Some(event.id);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse_protocol::{Outcome, Seq, SessionId, StreamDelta, TurnTrigger, Usage};

    fn event(seq: u64, event: AgentEvent) -> Arc<Event> {
        Arc::new(Event {
            id: EventId { seq: Seq(seq), k: 0 },
            agent_id: "a".into(),
            session_id: SessionId::new("s").unwrap(),
            loop_id: None,
            timestamp: Default::default(),
            event,
        })
    }

    fn piece(seq: u64, text: &str) -> Arc<Event> {
        let delta = StreamDelta::Text { delta: text.into() };
        event(seq, AgentEvent::MessageUpdate { message_id: "m".into(), delta })
    }

    fn end(seq: u64) -> Arc<Event> {
        let outcome = Outcome::Stop;
        event(seq, AgentEvent::AgentEnd { messages: vec![], usage: Usage::default(), outcome, rejection: None })
    }

    fn turn(seq: u64) -> Arc<Event> {
        event(seq, AgentEvent::TurnStart { turn_index: 0, triggered_by: TurnTrigger::User })
    }

    #[test]
    fn pieces_of_one_message_merge_while_nobody_reads() {
        let ring = Ring::new(4);
        for n in 0..100_000 {
            ring.push(piece(n, "x"));
        }
        ring.push(end(100_000));
        assert_eq!(ring.held().events.len(), 2);
        let Some(AgentEvent::MessageUpdate { delta: StreamDelta::Text { delta }, .. }) =
            ring.try_next().map(|event| event.event.clone())
        else {
            panic!("no text")
        };
        assert_eq!(delta.len(), 100_000);
    }

    #[test]
    fn a_full_ring_keeps_what_closes_and_tells_of_the_rest() {
        let ring = Ring::new(2);
        ring.push(turn(1));
        assert_eq!(ring.try_next(), Some(turn(1)));
        ring.push(turn(2));
        ring.push(end(3));
        ring.push(turn(4));
        ring.push(end(5));
        let lagged = ring.try_next().unwrap();
        let after = Some(EventId { seq: Seq(1), k: 0 });
        assert_eq!(lagged.event, AgentEvent::Lagged { missed: 2, after });
        assert_eq!((ring.try_next(), ring.try_next(), ring.try_next()), (Some(end(3)), Some(end(5)), None));
    }

    #[test]
    fn even_what_closes_has_a_bound() {
        let ring = Ring::new(3);
        for n in 0..1_000 {
            ring.push(end(n));
        }
        assert_eq!(ring.held().events.len(), 3);
    }
}
