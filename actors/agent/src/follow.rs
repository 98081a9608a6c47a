//! Everything an agent tells, without a gap, from any event on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use playhouse_protocol::{AgentEvent, EntryBody, Event, EventId, SessionId};
use playhouse_session::{Along, Branch, Reader, Records, StoreError};

use crate::hub::Subscription;
use crate::machine::FoldError;
use crate::machine::events::Replay;

/// Why a journal did not give its events.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// It could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It has no beginning.
    #[error("session `{session}`: {reason}")]
    Fold {
        /// The session that the journal is of.
        session: SessionId,
        /// What is wrong with it.
        reason: FoldError,
    },
}

/// How many events a follower takes from a journal at once.
const PAGE: usize = 256;

/// The events of a stored session that come after a certain one, but for those that no journal holds, one at a time.
/// Blocks.
#[derive(Debug)]
pub struct StoredEvents {
    session: SessionId,
    along: Along,
    /// `None` when the journal is at its end.
    replay: Option<Replay>,
    told: VecDeque<Event>,
}

impl StoredEvents {
    /// Reads the journal that `open` gives, each time from its first record on.
    pub fn open(
        session: &SessionId,
        open: impl Fn() -> Result<Box<dyn Records>, StoreError>,
        after: Option<EventId>,
    ) -> Result<Self, StoreError> {
        let (session, replay) = (session.clone(), Some(Replay::new(after)));
        Ok(Self { session, along: Along::open(open)?, replay, told: VecDeque::new() })
    }

    /// Reads on until there is an event to tell, or to the journal's end.
    fn read_on(&mut self) -> Result<(), EventsError> {
        let fold = |reason| EventsError::Fold { session: self.session.clone(), reason };
        while let (true, Some(replay)) = (self.told.is_empty(), &mut self.replay) {
            match self.along.next() {
                Some(record) => match record? {
                    (seq, entry, Branch::Main) => {
                        replay.take(seq, &entry).map_err(fold)?;
                        self.told.extend(replay.told());
                    }
                    (_, _, Branch::Side) => {}
                },
                None => self.told.extend(self.replay.take().map_or(Ok(Vec::new()), Replay::end).map_err(fold)?),
            }
        }
        Ok(())
    }
}

impl Iterator for StoredEvents {
    type Item = Result<Event, EventsError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read_on() {
            Ok(()) => self.told.pop_front().map(Ok),
            Err(error) => {
                self.replay = None;
                Some(Err(error))
            }
        }
    }
}

/// The events of a stored session that come after `after`, but for those that no journal holds.
pub async fn events_after(
    journals: &Reader,
    session: &SessionId,
    after: Option<EventId>,
) -> Result<Vec<Arc<Event>>, EventsError> {
    let id = session.clone();
    run(journals, move |journals| stored(journals, &id, after)?.map(|event| event.map(Arc::new)).collect()).await
}

fn stored(journals: &Reader, session: &SessionId, after: Option<EventId>) -> Result<StoredEvents, StoreError> {
    StoredEvents::open(session, || journals.read(session), after)
}

/// Has something done with journals on a thread of the reader's own.
async fn run<T: Send + 'static>(
    journals: &Reader,
    work: impl FnOnce(&Reader) -> Result<T, EventsError> + Send + 'static,
) -> Result<T, EventsError> {
    journals.run(work).await.unwrap_or_else(|error| {
        let (place, reason) = ("the store".into(), error.to_string());
        Err(StoreError::Io { doing: "read a journal", place, reason }.into())
    })
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
    /// What was read of the journal and not given yet: at most one page.
    page: VecDeque<Event>,
    behind: Behind,
    /// An event that comes again when the journal of this session is read.
    put_back: Option<Arc<Event>>,
}

/// How far a follower is behind the journal.
enum Behind {
    /// Everything that was missed was read.
    Nothing,
    /// It has to look.
    Unknown,
    /// What is left to be read.
    By(Box<StoredEvents>),
}

impl Follow {
    pub(crate) fn new(journals: Reader, live: Subscription, session: SessionId, after: Option<EventId>) -> Self {
        let (page, behind) = (VecDeque::new(), Behind::Unknown);
        Self { journals, live, session, last: after, page, behind, put_back: None }
    }

    /// The next event; `None` when the agent is gone for good and everything was read.
    pub async fn next(&mut self) -> Result<Option<Arc<Event>>, EventsError> {
        loop {
            let read = match self.page.pop_front() {
                None => self.turn_page().await?,
                read => read,
            };
            let event = match (read, self.put_back.take()) {
                (Some(event), put_back) => {
                    self.put_back = put_back;
                    Arc::new(event)
                }
                (None, Some(event)) => event,
                (None, None) => match self.live.next().await {
                    Some(event) => event,
                    None => return Ok(None),
                },
            };
            if event.session_id != self.session {
                self.turn_to(event).await?;
                continue;
            }
            match event.event {
                AgentEvent::Lagged { .. } => self.behind = Behind::Unknown,
                _ if self.last.is_some_and(|last| event.id <= last) => {}
                _ => {
                    self.last = Some(event.id);
                    return Ok(Some(event));
                }
            }
        }
    }

    /// Reads the next page of what was missed, and gives its first event.
    async fn turn_page(&mut self) -> Result<Option<Event>, EventsError> {
        // Should nobody wait for the page any more, the next one who asks looks again.
        let missed = match std::mem::replace(&mut self.behind, Behind::Unknown) {
            Behind::Nothing => {
                self.behind = Behind::Nothing;
                return Ok(None);
            }
            Behind::Unknown => None,
            Behind::By(missed) => Some(missed),
        };
        let (session, after) = (self.session.clone(), self.last);
        let read = run(&self.journals, move |journals| {
            let mut missed = match missed {
                Some(missed) => missed,
                None => Box::new(stored(journals, &session, after)?),
            };
            let page = missed.by_ref().take(PAGE).collect::<Result<VecDeque<_>, _>>()?;
            Ok((page, missed))
        });
        self.behind = match read.await {
            Ok((page, missed)) => {
                self.page = page;
                if self.page.len() < PAGE { Behind::Nothing } else { Behind::By(missed) }
            }
            // An agent that was told nothing yet has no journal.
            Err(EventsError::Store(StoreError::Unknown { .. })) => Behind::Nothing,
            Err(error) => return Err(error),
        };
        Ok(self.page.pop_front())
    }

    /// An event of another session. If the agent went on from this one: first the rest of it, then the next one from
    /// its beginning. If not, the event is of a session that was followed to its end before.
    async fn turn_to(&mut self, event: Arc<Event>) -> Result<(), EventsError> {
        let (session, after) = (self.session.clone(), self.last);
        let read = run(&self.journals, move |journals| {
            let mut next = None;
            for record in journals.read(&session)? {
                if let EntryBody::RotatedTo { session } = &record?.1.body {
                    next = Some(session.clone());
                }
            }
            let Some(next) = next else { return Ok(None) };
            let mut rest = stored(journals, &session, after)?;
            let first = rest.next().transpose()?;
            Ok(Some((next, first, rest)))
        });
        let Some((next, first, rest)) = read.await? else { return Ok(()) };
        self.behind = match &first {
            Some(_) => Behind::By(Box::new(rest)),
            None => {
                (self.session, self.last) = (next, None);
                Behind::Unknown
            }
        };
        self.page.extend(first);
        // What turned it comes again after what lies before it.
        self.put_back = Some(event);
        Ok(())
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").field("session", &self.session).field("last", &self.last).finish_non_exhaustive()
    }
}
