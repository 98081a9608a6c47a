//! Carrying out what the machine asks for. The one place where an effect becomes an act.

use playhouse_provider::ConnectionMsg;
use playhouse_supervision::Task;
use playhouse_tools::ToolJob;

use super::state::State;
use crate::hooks::PermissionRequest;
use crate::machine::{CancelTarget, Effect, Timer, ToolStart};
use crate::mailbox::AgentMsg;

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
                let reconcile = start == ToolStart::Again;
                self.run_tool(ToolJob { call, name, args, effect, reconcile });
            }
            Effect::Spawn { call, name, args, session } => self.spawn_child(call, &name, &args, session),
            Effect::Hook { hook, call } => self.run_hook(hook, call),
            Effect::Ask { permission_id, tool_call_id, tool_name, args, question } => {
                let question = *question;
                self.ask(PermissionRequest { permission_id, tool_call_id, tool_name, args, question });
            }
            Effect::Remember { rules } => self.identity.services.rules.remember(&rules),
            Effect::Cancel(target) => self.cancel(target),
            Effect::Emit(event) => self.identity.topic.publish(event),
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

    fn cancel(&mut self, target: CancelTarget) {
        match target {
            CancelTarget::Call(call) => {
                self.work().call_node = None;
                self.work().unsent = None;
                if let Some((_, connection)) = &self.work().connection {
                    let _ = connection.actor().cast(ConnectionMsg::Cancel { call });
                }
            }
            CancelTarget::Tool(call) => self.cancel_tool(call),
            CancelTarget::Child(call) => self.abort_child(&call),
            CancelTarget::Hook(hook) => {
                self.work().hooks.remove(&hook);
            }
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
