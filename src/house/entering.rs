//! Agents enter the stage: one for a session, and one at a time under an id.

use std::sync::Arc;
use std::time::Duration;

use playhouse_agent::actor::start;
use playhouse_agent::{AgentHandle, Definition, Identity, Occupant, Origin};
use playhouse_protocol::SessionId;
use playhouse_protocol::entry::{Opened, Wake};
use playhouse_session::StoreError;
use playhouse_supervision::{ChildSpec, RestartBudget, RestartPolicy, Shutdown, start_fn};

use super::House;
use crate::builder::SpawnError;

/// How long an agent may take to stop when it is asked to.
const STOP: Duration = Duration::from_secs(5);

/// An agent that is to enter the stage.
pub(crate) struct Newcomer {
    /// How its journal begins if there is none.
    pub opened: Opened,
    /// Its code.
    pub definition: Arc<Definition>,
    /// Whether its session may have a journal.
    pub origin: Origin,
    /// Whether someone wants it to go on though it is parked.
    pub wake: Wake,
}

impl House {
    /// Brings an agent on stage with its session, which nobody else in the house has; gives whoever has it already, if
    /// the session is a stored one. Once begun it is carried out, also when nobody waits for it any more.
    pub(crate) async fn take_on(&self, newcomer: Newcomer) -> Result<AgentHandle, SpawnError> {
        let house = self.clone();
        let entering = tokio::spawn(async move { house.bring_on(newcomer).await });
        // A runtime that ends takes the house along.
        entering.await.unwrap_or(Err(SpawnError::Closed))
    }

    async fn bring_on(&self, newcomer: Newcomer) -> Result<AgentHandle, SpawnError> {
        let opened = &newcomer.opened;
        let (agent_id, session, origin) = (opened.agent_id.clone(), opened.session_id.clone(), newcomer.origin);
        let sessions = &self.0.services.sessions;
        let own = Occupant::Agent(agent_id.clone());
        loop {
            let turn = self.0.turns.of(&agent_id).await;
            if self.0.services.agents.is_closing() {
                return Err(SpawnError::Closed);
            }
            if let Some(agent) = self.get(&agent_id) {
                let is_its = sessions.occupant(&session).is_some_and(|occupant| occupant == own);
                return if is_its && origin == Origin::Stored { Ok(agent) } else { Err(SpawnError::Taken(agent_id)) };
            }
            match sessions.occupy(&session, own.clone()) {
                Ok(()) => {
                    let entered = self.enter(newcomer).await;
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
    pub(super) async fn agent_that_has(&self, session: &SessionId, by: &Occupant) -> Option<AgentHandle> {
        let Occupant::Agent(agent_id) = by else { return None };
        let _turn = self.0.turns.of(agent_id).await;
        let agent = self.get(agent_id);
        if agent.is_none() {
            self.0.services.sessions.leave(session, by);
        }
        agent
    }

    /// Puts an agent on the roster and starts it; its session is its own.
    async fn enter(&self, newcomer: Newcomer) -> Result<AgentHandle, SpawnError> {
        let Newcomer { opened, definition, origin, wake } = newcomer;
        if origin == Origin::Named {
            self.must_be_new(&opened.session_id).await?;
        }
        let (asked, promises) = (opened.settings.durability, self.0.store.promises());
        if !promises.keeps(asked) {
            return Err(SpawnError::Durability { asked, strongest: promises.strongest });
        }
        let agent_id = opened.agent_id.clone();
        let identity = Arc::new(Identity::new(self.0.services.clone(), definition, opened, origin));
        if wake == Wake::Asked {
            identity.ask();
        }
        self.0.services.agents.expect(&agent_id);
        identity.enter();
        if let Err(error) = self.0.stage.add(agent_spec(&identity)).await {
            self.0.services.has_left(&agent_id);
            return Err(error.into());
        }
        Ok(AgentHandle::new(identity))
    }

    /// Refuses a session that has a journal.
    async fn must_be_new(&self, session: &SessionId) -> Result<(), SpawnError> {
        let (store, id) = (self.0.store.clone(), session.clone());
        match self.blocking(move || store.exists(&id)).await? {
            true => Err(SpawnError::SessionExists(session.clone())),
            false => Ok(()),
        }
    }
}

fn agent_spec(identity: &Arc<Identity>) -> ChildSpec {
    let identity = identity.clone();
    ChildSpec {
        id: identity.address.clone(),
        kind: "agent",
        // It ends by itself when someone else owns its session.
        restart: RestartPolicy::Transient,
        budget: RestartBudget::default(),
        shutdown: Shutdown::Stop(STOP),
        start: start_fn(move |above| {
            let identity = identity.clone();
            async move { start(&identity, above).await.map_err(|error| error.to_string()) }
        }),
    }
}
