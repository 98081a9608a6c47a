//! What becomes of an input is said, and is true: taken, not taken, or unknown.

#[path = "support/kit.rs"]
mod kit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kit::{FnModel, Gate, healthy, lines, soon};
use playhouse::agent::testing::{AgentMsg, mailboxes};
use playhouse::prelude::*;
use serde_json::json;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f55_nothing_is_called_busy_that_a_dead_incarnation_has_journaled() {
    const SENDERS: usize = 100;
    const EACH: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path()).open().await.unwrap();
    let gate = Gate::closed();
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("gate", json!({})),
        _ => Step::text("ok"),
    });
    let agent = house
        .agent()
        .provider_override(model)
        .tool(gate.tool("gate"))
        .steering_mode(QueueMode::All)
        .durability(Durability::Os)
        .spawn()
        .await
        .unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    soon("the tool", gate.reached(1)).await;
    let done = Arc::new(AtomicBool::new(false));
    let crashing = tokio::spawn({
        let (agents, id, done) = (mailboxes(&house.services().agents).clone(), agent.id().clone(), done.clone());
        async move {
            let mut last = None;
            for _ in 0..12 {
                let actor = soon("a new incarnation", agents.live(id.as_str(), last)).await.unwrap();
                last = Some(actor.get_id());
                tokio::time::sleep(Duration::from_millis(15)).await;
                let _ = actor.cast(AgentMsg::Crash);
                if done.load(Ordering::SeqCst) {
                    break;
                }
            }
        }
    });
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let agent = agent.clone();
        senders.spawn(async move {
            let mut taken = Vec::new();
            for n in 0..EACH {
                // Whoever is told "busy: nothing was taken" says it again.
                let text = format!("{sender}/{n}");
                loop {
                    match agent.steer(&text).await {
                        Ok(()) => break taken.push(text),
                        Err(HandleError::Busy(_) | HandleError::Input(InputError::Busy)) => {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            taken
        });
    }
    let taken = soon("the senders", senders.join_all()).await.concat();
    done.store(true, Ordering::SeqCst);
    soon("the crashes", crashing).await.unwrap();
    gate.open();
    soon("the run", run).await.unwrap().unwrap();
    let mut heard: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(healthy(&agent).await.messages.as_slice()) {
        if let Some(text) = line.strip_prefix("user: ").filter(|text| *text != "begin") {
            *heard.entry(text.to_owned()).or_default() += 1;
        }
    }
    let twice: Vec<_> = heard.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{} were taken twice: {twice:?}", twice.len());
    assert_eq!((taken.len(), heard.len()), (SENDERS * EACH, SENDERS * EACH));
    house.shutdown(Duration::ZERO).await;
}
