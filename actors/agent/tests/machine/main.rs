//! The pure machine, sentence by sentence: what the contract says of one situation, as one list of what the machine
//! does in it. The simulation next door looks for what nobody thought of; these tests say what is right.

mod abort;
mod lines;
mod order;
mod rig;
mod steering;
