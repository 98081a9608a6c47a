//! Admission: a bound on what may wait for an actor.
//!
//! Mailboxes are unbounded, so the bound is a permit that rides in the message. It is freed when the message is
//! dropped: by the handler that took it, or by the mailbox that lost it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No place is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("busy: {limit} messages are waiting already; nothing was taken, try again a little later")]
pub struct Busy {
    /// How many may wait.
    pub limit: usize,
}

/// The places before one address; clones share them.
#[derive(Clone, Debug)]
pub struct Admission {
    limit: usize,
    waiting: Arc<AtomicUsize>,
}

impl Admission {
    /// At most `limit` messages at a time.
    pub fn new(limit: usize) -> Self {
        Self::counting(limit, Arc::default())
    }

    /// The same, counted where others can see it: give it [`TreeNode::queue`](crate::TreeNode::queue) or
    /// [`Tree::queue`](crate::Tree::queue) and the tree shows the depth. Whoever counts there shares the places.
    pub fn counting(limit: usize, waiting: Arc<AtomicUsize>) -> Self {
        Self { limit, waiting }
    }

    /// Takes a place, or says at once that none is free.
    pub fn try_admit(&self) -> Result<Permit, Busy> {
        self.waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < self.limit).then(|| n + 1))
            .map(|_| Permit(Arc::new(TakenPlace(self.waiting.clone()))))
            .map_err(|_| Busy { limit: self.limit })
    }

    /// How many wait, for the live tree.
    pub fn counter(&self) -> &Arc<AtomicUsize> {
        &self.waiting
    }
}

/// A taken place, freed when its last clone is dropped: a sender that may have to repeat its message keeps one.
#[derive(Clone, Debug)]
#[must_use = "a permit that is dropped frees its place at once"]
pub struct Permit(#[expect(dead_code, reason = "held for its drop")] Arc<TakenPlace>);

#[derive(Debug)]
struct TakenPlace(Arc<AtomicUsize>);

impl Drop for TakenPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    fn depth(admission: &Admission) -> usize {
        admission.counter().load(Ordering::Acquire)
    }

    #[test]
    fn f22_what_does_not_fit_is_busy_and_a_dropped_permit_frees_its_place() {
        let admission = Admission::new(2);
        let first = admission.try_admit().unwrap();
        let second = admission.try_admit().unwrap();
        assert_eq!(admission.try_admit().unwrap_err(), Busy { limit: 2 });
        assert_eq!(
            Busy { limit: 2 }.to_string(),
            "busy: 2 messages are waiting already; nothing was taken, try again a little later"
        );
        drop(first);
        assert_eq!(depth(&admission), 1);
        let third = admission.try_admit().unwrap();
        let kept = third.clone();
        drop((second, third));
        assert_eq!(depth(&admission), 1);
        drop(kept);
        assert_eq!(depth(&admission), 0);
        assert!(Admission::new(0).try_admit().is_err());
    }

    #[test]
    fn f22_the_limit_holds_under_threads() {
        let admission = Admission::new(7);
        let most = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if let Ok(permit) = admission.try_admit() {
                            most.fetch_max(depth(&admission), Ordering::SeqCst);
                            drop(permit);
                        }
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 7);
        assert_eq!(depth(&admission), 0);
    }

    #[test]
    fn the_tree_shows_the_depth() {
        let tree = Tree::default();
        let node = tree.enter("agent/1", "agent", None);
        let admission = Admission::counting(8, node.queue());
        let permit = admission.try_admit().unwrap();
        assert_eq!(tree.get("agent/1").unwrap().queue_depth, 1);
        drop(permit);
        assert_eq!(tree.get("agent/1").unwrap().queue_depth, 0);
    }
}
