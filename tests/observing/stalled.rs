//! A subscriber that does not read.

use std::sync::Arc;
use std::time::Duration;

use playhouse::prelude::*;

use crate::kit::{FnModel, soon};

const RUNS: usize = 20;
const PIECES: usize = 50_000;

/// The process's memory in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// One million pieces of text while one subscriber sleeps: it costs no memory, the others notice nothing, and when it
/// wakes it is told that it lags, gets the end, and the journal has the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f23_a_stalled_subscriber_costs_nothing_and_catches_up_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path()).open().await.unwrap();
    let text = "x".repeat(PIECES);
    let model = FnModel::new(move |_| Step::text(&text).chunk(1));
    let agent = house.agent().provider_override(model).durability(Durability::Os).spawn().await.unwrap();
    let mut stalled = agent.subscribe_with(16);
    let mut away = agent.follow(None);
    let mut awake = agent.subscribe();
    let reading = tokio::spawn(async move {
        let (mut seen, mut pieces) = (Vec::new(), 0_u64);
        while let Some(event) = awake.next().await {
            match &event.event {
                AgentEvent::MessageUpdate { delta: StreamDelta::Text { delta }, .. } => pieces += delta.len() as u64,
                _ => seen.push(event),
            }
        }
        (seen, pieces)
    });
    let mut before = 0;
    for run in 0..RUNS {
        soon("an answer", agent.prompt("Speak.")).await.unwrap();
        if run == 0 {
            before = memory();
        }
    }
    let grown = memory().saturating_sub(before);
    // The conversation itself grows by a megabyte, and the request with it.
    assert!(grown < 16 << 20, "memory grew by {grown} bytes while one subscriber slept");

    let session = agent.session_id();
    house.dismiss(agent.id()).await;
    let journal = house.events(&session, None).await.unwrap();
    let ids = |events: &[Arc<Event>]| events.iter().map(|event| event.id).collect::<Vec<_>>();
    let among = |events: &[Arc<Event>]| {
        let known: std::collections::HashSet<_> = journal.iter().map(|event| event.id).collect();
        ids(events).into_iter().filter(|id| known.contains(id)).collect::<Vec<_>>()
    };

    // The one that was awake has everything, every byte of text included.
    let (seen, pieces) = soon("the reader", reading).await.unwrap();
    assert_eq!(pieces, (RUNS * PIECES) as u64);
    assert_eq!(among(&seen), ids(&journal));
    assert!(!seen.iter().any(|event| matches!(event.event, AgentEvent::Lagged { .. })));

    // The one that slept is told so, and gets the ends.
    let first = stalled.try_next().unwrap();
    assert!(matches!(first.event, AgentEvent::Lagged { after: None, missed } if missed > 100), "{first:?}");
    let rest: Vec<Arc<Event>> = std::iter::from_fn(|| stalled.try_next()).collect();
    assert_eq!(rest.len(), 16);
    assert_eq!(rest.last().map(|event| event.id), journal.last().map(|event| event.id));
    assert!(rest.iter().all(|event| event.event.is_terminal()));

    // The one that follows gets all of it.
    let mut followed = Vec::new();
    while let Some(event) = soon("the follower", away.next()).await.unwrap() {
        followed.push(event);
    }
    assert_eq!(among(&followed), ids(&journal));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn ten_thousand_subscribers_come_and_go_during_runs_and_nothing_is_left() {
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().provider_override(FnModel::new(|_| Step::text("Yes."))).spawn().await.unwrap();
    let mut before = 0;
    for round in 0..100 {
        let mut there: Vec<Subscription> = (0..100).map(|_| agent.subscribe()).collect();
        soon("an answer", agent.prompt("Are you there?")).await.unwrap();
        for one in &mut there {
            assert!(soon("the end", one.end_of_run()).await.is_some());
        }
        drop(there);
        if round == 10 {
            before = memory();
        }
    }
    assert_eq!(house.services().hub.topic(agent.id()).subscribers(), 0);
    let grown = memory().saturating_sub(before);
    assert!(grown < 8 << 20, "memory grew by {grown} bytes");
    house.shutdown(Duration::ZERO).await;
    assert!(house.services().hub.is_empty());
}
