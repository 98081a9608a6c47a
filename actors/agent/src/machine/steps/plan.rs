//! Plan mode: calls that would change something are queued, shown, and carried out when someone approves of them.
//!
//! An approval starts a run whose first message is the plan's own: the approved calls, in order, as if the model had
//! just made them. From there on they are calls like any other, so a crash, an abort and a restart mean for them what
//! they mean for every call; and the model sees what came of them and goes on.

use std::sync::Arc;

use playhouse_protocol::entry::{BlockStage, PlannedChange};
use playhouse_protocol::{
    AgentMessage, CallId, Content, EffectClass, EntryBody, InputId, Message, MessageId, Mode, PlanDecision, StopReason,
};

use crate::machine::state::flight::OpenCall;
use crate::machine::state::rare::listed;
use crate::machine::state::run::{CallOrigin, CallSlot, Run};
use crate::machine::{InputError, Machine, Step, events};

/// What a sub-agent is told whose parent only plans.
const CHILD_PLANS: &str = "nothing may be changed while the plan is being made, and a sub-agent has no plan of its own; \
                           say in your answer what should be changed and leave it to your caller";

impl Machine {
    /// The stage that keeps a planning agent from changing anything; moved when it has dealt with the call.
    pub(super) fn plan_stage(&mut self, slot: &CallSlot, effect: &EffectClass) -> Step {
        let changes_something = match effect {
            // A sub-agent has its parent's mode, so it changes nothing either.
            EffectClass::Read | EffectClass::Child { .. } => false,
            EffectClass::Idempotent { .. } | EffectClass::Reconcilable { .. } | EffectClass::Once => true,
        };
        if slot.origin == CallOrigin::Plan || self.durable.settings.mode == Mode::Act || !changes_something {
            return Step::Through;
        }
        if self.durable.spawned_by.is_some() {
            self.block(slot, BlockStage::Plan, CHILD_PLANS.to_owned());
            return Step::Moved;
        }
        let change = self.durable.last_change().saturating_add(1);
        self.push(EntryBody::ToolQueued { tool_call_id: slot.id.clone(), change });
        Step::Moved
    }

    /// Someone decided on the plan.
    pub(super) fn decide_plan(&mut self, input_id: InputId, decision: PlanDecision) -> Result<(), InputError> {
        let which = match &decision {
            PlanDecision::Approve { changes } | PlanDecision::Reject { changes, .. } => changes,
        };
        let chosen = self.planned(which.as_deref())?;
        let changes = chosen.iter().map(|planned| planned.change).collect();
        self.push(match decision {
            PlanDecision::Approve { .. } => EntryBody::PlanApproved { input_id, changes },
            PlanDecision::Reject { reason, .. } => {
                let message = Arc::new(AgentMessage::user(rejected(&chosen, &reason), self.now.wall));
                EntryBody::PlanRejected { input_id, changes, message }
            }
        });
        Ok(())
    }

    /// The changes with these numbers, in the plan's order; all of them for `None`.
    fn planned(&self, changes: Option<&[u32]>) -> Result<Vec<PlannedChange>, InputError> {
        let plan = self.durable.plan();
        let missing = |change: &&u32| !plan.iter().any(|planned| planned.change == **change);
        if let Some(change) = changes.and_then(|changes| changes.iter().find(missing)) {
            return Err(InputError::UnknownChange(*change));
        }
        let is_chosen = |planned: &&PlannedChange| changes.is_none_or(|changes| changes.contains(&planned.change));
        let chosen: Vec<_> = plan.iter().filter(is_chosen).cloned().collect();
        if chosen.is_empty() { Err(InputError::NothingPlanned) } else { Ok(chosen) }
    }

    /// The first response of a run that carries out a plan, if there is one to make.
    pub(super) fn respond_with_plan(&mut self) -> Step {
        let Some((run, turn)) = self.durable.run_and_turn().filter(|(run, _)| !run.plan.is_empty()) else {
            return Step::Through;
        };
        let call: CallId = format!("{}/{}/plan", run.loop_id, turn.index).into();
        let message_id: MessageId = format!("{}/t{}plan", run.loop_id, turn.index).into();
        let message = self.plan_message(run);
        self.flight.run.call = Some(Box::new(OpenCall::new(call, turn.next_attempt, message_id)));
        self.answer_with(message);
        Step::Moved
    }

    fn plan_message(&self, run: &Run) -> Message {
        let call = |planned: &PlannedChange| Content::ToolCall {
            // One of our own is given to it.
            id: "".into(),
            name: planned.tool_name.clone(),
            arguments: planned.args.as_ref().clone(),
        };
        let content = run.plan.iter().map(call).collect();
        events::response(&self.durable, content, StopReason::ToolUse, self.now.wall)
    }
}

fn rejected(changes: &[PlannedChange], reason: &str) -> String {
    let why = if reason.is_empty() { String::new() } else { format!(" Reason: {reason}") };
    format!("These changes of the plan were rejected and will not be made: {}.{why}", listed(changes))
}
