//! What was missed comes from the journal, without a gap and nothing twice.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use playhouse::prelude::*;
use playhouse::protocol::{Entry, EntryBody, EntryId, EventId, Seq, SessionId};
use playhouse::session::{
    Damage, Loaded, MemoryStore, Promises, Records, SessionSummary, Store, StoreError, Sync, Take,
};
use serde_json::json;

use crate::kit::{FnModel, lines, saying, soon};

/// A model that looks once, then answers: two turns for every prompt.
fn looking() -> FnModel {
    FnModel::new(|config| match config.messages.as_slice().iter().rev().find_map(|message| message.llm()) {
        Some(Message::ToolResult { .. }) => Step::text("Seen.").chunk(2),
        _ => Step::text("Looking. ").tool_call("look", json!({})).chunk(2),
    })
}

/// Those of these events that the journal holds: pieces and the start of a streamed message are in none.
fn kept(events: &[Arc<Event>], journal: &[Arc<Event>]) -> Vec<Arc<Event>> {
    let known: HashSet<(&SessionId, EventId)> = journal.iter().map(|event| (&event.session_id, event.id)).collect();
    events.iter().filter(|event| known.contains(&(&event.session_id, event.id))).cloned().collect()
}

#[tokio::test]
async fn the_journal_gives_the_events_that_were_told_and_goes_on_from_any_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path()).open().await.unwrap();
    let agent = house.agent().provider_override(looking()).tool(saying("look", "a view")).spawn().await.unwrap();
    let mut live = agent.subscribe();
    for n in 0..3 {
        soon("the answer", agent.prompt(&format!("Prompt {n}"))).await.unwrap();
        soon("the crash", agent.crash()).await.unwrap();
    }
    soon("the last answer", agent.prompt("Prompt 3")).await.unwrap();
    let told: Vec<Arc<Event>> = std::iter::from_fn(|| live.try_next()).collect();
    let session = agent.session_id();
    let journal = house.events(&session, None).await.unwrap();
    assert_eq!(journal, kept(&told, &journal), "the journal's events are those that were told, in their order");
    assert!(journal.len() > 4 * 10, "{}", journal.len());
    // From every event that was told on, pieces included.
    for event in &told {
        let after = house.events(&session, Some(event.id)).await.unwrap();
        let expected: Vec<_> = journal.iter().filter(|later| later.id > event.id).cloned().collect();
        assert_eq!(after, expected, "after {}", event.id);
    }
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_follower_that_was_away_misses_nothing_and_sees_nothing_twice_not_even_between_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path()).open().await.unwrap();
    let agent = house
        .agent()
        .provider_override(looking())
        .tool(saying("look", "a view"))
        .enable_broadcast(4)
        .spawn()
        .await
        .unwrap();
    let mut follow = agent.follow(None);
    let (mut sessions, mut seen) = (vec![agent.session_id()], Vec::new());
    for n in 0..8 {
        soon("the answer", agent.prompt(&format!("Prompt {n}"))).await.unwrap();
        for _ in 0..n {
            seen.extend(soon("an event", follow.next()).await.unwrap());
        }
        if n % 3 == 1 {
            sessions.push(soon("a new session", agent.new_session()).await.unwrap());
        }
    }
    house.dismiss(agent.id()).await;
    while let Some(event) = soon("an event", follow.next()).await.unwrap() {
        seen.push(event);
    }
    let mut journals = Vec::new();
    for session in &sessions {
        journals.extend(house.events(session, None).await.unwrap());
    }
    let short = |events: &[Arc<Event>]| -> Vec<String> {
        let at = |event: &Event| sessions.iter().position(|session| *session == event.session_id).unwrap();
        events.iter().map(|event| format!("{}:{} {}", at(event), event.id, crate::kit::name_of(&event.event))).collect()
    };
    assert_eq!(short(&kept(&seen, &journals)), short(&journals));
    assert_eq!(sessions.len(), 4);
    let Some(AgentEvent::AgentEnd { messages, .. }) = seen.last().map(|event| event.event.clone()) else { panic!() };
    assert_eq!(lines(&messages), ["user: Prompt 7", "model: Looking. [look]", "look: a view", "model: Seen."]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn the_events_of_an_unknown_session_are_an_error_that_says_so() {
    let house = House::in_memory().await.unwrap();
    let error = house.events(&SessionId::new("nobody").unwrap(), None).await.unwrap_err();
    assert!(error.to_string().contains("there is no session `nobody`"), "{error}");
    house.shutdown(Duration::ZERO).await;
}

/// Journals in memory that count what of them is held by those who read.
#[derive(Debug, Default)]
struct Counting {
    kept: MemoryStore,
    given: Arc<Mutex<Given>>,
}

#[derive(Debug, Default)]
struct Given {
    /// Records that somebody was given, those first that may still have one.
    out: Vec<Weak<Entry>>,
    /// The most that were held at once.
    most: usize,
    /// How many were given in all.
    all: usize,
}

impl Given {
    /// A copy of a record that is held by whoever gets it alone.
    fn give(&mut self, entry: &Entry) -> Arc<Entry> {
        let copy = Arc::new(entry.clone());
        self.out.push(Arc::downgrade(&copy));
        self.out.retain(|record| record.strong_count() > 0);
        (self.most, self.all) = (self.most.max(self.out.len()), self.all + 1);
        copy
    }
}

/// Gives copies one at a time.
#[derive(Debug)]
struct Copies(std::vec::IntoIter<(Seq, Arc<Entry>)>, Arc<Mutex<Given>>);

impl Iterator for Copies {
    type Item = Result<(Seq, Arc<Entry>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(seq, entry)| Ok((seq, self.1.lock().unwrap().give(&entry))))
    }
}

impl Records for Copies {
    fn damage(self: Box<Self>) -> Vec<Damage> {
        Vec::new()
    }
}

impl Store for Counting {
    fn promises(&self) -> Promises {
        Promises { strongest: Durability::Flush }
    }

    fn load(&self, session: &SessionId, take: Take) -> Result<Loaded, StoreError> {
        let mut loaded = self.kept.load(session, take)?;
        for (_, entry) in &mut loaded.entries {
            *entry = self.given.lock().unwrap().give(entry);
        }
        Ok(loaded)
    }

    fn read(&self, session: &SessionId, _: Seq) -> Result<Box<dyn Records>, StoreError> {
        let entries = self.kept.load(session, Take::Peek)?.entries;
        Ok(Box::new(Copies(entries.into_iter(), self.given.clone())))
    }

    fn append(&self, id: &SessionId, epoch: u64, all: &[Arc<Entry>], sync: Sync) -> Result<Vec<Seq>, StoreError> {
        self.kept.append(id, epoch, all, sync)
    }

    fn flush(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError> {
        self.kept.flush(session, epoch)
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.kept.list()
    }

    fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        self.kept.remove(session)
    }

    fn rest(&self, session: &SessionId) -> Result<(), StoreError> {
        self.kept.rest(session)
    }

    fn release(&self, session: &SessionId) -> Result<(), StoreError> {
        self.kept.release(session)
    }
}

#[tokio::test]
async fn catching_up_takes_one_record_at_a_time_and_no_more_than_is_asked_for() {
    const MANY: usize = 5_000;
    let store = Arc::new(Counting::default());
    let house = House::builder().store(store.clone()).open().await.unwrap();
    let agent = house.agent().provider_override(looking()).tool(saying("look", "a view")).spawn().await.unwrap();
    soon("the answer", agent.prompt("Prompt")).await.unwrap();
    let session = agent.session_id();
    let loaded = store.kept.load(&session, Take::Peek).unwrap();
    let mut parent = loaded.entries.last().map(|(_, entry)| entry.id.clone());
    let note = |n: usize| {
        let id = EntryId::from(format!("note-{n}").as_str());
        let (parent, body) = (parent.replace(id.clone()), EntryBody::Parked { reason: format!("reason {n}") });
        Arc::new(Entry { id, loop_id: None, parent, at: 1, body })
    };
    let notes: Vec<Arc<Entry>> = (0..MANY).map(note).collect();
    store.kept.append(&session, loaded.epoch, &notes, Sync::Kernel).unwrap();
    *store.given.lock().unwrap() = Given::default();

    let mut follow = agent.follow(None);
    let first = soon("an event", follow.next()).await.unwrap().unwrap();
    let (most, all) = {
        let given = store.given.lock().unwrap();
        (given.most, given.all)
    };
    assert!(most <= 2, "{most} records were held at once");
    // Every record once, to know what leads to the last one, and then those of the first events.
    let records = loaded.entries.len() + MANY;
    assert!(all < records + 1_000, "{all} records were read of {records}");
    let stored = soon("its events", house.events(&session, None)).await.unwrap();
    let mut told = vec![first];
    while told.len() < stored.len() {
        told.extend(soon("an event", follow.next()).await.unwrap());
    }
    assert_eq!((told == stored, stored.len() > MANY), (true, true), "page after page, without a gap");
    assert!(store.given.lock().unwrap().most <= 2);
    house.shutdown(Duration::ZERO).await;
}
