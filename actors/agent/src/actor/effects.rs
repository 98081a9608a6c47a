//! Carrying out what the machine asks for. The one place where an effect becomes an act.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use playhouse_protocol::{
    Batch, CallId, CallReport, CommitReport, ProviderError, SessionId, StreamConfig, ToolCallId, ToolReport,
};
use playhouse_provider::ConnectionMsg;
use playhouse_session::WriterMsg;
use playhouse_supervision::NodeState;
use playhouse_tools::{Executor, ExecutorArgs, ExecutorMsg, ToolJob};
use ractor::{ActorId, ActorRef, ActorRuntime};

use super::msg::AgentMsg;
use super::state::{Stage, State};
use crate::handle::{Agent, AgentHandle};
use crate::hooks::{Approvals, PermissionRequest};
use crate::machine::{Effect, HookCall, HookId, Input, Start, Target, Timer, Verdict};
use crate::task::Task;

impl State {
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.act(effect);
        }
        self.let_executor_go();
        self.show();
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Append { session, batch } => self.append(session, batch),
            Effect::Call { call, config } => self.call(call, config),
            Effect::RunTool { call, name, args, effect, start } => {
                let reconcile = start == Start::Again;
                self.run_tool(ToolJob { call, name, args, effect, reconcile });
            }
            Effect::Spawn { call, name, args, session } => self.spawn_child(call, &name, &args, session),
            Effect::Hook { hook, call } => self.run_hook(hook, call),
            Effect::Ask { permission_id, tool_call_id, tool_name, args, reason } => {
                self.ask(PermissionRequest { permission_id, tool_call_id, tool_name, args, reason });
            }
            Effect::Cancel(target) => self.cancel(target),
            Effect::Emit(event) => self.life.topic.publish(event),
            Effect::Ack { input_id } => {
                for (reply, _permit) in self.replies.remove(&input_id).unwrap_or_default() {
                    // Whoever asked may be gone; the input stays.
                    let _ = reply.send(Ok(()));
                }
            }
            Effect::Refuse { input_id, error } => {
                for (reply, _permit) in self.replies.remove(&input_id).unwrap_or_default() {
                    let _ = reply.send(Err(error.clone()));
                }
            }
            Effect::Arm { timer, after } => {
                let (myself, due) = (self.myself.clone(), timer.clone());
                let task = Task::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _ = myself.cast(AgentMsg::TimerDue(due));
                });
                self.timers.insert(timer, task);
            }
            Effect::Disarm(timer) => {
                self.timers.remove(&timer);
                if let Timer::Permission(permission_id) = &timer {
                    self.questions.remove(permission_id);
                }
            }
            Effect::Finish(report) => {
                self.forget_spent();
                self.run_ended(report);
            }
            Effect::Rotated { to } => self.rotated(to),
            Effect::Park { reason } => self.park(reason),
        }
    }

    fn append(&mut self, session: SessionId, batch: Batch) {
        let Stage::Live(machine) = &self.stage else { return };
        let durability = machine.durable().settings.durability;
        let reply = self.myself.get_derived::<CommitReport>();
        let house = &self.life.backstage;
        let address = house.writer_of(&session);
        let writer = match self.writers.iter().find(|(known, _)| *known == address) {
            // A writer that died meanwhile is noticed by its monitor, and everything is sent again.
            Some((_, writer)) => writer.clone(),
            // When it is found, everything is sent again; what is sent before that would be written out of order.
            None if self.writer_searches.iter().any(|(searched, _)| *searched == address) => return,
            None => match house.writers.get(&address) {
                Some(writer) if self.watch(&writer.get_cell()) => {
                    self.writers.push((address, writer.clone()));
                    writer
                }
                Some(_) | None => return self.find_writer(address, None),
            },
        };
        let _ = writer.cast(WriterMsg::Append { session, durability, batch, reply });
    }

    pub(super) fn find_writer(&mut self, address: String, not: Option<ActorId>) {
        let (house, myself) = (self.life.backstage.clone(), self.myself.clone());
        self.writer_searches.retain(|(searched, _)| *searched != address);
        let search = Task::spawn({
            let address = address.clone();
            async move {
                let writer = house.writers.live(&address, not).await.map_err(|absent| absent.to_string());
                let _ = myself.cast(AgentMsg::WriterIs { address, writer });
            }
        });
        self.writer_searches.push((address, search));
    }

    pub(super) fn writer_is(&mut self, address: String, writer: Result<ActorRef<WriterMsg>, String>) {
        self.writer_searches.retain(|(searched, _)| *searched != address);
        let writer = match (writer, &self.stage) {
            (Ok(writer), _) => writer,
            (Err(absent), Stage::Live(machine)) if !machine.is_at_rest() => {
                return self.park(format!("the journal cannot be written: its writer: {absent}"));
            }
            // Nothing waits for it; whatever is to be written next looks again.
            (Err(_), Stage::Live(_) | Stage::Recovering { .. } | Stage::Parked { .. }) => return,
        };
        if self.watch(&writer.get_cell()) {
            self.writers.retain(|(known, _)| *known != address);
            self.writers.push((address, writer));
            self.feed(Input::WriterLost);
        } else {
            self.find_writer(address, Some(writer.get_id()));
        }
    }

    pub(super) fn commit_report(&mut self, report: CommitReport) {
        match report {
            CommitReport::Committed { batch, seqs, .. } => self.feed(Input::Committed { batch, seqs }),
            CommitReport::Failed { batch, error, .. } => self.feed(Input::CommitFailed { batch, error }),
        }
    }

    fn call(&mut self, call: CallId, config: Box<StreamConfig>) {
        let Some(connection) = self.connection.clone() else {
            self.unsent = Some((call, config));
            self.find_connection();
            return;
        };
        let Stage::Live(machine) = &self.stage else { return };
        let retry = machine.durable().settings.retry;
        let node = self.life.backstage.tree.enter(format!("call/{call}"), "call", Some(&self.life.address()));
        node.set_state(NodeState::Running);
        self.call_node = Some((call.clone(), node));
        let (agent, reply) = (self.myself.get_cell(), self.myself.get_derived::<CallReport>());
        // A connection that died meanwhile is noticed by its monitor.
        let _ = connection.cast(ConnectionMsg::Start { call, config: *config, retry, agent, reply });
    }

    fn find_connection(&mut self) {
        let Stage::Live(machine) = &self.stage else { return };
        let (house, myself) = (self.life.backstage.clone(), self.myself.clone());
        let (model, own) = (machine.setup().model.clone(), self.life.definition.provider_override.clone());
        let life = self.life.clone();
        self.connection_search = Some(Task::spawn(async move {
            let found = async {
                let lease = house.connect(&model, own).await?;
                let address = lease.id().to_owned();
                life.lease(lease);
                house.connections.live(&address, None).await.map_err(|absent| absent.to_string())
            };
            let _ = myself.cast(AgentMsg::ConnectionIs(found.await));
        }));
    }

    pub(super) fn connection_is(&mut self, found: Result<ActorRef<ConnectionMsg>, String>) {
        self.connection_search = None;
        match found {
            Ok(connection) => {
                if !self.watch(&connection.get_cell()) {
                    self.find_connection();
                    return;
                }
                self.connection = Some(connection);
                if let Some((call, config)) = self.unsent.take() {
                    self.call(call, config);
                }
            }
            Err(message) => {
                if let Some((call, config)) = self.unsent.take() {
                    let error = ProviderError::Other { message };
                    self.feed(Input::CallFailed { call, attempt: config.attempt, error });
                }
            }
        }
    }

    pub(super) fn call_report(&mut self, report: CallReport) {
        match report {
            // The credit goes back when the pieces have been taken.
            CallReport::Delta { call, attempt, deltas, credit } => {
                self.feed(Input::Delta { call, attempt, deltas });
                drop(credit);
            }
            CallReport::Retrying { call, attempt, error, delay_ms } => {
                self.feed(Input::Retrying { call, attempt, error, delay_ms });
            }
            CallReport::Responded { call, attempt, message } => {
                self.call_node = None;
                self.feed(Input::Responded { call, attempt, message });
            }
            CallReport::Failed { call, attempt, error } => {
                self.call_node = None;
                self.feed(Input::CallFailed { call, attempt, error });
            }
        }
    }

    fn run_tool(&mut self, job: ToolJob) {
        let Some(executor) = self.executor() else { return };
        let tree = &self.life.backstage.tree;
        let node = tree.enter(format!("tool/{}/{}", self.life.agent_id, job.call), "tool", Some(&self.life.address()));
        node.set_state(NodeState::Running);
        self.running.insert(job.call.clone(), node);
        let _ = executor.cast(ExecutorMsg::Run { job });
    }

    /// The executor, started when there is work.
    fn executor(&mut self) -> Option<ActorRef<ExecutorMsg>> {
        if let Some((executor, _)) = &self.executor {
            return Some(executor.clone());
        }
        let Stage::Live(machine) = &self.stage else { return None };
        let args = ExecutorArgs {
            tools: self.life.definition.tools(),
            session_id: machine.durable().session_id.clone(),
            cwd: machine.durable().settings.cwd.clone(),
            house_marker: self.life.backstage.node.to_string(),
            reply: self.myself.get_derived::<ToolReport>(),
        };
        // A name is not given and `pre_start` cannot fail, so neither can this.
        let (executor, _) = ActorRuntime::spawn_linked_instant(None, Executor, args, self.myself.get_cell()).ok()?;
        let address = format!("executor/{}", self.life.agent_id);
        let node = self.life.backstage.tree.enter(address, "executor", Some(&self.life.address()));
        node.set_state(NodeState::Running);
        self.executor = Some((executor.clone(), node));
        Some(executor)
    }

    /// The executor goes when there is no work.
    fn let_executor_go(&mut self) {
        if self.running.is_empty()
            && let Some((executor, _)) = self.executor.take()
        {
            executor.stop(None);
        }
    }

    pub(super) fn tool_report(&mut self, report: ToolReport) {
        match report {
            ToolReport::Updated { call, partial, credit } => {
                self.feed(Input::ToolUpdated { call, partial });
                drop(credit);
            }
            ToolReport::Progress { call, text, credit } => {
                self.feed(Input::ToolProgress { call, text });
                drop(credit);
            }
            ToolReport::Finished { call, result, duration_ms } => {
                self.running.remove(&call);
                self.feed(Input::ToolFinished { call, result, duration_ms });
            }
        }
    }

    fn run_hook(&mut self, hook: HookId, call: HookCall) {
        let (work, myself) = (self.life.definition.hooks.run(call), self.myself.clone());
        let task = Task::spawn(async move {
            let verdict = AssertUnwindSafe(work).catch_unwind().await;
            let verdict = verdict.unwrap_or_else(|_| Verdict::Stop { reason: "the hook crashed".to_owned() });
            let _ = myself.cast(AgentMsg::HookDone { hook, verdict });
        });
        self.hooks.insert(hook, task);
    }

    fn ask(&mut self, request: PermissionRequest) {
        let Approvals::Code(answer) = self.life.definition.approvals.clone() else { return };
        let handle = AgentHandle::new(self.life.clone());
        let permission_id = request.permission_id.clone();
        let task = Task::spawn(async move {
            let permission_id = request.permission_id.clone();
            let decision = AssertUnwindSafe(answer(request)).catch_unwind().await;
            let decision = decision.unwrap_or_else(|_| playhouse_protocol::PermissionDecision::Deny {
                reason: "the code that answers questions crashed".to_owned(),
            });
            // A question that was called off needs no answer.
            let _ = handle.respond_permission(permission_id, decision).await;
        });
        self.questions.insert(permission_id, task);
    }

    fn cancel(&mut self, target: Target) {
        match target {
            Target::Call(call) => {
                self.call_node = None;
                self.unsent = None;
                if let Some(connection) = &self.connection {
                    let _ = connection.cast(ConnectionMsg::Cancel { call });
                }
            }
            Target::Tool(call) => self.cancel_tool(call),
            Target::Child(call) => self.abort_child(&call),
            Target::Hook(hook) => {
                self.hooks.remove(&hook);
            }
        }
    }

    fn cancel_tool(&mut self, call: ToolCallId) {
        if let Some((executor, _)) = &self.executor {
            let _ = executor.cast(ExecutorMsg::Cancel { call });
        }
    }

    fn rotated(&mut self, to: SessionId) {
        let old = self.life.session();
        self.life.move_to(to);
        let address = self.life.backstage.writer_of(&old);
        if let Some(at) = self.writers.iter().position(|(known, _)| *known == address) {
            let (_, writer) = self.writers.swap_remove(at);
            self.myself.get_cell().unmonitor(writer.get_cell());
            let _ = writer.cast(WriterMsg::Release { session: old });
        }
    }

    /// Ends everything that is under way.
    pub(super) fn drop_flight(&mut self) {
        if let Some((executor, _)) = self.executor.take() {
            executor.kill();
        }
        for (_, child) in std::mem::take(&mut self.children) {
            self.end_child(child);
        }
        self.running.clear();
        self.hooks.clear();
        self.timers.clear();
        self.questions.clear();
        self.unsent = None;
        self.connection_search = None;
        let open = self.call_node.take();
        if let Some(connection) = self.connection.take() {
            if let Some((call, _)) = open {
                let _ = connection.cast(ConnectionMsg::Cancel { call });
            }
            self.myself.get_cell().unmonitor(connection.get_cell());
        }
    }
}
