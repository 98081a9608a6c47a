//! The durable part of an agent's state, and what can be asked of it. `apply` has what changes it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use playhouse_context::{Record, repaired};
use playhouse_protocol::entry::{Opened, QueuedInput, Settings, SpawnRef};
use playhouse_protocol::{
    AgentId, EffectClass, EntryId, History, InputId, LoopId, ModelConfig, Point, SessionId, ToolCallId,
};

use super::digest::Digest;
use super::rare::RareState;
use super::recent_inputs::RecentInputs;
use super::run::{CallSlot, CallState, Pending, Run, Turn};
use crate::machine::RunReport;

/// The fold of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Durable {
    /// The same over all sessions of the agent.
    pub agent_id: AgentId,
    /// Changes when the agent goes on in another session.
    pub session_id: SessionId,
    /// As of the last change: model, prompt, limits, permissions.
    pub settings: Arc<Settings>,
    /// Its parent, for a sub-agent.
    pub spawned_by: Option<Arc<SpawnRef>>,
    /// Whether the journal holds its first entry.
    pub journaled: bool,
    /// The number of the next entry: how many there are, lost ones included.
    pub entries: u64,
    /// The entry that the next one names as its parent; `None` before the first.
    pub tail: Option<EntryId>,
    /// The conversation, without the open turn's results: these come when the turn ends.
    pub record: Record,
    /// A digest of the conversation, kept up message by message.
    pub(in crate::machine) digest: Digest,
    /// Steering that no turn has taken yet, oldest first.
    pub steering: VecDeque<QueuedInput>,
    /// Follow-ups that no turn has taken yet, oldest first.
    pub follow_ups: VecDeque<QueuedInput>,
    /// An accepted prompt or continuation whose run has not begun.
    pub pending: Option<Box<Pending>>,
    /// What it was allowed and what it planned: most have neither.
    pub(in crate::machine) rare: Option<Box<RareState>>,
    /// The run; an agent without one has no room for it.
    pub run: Option<Box<Run>>,
    /// An ended run whose `after_loop` is still due.
    pub(in crate::machine) closing: Option<Arc<RunReport>>,
    /// Commands that the journal has, so that one that is repeated is not taken twice.
    pub seen: RecentInputs,
    /// The latest runs that ended, oldest first and a bounded number, for those who ask late.
    pub ended: VecDeque<Arc<RunReport>>,
    /// Runs so far, by configuration: few have more than one.
    pub loop_counters: Vec<(Box<str>, u32)>,
    /// The run that began last, ended or not.
    pub last_loop_id: Option<LoopId>,
    /// When the agent was last prompted, in unix milliseconds.
    pub last_active_at: Option<u64>,
    /// Model responses the chain holds.
    pub responses: u64,
    /// Tool-call ids the session has used.
    pub call_ids: BTreeSet<ToolCallId>,
    /// The text of the session's first prompt; empty before it.
    pub first_prompt: Arc<str>,
    /// Before the last run's first response.
    pub(in crate::machine) rerun_point: Option<Box<Point>>,
    /// Why the agent is parked.
    pub parked: Option<String>,
    /// The session that took over.
    pub rotated_to: Option<SessionId>,
}

impl Durable {
    /// A session before its first entry.
    pub fn new(opened: &Opened) -> Self {
        Self::opened_by(&EntryId::numbered(opened.session_id.shared(), 0), opened)
    }

    pub(super) fn opened_by(entry: &EntryId, opened: &Opened) -> Self {
        let mut durable = Self {
            agent_id: opened.agent_id.clone(),
            session_id: opened.session_id.clone(),
            settings: opened.settings.clone(),
            spawned_by: opened.spawned_by.clone(),
            journaled: false,
            entries: 0,
            tail: None,
            record: Record::default(),
            digest: Digest::default(),
            steering: VecDeque::new(),
            follow_ups: VecDeque::new(),
            pending: None,
            rare: RareState::of(opened),
            run: None,
            closing: None,
            seen: RecentInputs::default(),
            ended: VecDeque::new(),
            loop_counters: Vec::new(),
            last_loop_id: None,
            last_active_at: None,
            responses: 0,
            call_ids: BTreeSet::new(),
            first_prompt: "".into(),
            rerun_point: None,
            parked: None,
            rotated_to: None,
        };
        durable.load(entry, &opened.messages);
        durable.seen.extend(&opened.seen);
        for input in &opened.queued {
            durable.accept(input, 0);
        }
        durable
    }

    /// The run under way and its turn; `None` between turns.
    pub(in crate::machine) fn run_and_turn(&self) -> Option<(&Run, &Turn)> {
        let run = self.run.as_deref()?;
        Some((run, run.turn()?))
    }

    /// The turn under way; `None` between turns.
    pub fn turn(&self) -> Option<&Turn> {
        self.run.as_deref().and_then(Run::turn)
    }

    /// The calls of the turn under way, in order; none between turns.
    pub(in crate::machine) fn calls(&self) -> &[CallSlot] {
        self.turn().map(|turn| turn.calls.as_slice()).unwrap_or_default()
    }

    /// The run that an entry made now belongs to.
    pub(in crate::machine) fn loop_id(&self) -> Option<LoopId> {
        self.run.as_ref().map(|run| run.loop_id.clone())
    }

    /// Whether what is under way is being ended: by an abort, or by a limit.
    pub(in crate::machine) fn is_stopping(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_stopping())
    }

    /// How far the turn under way has fallen back: 0 is the settings' own model.
    pub(in crate::machine) fn fallen_back(&self) -> u32 {
        self.turn().map_or(0, |turn| turn.model)
    }

    /// The model that answers now: the settings' own, or one that the open turn has fallen back on.
    pub fn model(&self) -> &Arc<ModelConfig> {
        model_after(self.fallen_back(), &self.settings.model, &self.settings.fallbacks)
    }

    /// Whether something is left to do.
    pub fn is_unfinished(&self) -> bool {
        self.run.is_some() || self.pending.is_some() || self.closing.is_some()
    }

    /// The input of the run under way, or of the one about to begin.
    pub fn open_input(&self) -> Option<&InputId> {
        let open = self.run.as_ref().map(|run| &run.input_id);
        open.or(self.pending.as_ref().map(|pending| &pending.input_id))
    }

    /// Whether the run of an input is under way, about to begin, or among the last that ended.
    pub fn knows_run(&self, input_id: &InputId) -> bool {
        self.open_input() == Some(input_id) || self.ended.iter().any(|report| report.input_id == *input_id)
    }

    /// The input of the run under way, of the one about to begin, or else of the last one.
    pub fn last_input(&self) -> Option<&InputId> {
        self.open_input().or(self.ended.back().map(|report| &report.input_id))
    }

    /// Whether nothing goes on until someone answers a question, here or in the sub-agents for whose calls `waits` holds.
    pub(in crate::machine) fn waits_for_others(&self, waits: impl Fn(&ToolCallId) -> bool) -> bool {
        let calls = self.calls();
        let at_work = |slot: &CallSlot| match &slot.state {
            CallState::Started { effect: EffectClass::Child { .. }, .. } => !waits(&slot.id),
            CallState::Granted { .. } | CallState::Denied { .. } | CallState::Started { .. } => true,
            CallState::Ended { hook_due, .. } => *hook_due,
            // One that is open waits behind those that are asked about.
            CallState::Open | CallState::Asked { .. } => false,
        };
        let is_out = |slot: &CallSlot| matches!(slot.state, CallState::Asked { .. } | CallState::Started { .. });
        calls.iter().any(is_out) && !calls.iter().any(at_work)
    }

    /// The sessions of sub-agents that were started and have given nothing yet.
    pub fn children_under_way(&self) -> Vec<SessionId> {
        let calls = self.calls();
        let session = |slot: &CallSlot| match &slot.state {
            CallState::Started { effect: EffectClass::Child { session }, .. } => Some(session.clone()),
            _ => None,
        };
        calls.iter().filter_map(session).collect()
    }

    /// The conversation as a model may be shown it now, open calls answered for.
    pub fn transcript(&self) -> History {
        let mut history = self.record.messages().clone();
        if let Some(turn) = self.turn() {
            for answer in turn.answers() {
                history.push(answer.clone());
            }
        }
        repaired(&history)
    }
}

/// The model to ask after falling back so often: 0 is the own one.
pub(in crate::machine) fn model_after<'a>(
    fallen: u32,
    own: &'a Arc<ModelConfig>,
    fallbacks: &'a [Arc<ModelConfig>],
) -> &'a Arc<ModelConfig> {
    let fallback = usize::try_from(fallen).ok().and_then(|n| n.checked_sub(1));
    fallback.and_then(|n| fallbacks.get(n)).unwrap_or(own)
}
