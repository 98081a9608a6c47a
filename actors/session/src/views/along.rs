//! A journal's chain of parents, one record at a time.

use std::collections::HashSet;
use std::sync::Arc;

use playhouse_protocol::chain::{Link, Members, follows};
use playhouse_protocol::{Entry, Seq};

use crate::format::scan::Damage;
use crate::store::Records;
use crate::store::error::StoreError;

/// What an entry is to the history of the journal's last entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// It leads to that.
    Main,
    /// It leads elsewhere.
    Side,
}

/// A journal's records in order, each with its branch. Which entries lead to the last one is known when that is read, so
/// a journal is gone through before its first record is given. Nothing is kept of one without side branches; of one that
/// has some, the ids and parents meanwhile, and then the numbers of what is on a side branch.
#[derive(Debug)]
pub struct Along<R = Box<dyn Records>> {
    records: R,
    side: HashSet<Seq>,
    /// What is written after this is not given: it was not there yet when the branches were told apart.
    last: Seq,
}

impl<R: Iterator<Item = Result<(Seq, Arc<Entry>), StoreError>>> Along<R> {
    /// Reads what `open` gives, which is the journal from its first record on, each time.
    pub fn open(open: impl Fn() -> Result<R, StoreError>) -> Result<Self, StoreError> {
        let (mut before, mut last) = (None, Seq::default());
        for record in open()? {
            let (seq, entry) = record?;
            if !follows(&*entry, before.as_ref()) {
                return Self::of_a_tree(open);
            }
            (before, last) = (Some(entry.id.clone()), seq);
        }
        Ok(Self { records: open()?, side: HashSet::new(), last })
    }

    fn of_a_tree(open: impl Fn() -> Result<R, StoreError>) -> Result<Self, StoreError> {
        let link = |(seq, entry): (Seq, Arc<Entry>)| (seq, Link { id: entry.id.clone(), parent: entry.parent.clone() });
        let links = open()?.map(|record| record.map(link)).collect::<Result<Vec<_>, _>>()?;
        let members = Members::of(&links, None);
        let side = links.iter().enumerate().filter(|(at, _)| !members.has(*at)).map(|(_, (seq, _))| *seq).collect();
        let last = links.last().map(|(seq, _)| *seq).unwrap_or_default();
        Ok(Self { records: open()?, side, last })
    }
}

impl Along {
    /// What is wrong with the journal, as far as it was read.
    pub fn damage(self) -> Vec<Damage> {
        self.records.damage()
    }
}

impl<R: Iterator<Item = Result<(Seq, Arc<Entry>), StoreError>>> Iterator for Along<R> {
    type Item = Result<(Seq, Arc<Entry>, Branch), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (seq, entry) = match self.records.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let branch = if self.side.contains(&seq) { Branch::Side } else { Branch::Main };
        (seq <= self.last).then_some(Ok((seq, entry, branch)))
    }
}

/// Folds a journal whose records `open` gives from the first one on, and gives them back for what is wrong with them. One
/// without side branches is read once: it begins as if there were none.
pub fn fold_chain<S, R>(
    open: impl Fn() -> Result<R, StoreError>,
    apply: impl Fn(&mut S, &Arc<Entry>, Branch),
) -> Result<(S, R), StoreError>
where
    S: Default,
    R: Iterator<Item = Result<(Seq, Arc<Entry>), StoreError>>,
{
    let mut records = open()?;
    let (mut state, mut before) = (S::default(), None);
    for record in records.by_ref() {
        let (_, entry) = record?;
        if !follows(&*entry, before.as_ref()) {
            let (mut along, mut state) = (Along::of_a_tree(open)?, S::default());
            for record in along.by_ref() {
                let (_, entry, branch) = record?;
                apply(&mut state, &entry, branch);
            }
            return Ok((state, along.records));
        }
        before = Some(entry.id.clone());
        apply(&mut state, &entry, Branch::Main);
    }
    Ok((state, records))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use playhouse_protocol::{EntryBody, EntryId};

    use super::*;

    /// The ids of each branch, and how often the records were opened.
    fn folded(entries: &[(&str, Option<&str>)]) -> (String, String, u32) {
        let opened = Cell::new(0);
        let open = || {
            opened.set(opened.get() + 1);
            Ok(entries.iter().enumerate().map(|(at, (id, parent))| {
                let parent = parent.map(EntryId::from);
                let body = EntryBody::LoopClosed;
                Ok((Seq(at as u64 + 1), Arc::new(Entry { id: (*id).into(), loop_id: None, parent, at: 0, body })))
            }))
        };
        let apply = |(main, side): &mut (String, String), entry: &Arc<Entry>, branch| match branch {
            Branch::Main => main.push_str(&entry.id.to_string()),
            Branch::Side => side.push_str(&entry.id.to_string()),
        };
        let ((main, side), records) = fold_chain(open, apply).unwrap();
        assert_eq!(records.count(), 0, "all of them were read");
        (main, side, opened.get())
    }

    #[test]
    fn side_branches_are_told_from_what_leads_to_the_last_entry() {
        let tree = [("a", None), ("b", Some("a")), ("x", Some("a")), ("c", Some("b")), ("d", Some("c"))];
        assert_eq!(folded(&tree), ("abcd".into(), "x".into(), 3));
    }

    #[test]
    fn a_journal_without_branches_is_read_once() {
        assert_eq!(folded(&[("a", None), ("b", Some("a")), ("c", None)]), ("abc".into(), String::new(), 1));
        assert_eq!(folded(&[]), (String::new(), String::new(), 1));
    }
}
