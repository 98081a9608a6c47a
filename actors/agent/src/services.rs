//! What every agent of a house shares, in parts: whoever needs one of them is given that one.

mod agents;
mod clock;
mod connections;
mod journals;
mod rules;
mod sessions;

use std::fmt;
use std::sync::Arc;

use playhouse_protocol::{AgentId, SessionId, States};
use playhouse_supervision::{Directory, Roster, Threads, Tree};
use playhouse_tools::{Outputs, SandboxRules, ToolRuntime};

use crate::approvals::ApprovalsMsg;
use crate::hub::Hub;

pub use agents::Agents;
pub use clock::Clock;
pub use connections::{Connections, Outside, with_key};
pub(crate) use connections::{Lease, connection_id};
pub use journals::Journals;
pub use rules::{LastingRules, RuleBook};
pub use sessions::{Occupant, Sessions};

/// How many things that read or write files a house does at once, journals and tools aside.
const HOUSE_THREADS: usize = 4;

/// What every agent of a house shares.
pub struct Services {
    /// Who is on stage.
    pub agents: Agents,
    /// Who has which session.
    pub sessions: Sessions,
    /// The way to journals.
    pub journals: Journals,
    /// The way to models.
    pub connections: Arc<Connections>,
    /// What tools work with.
    pub tools: ToolServices,
    /// The rules that hold for every agent, and those of them that answers add.
    pub rules: LastingRules,
    /// The inbox of questions.
    pub approvals: Directory<ApprovalsMsg>,
    /// Where agents tell what happens.
    pub hub: Hub,
    /// The live tree.
    pub tree: Tree,
    /// The time as machines are told it.
    pub clock: Clock,
    /// For what reads or writes files and is not the journals' or a tool's.
    pub threads: Threads,
}

/// What the tools of all agents work with.
#[derive(Clone, Debug)]
pub struct ToolServices {
    /// What they share while they run.
    pub runtime: ToolRuntime,
    /// Where their long outputs are kept.
    pub outputs: Outputs,
    /// What the program gave to the tools of every agent.
    pub states: States,
    /// What their sandboxes grant, and keep from them.
    pub sandbox: Arc<SandboxRules>,
}

impl Services {
    /// The services of a house with nobody in it. Connections are supervised by `providers`.
    pub fn new(
        tree: Tree,
        journals: Journals,
        (providers, outside): (Roster, Outside),
        tools: ToolServices,
        rules: LastingRules,
    ) -> Self {
        let threads = Threads::new("house", HOUSE_THREADS);
        Self {
            agents: Agents::default(),
            sessions: Sessions::default(),
            journals,
            connections: Arc::new(Connections::new(providers, outside, tree.clone(), threads.clone())),
            tools,
            rules,
            approvals: Directory::new(),
            hub: Hub::default(),
            tree,
            clock: Clock::start(),
            threads,
        }
    }

    /// An agent or sub-agent is gone for good: nobody answers to its id, and whoever listens gets the end.
    pub fn has_left(&self, agent: &AgentId) {
        self.agents.retire(agent);
        self.hub.close(agent);
    }

    /// Nobody comes back: whoever waits for an address is told that it is gone.
    pub fn close(&self) {
        self.agents.close();
        self.journals.writers.close();
        self.connections.close();
        self.approvals.close();
    }

    /// Deletes a session that was kept in memory only.
    pub(crate) fn remove(&self, session: SessionId) {
        self.forget_outputs(&session);
        self.journals.remove(session);
    }

    /// Deletes a session that was kept in memory only, and waits until that is done.
    pub async fn removed(&self, session: SessionId) {
        self.forget_outputs(&session);
        self.journals.removed(session).await;
    }

    /// Removes the long outputs of a session that was kept in memory only.
    fn forget_outputs(&self, session: &SessionId) {
        if self.tools.outputs.have_passing() {
            let (outputs, session) = (self.tools.outputs.clone(), session.clone());
            // What is not removed for want of a thread goes with the house.
            let _ = self.threads.start(move || outputs.forget(&session));
        }
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("agents", &self.agents).finish_non_exhaustive()
    }
}
