//! The loop as a function, for those who want no house: the same actors, in memory, for one run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use playhouse_agent::{Agent, AgentHandle, Definition, HandleError, RunReport};
use playhouse_protocol::{
    AgentMessage, Cancel, ContinuationKind, Event, ExecutionLimits, ModelConfig, PermissionMode, RetryConfig,
    ToolExecutionStrategy,
};
use tokio::sync::mpsc;

use crate::builder::SpawnError;
use crate::house::{House, OpenError};

/// The conversation a run starts from, and where it works.
#[derive(Clone, Debug, Default)]
pub struct AgentContext {
    /// The system prompt.
    pub system_prompt: String,
    /// The conversation so far.
    pub messages: Vec<Arc<AgentMessage>>,
    /// Where tools work; the current directory otherwise.
    pub cwd: Option<PathBuf>,
}

/// How a run is done.
#[derive(Clone, Debug, Default)]
pub struct AgentLoopConfig {
    /// The model; may be left out when the definition has a provider of its own.
    pub model: Option<ModelConfig>,
    /// Tools, sub-agents, hooks, approvals, provider.
    pub definition: Definition,
    /// Caps.
    pub limits: ExecutionLimits,
    /// The retry layer's numbers.
    pub retry: RetryConfig,
    /// Whether tools ask.
    pub permission: PermissionMode,
    /// How tool calls of one response are run.
    pub tool_execution: ToolExecutionStrategy,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The stage could not be set.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The agent could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The agent did not take it, or its run ended without an answer: [`HandleError::Failed`] has the report.
    #[error(transparent)]
    Agent(#[from] HandleError),
}

/// Runs new messages on a conversation; the run's events go to `events`, and `cancel` aborts it.
pub async fn agent_loop(
    prompts: Vec<AgentMessage>,
    context: AgentContext,
    config: AgentLoopConfig,
    events: mpsc::Sender<Arc<Event>>,
    cancel: Cancel,
) -> Result<Arc<RunReport>, LoopError> {
    run(context, config, events, cancel, move |agent| async move { agent.prompt_messages(prompts).await }).await
}

/// Runs a conversation as it stands; it must not end with the model's own message.
pub async fn agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    events: mpsc::Sender<Arc<Event>>,
    cancel: Cancel,
) -> Result<Arc<RunReport>, LoopError> {
    run(context, config, events, cancel, |agent| async move { agent.continue_loop(ContinuationKind::Default).await })
        .await
}

async fn run<W>(
    context: AgentContext,
    config: AgentLoopConfig,
    events: mpsc::Sender<Arc<Event>>,
    cancel: Cancel,
    start: impl FnOnce(AgentHandle) -> W,
) -> Result<Arc<RunReport>, LoopError>
where
    W: Future<Output = Result<Arc<RunReport>, HandleError>>,
{
    let house = House::in_memory().await?;
    let mut agent = house
        .agent()
        .definition(config.definition)
        .system_prompt(context.system_prompt)
        .messages(context.messages)
        .limits(config.limits)
        .retry(config.retry)
        .permission(config.permission)
        .tool_execution(config.tool_execution);
    if let Some(model) = config.model {
        agent = agent.model(model);
    }
    if let Some(cwd) = context.cwd {
        agent = agent.cwd(cwd);
    }
    let agent = agent.spawn().await?;
    let mut seen = agent.subscribe();
    let forward = async {
        while let Some(event) = seen.next().await {
            // A receiver that is gone does not end the run.
            let _ = events.send(event).await;
        }
    };
    let aborter = tokio::spawn({
        let agent = agent.clone();
        async move {
            cancel.cancelled().await;
            // Without a run there is nothing to abort.
            let _ = agent.abort().await;
        }
    });
    let ended = async {
        let report = start(agent.clone()).await;
        // Closes the subscription: what is unread is still delivered.
        house.shutdown(Duration::ZERO).await;
        house.backstage().hub.close(agent.id());
        report
    };
    let (report, ()) = tokio::join!(ended, forward);
    aborter.abort();
    Ok(report?)
}
