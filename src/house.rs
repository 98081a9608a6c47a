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
mod open;
mod parking;
mod resume;
mod secrets;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use playhouse_agent::actor::{Origin, address, start};
use playhouse_agent::hub::RING;
use playhouse_agent::{
    Agent, AgentHandle, ApprovalsHandle, Backstage, Definition, EventsError, HandleError, Life, Occupant, Roster,
    Scope, Subscription, events_after,
};
use playhouse_protocol::entry::{Opened, Settings, Wake};
use playhouse_protocol::{AgentEvent, AgentId, Durability, Event, EventId, SessionId};
use playhouse_provider::Recorder;
use playhouse_session::{Observer, Observers, SessionSummary, Store, StoreError};
use playhouse_supervision::{
    ChildSpec, NodeSnapshot, RestartBudget, RestartPolicy, Shutdown, Supervisor, SupervisorMsg, TreeNode, start_fn,
};
use ractor::ActorRef;
use tokio::sync::watch;

pub use open::{HouseBuilder, KindFn, OpenError};
pub use resume::ResumeError;
pub use secrets::environment_secrets;

use crate::builder::{AgentBuilder, SpawnError};
use ending::Ending;
use turns::Turns;

/// How long an agent may take to stop when it is asked to.
const STOP: Duration = Duration::from_secs(5);
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
    backstage: Arc<Backstage>,
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
        self.0.backstage.lives().into_iter().filter(|life| life.is_root()).map(AgentHandle::new).collect()
    }

    /// The agent or sub-agent with this id, if it is on stage. A sub-agent's id is its session's.
    pub fn get(&self, agent: &AgentId) -> Option<AgentHandle> {
        self.0.backstage.life(agent).map(AgentHandle::new)
    }

    /// Everything alive, as seen at this moment.
    pub fn tree(&self) -> Vec<NodeSnapshot> {
        self.0.backstage.tree.snapshot()
    }

    /// Listens to every agent of the house, sub-agents included, from here on.
    pub fn subscribe(&self) -> Subscription {
        self.0.backstage.hub.house().subscribe(RING, Scope::Tree)
    }

    /// Hears which sessions have something new in their journals, from here on. Nobody waits for it, however slow it is.
    pub fn commits(&self) -> Observer {
        self.0.observers.observe()
    }

    /// The events of a session that come after `after`, from its journal. Pieces of messages are in no journal.
    pub async fn events(&self, session: &SessionId, after: Option<EventId>) -> Result<Vec<Arc<Event>>, EventsError> {
        events_after(&self.0.backstage.journals, session, after).await
    }

    /// The inbox of questions for permission, of agents with [`Approvals::Inbox`](playhouse_agent::Approvals::Inbox).
    pub fn approvals(&self) -> ApprovalsHandle {
        ApprovalsHandle::new(self.0.backstage.approvals.clone(), self.0.changes.subscribe())
    }

    /// What all agents share.
    pub fn backstage(&self) -> &Arc<Backstage> {
        &self.0.backstage
    }

    /// Makes the actor of an agent or sub-agent fail as a bug would; its supervisor brings it back. For tests and
    /// demonstrations.
    pub async fn crash(&self, agent: &AgentId) -> Result<(), HandleError> {
        Ok(self.0.backstage.agents.crash(agent.as_str()).await?)
    }

    /// Takes an agent off the stage, with all that is beneath it. What its journal holds can be resumed. Once begun it is
    /// carried out, also when nobody waits for it any more.
    pub async fn dismiss(&self, agent: &AgentId) {
        let (house, agent) = (self.clone(), agent.clone());
        let _ = tokio::spawn(async move { house.take_off(&agent).await }).await;
    }

    async fn take_off(&self, agent: &AgentId) {
        let _turn = self.0.turns.of(agent).await;
        let stage = &self.0.backstage;
        let Some(life) = stage.life(agent).filter(|life| life.is_root()) else { return };
        self.0.stage.remove(&address(agent)).await;
        stage.has_left(agent);
        life.let_go();
        life.leave();
        let entered_with = (life.opened.session_id.clone(), life.occupant());
        for (session, occupant) in stage.sessions.more(agent).into_iter().chain([entered_with]) {
            if let Occupant::Beneath(_) = &occupant {
                // A sub-agent that was at work, or what a crash left of one; its id is its session's.
                stage.has_left(&session.as_str().into());
            }
            match life.opened.settings.durability {
                Durability::None => stage.removed(session.clone()).await,
                Durability::Flush | Durability::Os => {
                    stage.release(session.clone());
                    // Whoever takes it up next must not be overtaken by this.
                    self.settle(&session).await;
                }
            }
            stage.sessions.leave(&session, &occupant);
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
        let backstage = self.0.backstage.clone();
        backstage.sessions.occupy(session, Occupant::House)?;
        Ok(Hold { backstage, session: session.clone() })
    }

    /// Ends the house: admits nothing new, gives running agents `drain` to finish, then stops everything in order.
    /// A run that is not done by then stays in its journal, to be resumed, by another house of this process too.
    ///
    /// Once begun it is carried out, also when nobody waits for it any more. Called again it waits for the same end, and
    /// brings that forward if its `drain` is over sooner.
    pub async fn shutdown(&self, drain: Duration) {
        self.0.backstage.begin_closing();
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
        self.0.backstage.tools.settled().await;
        if tokio::time::timeout(RULES, self.0.backstage.lasting.settled()).await.is_err() {
            tracing::error!("rules that were to last are still being written down: they may be lost");
        }
        // Nobody comes back: whoever waits for an answer is told so, and whoever listens gets the end.
        self.0.backstage.close();
        self.0.stage.close();
        self.0.writers.close();
        if self.0.backstage.outputs.have_passing() {
            let outputs = self.0.backstage.outputs.clone();
            let _ = self.0.backstage.threads.run(move || outputs.close()).await;
        }
        self.0.backstage.hub.end(CALLBACKS).await;
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

    /// Brings an agent on stage with its session, which nobody else in the house has; gives whoever has it already, if
    /// the session is a stored one. Once begun it is carried out, also when nobody waits for it any more.
    pub(crate) async fn take_on(
        &self,
        opened: Opened,
        definition: Arc<Definition>,
        origin: Origin,
        wake: Wake,
    ) -> Result<AgentHandle, SpawnError> {
        let house = self.clone();
        let entering = tokio::spawn(async move { house.bring_on(opened, definition, origin, wake).await });
        // A runtime that ends takes the house along.
        entering.await.unwrap_or(Err(SpawnError::Closed))
    }

    async fn bring_on(
        &self,
        opened: Opened,
        definition: Arc<Definition>,
        origin: Origin,
        wake: Wake,
    ) -> Result<AgentHandle, SpawnError> {
        let (agent_id, session) = (opened.agent_id.clone(), opened.session_id.clone());
        let sessions = &self.0.backstage.sessions;
        let own = Occupant::Agent(agent_id.clone());
        loop {
            let turn = self.0.turns.of(&agent_id).await;
            if self.0.backstage.is_closing() {
                return Err(SpawnError::Closed);
            }
            if let Some(agent) = self.get(&agent_id) {
                let is_its = sessions.occupant(&session).is_some_and(|occupant| occupant == own);
                return if is_its && origin == Origin::Stored { Ok(agent) } else { Err(SpawnError::Taken(agent_id)) };
            }
            match sessions.occupy(&session, own.clone()) {
                Ok(()) => {
                    let entered = self.enter(opened, definition, origin, wake).await;
                    if entered.is_err() {
                        sessions.leave(&session, &own);
                    }
                    return entered;
                }
                Err(by @ Occupant::Agent(_)) => {
                    drop(turn);
                    match (self.agent_that_has(&session, &by).await, origin) {
                        (Some(agent), Origin::Stored) => return Ok(agent),
                        (Some(agent), Origin::New | Origin::Named) => {
                            return Err(SpawnError::SessionTaken { session, agent: agent.id().clone() });
                        }
                        (None, _) => {}
                    }
                }
                Err(Occupant::Beneath(agent)) => return Err(SpawnError::SubAgent { session, agent }),
                Err(Occupant::House) => return Err(StoreError::InUse { session, agent: None }.into()),
            }
        }
    }

    /// The agent that has a session, once it has entered the stage; `None` when it has left.
    async fn agent_that_has(&self, session: &SessionId, by: &Occupant) -> Option<AgentHandle> {
        let Occupant::Agent(agent_id) = by else { return None };
        let _turn = self.0.turns.of(agent_id).await;
        let agent = self.get(agent_id);
        if agent.is_none() {
            self.0.backstage.sessions.leave(session, by);
        }
        agent
    }

    /// Puts an agent on the roster and starts it; its session is its own.
    async fn enter(
        &self,
        opened: Opened,
        definition: Arc<Definition>,
        origin: Origin,
        wake: Wake,
    ) -> Result<AgentHandle, SpawnError> {
        if origin == Origin::Named {
            self.must_be_new(&opened.session_id).await?;
        }
        let (asked, promises) = (opened.settings.durability, self.0.store.promises());
        if !promises.keeps(asked) {
            return Err(SpawnError::Durability { asked, strongest: promises.strongest });
        }
        let agent_id = opened.agent_id.clone();
        let life = Arc::new(Life::new(self.0.backstage.clone(), definition, opened, origin));
        if wake == Wake::Asked {
            life.ask();
        }
        self.0.backstage.agents.expect(agent_id.shared());
        life.enter();
        if let Err(error) = self.0.stage.add(agent_spec(&life)).await {
            self.0.backstage.has_left(&agent_id);
            return Err(error.into());
        }
        Ok(AgentHandle::new(life))
    }

    /// Refuses a session that has a journal.
    async fn must_be_new(&self, session: &SessionId) -> Result<(), SpawnError> {
        let (store, id) = (self.0.store.clone(), session.clone());
        match self.blocking(move || store.exists(&id)).await? {
            true => Err(SpawnError::SessionExists(session.clone())),
            false => Ok(()),
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.0.backstage.threads.run(work).await {
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
    backstage: Arc<Backstage>,
    session: SessionId,
}

impl Hold {
    fn session(&self) -> &SessionId {
        &self.session
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.backstage.sessions.leave(&self.session, &Occupant::House);
    }
}

fn agent_spec(life: &Arc<Life>) -> ChildSpec {
    let life = life.clone();
    ChildSpec {
        id: life.address.clone(),
        kind: "agent",
        // It ends by itself when someone else owns its session.
        restart: RestartPolicy::Transient,
        budget: RestartBudget::default(),
        shutdown: Shutdown::Stop(STOP),
        start: start_fn(move |above| {
            let life = life.clone();
            async move { start(&life, above).await.map_err(|error| error.to_string()) }
        }),
    }
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").field("agents", &self.agents().len()).finish_non_exhaustive()
    }
}
