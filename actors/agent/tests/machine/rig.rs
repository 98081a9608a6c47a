//! A machine in the hands of a test: everything it asks for is noted, and answered when the test says so. Batches are
//! made durable at once unless they are held back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use playhouse_agent::machine::{
    AfterTool, Approver, Authority, BeforeTool, Catalog, Checked, Doing, Effect, FilterVerdict, Filtered, Holes,
    HookCall, HookId, HookPoint, HookSet, Machine, MayStop, Now, Permit, RunReport, SessionStart, Setup, Timer,
    Verdict, Vetting,
};
use playhouse_agent::testing::Report;
use playhouse_protocol::entry::{BlockStage, Opened, Settings, SpawnRef, Wake};
use playhouse_protocol::transcript::{self, TranscriptEnd};
use playhouse_protocol::{
    Access, AgentEvent, AgentMessage, Batch, CallId, Command, Content, ContinuationKind, EffectClass, Entry, EntryBody,
    Event, GrantScope, InputId, Level, Message, ModelConfig, Op, PermissionDecision, PermissionId, ProviderError,
    Question, Ruling, Seq, SessionId, Stance, StopReason, StreamConfig, StreamDelta, ToolCallId, ToolDefinition,
    ToolError, ToolResult,
};
use serde_json::{Value, json};

use crate::common::{self, Input, settings};
use crate::lines::line;

/// Tools whose names say what they are.
struct Props;

impl Catalog for Props {
    fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::new([])
    }

    fn vet(&self, authority: Authority<'_>, call: &ToolCallId, name: &str, args: &Value) -> Vetting {
        let session = authority.session;
        if args.is_string() {
            return Vetting::Blocked { stage: BlockStage::Schema, reason: "the arguments are not JSON".into() };
        }
        let allowed = |level| Ruling::Allow { by: format!("level {level}").into() };
        let ready = |effect| Vetting::Ready { effect, level: Level::None, ruling: allowed(Level::None) };
        match name {
            "read" => ready(EffectClass::Read),
            "same" => ready(EffectClass::Idempotent { key: call.to_string() }),
            "probe" => ready(EffectClass::Reconcilable { probe: call.to_string() }),
            "once" => ready(EffectClass::Once),
            "child" => {
                let child = SessionId::new(format!("{session}-{call}")).unwrap();
                ready(EffectClass::Child { session: child })
            }
            "risky" | "risky alone" | "lasting" => {
                let lasts = name == "lasting";
                let rules = if lasts { vec!["lasting".to_owned()] } else { Vec::new() };
                let offer = if lasts { GrantScope::Always } else { GrantScope::Once };
                let level = Level::Execute;
                let known = authority.grants.iter().any(|rule| rule == name);
                let ruling = match authority.mode.stance(level) {
                    _ if known => Ruling::Allow { by: "a yes for the session".into() },
                    Stance::Run => allowed(level),
                    Stance::Ask | Stance::Refuse => {
                        Ruling::Ask(Question { reason: "take a risk".into(), level, offer, rules })
                    }
                };
                Vetting::Ready { effect: EffectClass::Once, level, ruling }
            }
            "forbidden" => {
                let ruling = Ruling::Forbid { reason: "forbidden by a rule".into() };
                Vetting::Ready { effect: EffectClass::Once, level: Level::Execute, ruling }
            }
            "read a" | "read b" => ready(EffectClass::Read),
            "alone" | "write a" | "write b" => ready(EffectClass::Once),
            _ => Vetting::Blocked { stage: BlockStage::Lookup, reason: "no such tool".into() },
        }
    }

    fn access(&self, name: &str, _: &Value) -> Access {
        match name.split_once(' ') {
            Some(("write", path)) => Access::Writes(path.to_owned()),
            Some(("read", path)) => Access::Reads(Some(path.to_owned())),
            Some(("risky", "alone")) => Access::Alone,
            _ if name == "alone" => Access::Alone,
            // Most tests are not about what runs beside what.
            _ => Access::Free,
        }
    }

    fn summary(&self, name: &str, _: &Value, _: &Result<ToolResult, ToolError>) -> String {
        format!("used {name}")
    }
}

pub const EVERY_HOOK: [HookPoint; 12] = [
    HookPoint::BeforeLoop,
    HookPoint::AfterLoop,
    HookPoint::BeforeTurn,
    HookPoint::AfterTurn,
    HookPoint::BeforeTool,
    HookPoint::AfterTool,
    HookPoint::BeforeUpdate,
    HookPoint::AfterUpdate,
    HookPoint::OnError,
    HookPoint::Filter,
    HookPoint::Stop,
    HookPoint::SessionStart,
];

pub struct Rig {
    pub machine: Machine,
    pub setup: Setup,
    opened: Opened,
    pub session: SessionId,
    pub journals: BTreeMap<SessionId, Vec<(Seq, Arc<Entry>)>>,
    /// Unix milliseconds and milliseconds since the start.
    pub clock: (u64, u64),
    /// Batches on their way to the journal.
    pub queued: VecDeque<(SessionId, Batch)>,
    /// Whether batches stay there until `commit`.
    pub held: bool,
    pub journal: Holes,
    pub calls: Vec<(CallId, u32, Box<StreamConfig>)>,
    /// Every request so far.
    pub requests: Vec<StreamConfig>,
    pub hooks: VecDeque<(HookId, HookCall)>,
    pub tools: Vec<(ToolCallId, EffectClass)>,
    pub asks: Vec<PermissionId>,
    pub timers: Vec<(Timer, Duration)>,
    pub events: Vec<Event>,
    pub reports: Vec<Arc<RunReport>>,
    pub lines: Vec<String>,
    inputs: u32,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// A rig with these hooks set.
    pub fn hooked(points: impl IntoIterator<Item = HookPoint>) -> Self {
        let hooks = points.into_iter().fold(HookSet::default(), HookSet::with);
        Self::with(|setup, _| setup.hooks = hooks)
    }

    pub fn with(change: impl FnOnce(&mut Setup, &mut Settings)) -> Self {
        Self::made(None, change)
    }

    /// A rig with a sub-agent in it.
    pub fn spawned(parent: SpawnRef, change: impl FnOnce(&mut Setup, &mut Settings)) -> Self {
        Self::made(Some(Arc::new(parent)), change)
    }

    fn made(spawned_by: Option<Arc<SpawnRef>>, change: impl FnOnce(&mut Setup, &mut Settings)) -> Self {
        let mut setup = Setup::new(Arc::new(Props), Arc::new(ModelConfig::scripted("x")));
        let mut settings = settings();
        setup.approver = Approver::Present;
        change(&mut setup, &mut settings);
        let session = SessionId::new("s").unwrap();
        let opened = Opened { spawned_by, ..Opened::new("a".into(), session.clone(), Arc::new(settings)) };
        Self {
            machine: Machine::new(opened.clone(), setup.clone()),
            setup,
            opened,
            session,
            journals: BTreeMap::new(),
            clock: (1_767_225_600_000, 0),
            queued: VecDeque::new(),
            held: false,
            journal: Holes::None,
            calls: Vec::new(),
            requests: Vec::new(),
            hooks: VecDeque::new(),
            tools: Vec::new(),
            asks: Vec::new(),
            timers: Vec::new(),
            events: Vec::new(),
            reports: Vec::new(),
            lines: Vec::new(),
            inputs: 0,
        }
    }

    /// The rig of a process that finds this journal.
    pub fn folded(entries: &[(Seq, Arc<Entry>)], setup: &Setup, journal: Holes) -> Self {
        let mut rig = Self::new();
        rig.setup = setup.clone();
        let folded = entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
        rig.machine = Machine::fold(folded, setup.clone(), journal).unwrap();
        rig.session = rig.machine.durable().session_id.clone();
        rig.journals.insert(rig.session.clone(), entries.to_vec());
        rig.journal = journal;
        // The journal has seen other inputs.
        rig.inputs = 1_000;
        rig
    }

    pub fn now(&self) -> Now {
        Now { wall: self.clock.0, mono: Duration::from_millis(self.clock.1) }
    }

    pub fn wait(&mut self, millis: u64) {
        self.clock = (self.clock.0 + millis, self.clock.1 + millis);
    }

    /// Hands an input in; gives what was noted meanwhile.
    pub fn tell(&mut self, input: impl Into<Input>) -> Vec<String> {
        let before = self.lines.len();
        let effects = match input.into() {
            Input::Command(command) => self.machine.command(self.now(), command),
            Input::Report(report) => self.machine.report(self.now(), report),
        };
        self.carry_out(effects);
        self.settle();
        self.lines[before..].to_vec()
    }

    fn settle(&mut self) {
        while !self.held && !self.queued.is_empty() {
            self.write();
        }
        if self.queued.is_empty() && self.journal == Holes::None {
            let entries = self.journals.get(&self.session).into_iter().flatten();
            if let Ok(folded) = Machine::fold(entries.map(|(s, e)| (*s, e.as_ref())), self.setup.clone(), Holes::None) {
                assert_eq!(folded.durable(), self.machine.durable());
            }
        }
    }

    /// Makes the oldest batch durable.
    pub fn commit(&mut self) -> Vec<String> {
        let before = self.lines.len();
        self.write();
        self.settle();
        self.lines[before..].to_vec()
    }

    fn write(&mut self) {
        let Some((session, batch)) = self.queued.pop_front() else { panic!("nothing is on its way") };
        let journal = self.journals.entry(session).or_default();
        let mut seqs = Vec::new();
        for entry in batch.entries.iter() {
            let held = journal.iter().find(|(_, held)| held.id == entry.id);
            if let Some((seq, held)) = held {
                assert_eq!(held, entry, "two entries of one id: the journal takes only the first");
                seqs.push(*seq);
                continue;
            }
            let seq = journal.last().map_or(Seq(1), |(last, _)| Seq(last.0 + 1));
            journal.push((seq, entry.clone()));
            seqs.push(seq);
        }
        let effects = self.machine.report(self.now(), Report::Committed { batch: batch.number, seqs });
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.lines.extend(line(&effect));
            match effect {
                Effect::Append { session, batch } => {
                    if self.queued.iter().all(|(_, held)| held.number != batch.number) {
                        self.queued.push_back((session, batch));
                    }
                }
                Effect::Call { call, config } => {
                    transcript::validate(config.messages.sendable(), TranscriptEnd::Open).unwrap();
                    self.requests.push(config.as_ref().clone());
                    self.calls.push((call, config.attempt, config));
                }
                Effect::RunTool { call, effect, .. } => self.tools.push((call, effect)),
                Effect::Spawn { call, session, .. } => self.tools.push((call, EffectClass::Child { session })),
                Effect::Hook { hook, call } => self.hooks.push_back((hook, call)),
                Effect::Ask { permission_id, .. } => self.asks.push(permission_id),
                Effect::Emit(event) => self.events.push(event),
                Effect::Arm { timer, after } => self.timers.push((timer, after)),
                Effect::Disarm(timer) => self.timers.retain(|(armed, _)| *armed != timer),
                Effect::Finish(report) => self.reports.push(report),
                Effect::Rotated { to } => self.session = to,
                Effect::Cancel(playhouse_agent::machine::CancelTarget::Hook(hook)) => {
                    self.hooks.retain(|(waiting, _)| *waiting != hook);
                }
                Effect::Remember { .. }
                | Effect::GoOn { .. }
                | Effect::Cancel(_)
                | Effect::Ack { .. }
                | Effect::Refuse { .. }
                | Effect::Park { .. } => {}
            }
        }
    }

    /// The process ends; another one folds the journal and goes on.
    pub fn restart(&mut self) -> Vec<String> {
        self.wake(Wake::Restarted)
    }

    /// Someone wants a parked agent to go on.
    pub fn resume(&mut self) -> Vec<String> {
        self.wake(Wake::Asked)
    }

    fn wake(&mut self, wake: Wake) -> Vec<String> {
        let before = self.lines.len();
        self.queued.clear();
        self.calls.clear();
        self.hooks.clear();
        self.tools.clear();
        self.asks.clear();
        self.timers.clear();
        let entries = self.journals.get(&self.session).into_iter().flatten();
        let folded = Machine::fold(entries.map(|(s, e)| (*s, e.as_ref())), self.setup.clone(), self.journal);
        self.machine = folded.unwrap_or_else(|_| Machine::new(self.opened.clone(), self.setup.clone()));
        let effects = self.machine.recover(self.now(), "restarted", wake);
        self.carry_out(effects);
        self.settle();
        self.lines[before..].to_vec()
    }

    pub fn recover(&mut self) {
        let effects = self.machine.recover(self.now(), "restarted", Wake::Restarted);
        self.carry_out(effects);
        self.settle();
    }

    fn input_id(&mut self) -> InputId {
        self.inputs += 1;
        format!("i{}", self.inputs).into()
    }

    fn user(&self, text: &str) -> Arc<AgentMessage> {
        Arc::new(AgentMessage::user(text, self.clock.0))
    }

    pub fn prompt(&mut self, text: &str) -> Vec<String> {
        let (input_id, messages) = (self.input_id(), vec![self.user(text)]);
        self.tell(Command::new(input_id, Op::prompt(messages)))
    }

    pub fn steer(&mut self, text: &str) -> Vec<String> {
        let (input_id, message) = (self.input_id(), self.user(text));
        self.tell(Command::new(input_id, Op::Steer { message }))
    }

    pub fn follow_up(&mut self, text: &str) -> Vec<String> {
        let (input_id, message) = (self.input_id(), self.user(text));
        self.tell(Command::new(input_id, Op::FollowUp { message }))
    }

    pub fn abort(&mut self) -> Vec<String> {
        let input_id = self.input_id();
        self.tell(Command::new(input_id, Op::Abort))
    }

    pub fn go_on(&mut self, kind: ContinuationKind) -> Vec<String> {
        let input_id = self.input_id();
        self.tell(Command::new(input_id, Op::Continue { kind }))
    }

    pub fn rotate(&mut self, to: &str) -> Vec<String> {
        let input_id = self.input_id();
        self.tell(Command::new(input_id, Op::Rotate { to: SessionId::new(to).unwrap() }))
    }

    pub fn permit(&mut self, permission_id: &str, decision: PermissionDecision) -> Vec<String> {
        let input_id = self.input_id();
        // A question's name ends with the digest of what it is about.
        let open = self.asks.iter().position(|open| open.as_str().starts_with(permission_id));
        let permission_id = open.map_or_else(|| permission_id.into(), |at| self.asks.remove(at));
        self.tell(Command::new(input_id, Op::Answer { permission_id, decision }))
    }

    /// Answers the oldest hook.
    pub fn verdict(&mut self, verdict: Verdict) -> Vec<String> {
        let (hook, _) = self.hooks.pop_front().expect("no hook is at work");
        self.tell(Report::HookDone { hook, verdict })
    }

    /// The oldest hook lets it be.
    pub fn allow(&mut self) -> Vec<String> {
        let verdict = yes(self.asked());
        self.verdict(verdict)
    }

    /// The oldest hook says no.
    pub fn refuse(&mut self, reason: &str) -> Vec<String> {
        let verdict = no(self.asked(), reason.into());
        self.verdict(verdict)
    }

    /// The oldest hook ends the run.
    pub fn halt(&mut self, reason: &str) -> Vec<String> {
        let reason = reason.into();
        let verdict = match self.asked() {
            HookPoint::BeforeTool => Verdict::BeforeTool(BeforeTool::Halt { reason }),
            HookPoint::AfterTool => Verdict::AfterTool(AfterTool::Halt { reason }),
            HookPoint::Stop => Verdict::Stop(MayStop::Halt { reason }),
            point => no(point, reason),
        };
        self.verdict(verdict)
    }

    fn asked(&self) -> HookPoint {
        self.hooks.front().expect("no hook is at work").1.point()
    }

    pub fn time_up(&mut self, timer: Timer) -> Vec<String> {
        self.timers.retain(|(armed, _)| *armed != timer);
        self.tell(Report::Timer { timer })
    }

    fn open_call(&self) -> (CallId, u32) {
        let (call, attempt, _) = self.calls.last().expect("no call is open");
        (call.clone(), *attempt)
    }

    pub fn delta(&mut self, text: &str) -> Vec<String> {
        let (call, attempt) = self.open_call();
        self.tell(Report::Delta { call, attempt, deltas: vec![StreamDelta::Text { delta: text.into() }] })
    }

    pub fn retrying(&mut self, error: ProviderError, delay_ms: u64) -> Vec<String> {
        let (call, attempt) = self.open_call();
        if let Some(open) = self.calls.last_mut() {
            open.1 += 1;
        }
        self.tell(Report::Retrying { call, attempt, error, delay_ms })
    }

    pub fn call_failed(&mut self, error: ProviderError) -> Vec<String> {
        let (call, attempt) = self.open_call();
        self.calls.clear();
        self.tell(Report::CallFailed { call, attempt, error })
    }

    pub fn respond(&mut self, message: Message) -> Vec<String> {
        let (call, attempt) = self.open_call();
        self.calls.clear();
        self.tell(Report::Responded { call, attempt, message })
    }

    /// The model answers and stops.
    pub fn says(&mut self, text: &str) -> Vec<String> {
        self.respond(assistant(text, &[], StopReason::Stop))
    }

    /// The model wants tools, each given as its id and its name.
    pub fn wants(&mut self, calls: &[(&str, &str)]) -> Vec<String> {
        self.respond(assistant("on it", calls, StopReason::ToolUse))
    }

    pub fn tool_shows(&mut self, call: &str, text: &str) -> Vec<String> {
        self.tell(Report::ToolUpdated { call: call.into(), partial: ToolResult::text(text) })
    }

    pub fn tool_ends(&mut self, call: &str, result: Result<ToolResult, ToolError>) -> Vec<String> {
        let child = self.tools.iter().any(|(c, e)| c.as_str() == call && matches!(e, EffectClass::Child { .. }));
        self.tools.retain(|(running, _)| running.as_str() != call);
        let (call, duration_ms) = (call.into(), 7);
        self.tell(match child {
            true => Report::ChildEnded { call, result, duration_ms },
            false => Report::ToolFinished { call, result, duration_ms },
        })
    }

    /// A sub-agent tells what it does.
    pub fn child_is(&mut self, call: &str, doing: Doing) -> Vec<String> {
        self.tell(Report::ChildIs { call: call.into(), doing })
    }

    /// The tool succeeds.
    pub fn done(&mut self, call: &str) -> Vec<String> {
        self.tool_ends(call, Ok(ToolResult::text(format!("{call} ok"))))
    }

    /// The text of every message of the conversation, each with who says it.
    pub fn talk(&self) -> Vec<String> {
        self.machine.durable().record.messages().as_slice().iter().map(|message| crate::lines::said(message)).collect()
    }

    pub fn bodies(&self) -> impl Iterator<Item = &EntryBody> {
        self.journals.get(&self.session).into_iter().flatten().map(|(_, entry)| &entry.body)
    }

    /// Answers the oldest hook kindly.
    pub fn answer_hook(&mut self) -> Vec<String> {
        let verdict = match self.hooks.front() {
            Some((_, HookCall::Filter { inputs })) => {
                Verdict::Filter(Filtered::Each(vec![FilterVerdict::Pass; inputs.len()]))
            }
            Some(_) | None => yes(self.asked()),
        };
        self.verdict(verdict)
    }

    /// Everything answers, kindly, until the run comes to rest; gives how many answers that took.
    pub fn come_to_rest(&mut self) -> usize {
        for answers in 0..500 {
            if !self.hooks.is_empty() {
                self.answer_hook();
            } else if let Some(ask) = self.asks.first().cloned() {
                self.permit(ask.as_str(), PermissionDecision::Allow);
            } else if let Some((call, _)) = self.tools.first().cloned() {
                self.done(call.as_str());
            } else if !self.calls.is_empty() {
                self.says("done");
            } else {
                assert!(self.machine.is_at_rest(), "stuck: {:?}", self.machine.durable().run);
                return answers;
            }
        }
        panic!("it does not come to rest");
    }

    pub fn event(&self, test: impl Fn(&AgentEvent) -> bool) -> Option<&AgentEvent> {
        self.events.iter().map(|event| &event.event).rfind(|event| test(event))
    }
}

/// What lets it be.
pub fn yes(point: HookPoint) -> Verdict {
    match point {
        HookPoint::BeforeLoop | HookPoint::BeforeTurn | HookPoint::BeforeUpdate => Verdict::Permit(Permit::Yes),
        HookPoint::AfterLoop | HookPoint::AfterTurn | HookPoint::AfterUpdate | HookPoint::OnError => Verdict::Noted,
        HookPoint::BeforeTool => Verdict::BeforeTool(BeforeTool::Run),
        HookPoint::AfterTool => Verdict::AfterTool(AfterTool::Done),
        HookPoint::Filter => Verdict::Filter(Filtered::PassAll),
        HookPoint::Policy => Verdict::Policy(Ruling::Allow { by: "the policy".into() }),
        HookPoint::Stop => Verdict::Stop(MayStop::Yes),
        HookPoint::SessionStart => Verdict::SessionStart(SessionStart::Plain),
        HookPoint::Check => Verdict::Check(Checked::Possible),
    }
}

/// What says no, where there is a no.
pub fn no(point: HookPoint, reason: String) -> Verdict {
    match point {
        HookPoint::BeforeLoop | HookPoint::BeforeTurn | HookPoint::BeforeUpdate => {
            Verdict::Permit(Permit::No { reason })
        }
        HookPoint::BeforeTool => Verdict::BeforeTool(BeforeTool::Block { reason }),
        HookPoint::Filter => Verdict::Filter(Filtered::RejectAll { reason }),
        HookPoint::Policy => Verdict::Policy(Ruling::Forbid { reason }),
        HookPoint::Stop => Verdict::Stop(MayStop::GoOn { reason }),
        HookPoint::SessionStart => Verdict::SessionStart(SessionStart::Halt { reason }),
        HookPoint::Check => Verdict::Check(Checked::Fails { reason }),
        HookPoint::AfterLoop
        | HookPoint::AfterTurn
        | HookPoint::AfterUpdate
        | HookPoint::OnError
        | HookPoint::AfterTool => yes(point),
    }
}

pub fn assistant(text: &str, calls: &[(&str, &str)], stop_reason: StopReason) -> Message {
    let calls = calls.iter().map(|(id, name)| Content::ToolCall {
        id: (*id).into(),
        name: (*name).to_owned(),
        arguments: json!({}),
    });
    let text = (!text.is_empty()).then(|| Content::text(text));
    common::assistant(text.into_iter().chain(calls).collect(), stop_reason)
}
