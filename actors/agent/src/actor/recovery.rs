//! Folding the journal. It waits for the store, so it is a task that reports the folded machine.

use std::sync::Arc;

use playhouse_protocol::entry::Wake;
use playhouse_protocol::{Event, EventId, InputId, Seq, SessionId};
use playhouse_session::{Failure, Loaded, WriterMsg};
use playhouse_supervision::finish;
use ractor::ActorRef;

use super::life::{Life, Loss};
use super::msg::AgentMsg;
use super::state::{Stage, State};
use crate::backstage::Lease;
use crate::machine::events::replay;
use crate::machine::{InputError, Journal, Machine, Report};
use crate::task::Task;

/// A folded machine, ready to go on.
#[derive(Debug)]
pub struct Recovery {
    machine: Machine,
    reason: &'static str,
    wake: Wake,
    lease: Option<Lease>,
    /// The number of the journal's last entry.
    last: Seq,
    /// What the last incarnation had journaled and did not live to tell.
    untold: Vec<Event>,
}

/// Why a journal did not give a machine to go on with.
#[derive(Debug)]
pub enum NoRecovery {
    /// Something has to be mended first: the agent parks.
    Parks(String),
    /// Someone else has the session: the agent leaves it.
    Leaves(String),
}

impl From<String> for NoRecovery {
    fn from(reason: String) -> Self {
        Self::Parks(reason)
    }
}

impl State {
    /// Folds the journal; what arrives meanwhile is held.
    pub(super) fn recover(&mut self, reason: &'static str, wake: Wake) {
        let (life, myself) = (self.life.clone(), self.myself.clone());
        let work = Task::spawn(async move {
            if let Some(predecessor) = life.take_predecessor() {
                // Without a timeout, waiting cannot fail.
                let _ = predecessor.wait(None).await;
            }
            let outcome = fold(&life, reason, wake).await;
            // An agent that is dead by now does not need it.
            let _ = myself.cast(AgentMsg::Recovered(Box::new(outcome)));
        });
        self.stage = Stage::Recovering { held: Vec::new(), _work: Some(work) };
        self.show();
    }

    pub(super) fn recovered(&mut self, outcome: Result<Recovery, NoRecovery>) {
        let Stage::Recovering { held, .. } = &mut self.stage else { return };
        let held = std::mem::take(held);
        match outcome {
            Ok(Recovery { mut machine, reason, wake, lease, last, untold }) => {
                if let Some(lease) = lease {
                    self.life.lease(lease);
                }
                for event in untold {
                    self.life.topic.publish(event);
                }
                machine.count_on(self.numbers);
                self.life.take_up(machine.durable().session_id.clone(), last);
                self.ended = machine.durable().ended.clone();
                self.work().orphans = machine.durable().children_under_way();
                if wake == Wake::Asked {
                    // Whoever wants it to go on wants its sub-agents to.
                    self.work().asked = machine.durable().children_under_way();
                }
                let open = machine.durable().open_input().cloned();
                let effects = machine.recover(self.life.backstage.now(), reason, wake);
                self.stage = Stage::Live(Box::new(machine));
                // If it parks, everybody is told so.
                self.carry_out(effects);
                if let Stage::Parked { reason } = &self.stage {
                    if !held.iter().any(|msg| matches!(msg, AgentMsg::Unpark { .. })) {
                        return refuse(held, &InputError::Parked(reason.clone()));
                    }
                    self.recover("unparked", Wake::Asked);
                    for msg in held {
                        match msg {
                            AgentMsg::Unpark { reply } => drop(reply.send(Ok(true))),
                            other => self.hold(other),
                        }
                    }
                    return;
                }
                self.answer_late_waiters(open.as_ref());
                for msg in held {
                    match msg {
                        AgentMsg::Submit { command, permit, reply } => self.submit(command, permit, reply),
                        other => drop(self.myself.cast(other)),
                    }
                }
                self.show();
            }
            Err(NoRecovery::Parks(reason)) => {
                refuse(held, &InputError::Parked(reason.clone()));
                self.park(reason);
            }
            Err(NoRecovery::Leaves(reason)) => {
                self.life.lost(Loss::TakenOver);
                refuse(held, &InputError::TakenOver(reason.clone()));
                self.leave(reason);
            }
        }
    }

    /// Tells those who waited during recovery how their runs ended, unless theirs goes on.
    fn answer_late_waiters(&mut self, open: Option<&InputId>) {
        for (input_id, waiting) in std::mem::take(&mut self.work().waiters) {
            if Some(&input_id) == open {
                self.work().waiters.insert(input_id, waiting);
                continue;
            }
            for reply in waiting {
                let _ = reply.send(self.ended_run(&input_id));
            }
        }
    }

    /// Drops everything that is under way and waits to be told something.
    pub(super) fn park(&mut self, reason: String) {
        self.drop_all(&reason, &InputError::Parked(reason.clone()));
        self.stage = Stage::Parked { reason };
        self.show();
    }

    /// Drops everything that is under way and ends: someone else owns the session, and it is not taken back.
    pub(super) fn leave(&mut self, reason: String) {
        tracing::warn!(agent = %self.life.agent_id, "{reason}");
        self.life.lost(Loss::TakenOver);
        self.drop_all(&reason, &InputError::TakenOver(reason.clone()));
        self.stage = Stage::Parked { reason };
        if self.life.is_root() {
            finish(&self.myself.get_cell());
        }
    }

    /// Drops everything that is under way and tells those who wait why.
    fn drop_all(&mut self, reason: &str, error: &InputError) {
        self.drop_flight();
        // What has not been answered may be on its way into the journal.
        for (input_id, replies) in self.work().replies.drain() {
            for (reply, _permit) in replies {
                let error = InputError::OutcomeUnknown { input_id: input_id.clone(), reason: reason.to_owned() };
                let _ = reply.send(Err(error));
            }
        }
        for reply in self.work().resting.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
        for reply in self.work().waiters.drain().flat_map(|(_, waiting)| waiting) {
            let _ = reply.send(Err(error.clone()));
        }
        if let Stage::Live(machine) = &self.stage {
            self.numbers = machine.numbers();
        }
    }

    /// Tells the machine what happened, and does what follows.
    pub(super) fn feed(&mut self, report: Report) {
        let Stage::Live(machine) = &mut self.stage else { return };
        let effects = machine.report(self.life.backstage.now(), report);
        self.carry_out(effects);
    }
}

/// Tells those who waited that the agent does not go on.
fn refuse(held: Vec<AgentMsg>, error: &InputError) {
    for msg in held {
        let error = error.clone();
        match msg {
            AgentMsg::Submit { reply, .. } => drop(reply.send(Err(error))),
            AgentMsg::Look { reply, .. } => drop(reply.send(Err(error))),
            AgentMsg::AwaitRest { reply } => drop(reply.send(Err(error))),
            AgentMsg::Unpark { reply } => drop(reply.send(Err(error))),
            // Nothing else is held.
            _ => {}
        }
    }
}

async fn fold(life: &Arc<Life>, reason: &'static str, wake: Wake) -> Result<Recovery, NoRecovery> {
    let mut session = life.session();
    let (mut told, mut untold) = (life.told(&session), Vec::new());
    loop {
        let loaded = load(life, &session).await?;
        let journal = if loaded.damage.is_empty() { Journal::Whole } else { Journal::Damaged };
        for damage in &loaded.damage {
            tracing::warn!(%session, "{damage}");
        }
        if let Some(damage) = loaded.damage.iter().find(|damage| damage.kind.is_loss()) {
            // What was done can only be told from the journal, and nobody is here to accept the loss.
            life.lost(Loss::Damaged);
            return Err(format!("the journal of session `{session}` is damaged ({damage})").into());
        }
        if loaded.entries.is_empty() {
            let mut opened = life.opened.as_ref().clone();
            opened.session_id = session;
            let setup = life.setup(&opened.settings, |model| life.model(model));
            let machine = Machine::new(opened, setup);
            return Ok(Recovery { machine, reason, wake, lease: None, last: Seq::default(), untold });
        }
        let last = loaded.entries.last().map(|(seq, _)| *seq).unwrap_or_default();
        let entries = || loaded.entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
        if told.is_some_and(|told| told.seq <= last) {
            untold.extend(replay(entries(), told).map_err(|error| error.to_string())?);
        }
        let placeholder = life.setup(&life.opened.settings, Arc::clone);
        let mut machine = Machine::fold(entries(), placeholder, journal).map_err(|error| error.to_string())?;
        if let (Some(parent), true) = (&machine.durable().spawned_by, life.is_root()) {
            let parent = &parent.parent_session_id;
            return Err(format!("session `{session}` belongs to a sub-agent: go on with its parent `{parent}`").into());
        }
        if let Some(next) = machine.durable().rotated_to.clone() {
            life.occupy(&next)?;
            session = next;
            told = told.map(|_| EventId::default());
            continue;
        }
        let setup = life.setup(&machine.durable().settings, |model| life.model(model));
        machine.set_setup(setup);
        let model = life.model(machine.durable().model());
        let unfinished = machine.durable().is_unfinished();
        let lease = match unfinished {
            true => Some(life.backstage.connect(&model, life.definition.provider_override.clone()).await?),
            false => None,
        };
        return Ok(Recovery { machine, reason, wake, lease, last, untold });
    }
}

/// Reads the journal through its writer, after everything that an earlier incarnation sent there.
async fn load(life: &Arc<Life>, session: &SessionId) -> Result<Loaded, NoRecovery> {
    let house = &life.backstage;
    let address = house.writer_of(session);
    let mut not = None;
    loop {
        let writer: ActorRef<WriterMsg> = house
            .writers
            .live(&address, not)
            .await
            .map_err(|absent| NoRecovery::Parks(format!("the journal's writer cannot be reached: {absent}")))?;
        let (session, id) = (session.clone(), writer.get_id());
        match ractor::call!(writer, |reply| WriterMsg::Load { session, reply }) {
            Ok(loaded) => {
                return loaded.map_err(|error| match error.failure() {
                    Failure::Fenced => NoRecovery::Leaves(error.to_string()),
                    Failure::Away | Failure::Broken => NoRecovery::Parks(error.to_string()),
                });
            }
            Err(_) => not = Some(id),
        }
    }
}
