//! Questions that are put one after the other: a person at a terminal sees one at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use playhouse_protocol::PermissionDecision;
use tokio::sync::Mutex;

use super::PermissionRequest;
use crate::machine::{PERMISSION_DEADLINE, overdue};

pub(crate) type Answering = Arc<dyn Fn(PermissionRequest) -> BoxFuture<'static, PermissionDecision> + Send + Sync>;

/// Whose turn it is to be asked about. Clones are the same: whatever shares one is asked about one after the other.
///
/// What waits is bounded by the calls of the agents that ask.
#[derive(Clone, Debug)]
pub struct Turns {
    turn: Arc<Mutex<()>>,
    /// How long a question may take once it is its turn; `None` is as long as it takes.
    within: Option<Duration>,
}

impl Default for Turns {
    /// With the time that a question has by default, 120 s.
    fn default() -> Self {
        Self { turn: Arc::default(), within: Some(PERMISSION_DEADLINE) }
    }
}

impl Turns {
    /// Questions wait for as long as it takes, as of a person at a terminal.
    pub fn without_limit() -> Self {
        Self { within: None, ..Self::default() }
    }
}

/// Code that answers questions in their turn; made by [`Approvals::in_turn`](super::Approvals::in_turn).
#[derive(Clone)]
pub struct InTurn(Answering);

impl InTurn {
    /// A question's time begins with its turn: if there is a limit, every turn ends, and the last question in line has as
    /// long as the first.
    pub(super) fn new(turns: &Turns, answering: Answering) -> Self {
        let turns = turns.clone();
        Self(Arc::new(move |request| {
            let (turns, answering) = (turns.clone(), answering.clone());
            Box::pin(async move {
                let _turn = turns.turn.lock().await;
                let Some(within) = turns.within else { return answering(request).await };
                match tokio::time::timeout(within, answering(request)).await {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    async fn asked(turns: &Turns) -> PermissionDecision {
        let slow: Answering = Arc::new(|_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_secs(24 * 3_600)).await;
                PermissionDecision::Allow
            })
        });
        let request = PermissionRequest {
            permission_id: "p".into(),
            tool_call_id: "c".into(),
            tool_name: "bash".to_owned(),
            args: Arc::new(json!({})),
            question: Default::default(),
        };
        InTurn::new(turns, slow).answering()(request).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_waits_as_long_as_it_takes_only_without_a_limit() {
        assert_eq!(asked(&Turns::default()).await, overdue());
        assert_eq!(asked(&Turns::without_limit()).await, PermissionDecision::Allow);
    }
}
