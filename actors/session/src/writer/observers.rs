//! Who wants to know which sessions have something new. A Writer tells them when it has delivered, and waits for nobody.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

use playhouse_protocol::{SessionId, lock};
use tokio::sync::Notify;

/// How many sessions wait for an observer by name; when there are more it is told to look at all.
const NAMED: usize = 1_024;

/// Those who are told. Clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Observers(Arc<Mutex<Vec<Weak<Unheard>>>>);

/// Hears which sessions have something new, from when it was made on. What it has not asked for yet merges.
#[derive(Debug)]
pub struct Observer(Arc<Unheard>);

/// Sessions in which something was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// In each of these, once or more often.
    In(BTreeSet<SessionId>),
    /// In so many that any may be among them.
    Anywhere,
}

#[derive(Debug)]
struct Unheard {
    news: Mutex<Committed>,
    came: Notify,
}

impl Observers {
    /// One more of them.
    pub fn observe(&self) -> Observer {
        let unheard = Arc::new(Unheard { news: Mutex::new(Committed::In(BTreeSet::new())), came: Notify::new() });
        lock(&self.0).push(Arc::downgrade(&unheard));
        Observer(unheard)
    }

    /// Tells all that something was committed there.
    pub(super) fn tell(&self, session: &SessionId) {
        lock(&self.0).retain(|observer| {
            let Some(observer) = observer.upgrade() else { return false };
            let mut news = lock(&observer.news);
            if let Committed::In(sessions) = &mut *news {
                sessions.insert(session.clone());
                if sessions.len() > NAMED {
                    *news = Committed::Anywhere;
                }
            }
            observer.came.notify_one();
            true
        });
    }
}

impl Observer {
    /// What was committed since it was last asked, when there is something.
    pub async fn next(&mut self) -> Committed {
        loop {
            let news = std::mem::replace(&mut *lock(&self.0.news), Committed::In(BTreeSet::new()));
            match news {
                Committed::In(sessions) if sessions.is_empty() => self.0.came.notified().await,
                news => return news,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_nobody_asks_for_merges_and_has_a_bound() {
        let observers = Observers::default();
        let (mut reads, mut sleeps) = (observers.observe(), observers.observe());
        drop(observers.observe());
        let id = |n: usize| SessionId::new(format!("s{n}")).unwrap();
        for n in [0, 1, 0] {
            observers.tell(&id(n));
        }
        assert_eq!(reads.next().await, Committed::In(BTreeSet::from([id(0), id(1)])));
        assert_eq!(lock(&observers.0).len(), 2, "one that is gone is forgotten");
        (2..=NAMED).for_each(|n| observers.tell(&id(n)));
        assert_eq!(sleeps.next().await, Committed::Anywhere);
        observers.tell(&id(0));
        assert_eq!(sleeps.next().await, Committed::In(BTreeSet::from([id(0)])));
    }
}
