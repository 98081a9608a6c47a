//! The actor that runs an agent's tool calls.
//!
//! - **Supervised by** the agent it works for, and linked to it. The agent starts it when there is work and stops it
//!   when every call has been answered.
//! - **Owns** the calls under way: one [`ToolRun`] actor each, its deadline, its cancellation and what it shows
//!   meanwhile.
//! - **Takes** [`ExecutorMsg`]: run, cancel one, cancel all.
//! - **When it dies** its runs are killed with it, their processes too; calls without a `Finished` are lost, and the
//!   agent, which is told by its supervision, answers them by their effect class.
//!
//! The end of a call:
//!
//! | what happens | what `Finished` says |
//! |---|---|
//! | the tool returns | what it returned |
//! | it panics | `Panicked` with its words |
//! | deadline, or `Cancel` | `ctx.cancel` fires; it may clean up for [`GRACE`], then its future is dropped: `TimedOut` or `Cancelled`. If it still returns `Ok` within the grace, that is what happened, and is told |
//! | it blocks its thread and cannot be dropped | the same, another [`ABANDON`] later; the thread is given up and counted |
//! | its time is over before it has a thread to block | `NoThread` |
//! | its actor is killed by someone else | `Failed` |
//! | there is no such tool any more | `NotFound` |
//!
//! `Finished` comes once per call, after everything the tool had shown, and after its processes are dead.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use playhouse_protocol::{
    Cancel, Credit, EffectClass, Secrets, SessionId, States, ToolCallId, ToolContext, ToolError, ToolReport, ToolResult,
};
use playhouse_supervision::Task;
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, DerivedActorRef, SupervisionEvent,
};
use serde_json::Value;

use crate::output::OutputRoom;
use crate::policy::Rule;
use crate::policy::off_limits::OffLimits;
use crate::process::sweeps::Sweeps;
use crate::run::call::{RunJob, RunMsg, RunState, ToolRun};
use crate::run::outbox::{Lane, Outbox};
use crate::runtime::{Scope, ToolRuntime};
use crate::sandbox::{Confined, Sandbox};
use crate::tool::Tool;
use crate::toolset::{ToolSet, panicked};

/// How long a cancelled tool may clean up before its future is dropped.
pub const GRACE: Duration = Duration::from_millis(200);
/// How long dropping may take before a tool that blocks its thread is given up.
pub const ABANDON: Duration = Duration::from_millis(1_000);

/// A deadline that never comes.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The actor that runs the tool calls of one agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

/// What an executor is started with.
#[derive(Clone, Debug)]
pub struct ExecutorArgs {
    /// The tools that can be called.
    pub tools: ToolSet,
    /// The session the calls belong to.
    pub session_id: SessionId,
    /// What the program gave to the tools.
    pub states: States,
    /// Where relative paths start.
    pub cwd: PathBuf,
    /// What the tools of the house share.
    pub runtime: ToolRuntime,
    /// What the house must not show: tools take it out of what they cut or keep elsewhere.
    pub secrets: Secrets,
    /// Where long outputs are kept; without it they are cut.
    pub output: Option<Arc<OutputRoom>>,
    /// What the processes of tools are kept in.
    pub sandbox: Sandbox,
    /// The rules that forbid: tools for files keep to them wherever a name leads.
    pub forbid: Arc<[Rule]>,
    /// Gets the progress and the one end of each call.
    pub reply: DerivedActorRef<ToolReport>,
}

/// A call to run; it has been vetted.
#[derive(Clone, Debug)]
pub struct ToolJob {
    /// The model's id for it, by which its reports are told apart.
    pub call: ToolCallId,
    /// The tool's name; one that the agent no longer has is answered with `NotFound`.
    pub name: String,
    /// What the tool is called with; it has been checked against the schema.
    pub args: Arc<Value>,
    /// The effect class that was journaled for it.
    pub effect: EffectClass,
    /// True after a crash: find out whether it happened before doing it.
    pub reconcile: bool,
}

/// What an executor takes.
#[derive(Debug)]
pub enum ExecutorMsg {
    /// Run a call. One that is running already is not run twice.
    Run {
        /// The call; its reports bear its id.
        job: ToolJob,
    },
    /// End a call early. One that is not running is none of its business.
    Cancel {
        /// The id that the call was started with.
        call: ToolCallId,
    },
    /// End all calls early.
    CancelAll,
    /// From its own runs and timers.
    Internal(Internal),
}

impl ExecutorMsg {
    /// The names of its messages, for fail points.
    pub const NAMES: [&'static str; 4] = ["Run", "Cancel", "CancelAll", "Internal"];

    /// One of [`ExecutorMsg::NAMES`], for fail points.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Run { .. } => "Run",
            Self::Cancel { .. } => "Cancel",
            Self::CancelAll => "CancelAll",
            Self::Internal(_) => "Internal",
        }
    }
}

/// What an executor tells itself.
#[derive(Debug)]
pub struct Internal(Note);

#[derive(Debug)]
enum Note {
    /// A lane has something to show, or its last report has been taken.
    Ready(ActorId, Lane),
    /// The earliest deadline has come.
    Due,
    /// A run's timer is over.
    Elapsed(ActorId, TimerKind),
    /// A run's processes are dead.
    Swept(ActorId),
}

/// The calls that run, and what each waits for.
#[derive(Debug)]
pub struct ExecutorState {
    args: ExecutorArgs,
    confined: Arc<Confined>,
    runs: HashMap<ActorId, Running>,
    by_call: HashMap<ToolCallId, ActorId>,
    /// The earliest deadline, and what tells of it. One for all: most calls are over long before.
    clock: Option<(tokio::time::Instant, Task)>,
}

struct Running {
    call: ToolCallId,
    cell: ActorCell,
    started: Instant,
    timeout: Duration,
    deadline: tokio::time::Instant,
    phase: Phase,
    cancel: Cancel,
    outbox: Arc<Outbox>,
    sweeps: Sweeps,
    /// The end of the grace, of the drop, or of the sweep: whatever the phase waits for, but the deadline.
    timer: Option<Task>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("call", &self.call).field("phase", &self.phase).finish_non_exhaustive()
    }
}

/// Where a run is. The timer of each phase leads to the next.
#[derive(Debug)]
enum Phase {
    /// The tool runs, until its deadline at most.
    Working,
    /// It was asked to stop, and has the grace to do so.
    Stopping(StopCause),
    /// Its future is being dropped.
    Killed(StopCause),
    /// Over, but for its processes.
    Settling(Result<ToolResult, ToolError>),
}

/// What a timer was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerKind {
    Grace,
    Drop,
}

#[derive(Clone, Copy, Debug)]
enum StopCause {
    Cancelled,
    TimedOut,
}

fn after(time: Duration, myself: &ActorRef<ExecutorMsg>, run: ActorId, wait: TimerKind) -> Task {
    let myself = myself.clone();
    Task::after(time, move || tell(&myself, Note::Elapsed(run, wait)))
}

/// An executor that is gone needs no notes.
fn tell(executor: &ActorRef<ExecutorMsg>, note: Note) {
    let _ = executor.send_message(ExecutorMsg::Internal(Internal(note)));
}

impl Actor for Executor {
    type Msg = ExecutorMsg;
    type State = ExecutorState;
    type Arguments = ExecutorArgs;

    async fn pre_start(
        &self,
        _: ActorRef<ExecutorMsg>,
        args: ExecutorArgs,
    ) -> Result<ExecutorState, ActorProcessingErr> {
        let confined = Arc::new(Confined::new(args.sandbox.clone(), args.cwd.clone(), &args.runtime));
        Ok(ExecutorState { args, confined, runs: HashMap::new(), by_call: HashMap::new(), clock: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<ExecutorMsg>,
        message: ExecutorMsg,
        state: &mut ExecutorState,
    ) -> Result<(), ActorProcessingErr> {
        playhouse_supervision::chaos::strike("executor", message.name());
        match message {
            ExecutorMsg::Run { job } => state.run(&myself, job),
            ExecutorMsg::Cancel { call } => {
                if let Some(run) = state.by_call.get(&call).copied() {
                    state.stop(&myself, run, StopCause::Cancelled);
                }
            }
            ExecutorMsg::CancelAll => {
                let all: Vec<ActorId> = state.runs.keys().copied().collect();
                all.into_iter().for_each(|run| state.stop(&myself, run, StopCause::Cancelled));
            }
            ExecutorMsg::Internal(Internal(Note::Ready(run, lane))) => state.show(&myself, run, lane),
            ExecutorMsg::Internal(Internal(Note::Due)) => state.due(&myself),
            ExecutorMsg::Internal(Internal(Note::Elapsed(run, wait))) => state.elapsed(&myself, run, wait),
            ExecutorMsg::Internal(Internal(Note::Swept(run))) => state.finish(run),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<ExecutorMsg>,
        event: SupervisionEvent,
        state: &mut ExecutorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(cell, last, _) => {
                let outcome = last.and_then(|mut last| last.take::<RunState>().ok()).and_then(|last| last.outcome);
                state.ended(&myself, cell.get_id(), outcome);
            }
            SupervisionEvent::ActorFailed(cell, error) => {
                let text = error.to_string();
                let panicked = ToolError::Panicked(crate::text::cut(&state.args.secrets.redact(&text), 500));
                state.ended(&myself, cell.get_id(), Some(Err(panicked)));
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl ExecutorState {
    fn run(&mut self, myself: &ActorRef<ExecutorMsg>, job: ToolJob) {
        if self.by_call.contains_key(&job.call) {
            tracing::warn!(call = %job.call, "a call that is running was to be run again");
            return;
        }
        let started = Instant::now();
        let Some(tool) = self.args.tools.get(&job.name) else {
            return self.report(job.call, Err(ToolError::NotFound(job.name)), started);
        };
        let timeout = match catch_unwind(AssertUnwindSafe(|| tool.timeout_for(&job.args))) {
            Ok(timeout) => timeout,
            Err(panic) => return self.report(job.call, Err(panicked(&*panic)), started),
        };
        let call = job.call.clone();
        match self.start(myself, job, tool, started, timeout) {
            Ok(run) => {
                self.wind(myself, run.deadline);
                self.by_call.insert(call, run.cell.get_id());
                self.runs.insert(run.cell.get_id(), run);
            }
            Err(error) => {
                self.report(call, Err(ToolError::Failed(format!("the tool could not be started: {error}"))), started)
            }
        }
    }

    fn start(
        &self,
        myself: &ActorRef<ExecutorMsg>,
        job: ToolJob,
        tool: Arc<dyn Tool>,
        started: Instant,
        timeout: Duration,
    ) -> Result<Running, ActorProcessingErr> {
        let call = job.call;
        // The outbox needs the id of the actor that needs the outbox.
        let id: Arc<std::sync::OnceLock<ActorId>> = Arc::default();
        let (known, executor) = (id.clone(), myself.clone());
        let outbox = Outbox::new(move |lane| {
            if let Some(run) = known.get() {
                tell(&executor, Note::Ready(*run, lane));
            }
        });
        let (updates, progress) = (outbox.clone(), outbox.clone());
        let cancel = Cancel::new();
        let sweeps = Sweeps::default();
        let ctx = ToolContext {
            tool_call_id: call.clone(),
            tool_name: job.name.clone(),
            session_id: self.args.session_id.clone(),
            cwd: self.args.cwd.clone(),
            effect: job.effect,
            reconcile: job.reconcile,
            cancel: cancel.clone(),
            states: self.args.states.clone(),
            on_update: Some(Arc::new(move |partial| updates.update(partial))),
            on_progress: Some(Arc::new(move |text| progress.progress(text))),
        };
        let scope = Scope {
            runtime: self.args.runtime.clone(),
            sweeps: sweeps.clone(),
            secrets: self.args.secrets.clone(),
            confined: self.confined.clone(),
            off_limits: OffLimits::of(&job.name, &self.args.forbid, &self.args.cwd),
            output: self.args.output.clone(),
        };
        let job = RunJob { tool, args: job.args, ctx, scope };
        let (run, _) = ActorRuntime::spawn_linked_instant(None, ToolRun, job, myself.get_cell())?;
        let cell = run.get_cell();
        // Nothing of the tool runs before `Start`, so nobody wakes the outbox before this.
        let _ = id.set(cell.get_id());
        let now = tokio::time::Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or(now + LONGEST);
        run.send_message(RunMsg::Start).map_err(|error| error.to_string())?;
        let phase = Phase::Working;
        Ok(Running { call, cell, started, timeout, deadline, phase, cancel, outbox, sweeps, timer: None })
    }

    /// Sees to it that a deadline is noticed.
    fn wind(&mut self, myself: &ActorRef<ExecutorMsg>, deadline: tokio::time::Instant) {
        if self.clock.as_ref().is_some_and(|(earliest, _)| *earliest <= deadline) {
            return;
        }
        let executor = myself.clone();
        let timer = Task::spawn(async move {
            tokio::time::sleep_until(deadline).await;
            tell(&executor, Note::Due);
        });
        self.clock = Some((deadline, timer));
    }

    /// Stops what has had its time, and waits for the next.
    fn due(&mut self, myself: &ActorRef<ExecutorMsg>) {
        self.clock = None;
        let now = tokio::time::Instant::now();
        let working = |run: &Running| matches!(run.phase, Phase::Working);
        let late = |(id, run): (&ActorId, &Running)| (working(run) && run.deadline <= now).then_some(*id);
        let late: Vec<ActorId> = self.runs.iter().filter_map(late).collect();
        late.into_iter().for_each(|run| self.stop(myself, run, StopCause::TimedOut));
        if let Some(next) = self.runs.values().filter(|run| working(run)).map(|run| run.deadline).min() {
            self.wind(myself, next);
        }
    }

    /// Asks a run to end; the first reason counts.
    fn stop(&mut self, myself: &ActorRef<ExecutorMsg>, id: ActorId, why: StopCause) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        match run.phase {
            Phase::Working => {
                run.phase = Phase::Stopping(why);
                run.timer = Some(after(GRACE, myself, id, TimerKind::Grace));
                run.cancel.cancel();
            }
            Phase::Stopping(_) | Phase::Killed(_) | Phase::Settling(_) => {}
        }
    }

    fn elapsed(&mut self, myself: &ActorRef<ExecutorMsg>, id: ActorId, wait: TimerKind) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        match (&run.phase, wait) {
            (Phase::Stopping(why), TimerKind::Grace) => {
                run.phase = Phase::Killed(*why);
                run.timer = Some(after(ABANDON, myself, id, TimerKind::Drop));
                run.cell.kill();
            }
            (Phase::Killed(why), TimerKind::Drop) => {
                self.args.runtime.abandon();
                tracing::warn!(call = %run.call, "a tool blocks its thread and was given up");
                run.phase = Phase::Settling(Err(why.error(run.timeout)));
                self.finish(id);
            }
            // A timer that was replaced while its message was on the way.
            (
                Phase::Working | Phase::Stopping(_) | Phase::Killed(_) | Phase::Settling(_),
                TimerKind::Grace | TimerKind::Drop,
            ) => {}
        }
    }

    /// A run's actor is over; `outcome` is what its tool returned, or its panic.
    fn ended(&mut self, myself: &ActorRef<ExecutorMsg>, id: ActorId, outcome: Option<Result<ToolResult, ToolError>>) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let result = match (outcome, &run.phase) {
            (_, Phase::Settling(_)) => return,
            (Some(Ok(result)), _) => Ok(result),
            // It had not begun: that is more than that its time is over.
            (Some(Err(error @ ToolError::NoThread { .. })), Phase::Stopping(StopCause::TimedOut)) => Err(error),
            (_, Phase::Stopping(why) | Phase::Killed(why)) => Err(why.error(run.timeout)),
            (Some(Err(error)), Phase::Working) => Err(error),
            (None, Phase::Working) => {
                Err(ToolError::Failed("the tool was stopped from outside; check what it did before repeating".into()))
            }
        };
        run.phase = Phase::Settling(result);
        if run.sweeps.are_done() {
            return self.finish(id);
        }
        let (sweeps, executor) = (run.sweeps.clone(), myself.clone());
        run.timer = Some(Task::spawn(async move {
            sweeps.settled().await;
            tell(&executor, Note::Swept(id));
        }));
    }

    /// Tells the agent that a run is over: first what it still had to show.
    fn finish(&mut self, id: ActorId) {
        let Some(Running { call, started, phase: Phase::Settling(result), outbox, .. }) = self.runs.remove(&id) else {
            return;
        };
        self.by_call.remove(&call);
        let (partial, text) = outbox.close();
        if let Some(partial) = partial {
            self.send(ToolReport::Updated { call: call.clone(), partial, credit: Credit::free() });
        }
        if let Some(text) = text {
            self.send(ToolReport::Progress { call: call.clone(), text, credit: Credit::free() });
        }
        self.report(call, result, started);
    }

    /// Sends what a lane has; at most one report of each is on its way, because the next waits for its credit.
    fn show(&self, myself: &ActorRef<ExecutorMsg>, id: ActorId, lane: Lane) {
        let Some(run) = self.runs.get(&id) else { return };
        let executor = myself.clone();
        let call = run.call.clone();
        let credit = move || Credit::new(move || tell(&executor, Note::Ready(id, lane)));
        let report = match lane {
            Lane::Update => {
                run.outbox.next_update().map(|partial| ToolReport::Updated { call, partial, credit: credit() })
            }
            Lane::Progress => {
                run.outbox.next_progress().map(|text| ToolReport::Progress { call, text, credit: credit() })
            }
        };
        if let Some(report) = report {
            self.send(report);
        }
    }

    fn report(&self, call: ToolCallId, result: Result<ToolResult, ToolError>, started: Instant) {
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.send(ToolReport::Finished { call, result, duration_ms });
    }

    /// An agent that is gone takes this actor with it.
    fn send(&self, report: ToolReport) {
        let _ = self.args.reply.send_message(report);
    }
}

impl StopCause {
    fn error(self, timeout: Duration) -> ToolError {
        match self {
            Self::Cancelled => ToolError::Cancelled,
            Self::TimedOut => ToolError::TimedOut(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}
