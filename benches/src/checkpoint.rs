//! Moments of a conversation at which something is measured: all conversations meet there, then go on.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Barrier;

/// Tells what to do when a tool is called for the n-th time.
#[derive(Clone, Default)]
pub struct Checkpoint(Option<Arc<Marks>>);

struct Marks {
    at: Vec<u64>,
    barrier: Barrier,
    note: Box<dyn Fn(u64) + Send + Sync>,
}

impl Checkpoint {
    /// Conversations go on without meeting.
    pub fn none() -> Self {
        Self::default()
    }

    /// When all `conversations` have come to a call in `at`, `note` is told which, once; then they go on.
    pub fn at(at: &[u64], conversations: usize, note: impl Fn(u64) + Send + Sync + 'static) -> Self {
        let barrier = Barrier::new(conversations);
        Self(Some(Arc::new(Marks { at: at.to_vec(), barrier, note: Box::new(note) })))
    }

    /// A tool is called for the n-th time in its conversation.
    pub async fn called(&self, number: u64) {
        let Some(marks) = self.0.as_ref().filter(|marks| marks.at.contains(&number)) else { return };
        if marks.barrier.wait().await.is_leader() {
            (marks.note)(number);
        }
        // Nobody goes on before it is noted.
        marks.barrier.wait().await;
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checkpoint").field(&self.0.as_ref().map(|marks| &marks.at)).finish()
    }
}
