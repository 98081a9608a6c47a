//! Going on with what another process left.

use std::sync::Arc;

use playhouse_agent::services::with_key;
use playhouse_agent::{AgentHandle, Definition, MissingState, Occupant, Origin};
use playhouse_protocol::entry::{Opened, Settings, Wake};
use playhouse_protocol::{Entry, EntryBody, Seq, SessionId};
use playhouse_session::{Branch, Damage, SessionSummary, StoreError, fold_chain};

use super::open::Making;
use super::{House, Newcomer};
use crate::builder::SpawnError;

/// Why a session could not be taken up.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The store could not read it, or refused to.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its first entry is gone.
    #[error("the journal of session `{0}` has lost its first entry, so what the session is cannot be told")]
    NotOpened(SessionId),
    /// Its journal has lost something.
    #[error(
        "the journal of session `{session}` is damaged ({damage}), and what was left to do cannot be told: look at it with `playhouse sessions show {session}`, go on as far as it goes with `playhouse resume {session} --accept-broken-chain`"
    )]
    Damaged {
        /// The session that was to go on.
        session: SessionId,
        /// What is wrong with it.
        damage: String,
    },
    /// Nobody registered its kind.
    #[error(
        "session `{session}` is of the kind `{kind}`, which this program does not have; register it with `House::builder().kind(…)`"
    )]
    MissingKind {
        /// The session that was to go on.
        session: SessionId,
        /// The kind that its journal names.
        kind: String,
    },
    /// Its kind's code cannot be made here.
    #[error("session `{session}` cannot go on: {reason}")]
    MissingPart {
        /// The session that was to go on.
        session: SessionId,
        /// What is missing, and what to do about it.
        reason: String,
    },
    /// It belongs to a sub-agent.
    #[error("session `{session}` belongs to a sub-agent; resume its parent `{parent}`")]
    Child {
        /// The session that was to go on.
        session: SessionId,
        /// The parent's session.
        parent: SessionId,
    },
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl House {
    /// Root sessions with something left to do that no live process holds, oldest first. Damaged ones are not among them:
    /// what was left to do in those cannot be told.
    pub async fn unfinished(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let mut sessions = self.sessions().await?;
        sessions
            .retain(|session| session.status.is_unfinished() && session.parent.is_none() && session.held_by.is_none());
        sessions.reverse();
        Ok(sessions)
    }

    /// Brings the agent of a stored session on stage; it goes on from its journal by itself. One that was parked because
    /// it crashed again and again stays so until it is told something, or [`House::unpark`] is called. One that is on
    /// stage already is given as it is, or goes on if it is parked.
    pub async fn resume(&self, session: &SessionId) -> Result<AgentHandle, ResumeError> {
        self.bring_back(session, Wake::Restarted).await
    }

    /// As [`House::resume`], for someone who wants this very session to go on, even if it was parked because it crashed
    /// again and again.
    pub async fn resume_parked(&self, session: &SessionId) -> Result<AgentHandle, ResumeError> {
        self.bring_back(session, Wake::Asked).await
    }

    async fn bring_back(&self, session: &SessionId, wake: Wake) -> Result<AgentHandle, ResumeError> {
        if let Some(by @ Occupant::Agent(_)) = self.0.services.sessions.occupant(session)
            && let Some(agent) = self.agent_that_has(session, &by).await
        {
            self.go_on(&agent).await;
            return Ok(agent);
        }
        let (opened, damage) = self.beginning(session).await?;
        if let Some(damage) = damage.iter().find(|damage| damage.kind.is_loss()) {
            return Err(ResumeError::Damaged { session: session.clone(), damage: damage.to_string() });
        }
        let opened = opened.ok_or_else(|| ResumeError::NotOpened(session.clone()))?;
        if opened.session_id != *session {
            let damage = format!("it is that of session `{}`", opened.session_id);
            return Err(ResumeError::Damaged { session: session.clone(), damage });
        }
        if let Some(parent) = &opened.spawned_by {
            let parent = parent.parent_session_id.clone();
            return Err(ResumeError::Child { session: session.clone(), parent });
        }
        let definition = match self.parts(session, &opened.settings).await {
            Ok(definition) => definition,
            Err(error) => {
                self.park_stored(session, &error.to_string()).await?;
                return Err(error);
            }
        };
        let newcomer = Newcomer { opened, definition: Arc::new(definition), origin: Origin::Stored, wake };
        Ok(self.take_on(newcomer).await?)
    }

    /// What the journal of a stored session holds, as far as it can be read.
    pub async fn entries(&self, session: &SessionId) -> Result<Vec<(Seq, Arc<Entry>)>, StoreError> {
        let (store, id) = (self.0.store.clone(), session.clone());
        self.blocking(move || store.read(&id, Seq::default())?.collect()).await
    }

    /// How a stored session begins, with the settings it has now.
    pub async fn opened(&self, session: &SessionId) -> Result<Opened, ResumeError> {
        let (opened, _) = self.beginning(session).await?;
        opened.ok_or_else(|| ResumeError::NotOpened(session.clone()))
    }

    /// How a stored session begins, with the settings it has now, and what is wrong with its journal.
    async fn beginning(&self, session: &SessionId) -> Result<(Option<Opened>, Vec<Damage>), StoreError> {
        self.fold(session, |opened: &mut Option<Opened>, entry, branch| match (&entry.body, opened, branch) {
            (EntryBody::Opened(first), opened, Branch::Main) => *opened = Some(first.as_ref().clone()),
            (EntryBody::Configured { settings, .. }, Some(opened), Branch::Main) => opened.settings = settings.clone(),
            _ => {}
        })
        .await
    }

    /// What `apply` makes of a stored session's journal, given one entry after the other, and what is wrong with it. It
    /// may begin anew with an empty value when there are side branches.
    pub async fn fold<S: Default + Send + 'static>(
        &self,
        session: &SessionId,
        apply: impl Fn(&mut S, &Arc<Entry>, Branch) + Send + 'static,
    ) -> Result<(S, Vec<Damage>), StoreError> {
        let (store, id) = (self.0.store.clone(), session.clone());
        self.blocking(move || {
            let (state, records) = fold_chain(|| store.read(&id, Seq::default()), apply)?;
            Ok((state, records.damage()))
        })
        .await
    }

    /// The session's code, when everything is there that it takes to go on: its kind, its tools' states, its model, its key.
    async fn parts(&self, session: &SessionId, settings: &Arc<Settings>) -> Result<Definition, ResumeError> {
        let definition = self.definition(session, settings).await?;
        let missing = |reason: String| ResumeError::MissingPart { session: session.clone(), reason };
        self.check_states(&definition).map_err(|error| missing(error.to_string()))?;
        if definition.provider_override.is_some() {
            return Ok(definition);
        }
        let (model, outside) = (with_key(settings.model.clone()), self.0.services.connections.outside.clone());
        match self.0.services.threads.run(move || outside.provider(&model).map(drop)).await {
            Ok(Ok(())) => Ok(definition),
            Ok(Err(error)) => Err(missing(error.to_string())),
            Err(error) => Err(missing(error.to_string())),
        }
    }

    async fn definition(&self, session: &SessionId, settings: &Arc<Settings>) -> Result<Definition, ResumeError> {
        let Some(making) = self.made_of_kind(settings) else {
            return Err(ResumeError::MissingKind { session: session.clone(), kind: settings.kind.clone() });
        };
        making.await.map_err(|reason| ResumeError::MissingPart { session: session.clone(), reason })
    }

    /// The code of the settings' kind, being made; `None` if nobody registered it.
    pub(crate) fn made_of_kind(&self, settings: &Arc<Settings>) -> Option<Making> {
        let make = self.0.kinds.get(&settings.kind).map(|make| make.value().clone())?;
        Some(make(settings.clone()))
    }

    /// Refuses an agent whose tools take states that neither it nor the house has.
    pub(crate) fn check_states(&self, definition: &Definition) -> Result<(), MissingState> {
        definition.check_states(&self.0.services.tools.states)
    }

    /// The kinds that are registered.
    pub(crate) fn kind_names(&self) -> Vec<String> {
        self.0.kinds.iter().map(|kind| kind.key().clone()).collect()
    }
}
