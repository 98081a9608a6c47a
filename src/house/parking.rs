//! Parking: an agent that cannot go on is journaled as such, visible, and can be resumed.

use std::sync::Arc;

use playhouse_agent::Life;
use playhouse_protocol::{AgentEvent, Entry, EntryBody, Event, EventId, SessionId};
use playhouse_session::{Store, StoreError, Sync, Take};

use super::House;

impl House {
    /// The stage gave an agent up.
    pub(super) fn parked(&self, address: &str, reason: String) {
        let Some(agent_id) = address.strip_prefix("agent/") else { return };
        self.0.backstage.agents.park(agent_id, reason.as_str());
        let Some(life) = self.0.lives.get(&agent_id.into()).map(|life| life.value().clone()) else { return };
        let house = self.clone();
        tokio::spawn(async move { house.note_parked(&life, reason).await });
    }

    async fn note_parked(&self, life: &Arc<Life>, reason: String) {
        let session = life.session();
        self.settle(&session).await;
        match self.journal_parked(&session, &reason).await {
            Ok(Some(seq)) => life.topic.publish(Event {
                id: EventId { seq, k: 0 },
                agent_id: life.agent_id.clone(),
                session_id: session,
                loop_id: None,
                timestamp: jiff::Timestamp::now(),
                event: AgentEvent::Error { message: reason },
            }),
            Ok(None) => {}
            Err(error) => tracing::error!(%session, "the session is parked, and its journal does not say so: {error}"),
        }
    }

    /// Waits until everything that was sent to the session's writer is done.
    pub(super) async fn settle(&self, session: &SessionId) {
        let house = &self.0.backstage;
        let Ok(writer) = house.writers.live(&house.writer_of(session), None).await else { return };
        let _ = ractor::call!(writer, |reply| playhouse_session::WriterMsg::Settle { reply });
    }

    /// Journals that a stored session cannot go on here, and lets go of it: another process may have what it takes.
    pub(super) async fn park_stored(&self, session: &SessionId, reason: &str) -> Result<(), StoreError> {
        self.journal_parked(session, reason).await?;
        let (store, session) = (self.0.store.clone(), session.clone());
        self.blocking(move || store.release(&session)).await
    }

    /// Appends the entry, unless the journal says so already; `None` for a session that has no journal.
    async fn journal_parked(
        &self,
        session: &SessionId,
        reason: &str,
    ) -> Result<Option<playhouse_protocol::Seq>, StoreError> {
        let store: Arc<dyn Store> = match self.0.memory.has(session) {
            true => self.0.memory.clone(),
            false => self.0.store.clone(),
        };
        let (session, reason, at) = (session.clone(), reason.to_owned(), self.0.backstage.now().wall);
        self.blocking(move || {
            let loaded = store.load(&session, Take::Own)?;
            let Some((_, last)) = loaded.entries.last() else { return Ok(None) };
            if matches!(&last.body, EntryBody::Parked { reason: told } if *told == reason) {
                return Ok(None);
            }
            let entry = Entry {
                id: format!("{session}#parked{}", loaded.entries.len()).into(),
                loop_id: None,
                parent: Some(last.id.clone()),
                at,
                body: EntryBody::Parked { reason },
            };
            let seqs = store.append(&session, loaded.epoch, &[Arc::new(entry)], Sync::Disk)?;
            Ok(seqs.first().copied())
        })
        .await
    }
}
