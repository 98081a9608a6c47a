//! The inputs an agent already has, so that one that is repeated is not taken twice.

use std::collections::{BTreeSet, VecDeque};

use playhouse_protocol::InputId;

/// How many are remembered. A sender repeats an input until it is acknowledged, so only late ones matter.
const REMEMBERED: usize = 4_096;
/// How many are looked through one by one.
const FEW: usize = 16;

/// The latest inputs, oldest forgotten first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentInputs {
    order: VecDeque<InputId>,
    /// The same when there are more than a few, else empty: most agents take few inputs, and there may be very many
    /// agents.
    set: BTreeSet<InputId>,
}

impl RecentInputs {
    /// Remembers an input, and forgets the oldest if there are too many.
    pub fn insert(&mut self, id: InputId) {
        if self.contains(&id) {
            return;
        }
        if !self.set.is_empty() {
            self.set.insert(id.clone());
        }
        if self.order.is_empty() {
            self.order.reserve_exact(1);
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
        if self.set.is_empty() && self.order.len() > FEW {
            self.set = self.order.iter().cloned().collect();
        }
    }

    /// Remembers inputs, in this order.
    pub fn extend<'a>(&mut self, ids: impl IntoIterator<Item = &'a InputId>) {
        ids.into_iter().for_each(|id| self.insert(id.clone()));
    }

    /// Whether it came before and is still remembered.
    pub fn contains(&self, id: &InputId) -> bool {
        if self.set.is_empty() { self.order.contains(id) } else { self.set.contains(id) }
    }

    /// Those that are remembered, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &InputId> {
        self.order.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_latest_are_kept() {
        let mut seen = RecentInputs::default();
        for n in 0..10_000 {
            seen.insert(format!("i{n}").into());
            seen.insert(format!("i{n}").into());
        }
        assert_eq!((seen.set.len(), seen.order.len()), (REMEMBERED, REMEMBERED));
        assert!(seen.contains(&"i9999".into()) && !seen.contains(&"i0".into()));
    }

    #[test]
    fn few_and_many_are_told_apart_from_what_never_came() {
        let mut seen = RecentInputs::default();
        for n in 0..3 * FEW {
            let id: InputId = format!("i{n}").into();
            assert!(!seen.contains(&id), "{n}");
            seen.insert(id.clone());
            seen.insert(id);
            assert_eq!((seen.order.len(), !seen.set.is_empty()), (n + 1, n + 1 > FEW));
            assert!((0..=n).all(|n| seen.contains(&format!("i{n}").into())), "{n}");
        }
    }
}
