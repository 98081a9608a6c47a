//! `edit_file`: exact replacements in a file, all of them or none.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use memchr::memmem;
use playhouse_protocol::secrets::placeholders;
use playhouse_protocol::{Cancel, EffectClass, Level, SessionId, Subject, ToolContext, ToolError, ToolResult};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::builtin::read_file::is_binary;
use crate::files::claims::{Attempt, Turn, in_turn};
use crate::files::paths::{FileKey, Root, Spot, open_regular};
use crate::files::replace::{Old, changed, let_go, replace};
use crate::files::versions::{MAX_HASHED, Version};
use crate::files::{AskedPath, Use, path_of, text};
use crate::run::blocking;
use crate::runtime::ToolRuntime;
use crate::secrets::refuse_placeholders;
use crate::summary::CallSummary;
use crate::text::cut;
use crate::tool::Tool;

const MAX_EDITS: usize = 100;
/// The most characters of a diff that are kept.
const MAX_DIFF: usize = 64 * 1024;
/// How long the shortest diff is looked for; then a longer one does.
const DIFF_TIME: Duration = Duration::from_millis(100);

/// `edit_file`: replaces texts in a file, each of which must be there exactly once.
#[derive(Clone, Copy, Debug, Default)]
pub struct EditFile;

#[async_trait]
impl Tool for EditFile {
    fn name(&self) -> &str {
        "edit_file"
    }

    fn label(&self) -> &str {
        "Edit file"
    }

    fn description(&self) -> &str {
        "Replaces parts of a text file. Each `old_text` must occur exactly once in the file as it is now, to the last \
         space and line break; take in the lines around it until it does. Several edits must not touch each other; \
         either all are made or none. A file that has changed since you read it must be read again."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The file, in the working directory."},
                "edits": {
                    "type": "array", "minItems": 1, "maxItems": MAX_EDITS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "old_text": {"type": "string", "minLength": 1, "description": "What is there."},
                            "new_text": {"type": "string", "description": "What is to be there."}
                        },
                        "required": ["old_text", "new_text"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["path", "edits"],
            "additionalProperties": false
        })
    }

    /// A second time would edit what the first one left: `a` to `aa` twice is `aaa`.
    fn effect(&self, _args: &Value) -> EffectClass {
        EffectClass::Once
    }

    fn needs_permission(&self, _args: &Value) -> Option<String> {
        Some("edit a file".to_owned())
    }

    fn level(&self, _args: &Value) -> Level {
        Level::Write
    }

    fn subject(&self, args: &Value) -> Subject {
        path_of(args)
    }

    fn summary(&self, args: &Value, result: Option<&ToolResult>) -> CallSummary {
        CallSummary::of(args).counting(result, "edits", "edits")
    }

    /// Finds every text, and makes no edit. Who else changes the file meanwhile is not waited for.
    async fn check(&self, args: &Value, ctx: &ToolContext) -> Result<(), ToolError> {
        let (asked, edits, session) = (AskedPath::new(args, None, ctx)?, edits(args)?, ctx.session_id.clone());
        blocking(&ctx.cancel, move |_| {
            let (spot, file) = spot(&asked)?;
            Change::new(&asked, &edits, &spot, ToolRuntime::here().files.versions.remembered(&session, &file))?;
            Ok(())
        })
        .await
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let (asked, edits, session) = (AskedPath::new(&args, None, &ctx)?, edits(&args)?, ctx.session_id.clone());
        let shown = asked.shown.clone();
        in_turn(&ctx, &shown, move |turn, cancel| edit(&asked, &edits, &session, turn, cancel)).await
    }
}

/// The edits that a call wants.
fn edits(args: &Value) -> Result<Vec<Edit>, ToolError> {
    let given = args.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let edits: Vec<Edit> = given
        .iter()
        .map(|edit| Edit { old: text(edit, "old_text").to_owned(), new: text(edit, "new_text").to_owned() })
        .collect();
    edits.iter().try_for_each(|edit| refuse_placeholders(&edit.new, &edit.old))?;
    Ok(edits)
}

#[derive(Debug)]
struct Edit {
    old: String,
    new: String,
}

/// Where the file is, and which one.
fn spot(asked: &AskedPath) -> Result<(Spot, FileKey), ToolError> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::IsADirectory => asked.is_directory(),
        _ => asked.unusable(Use::Write, &error),
    };
    let spot = Root::open(asked)?.spot_to_write().map_err(failed)?;
    let file = spot.key().map_err(failed)?;
    Ok((spot, file))
}

/// A file as it is, and as it is to be.
struct Change {
    old: File,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Change {
    /// Reads the file and finds every edit in it; `known` is the version that the agent has read, if it has.
    fn new(asked: &AskedPath, edits: &[Edit], spot: &Spot, known: Option<Version>) -> Result<Self, ToolError> {
        let mut old = open_regular(asked, spot, Use::Write)?;
        let before = all_of(asked, &mut old)?;
        let is_known = match &known {
            Some(known @ Version::Content { .. }) => *known == Version::of(&before),
            Some(known @ Version::Marks { .. }) => {
                *known == Version::marks(&old).map_err(|error| asked.unusable(Use::Write, &error))?
            }
            // Never read: that the text is there, once, is all there is to check.
            None => true,
        };
        if !is_known {
            return Err(changed(asked));
        }
        let after = apply(&before, edits).map_err(|reason| {
            let text = format!("`{}` was not edited: {reason}", asked.shown);
            ToolError::Failed(text)
        })?;
        if after.len() as u64 > MAX_HASHED {
            return Err(too_large(asked));
        }
        Ok(Self { old, before, after })
    }
}

fn edit(
    asked: &AskedPath,
    edits: &[Edit],
    session: &SessionId,
    turn: Turn,
    cancel: &Cancel,
) -> Result<Attempt<ToolResult>, ToolError> {
    let (spot, file) = spot(asked)?;
    let Some(claim) = turn.take(&file) else { return Ok(Attempt::Taken(file)) };
    let files = claim.files.clone();
    let known = files.versions.remembered(session, &file);
    let is_known = known.is_some();
    let Change { old, before, after } = Change::new(asked, edits, &spot, known)?;
    replace(asked, &spot, Old::File(&old), &after, &claim, cancel)?;
    let_go(old, &files);
    // Others need not wait for the diff.
    drop(claim);
    let version = Version::of(&after);
    let (diff, truncated) = diff(&asked.shown, &before, &after);
    let details = json!({
        "edits": edits.len(), "bytes": after.len(), "version": version.to_string(), "diff": diff, "truncated": truncated
    });
    // Who edits a file without having read it has not seen the rest of it by that.
    if is_known {
        files.versions.remember(session, &file, version);
    }
    let count = if edits.len() == 1 { "1 edit".to_owned() } else { format!("{} edits", edits.len()) };
    let text = format!("{count} made in `{}`", asked.shown);
    Ok(Attempt::Done(ToolResult { details, ..ToolResult::text(text) }))
}

fn all_of(asked: &AskedPath, file: &mut File) -> Result<Vec<u8>, ToolError> {
    let size = file.metadata().map(|meta| meta.len()).unwrap_or_default().min(MAX_HASHED);
    let mut all = Vec::with_capacity(usize::try_from(size + 1).unwrap_or_default());
    let read = file.take(MAX_HASHED + 1).read_to_end(&mut all);
    read.map_err(|error| asked.unusable(Use::Read, &error))?;
    if all.len() as u64 > MAX_HASHED {
        return Err(too_large(asked));
    }
    if memchr::memchr(0, &all).is_some() {
        return Err(is_binary(asked));
    }
    Ok(all)
}

fn too_large(asked: &AskedPath) -> ToolError {
    let text = format!("`{}` is more than 10 MB, or would be; edit it with bash and a fitting program", asked.shown);
    ToolError::Failed(text)
}

/// The bytes with every edit made, each of them found in the bytes as they were.
fn apply(before: &[u8], edits: &[Edit]) -> Result<Vec<u8>, String> {
    let mut places: Vec<(Range<usize>, usize, &Edit)> = Vec::new();
    for (number, edit) in (1..).zip(edits) {
        let at = find(before, edit).map_err(|reason| format!("in edit {number}, {reason}"))?;
        places.push((at, number, edit));
    }
    places.sort_by_key(|(at, ..)| at.start);
    let mut after = Vec::with_capacity(before.len());
    let (mut done, mut last) = (0, 0);
    for (at, number, edit) in places {
        let Some(kept) = before.get(done..at.start) else {
            let (first, second) = (number.min(last), number.max(last));
            return Err(format!("edits {first} and {second} touch the same text; make them one"));
        };
        after.extend_from_slice(kept);
        after.extend_from_slice(edit.new.as_bytes());
        (done, last) = (at.end, number);
    }
    after.extend_from_slice(before.get(done..).unwrap_or_default());
    Ok(after)
}

/// The one place of an edit's old text.
fn find(before: &[u8], edit: &Edit) -> Result<Range<usize>, String> {
    let old = edit.old.as_bytes();
    if edit.old == edit.new {
        return Err("`old_text` and `new_text` are the same; leave it out".to_owned());
    }
    let finder = memmem::Finder::new(old);
    let Some(at) = finder.find(before) else {
        return Err(missing(before, old).to_owned());
    };
    // From the next byte, not from the end: places that overlap are two as well.
    let mut more = 0_usize;
    let mut from = at + 1;
    while let Some(next) = before.get(from..).and_then(|rest| finder.find(rest)) {
        more += 1;
        from += next + 1;
        if more == 99 {
            break;
        }
    }
    match more {
        0 => Ok(at..at + old.len()),
        99 => Err("`old_text` occurs at least 100 times; take in lines around it until it is unique".to_owned()),
        more => Err(format!("`old_text` occurs {} times; take in lines around it until it is unique", more + 1)),
    }
}

fn missing(before: &[u8], old: &[u8]) -> &'static str {
    let has_crlf = |bytes: &[u8]| memmem::find(bytes, b"\r\n").is_some();
    if before.is_empty() {
        "there is nothing to find, the file is empty; use write_file"
    } else if old.contains(&b'\n') && has_crlf(before) && !has_crlf(old) {
        "`old_text` does not occur; the file's lines end in \\r\\n, so end those of the edit in \\r\\n too"
    } else if std::str::from_utf8(old).is_ok_and(|old| placeholders(old).next().is_some()) {
        "`old_text` does not occur; it holds a placeholder for a secret that you are not shown, so take other lines"
    } else {
        "`old_text` does not occur; read the file and copy the text exactly"
    }
}

/// What was changed, for people and programs, and whether the diff was cut.
fn diff(path: &str, before: &[u8], after: &[u8]) -> (String, bool) {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(before.as_ref(), after.as_ref());
    let text = diff.unified_diff().context_radius(3).header(path, path).to_string();
    let short = cut(&text, MAX_DIFF);
    let is_cut = short.len() < text.len();
    (short, is_cut)
}
