//! Recordings: exchanges with services, kept in a folder and played back without a network.
//!
//! I/O: files, on the runtime's blocking threads; [`Recorder::new`] and [`Replayer::open`] block.
//!
//! One file is one exchange, `<16 hex digits>-<n>.json`. The digits are the start of the request's key: a hash of its
//! method, its path and its body, whatever the order of the body's fields. `n` counts the requests with that key, so
//! that a replay can answer the n-th one as the service did:
//!
//! ```json
//! {
//!   "version": 1,
//!   "key": "<64 hex digits>",
//!   "method": "POST",
//!   "path": "/v1/chat/completions",
//!   "request": { "model": "gpt-4o", "messages": [] },
//!   "status": 200,
//!   "headers": { "content-type": "text/event-stream" },
//!   "body": "data: {}\n\n"
//! }
//! ```
//!
//! A request that is no JSON stands in `request_base64`, a body that is no text in `body_base64`. `"cut": true` marks
//! a body that did not come to its end, with the reason in `note`; `"failed"` is why no answer came at all. A file that
//! ends in `.part` is an exchange that was under way when its process was killed; nobody reads it.
//!
//! No secret is in a file: the headers of requests are not kept, and what was secret in them is replaced by `****`
//! wherever else it stands. One exception is not found: a key whose halves are in two frames of a stream. The body is
//! kept as it came, so that a replay gives the same pieces. Hence files are for their owner only.

mod exchange;
mod recorder;
mod replayer;
mod secrets;

use std::io;
use std::path::PathBuf;

pub use recorder::Recorder;
pub use replayer::Replayer;

/// Why a recording cannot be written or read. Its text names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The folder for recordings cannot be made.
    #[error("cannot make the folder {} for recordings: {source}", path.display())]
    Folder {
        /// The folder that could not be used.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// There is no such folder.
    #[error("there is no folder {} with recordings: make one with --record", path.display())]
    NoFolder {
        /// Where it should be.
        path: PathBuf,
    },
    /// A file or the folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder that cannot be read.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// An exchange could not be kept.
    #[error("cannot write the recording {}: {source}", path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// A file is no recording.
    #[error("{} is no recording: {reason}; remove it, or record it again with --record", path.display())]
    Malformed {
        /// The file that is no recording.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is of another version.
    #[error(
        "{} is a recording of version {found}, and only version {known} can be read: record it again with --record",
        path.display()
    )]
    Version {
        /// The file of another version.
        path: PathBuf,
        /// The version that the file says it has.
        found: u64,
        /// The one that can be read.
        known: u64,
    },
    /// A file's name is not that of its exchange.
    #[error(
        "{} holds the exchange {expected}-<n>: name it `{expected}-<n>.json`, where the numbers give the order",
        path.display()
    )]
    Misnamed {
        /// The file with the wrong name.
        path: PathBuf,
        /// How its name should start.
        expected: String,
    },
}
