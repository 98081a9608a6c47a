//! A journal's chain of parents, one record at a time.

use std::sync::Arc;

use playhouse_protocol::chain::Members;
use playhouse_protocol::{Entry, EntryId, Seq};

use crate::store::error::StoreError;

/// What an entry is to the history of the journal's last entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// It leads to that.
    Main,
    /// It leads elsewhere.
    Side,
}

/// Folds a journal whose records `open` gives from the first one on, and gives them back for what is wrong with them.
/// Only a journal with side branches is held in memory: which entries lead to the last is known when that is read.
pub fn fold_chain<S, R>(
    open: impl Fn() -> Result<R, StoreError>,
    apply: impl Fn(&mut S, &Arc<Entry>, Branch),
) -> Result<(S, R), StoreError>
where
    S: Default,
    R: Iterator<Item = Result<(Seq, Arc<Entry>), StoreError>>,
{
    let mut records = open()?;
    let (mut state, mut last) = (S::default(), None);
    while let Some(record) = records.next() {
        let (_, entry) = record?;
        if branches_off(&entry, last.as_ref()) {
            records = open()?;
            let all = records.by_ref().collect::<Result<Vec<_>, _>>()?;
            let (members, mut state) = (Members::of(&all, None), S::default());
            for (at, (_, entry)) in all.iter().enumerate() {
                apply(&mut state, entry, if members.has(at) { Branch::Main } else { Branch::Side });
            }
            return Ok((state, records));
        }
        last = Some(entry.id.clone());
        apply(&mut state, &entry, Branch::Main);
    }
    Ok((state, records))
}

/// Whether an entry names another one than the one before it.
fn branches_off(entry: &Entry, before: Option<&EntryId>) -> bool {
    matches!((entry.parent.as_ref(), before), (Some(parent), Some(before)) if parent != before)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use playhouse_protocol::EntryBody;

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
        assert_eq!(folded(&tree), ("abcd".into(), "x".into(), 2));
    }

    #[test]
    fn a_journal_without_branches_is_read_once() {
        assert_eq!(folded(&[("a", None), ("b", Some("a")), ("c", None)]), ("abc".into(), String::new(), 1));
        assert_eq!(folded(&[]), (String::new(), String::new(), 1));
    }
}
