//! What an agent is at a moment.
//!
//! [`durable`] is the part that the journal tells, with `rare` for what few sessions have, [`run`] for runs under way and
//! ended, `recent_inputs` for commands that were taken and `digest` for the hash of the conversation; `apply` is the only
//! code that changes it, entry by entry, and [`events`] says what an entry means to observers. `flight` is the part that a
//! fold leaves empty: what is under way.

mod apply;
pub(super) mod digest;
pub(super) mod durable;
pub mod events;
pub(super) mod flight;
pub(super) mod rare;
mod recent_inputs;
pub mod run;
