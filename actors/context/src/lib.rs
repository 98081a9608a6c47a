//! What was said and what a model is shown of it: the record of a conversation, the view of it, and estimates of size.
//!
//! Pure: no I/O, no clock, no runtime. A request shares the conversation it is made from; the only copy is made
//! when a conversation has a hole, which happens after a crash or a damaged journal. This crate never sends one.

mod record;
mod repair;
mod tokens;
mod view;

pub use record::Record;
pub use repair::repaired;
pub use tokens::{estimate_request, estimate_tokens};
pub use view::{Holes, view};
