//! The way to models: a connection for each service and key in use, and one for each provider that agents brought.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use playhouse_protocol::{ModelConfig, Secret, Secrets};
use playhouse_provider::{
    Connection, ConnectionArgs, ConnectionMsg, ConnectionRules, ConnectionStatus, SetupError, StreamProvider, Wiring,
    connection_key, provider_for,
};
use playhouse_supervision::{
    ChildSpec, Directory, RestartBudget, RestartPolicy, Roster, Shutdown, Threads, Tree, start_fn,
};
use ractor::Actor;

/// How services are reached.
#[derive(Clone, Default)]
pub struct Outside {
    /// What lies between services and the network, deadlines and limits.
    pub wiring: Wiring,
    /// The rules towards each service.
    pub rules: ConnectionRules,
    /// Providers that the program brought, by name.
    pub providers: HashMap<String, Arc<dyn StreamProvider>>,
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

/// The connections of a house.
#[derive(Debug)]
pub struct Connections {
    /// Connections by address, for whoever asks a model. Nobody outside can put another in their place.
    pub(crate) directory: Directory<ConnectionMsg>,
    /// Their supervisor, which keeps those that were added later.
    pub roster: Roster,
    /// How services are reached.
    pub outside: Outside,
    tree: Tree,
    threads: Threads,
    /// How many agents use a provider of their own, and which of its connections: one that is being ended is not
    /// the one that the next agent gets.
    leases: DashMap<usize, (usize, Arc<str>)>,
    made: AtomicU64,
}

/// The address of the connection that serves a model.
pub(crate) fn connection_id(model: &ModelConfig) -> String {
    format!("connection/{}", connection_key(model))
}

/// The model with its key: the one it has, else the one in the environment variable it names. No journal has it.
pub fn with_key(mut model: Arc<ModelConfig>) -> Arc<ModelConfig> {
    if model.api_key.is_none()
        && let Some(Ok(key)) = model.key_variable.as_ref().map(std::env::var)
        && !key.is_empty()
    {
        Arc::make_mut(&mut model).api_key = Some(Secret::new(key));
    }
    model
}

impl Connections {
    pub(super) fn new(roster: Roster, outside: Outside, tree: Tree, threads: Threads) -> Self {
        let (directory, leases, made) = (Directory::new(), DashMap::new(), AtomicU64::new(0));
        Self { directory, roster, outside, tree, threads, leases, made }
    }

    /// The secrets that are known now: taken out of what tools give and users say.
    pub fn secrets(&self) -> Secrets {
        self.outside.wiring.vault.secrets()
    }

    /// Learns a model's key, so that it is taken out of texts.
    pub(crate) fn learn_key(&self, model: &ModelConfig) {
        if let Some(key) = &model.api_key {
            let name = model.key_variable.as_deref().unwrap_or(&model.provider);
            self.outside.wiring.vault.learn(name, key);
        }
    }

    /// A connection is parked: whoever waits for it is told why.
    pub fn park(&self, address: &str, reason: &str) {
        self.directory.park(address, reason);
    }

    /// All of them are parked.
    pub fn park_all(&self, reason: &str) {
        self.directory.park_all(reason);
    }

    /// Nobody comes back: whoever waits for a connection is told that it is gone.
    pub(super) fn close(&self) {
        self.directory.close();
        self.roster.close();
    }

    /// The address of the connection that serves a model, started if there is none.
    ///
    /// Connections to services stay, since their number is that of the keys in use. One that serves an agent's own
    /// provider ends when the last agent that uses it is gone.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        model: &ModelConfig,
        own: Option<Arc<dyn StreamProvider>>,
    ) -> Result<Lease, String> {
        let lease = match &own {
            Some(provider) => Lease::own(self, Arc::as_ptr(provider).addr()),
            None => {
                let id = connection_id(model);
                // Agents share the text with the connection.
                Lease { id: self.roster.known(&id).unwrap_or_else(|| id.into()), own: None }
            }
        };
        let id = lease.id.clone();
        if self.roster.has(&id) {
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
        self.directory.expect(id.clone());
        let spec = self.connection_spec(id, provider);
        self.roster.add(spec).await.map_err(|error| error.to_string())?;
        Ok(lease)
    }

    fn connection_spec(self: &Arc<Self>, id: Arc<str>, provider: Arc<dyn StreamProvider>) -> ChildSpec {
        let (connections, address) = (Arc::downgrade(self), id.clone());
        ChildSpec {
            id,
            kind: "connection",
            restart: RestartPolicy::Permanent,
            budget: RestartBudget::default(),
            shutdown: Shutdown::Kill,
            start: start_fn(move |above| {
                let (connections, address, provider) = (connections.upgrade(), address.clone(), provider.clone());
                async move {
                    let connections = connections.ok_or("the house is closed")?;
                    let load = connections.tree.queue(&address).unwrap_or_default();
                    let status = Arc::new(ConnectionStatus::default());
                    let shown = status.clone();
                    connections.tree.set_detail(&address, Arc::new(move || shown.to_json()));
                    let args = ConnectionArgs { provider, load, rules: connections.outside.rules, status };
                    let started = Actor::spawn_linked(None, Connection, args, above).await;
                    let (actor, _) = started.map_err(|error| error.to_string())?;
                    connections.directory.publish(address, actor.clone());
                    Ok(actor.get_cell())
                }
            }),
        }
    }
}

/// An agent's share in a connection.
pub(crate) struct Lease {
    id: Arc<str>,
    /// The provider's place in memory, when the connection ends with its last lease.
    own: Option<Box<(Arc<Connections>, usize)>>,
}

impl Lease {
    fn own(connections: &Arc<Connections>, provider: usize) -> Self {
        let fresh = || {
            let number = connections.made.fetch_add(1, Ordering::Relaxed);
            (0, format!("connection/own/{number}").into())
        };
        let id = {
            let mut share = connections.leases.entry(provider).or_insert_with(fresh);
            share.0 += 1;
            share.1.clone()
        };
        Self { id, own: Some(Box::new((connections.clone(), provider))) }
    }

    /// The address of the connection it is a share in.
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some((connections, provider)) = self.own.take().map(|own| *own) else { return };
        if let Some(mut share) = connections.leases.get_mut(&provider) {
            share.0 = share.0.saturating_sub(1);
        }
        if connections.leases.remove_if(&provider, |_, (count, _)| *count == 0).is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let id = self.id.clone();
            runtime.spawn(async move {
                connections.roster.remove(&id).await;
                connections.directory.retire(&id);
            });
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("id", &self.id).finish()
    }
}
