//! A session in a few lines, for lists. Pure: a fold over its entries.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use playhouse_protocol::chain::Members;
use playhouse_protocol::entry::{InputKind, QueuedInput, Settings};
use playhouse_protocol::{
    AgentId, AgentMessage, Durability, Entry, EntryBody, FailureKind, InputId, LimitHit, LoopId, MessageCount, Outcome,
    PermissionId, Seq, SessionId,
};
use serde::{Deserialize, Serialize};

use crate::format::scan::{Damage, DamageKind};
use crate::store::error::StoreError;
use crate::store::{Holder, Store};
use crate::views::along::{Branch, fold_chain};

/// How many characters of the first prompt a summary shows.
const PROMPT_CHARS: usize = 200;

/// What a list shows of a session. What stands in the first entry is `None` when that entry cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Whose journal was summed up.
    pub session_id: SessionId,
    /// The agent that its journal was begun for.
    pub agent_id: Option<AgentId>,
    /// The kind its agent's code is registered under.
    pub kind: Option<String>,
    /// Where its tools work.
    pub cwd: Option<PathBuf>,
    /// `provider/id` of its model.
    pub model: Option<String>,
    /// When its first entry was made, in unix milliseconds.
    pub started_at: Option<u64>,
    /// When its last entry was made, in unix milliseconds.
    pub last_active_at: Option<u64>,
    /// How many entries it has.
    pub entries: usize,
    /// How many messages its conversation has.
    pub messages: usize,
    /// The beginning of its first prompt.
    pub first_prompt: Option<String>,
    /// Whether there is something left to do.
    #[serde(flatten)]
    pub status: SessionStatus,
    /// The session of the agent that started its agent.
    pub parent: Option<SessionId>,
    /// How safe its journal is.
    pub durability: Option<Durability>,
    /// The live process that holds it.
    pub held_by: Option<Holder>,
    /// What is wrong with its journal.
    pub damage: Vec<Damage>,
}

/// How a session stands. That a live process holds it is said beside it: [`SessionSummary::held_by`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SessionStatus {
    /// Every accepted prompt and continuation came to its end, the last one with an answer.
    Done,
    /// One did not come to its end, or no service could be reached for it.
    Unfinished {
        /// What the attempt to reach a service came to, if that is what ended the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unreachable: Option<String>,
    },
    /// As unfinished, and a person has not answered yet.
    Waiting {
        /// The latest open question, as the person is asked it.
        question: String,
    },
    /// The last run failed, was halted by a hook, or its prompt was rejected.
    Failed {
        /// How it ended, in words.
        message: String,
    },
    /// The last run was aborted.
    Aborted,
    /// A limit stopped the last run.
    Limited {
        /// The limit that was reached first.
        limit: LimitHit,
    },
    /// Its agent gave up and waits to be resumed.
    Parked {
        /// What it is missing, or what went wrong again and again.
        reason: String,
    },
    /// Its journal has lost something; [`SessionSummary::damage`] says what.
    Damaged {
        /// What can be told of its last run.
        last_run: LastRun,
    },
}

/// What can be told of the last run of a session that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastRun {
    /// It came to its end, or another session went on with it.
    Ended,
    /// It did not, or nobody can tell.
    Unknown,
}

impl SessionStatus {
    /// Whether there is something left to do that nobody needs to decide on.
    pub fn is_unfinished(&self) -> bool {
        match self {
            Self::Unfinished { .. } | Self::Waiting { .. } | Self::Parked { .. } => true,
            Self::Done | Self::Failed { .. } | Self::Aborted | Self::Limited { .. } | Self::Damaged { .. } => false,
        }
    }

    /// Whether its run came to an end from which it can only go on by a new one.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Unfinished { unreachable: Some(_) } | Self::Failed { .. } | Self::Aborted | Self::Limited { .. } => {
                true
            }
            Self::Done
            | Self::Unfinished { unreachable: None }
            | Self::Waiting { .. }
            | Self::Parked { .. }
            | Self::Damaged { .. } => false,
        }
    }
}

impl SessionSummary {
    /// Sums up a session's entries.
    pub fn of(
        session: &SessionId,
        entries: &[(Seq, Arc<Entry>)],
        held_by: Option<Holder>,
        damage: Vec<Damage>,
    ) -> Self {
        let mut fold = Fold::default();
        let members = Members::of(entries, None);
        for (at, (_, entry)) in entries.iter().enumerate() {
            fold.take(entry, if members.has(at) { Branch::Main } else { Branch::Side });
        }
        fold.end(session, held_by, damage)
    }

    /// Sums up a stored session, one record at a time. Blocks.
    pub fn read(store: &dyn Store, session: &SessionId) -> Result<Self, StoreError> {
        // Asked first: one that another process lets go of meanwhile has that one's last entries.
        let held_by = store.holder(session)?;
        let (fold, records) = fold_chain(|| store.read(session, Seq::default()), Fold::take)?;
        Ok(fold.end(session, held_by, records.damage()))
    }
}

/// How a session stands after the entries so far.
#[derive(Default)]
pub(crate) struct Fold {
    agent_id: Option<AgentId>,
    parent: Option<SessionId>,
    settings: Option<Arc<Settings>>,
    /// When the first and the last entry were made.
    times: Option<(u64, u64)>,
    entries: usize,
    messages: MessageCount,
    first_prompt: Option<String>,
    parked: Option<String>,
    /// Accepted prompts and continuations without an end, with the run they became.
    open: HashMap<InputId, Option<LoopId>>,
    /// Runs without an end, whether or not it is known what began them.
    running: HashSet<LoopId>,
    /// Questions that nobody has answered.
    asked: Vec<(PermissionId, String)>,
    /// The failure that the latest response was.
    failure: Option<FailureKind>,
    /// How the last run ended, if that was without an answer.
    ended: Option<SessionStatus>,
    /// Another session goes on from here.
    moved: bool,
}

impl Fold {
    /// The summary of a session that has these entries.
    pub fn end(mut self, session: &SessionId, held_by: Option<Holder>, damage: Vec<Damage>) -> SessionSummary {
        let status = self.status(&damage);
        let settings = self.settings;
        SessionSummary {
            session_id: session.clone(),
            agent_id: self.agent_id,
            kind: settings.as_ref().map(|s| s.kind.clone()),
            cwd: settings.as_ref().map(|s| s.cwd.clone()),
            model: settings.as_ref().map(|s| format!("{}/{}", s.model.provider, s.model.id)),
            started_at: self.times.map(|(first, _)| first),
            last_active_at: self.times.map(|(_, last)| last),
            entries: self.entries,
            messages: self.messages.now(),
            first_prompt: self.first_prompt,
            status,
            parent: self.parent,
            durability: settings.map(|s| s.durability),
            held_by,
            damage,
        }
    }

    fn status(&mut self, damage: &[Damage]) -> SessionStatus {
        if damage.iter().any(|damage| damage.kind.is_loss()) {
            let is_over = self.open.is_empty() && self.running.is_empty() && !lost_at_the_end(self.entries, damage);
            let last_run =
                if self.moved || is_over && self.agent_id.is_some() { LastRun::Ended } else { LastRun::Unknown };
            return SessionStatus::Damaged { last_run };
        }
        match (self.parked.take(), self.asked.last()) {
            (Some(reason), _) => SessionStatus::Parked { reason },
            // What another session goes on with is over here.
            (None, _) if self.open.is_empty() && self.moved => SessionStatus::Done,
            (None, _) if self.open.is_empty() => self.ended.take().unwrap_or(SessionStatus::Done),
            (None, Some((_, question))) => SessionStatus::Waiting { question: question.clone() },
            (None, None) => SessionStatus::Unfinished { unreachable: None },
        }
    }

    /// How a session stands whose last run ended so.
    fn after(&self, outcome: &Outcome) -> Option<SessionStatus> {
        match (outcome, self.failure) {
            (Outcome::Stop | Outcome::Length, _) => None,
            (Outcome::Error { message }, Some(FailureKind::Unreachable)) => {
                Some(SessionStatus::Unfinished { unreachable: Some(message.clone()) })
            }
            (Outcome::Error { message }, Some(FailureKind::Empty) | None) => {
                Some(SessionStatus::Failed { message: message.clone() })
            }
            (Outcome::Rejected { .. } | Outcome::Halted { .. }, _) => {
                Some(SessionStatus::Failed { message: outcome.to_string() })
            }
            (Outcome::Aborted, _) => Some(SessionStatus::Aborted),
            (Outcome::Limit { limit }, _) => Some(SessionStatus::Limited { limit: *limit }),
        }
    }

    /// Takes the next entry in.
    pub fn take(&mut self, entry: &Arc<Entry>, branch: Branch) {
        let (first, _) = self.times.unwrap_or((entry.at, entry.at));
        self.times = Some((first, entry.at));
        self.entries += 1;
        match branch {
            Branch::Main => self.apply(entry),
            Branch::Side => {}
        }
    }

    fn apply(&mut self, entry: &Entry) {
        self.messages.apply(entry);
        match &entry.body {
            EntryBody::Parked { reason } => self.parked = Some(reason.clone()),
            // Accepted for later: the agent that takes them writes more.
            EntryBody::Configured { .. }
            | EntryBody::Input(_)
            | EntryBody::ContinueAsked { .. }
            | EntryBody::PlanApproved { .. }
            | EntryBody::AbortAsked { .. } => {}
            _ => self.parked = None,
        }
        match &entry.body {
            EntryBody::Opened(opened) => {
                self.agent_id = Some(opened.agent_id.clone());
                self.parent = opened.spawned_by.as_ref().map(|by| by.parent_session_id.clone());
                self.settings = Some(opened.settings.clone());
                let users = opened.messages.iter().find_map(|message| prompt_text(message));
                self.first_prompt = self.first_prompt.take().or(users);
            }
            EntryBody::Configured { settings, .. } => self.settings = Some(settings.clone()),
            EntryBody::Input(QueuedInput { input_id, kind: InputKind::Prompt, messages, .. }) => {
                self.open.insert(input_id.clone(), entry.loop_id.clone());
                if self.first_prompt.is_none() {
                    self.first_prompt = messages.iter().find_map(|message| prompt_text(message));
                }
            }
            EntryBody::Input(QueuedInput { kind: InputKind::Steer | InputKind::FollowUp, .. }) => {}
            EntryBody::ContinueAsked { input_id, .. } | EntryBody::PlanApproved { input_id, .. } => {
                self.open.insert(input_id.clone(), entry.loop_id.clone());
            }
            EntryBody::LoopStarted { input_id, .. } => {
                self.running.extend(entry.loop_id.clone());
                if let Some(run) = self.open.get_mut(input_id) {
                    *run = entry.loop_id.clone();
                }
            }
            EntryBody::Responded { failure, .. } => self.failure = *failure,
            EntryBody::PermissionAsked { permission_id, question, .. } => {
                self.asked.push((permission_id.clone(), question.reason.clone()));
            }
            EntryBody::PermissionResolved { permission_id, .. } => self.asked.retain(|(id, _)| id != permission_id),
            EntryBody::LoopEnded { outcome, .. } => {
                self.ended = self.after(outcome);
                self.asked.clear();
                self.running.retain(|run| Some(run) != entry.loop_id.as_ref());
                // The line that says what began it may be lost: it is the one that had not begun by what is left.
                let is_known = self.open.values().any(|run| *run == entry.loop_id);
                self.open.retain(|_, run| *run != entry.loop_id && (is_known || run.is_some()));
            }
            EntryBody::Reset { .. } | EntryBody::Restored { .. } => self.ended = None,
            EntryBody::RotatedTo { .. } => self.moved = true,
            EntryBody::InputRejected { .. }
            | EntryBody::Head { .. }
            | EntryBody::TurnStarted { .. }
            | EntryBody::ToolEnded { .. }
            | EntryBody::ToolBlocked { .. }
            | EntryBody::ToolSkipped { .. }
            | EntryBody::ToolQueued { .. }
            | EntryBody::PlanRejected { .. }
            | EntryBody::Requested { .. }
            | EntryBody::AttemptFailed { .. }
            | EntryBody::ToolStarted { .. }
            | EntryBody::ToolAnswered { .. }
            | EntryBody::ToolHooked { .. }
            | EntryBody::HaltAsked { .. }
            | EntryBody::StopRefused { .. }
            | EntryBody::TurnEnded { .. }
            | EntryBody::AbortAsked { .. }
            | EntryBody::LimitReached { .. }
            | EntryBody::LoopClosed
            | EntryBody::Recovered { .. }
            | EntryBody::Parked { .. } => {}
        }
    }
}

/// Whether the last line of the file is one that cannot be read.
fn lost_at_the_end(entries: usize, damage: &[Damage]) -> bool {
    if damage.iter().any(|damage| matches!(damage.kind, DamageKind::Torn { lost: 1.., .. })) {
        return true;
    }
    let lines = damage.iter().filter(|damage| damage.kind.is_a_line()).map(|damage| damage.line);
    let bad: HashSet<u64> = lines.collect();
    let last = u64::try_from(entries + bad.len()).unwrap_or(u64::MAX);
    bad.contains(&last)
}

fn prompt_text(message: &AgentMessage) -> Option<String> {
    match message.llm()? {
        user @ playhouse_protocol::Message::User { .. } => Some(user.text().chars().take(PROMPT_CHARS).collect()),
        playhouse_protocol::Message::Assistant { .. } | playhouse_protocol::Message::ToolResult { .. } => None,
    }
}
