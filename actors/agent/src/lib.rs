//! An agent: a pure machine inside an actor.
//!
//! [`machine`] is the loop: inputs in, effects out, no I/O, no clock. [`actor`] is the shell that carries effects out,
//! one small actor per agent; it holds no state that the journal does not have. [`handle`] is how others reach an agent
//! by its id, whatever happens to its actor. [`hooks`], [`definition`] and [`sub_agent`] are what users bring; [`hub`],
//! [`run_stream`] and [`follow`] are how they watch. [`backstage`] and [`roster`] are what all agents of a house share.
//!
//! This crate starts no runtime, opens no file and speaks to no network: writers, connections and executors do, and
//! they are actors of other crates. The only processes it starts are the commands that users set as hooks.

pub mod actor;
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

pub use actor::{AgentActor, AgentMsg, AgentState, Life};
pub use approvals::{ApprovalsHandle, ApprovalsMsg, FilingId, OpenQuestion};
pub use backstage::Backstage;
pub use definition::Definition;
pub use follow::{EventsError, Follow, events_after};
pub use handle::{Agent, AgentHandle, HandleError, new_input, new_session_id};
pub use hooks::commands::{COMMAND_TIMEOUT, CommandHook, HookEvent};
pub use hooks::matcher::{BadMatcher, Matcher};
pub use hooks::{
    Approvals, Decision, Ending, Hooks, InTurn, InputFilter, PermissionRequest, StopInfo, ToolCallInfo, ToolResultInfo,
    ToolUpdateInfo, Turns,
};
pub use hub::{Callback, Hub, Scope, Subscription, Topic};
pub use lasting::{LastingRules, RuleBook};
pub use machine::{FilterVerdict, InputError, PlanDecision, RunReport, SessionSource};
pub use policy::{PermissionPolicy, PolicyRequest};
pub use roster::Roster;
pub use run_stream::{AgentOutput, RunStream};
pub use sessions::{Occupant, Sessions};
pub use structured::StructuredError;
pub use sub_agent::SubAgentTool;
