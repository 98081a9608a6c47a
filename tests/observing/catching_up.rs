//! What was missed comes from the journal, without a gap and nothing twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use playhouse::prelude::*;
use playhouse::protocol::{EventId, SessionId};
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
