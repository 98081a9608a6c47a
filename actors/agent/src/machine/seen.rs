//! The inputs an agent already has, so that one that is repeated is not taken twice.

use std::collections::{HashSet, VecDeque};

use playhouse_protocol::InputId;

/// How many are remembered. A sender repeats an input until it is acknowledged, so only late ones matter.
const REMEMBERED: usize = 4_096;

/// The latest inputs, oldest forgotten first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    order: VecDeque<InputId>,
    set: HashSet<InputId>,
}

impl Seen {
    /// Remembers an input.
    pub fn insert(&mut self, id: InputId) {
        if self.set.insert(id.clone()) {
            self.order.push_back(id);
            if self.order.len() > REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.set.remove(&oldest);
            }
        }
    }

    /// Whether it is remembered.
    pub fn contains(&self, id: &InputId) -> bool {
        self.set.contains(id)
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
        assert_eq!((seen.set.len(), seen.order.len()), (REMEMBERED, REMEMBERED));
        assert!(seen.contains(&"i9999".into()) && !seen.contains(&"i0".into()));
    }
}
