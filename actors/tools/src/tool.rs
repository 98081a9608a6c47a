//! The trait a tool implements.

use std::time::Duration;

use async_trait::async_trait;
use playhouse_protocol::{EffectClass, Level, StateType, Subject, ToolContext, ToolError, ToolResult};
use serde_json::Value;

use crate::summary::CallSummary;

/// How long a tool may run when it does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// Something a model can call.
///
/// Everything but [`Tool::execute`] is asked from an agent's mailbox: answer at once, without I/O. `execute` runs in
/// an actor of its own. It ends early in two steps: `ctx.cancel` fires, and after [`GRACE`](crate::GRACE) the future
/// is dropped wherever it waits. So cleanup belongs in drop guards; [`Process`](crate::Process) is one. Code that
/// blocks a thread cannot be dropped: give it to [`blocking`](crate::blocking), which has threads for it.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The name in tool calls: 1 to 64 letters, digits, `_` or `-`.
    fn name(&self) -> &str;

    /// The name for people.
    fn label(&self) -> &str {
        self.name()
    }

    /// When to use it, for the model.
    fn description(&self) -> &str;

    /// JSON Schema of its arguments.
    fn parameters_schema(&self) -> Value;

    /// What a crash between its start and its result means for these arguments.
    fn effect(&self, _args: &Value) -> EffectClass {
        EffectClass::Once
    }

    /// The states that it takes from its context, by their types. An agent with a tool whose states nobody gave does not
    /// start.
    fn states(&self) -> Vec<StateType> {
        Vec::new()
    }

    /// How long it may run.
    fn timeout(&self) -> Duration {
        DEFAULT_TIMEOUT
    }

    /// How long it may run with these arguments.
    fn timeout_for(&self, _args: &Value) -> Duration {
        self.timeout()
    }

    /// Why a person should be asked before it runs with these arguments; `None` if nobody need be.
    fn needs_permission(&self, _args: &Value) -> Option<String> {
        None
    }

    /// How much harm these arguments can do. Without a word of its own, a tool that needs permission counts as one that
    /// runs programs, one that only reads as that, and all others as harmless.
    fn level(&self, args: &Value) -> Level {
        match (self.needs_permission(args), self.effect(args)) {
            (Some(_), _) => Level::Execute,
            (None, EffectClass::Read) => Level::ReadOnly,
            (
                None,
                EffectClass::Idempotent { .. }
                | EffectClass::Reconcilable { .. }
                | EffectClass::Once
                | EffectClass::Child { .. },
            ) => Level::None,
        }
    }

    /// What these arguments are about, for rules such as `write_file(src/**)` and for what may run beside it.
    fn subject(&self, _args: &Value) -> Subject {
        Subject::Nothing
    }

    /// What is said to people of a call with these arguments, and of its result if it has one.
    fn summary(&self, args: &Value, _result: Option<&ToolResult>) -> CallSummary {
        CallSummary::of(args)
    }

    /// Does it. The arguments fit the schema.
    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError>;
}
