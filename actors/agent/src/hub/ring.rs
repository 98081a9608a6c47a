//! One subscriber's ring: what it has not read yet, with a bound.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;
use playhouse_protocol::{AgentEvent, AgentId, Content, Event, EventId, SessionId, StreamDelta, lock};

/// How many bytes of pieces and partial results a ring holds, beside a first one that alone has more. Whoever is that far
/// behind reads the whole message when it ends.
const FLEETING: usize = 256 * 1024;
/// How far back a piece looks for the piece it joins: others' events may lie between.
const LOOK_BACK: usize = 32;

pub(super) struct Ring {
    held: Mutex<Held>,
    capacity: usize,
}

#[derive(Default)]
struct Held {
    events: VecDeque<Arc<Event>>,
    /// The bytes of those that no journal holds.
    fleeting: usize,
    /// How many of them there may be: a reader that had read everything gets the next piece, however large.
    room: usize,
    /// What the reader knows of each session.
    tracks: HashMap<SessionId, Track>,
    /// Sessions whose reader is to be told that it lags.
    lagging: VecDeque<SessionId>,
    reader: Option<Waker>,
    closed: bool,
}

/// What the reader has of a session.
struct Track {
    agent_id: AgentId,
    /// The last event it got.
    read: Option<EventId>,
    /// Events that gave way since it was last told.
    missed: u64,
    /// When the last of those happened.
    at: Timestamp,
}

impl Ring {
    pub fn new(capacity: usize) -> Self {
        Self { held: Mutex::default(), capacity: capacity.max(1) }
    }

    pub fn push(&self, event: &Arc<Event>) {
        let reader = {
            let mut held = self.held();
            if held.fleeting == 0 {
                let weight = weight(&event.event);
                held.room = if weight > FLEETING { FLEETING + weight } else { FLEETING };
            }
            if !held.join(event) {
                held.fleeting += weight(&event.event);
                held.events.push_back(event.clone());
            }
            if held.events.len() > self.capacity {
                held.give_way(self.capacity);
            }
            while held.fleeting > held.room && held.drop_fleeting(self.capacity) {}
            held.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub fn close(&self) {
        let reader = {
            let mut held = self.held();
            held.closed = true;
            held.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub fn try_next(&self) -> Option<Arc<Event>> {
        self.held().take(self.capacity)
    }

    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        let mut held = self.held();
        match held.take(self.capacity) {
            Some(event) => Poll::Ready(Some(event)),
            None if held.closed => Poll::Ready(None),
            None => {
                held.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }
}

/// The bytes of an event that no journal holds and that a later event makes needless; 0 for all others.
fn weight(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::MessageUpdate { delta, .. } => match delta {
            StreamDelta::Text { delta } | StreamDelta::Thinking { delta } | StreamDelta::ToolCallDelta { delta } => {
                delta.len().max(1)
            }
        },
        AgentEvent::ToolExecutionUpdate { partial_result, .. } => {
            let texts = partial_result.content.iter().map(|content| match content {
                Content::Text { text } => text.len(),
                Content::Image { data, .. } => data.len(),
                Content::Thinking { thinking, .. } => thinking.len(),
                Content::ToolCall { .. } => 1,
            });
            texts.sum::<usize>().max(1)
        }
        AgentEvent::ProgressMessage { text, .. } => text.len().max(1),
        _ => 0,
    }
}

impl Held {
    /// A piece of a message, or a newer partial result, joins the one that is unread if nothing else of that agent's
    /// came between.
    fn join(&mut self, event: &Event) -> bool {
        let last = self.events.iter_mut().rev().take(LOOK_BACK).find(|held| held.agent_id == event.agent_id);
        let Some(last) = last else { return false };
        match (&event.event, &last.event) {
            (
                AgentEvent::MessageUpdate { message_id, delta },
                AgentEvent::MessageUpdate { message_id: held, delta: so_far },
            ) if message_id == held && std::mem::discriminant(delta) == std::mem::discriminant(so_far) => {
                self.fleeting += weight(&event.event);
                let last = Arc::make_mut(last);
                last.id = event.id;
                if let AgentEvent::MessageUpdate { delta: so_far, .. } = &mut last.event {
                    // Both are of one kind, so they merge.
                    let _ = so_far.merge(delta.clone());
                }
                true
            }
            (
                AgentEvent::ToolExecutionUpdate { tool_call_id, .. },
                AgentEvent::ToolExecutionUpdate { tool_call_id: held, .. },
            ) if tool_call_id == held => {
                self.fleeting = (self.fleeting + weight(&event.event)).saturating_sub(weight(&last.event));
                *last = Arc::new(event.clone());
                true
            }
            _ => false,
        }
    }

    /// The oldest event that no journal holds is dropped; else the oldest that closes nothing; else the oldest that
    /// does not end a run; else the oldest.
    fn give_way(&mut self, tracks: usize) {
        if self.drop_fleeting(tracks) {
            return;
        }
        let open = self.events.iter().position(|event| !event.event.is_terminal());
        let within = || self.events.iter().position(|event| !matches!(event.event, AgentEvent::AgentEnd { .. }));
        let oldest = open.or_else(within).unwrap_or(0);
        self.drop_at(oldest, tracks);
    }

    fn drop_fleeting(&mut self, tracks: usize) -> bool {
        if self.fleeting == 0 {
            return false;
        }
        match self.events.iter().position(|event| weight(&event.event) > 0) {
            Some(oldest) => self.drop_at(oldest, tracks),
            None => false,
        }
    }

    fn drop_at(&mut self, place: usize, tracks: usize) -> bool {
        let Some(event) = self.events.remove(place) else { return false };
        self.fleeting = self.fleeting.saturating_sub(weight(&event.event));
        let session = match self.track(&event, tracks) {
            Some(track) => {
                track.missed += 1;
                track.at = event.timestamp;
                (track.missed == 1).then(|| event.session_id.clone())
            }
            None => {
                // More sessions lag than there is room to say so: the first to be told of is told of more.
                if let Some(track) = self.lagging.front().and_then(|session| self.tracks.get_mut(session)) {
                    track.missed += 1;
                }
                None
            }
        };
        self.lagging.extend(session);
        true
    }

    /// The track of an event's session. There are at most `room` or one, those of sessions with nothing to tell going
    /// first; without one, a later gap counts from the session's beginning.
    fn track(&mut self, event: &Event, room: usize) -> Option<&mut Track> {
        if !self.tracks.contains_key(&event.session_id) && self.tracks.len() >= room {
            let quiet = self.tracks.iter().find(|(_, track)| track.missed == 0).map(|(session, _)| session.clone())?;
            self.tracks.remove(&quiet);
        }
        let fresh = || Track { agent_id: event.agent_id.clone(), read: None, missed: 0, at: event.timestamp };
        Some(self.tracks.entry(event.session_id.clone()).or_insert_with(fresh))
    }

    fn take(&mut self, tracks: usize) -> Option<Arc<Event>> {
        while let Some(session) = self.lagging.pop_front() {
            let Some(track) = self.tracks.get_mut(&session) else { continue };
            let missed = std::mem::take(&mut track.missed);
            return Some(Arc::new(Event {
                id: track.read.unwrap_or_default(),
                agent_id: track.agent_id.clone(),
                session_id: session,
                loop_id: None,
                timestamp: track.at,
                event: AgentEvent::Lagged { missed, after: track.read },
            }));
        }
        let event = self.events.pop_front()?;
        self.fleeting = self.fleeting.saturating_sub(weight(&event.event));
        if let Some(track) = self.track(&event, tracks) {
            track.read = Some(event.id);
        }
        Some(event)
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
