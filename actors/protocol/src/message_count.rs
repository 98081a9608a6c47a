//! How many messages a conversation has, told from its entries alone.

use crate::entry::{Entry, EntryBody, Placed};
use crate::ids::EntryId;

/// Counts the messages of a conversation, entry by entry along a chain.
#[derive(Clone, Debug, Default)]
pub struct MessageCount {
    now: usize,
    /// After each entry, how many there were.
    after: Vec<(EntryId, usize)>,
}

impl MessageCount {
    /// Takes the next entry in; gives how many messages there are after it.
    pub fn apply(&mut self, entry: &Entry) -> usize {
        let placed = |placed: &[Placed]| placed.iter().map(|input| input.messages.len()).sum::<usize>();
        match &entry.body {
            EntryBody::Opened(opened) => self.now = opened.messages.len(),
            EntryBody::Restored { messages, .. } => self.now = messages.len(),
            EntryBody::Reset { .. } => self.now = 0,
            EntryBody::TurnStarted { placed: inputs, .. } => self.now += placed(inputs),
            EntryBody::LoopEnded { placed: inputs, note, .. } => {
                self.now += placed(inputs) + usize::from(note.is_some());
            }
            EntryBody::Responded { .. }
            | EntryBody::ToolEnded { .. }
            | EntryBody::ToolBlocked { .. }
            | EntryBody::ToolSkipped { .. }
            | EntryBody::ToolQueued { .. }
            | EntryBody::PlanRejected { .. } => self.now += 1,
            EntryBody::Head { to, first, messages } => {
                let first = first.and_then(|first| usize::try_from(first).ok());
                let whole = || to.as_ref().map_or(Some(0), |entry| self.after(entry));
                self.now = messages.or(first).or_else(whole).unwrap_or(self.now);
            }
            EntryBody::Configured { .. }
            | EntryBody::Input(_)
            | EntryBody::ContinueAsked { .. }
            | EntryBody::LoopStarted { .. }
            | EntryBody::InputRejected { .. }
            | EntryBody::Requested { .. }
            | EntryBody::AttemptFailed { .. }
            | EntryBody::PermissionAsked { .. }
            | EntryBody::PermissionResolved { .. }
            | EntryBody::ToolStarted { .. }
            | EntryBody::PlanApproved { .. }
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
        self.after.push((entry.id.clone(), self.now));
        self.now
    }

    /// How many messages there are after the entries so far.
    pub fn now(&self) -> usize {
        self.now
    }

    fn after(&self, entry: &EntryId) -> Option<usize> {
        self.after.iter().rfind(|(known, _)| known == entry).map(|(_, count)| *count)
    }
}
