//! An agent: a pure machine inside an actor.
//!
//! [`machine`] is the loop: commands and reports in, effects out, no I/O, no clock. [`actor`] is the shell around it, one
//! small actor per agent: it carries effects out and holds no state that the journal does not have. An [`identity`] is
//! what an agent's incarnations share, and [`handle`] is how others reach it by its id, whatever happens to its actor:
//! both know the mailbox, and nothing knows the actor. [`hooks`], [`definition`] and [`sub_agent`] are what users bring;
//! [`hub`] is how they watch; [`approvals`] is the inbox of questions. [`services`] are what all agents of a house share.
//!
//! This crate starts no runtime, opens no file and speaks to no network: writers, connections and executors do, and
//! they are actors of other crates. The only processes it starts are the commands that users set as hooks.

pub mod actor;
pub mod approvals;
pub mod definition;
pub mod handle;
pub mod hooks;
pub mod hub;
pub mod identity;
pub mod machine;
mod mailbox;
mod redaction;
pub mod services;
pub mod sub_agent;

/// What the workspace's own tests and benches need to play an agent's partners. Never enabled in a program: whoever can
/// make reports can make an agent act before its journal is durable.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing {
    use std::sync::Arc;

    use playhouse_provider::ConnectionMsg;
    use playhouse_session::WriterMsg;
    use playhouse_supervision::Directory;
    use ractor::{Actor, SpawnErr};

    use crate::Identity;
    pub use crate::machine::report::Report;
    pub use crate::mailbox::AgentMsg;
    use crate::services::{Agents, Services};

    /// The writers of a house.
    pub fn writers(services: &Services) -> &Directory<WriterMsg> {
        &services.journals.writers
    }

    /// The connections of a house.
    pub fn connections(services: &Services) -> &Directory<ConnectionMsg> {
        &services.connections.directory
    }

    /// The agents' mailboxes.
    pub fn mailboxes(agents: &Agents) -> &Directory<AgentMsg> {
        &agents.mailboxes
    }

    /// Starts an agent that nobody supervises.
    pub async fn start(identity: &Arc<Identity>) -> Result<(), SpawnErr> {
        let (actor, _) = Actor::spawn(None, crate::actor::AgentActor, identity.clone()).await?;
        identity.services.agents.mailboxes.publish(identity.agent_id.shared(), actor);
        Ok(())
    }
}

pub use approvals::{ApprovalsMsg, FilingId, OpenQuestion};
pub use definition::{Definition, MissingState};
pub use handle::{
    Agent, AgentHandle, AgentOutput, ApprovalsHandle, EventsError, Follow, HandleError, RunStream, StoredEvents,
    StructuredError, events_after, new_input, new_session_id,
};
pub use hooks::commands::{COMMAND_TIMEOUT, CommandHook, HookEvent};
pub use hooks::matcher::{BadMatcher, Matcher};
pub use hooks::policy::{PermissionPolicy, PolicyRequest};
pub use hooks::{
    Approvals, Decision, Ending, Hooks, InTurn, InputFilter, PermissionRequest, StopInfo, ToolCallInfo, ToolResultInfo,
    ToolUpdateInfo, Turns,
};
pub use hub::{Callback, Hub, Scope, Subscription, Topic};
pub use identity::{Identity, Origin};
pub use machine::{FilterVerdict, InputError, RunReport, SessionSource};
pub use mailbox::AgentState;
pub use services::{Occupant, RuleBook, Services};
pub use sub_agent::SubAgentTool;
