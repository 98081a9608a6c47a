//! Whether a call would fail at once: looked at before a person is asked about it, outside of any executor, since nothing
//! is started.

use std::sync::Arc;

use playhouse_protocol::{Cancel, ToolCallId, ToolContext, ToolError};
use serde_json::Value;

use crate::process::sweeps::Sweeps;
use crate::run::executor::ExecutorArgs;
use crate::runtime::SCOPE;
use crate::sandbox::Confined;

impl ExecutorArgs {
    /// What the tool itself says of a call; a name that is no tool's is no reason against it here. Dropped, the future
    /// leaves nothing behind.
    pub fn check(
        self,
        name: &str,
        call: ToolCallId,
        args: Arc<Value>,
    ) -> impl Future<Output = Result<(), ToolError>> + Send + use<> {
        let tool = self.tools.get(name);
        let name = name.to_owned();
        async move {
            let Some(tool) = tool else { return Ok(()) };
            let confined = Arc::new(Confined::new(self.sandbox.clone(), self.cwd.clone(), &self.runtime));
            let scope = self.scope(&name, confined, Sweeps::default());
            let ctx = ToolContext {
                tool_call_id: call,
                tool_name: name,
                effect: tool.effect(&args),
                session_id: self.session_id,
                cwd: self.cwd,
                reconcile: false,
                cancel: Cancel::new(),
                on_update: None,
                on_progress: None,
            };
            SCOPE.scope(scope, tool.check(&args, &ctx)).await
        }
    }
}
