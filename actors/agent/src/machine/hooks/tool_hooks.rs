//! What hooks say of a tool call: whether it may run, with which arguments, after which question, and what they add to
//! its result.

use playhouse_protocol::{EffectClass, EntryBody, Passage, ToolCallId};

use crate::machine::state::flight::{ToolFlight, ToolPhase};
use crate::machine::state::run::{CallSlot, ToolHookState};
use crate::machine::{AfterTool, BeforeTool, HookCall, HookPoint, Machine};

/// What becomes of a call that is past its approval.
pub(in crate::machine) enum StartDecision {
    /// It starts now.
    Start,
    /// It does not run, and the model gets this reason.
    Block(String),
    /// It runs after a yes to this.
    Ask(String),
    /// The hook must be asked first, or its answer sends the call back to an earlier stage.
    Later,
}

impl Machine {
    /// What is known without asking the hook; `Later` when it must be asked.
    pub(in crate::machine) fn start_decision(&self, slot: &CallSlot) -> StartDecision {
        if let Some(reason) = self.durable.run.as_ref().and_then(|run| run.halt.as_ref()) {
            return StartDecision::Block(format!("the run is being ended: {reason}"));
        }
        match &slot.hook {
            ToolHookState::Due if self.setup.hooks.has(HookPoint::BeforeTool) => StartDecision::Later,
            ToolHookState::Due | ToolHookState::Passed => StartDecision::Start,
            ToolHookState::Asks(reason) => StartDecision::Ask(format!("go past a hook that says: {reason}")),
        }
    }

    /// Asks `before_tool_execution`; the call waits for its answer.
    pub(in crate::machine) fn ask_before_tool(&mut self, slot: &CallSlot, effect: EffectClass, passage: Passage) {
        self.flight.run.tools.insert(slot.id.clone(), ToolFlight::new(ToolPhase::Hooking { effect, passage }));
        let call = HookCall::BeforeTool { name: slot.name.clone(), call: slot.id.clone(), args: slot.args.clone() };
        self.run_tool_hook(&slot.id, call);
    }

    /// Takes in what `before_tool_execution` says.
    pub(in crate::machine) fn take_before_tool(&mut self, call: &ToolCallId, answer: BeforeTool) -> StartDecision {
        let tool_call_id = call.clone();
        match answer {
            BeforeTool::Run => StartDecision::Start,
            BeforeTool::Block { reason } => StartDecision::Block(reason),
            BeforeTool::Halt { reason } => {
                self.push(EntryBody::HaltAsked { reason: reason.clone() });
                StartDecision::Block(reason)
            }
            BeforeTool::Ask { reason, args } => {
                self.push(EntryBody::ToolHooked { tool_call_id, args, ask: Some(reason.into()) });
                StartDecision::Later
            }
            BeforeTool::Amend { args } => {
                self.push(EntryBody::ToolHooked { tool_call_id, args: Some(args), ask: None });
                StartDecision::Later
            }
        }
    }

    /// Takes in what `after_tool_execution` says. It cannot undo the call; that it failed changes nothing.
    pub(in crate::machine) fn take_after_tool(&mut self, call: &ToolCallId, answer: AfterTool) {
        self.flight.run.tools.remove(call);
        let note = match answer {
            AfterTool::Done => None,
            AfterTool::Say { text } => Some(text.into()),
            AfterTool::Halt { reason } => {
                self.push(EntryBody::HaltAsked { reason });
                None
            }
        };
        self.push(EntryBody::ToolAnswered { tool_call_id: call.clone(), note });
    }
}
