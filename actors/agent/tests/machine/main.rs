//! The pure machine, sentence by sentence: what the contract says of one situation, as one list of what the machine
//! does in it. The simulation next door looks for what nobody thought of; these tests say what is right.

mod abort;
mod calls;
mod checking;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod deadline;
mod fallback;
mod format;
mod hooks;
mod lines;
mod order;
mod pipeline;
mod plan;
mod recovery;
mod rig;
mod sessions;
mod steering;
