//! The world around one machine, played by a seed: what is under way, what happens next, and that it comes to rest. Each
//! of those who answer the machine has a file of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use playhouse_agent::machine::{
    Approver, CancelTarget, Effect, HookCall, HookId, InputError, Machine, Now, Setup, Timer,
};
use playhouse_agent::testing::Report;
use playhouse_protocol::entry::{Opened, Wake};
use playhouse_protocol::{
    Batch, CallId, Command, Entry, InputId, ModelConfig, Op, PermissionDecision, PermissionId, Seq, SessionId,
    ToolCallId, ToolExecutionStrategy,
};

use crate::branches;
use crate::checks::{Checks, variant};
use crate::common::Input;
use crate::props::{Props, hook_set, settings};

pub struct World {
    pub rng: Rng,
    pub inputs: usize,
    pub delivered: BTreeSet<&'static str>,
    pub checks: Checks,
    pub setup: Setup,
    pub session: SessionId,
    pub journals: HashMap<SessionId, Vec<(Seq, Arc<Entry>)>>,
    /// Batches at the writer, not yet durable.
    pub queued: VecDeque<(SessionId, Batch)>,
    pub calls: BTreeMap<CallId, u32>,
    /// Those of them whose next attempt waits for the agent's word.
    pub waiting: BTreeSet<CallId>,
    pub hooks: BTreeMap<HookId, HookCall>,
    pub tools: BTreeMap<ToolCallId, Kind>,
    /// Tools that were told to stop.
    pub stopping: BTreeSet<ToolCallId>,
    pub asks: BTreeSet<PermissionId>,
    pub timers: Vec<Timer>,
    /// Inputs that wait for their answer, and how many answers each waits for.
    pub unanswered: BTreeMap<InputId, usize>,
    pub clock: u64,
    pub next_input: u64,
    pub next_call: u64,
    pub old: Vec<Input>,
    /// Inputs by their id, as they were sent.
    pub sent: BTreeMap<InputId, Command>,
    /// Those of which it is not known whether they were taken; their senders repeat them.
    pub unknown: Vec<Command>,
    pub draining: bool,
    /// Whether every input and effect is printed: when one seed is played alone.
    pub talk: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
        setup.approver = match rng.u8(..5) {
            0 => Approver::Nobody,
            1 => Approver::Inbox,
            2 => Approver::InTurn,
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

    pub fn now(&mut self) -> Now {
        self.clock += self.rng.u64(..40);
        // The wall clock may jump; the other may not.
        let wall = if self.rng.u8(..20) == 0 { self.clock / 2 } else { self.clock * 3 };
        Now { wall, mono: Duration::from_millis(self.clock) }
    }

    pub fn send(&mut self, machine: &mut Machine, input: impl Into<Input>) {
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

    pub fn carry_out(&mut self, machine: &mut Machine, effects: Vec<Effect>) {
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
                // The question still waits.
                Effect::Refuse { input_id, error: InputError::NotOffered(permission_id) } => {
                    self.asks.insert(permission_id);
                    self.answered(&input_id);
                }
                Effect::Refuse { input_id, error: InputError::NotJournaled(_) } => {
                    assert!(!self.is_written(&input_id), "{input_id} is refused, and in the journal");
                    self.answered(&input_id);
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

    /// Whether a journal has taken this command.
    fn is_written(&self, input_id: &InputId) -> bool {
        self.journals.values().flatten().any(|(_, entry)| entry.body.takes() == Some(input_id))
    }

    fn answered(&mut self, input_id: &InputId) {
        let waiting = self.unanswered.get_mut(input_id).unwrap_or_else(|| panic!("{input_id} was answered unasked"));
        *waiting -= 1;
        if *waiting == 0 {
            self.unanswered.remove(input_id);
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
