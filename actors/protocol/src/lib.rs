//! Every type and message that crosses a Playhouse mailbox.
//!
//! Pure: no tokio, no I/O, no clock, no randomness. Everything here can be serialised, except the
//! three handles a running tool or call needs ([`Cancel`], [`Credit`], [`ToolContext`]), what the program gives its tools
//! ([`State`], [`States`]) and what must not be seen ([`Secret`], [`Secrets`], [`Vault`]).
//!
//! The rooms: `ids` names things, `message` is the conversation, `event` is what observers see, `command` is what an agent
//! is told, [`entry`] is what the journal holds and [`chain`] how its entries follow each other, `call` and `tool` are the
//! talk with providers and tools, `commit` that with the writer, `config` and `model` say how an agent is to behave,
//! [`presets`] and [`catalogue`] which services and models are known by name,
//! `permission` and `sandbox` what it may do, `state` what its tools have of the program, [`secrets`] and `mask` keep secrets out of texts. Of a room that is not
//! public, everything stands here.

mod call;
mod cancel;
pub mod catalogue;
pub mod chain;
mod command;
mod commit;
pub mod compat;
mod config;
pub mod entry;
mod event;
mod ids;
mod lock;
mod mask;
mod message;
mod message_count;
mod model;
mod model_name;
mod opened;
mod permission;
pub mod presets;
mod price;
mod run;
mod sandbox;
pub mod secrets;
mod state;
mod tool;
pub mod transcript;
mod usage;

pub use call::{
    CallReport, FailureKind, ProviderError, Purpose, ResponseFormat, StreamConfig, StreamDelta, StreamEvent,
};
pub use cancel::{Cancel, Cancelled, Credit};
pub use command::{Command, Op, PlanDecision};
pub use commit::{Batch, CommitReport, Fate, Refusal};
pub use compat::OpenAiCompat;
pub use config::{
    CacheConfig, CacheStrategy, ExecutionLimits, ExecutionTracker, LimitHit, Mode, PermissionMode, QueueMode,
    RetryConfig, ToolExecutionStrategy,
};
pub use entry::{Class, Durability, Entry, EntryBody, Opened};
pub use event::{AgentEvent, Event};
pub use ids::{
    AgentId, CallId, EntryId, EventId, InputId, InvalidAgentId, InvalidEventId, InvalidSessionId, LoopId, MessageId,
    NodeId, PermissionId, Seq, SessionId, ToolCallId, TurnId,
};
pub use lock::lock;
pub use mask::mask_patterns;
pub use message::{
    AgentMessage, Content, ExtensionMessage, ExtensionRole, History, LlmMessage, Message, Point, StopReason,
};
pub use message_count::MessageCount;
pub use model::{ApiProtocol, ModelConfig, ReasoningSummary, ThinkingLevel};
pub use model_name::ModelNameError;
pub use permission::{
    Access, GrantScope, Level, Passage, PermissionAnswer, PermissionDecision, Question, Restrictions, Ruling, Stance,
    Subject,
};
pub use price::{Cost, Prices};
pub use run::{ContinuationKind, LoopConfigSnapshot, Outcome, TurnTrigger};
pub use sandbox::{Network, SandboxBounds, SandboxMode};
pub use secrets::{Redactor, Secret, Secrets, Vault};
pub use state::{State, StateType, States};
pub use tool::{EffectClass, ProgressFn, ToolContext, ToolDefinition, ToolError, ToolReport, ToolResult, ToolUpdateFn};
pub use usage::Usage;
