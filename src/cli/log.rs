//! `--log FILE`: what the house and its libraries note, one line each, for whoever looks for a fault.
//!
//! Lines are written by a thread of their own, so nobody waits for the disk; when more than 1,024 wait, some are
//! dropped, and a line says how many. Known secrets are taken out and what has the shape of a key is masked.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use playhouse::house::environment_secrets;
use playhouse::protocol::{Secrets, mask_patterns};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::cli::exit::Exit;
use crate::cli::terminal::text::one_line;

/// The variable that names the file.
const VARIABLE: &str = "PLAYHOUSE_LOG";
/// How many lines may wait.
const WAITING: usize = 1_024;

/// A log that is being written. Dropped, it writes what waits.
#[derive(Debug)]
pub struct Log {
    to: SyncSender<Line>,
    writer: Option<JoinHandle<()>>,
}

enum Line {
    Text(String),
    End,
}

/// Logs to the file that the flag or else the variable names.
pub fn start(flag: Option<&Path>) -> Result<Option<Log>, Exit> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let Some(path) = flag.or(named.as_deref().map(Path::new)) else { return Ok(None) };
    let refused = |reason: String| Exit::Refused(format!("the log {} cannot be written: {reason}", path.display()));
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    let file = file.map_err(|error| refused(format!("{error}; name another file with --log")))?;
    let (to, lines) = sync_channel(WAITING);
    let lost = Arc::new(AtomicU64::new(0));
    let listener = Listener { to: to.clone(), lost: lost.clone(), secrets: Secrets::new(environment_secrets()) };
    let writer = std::thread::Builder::new().name("log".to_owned()).spawn(move || write(file, &lines, &lost));
    let writer = writer.map_err(|error| refused(error.to_string()))?;
    tracing::subscriber::set_global_default(listener).map_err(|error| refused(error.to_string()))?;
    Ok(Some(Log { to, writer: Some(writer) }))
}

impl Drop for Log {
    fn drop(&mut self) {
        // A writer that is gone has written what it could.
        let _ = self.to.send(Line::End);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write(mut file: File, lines: &Receiver<Line>, lost: &AtomicU64) {
    while let Ok(Line::Text(mut line)) = lines.recv() {
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            count => line.push_str(&format!("… {count} lines were lost …\n")),
        }
        // A disk that is full has no place for that either.
        let _ = file.write_all(line.as_bytes());
    }
}

struct Listener {
    to: SyncSender<Line>,
    lost: Arc<AtomicU64>,
    secrets: Secrets,
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let most = if metadata.target().starts_with("playhouse") { Level::DEBUG } else { Level::WARN };
        *metadata.level() <= most
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut text = format!("{} {} {}", jiff::Timestamp::now(), metadata.level(), metadata.target());
        event.record(&mut Fields(&mut text));
        let clean = self.secrets.redact(&text);
        let line = format!("{}\n", one_line(&mask_patterns(&clean)));
        if self.to.try_send(Line::Text(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Appends fields to a line.
struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, ": {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, " {}={value}", field.name());
    }
}
