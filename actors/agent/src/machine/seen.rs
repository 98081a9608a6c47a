//! The inputs an agent already has, so that one that is repeated is not taken twice.

use std::collections::{HashSet, VecDeque};

use playhouse_protocol::InputId;

/// How many are remembered. A sender repeats an input until it is acknowledged, so only late ones matter.
const REMEMBERED: usize = 4_096;
/// How many are looked through one by one.
const FEW: usize = 16;

/// The latest inputs, oldest forgotten first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    order: VecDeque<InputId>,
    /// The same, for when there are more than a few: most agents take few inputs, and there may be very many agents.
    set: Option<HashSet<InputId>>,
}

impl Seen {
    /// Remembers an input.
    pub fn insert(&mut self, id: InputId) {
        if self.contains(&id) {
            return;
        }
        if let Some(set) = &mut self.set {
            set.insert(id.clone());
        }
        if self.order.is_empty() {
            self.order.reserve_exact(1);
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let (Some(oldest), Some(set)) = (self.order.pop_front(), &mut self.set)
        {
            set.remove(&oldest);
        }
        if self.set.is_none() && self.order.len() > FEW {
            self.set = Some(self.order.iter().cloned().collect());
        }
    }

    /// Whether it is remembered.
    pub fn contains(&self, id: &InputId) -> bool {
        match &self.set {
            Some(set) => set.contains(id),
            None => self.order.contains(id),
        }
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &InputId> {
        self.order.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_latest_are_kept() {
        let mut seen = Seen::default();
        for n in 0..10_000 {
            seen.insert(format!("i{n}").into());
            seen.insert(format!("i{n}").into());
        }
        assert_eq!((seen.set.as_ref().unwrap().len(), seen.order.len()), (REMEMBERED, REMEMBERED));
        assert!(seen.contains(&"i9999".into()) && !seen.contains(&"i0".into()));
    }

    #[test]
    fn few_and_many_are_told_apart_from_what_never_came() {
        let mut seen = Seen::default();
        for n in 0..3 * FEW {
            let id: InputId = format!("i{n}").into();
            assert!(!seen.contains(&id), "{n}");
            seen.insert(id.clone());
            seen.insert(id);
            assert_eq!((seen.order.len(), seen.set.is_some()), (n + 1, n + 1 > FEW));
            assert!((0..=n).all(|n| seen.contains(&format!("i{n}").into())), "{n}");
        }
    }
}
