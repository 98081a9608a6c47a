//! A run from turn to turn. [`Machine::step`] looks at where the run stands and takes it one step further; it is
//! the same code for a live run and for one that was folded from the journal.

use std::collections::VecDeque;
use std::sync::Arc;

use playhouse_protocol::entry::{InputKind, Placed, QueuedInput};
use playhouse_protocol::{
    AgentMessage, Content, ContinuationKind, EntryBody, LlmMessage, LoopConfigSnapshot, LoopId, Message, Outcome,
    Point, QueueMode, StopReason, ThinkingLevel, TurnTrigger, Usage,
};

use super::accept::continues_at;
use crate::machine::state::flight::RunFlight;
use crate::machine::state::run::{Run, RunPhase, RunRequest, Wants};
use crate::machine::{Effect, FilterVerdict, Filtered, HookCall, HookPoint, Machine, Permit, Step, Timer};

impl Machine {
    /// Takes the run one step further.
    pub(in crate::machine) fn step(&mut self) -> Step {
        if self.flight.parked.is_some() || self.flight.rotation.is_some() {
            return Step::Waiting;
        }
        match self.durable.run.as_ref().map(|run| &run.phase) {
            None => self.step_outside(),
            Some(RunPhase::Opening) => self.begin_turn(),
            Some(RunPhase::Turn(_)) => self.step_turn(),
            Some(RunPhase::Between(_)) => match self.leave_turn() {
                Step::Through => self.begin_turn(),
                step => step,
            },
        }
    }

    /// No run: close the last one, or begin the one that was asked for.
    fn step_outside(&mut self) -> Step {
        if let Some(report) = self.durable.closing.clone() {
            if self.consult::<()>(HookPoint::AfterLoop, |_| HookCall::AfterLoop { report }).is_none() {
                return Step::Waiting;
            }
            self.push(EntryBody::LoopClosed);
            return Step::Moved;
        }
        let Some(pending) = &self.durable.pending else { return Step::Through };
        if !pending.aborting {
            match self.consult(HookPoint::BeforeLoop, Self::before_loop) {
                None => return Step::Waiting,
                Some(Permit::No { reason }) => {
                    let outcome = Outcome::Halted { reason: format!("before_loop: {reason}") };
                    self.end_loop(Some(self.next_loop_id()), outcome, [].into(), None);
                    return Step::Moved;
                }
                Some(Permit::Yes) => {}
            }
        }
        self.begin_loop();
        Step::Moved
    }

    fn before_loop(&self) -> HookCall {
        let mut history = self.durable.record.messages().clone();
        if let Some(RunRequest::Prompt(messages)) = self.durable.pending.as_ref().map(|pending| &pending.request) {
            messages.iter().for_each(|message| history.push(message.clone()));
        }
        HookCall::BeforeLoop { history, loop_index: self.durable.loop_counters.iter().map(|(_, n)| n).sum() }
    }

    fn begin_loop(&mut self) {
        let Some(pending) = self.durable.pending.clone() else { return };
        let continuation = match &pending.request {
            RunRequest::Prompt(_) => None,
            RunRequest::Continue(kind) => Some(kind.clone()),
            RunRequest::Plan(changes) => {
                Some(ContinuationKind::Plan { changes: changes.iter().map(|planned| planned.change).collect() })
            }
        };
        if let Some(kind) = &continuation {
            let record = &self.durable.record;
            let point = continues_at(&self.durable, kind).unwrap_or_else(|_| record.here());
            if !record.since(&point).is_empty() {
                let (to, first) = match point {
                    Point::Start => (None, None),
                    Point::After { entry, first } => (Some(entry), first),
                };
                self.push(EntryBody::Head { to, first, messages: None });
            }
        }
        let parent_loop_id = match &continuation {
            Some(_) => self.durable.last_loop_id.clone(),
            None => self.durable.spawned_by.as_ref().map(|parent| parent.parent_loop_id.clone()),
        };
        let config = Box::new(self.snapshot());
        let loop_id = Some(self.next_loop_id());
        let (input_id, continuation) = (pending.input_id, continuation.map(Box::new));
        let metadata = self.durable.settings.metadata.clone();
        self.push_in(loop_id, EntryBody::LoopStarted { parent_loop_id, continuation, input_id, config, metadata });
    }

    /// The next run's id, `{session}.{config}.{n}`: `n` counts the runs with this configuration, from 1.
    fn next_loop_id(&self) -> LoopId {
        let config = self.config_segment();
        let counted = self.durable.loop_counters.iter().find(|(known, _)| **known == *config);
        let n = counted.map_or(0, |(_, n)| *n) + 1;
        format!("{}.{config}.{n}", self.durable.session_id).into()
    }

    fn config_segment(&self) -> String {
        let settings = &self.durable.settings;
        if let Some(config_id) = &settings.config_id {
            return slug(config_id);
        }
        let model = &settings.model;
        let base = format!("{}.{}", slug(&model.provider), slug(&model.id));
        match settings.thinking_level {
            ThinkingLevel::Off => base,
            level @ (ThinkingLevel::Minimal | ThinkingLevel::Low | ThinkingLevel::Medium | ThinkingLevel::High) => {
                format!("{base}.{}", level.as_str())
            }
        }
    }

    fn snapshot(&self) -> LoopConfigSnapshot {
        let settings = &self.durable.settings;
        LoopConfigSnapshot {
            model: settings.model.id.clone(),
            provider: settings.model.provider.clone(),
            config_id: self.config_segment(),
            name: settings.model.name.clone(),
            api: settings.model.api,
            base_url: settings.model.base_url.clone(),
            context_window: settings.model.context_window,
            max_tokens: settings.max_tokens.or(settings.model.max_tokens),
            reasoning: settings.model.reasoning,
            thinking_level: settings.thinking_level,
            temperature: settings.temperature,
        }
    }

    /// Tells `after_turn` of the turn that ended, once.
    fn leave_turn(&mut self) -> Step {
        if !self.flight.run.after_turn_done {
            let noted: Option<()> = self.consult(HookPoint::AfterTurn, |machine| HookCall::AfterTurn {
                history: machine.durable.record.messages().clone(),
                usage: machine.durable.run.as_ref().map(|run| run.turn_usage).unwrap_or_default(),
            });
            if noted.is_none() {
                return Step::Waiting;
            }
            self.flight.run.after_turn_done = true;
        }
        Step::Through
    }

    fn begin_turn(&mut self) -> Step {
        let Some(run) = &self.durable.run else { return Step::Through };
        if run.aborting {
            self.end_run(Outcome::Aborted);
            return Step::Moved;
        }
        if let Some(limit) = run.limit {
            self.end_run(Outcome::Limit { limit });
            return Step::Moved;
        }
        if let Some(reason) = run.halt.clone() {
            self.end_run(Outcome::Halted { reason });
            return Step::Moved;
        }
        // What is said of an approved plan is our own word.
        if self.flight.run.prompt.is_none() && !run.prompt.is_empty() && run.plan.is_empty() {
            return match self.start_session() {
                Step::Through => self.filter_prompt(),
                step => step,
            };
        }
        // Once `before_turn` is asked, what the turn begins with is settled: what comes now waits for the next look.
        if !self.has_asked(HookPoint::BeforeTurn)
            && let step @ (Step::Moved | Step::Waiting) = self.prepare_turn()
        {
            return step;
        }
        let turn_index = self.turn_index();
        let verdict = self.consult(HookPoint::BeforeTurn, |machine| HookCall::BeforeTurn {
            history: machine.durable.record.messages().clone(),
            turn_index,
        });
        match verdict {
            None => Step::Waiting,
            Some(Permit::No { reason }) => {
                self.end_run(Outcome::Halted { reason: format!("before_turn: {reason}") });
                Step::Moved
            }
            Some(Permit::Yes) => {
                let triggered_by = self.trigger();
                let placed = self.take_placed();
                self.push(EntryBody::TurnStarted { turn_index, triggered_by, placed });
                self.session_begun();
                self.flight.run.after_turn_done = false;
                self.flight.run.may_stop = false;
                self.flight.run.lost = 0;
                Step::Moved
            }
        }
    }

    /// Looks at what the last turn asks for, at the queues and at the limits; through when the turn may begin.
    fn prepare_turn(&mut self) -> Step {
        let wants_stop = match self.durable.run.as_ref().map(|run| &run.phase) {
            Some(RunPhase::Between(Wants::End(outcome))) => {
                let outcome = outcome.clone();
                self.end_run(outcome);
                return Step::Moved;
            }
            Some(RunPhase::Between(Wants::Stop)) => {
                self.durable.run.as_ref().is_some_and(|run| run.go_on_with.is_none())
            }
            Some(RunPhase::Between(Wants::More) | RunPhase::Opening | RunPhase::Turn(_)) | None => false,
        };
        // What came while the hook was asked is looked at when it has answered.
        if self.has_asked(HookPoint::Stop)
            && let step @ (Step::Moved | Step::Waiting) = self.ask_to_stop()
        {
            return step;
        }
        if let step @ (Step::Moved | Step::Waiting) = self.poll(InputKind::Steer) {
            return step;
        }
        if wants_stop && self.flight.run.taken.is_empty() {
            if let step @ (Step::Moved | Step::Waiting) = self.poll(InputKind::FollowUp) {
                return step;
            }
            if self.flight.run.taken.is_empty() {
                if let step @ (Step::Moved | Step::Waiting) = self.ask_to_stop() {
                    return step;
                }
                self.end_run(Outcome::Stop);
                return Step::Moved;
            }
        }
        let Some(limit) = self.limit_hit() else { return Step::Through };
        self.end_run(Outcome::Limit { limit });
        Step::Moved
    }

    fn turn_index(&self) -> u32 {
        self.durable.run.as_ref().map(|run| run.tracker.turns).unwrap_or_default()
    }

    fn limit_hit(&self) -> Option<playhouse_protocol::LimitHit> {
        let run = self.durable.run.as_ref()?;
        run.tracker.exceeded(&self.durable.settings.limits, self.elapsed())
    }

    fn trigger(&self) -> TurnTrigger {
        let Some(Run { phase: RunPhase::Opening, continuation, .. }) = self.durable.run.as_deref() else {
            return TurnTrigger::Continuation;
        };
        match continuation {
            Some(ContinuationKind::Branch { .. }) => TurnTrigger::Branch,
            Some(
                ContinuationKind::Initial
                | ContinuationKind::Default
                | ContinuationKind::Rerun { .. }
                | ContinuationKind::Compaction
                | ContinuationKind::Plan { .. },
            ) => TurnTrigger::Continuation,
            None if self.durable.spawned_by.is_some() => TurnTrigger::SubAgent,
            None => TurnTrigger::User,
        }
    }

    /// The inputs that enter the conversation now, the prompt first. A prompt that the filters have not passed enters
    /// nowhere.
    fn take_placed(&mut self) -> Box<[Placed]> {
        let unfiltered = !self.setup.hooks.has(HookPoint::Filter);
        let run = self.durable.run.as_ref().filter(|run| !run.prompt.is_empty());
        let prompt = run.and_then(|run| {
            let as_it_is = || (unfiltered || !run.plan.is_empty()).then(|| run.prompt.clone());
            let messages = self.flight.run.prompt.take().or_else(as_it_is)?;
            Some(Placed { input_id: run.input_id.clone(), messages })
        });
        let go_on_with = self.durable.run.as_ref().and_then(|run| run.go_on_with.clone());
        prompt.into_iter().chain(go_on_with).chain(std::mem::take(&mut self.flight.run.taken)).collect()
    }

    fn filter_prompt(&mut self) -> Step {
        let Some(run) = &self.durable.run else { return Step::Through };
        let messages = run.prompt.clone();
        let inputs = vec![messages.clone()];
        let Some(filtered) = self.consult::<Filtered>(HookPoint::Filter, |_| HookCall::Filter { inputs }) else {
            return Step::Waiting;
        };
        match filtered.each(1).into_iter().next() {
            Some(FilterVerdict::Reject(reason)) => self.end_run(Outcome::Rejected { reason }),
            Some(FilterVerdict::Warn(warning)) => {
                self.flight.run.prompt = Some(with_warning(&self.with_opening(messages), &warning));
            }
            Some(FilterVerdict::Pass) | None => self.flight.run.prompt = Some(self.with_opening(messages)),
        }
        Step::Moved
    }

    /// Looks into a queue and takes what its mode allows, past the filters. What they reject is a reason to look again.
    pub(super) fn poll(&mut self, kind: InputKind) -> Step {
        if !self.flight.run.taken.is_empty() {
            return Step::Through;
        }
        let settings = &self.durable.settings;
        let (queue, mode) = match kind {
            InputKind::Prompt => return Step::Through,
            InputKind::Steer => (&self.durable.steering, settings.steering_mode),
            InputKind::FollowUp => (&self.durable.follow_ups, settings.follow_up_mode),
        };
        let mut waiting = std::mem::take(&mut self.flight.run.filtering);
        if waiting.is_empty() {
            waiting = front(queue, mode);
        }
        if waiting.is_empty() {
            return Step::Through;
        }
        let inputs: Vec<_> = waiting.iter().map(|input| input.messages.clone()).collect();
        let Some(filtered) = self.consult::<Filtered>(HookPoint::Filter, |_| HookCall::Filter { inputs }) else {
            self.flight.run.filtering = waiting;
            return Step::Waiting;
        };
        let mut rejected = false;
        for (input, verdict) in waiting.iter().zip(filtered.each(waiting.len())) {
            let input_id = input.input_id.clone();
            match verdict {
                FilterVerdict::Pass => {
                    self.flight.run.taken.push(Placed { input_id, messages: input.messages.clone() })
                }
                FilterVerdict::Warn(warning) => {
                    self.flight.run.taken.push(Placed { input_id, messages: with_warning(&input.messages, &warning) });
                }
                FilterVerdict::Reject(reason) => {
                    rejected = true;
                    self.push(EntryBody::InputRejected { input_id, reason });
                }
            }
        }
        if rejected { Step::Moved } else { Step::Through }
    }

    fn step_turn(&mut self) -> Step {
        let Some((run, turn)) = self.durable.run_and_turn() else { return Step::Through };
        let Some(response) = turn.response.clone() else {
            if run.is_stopping() {
                self.abort_call();
                return Step::Moved;
            }
            if self.flight.run.call.is_some() {
                return Step::Waiting;
            }
            if self.respond_with_plan() == Step::Through {
                self.request();
            }
            return Step::Moved;
        };
        let stopping = run.is_stopping();
        if let Some(Message::Assistant { stop_reason: StopReason::Error, error_message, .. }) = response.llm()
            && !stopping
        {
            let message = error_message.clone().unwrap_or_default();
            if self.consult::<()>(HookPoint::OnError, |_| HookCall::OnError { message }).is_none() {
                return Step::Waiting;
            }
        }
        match self.step_tools() {
            Step::Through => {
                self.end_turn(&response);
                Step::Moved
            }
            step => step,
        }
    }

    fn end_turn(&mut self, response: &AgentMessage) {
        let usage = match response.llm() {
            Some(Message::Assistant { usage, .. }) => *usage,
            Some(Message::User { .. } | Message::ToolResult { .. }) | None => Usage::default(),
        };
        let turn_index = self.turn_index();
        let elapsed = self.elapsed();
        self.push(EntryBody::TurnEnded { turn_index, usage: Box::new(usage), elapsed });
        self.time_journaled();
        self.flight.run.tools.clear();
    }

    pub(in crate::machine) fn end_run(&mut self, outcome: Outcome) {
        let (placed, note) = match &outcome {
            // A rejected prompt does not enter the conversation; what was taken beside it still waits in its queue.
            Outcome::Rejected { .. } => ([].into(), None),
            Outcome::Limit { limit } => {
                let text = format!("[Agent stopped: {limit}]");
                (self.take_placed(), Some(Arc::new(AgentMessage::user(text, self.now.wall))))
            }
            Outcome::Stop | Outcome::Length | Outcome::Error { .. } | Outcome::Aborted | Outcome::Halted { .. } => {
                (self.take_placed(), None)
            }
        };
        let loop_id = self.durable.loop_id();
        self.end_loop(loop_id, outcome, placed, note);
    }

    fn end_loop(
        &mut self,
        loop_id: Option<LoopId>,
        outcome: Outcome,
        placed: Box<[Placed]>,
        note: Option<Arc<AgentMessage>>,
    ) {
        let hook_follows = self.setup.hooks.has(HookPoint::AfterLoop);
        let stopped = self.durable.is_stopping();
        self.push_in(loop_id, EntryBody::LoopEnded { outcome, placed, note, hook_follows });
        if let Some(report) = self.durable.ended.back().cloned() {
            self.act(Effect::Finish(report));
        }
        self.stop_clock();
        if stopped {
            self.out.push(Effect::Disarm(Timer::AbortGrace));
        }
        self.flight.run = RunFlight::none();
    }
}

fn front(queue: &VecDeque<QueuedInput>, mode: QueueMode) -> Vec<QueuedInput> {
    let many = match mode {
        QueueMode::OneAtATime => 1,
        QueueMode::All => queue.len(),
    };
    queue.iter().take(many).cloned().collect()
}

/// `messages` with the warning appended to the last user message.
pub(in crate::machine) fn with_warning(messages: &[Arc<AgentMessage>], warning: &str) -> Vec<Arc<AgentMessage>> {
    let mut messages = messages.to_vec();
    let last = messages.iter_mut().rev().find(|message| matches!(message.llm(), Some(Message::User { .. })));
    if let Some(last) = last
        && let AgentMessage::Llm(LlmMessage { message: Message::User { content, timestamp }, turn_id }) = last.as_ref()
    {
        let mut content = content.clone();
        content.push(Content::text(warning));
        let message = Message::User { content, timestamp: *timestamp };
        *last = Arc::new(AgentMessage::Llm(LlmMessage { message, turn_id: turn_id.clone() }));
    }
    messages
}

/// Lower-case letters, digits and dashes, for a loop id.
fn slug(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}
