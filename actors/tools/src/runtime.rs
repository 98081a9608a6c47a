//! What the tools of one house share, and what a running tool knows of its house.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use playhouse_protocol::{Secrets, ToolContext, ToolError, ToolResult};
use playhouse_supervision::Threads;
use serde_json::Value;

use crate::files::Files;
use crate::output::OutputRoom;
use crate::policy::off_limits::OffLimits;
use crate::process::Processes;
use crate::process::mark::{Mark, nonce};
use crate::process::sweeps::Sweeps;
use crate::sandbox::{Confined, Sandbox};
use crate::tool::Tool;

/// How many threads the tools of a house can block.
pub const TOOL_THREADS: usize = 256;

/// What the tools of one house share: threads for work that blocks, what is known of files, and what ends processes. A
/// house makes one and gives it to its executors; clones are the same. Nothing of it outlives the house for more than
/// the few seconds that processes take to die.
///
/// Only claims on files are not in it: those are the process's, so that agents of two houses cannot overwrite each
/// other's changes either.
#[derive(Clone, Debug)]
pub struct ToolRuntime {
    pub(crate) house: Arc<str>,
    pub(crate) threads: Threads,
    pub(crate) files: Arc<Files>,
    pub(crate) processes: Processes,
    abandoned: Arc<AtomicU64>,
}

/// For tools that run outside of any executor, in this process.
static NO_HOUSE: LazyLock<ToolRuntime> =
    LazyLock::new(|| ToolRuntime::new(&format!("none-{}-{:08x}", std::process::id(), nonce() >> 32)));

impl ToolRuntime {
    /// For the house of this name. Processes are marked with it, by which they are found when the house is dead.
    pub fn new(house: &str) -> Self {
        Self {
            house: house.into(),
            threads: Threads::new("playhouse-tools", TOOL_THREADS),
            files: Arc::default(),
            processes: Processes::default(),
            abandoned: Arc::default(),
        }
    }

    /// That of the house whose tool is running here.
    pub(crate) fn here() -> Self {
        SCOPE.try_with(|scope| scope.runtime.clone()).unwrap_or_else(|_| NO_HOUSE.clone())
    }

    /// Calls a tool without an executor: it is neither vetted, nor timed, nor ended by anyone but the caller. Its
    /// processes and files are kept in the sandbox all the same; the built-in tools refuse to work without one.
    pub async fn call(
        &self,
        tool: &dyn Tool,
        sandbox: Sandbox,
        args: Value,
        ctx: ToolContext,
    ) -> Result<ToolResult, ToolError> {
        let scope = Scope {
            confined: Arc::new(Confined::new(sandbox, ctx.cwd.clone(), self)),
            runtime: self.clone(),
            sweeps: Sweeps::default(),
            secrets: Secrets::default(),
            off_limits: OffLimits::default(),
            output: None,
        };
        SCOPE.scope(scope, tool.execute(args, ctx)).await
    }

    /// The house's name.
    pub fn house(&self) -> &str {
        &self.house
    }

    /// A new mark, for what the house runs outside of its tools.
    pub fn mark(&self) -> Mark {
        Mark::new(&self.house, self.processes.clone())
    }

    /// Resolves when no search for surviving processes is under way: after this, whatever was dropped or killed is dead.
    pub async fn settled(&self) {
        self.processes.sweeps.settled().await;
    }

    /// How many tools were given up because they blocked their thread.
    pub fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    pub(crate) fn abandon(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }
}

tokio::task_local! {
    pub(crate) static SCOPE: Scope;
}

/// For whom a tool runs; known to everything its future does, not to tasks it spawns.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) runtime: ToolRuntime,
    /// The searches for processes that this call started.
    pub(crate) sweeps: Sweeps,
    pub(crate) secrets: Secrets,
    pub(crate) confined: Arc<Confined>,
    /// What rules forbid this tool to open.
    pub(crate) off_limits: OffLimits,
    /// Where the session's long outputs are kept; without it they are cut.
    pub(crate) output: Option<Arc<OutputRoom>>,
}

impl Scope {
    /// What the call that runs here is kept in. Where no call is known nothing is known to be permitted: an error.
    pub(crate) fn confined() -> Result<Arc<Confined>, ToolError> {
        Self::limits().map(|(confined, _)| confined)
    }

    /// The same, and what rules forbid its tool to open.
    pub(crate) fn limits() -> Result<(Arc<Confined>, OffLimits), ToolError> {
        SCOPE.try_with(|scope| (scope.confined.clone(), scope.off_limits.clone())).map_err(|_| {
            let text = "it is not known what is kept from tools here: the built-in tools work in an executor, in the \
                        future that it runs, or by `ToolRuntime::call`";
            ToolError::Failed(text.to_owned())
        })
    }
}
