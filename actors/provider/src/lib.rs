//! Provider connections: the actors that carry one agent's request to a language model and its answer back.
//!
//! I/O: HTTP to model services ([`OpenAi`]), reading a script file ([`Scripted`]), timers. The decoders
//! ([`sse`], [`chat`]) and the encoder are pure: bytes in, events out, no clock.
//!
//! A [`Connection`] owns the one retry layer and holds one `Call` per attempt; deltas go from the call
//! straight to the agent, one batch at a time ([`StreamSink`]).
//!
//! This crate never takes a cut stream for a finished response, never sends a request that its retry layer did not
//! count, never runs a tool, never writes to disk, and never shows a key in an error, a log or `Debug` output.

mod call;
pub mod chat;
mod connection;
mod encode;
mod http;
mod openai;
mod provider;
mod registry;
mod script;
mod scripted;
mod sink;
pub mod sse;
mod stencil;
#[cfg(test)]
mod testing;
mod transcripts;
mod wire;

pub use connection::{Connection, ConnectionArgs, ConnectionMsg};
pub use openai::{Deadlines, OpenAi, OpenAiOptions};
pub use provider::StreamProvider;
pub use registry::{SetupError, connection_key, provider_for};
pub use script::{Failure, Reply, ScriptError, Step, ToolStep, When};
pub use scripted::Scripted;
pub use sink::StreamSink;

/// The kinds of actors in this crate, each with the names of its messages: what a test can strike.
pub const ACTORS: [(&str, &[&str]); 2] = [("connection", &ConnectionMsg::NAMES), call::KIND];
