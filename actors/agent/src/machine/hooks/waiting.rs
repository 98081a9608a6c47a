//! Waiting for hooks. A run waits for one hook at a time, each tool call for one of its own.

use std::time::Duration;

use playhouse_protocol::ToolCallId;

use super::verdict::{PointAnswer, answer_at};
use crate::machine::state::flight::{RunHook, ToolPhase, UpdateState};
use crate::machine::{AfterTool, CancelTarget, Effect, HookCall, HookId, HookPoint, Machine, Timer, Verdict};

/// How long a hook may take once the run is being aborted: an abort settles at once.
const ABORTING_DEADLINE: Duration = Duration::from_millis(100);

impl Machine {
    /// The answer of the hook that the run waits for; `None` while it is at work.
    pub(in crate::machine) fn consult<A: PointAnswer>(
        &mut self,
        point: HookPoint,
        call: impl FnOnce(&Self) -> HookCall,
    ) -> Option<A> {
        if !self.setup.hooks.has(point) {
            return Some(A::unasked());
        }
        match std::mem::take(&mut self.flight.run.hook) {
            RunHook::Answered { point: answered, verdict } if answered == point => Some(answer_at(point, *verdict)),
            RunHook::Waiting { hook, point: waiting } if waiting == point => {
                self.flight.run.hook = RunHook::Waiting { hook, point };
                None
            }
            RunHook::None | RunHook::Waiting { .. } | RunHook::Answered { .. } => {
                let call = call(self);
                let hook = self.next_hook();
                self.flight.run.hook = RunHook::Waiting { hook, point };
                self.run_hook(hook, call);
                None
            }
        }
    }

    /// Whether the run waits for the hook at this point, or has its answer.
    pub(in crate::machine) fn has_asked(&self, asked: HookPoint) -> bool {
        match &self.flight.run.hook {
            RunHook::None => false,
            RunHook::Waiting { point, .. } | RunHook::Answered { point, .. } => *point == asked,
        }
    }

    pub(in crate::machine) fn next_hook(&mut self) -> HookId {
        self.counters.last_hook += 1;
        HookId(self.counters.last_hook)
    }

    pub(in crate::machine) fn run_hook(&mut self, hook: HookId, call: HookCall) {
        let after = if self.durable.is_stopping() { ABORTING_DEADLINE } else { self.setup.hook_deadline(call.point()) };
        self.act(Effect::Hook { hook, call });
        self.act(Effect::Arm { timer: Timer::Hook(hook), after });
    }

    pub(in crate::machine) fn is_waiting_for(&self, hook: HookId) -> bool {
        let run_waits = matches!(self.flight.run.hook, RunHook::Waiting { hook: waiting, .. } if waiting == hook);
        run_waits || self.flight.run.tool_hooks.contains_key(&hook)
    }

    pub(in crate::machine) fn hook_done(&mut self, hook: HookId, verdict: Verdict) {
        self.out.push(Effect::Disarm(Timer::Hook(hook)));
        self.hook_answered(hook, verdict);
    }

    /// A hook that nobody waits for any more is ended all the same.
    pub(in crate::machine) fn hook_overdue(&mut self, hook: HookId) {
        self.out.push(Effect::Cancel(CancelTarget::Hook(hook)));
        let point = match self.flight.run.hook {
            RunHook::Waiting { hook: waiting, point } if waiting == hook => Some(point),
            RunHook::None | RunHook::Waiting { .. } | RunHook::Answered { .. } => {
                self.flight.run.tool_hooks.get(&hook).map(|(_, point)| *point)
            }
        };
        if let Some(point) = point {
            self.hook_answered(hook, point.failed("the hook did not answer in time"));
        }
    }

    /// Takes an answer in; one that nobody waits for changes nothing.
    fn hook_answered(&mut self, hook: HookId, verdict: Verdict) {
        match self.flight.run.hook {
            RunHook::Waiting { hook: waiting, point } if waiting == hook => {
                self.flight.run.hook = RunHook::Answered { point, verdict: Box::new(verdict) };
            }
            RunHook::None | RunHook::Waiting { .. } | RunHook::Answered { .. } => {
                if let Some((call, _)) = self.flight.run.tool_hooks.remove(&hook) {
                    self.tool_hook_answered(&call, verdict);
                }
            }
        }
    }

    /// Ends the hook that a call waits for.
    pub(in crate::machine) fn cancel_hook_of(&mut self, call: &ToolCallId) {
        let found = self.flight.run.tool_hooks.iter().find(|(_, (waiting, _))| waiting == call).map(|(hook, _)| *hook);
        if let Some(hook) = found {
            self.flight.run.tool_hooks.remove(&hook);
            self.cancel_hook(hook);
        }
    }

    fn cancel_hook(&mut self, hook: HookId) {
        self.out.push(Effect::Cancel(CancelTarget::Hook(hook)));
        self.out.push(Effect::Disarm(Timer::Hook(hook)));
    }

    /// An abort ends every hook at once. What a hook would have allowed does not happen; what it only follows is over.
    pub(in crate::machine) fn cancel_hooks(&mut self) {
        if let RunHook::Waiting { hook, point } = self.flight.run.hook {
            self.cancel_hook(hook);
            self.flight.run.hook = match point {
                HookPoint::AfterTurn | HookPoint::AfterLoop => {
                    RunHook::Answered { point, verdict: Box::new(Verdict::Noted) }
                }
                HookPoint::BeforeLoop
                | HookPoint::BeforeTurn
                | HookPoint::BeforeTool
                | HookPoint::AfterTool
                | HookPoint::BeforeUpdate
                | HookPoint::AfterUpdate
                | HookPoint::OnError
                | HookPoint::Filter
                | HookPoint::Policy
                | HookPoint::Stop
                | HookPoint::SessionStart
                | HookPoint::Check => RunHook::None,
            };
        }
        for (hook, (call, _)) in std::mem::take(&mut self.flight.run.tool_hooks) {
            self.cancel_hook(hook);
            let Some(tool) = self.flight.run.tools.get_mut(&call) else { continue };
            match tool.phase {
                ToolPhase::Closing => self.take_after_tool(&call, AfterTool::Done),
                ToolPhase::Judging { .. } | ToolPhase::Checking { .. } | ToolPhase::Hooking { .. } => {
                    self.flight.run.tools.remove(&call);
                }
                ToolPhase::Queued { .. }
                | ToolPhase::Asking
                | ToolPhase::Waiting { .. }
                | ToolPhase::Starting
                | ToolPhase::Running
                | ToolPhase::Stopping => {
                    tool.update = UpdateState::None;
                    tool.next_update = None;
                }
            }
        }
    }
}
