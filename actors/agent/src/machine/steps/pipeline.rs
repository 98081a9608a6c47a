//! A tool call from the model's word to its start: the stages of the pipeline, each a function of its own.
//!
//! ```text
//! limit → lookup, schema → plan → policy (safety included) → check → approval → order → hooks → start
//! ```
//!
//! A stage lets the call through, answers it (`ToolBlocked`, with the stage's name and its reason), or makes it wait.
//! What is decided is in the journal: a refusal in `ToolBlocked`, a question and its answer in `PermissionAsked` and
//! `PermissionResolved`, and how a call came to be allowed in `ToolStarted`.

use playhouse_protocol::entry::BlockStage;
use playhouse_protocol::{
    EffectClass, EntryBody, Level, Passage, PermissionAnswer, PermissionDecision, PermissionId, Question, Ruling,
    ToolCallId,
};

use crate::machine::hooks::tool_hooks::StartDecision;
use crate::machine::state::digest;
use crate::machine::state::flight::{ToolFlight, ToolPhase};
use crate::machine::state::run::{CallOrigin, CallSlot, CallState, ToolHookState};
use crate::machine::{
    Approver, Authority, Checked, Effect, HookCall, HookPoint, Machine, PERMISSION_DEADLINE, Step, Timer, Verdict,
    Vetting,
};

/// How many calls of one response are run.
const MAX_CALLS: usize = 25;
/// After how many failures in a row the rest of a response's calls is not run.
const MAX_FAILURES: usize = 5;

impl Machine {
    /// A call that nothing has happened to: as far as the stages take it at once.
    pub(super) fn enter_pipeline(&mut self, slot: &CallSlot) {
        if let Some(reason) = self.limit_stage(slot) {
            return self.block(slot, BlockStage::Limit, reason);
        }
        let (effect, level, ruling) = match self.vet(slot) {
            Vetting::Blocked { stage, reason } => return self.block(slot, stage, reason),
            Vetting::Ready { effect, level, ruling } => (effect, level, ruling),
        };
        if self.plan_stage(slot, &effect) == Step::Moved {
            return;
        }
        if self.setup.hooks.has(HookPoint::Policy) && !matches!(ruling, Ruling::Forbid { .. }) {
            return self.judge(slot, effect, level, ruling);
        }
        self.policy_stage(slot, effect, level, ruling);
    }

    /// A call whose question was answered with yes. What forbids it by now still counts.
    pub(super) fn enter_granted(&mut self, slot: &CallSlot, permission_id: &PermissionId) {
        match self.vet(slot) {
            Vetting::Blocked { stage, reason } => self.block(slot, stage, reason),
            Vetting::Ready { ruling: Ruling::Forbid { reason }, .. } => self.block(slot, BlockStage::Policy, reason),
            Vetting::Ready { effect, level, ruling: Ruling::Allow { .. } | Ruling::Ask(_) } => {
                let allowed_by = format!("answer to {permission_id}").into();
                self.wait_in_order(slot, effect, Passage { level, allowed_by });
            }
        }
    }

    /// Why a response's call is one too many.
    fn limit_stage(&self, slot: &CallSlot) -> Option<String> {
        if slot.origin == CallOrigin::Plan {
            return None;
        }
        let calls = self.durable.calls();
        let at = calls.iter().position(|other| other.id == slot.id)?;
        if at >= MAX_CALLS {
            return Some(format!(
                "not run: a response may have {MAX_CALLS} calls and this one is number {}; ask for it again once you \
                 have the results of the others",
                at + 1
            ));
        }
        let before = calls.get(at.checked_sub(MAX_FAILURES)?..at)?;
        before.iter().all(CallSlot::has_failed).then(|| {
            format!("not run: the {MAX_FAILURES} calls before it failed; look at their errors before you go on")
        })
    }

    /// Why a call may not run after all, as things are now.
    pub(super) fn objection(&self, slot: &CallSlot) -> Option<String> {
        match self.vet(slot) {
            Vetting::Blocked { reason, .. } | Vetting::Ready { ruling: Ruling::Forbid { reason }, .. } => Some(reason),
            Vetting::Ready { ruling: Ruling::Allow { .. } | Ruling::Ask(_), .. } => None,
        }
    }

    fn vet(&self, slot: &CallSlot) -> Vetting {
        let durable = &self.durable;
        let Some(run) = durable.run.as_deref() else {
            return Vetting::Blocked { stage: BlockStage::Lookup, reason: "its run is over".to_owned() };
        };
        let authority = Authority {
            session: &durable.session_id,
            run: &run.loop_id,
            mode: durable.settings.permission,
            grants: durable.grants(),
            restrictions: &durable.settings.restrictions,
            cwd: &durable.settings.cwd,
        };
        self.setup.catalog.vet(authority, &slot.id, &slot.name, &slot.args)
    }

    /// Asks the agent's own policy.
    fn judge(&mut self, slot: &CallSlot, effect: EffectClass, level: Level, ours: Ruling) {
        self.flight.run.tools.insert(slot.id.clone(), ToolFlight::new(ToolPhase::Judging { effect, level }));
        let (name, call, args) = (slot.name.clone(), slot.id.clone(), slot.args.clone());
        self.run_tool_hook(&slot.id, HookCall::Policy { name, call, args, level, ours });
    }

    /// The agent's own policy answered. One that failed or did not answer forbids.
    pub(super) fn judged(&mut self, call: &ToolCallId, effect: EffectClass, level: Level, verdict: Verdict) {
        self.flight.run.tools.remove(call);
        let Some(slot) = self.slot(call).cloned() else { return };
        let ruling = match verdict {
            Verdict::Policy(ruling) => ruling,
            _ => Ruling::Forbid { reason: "the policy gave no ruling".to_owned() },
        };
        self.policy_stage(&slot, effect, level, ruling);
    }

    fn policy_stage(&mut self, slot: &CallSlot, effect: EffectClass, level: Level, ruling: Ruling) {
        match (ruling, slot.origin) {
            (Ruling::Forbid { reason }, _) => self.block(slot, BlockStage::Policy, reason),
            (Ruling::Allow { by }, _) => self.wait_in_order(slot, effect, Passage { level, allowed_by: by }),
            // A hook's other arguments were in no plan.
            (Ruling::Ask(_), CallOrigin::Plan) if slot.hook == ToolHookState::Due => {
                self.wait_in_order(slot, effect, Passage { level, allowed_by: "the approved plan".into() });
            }
            (Ruling::Ask(question), CallOrigin::Model | CallOrigin::Plan) => self.approval_stage(slot, question),
        }
    }

    fn approval_stage(&mut self, slot: &CallSlot, question: Question) {
        if self.setup.approver == Approver::Nobody {
            let reason = format!("`{}` needs permission to {}, and there is nobody to ask", slot.name, question.reason);
            self.block(slot, BlockStage::Approval, reason);
            return;
        }
        self.ask_in_order(slot, Box::new(question));
    }

    /// A call before it may make what it needs, or change it. Who sees one question at a time is asked when that is done;
    /// others are asked at once, and only the call's own run tells whether it works.
    fn ask_in_order(&mut self, slot: &CallSlot, question: Box<Question>) {
        match (self.may_start(slot), self.setup.approver) {
            (true, _) if self.setup.hooks.has(HookPoint::Check) => self.check_stage(slot, question),
            (false, Approver::InTurn) => {
                self.flight.run.tools.insert(slot.id.clone(), ToolFlight::new(ToolPhase::Queued { question }));
            }
            (true, _) | (false, Approver::Present | Approver::Inbox | Approver::Nobody) => self.ask(slot, question),
        }
    }

    /// Lets the tool look whether the call would fail at once: a person is not asked about what cannot work.
    fn check_stage(&mut self, slot: &CallSlot, question: Box<Question>) {
        self.flight.run.tools.insert(slot.id.clone(), ToolFlight::new(ToolPhase::Checking { question }));
        let call = HookCall::Check { name: slot.name.clone(), call: slot.id.clone(), args: slot.args.clone() };
        self.run_tool_hook(&slot.id, call);
    }

    /// The tool has looked. What it found is in the journal as the refusal or as the question, and is not looked for
    /// again.
    pub(super) fn checked(&mut self, call: &ToolCallId, question: Box<Question>, answer: Checked) {
        self.flight.run.tools.remove(call);
        let Some(slot) = self.slot(call).cloned() else { return };
        match answer {
            Checked::Fails { reason } => self.block(&slot, BlockStage::Check, reason),
            Checked::Possible => self.ask(&slot, question),
        }
    }

    fn ask(&mut self, slot: &CallSlot, question: Box<Question>) {
        let permission_id = question_id(slot);
        self.push(EntryBody::PermissionAsked {
            permission_id: permission_id.clone(),
            tool_call_id: slot.id.clone(),
            question: question.clone(),
        });
        self.put_question(slot, permission_id, question);
    }

    /// Puts a question that the journal has, again after a restart.
    pub(super) fn put_question(&mut self, slot: &CallSlot, permission_id: PermissionId, question: Box<Question>) {
        if self.setup.approver == Approver::Nobody {
            let decision = PermissionDecision::Deny { reason: "there is nobody to ask any more".to_owned() };
            let answer = Box::new(PermissionAnswer { decision, rules: Vec::new(), input_id: None });
            self.push(EntryBody::PermissionResolved { permission_id, tool_call_id: slot.id.clone(), answer });
            return;
        }
        self.flight.run.tools.insert(slot.id.clone(), ToolFlight::new(ToolPhase::Asking));
        let timer = Timer::Permission(permission_id.clone());
        self.act(Effect::Ask {
            permission_id,
            tool_call_id: slot.id.clone(),
            tool_name: slot.name.clone(),
            args: slot.args.clone(),
            question,
        });
        match self.setup.approver {
            Approver::Present => self.act(Effect::Arm { timer, after: PERMISSION_DEADLINE }),
            // Its time has not begun; whoever looks into the inbox may take theirs.
            Approver::InTurn | Approver::Inbox | Approver::Nobody => {}
        }
    }

    /// A call that may run, when its turn comes.
    fn wait_in_order(&mut self, slot: &CallSlot, effect: EffectClass, passage: Passage) {
        if self.may_start(slot) {
            self.hook_stage(slot, effect, passage);
        } else {
            self.flight.run.tools.insert(slot.id.clone(), ToolFlight::new(ToolPhase::Waiting { effect, passage }));
        }
    }

    /// Looks again at a call that waits for others.
    pub(super) fn step_waiting(&mut self, slot: &CallSlot) -> Step {
        let waits = |tool: &ToolFlight| matches!(tool.phase, ToolPhase::Waiting { .. } | ToolPhase::Queued { .. });
        if !self.flight.run.tools.get(&slot.id).is_some_and(|tool| waits(tool)) || !self.may_start(slot) {
            return Step::Waiting;
        }
        let phase = self.flight.run.tools.remove(&slot.id).map(|tool| tool.phase);
        // Those before it may have failed meanwhile.
        match (self.limit_stage(slot), phase) {
            (Some(reason), _) => self.block(slot, BlockStage::Limit, reason),
            (None, Some(ToolPhase::Waiting { effect, passage })) => self.hook_stage(slot, effect, passage),
            (None, Some(ToolPhase::Queued { question })) => self.ask_in_order(slot, question),
            (None, _) => {}
        }
        Step::Moved
    }

    /// Whether no call before it that is not done touches what it touches: reads run beside reads, writes beside what
    /// touches other places, everything else alone.
    fn may_start(&self, slot: &CallSlot) -> bool {
        let mut before =
            self.durable.calls().iter().take_while(|other| other.id != slot.id).filter(|other| !other.is_over());
        let Some(first) = before.next() else { return true };
        if slot.origin == CallOrigin::Plan {
            return false;
        }
        let access = |slot: &CallSlot| self.setup.catalog.access(&slot.name, &slot.args);
        let own = access(slot);
        !own.conflicts(&access(first)) && !before.any(|other| own.conflicts(&access(other)))
    }

    /// Asks `before_tool_execution` if it has not spoken yet, then starts the call.
    fn hook_stage(&mut self, slot: &CallSlot, effect: EffectClass, passage: Passage) {
        match self.start_decision(slot) {
            StartDecision::Start => self.start(slot, effect, passage),
            StartDecision::Block(reason) => self.block(slot, BlockStage::Hook, reason),
            StartDecision::Ask(reason) => self.ask_for_hook(slot, passage.level, reason),
            StartDecision::Later => self.ask_before_tool(slot, effect, passage),
        }
    }

    /// Asks what a hook wants to have asked, for this once.
    pub(super) fn ask_for_hook(&mut self, slot: &CallSlot, level: Level, reason: String) {
        self.approval_stage(slot, Question { reason, level, ..Question::default() });
    }

    pub(super) fn block(&mut self, slot: &CallSlot, stage: BlockStage, reason: String) {
        self.push(EntryBody::ToolBlocked { tool_call_id: slot.id.clone(), stage, reason });
    }
}

impl CallSlot {
    /// Whether nothing of it can run any more.
    fn is_over(&self) -> bool {
        matches!(self.state, CallState::Ended { .. })
    }
}

/// The name of the question about a call: an answer is for these arguments and no others.
fn question_id(slot: &CallSlot) -> PermissionId {
    format!("{}-{}", slot.question(), digest::of(&slot.args)).into()
}
