//! Threads for work that blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use playhouse_supervision::Threads;

async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("in time")
}

#[tokio::test]
async fn work_runs_within_the_runtime_and_its_panic_is_its_error() {
    let threads = Threads::new("test-threads", 2);
    let answer = soon(threads.permit()).await.run(|| tokio::runtime::Handle::current().block_on(async { 7 }));
    assert_eq!(soon(answer).await.unwrap(), 7);
    let panicked = soon(threads.permit()).await.run(|| std::panic::resume_unwind(Box::new("its own fault")));
    let words: std::thread::Result<()> = soon(panicked).await;
    assert_eq!(words.unwrap_err().downcast_ref::<&str>(), Some(&"its own fault"));
    // The thread that it was on is none the worse.
    assert_eq!(soon(soon(threads.permit()).await.run(|| 8)).await.unwrap(), 8);
}

#[tokio::test]
async fn who_leaves_the_line_is_not_served_and_a_thread_that_comes_back_is_the_next_ones() {
    let threads = Threads::new("test-threads", 1);
    let (ends, may_end) = mpsc::channel::<()>();
    let (begins, has_begun) = tokio::sync::oneshot::channel();
    let held = tokio::spawn(soon(threads.permit()).await.run(move || {
        let _ = begins.send(());
        may_end.recv()
    }));
    soon(has_begun).await.unwrap();
    let served = Arc::new(AtomicBool::new(false));
    let leaves = tokio::spawn({
        let (threads, served) = (threads.clone(), served.clone());
        async move { threads.permit().await.run(move || served.store(true, Ordering::SeqCst)).await }
    });
    tokio::task::yield_now().await;
    leaves.abort();
    assert!(soon(leaves).await.unwrap_err().is_cancelled());
    // Nobody waits for what runs, and it has its thread none the less.
    held.abort();
    let next = tokio::spawn({
        let threads = threads.clone();
        async move { threads.permit().await.run(|| "next").await.unwrap() }
    });
    tokio::task::yield_now().await;
    assert!(!next.is_finished());
    drop(ends);
    assert_eq!(soon(next).await.unwrap(), "next");
    assert!(!served.load(Ordering::SeqCst));
}
