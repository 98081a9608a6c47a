//! Running calls: the executor, the actor of each call, and the threads for work that blocks.

mod blocking;
mod call;
mod check;
mod executor;
mod outbox;

pub use blocking::blocking;
pub use executor::{ABANDON, Executor, ExecutorArgs, ExecutorMsg, ExecutorState, GRACE, Internal, ToolJob};

/// The kinds of actors in this crate, each with the names of its messages: what a test can strike.
pub const ACTORS: [(&str, &[&str]); 2] = [("executor", &ExecutorMsg::NAMES), ("tool run", &call::RunMsg::NAMES)];
