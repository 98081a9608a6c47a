//! Monitoring an actor for as long as it is needed, and not longer.

use ractor::{ActorCell, ActorRef, ActorStatus, Message};

/// An actor that another one monitors until this is dropped, however that comes about. The monitored one keeps a
/// reference to the other, so one that died without taking it back would never be freed.
pub(super) struct Watched<M: Message> {
    actor: ActorRef<M>,
    by: ActorCell,
}

impl<M: Message> Watched<M> {
    /// Lets `by` monitor `actor`; `None` if that is dead already, which no monitor would tell.
    pub fn new(actor: ActorRef<M>, by: ActorCell) -> Option<Self> {
        by.monitor(actor.get_cell());
        let watched = Self { actor, by };
        match watched.actor.get_status() {
            ActorStatus::Unstarted
            | ActorStatus::Starting
            | ActorStatus::Running
            | ActorStatus::Upgrading
            | ActorStatus::Draining => Some(watched),
            ActorStatus::Stopping | ActorStatus::Stopped => None,
        }
    }

    /// The actor that is monitored.
    pub fn actor(&self) -> &ActorRef<M> {
        &self.actor
    }
}

impl<M: Message> Drop for Watched<M> {
    fn drop(&mut self) {
        self.by.unmonitor(self.actor.get_cell());
    }
}
