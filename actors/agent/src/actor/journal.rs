//! The way to the journal: batches go to the session's writer, which is looked up, monitored and found again.

use std::sync::Arc;

use playhouse_protocol::{Batch, CommitReport, Fate, Refusal, SessionId};
use playhouse_session::WriterMsg;
use playhouse_supervision::Task;
use ractor::{ActorId, ActorRef};

use super::state::{Lifecycle, State};
use crate::identity::Loss;
use crate::machine::{Effect, InputError, Report};
use crate::mailbox::AgentMsg;

impl State {
    pub(super) fn append(&mut self, session: SessionId, batch: Batch) {
        let Lifecycle::Live(machine) = &self.lifecycle else { return };
        let durability = machine.durable().settings.durability;
        if session != machine.durable().session_id
            && let Err(error) = self.identity.occupy(&session)
        {
            let (batch, fate, refusal) = (batch.number, Fate::NotWritten, Refusal::Broken);
            let report = CommitReport::Failed { session, batch, error, fate, refusal };
            let _ = self.myself.cast(AgentMsg::Commit(report));
            return;
        }
        let reply = self.myself.get_derived::<CommitReport>();
        let address = self.identity.services.journals.address(&session);
        let known =
            self.work().writers.iter().find(|(known, _)| *known == address).map(|(_, writer)| writer.actor().clone());
        let writer = match known {
            // A writer that died meanwhile is noticed by its monitor, and everything is sent again.
            Some(writer) => writer,
            // When it is found, everything is sent again; what is sent before that would be written out of order.
            None if self.work().writer_searches.iter().any(|(searched, _)| *searched == address) => return,
            None => match self.identity.services.journals.writers.get(&address).and_then(|writer| self.watch(writer)) {
                Some(watched) => {
                    let writer = watched.actor().clone();
                    self.work().writers.push((address, watched));
                    writer
                }
                None => return self.find_writer(address, None),
            },
        };
        let _ = writer.cast(WriterMsg::Append { session, durability, batch, reply });
    }

    pub(super) fn find_writer(&mut self, address: Arc<str>, not: Option<ActorId>) {
        let (writers, myself) = (self.identity.services.journals.writers.clone(), self.myself.clone());
        self.work().writer_searches.retain(|(searched, _)| *searched != address);
        let search = Task::spawn({
            let address = address.clone();
            async move {
                let writer = writers.live(&address, not).await.map_err(|absent| absent.to_string());
                let _ = myself.cast(AgentMsg::WriterIs { address, writer });
            }
        });
        self.work().writer_searches.push((address, search));
    }

    pub(super) fn writer_is(&mut self, address: Arc<str>, writer: Result<ActorRef<WriterMsg>, String>) {
        self.work().writer_searches.retain(|(searched, _)| *searched != address);
        let writer = match (writer, &self.lifecycle) {
            (Ok(writer), _) => writer,
            (Err(absent), Lifecycle::Live(machine)) if !machine.is_at_rest() => {
                return self.park(format!("the journal cannot be written: its writer: {absent}"));
            }
            // Nothing waits for it; whatever is to be written next looks again.
            (Err(_), Lifecycle::Live(_) | Lifecycle::Recovering { .. } | Lifecycle::Parked { .. }) => return,
        };
        let id = writer.get_id();
        match self.watch(writer) {
            Some(watched) => {
                self.work().writers.retain(|(known, _)| *known != address);
                self.work().writers.push((address, watched));
                self.feed(Report::WriterLost);
            }
            None => self.find_writer(address, Some(id)),
        }
    }

    pub(super) fn commit_report(&mut self, report: CommitReport) {
        match report {
            CommitReport::Committed { batch, seqs, .. } => self.feed(Report::Committed { batch, seqs }),
            CommitReport::Failed { session, batch, error, fate, refusal: Refusal::Broken } => {
                self.feed(Report::CommitFailed { batch, error, fate });
                if session != self.identity.session() {
                    // It was not changed to.
                    self.identity.services.sessions.leave(&session, &self.identity.occupant());
                }
            }
            CommitReport::Failed { batch, error, fate, refusal: Refusal::Fenced, .. } => {
                let Lifecycle::Live(machine) = &mut self.lifecycle else { return };
                // Before anyone hears that something was not journaled: it is not to be mended here.
                self.identity.lost(Loss::TakenOver(error.as_str().into()));
                let now = self.identity.services.clock.now();
                let mut effects = machine.report(now, Report::CommitFailed { batch, error: error.clone(), fate });
                // What became of its inputs is told; to park is for one who may go on.
                effects.retain(|effect| !matches!(effect, Effect::Park { .. }));
                for effect in &mut effects {
                    if let Effect::Refuse { error: refused @ InputError::NotJournaled(_), .. } = effect {
                        *refused = InputError::TakenOver(error.clone());
                    }
                }
                self.carry_out(effects);
                self.leave(error);
            }
        }
    }

    pub(super) fn rotated(&mut self, to: SessionId) {
        let old = self.identity.session();
        self.identity.move_to(to);
        let address = self.identity.services.journals.address(&old);
        if let Some(at) = self.work().writers.iter().position(|(known, _)| *known == address) {
            let (_, writer) = self.work().writers.swap_remove(at);
            let _ = writer.actor().cast(WriterMsg::Release { session: old });
        }
    }
}
