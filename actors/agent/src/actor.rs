//! The agent actor: a thin shell around the machine.
//!
//! - **Supervised by** the stage, or by the agent whose sub-agent it is. Its [`Life`] is what its incarnations share.
//! - **Owns** the machine, its executor, its sub-agents, its hooks and timers. Nothing of it outlives the actor.
//! - **Takes** `AgentMsg`. A handler feeds the machine and carries out its effects; it never waits.
//! - **When it dies** everything under it dies with it; the next incarnation folds the journal and goes on. Its id,
//!   its subscribers and those who wait for a run stay.

mod children;
mod effects;
mod life;
pub(crate) mod msg;
mod recovery;
mod redaction;
mod state;
mod watch;
mod work;

use playhouse_protocol::entry::{Settings, Wake};
use playhouse_protocol::{Command, InputId, Op};
use playhouse_supervision::Permit;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, Message, SpawnErr, SupervisionEvent};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

pub use life::{ADMITTED, Life, Origin, address};
pub(crate) use msg::AgentMsg;
pub use msg::AgentState;

use crate::machine::{InputError, Report};
use life::keep_keys_out;
use msg::Reply;
use redaction::{clean_op, clean_verdict};
use state::{Stage, State};
use watch::Watched;

/// How long an agent that ends waits for its sub-agents to end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The agent actor. It and its mailbox are this crate's own: nobody else can send it a report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AgentActor;

/// Starts an incarnation of an agent, and makes its address known.
pub async fn start(life: &Arc<Life>, above: ActorCell) -> Result<ActorCell, SpawnErr> {
    let agents = &life.backstage.agents.0;
    life.succeeds(agents.get(life.agent_id.as_str()));
    let (actor, _) = Actor::spawn_linked(None, AgentActor, life.clone(), above).await?;
    agents.publish(life.agent_id.shared(), actor.clone());
    Ok(actor.get_cell())
}

impl Actor for AgentActor {
    type Msg = AgentMsg;
    type State = State;
    type Arguments = Arc<Life>;

    async fn pre_start(&self, myself: ActorRef<AgentMsg>, life: Arc<Life>) -> Result<State, ActorProcessingErr> {
        Ok(State::new(myself, life))
    }

    async fn post_start(&self, _: ActorRef<AgentMsg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.begin();
        Ok(())
    }

    /// A future that is ready: it cannot wait, and every idle actor has room for two of it.
    fn handle(
        &self,
        _: ActorRef<AgentMsg>,
        msg: AgentMsg,
        state: &mut State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        playhouse_supervision::chaos::strike("agent", msg.name());
        let taken = state.take(msg);
        state.settle();
        ready(taken)
    }

    /// Its sub-agents end with it, and so do their addresses. One that wrote after its session was let go would take
    /// it again, so their ends are waited for.
    async fn post_stop(&self, _: ActorRef<AgentMsg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        let ends = state.work().children.values().filter_map(children::Child::actor).map(|actor| {
            // Handlers never wait, so this is soon over; a house that closes does not wait for longer.
            async move { actor.stop_and_wait(None, Some(LAST_WORDS)).await }
        });
        drop(futures::future::join_all(ends).await);
        state.drop_flight();
        state.forget_spent();
        Ok(())
    }

    fn handle_supervisor_evt(
        &self,
        _: ActorRef<AgentMsg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        match event {
            SupervisionEvent::ActorTerminated(who, _, reason) => {
                state.ended(&who, reason.unwrap_or_else(|| "it stopped".to_owned()));
            }
            SupervisionEvent::ActorFailed(who, error) => state.ended(&who, error.to_string()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        state.settle();
        ready(Ok(()))
    }
}

impl State {
    fn take(&mut self, msg: AgentMsg) -> Result<(), ActorProcessingErr> {
        match msg {
            AgentMsg::Submit { command, permit, reply } => self.submit(command, permit, reply),
            AgentMsg::Await { input_id, reply } => self.await_run(input_id, reply),
            AgentMsg::Look { permit, reply } => match &self.stage {
                Stage::Live(machine) => {
                    // Whoever asked may be gone.
                    let _ = reply.send(Ok(AgentState::of(machine)));
                    drop(permit);
                }
                Stage::Recovering { .. } => self.hold(AgentMsg::Look { permit, reply }),
                // Looking changes nothing: going on is for whoever asks for it.
                Stage::Parked { reason } => drop(reply.send(Err(InputError::Parked(reason.clone())))),
            },
            AgentMsg::AwaitRest { reply } => self.await_rest(reply),
            AgentMsg::Unpark { reply } => match &self.stage {
                Stage::Live(_) => drop(reply.send(Ok(false))),
                // It may turn out to be parked.
                Stage::Recovering { .. } => self.hold(AgentMsg::Unpark { reply }),
                Stage::Parked { .. } => {
                    self.recover("unparked", Wake::Asked);
                    let _ = reply.send(Ok(true));
                }
            },
            AgentMsg::Call(report) => self.call_report(report),
            AgentMsg::Tool(report) => self.tool_report(report),
            AgentMsg::Commit(report) => self.commit_report(report),
            AgentMsg::HookDone { hook, verdict } => {
                if self.work().hooks.remove(&hook).is_some() {
                    let verdict = clean_verdict(&self.life.backstage.secrets(), verdict);
                    self.feed(Report::HookDone { hook, verdict });
                }
            }
            AgentMsg::TimerDue(timer) => {
                if self.work().timers.remove(&timer).is_some() {
                    self.feed(Report::Timer { timer });
                }
            }
            AgentMsg::Recovered(outcome) => self.recovered(*outcome),
            AgentMsg::WriterIs { address, writer } => self.writer_is(address, writer),
            AgentMsg::ConnectionIs(connection) => self.connection_is(connection),
            AgentMsg::ChildDone { call, result } => self.child_done(&call, result),
            AgentMsg::ChildParked { call, reason } => self.child_parked(&call, &reason),
            AgentMsg::ChildIs { call, doing } => self.feed(Report::ChildIs { call, doing }),
            AgentMsg::ChildDue { call } => self.child_due(&call),
            AgentMsg::AskAgain => self.ask_again(),
            AgentMsg::Crash => return Err("a crash was asked for".into()),
        }
        Ok(())
    }

    fn submit(&mut self, mut command: Command, permit: Permit, reply: Reply) {
        if let Op::Configure { settings } = &command.op {
            let (asked, promises) = (settings.durability, self.life.backstage.journals.promises(&self.life.session()));
            if !promises.keeps(asked) {
                let _ = reply.send(Err(InputError::Durability { asked, strongest: promises.strongest }));
                return;
            }
        }
        match &mut self.stage {
            Stage::Live(_) => {
                self.work().replies.entry(command.id.clone()).or_default().push((reply, permit));
                clean_op(&self.life.backstage.secrets(), &mut command.op);
                match command.op {
                    Op::Configure { settings } => self.configure(command.id, settings),
                    op => self.command(command.id, op),
                }
            }
            Stage::Recovering { .. } => self.hold(AgentMsg::Submit { command, permit, reply }),
            Stage::Parked { reason } => {
                if command.op == Op::Abort {
                    let _ = reply.send(Err(InputError::Parked(reason.clone())));
                    return;
                }
                self.recover("told after it was parked", Wake::Asked);
                self.hold(AgentMsg::Submit { command, permit, reply });
            }
        }
    }

    fn command(&mut self, id: InputId, op: Op) {
        let Stage::Live(machine) = &mut self.stage else { return };
        let effects = machine.command(self.life.backstage.now(), Command { id, op });
        self.carry_out(effects);
    }

    /// Changes the settings. The key of a new model stays here; the journal gets the rest.
    fn configure(&mut self, input_id: InputId, mut settings: Box<Settings>) {
        if let Stage::Live(machine) = &self.stage
            && machine.is_running()
        {
            // It will be refused, and changes nothing.
            keep_keys_out(&mut settings);
            self.command(input_id, Op::Configure { settings });
            return;
        }
        let given: Vec<_> = std::iter::once(&settings.model).chain(&settings.fallbacks).cloned().collect();
        keep_keys_out(&mut settings);
        let taken = settings.clone();
        self.command(input_id, Op::Configure { settings });
        let Stage::Live(machine) = &mut self.stage else { return };
        let now = &machine.durable().settings;
        if now.model != taken.model || now.fallbacks != taken.fallbacks {
            return;
        }
        for model in given.into_iter().filter(|model| model.api_key.is_some()).rev() {
            self.life.learn(model);
        }
        let setup = self.life.setup(&taken, |model| self.life.model(model));
        let before = machine.setup();
        if before.model != setup.model || before.fallbacks != setup.fallbacks {
            machine.set_setup(setup);
            self.life.let_go();
            self.work().connection = None;
        }
    }

    /// Someone died: a child of ours, or one we work with.
    fn ended(&mut self, who: &ActorCell, reason: String) {
        let id = who.get_id();
        if let Some(at) = self.work().writers.iter().position(|(_, writer)| writer.actor().get_id() == id) {
            let (address, _) = self.work().writers.swap_remove(at);
            self.find_writer(address, Some(id));
        } else if self.work().connection.as_ref().is_some_and(|(_, connection)| connection.actor().get_id() == id) {
            self.work().connection = None;
            self.work().call_node = None;
            self.feed(Report::ConnectionLost { reason });
        } else if self.work().executor.as_ref().is_some_and(|(executor, _)| executor.get_id() == id) {
            self.work().executor = None;
            self.work().running.clear();
            self.feed(Report::ExecutorLost { reason });
        } else {
            self.child_ended(id, reason);
        }
    }

    /// Monitors an actor; `None` if it is dead already.
    fn watch<M: Message>(&self, actor: ActorRef<M>) -> Option<Watched<M>> {
        Watched::new(actor, self.myself.get_cell())
    }
}
