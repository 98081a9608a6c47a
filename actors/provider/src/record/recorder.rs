//! Keeps what passes between services and the network.
//!
//! A request first reserves its number, then it is sent; so the numbers are in the order of the requests, also when
//! several are under way, and a folder that cannot be written to costs no answer. What has come is written when the
//! exchange ends, in whichever way it does.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fmt, mem};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use playhouse_protocol::lock;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::RecordError;
use super::exchange::{Head, Key, Outcome, Request, to_file};
use super::secrets::Secrets;
use crate::wire::setup::Wrap;
use crate::wire::transport::{HttpRequest, HttpResponse, Transport, TransportError, TransportErrorKind};

/// How much of a body is kept.
const BODY_LIMIT: usize = 64 << 20;

/// Sends requests as ever, and keeps every exchange in a folder; see the module for the form.
#[derive(Clone)]
pub struct Recorder(Arc<Deck>);

struct Deck {
    folder: PathBuf,
    body_limit: usize,
    /// How many exchanges are not yet written.
    open: watch::Sender<usize>,
    /// The first exchange that could not be kept since somebody asked.
    lost: Mutex<Option<RecordError>>,
}

impl Recorder {
    /// Keeps exchanges in `folder`, beside those that are there. Makes the folder, for its owner only, if there is
    /// none. Blocks: not for a handler.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self, RecordError> {
        Self::with_body_limit(folder, BODY_LIMIT)
    }

    /// The same, with another limit for the bytes of a body: what is longer is kept as cut off there, and passed on
    /// whole. It bounds the memory that an exchange takes.
    pub fn with_body_limit(folder: impl Into<PathBuf>, body_limit: usize) -> Result<Self, RecordError> {
        let folder = folder.into();
        make_folder(&folder).map_err(|source| RecordError::Folder { path: folder.clone(), source })?;
        let (open, lost) = (watch::Sender::new(0), Mutex::default());
        Ok(Self(Arc::new(Deck { folder, body_limit, open, lost })))
    }

    /// Puts the recorder between services and the network.
    pub fn wrap(&self) -> Wrap {
        let deck = self.0.clone();
        Arc::new(move |http| Arc::new(Recording { inner: Box::new(http), deck: deck.clone() }))
    }

    /// Waits until every exchange is written: before the process ends, and after the calls have. Gives the first one
    /// that could not be kept.
    pub async fn settle(&self) -> Result<(), RecordError> {
        // The sender is ours: it cannot be gone.
        let _ = self.0.open.subscribe().wait_for(|open| *open == 0).await;
        let lost = lock(&self.0.lost).take();
        lost.map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("folder", &self.0.folder).finish_non_exhaustive()
    }
}

impl Deck {
    fn lose(&self, error: RecordError) {
        tracing::error!(%error, "an exchange was not recorded");
        lock(&self.lost).get_or_insert(error);
    }
}

/// A transport that is listened to.
struct Recording {
    inner: Box<dyn Transport>,
    deck: Arc<Deck>,
}

#[async_trait]
impl Transport for Recording {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let tape = Tape::start(&self.deck, request.clone()).await?;
        match self.inner.send(request).await {
            Err(error) => {
                tape.end(AnswerEnd::Failed(error.message.clone())).await;
                Err(error)
            }
            Ok(HttpResponse { status, headers, body }) => {
                let tape = tape.head(Head::of(status, &headers));
                let taped = stream::unfold(Some((body, tape)), |state| async move {
                    let (mut body, mut tape) = state?;
                    match body.next().await {
                        Some(Ok(chunk)) => {
                            tape.take(&chunk);
                            Some((Ok(chunk), Some((body, tape))))
                        }
                        Some(Err(error)) => {
                            drop(body);
                            tape.end(AnswerEnd::Broken(error.message.clone())).await;
                            Some((Err(error), None))
                        }
                        None => {
                            drop(body);
                            tape.end(AnswerEnd::Whole).await;
                            None
                        }
                    }
                });
                Ok(HttpResponse { status, headers, body: Box::pin(taped.fuse()) })
            }
        }
    }
}

/// How an exchange ended.
enum AnswerEnd {
    /// It was let go of.
    Dropped,
    Whole,
    Broken(String),
    Failed(String),
}

/// What is known of an exchange that is under way. Dropped, it is written as cut off.
struct Tape {
    /// There until it is handed on.
    entry: Option<OpenExchange>,
    runtime: Handle,
}

impl Tape {
    /// Reserves the number of a request.
    async fn start(deck: &Arc<Deck>, request: HttpRequest) -> Result<Self, TransportError> {
        let runtime = Handle::try_current().map_err(|error| refusal(error.to_string()))?;
        let open = Open::new(deck.clone());
        let reserve = move |runtime| {
            let secrets = Secrets::of(&request);
            let request = Request::of(&request, &secrets);
            let key = request.key();
            let place = ReservedFile::reserve(&open.0.folder, &key)?;
            let (head, body, end) = (None, Vec::new(), AnswerEnd::Dropped);
            let entry = OpenExchange {
                place,
                key,
                request: Some(request),
                secrets,
                head,
                body,
                end,
                rest: BodyRest::Kept,
                open,
            };
            Ok(Self { entry: Some(entry), runtime })
        };
        let reserved = runtime.spawn_blocking({
            let runtime = runtime.clone();
            move || reserve(runtime)
        });
        match reserved.await {
            Ok(reserved) => reserved.map_err(|error: RecordError| refusal(error.to_string())),
            Err(ended) => Err(TransportError::broken(format!("the request was not sent: {ended}"))),
        }
    }

    fn head(mut self, head: Head) -> Self {
        if let Some(entry) = &mut self.entry {
            entry.head = Some(head);
        }
        self
    }

    fn take(&mut self, chunk: &[u8]) {
        let Some(entry) = &mut self.entry else { return };
        let room = entry.open.0.body_limit.saturating_sub(entry.body.len());
        match chunk.get(..room) {
            Some(kept) if kept.len() < chunk.len() => {
                entry.body.extend_from_slice(kept);
                entry.rest = BodyRest::TooLong;
            }
            Some(_) | None => entry.body.extend_from_slice(chunk),
        }
    }

    /// Writes the exchange, and waits until it is.
    async fn end(mut self, end: AnswerEnd) {
        let Some(mut entry) = self.entry.take() else { return };
        entry.end = end;
        // An entry whose thread never ran is written all the same.
        let _ = self.runtime.spawn_blocking(move || drop(entry)).await;
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.runtime.spawn_blocking(move || drop(entry));
        }
    }
}

fn refusal(reason: String) -> TransportError {
    let message = format!("the request was not sent, because it cannot be recorded: {reason}");
    TransportError { message, kind: TransportErrorKind::Final }
}

/// Whether there was more of a body than is kept.
enum BodyRest {
    Kept,
    TooLong,
}

/// An exchange and its place. It is written when it is dropped, so that nothing that can become of it loses it: also
/// not a runtime that shuts down before the thread that should drop it has run.
struct OpenExchange {
    place: ReservedFile,
    key: Key,
    /// There until it is written.
    request: Option<Request>,
    secrets: Secrets,
    head: Option<Head>,
    body: Vec<u8>,
    rest: BodyRest,
    end: AnswerEnd,
    /// Last: dropped when the file is there.
    open: Open,
}

impl OpenExchange {
    fn outcome(&mut self) -> Outcome {
        let (head, body) = (self.head.take(), mem::take(&mut self.body));
        let limit = self.open.0.body_limit;
        let note = match (mem::replace(&mut self.end, AnswerEnd::Dropped), &self.rest, &head) {
            (AnswerEnd::Failed(message), _, _) => return Outcome::Failed { message },
            (_, BodyRest::TooLong, _) => format!("only the first {limit} bytes of the body were recorded"),
            (AnswerEnd::Broken(message), BodyRest::Kept, _) => message,
            (AnswerEnd::Whole | AnswerEnd::Dropped, BodyRest::Kept, None) => {
                "given up before an answer came".to_owned()
            }
            (AnswerEnd::Dropped, BodyRest::Kept, Some(_)) => "the answer was let go of before its end".to_owned(),
            (AnswerEnd::Whole, BodyRest::Kept, Some(head)) => return Outcome::Answered { head: head.clone(), body },
        };
        Outcome::Cut { head, body, note }
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        let outcome = self.outcome();
        let Some(request) = self.request.take() else { return };
        let file = to_file(&self.key, request, outcome, &self.secrets).map_err(io::Error::from);
        if let Err(source) = file.and_then(|file| self.place.fill(&file)) {
            self.open.0.lose(RecordError::Write { path: self.place.file.clone(), source });
        }
    }
}

/// Counts an exchange that is not yet written.
struct Open(Arc<Deck>);

impl Open {
    fn new(deck: Arc<Deck>) -> Self {
        deck.open.send_modify(|open| *open += 1);
        Self(deck)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}

/// The place of an exchange in the folder.
struct ReservedFile {
    /// Where it is written; its being there reserves the number.
    part: PathBuf,
    /// What it is named when it is whole.
    file: PathBuf,
}

impl ReservedFile {
    /// The first number of a key that nobody has, in this process or another.
    fn reserve(folder: &Path, key: &Key) -> Result<Self, RecordError> {
        let mut number = 0_u64;
        loop {
            let file = folder.join(format!("{}-{number}.json", key.start()));
            let place = Self { part: file.with_extension("json.part"), file };
            match place.is_ours() {
                Ok(true) => return Ok(place),
                Ok(false) => number += 1,
                Err(source) => return Err(RecordError::Write { path: place.file, source }),
            }
        }
    }

    fn is_ours(&self) -> io::Result<bool> {
        if self.file.try_exists()? {
            return Ok(false);
        }
        match private_file().create_new(true).open(&self.part) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        // Whoever had the number may have finished it since the first look; nobody can from here on.
        let taken = self.file.try_exists()?;
        if taken {
            fs::remove_file(&self.part)?;
        }
        Ok(!taken)
    }

    /// Writes the file, and gives it its name when it is whole. Not synced: what a power cut spoils can be recorded
    /// again.
    fn fill(&self, bytes: &[u8]) -> io::Result<()> {
        // Made again if somebody has cleared the folder away from under it.
        let open = || -> io::Result<File> { private_file().create(true).truncate(true).open(&self.part) };
        let written =
            open().and_then(|mut part| part.write_all(bytes)).and_then(|()| fs::rename(&self.part, &self.file));
        if written.is_err() {
            // A number without an exchange is passed over by whoever reads.
            let _ = fs::remove_file(&self.part);
        }
        written
    }
}

/// A file for its owner only.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// A folder for its owner only; one that is there stays as it is.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
