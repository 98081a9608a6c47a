//! Consulting users: their hooks, and whoever answers questions for permission.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use playhouse_protocol::{Durability, PermissionDecision, ToolCallId};
use playhouse_supervision::Task;
use serde_json::Value;

use super::state::{Lifecycle, State};
use super::work::Asked;
use crate::approvals::{Filed, OpenQuestion};
use crate::handle::{Agent, AgentHandle};
use crate::hooks::process::Scene;
use crate::hooks::{Approvals, PermissionRequest};
use crate::machine::{Checked, HookCall, HookId, HookPoint, Verdict};
use crate::mailbox::AgentMsg;

impl State {
    pub(super) fn run_hook(&mut self, hook: HookId, call: HookCall) {
        let Lifecycle::Live(machine) = &self.lifecycle else { return };
        if let HookCall::Check { name, call, args } = call {
            return self.check(hook, &name, call, args);
        }
        let (point, durable, services) = (call.point(), machine.durable(), &self.identity.services);
        let scene = || Scene {
            session_id: durable.session_id.clone(),
            transcript: match durable.settings.durability {
                Durability::None => None,
                Durability::Flush | Durability::Os => services.journals.reader.path(&durable.session_id),
            },
            cwd: durable.settings.cwd.clone(),
            permission: durable.settings.permission,
            tools: services.tools.runtime.clone(),
        };
        let work = self.identity.definition.consult(call, scene);
        self.wait_for_hook(hook, point, work);
    }

    /// Lets a tool look at a call before a person is asked about it.
    fn check(&mut self, hook: HookId, name: &str, call: ToolCallId, args: Arc<Value>) {
        let Some(executor) = self.executor_args() else { return };
        let work = executor.check(name, call, args).map(|looked| {
            Verdict::Check(match looked {
                Ok(()) => Checked::Possible,
                Err(error) => Checked::Fails { reason: error.to_string() },
            })
        });
        self.wait_for_hook(hook, HookPoint::Check, work);
    }

    fn wait_for_hook(&mut self, hook: HookId, point: HookPoint, work: impl Future<Output = Verdict> + Send + 'static) {
        let myself = self.myself.clone();
        let task = Task::spawn(async move {
            let verdict = AssertUnwindSafe(work).catch_unwind().await;
            let verdict = verdict.unwrap_or_else(|_| point.failed("the hook crashed"));
            let _ = myself.cast(AgentMsg::HookDone { hook, verdict });
        });
        self.work().hooks.insert(hook, task);
    }

    pub(super) fn ask(&mut self, request: PermissionRequest) {
        let answer = match &self.identity.definition.approvals {
            Approvals::Nobody | Approvals::Watcher => return,
            Approvals::Code(answer) => answer.clone(),
            Approvals::InTurn(in_turn) => in_turn.answering(),
            Approvals::Inbox => {
                let (agent_id, session_id) = (self.identity.agent_id.clone(), self.identity.session());
                return self.file(OpenQuestion { agent_id, session_id, request });
            }
        };
        let handle = AgentHandle::new(self.identity.clone());
        let permission_id = request.permission_id.clone();
        let task = Task::spawn(async move {
            let permission_id = request.permission_id.clone();
            let decision = AssertUnwindSafe(answer(request)).catch_unwind().await;
            let decision = decision.unwrap_or_else(|_| PermissionDecision::Deny {
                reason: "the code that answers questions crashed".to_owned(),
            });
            // A question that was called off needs no answer.
            let _ = handle.respond_permission(permission_id, decision).await;
        });
        self.work().questions.insert(permission_id, Asked::Code { _task: task });
    }

    pub(super) fn file(&mut self, question: OpenQuestion) {
        let permission_id = question.request.permission_id.clone();
        let _filed = Filed::new(&self.identity.services.approvals, question.clone());
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
}
