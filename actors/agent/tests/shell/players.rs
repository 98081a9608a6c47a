//! Writers and a connection that do what the test says.

use std::sync::Arc;

use playhouse_agent::services::{Journals, LastingRules, Outside, ToolServices};
use playhouse_agent::testing::{connections, writers};
use playhouse_agent::{AgentHandle, Definition, Identity, Origin, Services};
use playhouse_protocol::entry::{Opened, Settings};
use playhouse_protocol::{Batch, CallId, CommitReport, EntryBody, Fate, ModelConfig, Refusal, Seq, SessionId};
use playhouse_provider::{ConnectionMsg, connection_key};
use playhouse_session::{Loaded, MemoryStore, Reader, WriterMsg, shard};
use playhouse_supervision::{
    ChildSpec, Directory, RestartBudget, RestartPolicy, Roster, Shutdown, Supervisor, SupervisorArgs, SupervisorMsg,
    Tree, start_fn,
};
use playhouse_tools::policy::LiveRules;
use playhouse_tools::{Outputs, ToolRuntime};
use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef};
use serde_json::json;
use tokio::sync::mpsc;

/// A batch at a writer.
#[derive(Debug)]
pub struct Append {
    pub session: SessionId,
    pub batch: Batch,
    reply: DerivedActorRef<CommitReport>,
}

impl Append {
    pub fn commit(self) {
        let seqs = (1..).map(Seq).take(self.batch.entries.len()).collect();
        let (session, batch) = (self.session, self.batch.number);
        let _ = self.reply.send_message(CommitReport::Committed { session, batch, seqs });
    }

    pub fn fail(self, error: &str) {
        let (session, batch) = (self.session, self.batch.number);
        let _ = self.reply.send_message(CommitReport::Failed {
            session,
            batch,
            error: error.into(),
            fate: Fate::NotWritten,
            refusal: Refusal::Broken,
        });
    }
}

pub fn bodies(append: &Append) -> Vec<&EntryBody> {
    append.batch.entries.iter().map(|entry| &entry.body).collect()
}

/// What a connection was asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Ask {
    Start(CallId),
    Cancel(CallId),
}

struct Scribe;

impl Actor for Scribe {
    type Msg = WriterMsg;
    type State = mpsc::Sender<Append>;
    type Arguments = mpsc::Sender<Append>;

    async fn pre_start(
        &self,
        _: ActorRef<WriterMsg>,
        to: mpsc::Sender<Append>,
    ) -> Result<mpsc::Sender<Append>, ActorProcessingErr> {
        Ok(to)
    }

    async fn handle(
        &self,
        _: ActorRef<WriterMsg>,
        message: WriterMsg,
        to: &mut mpsc::Sender<Append>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            WriterMsg::Append { session, batch, reply, .. } => to.try_send(Append { session, batch, reply })?,
            // Nothing that was failed is there.
            WriterMsg::Load { reply, .. } => {
                let _ = reply.send(Ok(Loaded { entries: Vec::new(), epoch: 1, damage: Vec::new() }));
            }
            _ => {}
        }
        Ok(())
    }
}

struct Line;

impl Actor for Line {
    type Msg = ConnectionMsg;
    type State = mpsc::Sender<Ask>;
    type Arguments = mpsc::Sender<Ask>;

    async fn pre_start(
        &self,
        _: ActorRef<ConnectionMsg>,
        to: mpsc::Sender<Ask>,
    ) -> Result<mpsc::Sender<Ask>, ActorProcessingErr> {
        Ok(to)
    }

    async fn handle(
        &self,
        _: ActorRef<ConnectionMsg>,
        message: ConnectionMsg,
        to: &mut mpsc::Sender<Ask>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ConnectionMsg::Start { call, .. } => to.try_send(Ask::Start(call))?,
            ConnectionMsg::Cancel { call } => to.try_send(Ask::Cancel(call))?,
            ConnectionMsg::GoOn { .. }
            | ConnectionMsg::RetryDue { .. }
            | ConnectionMsg::CallEnded { .. }
            | ConnectionMsg::Answering { .. }
            | ConnectionMsg::Done { .. }
            | ConnectionMsg::Look
            | ConnectionMsg::Refreshed { .. } => {}
        }
        Ok(())
    }
}

pub struct Theatre {
    pub house: Arc<Services>,
    shards: usize,
    _root: ActorRef<SupervisorMsg>,
    appends: (mpsc::Sender<Append>, mpsc::Receiver<Append>),
    asks: (mpsc::Sender<Ask>, mpsc::Receiver<Ask>),
}

impl Theatre {
    pub async fn new(shards: usize) -> Self {
        let tree = Tree::default();
        let providers = Roster::new("providers", Directory::new());
        let mut args = SupervisorArgs::new("house", tree.clone());
        args.children = vec![providers.spec(tree.clone(), None, Shutdown::Kill).into()];
        let root = Supervisor::root(args).await.unwrap();
        let memory = Arc::<MemoryStore>::default();
        let journals = Journals::new(shards, Reader::new(memory.clone(), memory));
        let tools = ToolServices {
            runtime: ToolRuntime::new("node"),
            outputs: Outputs::default(),
            states: Default::default(),
            sandbox: Arc::default(),
        };
        let rules = LastingRules::new(LiveRules::default(), None);
        let house = Arc::new(Services::new(tree, journals, (providers, Outside::default()), tools, rules));
        let theatre = Self { house, shards, _root: root, appends: mpsc::channel(64), asks: mpsc::channel(64) };
        theatre.connection().await;
        theatre
    }

    /// A new incarnation of a shard's writer.
    pub async fn writer(&self, shard: usize) -> ActorRef<WriterMsg> {
        let (writer, _) = Actor::spawn(None, Scribe, self.appends.0.clone()).await.unwrap();
        writers(&self.house).publish(format!("writer/{shard}"), writer.clone());
        writer
    }

    /// The connection that agents will find.
    async fn connection(&self) {
        let id = format!("connection/{}", connection_key(&ModelConfig::scripted("x")));
        let (house, to) = (self.house.clone(), self.asks.0.clone());
        connections(&self.house).expect(id.as_str());
        let spec = ChildSpec {
            id: id.as_str().into(),
            kind: "connection",
            restart: RestartPolicy::Permanent,
            budget: RestartBudget::default(),
            shutdown: Shutdown::Kill,
            start: start_fn(move |above| {
                let (house, id, to) = (house.clone(), id.clone(), to.clone());
                async move {
                    let (line, _) = Actor::spawn_linked(None, Line, to, above).await.map_err(|e| e.to_string())?;
                    connections(&house).publish(id.as_str(), line.clone());
                    Ok(line.get_cell())
                }
            }),
        };
        self.house.connections.roster.add(spec).await.unwrap();
    }

    pub fn shard(&self, session: &SessionId) -> usize {
        shard(session, self.shards)
    }

    /// Two sessions of different shards.
    pub fn sessions_apart(&self) -> (SessionId, SessionId) {
        let session = |n: usize| SessionId::new(format!("s{n}")).unwrap();
        let here = session(0);
        let there = (1..).map(session).find(|there| self.shard(there) != self.shard(&here)).unwrap();
        (here, there)
    }

    pub async fn append(&mut self) -> Append {
        super::soon(self.appends.1.recv()).await.unwrap()
    }

    pub async fn asked(&mut self) -> Ask {
        super::soon(self.asks.1.recv()).await.unwrap()
    }

    /// A new agent, which needs no journal to begin.
    pub async fn agent(&self, session: &str) -> AgentHandle {
        self.agent_of(session, Definition::default()).await
    }

    pub async fn agent_of(&self, session: &str, definition: Definition) -> AgentHandle {
        let opened = Opened::new(session.into(), SessionId::new(session).unwrap(), Arc::new(settings()));
        let identity = Arc::new(Identity::new(self.house.clone(), Arc::new(definition), opened, Origin::New));
        playhouse_agent::testing::start(&identity).await.unwrap();
        AgentHandle::new(identity)
    }
}

fn settings() -> Settings {
    serde_json::from_value(json!({
        "kind": "test",
        "model": ModelConfig::scripted("x"),
        "cwd": "/",
    }))
    .unwrap()
}
