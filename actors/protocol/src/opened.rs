//! What the first entry of a journal says: what it takes to go on with a session.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{
    CacheConfig, ExecutionLimits, Mode, PermissionMode, QueueMode, RetryConfig, ToolExecutionStrategy,
};
use crate::entry::{Durability, FORMAT_VERSION, QueuedInput};
use crate::ids::{AgentId, EntryId, InputId, LoopId, SessionId, ToolCallId};
use crate::message::AgentMessage;
use crate::model::{ModelConfig, ThinkingLevel};
use crate::permission::Restrictions;
use crate::sandbox::SandboxMode;

/// How an agent of a session is to be run: what it takes to go on in another process. Never a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Where the agent's code is found: the name it was registered under with the House.
    pub kind: String,
    /// The model, with its base URL or script.
    pub model: Arc<ModelConfig>,
    /// The models to fall back on when a call fails for good, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Arc<ModelConfig>>,
    /// The system prompt; empty is none.
    #[serde(default)]
    pub system_prompt: Arc<str>,
    /// The names of the tools it may use.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The working directory of its tools.
    pub cwd: PathBuf,
    /// What happens to calls that no rule speaks of.
    #[serde(default)]
    pub permission: PermissionMode,
    /// Rules that hold from the session's start, given to the agent that started it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// What is asked about, forbidden or not granted in this session, whatever holds elsewhere.
    #[serde(default, skip_serializing_if = "Restrictions::is_empty")]
    pub restrictions: Restrictions,
    /// Whether it acts or plans.
    #[serde(default, skip_serializing_if = "Mode::is_act")]
    pub mode: Mode,
    /// What their processes are kept in.
    #[serde(default)]
    pub sandbox: SandboxMode,
    /// What ends a run that goes on for too long.
    #[serde(default)]
    pub limits: ExecutionLimits,
    /// How safe the journal is.
    #[serde(default)]
    pub durability: Durability,
    /// How often and when a failed model call is repeated.
    #[serde(default)]
    pub retry: RetryConfig,
    /// Which parts of the prompt the provider should cache.
    #[serde(default)]
    pub cache: CacheConfig,
    /// How much the model should reason before it answers.
    #[serde(default)]
    pub thinking_level: ThinkingLevel,
    /// The output limit; overrides the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Sampling temperature; `None` leaves it to the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// How tool calls of one response are run.
    #[serde(default)]
    pub tool_execution: ToolExecutionStrategy,
    /// How many of the steers that wait enter at once.
    #[serde(default)]
    pub steering_mode: QueueMode,
    /// How many of the follow-ups that wait enter at once.
    #[serde(default)]
    pub follow_up_mode: QueueMode,
    /// The `{config}` segment of loop ids, where chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_id: Option<String>,
    /// The program's own words about its runs: told at each run's start, read by nobody here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Arc<Value>>,
}

/// Where a sub-agent's session hangs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRef {
    /// The session of the agent that asked for it.
    pub parent_session_id: SessionId,
    /// The run in which that agent asked for it.
    pub parent_loop_id: LoopId,
    /// The call that started it.
    pub tool_call_id: ToolCallId,
    /// The tool in that call.
    pub tool_name: String,
}

/// The session whose conversation this one took over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continues {
    /// The session that the conversation came from.
    pub session: SessionId,
    /// Its last entry before the change.
    pub entry: EntryId,
}

/// The first entry of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The format, [`FORMAT_VERSION`] when written by this build.
    pub version: u32,
    /// The same as in all other sessions of the agent.
    pub agent_id: AgentId,
    /// The session that this journal is of.
    pub session_id: SessionId,
    /// How to go on; shared with the agent's state.
    pub settings: Arc<Settings>,
    /// The parent, for a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<Arc<SpawnRef>>,
    /// The session before it, after a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Box<Continues>>,
    /// The conversation it opens with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Arc<AgentMessage>>,
    /// Inputs taken over from the queues of the session before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<QueuedInput>,
    /// Inputs that the session before it took, so that one repeated late is not taken again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<InputId>,
    /// The plan of the session before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedChange>,
}

impl Opened {
    /// The first entry of a session with nothing in it yet, as this build writes it.
    pub fn new(agent_id: AgentId, session_id: SessionId, settings: Arc<Settings>) -> Self {
        Self {
            version: FORMAT_VERSION,
            agent_id,
            session_id,
            settings,
            spawned_by: None,
            continues: None,
            messages: Vec::new(),
            queued: Vec::new(),
            seen: Vec::new(),
            plan: Vec::new(),
        }
    }
}

/// A call that waits for the plan's approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// Its number in the session's plan, from 1.
    pub change: u32,
    /// The tool's name, as the model wrote it.
    pub tool_name: String,
    /// What it runs with if the plan is approved.
    pub args: Arc<Value>,
}
