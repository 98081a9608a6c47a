//! A session in a few lines, for lists. Pure: a fold over its entries.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use playhouse_protocol::entry::{InputKind, QueuedInput};
use playhouse_protocol::{
    AgentId, AgentMessage, Durability, Entry, EntryBody, InputId, LoopId, Opened, Seq, SessionId,
};
use serde::{Deserialize, Serialize};

use crate::ownership::Holder;
use crate::scan::Damage;

/// How many characters of the first prompt a summary shows.
const PROMPT_CHARS: usize = 200;

/// What a list shows of a session. What stands in the first entry is `None` when that entry cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// The session.
    pub session_id: SessionId,
    /// Its agent.
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

/// Whether there is something left to do in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SessionStatus {
    /// Every accepted prompt and continuation came to its end.
    Idle,
    /// One did not.
    Unfinished,
    /// Its agent gave up and waits to be resumed.
    Parked {
        /// Why.
        reason: String,
    },
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
        for (_, entry) in entries {
            fold.apply(entry);
        }
        let opened = fold.opened;
        let settings = fold.settings;
        let status = match fold.parked {
            Some(reason) => SessionStatus::Parked { reason },
            None if fold.open.is_empty() => SessionStatus::Idle,
            None => SessionStatus::Unfinished,
        };
        Self {
            session_id: session.clone(),
            agent_id: opened.as_ref().map(|o| o.agent_id.clone()),
            kind: settings.as_ref().map(|s| s.kind.clone()),
            cwd: settings.as_ref().map(|s| s.cwd.clone()),
            model: settings.as_ref().map(|s| format!("{}/{}", s.model.provider, s.model.id)),
            started_at: entries.first().map(|(_, entry)| entry.at),
            last_active_at: entries.last().map(|(_, entry)| entry.at),
            entries: entries.len(),
            messages: fold.messages,
            first_prompt: fold.first_prompt,
            status,
            parent: opened.and_then(|o| o.spawned_by.as_ref().map(|s| s.parent_session_id.clone())),
            durability: settings.map(|s| s.durability),
            held_by,
            damage,
        }
    }
}

#[derive(Default)]
struct Fold<'a> {
    opened: Option<&'a Opened>,
    settings: Option<&'a playhouse_protocol::entry::Settings>,
    messages: usize,
    first_prompt: Option<String>,
    parked: Option<String>,
    /// Accepted prompts and continuations without an end, with the run they became.
    open: HashMap<InputId, Option<LoopId>>,
}

impl<'a> Fold<'a> {
    fn apply(&mut self, entry: &'a Entry) {
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
                self.opened = Some(opened);
                self.settings = Some(&opened.settings);
                self.messages = opened.messages.len();
                let users = opened.messages.iter().find_map(|message| prompt_text(message));
                self.first_prompt = self.first_prompt.take().or(users);
            }
            EntryBody::Configured { settings, .. } => self.settings = Some(settings),
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
                if let Some(run) = self.open.get_mut(input_id) {
                    *run = entry.loop_id.clone();
                }
            }
            EntryBody::TurnStarted { placed, .. } => {
                self.messages += placed.iter().map(|p| p.messages.len()).sum::<usize>();
            }
            EntryBody::Responded { .. }
            | EntryBody::ToolEnded { .. }
            | EntryBody::ToolBlocked { .. }
            | EntryBody::ToolSkipped { .. }
            | EntryBody::ToolQueued { .. }
            | EntryBody::PlanRejected { .. } => self.messages += 1,
            EntryBody::LoopEnded { placed, note, .. } => {
                self.messages += placed.iter().map(|p| p.messages.len()).sum::<usize>() + usize::from(note.is_some());
                self.open.retain(|_, run| run.is_none() || *run != entry.loop_id);
            }
            EntryBody::Head { messages, .. } => self.messages = *messages,
            EntryBody::Reset { .. } => self.messages = 0,
            EntryBody::Restored { messages, .. } => self.messages = messages.len(),
            EntryBody::InputRejected { .. }
            | EntryBody::Requested { .. }
            | EntryBody::AttemptFailed { .. }
            | EntryBody::PermissionAsked { .. }
            | EntryBody::PermissionResolved { .. }
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
            | EntryBody::Parked { .. }
            | EntryBody::RotatedTo { .. } => {}
        }
    }
}

fn prompt_text(message: &AgentMessage) -> Option<String> {
    match message.llm()? {
        user @ playhouse_protocol::Message::User { .. } => Some(user.text().chars().take(PROMPT_CHARS).collect()),
        playhouse_protocol::Message::Assistant { .. } | playhouse_protocol::Message::ToolResult { .. } => None,
    }
}
