//! A map that knows which of its values was used longest ago.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Values by key, in the order of their use. It has no bound of its own: whoever fills it lets go with
/// [`Lru::pop_oldest`] until there is room.
#[derive(Clone, Debug)]
pub struct Lru<K, V> {
    uses: u64,
    values: HashMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K, V> Default for Lru<K, V> {
    fn default() -> Self {
        Self { uses: 0, values: HashMap::new(), by_use: BTreeMap::new() }
    }
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A value; that is no use of it.
    pub fn peek<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.values.get(key).map(|(_, value)| value)
    }

    /// A value, which is now the one that was used last.
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (used, value) = self.values.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.by_use.remove(&std::mem::replace(used, self.uses)) {
            self.by_use.insert(self.uses, key);
        }
        Some(value)
    }

    /// Puts a value in, as the one that was used last; gives back the one that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.uses += 1;
        let before = self.values.insert(key.clone(), (self.uses, value));
        self.by_use.insert(self.uses, key);
        let (used, value) = before?;
        self.by_use.remove(&used);
        Some(value)
    }

    /// Takes a value out.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (used, value) = self.values.remove(key)?;
        self.by_use.remove(&used);
        Some(value)
    }

    /// Takes out the value that was used longest ago.
    pub fn pop_oldest(&mut self) -> Option<(K, V)> {
        let (_, key) = self.by_use.pop_first()?;
        let (_, value) = self.values.remove(&key)?;
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first_and_nothing_is_left_behind() {
        let mut lru = Lru::default();
        for key in ["a", "b", "c"] {
            assert_eq!(lru.insert(key, key.len()), None);
        }
        assert_eq!(lru.get("a"), Some(&1));
        assert_eq!(lru.peek("b"), Some(&1));
        assert_eq!(lru.insert("c", 3), Some(1));
        assert_eq!(lru.remove("none"), None);
        assert_eq!(lru.pop_oldest(), Some(("b", 1)));
        assert_eq!(lru.remove("a"), Some(1));
        assert_eq!((lru.len(), lru.by_use.len()), (1, 1));
        assert_eq!((lru.pop_oldest(), lru.pop_oldest()), (Some(("c", 3)), None));
        assert!(lru.is_empty());
    }
}
