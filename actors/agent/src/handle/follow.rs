//! Everything an agent tells, without a gap, from any event on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use playhouse_protocol::{AgentEvent, EntryBody, Event, EventId, SessionId};
use playhouse_session::{Reader, StoreError};

use crate::hub::Subscription;
use crate::machine::FoldError;
use crate::machine::events::replay;

/// Why a journal did not give its events.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// It could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It has no beginning.
    #[error("session `{session}`: {reason}")]
    Fold {
        /// The session whose journal it is.
        session: SessionId,
        /// What is wrong with it.
        reason: FoldError,
    },
}

/// The events of a stored session that come after `after`, but for those that no journal holds.
pub async fn events_after(
    journals: &Reader,
    session: &SessionId,
    after: Option<EventId>,
) -> Result<Vec<Arc<Event>>, EventsError> {
    Ok(read(journals, session, after).await?.events)
}

/// What a journal says to one who follows it.
struct Read {
    events: Vec<Arc<Event>>,
    /// The session that its agent went on in.
    next: Option<SessionId>,
}

async fn read(journals: &Reader, session: &SessionId, after: Option<EventId>) -> Result<Read, EventsError> {
    let id = session.clone();
    let work = move |journals: &Reader| {
        let loaded = journals.read(&id)?;
        let next = loaded.entries.iter().rev().find_map(|(_, entry)| match &entry.body {
            EntryBody::RotatedTo { session } => Some(session.clone()),
            _ => None,
        });
        let entries = loaded.entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
        let events = replay(entries, after).map_err(|reason| EventsError::Fold { session: id, reason })?;
        Ok(Read { events: events.into_iter().map(Arc::new).collect(), next })
    };
    match journals.run(work).await {
        Ok(read) => read,
        Err(error) => {
            Err(StoreError::Io { doing: "read a journal", place: "the store".into(), reason: error.to_string() }.into())
        }
    }
}

/// An agent's events without a gap: first what the journal has, then what happens, and what was missed meanwhile from
/// the journal again. Made by [`AgentHandle::follow`](crate::AgentHandle::follow).
///
/// Pieces of messages and partial results are in no journal: a reader that is too slow for them gets the whole in the
/// event that ends the message or the tool call.
pub struct Follow {
    journals: Reader,
    live: Subscription,
    session: SessionId,
    /// The last event given.
    last: Option<EventId>,
    backlog: VecDeque<Arc<Event>>,
    behind: bool,
}

impl Follow {
    pub(crate) fn new(journals: Reader, live: Subscription, session: SessionId, after: Option<EventId>) -> Self {
        Self { journals, live, session, last: after, backlog: VecDeque::new(), behind: true }
    }

    /// The next event; `None` when the agent is gone for good and everything was read.
    pub async fn next(&mut self) -> Result<Option<Arc<Event>>, EventsError> {
        loop {
            if self.behind {
                self.catch_up().await?;
            }
            let event = match self.backlog.pop_front() {
                Some(event) => event,
                None => match self.live.next().await {
                    Some(event) => event,
                    None => return Ok(None),
                },
            };
            if event.session_id != self.session {
                self.turn_to(event).await?;
                continue;
            }
            match event.event {
                AgentEvent::Lagged { .. } => self.behind = true,
                _ if self.last.is_some_and(|last| event.id <= last) => {}
                _ => {
                    self.last = Some(event.id);
                    return Ok(Some(event));
                }
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), EventsError> {
        match read(&self.journals, &self.session, self.last).await {
            Ok(read) => self.backlog = read.events.into(),
            // An agent that was told nothing yet has no journal.
            Err(EventsError::Store(StoreError::Unknown { .. })) => {}
            Err(error) => return Err(error),
        }
        self.behind = false;
        Ok(())
    }

    /// An event of another session. If the agent went on from this one: first the rest of it, then the next one from
    /// its beginning. If not, the event is of a session that was followed to its end before.
    async fn turn_to(&mut self, event: Arc<Event>) -> Result<(), EventsError> {
        let Read { events, next } = read(&self.journals, &self.session, self.last).await?;
        let Some(next) = next else { return Ok(()) };
        if events.is_empty() {
            self.session = next;
            self.last = None;
            self.catch_up().await?;
        } else {
            self.backlog = events.into();
        }
        // What turned it comes again after what lies before it.
        self.backlog.push_back(event);
        Ok(())
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").field("session", &self.session).field("last", &self.last).finish_non_exhaustive()
    }
}
