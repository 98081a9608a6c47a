//! Whoever gives up waiting for something that was begun, as a timeout does, leaves nothing half done.

#[path = "support/kit.rs"]
mod kit;

use std::sync::Arc;
use std::time::Duration;

use kit::{FnModel, Gate, soon, until};
use playhouse::prelude::*;
use playhouse::session::StoreError;

fn model() -> FnModel {
    FnModel::new(|_| Step::text("done"))
}

fn definition() -> Definition {
    Definition { provider_override: Some(Arc::new(model())), ..Definition::default() }
}

struct Set {
    folder: tempfile::TempDir,
    house: House,
}

impl Set {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let house = House::builder().data_dir(folder.path()).open().await.unwrap();
        Self { folder, house }
    }

    /// An agent that has said something. Its kind is one that nobody registered.
    async fn agent(&self) -> AgentHandle {
        let agent = self.house.agent().kind("gone").definition(definition()).spawn().await.unwrap();
        agent.prompt("begin").await.unwrap();
        agent
    }
}

/// Begins something and gives up waiting for it at once.
async fn begin(work: impl Future) {
    tokio::select! {
        biased;
        _ = work => panic!("it was done before anybody could give up"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dismissal_that_nobody_waits_for_is_carried_out() {
    let set = Set::new().await;
    let agent = set.agent().await;
    begin(set.house.dismiss(agent.id())).await;
    let gone = async {
        while agent.at_rest().await.is_ok() {
            tokio::task::yield_now().await;
        }
        agent.at_rest().await
    };
    assert!(matches!(soon("an answer that it is gone", gone).await, Err(HandleError::Absent(_))));
    let services = set.house.services();
    until("nothing is left", || services.agents.is_empty() && services.hub.is_empty() && services.sessions.is_empty())
        .await;
    set.house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_removal_nobody_waits_for_is_removed_and_in_nobodys_hands() {
    let set = Set::new().await;
    let agent = set.agent().await;
    set.house.dismiss(agent.id()).await;
    begin(set.house.remove_session(&agent.session_id())).await;
    until("nobody has it", || set.house.services().sessions.is_empty()).await;
    let again = set.house.remove_session(&agent.session_id()).await;
    assert!(matches!(again, Err(StoreError::Unknown { .. })), "{again:?}");
    set.house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_cannot_be_resumed_is_let_go_when_nobody_waits_to_hear_so() {
    let set = Set::new().await;
    let other = House::builder().data_dir(set.folder.path()).open().await.unwrap();
    // At which moment it is given up is chance.
    for n in 0..20 {
        let agent = set.agent().await;
        set.house.dismiss(agent.id()).await;
        let pause = Duration::from_micros(200 * n);
        let _ = tokio::time::timeout(pause, set.house.resume(&agent.session_id())).await;
        until("nobody has it", || set.house.services().sessions.is_empty()).await;
        // Another process may have what it takes.
        other.remove_session(&agent.session_id()).await.unwrap();
    }
    other.shutdown(Duration::ZERO).await;
    set.house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_house_ends_when_it_is_told_again_with_less_patience() {
    let set = Set::new().await;
    let gate = Gate::closed();
    let agent = set.house.agent().provider_override(model().behind(&gate)).spawn().await.unwrap();
    let waiting = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.prompt("wait").await })
    };
    gate.reached(1).await;
    begin(set.house.shutdown(Duration::from_secs(3_600))).await;
    let patient = {
        let house = set.house.clone();
        tokio::spawn(async move { house.shutdown(Duration::from_secs(3_600)).await })
    };
    soon("the end", set.house.shutdown(Duration::ZERO)).await;
    assert!(set.house.tree().iter().all(|node| node.kind != "agent"), "{:?}", set.house.tree());
    soon("the end for whoever was patient", patient).await.unwrap();
    assert!(soon("an answer", waiting).await.unwrap().is_err());
    // Whoever comes late finds it ended.
    soon("nothing", set.house.shutdown(Duration::from_secs(3_600))).await;
}

#[tokio::test]
async fn nothing_is_unparked_in_a_house_that_ended() {
    let house = House::in_memory().await.unwrap();
    house.shutdown(Duration::ZERO).await;
    for id in ["writer/0", "connection/x", "agent/x", "stage", "sessions"] {
        assert!(soon(id, house.unpark(id)).await.is_err(), "{id}");
    }
}
