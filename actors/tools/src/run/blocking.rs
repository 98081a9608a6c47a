//! Work of tools that blocks a thread: their house has a bounded number of threads for it, and nothing else runs there.

use playhouse_protocol::{Cancel, ToolError};

use crate::runtime::{SCOPE, ToolRuntime};

/// Does a tool's work that blocks, on one of the [`TOOL_THREADS`](crate::TOOL_THREADS) that its house has for this. Use it instead of
/// `tokio::task::spawn_blocking`, whose threads the rest of the program needs.
///
/// The signal that `work` gets fires when the call is cancelled and when this future is dropped: look at it in between,
/// so that no thread works for nobody. Work that hangs keeps its thread. A call that finds all threads taken waits in
/// line; if its own time is over before it has one, its result is [`ToolError::NoThread`]. Called from a task that the
/// tool has spawned, it uses threads that all such tasks of the process share.
pub async fn blocking<T: Send + 'static>(
    cancel: &Cancel,
    work: impl FnOnce(&Cancel) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    struct CancelOnDrop(Cancel);
    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let signal = CancelOnDrop(cancel.child());
    let seen = signal.0.clone();
    let scope = SCOPE.try_with(Clone::clone).ok();
    let threads = ToolRuntime::here().threads;
    let work = move || match scope {
        Some(scope) => SCOPE.sync_scope(scope, || work(&seen)),
        None => work(&seen),
    };
    let permit = tokio::select! {
        biased;
        permit = threads.permit() => permit,
        () = cancel.cancelled() => return Err(ToolError::NoThread { threads: threads.most() }),
    };
    match permit.run(work).await {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
