//! Journals in memory: for tests, and for sessions of durability `none`, which end with their process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use playhouse_protocol::{Durability, Entry, EntryId, Seq, SessionId, lock};

use crate::store::error::StoreError;
use crate::store::{Loaded, Promises, REMEMBERED, Store, Sync, Take};
use crate::views::summary::SessionSummary;

/// The epoch of every journal here: there is one process.
const EPOCH: u64 = 1;

/// Journals that live as long as the store. Removing a session is the only way to free its memory.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<HashMap<SessionId, MemoryJournal>>);

#[derive(Debug, Default)]
struct MemoryJournal {
    /// The entry with number `n` is the `n`th.
    entries: Vec<Arc<Entry>>,
    /// Loaded and not at rest.
    loaded: bool,
    /// Why it takes no more entries until it is loaded.
    broken: Option<StoreError>,
}

impl MemoryJournal {
    fn numbered(&self) -> Vec<(Seq, Arc<Entry>)> {
        (1..).map(Seq).zip(self.entries.iter().cloned()).collect()
    }

    /// The number of an entry, which it gets now unless it is here already; `Err` if its id is here with other content.
    fn number<'a>(&mut self, entry: &'a Arc<Entry>) -> Result<Seq, &'a EntryId> {
        // What follows the last entry is new, so only what is sent again is looked for, and it is among the latest.
        let follows = self.entries.last().is_none_or(|last| entry.parent.as_ref() == Some(&last.id));
        let sent_again =
            || self.entries.iter().enumerate().rev().take(REMEMBERED).find(|(_, known)| known.id == entry.id);
        let at = match if follows { None } else { sent_again() } {
            Some((at, known)) if Arc::ptr_eq(known, entry) || known.body == entry.body => at,
            Some(_) => return Err(&entry.id),
            None => {
                self.entries.push(entry.clone());
                self.entries.len() - 1
            }
        };
        Ok(Seq(at as u64 + 1))
    }

    fn append(&mut self, session: &SessionId, entries: &[Arc<Entry>]) -> Result<Vec<Seq>, StoreError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let before = self.entries.len();
        let numbered = entries.iter().map(|entry| self.number(entry)).collect::<Result<_, _>>();
        numbered.map_err(|entry| {
            self.entries.truncate(before);
            let error = StoreError::Conflict { session: session.clone(), entry: entry.clone() };
            self.broken.insert(error).clone()
        })
    }
}

impl MemoryStore {
    /// Whether a session has entries here.
    pub fn has(&self, session: &SessionId) -> bool {
        lock(&self.0).get(session).is_some_and(|kept| !kept.entries.is_empty())
    }
}

fn check<'a>(
    all: &'a mut HashMap<SessionId, MemoryJournal>,
    session: &SessionId,
    epoch: u64,
) -> Result<&'a mut MemoryJournal, StoreError> {
    match all.get_mut(session).filter(|kept| kept.loaded) {
        None => Err(StoreError::NotLoaded { session: session.clone() }),
        Some(_) if epoch != EPOCH => Err(StoreError::Fenced { session: session.clone(), epoch, by: None }),
        Some(kept) => Ok(kept),
    }
}

impl Store for MemoryStore {
    fn promises(&self) -> Promises {
        Promises { strongest: Durability::None }
    }

    fn load(&self, session: &SessionId, take: Take) -> Result<Loaded, StoreError> {
        let mut all = lock(&self.0);
        let entries = match take {
            Take::Own => {
                let kept = all.entry(session.clone()).or_default();
                kept.loaded = true;
                kept.broken = None;
                kept.numbered()
            }
            Take::Peek => match all.get(session).filter(|kept| !kept.entries.is_empty()) {
                Some(kept) => kept.numbered(),
                None => return Err(StoreError::Unknown { session: session.clone() }),
            },
        };
        Ok(Loaded { entries, epoch: EPOCH, damage: Vec::new() })
    }

    fn exists(&self, session: &SessionId) -> Result<bool, StoreError> {
        Ok(self.has(session))
    }

    fn own(&self, session: &SessionId) -> Result<u64, StoreError> {
        let mut all = lock(&self.0);
        let kept = all.entry(session.clone()).or_default();
        kept.loaded = true;
        kept.broken.clone().map_or(Ok(EPOCH), Err)
    }

    fn append(&self, session: &SessionId, epoch: u64, entries: &[Arc<Entry>], _: Sync) -> Result<Vec<Seq>, StoreError> {
        let mut all = lock(&self.0);
        check(&mut all, session, epoch)?.append(session, entries)
    }

    fn flush(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError> {
        check(&mut lock(&self.0), session, epoch).map(|_| ())
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let mut all: Vec<_> = lock(&self.0)
            .iter()
            .filter(|(_, kept)| !kept.entries.is_empty())
            .map(|(session, kept)| SessionSummary::of(session, &kept.numbered(), None, Vec::new()))
            .collect();
        all.sort_by(|a, b| b.last_active_at.cmp(&a.last_active_at).then_with(|| a.session_id.cmp(&b.session_id)));
        Ok(all)
    }

    fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        match lock(&self.0).remove(session).filter(|kept| !kept.entries.is_empty()) {
            Some(_) => Ok(()),
            None => Err(StoreError::Unknown { session: session.clone() }),
        }
    }

    fn rest(&self, session: &SessionId) -> Result<(), StoreError> {
        let mut all = lock(&self.0);
        if let Some(kept) = all.get_mut(session) {
            kept.loaded = false;
            if kept.entries.is_empty() {
                all.remove(session);
            }
        }
        Ok(())
    }

    fn release(&self, session: &SessionId) -> Result<(), StoreError> {
        self.rest(session)
    }
}
