//! The agents of a house by their id.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use dashmap::DashMap;
use playhouse_protocol::AgentId;
use playhouse_supervision::{Absent, Directory};
use tokio::sync::watch;

use crate::approvals::ApprovalsArgs;
use crate::identity::Identity;
use crate::mailbox::AgentMsg;

/// Who is on stage, sub-agents too. Mailboxes stay inside this crate: whoever is outside reaches an agent by its
/// [`AgentHandle`](crate::AgentHandle), so that nobody can send it a report that no actor made.
///
/// ```compile_fail
/// fn forge(agents: &playhouse_agent::services::Agents, report: playhouse_protocol::CommitReport) {
///     if let Some(actor) = agents.mailboxes.get("agent") {
///         let _ = actor.cast(report.into());
///     }
/// }
/// ```
#[derive(Default)]
pub struct Agents {
    pub(crate) mailboxes: Directory<AgentMsg>,
    /// Whoever supervises an agent keeps its identity.
    identities: DashMap<AgentId, Weak<Identity>>,
    /// Whether the house begins nothing new.
    closing: AtomicBool,
}

impl Agents {
    /// The agent or sub-agent with this id.
    pub fn get(&self, agent: &AgentId) -> Option<Arc<Identity>> {
        self.identities.get(agent).and_then(|identity| identity.upgrade())
    }

    /// Everyone who is on stage, sub-agents too, in no order.
    pub fn all(&self) -> Vec<Arc<Identity>> {
        self.identities.iter().filter_map(|identity| identity.upgrade()).collect()
    }

    /// An agent or sub-agent is on stage from here on.
    pub(crate) fn enter(&self, identity: &Arc<Identity>) {
        self.identities.insert(identity.agent_id.clone(), Arc::downgrade(identity));
    }

    /// One is about to be started: whoever asks for it waits.
    pub fn expect(&self, agent: &AgentId) {
        self.mailboxes.expect(agent.shared());
    }

    /// One is parked: whoever waits for it is told why.
    pub fn park(&self, agent: &AgentId, reason: &str) {
        self.mailboxes.park(agent.shared(), reason);
    }

    /// All of them are parked.
    pub fn park_all(&self, reason: &str) {
        self.mailboxes.park_all(reason);
    }

    /// Whether its actor lives.
    pub fn is_up(&self, agent: &AgentId) -> bool {
        self.mailboxes.get(agent.as_str()).is_some()
    }

    /// Makes an agent's actor fail as a bug would. For tests and demonstrations.
    pub async fn crash(&self, agent: &AgentId) -> Result<(), Absent> {
        let actor = self.mailboxes.live(agent.as_str(), None).await?;
        // One that is gone by now has failed already.
        let _ = actor.cast(AgentMsg::Crash);
        Ok(())
    }

    /// From here on nothing new is begun; what is under way may end.
    pub fn begin_closing(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Whether nothing new is begun any more.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// What the inbox of their questions works with; `changes` counts its changes.
    pub fn approvals(&self, changes: Arc<watch::Sender<u64>>) -> ApprovalsArgs {
        ApprovalsArgs { agents: self.mailboxes.clone(), changes }
    }

    /// How many addresses there are.
    pub fn len(&self) -> usize {
        self.mailboxes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.mailboxes.is_empty()
    }

    pub(super) fn retire(&self, agent: &AgentId) {
        self.identities.remove(agent);
        self.mailboxes.retire(agent.as_str());
    }

    pub(super) fn close(&self) {
        self.identities.clear();
        self.mailboxes.close();
    }
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agents").field("len", &self.len()).finish_non_exhaustive()
    }
}
