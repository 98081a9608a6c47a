//! What the protocols share: the way of a request to a service, and of its answer back.

pub(crate) mod credentials;
pub(crate) mod decoder;
pub(crate) mod draft;
pub(crate) mod failure;
pub(crate) mod http;
pub(crate) mod messages;
pub(crate) mod names;
pub(crate) mod schema;
pub(crate) mod service;
pub(crate) mod setup;
pub(crate) mod sse;
pub(crate) mod transcripts;
pub(crate) mod transport;
