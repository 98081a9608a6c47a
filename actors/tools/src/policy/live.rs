//! The rules that hold now, for everyone who judges. One owner publishes them; readers take a snapshot.

use std::fmt;
use std::sync::{Arc, Mutex};

use playhouse_protocol::lock;

use super::Rules;

/// A place where the latest rules are found. Clones are the same place.
#[derive(Clone, Default)]
pub struct LiveRules(Arc<Mutex<Arc<Rules>>>);

impl LiveRules {
    /// The rules as they are now.
    pub fn get(&self) -> Arc<Rules> {
        lock(&self.0).clone()
    }

    /// Puts others in their place.
    pub fn publish(&self, rules: Rules) {
        *lock(&self.0) = Arc::new(rules);
    }
}

impl fmt::Debug for LiveRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
