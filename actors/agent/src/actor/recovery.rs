//! Folding the journal. It waits for the store, so it is a task that reports the folded machine.

use std::sync::Arc;

use playhouse_protocol::entry::Wake;
use playhouse_protocol::{EventId, InputId, Seq, SessionId};
use playhouse_session::{Failure, Loaded, WriterMsg};
use playhouse_supervision::{Task, finish};

use super::state::{Lifecycle, State};
use crate::identity::{Identity, Loss};
use crate::machine::events::replay;
use crate::machine::{Holes, InputError, Machine, Report};
use crate::mailbox::{AgentMsg, NoRecovery, Recovery};

impl State {
    /// Folds the journal; what arrives meanwhile is held.
    pub(super) fn recover(&mut self, reason: &'static str, wake: Wake) {
        let (identity, myself) = (self.identity.clone(), self.myself.clone());
        let work = Task::spawn(async move {
            if let Some(predecessor) = identity.take_predecessor() {
                // Without a timeout, waiting cannot fail.
                let _ = predecessor.wait(None).await;
            }
            let outcome = fold(&identity, reason, wake).await;
            // An agent that is dead by now does not need it.
            let _ = myself.cast(AgentMsg::Recovered(Box::new(outcome)));
        });
        self.lifecycle = Lifecycle::Recovering { held: Vec::new(), _work: Some(work) };
        self.show();
    }

    pub(super) fn recovered(&mut self, outcome: Result<Recovery, NoRecovery>) {
        let Lifecycle::Recovering { held, .. } = &mut self.lifecycle else { return };
        let held = std::mem::take(held);
        match outcome {
            Ok(Recovery { mut machine, reason, wake, lease, last, untold }) => {
                if let Some(lease) = lease {
                    self.identity.lease(lease);
                }
                for event in untold {
                    self.identity.topic.publish(event);
                }
                machine.count_on(self.numbers);
                self.identity.take_up(machine.durable().session_id.clone(), last);
                self.ended = machine.durable().ended.clone();
                self.work().orphans = machine.durable().children_under_way();
                if wake == Wake::Asked {
                    // Whoever wants it to go on wants its sub-agents to.
                    self.work().asked = machine.durable().children_under_way();
                }
                let open = machine.durable().open_input().cloned();
                let effects = machine.recover(self.identity.services.clock.now(), reason, wake);
                self.lifecycle = Lifecycle::Live(Box::new(machine));
                // If it parks, everybody is told so.
                self.carry_out(effects);
                if let Lifecycle::Parked { reason } = &self.lifecycle {
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
                self.identity.lost(Loss::TakenOver(reason.as_str().into()));
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
        self.lifecycle = Lifecycle::Parked { reason };
        self.show();
    }

    /// Drops everything that is under way and ends: someone else owns the session, and it is not taken back.
    pub(super) fn leave(&mut self, reason: String) {
        tracing::warn!(agent = %self.identity.agent_id, "{reason}");
        self.identity.lost(Loss::TakenOver(reason.as_str().into()));
        self.drop_all(&reason, &InputError::TakenOver(reason.clone()));
        self.lifecycle = Lifecycle::Parked { reason };
        if self.identity.is_root() {
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
        if let Lifecycle::Live(machine) = &self.lifecycle {
            self.numbers = machine.numbers();
        }
    }

    /// Tells the machine what happened, and does what follows.
    pub(super) fn feed(&mut self, report: Report) {
        let Lifecycle::Live(machine) = &mut self.lifecycle else { return };
        let effects = machine.report(self.identity.services.clock.now(), report);
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

async fn fold(identity: &Arc<Identity>, reason: &'static str, wake: Wake) -> Result<Recovery, NoRecovery> {
    let mut session = identity.session();
    let (mut told, mut untold) = (identity.told(&session), Vec::new());
    loop {
        let loaded = load(identity, &session).await?;
        let journal = if loaded.damage.is_empty() { Holes::None } else { Holes::Possible };
        for damage in &loaded.damage {
            tracing::warn!(%session, "{damage}");
        }
        if let Some(damage) = loaded.damage.iter().find(|damage| damage.kind.is_loss()) {
            // What was done can only be told from the journal, and nobody is here to accept the loss.
            identity.lost(Loss::Damaged);
            return Err(format!("the journal of session `{session}` is damaged ({damage})").into());
        }
        if loaded.entries.is_empty() {
            let mut opened = identity.opened.as_ref().clone();
            opened.session_id = session;
            let setup = identity.setup(&opened.settings, |model| identity.model(model));
            let machine = Machine::new(opened, setup);
            return Ok(Recovery { machine, reason, wake, lease: None, last: Seq::default(), untold });
        }
        let last = loaded.entries.last().map(|(seq, _)| *seq).unwrap_or_default();
        let entries = || loaded.entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
        if told.is_some_and(|told| told.seq <= last) {
            untold.extend(replay(entries(), told).map_err(|error| error.to_string())?);
        }
        let placeholder = identity.setup(&identity.opened.settings, Arc::clone);
        let mut machine = Machine::fold(entries(), placeholder, journal).map_err(|error| error.to_string())?;
        if machine.durable().session_id != session {
            let other = &machine.durable().session_id;
            identity.lost(Loss::Damaged);
            return Err(
                format!("what is kept as the journal of session `{session}` is that of session `{other}`").into()
            );
        }
        if let (Some(parent), true) = (&machine.durable().spawned_by, identity.is_root()) {
            let parent = &parent.parent_session_id;
            return Err(format!("session `{session}` belongs to a sub-agent: go on with its parent `{parent}`").into());
        }
        if let Some(next) = machine.durable().rotated_to.clone() {
            identity.occupy(&next)?;
            session = next;
            told = told.map(|_| EventId::default());
            continue;
        }
        let setup = identity.setup(&machine.durable().settings, |model| identity.model(model));
        machine.set_setup(setup);
        let model = identity.model(machine.durable().model());
        let unfinished = machine.durable().is_unfinished();
        let lease = match unfinished {
            true => Some(
                identity.services.connections.connect(&model, identity.definition.provider_override.clone()).await?,
            ),
            false => None,
        };
        return Ok(Recovery { machine, reason, wake, lease, last, untold });
    }
}

/// Reads the journal through its writer, after everything that an earlier incarnation sent there.
async fn load(identity: &Arc<Identity>, session: &SessionId) -> Result<Loaded, NoRecovery> {
    let load = |reply| WriterMsg::Load { session: session.clone(), reply };
    let loaded = identity.services.journals.ask(session, load).await;
    let loaded = loaded.map_err(|absent| format!("the journal's writer cannot be reached: {absent}"))?;
    loaded.map_err(|error| match error.failure() {
        Failure::Fenced => NoRecovery::Leaves(error.to_string()),
        Failure::Away | Failure::Broken => NoRecovery::Parks(error.to_string()),
    })
}
