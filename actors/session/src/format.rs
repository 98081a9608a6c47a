//! The bytes of a journal: lines, what they hold, and what a reader makes of them. Pure.

pub mod blob;
pub(crate) mod hash_chain;
pub mod record;
pub mod scan;
