//! `--log FILE`: what the house and its libraries note, one line each, for whoever looks for a fault.
//!
//! Lines are written by a thread of their own, so nobody waits for the disk; when more than 1,024 wait, some are
//! dropped, and a line says how many. Known secrets are taken out and what has the shape of a key is masked.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use playhouse::house::environment_secrets;
use playhouse::protocol::{Secrets, mask_patterns};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

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
    let queue = Queue { to: to.clone(), lost: lost.clone() };
    let lines_of = Targets::new().with_default(Level::WARN).with_target("playhouse", Level::DEBUG);
    let format = tracing_subscriber::fmt::layer()
        .event_format(Clean(Secrets::new(environment_secrets())))
        .with_writer(move || queue.clone());
    let listener = tracing_subscriber::registry().with(format.with_filter(lines_of));
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

/// Where lines wait for the thread that writes them. A clone for each line.
#[derive(Clone)]
struct Queue {
    to: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

impl Write for Queue {
    /// Takes a whole line, or counts it as lost.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.to.try_send(Line::Text(String::from_utf8_lossy(line).into_owned())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event on one line, without these secrets and what has the shape of a key.
struct Clean(Secrets);

impl<S, N> FormatEvent<S, N> for Clean
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut text = format!("{} {} {}: ", jiff::Timestamp::now(), metadata.level(), metadata.target());
        context.field_format().format_fields(Writer::new(&mut text), event)?;
        writeln!(to, "{}", one_line(&mask_patterns(&self.0.redact(&text))))
    }
}
