//! The actor of one tool call.
//!
//! - **Supervised by** the [`Executor`](crate::Executor) that started it, and linked to it.
//! - **Owns** the tool's future and, once that is done, its outcome.
//! - **Takes** one message: start. It does its one job in that handler, so it is ended by `kill`, which drops the
//!   future wherever it waits; drop guards in it clean up.
//! - **When it dies** the executor reads the outcome from its last state; a panic reaches it as a failure. Either way
//!   the agent gets exactly one `Finished`.

use std::sync::Arc;

use playhouse_protocol::{ToolContext, ToolError, ToolResult};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde_json::Value;

use crate::output::spool::shortened;
use crate::runtime::{SCOPE, Scope};
use crate::tool::Tool;

pub(crate) struct ToolRun;

pub(crate) enum RunMsg {
    Start,
}

impl RunMsg {
    pub(crate) const NAMES: [&'static str; 1] = ["Start"];

    fn name(&self) -> &'static str {
        match self {
            Self::Start => "Start",
        }
    }
}

pub(crate) struct RunState {
    job: Option<RunJob>,
    /// What the tool returned.
    pub(crate) outcome: Option<Result<ToolResult, ToolError>>,
}

pub(crate) struct RunJob {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) args: Arc<Value>,
    pub(crate) ctx: ToolContext,
    pub(crate) scope: Scope,
}

impl Actor for ToolRun {
    type Msg = RunMsg;
    type State = RunState;
    type Arguments = RunJob;

    async fn pre_start(&self, _: ActorRef<RunMsg>, job: RunJob) -> Result<RunState, ActorProcessingErr> {
        Ok(RunState { job: Some(job), outcome: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<RunMsg>,
        message: RunMsg,
        state: &mut RunState,
    ) -> Result<(), ActorProcessingErr> {
        playhouse_supervision::chaos::strike("tool run", message.name());
        match message {
            RunMsg::Start => {
                if let Some(RunJob { tool, args, ctx, scope }) = state.job.take() {
                    // This actor's start has just woken the executor, on this very thread. Should the tool block
                    // it, the executor must have gone first, or it could not see the deadline.
                    tokio::task::yield_now().await;
                    let args = Arc::unwrap_or_clone(args);
                    let (call, output) = (ctx.tool_call_id.clone(), scope.output.clone());
                    let work = async move {
                        match tool.execute(args, ctx).await {
                            Ok(result) => Ok(shortened(result, &call, output).await),
                            Err(error) => Err(error),
                        }
                    };
                    state.outcome = Some(Box::pin(SCOPE.scope(scope, work)).await);
                }
                myself.stop(None);
                Ok(())
            }
        }
    }
}
