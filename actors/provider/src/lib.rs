//! Provider connections: the actors that carry one agent's request to a language model and its answer back.
//!
//! I/O: HTTP to model services ([`Service`]), reading a script file ([`Scripted`]) or
//! credentials, recordings ([`Recorder`], [`Replayer`]), timers. The
//! protocols are pure: a turn in, a request out; bytes in, events out; no clock.
//!
//! A [`Connection`] owns the one retry layer and holds one task per attempt; deltas go from the call
//! straight to the agent, one batch at a time ([`StreamSink`]).
//!
//! This crate never takes a cut stream for a finished response, never sends a request that its retry layer did not
//! count, never runs a tool, writes nothing to disk but recordings, and never shows a key in an error, a log,
//! a recording or `Debug` output.

mod anthropic;
mod aws;
mod bedrock;
mod call;
pub mod chat;
mod connection;
mod gemini;
mod pictures;
mod provider;
mod record;
mod registry;
mod responses;
#[cfg(feature = "request-rules")]
pub mod rules;
mod scripted;
mod sink;
#[cfg(test)]
mod testing;
mod thinking;
mod wire;

pub use connection::{
    BreakerRules, Connection, ConnectionArgs, ConnectionMsg, ConnectionRules, ConnectionStatus, Lingering, Patience,
};
pub use pictures::is_whole_picture;
pub use playhouse_protocol::catalogue;
pub use playhouse_protocol::presets::{Access, PRESETS, Preset, model_named, preset};
pub use provider::StreamProvider;
pub use record::{RecordError, Recorder, Replayer};
pub use registry::{connection_key, decoder_for, provider_for};
pub use reqwest::header::HeaderMap;
pub use scripted::{Failure, Reply, ScriptError, Scripted, Step, ToolStep, When};
pub use sink::StreamSink;
pub use thinking::still_reasons;
pub use wire::credentials::Credentials;
pub use wire::decoder::{Decoder, Finish, Limits, Progress, Response};
pub use wire::http::HttpTransport;
pub use wire::service::{Deadlines, Service, ServiceOptions};
pub use wire::setup::{Answers, SetupError, Wiring, Wrap};
pub use wire::transport::{Body, HttpRequest, HttpResponse, Transport, TransportError, TransportErrorKind};

/// The kinds of actors in this crate, each with the names of its messages: what a test can strike.
pub const ACTORS: [(&str, &[&str]); 2] = [("connection", &ConnectionMsg::NAMES), call::KIND];
