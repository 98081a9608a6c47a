//! Carrying out what the machine asks for. The one place where an effect becomes an act.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use playhouse_protocol::{
    Batch, CallId, CallReport, CommitReport, Durability, Fate, ModelConfig, ProviderError, Refusal, SessionId,
    StreamConfig, ToolCallId, ToolReport,
};
use playhouse_provider::{ConnectionMsg, Patience};
use playhouse_session::WriterMsg;
use playhouse_supervision::NodeState;
use playhouse_tools::{Executor, ExecutorArgs, ExecutorMsg, Sandbox, ToolJob};
use ractor::{ActorId, ActorRef, ActorRuntime};

use super::life::Loss;
use super::msg::{AgentMsg, NoConnection};
use super::redaction::{clean_failure, clean_report};
use super::state::{Stage, State};
use super::work::Asked;
use crate::approvals::{Filed, OpenQuestion};
use crate::backstage::connection_id;
use crate::handle::{Agent, AgentHandle};
use crate::hooks::command::Scene;
use crate::hooks::{Approvals, PermissionRequest};
use crate::machine::{Effect, HookCall, HookId, Report, Start, Target, Timer};
use crate::task::Task;

impl State {
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.act(effect);
        }
        self.let_executor_go();
        self.tell_parent();
        self.show();
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Append { session, batch } => self.append(session, batch),
            Effect::Call { call, config } => self.call(call, config),
            Effect::GoOn { call, attempt } => {
                // One that died meanwhile has lost the call, which its monitor tells.
                if let Some((_, connection)) = &self.work().connection {
                    let _ = connection.actor().cast(ConnectionMsg::GoOn { call, attempt });
                }
            }
            Effect::RunTool { call, name, args, effect, start } => {
                let reconcile = start == Start::Again;
                self.run_tool(ToolJob { call, name, args, effect, reconcile });
            }
            Effect::Spawn { call, name, args, session } => self.spawn_child(call, &name, &args, session),
            Effect::Hook { hook, call } => self.run_hook(hook, call),
            Effect::Ask { permission_id, tool_call_id, tool_name, args, question } => {
                let question = *question;
                self.ask(PermissionRequest { permission_id, tool_call_id, tool_name, args, question });
            }
            Effect::Remember { rules } => self.life.backstage.lasting.remember(&rules),
            Effect::Cancel(target) => self.cancel(target),
            Effect::Emit(event) => self.life.topic.publish(event),
            Effect::Ack { input_id } => {
                for (reply, _permit) in self.work().replies.remove(&input_id).unwrap_or_default() {
                    // Whoever asked may be gone; the input stays.
                    let _ = reply.send(Ok(()));
                }
            }
            Effect::Refuse { input_id, error } => {
                for (reply, _permit) in self.work().replies.remove(&input_id).unwrap_or_default() {
                    let _ = reply.send(Err(error.clone()));
                }
            }
            Effect::Arm { timer, after } => {
                let (myself, due) = (self.myself.clone(), timer.clone());
                let task = Task::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _ = myself.cast(AgentMsg::TimerDue(due));
                });
                self.work().timers.insert(timer, task);
            }
            Effect::Disarm(timer) => {
                self.work().timers.remove(&timer);
                if let Timer::Permission(permission_id) = &timer {
                    self.work().questions.remove(permission_id);
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
        if session != machine.durable().session_id
            && let Err(error) = self.life.occupy(&session)
        {
            let (batch, fate, refusal) = (batch.number, Fate::NotWritten, Refusal::Broken);
            let report = CommitReport::Failed { session, batch, error, fate, refusal };
            let _ = self.myself.cast(AgentMsg::Commit(report));
            return;
        }
        let reply = self.myself.get_derived::<CommitReport>();
        let address = self.life.backstage.writer_of(&session);
        let known =
            self.work().writers.iter().find(|(known, _)| *known == address).map(|(_, writer)| writer.actor().clone());
        let writer = match known {
            // A writer that died meanwhile is noticed by its monitor, and everything is sent again.
            Some(writer) => writer,
            // When it is found, everything is sent again; what is sent before that would be written out of order.
            None if self.work().writer_searches.iter().any(|(searched, _)| *searched == address) => return,
            None => match self.life.backstage.writers.get(&address).and_then(|writer| self.watch(writer)) {
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
        let (house, myself) = (self.life.backstage.clone(), self.myself.clone());
        self.work().writer_searches.retain(|(searched, _)| *searched != address);
        let search = Task::spawn({
            let address = address.clone();
            async move {
                let writer = house.writers.live(&address, not).await.map_err(|absent| absent.to_string());
                let _ = myself.cast(AgentMsg::WriterIs { address, writer });
            }
        });
        self.work().writer_searches.push((address, search));
    }

    pub(super) fn writer_is(&mut self, address: Arc<str>, writer: Result<ActorRef<WriterMsg>, String>) {
        self.work().writer_searches.retain(|(searched, _)| *searched != address);
        let writer = match (writer, &self.stage) {
            (Ok(writer), _) => writer,
            (Err(absent), Stage::Live(machine)) if !machine.is_at_rest() => {
                return self.park(format!("the journal cannot be written: its writer: {absent}"));
            }
            // Nothing waits for it; whatever is to be written next looks again.
            (Err(_), Stage::Live(_) | Stage::Recovering { .. } | Stage::Parked { .. }) => return,
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
            CommitReport::Failed { batch, error, fate, refusal: Refusal::Broken, .. } => {
                self.feed(Report::CommitFailed { batch, error, fate });
            }
            CommitReport::Failed { batch, error, fate, refusal: Refusal::Fenced, .. } => {
                let Stage::Live(machine) = &mut self.stage else { return };
                // Before anyone hears that something was not journaled: it is not to be mended here.
                self.life.lost(Loss::TakenOver);
                let now = self.life.backstage.now();
                let mut effects = machine.report(now, Report::CommitFailed { batch, error: error.clone(), fate });
                // What became of its inputs is told; to park is for one who may go on.
                effects.retain(|effect| !matches!(effect, Effect::Park { .. }));
                self.carry_out(effects);
                self.leave(error);
            }
        }
    }

    fn call(&mut self, call: CallId, config: Box<StreamConfig>) {
        let Some(connection) = self.connection_to(&config.model_config) else {
            let model = config.model_config.clone();
            self.work().unsent = Some((call, config));
            self.find_connection(model);
            return;
        };
        let Stage::Live(machine) = &self.stage else { return };
        let retry = machine.durable().settings.retry;
        let patience = if machine.can_fall_back() { Patience::FallsBack } else { Patience::Waits };
        let node = self.life.backstage.tree.enter(format!("call/{call}"), "call", Some(&self.life.address));
        node.set_state(NodeState::Running);
        self.work().call_node = Some((call.clone(), node));
        let (agent, reply) = (self.myself.get_cell(), self.myself.get_derived::<CallReport>());
        // A connection that died meanwhile is noticed by its monitor.
        let _ = connection.cast(ConnectionMsg::Start { call, config: *config, retry, patience, agent, reply });
    }

    /// The connection to a model, if it is at hand.
    fn connection_to(&mut self, model: &Arc<ModelConfig>) -> Option<ActorRef<ConnectionMsg>> {
        let fits = |(asked, _): &(Arc<ModelConfig>, _)| Arc::ptr_eq(asked, model) || asked == model;
        if !self.work().connection.as_ref().is_some_and(fits) {
            let own = self.life.definition.provider_override.is_some();
            let leased = self.life.leased().filter(|id| own || **id == *connection_id(model));
            let leased = leased.and_then(|id| self.life.backstage.connections.get(&id));
            let watched = leased.and_then(|connection| self.watch(connection));
            self.work().connection = watched.map(|watched| (model.clone(), watched));
        }
        self.work().connection.as_ref().map(|(_, connection)| connection.actor().clone())
    }

    fn find_connection(&mut self, model: Arc<ModelConfig>) {
        let (house, myself) = (self.life.backstage.clone(), self.myself.clone());
        let own = self.life.definition.provider_override.clone();
        let life = self.life.clone();
        self.work().connection_search = Some(Task::spawn(async move {
            let found = async {
                let lease = house.connect(&model, own).await.map_err(NoConnection::Setup)?;
                let address = lease.id().clone();
                life.lease(lease);
                Ok(house.connections.live(&address, None).await?)
            };
            let _ = myself.cast(AgentMsg::ConnectionIs(found.await));
        }));
    }

    pub(super) fn connection_is(&mut self, found: Result<ActorRef<ConnectionMsg>, NoConnection>) {
        self.work().connection_search = None;
        match found {
            Ok(connection) => {
                let Some((call, config)) = self.work().unsent.take() else { return };
                let model = config.model_config.clone();
                match self.watch(connection) {
                    Some(watched) => {
                        self.work().connection = Some((model, watched));
                        self.call(call, config);
                    }
                    None => {
                        self.work().unsent = Some((call, config));
                        self.find_connection(model);
                    }
                }
            }
            Err(missing) => {
                let Some((call, config)) = self.work().unsent.take() else { return };
                match (missing, &self.stage) {
                    // Nothing is wrong with the run: it goes on when the connection does.
                    (NoConnection::Absent(absent), Stage::Live(machine)) if !machine.can_fall_back() => {
                        self.park(format!("the model cannot be asked: its connection: {absent}"));
                    }
                    (missing, _) => {
                        let error = ProviderError::Other { message: missing.to_string() };
                        self.feed(Report::CallFailed { call, attempt: config.attempt, error });
                    }
                }
            }
        }
    }

    pub(super) fn call_report(&mut self, report: CallReport) {
        match report {
            // The credit goes back when the pieces have been taken.
            CallReport::Delta { call, attempt, deltas, credit } => {
                self.feed(Report::Delta { call, attempt, deltas });
                drop(credit);
            }
            CallReport::Retrying { call, attempt, error, delay_ms } => {
                let error = clean_failure(&self.life.backstage.secrets(), error);
                self.feed(Report::Retrying { call, attempt, error, delay_ms });
            }
            CallReport::Responded { call, attempt, message } => {
                self.work().call_node = None;
                self.feed(Report::Responded { call, attempt, message });
            }
            CallReport::Failed { call, attempt, error } => {
                self.work().call_node = None;
                let error = clean_failure(&self.life.backstage.secrets(), error);
                self.feed(Report::CallFailed { call, attempt, error });
            }
        }
    }

    fn run_tool(&mut self, job: ToolJob) {
        let Some(executor) = self.executor() else { return };
        let tree = &self.life.backstage.tree;
        let node = tree.enter(format!("tool/{}/{}", self.life.agent_id, job.call), "tool", Some(&self.life.address));
        node.set_state(NodeState::Running);
        self.work().running.insert(job.call.clone(), node);
        let _ = executor.cast(ExecutorMsg::Run { job });
    }

    /// The executor, started when there is work.
    fn executor(&mut self) -> Option<ActorRef<ExecutorMsg>> {
        if let Some((executor, _)) = &self.work().executor {
            return Some(executor.clone());
        }
        let Stage::Live(machine) = &self.stage else { return None };
        let args = ExecutorArgs {
            tools: self.life.definition.tools(),
            session_id: machine.durable().session_id.clone(),
            cwd: machine.durable().settings.cwd.clone(),
            runtime: self.life.backstage.tools.clone(),
            secrets: self.life.backstage.secrets(),
            output: Some(Arc::new(
                self.life.backstage.outputs.room(&machine.durable().session_id, machine.durable().settings.durability),
            )),
            sandbox: Sandbox {
                mode: machine.durable().settings.sandbox,
                rules: self.life.backstage.outside.sandbox.within(&machine.durable().settings.restrictions.sandbox),
            },
            reply: self.myself.get_derived::<ToolReport>(),
        };
        // A name is not given and `pre_start` cannot fail, so neither can this.
        let (executor, _) = ActorRuntime::spawn_linked_instant(None, Executor, args, self.myself.get_cell()).ok()?;
        let address = format!("executor/{}", self.life.agent_id);
        let node = self.life.backstage.tree.enter(address, "executor", Some(&self.life.address));
        node.set_state(NodeState::Running);
        self.work().executor = Some((executor.clone(), node));
        Some(executor)
    }

    /// The executor goes when the run is over; the run's next tools find it there.
    fn let_executor_go(&mut self) {
        let is_running = matches!(&self.stage, Stage::Live(machine) if machine.is_running());
        if !is_running
            && self.work().running.is_empty()
            && let Some((executor, _)) = self.work().executor.take()
        {
            executor.stop(None);
        }
    }

    pub(super) fn tool_report(&mut self, report: ToolReport) {
        match clean_report(&self.life.backstage.secrets(), report) {
            ToolReport::Updated { call, partial, credit } => {
                self.feed(Report::ToolUpdated { call, partial });
                drop(credit);
            }
            ToolReport::Progress { call, text, credit } => {
                self.feed(Report::ToolProgress { call, text });
                drop(credit);
            }
            ToolReport::Finished { call, result, duration_ms } => {
                self.work().running.remove(&call);
                self.feed(Report::ToolFinished { call, result, duration_ms });
            }
        }
    }

    fn run_hook(&mut self, hook: HookId, call: HookCall) {
        let Stage::Live(machine) = &self.stage else { return };
        let (point, durable, house) = (call.point(), machine.durable(), &self.life.backstage);
        let scene = || Scene {
            session_id: durable.session_id.clone(),
            transcript: match durable.settings.durability {
                Durability::None => None,
                Durability::Flush | Durability::Os => house.journals.path(&durable.session_id),
            },
            cwd: durable.settings.cwd.clone(),
            permission: durable.settings.permission,
            tools: house.tools.clone(),
        };
        let (work, myself) = (self.life.definition.consult(call, scene), self.myself.clone());
        let task = Task::spawn(async move {
            let verdict = AssertUnwindSafe(work).catch_unwind().await;
            let verdict = verdict.unwrap_or_else(|_| point.failed("the hook crashed"));
            let _ = myself.cast(AgentMsg::HookDone { hook, verdict });
        });
        self.work().hooks.insert(hook, task);
    }

    fn ask(&mut self, request: PermissionRequest) {
        let answer = match &self.life.definition.approvals {
            Approvals::Nobody | Approvals::Watcher => return,
            Approvals::Code(answer) => answer.clone(),
            Approvals::InTurn(in_turn) => in_turn.answering(),
            Approvals::Inbox => {
                let (agent_id, session_id) = (self.life.agent_id.clone(), self.life.session());
                return self.file(OpenQuestion { agent_id, session_id, request });
            }
        };
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
        self.work().questions.insert(permission_id, Asked::Code { _task: task });
    }

    fn file(&mut self, question: OpenQuestion) {
        let permission_id = question.request.permission_id.clone();
        let handle = AgentHandle::new(self.life.clone());
        let _filed = Filed::new(&self.life.backstage.approvals, question.clone(), handle);
        self.work().questions.insert(permission_id, Asked::Inbox { question, _filed });
    }

    /// Puts the questions that wait into an inbox that has just started.
    pub(super) fn ask_again(&mut self) {
        let waiting = |asked: &Asked| match asked {
            Asked::Code { .. } => None,
            Asked::Inbox { question, .. } => Some(question.clone()),
        };
        let questions: Vec<OpenQuestion> = self.work().questions.values().filter_map(waiting).collect();
        for question in questions {
            self.file(question);
        }
    }

    fn cancel(&mut self, target: Target) {
        match target {
            Target::Call(call) => {
                self.work().call_node = None;
                self.work().unsent = None;
                if let Some((_, connection)) = &self.work().connection {
                    let _ = connection.actor().cast(ConnectionMsg::Cancel { call });
                }
            }
            Target::Tool(call) => self.cancel_tool(call),
            Target::Child(call) => self.abort_child(&call),
            Target::Hook(hook) => {
                self.work().hooks.remove(&hook);
            }
        }
    }

    fn cancel_tool(&mut self, call: ToolCallId) {
        if let Some((executor, _)) = &self.work().executor {
            let _ = executor.cast(ExecutorMsg::Cancel { call });
        }
    }

    fn rotated(&mut self, to: SessionId) {
        let old = self.life.session();
        self.life.move_to(to);
        let address = self.life.backstage.writer_of(&old);
        if let Some(at) = self.work().writers.iter().position(|(known, _)| *known == address) {
            let (_, writer) = self.work().writers.swap_remove(at);
            let _ = writer.actor().cast(WriterMsg::Release { session: old });
        }
    }

    /// Ends everything that is under way.
    pub(super) fn drop_flight(&mut self) {
        if let Some((executor, _)) = self.work().executor.take() {
            executor.kill();
        }
        for (_, child) in std::mem::take(&mut self.work().children) {
            self.end_child(child);
        }
        let work = self.work();
        work.running.clear();
        work.hooks.clear();
        work.timers.clear();
        work.questions.clear();
        work.unsent = None;
        work.connection_search = None;
        let open = work.call_node.take();
        if let (Some((_, connection)), Some((call, _))) = (self.work().connection.take(), open) {
            let _ = connection.actor().cast(ConnectionMsg::Cancel { call });
        }
    }
}
