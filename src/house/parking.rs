//! Parking: an actor that cannot go on is visible as such and can be started again; an agent's journal says so too.

use std::sync::Arc;

use playhouse_agent::approvals::APPROVALS;
use playhouse_agent::identity::address;
use playhouse_agent::{AgentHandle, Identity, Occupant};
use playhouse_protocol::{AgentEvent, AgentId, EntryBody, Event, EventId, Seq, SessionId};
use playhouse_session::{Note, StoreError};
use playhouse_supervision::{Supervisor, SupervisorError};

use super::{Hold, House, in_use, unused};

impl House {
    /// A supervisor gave a child up: its address says so to everybody who waits for it, and an agent's journal as well.
    pub(super) fn parked(&self, id: &str, reason: String) {
        let services = &self.0.services;
        match id.split_once('/') {
            Some(("agent", agent_id)) => {
                let agent_id = AgentId::from(agent_id);
                services.agents.park(&agent_id, &reason);
                let Some(agent) = services.agents.get(&agent_id) else { return };
                let house = self.clone();
                tokio::spawn(async move { house.note_parked(&agent, reason).await });
            }
            Some(("writer", _)) => services.journals.park(id, &reason),
            Some(("connection", _)) => services.connections.park(id, &reason),
            Some(_) => {}
            // A supervisor takes along whoever it supervises.
            None => {
                let because = format!("`{id}` is parked: {reason}");
                match id {
                    "stage" => {
                        self.0.stage.park(&reason);
                        services.agents.park_all(&because);
                    }
                    "sessions" => {
                        self.0.writers.park(&reason);
                        services.journals.park_all(&because);
                    }
                    "providers" => {
                        services.connections.roster.park(&reason);
                        services.connections.park_all(&because);
                    }
                    APPROVALS => services.approvals.park(id, reason),
                    _ => {}
                }
            }
        }
    }

    /// An agent ended by itself: someone else owns its session now.
    pub(super) fn ended(&self, id: &str) {
        let Some(("agent", agent)) = id.split_once('/') else { return };
        let agent = AgentId::from(agent);
        if !self.0.services.agents.is_closing() && self.0.services.agents.get(&agent).is_some() {
            let house = self.clone();
            tokio::spawn(async move { house.take_off(&agent).await });
        }
    }

    /// Starts something again that is parked, with a fresh budget of restarts: an agent by its id, or anything else by
    /// its id in [`House::tree`], such as `writer/2`. Agents that were parked because of it go on when they are resumed
    /// or told something.
    pub async fn unpark(&self, id: impl AsRef<str>) -> Result<(), SupervisorError> {
        let id = id.as_ref();
        match id.split_once('/') {
            Some(("writer", _)) => self.0.writers.resume(id).await,
            Some(("connection", _)) => self.0.services.connections.roster.resume(id).await,
            Some(("agent", agent)) => self.unpark_agent(&agent.into()).await,
            None if matches!(id, "stage" | "sessions" | "providers" | APPROVALS) => {
                Supervisor::resume(&self.0.root, id).await.map(drop)
            }
            Some(_) | None => self.unpark_agent(&id.into()).await,
        }
    }

    async fn unpark_agent(&self, agent: &AgentId) -> Result<(), SupervisorError> {
        // A sub-agent's id is its session's; it goes on with the agent at the top of its tree.
        let beneath =
            SessionId::new(agent.as_str()).ok().and_then(|session| match self.0.services.sessions.occupant(&session) {
                Some(Occupant::Beneath(root)) => Some(root),
                Some(Occupant::Agent(_) | Occupant::House) | None => None,
            });
        let agent = beneath.unwrap_or_else(|| agent.clone());
        let Some(handle) = self.get(&agent) else { return Err(SupervisorError::Unknown { id: agent.to_string() }) };
        match self.go_on(&handle).await {
            true => Ok(()),
            false => Err(SupervisorError::NotParked { id: agent.to_string() }),
        }
    }

    /// Lets an agent on stage go on if it is parked, in whichever way; whether it was.
    pub(super) async fn go_on(&self, agent: &AgentHandle) -> bool {
        let _turn = self.0.turns.of(agent.id()).await;
        // One that parked itself is up, and is told; one that its supervisor gave up is started again.
        if !self.0.services.agents.is_up(agent.id()) {
            if let Some(identity) = self.0.services.agents.get(agent.id()) {
                identity.ask();
            }
            return self.0.stage.resume(&address(agent.id())).await.is_ok();
        }
        agent.go_on().await.unwrap_or(false)
    }

    async fn note_parked(&self, agent: &Arc<Identity>, reason: String) {
        let _turn = self.0.turns.of(&agent.agent_id).await;
        if self.0.services.agents.is_up(&agent.agent_id) {
            // It was started again before this was written down.
            return;
        }
        let session = agent.session();
        let note =
            Note { body: EntryBody::Parked { reason: reason.clone() }, at: Some(self.0.services.clock.now().wall) };
        match self.say(&session, note).await {
            Ok(Some(seq)) => agent.topic.publish(Event {
                id: EventId { seq, k: 0 },
                agent_id: agent.agent_id.clone(),
                session_id: session,
                loop_id: None,
                timestamp: jiff::Timestamp::now(),
                event: AgentEvent::Error { message: reason },
            }),
            Ok(None) => {}
            Err(error) => tracing::error!(%session, "the session is parked, and its journal does not say so: {error}"),
        }
    }

    /// Journals that a stored session cannot go on here, and lets go of it: another process may have what it takes. Once
    /// begun it is carried out, also when nobody waits for it any more.
    pub(super) async fn park_stored(&self, session: &SessionId, reason: &str) -> Result<(), StoreError> {
        let Ok(held) = self.hold(session) else {
            // Somebody else in this house is about to find out the same.
            return Ok(());
        };
        let at = Some(self.0.services.clock.now().wall);
        self.say_and_release(held, Note { body: EntryBody::Parked { reason: reason.to_owned() }, at }).await
    }

    /// Ends a stored session's journal with an entry that names the session in which its conversation goes on, so that
    /// nobody takes it up again. Once begun it is carried out, also when nobody waits for it any more.
    pub async fn name_successor(&self, session: &SessionId, successor: SessionId) -> Result<(), StoreError> {
        let held = self.hold(session).map_err(|by| in_use(session, by))?;
        self.say_and_release(held, Note { body: EntryBody::RotatedTo { session: successor }, at: None }).await
    }

    async fn say_and_release(&self, held: Hold, note: Note) -> Result<(), StoreError> {
        let house = self.clone();
        let said = tokio::spawn(async move {
            let said = house.say(held.session(), note).await;
            house.0.services.journals.release(held.session().clone());
            house.0.services.journals.settle(held.session()).await;
            said.map(drop)
        });
        said.await.unwrap_or_else(|error| Err(unused(&error)))
    }

    /// Has the session's writer append an entry, unless the journal ends with it already; `None` if nothing was written.
    async fn say(&self, session: &SessionId, note: Note) -> Result<Option<Seq>, StoreError> {
        self.0.services.journals.note(session, &note).await.unwrap_or_else(|absent| Err(unused(&absent)))
    }
}
