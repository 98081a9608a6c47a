//! Threads for work that blocks, apart from those of the runtime: a bounded number of them, for one kind of work alone.
//!
//! The runtime's blocking pool is everybody's: users' callbacks and tools may fill it with work that never ends. What a
//! house cannot do without (journals, above all) has threads that only its own work can hold up, and users' code has
//! threads that only users' code waits for. A thread is started when there is work for it and ends when there was none for
//! [`IDLE`], or when the last clone is gone. Work that never ends keeps its thread and no more than that: nobody waits for
//! it when a runtime or the process ends.
//!
//! A clock that is paused, as tests do, runs ahead when the runtime has nothing to do; it waits for the runtime's blocking
//! work, and knows of no other. So on a runtime of one thread, the only kind whose clock can be paused, one blocking task
//! stands for what waits for an answer here. If the pool is full it waits in line there, and nobody waits for it.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use playhouse_protocol::lock;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(5);
/// How long after the machine refused a thread it is asked again.
const AGAIN: Duration = Duration::from_millis(200);

type Work = Box<dyn FnOnce() + Send>;

/// A bounded number of threads; clones share them.
///
/// Work is either put in line with [`Threads::start`] and [`Threads::run`], by users who each wait for an answer before
/// they have more; or it waits as a task for a [`ThreadPermit`], for work that may never end.
#[derive(Clone)]
pub struct Threads {
    shared: Arc<Shared>,
    _end: Arc<End>,
}

struct Shared {
    /// What the threads are called; the kernel shows fifteen bytes of it.
    name: &'static str,
    most: usize,
    /// One for each thread: whoever has one is sure of a thread.
    permits: Arc<Semaphore>,
    desk: Mutex<Desk>,
    came: Condvar,
    /// There is no work.
    quiet: Condvar,
}

/// Work that waits for a thread.
#[derive(Default)]
struct Desk {
    work: VecDeque<Work>,
    /// How many threads there are, and how many of them wait for work.
    threads: usize,
    idle: usize,
    /// Whether a blocking task of the runtime stands for the work.
    stand_in: bool,
    ended: bool,
}

impl Desk {
    fn is_quiet(&self) -> bool {
        self.work.is_empty() && self.idle == self.threads
    }
}

/// Lets the threads end.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.desk().ended = true;
        self.0.came.notify_all();
    }
}

/// Why work on another thread has no result.
#[derive(Debug, thiserror::Error)]
pub enum NoResult {
    /// No thread could be started.
    #[error("no thread could be started: {0}; the machine may have too many, or too little memory")]
    NoThread(#[from] io::Error),
    /// The work panicked; its words are here.
    #[error("it panicked: {0}")]
    Panicked(String),
}

impl Threads {
    /// At most this many threads, at least one, with this name; none of them is started yet.
    pub fn new(name: &'static str, most: usize) -> Self {
        let most = most.max(1);
        let permits = Arc::new(Semaphore::new(most));
        let shared = Arc::new(Shared {
            name,
            most,
            permits,
            desk: Mutex::default(),
            came: Condvar::new(),
            quiet: Condvar::new(),
        });
        Self { _end: Arc::new(End(shared.clone())), shared }
    }

    /// How many there can be.
    pub fn most(&self) -> usize {
        self.shared.most
    }

    /// Has work done when a thread is free; in order, if there is one thread. A panic ends the work, not the thread.
    pub fn start(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut desk = self.shared.desk();
        desk.work.push_back(Box::new(work));
        if !desk.stand_in
            && let Ok(runtime) = Handle::try_current()
            && runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
        {
            desk.stand_in = true;
            let shared = self.shared.clone();
            runtime.spawn_blocking(move || shared.stand_in());
        }
        self.shared.call_a_thread(&mut desk).inspect_err(|_| {
            // Nobody could add more meanwhile: this is the work that no thread comes to.
            desk.work.pop_back();
            self.shared.quiet.notify_all();
        })
    }

    /// As [`Threads::start`], and gives the result.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, NoResult> {
        let (to, result) = oneshot::channel();
        self.start(move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            // Whoever asked may be gone.
            let _ = to.send(done.map_err(|panic| NoResult::Panicked(panic_text(panic.as_ref()))));
        })?;
        result.await.unwrap_or_else(|_| Err(NoResult::Panicked("no message".to_owned())))
    }

    /// Waits in line for a thread. Dropped while it waits, it leaves the line.
    pub async fn permit(&self) -> ThreadPermit {
        // The semaphore is never closed, so there is always a permit in the end.
        let permit = self.shared.permits.clone().acquire_owned().await.ok();
        ThreadPermit { threads: self.clone(), permit }
    }
}

/// A thread that is kept for whoever holds this.
pub struct ThreadPermit {
    threads: Threads,
    permit: Option<OwnedSemaphorePermit>,
}

impl ThreadPermit {
    /// Does the work on the thread, within the caller's runtime; an error is what it panicked with. Work that has begun
    /// goes on to its end and keeps its thread until then, even if nobody waits for it any more.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> std::thread::Result<T> {
        let Self { threads, permit } = self;
        let (done, mut result) = oneshot::channel();
        let runtime = Handle::try_current().ok();
        let shared = &threads.shared;
        shared.desk().work.push_back(Box::new(move || {
            if done.is_closed() {
                return;
            }
            let entered = runtime.as_ref().map(Handle::enter);
            let ended = catch_unwind(AssertUnwindSafe(work));
            drop((entered, permit));
            let _ = done.send(ended);
        }));
        let call = || shared.call_a_thread(&mut shared.desk());
        while let Err(error) = call() {
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
    /// Sees to it that a thread takes what lies on the desk. An error if there is none and none can be started.
    fn call_a_thread(self: &Arc<Self>, desk: &mut Desk) -> io::Result<()> {
        if desk.idle >= desk.work.len() || desk.threads == self.most {
            self.came.notify_one();
            return Ok(());
        }
        let shared = self.clone();
        match std::thread::Builder::new().name(self.name.to_owned()).spawn(move || shared.serve()) {
            Ok(_) => desk.threads += 1,
            // The others will come to it.
            Err(_) if desk.threads > 0 => self.came.notify_one(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The life of a thread.
    fn serve(&self) {
        let mut desk = self.desk();
        loop {
            if let Some(work) = desk.work.pop_front() {
                drop(desk);
                // Whoever needs to know of a panic catches it.
                let _ = catch_unwind(AssertUnwindSafe(work));
                desk = self.desk();
                continue;
            }
            desk.idle += 1;
            if desk.is_quiet() {
                self.quiet.notify_all();
            }
            let waited = self.came.wait_timeout_while(desk, IDLE, |desk| desk.work.is_empty() && !desk.ended);
            (desk, _) = waited.unwrap_or_else(PoisonError::into_inner);
            desk.idle -= 1;
            if desk.work.is_empty() {
                desk.threads -= 1;
                return;
            }
        }
    }

    /// Lasts until there is no work.
    fn stand_in(&self) {
        let mut desk = self.desk();
        while !desk.is_quiet() {
            desk = self.quiet.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        desk.stand_in = false;
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        lock(&self.desk)
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, threads) = (self.shared.most, self.shared.desk().threads);
        let name = self.shared.name;
        f.debug_struct("Threads").field("name", &name).field("most", &most).field("threads", &threads).finish()
    }
}

impl fmt::Debug for ThreadPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPermit").field("of", &self.threads.shared.name).finish_non_exhaustive()
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn one_thread_keeps_the_order_and_survives_a_panic() {
        let threads = Threads::new("one", 1);
        let (to, done) = mpsc::channel();
        for n in 0..100 {
            let to = to.clone();
            threads
                .start(move || {
                    to.send(n).unwrap();
                    assert!(n != 50, "a panic on purpose");
                })
                .unwrap();
        }
        let all: Vec<_> = (0..100).map(|_| done.recv_timeout(PATIENCE).unwrap()).collect();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert_eq!(threads.shared.desk().threads, 1);
    }

    #[test]
    fn there_are_never_more_threads_than_allowed_and_they_end_when_all_is_done() {
        let threads = Threads::new("few", 3);
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (to, done) = mpsc::channel();
        for _ in 0..10 {
            let (gate, to) = (gate.clone(), to.clone());
            threads
                .start(move || {
                    let _ = gate.lock().unwrap().recv();
                    to.send(()).unwrap();
                })
                .unwrap();
        }
        let shared = Arc::downgrade(&threads.shared);
        assert_eq!(threads.shared.desk().threads, 3);
        drop(threads);
        drop(open);
        for _ in 0..10 {
            done.recv_timeout(PATIENCE).expect("what was started is done");
        }
        let deadline = std::time::Instant::now() + PATIENCE;
        while shared.upgrade().is_some() {
            assert!(std::time::Instant::now() < deadline, "a thread stays");
            std::thread::yield_now();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_waits_for_the_work() {
        let threads = Threads::new("one", 1);
        for _ in 0..3 {
            let slow = threads.run(|| std::thread::sleep(Duration::from_millis(50)));
            tokio::time::timeout(PATIENCE, slow).await.expect("the clock ran ahead").unwrap();
        }
    }

    #[tokio::test]
    async fn a_result_comes_back_and_so_does_a_panic() {
        let threads = Threads::new("one", 1);
        assert_eq!(threads.run(|| 7).await.unwrap(), 7);
        let panicked = threads.run(|| panic!("on purpose")).await;
        assert_eq!(panicked.map(|()| 0).unwrap_err().to_string(), "it panicked: on purpose");
        assert_eq!(threads.run(|| 8).await.unwrap(), 8);
    }
}
