//! The world around one machine, played by a seed.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use playhouse_agent::machine::{
    AfterTool, Approver, BeforeTool, CancelTarget, Doing, Durable, Effect, FilterVerdict, Filtered, Holes, HookCall,
    HookId, HookPoint, InputError, Machine, MayStop, Now, Permit, SessionStart, Setup, Timer, Verdict,
};
use playhouse_agent::testing::Report;
use playhouse_protocol::entry::{Opened, Wake};
use playhouse_protocol::{
    AgentMessage, Batch, CallId, Command, Content, ContinuationKind, Entry, Fate, InputId, Message, Mode, ModelConfig,
    Op, PermissionDecision, PermissionId, PlanDecision, ProviderError, ResponseFormat, Ruling, Seq, SessionId,
    StopReason, StreamDelta, ToolCallId, ToolError, ToolExecutionStrategy, ToolResult,
};
use serde_json::json;

use crate::branches;
use crate::checks::{Checks, variant};
use crate::props::{Props, assistant, hook_set, pick, settings};

/// What a machine can be told.
#[derive(Clone, Debug)]
pub enum Input {
    Command(Command),
    Report(Report),
}

impl From<Command> for Input {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl From<Report> for Input {
    fn from(report: Report) -> Self {
        Self::Report(report)
    }
}

pub struct World {
    pub rng: Rng,
    pub inputs: usize,
    pub delivered: BTreeSet<&'static str>,
    pub checks: Checks,
    setup: Setup,
    pub session: SessionId,
    pub journals: HashMap<SessionId, Vec<(Seq, Arc<Entry>)>>,
    /// Batches at the writer, not yet durable.
    queued: VecDeque<(SessionId, Batch)>,
    calls: BTreeMap<CallId, u32>,
    /// Those of them whose next attempt waits for the agent's word.
    waiting: BTreeSet<CallId>,
    hooks: BTreeMap<HookId, HookCall>,
    tools: BTreeMap<ToolCallId, Kind>,
    /// Tools that were told to stop.
    stopping: BTreeSet<ToolCallId>,
    asks: BTreeSet<PermissionId>,
    timers: Vec<Timer>,
    /// Inputs that wait for their answer, and how many answers each waits for.
    unanswered: BTreeMap<InputId, usize>,
    clock: u64,
    next_input: u64,
    next_call: u64,
    old: Vec<Input>,
    /// Inputs by their id, as they were sent.
    sent: BTreeMap<InputId, Command>,
    /// Those of which it is not known whether they were taken; their senders repeat them.
    unknown: Vec<Command>,
    draining: bool,
    /// Whether every input and effect is printed: when one seed is played alone.
    talk: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tool,
    Child,
}

impl World {
    pub fn play(seed: u64) -> World {
        let mut rng = Rng::with_seed(seed);
        let settings = settings(&mut rng);
        let fallbacks = settings.fallbacks.clone();
        let strategy = match settings.tool_execution {
            ToolExecutionStrategy::Parallel => "Parallel",
            ToolExecutionStrategy::Sequential => "Sequential",
            ToolExecutionStrategy::Batched { .. } => "Batched",
        };
        let session = SessionId::new("s0").unwrap();
        let opened = Opened::new("a".into(), session.clone(), Arc::new(settings));
        let mut setup = Setup::new(Arc::new(Props), Arc::new(ModelConfig::scripted("x")));
        setup.fallbacks = fallbacks;
        setup.approver = match rng.u8(..4) {
            0 => Approver::Nobody,
            1 => Approver::Inbox,
            _ => Approver::Present,
        };
        setup.hooks = hook_set(&mut rng);
        let mut world = World {
            rng,
            inputs: 0,
            delivered: BTreeSet::from([strategy]),
            checks: Checks::new(&opened, setup.hooks),
            setup: setup.clone(),
            session,
            journals: HashMap::new(),
            queued: VecDeque::new(),
            calls: BTreeMap::new(),
            waiting: BTreeSet::new(),
            hooks: BTreeMap::new(),
            tools: BTreeMap::new(),
            stopping: BTreeSet::new(),
            asks: BTreeSet::new(),
            timers: Vec::new(),
            unanswered: BTreeMap::new(),
            clock: 1_000,
            next_input: 0,
            next_call: 0,
            old: Vec::new(),
            sent: BTreeMap::new(),
            unknown: Vec::new(),
            draining: false,
            talk: std::env::var_os("PLAYHOUSE_SEED").is_some(),
        };
        let mut machine = Machine::new(opened, setup);
        let steps = world.rng.usize(35..90);
        while world.inputs < steps {
            world.step(&mut machine);
        }
        world.drain(&mut machine);
        assert_eq!(world.timers, [], "armed for nothing");
        assert_eq!(world.unanswered, BTreeMap::new(), "never answered");
        world.checks.finish(&world.journals, &world.session, machine.durable());
        // Every prefix of every chain is looked at, which takes its time.
        if seed.is_multiple_of(400) {
            let journals = world.journals.iter().filter(|(_, entries)| entries.len() > 2);
            for (session, entries) in journals {
                branches::grow(&mut world.rng, session, entries, &world.setup);
            }
            world.delivered.insert("Branches");
        }
        world
    }

    fn step(&mut self, machine: &mut Machine) {
        if self.rng.u8(..4) == 0
            && let Some(input) = self.unknown.pop()
        {
            return self.send(machine, input);
        }
        match self.rng.u8(..100) {
            0..=24 => self.commit(machine),
            25..=39 => self.model(machine),
            40..=54 => self.tool(machine),
            55..=64 => self.hook(machine),
            65..=84 => self.person(machine),
            85..=88 => self.timer(machine),
            89..=90 => self.send(machine, Report::WriterLost),
            91..=92 => self.send(machine, Report::ConnectionLost { reason: "gone".into() }),
            93 => self.send(machine, Report::ExecutorLost),
            94..=95 => self.crash(machine),
            96..=97 => self.commit_failed(machine),
            _ => self.stale(machine),
        }
    }

    fn now(&mut self) -> Now {
        self.clock += self.rng.u64(..40);
        // The wall clock may jump; the other may not.
        let wall = if self.rng.u8(..20) == 0 { self.clock / 2 } else { self.clock * 3 };
        Now { wall, mono: Duration::from_millis(self.clock) }
    }

    fn send(&mut self, machine: &mut Machine, input: impl Into<Input>) {
        let input = input.into();
        self.inputs += 1;
        self.delivered.insert(variant(&input));
        if matches!(input, Input::Command(Command { op: Op::Abort, .. }))
            && !self.queued.is_empty()
            && machine.is_running()
        {
            self.delivered.insert("AbortBeforeCommit");
        }
        if self.rng.u8(..8) == 0
            && !matches!(input, Input::Report(Report::Committed { .. } | Report::CommitFailed { .. }))
        {
            self.old.push(input.clone());
        }
        match &input {
            Input::Command(command) => {
                self.sent.insert(command.id.clone(), command.clone());
                *self.unanswered.entry(command.id.clone()).or_default() += 1;
            }
            Input::Report(Report::WriterLost) => self.lose_queue(),
            Input::Report(Report::ConnectionLost { .. }) => self.calls.clear(),
            Input::Report(Report::ExecutorLost) => self.tools.retain(|_, kind| *kind == Kind::Child),
            Input::Report(Report::Timer { timer }) => self.timers.retain(|armed| armed != timer),
            Input::Report(_) => {}
        }
        let now = self.now();
        if self.talk {
            println!("> {input:?}");
        }
        let effects = match input {
            Input::Command(command) => machine.command(now, command),
            Input::Report(report) => machine.report(now, report),
        };
        self.carry_out(machine, effects);
    }

    fn carry_out(&mut self, machine: &mut Machine, effects: Vec<Effect>) {
        let mut parked = false;
        for effect in effects {
            if self.talk {
                println!("    < {effect:?}");
            }
            self.checks.effect(&self.session, &effect, &self.journals);
            match effect {
                Effect::Append { session, batch } => {
                    assert_eq!(Some(batch.class), batch.entries.iter().map(|entry| entry.body.class()).max());
                    if !self.queued.iter().any(|(_, held)| held.number == batch.number) {
                        self.queued.push_back((session, batch));
                    }
                }
                Effect::Call { call, config } => {
                    self.waiting.remove(&call);
                    self.calls.insert(call, config.attempt);
                }
                Effect::GoOn { call, attempt } => {
                    assert_eq!(self.calls.get(&call), Some(&attempt));
                    self.waiting.remove(&call);
                }
                Effect::RunTool { call, .. } => {
                    self.tools.insert(call, Kind::Tool);
                }
                Effect::Spawn { call, .. } => {
                    self.tools.insert(call, Kind::Child);
                }
                Effect::Hook { hook, call } => {
                    self.hooks.insert(hook, call);
                }
                Effect::Ask { permission_id, .. } => {
                    self.asks.insert(permission_id);
                }
                Effect::Cancel(CancelTarget::Call(call)) => {
                    self.calls.remove(&call);
                }
                Effect::Cancel(CancelTarget::Hook(hook)) => {
                    self.hooks.remove(&hook);
                }
                // A tool that is told to stop may take its time, or never answer.
                Effect::Cancel(CancelTarget::Tool(call) | CancelTarget::Child(call)) => {
                    self.stopping.insert(call);
                }
                Effect::Arm { timer, .. } => self.timers.push(timer),
                Effect::Disarm(timer) => self.timers.retain(|armed| *armed != timer),
                Effect::Rotated { to } => self.session = to,
                Effect::Park { .. } => parked = true,
                Effect::Refuse { input_id, error: InputError::OutcomeUnknown { .. } } => {
                    self.delivered.insert("OutcomeUnknown");
                    self.answered(&input_id);
                    self.unknown.push(self.sent[&input_id].clone());
                }
                Effect::Ack { input_id } | Effect::Refuse { input_id, .. } => self.answered(&input_id),
                Effect::Finish(report) => {
                    assert!(self.calls.is_empty(), "{} is over, not its calls {:?}", report.loop_id, self.calls);
                    let left = self.tools.keys().find(|call| !self.stopping.contains(*call));
                    assert_eq!(left, None, "{} is over, and a tool runs that nobody stopped", report.loop_id);
                }
                Effect::Remember { .. } | Effect::Emit(_) => {}
            }
        }
        if parked {
            self.wake(machine, Wake::Asked);
            return;
        }
        let written = self.journals.get(&self.session).map(Vec::as_slice).unwrap_or_default();
        let pending = self.queued.iter().filter(|(session, _)| *session == self.session);
        let pending = pending.flat_map(|(_, batch)| batch.entries.iter());
        // What a lost writer had written is sent again and not written again.
        let pending = pending.filter(|entry| written.iter().all(|(_, held)| held.id != entry.id));
        let check = self.queued.is_empty() || self.rng.u8(..8) == 0;
        if check {
            self.checks.live(machine.durable(), pending);
        }
    }

    /// Writes the first `entries` of what is queued; those the journal has are not written again.
    fn write(&mut self, session: &SessionId, entries: &[Arc<Entry>]) -> Vec<Seq> {
        let mut seqs = Vec::new();
        for entry in entries {
            let journal = self.journals.entry(session.clone()).or_default();
            if let Some((seq, _)) = journal.iter().find(|(_, held)| held.id == entry.id) {
                seqs.push(*seq);
                continue;
            }
            let seq = Seq(journal.len() as u64 + 1);
            journal.push((seq, entry.clone()));
            self.checks.written(session, seq, entry);
            seqs.push(seq);
        }
        seqs
    }

    fn answered(&mut self, input_id: &InputId) {
        let waiting = self.unanswered.get_mut(input_id).unwrap_or_else(|| panic!("{input_id} was answered unasked"));
        *waiting -= 1;
        if *waiting == 0 {
            self.unanswered.remove(input_id);
        }
    }

    /// Each journal has a writer of its own: the oldest batch of one of them is durable.
    fn commit(&mut self, machine: &mut Machine) {
        let journals: BTreeSet<_> = self.queued.iter().map(|(session, _)| session.clone()).collect();
        let Some(journal) = pick(&mut self.rng, &journals) else { return self.person(machine) };
        let at = self.queued.iter().position(|(session, _)| *session == journal);
        let Some((session, batch)) = at.and_then(|at| self.queued.remove(at)) else { return };
        let seqs = self.write(&session, &batch.entries);
        self.send(machine, Report::Committed { batch: batch.number, seqs });
    }

    fn commit_failed(&mut self, machine: &mut Machine) {
        let Some((_, batch)) = self.queued.front().cloned() else { return self.person(machine) };
        let fate = if self.rng.bool() { Fate::Unknown } else { Fate::NotWritten };
        match fate {
            Fate::Unknown => self.lose_queue(),
            Fate::NotWritten => self.queued.clear(),
        }
        self.send(machine, Report::CommitFailed { batch: batch.number, error: "disk full".into(), fate });
    }

    /// What was queued is lost, but may be there in part.
    fn lose_queue(&mut self) {
        let mut survivors = self.rng.usize(..4);
        for (session, batch) in std::mem::take(&mut self.queued) {
            let part = survivors.min(batch.entries.len());
            self.write(&session, &batch.entries[..part]);
            survivors -= part;
            if part < batch.entries.len() {
                break;
            }
        }
    }

    /// The process ends.
    fn crash(&mut self, machine: &mut Machine) {
        self.delivered.insert("Crash");
        self.inputs += 1;
        self.lose_queue();
        self.restart(machine);
    }

    fn restart(&mut self, machine: &mut Machine) {
        self.wake(machine, Wake::Restarted);
    }

    fn wake(&mut self, machine: &mut Machine, wake: Wake) {
        self.queued.clear();
        self.calls.clear();
        self.waiting.clear();
        self.hooks.clear();
        self.tools.clear();
        self.asks.clear();
        self.timers.clear();
        self.unanswered.clear();
        // A hook ends with the incarnation that asked it.
        self.old.retain(|input| !matches!(input, Input::Report(Report::HookDone { .. })));
        self.checks.restarted();
        let Some(journal) = self.journals.get(&self.session) else {
            let opened = self.checks.opened.clone();
            *machine = Machine::new(opened, self.setup.clone());
            return;
        };
        let entries = journal.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
        *machine = Machine::fold(entries, self.setup.clone(), Holes::None).unwrap();
        self.checks.live(machine.durable(), [].iter());
        if let Some(to) = machine.durable().rotated_to.clone() {
            self.session = to;
            return self.wake(machine, wake);
        }
        let now = self.now();
        let effects = machine.recover(now, "restarted", wake);
        self.carry_out(machine, effects);
    }

    fn person(&mut self, machine: &mut Machine) {
        self.next_input += 1;
        let input_id: InputId = format!("i{}", self.next_input).into();
        let text = format!("message {}", self.next_input);
        let message = Arc::new(AgentMessage::user(text, self.clock));
        let input = match self.rng.u8(..44) {
            0..=8 => {
                let mut messages = vec![message];
                if self.rng.u8(..4) == 0 {
                    messages.push(Arc::new(AgentMessage::extension("note", json!(1))));
                }
                match self.rng.u8(..4) {
                    0 => {
                        let format = ResponseFormat { name: "answer".into(), schema: json!({"type": "object"}) };
                        Command::new(input_id, Op::Prompt { messages, format: Some(Arc::new(format)) })
                    }
                    _ => Command::new(input_id, Op::prompt(messages)),
                }
            }
            9..=14 => Command::new(input_id, Op::Steer { message }),
            15..=19 => Command::new(input_id, Op::FollowUp { message }),
            20..=22 => Command::new(input_id, Op::Continue { kind: self.continuation(machine.durable()) }),
            23..=26 => Command::new(input_id, Op::Abort),
            27 => Command::new(input_id, Op::Reset),
            28..=29 => {
                let messages = if self.rng.bool() { vec![message] } else { Vec::new() };
                Command::new(input_id, Op::Restore { messages })
            }
            30..=31 => {
                let mut settings = machine.durable().settings.as_ref().clone();
                settings.system_prompt = format!("be brief {}", self.next_input).into();
                settings.mode = if self.rng.bool() { Mode::Plan } else { Mode::Act };
                Command::new(input_id, Op::Configure { settings: Box::new(settings) })
            }
            32..=33 => {
                let to = SessionId::new(format!("s{}", self.next_input)).unwrap();
                Command::new(input_id, Op::Rotate { to })
            }
            34..=38 => match pick(&mut self.rng, &self.asks) {
                Some(permission_id) => {
                    self.asks.remove(&permission_id);
                    let decision = self.decision();
                    Command::new(input_id, Op::Answer { permission_id, decision })
                }
                None => Command::new(input_id, Op::prompt(vec![message])),
            },
            39..=42 => {
                let planned: Vec<u32> = machine.durable().plan().iter().map(|planned| planned.change).collect();
                let changes = match self.rng.u8(..4) {
                    0 => Some(vec![self.rng.u32(..9)]),
                    1 => Some(planned.into_iter().take(1).collect()),
                    _ => None,
                };
                let decision = match self.rng.u8(..3) {
                    0 => PlanDecision::Reject { changes, reason: "not now".into() },
                    _ => PlanDecision::Approve { changes },
                };
                Command::new(input_id, Op::Plan { decision })
            }
            // Nonsense is refused and changes nothing.
            _ => match self.rng.u8(..4) {
                0 => Command::new(input_id, Op::prompt(Vec::new())),
                1 => {
                    let permission_id = "unknown".into();
                    Command::new(input_id, Op::Answer { permission_id, decision: PermissionDecision::Allow })
                }
                2 => {
                    let kind = ContinuationKind::Branch { tag: "t".into(), entry: Some("nowhere".into()) };
                    Command::new(input_id, Op::Continue { kind })
                }
                _ => Command::new(
                    input_id,
                    Op::Steer { message: Arc::new(assistant("me", Vec::new(), StopReason::Stop).into()) },
                ),
            },
        };
        self.send(machine, input);
    }

    fn decision(&mut self) -> PermissionDecision {
        match self.rng.u8(..6) {
            0 | 1 => PermissionDecision::Allow,
            2 => PermissionDecision::AllowSession,
            3 => PermissionDecision::AllowAlways,
            _ => PermissionDecision::Deny { reason: "no".into() },
        }
    }

    fn continuation(&mut self, durable: &Durable) -> ContinuationKind {
        let tag = "2026-01-01T00:00:00Z".to_owned();
        match self.rng.u8(..5) {
            0 | 1 => ContinuationKind::Default,
            2 | 3 => ContinuationKind::Rerun { tag },
            _ => {
                let entries: Vec<_> = durable.record.entries().collect();
                let entry = (!entries.is_empty()).then(|| entries[self.rng.usize(..entries.len())].clone());
                ContinuationKind::Branch { tag, entry }
            }
        }
    }

    fn model(&mut self, machine: &mut Machine) {
        let open = self.calls.iter().filter(|(call, _)| !self.waiting.contains(*call));
        let open: Vec<_> = open.map(|(call, attempt)| (call.clone(), *attempt)).collect();
        if open.is_empty() {
            return self.commit(machine);
        }
        let (call, attempt) = open[self.rng.usize(..open.len())].clone();
        let roll = if self.draining { 10 } else { self.rng.u8(..16) };
        let input = match roll {
            0..=3 => {
                let delta = match self.rng.u8(..3) {
                    0 => StreamDelta::Text { delta: "a".into() },
                    1 => StreamDelta::Thinking { delta: "b".into() },
                    _ => StreamDelta::ToolCallDelta { delta: "{".into() },
                };
                Report::Delta { call, attempt, deltas: vec![delta] }
            }
            4..=5 => {
                self.calls.insert(call.clone(), attempt + 1);
                self.waiting.insert(call.clone());
                Report::Retrying {
                    call,
                    attempt,
                    error: ProviderError::RateLimited { retry_after_ms: None },
                    delay_ms: 5,
                }
            }
            6 => {
                self.calls.remove(&call);
                let error = match self.rng.u8(..3) {
                    0 => ProviderError::Api { message: "no".into() },
                    1 => ProviderError::Cancelled,
                    _ => ProviderError::Lost { message: "gone".into() },
                };
                Report::CallFailed { call, attempt, error }
            }
            _ => {
                self.calls.remove(&call);
                let message = self.response();
                Report::Responded { call, attempt, message }
            }
        };
        self.send(machine, input);
    }

    fn response(&mut self) -> Message {
        if self.draining {
            return assistant("done", Vec::new(), StopReason::Stop);
        }
        let many = [0, 0, 1, 1, 2, 3, 5][self.rng.usize(..7)];
        let mut calls = Vec::new();
        for _ in 0..many {
            self.next_call += 1;
            let id: ToolCallId = match self.rng.u8(..10) {
                0 => "".into(),
                1 => "again".into(),
                _ => format!("c{}", self.next_call).into(),
            };
            let name = ["read", "once", "same", "probe", "child", "risky", "unknown"][self.rng.usize(..7)];
            let arguments = if self.rng.u8(..10) == 0 { json!("{\"cut") } else { json!({"n": 1}) };
            calls.push(Content::ToolCall { id, name: name.to_owned(), arguments });
        }
        let stop = match (calls.is_empty(), self.rng.u8(..6)) {
            (_, 0) => StopReason::Length,
            (false, _) => StopReason::ToolUse,
            (true, _) => StopReason::Stop,
        };
        let text = if self.rng.u8(..6) == 0 { " " } else { "text" };
        assistant(text, calls, stop)
    }

    fn tool(&mut self, machine: &mut Machine) {
        let running: Vec<_> = self.tools.iter().map(|(call, kind)| (call.clone(), *kind)).collect();
        if running.is_empty() {
            return self.model(machine);
        }
        let (call, kind) = running[self.rng.usize(..running.len())].clone();
        let result = match self.rng.u8(..6) {
            _ if self.draining => Ok(ToolResult::text("ok")),
            0 => Err(ToolError::Failed("broken".into())),
            1 => Err(ToolError::Cancelled),
            _ => Ok(ToolResult::text("ok")),
        };
        let roll = if self.draining { 9 } else { self.rng.u8(..10) };
        let input = match (roll, kind) {
            (0..=2, Kind::Tool) => Report::ToolUpdated { call, partial: ToolResult::text("so far") },
            (3..=4, Kind::Tool) => Report::ToolProgress { call, text: "working".into() },
            (_, Kind::Tool) => {
                self.tools.remove(&call);
                Report::ToolFinished { call, result, duration_ms: 3 }
            }
            (0..=2, Kind::Child) => Report::ChildIs { call, doing: Doing::WaitingForAPerson },
            (3..=4, Kind::Child) => Report::ChildIs { call, doing: Doing::AtWork },
            (_, Kind::Child) => {
                self.tools.remove(&call);
                Report::ChildEnded { call, result, duration_ms: 7 }
            }
        };
        self.send(machine, input);
    }

    fn hook(&mut self, machine: &mut Machine) {
        let waiting: Vec<HookId> = self.hooks.keys().copied().collect();
        if waiting.is_empty() {
            return self.tool(machine);
        }
        let hook = waiting[self.rng.usize(..waiting.len())];
        let Some(call) = self.hooks.remove(&hook) else { return };
        let verdict = match call {
            HookCall::Filter { inputs } => {
                Verdict::Filter(Filtered::Each(inputs.iter().map(|input| self.filter(input)).collect()))
            }
            HookCall::Policy { ours, .. } => match self.rng.u8(..5) {
                0 => Verdict::Policy(Ruling::Forbid { reason: "not here".into() }),
                1 => Verdict::Policy(Ruling::Allow { by: "the policy".into() }),
                // As if it had answered for another point.
                2 => Verdict::Noted,
                _ => Verdict::Policy(ours),
            },
            call => self.verdict(&call),
        };
        self.delivered.extend(said(&verdict));
        self.send(machine, Report::HookDone { hook, verdict });
    }

    fn filter(&mut self, input: &[Arc<AgentMessage>]) -> FilterVerdict {
        let verdict = match self.rng.u8(..5) {
            0 => return FilterVerdict::Reject("rude".into()),
            1 => FilterVerdict::Warn("careful".into()),
            _ => FilterVerdict::Pass,
        };
        self.checks.passed(input);
        verdict
    }

    /// What the hook's point can be answered with, each often enough. Now and then it is an answer for another point.
    fn verdict(&mut self, call: &HookCall) -> Verdict {
        let (reason, text) = ("no".to_owned(), "by the way".to_owned());
        let args = Arc::new(if self.rng.u8(..6) == 0 { json!("{\"cut") } else { json!({"n": 2}) });
        let roll = self.rng.u8(..24);
        if roll == 23 {
            return Verdict::BeforeTool(BeforeTool::Ask { reason, args: Some(args) });
        }
        match call.point() {
            HookPoint::BeforeLoop | HookPoint::BeforeTurn | HookPoint::BeforeUpdate => Verdict::Permit(match roll {
                0..=4 => Permit::No { reason },
                _ => Permit::Yes,
            }),
            HookPoint::AfterLoop | HookPoint::AfterTurn | HookPoint::AfterUpdate | HookPoint::OnError => Verdict::Noted,
            HookPoint::BeforeTool => Verdict::BeforeTool(match roll {
                0..=3 => BeforeTool::Block { reason },
                4 => BeforeTool::Halt { reason },
                5..=13 => BeforeTool::Amend { args },
                14..=16 => BeforeTool::Ask { reason, args: None },
                17..=18 => BeforeTool::Ask { reason, args: Some(args) },
                _ => BeforeTool::Run,
            }),
            HookPoint::AfterTool => Verdict::AfterTool(match roll {
                4 => AfterTool::Halt { reason },
                6..=11 => AfterTool::Say { text },
                _ => AfterTool::Done,
            }),
            HookPoint::Stop => Verdict::Stop(match roll {
                0..=3 => MayStop::GoOn { reason },
                4 => MayStop::Halt { reason },
                _ => MayStop::Yes,
            }),
            HookPoint::SessionStart => Verdict::SessionStart(match roll {
                0..=4 => SessionStart::Halt { reason },
                6..=11 => SessionStart::Say { text },
                _ => SessionStart::Plain,
            }),
            HookPoint::Filter | HookPoint::Policy => Verdict::Noted,
        }
    }

    fn timer(&mut self, machine: &mut Machine) {
        if self.timers.is_empty() {
            return self.hook(machine);
        }
        let timer = self.timers[self.rng.usize(..self.timers.len())].clone();
        self.send(machine, Report::Timer { timer });
    }

    /// Something that was said before is said again.
    fn stale(&mut self, machine: &mut Machine) {
        if self.old.is_empty() {
            return self.commit(machine);
        }
        let input = self.old[self.rng.usize(..self.old.len())].clone();
        self.send(machine, input);
    }

    /// Everything answers from here on: the run must come to rest.
    fn drain(&mut self, machine: &mut Machine) {
        self.draining = true;
        for _ in 0..20_000 {
            if !self.queued.is_empty() {
                self.commit(machine);
            } else if let Some(input) = self.unknown.pop() {
                self.send(machine, input);
            } else if !self.hooks.is_empty() {
                self.hook(machine);
            } else if let Some(permission_id) = self.asks.pop_first() {
                self.next_input += 1;
                let input_id = format!("i{}", self.next_input);
                self.send(
                    machine,
                    Command::new(input_id, Op::Answer { permission_id, decision: PermissionDecision::Allow }),
                );
            } else if !self.tools.is_empty() {
                self.tool(machine);
            } else if !self.calls.is_empty() {
                self.model(machine);
            } else if machine.is_at_rest() {
                return;
            } else if !self.timers.is_empty() {
                self.timer(machine);
            } else {
                panic!("stuck: nothing is under way, and the run has not ended: {machine:#?}");
            }
        }
        panic!("the run does not come to rest");
    }
}

/// A verdict's name, where it is one that must be seen.
fn said(verdict: &Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Policy(_) => Some("PolicyJudges"),
        Verdict::BeforeTool(BeforeTool::Ask { .. }) => Some("HookAsks"),
        Verdict::BeforeTool(BeforeTool::Amend { .. }) => Some("HookAmends"),
        Verdict::AfterTool(AfterTool::Say { .. }) | Verdict::SessionStart(SessionStart::Say { .. }) => Some("HookSays"),
        Verdict::BeforeTool(BeforeTool::Halt { .. })
        | Verdict::AfterTool(AfterTool::Halt { .. })
        | Verdict::Stop(MayStop::Halt { .. })
        | Verdict::SessionStart(SessionStart::Halt { .. }) => Some("HookHalts"),
        _ => None,
    }
}
