//! What passes between an agent and its tools.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cancel::{Cancel, Credit};
use crate::ids::{LoopId, SessionId, ToolCallId};
use crate::message::Content;
use crate::state::{State, StateType, States};

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name in tool calls.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// What a crash between a tool's start and its result means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing: run again.
    Read,
    /// Doing it twice is doing it once, under this key: run again.
    Idempotent {
        /// What the tool, or its service, knows a repetition by.
        key: String,
    },
    /// Can find out whether it happened: run again with `reconcile` set.
    Reconcilable {
        /// What the tool looks for to find out; its own words.
        probe: String,
    },
    /// Not to be repeated: the model is told that the outcome is unknown.
    Once,
    /// A sub-agent: goes on from its own journal.
    Child {
        /// Its session, derived from the parent's session and the call.
        session: SessionId,
    },
}

/// What a tool gave for a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// What the model gets to see.
    pub content: Vec<Content>,
    /// For programs: exit codes and the like; no model sees it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// The run of the sub-agent that gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<LoopId>,
}

impl ToolResult {
    /// A result of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], details: Value::Null, child_loop_id: None }
    }
}

/// Why a tool gave nothing. The text goes to the model, so it says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// It failed, for the reason given here.
    #[error("{0}")]
    Failed(String),
    /// There is no such tool.
    #[error("there is no tool `{0}`; use one of the tools you were given")]
    NotFound(String),
    /// The arguments don't fit its schema.
    #[error("invalid arguments: {0}")]
    InvalidArgs(String),
    /// It was told to stop, and did.
    #[error("cancelled")]
    Cancelled,
    /// It took too long and was ended.
    #[error("timed out after {0} ms and was stopped")]
    TimedOut(u64),
    /// No thread was free for it until its time was over.
    #[error(
        "all {threads} threads for tools that block are taken, and none came free in time; some of their calls may hang: \
         try again later, or use a tool that does without"
    )]
    NoThread {
        /// How many the house has for them.
        threads: usize,
    },
    /// Its code panicked, with this message.
    #[error("the tool crashed: {0}")]
    Panicked(String),
}

/// Shows a partial result: all of the result so far.
pub type ToolUpdateFn = Arc<dyn Fn(ToolResult) + Send + Sync>;
/// Takes a line of progress for people.
pub type ProgressFn = Arc<dyn Fn(String) + Send + Sync>;

/// What a running tool has at hand.
#[derive(Clone)]
pub struct ToolContext {
    /// The call that it answers.
    pub tool_call_id: ToolCallId,
    /// The tool's name in it.
    pub tool_name: String,
    /// The session it runs for.
    pub session_id: SessionId,
    /// The working directory: relative paths start here.
    pub cwd: PathBuf,
    /// The effect class it was started under, with its key.
    pub effect: EffectClass,
    /// True after a crash, for a reconcilable tool: find out whether it happened before doing it.
    pub reconcile: bool,
    /// Asks the tool to stop.
    pub cancel: Cancel,
    /// What the program gave to its tools.
    pub states: States,
    /// Shows a partial result; `None` when nobody looks.
    pub on_update: Option<ToolUpdateFn>,
    /// Shows a line of progress; `None` when nobody looks.
    pub on_progress: Option<ProgressFn>,
}

impl ToolContext {
    /// Shows a partial result, if anyone looks.
    pub fn update(&self, partial: ToolResult) {
        if let Some(on_update) = &self.on_update {
            on_update(partial);
        }
    }

    /// The program's own value of this type. A tool that names the type in `Tool::states` finds it, for its agent would
    /// not have started without.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<State<T>, ToolError> {
        self.states.get().ok_or_else(|| {
            let state = StateType::of::<T>().name();
            ToolError::Failed(format!("the tool takes a `State<{state}>`, and nobody gave it one"))
        })
    }

    /// Shows a line of progress, if anyone looks.
    pub fn progress(&self, text: impl Into<String>) {
        if let Some(on_progress) = &self.on_progress {
            on_progress(text.into());
        }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("tool_call_id", &self.tool_call_id)
            .field("tool_name", &self.tool_name)
            .field("session_id", &self.session_id)
            .field("cwd", &self.cwd)
            .field("effect", &self.effect)
            .field("reconcile", &self.reconcile)
            .field("cancel", &self.cancel)
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

/// What an executor tells the agent it works for.
#[derive(Debug)]
pub enum ToolReport {
    /// A partial result; at most one per call is on its way.
    Updated {
        /// The call that it is about.
        call: ToolCallId,
        /// All of the result so far, not only what is new.
        partial: ToolResult,
        /// Given back when it has been taken.
        credit: Credit,
    },
    /// A line for people; at most one per call is on its way.
    Progress {
        /// The call that it is about.
        call: ToolCallId,
        /// One line, to be shown and forgotten.
        text: String,
        /// Given back when it has been taken.
        credit: Credit,
    },
    /// The call is over: nothing of it runs any more.
    Finished {
        /// The call that it answers.
        call: ToolCallId,
        /// An error's text answers the call as well.
        result: Result<ToolResult, ToolError>,
        /// How long the tool ran, in milliseconds.
        duration_ms: u64,
    },
}
