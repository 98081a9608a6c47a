//! The loop as a function, for those who want no house: the same actors, in memory, for one run.

mod control;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use playhouse_agent::{Agent, AgentHandle, Definition, HandleError, RunReport};
use playhouse_protocol::{
    AgentMessage, CacheConfig, Cancel, ContinuationKind, Event, ExecutionLimits, ModelConfig, PermissionMode,
    QueueMode, RetryConfig, ThinkingLevel, ToolExecutionStrategy,
};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::builder::{AgentBuilder, SpawnError};
use crate::house::{House, OpenError};

pub use control::LoopControl;

/// The conversation a run starts from, and where it works.
#[derive(Clone, Debug, Default)]
pub struct AgentContext {
    /// What the model is told before the conversation.
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
    /// Caps on turns, tokens and time.
    pub limits: ExecutionLimits,
    /// The retry layer's numbers.
    pub retry: RetryConfig,
    /// Which tool calls are asked about before they run.
    pub permission: PermissionMode,
    /// How tool calls of one response are run.
    pub tool_execution: ToolExecutionStrategy,
    /// How much the model reasons.
    pub thinking_level: ThinkingLevel,
    /// The output limit of a response; the model's own otherwise.
    pub max_tokens: Option<u32>,
    /// The sampling temperature; the service's own otherwise.
    pub temperature: Option<f32>,
    /// Where requests carry marks for the service's prompt cache.
    pub cache: CacheConfig,
    /// The `{config}` segment of loop ids; made of service, model and reasoning otherwise.
    pub config_id: Option<String>,
    /// How steering is delivered.
    pub steering_mode: QueueMode,
    /// How follow-ups are delivered.
    pub follow_up_mode: QueueMode,
    /// The program's own words about the run, told in its
    /// [`AgentStart`](playhouse_protocol::AgentEvent::AgentStart).
    pub metadata: Option<Value>,
    /// Steers the run, by a clone that the caller keeps.
    pub control: LoopControl,
}

/// Why there is no answer, or why a loop was not told something.
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
    /// Another loop has the same control.
    #[error("another loop runs with this control; give each loop its own")]
    ControlInUse,
    /// Nobody listens any more.
    #[error("the loop has ended and cannot be told anything; run another one with what you have to say")]
    Ended,
    /// More was said than is held for a loop that has not begun.
    #[error("{0} messages are held for a loop that has not begun; start it before you say more")]
    TooMuchHeld(usize),
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

/// Runs a conversation as it stands; it must not end with the model's own message. A
/// [rerun](ContinuationKind::Rerun) goes back to before the answer to what the user said last, whatever follows it; a
/// [branch](ContinuationKind::Branch) is told from a continuation by what its first turn says of its cause.
pub async fn agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    kind: ContinuationKind,
    events: mpsc::Sender<Arc<Event>>,
    cancel: Cancel,
) -> Result<Arc<RunReport>, LoopError> {
    run(context, config, events, cancel, |agent| async move { agent.continue_loop(kind).await }).await
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
    let control = config.control.clone();
    let agent = agent_for(&house, context, config).spawn().await?;
    let mut seen = agent.subscribe();
    let forward = async {
        while let Some(event) = seen.next().await {
            // A receiver that is gone does not end the run.
            let _ = events.send(event).await;
        }
    };
    let ended = async {
        let report = match control.begin(&agent).await {
            Ok(_begun) => cancellable(start(agent.clone()), &agent, &cancel).await,
            Err(error) => Err(error),
        };
        // Closes the subscription: what is unread is still delivered.
        house.shutdown(Duration::ZERO).await;
        house.services().hub.close(agent.id());
        report
    };
    let (report, ()) = tokio::join!(ended, forward);
    report
}

fn agent_for(house: &House, context: AgentContext, config: AgentLoopConfig) -> AgentBuilder {
    let mut agent = house.agent().definition(config.definition).messages(context.messages);
    if let Some(model) = config.model {
        agent = agent.model(model);
    }
    let settings = agent.settings_mut();
    settings.system_prompt = context.system_prompt.into();
    settings.limits = config.limits;
    settings.retry = config.retry;
    settings.permission = config.permission;
    settings.tool_execution = config.tool_execution;
    settings.thinking_level = config.thinking_level;
    settings.max_tokens = config.max_tokens;
    settings.temperature = config.temperature;
    settings.cache = config.cache;
    settings.config_id = config.config_id;
    settings.steering_mode = config.steering_mode;
    settings.follow_up_mode = config.follow_up_mode;
    settings.metadata = config.metadata.map(Arc::new);
    match context.cwd {
        Some(cwd) => agent.cwd(cwd),
        None => agent,
    }
}

/// Waits for a run, and aborts it when that is asked for.
async fn cancellable(
    run: impl Future<Output = Result<Arc<RunReport>, HandleError>>,
    agent: &AgentHandle,
    cancel: &Cancel,
) -> Result<Arc<RunReport>, LoopError> {
    tokio::pin!(run);
    tokio::select! {
        // The run first: an abort that comes before it finds nothing to abort.
        biased;
        report = &mut run => return Ok(report?),
        () = cancel.cancelled() => {}
    }
    agent.abort().await?;
    Ok(run.await?)
}
