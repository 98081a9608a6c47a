//! The runtime's blocking pool is everybody's: when it is full of work that never ends, a house goes on.

#[path = "support/kit.rs"]
mod kit;

use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use kit::{FnModel, Gate, soon, until};
use playhouse::prelude::*;
use playhouse::session::SessionStatus;

/// More than the runtime has threads for.
const BLOCKED: usize = 600;
/// How many of them run; the rest wait for a thread.
const THREADS: usize = 512;

/// Fills the runtime's blocking pool until this is dropped.
struct Full {
    _release: Vec<mpsc::Sender<()>>,
}

impl Full {
    async fn fill() -> Self {
        let running = Arc::new(AtomicUsize::new(0));
        let mut release = Vec::new();
        for _ in 0..BLOCKED {
            let (to, blocked) = mpsc::channel::<()>();
            let running = running.clone();
            release.push(to);
            tokio::task::spawn_blocking(move || {
                running.fetch_add(1, Ordering::SeqCst);
                let _ = blocked.recv();
            });
        }
        until("the pool is full", || running.load(Ordering::SeqCst) == THREADS).await;
        Self { _release: release }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f58_a_house_goes_on_when_users_code_has_every_blocking_thread() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.json");
    std::fs::write(&script, r#"{"turns":[{"text":"one"},{"text":"two"},{"text":"three"}]}"#).unwrap();
    let full = Full::fill().await;
    let open = || {
        House::builder().data_dir(folder.path().join("data")).kind("plain", |_| ready(Ok(Definition::default()))).open()
    };
    let house = soon("the house opens", open()).await.unwrap();
    let plain = house.agent().kind("plain").model(ModelConfig::scripted(&script)).spawn().await.unwrap();
    assert_eq!(soon("a run", plain.prompt("go")).await.unwrap().text(), "one");
    plain.crash().await.unwrap();
    assert_eq!(soon("a run after a crash", plain.prompt("go")).await.unwrap().text(), "two");

    let gate = Gate::closed();
    let silent = house.agent().provider_override(FnModel::new(|_| Step::text("late")).behind(&gate)).spawn();
    let silent = silent.await.unwrap();
    let asking = silent.clone();
    let run = tokio::spawn(async move { asking.prompt_report("begin").await });
    gate.reached(1).await;
    soon("the abort", silent.abort()).await.unwrap();
    assert_eq!(soon("the aborted run", run).await.unwrap().unwrap().outcome, Outcome::Aborted);

    let session = plain.session_id();
    let sessions = soon("the list", house.sessions()).await.unwrap();
    assert!(sessions.iter().any(|one| one.session_id == session && one.status == SessionStatus::Done));
    let events = soon("the events", house.events(&session, None)).await.unwrap();
    assert!(!events.is_empty());
    soon("the dismissal", house.dismiss(plain.id())).await;
    let resumed = soon("the resume", house.resume(&session)).await.unwrap();
    assert_eq!(soon("a run", resumed.prompt("go")).await.unwrap().text(), "three");
    soon("the end", house.shutdown(Duration::ZERO)).await;
    drop(full);
}
