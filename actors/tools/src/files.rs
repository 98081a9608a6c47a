//! What the file tools share: their arguments and their words for what went wrong.

pub(crate) mod cache;
pub(crate) mod claims;
pub(crate) mod guarded;
mod leftovers;
pub(crate) mod paths;
pub(crate) mod replace;
pub(crate) mod versions;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use playhouse_protocol::{Subject, ToolContext, ToolError};
use serde_json::Value;

use cache::ContentCache;
use leftovers::CleanedFolders;
use versions::Versions;

use crate::policy::off_limits::OffLimits;
use crate::runtime::Scope;
use crate::sandbox::Confined;

/// What the file tools of one house know of files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) cache: ContentCache,
    pub(crate) versions: Versions,
    cleaned: CleanedFolders,
    closing: Arc<AtomicUsize>,
}

/// A path that a call names, and the folder it must stay beneath.
#[derive(Clone, Debug)]
pub(crate) struct AskedPath {
    /// As the call has it.
    pub(crate) shown: String,
    /// The working directory: where relative paths begin, and what no path leads out of.
    pub(crate) cwd: PathBuf,
    /// Says what is kept from tools. It travels with the path: a thread of its own does not know whose call it serves.
    pub(crate) confined: Arc<Confined>,
    /// What rules forbid the tool that was called.
    pub(crate) off_limits: OffLimits,
}

/// The path that a call names, for rules; the working directory if it names none.
pub(crate) fn path_of(args: &Value) -> Subject {
    Subject::Path(args.get("path").and_then(Value::as_str).unwrap_or(".").to_owned())
}

/// What was to be done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

impl AskedPath {
    /// The path that the arguments name.
    pub(crate) fn new(args: &Value, default: Option<&str>, ctx: &ToolContext) -> Result<Self, ToolError> {
        let given = args.get("path").and_then(Value::as_str).or(default);
        match given {
            Some(text) if text.contains('\0') => {
                Err(ToolError::InvalidArgs("`path` contains a NUL character; leave it out".to_owned()))
            }
            Some(text) => {
                let (confined, off_limits) = Scope::limits()?;
                Ok(Self { shown: text.to_owned(), cwd: ctx.cwd.clone(), confined, off_limits })
            }
            None => Err(ToolError::InvalidArgs("`path` is missing".to_owned())),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test(shown: &str, cwd: &std::path::Path) -> Self {
        let confined = Confined::new(Default::default(), cwd.to_owned(), &crate::ToolRuntime::here());
        let (shown, cwd, off_limits) = (shown.to_owned(), cwd.to_owned(), OffLimits::default());
        Self { shown, cwd, confined: Arc::new(confined), off_limits }
    }

    /// Why it cannot be used.
    pub(crate) fn unusable(&self, wanted: Use, error: &io::Error) -> ToolError {
        let (path, cwd) = (&self.shown, self.cwd.display());
        let done = match wanted {
            Use::Read => "read",
            Use::Write => "written",
        };
        let text = match error.kind() {
            io::ErrorKind::NotFound => format!("`{path}` does not exist in `{cwd}`; look with list_files"),
            // Only cap-std's own error has no number: the kernel's has.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => return self.outside(),
            io::ErrorKind::PermissionDenied => format!("`{path}` may not be {done}: permission denied"),
            io::ErrorKind::NotADirectory => format!("`{path}` goes through something that is not a directory"),
            _ => format!("`{path}` could not be {done}: {error}"),
        };
        ToolError::Failed(text)
    }

    /// That it is not beneath the working directory.
    pub(crate) fn outside(&self) -> ToolError {
        let text = format!("`{}` leads out of the working directory `{}`", self.shown, self.cwd.display());
        ToolError::Failed(format!("{text}; file tools work beneath it only"))
    }

    /// That it names an output of this session where a file is wanted.
    pub(crate) fn is_output(&self) -> ToolError {
        let text =
            format!("`{}` is the output of a call, which can only be read, with read_file and search", self.shown);
        ToolError::Failed(text)
    }

    /// That it is a directory where a file is wanted.
    pub(crate) fn is_directory(&self) -> ToolError {
        ToolError::Failed(format!("`{}` is a directory; use list_files", self.shown))
    }
}

/// An argument that is text; empty without it.
pub(crate) fn text<'a>(args: &'a Value, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// An argument that is a whole number.
pub(crate) fn number(args: &Value, name: &str) -> Option<u64> {
    args.get(name).and_then(Value::as_u64)
}
