//! A journal as a tree: each entry names the one before it, and a tip with its chain of parents is one history.

use std::borrow::Borrow;
use std::collections::HashMap;

use crate::entry::Entry;
use crate::ids::{EntryId, Seq};

/// What stands in a journal's tree: an entry, or what is left of it when its content need not be kept.
pub trait Linked {
    /// Its name in the journal.
    fn id(&self) -> &EntryId;
    /// The entry before it, on its branch.
    fn parent(&self) -> Option<&EntryId>;
}

impl<E: Borrow<Entry>> Linked for E {
    fn id(&self) -> &EntryId {
        &self.borrow().id
    }

    fn parent(&self) -> Option<&EntryId> {
        self.borrow().parent.as_ref()
    }
}

/// An entry without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The entry's id.
    pub id: EntryId,
    /// The entry before it, on its branch.
    pub parent: Option<EntryId>,
}

impl Linked for Link {
    fn id(&self) -> &EntryId {
        &self.id
    }

    fn parent(&self) -> Option<&EntryId> {
        self.parent.as_ref()
    }
}

/// Whether an entry stands where its parent says: right after it, or anywhere if it names none.
pub fn follows(entry: &impl Linked, before: Option<&EntryId>) -> bool {
    match (before, entry.parent()) {
        (Some(before), Some(parent)) => before == parent,
        (None, _) | (_, None) => true,
    }
}

/// The entries that lead to `tip`, oldest first; to the journal's last one for `None`. Nothing if the tip is not there.
///
/// An entry that names no parent, or one that is lost, follows the one before it in the journal, as does a line that is
/// there twice. So a journal without side branches is its own chain; that is found out by one look at each entry.
pub fn chain<'a, E: Borrow<Entry>>(
    entries: &'a [(Seq, E)],
    tip: Option<&EntryId>,
) -> impl Iterator<Item = &'a (Seq, E)> {
    let on = Members::of(entries, tip);
    entries.iter().enumerate().filter(move |(at, _)| on.has(*at)).map(|(_, entry)| entry)
}

/// Which entries of a journal are on a chain, by their place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// For each entry whether it is on the chain; `None` if all of them are.
    on: Option<Vec<bool>>,
}

impl Members {
    /// Those of the chain that [`chain`] gives.
    pub fn of<E: Linked>(entries: &[(Seq, E)], tip: Option<&EntryId>) -> Self {
        let entry = |at: usize| entries.get(at).map(|(_, entry)| entry);
        let follows = |at: usize| {
            let before = at.checked_sub(1).and_then(entry).map(Linked::id);
            entry(at).is_none_or(|entry| follows(entry, before))
        };
        let is_last = |tip: &EntryId| entries.last().is_some_and(|(_, last)| last.id() == tip);
        if tip.is_none_or(is_last) && (0..entries.len()).all(follows) {
            return Self { on: None };
        }
        let mut places: HashMap<&EntryId, usize> = HashMap::new();
        for (at, (_, entry)) in entries.iter().enumerate() {
            places.entry(entry.id()).or_insert(at);
        }
        // Parents come first, and a line that is there twice counts where it came first.
        let branches_off = |at: usize| {
            let entry = entry(at).filter(|entry| !follows(at) && places.get(entry.id()) == Some(&at))?;
            places.get(entry.parent()?).copied().filter(|parent| *parent < at)
        };
        let mut on = vec![false; entries.len()];
        let mut next = tip.map_or(entries.len().checked_sub(1), |tip| places.get(tip).copied());
        while let Some(at) = next {
            if let Some(member) = on.get_mut(at) {
                *member = true;
            }
            next = branches_off(at).or(at.checked_sub(1));
        }
        Self { on: Some(on) }
    }

    /// Whether the entry at this place is on the chain.
    pub fn has(&self, at: usize) -> bool {
        self.on.as_ref().is_none_or(|on| on.get(at).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryBody;

    /// A journal of these entries, each with its parent.
    fn journal(entries: &[(&str, Option<&str>)]) -> Vec<(Seq, Entry)> {
        let entry = |(id, parent): &(&str, Option<&str>)| Entry {
            id: (*id).into(),
            loop_id: None,
            parent: parent.map(Into::into),
            at: 0,
            body: EntryBody::LoopClosed,
        };
        (1..).map(Seq).zip(entries.iter().map(entry)).collect()
    }

    fn ids(entries: &[(Seq, Entry)], tip: Option<&str>) -> String {
        let tip = tip.map(EntryId::from);
        chain(entries, tip.as_ref()).map(|(_, entry)| entry.id.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_journal_without_side_branches_is_its_own_chain() {
        let line = journal(&[("a", None), ("b", Some("a")), ("c", Some("b"))]);
        assert_eq!(Members::of(&line, None), Members { on: None });
        assert_eq!(Members::of(&line, Some(&"c".into())), Members { on: None });
        assert_eq!(
            (ids(&line, None), ids(&line, Some("b")), ids(&line, Some("x"))),
            ("a b c".into(), "a b".into(), String::new())
        );
        assert_eq!(ids(&[], None), "");
    }

    #[test]
    fn every_tip_has_its_own_chain() {
        let tree = journal(&[
            ("a", None),
            ("b", Some("a")),
            ("c", Some("b")),
            ("b2", Some("a")),
            ("d", Some("c")),
            ("c2", Some("b2")),
            ("c3", Some("b2")),
        ]);
        assert_eq!(ids(&tree, Some("d")), "a b c d");
        assert_eq!(ids(&tree, Some("c2")), "a b2 c2");
        assert_eq!(ids(&tree, None), "a b2 c3");
    }

    #[test]
    fn what_names_no_parent_or_one_that_is_lost_follows_the_one_before_it() {
        let lost = journal(&[("a", None), ("c", Some("b")), ("d", Some("c")), ("e", None), ("f", Some("f"))]);
        assert_eq!(ids(&lost, None), "a c d e f");
        let twice = journal(&[("a", None), ("b", Some("a")), ("c", Some("b")), ("b", Some("a"))]);
        assert_eq!(ids(&twice, None), "a b c b");
        // A parent that comes later is none: there is no way round in a circle.
        let later = journal(&[("a", None), ("b", Some("c")), ("c", Some("b"))]);
        assert_eq!(ids(&later, None), "a b c");
    }
}
