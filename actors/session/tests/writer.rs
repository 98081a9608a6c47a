//! The Writer actor: group commit, order, failures, death and restart.

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use common::stage::{Stage, committed, stage_on};
use common::{Fault, PATIENCE, TestDisk, find, id, numbered, prompt, prompts};
use playhouse_protocol::{Class, CommitReport, Durability, Entry, Fate, Seq, SessionId};
use playhouse_session::{FileStore, Loaded, MemoryStore, Promises, Store, StoreError, Sync, Take, WriterMsg, shard};
use tokio::time::timeout;

#[tokio::test]
async fn a_batch_is_acknowledged_after_its_flush() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let session = id("s");
    let first = stage.send(&session, &prompts("a", 2));
    assert_eq!(stage.report().await, committed(&session, first, [1, 2]));
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 1);
    let second = stage.send_as(&session, &prompts("b", 1), Class::P, Durability::Flush);
    assert_eq!(stage.report().await, committed(&session, second, [3]));
    let third = stage.send_as(&session, &prompts("c", 1), Class::D, Durability::Os);
    assert_eq!(stage.report().await, committed(&session, third, [4]));
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 1, "neither class P nor durability os flushes");
    stage.settle().await;
    assert_eq!(stage.args.depth.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn commits_of_many_sessions_are_grouped() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let sessions: Vec<_> = (0..100).map(|n| id(&format!("s{n}"))).collect();
    disk.close();
    stage.send(&id("first"), &prompts("f", 1));
    let gate = disk.clone();
    tokio::task::spawn_blocking(move || gate.await_one_at_the_gate()).await.unwrap();
    // While one job stands at the disk, ten batches for each session gather.
    for round in 0..10 {
        for session in &sessions {
            stage.send(session, &prompts(&format!("r{round}"), 1));
        }
    }
    // The mailbox is ordered: when this is counted, so is everything before it.
    let depth = stage.args.depth.clone();
    let deadline = std::time::Instant::now() + PATIENCE;
    while depth.load(Ordering::SeqCst) < 1_001 {
        assert!(std::time::Instant::now() < deadline, "only {depth:?} came");
        tokio::task::yield_now().await;
    }
    disk.open();
    for _ in 0..1_001 {
        assert!(matches!(stage.report().await, CommitReport::Committed { .. }));
    }
    assert_eq!(disk.writes.load(Ordering::SeqCst), 1_001);
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 101, "one flush per journal and job");
    stage.settle().await;
    assert_eq!(depth.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn reports_of_one_session_keep_their_order_and_a_light_batch_of_another_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let (slow, light) = (id("slow"), id("light"));
    disk.close();
    stage.send(&id("first"), &prompts("f", 1));
    let gate = disk.clone();
    tokio::task::spawn_blocking(move || gate.await_one_at_the_gate()).await.unwrap();
    let heavy = stage.send(&slow, &prompts("a", 1));
    let after = stage.send_as(&slow, &prompts("b", 1), Class::P, Durability::Flush);
    let other = stage.send_as(&light, &prompts("c", 1), Class::P, Durability::Flush);
    while stage.args.depth.load(Ordering::SeqCst) < 4 {
        tokio::task::yield_now().await;
    }
    disk.open();
    stage.report().await;
    assert_eq!(stage.report().await, committed(&light, other, [1]), "written is enough for it");
    assert_eq!(stage.report().await, committed(&slow, heavy, [1]));
    assert_eq!(stage.report().await, committed(&slow, after, [2]));
}

#[tokio::test]
async fn f24_a_repeated_batch_is_acknowledged_and_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let session = id("s");
    let batch = prompts("a", 3);
    for _ in 0..3 {
        let number = stage.send(&session, &batch);
        assert_eq!(stage.report().await, committed(&session, number, [1, 2, 3]));
    }
    assert_eq!(disk.writes.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn f24_a_writer_killed_in_mid_queue_loses_nothing_that_is_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let sessions: Vec<_> = (0..5).map(|n| id(&format!("s{n}"))).collect();
    let batches: Vec<_> = (0..8).map(|n| prompts(&format!("b{n}"), 2)).collect();
    disk.close();
    for batch in &batches {
        for session in &sessions {
            stage.send(session, batch);
        }
    }
    let gate = disk.clone();
    tokio::task::spawn_blocking(move || gate.await_one_at_the_gate()).await.unwrap();
    stage.writer.kill();
    assert!(stage.end().await.contains("killed"));
    stage.restart().await;
    // The new Writer's first job waits for the old one's last write, which the gate still holds.
    let numbers = stage.numbers;
    for batch in &batches {
        for session in &sessions {
            stage.send(session, batch);
        }
    }
    disk.open();
    for _ in 0..40 {
        let CommitReport::Committed { batch, seqs, .. } = stage.report().await else { panic!() };
        assert!(batch > numbers, "a dead writer's batch was reported");
        let nth = (batch - numbers - 1) / 5;
        assert_eq!(seqs, [Seq(nth * 2 + 1), Seq(nth * 2 + 2)]);
    }
    for session in &sessions {
        let loaded = stage.load(session).await.unwrap();
        assert_eq!((loaded.entries, loaded.damage), (numbered(1, &batches.concat()), vec![]));
    }
    assert_eq!(disk.writes.load(Ordering::SeqCst), 80, "each entry once");
    assert!(stage.reports.try_recv().is_err(), "each batch is reported once");
    assert_eq!(stage.args.depth.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_dead_writers_job_stops_after_the_append_it_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let session = id("s");
    disk.close();
    // A job of its own, so that the others gather for the next.
    stage.send(&id("first"), &prompts("f", 1));
    let gate = disk.clone();
    tokio::task::spawn_blocking(move || gate.await_one_at_the_gate()).await.unwrap();
    let all = prompts("a", 5);
    for entry in &all {
        stage.send(&session, std::slice::from_ref(entry));
    }
    while stage.args.depth.load(Ordering::SeqCst) < 6 {
        tokio::task::yield_now().await;
    }
    disk.let_one_through();
    stage.report().await;
    let gate = disk.clone();
    tokio::task::spawn_blocking(move || gate.await_one_at_the_gate()).await.unwrap();
    stage.writer.kill();
    stage.end().await;
    stage.restart().await;
    disk.open();
    assert_eq!(stage.load(&session).await.unwrap().entries, numbered(1, &all[..1]));
    stage.settle().await;
    assert_eq!(disk.writes.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn f21_a_panic_in_a_job_ends_the_writer_and_its_successor_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[Fault::PanicAtWrite(4)]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let session = id("s");
    let all = prompts("a", 6);
    stage.send(&session, &all[..2]);
    assert_eq!(stage.report().await, committed(&session, 1, [1, 2]));
    stage.send(&session, &all[2..]);
    let end = stage.end().await;
    assert!(end.contains("failed") && end.contains("injected panic at write 4"), "{end}");
    assert_eq!(stage.args.depth.load(Ordering::SeqCst), 0, "what died with it is not counted");
    stage.restart().await;
    let again = stage.send(&session, &all[2..]);
    assert_eq!(stage.report().await, committed(&session, again, [3, 4, 5, 6]));
    assert_eq!(stage.load(&session).await.unwrap().entries, numbered(1, &all));
}

#[tokio::test]
async fn f30_after_a_failed_batch_the_session_takes_nothing_until_it_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[Fault::FullAtWrite(2)]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let (session, other) = (id("s"), id("other"));
    let all = prompts("a", 3);
    stage.send(&session, &all[..1]);
    assert_eq!(stage.report().await, committed(&session, 1, [1]));
    for (n, entry) in all.iter().enumerate().skip(1) {
        let number = stage.send(&session, std::slice::from_ref(entry));
        let CommitReport::Failed { batch, error, .. } = stage.report().await else { panic!("batch {n}") };
        assert_eq!(batch, number);
        assert!(error.contains("the disk is full; free some space, then resume"), "{error}");
    }
    // Not even a new Writer forgets that.
    stage.writer.kill();
    stage.end().await;
    stage.restart().await;
    stage.send(&session, &all[2..]);
    assert!(matches!(stage.report().await, CommitReport::Failed { .. }));
    let number = stage.send(&other, &prompts("o", 1));
    assert_eq!(stage.report().await, committed(&other, number, [1]), "others go on");
    assert_eq!(stage.load(&session).await.unwrap().entries, numbered(1, &all[..1]));
    let number = stage.send(&session, &all[1..]);
    assert_eq!(stage.report().await, committed(&session, number, [2, 3]));
}

#[tokio::test]
async fn f54_a_failed_batch_says_whether_it_may_be_in_the_journal() {
    for (faults, fates) in [
        ([Fault::NothingAtWrite(2)], [Fate::NotWritten, Fate::Unknown]),
        ([Fault::ShortAtWrite(2)], [Fate::Unknown, Fate::Unknown]),
        ([Fault::ErrorAtFlush(2)], [Fate::Unknown, Fate::Unknown]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut stage = stage_on(folder.path(), &TestDisk::with(&faults)).await;
        let session = id("s");
        let all = prompts("a", 2);
        stage.send(&session, &all[..1]);
        stage.report().await;
        // The second is a repeat to a journal that takes nothing: whoever sends it may have sent it before.
        for expected in fates {
            stage.send(&session, &all[1..]);
            let CommitReport::Failed { fate, error, .. } = stage.report().await else { panic!("{faults:?}") };
            assert_eq!(fate, expected, "{faults:?}: {error}");
        }
    }
}

#[tokio::test]
async fn f31_a_failed_flush_fails_every_batch_that_waited_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[Fault::ErrorAtFlush(2)]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let (session, other) = (id("s"), id("other"));
    disk.close();
    stage.send(&id("first"), &prompts("f", 1));
    let gate = disk.clone();
    tokio::task::spawn_blocking(move || gate.await_one_at_the_gate()).await.unwrap();
    stage.send(&session, &prompts("a", 1));
    stage.send_as(&session, &prompts("b", 1), Class::P, Durability::Flush);
    stage.send(&session, &prompts("c", 1));
    let fine = stage.send(&other, &prompts("o", 1));
    while stage.args.depth.load(Ordering::SeqCst) < 5 {
        tokio::task::yield_now().await;
    }
    disk.open();
    stage.report().await;
    for number in 2..5 {
        let CommitReport::Failed { batch, error, .. } = stage.report().await else { panic!("batch {number}") };
        assert_eq!(batch, number);
        assert!(error.contains("could not be flushed"), "{error}");
    }
    assert_eq!(stage.report().await, committed(&other, fine, [1]));
    stage.send(&session, &prompts("d", 1));
    assert!(matches!(stage.report().await, CommitReport::Failed { .. }));
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 3, "first, the failed one, other");
    assert_eq!(stage.load(&session).await.unwrap().entries.len(), 3);
}

#[tokio::test]
async fn a_load_comes_after_the_appends_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let session = id("s");
    let all = prompts("a", 20);
    for entry in &all {
        stage.send(&session, std::slice::from_ref(entry));
    }
    let loaded = stage.load(&session).await.unwrap();
    assert_eq!(loaded, Loaded { entries: numbered(1, &all), epoch: 1, damage: vec![] });
    for _ in &all {
        assert!(matches!(stage.report().await, CommitReport::Committed { .. }));
    }
}

#[tokio::test]
async fn messages_of_one_session_keep_their_order_over_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let session = id("s");
    disk.close();
    stage.send(&id("first"), &prompts("f", 1));
    let question = || ractor::concurrency::oneshot::<Result<Loaded, StoreError>>();
    let ((to_1, loaded_1), (to_2, mut loaded_2)) = (question(), question());
    let (to_3, removed) = ractor::concurrency::oneshot::<Result<(), StoreError>>();
    let (to_4, settled) = ractor::concurrency::oneshot::<()>();
    let send = |message| stage.writer.cast(message).unwrap();
    send(WriterMsg::Load { session: session.clone(), reply: to_1.into() });
    let number = stage.send(&session, &prompts("a", 1));
    let send = |message| stage.writer.cast(message).unwrap();
    send(WriterMsg::Remove { session: session.clone(), reply: to_3.into() });
    send(WriterMsg::Load { session: session.clone(), reply: to_2.into() });
    send(WriterMsg::Settle { reply: to_4.into() });
    while stage.args.depth.load(Ordering::SeqCst) < 6 {
        tokio::task::yield_now().await;
    }
    disk.open();
    timeout(PATIENCE, settled).await.unwrap().unwrap();
    let last = loaded_2.try_recv().expect("settled means that all before it is done");
    assert_eq!(last.unwrap().entries, []);
    assert_eq!(loaded_1.await.unwrap().unwrap().entries, []);
    stage.report().await;
    assert_eq!(stage.report().await, committed(&session, number, [1]));
    assert_eq!(removed.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_writer_that_is_stopped_finishes_what_it_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let session = id("s");
    disk.close();
    for n in 0..5 {
        stage.send(&session, &prompts(&format!("b{n}"), 1));
    }
    while stage.args.depth.load(Ordering::SeqCst) < 5 {
        tokio::task::yield_now().await;
    }
    stage.writer.stop(None);
    disk.open();
    for n in 1..=5 {
        assert_eq!(stage.report().await, committed(&session, n, [n]));
    }
    assert!(stage.end().await.starts_with("ended"));
}

#[tokio::test]
async fn sessions_of_durability_none_stay_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    for session in [id("loaded"), id("not-loaded")] {
        if session == id("loaded") {
            assert_eq!(stage.load(&session).await.unwrap().entries, []);
        }
        let all = prompts("a", 2);
        let number = stage.send_as(&session, &all, Class::D, Durability::None);
        assert_eq!(stage.report().await, committed(&session, number, [1, 2]));
        assert_eq!(stage.load(&session).await.unwrap().entries, numbered(1, &all));
        stage.writer.cast(WriterMsg::Rest { session: session.clone() }).unwrap();
        let number = stage.send_as(&session, &prompts("b", 1), Class::D, Durability::None);
        assert_eq!(stage.report().await, committed(&session, number, [3]));
        assert!(stage.args.memory.has(&session));
        stage.ask(|reply| WriterMsg::Remove { session: session.clone(), reply }).await.unwrap();
        assert!(!stage.args.memory.has(&session));
    }
    assert_eq!(disk.writes.load(Ordering::SeqCst), 0);
    assert_eq!(stage.args.store.list().unwrap(), vec![]);
}

#[tokio::test]
async fn f41_a_session_that_rests_is_let_go_of_with_the_next_job_or_after_a_pause() {
    #[derive(Debug, Default)]
    struct Noting(MemoryStore, Mutex<Vec<SessionId>>);
    impl Store for Noting {
        fn promises(&self) -> Promises {
            Promises { strongest: Durability::Flush }
        }
        fn load(&self, session: &SessionId, take: Take) -> Result<Loaded, StoreError> {
            self.0.load(session, take)
        }
        fn append(&self, id: &SessionId, epoch: u64, all: &[Arc<Entry>], sync: Sync) -> Result<Vec<Seq>, StoreError> {
            self.0.append(id, epoch, all, sync)
        }
        fn flush(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError> {
            self.0.flush(session, epoch)
        }
        fn list(&self) -> Result<Vec<playhouse_session::SessionSummary>, StoreError> {
            self.0.list()
        }
        fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
            self.0.remove(session)
        }
        fn rest(&self, session: &SessionId) -> Result<(), StoreError> {
            self.1.lock().unwrap().push(session.clone());
            self.0.rest(session)
        }
        fn release(&self, session: &SessionId) -> Result<(), StoreError> {
            self.0.release(session)
        }
    }
    let store = Arc::new(Noting::default());
    let mut stage = Stage::on(store.clone()).await;
    let rest = |stage: &Stage, name: &str| stage.writer.cast(WriterMsg::Rest { session: id(name) }).unwrap();
    for name in ["a", "b", "c"] {
        stage.send(&id(name), &prompts(name, 1));
        stage.report().await;
    }
    rest(&stage, "a");
    rest(&stage, "b");
    // It goes on after all, so it does not rest.
    stage.send(&id("b"), &prompts("more", 1));
    stage.report().await;
    stage.settle().await;
    assert_eq!(*store.1.lock().unwrap(), [id("a")]);
    rest(&stage, "c");
    let deadline = std::time::Instant::now() + PATIENCE;
    while *store.1.lock().unwrap() != [id("a"), id("c")] {
        assert!(std::time::Instant::now() < deadline, "nobody let go of it");
        tokio::task::yield_now().await;
    }
    let number = stage.send(&id("c"), &prompts("again", 1));
    assert_eq!(stage.report().await, committed(&id("c"), number, [2]));
}

#[tokio::test]
async fn released_sessions_can_be_taken_by_another_process_and_resting_ones_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = stage_on(folder.path(), &TestDisk::with(&[])).await;
    let elsewhere = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    stage.send(&session, &prompts("a", 1));
    stage.report().await;
    stage.writer.cast(WriterMsg::Rest { session: session.clone() }).unwrap();
    stage.settle().await;
    assert!(matches!(elsewhere.load(&session, Take::Own), Err(StoreError::Held { .. })));
    stage.writer.cast(WriterMsg::Release { session: session.clone() }).unwrap();
    stage.settle().await;
    let loaded = elsewhere.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries.len(), loaded.epoch), (1, 2));
    stage.send(&session, &prompts("b", 1));
    let CommitReport::Failed { error, .. } = stage.report().await else { panic!() };
    assert!(error.contains("held by another process"), "{error}");
    elsewhere.append(&session, 2, &[prompt("c", "c")], Sync::Kernel).unwrap();
    elsewhere.release(&session).unwrap();
    let loaded = stage.load(&session).await.unwrap();
    assert_eq!((loaded.entries.len(), loaded.epoch), (2, 3));
    let number = stage.send(&session, &prompts("b", 1));
    assert_eq!(stage.report().await, committed(&session, number, [3]));
    stage.ask(|reply| WriterMsg::Remove { session: session.clone(), reply }).await.unwrap();
    assert!(find(folder.path(), "takeover.lock").exists());
    assert_eq!(stage.args.store.list().unwrap(), vec![]);
}

#[tokio::test]
async fn f21_a_store_that_panics_at_any_call_ends_the_writer_not_the_test() {
    #[derive(Debug)]
    struct Bomb(MemoryStore);
    impl Store for Bomb {
        fn promises(&self) -> Promises {
            Promises { strongest: Durability::Flush }
        }
        fn load(&self, _: &SessionId, _: Take) -> Result<Loaded, StoreError> {
            panic!("bomb in load")
        }
        fn own(&self, session: &SessionId) -> Result<u64, StoreError> {
            self.0.own(session)
        }
        fn append(&self, _: &SessionId, _: u64, _: &[Arc<Entry>], _: Sync) -> Result<Vec<Seq>, StoreError> {
            panic!("bomb in append")
        }
        fn flush(&self, _: &SessionId, _: u64) -> Result<(), StoreError> {
            panic!("bomb in flush")
        }
        fn list(&self) -> Result<Vec<playhouse_session::SessionSummary>, StoreError> {
            self.0.list()
        }
        fn remove(&self, _: &SessionId) -> Result<(), StoreError> {
            panic!("bomb in remove")
        }
        fn rest(&self, _: &SessionId) -> Result<(), StoreError> {
            panic!("bomb in rest")
        }
        fn release(&self, _: &SessionId) -> Result<(), StoreError> {
            panic!("bomb in release")
        }
    }
    let mut stage = Stage::on(Arc::new(Bomb(MemoryStore::default()))).await;
    let session = id("s");
    for call in ["load", "append", "remove", "rest", "release"] {
        let (to, _answer) = ractor::concurrency::oneshot();
        let (to_remove, _answer2) = ractor::concurrency::oneshot();
        match call {
            "load" => stage.writer.cast(WriterMsg::Load { session: session.clone(), reply: to.into() }).unwrap(),
            "append" => drop(stage.send(&session, &prompts("a", 1))),
            "remove" => {
                stage.writer.cast(WriterMsg::Remove { session: session.clone(), reply: to_remove.into() }).unwrap()
            }
            "rest" => stage.writer.cast(WriterMsg::Rest { session: session.clone() }).unwrap(),
            _ => stage.writer.cast(WriterMsg::Release { session: session.clone() }).unwrap(),
        }
        let end = stage.end().await;
        assert!(end.contains(&format!("bomb in {call}")), "{end}");
        stage.restart().await;
    }
    stage.settle().await;
}

#[test]
fn shards_are_stable_and_spread() {
    let mut counts = [0usize; 4];
    for n in 0..400 {
        counts[shard(&id(&format!("session-{n}")), 4)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    assert_eq!(shard(&id("s"), 0), 0);
    assert_eq!(shard(&id("playhouse"), 256), 87, "CRC-32 of the id");
}

/// How fast it is here: `cargo test -p playhouse-session --test writer -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "a measurement"]
async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let mut stage = stage_on(folder.path(), &disk).await;
    let sessions: Vec<_> = (0..64).map(|n| id(&format!("s{n}"))).collect();
    for durability in [Durability::Flush, Durability::Os] {
        let (began, flushes) = (std::time::Instant::now(), disk.flushes.load(Ordering::SeqCst));
        for round in 0..50 {
            for session in &sessions {
                stage.send_as(session, &prompts(&format!("{durability:?}{round}"), 1), Class::D, durability);
            }
        }
        for _ in 0..3_200 {
            assert!(matches!(stage.report().await, CommitReport::Committed { .. }));
        }
        let flushes = disk.flushes.load(Ordering::SeqCst) - flushes;
        println!("{durability:?}: 3200 batches of 64 sessions in {:?}, {flushes} flushes", began.elapsed());
        let began = std::time::Instant::now();
        for n in 0..100 {
            stage.send_as(&sessions[0], &prompts(&format!("{durability:?}one{n}"), 1), Class::D, durability);
            stage.report().await;
        }
        println!("{durability:?}: one batch after the other: {:?} each", began.elapsed() / 100);
    }
    stage.send(&id("long"), &prompts("l", 20_000));
    stage.report().await;
    let began = std::time::Instant::now();
    assert_eq!(stage.load(&id("long")).await.unwrap().entries.len(), 20_000);
    println!("20000 entries read in {:?}", began.elapsed());
}
