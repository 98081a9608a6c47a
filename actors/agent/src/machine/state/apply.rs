//! The fold of a journal: what each entry does to the state.
//!
//! [`Durable::apply`] is the only code that changes the state, for live agents and for recovered ones. It takes any
//! sequence of entries without failing: a journal may have lost a line, and what is left still counts.

use std::sync::Arc;

use playhouse_protocol::entry::{InputKind, Placed, QueuedInput};
use playhouse_protocol::{
    AgentMessage, ContinuationKind, Entry, EntryBody, EntryId, ExecutionTracker, InputId, LoopId, Message, Outcome,
    PermissionDecision, Point, ProviderError, StopReason, ToolCallId, ToolResult, Usage,
};

use super::digest::Digest;
use super::rare::approved;
use super::run::{CallOrigin, CallSlot, CallState, Pending, Run, RunPhase, RunRequest, ToolHookState, Turn, Wants};
use crate::machine::{Durable, RunReport};

/// How many ended runs are remembered, for those who ask late.
const REMEMBERED_RUNS: usize = 16;

impl Durable {
    /// Takes in an entry of another branch: nothing of it happened here, but names that it gave are given.
    pub fn pass(&mut self, entry: &Entry) {
        self.count_entry(&entry.id);
        if let Some(loop_id) = &entry.loop_id {
            self.count_loop(loop_id);
        }
        if let EntryBody::Responded { message, .. } = &entry.body {
            let calls = message.llm().into_iter().flat_map(|m| m.tool_calls().map(|(id, ..)| id.clone()));
            self.call_ids.extend(calls);
        }
    }

    /// Takes in the next entry of the chain.
    pub fn apply(&mut self, entry: &Entry) {
        self.count_entry(&entry.id);
        self.tail = Some(entry.id.clone());
        if let Some(loop_id) = entry.loop_id.as_ref().filter(|loop_id| self.last_loop_id.as_ref() != Some(loop_id)) {
            self.count_loop(loop_id);
            self.last_loop_id = Some(loop_id.clone());
        }
        self.count_restarts(&entry.body);
        match &entry.body {
            EntryBody::Opened(opened) => {
                // A journal that was opened twice, by a change of session that a crash cut short, counts from the last.
                *self = Self::opened_by(&entry.id, opened);
                (self.entries, self.tail, self.journaled) = (1, Some(entry.id.clone()), true);
            }
            EntryBody::Configured { input_id, settings } => {
                self.seen.extend(input_id);
                if settings.cwd != self.settings.cwd {
                    self.drop_grants();
                }
                self.settings = settings.clone();
            }
            EntryBody::Input(input) => self.accept(input, entry.at),
            EntryBody::ContinueAsked { input_id, kind } => {
                self.seen.insert(input_id.clone());
                self.last_active_at = Some(entry.at);
                let request = RunRequest::Continue(kind.as_ref().clone());
                self.pending =
                    Some(Box::new(Pending { input_id: input_id.clone(), request, format: None, aborting: false }));
            }
            EntryBody::Head { to, first, messages } => self.go_back(to.as_ref(), *first, *messages),
            EntryBody::LoopStarted { continuation, input_id, .. } => {
                self.start(entry, continuation.as_deref().cloned(), input_id);
            }
            EntryBody::InputRejected { input_id, .. } => self.unqueue(input_id),
            EntryBody::TurnStarted { turn_index, placed, .. } => {
                self.settle_turn(&entry.id);
                self.place(placed, &entry.id);
                if let Some(run) = &mut self.run {
                    run.take_go_on_with(placed);
                    run.prompt.clear();
                    run.tracker.turns = *turn_index;
                    run.phase = RunPhase::Turn(Box::new(Turn {
                        index: *turn_index,
                        next_attempt: 0,
                        model: 0,
                        empty: 0,
                        response: None,
                        calls: Vec::new(),
                    }));
                }
            }
            EntryBody::Requested { attempt, .. } => {
                if let Some(turn) = self.turn_mut() {
                    turn.next_attempt = attempt.saturating_add(1);
                }
            }
            EntryBody::AttemptFailed { attempt, model, error, .. } => {
                if let Some(turn) = self.turn_mut() {
                    turn.next_attempt = attempt.saturating_add(1);
                    turn.model = *model;
                }
                match error.as_ref() {
                    ProviderError::Empty { usage } => self.spend_on_nothing(usage),
                    ProviderError::Picture { message } => self.withhold_pictures(message),
                    _ => {}
                }
            }
            EntryBody::Responded { message, failure, .. } => {
                if let Some(run) = &mut self.run {
                    run.failure = *failure;
                }
                self.respond(message, &entry.id);
            }
            EntryBody::PermissionAsked { permission_id, tool_call_id, question } => {
                let state = CallState::Asked { permission_id: permission_id.clone(), question: question.clone() };
                self.set_call(tool_call_id, state);
            }
            EntryBody::PermissionResolved { permission_id, tool_call_id, answer } => {
                if let Some(slot) = self.slot_mut(tool_call_id) {
                    slot.hook_answered();
                    if answer.decision == PermissionDecision::AllowAlways {
                        slot.lasting_rules.clone_from(&answer.rules);
                    }
                }
                let state = match &answer.decision {
                    PermissionDecision::Allow | PermissionDecision::AllowSession | PermissionDecision::AllowAlways => {
                        CallState::Granted { permission_id: permission_id.clone() }
                    }
                    PermissionDecision::Deny { reason } => CallState::Denied { reason: reason.clone() },
                };
                self.seen.extend(&answer.input_id);
                self.grant(&answer.rules);
                self.set_call(tool_call_id, state);
            }
            EntryBody::ToolQueued { tool_call_id, change } => self.plan_change(tool_call_id, *change, entry.at),
            EntryBody::PlanApproved { input_id, changes } => self.approve(input_id, changes, entry.at),
            EntryBody::PlanRejected { input_id, changes, message } => {
                self.seen.insert(input_id.clone());
                self.drop_changes(changes);
                self.push(message.clone());
                self.record.mark(&entry.id);
            }
            EntryBody::ToolStarted { tool_call_id, effect, .. } => {
                self.set_call(tool_call_id, CallState::Started { effect: effect.clone(), at: entry.at });
            }
            EntryBody::ToolEnded { tool_call_id, result, is_error, hook_follows, .. } => {
                self.answer(tool_call_id, result, *is_error, entry.at, *hook_follows);
            }
            EntryBody::ToolAnswered { tool_call_id, note } => {
                if let Some(slot) = self.slot_mut(tool_call_id) {
                    slot.answered(note.as_deref());
                }
            }
            EntryBody::ToolHooked { tool_call_id, args, ask } => {
                if let Some(slot) = self.slot_mut(tool_call_id) {
                    slot.hooked(args.as_ref(), ask.as_deref());
                }
            }
            EntryBody::HaltAsked { reason } => {
                if let Some(run) = &mut self.run {
                    run.halt.get_or_insert_with(|| reason.clone());
                }
            }
            EntryBody::StopRefused { reason } => {
                if let Some(run) = &mut self.run {
                    run.go_on(reason, entry.at);
                }
            }
            EntryBody::ToolBlocked { tool_call_id, reason, .. } | EntryBody::ToolSkipped { tool_call_id, reason } => {
                self.answer(tool_call_id, &ToolResult::text(reason), true, entry.at, false);
            }
            EntryBody::TurnEnded { usage, elapsed, .. } => {
                self.settle_turn(&entry.id);
                if let Some(run) = &mut self.run {
                    run.usage += **usage;
                    run.turn_usage = **usage;
                    run.tracker.turn_ended(usage, *elapsed);
                }
            }
            EntryBody::AbortAsked { input_id } => {
                self.seen.insert(input_id.clone());
                if let Some(run) = &mut self.run {
                    run.aborting = true;
                } else if let Some(pending) = &mut self.pending {
                    pending.aborting = true;
                }
            }
            EntryBody::LimitReached { limit } => {
                if let Some(run) = &mut self.run {
                    run.limit.get_or_insert(*limit);
                }
            }
            EntryBody::LoopEnded { outcome, placed, note, hook_follows } => {
                self.end(entry, outcome, placed, note.as_ref(), *hook_follows);
            }
            EntryBody::LoopClosed => self.closing = None,
            EntryBody::Recovered { .. } => self.parked = None,
            EntryBody::Parked { reason } => self.parked = Some(reason.clone()),
            EntryBody::Reset { input_id } => {
                self.seen.extend(input_id);
                self.load(&entry.id, &[]);
                self.drop_plan();
                self.steering.clear();
                self.follow_ups.clear();
            }
            EntryBody::Restored { input_id, messages } => {
                self.seen.extend(input_id);
                self.load(&entry.id, messages);
            }
            EntryBody::RotatedTo { session } => self.rotated_to = Some(session.clone()),
        }
    }

    /// An empty answer was paid for.
    fn spend_on_nothing(&mut self, usage: &Usage) {
        if let Some(turn) = self.turn_mut() {
            turn.empty += 1;
        }
        if let Some(run) = &mut self.run {
            run.usage += *usage;
            run.tracker.tokens_used = run.tracker.tokens_used.saturating_add(usage.total());
        }
    }

    pub(super) fn accept(&mut self, input: &QueuedInput, at: u64) {
        self.seen.insert(input.input_id.clone());
        match input.kind {
            InputKind::Prompt => {
                self.last_active_at = Some(at);
                if self.first_prompt.is_empty() {
                    let text: String = input.messages.iter().filter_map(|m| m.llm()).map(Message::text).collect();
                    self.first_prompt = text.into();
                }
                let request = RunRequest::Prompt(input.messages.clone());
                let (input_id, format) = (input.input_id.clone(), input.format.clone());
                self.pending = Some(Box::new(Pending { input_id, request, format, aborting: false }));
            }
            InputKind::Steer => self.steering.push_back(input.clone()),
            InputKind::FollowUp => self.follow_ups.push_back(input.clone()),
        }
    }

    fn unqueue(&mut self, input_id: &InputId) {
        self.steering.retain(|input| input.input_id != *input_id);
        self.follow_ups.retain(|input| input.input_id != *input_id);
    }

    fn start(&mut self, entry: &Entry, continuation: Option<ContinuationKind>, input_id: &InputId) {
        let Some(loop_id) = entry.loop_id.clone() else { return };
        self.settle_turn(&entry.id);
        let pending = self.pending.take();
        let aborting = pending.as_ref().is_some_and(|pending| pending.aborting);
        let format = pending.as_ref().and_then(|pending| pending.format.clone());
        let (prompt, plan) = match pending.map(|pending| pending.request) {
            Some(RunRequest::Prompt(messages)) => (messages, Vec::new()),
            Some(RunRequest::Plan(changes)) => (vec![approved(&changes, entry.at)], changes),
            Some(RunRequest::Continue(_)) | None => (Vec::new(), Vec::new()),
        };
        self.closing = None;
        self.run = Some(Box::new(Run {
            loop_id,
            input_id: input_id.clone(),
            continuation,
            prompt,
            start: self.record.here(),
            first_response: None,
            phase: RunPhase::Opening,
            tracker: ExecutionTracker::default(),
            usage: Usage::default(),
            turn_usage: Usage::default(),
            failure: None,
            format,
            plan,
            aborting,
            limit: None,
            halt: None,
            go_on_with: None,
            refusals: 0,
        }));
    }

    /// Lines may be missing: a number that was given once is not given again.
    fn count_entry(&mut self, id: &EntryId) {
        self.entries = self.entries.max(id.number().unwrap_or_default()).saturating_add(1);
    }

    /// Keeps the counters at the runs that entries name: `{session}.{config}.{n}`.
    fn count_loop(&mut self, loop_id: &LoopId) {
        let inner = loop_id.as_str().strip_prefix(self.session_id.as_str()).unwrap_or_default();
        let Some((config, n)) = inner.trim_start_matches('.').rsplit_once('.') else { return };
        let n: u32 = n.parse().unwrap_or_default();
        match self.loop_counters.iter_mut().find(|(known, _)| **known == *config) {
            Some((_, count)) => *count = n.max(*count),
            None => {
                self.loop_counters.reserve_exact(1);
                self.loop_counters.push((config.into(), n));
            }
        }
    }

    fn respond(&mut self, message: &Arc<AgentMessage>, entry: &EntryId) {
        let before = self.record.here();
        let Some(llm) = message.llm() else { return };
        // What a plan says was not said by a model.
        let planned = self.run.as_mut().is_some_and(|run| !std::mem::take(&mut run.plan).is_empty());
        let origin = if planned { CallOrigin::Plan } else { CallOrigin::Model };
        let completed = matches!(
            llm,
            Message::Assistant {
                stop_reason: StopReason::Stop | StopReason::Length | StopReason::Refusal | StopReason::ToolUse,
                ..
            }
        );
        self.responses += u64::from(completed && !planned);
        let calls: Vec<CallSlot> = llm
            .tool_calls()
            .map(|(id, name, args)| CallSlot {
                id: id.clone(),
                name: name.to_owned(),
                args: Arc::new(args.clone()),
                origin,
                hook: ToolHookState::Due,
                state: CallState::Open,
                lasting_rules: Vec::new(),
            })
            .collect();
        self.call_ids.extend(calls.iter().map(|slot| slot.id.clone()));
        if let Some(run) = &mut self.run {
            run.first_response.get_or_insert(before);
        }
        if let Some(turn) = self.turn_mut() {
            turn.response = Some(message.clone());
            turn.calls = calls;
        }
        self.push(message.clone());
        self.record.mark(entry);
    }

    pub(super) fn answer(&mut self, id: &ToolCallId, result: &ToolResult, is_error: bool, at: u64, hook_due: bool) {
        let Some((run, turn)) = self.run_and_turn() else { return };
        let Some(slot) = turn.slot(id) else { return };
        let message = Arc::new(slot.answer(result, is_error, at, run.turn_id(turn.index)));
        self.set_call(id, CallState::Ended { message, hook_due });
    }

    /// Moves the open turn's answers into the conversation, in call order.
    fn settle_turn(&mut self, entry: &EntryId) {
        let Some(run) = &mut self.run else { return };
        let RunPhase::Turn(turn) = std::mem::replace(&mut run.phase, RunPhase::Between(Wants::Stop)) else { return };
        run.phase = RunPhase::Between(turn.wants());
        let answers: Vec<_> = turn.answers().cloned().collect();
        for answer in answers {
            self.push(answer);
        }
        self.record.mark(entry);
    }

    fn end(
        &mut self,
        entry: &Entry,
        outcome: &Outcome,
        placed: &[Placed],
        note: Option<&Arc<AgentMessage>>,
        hook_follows: bool,
    ) {
        self.settle_turn(&entry.id);
        self.place(placed, &entry.id);
        if let Some(note) = note {
            self.push(note.clone());
            self.record.mark(&entry.id);
        }
        let Some(report) = self.report(entry, outcome) else { return };
        if let Some(point) = self.run.as_ref().and_then(|run| run.first_response.clone()) {
            self.rerun_point = Some(Box::new(point));
        }
        let report = Arc::new(report);
        if self.ended.is_empty() {
            self.ended.reserve_exact(1);
        }
        self.ended.push_back(report.clone());
        if self.ended.len() > REMEMBERED_RUNS {
            self.ended.pop_front();
        }
        self.put_back_what_is_undone();
        // What waits behind a run whose end was lost begins when that run ends.
        if self.run.take().is_none() {
            self.pending = None;
        }
        self.closing = hook_follows.then_some(report);
    }

    /// What the run that `entry` ends amounts to.
    fn report(&self, entry: &Entry, outcome: &Outcome) -> Option<RunReport> {
        let loop_id = entry.loop_id.clone()?;
        let (input_id, messages, usage, failure) = match (&self.run, &self.pending) {
            (Some(run), _) => (run.input_id.clone(), self.record.since(&run.start).to_vec(), run.usage, run.failure),
            (None, Some(pending)) => (pending.input_id.clone(), Vec::new(), Usage::default(), None),
            (None, None) => return None,
        };
        Some(RunReport {
            session_id: self.session_id.clone(),
            loop_id,
            input_id,
            outcome: outcome.clone(),
            failure,
            messages,
            usage,
        })
    }

    fn place(&mut self, placed: &[Placed], entry: &EntryId) {
        for input in placed {
            self.unqueue(&input.input_id);
            for message in &input.messages {
                self.push(message.clone());
            }
        }
        if !placed.is_empty() {
            self.record.mark(entry);
        }
    }

    fn push(&mut self, message: Arc<AgentMessage>) {
        self.digest.add(&message);
        self.record.push(message);
    }

    /// Puts notes in the place of pictures that the service does not take, from here on.
    fn withhold_pictures(&mut self, why: &str) {
        self.record.withhold_pictures(&format!(
            "[a picture was here; it is left out, because the provider does not take it: {why}]"
        ));
        self.count_digest();
    }

    fn count_digest(&mut self) {
        self.digest = Digest::default();
        for message in self.record.messages().as_slice() {
            self.digest.add(message);
        }
    }

    /// Goes on from an earlier point of the conversation.
    fn go_back(&mut self, to: Option<&EntryId>, first: Option<u32>, messages: Option<usize>) {
        match (messages, to) {
            (Some(len), _) => self.record.keep(len),
            (None, Some(entry)) => self.record.cut(&Point::After { entry: entry.clone(), first }),
            (None, None) => self.record.cut(&Point::Start),
        }
        self.count_digest();
    }

    pub(super) fn load(&mut self, entry: &EntryId, messages: &[Arc<AgentMessage>]) {
        self.record.load(entry, messages);
        self.digest = Digest::default();
        messages.iter().for_each(|message| self.digest.add(message));
        let calls = messages.iter().filter_map(|m| m.llm()).flat_map(|m| m.tool_calls().map(|(id, ..)| id.clone()));
        self.call_ids.extend(calls);
        // Runs are not marked in it: the last thing that a user said and that was answered began the last one.
        let said = messages.iter().rposition(|m| matches!(m.llm(), Some(Message::User { .. })));
        let answered = said.map(|at| at + 1).filter(|len| *len < messages.len());
        self.rerun_point = answered.map(|len| Box::new(self.record.within(len)));
    }

    fn turn_mut(&mut self) -> Option<&mut Turn> {
        self.run.as_deref_mut().and_then(Run::turn_mut)
    }

    fn slot_mut(&mut self, id: &ToolCallId) -> Option<&mut CallSlot> {
        self.turn_mut()?.calls.iter_mut().find(|slot| slot.id == *id)
    }

    /// A call that has its result keeps it, whatever comes later.
    fn set_call(&mut self, id: &ToolCallId, state: CallState) {
        if let Some(slot) = self.slot_mut(id)
            && !matches!(slot.state, CallState::Ended { .. })
        {
            slot.state = state;
        }
    }
}
