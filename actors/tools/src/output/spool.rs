//! What a call prints, in the order in which it came: in memory while a result can show all of it, then in a file.

use std::sync::Arc;

use playhouse_protocol::{Content, ToolCallId, ToolResult};
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};

use crate::output::{Draft, MAX_FILE, OutputRoom};
use crate::secrets::secrets_here;
use crate::text::Capture;

/// How much is handed to the disk at once.
const BUFFER: usize = 128 * 1024;
/// The longest text of a result that is shown as it is.
const MAX_SHOWN: usize = 1 << 20;
/// What is shown of a longer one.
const SHOWN: usize = 256 * 1024;

/// Takes output piece by piece.
pub(crate) struct Spool {
    call: ToolCallId,
    room: Option<Arc<OutputRoom>>,
    state: State,
}

enum State {
    /// All of it, so far.
    Early(Vec<u8>),
    /// In a file, which has room for so many more.
    Filed { file: Box<BufWriter<File>>, draft: Draft, left: u64 },
    /// There is nowhere to keep it, or writing it failed.
    Lost,
}

/// Whether results can still show all of what was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fits {
    Yes,
    No,
}

/// Where the whole output is.
pub(crate) struct Whole {
    /// The path by which a later call reads it.
    pub(crate) path: String,
    /// How much of it is there, if not all.
    first: Option<u64>,
}

impl Whole {
    /// What is said where bytes are left out.
    pub(crate) fn note(&self) -> String {
        let what = match self.first {
            None => "all of it".to_owned(),
            Some(bytes) => format!("the first {bytes} bytes"),
        };
        format!("; {what}: read_file `{}` with `offset` and `limit`", self.path)
    }
}

impl Spool {
    pub(crate) fn new(call: ToolCallId, room: Option<Arc<OutputRoom>>) -> Self {
        let state = if room.is_some() { State::Early(Vec::new()) } else { State::Lost };
        Self { call, room, state }
    }

    /// Takes what came; from the first piece that does not fit, the file has everything.
    pub(crate) async fn take(&mut self, bytes: &[u8], fits: Fits) {
        match (&mut self.state, fits) {
            (State::Lost, _) => {}
            (State::Early(early), Fits::Yes) => early.extend_from_slice(bytes),
            (State::Early(early), Fits::No) => {
                let early = std::mem::take(early);
                self.state = self.begin().await;
                self.write(&early).await;
                self.write(bytes).await;
            }
            (State::Filed { .. }, _) => self.write(bytes).await,
        }
    }

    async fn begin(&self) -> State {
        let Some(room) = self.room.clone() else { return State::Lost };
        let call = self.call.clone();
        match tokio::task::spawn_blocking(move || room.begin(&call)).await {
            Ok(Ok((file, draft))) => {
                let file = Box::new(BufWriter::with_capacity(BUFFER, File::from_std(file)));
                State::Filed { file, draft, left: MAX_FILE }
            }
            Ok(Err(error)) => self.lost(&error),
            Err(error) => self.lost(&error),
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        let State::Filed { file, left, .. } = &mut self.state else { return };
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
        let written = file.write_all(bytes.get(..most).unwrap_or_default()).await;
        *left = left.saturating_sub(bytes.len() as u64);
        if let Err(error) = written {
            self.state = self.lost(&error);
        }
    }

    /// A full disk costs the file, not the call.
    fn lost(&self, error: &dyn std::fmt::Display) -> State {
        tracing::warn!(call = %self.call, "a long output could not be kept: {error}");
        State::Lost
    }

    /// Where the whole is, if it is anywhere but in memory. `total` is how much there was.
    pub(crate) async fn finish(mut self, total: u64) -> Option<Whole> {
        if let State::Filed { file, .. } = &mut self.state
            && let Err(error) = file.flush().await
        {
            self.state = self.lost(&error);
        }
        match self.state {
            State::Filed { draft, .. } => {
                Some(Whole { path: draft.keep(), first: (total > MAX_FILE).then_some(MAX_FILE) })
            }
            State::Early(_) | State::Lost => None,
        }
    }
}

/// A result whose texts are short enough for a model: of longer ones the head and the tail, with all of it in a file.
pub(crate) async fn shortened(mut result: ToolResult, call: &ToolCallId, room: Option<Arc<OutputRoom>>) -> ToolResult {
    let is_long = |block: &Content| matches!(block, Content::Text { text, .. } if text.len() > MAX_SHOWN);
    if !result.content.iter().any(is_long) {
        return result;
    }
    let secrets = secrets_here();
    for block in &mut result.content {
        // Before it is cut or kept: half a secret would not be found.
        if let Content::Text { text, .. } = block {
            secrets.redact_string(text);
        }
    }
    let mut spool = Spool::new(call.clone(), room);
    let mut total = 0;
    for block in &result.content {
        if let Content::Text { text, .. } = block {
            total += text.len() as u64;
            spool.take(text.as_bytes(), Fits::No).await;
        }
    }
    let note = spool.finish(total).await.map(|whole| whole.note()).unwrap_or_default();
    for block in &mut result.content {
        if let Content::Text { text, .. } = block
            && text.len() > MAX_SHOWN
        {
            let mut kept = Capture::new(SHOWN);
            kept.push(text.as_bytes());
            *text = kept.text_with(&note);
        }
    }
    result
}
