//! Threads for work that blocks, apart from those of the runtime.
//!
//! The runtime's blocking pool is everybody's: users' callbacks and tools may fill it with work that never ends. What a
//! house cannot do without (journals, above all) has threads of its own, which only its own work can hold up.
//!
//! A clock that is paused, as tests do, runs ahead when the runtime has nothing to do; it waits for the runtime's blocking
//! work, and knows of no other. So on a runtime of one thread, the only kind whose clock can be paused, one blocking task
//! stands for the work here. If the pool is full it waits in line there, and nobody waits for it.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// A few threads, started when there is work for them. They end when the last clone is gone and everything is done.
///
/// The queue is bounded by its users: each of them waits for an answer before it has more work.
#[derive(Clone, Debug)]
pub struct Threads {
    shared: Arc<Shared>,
    _end: Arc<End>,
}

#[derive(Debug)]
struct Shared {
    name: &'static str,
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// There is no work.
    quiet: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    threads: usize,
    /// Those that wait for work.
    idle: usize,
    /// Those that work.
    busy: usize,
    /// Whether a blocking task of the runtime stands for the work.
    stand_in: bool,
    ended: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("queue", &self.queue.len()).field("threads", &self.threads).finish()
    }
}

/// Lets the threads end.
#[derive(Debug)]
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// Why work on another thread has no result.
#[derive(Debug, thiserror::Error)]
pub enum NoResult {
    /// No thread could be started.
    #[error("no thread could be started: {0}; the machine may have too many, or too little memory")]
    NoThread(#[from] io::Error),
    /// It panicked.
    #[error("it panicked: {0}")]
    Panicked(String),
}

impl Threads {
    /// At most this many threads, at least one, with this name.
    pub fn new(name: &'static str, most: usize) -> Self {
        let shared = Arc::new(Shared {
            name,
            most: most.max(1),
            state: Mutex::default(),
            changed: Condvar::new(),
            quiet: Condvar::new(),
        });
        Self { _end: Arc::new(End(shared.clone())), shared }
    }

    /// Has work done when a thread is free; in order, if there is one thread. A panic ends the work, not the thread.
    pub fn start(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.shared.lock();
        if state.idle <= state.queue.len() && state.threads < self.shared.most {
            let shared = self.shared.clone();
            match std::thread::Builder::new().name(self.shared.name.to_owned()).spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                // The others will come to it.
                Err(_) if state.threads > 0 => {}
                Err(error) => return Err(error),
            }
        }
        state.queue.push_back(Box::new(work));
        if !state.stand_in
            && let Ok(runtime) = Handle::try_current()
            && runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
        {
            state.stand_in = true;
            let shared = self.shared.clone();
            runtime.spawn_blocking(move || shared.stand_in());
        }
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
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
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(work) = self.next() {
            // Whoever needs to know of a panic catches it.
            let _ = catch_unwind(AssertUnwindSafe(work));
            let mut state = self.lock();
            state.busy -= 1;
            if state.busy == 0 && state.queue.is_empty() {
                self.quiet.notify_all();
            }
        }
    }

    /// Lasts until there is no work.
    fn stand_in(&self) {
        let mut state = self.lock();
        while state.busy > 0 || !state.queue.is_empty() {
            state = self.quiet.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.stand_in = false;
    }

    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.queue.pop_front() {
                state.busy += 1;
                return Some(work);
            }
            if state.ended {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
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
        assert_eq!(threads.shared.lock().threads, 1);
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
        assert_eq!(threads.shared.lock().threads, 3);
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
