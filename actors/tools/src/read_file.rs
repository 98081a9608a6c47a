//! `read_file`: the text of a file, or an image.

use std::fs::File;
use std::io::{ErrorKind, Read};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use playhouse_protocol::{Cancel, Content, EffectClass, SessionId, ToolContext, ToolError, ToolResult};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::beneath::{Root, open_regular};
use crate::files::{Asked, Use, blocking, number};
use crate::tool::Tool;
use crate::versions::{MAX_HASHED, Version, remember};

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
        "Reads a text file of up to 1 MB, or an image (png, jpeg, gif, webp) of up to 20 MB, in the working \
         directory. `offset` and `limit` choose lines; with `limit`, larger text files can be read in \
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
        let asked = Asked::new(&args, None, &ctx)?;
        let lines = Lines { first: number(&args, "offset").unwrap_or(1).max(1), count: number(&args, "limit") };
        let session = ctx.session_id.clone();
        blocking(&ctx.cancel, move |cancel| read(&asked, lines, &session, cancel)).await
    }
}

#[derive(Clone, Copy)]
struct Lines {
    first: u64,
    count: Option<u64>,
}

fn read(asked: &Asked, lines: Lines, session: &SessionId, cancel: &Cancel) -> Result<ToolResult, ToolError> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::IsADirectory => asked.is_directory(),
        _ => asked.unusable(Use::Read, &error),
    };
    let spot = Root::open(asked)?.spot().map_err(failed)?;
    let mut file = open_regular(asked, &spot, Use::Read)?;
    // Taken before the first byte: what changes later is a change.
    let marks = Version::marks(&file).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    (&mut file).take(SNIFF as u64).read_to_end(&mut start).map_err(failed)?;
    let image = image_type(&start);
    if image.is_none() && start.contains(&0) {
        return Err(is_binary(asked));
    }
    let hash = (size <= MAX_HASHED || image.is_some()).then(Sha256::new);
    let mut pieces = Pieces { file, start, cancel, hash, count: 0 };
    let (content, mut details) = match image {
        Some(mime_type) => {
            let bytes = pieces.up_to(MAX_IMAGE).map_err(|stop| match stop {
                Stop::TooLarge => too_large(&asked.shown, "image", "20 MB", "make it smaller first"),
                Stop::Cancelled => ToolError::Cancelled,
                Stop::Failed(error) => failed(error),
            })?;
            let content = Content::Image { data: STANDARD.encode(&bytes), mime_type: mime_type.to_owned() };
            (content, json!({"bytes": bytes.len()}))
        }
        None => {
            let chosen = pieces.lines(lines).map_err(|stop| match stop {
                Stop::TooLarge => too_large(&asked.shown, "text", "1 MB", "read parts of it with `offset` and `limit`"),
                Stop::Cancelled => ToolError::Cancelled,
                Stop::Failed(error) => failed(error),
            })?;
            let text = String::from_utf8_lossy(&chosen).into_owned();
            let details = json!({"bytes": chosen.len(), "lossy": text.as_bytes() != chosen.as_slice()});
            (Content::text(text), details)
        }
    };
    let version = match pieces.hash {
        Some(hash) => Version::hashed(pieces.count, hash),
        None => marks,
    };
    if let Some(details) = details.as_object_mut() {
        details.insert("version".to_owned(), json!(version.to_string()));
    }
    remember(session, &spot.key().map_err(failed)?, version);
    Ok(ToolResult { content: vec![content], details, child_loop_id: None })
}

pub(crate) fn is_binary(asked: &Asked) -> ToolError {
    let text = format!("`{}` is a binary file, neither text nor an image", asked.shown);
    ToolError::Failed(format!("{text}; use bash with a fitting program"))
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

enum More {
    Wanted,
    Enough,
}

/// A file that is read piece by piece, the first of which was read already.
struct Pieces<'a> {
    file: File,
    start: Vec<u8>,
    cancel: &'a Cancel,
    /// Of all that is read; with it, reading goes on to the end.
    hash: Option<Sha256>,
    count: u64,
}

impl Pieces<'_> {
    /// Calls `take` with each piece until it says it has enough.
    fn each(&mut self, mut take: impl FnMut(&[u8]) -> Result<More, Stop>) -> Result<(), Stop> {
        let mut buffer = std::mem::take(&mut self.start);
        let mut count = buffer.len();
        let mut more = More::Wanted;
        loop {
            if self.cancel.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            let piece = buffer.get(..count).unwrap_or_default();
            if let Some(hash) = &mut self.hash {
                hash.update(piece);
                self.count += piece.len() as u64;
            }
            if let More::Wanted = more {
                more = take(piece)?;
            }
            if matches!(more, More::Enough) && self.hash.is_none() {
                return Ok(());
            }
            buffer.resize(64 * 1024, 0);
            count = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                Err(error) => return Err(Stop::Failed(error)),
            };
        }
    }

    /// All of it.
    fn up_to(&mut self, most: usize) -> Result<Vec<u8>, Stop> {
        let mut all = Vec::new();
        self.each(|piece| {
            if all.len() + piece.len() > most {
                return Err(Stop::TooLarge);
            }
            all.extend_from_slice(piece);
            Ok(More::Wanted)
        })?;
        Ok(all)
    }

    /// The lines asked for, with their ends.
    fn lines(&mut self, lines: Lines) -> Result<Vec<u8>, Stop> {
        let end = lines.count.map(|count| lines.first.saturating_add(count));
        let mut line = 1_u64;
        let mut chosen = Vec::new();
        self.each(|piece| {
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
}
