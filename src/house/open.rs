//! Opening a house.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use dashmap::DashMap;
use playhouse_agent::approvals::{APPROVALS, start};
use playhouse_agent::services::{Journals, LastingRules, Outside, ToolServices};
use playhouse_agent::{Definition, RuleBook, Services};
use playhouse_protocol::entry::Settings;
use playhouse_protocol::{NodeId, Secret, States};
use playhouse_provider::{
    Answers, ConnectionRules, HttpTransport, RecordError, Recorder, Replayer, ServiceOptions, StreamProvider,
    Transport, Wiring,
};
use playhouse_session::{FileOptions, FileStore, MemoryStore, Observers, Reader, Store, StoreError, WriterArgs};
use playhouse_supervision::{
    ChildSpec, Directory, NodeState, Notice, NoticeFn, PanicAborts, RestartBudget, RestartPolicy, Roster, Shutdown,
    Supervisor, SupervisorArgs, Threads, Tree, start_fn, unwinding,
};
use playhouse_tools::policy::{LiveRules, Rules};
use playhouse_tools::{Outputs, SandboxRules, ToolRuntime};
use tokio::sync::watch;
use uuid::Uuid;

use super::ending::Ending;
use super::turns::Turns;
use super::{House, HouseParts, environment_secrets, unused};
use crate::builder::plain;
use crate::tool_names::{is_tool, no_tool};

/// How many writers a house has: sessions are spread over them.
const SHARDS: usize = 4;
/// How long writers may take to write what they have when the house closes.
const WRITE_OUT: Duration = Duration::from_secs(10);

/// Makes the code of an agent from its settings, or says what is missing.
pub type KindFn = Arc<dyn Fn(Arc<Settings>) -> Making + Send + Sync>;

/// The code of an agent, once everything that it takes is there.
pub type Making = Pin<Box<dyn Future<Output = Result<Definition, String>> + Send>>;

/// Why a house did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A panic would end the process.
    #[error(transparent)]
    PanicAborts(#[from] PanicAborts),
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The recordings cannot be used.
    #[error(transparent)]
    Recordings(#[from] RecordError),
    /// A rule names no tool.
    #[error("the rule `{rule}` would do nothing: {why}; name tools of your own with `HouseBuilder::tool_names`")]
    Rule {
        /// The rule as it was written.
        rule: String,
        /// Which name it is, and the one that was probably meant.
        why: String,
    },
    /// The root supervisor did not start.
    #[error("the root supervisor did not start: {0}")]
    Root(String),
}

/// A house to be.
#[derive(Default)]
pub struct HouseBuilder {
    journals: StoreChoice,
    options: FileOptions,
    kinds: Vec<(String, KindFn)>,
    outside: Outside,
    states: States,
    sandbox: SandboxRules,
    recordings: Recordings,
    rules: Rules,
    tool_names: Vec<String>,
    book: Option<Arc<dyn RuleBook>>,
}

/// Where a house keeps its journals.
#[derive(Debug, Default)]
enum StoreChoice {
    #[default]
    InMemory,
    DataDir(PathBuf),
    Store(Arc<dyn Store>),
}

/// What is done with the exchanges with services.
#[derive(Default)]
enum Recordings {
    #[default]
    None,
    Made(PathBuf),
    Played(PathBuf),
}

impl fmt::Debug for HouseBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HouseBuilder").field("journals", &self.journals).field("kinds", &kinds).finish()
    }
}

impl HouseBuilder {
    /// Where journals are kept. Without it nothing survives the process.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.journals = StoreChoice::DataDir(path.into());
        self
    }

    /// Keeps journals in a store of the program's own, in the place of a data directory.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.journals = StoreChoice::Store(store);
        self
    }

    /// How the data directory is used: the node's name, open files, and what lies between journals and the disk.
    pub fn store_options(mut self, options: FileOptions) -> Self {
        self.options = options;
        self
    }

    /// Registers the code of a kind of agent, so that its sessions can be resumed. What makes it may wait, for a tool
    /// server that is started for instance; what it says is missing, the session is parked with.
    pub fn kind<F, W>(mut self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(Arc<Settings>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Definition, String>> + Send + 'static,
    {
        self.kinds.push((name.into(), Arc::new(move |settings| Box::pin(make(settings)))));
        self
    }

    /// Gives the tools of every agent a value of the program's own, such as a pool of connections to a database: a tool
    /// takes it as [`State<T>`](playhouse_protocol::State). There is one of each type; an agent's own counts before it. A
    /// session that is resumed finds the states of the house that resumes it: no journal holds them.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use playhouse::prelude::*;
    ///
    /// struct Pool {
    ///     customers: Vec<String>, // connections, in earnest
    /// }
    ///
    /// /// Finds a customer by number.
    /// #[tool(read_only)]
    /// async fn look_up(State(pool): State<Pool>, number: usize) -> Option<String> {
    ///     pool.customers.get(number).cloned()
    /// }
    ///
    /// let house = House::builder().state(Pool { customers: vec!["Ann".to_owned()] }).open().await?;
    /// let model = Scripted::new([Step::text("").tool_call("look_up", json!({"number": 0})), Step::text("It is Ann.")]);
    /// let agent = house.agent().provider_override(model).tool(look_up).spawn().await?;
    /// let output = agent.prompt("Who is number 0?").await?;
    /// assert_eq!(output.messages[2].llm().map(Message::text).as_deref(), Some("Ann"));
    ///
    /// // Without the house's state the agent would not start.
    /// let elsewhere = House::in_memory().await?;
    /// let error = elsewhere.agent().provider_override(Scripted::new([])).tool(look_up).spawn().await.unwrap_err();
    /// assert!(error.to_string().starts_with("the tool `look_up` takes `State<"), "{error}");
    /// # house.shutdown(std::time::Duration::ZERO).await;
    /// # elsewhere.shutdown(std::time::Duration::ZERO).await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states = self.states.with(value);
        self
    }

    /// Brings a provider of the program's own: models whose `provider` is this name ask it.
    pub fn provider(mut self, name: impl Into<String>, provider: impl StreamProvider + 'static) -> Self {
        self.outside.providers.insert(name.into(), Arc::new(provider));
        self
    }

    /// The rules that every connection keeps towards its service: requests at once, requests and tokens per minute,
    /// when it is left alone.
    pub fn connection_rules(mut self, rules: ConnectionRules) -> Self {
        self.outside.rules = rules;
        self
    }

    /// How long requests may take and how much responses may be.
    pub fn service_options(mut self, options: ServiceOptions) -> Self {
        self.outside.wiring.options = options;
        self
    }

    /// What the sandboxes of its agents' tools grant, and what is kept from tools beside the house's own folder.
    pub fn sandbox(mut self, rules: SandboxRules) -> Self {
        self.sandbox = rules;
        self
    }

    /// Puts something between services and the network, or in its place.
    pub fn transport(mut self, wrap: impl Fn(HttpTransport) -> Arc<dyn Transport> + Send + Sync + 'static) -> Self {
        self.outside.wiring.wrap = Some(Arc::new(wrap));
        self
    }

    /// Rules on what tools may do, for every agent of the house: stronger than an agent's mode. A rule on a tool that is
    /// not built in, not of a server (`git__log`) and not among [`HouseBuilder::tool_names`] is an error.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Tools and sub-agents of the program's own that rules may name, beside those that are built in.
    pub fn tool_names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.tool_names.extend(names.into_iter().map(Into::into));
        self
    }

    /// Where a yes for good is kept. Without one it holds for as long as the house stands.
    pub fn rule_book(mut self, book: impl RuleBook + 'static) -> Self {
        self.book = Some(Arc::new(book));
        self
    }

    /// Keeps every exchange with a service in a folder, without keys, so that it can be played again.
    pub fn record(mut self, folder: impl Into<PathBuf>) -> Self {
        self.recordings = Recordings::Made(folder.into());
        self
    }

    /// Lets a folder of recorded exchanges answer in the place of every service: no network, no keys.
    pub fn replay(mut self, folder: impl Into<PathBuf>) -> Self {
        self.recordings = Recordings::Played(folder.into());
        self
    }

    /// Names a secret of the program's own: wherever a tool, a user or a hook shows it, `[secret:NAME]` is seen in its
    /// place. Keys of models and variables whose names say so are known without it.
    pub fn secret(self, name: impl Into<Arc<str>>, secret: Secret) -> Self {
        self.outside.wiring.vault.learn_all([(name, secret)]);
        self
    }

    /// Opens the house. Processes that a dead house left behind are killed first.
    pub async fn open(mut self) -> Result<House, OpenError> {
        unwinding()?;
        check_names(&self.rules, &self.tool_names)?;
        self.outside.wiring.vault.learn_all(environment_secrets());
        let recorder = self.recordings.wire(&mut self.outside.wiring).await?;
        let memory = Arc::new(MemoryStore::default());
        let store = open_store(self.journals, self.options, memory.clone()).await?;
        let data_dir = store.data_dir();
        if let Some(data_dir) = &data_dir {
            // Journals decide what an agent believes to have done.
            self.sandbox.hidden.push(data_dir.path().to_owned());
        }
        let node = store.node().unwrap_or_else(|| NodeId::from(Uuid::new_v4().simple().to_string()));
        if let Err(error) = playhouse_tools::adopt_orphans() {
            tracing::warn!("orphaned processes of tools will not be adopted: {error}");
        }
        let tree = Tree::default();
        let node_in_tree = tree.enter("house", "supervisor", None);
        node_in_tree.set_state(NodeState::Running);
        let supervisors = Directory::new();
        let providers = Roster::new("providers", supervisors.clone());
        let stage = Roster::new("stage", supervisors.clone());
        let writers = Roster::new("sessions", supervisors);
        let outputs = match data_dir {
            Some(data_dir) => Outputs::beside_journals(move |session| data_dir.outputs(session)),
            None => Outputs::default(),
        };
        let rules = LiveRules::default();
        rules.publish(self.rules);
        let services = Arc::new(Services::new(
            tree.clone(),
            Journals::new(SHARDS, Reader::new(store.clone(), memory.clone())),
            (providers.clone(), self.outside),
            ToolServices {
                runtime: ToolRuntime::new(node.as_str()),
                outputs,
                states: self.states,
                sandbox: Arc::new(self.sandbox),
            },
            LastingRules::new(rules, self.book),
        ));
        let house: Arc<OnceLock<Weak<HouseParts>>> = Arc::default();
        let (changes, _) = watch::channel(0);
        let changes = Arc::new(changes);
        let mut args = SupervisorArgs::new("house", tree.clone());
        let observers = Observers::default();
        let writer = || {
            let mut args = WriterArgs::new(store.clone(), memory.clone(), Arc::default());
            args.observers = observers.clone();
            args
        };
        services.journals.specs(&tree, writer, WRITE_OUT).into_iter().for_each(|spec| writers.enlist(spec));
        let notices = || Some(notices(house.clone()));
        args.notice = notices();
        args.children = vec![
            writers.spec(tree.clone(), notices(), Shutdown::Stop(WRITE_OUT)).into(),
            approvals(&services, changes.clone()).into(),
            providers.spec(tree.clone(), notices(), Shutdown::Stop(Duration::from_secs(5))).into(),
            stage.spec(tree, notices(), Shutdown::Stop(Duration::from_secs(10))).into(),
        ];
        let root = Supervisor::root(args).await.map_err(|error| OpenError::Root(error.to_string()))?;
        let kinds = self.kinds.into_iter().collect::<DashMap<_, _>>();
        let plain = Arc::new(plain(store.promises().strongest));
        let inner = Arc::new(HouseParts {
            services,
            root,
            stage,
            writers,
            store,
            observers,
            kinds,
            plain,
            turns: Turns::default(),
            ending: Ending::default(),
            recorder,
            changes,
            _node: node_in_tree,
        });
        // Set once, here: nobody else has it.
        let _ = house.set(Arc::downgrade(&inner));
        Ok(House(inner))
    }
}

/// Refuses rules that name no tool: they would do nothing.
fn check_names(rules: &Rules, own: &[String]) -> Result<(), OpenError> {
    let Rules { allow, ask, forbid } = rules;
    for rule in allow.iter().chain(ask).chain(forbid) {
        if let Some(name) = rule.tools().iter().find(|name| !is_tool(name, own)) {
            return Err(OpenError::Rule { rule: rule.to_string(), why: no_tool(name, own) });
        }
    }
    Ok(())
}

impl Recordings {
    /// Puts itself between services and the network; gives what records.
    async fn wire(self, wiring: &mut Wiring) -> Result<Option<Recorder>, RecordError> {
        let folder = match &self {
            Self::None => return Ok(None),
            Self::Made(folder) | Self::Played(folder) => folder.clone(),
        };
        let work = move || match self {
            Self::None => Ok((None, None)),
            Self::Made(folder) => Recorder::new(folder).map(|recorder| (Some(recorder), None)),
            Self::Played(folder) => Replayer::open(folder).map(|replayer| (None, Some(replayer))),
        };
        let opened = Threads::new("house", 1).run(work).await;
        let (recorder, replayer) = opened
            .unwrap_or_else(|error| Err(RecordError::Folder { path: folder, source: std::io::Error::other(error) }))?;
        if let Some(replayer) = replayer {
            wiring.wrap = Some(replayer.wrap());
            wiring.answers = Answers::Recording;
        }
        if let Some(recorder) = &recorder {
            wiring.wrap = Some(recorder.wrap());
        }
        Ok(recorder)
    }
}

/// Opens the store and cleans up after houses that died with it open.
async fn open_store(
    journals: StoreChoice,
    options: FileOptions,
    memory: Arc<MemoryStore>,
) -> Result<Arc<dyn Store>, StoreError> {
    let work = move || {
        let store: Arc<dyn Store> = match journals {
            StoreChoice::InMemory => memory,
            StoreChoice::DataDir(path) => Arc::new(FileStore::open_with(path, options)?),
            StoreChoice::Store(store) => store,
        };
        let dead = store.dead_nodes()?;
        let killed = playhouse_tools::kill_leftovers(&dead.iter().map(NodeId::as_str).collect::<Vec<_>>());
        if killed > 0 {
            tracing::warn!(killed, "killed what dead houses left running");
        }
        store.bury(&dead)?;
        Ok(store)
    };
    Threads::new("house", 1).run(work).await.unwrap_or_else(|error| Err(unused(&error)))
}

fn approvals(services: &Services, changes: Arc<watch::Sender<u64>>) -> ChildSpec {
    let args = services.agents.approvals(changes);
    let inbox = services.approvals.clone();
    inbox.expect(APPROVALS);
    ChildSpec {
        id: APPROVALS.into(),
        kind: APPROVALS,
        restart: RestartPolicy::Permanent,
        budget: RestartBudget::default(),
        shutdown: Shutdown::Drain(WRITE_OUT),
        start: start_fn(move |above| {
            let (args, inbox) = (args.clone(), inbox.clone());
            async move { start(args, inbox, above).await.map_err(|error| error.to_string()) }
        }),
    }
}

/// Whose restarts are spent is parked, and whoever waits for it hears of it. An agent that ended leaves the stage.
fn notices(house: Arc<OnceLock<Weak<HouseParts>>>) -> NoticeFn {
    Arc::new(move |notice| {
        let Some(house) = house.get().and_then(Weak::upgrade) else { return };
        match notice {
            Notice::Parked { id, reason } => House(house).parked(&id, reason),
            Notice::Ended { id } => House(house).ended(&id),
            Notice::Started { .. } | Notice::Restarted { .. } => {}
        }
    })
}
