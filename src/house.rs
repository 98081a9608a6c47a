//! The house: the root supervisor, and the way in.
//!
//! ```text
//! house
//! ├─ sessions     writers, one per shard
//! ├─ approvals    the inbox of questions, the rules
//! ├─ providers    connections, one per provider + base URL + key; each supervises its calls
//! └─ stage        agents; each supervises its executor and its sub-agents
//! ```

mod ending;
mod entering;
mod open;
mod parking;
mod resume;
mod secrets;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use playhouse_agent::hub::RING;
use playhouse_agent::identity::address;
use playhouse_agent::{
    Agent, AgentHandle, ApprovalsHandle, EventsError, HandleError, Occupant, Scope, Services, Subscription,
    events_after,
};
use playhouse_protocol::entry::Settings;
use playhouse_protocol::{AgentEvent, AgentId, Durability, Event, EventId, SessionId};
use playhouse_provider::Recorder;
use playhouse_session::{Observer, Observers, SessionSummary, Store, StoreError};
use playhouse_supervision::{NodeSnapshot, Roster, Supervisor, SupervisorMsg, TreeNode};
use ractor::ActorRef;
use tokio::sync::watch;

pub use open::{HouseBuilder, KindFn, OpenError};
pub use resume::ResumeError;
pub use secrets::environment_secrets;

use crate::builder::AgentBuilder;
use ending::Ending;
pub(crate) use entering::Newcomer;
use turns::Turns;

/// How long a house that ends waits for users' callbacks.
const CALLBACKS: Duration = Duration::from_secs(5);

/// How long a house that ends waits for rules to be written down that were to last.
const RULES: Duration = Duration::from_secs(5);

/// How long a house that ends waits for recordings to be written.
const RECORDINGS: Duration = Duration::from_secs(5);

/// A house with its agents. Clones are the same house.
#[derive(Clone)]
pub struct House(Arc<HouseParts>);

pub(crate) struct HouseParts {
    services: Arc<Services>,
    root: ActorRef<SupervisorMsg>,
    stage: Roster,
    writers: Roster,
    store: Arc<dyn Store>,
    observers: Observers,
    kinds: DashMap<String, KindFn>,
    /// What agents have unless their builders say otherwise.
    plain: Arc<Settings>,
    turns: Turns,
    ending: Ending,
    /// What keeps exchanges with services, if they are kept.
    recorder: Option<Recorder>,
    /// Counts changes of the inbox of questions.
    changes: Arc<watch::Sender<u64>>,
    /// The house's own place in the live tree.
    _node: TreeNode,
}

impl House {
    /// Describes a house before it opens.
    pub fn builder() -> HouseBuilder {
        HouseBuilder::default()
    }

    /// Opens a house without a disk: nothing survives its process.
    pub async fn in_memory() -> Result<Self, OpenError> {
        Self::builder().open().await
    }

    /// Describes an agent to bring on stage.
    pub fn agent(&self) -> AgentBuilder {
        AgentBuilder::new(self.clone(), self.0.plain.clone())
    }

    /// The agents on stage, sub-agents not counted.
    pub fn agents(&self) -> Vec<AgentHandle> {
        self.0.services.agents.all().into_iter().filter(|agent| agent.is_root()).map(AgentHandle::new).collect()
    }

    /// The agent or sub-agent with this id, if it is on stage. A sub-agent's id is its session's.
    pub fn get(&self, agent: &AgentId) -> Option<AgentHandle> {
        self.0.services.agents.get(agent).map(AgentHandle::new)
    }

    /// Everything alive, as seen at this moment.
    pub fn tree(&self) -> Vec<NodeSnapshot> {
        self.0.services.tree.snapshot()
    }

    /// Listens to every agent of the house, sub-agents included, from here on.
    pub fn subscribe(&self) -> Subscription {
        self.0.services.hub.house().subscribe(RING, Scope::Tree)
    }

    /// Hears which sessions have something new in their journals, from here on. Nobody waits for it, however slow it is.
    pub fn commits(&self) -> Observer {
        self.0.observers.observe()
    }

    /// The events of a session that come after `after`, from its journal. Pieces of messages are in no journal.
    pub async fn events(&self, session: &SessionId, after: Option<EventId>) -> Result<Vec<Arc<Event>>, EventsError> {
        events_after(&self.0.services.journals.reader, session, after).await
    }

    /// The inbox of questions for permission, of agents with [`Approvals::Inbox`](playhouse_agent::Approvals::Inbox).
    pub fn approvals(&self) -> ApprovalsHandle {
        ApprovalsHandle::new(self.0.services.clone(), self.0.changes.subscribe())
    }

    /// What all agents share.
    pub fn services(&self) -> &Arc<Services> {
        &self.0.services
    }

    /// Makes the actor of an agent or sub-agent fail as a bug would; its supervisor brings it back. For tests and
    /// demonstrations.
    pub async fn crash(&self, agent: &AgentId) -> Result<(), HandleError> {
        Ok(self.0.services.agents.crash(agent).await?)
    }

    /// Takes an agent off the stage, with all that is beneath it. What its journal holds can be resumed. Once begun it is
    /// carried out, also when nobody waits for it any more.
    pub async fn dismiss(&self, agent: &AgentId) {
        let (house, agent) = (self.clone(), agent.clone());
        let _ = tokio::spawn(async move { house.take_off(&agent).await }).await;
    }

    async fn take_off(&self, agent: &AgentId) {
        let _turn = self.0.turns.of(agent).await;
        let services = &self.0.services;
        let Some(identity) = services.agents.get(agent).filter(|agent| agent.is_root()) else { return };
        self.0.stage.remove(&address(agent)).await;
        services.has_left(agent);
        identity.let_go();
        identity.leave();
        let entered_with = (identity.opened.session_id.clone(), identity.occupant());
        for (session, occupant) in services.sessions.more(agent).into_iter().chain([entered_with]) {
            if let Occupant::Beneath(_) = &occupant {
                // A sub-agent that was at work, or what a crash left of one; its id is its session's.
                services.has_left(&session.as_str().into());
            }
            match identity.opened.settings.durability {
                Durability::None => services.removed(session.clone()).await,
                Durability::Flush | Durability::Os => {
                    services.journals.release(session.clone());
                    // Whoever takes it up next must not be overtaken by this.
                    services.journals.settle(&session).await;
                }
            }
            services.sessions.leave(&session, &occupant);
        }
    }

    /// Every session in the store, newest first.
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let store = self.0.store.clone();
        self.blocking(move || store.list()).await
    }

    /// One session in the store.
    pub async fn session(&self, session: &SessionId) -> Result<SessionSummary, StoreError> {
        let (store, id) = (self.0.store.clone(), session.clone());
        self.blocking(move || SessionSummary::read(&*store, &id)).await
    }

    /// Deletes a session for good, unless an agent of this house or another process has it. Once begun it is carried
    /// out, also when nobody waits for it any more.
    pub async fn remove_session(&self, session: &SessionId) -> Result<(), StoreError> {
        let held = self.hold(session).map_err(|by| in_use(session, by))?;
        let store = self.0.store.clone();
        self.blocking(move || store.remove(held.session())).await
    }

    /// Takes a session for the house itself, or says who has it.
    fn hold(&self, session: &SessionId) -> Result<Hold, Occupant> {
        let services = self.0.services.clone();
        services.sessions.occupy(session, Occupant::House)?;
        Ok(Hold { services, session: session.clone() })
    }

    /// Ends the house: admits nothing new, gives running agents `drain` to finish, then stops everything in order.
    /// A run that is not done by then stays in its journal, to be resumed, by another house of this process too.
    ///
    /// Once begun it is carried out, also when nobody waits for it any more. Called again it waits for the same end, and
    /// brings that forward if its `drain` is over sooner.
    pub async fn shutdown(&self, drain: Duration) {
        self.0.services.agents.begin_closing();
        if self.0.ending.ask(drain) {
            let (house, over) = (self.clone(), self.0.ending.over());
            tokio::spawn(async move {
                house.end().await;
                drop(over);
            });
        }
        self.0.ending.come().await;
    }

    async fn end(&self) {
        tokio::select! {
            biased;
            // Nobody is waited for longer than this.
            () = self.0.ending.time_is_up() => {}
            () = self.drained() => {}
        }
        let _ = Supervisor::shutdown(&self.0.root).await;
        self.0.services.tools.runtime.settled().await;
        if tokio::time::timeout(RULES, self.0.services.rules.settled()).await.is_err() {
            tracing::error!("rules that were to last are still being written down: they may be lost");
        }
        // Nobody comes back: whoever waits for an answer is told so, and whoever listens gets the end.
        self.0.services.close();
        self.0.stage.close();
        self.0.writers.close();
        let outputs = self.0.services.tools.outputs.clone();
        if outputs.have_passing() {
            let _ = self.0.services.threads.run(move || outputs.close()).await;
        }
        self.0.services.hub.end(CALLBACKS).await;
        if let Some(recorder) = &self.0.recorder {
            // What could not be kept has been logged.
            let _ = tokio::time::timeout(RECORDINGS, recorder.settle()).await;
        }
        self.0.store.close();
    }

    async fn drained(&self) {
        for agent in self.agents() {
            let mut events = agent.subscribe();
            if !agent.state().await.is_ok_and(|state| state.is_streaming) {
                continue;
            }
            while let Some(event) = events.next().await {
                if matches!(event.event, AgentEvent::AgentEnd { .. }) {
                    break;
                }
            }
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.0.services.threads.run(work).await {
            Ok(result) => result,
            Err(error) => Err(unused(&error)),
        }
    }
}

fn in_use(session: &SessionId, by: Occupant) -> StoreError {
    let agent = match by {
        Occupant::Agent(agent) | Occupant::Beneath(agent) => Some(agent),
        Occupant::House => None,
    };
    StoreError::InUse { session: session.clone(), agent }
}

/// What it means that work with the store was not done.
fn unused(error: &impl fmt::Display) -> StoreError {
    StoreError::Io { doing: "use it", place: "the store".into(), reason: error.to_string() }
}

/// A session in the hands of the house itself, until this is dropped.
#[derive(Debug)]
struct Hold {
    services: Arc<Services>,
    session: SessionId,
}

impl Hold {
    fn session(&self) -> &SessionId {
        &self.session
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.services.sessions.leave(&self.session, &Occupant::House);
    }
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").field("agents", &self.agents().len()).finish_non_exhaustive()
    }
}
