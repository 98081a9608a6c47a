//! An agent: a pure machine inside an actor.
//!
//! [`machine`] is the loop: commands and reports in, effects out, no I/O, no clock. [`actor`] is the shell around it, one
//! small actor per agent: it carries effects out and holds no state that the journal does not have. [`handle`] is how
//! others reach an agent by its id, whatever happens to its actor. [`hooks`], [`definition`] and [`sub_agent`] are what
//! users bring; [`hub`], [`run_stream`] and [`follow`] are how they watch. [`backstage`] and [`roster`] are what all
//! agents of a house share.
//!
//! This crate starts no runtime, opens no file and speaks to no network: writers, connections and executors do, and
//! they are actors of other crates. The only processes it starts are the commands that users set as hooks.

pub mod actor;
pub mod agents;
pub mod approvals;
pub mod backstage;
pub mod definition;
pub mod follow;
pub mod handle;
pub mod hooks;
pub mod hub;
pub mod keys;
pub mod lasting;
pub mod machine;
pub mod policy;
pub mod roster;
pub mod run_stream;
pub mod sessions;
pub mod structured;
pub mod sub_agent;
mod task;

/// What the workspace's own tests and benches need to play an agent's partners. Never enabled in a program: whoever can
/// make reports can make an agent act before its journal is durable.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing {
    use std::sync::Arc;

    use playhouse_supervision::Directory;
    use ractor::{Actor, SpawnErr};

    pub use crate::actor::msg::AgentMsg;
    pub use crate::machine::report::Report;
    use crate::{Agents, Life};

    /// The agents' mailboxes.
    pub fn mailboxes(agents: &Agents) -> &Directory<AgentMsg> {
        &agents.0
    }

    /// Starts an agent that nobody supervises.
    pub async fn start(life: &Arc<Life>) -> Result<(), SpawnErr> {
        let (actor, _) = Actor::spawn(None, crate::actor::AgentActor, life.clone()).await?;
        life.backstage.agents.0.publish(life.agent_id.shared(), actor);
        Ok(())
    }
}

pub use actor::{AgentState, Life};
pub use agents::Agents;
pub use approvals::{ApprovalsHandle, ApprovalsMsg, FilingId, OpenQuestion};
pub use backstage::Backstage;
pub use definition::Definition;
pub use follow::{EventsError, Follow, StoredEvents, events_after};
pub use handle::{Agent, AgentHandle, HandleError, new_input, new_session_id};
pub use hooks::commands::{COMMAND_TIMEOUT, CommandHook, HookEvent};
pub use hooks::matcher::{BadMatcher, Matcher};
pub use hooks::{
    Approvals, Decision, Ending, Hooks, InTurn, InputFilter, PermissionRequest, StopInfo, ToolCallInfo, ToolResultInfo,
    ToolUpdateInfo, Turns,
};
pub use hub::{Callback, Hub, Scope, Subscription, Topic};
pub use lasting::{LastingRules, RuleBook};
pub use machine::{FilterVerdict, InputError, RunReport, SessionSource};
pub use policy::{PermissionPolicy, PolicyRequest};
pub use roster::Roster;
pub use run_stream::{AgentOutput, RunStream};
pub use sessions::{Occupant, Sessions};
pub use structured::StructuredError;
pub use sub_agent::SubAgentTool;
