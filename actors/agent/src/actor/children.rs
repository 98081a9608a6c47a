//! Sub-agents: spawned, supervised and ended by their parent.

use std::sync::Arc;
use std::time::Instant;

use playhouse_protocol::entry::SpawnRef;
use playhouse_protocol::{
    AgentMessage, Command, Durability, InputId, Op, SessionId, ToolCallId, ToolError, ToolResult,
};
use playhouse_supervision::{Decision, Exit, NodeState, RestartBudget, RestartHistory, RestartPolicy, Task, TreeNode};
use ractor::{ActorId, ActorRef, ActorRuntime};
use serde_json::Value;

use super::AgentActor;
use super::state::{Lifecycle, State};
use crate::definition::Definition;
use crate::handle::{Agent, AgentHandle, HandleError};
use crate::hooks::Approvals;
use crate::identity::{Identity, Loss, Origin};
use crate::machine::{InputError, Report};
use crate::mailbox::AgentMsg;
use crate::services::Occupant;
use crate::sub_agent::{result_of, task};

/// A sub-agent under way, from the call that asked for it to its result.
pub(super) struct Child {
    identity: Arc<Identity>,
    actor: Option<ActorRef<AgentMsg>>,
    history: RestartHistory,
    restarts: u64,
    node: TreeNode,
    started: Instant,
    /// Prompts the child and waits for its run.
    _driver: Task,
    /// The pause before a restart.
    pause: Option<Task>,
    /// An abort on its way.
    abort: Option<Task>,
}

impl Child {
    /// Its actor, unless it is between two.
    pub(super) fn actor(&self) -> Option<&ActorRef<AgentMsg>> {
        self.actor.as_ref()
    }
}

impl State {
    pub(super) fn spawn_child(&mut self, call: ToolCallId, name: &str, args: &Value, session: SessionId) {
        let Lifecycle::Live(machine) = &self.lifecycle else { return };
        let Some(sub) = self.identity.definition.sub_agent(name).cloned() else {
            let result = Err(ToolError::NotFound(name.to_owned()));
            let _ = self.myself.cast(AgentMsg::ChildDone { call, result });
            return;
        };
        let durable = machine.durable();
        let Some(run) = &durable.run else { return };
        let spawned_by = SpawnRef {
            parent_session_id: durable.session_id.clone(),
            parent_loop_id: run.loop_id.clone(),
            tool_call_id: call.clone(),
            tool_name: name.to_owned(),
        };
        let mut settings = machine.settings_with_grants().as_ref().clone();
        settings.model = machine.setup().model.clone();
        settings.fallbacks = machine.setup().fallbacks.clone();
        let opened = sub.opened(&settings, session.clone(), spawned_by);
        let definition = self.inherited(sub.definition(), sub.model().is_some());
        self.work().orphans.retain(|orphan| *orphan != session);
        let taken = self.identity.services.sessions.occupy_also(
            &self.identity.root,
            &session,
            Occupant::Beneath(self.identity.root.clone()),
        );
        if taken.is_err() {
            let reason = format!("its session `{session}` is in use by someone else in this house");
            return self.park_with_child(&call, &reason);
        }
        let identity = Arc::new(Identity::beneath(&self.identity, Arc::new(definition), opened, Origin::Stored));
        if self.work().asked.contains(&session) {
            identity.ask();
        }
        let node = self.identity.services.tree.enter(identity.address.clone(), "agent", Some(&self.identity.address));
        identity.enter();
        let driver = drive(&identity, call.clone(), task(args), session, self.myself.clone());
        let mut child = Child {
            identity,
            actor: None,
            history: RestartHistory::default(),
            restarts: 0,
            node,
            started: Instant::now(),
            _driver: driver,
            pause: None,
            abort: None,
        };
        self.start_child(&mut child);
        self.work().children.insert(call, child);
    }

    /// What a child has of its parent unless it has its own: who answers questions, who answers for the model, the states
    /// of its tools. The commands that are the parent's hooks are the child's in any case.
    fn inherited(&self, own: &Definition, has_model: bool) -> Definition {
        let mut definition = own.clone();
        let parent = &self.identity.definition;
        if let Approvals::Nobody = &definition.approvals
            && let Approvals::Code(_) | Approvals::InTurn(_) | Approvals::Inbox = &parent.approvals
        {
            definition.approvals = parent.approvals.clone();
        }
        // What the parent's policies forbid is forbidden to the child.
        definition.policies = parent.policies.iter().chain(&own.policies).cloned().collect();
        if definition.provider_override.is_none() && !has_model {
            definition.provider_override = parent.provider_override.clone();
        }
        definition.states = own.states.over(&parent.states);
        definition.hooks = std::mem::take(&mut definition.hooks).beneath(&parent.hooks);
        definition
    }

    fn start_child(&self, child: &mut Child) {
        let house = &self.identity.services;
        let parent = self.myself.get_cell();
        child.identity.succeeds(house.agents.mailboxes.get(child.identity.agent_id.as_str()));
        // A name is not given and `pre_start` cannot fail, so neither can this.
        let Ok((actor, _)) = ActorRuntime::spawn_linked_instant(None, AgentActor, child.identity.clone(), parent)
        else {
            return;
        };
        house.agents.mailboxes.publish(child.identity.agent_id.shared(), actor.clone());
        child.node.set_restarts(child.restarts);
        child.actor = Some(actor);
    }

    pub(super) fn child_ended(&mut self, id: ActorId, reason: String) {
        let (now, myself) = (self.identity.services.clock.now().mono, self.myself.clone());
        let is_it = |child: &Child| child.actor.as_ref().is_some_and(|actor| actor.get_id() == id);
        let found = self.work().children.iter_mut().find(|(_, child)| is_it(child));
        let Some((call, child)) = found else { return };
        let call = call.clone();
        child.actor = None;
        let (policy, budget) = (RestartPolicy::Permanent, RestartBudget::default());
        match child.history.on_exit(now, &Exit::Failed(reason), policy, &budget, fastrand::f64()) {
            Decision::Restart { after } => {
                child.restarts += 1;
                child.node.set_state(NodeState::Restarting);
                let due = AgentMsg::ChildDue { call };
                child.pause = Some(Task::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _ = myself.cast(due);
                }));
            }
            // What it did so far is in its journal, and it is never unknown what became of that.
            Decision::Park { reason } => self.park_with_child(&call, &reason),
            Decision::Leave => {
                let error = ToolError::Failed("the sub-agent ended without an answer".to_owned());
                self.child_done(&call, Err(error));
            }
        }
    }

    pub(super) fn child_due(&mut self, call: &ToolCallId) {
        let Some(mut child) = self.work().children.remove(call) else { return };
        child.pause = None;
        if child.actor.is_none() {
            self.start_child(&mut child);
        }
        self.work().children.insert(call.clone(), child);
    }

    pub(super) fn child_done(&mut self, call: &ToolCallId, result: Result<ToolResult, ToolError>) {
        let duration_ms = match self.work().children.remove(call) {
            Some(child) => {
                let elapsed = child.started.elapsed().as_millis();
                self.end_child(child);
                u64::try_from(elapsed).unwrap_or(u64::MAX)
            }
            None => 0,
        };
        self.feed(Report::ChildEnded { call: call.clone(), result, duration_ms });
    }

    /// The child cannot go on, and neither can whoever waits for it. Someone else who has its session works for this
    /// agent's, which is therefore left to them.
    pub(super) fn child_parked(&mut self, call: &ToolCallId, reason: &str) {
        match self.work().children.get(call).map(|child| child.identity.loss().cloned()) {
            Some(Some(Loss::TakenOver(_))) => self.leave(format!("its sub-agent of call `{call}` is gone: {reason}")),
            Some(Some(Loss::Damaged) | None) => self.park_with_child(call, reason),
            None => {}
        }
    }

    /// The child cannot go on until something is mended. Neither can whoever waits for it: both go on when the parent
    /// is resumed.
    pub(super) fn park_with_child(&mut self, call: &ToolCallId, reason: &str) {
        self.park(format!("its sub-agent of call `{call}` cannot go on: {reason}"));
    }

    /// A sub-agent lets its parent know what it does. An incarnation says so at its beginning, whatever the one before
    /// it has said: its word may still be on its way.
    pub(super) fn tell_parent(&mut self) {
        let Lifecycle::Live(machine) = &self.lifecycle else { return };
        let (Some(by), false) = (&machine.durable().spawned_by, self.identity.is_root()) else { return };
        let (call, doing) = (by.tool_call_id.clone(), machine.doing());
        if self.work().told.replace(doing) == Some(doing) {
            return;
        }
        if let Some(parent) = self.myself.try_get_supervisor() {
            // One that is gone waits for nothing.
            let _ = ActorRef::<AgentMsg>::from(parent).cast(AgentMsg::ChildIs { call, doing });
        }
    }

    /// Nothing of a child that is over is kept, but for what is in its journal.
    pub(super) fn end_child(&mut self, child: Child) {
        let house = self.identity.services.clone();
        if let Some(actor) = &child.actor {
            actor.stop(None);
        }
        house.has_left(&child.identity.agent_id);
        child.identity.let_go();
        let session = child.identity.session();
        match child.identity.opened.settings.durability {
            Durability::None => self.work().spent.push(session),
            Durability::Flush | Durability::Os => self.release_child(session),
        }
    }

    fn release_child(&self, session: SessionId) {
        let house = &self.identity.services;
        house.sessions.leave(&session, &Occupant::Beneath(self.identity.root.clone()));
        house.journals.release(session);
    }

    /// The run's end is durable: what its sub-agents left in memory is not needed any more, nor are those that a crash
    /// left and an abort kept from going on.
    pub(super) fn forget_spent(&mut self) {
        let house = self.identity.services.clone();
        for session in std::mem::take(&mut self.work().orphans) {
            house.has_left(&session.as_str().into());
            match self.identity.opened.settings.durability {
                Durability::None => self.work().spent.push(session),
                Durability::Flush | Durability::Os => self.release_child(session),
            }
        }
        let beneath = Occupant::Beneath(self.identity.root.clone());
        for session in self.work().spent.drain(..) {
            house.sessions.leave(&session, &beneath);
            house.remove(session);
        }
    }

    pub(super) fn abort_child(&mut self, call: &ToolCallId) {
        let Some(child) = self.work().children.get_mut(call) else { return };
        let handle = AgentHandle::new(child.identity.clone());
        child.abort = Some(Task::spawn(async move {
            // A child that cannot be told is one that is over, or that the parent's grace period will end.
            let _ = handle.abort().await;
        }));
    }
}

/// Prompts the child with its task, once whatever happens, and reports how its run ended.
fn drive(
    identity: &Arc<Identity>,
    call: ToolCallId,
    task: String,
    session: SessionId,
    parent: ActorRef<AgentMsg>,
) -> Task {
    let (handle, identity) = (AgentHandle::new(identity.clone()), identity.clone());
    identity.services.agents.expect(&identity.agent_id);
    let at = identity.services.clock.now().wall;
    Task::spawn(async move {
        let input_id: InputId = format!("{session}/task").into();
        let messages = vec![Arc::new(AgentMessage::user(task, at))];
        let ended = async {
            handle.submit(Command::new(input_id.clone(), Op::prompt(messages))).await?;
            let report = handle.report(&input_id).await?;
            // What follows a run's end, such as `after_loop`, is the child's as well. Its answer stands in any case.
            let _ = handle.at_rest().await;
            Ok(report)
        };
        let result = match ended.await {
            Ok(report) => result_of(&report),
            Err(error) if identity.loss() == Some(&Loss::Damaged) => {
                let unknown = "what it did is not known: verify before repeating";
                Err(ToolError::Failed(format!("the sub-agent cannot go on ({error}); {unknown}")))
            }
            Err(HandleError::Input(
                error @ (InputError::Parked(_)
                | InputError::NotJournaled(_)
                | InputError::OutcomeUnknown { .. }
                | InputError::TakenOver(_)),
            )) => {
                let reason = match error {
                    InputError::TakenOver(reason) => reason,
                    other => other.to_string(),
                };
                let _ = parent.cast(AgentMsg::ChildParked { call, reason });
                return;
            }
            Err(HandleError::Input(error)) => {
                Err(ToolError::Failed(format!("the sub-agent refused its task: {error}")))
            }
            Err(error) => Err(ToolError::Failed(format!("the sub-agent could not be reached: {error}"))),
        };
        let _ = parent.cast(AgentMsg::ChildDone { call, result });
    })
}
