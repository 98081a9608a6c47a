//! Tool-executor actors, the [`Tool`] trait, process control and the built-in tools.
//!
//! An agent vets a call with its [`ToolSet`] (pure), then has its [`Executor`] run it: one actor per call, with a
//! deadline, cancellation, a panic that stays inside, and exactly one answer. A process that a tool starts is a
//! [`Process`]: nothing of it outlives the call, however it tried to get away (see [`mark`]).
//!
//! I/O: the built-in tools read and write files beneath the working directory (see `beneath.rs`) and start processes;
//! long outputs are kept in a folder of their session (see `output.rs`); one thread of this crate, there only while it
//! has work, looks for processes that survived. It sends no signal to a process that does not bear its marks, never
//! waits for "any child", never fetches a schema, and never decides whether a call is allowed: it only says when to ask.

mod bash;
mod beneath;
mod blocking;
mod cache;
mod claims;
mod edit_file;
mod executor;
mod files;
mod in_order;
mod leftovers;
mod list_files;
pub mod mark;
mod outbox;
mod output;
mod passing;
pub mod policy;
mod proc_table;
mod process;
mod read_file;
mod reap;
mod replace;
mod run;
pub mod sandbox;
mod search;
mod secrets;
pub mod shell;
mod spool;
mod summary;
mod sweeps;
mod text;
mod tool;
mod toolset;
mod versions;
mod write_file;

use std::sync::Arc;

pub use bash::Bash;
pub use blocking::{TOOL_THREADS, blocking, tool_threads};
pub use edit_file::EditFile;
pub use executor::{ABANDON, Executor, ExecutorArgs, ExecutorMsg, ExecutorState, GRACE, Internal, ToolJob, abandoned};
pub use list_files::ListFiles;
pub use mark::{Mark, is_secret};
pub use output::OutputRoom;
pub use passing::Outputs;
pub use process::{Process, settled};
pub use read_file::ReadFile;
pub use reap::{adopt_orphans, kill_leftovers};
pub use sandbox::{Network, ProcessLimits, Sandbox, SandboxError, SandboxRules};
pub use search::Search;
pub use secrets::secrets_here;
pub use summary::summary;
pub use text::{Capture, edit_distance};
pub use tool::{DEFAULT_TIMEOUT, Tool};
pub use toolset::{ToolSet, ToolSetError, UnknownTool, Vetted};
pub use write_file::WriteFile;

/// The tools an agent has unless it is told otherwise: `read_file`, `list_files`, `search`, `edit_file`, `write_file`
/// and `bash`.
pub fn default_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ReadFile),
        Arc::new(ListFiles),
        Arc::new(Search),
        Arc::new(EditFile),
        Arc::new(WriteFile),
        Arc::new(Bash::default()),
    ]
}

/// The kinds of actors in this crate, each with the names of its messages: what a test can strike.
pub const ACTORS: [(&str, &[&str]); 2] = [("executor", &ExecutorMsg::NAMES), ("tool run", &run::RunMsg::NAMES)];
