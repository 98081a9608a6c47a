//! `list_files`: what is in a directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use async_trait::async_trait;
use cap_std::fs::Dir;
use playhouse_protocol::{Cancel, EffectClass, Subject, ToolContext, ToolError, ToolResult};
use serde_json::{Value, json};

use crate::files::paths::{Root, open_folder};
use crate::files::{AskedPath, Use, number, path_of};
use crate::run::blocking;
use crate::summary::CallSummary;
use crate::tool::Tool;

const DEFAULT_LIMIT: usize = 500;
const MAX_LIMIT: usize = 5_000;
const MAX_DEPTH: u64 = 20;

/// `list_files`: what a directory holds, sorted by name, down to a depth.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListFiles;

#[async_trait]
impl Tool for ListFiles {
    fn name(&self) -> &str {
        "list_files"
    }

    fn label(&self) -> &str {
        "List files"
    }

    fn description(&self) -> &str {
        "Lists a directory, sorted by name; directories end in `/`, symbolic links in `@` and are not followed. \
         `depth` looks into subdirectories. Without `path` it lists the working directory; it lists nothing outside of it."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The directory; the working directory if not given."},
                "depth": {
                    "type": "integer", "minimum": 1, "maximum": MAX_DEPTH,
                    "description": "How many levels to list; 1 if not given."
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MAX_LIMIT,
                    "description": "The most entries to list; 500 if not given."
                }
            },
            "additionalProperties": false
        })
    }

    fn effect(&self, _args: &Value) -> EffectClass {
        EffectClass::Read
    }

    fn subject(&self, args: &Value) -> Subject {
        path_of(args)
    }

    fn summary(&self, args: &Value, result: Option<&ToolResult>) -> CallSummary {
        CallSummary::of(args).counting(result, "entries", "entries")
    }

    async fn check(&self, args: &Value, ctx: &ToolContext) -> Result<(), ToolError> {
        let asked = AskedPath::new(args, Some("."), ctx)?;
        blocking(&ctx.cancel, move |_| opened(&asked).map(|_| ())).await
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let asked = AskedPath::new(&args, Some("."), &ctx)?;
        let depth = number(&args, "depth").unwrap_or(1).clamp(1, MAX_DEPTH);
        let limit = number(&args, "limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT);
        blocking(&ctx.cancel, move |cancel| {
            let (root, dir) = opened(&asked)?;
            let mut listing = Listing { limit: limit.clamp(1, MAX_LIMIT), lines: Vec::new(), omitted: 0 };
            listing.walk(&root, &dir, "", depth, cancel).map_err(|stop| match stop {
                Stop::Cancelled => ToolError::Cancelled,
                Stop::Failed(error) => asked.unusable(Use::Read, &error),
            })?;
            Ok(listing.result())
        })
        .await
    }
}

/// The directory, and the working directory that it lies in.
fn opened(asked: &AskedPath) -> Result<(Root, Dir), ToolError> {
    let root = Root::open(asked)?;
    let dir = root.dir.open_dir(&root.path).map_err(|error| match root.dir.metadata(&root.path) {
        Ok(found) if !found.is_dir() => {
            ToolError::Failed(format!("`{}` is not a directory; use read_file", asked.shown))
        }
        Ok(_) | Err(_) => asked.unusable(Use::Read, &error),
    })?;
    root.guard(&dir, Path::new("")).map_err(|error| asked.unusable(Use::Read, &error))?;
    Ok((root, dir))
}

enum Stop {
    Cancelled,
    Failed(std::io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Directory,
    Link,
    Other,
}

struct Listing {
    limit: usize,
    lines: Vec<String>,
    /// Entries seen and not listed; what is below them was not even seen.
    omitted: usize,
}

impl Listing {
    fn walk(&mut self, root: &Root, dir: &Dir, prefix: &str, depth: u64, cancel: &Cancel) -> Result<(), Stop> {
        let room = self.limit.saturating_sub(self.lines.len());
        // The smallest names that have room: a directory of millions is not held in memory.
        let mut first: BTreeMap<OsString, EntryKind> = BTreeMap::new();
        for entry in dir.entries().map_err(Stop::Failed)? {
            if cancel.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            let Ok(entry) = entry else { continue };
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_dir() => EntryKind::Directory,
                Ok(kind) if kind.is_symlink() => EntryKind::Link,
                Ok(_) | Err(_) => EntryKind::Other,
            };
            first.insert(entry.file_name(), kind);
            if first.len() > room {
                first.pop_last();
                self.omitted += 1;
            }
        }
        for (name, kind) in first {
            if self.lines.len() >= self.limit {
                self.omitted += 1;
                continue;
            }
            let mark = match kind {
                EntryKind::Directory => "/",
                EntryKind::Link => "@",
                EntryKind::Other => "",
            };
            // A name may hold anything but `/`; a line break in it must not look like two entries.
            let shown = name.to_string_lossy().replace(['\n', '\r'], "\u{FFFD}");
            let line = format!("{prefix}{shown}{mark}");
            self.lines.push(line.clone());
            if kind == EntryKind::Directory && depth > 1 {
                let below = open_folder(dir, &name).and_then(|below| root.guard(&below, Path::new("")).map(|()| below));
                match below.map_err(Stop::Failed).and_then(|below| self.walk(root, &below, &line, depth - 1, cancel)) {
                    Ok(()) => {}
                    Err(Stop::Cancelled) => return Err(Stop::Cancelled),
                    Err(Stop::Failed(error)) => {
                        if let Some(last) = self.lines.last_mut() {
                            last.push_str(&format!(" (could not be read: {error})"));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn result(self) -> ToolResult {
        let details = json!({"entries": self.lines.len(), "truncated": self.omitted > 0});
        let mut text = if self.lines.is_empty() { "(empty)".to_owned() } else { self.lines.join("\n") };
        if self.omitted > 0 {
            text.push_str(&format!("\n… at least {} more entries; choose a `path` or raise `limit`", self.omitted));
        }
        ToolResult { details, ..ToolResult::text(text) }
    }
}
