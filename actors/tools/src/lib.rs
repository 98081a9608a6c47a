//! Tool-executor actors, the [`Tool`] trait, process control and the built-in tools.
//!
//! An agent vets a call with its [`ToolSet`] (pure), then has its [`Executor`] run it: one actor per call, with a
//! deadline, cancellation, a panic that stays inside, and exactly one answer. A process that a tool starts is a
//! [`Process`]: nothing of it outlives the call, however it tried to get away (see [`mark`]).
//!
//! I/O: the built-in tools read and write files beneath the working directory (see `files`) and start processes;
//! long outputs are kept in a folder of their session (see `output`); one thread of this crate, there only while it
//! has work, looks for processes that survived. It sends no signal to a process that does not bear its marks, never
//! waits for "any child", never fetches a schema, and never decides whether a call is allowed: it only says when to ask.

mod builtin;
mod files;
mod output;
pub mod policy;
mod process;
mod programs;
mod run;
mod runtime;
pub mod sandbox;
mod secrets;
mod summary;
mod text;
mod tool;
mod toolset;

pub use builtin::{Bash, EditFile, ListFiles, ReadFile, Search, WriteFile, default_tools, picture};
pub use output::{OutputRoom, Outputs};
pub use playhouse_shell as shell;
pub use process::mark::{self, Mark, is_secret};
pub use process::{Process, adopt_orphans, kill_leftovers};
pub use run::{
    ABANDON, ACTORS, Executor, ExecutorArgs, ExecutorMsg, ExecutorState, GRACE, Internal, ToolJob, blocking,
};
pub use runtime::{TOOL_THREADS, ToolRuntime};
pub use sandbox::{Network, ProcessLimits, Sandbox, SandboxError, SandboxRules};
pub use secrets::secrets_here;
pub use summary::{CallSummary, summary};
pub use text::Capture;
pub use tool::{DEFAULT_TIMEOUT, Tool};
pub use toolset::{ToolSet, ToolSetError, Vetted};
