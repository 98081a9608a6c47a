//! The tool calls of a turn, each driven from its vetting to its answer.

use std::sync::Arc;

use playhouse_protocol::entry::{BlockStage, InputKind};
use playhouse_protocol::{EffectClass, EntryBody, Passage, ToolCallId, ToolError, ToolResult};

use crate::machine::hooks::tool_hooks::StartDecision;
use crate::machine::hooks::verdict::answer_at;
use crate::machine::state::flight::{ToolFlight, ToolPhase, UpdateState};
use crate::machine::state::run::{CallSlot, CallState};
use crate::machine::{
    ABORT_GRACE, CancelTarget, Effect, HookCall, HookPoint, Machine, Step, Timer, ToolStart, Verdict,
};

/// The answer to a call that steering overtook.
const SKIPPED: &str = "Skipped due to queued user message.";
/// The answer to a call that an abort kept from starting.
const NOT_STARTED: &str = "Aborted before it started.";
/// The answer to a call that an abort stopped.
const STOPPED: &str = "Aborted while it ran; it may have taken effect in part.";
/// The answer to a call that did not stop when told to.
const NOT_STOPPED: &str = "Aborted, but the tool did not stop in time; it may still take effect.";

impl Machine {
    pub(super) fn step_tools(&mut self) -> Step {
        let Some((run, turn)) = self.durable.run_and_turn() else { return Step::Through };
        let Some(first) = turn.calls.iter().position(|slot| !slot.is_settled()) else { return Step::Through };
        let calls = turn.calls.clone();
        if run.is_stopping() {
            return self.stop_tools(&calls);
        }
        let size = self.durable.settings.tool_execution.group_size();
        let start = first - first % size;
        let group = calls.iter().skip(start).take(size);
        let untouched = start > 0 && group.clone().all(|slot| self.is_untouched(slot));
        if untouched {
            if let step @ (Step::Moved | Step::Waiting) = self.poll(InputKind::Steer) {
                return step;
            }
            if !self.flight.run.taken.is_empty() {
                for slot in calls.iter().skip(start) {
                    let tool_call_id = slot.id.clone();
                    self.push(EntryBody::ToolSkipped { tool_call_id, reason: SKIPPED.to_owned() });
                }
                return Step::Moved;
            }
        }
        let mut moved = false;
        for slot in group {
            moved |= self.step_call(slot) == Step::Moved;
        }
        Step::of_any(moved)
    }

    fn is_untouched(&self, slot: &CallSlot) -> bool {
        slot.state == CallState::Open && !self.flight.run.tools.contains_key(&slot.id)
    }

    /// Takes one call a step further.
    fn step_call(&mut self, slot: &CallSlot) -> Step {
        if self.flight.run.tools.contains_key(&slot.id) {
            return self.step_waiting(slot);
        }
        match &slot.state {
            CallState::Open => self.enter_pipeline(slot),
            CallState::Asked { permission_id, question } => {
                self.put_question(slot, permission_id.clone(), question.clone());
            }
            CallState::Granted { permission_id } => self.enter_granted(slot, permission_id),
            CallState::Denied { reason } => self.block(slot, BlockStage::Approval, reason.clone()),
            CallState::Started { effect, at } => self.restart_call(slot, effect, *at),
            CallState::Ended { hook_due: true, .. } => self.close(slot, slot.has_failed()),
            CallState::Ended { hook_due: false, .. } => return Step::Through,
        }
        Step::Moved
    }

    pub(in crate::machine) fn run_tool_hook(&mut self, id: &ToolCallId, call: HookCall) {
        let hook = self.next_hook();
        self.flight.run.tool_hooks.insert(hook, (id.clone(), call.point()));
        self.run_hook(hook, call);
    }

    pub(super) fn start(&mut self, slot: &CallSlot, effect: EffectClass, passage: Passage) {
        let passage = Some(Box::new(passage));
        self.push(EntryBody::ToolStarted { tool_call_id: slot.id.clone(), effect: effect.clone(), passage });
        self.launch(slot, effect, ToolStart::First);
    }

    fn launch(&mut self, slot: &CallSlot, effect: EffectClass, start: ToolStart) {
        self.flight.run.tools.insert(slot.id.clone(), ToolFlight::new(ToolPhase::Starting));
        let (call, name, args) = (slot.id.clone(), slot.name.clone(), slot.args.clone());
        self.act(match effect {
            EffectClass::Child { session } => Effect::Spawn { call, name, args, session },
            effect @ (EffectClass::Read
            | EffectClass::Idempotent { .. }
            | EffectClass::Reconcilable { .. }
            | EffectClass::Once) => Effect::RunTool { call, name, args, effect, start },
        });
    }

    /// A call that was started and is not under way: a crash came between. Its class says what that means.
    fn restart_call(&mut self, slot: &CallSlot, effect: &EffectClass, at: u64) {
        match effect {
            EffectClass::Read
            | EffectClass::Idempotent { .. }
            | EffectClass::Reconcilable { .. }
            | EffectClass::Child { .. } => match self.objection(slot) {
                // Forbidden since it was started.
                Some(reason) => self.end_call(&slot.id, Err(ToolError::Failed(reason)), 0),
                None => self.launch(slot, effect.clone(), ToolStart::Again),
            },
            EffectClass::Once => self.end_call(&slot.id, Err(ToolError::Failed(outcome_unknown(at))), 0),
        }
    }

    fn close(&mut self, slot: &CallSlot, is_error: bool) {
        let CallState::Ended { message, .. } = &slot.state else { return };
        if !self.setup.hooks.has(HookPoint::AfterTool) {
            self.push(EntryBody::ToolAnswered { tool_call_id: slot.id.clone(), note: None });
            return;
        }
        self.flight.run.tools.insert(slot.id.clone(), ToolFlight::new(ToolPhase::Closing));
        let (name, call, args) = (slot.name.clone(), slot.id.clone(), slot.args.clone());
        let call = HookCall::AfterTool { name, call, args, result: message.clone(), is_error };
        self.run_tool_hook(&slot.id, call);
    }

    pub(in crate::machine) fn tool_hook_answered(&mut self, call: &ToolCallId, verdict: Verdict) {
        let Some(tool) = self.flight.run.tools.get_mut(call) else { return };
        match &tool.phase {
            ToolPhase::Judging { effect, level } => {
                let (effect, level) = (effect.clone(), *level);
                self.judged(call, effect, level, verdict);
            }
            ToolPhase::Checking { question } => {
                let question = question.clone();
                self.checked(call, question, answer_at(HookPoint::Check, verdict));
            }
            ToolPhase::Hooking { effect, passage } => {
                let (effect, passage) = (effect.clone(), passage.clone());
                self.flight.run.tools.remove(call);
                let Some(slot) = self.slot(call).cloned() else { return };
                match self.take_before_tool(call, answer_at(HookPoint::BeforeTool, verdict)) {
                    StartDecision::Start => self.start(&slot, effect, passage),
                    StartDecision::Block(reason) => self.block(&slot, BlockStage::Hook, reason),
                    StartDecision::Ask(reason) => self.ask_for_hook(&slot, passage.level, reason),
                    // What it said is journaled; the next step goes on from there.
                    StartDecision::Later => {}
                }
            }
            ToolPhase::Closing => {
                self.take_after_tool(call, answer_at(HookPoint::AfterTool, verdict));
            }
            ToolPhase::Running | ToolPhase::Stopping => self.update_answered(call, verdict),
            ToolPhase::Queued { .. } | ToolPhase::Asking | ToolPhase::Waiting { .. } | ToolPhase::Starting => {}
        }
    }

    pub(super) fn slot(&self, call: &ToolCallId) -> Option<&CallSlot> {
        self.durable.turn()?.slot(call)
    }

    pub(in crate::machine) fn tool_finished(
        &mut self,
        call: &ToolCallId,
        result: Result<ToolResult, ToolError>,
        duration_ms: u64,
    ) {
        let Some(tool) = self.flight.run.tools.get_mut(call) else { return };
        match (&tool.phase, &tool.update) {
            (ToolPhase::Running, UpdateState::None) => self.end_call(call, result, duration_ms),
            (ToolPhase::Running, UpdateState::Before(_) | UpdateState::After) => {
                tool.next_update = None;
                tool.finished = Some((result, duration_ms));
            }
            (ToolPhase::Stopping, _) => {
                let result = match result {
                    Err(ToolError::Cancelled) => Err(ToolError::Failed(STOPPED.to_owned())),
                    result @ (Ok(_) | Err(_)) => result,
                };
                self.end_call(call, result, duration_ms);
            }
            (
                ToolPhase::Judging { .. }
                | ToolPhase::Queued { .. }
                | ToolPhase::Checking { .. }
                | ToolPhase::Asking
                | ToolPhase::Waiting { .. }
                | ToolPhase::Hooking { .. }
                | ToolPhase::Starting
                | ToolPhase::Closing,
                _,
            ) => {}
        }
    }

    pub(super) fn end_call(&mut self, call: &ToolCallId, result: Result<ToolResult, ToolError>, duration_ms: u64) {
        self.flight.run.tools.remove(call);
        let Some(slot) = self.slot(call) else { return };
        let summary = self.setup.catalog.summary(&slot.name, &slot.args, &result);
        let (result, is_error) = match result {
            Ok(result) => (result, false),
            Err(error) => (ToolResult::text(error.to_string()), true),
        };
        self.push(EntryBody::ToolEnded {
            tool_call_id: call.clone(),
            result: Arc::new(result),
            is_error,
            duration_ms,
            summary,
            hook_follows: self.setup.hooks.has(HookPoint::AfterTool),
        });
    }

    /// The running tools died with their executor; what that means is up to their classes. One that was done, whose
    /// last partial result is still being shown, keeps its result.
    pub(in crate::machine) fn executor_lost(&mut self) {
        let lost: Vec<ToolCallId> = self
            .flight
            .run
            .tools
            .iter()
            .filter(|(_, tool)| matches!(tool.phase, ToolPhase::Running | ToolPhase::Stopping))
            .filter(|(_, tool)| tool.finished.is_none())
            .map(|(call, _)| call.clone())
            .collect();
        for call in lost {
            let is_child = self.slot(&call).is_some_and(|slot| {
                matches!(&slot.state, CallState::Started { effect: EffectClass::Child { .. }, .. })
            });
            if !is_child {
                self.flight.run.tools.remove(&call);
                self.cancel_hook_of(&call);
            }
        }
    }

    /// An abort: what has not started is answered, what runs is told to stop.
    fn stop_tools(&mut self, calls: &[CallSlot]) -> Step {
        let mut moved = false;
        for slot in calls {
            moved |= self.stop_call(slot) == Step::Moved;
        }
        Step::of_any(moved)
    }

    fn stop_call(&mut self, slot: &CallSlot) -> Step {
        match &slot.state {
            CallState::Open | CallState::Asked { .. } | CallState::Granted { .. } | CallState::Denied { .. } => {
                if let CallState::Asked { permission_id, .. } = &slot.state {
                    self.out.push(Effect::Disarm(Timer::Permission(permission_id.clone())));
                }
                self.flight.run.tools.remove(&slot.id);
                let tool_call_id = slot.id.clone();
                self.push(EntryBody::ToolSkipped { tool_call_id, reason: NOT_STARTED.to_owned() });
                Step::Moved
            }
            CallState::Started { effect, at } => self.stop_started(slot, effect, *at),
            CallState::Ended { hook_due: true, .. } => self.step_call(slot),
            CallState::Ended { hook_due: false, .. } => Step::Through,
        }
    }

    fn stop_started(&mut self, slot: &CallSlot, effect: &EffectClass, at: u64) -> Step {
        let is_child = matches!(effect, EffectClass::Child { .. });
        match self.flight.run.tools.get_mut(&slot.id).map(|tool| &mut tool.phase) {
            None => {
                let text = match effect {
                    EffectClass::Once => outcome_unknown(at),
                    EffectClass::Read
                    | EffectClass::Idempotent { .. }
                    | EffectClass::Reconcilable { .. }
                    | EffectClass::Child { .. } => STOPPED.to_owned(),
                };
                self.end_call(&slot.id, Err(ToolError::Failed(text)), 0);
                Step::Moved
            }
            Some(ToolPhase::Starting) => {
                self.end_call(&slot.id, Err(ToolError::Failed(NOT_STARTED.to_owned())), 0);
                Step::Moved
            }
            Some(phase @ ToolPhase::Running) => {
                *phase = ToolPhase::Stopping;
                let id = slot.id.clone();
                self.out.push(Effect::Cancel(if is_child { CancelTarget::Child(id) } else { CancelTarget::Tool(id) }));
                self.out.push(Effect::Arm { timer: Timer::AbortGrace, after: ABORT_GRACE });
                self.end_if_finished(&slot.id)
            }
            Some(
                ToolPhase::Stopping
                | ToolPhase::Judging { .. }
                | ToolPhase::Queued { .. }
                | ToolPhase::Checking { .. }
                | ToolPhase::Asking
                | ToolPhase::Waiting { .. }
                | ToolPhase::Hooking { .. }
                | ToolPhase::Closing,
            ) => Step::Waiting,
        }
    }

    /// A tool that was done before it was told to stop, but whose last partial result was still being shown.
    fn end_if_finished(&mut self, call: &ToolCallId) -> Step {
        match self.flight.run.tools.get_mut(call).and_then(|tool| tool.finished.take()) {
            Some((result, duration_ms)) => {
                self.end_call(call, result, duration_ms);
                Step::Moved
            }
            None => Step::Waiting,
        }
    }

    pub(in crate::machine) fn abort_overdue(&mut self) {
        if !self.durable.is_stopping() {
            return;
        }
        let late: Vec<ToolCallId> = self
            .flight
            .run
            .tools
            .iter()
            .filter(|(_, tool)| tool.phase == ToolPhase::Stopping)
            .map(|(call, _)| call.clone())
            .collect();
        for call in late {
            self.end_call(&call, Err(ToolError::Failed(NOT_STOPPED.to_owned())), 0);
        }
    }
}

fn outcome_unknown(at: u64) -> String {
    let millis = i64::try_from(at).unwrap_or(i64::MAX);
    let when = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    format!("started at {when}, outcome unknown; verify before repeating")
}
