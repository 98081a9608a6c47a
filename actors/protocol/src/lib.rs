//! Every type and message that crosses a Playhouse mailbox.
//!
//! Pure: no tokio, no I/O, no clock, no randomness. Everything here can be serialised, except the
//! three handles a running tool or call needs ([`Cancel`], [`Credit`], [`ToolContext`]) and what must not be seen
//! ([`Secret`], [`Secrets`], [`Vault`]).
//!
//! The rooms: [`ids`] names things, [`message`] is the conversation, [`event`] is what observers see,
//! [`command`] is what an agent is told, [`entry`] is what the journal holds and [`chain`] how its entries follow each other, [`call`] and [`tool`] are the talk with providers and tools,
//! [`config`] and [`model`] say how an agent is to behave, [`secrets`] and [`mask`] keep secrets out of texts.

pub mod call;
pub mod cancel;
pub mod chain;
pub mod command;
pub mod commit;
pub mod compat;
pub mod config;
pub mod entry;
pub mod event;
pub mod ids;
mod lock;
pub mod mask;
pub mod message;
pub mod message_count;
pub mod model;
mod opened;
pub mod permission;
pub mod point;
pub mod price;
pub mod run;
pub mod sandbox;
pub mod secrets;
pub mod tool;
pub mod transcript;
pub mod usage;

pub use call::{
    CallReport, FailureKind, ProviderError, Purpose, ResponseFormat, StreamConfig, StreamDelta, StreamEvent,
};
pub use cancel::{Cancel, Credit};
pub use command::{Command, Op, PlanDecision};
pub use commit::{Batch, CommitReport, Fate, Refusal};
pub use compat::OpenAiCompat;
pub use config::{
    CacheConfig, CacheStrategy, ContextConfig, ExecutionLimits, ExecutionTracker, LimitHit, Mode, PermissionMode,
    QueueMode, RetryConfig, ToolExecutionStrategy,
};
pub use entry::{Class, Durability, Entry, EntryBody, Opened};
pub use event::{AgentEvent, Event};
pub use ids::{
    AgentId, CallId, EntryId, EventId, InputId, LoopId, MessageId, NodeId, PermissionId, Seq, SessionId, ToolCallId,
    TurnId,
};
pub use lock::lock;
pub use mask::mask_patterns;
pub use message::{AgentMessage, Content, ExtensionMessage, History, LlmMessage, Message, StopReason};
pub use message_count::MessageCount;
pub use model::{ApiProtocol, ModelConfig, ThinkingLevel};
pub use permission::{
    Access, GrantScope, Level, Passage, PermissionAnswer, PermissionDecision, Question, Restrictions, Ruling, Stance,
    Subject,
};
pub use point::Point;
pub use price::{Cost, Prices};
pub use run::{ContinuationKind, LoopConfigSnapshot, Outcome, TurnTrigger};
pub use sandbox::{Network, SandboxBounds, SandboxMode};
pub use secrets::{Redactor, Secret, Secrets, Vault};
pub use tool::{EffectClass, ToolContext, ToolDefinition, ToolError, ToolReport, ToolResult};
pub use usage::Usage;
