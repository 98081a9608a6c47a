//! Describing an agent before it takes the stage.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use playhouse_agent::{
    AgentHandle, Approvals, Definition, Hooks, MissingState, Origin, PermissionPolicy, SubAgentTool, new_session_id,
};
use playhouse_protocol::InvalidAgentId;
use playhouse_protocol::entry::{Opened, Settings, Wake};
use playhouse_protocol::{
    AgentId, AgentMessage, CacheConfig, Durability, Event, ExecutionLimits, Mode, ModelConfig, PermissionMode,
    QueueMode, Restrictions, RetryConfig, SandboxMode, SessionId, ThinkingLevel, ToolExecutionStrategy,
};
use playhouse_provider::StreamProvider;
use playhouse_session::StoreError;
use playhouse_supervision::SupervisorError;
use playhouse_tools::{Tool, ToolSetError};
use serde_json::Value;
use uuid::Uuid;

use crate::house::{House, Newcomer};
use crate::nearest::nearest;

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Two tools share a name, or a schema is none.
    #[error(transparent)]
    Tools(#[from] ToolSetError),
    /// A sub-agent has a tool's name.
    #[error("`{0}` is the name of a tool and of a sub-agent: rename one")]
    NameTaken(String),
    /// A tool takes a state that nobody gave.
    #[error(transparent)]
    State(#[from] MissingState),
    /// There is no model.
    #[error("the agent has no model: give it one with `model` or `provider_override`")]
    NoModel,
    /// Its id cannot be one.
    #[error(transparent)]
    InvalidId(#[from] InvalidAgentId),
    /// It is on stage already.
    #[error("agent `{0}` is on stage already")]
    Taken(AgentId),
    /// Another agent has the session.
    #[error("session `{session}` belongs to agent `{agent}`, which is on stage: get it with `open` or `House::get`")]
    SessionTaken {
        /// The session that was asked for.
        session: SessionId,
        /// The agent that has it, in this house.
        agent: AgentId,
    },
    /// The house has no code of this kind, and the builder was given none.
    #[error("there is no kind `{kind}`{}: register it with `House::builder().kind(…)`, or give the agent its `definition`", hint(near.as_deref()))]
    UnknownKind {
        /// The kind that was asked for.
        kind: String,
        /// The kind that was probably meant.
        near: Option<String>,
    },
    /// The code of the kind could not be made.
    #[error("an agent of the kind `{kind}` cannot be made: {reason}")]
    Kind {
        /// The kind that was asked for.
        kind: String,
        /// What its code says is missing.
        reason: String,
    },
    /// The session is not new.
    #[error("session `{0}` has a journal already: open it with `open`, resume it, or choose another id")]
    SessionExists(SessionId),
    /// A sub-agent has the session.
    #[error("session `{session}` belongs to a sub-agent of agent `{agent}`: use that agent")]
    SubAgent {
        /// The session that was asked for.
        session: SessionId,
        /// The agent at the top of its tree.
        agent: AgentId,
    },
    /// The store cannot tell about the session.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store cannot keep the session as safe as it is to be.
    #[error(
        "durability `{asked}` was asked for, and the store keeps `{strongest}` at most: ask for that, or open the house with a data directory"
    )]
    Durability {
        /// How safe the session is to be.
        asked: Durability,
        /// The most that the store keeps.
        strongest: Durability,
    },
    /// The stage is closed.
    #[error("the house is closed")]
    Closed,
    /// The supervisor did not take it.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}

fn hint(near: Option<&str>) -> String {
    near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default()
}

/// Where an agent's code comes from.
#[derive(Clone, Copy)]
enum Code {
    /// From the builder alone.
    Builder,
    /// From the registered kind, with what the builder was given besides.
    Kind,
    /// From a whole definition, whatever the kind.
    Definition,
}

/// An agent to be. Made by [`House::agent`]. Clones make further agents, which share what they have in common.
#[derive(Clone)]
pub struct AgentBuilder {
    house: House,
    agent_id: Option<AgentId>,
    session_id: Option<SessionId>,
    settings: Arc<Settings>,
    has_model: bool,
    tools: Vec<Arc<dyn Tool>>,
    code: Code,
    definition: Arc<Definition>,
    messages: Vec<Arc<AgentMessage>>,
}

/// What an agent has unless its builder says otherwise.
pub(crate) fn plain(durability: Durability) -> Settings {
    Settings {
        kind: String::new(),
        model: Arc::new(ModelConfig::scripted("none")),
        fallbacks: Vec::new(),
        system_prompt: "".into(),
        tools: Vec::new(),
        cwd: here(),
        permission: PermissionMode::Ask,
        grants: Vec::new(),
        restrictions: Restrictions::default(),
        mode: Mode::Act,
        sandbox: SandboxMode::Auto,
        limits: ExecutionLimits::default(),
        durability,
        retry: RetryConfig::default(),
        cache: CacheConfig::default(),
        thinking_level: ThinkingLevel::Off,
        max_tokens: None,
        temperature: None,
        tool_execution: ToolExecutionStrategy::Parallel,
        steering_mode: QueueMode::OneAtATime,
        follow_up_mode: QueueMode::OneAtATime,
        config_id: None,
        metadata: None,
    }
}

/// What settings call a durability.
fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

impl AgentBuilder {
    pub(crate) fn new(house: House, plain: Arc<Settings>) -> Self {
        let mut builder = Self {
            house,
            agent_id: None,
            session_id: None,
            settings: plain,
            has_model: false,
            tools: Vec::new(),
            code: Code::Builder,
            definition: Arc::default(),
            messages: Vec::new(),
        };
        let here = here();
        if builder.settings.cwd != here {
            builder.settings_mut().cwd = here;
        }
        builder
    }

    pub(crate) fn settings_mut(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.settings)
    }

    fn definition_mut(&mut self) -> &mut Definition {
        Arc::make_mut(&mut self.definition)
    }

    /// The agent's own id, which must be one that [`AgentId::new`] takes; a random one otherwise.
    pub fn id(mut self, id: impl Into<AgentId>) -> Self {
        self.agent_id = Some(id.into());
        self
    }

    /// Everything at once that is a value, as a configuration or a stored session has it: model, system prompt,
    /// working directory, limits and the rest. Which tools there are is the definition's to say.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use playhouse::prelude::*;
    ///
    /// # let house = House::in_memory().await?;
    /// # let agent = house.agent().provider_override(Scripted::new([])).system_prompt("Be brief.").spawn().await?;
    /// let settings = agent.state().await?.settings;
    /// let twin = house.agent().settings(settings).provider_override(Scripted::new([])).spawn().await?;
    /// assert_eq!(&*twin.state().await?.settings.system_prompt, "Be brief.");
    /// # house.shutdown(std::time::Duration::ZERO).await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn settings(mut self, settings: impl Into<Arc<Settings>>) -> Self {
        self.settings = settings.into();
        self.has_model = true;
        self
    }

    /// The session's id; a new one otherwise.
    pub fn session(mut self, session: SessionId) -> Self {
        self.session_id = Some(session);
        self
    }

    /// The kind of agent: its code is what [`HouseBuilder::kind`](crate::HouseBuilder::kind) registered, so that another
    /// process can go on with it. What else this builder is given is added to that, or counts in its place; with a whole
    /// [`definition`](Self::definition) the kind is only a name, for those who resume the session.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use playhouse::prelude::*;
    ///
    /// let clerk = |_| async { Ok(Definition { tools: ToolSet::new(default_tools()).ok(), ..Definition::default() }) };
    /// let house = House::builder().kind("clerk", clerk).open().await?;
    /// let agent = house.agent().kind("clerk").provider_override(Scripted::new([])).spawn().await?;
    /// assert_eq!(agent.state().await?.settings.tools.len(), default_tools().len());
    ///
    /// let error = house.agent().kind("clark").spawn().await.unwrap_err().to_string();
    /// assert!(error.starts_with("there is no kind `clark` (did you mean `clerk`?)"), "{error}");
    /// # house.shutdown(std::time::Duration::ZERO).await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.settings_mut().kind = kind.into();
        if let Code::Builder = self.code {
            self.code = Code::Kind;
        }
        self
    }

    /// The model that is asked first.
    pub fn model(mut self, model: ModelConfig) -> Self {
        self.settings_mut().model = Arc::new(model);
        self.has_model = true;
        self
    }

    /// One more model to fall back on when a call fails for good; they are asked in the order given.
    pub fn fallback(mut self, model: ModelConfig) -> Self {
        self.settings_mut().fallbacks.push(Arc::new(model));
        self
    }

    /// Where requests carry marks for the service's prompt cache.
    pub fn cache_config(mut self, cache: CacheConfig) -> Self {
        self.settings_mut().cache = cache;
        self
    }

    /// Who answers instead of the model's own service.
    pub fn provider_override(mut self, provider: impl StreamProvider + 'static) -> Self {
        self.definition_mut().provider_override = Some(Arc::new(provider));
        self
    }

    /// Everything at once that is not a value: tools, their states, sub-agents, hooks, approvals, provider. Agents that
    /// are given the same one share it.
    pub fn definition(mut self, definition: impl Into<Arc<Definition>>) -> Self {
        self.definition = definition.into();
        self.code = Code::Definition;
        self.name_tools();
        self
    }

    /// What the model is told before the conversation; empty unless this is called.
    pub fn system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.settings_mut().system_prompt = text.into();
        self
    }

    /// Adds a tool to those there are. Two of one name are an error when the agent is made.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// More tools, beside those that it has.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Gives its tools, and those of its sub-agents, a value of the program's own: they take it as
    /// [`State<T>`](playhouse_protocol::State). It counts before one of the same type that
    /// [the house](crate::HouseBuilder::state) has, and is in no journal: a session that another process resumes has what
    /// its house and its kind give.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        let definition = self.definition_mut();
        definition.states = std::mem::take(&mut definition.states).with(value);
        self
    }

    /// Adds a tool whose calls are answered by an agent of its own.
    pub fn sub_agent(mut self, sub: SubAgentTool) -> Self {
        self.definition_mut().sub_agents.push(Arc::new(sub));
        self
    }

    /// Code and commands that are called at points of a run, in the place of those it has.
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.definition_mut().hooks = hooks;
        self
    }

    /// Who answers questions for permission.
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.definition_mut().approvals = approvals;
        self
    }

    /// Calls back with each event, on a thread where it may take its time: a house has
    /// [128](crate::agent::hub::CALLBACK_THREADS) for this, and a callback that finds none free waits and lags. Several
    /// callbacks may be given. The house's [`shutdown`](House::shutdown) waits up to five seconds until they have been
    /// called with everything.
    pub fn on_event(mut self, callback: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.definition_mut().callbacks.push(Arc::new(callback));
        self
    }

    /// How many events a subscriber may be behind before it is told that it lags; 1,024 otherwise. Subscribing works
    /// without this.
    pub fn enable_broadcast(mut self, events: usize) -> Self {
        self.definition_mut().broadcast = Some(events);
        self
    }

    /// Where tools work; the current directory unless this is called.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.settings_mut().cwd = cwd.into();
        self
    }

    /// Which tool calls are asked about before they run.
    pub fn permission(mut self, mode: PermissionMode) -> Self {
        self.settings_mut().permission = mode;
        self
    }

    /// What only tightens: what is asked about in any mode, what never runs, the most that the sandbox grants. It is kept
    /// with the session, and its sub-agents keep to it too.
    pub fn restrictions(mut self, restrictions: Restrictions) -> Self {
        self.settings_mut().restrictions = restrictions;
        self
    }

    /// Whether it acts, or queues what it would change until someone approves of the plan.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings_mut().mode = mode;
        self
    }

    /// Someone with a say in what may run; of several, and of a parent's, the strictest counts.
    pub fn policy(mut self, policy: impl PermissionPolicy + 'static) -> Self {
        self.definition_mut().policies.push(Arc::new(policy));
        self
    }

    /// What the processes of its tools are kept in; [`HouseBuilder::sandbox`](crate::HouseBuilder::sandbox) has what
    /// they are granted.
    pub fn sandbox(mut self, mode: SandboxMode) -> Self {
        self.settings_mut().sandbox = mode;
        self
    }

    /// Caps on a run.
    pub fn limits(mut self, limits: ExecutionLimits) -> Self {
        self.settings_mut().limits = limits;
        self
    }

    /// How safe the journal is.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings_mut().durability = durability;
        self
    }

    /// The retry layer's numbers.
    pub fn retry(mut self, retry: RetryConfig) -> Self {
        self.settings_mut().retry = retry;
        self
    }

    /// How much the model reasons.
    pub fn thinking(mut self, level: ThinkingLevel) -> Self {
        self.settings_mut().thinking_level = level;
        self
    }

    /// The output limit of a response.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.settings_mut().max_tokens = Some(tokens);
        self
    }

    /// The sampling temperature; the model's own unless this is called.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.settings_mut().temperature = Some(temperature);
        self
    }

    /// How the tool calls of one response are run.
    pub fn tool_execution(mut self, strategy: ToolExecutionStrategy) -> Self {
        self.settings_mut().tool_execution = strategy;
        self
    }

    /// How steering is delivered.
    pub fn steering_mode(mut self, mode: QueueMode) -> Self {
        self.settings_mut().steering_mode = mode;
        self
    }

    /// How follow-ups are delivered.
    pub fn follow_up_mode(mut self, mode: QueueMode) -> Self {
        self.settings_mut().follow_up_mode = mode;
        self
    }

    /// The `{config}` segment of loop ids.
    pub fn config_id(mut self, id: impl Into<String>) -> Self {
        self.settings_mut().config_id = Some(id.into());
        self
    }

    /// The program's own words about its runs, such as a customer or a ticket. They are in the journal and in
    /// [`AgentEvent::AgentStart`](crate::protocol::AgentEvent::AgentStart) of each run, its sub-agents' runs included; no
    /// model sees them. [`AgentHandle::configure`] changes them between runs.
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.settings_mut().metadata = Some(Arc::new(metadata));
        self
    }

    /// The conversation it begins with.
    pub fn messages(mut self, messages: Vec<Arc<AgentMessage>>) -> Self {
        self.messages = messages;
        self
    }

    /// Brings a new agent on stage. Its journal is made by its first input. A session that has a journal, or an agent,
    /// is refused: [`AgentBuilder::open`] is for those.
    pub async fn spawn(self) -> Result<AgentHandle, SpawnError> {
        let origin = if self.session_id.is_some() { Origin::Named } else { Origin::New };
        self.start(origin).await
    }

    /// Brings the agent on stage with the journal of its session, if there is one. A session has one agent in a house:
    /// if it is on stage already, that agent is given, as it is.
    pub async fn open(self) -> Result<AgentHandle, SpawnError> {
        self.start(Origin::Stored).await
    }

    async fn start(mut self, origin: Origin) -> Result<AgentHandle, SpawnError> {
        match self.code {
            Code::Kind => self.definition = Arc::new(self.with_kind().await?),
            Code::Builder | Code::Definition => {}
        }
        if !self.has_model && self.definition.provider_override.is_none() {
            return Err(SpawnError::NoModel);
        }
        if !self.tools.is_empty() {
            let more = std::mem::take(&mut self.tools);
            self.definition_mut().tools = Some(self.definition.tools().with(more)?);
        }
        let tools = self.definition.tools();
        if let Some(sub) = self.definition.sub_agents.iter().find(|sub| tools.get(sub.name()).is_some()) {
            return Err(SpawnError::NameTaken(sub.name().to_owned()));
        }
        self.house.check_states(&self.definition)?;
        self.name_tools();
        let agent_id = match self.agent_id {
            Some(id) => id.checked()?,
            None => Uuid::new_v4().simple().to_string().into(),
        };
        let session_id = self.session_id.unwrap_or_else(new_session_id);
        let opened = Opened { messages: self.messages, ..Opened::new(agent_id, session_id, self.settings) };
        let newcomer = Newcomer { opened, definition: self.definition, origin, wake: Wake::Restarted };
        self.house.take_on(newcomer).await
    }

    /// The code of the kind, with what the builder was given laid over it.
    async fn with_kind(&self) -> Result<Definition, SpawnError> {
        let kind = &self.settings.kind;
        let made = match self.house.made_of_kind(&self.settings) {
            Some(making) => making.await.map_err(|reason| SpawnError::Kind { kind: kind.clone(), reason })?,
            None => {
                let names = self.house.kind_names();
                let near = nearest(kind, names.iter().map(|name| (name.as_str(), name.as_str())));
                let near = near.map(|near| near.candidate.to_owned());
                return Err(SpawnError::UnknownKind { kind: kind.clone(), near });
            }
        };
        let own = Definition::clone(&self.definition);
        let hooks = if own.hooks.set() == Hooks::default().set() { made.hooks } else { own.hooks };
        let approvals = match own.approvals {
            Approvals::Nobody => made.approvals,
            own @ (Approvals::Watcher | Approvals::Inbox | Approvals::Code(_) | Approvals::InTurn(_)) => own,
        };
        Ok(Definition {
            tools: made.tools,
            states: own.states.over(&made.states),
            sub_agents: [made.sub_agents, own.sub_agents].concat(),
            hooks,
            approvals,
            policies: [made.policies, own.policies].concat(),
            provider_override: own.provider_override.or(made.provider_override),
            callbacks: [made.callbacks, own.callbacks].concat(),
            broadcast: own.broadcast.or(made.broadcast),
        })
    }

    /// Lets the settings name the tools that the definition has.
    fn name_tools(&mut self) {
        let names = self.definition.tool_names();
        if self.settings.tools != names {
            self.settings_mut().tools = names;
        }
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("agent_id", &self.agent_id)
            .field("session_id", &self.session_id)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
