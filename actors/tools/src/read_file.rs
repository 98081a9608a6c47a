//! `read_file`: the text of a file, or an image.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use playhouse_protocol::{Cancel, Content, EffectClass, ToolContext, ToolError, ToolResult};
use serde_json::{Value, json};

use crate::files::{blocking, number, path_in, unusable};
use crate::tool::Tool;

/// The most text that is returned.
const MAX_TEXT: usize = 1_000_000;
/// The largest image that is returned.
const MAX_IMAGE: usize = 20_000_000;
/// How much is looked at to tell text from other things.
const SNIFF: usize = 8 * 1024;

/// Reads files.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadFile;

#[async_trait]
impl Tool for ReadFile {
    fn name(&self) -> &str {
        "read_file"
    }

    fn label(&self) -> &str {
        "Read file"
    }

    fn description(&self) -> &str {
        "Reads a text file of up to 1 MB, or an image (png, jpeg, gif, webp) of up to 20 MB. Relative paths start in \
         the working directory. `offset` and `limit` choose lines; with `limit`, larger text files can be read in \
         parts."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The file."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to read; 1 if not given."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read; all if not given."}
            },
            "required": ["path"],
            "additionalProperties": false
        })
    }

    fn effect(&self, _args: &Value) -> EffectClass {
        EffectClass::Read
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let (shown, path) = path_in(&args, None, &ctx)?;
        let lines = Lines { first: number(&args, "offset").unwrap_or(1).max(1), count: number(&args, "limit") };
        let cwd = ctx.cwd.clone();
        blocking(&ctx.cancel, move |cancel| read(&shown, &path, &cwd, lines, cancel)).await
    }
}

#[derive(Clone, Copy)]
struct Lines {
    first: u64,
    count: Option<u64>,
}

fn read(shown: &str, path: &Path, cwd: &Path, lines: Lines, cancel: &Cancel) -> Result<ToolResult, ToolError> {
    let mut file = open(shown, path, cwd)?;
    let mut start = Vec::new();
    let sniffed = (&mut file).take(SNIFF as u64).read_to_end(&mut start);
    sniffed.map_err(|error| unusable(shown, cwd, &error))?;
    if let Some(mime_type) = image_type(&start) {
        let bytes = read_up_to(&mut file, start, MAX_IMAGE, cancel).map_err(|stop| match stop {
            Stop::TooLarge => too_large(shown, "image", "20 MB", "make it smaller first"),
            Stop::Cancelled => ToolError::Cancelled,
            Stop::Failed(error) => unusable(shown, cwd, &error),
        })?;
        let content = vec![Content::Image { data: STANDARD.encode(&bytes), mime_type: mime_type.to_owned() }];
        return Ok(ToolResult { content, details: json!({"bytes": bytes.len()}), child_loop_id: None });
    }
    if start.contains(&0) {
        let text = format!("`{shown}` is a binary file, neither text nor an image; use bash with a fitting program");
        return Err(ToolError::Failed(text));
    }
    let chosen = choose(&mut file, start, lines, cancel).map_err(|stop| match stop {
        Stop::TooLarge => too_large(shown, "text", "1 MB", "read parts of it with `offset` and `limit`"),
        Stop::Cancelled => ToolError::Cancelled,
        Stop::Failed(error) => unusable(shown, cwd, &error),
    })?;
    let text = String::from_utf8_lossy(&chosen).into_owned();
    let details = json!({"bytes": chosen.len(), "lossy": text.as_bytes() != chosen.as_slice()});
    Ok(ToolResult { details, ..ToolResult::text(text) })
}

/// Opens a regular file and nothing else: what is no file might never answer.
fn open(shown: &str, path: &Path, cwd: &Path) -> Result<File, ToolError> {
    let no_wait = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path);
    let file = file.map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => is_directory(shown),
        _ => unusable(shown, cwd, &error),
    })?;
    let meta = file.metadata().map_err(|error| unusable(shown, cwd, &error))?;
    if meta.is_dir() {
        return Err(is_directory(shown));
    }
    if !meta.is_file() {
        return Err(ToolError::Failed(format!("`{shown}` is not a regular file (a pipe, a device or a socket)")));
    }
    Ok(file)
}

fn is_directory(shown: &str) -> ToolError {
    ToolError::Failed(format!("`{shown}` is a directory; use list_files"))
}

fn too_large(shown: &str, kind: &str, most: &str, advice: &str) -> ToolError {
    ToolError::Failed(format!("`{shown}` is more than {most} of {kind}; {advice}"))
}

/// The kind of image, by its first bytes.
fn image_type(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

enum Stop {
    TooLarge,
    Cancelled,
    Failed(std::io::Error),
}

/// Calls `take` with each piece of the file until it says it has enough.
fn pieces(
    file: &mut File,
    start: Vec<u8>,
    cancel: &Cancel,
    mut take: impl FnMut(&[u8]) -> Result<More, Stop>,
) -> Result<(), Stop> {
    let mut buffer = start;
    let mut count = buffer.len();
    loop {
        if cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        if let More::Enough = take(buffer.get(..count).unwrap_or_default())? {
            return Ok(());
        }
        buffer.resize(64 * 1024, 0);
        count = match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) => return Err(Stop::Failed(error)),
        };
    }
}

enum More {
    Wanted,
    Enough,
}

fn read_up_to(file: &mut File, start: Vec<u8>, most: usize, cancel: &Cancel) -> Result<Vec<u8>, Stop> {
    let mut all = Vec::new();
    pieces(file, start, cancel, |piece| {
        if all.len() + piece.len() > most {
            return Err(Stop::TooLarge);
        }
        all.extend_from_slice(piece);
        Ok(More::Wanted)
    })?;
    Ok(all)
}

/// The lines asked for, with their ends.
fn choose(file: &mut File, start: Vec<u8>, lines: Lines, cancel: &Cancel) -> Result<Vec<u8>, Stop> {
    let end = lines.count.map(|count| lines.first.saturating_add(count));
    let mut line = 1_u64;
    let mut chosen = Vec::new();
    pieces(file, start, cancel, |piece| {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if end.is_some_and(|end| line >= end) {
                return Ok(More::Enough);
            }
            if line >= lines.first {
                if chosen.len() + part.len() > MAX_TEXT {
                    return Err(Stop::TooLarge);
                }
                chosen.extend_from_slice(part);
            }
            line += u64::from(part.ends_with(b"\n"));
        }
        Ok(More::Wanted)
    })?;
    Ok(chosen)
}
