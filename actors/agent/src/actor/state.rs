//! What one incarnation of an agent holds.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use playhouse_protocol::InputId;
use playhouse_session::WriterMsg;
use playhouse_supervision::{NodeState, Task};
use ractor::ActorRef;

use super::work::Work;
use crate::identity::Identity;
use crate::machine::{InputError, Machine, Numbers, RunReport};
use crate::mailbox::{AgentMsg, Reply, Waiter};

/// How many ended runs an agent remembers for those who ask late.
const REMEMBERED: usize = 16;

/// Where an incarnation stands.
pub(super) enum Lifecycle {
    /// The journal is being folded; what arrives meanwhile is held, bounded by its permits.
    Recovering { held: Vec<AgentMsg>, _work: Option<Task> },
    /// At work, or idle.
    Live(Box<Machine>),
    /// The journal cannot be read or written, or something it needs is missing.
    Parked { reason: String },
}

/// What one incarnation holds.
pub struct State {
    pub(super) myself: ActorRef<AgentMsg>,
    pub(super) identity: Arc<Identity>,
    pub(super) lifecycle: Lifecycle,
    pub(super) ended: VecDeque<Arc<RunReport>>,
    /// Where the machine that takes the place of a parked one counts on.
    pub(super) numbers: Numbers,
    /// What is under way, if anything is.
    work: Option<Box<Work>>,
    /// What the live tree shows of it.
    shown: Option<NodeState>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl State {
    pub(super) fn new(myself: ActorRef<AgentMsg>, identity: Arc<Identity>) -> Self {
        Self {
            myself,
            identity,
            lifecycle: Lifecycle::Recovering { held: Vec::new(), _work: None },
            ended: VecDeque::new(),
            numbers: Numbers::default(),
            work: None,
            shown: None,
        }
    }

    /// Comes to life: at once for an agent that is new, after folding its journal for another.
    pub(super) fn begin(&mut self) {
        self.identity.show_queue();
        if self.identity.is_fresh() {
            let opened = self.identity.opened.clone();
            let setup = self.identity.setup(&opened.settings, |model| self.identity.given(model));
            self.identity.take_reason();
            self.lifecycle = Lifecycle::Live(Box::new(Machine::new(opened, setup)));
            self.show();
        } else {
            let (reason, wake) = (self.identity.take_reason(), self.identity.take_wake());
            self.recover(reason, wake);
        }
    }

    pub(super) fn hold(&mut self, msg: AgentMsg) {
        if let Lifecycle::Recovering { held, .. } = &mut self.lifecycle {
            held.push(msg);
        }
    }

    /// Shows in the live tree what the agent is doing.
    pub(super) fn show(&mut self) {
        let state = match &self.lifecycle {
            Lifecycle::Recovering { .. } => NodeState::Starting,
            Lifecycle::Live(machine) if machine.is_running() => NodeState::Running,
            Lifecycle::Live(_) => NodeState::Idle,
            Lifecycle::Parked { reason } => NodeState::Parked { reason: reason.clone() },
        };
        if self.shown.as_ref() != Some(&state) {
            self.identity.services.tree.set_state(&self.identity.address, state.clone());
            self.shown = Some(state);
        }
    }

    /// What is under way.
    pub(super) fn work(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// Keeps nothing of what is over.
    pub(super) fn settle(&mut self) {
        let rests = match &self.lifecycle {
            Lifecycle::Live(machine) => machine.is_at_rest(),
            Lifecycle::Recovering { .. } | Lifecycle::Parked { .. } => true,
        };
        let Some(work) = self.work.as_mut().filter(|_| rests) else { return };
        for reply in work.resting.drain(..) {
            // Whoever asked may be gone.
            let _ = reply.send(Ok(()));
        }
        if !work.is_done() {
            return;
        }
        let session = self.identity.session();
        let address = self.identity.services.journals.address(&session);
        let writers = self.work.take().map(|work| work.writers).unwrap_or_default();
        if let Some((_, writer)) = writers.iter().find(|(known, _)| *known == address) {
            // One that is gone has nothing to let go of.
            let _ = writer.actor().cast(WriterMsg::Rest { session });
        }
    }

    pub(super) fn await_run(&mut self, input_id: InputId, reply: Waiter) {
        let ended = self.ended_run(&input_id);
        match &self.lifecycle {
            // Whoever asked may be gone.
            _ if ended.is_ok() => drop(reply.send(ended)),
            Lifecycle::Parked { reason } => drop(reply.send(Err(InputError::Parked(reason.clone())))),
            Lifecycle::Live(machine) if !machine.durable().knows_run(&input_id) => drop(reply.send(ended)),
            // Its end may be on its way into the journal.
            Lifecycle::Live(_) | Lifecycle::Recovering { .. } => {
                let waiting = self.work().waiters.entry(input_id).or_default();
                waiting.retain(|reply| !reply.is_closed());
                waiting.push(reply);
            }
        }
    }

    /// How the run of an input ended, if that is still remembered.
    pub(super) fn ended_run(&self, input_id: &InputId) -> Result<Arc<RunReport>, InputError> {
        let ended = self.ended.iter().find(|report| report.input_id == *input_id);
        ended.cloned().ok_or_else(|| InputError::UnknownRun(input_id.clone()))
    }

    /// Answers when nothing is under way and everything is in the journal.
    pub(super) fn await_rest(&mut self, reply: Reply) {
        match &self.lifecycle {
            Lifecycle::Parked { reason } => drop(reply.send(Err(InputError::Parked(reason.clone())))),
            Lifecycle::Recovering { .. } => self.hold(AgentMsg::AwaitRest { reply }),
            // `settle` follows every message.
            Lifecycle::Live(_) => self.work().resting.push(reply),
        }
    }

    pub(super) fn run_ended(&mut self, report: Arc<RunReport>) {
        for reply in self.work().waiters.remove(&report.input_id).unwrap_or_default() {
            let _ = reply.send(Ok(report.clone()));
        }
        if self.ended.is_empty() {
            self.ended.reserve_exact(1);
        }
        self.ended.push_back(report);
        if self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use ractor::Actor;

    use super::*;
    use crate::actor::AgentActor;

    /// The size of the future that a handler makes.
    fn future<M, F>(_: impl FnOnce(&'static AgentActor, ActorRef<AgentMsg>, M, &'static mut State) -> F) -> usize {
        size_of::<F>()
    }

    /// Bytes per agent are counted in `tests/footprint.rs`; these are what they are made of. A size that grows is paid
    /// for by every agent at rest: put what is rare into [`Work`], the machine's flight, or a box.
    #[test]
    fn what_every_agent_at_rest_holds_is_small() {
        let sizes = [size_of::<State>(), size_of::<Machine>(), size_of::<Identity>()];
        assert!(sizes[0] <= 128 && sizes[1] <= 648 && sizes[2] <= 240, "state, machine, identity: {sizes:?}");
        let futures = [future(AgentActor::handle), future(AgentActor::handle_supervisor_evt)];
        assert!(futures.iter().all(|size| *size <= 32), "{futures:?}");
    }
}
