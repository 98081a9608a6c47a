//! Work on many things at once whose results are taken in the order of the things.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use playhouse_protocol::lock;

/// How far the fastest thread may be ahead of the slowest: what is found meanwhile waits in memory.
const AHEAD: usize = 16;
/// More threads than this find nothing faster: it is the disk that is searched.
const MOST_THREADS: usize = 8;

/// Whether more results are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Wanted,
    Enough,
}

/// Works on all items, on as many threads as there are processors, and gives what came of them to `take` in their
/// order, until it has enough. The items are made here, each worker on a thread of its own; a panic of any of them is
/// this function's.
pub(crate) fn parallel<T: Send, R: Send, W: FnMut(T) -> R>(
    items: impl Iterator<Item = T>,
    worker: impl Fn() -> W + Sync,
    take: impl FnMut(R) -> More + Send,
) {
    let table = Table { state: Mutex::new(State::new(take)), changed: Condvar::new() };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(MOST_THREADS));
    thread::scope(|scope| {
        let closes = Closes(&table);
        for _ in 0..threads {
            scope.spawn(|| {
                let _ends = Ends(&table);
                let mut work = worker();
                while let Some((number, item)) = table.next() {
                    table.done(number, work(item));
                }
            });
        }
        for item in items {
            if table.put(item) == More::Enough {
                break;
            }
        }
        drop(closes);
    });
}

struct Table<T, R, F> {
    state: Mutex<State<T, R, F>>,
    changed: Condvar,
}

struct State<T, R, F> {
    items: VecDeque<(usize, T)>,
    put: usize,
    results: BTreeMap<usize, R>,
    taken: usize,
    take: F,
    /// No more items come.
    closed: bool,
    /// No more results are wanted.
    ended: bool,
}

impl<T, R, F: FnMut(R) -> More> State<T, R, F> {
    fn new(take: F) -> Self {
        let (items, results) = (VecDeque::new(), BTreeMap::new());
        Self { items, put: 0, results, taken: 0, take, closed: false, ended: false }
    }
}

impl<T, R, F: FnMut(R) -> More> Table<T, R, F> {
    /// A result that panicked in `take` ends everything, so what it left is looked at by nobody.
    fn lock(&self) -> MutexGuard<'_, State<T, R, F>> {
        lock(&self.state)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T, R, F>>) -> MutexGuard<'a, State<T, R, F>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, item: T) -> More {
        let mut state = self.lock();
        while state.put - state.taken >= AHEAD && !state.ended {
            state = self.wait(state);
        }
        let number = state.put;
        state.items.push_back((number, item));
        state.put += 1;
        self.changed.notify_all();
        if state.ended { More::Enough } else { More::Wanted }
    }

    fn next(&self) -> Option<(usize, T)> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state = self.wait(state);
        }
    }

    fn done(&self, number: usize, result: R) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.results.insert(number, result);
        while !state.ended
            && let Some(result) = state.results.remove(&state.taken)
        {
            state.taken += 1;
            state.ended = (state.take)(result) == More::Enough;
        }
        self.changed.notify_all();
    }
}

/// No more items come, also if making the next one panicked.
struct Closes<'a, T, R, F: FnMut(R) -> More>(&'a Table<T, R, F>);

impl<T, R, F: FnMut(R) -> More> Drop for Closes<'_, T, R, F> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

/// A worker that panics ends the others, who would wait for its result.
struct Ends<'a, T, R, F: FnMut(R) -> More>(&'a Table<T, R, F>);

impl<T, R, F: FnMut(R) -> More> Drop for Ends<'_, T, R, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().ended = true;
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_order_whoever_is_first_and_no_more_than_are_wanted() {
        let made = AtomicUsize::new(0);
        let mut taken = Vec::new();
        let items = (0..100_000_usize).inspect(|_| {
            made.fetch_add(1, Ordering::Relaxed);
        });
        let slow = |item: usize| {
            // Every seventh is late.
            (0..if item.is_multiple_of(7) { 2_000 } else { 1 }).for_each(|_| thread::yield_now());
            item
        };
        parallel(
            items,
            || slow,
            |item| {
                taken.push(item);
                if taken.len() == 500 { More::Enough } else { More::Wanted }
            },
        );
        assert_eq!(taken, (0..500).collect::<Vec<_>>());
        assert!(made.load(Ordering::Relaxed) <= 500 + AHEAD + 1, "nobody goes on for nothing");
    }

    #[test]
    fn all_are_done_when_all_are_wanted_and_nothing_is_nothing() {
        let mut sum = 0;
        parallel(
            1..=1_000_u64,
            || |item| item,
            |item| {
                sum += item;
                More::Wanted
            },
        );
        parallel(std::iter::empty::<u64>(), || |item| item, |_| More::Enough);
        assert_eq!(sum, 500_500);
    }

    #[test]
    fn a_panic_of_a_worker_ends_it() {
        let work = || {
            parallel(0..10_000, || |item| assert!(item != 300, "three hundred"), |()| More::Wanted);
        };
        assert!(std::panic::catch_unwind(work).is_err());
    }
}
