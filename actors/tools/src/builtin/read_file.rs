//! `read_file`: the text of a file, or an image.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::time::SystemTime;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use blake3::Hasher;
use playhouse_protocol::{Cancel, Content, EffectClass, SessionId, Subject, ToolContext, ToolError, ToolResult};
use serde_json::{Value, json};

use crate::files::cache::{self, ContentCache};
use crate::files::paths::{FileKey, Root, open_regular};
use crate::files::versions::{MAX_HASHED, Version};
use crate::files::{AskedPath, Use, number, path_of};
use crate::output::{self, OutputName, OutputRoom};
use crate::run::blocking;
use crate::runtime::ToolRuntime;
use crate::summary::CallSummary;
use crate::text::continued;
use crate::tool::Tool;

/// The most text that is returned.
const MAX_TEXT: usize = 1_000_000;
/// The largest image that is returned.
const MAX_IMAGE: usize = 20_000_000;
/// How much is looked at to tell text from other things.
const SNIFF: u64 = 8 * 1024;
/// Files up to this size are read at once, and may be kept for the next who reads them.
const SMALL: u64 = 1 << 20;

/// `read_file`: a text, in lines or bytes, or an image.
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
         directory. `offset` and `limit` choose lines; with `limit`, larger text files can be read in parts, and so \
         can the whole of a long output, by the path that stands where its middle was left out (`output:/…`)."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The file."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to read; 1 if not given."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read; all if not given."},
                "byte_offset": {
                    "type": "integer", "minimum": 0,
                    "description": "Instead of lines, where they are very long: how many bytes to skip."
                },
                "byte_limit": {"type": "integer", "minimum": 1, "maximum": MAX_TEXT, "description": "How many bytes to read."}
            },
            "required": ["path"],
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
        let mut told = CallSummary::of(args).counting(result, "bytes", "bytes");
        let is_image = |result: &ToolResult| result.content.iter().any(|block| matches!(block, Content::Image { .. }));
        if !told.ending.is_empty() && result.is_some_and(is_image) {
            told.ending.insert_str(0, "image, ");
        }
        told
    }

    /// Whether there is such a file. A kept output is only looked for when it is read.
    async fn check(&self, args: &Value, ctx: &ToolContext) -> Result<(), ToolError> {
        let asked = AskedPath::new(args, None, ctx)?;
        AskedRange::new(args)?;
        if OutputName::of(&asked.shown).is_some() {
            return Ok(());
        }
        blocking(&ctx.cancel, move |_| opened(&asked).map(|_| ())).await
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let asked = AskedPath::new(&args, None, &ctx)?;
        let part = AskedRange::new(&args)?;
        if let Some(name) = OutputName::of(&asked.shown) {
            let (name, room) = (name?, output::here());
            return blocking(&ctx.cancel, move |cancel| read_output(&asked, &name, room.as_deref(), part, cancel))
                .await;
        }
        let session = ctx.session_id.clone();
        blocking(&ctx.cancel, move |cancel| read(&asked, part, &session, cancel)).await
    }
}

/// Which part of a text is asked for.
#[derive(Clone, Copy)]
enum AskedRange {
    /// From a line on, so many or all.
    Lines { first: u64, count: Option<u64> },
    /// From a byte on, so many.
    Bytes { first: u64, count: u64 },
}

impl AskedRange {
    fn new(args: &Value) -> Result<Self, ToolError> {
        let [line, lines, byte, bytes] =
            ["offset", "limit", "byte_offset", "byte_limit"].map(|name| number(args, name));
        match (line.or(lines), byte.or(bytes)) {
            (Some(_), Some(_)) => {
                let text =
                    "choose lines with `offset` and `limit`, or bytes with `byte_offset` and `byte_limit`, not both";
                Err(ToolError::InvalidArgs(text.to_owned()))
            }
            (_, Some(_)) => {
                let count = bytes.unwrap_or(MAX_TEXT as u64).min(MAX_TEXT as u64);
                Ok(Self::Bytes { first: byte.unwrap_or_default(), count })
            }
            (_, None) => Ok(Self::Lines { first: line.unwrap_or(1).max(1), count: lines }),
        }
    }
}

/// What was read: the content and what is said about it.
type Told = (Content, Value);

/// The file, and which one it is.
fn opened(asked: &AskedPath) -> Result<(FileKey, File), ToolError> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::IsADirectory => asked.is_directory(),
        _ => asked.unusable(Use::Read, &error),
    };
    let spot = Root::open(asked)?.spot().map_err(failed)?;
    let key = spot.key().map_err(failed)?;
    Ok((key, open_regular(asked, &spot, Use::Read)?))
}

fn read(asked: &AskedPath, part: AskedRange, session: &SessionId, cancel: &Cancel) -> Result<ToolResult, ToolError> {
    let failed = |error: std::io::Error| asked.unusable(Use::Read, &error);
    let (key, mut file) = opened(asked)?;
    // Taken before the first byte: what changes later is a change.
    let looked = SystemTime::now();
    let marks = Version::marks(&file).map_err(failed)?;
    let files = ToolRuntime::here().files;
    let mut is_cached = false;
    let ((content, mut details), version) =
        match whole(&files.cache, &key, &mut file, marks.clone(), looked).map_err(failed)? {
            ReadStart::Cached(all) => {
                is_cached = true;
                (told(asked, &all.bytes, part)?, all.version)
            }
            ReadStart::Whole(all) => (told(asked, &all.bytes, part)?, all.version),
            ReadStart::Beginning(start) => large(asked, file, start, marks, part, cancel)?,
        };
    if let Some(details) = details.as_object_mut() {
        details.insert("version".to_owned(), json!(version.to_string()));
        if is_cached {
            details.insert("cached".to_owned(), json!(true));
        }
    }
    files.versions.remember(session, &key, version);
    Ok(ToolResult { content: vec![content], details, child_loop_id: None })
}

/// How a file begins.
enum ReadStart {
    /// With all there is, as it was read before.
    Cached(cache::Content),
    /// With all there is.
    Whole(cache::Content),
    /// With this, and more.
    Beginning(Vec<u8>),
}

/// All of a file that is small, from the cache if it is there; of another its beginning.
fn whole(
    cache: &ContentCache,
    key: &FileKey,
    file: &mut File,
    marks: Version,
    looked: SystemTime,
) -> std::io::Result<ReadStart> {
    let size = marks.bytes();
    if size <= SMALL
        && let Some(content) = cache.get(key, &marks)
    {
        return Ok(ReadStart::Cached(content));
    }
    let most = if size <= SMALL { size + 1 } else { SNIFF };
    let mut start = Vec::with_capacity(usize::try_from(most).unwrap_or_default());
    file.take(most).read_to_end(&mut start)?;
    if start.len() as u64 == most {
        return Ok(ReadStart::Beginning(start));
    }
    let content = cache::Content { version: Version::of(&start), bytes: start.into() };
    if Version::marks(file)? == marks {
        cache.put(key, marks, looked, &content);
    }
    Ok(ReadStart::Whole(content))
}

/// A small file, as it is told.
fn told(asked: &AskedPath, all: &[u8], part: AskedRange) -> Result<Told, ToolError> {
    match image_type(all) {
        Some(mime_type) => Ok(image(all, mime_type)),
        None if memchr::memchr(0, all.get(..SNIFF as usize).unwrap_or(all)).is_some() => Err(is_binary(asked)),
        None => {
            let chosen = part.of(all);
            if chosen.len() > MAX_TEXT {
                return Err(too_long(asked));
            }
            Ok(text(Cow::Borrowed(chosen)))
        }
    }
}

/// A file that is not small, piece by piece.
fn large(
    asked: &AskedPath,
    file: File,
    start: Vec<u8>,
    marks: Version,
    part: AskedRange,
    cancel: &Cancel,
) -> Result<(Told, Version), ToolError> {
    let image_type = image_type(&start);
    if image_type.is_none() && memchr::memchr(0, start.get(..SNIFF as usize).unwrap_or(&start)).is_some() {
        return Err(is_binary(asked));
    }
    let hash = (marks.bytes() <= MAX_HASHED || image_type.is_some()).then(Hasher::new);
    let mut pieces = Pieces { file, start, cancel, hash };
    let told = match image_type {
        Some(mime_type) => {
            image(&pieces.up_to(MAX_IMAGE).map_err(|stop| stop.error(asked, too_large_image))?, mime_type)
        }
        None => text(Cow::Owned(pieces.part(part).map_err(|stop| stop.error(asked, too_long))?)),
    };
    let version = match pieces.hash {
        Some(hash) => Version::hashed(&hash),
        None => marks,
    };
    Ok((told, version))
}

/// An output of this session: any bytes, as text.
fn read_output(
    asked: &AskedPath,
    name: &OutputName,
    room: Option<&OutputRoom>,
    part: AskedRange,
    cancel: &Cancel,
) -> Result<ToolResult, ToolError> {
    let file = room.and_then(|room| room.open(name).ok()).ok_or_else(|| output::unknown(&asked.shown))?;
    let mut pieces = Pieces { file, start: Vec::new(), cancel, hash: None };
    let (content, details) = text(Cow::Owned(pieces.part(part).map_err(|stop| stop.error(asked, too_long))?));
    Ok(ToolResult { content: vec![content], details, child_loop_id: None })
}

fn image(bytes: &[u8], mime_type: &str) -> Told {
    let content = Content::Image { data: STANDARD.encode(bytes), mime_type: mime_type.to_owned() };
    (content, json!({"bytes": bytes.len()}))
}

/// The bytes of a PNG, JPEG, GIF or WebP as a model is shown it; `None` if they are something else.
pub fn picture(bytes: &[u8]) -> Option<Content> {
    image_type(bytes).map(|mime_type| image(bytes, mime_type).0)
}

fn text(chosen: Cow<'_, [u8]>) -> Told {
    let bytes = chosen.len();
    let (text, lossy) = match String::from_utf8(chosen.into_owned()) {
        Ok(text) => (text, false),
        Err(other) => (String::from_utf8_lossy(other.as_bytes()).into_owned(), true),
    };
    (Content::text(text), json!({"bytes": bytes, "lossy": lossy}))
}

impl AskedRange {
    /// This part of a text.
    fn of(self, all: &[u8]) -> &[u8] {
        let at = |first: u64| usize::try_from(first).unwrap_or(usize::MAX).min(all.len());
        let range = match self {
            Self::Lines { first, count } => {
                let mut ends = memchr::memchr_iter(b'\n', all).map(|end| end + 1);
                let skip = usize::try_from(first - 1).unwrap_or(usize::MAX);
                let start = if skip == 0 { Some(0) } else { ends.nth(skip - 1) };
                let end =
                    count.and_then(|count| ends.nth(usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(1)));
                start.unwrap_or(all.len())..end.unwrap_or(all.len())
            }
            Self::Bytes { first, count } => {
                let (from, to) = (at(first), at(first.saturating_add(count)));
                let later = |at: usize| at + if at == 0 { 0 } else { continued(all.get(at..).unwrap_or_default()) };
                later(from)..later(to)
            }
        };
        all.get(range).unwrap_or_default()
    }
}

pub(crate) fn is_binary(asked: &AskedPath) -> ToolError {
    let text = format!("`{}` is a binary file, neither text nor an image", asked.shown);
    ToolError::Failed(format!("{text}; use bash with a fitting program"))
}

fn too_long(asked: &AskedPath) -> ToolError {
    let advice = "read parts of it with `offset` and `limit`, or, where lines are long, `byte_offset` and `byte_limit`";
    ToolError::Failed(format!("`{}` is more than 1 MB of text; {advice}", asked.shown))
}

fn too_large_image(asked: &AskedPath) -> ToolError {
    ToolError::Failed(format!("`{}` is more than 20 MB of image; make it smaller first", asked.shown))
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

impl Stop {
    fn error(self, asked: &AskedPath, too_large: fn(&AskedPath) -> ToolError) -> ToolError {
        match self {
            Self::TooLarge => too_large(asked),
            Self::Cancelled => ToolError::Cancelled,
            Self::Failed(error) => asked.unusable(Use::Read, &error),
        }
    }
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
    hash: Option<Hasher>,
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

    /// The whole file, if that is at most `most` bytes long.
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

    /// The part asked for.
    fn part(&mut self, part: AskedRange) -> Result<Vec<u8>, Stop> {
        match part {
            AskedRange::Lines { first, count } => self.lines(first, count.map(|count| first.saturating_add(count))),
            AskedRange::Bytes { first, count } => self.bytes(first, first.saturating_add(count)),
        }
    }

    /// Lines with their ends.
    fn lines(&mut self, first: u64, end: Option<u64>) -> Result<Vec<u8>, Stop> {
        let mut line = 1_u64;
        let mut chosen = Vec::new();
        self.each(|piece| {
            if line >= first && end.is_none() {
                if chosen.len() + piece.len() > MAX_TEXT {
                    return Err(Stop::TooLarge);
                }
                chosen.extend_from_slice(piece);
                return Ok(More::Wanted);
            }
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                if end.is_some_and(|end| line >= end) {
                    return Ok(More::Enough);
                }
                if line >= first {
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

    /// Bytes, as characters: one belongs to the part that it begins in, so that parts join.
    fn bytes(&mut self, first: u64, end: u64) -> Result<Vec<u8>, Stop> {
        // What may finish the last character.
        const MORE: u64 = 3;
        let mut at = 0_u64;
        let mut chosen = Vec::new();
        self.each(|piece| {
            let within = |at: u64, piece_at: u64| usize::try_from(at.saturating_sub(piece_at)).unwrap_or(usize::MAX);
            let (from, to) = (within(first, at), within(end.saturating_add(MORE), at).min(piece.len()));
            chosen.extend_from_slice(piece.get(from..to).unwrap_or_default());
            at += piece.len() as u64;
            Ok(if at >= end.saturating_add(MORE) { More::Enough } else { More::Wanted })
        })?;
        let part = AskedRange::Bytes { first: u64::from(first > 0), count: end - first };
        // The byte before it, whatever it was, tells that this is not the beginning.
        let all = if first > 0 { [b"x".as_slice(), &chosen].concat() } else { chosen };
        Ok(part.of(&all).to_vec())
    }
}
