//! Watching agents: callbacks, broadcast, a stream with control, and catching up from the journal.

#[path = "../support/kit.rs"]
mod kit;

mod catching_up;
mod stalled;
mod three_ways;
