//! A sub-agent as a tool of its parent: a task in, the final text out.
//!
//! The child is an agent like any other: its own session, its own journal, linked to its parent. Its session id is
//! derived from the parent's session and the call, so that after a crash the parent finds it again and it goes on from
//! its own journal.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::entry::{Opened, Settings, SpawnRef};
use playhouse_protocol::{
    ExecutionLimits, LoopId, ModelConfig, Outcome, SessionId, ToolCallId, ToolContext, ToolError, ToolResult,
};
use playhouse_tools::Tool;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::definition::Definition;
use crate::machine::RunReport;

/// What a sub-agent may use, unless it is given more: tokens of all its calls, and running time.
const TOKENS: u64 = 100_000;
const TIME: Duration = Duration::from_secs(300);

/// A tool that hands a task to an agent of its own.
#[derive(Clone)]
pub struct SubAgentTool {
    name: String,
    description: String,
    system_prompt: Arc<str>,
    model: Option<ModelConfig>,
    limits: ExecutionLimits,
    definition: Arc<Definition>,
}

impl SubAgentTool {
    /// A sub-agent under this tool name. It uses its parent's model unless it is given one, and may use 100,000 tokens
    /// and 300 s unless it is given other limits.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: "Hands a task to a helper agent that works on its own and returns its final answer."
                .to_owned(),
            system_prompt: "".into(),
            model: None,
            limits: ExecutionLimits {
                max_total_tokens: Some(TOKENS),
                max_duration: Some(TIME),
                ..ExecutionLimits::default()
            },
            definition: Arc::new(Definition::default()),
        }
    }

    /// When the parent should use it.
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The child's system prompt.
    pub fn with_system_prompt(mut self, system_prompt: impl Into<Arc<str>>) -> Self {
        self.system_prompt = system_prompt.into();
        self
    }

    /// The model that the child asks; without this, its parent's.
    pub fn with_model(mut self, model: ModelConfig) -> Self {
        self.model = Some(model);
        self
    }

    /// The child's limits; those of its parent hold in any case.
    pub fn with_limits(mut self, limits: ExecutionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The child's tools, hooks and provider.
    pub fn with_definition(mut self, definition: Definition) -> Self {
        self.definition = Arc::new(definition);
        self
    }

    /// Its name in tool calls.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    pub(crate) fn model(&self) -> Option<&ModelConfig> {
        self.model.as_ref()
    }

    /// The face it shows to the model.
    pub fn as_tool(&self) -> Arc<dyn Tool> {
        Arc::new(Face { name: self.name.clone(), description: self.description.clone() })
    }

    /// The first entry of the child's journal. What the parent may not do, the child may not either.
    pub(crate) fn opened(&self, parent: &Settings, session: SessionId, spawned_by: SpawnRef) -> Opened {
        let settings = Settings {
            kind: format!("{}/{}", parent.kind, self.name),
            model: self.model.clone().map_or_else(|| parent.model.clone(), Arc::new),
            // A model of its own is asked alone.
            fallbacks: if self.model.is_some() { Vec::new() } else { parent.fallbacks.clone() },
            system_prompt: self.system_prompt.clone(),
            tools: self.definition.tool_names(),
            limits: narrowed(&self.limits, &parent.limits),
            config_id: Some("sub".to_owned()),
            ..parent.clone()
        };
        let opened = Opened::new(session.as_str().into(), session, Arc::new(settings));
        Opened { spawned_by: Some(Arc::new(spawned_by)), ..opened }
    }
}

impl fmt::Debug for SubAgentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubAgentTool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A child's limits never exceed its parent's.
fn narrowed(own: &ExecutionLimits, parent: &ExecutionLimits) -> ExecutionLimits {
    fn least<T: Ord>(own: Option<T>, parent: Option<T>) -> Option<T> {
        match (own, parent) {
            (Some(own), Some(parent)) => Some(own.min(parent)),
            (own, parent) => own.or(parent),
        }
    }
    ExecutionLimits {
        max_turns: least(own.max_turns, parent.max_turns),
        max_total_tokens: least(own.max_total_tokens, parent.max_total_tokens),
        max_duration: least(own.max_duration, parent.max_duration),
    }
}

/// The task in a call's arguments.
pub(crate) fn task(args: &Value) -> String {
    args.get("task").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The session of the child that `call` of a run of `parent` asks for: always the same, and another one for a call of the
/// same id on another branch.
pub fn child_session(parent: &SessionId, run: &LoopId, call: &ToolCallId) -> SessionId {
    let name = format!("{parent}/{run}/{call}");
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).simple().to_string();
    // Hex digits always make a session id; the parent's own id is there to satisfy the type.
    SessionId::new(id).unwrap_or_else(|_| parent.clone())
}

/// What a child's run is to its parent.
pub(crate) fn result_of(report: &RunReport) -> Result<ToolResult, ToolError> {
    let mut result = ToolResult::text(report.shown());
    result.child_loop_id = Some(report.loop_id.clone());
    match &report.outcome {
        Outcome::Stop | Outcome::Length => Ok(result),
        Outcome::Limit { limit } => {
            let mut error = format!("the sub-agent was stopped by its limits before it was done: {limit}");
            if let Some(words) = report.last_words() {
                error.push_str(&format!(". Its last words: {words}"));
            }
            Err(ToolError::Failed(error))
        }
        Outcome::Aborted => Err(ToolError::Cancelled),
        Outcome::Error { message } => Err(ToolError::Failed(format!("the sub-agent failed: {message}"))),
        Outcome::Rejected { reason } | Outcome::Halted { reason } => {
            Err(ToolError::Failed(format!("the sub-agent was stopped: {reason}")))
        }
    }
}

struct Face {
    name: String,
    description: String,
}

#[async_trait::async_trait]
impl Tool for Face {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"task": {"type": "string", "minLength": 1, "description": "What the helper is to do, with everything it needs to know."}},
            "required": ["task"],
            "additionalProperties": false,
        })
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        // The agent spawns the child itself; an executor never sees this tool.
        Err(ToolError::Failed("a sub-agent is run by its parent".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_childs_limits_never_exceed_its_parents() {
        let own =
            ExecutionLimits { max_turns: Some(9), max_total_tokens: None, max_duration: Some(Duration::from_secs(1)) };
        let parent = ExecutionLimits { max_turns: Some(5), max_total_tokens: Some(7), max_duration: None };
        let expected = ExecutionLimits {
            max_turns: Some(5),
            max_total_tokens: Some(7),
            max_duration: Some(Duration::from_secs(1)),
        };
        assert_eq!(narrowed(&own, &parent), expected);
    }

    #[test]
    fn a_childs_session_depends_on_the_parents_session_its_run_and_the_call_alone() {
        let (a, b) = (SessionId::new("a").unwrap(), SessionId::new("b").unwrap());
        let one = LoopId::from("a.c.1");
        assert_eq!(child_session(&a, &one, &"c1".into()), child_session(&a, &one, &"c1".into()));
        assert_ne!(child_session(&a, &one, &"c1".into()), child_session(&a, &one, &"c2".into()));
        assert_ne!(child_session(&a, &one, &"c1".into()), child_session(&b, &one, &"c1".into()));
        assert_ne!(child_session(&a, &one, &"c1".into()), child_session(&a, &"a.c.2".into(), &"c1".into()));
    }
}
