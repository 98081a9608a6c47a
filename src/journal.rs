//! What a journal holds, for people and for other programs: what the command line prints about sessions. Pure.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use playhouse::{journal, prelude::*};
//!
//! # let house = House::in_memory().await?;
//! # let model = Scripted::new([Step::text("Hello.")]);
//! # let agent = house.agent().provider_override(model).spawn().await?;
//! agent.prompt("Say hello.").await?;
//! let entries = house.entries(&agent.session_id()).await?;
//! assert!(journal::conversation(&entries).ends_with("\nuser:\nSay hello.\n\nassistant:\nHello.\n"));
//! assert_eq!(journal::decisions(&entries)[0].what, "opened");
//! assert_eq!(journal::entry_lines(&entries)?.lines().count(), entries.len());
//! # house.shutdown(std::time::Duration::ZERO).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod conversation;
mod decisions;
mod sessions;

use std::sync::Arc;

use playhouse_protocol::{Entry, Seq};
use serde_json::json;

pub use conversation::{Conversation, conversation};
pub use decisions::{Call, Decisions, Step, StepKind, decisions};
pub use sessions::{SessionTable, session_table, short_id, state_words};

/// The entries as JSON, one per line, each with its number.
pub fn entry_lines(entries: &[(Seq, Arc<Entry>)]) -> Result<String, serde_json::Error> {
    entries.iter().map(|(seq, entry)| entry_line(*seq, entry)).collect()
}

/// An entry as a line of JSON, with its number.
pub fn entry_line(seq: Seq, entry: &Entry) -> Result<String, serde_json::Error> {
    let mut value = serde_json::to_value(entry)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("seq".to_owned(), json!(seq));
    }
    Ok(format!("{value}\n"))
}
