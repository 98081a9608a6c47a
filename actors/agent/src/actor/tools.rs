//! Running tools: by an executor that is started when there is work, and goes when the run is over.

use std::sync::Arc;

use playhouse_protocol::{ToolCallId, ToolReport};
use playhouse_supervision::NodeState;
use playhouse_tools::{Executor, ExecutorArgs, ExecutorMsg, Sandbox, ToolJob};
use ractor::{ActorRef, ActorRuntime};

use super::state::{Lifecycle, State};
use crate::machine::Report;
use crate::redaction::clean_report;

impl State {
    pub(super) fn run_tool(&mut self, job: ToolJob) {
        let Some(executor) = self.executor() else { return };
        let tree = &self.identity.services.tree;
        let node =
            tree.enter(format!("tool/{}/{}", self.identity.agent_id, job.call), "tool", Some(&self.identity.address));
        node.set_state(NodeState::Running);
        self.work().running.insert(job.call.clone(), node);
        let _ = executor.cast(ExecutorMsg::Run { job });
    }

    /// The executor, started when there is work.
    pub(super) fn executor(&mut self) -> Option<ActorRef<ExecutorMsg>> {
        if let Some((executor, _)) = &self.work().executor {
            return Some(executor.clone());
        }
        let args = self.executor_args()?;
        // A name is not given and `pre_start` cannot fail, so neither can this.
        let (executor, _) = ActorRuntime::spawn_linked_instant(None, Executor, args, self.myself.get_cell()).ok()?;
        let address = format!("executor/{}", self.identity.agent_id);
        let node = self.identity.services.tree.enter(address, "executor", Some(&self.identity.address));
        node.set_state(NodeState::Running);
        self.work().executor = Some((executor.clone(), node));
        Some(executor)
    }

    /// What its tools work with; `None` while there is no machine.
    pub(super) fn executor_args(&self) -> Option<ExecutorArgs> {
        let Lifecycle::Live(machine) = &self.lifecycle else { return None };
        Some(ExecutorArgs {
            tools: self.identity.definition.tools(),
            states: self.identity.definition.states.over(&self.identity.services.tools.states),
            session_id: machine.durable().session_id.clone(),
            cwd: machine.durable().settings.cwd.clone(),
            runtime: self.identity.services.tools.runtime.clone(),
            secrets: self.identity.services.connections.secrets(),
            output: Some(Arc::new(
                self.identity
                    .services
                    .tools
                    .outputs
                    .room(&machine.durable().session_id, machine.durable().settings.durability),
            )),
            sandbox: Sandbox {
                mode: machine.durable().settings.sandbox,
                rules: self.identity.services.tools.sandbox.within(&machine.durable().settings.restrictions.sandbox),
            },
            forbid: self.identity.services.rules.live().get().forbidden(&machine.durable().settings.restrictions),
            reply: self.myself.get_derived::<ToolReport>(),
        })
    }

    /// The executor goes when the run is over; the run's next tools find it there.
    pub(super) fn let_executor_go(&mut self) {
        let is_running = matches!(&self.lifecycle, Lifecycle::Live(machine) if machine.is_running());
        if !is_running
            && self.work().running.is_empty()
            && let Some((executor, _)) = self.work().executor.take()
        {
            executor.stop(None);
        }
    }

    pub(super) fn tool_report(&mut self, report: ToolReport) {
        match clean_report(&self.identity.services.connections.secrets(), report) {
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

    pub(super) fn cancel_tool(&mut self, call: ToolCallId) {
        if let Some((executor, _)) = &self.work().executor {
            let _ = executor.cast(ExecutorMsg::Cancel { call });
        }
    }
}
