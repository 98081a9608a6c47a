//! Counts the searches for surviving processes that are under way, so that someone can wait for them.

use std::sync::Arc;

use tokio::sync::watch;

/// A count of sweeps under way; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweeps(Arc<watch::Sender<usize>>);

/// One sweep under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct SweepGuard(Sweeps);

impl Sweeps {
    pub(crate) fn begin(&self) -> SweepGuard {
        self.0.send_modify(|count| *count += 1);
        SweepGuard(self.clone())
    }

    pub(crate) fn are_done(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Resolves when none is under way.
    pub(crate) async fn settled(&self) {
        // The sender lives in `self`, so this cannot fail for want of one.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for SweepGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
