//! A child as its supervisor is told about it: how it starts, when it comes back, how it is ended.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ractor::ActorCell;
use tokio::time::timeout;

use crate::restart::{Exit, RestartBudget, RestartPolicy};

/// How long a killed actor may take to be gone before it is given up.
pub const KILL_GRACE: Duration = Duration::from_secs(5);

/// The stop reason by which an actor tells its supervisor that it has finished: see [`finish`].
const FINISHED: &str = "finished";

/// Starts one incarnation, linked to the given supervisor, and returns it.
///
/// It runs in a task of its own, so it may wait, fail or panic; the task is dropped when the child is stopped
/// before it is up. It links exactly one actor, as its last step: what it linked before being dropped lives on
/// unsupervised until the supervisor ends.
pub type StartFn = Arc<dyn Fn(ActorCell) -> BoxFuture<'static, Result<ActorCell, String>> + Send + Sync>;

/// Makes a [`StartFn`] of an async closure.
pub fn start_fn<F, W>(start: F) -> StartFn
where
    F: Fn(ActorCell) -> W + Send + Sync + 'static,
    W: Future<Output = Result<ActorCell, String>> + Send + 'static,
{
    Arc::new(move |supervisor| Box::pin(start(supervisor)))
}

/// How a child is ended when someone asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// At once: its handler is dropped at the next await, what is queued is lost, no `post_stop`.
    Kill,
    /// After the message it works on, with `post_stop`; killed when that takes longer.
    Stop(Duration),
    /// After every message it already has, with `post_stop`; killed when that takes longer.
    Drain(Duration),
}

/// What a supervisor needs to know about a child.
#[derive(Clone)]
pub struct ChildSpec {
    /// Its address, unique under its supervisor and in the tree.
    pub id: Arc<str>,
    /// The kind of actor, for the tree.
    pub kind: &'static str,
    /// Which exits it comes back from.
    pub restart: RestartPolicy,
    /// How often it may come back, and after which pauses.
    pub budget: RestartBudget,
    /// How it is ended.
    pub shutdown: Shutdown,
    /// How it is started, each time.
    pub start: StartFn,
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("restart", &self.restart)
            .field("budget", &self.budget)
            .field("shutdown", &self.shutdown)
            .finish_non_exhaustive()
    }
}

/// Ends an actor from within because it has nothing left to do: its supervisor sees [`Exit::Normal`].
///
/// Any other stop that the supervisor was not asked for counts as a failure: from outside, nobody can tell an
/// actor that stopped itself from one that was stopped by mistake.
pub fn finish(myself: &ActorCell) {
    myself.stop(Some(FINISHED.to_owned()));
}

/// Reads the reason of a terminated actor that nobody asked to end.
pub(crate) fn unasked(reason: Option<&str>) -> Exit {
    match reason {
        Some(FINISHED) => Exit::Normal,
        Some("killed" | "actor_task_cancelled") => Exit::Killed,
        Some(reason) => Exit::Failed(format!("it was stopped without its supervisor being asked ({reason})")),
        None => Exit::Failed("it was stopped without its supervisor being asked".to_owned()),
    }
}

/// Whether an actor that was asked to end did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndResult {
    Gone,
    /// Killed, and still there after [`KILL_GRACE`]: it blocks its thread.
    Stuck,
}

/// Ends an actor and waits until it is gone.
pub(crate) async fn end(cell: ActorCell, how: Shutdown) -> EndResult {
    let patience = match how {
        Shutdown::Kill => None,
        Shutdown::Stop(patience) => {
            cell.stop(None);
            Some(patience)
        }
        Shutdown::Drain(patience) => {
            // It fails for an actor that is dead already, which the wait below finds out.
            let _ = cell.drain();
            Some(patience)
        }
    };
    if let Some(patience) = patience
        && timeout(patience, cell.wait(None)).await.is_ok()
    {
        return EndResult::Gone;
    }
    cell.kill();
    match timeout(KILL_GRACE, cell.wait(None)).await {
        Ok(_) => EndResult::Gone,
        Err(_) => EndResult::Stuck,
    }
}
