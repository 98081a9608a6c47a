//! Questions that are put one after the other: a person at a terminal sees one at a time.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use playhouse_protocol::PermissionDecision;
use tokio::sync::Mutex;

use super::PermissionRequest;
use crate::machine::{PERMISSION_DEADLINE, overdue};

pub(crate) type Answering = Arc<dyn Fn(PermissionRequest) -> BoxFuture<'static, PermissionDecision> + Send + Sync>;

/// Whose turn it is to be asked about. Clones are the same: whatever shares one is asked about one after the other.
///
/// What waits is bounded by the calls of the agents that ask.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Mutex<()>>);

/// Code that answers questions in their turn; made by [`Approvals::in_turn`](super::Approvals::in_turn).
#[derive(Clone)]
pub struct InTurn(Answering);

impl InTurn {
    /// A question's time begins with its turn, so every turn ends, and the last question in line has as long as the
    /// first.
    pub(super) fn new(turns: &Turns, answering: Answering) -> Self {
        let turns = turns.clone();
        Self(Arc::new(move |request| {
            let (turns, answering) = (turns.clone(), answering.clone());
            Box::pin(async move {
                let _turn = turns.0.lock().await;
                match tokio::time::timeout(PERMISSION_DEADLINE, answering(request)).await {
                    Ok(decision) => decision,
                    Err(_) => overdue(),
                }
            })
        }))
    }

    pub(crate) fn answering(&self) -> Answering {
        self.0.clone()
    }
}

impl fmt::Debug for InTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InTurn")
    }
}
