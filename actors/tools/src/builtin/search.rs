//! `search`: lines that match a pattern, in a file or in a tree of them.
//!
//! The tree is walked by ripgrep's own walker, which goes by paths and follows no links. It only proposes files: each
//! is opened beneath the working directory's descriptor, so that nothing from outside is ever shown.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use cap_std::fs::{Metadata, OpenOptions, OpenOptionsExt};
use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use ignore::WalkBuilder;
use playhouse_protocol::{Cancel, EffectClass, Secrets, Subject, ToolContext, ToolError, ToolResult};
use serde_json::{Value, json};

use crate::builtin::parallel::{More, parallel};
use crate::files::paths::Root;
use crate::files::{AskedPath, Use, number, path_of, text};
use crate::output::{self, OutputName, OutputRoom};
use crate::run::blocking;
use crate::secrets::secrets_here;
use crate::summary::CallSummary;
use crate::text::cut;
use crate::tool::Tool;

const DEFAULT_RESULTS: usize = 100;
const MAX_RESULTS: usize = 1_000;
/// The most characters of a line that are shown.
const MAX_LINE: usize = 400;
/// The most text that is shown.
const MAX_TEXT: usize = 100_000;
/// How many files a thread looks into at a time.
const PARCEL: usize = 16;
/// The longest line that is looked at; a file with a longer one is passed over and counted.
const MAX_HEAP: usize = 8 * 1024 * 1024;

/// `search`: lines that match a regular expression.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search;

#[async_trait]
impl Tool for Search {
    fn name(&self) -> &str {
        "search"
    }

    fn label(&self) -> &str {
        "Search"
    }

    fn description(&self) -> &str {
        "Finds lines that match a regular expression (Rust's syntax), in a file or in all files of a directory, as \
         `path:line: text`. Binary files, hidden files, and what .gitignore names are passed over, unless `path` is \
         that very file or directory; it can also be the whole of a long output (`output:/…`)."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "description": "The regular expression."},
                "path": {
                    "type": "string", "minLength": 1,
                    "description": "A file or directory; the working directory if not given."
                },
                "glob": {
                    "type": "string", "minLength": 1,
                    "description": "Only files like this: `*.rs` by name, `src/**/*.rs` by path."
                },
                "case_insensitive": {"type": "boolean", "description": "Whether case does not matter; it does if not given."},
                "max_results": {
                    "type": "integer", "minimum": 1, "maximum": MAX_RESULTS,
                    "description": "The most lines to show; 100 if not given."
                }
            },
            "required": ["pattern"],
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
        let about = text(args, "pattern").to_owned();
        CallSummary { about, ..CallSummary::default() }.counting(result, "matches", "matches")
    }

    /// Whether the pattern can be read and the place is there. A kept output is only looked for when it is searched.
    async fn check(&self, args: &Value, ctx: &ToolContext) -> Result<(), ToolError> {
        let asked = AskedPath::new(args, Some("."), ctx)?;
        patterns(args)?;
        if OutputName::of(&asked.shown).is_some() {
            return Ok(());
        }
        blocking(&ctx.cancel, move |_| start(&asked).map(|_| ())).await
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let asked = AskedPath::new(&args, Some("."), &ctx)?;
        let (matcher, glob) = patterns(&args)?;
        let most = number(&args, "max_results").and_then(|most| usize::try_from(most).ok()).unwrap_or(DEFAULT_RESULTS);
        let most = most.clamp(1, MAX_RESULTS);
        let secrets = secrets_here();
        let found = FileMatches { most, lines: Vec::new(), bytes: 0, files: 0, unreadable: 0, is_cut: false, secrets };
        if let Some(name) = OutputName::of(&asked.shown) {
            let (name, room) = (name?, output::here());
            let look = move |cancel: &Cancel| search_output(&asked, &name, room.as_deref(), &matcher, found, cancel);
            return blocking(&ctx.cancel, look).await;
        }
        blocking(&ctx.cancel, move |cancel| search(&asked, &matcher, glob.as_ref(), found, cancel)).await
    }
}

/// What to look for, and in which files.
fn patterns(args: &Value) -> Result<(RegexMatcher, Option<Glob>), ToolError> {
    let ignores_case = args.get("case_insensitive").and_then(Value::as_bool).unwrap_or_default();
    let mut builder = RegexMatcherBuilder::new();
    let matcher = builder.case_insensitive(ignores_case).multi_line(true).crlf(true).build(text(args, "pattern"));
    let matcher = matcher.map_err(|error| ToolError::InvalidArgs(cut(&format!("`pattern`: {error}"), 1_000)))?;
    let glob = args.get("glob").and_then(Value::as_str).map(Glob::new).transpose()?;
    Ok((matcher, glob))
}

/// Which files to look into, by name or by path.
#[derive(Debug)]
struct Glob {
    matcher: GlobMatcher,
    is_path: bool,
}

impl Glob {
    fn new(glob: &str) -> Result<Self, ToolError> {
        let built = GlobBuilder::new(glob.trim_start_matches("./")).literal_separator(true).build();
        let built = built.map_err(|error| ToolError::InvalidArgs(cut(&format!("`glob`: {error}"), 1_000)))?;
        Ok(Self { matcher: built.compile_matcher(), is_path: glob.contains('/') })
    }

    /// A path counts from the working directory and from the directory that is searched.
    fn takes(&self, path: &Path, below: &Path) -> bool {
        match (self.is_path, path.file_name()) {
            (true, _) => self.matcher.is_match(path) || self.matcher.is_match(below),
            (false, Some(name)) => self.matcher.is_match(name),
            (false, None) => false,
        }
    }
}

#[derive(Debug)]
struct FileMatches {
    most: usize,
    lines: Vec<String>,
    bytes: usize,
    files: usize,
    /// Files that could not be read, or not to their end.
    unreadable: usize,
    is_cut: bool,
    /// Taken out before a line is cut.
    secrets: Secrets,
}

/// Where the search begins. Opened once to see that it is there and beneath: the walker must not be sent elsewhere.
fn start(asked: &AskedPath) -> Result<(Root, Metadata), ToolError> {
    let root = Root::open(asked)?;
    let failed = |error: io::Error| asked.unusable(Use::Read, &error);
    let found = root.dir.metadata(&root.path).map_err(failed)?;
    if let Ok(dir) = root.dir.open_dir(&root.path) {
        root.guard(&dir, Path::new("")).map_err(failed)?;
    } else if !found.is_dir() {
        // A file that is refused is told, when it is the only one.
        root.spot().map_err(failed)?;
    }
    Ok((root, found))
}

fn search(
    asked: &AskedPath,
    matcher: &RegexMatcher,
    glob: Option<&Glob>,
    mut found: FileMatches,
    cancel: &Cancel,
) -> Result<ToolResult, ToolError> {
    let (root, start) = start(asked)?;
    let (most, secrets) = (found.most, found.secrets.clone());
    let worker = || {
        let mut searcher = searcher(BinaryDetection::quit(0));
        let (root, secrets) = (&root, secrets.clone());
        move |paths: Vec<PathBuf>| -> Vec<Looked> {
            paths
                .into_iter()
                .map(|path| look(root, path, matcher, Hits::new(most, &secrets), &mut searcher, cancel))
                .collect()
        }
    };
    if start.is_dir() {
        let walked = asked.cwd.join(&root.path);
        // Sorted, so that the same search shows the same lines, also where they are cut.
        let walk = WalkBuilder::new(&walked).require_git(false).sort_by_file_name(Ord::cmp).build();
        let unreadable = Cell::new(0_usize);
        let mut files = walk.take_while(|_| !cancel.is_cancelled()).filter_map(|entry| {
            let Ok(entry) = entry else {
                unreadable.update(|count| count + 1);
                return None;
            };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                return None;
            }
            let below = entry.path().strip_prefix(&walked).ok()?;
            let path = plain(&root.path.join(below));
            let is_wanted =
                glob.is_none_or(|glob| glob.takes(&path, below)) && root.off_limits.forbids_beneath(&path).is_none();
            is_wanted.then_some(path)
        });
        let parcels = std::iter::from_fn(|| {
            let parcel: Vec<PathBuf> = files.by_ref().take(PARCEL).collect();
            (!parcel.is_empty()).then_some(parcel)
        });
        parallel(parcels, worker, |looked| found.take_all(looked));
        found.unreadable += unreadable.get();
    } else {
        found.take_all(worker()(vec![plain(&root.path)]));
    }
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    Ok(found.result())
}

/// What came of one file.
struct Looked {
    path: PathBuf,
    hits: Hits,
    searched: io::Result<()>,
}

/// Looks into one file.
fn look(
    root: &Root,
    path: PathBuf,
    matcher: &RegexMatcher,
    mut hits: Hits,
    searcher: &mut Searcher,
    cancel: &Cancel,
) -> Looked {
    let searched = open(root, &path).and_then(|file| match file {
        Some(file) => searcher.search_reader(matcher, Stoppable { file, cancel }, &mut hits),
        None => Ok(()),
    });
    Looked { path, hits, searched }
}

/// Searches an output of this session, which may hold any bytes.
fn search_output(
    asked: &AskedPath,
    name: &OutputName,
    room: Option<&OutputRoom>,
    matcher: &RegexMatcher,
    mut found: FileMatches,
    cancel: &Cancel,
) -> Result<ToolResult, ToolError> {
    let file = room.and_then(|room| room.open(name).ok()).ok_or_else(|| output::unknown(&asked.shown))?;
    let mut hits = Hits::new(found.most, &found.secrets);
    let searched = searcher(BinaryDetection::none()).search_reader(matcher, Stoppable { file, cancel }, &mut hits);
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    found.unreadable += usize::from(searched.is_err());
    found.take(Path::new(&asked.shown), hits);
    Ok(found.result())
}

fn searcher(binary: BinaryDetection) -> Searcher {
    SearcherBuilder::new()
        .binary_detection(binary)
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .heap_limit(Some(MAX_HEAP))
        .build()
}

/// A path without `.` in it.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

/// Opens a regular file beneath the root; nothing that might never answer.
fn open(root: &Root, path: &Path) -> io::Result<Option<File>> {
    let no_wait = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = root.dir.open_with(path, OpenOptions::new().read(true).custom_flags(no_wait))?.into_std();
    root.guard(&file, Path::new(""))?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// A file that ends early when nobody waits for it.
struct Stoppable<'a> {
    file: File,
    cancel: &'a Cancel,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

/// What matches in one file.
struct Hits {
    most: usize,
    lines: Vec<(u64, String)>,
    bytes: usize,
    is_binary: bool,
    is_cut: bool,
    secrets: Secrets,
}

impl Hits {
    fn new(most: usize, secrets: &Secrets) -> Self {
        Self { most, lines: Vec::new(), bytes: 0, is_binary: false, is_cut: false, secrets: secrets.clone() }
    }
}

impl Sink for Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.lines.len() >= self.most || self.bytes > MAX_TEXT {
            self.is_cut = true;
            return Ok(false);
        }
        let line = String::from_utf8_lossy(found.bytes());
        let line = self.secrets.redact(line.trim_end_matches(['\n', '\r']));
        let line = cut(&line, MAX_LINE);
        self.bytes += line.len();
        self.lines.push((found.line_number().unwrap_or_default(), line));
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

impl FileMatches {
    /// Takes what came of the next files, as far as there is room.
    fn take_all(&mut self, looked: Vec<Looked>) -> More {
        for Looked { path, hits, searched } in looked {
            if self.is_cut {
                break;
            }
            self.unreadable += usize::from(searched.is_err());
            self.take(&path, hits);
        }
        if self.is_cut { More::Enough } else { More::Wanted }
    }

    fn take(&mut self, path: &Path, mut hits: Hits) {
        let room = self.most - self.lines.len();
        if !hits.is_binary && hits.lines.len() > room {
            hits.lines.truncate(room);
            hits.is_cut = true;
        }
        if hits.is_binary || (hits.lines.is_empty() && !hits.is_cut) {
            return;
        }
        // A name may hold a line break, which must not look like two lines.
        let path = path.to_string_lossy().replace(['\n', '\r'], "\u{FFFD}");
        let before = self.lines.len();
        for (number, text) in hits.lines {
            let line = format!("{path}:{number}: {text}");
            if self.bytes + line.len() > MAX_TEXT {
                self.is_cut = true;
                break;
            }
            self.bytes += line.len() + 1;
            self.lines.push(line);
        }
        self.files += usize::from(self.lines.len() > before);
        self.is_cut |= hits.is_cut;
    }

    fn result(self) -> ToolResult {
        let details = json!({
            "matches": self.lines.len(), "files": self.files, "unreadable": self.unreadable, "truncated": self.is_cut
        });
        let mut text = if self.lines.is_empty() { "(no matches)".to_owned() } else { self.lines.join("\n") };
        if self.is_cut {
            text.push_str("\n… there are more; narrow `pattern`, `path` or `glob`, or raise `max_results`");
        }
        ToolResult { details, ..ToolResult::text(text) }
    }
}
