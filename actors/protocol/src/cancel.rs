//! Cancellation and flow control without a runtime.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

use crate::lock::lock;

/// A linked cancellation signal: cancelling one cancels all its children, never its parent.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    cancelled: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: Vec<(u64, Waker)>,
    children: Vec<Weak<Inner>>,
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    fn cancel(&self) {
        let (wakers, children) = {
            let mut waiting = self.waiting();
            self.cancelled.store(true, Ordering::SeqCst);
            (std::mem::take(&mut waiting.wakers), std::mem::take(&mut waiting.children))
        };
        for (_, waker) in wakers {
            waker.wake();
        }
        for child in children.iter().filter_map(Weak::upgrade) {
            child.cancel();
        }
    }
}

impl Cancel {
    /// A signal of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// A signal that is cancelled with this one, and can be cancelled alone.
    pub fn child(&self) -> Self {
        let child = Self::new();
        let mut waiting = self.0.waiting();
        if self.is_cancelled() {
            child.0.cancelled.store(true, Ordering::SeqCst);
        } else {
            waiting.children.retain(|c| c.strong_count() > 0);
            waiting.children.push(Arc::downgrade(&child.0));
        }
        child
    }

    /// Cancels this signal and everything below it.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Resolves when it is cancelled.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { of: self.0.clone(), key: None }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// What [`Cancel::cancelled`] gives: ready once the signal is cancelled.
pub struct Cancelled {
    of: Arc<Inner>,
    key: Option<u64>,
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").finish_non_exhaustive()
    }
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let of = self.of.clone();
        let mut waiting = of.waiting();
        if of.cancelled.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        let key = *self.key.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        match waiting.wakers.iter_mut().find(|(k, _)| *k == key) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => waiting.wakers.push((key, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.of.waiting().wakers.retain(|(k, _)| *k != key);
        }
    }
}

/// A place in a bounded stream, given back when it is dropped: by the handler that took the message,
/// or by the mailbox that lost it.
pub struct Credit(Option<Box<dyn FnOnce() + Send>>);

impl Credit {
    /// A credit that runs `give_back` once, when dropped.
    pub fn new(give_back: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(give_back)))
    }

    /// A credit nobody waits for.
    pub fn free() -> Self {
        Self(None)
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if let Some(give_back) = self.0.take() {
            give_back();
        }
    }
}

impl fmt::Debug for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn cancelling_reaches_children_and_not_the_parent() {
        let parent = Cancel::new();
        let child = parent.child();
        let grandchild = child.child();
        child.cancel();
        assert!(grandchild.is_cancelled() && !parent.is_cancelled());
        assert!(child.child().is_cancelled(), "a child of a cancelled signal is born cancelled");
        parent.cancel();
        assert!(parent.child().is_cancelled());
    }

    #[test]
    fn waiters_are_woken_and_leave_nothing_behind() {
        let cancel = Cancel::new();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        let mut waits: Vec<_> = (0..3).map(|_| cancel.cancelled()).collect();
        for wait in &mut waits {
            assert!(Pin::new(&mut *wait).poll(&mut cx).is_pending());
            assert!(Pin::new(&mut *wait).poll(&mut cx).is_pending());
        }
        waits.pop();
        assert_eq!(cancel.0.waiting().wakers.len(), 2);
        cancel.cancel();
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert!(Pin::new(&mut waits[0]).poll(&mut cx).is_ready());
    }

    #[test]
    fn dead_children_are_forgotten() {
        let parent = Cancel::new();
        for _ in 0..1_000 {
            drop(parent.child());
        }
        assert!(parent.0.waiting().children.len() <= 1);
    }

    #[test]
    fn a_credit_comes_back_once() {
        let count = Arc::new(AtomicUsize::new(0));
        let seen = count.clone();
        drop(Credit::new(move || {
            seen.fetch_add(1, Ordering::SeqCst);
        }));
        drop(Credit::free());
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
