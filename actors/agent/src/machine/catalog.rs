//! What the machine asks of tools before it runs any.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use playhouse_protocol::entry::BlockStage;
use playhouse_protocol::{
    Access, EffectClass, Level, LoopId, PermissionMode, Restrictions, Ruling, SessionId, ToolCallId, ToolDefinition,
    ToolError, ToolResult,
};
use serde_json::Value;

/// What a tool call is before anything happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vetting {
    /// It can be run, if the policy lets it.
    Ready {
        /// What a crash after its start means for it.
        effect: EffectClass,
        /// How much harm it can do.
        level: Level,
        /// What the house's rules and the agent's mode say of it.
        ruling: Ruling,
    },
    /// It cannot be run, whatever the policy says.
    Blocked {
        /// The stage of the pipeline that refuses it.
        stage: BlockStage,
        /// Why; the model gets this.
        reason: String,
    },
}

/// What an agent may do as far as its journal tells.
#[derive(Clone, Copy, Debug)]
pub struct Authority<'a> {
    /// The session that the agent is in.
    pub session: &'a SessionId,
    /// The run that makes the call.
    pub run: &'a LoopId,
    /// What happens to calls that no rule speaks of.
    pub mode: PermissionMode,
    /// Rules that someone's yes has added.
    pub grants: &'a [String],
    /// Rules that the session brings with it.
    pub restrictions: &'a Restrictions,
    /// The working directory: relative paths start here.
    pub cwd: &'a Path,
}

/// The tools as the machine sees them: questions, no running. Of files only [`Catalog::vet`] may look which one a
/// program's name means; it is asked in the agent's handler, so what it does must be short.
pub trait Catalog: Send + Sync {
    /// What is sent to the model as its tools.
    fn definitions(&self) -> Arc<[ToolDefinition]>;
    /// Whether a call can be run at all, and what the policy says of it. Asked again before a call that was granted or
    /// interrupted goes on.
    fn vet(&self, authority: Authority<'_>, call: &ToolCallId, name: &str, args: &Value) -> Vetting;
    /// What a call touches, so that calls which touch the same things run one after the other.
    fn access(&self, name: &str, args: &Value) -> Access;
    /// One line on what a call did, for people.
    fn summary(&self, name: &str, args: &Value, result: &Result<ToolResult, ToolError>) -> String;
}

impl fmt::Debug for dyn Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Catalog")
    }
}
