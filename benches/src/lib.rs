//! What Playhouse costs, beside a hand-written loop that does the same work.
//!
//! I/O: starts itself again as child processes, so that each side's processor time and memory are its own; HTTP on
//! loopback; journals in temporary folders. [`stage`] runs the parts and [`table`] shows what came out; [`role`] is
//! what a child process does. The two sides are [`hand`] and [`troupe`], and [`mock`] is the model service of both.

pub mod allocations;
pub mod cue;
pub mod decode;
pub mod fanout;
pub mod hand;
pub mod idle;
pub mod journal;
pub mod meter;
pub mod mock;
pub mod role;
pub mod stage;
pub mod table;
pub mod tools;
pub mod troupe;
pub mod wire;
