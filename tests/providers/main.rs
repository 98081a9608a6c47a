//! Services as a house meets them: many agents on one key, failures, other models, other credentials, forms.
//!
//! The services are in memory, so that time can be the test's own: nothing here waits for a clock on the wall.

mod canary;
mod fallback;
mod gate;
mod pictures;
mod replay;
mod service;
mod structured;

#[path = "../support/kit.rs"]
mod kit;
