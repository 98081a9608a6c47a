//! One thing at a time for an agent: entering the stage, leaving it, being parked or started again.

use std::sync::Arc;

use dashmap::DashMap;
use playhouse_protocol::AgentId;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Whose turn it is, by agent. Nothing is kept for an agent that nobody waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<DashMap<AgentId, Arc<Mutex<()>>>>);

/// While it is held, nobody else brings this agent on stage or off it.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    agent: AgentId,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for the agent's turn.
    pub async fn of(&self, agent: &AgentId) -> Turn {
        let lock = self.0.entry(agent.clone()).or_default().clone();
        let mut turn = Turn { turns: self.clone(), agent: agent.clone(), held: None };
        turn.held = Some(lock.lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.held.take();
        // One is the map's: whoever waits has another.
        self.turns.0.remove_if(&self.agent, |_, lock| Arc::strong_count(lock) == 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn turns_exclude_each_other_and_leave_nothing() {
        let turns = Turns::default();
        let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..200 {
            let (turns, inside) = (turns.clone(), inside.clone());
            tasks.spawn(async move {
                let agent = AgentId::from("a");
                let waiting = turns.of(&agent);
                if n % 7 == 0 {
                    // One that gives up while it waits.
                    let _ = tokio::time::timeout(std::time::Duration::ZERO, waiting).await;
                    return;
                }
                let _turn = waiting.await;
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert!(turns.0.is_empty());
    }
}
