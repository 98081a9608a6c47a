//! Loads of the Writer: what takes long holds up its own session and nobody else, and no thread of the runtime is used.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use common::stage::{Stage, committed};
use common::{PATIENCE, id, numbered, prompt, prompts};
use playhouse_protocol::{CommitReport, Durability, Entry, Seq, SessionId};
use playhouse_session::{FileStore, Loaded, Promises, SessionSummary, Store, StoreError, Sync, Take, WriterMsg};
use tokio::time::timeout;

/// Files whose loads of sessions called `slow…` wait at a gate, and appends to those called `late…`.
#[derive(Debug)]
struct Slow {
    files: FileStore,
    open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicUsize,
    most: AtomicUsize,
}

impl Slow {
    fn on(folder: &std::path::Path) -> Arc<Self> {
        Arc::new(Self {
            files: FileStore::open(folder).unwrap(),
            open: Mutex::new(false),
            opened: Condvar::new(),
            waiting: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(waiting, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
        drop(open);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    async fn await_loads(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.waiting.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < deadline, "fewer than {count} loads came");
            tokio::task::yield_now().await;
        }
    }
}

impl Store for Slow {
    fn promises(&self) -> Promises {
        Promises { strongest: Durability::Flush }
    }
    fn load(&self, session: &SessionId, take: Take) -> Result<Loaded, StoreError> {
        if session.as_str().starts_with("slow") {
            self.pass();
        }
        self.files.load(session, take)
    }

    fn own(&self, session: &SessionId) -> Result<u64, StoreError> {
        self.files.own(session)
    }

    fn append(
        &self,
        session: &SessionId,
        epoch: u64,
        entries: &[Arc<Entry>],
        sync: Sync,
    ) -> Result<Vec<Seq>, StoreError> {
        if session.as_str().starts_with("late") {
            self.pass();
        }
        self.files.append(session, epoch, entries, sync)
    }

    fn flush(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError> {
        self.files.flush(session, epoch)
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.files.list()
    }

    fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        self.files.remove(session)
    }

    fn rest(&self, session: &SessionId) -> Result<(), StoreError> {
        self.files.rest(session)
    }

    fn release(&self, session: &SessionId) -> Result<(), StoreError> {
        self.files.release(session)
    }
}

type Answer<T> = ractor::concurrency::OneshotReceiver<T>;

fn ask_load(stage: &Stage, session: &SessionId) -> Answer<Result<Loaded, StoreError>> {
    let (to, answer) = ractor::concurrency::oneshot();
    stage.writer.cast(WriterMsg::Load { session: session.clone(), reply: to.into() }).unwrap();
    answer
}

#[tokio::test]
async fn a_load_that_takes_long_holds_up_its_own_session_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Slow::on(folder.path());
    let mut stage = Stage::on(store.clone()).await;
    let (slow, other) = (id("slow"), id("other"));
    let all = prompts("s", 2);
    let first = stage.send(&slow, &all[..1]);
    assert_eq!(stage.report().await, committed(&slow, first, [1]));
    let loaded = ask_load(&stage, &slow);
    store.await_loads(1).await;
    // What follows for this session waits for the load, in order; everyone else goes on.
    let after = stage.send(&slow, &all[1..]);
    let again = ask_load(&stage, &slow);
    for n in 0..3 {
        let batch = stage.send(&other, &[prompt(&format!("o/{n}"), "o")]);
        assert_eq!(stage.report().await, committed(&other, batch, [n + 1]));
        assert_eq!(stage.load(&other).await.unwrap().entries.len(), n as usize + 1);
    }
    let (to, mut settled) = ractor::concurrency::oneshot::<()>();
    stage.writer.cast(WriterMsg::Settle { reply: to.into() }).unwrap();
    let batch = stage.send(&other, &[prompt("o/last", "o")]);
    assert_eq!(stage.report().await, committed(&other, batch, [4]));
    assert!(settled.try_recv().is_err(), "what came before it is not done");
    store.open();
    assert_eq!(timeout(PATIENCE, loaded).await.unwrap().unwrap().unwrap().entries, numbered(1, &all[..1]));
    assert_eq!(stage.report().await, committed(&slow, after, [2]));
    assert_eq!(timeout(PATIENCE, again).await.unwrap().unwrap().unwrap().entries, numbered(1, &all));
    timeout(PATIENCE, settled).await.unwrap().unwrap();
    assert_eq!(stage.args.depth.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn loads_at_once_are_bounded_and_nobody_else_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Slow::on(folder.path());
    let mut stage = Stage::on(store.clone()).await;
    let loads: Vec<_> = (0..20).map(|n| ask_load(&stage, &id(&format!("slow-{n}")))).collect();
    store.await_loads(4).await;
    let other = id("other");
    let batch = stage.send(&other, &prompts("o", 1));
    assert_eq!(stage.report().await, committed(&other, batch, [1]));
    store.open();
    for load in loads {
        assert_eq!(timeout(PATIENCE, load).await.unwrap().unwrap().unwrap().entries, []);
    }
    assert_eq!(store.most.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn f24_a_load_that_outlives_its_writer_tells_nobody_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Slow::on(folder.path());
    let mut stage = Stage::on(store.clone()).await;
    let slow = id("slow");
    let all = prompts("s", 3);
    stage.send(&slow, &all[..1]);
    stage.report().await;
    let lost = ask_load(&stage, &slow);
    store.await_loads(1).await;
    stage.send(&slow, &all[1..2]);
    stage.writer.kill();
    stage.end().await;
    stage.restart().await;
    // The successor does not overtake it for this session, which it would take again after it was released.
    let batch = stage.send(&slow, &all[1..]);
    stage.writer.cast(WriterMsg::Release { session: slow.clone() }).unwrap();
    let other = stage.send(&id("other"), &prompts("o", 1));
    assert_eq!(stage.report().await, committed(&id("other"), other, [1]));
    store.open();
    assert!(timeout(PATIENCE, lost).await.unwrap().is_err(), "whoever asked must ask the successor");
    assert_eq!(stage.report().await, committed(&slow, batch, [2, 3]));
    stage.settle().await;
    assert_eq!(store.files.holder(&slow).unwrap(), None);
    assert_eq!(stage.load(&slow).await.unwrap().entries, numbered(1, &all));
}

#[tokio::test]
async fn f24_a_load_reads_the_last_append_of_a_writer_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Slow::on(folder.path());
    let mut stage = Stage::on(store.clone()).await;
    let late = id("late");
    let all = prompts("l", 1);
    stage.send(&late, &all);
    store.await_loads(1).await;
    stage.writer.kill();
    stage.end().await;
    stage.restart().await;
    let mut loaded = ask_load(&stage, &late);
    let early = timeout(std::time::Duration::from_millis(200), &mut loaded).await;
    assert!(early.is_err(), "read before the append was over: {early:?}");
    store.open();
    assert_eq!(timeout(PATIENCE, loaded).await.unwrap().unwrap().unwrap().entries, numbered(1, &all));
}

#[tokio::test]
async fn a_writer_that_is_stopped_finishes_its_loads() {
    let folder = tempfile::tempdir().unwrap();
    let store = Slow::on(folder.path());
    let mut stage = Stage::on(store.clone()).await;
    let slow = id("slow");
    let loaded = ask_load(&stage, &slow);
    store.await_loads(1).await;
    stage.send(&slow, &prompts("s", 1));
    while stage.args.depth.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    stage.writer.stop(None);
    store.open();
    assert_eq!(timeout(PATIENCE, loaded).await.unwrap().unwrap().unwrap().entries, []);
    assert_eq!(stage.report().await, committed(&slow, 1, [1]));
    assert!(stage.end().await.starts_with("ended"));
}

#[test]
fn f58_writers_need_none_of_the_runtimes_blocking_threads() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || blocked.recv());
    runtime.block_on(async {
        let mut stage = Stage::on(Arc::new(FileStore::open(folder.path()).unwrap())).await;
        let session = id("s");
        let batch = stage.send(&session, &prompts("s", 1));
        assert!(matches!(stage.report().await, CommitReport::Committed { batch: of, .. } if of == batch));
        assert_eq!(stage.load(&session).await.unwrap().entries.len(), 1);
    });
    drop(release);
}
