//! The agents of a house by their id.

use std::sync::Arc;

use playhouse_supervision::{Absent, Directory};

use crate::actor::AgentMsg;

/// Agents by id. Their mailboxes stay inside this crate: whoever is outside reaches an agent by its
/// [`AgentHandle`](crate::AgentHandle), so that nobody can send it a report that no actor made.
///
/// ```compile_fail
/// fn forge(agents: &playhouse_agent::agents::Agents, report: playhouse_protocol::CommitReport) {
///     if let Some(actor) = agents.0.get("agent") {
///         let _ = actor.cast(report.into());
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Agents(pub(crate) Directory<AgentMsg>);

impl Agents {
    pub(crate) fn new() -> Self {
        Self(Directory::new())
    }

    /// One is about to come: whoever asks for it waits.
    pub fn expect(&self, id: impl Into<Arc<str>>) {
        self.0.expect(id);
    }

    /// One is parked: whoever waits for it is told why.
    pub fn park(&self, id: &str, reason: &str) {
        self.0.park(id, reason);
    }

    /// All of them are parked.
    pub fn park_all(&self, reason: &str) {
        self.0.park_all(reason);
    }

    /// One is gone for good.
    pub fn retire(&self, id: &str) {
        self.0.retire(id);
    }

    /// Whether its actor lives.
    pub fn is_up(&self, id: &str) -> bool {
        self.0.get(id).is_some()
    }

    /// Makes an agent's actor fail as a bug would. For tests and demonstrations.
    pub async fn crash(&self, id: &str) -> Result<(), Absent> {
        let actor = self.0.live(id, None).await?;
        // One that is gone by now has failed already.
        let _ = actor.cast(AgentMsg::Crash);
        Ok(())
    }

    /// How many addresses there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
