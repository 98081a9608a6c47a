//! What every agent of a house shares: addresses, the live tree, the hub, and the way to a provider.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use dashmap::DashMap;
use playhouse_protocol::{AgentId, ModelConfig, NodeId, Secrets, SessionId};
use playhouse_provider::{
    Connection, ConnectionArgs, ConnectionMsg, ConnectionRules, ConnectionStatus, SetupError, StreamProvider, Wiring,
    connection_key, provider_for,
};
use playhouse_session::{Reader, WriterMsg, shard};
use playhouse_supervision::{ChildSpec, Directory, RestartBudget, RestartPolicy, Shutdown, Threads, Tree, start_fn};
use playhouse_tools::policy::LiveRules;
use playhouse_tools::{Outputs, SandboxRules, ToolRuntime};
use ractor::Actor;

use crate::actor::Life;
use crate::agents::Agents;
use crate::approvals::ApprovalsMsg;
use crate::hub::Hub;
use crate::lasting::{LastingRules, RuleBook};
use crate::machine::Now;
use crate::roster::Roster;
use crate::sessions::Sessions;

/// How many things that read or write files a house does at once, journals and tools aside.
const HOUSE_THREADS: usize = 4;

/// How the services outside are reached, and what tools reach outside.
#[derive(Clone, Default)]
pub struct Outside {
    /// What lies between services and the network, deadlines and limits.
    pub wiring: Wiring,
    /// The rules towards each service.
    pub rules: ConnectionRules,
    /// Providers that the program brought, by name.
    pub providers: HashMap<String, Arc<dyn StreamProvider>>,
    /// What the sandboxes of tools grant and keep from them.
    pub sandbox: Arc<SandboxRules>,
}

impl Outside {
    /// The provider for a model. Reads files: not for a handler.
    pub fn provider(&self, model: &ModelConfig) -> Result<Arc<dyn StreamProvider>, SetupError> {
        match self.providers.get(&*model.provider) {
            Some(provider) => Ok(provider.clone()),
            None => provider_for(model, &self.wiring),
        }
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut providers: Vec<&String> = self.providers.keys().collect();
        providers.sort();
        f.debug_struct("Outside").field("rules", &self.rules).field("providers", &providers).finish_non_exhaustive()
    }
}

/// What every agent of a house shares.
pub struct Backstage {
    /// The house's node; processes of its tools are marked with it.
    pub node: NodeId,
    /// The live tree.
    pub tree: Tree,
    /// The event hub.
    pub hub: Hub,
    /// Agents by id.
    pub agents: Agents,
    /// Who is on stage, sub-agents too. Whoever supervises them keeps them.
    lives: DashMap<AgentId, Weak<Life>>,
    /// Who has which session.
    pub sessions: Sessions,
    /// Writers by shard.
    pub writers: Directory<WriterMsg>,
    /// Their addresses.
    writer_ids: Vec<Arc<str>>,
    /// Connections by what they serve.
    pub connections: Directory<ConnectionMsg>,
    /// The connections' supervisor.
    pub providers: Roster,
    /// How services are reached.
    pub outside: Outside,
    /// The inbox of questions.
    pub approvals: Directory<ApprovalsMsg>,
    /// The rules that hold for every agent.
    pub rules: LiveRules,
    /// Those of them that answers add.
    pub lasting: LastingRules,
    /// Reads journals for those who watch.
    pub journals: Reader,
    /// Where long outputs of tools are kept.
    pub outputs: Outputs,
    /// What the tools of all agents share.
    pub tools: ToolRuntime,
    /// For what reads or writes files and is not the journals' or a tool's.
    pub threads: Threads,
    started: Instant,
    closing: AtomicBool,
    /// How many agents use a provider of their own, and which of its connections: one that is being ended is not
    /// the one that the next agent gets.
    leases: DashMap<usize, (usize, Arc<str>)>,
    connections_so_far: AtomicU64,
}

impl fmt::Debug for Backstage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backstage")
            .field("node", &self.node)
            .field("agents", &self.agents.len())
            .finish_non_exhaustive()
    }
}

/// The address of a shard's writer.
pub fn writer_id(shard: usize) -> Arc<str> {
    format!("writer/{shard}").into()
}

/// The address of the connection that serves a model.
pub fn connection_id(model: &ModelConfig) -> String {
    format!("connection/{}", connection_key(model))
}

impl Backstage {
    /// A backstage with nobody on it.
    pub fn new(node: NodeId, tree: Tree, shards: usize, providers: Roster, journals: Reader, outside: Outside) -> Self {
        let rules = LiveRules::default();
        Self {
            outside,
            approvals: Directory::new(),
            lasting: LastingRules::new(rules.clone(), None),
            rules,
            tree,
            hub: Hub::default(),
            agents: Agents::new(),
            lives: DashMap::new(),
            sessions: Sessions::default(),
            writers: Directory::new(),
            writer_ids: (0..shards).map(writer_id).collect(),
            connections: Directory::new(),
            providers,
            journals,
            outputs: Outputs::default(),
            tools: ToolRuntime::new(node.as_str()),
            threads: Threads::new("house", HOUSE_THREADS),
            node,
            started: Instant::now(),
            closing: AtomicBool::new(false),
            leases: DashMap::new(),
            connections_so_far: AtomicU64::new(0),
        }
    }

    /// Keeps rules that last in this book; without one they hold for as long as the house stands.
    pub fn with_rule_book(mut self, book: Option<Arc<dyn RuleBook>>) -> Self {
        self.lasting = LastingRules::new(self.rules.clone(), book);
        self
    }

    /// Keeps long outputs of tools here; without it, among the machine's temporary files.
    pub fn with_outputs(mut self, outputs: Outputs) -> Self {
        self.outputs = outputs;
        self
    }

    /// The time as machines are told it.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { wall: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX), mono: self.started.elapsed() }
    }

    /// The secrets that are known now: taken out of what tools give and users say.
    pub fn secrets(&self) -> Secrets {
        self.outside.wiring.vault.secrets()
    }

    /// Learns a model's key.
    pub fn learn_key(&self, model: &ModelConfig) {
        if let Some(key) = &model.api_key {
            let name = model.key_variable.as_deref().unwrap_or(&model.provider);
            self.outside.wiring.vault.learn(name, key);
        }
    }

    /// The agent or sub-agent with this id, if it is on stage.
    pub fn life(&self, agent: &AgentId) -> Option<Arc<Life>> {
        self.lives.get(agent).and_then(|life| life.upgrade())
    }

    /// Everyone on stage, sub-agents too.
    pub fn lives(&self) -> Vec<Arc<Life>> {
        self.lives.iter().filter_map(|life| life.upgrade()).collect()
    }

    /// An agent or sub-agent is on stage from here on.
    pub(crate) fn has_entered(&self, life: &Arc<Life>) {
        self.lives.insert(life.agent_id.clone(), Arc::downgrade(life));
    }

    /// An agent or sub-agent is gone for good: nobody answers to its id, and whoever listens gets the end.
    pub fn has_left(&self, agent: &AgentId) {
        self.lives.remove(agent);
        self.agents.retire(agent.as_str());
        self.hub.close(agent);
    }

    /// The address of a session's writer.
    pub fn writer_of(&self, session: &SessionId) -> Arc<str> {
        self.writer_ids.get(shard(session, self.writer_ids.len())).cloned().unwrap_or_default()
    }

    /// From here on nothing new is begun; what is under way may end.
    pub fn begin_closing(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Whether nothing new is begun any more.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Nobody comes back: whoever waits for an address is told that it is gone.
    pub fn close(&self) {
        self.lives.clear();
        self.agents.0.close();
        self.writers.close();
        self.connections.close();
        self.approvals.close();
        self.providers.close();
    }

    /// Lets other processes have a session.
    pub fn release(&self, session: SessionId) {
        if let Some(writer) = self.writers.get(&self.writer_of(&session)) {
            // A writer that is dead holds nothing.
            let _ = writer.cast(WriterMsg::Release { session });
        }
    }

    /// Deletes a session that was kept in memory only.
    pub fn remove(&self, session: SessionId) {
        self.forget_outputs(&session);
        if let Some(writer) = self.writers.get(&self.writer_of(&session)) {
            let (done, _) = ractor::concurrency::oneshot();
            let _ = writer.cast(WriterMsg::Remove { session, reply: done.into() });
        }
    }

    /// As [`Backstage::remove`], and waits until it is done.
    pub async fn removed(&self, session: SessionId) {
        self.forget_outputs(&session);
        let Ok(writer) = self.writers.live(&self.writer_of(&session), None).await else { return };
        // A writer that dies meanwhile holds nothing of it; what it kept in memory goes with the house.
        let _ = ractor::call!(writer, |reply| WriterMsg::Remove { session, reply });
    }

    /// Removes the long outputs of a session that was kept in memory only; what is not removed here goes with the house.
    fn forget_outputs(&self, session: &SessionId) {
        if self.outputs.have_passing() {
            let (outputs, session) = (self.outputs.clone(), session.clone());
            // What is not removed for want of a thread goes with the house.
            let _ = self.threads.start(move || outputs.forget(&session));
        }
    }

    /// The address of the connection that serves a model, started if there is none.
    ///
    /// Connections to services stay, since their number is that of the keys in use. One that serves an agent's own
    /// provider ends when the last agent that uses it is gone.
    pub async fn connect(
        self: &Arc<Self>,
        model: &ModelConfig,
        own: Option<Arc<dyn StreamProvider>>,
    ) -> Result<Lease, String> {
        let lease = match &own {
            Some(provider) => Lease::own(self, Arc::as_ptr(provider).addr()),
            None => {
                let id = connection_id(model);
                // Agents share the text with the connection.
                Lease { id: self.providers.known(&id).unwrap_or_else(|| id.into()), own: None }
            }
        };
        let id = lease.id.clone();
        if self.providers.has(&id) {
            return Ok(lease);
        }
        let provider = match own {
            Some(provider) => provider,
            None => {
                let (model, outside) = (model.clone(), self.outside.clone());
                let made = self.threads.run(move || outside.provider(&model)).await;
                made.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?
            }
        };
        self.connections.expect(id.clone());
        let spec = self.connection_spec(id, provider);
        self.providers.add(spec).await.map_err(|error| error.to_string())?;
        Ok(lease)
    }

    fn connection_spec(self: &Arc<Self>, id: Arc<str>, provider: Arc<dyn StreamProvider>) -> ChildSpec {
        let (house, address) = (Arc::downgrade(self), id.clone());
        ChildSpec {
            id,
            kind: "connection",
            restart: RestartPolicy::Permanent,
            budget: RestartBudget::default(),
            shutdown: Shutdown::Kill,
            start: start_fn(move |above| {
                let (house, address, provider) = (house.upgrade(), address.clone(), provider.clone());
                async move {
                    let house = house.ok_or("the house is closed")?;
                    let load = house.tree.queue(&address).unwrap_or_default();
                    let status = Arc::new(ConnectionStatus::default());
                    let shown = status.clone();
                    house.tree.set_detail(&address, Arc::new(move || shown.to_json()));
                    let args = ConnectionArgs { provider, load, rules: house.outside.rules, status };
                    let started = Actor::spawn_linked(None, Connection, args, above).await;
                    let (actor, _) = started.map_err(|error| error.to_string())?;
                    house.connections.publish(address, actor.clone());
                    Ok(actor.get_cell())
                }
            }),
        }
    }
}

/// An agent's share in a connection.
pub struct Lease {
    id: Arc<str>,
    /// The provider's place in memory, when the connection ends with its last lease.
    own: Option<(Arc<Backstage>, usize)>,
}

impl Lease {
    fn own(house: &Arc<Backstage>, provider: usize) -> Self {
        let fresh = || {
            let number = house.connections_so_far.fetch_add(1, Ordering::Relaxed);
            (0, format!("connection/own/{number}").into())
        };
        let id = {
            let mut share = house.leases.entry(provider).or_insert_with(fresh);
            share.0 += 1;
            share.1.clone()
        };
        Self { id, own: Some((house.clone(), provider)) }
    }

    /// The connection's address.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some((house, provider)) = self.own.take() else { return };
        if let Some(mut share) = house.leases.get_mut(&provider) {
            share.0 = share.0.saturating_sub(1);
        }
        if house.leases.remove_if(&provider, |_, (count, _)| *count == 0).is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let id = self.id.clone();
            runtime.spawn(async move {
                house.providers.remove(&id).await;
                house.connections.retire(&id);
            });
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("id", &self.id).finish()
    }
}
