//! Which agent of a house has which session: one agent each, from when it enters the stage until it has left.
//!
//! Two agents that append to one journal would take each other's entries for repeats of their own. Whoever wants a
//! session asks here first; what an agent takes along (the sessions it was in before, those of its sub-agents) is kept
//! with it, so that nothing of it is left when it leaves.

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use playhouse_protocol::{AgentId, SessionId};

/// Who has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// An agent on stage, which is in it or was.
    Agent(AgentId),
    /// A sub-agent at any depth beneath this agent, at work or left by a crash.
    Beneath(AgentId),
    /// The house itself, which removes it or notes something in it.
    House,
}

/// The sessions that are in use, by whom.
#[derive(Debug, Default)]
pub struct Sessions {
    occupants: DashMap<SessionId, Occupant>,
    /// What an agent has beside the session it entered with. Most have nothing.
    more: DashMap<AgentId, Vec<SessionId>>,
}

impl Sessions {
    /// Takes a session, or says who has it.
    pub fn occupy(&self, session: &SessionId, by: Occupant) -> Result<(), Occupant> {
        match self.occupants.entry(session.clone()) {
            Entry::Occupied(place) => Err(place.get().clone()),
            Entry::Vacant(place) => {
                place.insert(by);
                Ok(())
            }
        }
    }

    /// Takes one more session for an agent that is on stage, or for a sub-agent of its; it may have it already.
    pub fn occupy_also(&self, agent: &AgentId, session: &SessionId, by: Occupant) -> Result<(), Occupant> {
        match self.occupy(session, by.clone()) {
            Ok(()) => {
                self.more.entry(agent.clone()).or_default().push(session.clone());
                Ok(())
            }
            Err(other) if other == by => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Who has a session.
    pub fn occupant(&self, session: &SessionId) -> Option<Occupant> {
        self.occupants.get(session).map(|occupant| occupant.clone())
    }

    /// Gives a session up, if it is still this one's.
    pub fn leave(&self, session: &SessionId, by: &Occupant) {
        if self.occupants.remove_if(session, |_, occupant| occupant == by).is_none() {
            return;
        }
        let (Occupant::Agent(agent) | Occupant::Beneath(agent)) = by else { return };
        if let Entry::Occupied(mut more) = self.more.entry(agent.clone()) {
            more.get_mut().retain(|other| other != session);
            if more.get().is_empty() {
                more.remove();
            }
        }
    }

    /// What an agent has beside the session it entered with, oldest first.
    pub fn more(&self, agent: &AgentId) -> Vec<(SessionId, Occupant)> {
        let sessions = self.more.get(agent).map(|more| more.clone()).unwrap_or_default();
        let with_occupant = |session: SessionId| self.occupant(&session).map(|occupant| (session, occupant));
        sessions.into_iter().filter_map(with_occupant).collect()
    }

    /// How many sessions are in use.
    pub fn len(&self) -> usize {
        self.occupants.len()
    }

    /// Whether no session is in use, and nothing of one is remembered.
    pub fn is_empty(&self) -> bool {
        self.occupants.is_empty() && self.more.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str) -> SessionId {
        SessionId::new(id).unwrap()
    }

    #[test]
    fn f53_a_session_has_one_occupant_at_a_time() {
        let sessions = Sessions::default();
        let (a, b) = (Occupant::Agent("a".into()), Occupant::Agent("b".into()));
        assert_eq!(sessions.occupy(&session("s"), a.clone()), Ok(()));
        assert_eq!(sessions.occupy(&session("s"), b.clone()), Err(a.clone()));
        assert_eq!(sessions.occupy(&session("s"), a.clone()), Err(a.clone()));
        sessions.leave(&session("s"), &b);
        assert_eq!(sessions.occupant(&session("s")), Some(a.clone()));
        sessions.leave(&session("s"), &a);
        assert_eq!(sessions.occupy(&session("s"), b), Ok(()));
    }

    #[test]
    fn f41_what_an_agent_takes_along_is_left_with_it() {
        let sessions = Sessions::default();
        let (agent, own) = (AgentId::from("a"), Occupant::Agent("a".into()));
        let beneath = Occupant::Beneath("a".into());
        sessions.occupy(&session("first"), own.clone()).unwrap();
        sessions.occupy_also(&agent, &session("second"), own.clone()).unwrap();
        sessions.occupy_also(&agent, &session("child"), beneath.clone()).unwrap();
        // A restarted parent takes up the same ones.
        sessions.occupy_also(&agent, &session("first"), own.clone()).unwrap();
        sessions.occupy_also(&agent, &session("child"), beneath.clone()).unwrap();
        let more = [(session("second"), own.clone()), (session("child"), beneath.clone())];
        assert_eq!(sessions.more(&agent), more);
        assert_eq!(sessions.occupy_also(&agent, &session("child"), own.clone()), Err(beneath));
        for (session, occupant) in more {
            sessions.leave(&session, &occupant);
        }
        sessions.leave(&session("first"), &own);
        assert!(sessions.is_empty());
    }
}
