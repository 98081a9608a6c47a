//! Stable addresses: an id outlives the actors that answer to it.
//!
//! Whoever starts an actor publishes its incarnation here; senders hold the id and look it up. When a send fails
//! they ask for the next incarnation and repeat. No lock is held across an await, and nothing is kept for an id
//! that was retired or for a waiter that went away.

use std::fmt;
use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use ractor::{ActorId, ActorRef, ActorStatus, Message, RpcReplyPort};
use tokio::sync::Notify;

/// Why nobody answers to an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// The id was never published, or was retired before this question.
    #[error("nobody is known under this id: check it, or start the actor first")]
    Unknown,
    /// It was retired while we waited.
    #[error("it has ended for good: start it again to use its id")]
    Gone,
    /// Its restarts are spent.
    #[error("it is parked ({reason}): resume it, then try again")]
    Parked {
        /// Why it was parked.
        reason: Arc<str>,
    },
}

/// Addresses of actors that take `M`; clones share them.
pub struct Directory<M> {
    slots: Arc<DashMap<Arc<str>, Slot<M>>>,
}

struct Slot<M> {
    seat: Seat<M>,
    /// Made by the first waiter and taken away by the last: most ids never have one.
    waiters: Option<Box<Waiters>>,
}

#[derive(Default)]
struct Waiters {
    changed: Arc<Notify>,
    count: usize,
}

enum Seat<M> {
    Expected,
    Taken(ActorRef<M>),
    Parked(Arc<str>),
}

impl<M> Clone for Directory<M> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone() }
    }
}

impl<M> Default for Directory<M> {
    fn default() -> Self {
        Self { slots: Arc::default() }
    }
}

impl<M> fmt::Debug for Directory<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("len", &self.slots.len()).finish()
    }
}

impl<M: Message> Directory<M> {
    /// A directory that knows no id yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an id known before its first incarnation, so that [`live`](Self::live) waits for it. An id that is
    /// already known stays as it is.
    pub fn expect(&self, id: impl Into<Arc<str>>) {
        self.slots.entry(id.into()).or_insert(Slot { seat: Seat::Expected, waiters: None });
    }

    /// Gives the id to a new incarnation and wakes who waits for it.
    pub fn publish(&self, id: impl Into<Arc<str>>, actor: ActorRef<M>) {
        self.seat(id.into(), Seat::Taken(actor));
    }

    /// Marks the id as parked; it stays known.
    pub fn park(&self, id: impl Into<Arc<str>>, reason: impl Into<Arc<str>>) {
        self.seat(id.into(), Seat::Parked(reason.into()));
    }

    /// Marks every id as parked.
    pub fn park_all(&self, reason: &str) {
        let reason: Arc<str> = reason.into();
        let ids: Vec<Arc<str>> = self.slots.iter().map(|slot| slot.key().clone()).collect();
        ids.into_iter().for_each(|id| self.park(id, reason.clone()));
    }

    /// Forgets the id: it is gone for good.
    pub fn retire(&self, id: &str) {
        if let Some((_, Slot { waiters: Some(waiters), .. })) = self.slots.remove(id) {
            waiters.changed.notify_waiters();
        }
    }

    /// Forgets every id: whoever waits is told that it is gone.
    pub fn close(&self) {
        self.slots.retain(|_, slot| {
            if let Some(waiters) = &slot.waiters {
                waiters.changed.notify_waiters();
            }
            false
        });
    }

    /// The incarnation published last, dead or alive.
    pub fn get(&self, id: &str) -> Option<ActorRef<M>> {
        match &self.slots.get(id)?.seat {
            Seat::Taken(actor) => Some(actor.clone()),
            Seat::Expected | Seat::Parked(_) => None,
        }
    }

    /// Waits for a living incarnation other than `not`. It waits as long as the id is known and not parked: who
    /// needs a deadline puts one around it.
    pub async fn live(&self, id: &str, not: Option<ActorId>) -> Result<ActorRef<M>, Absent> {
        // Who names an incarnation knew the id.
        let mut absent = if not.is_some() { Absent::Gone } else { Absent::Unknown };
        loop {
            // Registered under the slot's lock: from here on no change is missed.
            let (place, changed) = match self.slots.get_mut(id) {
                None => return Err(absent),
                Some(mut slot) => match &slot.seat {
                    Seat::Parked(reason) => return Err(Absent::Parked { reason: reason.clone() }),
                    Seat::Taken(actor) if Some(actor.get_id()) != not && takes_messages(actor) => {
                        return Ok(actor.clone());
                    }
                    Seat::Taken(_) | Seat::Expected => {
                        let waiters = slot.waiters.get_or_insert_default();
                        waiters.count += 1;
                        let changed = waiters.changed.clone();
                        (Waiter { slots: &self.slots, id, changed: changed.clone() }, changed.notified_owned())
                    }
                },
            };
            changed.await;
            drop(place);
            absent = Absent::Gone;
        }
    }

    /// Asks whoever answers to the id, and the incarnation after it if that one dies before it answers. The question may
    /// so be heard twice.
    pub async fn ask<T: Send + 'static>(&self, id: &str, question: impl Fn(RpcReplyPort<T>) -> M) -> Result<T, Absent> {
        let mut not = None;
        loop {
            let actor = self.live(id, not).await?;
            match ractor::call!(actor, &question) {
                Ok(answer) => return Ok(answer),
                // Its status may not say yet that it is dead.
                Err(_) => not = Some(actor.get_id()),
            }
        }
    }

    /// The incarnations published last, dead or alive.
    pub fn all(&self) -> Vec<ActorRef<M>> {
        let taken = |slot: &Slot<M>| match &slot.seat {
            Seat::Taken(actor) => Some(actor.clone()),
            Seat::Expected | Seat::Parked(_) => None,
        };
        self.slots.iter().filter_map(|slot| taken(slot.value())).collect()
    }

    /// How many ids are known.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no id is known.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn seat(&self, id: Arc<str>, seat: Seat<M>) {
        match self.slots.entry(id) {
            Entry::Vacant(entry) => drop(entry.insert(Slot { seat, waiters: None })),
            Entry::Occupied(mut entry) => {
                entry.get_mut().seat = seat;
                if let Some(waiters) = &entry.get().waiters {
                    waiters.changed.notify_waiters();
                }
            }
        }
    }
}

fn takes_messages<M>(actor: &ActorRef<M>) -> bool {
    match actor.get_status() {
        ActorStatus::Unstarted | ActorStatus::Starting | ActorStatus::Running | ActorStatus::Upgrading => true,
        ActorStatus::Draining | ActorStatus::Stopping | ActorStatus::Stopped => false,
    }
}

/// A waiter's place at a slot; the last one to leave takes the bell away.
struct Waiter<'a, M> {
    slots: &'a DashMap<Arc<str>, Slot<M>>,
    id: &'a str,
    changed: Arc<Notify>,
}

impl<M> Drop for Waiter<'_, M> {
    fn drop(&mut self) {
        let Some(mut slot) = self.slots.get_mut(self.id) else { return };
        let Some(waiters) = slot.waiters.as_mut() else { return };
        if Arc::ptr_eq(&waiters.changed, &self.changed) {
            waiters.count -= 1;
            if waiters.count == 0 {
                slot.waiters = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use ractor::{Actor, ActorProcessingErr};
    use tokio::time::timeout;

    use super::*;

    struct Quiet;

    impl Actor for Quiet {
        type Msg = ();
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    async fn actor() -> ActorRef<()> {
        Actor::spawn(None, Quiet, ()).await.unwrap().0
    }

    async fn soon<T>(wait: impl Future<Output = T>) -> T {
        timeout(Duration::from_secs(30), wait).await.unwrap()
    }

    impl<M> Directory<M> {
        fn waiting_at(&self, id: &str) -> Option<usize> {
            self.slots.get(id)?.waiters.as_ref().map(|waiters| waiters.count)
        }
    }

    #[tokio::test]
    async fn an_address_outlives_its_actor() {
        let directory = Directory::new();
        let first = actor().await;
        directory.publish("agent/1", first.clone());
        assert_eq!(directory.live("agent/1", None).await, Ok(first.clone()));

        let mut next = Box::pin(directory.live("agent/1", Some(first.get_id())));
        assert!(next.as_mut().now_or_never().is_none());
        let second = actor().await;
        directory.publish("agent/1", second.clone());
        assert_eq!(soon(next).await, Ok(second.clone()));
        assert_eq!(directory.get("agent/1"), Some(second));
        assert_eq!(directory.waiting_at("agent/1"), None);
    }

    #[tokio::test]
    async fn a_dead_incarnation_is_not_handed_out() {
        let directory = Directory::new();
        let dead = actor().await;
        directory.publish("agent/1", dead.clone());
        dead.stop_and_wait(None, None).await.unwrap();
        let mut next = Box::pin(directory.live("agent/1", None));
        assert!(next.as_mut().now_or_never().is_none());
        let second = actor().await;
        directory.publish("agent/1", second.clone());
        assert_eq!(soon(next).await, Ok(second));
    }

    #[tokio::test]
    async fn the_absent_are_told_apart() {
        let directory = Directory::<()>::new();
        assert_eq!(directory.live("nobody", None).await, Err(Absent::Unknown));

        directory.expect("early");
        let mut waiting = Box::pin(directory.live("early", None));
        assert!(waiting.as_mut().now_or_never().is_none());
        directory.park("early", "40 restarts are spent");
        let parked = Absent::Parked { reason: "40 restarts are spent".into() };
        assert_eq!(soon(waiting).await, Err(parked.clone()));
        assert_eq!(directory.live("early", None).await, Err(parked));
        assert_eq!(directory.get("early"), None);

        directory.publish("early", actor().await);
        let now = directory.get("early").unwrap().get_id();
        let mut waiting = Box::pin(directory.live("early", Some(now)));
        assert!(waiting.as_mut().now_or_never().is_none());
        directory.retire("early");
        assert_eq!(soon(waiting).await, Err(Absent::Gone));
        assert_eq!(directory.live("early", None).await, Err(Absent::Unknown));
    }

    #[tokio::test]
    async fn a_closed_directory_keeps_nobody_waiting() {
        let directory = Directory::new();
        let first = actor().await;
        directory.publish("a", first.clone());
        directory.expect("b");
        let mut next = Box::pin(directory.live("a", Some(first.get_id())));
        let mut early = Box::pin(directory.live("b", None));
        assert!(next.as_mut().now_or_never().is_none() && early.as_mut().now_or_never().is_none());
        directory.close();
        assert_eq!((soon(next).await, soon(early).await), (Err(Absent::Gone), Err(Absent::Gone)));
        assert!(directory.is_empty());
        assert_eq!(directory.live("a", Some(first.get_id())).await, Err(Absent::Gone));
        assert_eq!(directory.live("a", None).await, Err(Absent::Unknown));
    }

    #[tokio::test]
    async fn f41_the_retired_and_waiters_that_left_leave_nothing() {
        let directory = Directory::<()>::new();
        directory.expect("a");
        let mut waits: Vec<_> = (0..3).map(|_| Box::pin(directory.live("a", None))).collect();
        for wait in &mut waits {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        assert_eq!(directory.waiting_at("a"), Some(3));
        waits.pop();
        assert_eq!(directory.waiting_at("a"), Some(2));
        waits.clear();
        assert_eq!(directory.waiting_at("a"), None);

        // One that outlives its slot must not disturb the slot's successor.
        let mut old = Box::pin(directory.live("a", None));
        assert!(old.as_mut().now_or_never().is_none());
        directory.retire("a");
        directory.expect("a");
        let mut new = Box::pin(directory.live("a", None));
        assert!(new.as_mut().now_or_never().is_none());
        drop(old);
        assert_eq!(directory.waiting_at("a"), Some(1));
        drop(new);
        directory.retire("a");
        assert!(directory.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_publication_is_missed_under_threads() {
        let directory = Directory::new();
        let actors = [actor().await, actor().await];
        directory.publish("a", actors[0].clone());
        for round in 0..2_000 {
            let (old, new) = (&actors[round % 2], &actors[(round + 1) % 2]);
            let (there, id) = (directory.clone(), old.get_id());
            let waiting = tokio::spawn(async move { there.live("a", Some(id)).await });
            directory.publish("a", new.clone());
            assert_eq!(soon(waiting).await.unwrap(), Ok(new.clone()));
        }
        assert_eq!(directory.waiting_at("a"), None);
    }
}
