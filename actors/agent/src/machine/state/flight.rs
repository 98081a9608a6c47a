//! The part of an agent's state that a fold leaves empty: what is under way.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::entry::{Placed, QueuedInput};
use playhouse_protocol::{
    AgentEvent, AgentMessage, Batch, CallId, EffectClass, Entry, InputId, Level, LoopId, MessageId, Passage, Question,
    Seq, SessionId, ToolCallId, ToolError, ToolResult,
};

use crate::machine::{Doing, Effect, HookId, HookPoint, SessionSource, Verdict};

/// What is under way. Nothing of it outlives the actor; recovery makes it anew from the durable state.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What the input being handled has made so far.
    pub entries: Vec<Arc<Entry>>,
    pub items: Vec<Deferred>,
    /// Batches that are not yet durable, oldest first, with what waits for each.
    pub pending: VecDeque<PendingBatch>,
    /// What belongs to the run.
    pub run: RunFlight,
    /// A change of session that is under way.
    pub rotation: Option<Box<Rotation>>,
    /// Why nothing more may happen.
    pub parked: Option<String>,
}

/// What is under way in a run, and in the hooks right before and after it. It is dropped whole when the run ends.
#[derive(Debug)]
pub(crate) struct RunFlight {
    /// The open model call: from its journaled request to its response.
    pub call: Option<Box<OpenCall>>,
    /// How often the open turn's call was lost with its connection.
    pub lost: u32,
    /// The hook that the run itself waits for.
    pub hook: RunHook,
    /// Hooks that tool calls wait for.
    pub tool_hooks: BTreeMap<HookId, (ToolCallId, HookPoint)>,
    /// The prompt after its filters.
    pub prompt: Option<Vec<Arc<AgentMessage>>>,
    /// Steering or follow-ups that the filters are looking at; their verdict is for these, whatever has come since.
    pub filtering: Vec<QueuedInput>,
    /// Steering and follow-ups that were taken and wait for a turn.
    pub taken: Vec<Placed>,
    /// Whether `after_turn` was run for the turn that ended last.
    pub after_turn_done: bool,
    /// What the session's start adds to the prompt, once its hook has answered; may be nothing.
    pub opening: Option<String>,
    /// Whether the hook lets the run stop.
    pub may_stop: bool,
    /// Tool calls that are past their vetting.
    pub tools: BTreeMap<ToolCallId, Box<ToolFlight>>,
    /// How long the run has been at work.
    pub clock: Clock,
}

impl Flight {
    const fn none() -> Self {
        Self {
            entries: Vec::new(),
            items: Vec::new(),
            pending: VecDeque::new(),
            run: RunFlight::none(),
            rotation: None,
            parked: None,
        }
    }
}

impl RunFlight {
    pub(in crate::machine) const fn none() -> Self {
        Self {
            call: None,
            lost: 0,
            hook: RunHook::None,
            tool_hooks: BTreeMap::new(),
            prompt: None,
            filtering: Vec::new(),
            taken: Vec::new(),
            after_turn_done: false,
            opening: None,
            may_stop: false,
            tools: BTreeMap::new(),
            clock: Clock::ZERO,
        }
    }
}

/// The part of a run's running time that its journal does not have yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// What was counted before `since`.
    pub spent: Duration,
    /// Since when it counts, on the machine's monotonic clock; `None` while it stands still.
    pub since: Option<Duration>,
}

impl Clock {
    const ZERO: Self = Self { spent: Duration::ZERO, since: None };

    pub fn read(&self, now: Duration) -> Duration {
        self.spent.saturating_add(self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since)))
    }
}

/// A [`Flight`] that takes no room until something is put into it: there may be very many agents at rest.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Option<Box<Flight>>);

impl Deref for InFlight {
    type Target = Flight;
    fn deref(&self) -> &Flight {
        static NONE: Flight = Flight::none();
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for InFlight {
    fn deref_mut(&mut self) -> &mut Flight {
        self.0.get_or_insert_with(|| Box::new(Flight::none()))
    }
}

/// Numbers that go on from one run to the next.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// The number of the next batch.
    pub next_batch: u64,
    /// The number of the latest durable entry: events come under it.
    pub last_seq: Seq,
    /// The next place among its events.
    pub next_k: u32,
    /// The number of the last hook.
    pub last_hook: u64,
    /// How the session came here, until a prompt is placed: then its hook has been told.
    pub session_start: Option<SessionSource>,
}

/// Entries that one input made, and what happens when they are durable, in order.
#[derive(Debug)]
pub(crate) struct PendingBatch {
    pub session: SessionId,
    pub batch: Batch,
    pub items: Vec<Deferred>,
    /// The numbers of its entries, when it is durable but an older batch is not.
    pub seqs: Option<Box<[Seq]>>,
    /// Whether a writer that died had it, and may have written it: then nobody can say that it was not.
    pub was_lost: bool,
}

/// Something that waits for its batch.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// The batch's next entry is durable: these are its events.
    Entry { entry: Arc<Entry>, events: Vec<AgentEvent> },
    /// An event that no entry holds.
    Event { event: AgentEvent, loop_id: Option<LoopId>, at: u64 },
    /// To be handed out as an effect, unless it was called off meanwhile.
    Act(Effect),
}

/// A model call that has not ended.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub id: CallId,
    pub attempt: u32,
    pub message_id: MessageId,
    /// Whether observers know of the message.
    pub shown: bool,
    /// Whether the request has gone out.
    pub sent: bool,
    /// The text so far: what is kept of the response if the call is aborted.
    pub text: String,
}

impl OpenCall {
    pub fn new(id: CallId, attempt: u32, message_id: MessageId) -> Self {
        Self { id, attempt, message_id, shown: false, sent: false, text: String::new() }
    }
}

/// The hook that the run itself waits for.
#[derive(Debug, Default)]
pub(crate) enum RunHook {
    #[default]
    None,
    Waiting {
        hook: HookId,
        point: HookPoint,
    },
    /// Its answer has come, and the next step takes it.
    Answered {
        point: HookPoint,
        verdict: Box<Verdict>,
    },
}

/// A tool call past its vetting.
#[derive(Debug)]
pub(crate) struct ToolFlight {
    pub phase: ToolPhase,
    pub update: UpdateState,
    /// The latest partial result that waits for the one being shown.
    pub next_update: Option<ToolResult>,
    /// Its end, held back while a partial result is being shown.
    pub finished: Option<(Result<ToolResult, ToolError>, u64)>,
    /// What the sub-agent does that the call has started, as far as it has told.
    pub child: Doing,
}

impl ToolFlight {
    pub fn new(phase: ToolPhase) -> Box<Self> {
        Box::new(Self { phase, update: UpdateState::None, next_update: None, finished: None, child: Doing::AtWork })
    }
}

/// Where a call past its vetting stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToolPhase {
    /// The policy is being asked.
    Judging { effect: EffectClass, level: Level },
    /// It is asked about once those before it that touch the same things are done.
    Queued { question: Box<Question> },
    /// Its tool is looking whether it would fail at once; if not, this is asked.
    Checking { question: Box<Question> },
    /// The question is out, and nobody has answered.
    Asking,
    /// It may run, once those before it that touch the same things are done.
    Waiting { effect: EffectClass, passage: Passage },
    /// `before_tool_execution` was asked and has not answered.
    Hooking { effect: EffectClass, passage: Passage },
    /// It may start when its intent is durable.
    Starting,
    /// The executor or the sub-agent was told to start.
    Running,
    /// It was told to stop.
    Stopping,
    /// `after_tool_execution` was asked and has not answered; the call has its result.
    Closing,
}

/// Where the showing of a partial result stands.
#[derive(Debug)]
pub(crate) enum UpdateState {
    None,
    /// `before_tool_execution_update` was asked whether this may be shown.
    Before(ToolResult),
    /// It is shown, and `after_tool_execution_update` was told.
    After,
}

/// A change of session: the new journal opens, then the old one ends.
#[derive(Debug)]
pub(crate) enum Rotation {
    /// The new journal is being opened.
    Opening { input_id: InputId, opened: Arc<Entry> },
    /// The old journal is being ended.
    Ending { input_id: InputId, opened: Arc<Entry> },
}
