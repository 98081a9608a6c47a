//! Threads for work that blocks: a bounded number of them, for one kind of work alone.
//!
//! Whoever finds all of them taken waits in line as a task. A thread is started when there is work for it and ends when
//! there was none for [`IDLE`]. Work that never ends keeps its thread and no more than that: nobody waits for it when a
//! runtime or the process ends.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How long a thread without work stays.
pub const IDLE: Duration = Duration::from_secs(5);
/// How long after the machine refused a thread it is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// A bounded number of threads; clones share them.
#[derive(Clone)]
pub struct Threads(Arc<Shared>);

struct Shared {
    /// What the threads are called; the kernel shows fifteen bytes of it.
    name: &'static str,
    most: usize,
    /// One for each thread: whoever has one is sure of a thread.
    permits: Arc<Semaphore>,
    desk: Mutex<Desk>,
    came: Condvar,
}

/// Work that has its permit and waits for a thread to take it: never more than there are permits.
#[derive(Default)]
struct Desk {
    work: VecDeque<Work>,
    /// How many threads there are, and how many of them wait for work.
    threads: usize,
    idle: usize,
}

type Work = Box<dyn FnOnce() + Send>;

impl Threads {
    /// At most `most` threads of this name, none of them started yet.
    pub fn new(name: &'static str, most: usize) -> Self {
        let permits = Arc::new(Semaphore::new(most));
        Self(Arc::new(Shared { name, most, permits, desk: Mutex::default(), came: Condvar::new() }))
    }

    /// How many there can be.
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Waits in line for a thread. Dropped while it waits, it leaves the line.
    pub async fn permit(&self) -> ThreadPermit {
        // The semaphore is never closed, so there is always a permit in the end.
        let permit = self.0.permits.clone().acquire_owned().await.ok();
        ThreadPermit { shared: self.0.clone(), permit }
    }
}

/// A thread that is kept for whoever holds this.
pub struct ThreadPermit {
    shared: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ThreadPermit {
    /// Does the work on the thread, within the caller's runtime; an error is what it panicked with. Work that has begun
    /// goes on to its end and keeps its thread until then, even if nobody waits for it any more.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> std::thread::Result<T> {
        let Self { shared, permit } = self;
        let (done, mut result) = oneshot::channel();
        let runtime = tokio::runtime::Handle::try_current().ok();
        shared.desk().work.push_back(Box::new(move || {
            if done.is_closed() {
                return;
            }
            let entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
            let ended = catch_unwind(AssertUnwindSafe(work));
            drop((entered, permit));
            let _ = done.send(ended);
        }));
        while let Err(error) = shared.call_a_thread() {
            tracing::warn!("no thread `{}` could be started, trying again: {error}", shared.name);
            tokio::select! {
                ended = &mut result => return ended.unwrap_or_else(|lost| Err(Box::new(lost.to_string()))),
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
        // The sender says how the work ended before it goes.
        result.await.unwrap_or_else(|lost| Err(Box::new(lost.to_string())))
    }
}

impl Shared {
    /// Sees to it that a thread takes what lies on the desk.
    fn call_a_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let mut desk = self.desk();
        // When all threads exist, one of them has just given its permit back and comes for the next work.
        if desk.idle >= desk.work.len() || desk.threads == self.most {
            self.came.notify_one();
            return Ok(());
        }
        let shared = self.clone();
        std::thread::Builder::new().name(self.name.to_owned()).spawn(move || shared.serve())?;
        desk.threads += 1;
        Ok(())
    }

    /// The life of a thread.
    fn serve(&self) {
        let mut desk = self.desk();
        loop {
            if let Some(work) = desk.work.pop_front() {
                drop(desk);
                // What is left of a panic here is that of dropping a result which nobody took.
                let _ = catch_unwind(AssertUnwindSafe(work));
                desk = self.desk();
                continue;
            }
            desk.idle += 1;
            let waited = self.came.wait_timeout_while(desk, IDLE, |desk| desk.work.is_empty());
            (desk, _) = waited.unwrap_or_else(PoisonError::into_inner);
            desk.idle -= 1;
            if desk.work.is_empty() {
                desk.threads -= 1;
                return;
            }
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, threads) = (self.0.most, self.0.desk().threads);
        f.debug_struct("Threads").field("name", &self.0.name).field("most", &most).field("threads", &threads).finish()
    }
}

impl fmt::Debug for ThreadPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPermit").field("of", &self.shared.name).finish_non_exhaustive()
    }
}
