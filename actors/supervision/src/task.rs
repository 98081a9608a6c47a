//! Work that waits, outside of handlers, and ends with its owner.

use std::time::Duration;

use tokio::task::JoinHandle;

/// A task that is aborted when this is dropped.
#[derive(Debug)]
pub struct Task(JoinHandle<()>);

impl Task {
    /// Starts the work. Needs a runtime.
    pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Does something after a pause, unless it is dropped before.
    pub fn after(pause: Duration, work: impl FnOnce() + Send + 'static) -> Self {
        Self::spawn(async move {
            tokio::time::sleep(pause).await;
            work();
        })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
