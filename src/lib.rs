//! Playhouse runs language-model agents as supervised actors: many at once, for a long time, without losing work.
//!
//! An agent is a pure machine inside an actor, and the journal is the run: what must survive is journaled before it is
//! acted on, and a crash, a restart and a resumed session are the same thing: fold the journal, go on.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use playhouse::prelude::*;
//!
//! let house = House::in_memory().await?;
//! let model = Scripted::new([Step::text("Hello from the stage.")]);
//! let agent = house.agent().provider_override(model).spawn().await?;
//! assert_eq!(agent.prompt("Say hello.").await?.text(), "Hello from the stage.");
//! house.shutdown(std::time::Duration::ZERO).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! The rooms: [`House`] is the front; [`journal`] prints what it did; [`agent`], [`session`], [`provider`], [`tools`], [`context`],
//! [`supervision`] and [`protocol`] are backstage. With the feature `config` there are also `config` and `from_config`, which
//! make a house of a file; the feature `cli` is the program. Both are on unless `default-features = false` is said.

mod builder;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "config")]
pub mod from_config;
pub mod house;
pub mod journal;
mod loops;
mod nearest;
pub mod text;
mod tool_names;
mod typed;

pub use builder::{AgentBuilder, SpawnError};
pub use house::{House, HouseBuilder, OpenError, ResumeError};
pub use loops::{AgentContext, AgentLoopConfig, LoopControl, LoopError, agent_loop, agent_loop_continue};
#[doc(hidden)]
pub use typed::private as __private;
pub use typed::tool;

pub use playhouse_agent as agent;
pub use playhouse_context as context;
pub use playhouse_protocol as protocol;
pub use playhouse_provider as provider;
pub use playhouse_session as session;
pub use playhouse_supervision as supervision;
pub use playhouse_tools as tools;
/// What [`agent::AgentHandle::prompt_as`] and [`tool`] make schemas with: `#[derive(JsonSchema)]` and
/// `#[schemars(crate = "playhouse::schemars")]`.
pub use schemars;
/// What [`agent::AgentHandle::prompt_as`] and [`tool`] decode with: `#[derive(Deserialize)]` and
/// `#[serde(crate = "playhouse::serde")]`.
pub use serde;

/// What most programs need.
pub mod prelude {
    pub use crate::agent::{
        Agent, AgentHandle, AgentOutput, Approvals, CommandHook, Decision, Definition, Ending, FilterVerdict, Follow,
        HandleError, HookEvent, Hooks, InputError, InputFilter, Matcher, PermissionPolicy, PolicyRequest, RunReport,
        RunStream, SubAgentTool, Subscription,
    };
    pub use crate::protocol::{
        AgentEvent, AgentMessage, Content, ContinuationKind, Durability, EffectClass, Event, ExecutionLimits, Level,
        Message, Mode, ModelConfig, Outcome, PermissionDecision, PermissionMode, QueueMode, Restrictions, RetryConfig,
        Ruling, SandboxBounds, SandboxMode, Secret, State, StreamDelta, Subject, ToolContext, ToolError,
        ToolExecutionStrategy, ToolResult, Usage,
    };
    pub use crate::provider::{Scripted, Step, StreamProvider};
    pub use crate::tools::{Tool, ToolSet, default_tools};
    pub use crate::{AgentBuilder, House, tool};
    pub use async_trait::async_trait;
    pub use serde_json::{Value, json};
}

/// The programs in the README and the overview are compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../docs/overview.md")]
mod overview {}
