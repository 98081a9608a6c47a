//! The pure machine: commands and reports in, effects out. No I/O, no clock, no randomness.
//!
//! [`Machine::command`] takes what someone outside asks, [`Machine::report`] what an actor tells; each changes the state
//! and returns what is to be done. State has two parts:
//! [`Durable`] is the fold of the journal, `Flight` is what is under way and what a fold leaves empty. Entries are
//! applied when they are made; everything that may only happen once they are durable (events, requests, tools,
//! acknowledgements) waits in the entry's batch and is released by `Committed`, in order. When the journal cannot
//! be written the state is ahead of the truth, so the agent drops it and folds again.
//!
//! The rooms: `state` is what the machine knows, `steps` is what it does with what it is told, `hooks` is where it asks
//! the user's hooks. What goes in and out is plain data: `report`, `effect`, `input_error`, and `catalog` for the
//! questions about tools.

mod catalog;
mod effect;
mod hooks;
mod input_error;
pub(crate) mod report;
mod state;
mod steps;

use std::sync::Arc;
use std::time::Duration;

pub use playhouse_context::Holes;
use playhouse_context::view;
use playhouse_protocol::chain::Members;
use playhouse_protocol::entry::{Opened, Wake};
use playhouse_protocol::{Command, Entry, EntryBody, EntryId, History, ModelConfig, PermissionDecision, Seq};

pub use catalog::{Authority, Catalog, Vetting};
pub use effect::{CancelTarget, Effect, Timer, ToolStart};
pub use hooks::points::{HookCall, HookId, HookPoint, HookSet, SessionSource, SlowHooks};
pub use hooks::verdict::{
    AfterTool, BeforeTool, Checked, FilterVerdict, Filtered, MayStop, Permit, SessionStart, Verdict,
};
pub use input_error::InputError;
pub use report::Doing;
pub(crate) use report::Report;
pub use state::durable::Durable;
use state::flight::{Counters, InFlight};
pub use state::run::RunReport;
pub use state::{events, run};
use steps::Step;

/// How long a hook may take, unless it is one of the slow.
const HOOK_DEADLINE: Duration = Duration::from_secs(60);
/// How long a tool may look whether a call would fail; then a person is asked all the same.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);
/// How long a question may wait.
pub(crate) const PERMISSION_DEADLINE: Duration = Duration::from_secs(120);
/// How long a tool may take to stop.
const ABORT_GRACE: Duration = Duration::from_secs(2);

/// How often in a row an agent may be restarted in the middle of its work without getting anywhere. Each time may buy a
/// response of the model; a crash that has nothing to do with the agent does not come so often at the same place.
const MOST_RESTARTS: u32 = 10;

/// The time, passed in: the machine has no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix milliseconds, for people and the journal.
    pub wall: u64,
    /// A clock that never goes back, for deadlines.
    pub mono: Duration,
}

/// Whether there is anyone to ask for permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approver {
    /// Nobody: what needs a yes is denied at once.
    #[default]
    Nobody,
    /// Someone; no answer in time is a no.
    Present,
    /// Someone who is asked one question after the other, and keeps the time of each: see [`InTurn`](crate::InTurn).
    InTurn,
    /// An inbox: a question waits for as long as it takes.
    Inbox,
}

/// What becomes of a question that nobody answered in time.
pub(crate) fn overdue() -> PermissionDecision {
    PermissionDecision::Deny { reason: format!("nobody answered within {} s", PERMISSION_DEADLINE.as_secs()) }
}

/// What the machine works with that is not in the journal: code and keys.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The agent's tools, as the machine asks about them.
    pub catalog: Arc<dyn Catalog>,
    /// The model, with its key.
    pub model: Arc<ModelConfig>,
    /// The models to fall back on, with theirs.
    pub fallbacks: Vec<Arc<ModelConfig>>,
    /// The points at which a hook is to be asked.
    pub hooks: HookSet,
    /// Those of them that may take longer.
    pub slow_hooks: SlowHooks,
    /// Who is asked for permission, and how long they have.
    pub approver: Approver,
}

impl Setup {
    /// No hooks and nobody to ask.
    pub fn new(catalog: Arc<dyn Catalog>, model: Arc<ModelConfig>) -> Self {
        Self {
            catalog,
            model,
            fallbacks: Vec::new(),
            hooks: HookSet::default(),
            slow_hooks: SlowHooks::default(),
            approver: Approver::Nobody,
        }
    }

    /// How long a hook may take.
    fn hook_deadline(&self, asked: HookPoint) -> Duration {
        let more = if self.slow_hooks.points.has(asked) { self.slow_hooks.seconds } else { 0 };
        let usual = if asked == HookPoint::Check { CHECK_DEADLINE } else { HOOK_DEADLINE };
        usual + Duration::from_secs(more.into())
    }
}

/// How far a machine has counted its batches and its hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    next_batch: u64,
    last_hook: u64,
}

/// An agent, without its actor.
#[derive(Debug)]
pub struct Machine {
    setup: Setup,
    durable: Durable,
    flight: InFlight,
    counters: Counters,
    /// The entry that opens the journal, until it is there.
    opened: Option<Arc<Opened>>,
    holes: Holes,
    now: Now,
    /// What the input being handled asks for so far.
    out: Vec<Effect>,
}

impl Machine {
    /// An agent whose journal does not exist yet; its first entry will make it.
    pub fn new(opened: impl Into<Arc<Opened>>, setup: Setup) -> Self {
        let opened = opened.into();
        Self::with(Durable::new(&opened), Some(opened), setup, Holes::None)
    }

    /// The agent that these entries stand for: those that lead to the last of them. Nothing is under way until
    /// [`Machine::recover`].
    pub fn fold<'a>(
        entries: impl IntoIterator<Item = (Seq, &'a Entry)>,
        setup: Setup,
        holes: Holes,
    ) -> Result<Self, FoldError> {
        Self::fold_to(None, entries, setup, holes)
    }

    /// As [`Machine::fold`], with the entries that lead to `tip`.
    pub fn fold_to<'a>(
        tip: Option<&EntryId>,
        entries: impl IntoIterator<Item = (Seq, &'a Entry)>,
        setup: Setup,
        holes: Holes,
    ) -> Result<Self, FoldError> {
        let entries: Vec<_> = entries.into_iter().collect();
        let (Some((_, first)), Some((last_seq, _))) = (entries.first(), entries.last()) else {
            return Err(FoldError::Empty);
        };
        let EntryBody::Opened(opened) = &first.body else { return Err(FoldError::NotOpened) };
        let mut durable = Durable::new(opened);
        let chain = Members::of(&entries, tip);
        for (at, (_, entry)) in entries.iter().enumerate() {
            match chain.has(at) {
                true => durable.apply(entry),
                false => durable.pass(entry),
            }
        }
        let last_seq = *last_seq;
        let mut machine = Self::with(durable, None, setup, holes);
        machine.counters.last_seq = last_seq;
        machine.counters.session_start = Some(SessionSource::Resume);
        Ok(machine)
    }

    fn with(durable: Durable, opened: Option<Arc<Opened>>, setup: Setup, holes: Holes) -> Self {
        let counters = Counters { session_start: Some(SessionSource::Startup), ..Counters::default() };
        let flight = InFlight::default();
        let now = Now { wall: 0, mono: Duration::ZERO };
        Self { setup, durable, flight, counters, opened, holes, now, out: Vec::new() }
    }

    /// Goes on after a fold: what was under way is asked for again, or answered for. An agent that was restarted too
    /// often without getting anywhere is parked until someone asks for it.
    pub fn recover(&mut self, now: Now, reason: &str, wake: Wake) -> Vec<Effect> {
        self.now = now;
        let spent = wake == Wake::Restarted && self.is_running() && self.durable.restarts() >= MOST_RESTARTS;
        if let (true, Some(reason)) = (spent, self.durable.parked.clone()) {
            self.flight.parked = Some(reason.clone());
            return vec![Effect::Park { reason }];
        }
        if self.is_running() || self.durable.parked.is_some() {
            self.push(EntryBody::Recovered { reason: reason.to_owned(), wake });
        }
        if spent {
            let reason = format!(
                "it was restarted {MOST_RESTARTS} times without getting anywhere: find out why it crashes, then resume it"
            );
            self.push(EntryBody::Parked { reason: reason.clone() });
            self.act(Effect::Park { reason: reason.clone() });
            self.flight.parked = Some(reason);
            return self.finish_input();
        }
        // A yes for good is in the journal before it is written down: it may not have come to that.
        let calls = self.durable.calls().iter();
        let lasting: Vec<String> = calls.flat_map(|slot| slot.lasting_rules.iter().cloned()).collect();
        if !lasting.is_empty() {
            self.act(Effect::Remember { rules: lasting });
        }
        self.finish_input()
    }

    /// Takes a command; returns what is to be done, in order.
    pub fn command(&mut self, now: Now, command: Command) -> Vec<Effect> {
        self.now = now;
        self.accept(command);
        self.finish_input()
    }

    /// Takes a report; returns what is to be done, in order.
    pub fn report(&mut self, now: Now, report: Report) -> Vec<Effect> {
        self.now = now;
        match report {
            Report::Delta { call, attempt, deltas } => self.delta(&call, attempt, deltas),
            Report::Retrying { call, attempt, error, delay_ms } => self.retrying(&call, attempt, error, delay_ms),
            Report::Responded { call, attempt, message } => self.responded(&call, attempt, message),
            Report::CallFailed { call, attempt, error } => self.call_failed(&call, attempt, error),
            Report::HookDone { hook, verdict } => self.hook_done(hook, verdict),
            Report::ToolUpdated { call, partial } => self.tool_updated(&call, partial),
            Report::ToolProgress { call, text } => self.tool_progress(&call, text),
            Report::ToolFinished { call, result, duration_ms } | Report::ChildEnded { call, result, duration_ms } => {
                self.tool_finished(&call, result, duration_ms);
            }
            Report::ChildIs { call, doing } => {
                if let Some(tool) = self.flight.run.tools.get_mut(&call) {
                    tool.child = doing;
                }
            }
            Report::Committed { batch, seqs } => self.committed(batch, &seqs),
            Report::CommitFailed { batch, error, fate } => self.commit_failed(batch, &error, fate),
            Report::WriterLost => self.send_again(),
            Report::ConnectionLost { reason } => self.connection_lost(reason),
            Report::ExecutorLost => self.executor_lost(),
            Report::Timer { timer } => self.timer(timer),
        }
        self.finish_input()
    }

    /// The fold of the journal, with what is on its way there.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// What a model is shown of the conversation.
    fn view(&self) -> History {
        view(&self.durable.record, self.holes)
    }

    /// How far it has counted what it is answered for.
    pub fn numbers(&self) -> Numbers {
        Numbers { next_batch: self.counters.next_batch, last_hook: self.counters.last_hook }
    }

    /// Counts on from here. Answers to the machine before it may still be on their way: none of them must pass for an
    /// answer to this one.
    pub fn count_on(&mut self, Numbers { next_batch, last_hook }: Numbers) {
        (self.counters.next_batch, self.counters.last_hook) = (next_batch, last_hook);
    }

    /// Whether a run is under way or about to be.
    pub fn is_running(&self) -> bool {
        self.durable.run.is_some() || self.durable.pending.is_some()
    }

    /// Whether nothing is under way and everything is durable.
    pub fn is_at_rest(&self) -> bool {
        !self.durable.is_unfinished() && self.flight.pending.is_empty() && self.flight.rotation.is_none()
    }

    /// Changes what the machine works with, from the next effect on.
    pub fn set_setup(&mut self, setup: Setup) {
        self.setup = setup;
    }

    /// What the machine works with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    fn finish_input(&mut self) -> Vec<Effect> {
        while self.step() == Step::Moved {}
        self.keep_time();
        self.seal();
        if self.is_at_rest() && self.flight.parked.is_none() {
            self.flight = InFlight::default();
        }
        std::mem::take(&mut self.out)
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Hook(hook) => self.hook_overdue(hook),
            Timer::Permission(permission_id) => self.permission_overdue(&permission_id),
            Timer::AbortGrace => self.abort_overdue(),
            Timer::Deadline => self.deadline(),
        }
    }
}

/// Entries that are no journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// There is no entry at all.
    #[error("the journal is empty")]
    Empty,
    /// The first one does not say what the session is.
    #[error("the journal's first entry is missing, so what the session is cannot be told")]
    NotOpened,
}
