//! Answers requests from recordings. Never touches the network.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fmt, fs, io};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use playhouse_protocol::lock;

use super::RecordError;
use super::exchange::{Flaw, Head, Key, Outcome, Request, VERSION, from_file};
use super::secrets::Secrets;
use crate::wire::setup::Wrap;
use crate::wire::transport::{HttpRequest, HttpResponse, Transport, TransportError, TransportErrorKind};

/// Answers requests from a folder of recordings: the n-th request of a key with the n-th recording of it. What was not
/// recorded is an error that no retry helps.
#[derive(Clone)]
pub struct Replayer(Arc<Shelf>);

struct Shelf {
    folder: PathBuf,
    takes: Mutex<HashMap<Key, Takes>>,
}

/// The recordings of one key. Only their names are held: a folder may be larger than memory.
#[derive(Default)]
struct Takes {
    /// Each with its number, in the order in which they were recorded.
    files: Vec<(u64, PathBuf)>,
    /// How many were played.
    played: usize,
}

impl Replayer {
    /// Reads a folder of recordings, and checks each of them. Blocks: not for a handler.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let folder = folder.into();
        let unread = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RecordError::NoFolder { path: folder.clone() },
            _ => RecordError::Read { path: folder.clone(), source },
        };
        let mut takes: HashMap<Key, Takes> = HashMap::new();
        for entry in fs::read_dir(&folder).map_err(unread)? {
            let path = entry.map_err(unread)?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let (key, _) = read(&path)?;
            let number = number_of(&path, &key)
                .ok_or_else(|| RecordError::Misnamed { path: path.clone(), expected: key.start().to_owned() })?;
            takes.entry(key).or_default().files.push((number, path));
        }
        for takes in takes.values_mut() {
            takes.files.sort();
        }
        Ok(Self(Arc::new(Shelf { folder, takes: Mutex::new(takes) })))
    }

    /// Puts the recordings in the place of the network.
    pub fn wrap(&self) -> Wrap {
        let shelf = self.0.clone();
        Arc::new(move |http| {
            drop(http);
            Arc::new(Playing(shelf.clone()))
        })
    }
}

impl fmt::Debug for Replayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayer").field("folder", &self.0.folder).finish_non_exhaustive()
    }
}

/// The number in a file's name, if the rest of it is right.
fn number_of(path: &Path, key: &Key) -> Option<u64> {
    let (start, number) = path.file_stem()?.to_str()?.split_once('-')?;
    let parsed: u64 = number.parse().ok()?;
    (start == key.start() && parsed.to_string() == number).then_some(parsed)
}

fn read(path: &Path) -> Result<(Key, Outcome), RecordError> {
    let path = || path.to_owned();
    let bytes = fs::read(path()).map_err(|source| RecordError::Read { path: path(), source })?;
    from_file(&bytes).map_err(|flaw| match flaw {
        Flaw::Malformed(reason) => RecordError::Malformed { path: path(), reason },
        Flaw::Version(found) => RecordError::Version { path: path(), found, known: VERSION },
    })
}

impl Shelf {
    /// The recorded answer to a request. Blocks.
    fn play(&self, request: &HttpRequest) -> Result<HttpResponse, TransportError> {
        let request = Request::of(request, &Secrets::of(request));
        let key = request.key();
        let file = self.next(&key).map_err(|played| self.missing(&request, &key, played))?;
        let (_, outcome) = read(&file).map_err(|error| refusal(error.to_string()))?;
        match outcome {
            Outcome::Answered { head, body } => Ok(answer(head, body, None)),
            Outcome::Cut { head: Some(head), body, note } => Ok(answer(head, body, Some(note))),
            Outcome::Cut { head: None, note, .. } => Err(TransportError::broken(note)),
            Outcome::Failed { message } => Err(TransportError::broken(message)),
        }
    }

    /// The next recording of a key, or how many there were.
    fn next(&self, key: &Key) -> Result<PathBuf, usize> {
        let mut takes = lock(&self.takes);
        let takes = takes.get_mut(key).ok_or(0_usize)?;
        let (_, file) = takes.files.get(takes.played).ok_or(takes.played)?;
        takes.played += 1;
        Ok(file.clone())
    }

    fn missing(&self, request: &Request, key: &Key, played: usize) -> TransportError {
        let (folder, start) = (self.folder.display(), key.start());
        let Request { method, path, .. } = request;
        let found = match played {
            0 => format!("no recording in {folder} answers"),
            1 => format!("the one recording in {folder} was played already that answers"),
            played => format!("all {played} recordings in {folder} were played already that answer"),
        };
        refusal(format!("{found} {method} {path} (request {start}): record it with --record"))
    }
}

fn refusal(message: String) -> TransportError {
    TransportError { message, kind: TransportErrorKind::Final }
}

fn answer(head: Head, body: Vec<u8>, cut: Option<String>) -> HttpResponse {
    let body = (!body.is_empty()).then(|| Ok(Bytes::from(body)));
    let pieces = body.into_iter().chain(cut.map(|note| Err(TransportError::broken(note))));
    HttpResponse { status: head.status, headers: head.headers, body: Box::pin(stream::iter(pieces)) }
}

/// Recordings in the place of a network.
struct Playing(Arc<Shelf>);

#[async_trait]
impl Transport for Playing {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let shelf = self.0.clone();
        let played = tokio::task::spawn_blocking(move || shelf.play(&request)).await;
        played.unwrap_or_else(|ended| Err(TransportError::broken(format!("the recording was not read: {ended}"))))
    }
}

#[cfg(test)]
#[path = "replayer_tests.rs"]
mod tests;
