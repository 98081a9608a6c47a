//! The inbox of questions for permission.
//!
//! One per house, supervised by it, permanent. It owns the list of questions that wait; it takes [`ApprovalsMsg`]. The
//! list can be made again: questions are in the agents' journals, and agents are asked for them whenever it starts
//! ([`start`]). So when it dies nothing is lost, and an agent that waits goes on waiting.
//!
//! A question is answered by whoever answers first, through the inbox or through the agent's own handle; the agent's
//! journal decides which that was.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use playhouse_protocol::{AgentId, PermissionId, SessionId};
use playhouse_supervision::Directory;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr};
use tokio::sync::watch;

use crate::hooks::PermissionRequest;
use crate::mailbox::AgentMsg;

/// The inbox's address, in directories and in the live tree.
pub const APPROVALS: &str = "approvals";

/// A question that waits.
#[derive(Clone, Debug)]
pub struct OpenQuestion {
    /// The agent or sub-agent whose call waits.
    pub agent_id: AgentId,
    /// The session whose journal has the question.
    pub session_id: SessionId,
    /// The call, and why a person is asked.
    pub request: PermissionRequest,
}

/// One filing of a question. A question is filed again by each incarnation of its agent and for each of the inbox; the
/// later has the higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilingId(u64);

impl FilingId {
    /// A number that no filing of this process had before.
    pub fn fresh() -> Self {
        static FILINGS: AtomicU64 = AtomicU64::new(0);
        Self(FILINGS.fetch_add(1, Ordering::Relaxed))
    }
}

/// What the inbox is told.
pub enum ApprovalsMsg {
    /// A question waits. One that was filed later is not replaced.
    Asked {
        /// Which filing of it this is.
        filing: FilingId,
        /// What is asked, and by whom.
        question: OpenQuestion,
    },
    /// A question waits no longer, unless it was filed again.
    Closed {
        /// Which filing has ended.
        filing: FilingId,
        /// The agent that asked.
        agent_id: AgentId,
        /// Which of the agent's questions.
        permission_id: PermissionId,
    },
    /// Which questions wait?
    List(RpcReplyPort<Vec<OpenQuestion>>),
    /// Does this question wait?
    Find {
        /// The agent that asked.
        agent_id: AgentId,
        /// Which of the agent's questions.
        permission_id: PermissionId,
        /// Gets whether it does.
        reply: RpcReplyPort<bool>,
    },
}

impl ApprovalsMsg {
    /// Every name that [`ApprovalsMsg::name`] gives.
    pub const NAMES: [&'static str; 4] = ["Asked", "Closed", "List", "Find"];

    /// The message's name, by which tests strike at it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Asked { .. } => "Asked",
            Self::Closed { .. } => "Closed",
            Self::List(_) => "List",
            Self::Find { .. } => "Find",
        }
    }
}

impl fmt::Debug for ApprovalsMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the inbox works with; it outlives an incarnation.
#[derive(Clone)]
pub struct ApprovalsArgs {
    /// Everyone's mailbox, to be asked for their questions.
    pub(crate) agents: Directory<AgentMsg>,
    /// Counts changes, for those who wait for one.
    pub(crate) changes: Arc<watch::Sender<u64>>,
}

/// Starts an incarnation: everyone is told its address, and then asked what waits.
pub async fn start(
    args: ApprovalsArgs,
    inbox: Directory<ApprovalsMsg>,
    above: ActorCell,
) -> Result<ActorCell, SpawnErr> {
    let agents = args.agents.clone();
    let (actor, _) = Actor::spawn_linked(None, Inbox, args, above).await?;
    inbox.publish(APPROVALS, actor.clone());
    for agent in agents.all() {
        let _ = agent.cast(AgentMsg::AskAgain);
    }
    Ok(actor.get_cell())
}

impl fmt::Debug for ApprovalsArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalsArgs").field("agents", &self.agents.len()).finish_non_exhaustive()
    }
}

/// The actor of the inbox.
#[derive(Debug)]
pub struct Inbox;

/// What an incarnation knows.
#[derive(Debug)]
pub struct InboxState {
    args: ApprovalsArgs,
    waiting: BTreeMap<(AgentId, PermissionId), Waiting>,
}

#[derive(Debug)]
struct Waiting {
    filing: FilingId,
    question: OpenQuestion,
}

impl Actor for Inbox {
    type Msg = ApprovalsMsg;
    type State = InboxState;
    type Arguments = ApprovalsArgs;

    async fn pre_start(
        &self,
        _: ActorRef<ApprovalsMsg>,
        args: ApprovalsArgs,
    ) -> Result<InboxState, ActorProcessingErr> {
        Ok(InboxState { args, waiting: BTreeMap::new() })
    }

    async fn handle(
        &self,
        _: ActorRef<ApprovalsMsg>,
        message: ApprovalsMsg,
        state: &mut InboxState,
    ) -> Result<(), ActorProcessingErr> {
        playhouse_supervision::chaos::strike("approvals", message.name());
        match message {
            ApprovalsMsg::Asked { filing, question } => {
                let key = (question.agent_id.clone(), question.request.permission_id.clone());
                if state.waiting.get(&key).is_none_or(|waiting| waiting.filing < filing) {
                    state.waiting.insert(key, Waiting { filing, question });
                    state.changed();
                }
            }
            ApprovalsMsg::Closed { filing, agent_id, permission_id } => {
                let key = (agent_id, permission_id);
                // The end of an agent that is gone can come after its successor has asked again.
                if state.waiting.get(&key).is_some_and(|waiting| waiting.filing == filing) {
                    state.waiting.remove(&key);
                    state.changed();
                }
            }
            ApprovalsMsg::List(reply) => {
                let _ = reply.send(state.waiting.values().map(|waiting| waiting.question.clone()).collect());
            }
            ApprovalsMsg::Find { agent_id, permission_id, reply } => {
                let _ = reply.send(state.waiting.contains_key(&(agent_id, permission_id)));
            }
        }
        Ok(())
    }
}

impl InboxState {
    fn changed(&self) {
        self.args.changes.send_modify(|changes| *changes += 1);
    }
}

/// A question in the inbox; taken out when this is dropped.
#[derive(Debug)]
pub(crate) struct Filed {
    inbox: Directory<ApprovalsMsg>,
    filing: FilingId,
    agent_id: AgentId,
    permission_id: PermissionId,
}

impl Filed {
    /// Puts a question into the inbox. An inbox that is down learns of it when it is back.
    pub(crate) fn new(inbox: &Directory<ApprovalsMsg>, question: OpenQuestion) -> Self {
        let (agent_id, permission_id) = (question.agent_id.clone(), question.request.permission_id.clone());
        let filing = FilingId::fresh();
        if let Some(actor) = inbox.get(APPROVALS) {
            let _ = actor.cast(ApprovalsMsg::Asked { filing, question });
        }
        Self { inbox: inbox.clone(), filing, agent_id, permission_id }
    }
}

impl Drop for Filed {
    fn drop(&mut self) {
        if let Some(actor) = self.inbox.get(APPROVALS) {
            let (agent_id, permission_id) = (self.agent_id.clone(), self.permission_id.clone());
            let _ = actor.cast(ApprovalsMsg::Closed { filing: self.filing, agent_id, permission_id });
        }
    }
}
