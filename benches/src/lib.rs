//! What Playhouse costs, beside a hand-written loop that does the same work.
//!
//! I/O: starts itself again as child processes, so that each side's processor time and memory are its own; HTTP on
//! loopback; journals in temporary folders. [`suite`] runs the parts and [`table`] shows what came out; [`task`] is
//! what a child process does. The two sides are [`hand`] and `house`, and `mock` is the model service of both.

pub mod allocations;
mod checkpoint;
mod decode;
mod fanout;
pub mod hand;
mod house;
mod idle;
mod journal;
mod meter;
mod mock;
pub mod suite;
pub mod table;
pub mod task;
mod tools;
pub mod wire;
