//! What the file tools share: paths, and blocking work that stops when nobody waits for it.

use std::io;
use std::path::{Path, PathBuf};

use playhouse_protocol::{Cancel, ToolContext, ToolError};
use serde_json::Value;

/// The path that an argument names, seen from the working directory.
pub(crate) fn path_in(args: &Value, default: Option<&str>, ctx: &ToolContext) -> Result<(String, PathBuf), ToolError> {
    let given = args.get("path").and_then(Value::as_str).or(default);
    match given {
        Some(text) if text.contains('\0') => {
            Err(ToolError::InvalidArgs("`path` contains a NUL character; leave it out".to_owned()))
        }
        Some(text) => Ok((text.to_owned(), ctx.cwd.join(text))),
        None => Err(ToolError::InvalidArgs("`path` is missing".to_owned())),
    }
}

/// An argument that is a whole number.
pub(crate) fn number(args: &Value, name: &str) -> Option<u64> {
    args.get(name).and_then(Value::as_u64)
}

/// Why a path cannot be used.
pub(crate) fn unusable(path: &str, cwd: &Path, error: &io::Error) -> ToolError {
    let text = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("`{path}` does not exist in `{}`; look with list_files", cwd.display())
        }
        io::ErrorKind::PermissionDenied => format!("`{path}` may not be read: permission denied"),
        io::ErrorKind::NotADirectory => format!("`{path}` goes through something that is not a directory"),
        _ => format!("`{path}` could not be read: {error}"),
    };
    ToolError::Failed(text)
}

/// Runs blocking work off the runtime. Its signal fires when the call is cancelled and when the waiting future is
/// dropped, so that no thread works on for nobody.
pub(crate) async fn blocking<T: Send + 'static>(
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
    match tokio::task::spawn_blocking(move || work(&seen)).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::Cancelled),
        },
    }
}
