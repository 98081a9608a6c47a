//! What a model is shown: the assembly of a request, and estimates of its size.
//!
//! Pure: no I/O, no clock, no runtime. A request shares the conversation it is made from; the only copy is made
//! when a conversation has a hole, which happens after a crash or a damaged journal. This crate never changes a
//! conversation, and never sends one.

mod repair;
mod tokens;

pub use repair::{NO_RESULT, repaired};
pub use tokens::{estimate_message, estimate_request, estimate_tokens};
