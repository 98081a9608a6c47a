//! The rules that hold now, for everyone who judges. One owner publishes them; readers take a snapshot.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::Rules;

/// A place where the latest rules are found. Clones are the same place.
#[derive(Clone, Default)]
pub struct LiveRules(Arc<RwLock<Arc<Rules>>>);

impl LiveRules {
    /// A place with these rules.
    pub fn new(rules: Rules) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(rules))))
    }

    /// The rules as they are now.
    pub fn get(&self) -> Arc<Rules> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts others in their place.
    pub fn publish(&self, rules: Rules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }
}

impl fmt::Debug for LiveRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
