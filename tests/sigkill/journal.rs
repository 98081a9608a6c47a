//! What the journals of a data directory say, read as the bytes they are: without a store, so without becoming one of
//! the processes that share the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use playhouse::protocol::entry::QueuedInput;
use playhouse::protocol::{Content, Entry, EntryBody, Outcome, Seq, SessionId, ToolResult};
use playhouse::session::blob::NoBlobs;
use playhouse::session::scan::Scan;
use playhouse::session::{DamageKind, Verification};

use crate::model::Key;

/// A tool call's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub is_error: bool,
}

impl Answer {
    pub fn is_unknown(&self) -> bool {
        self.is_error && self.text.contains("outcome unknown")
    }
}

/// What a tool call has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub starts: usize,
    pub answers: Vec<Answer>,
}

/// All journals of a data directory, added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journals {
    /// The entries of each session.
    pub sessions: BTreeMap<String, Vec<(Seq, Arc<Entry>)>>,
    /// Prompts that were accepted, sub-agents' tasks included.
    pub prompts: Vec<String>,
    /// Responses that arrived, in the order of each session.
    pub responses: Vec<Key>,
    /// The last response to each first prompt.
    pub last_words: BTreeMap<String, String>,
    /// Tool calls by their id.
    pub calls: BTreeMap<String, Call>,
    /// How each run ended, in order.
    pub outcomes: Vec<Outcome>,
}

impl Journals {
    pub fn read(data: &Path) -> Self {
        let mut all = Self::default();
        for path in journals(data) {
            let session = path.file_stem().unwrap().to_str().unwrap();
            let bytes = fs::read(&path).unwrap();
            let checked = Verification::read(&SessionId::new(session).unwrap(), bytes.as_slice(), &NoBlobs).unwrap();
            let entries = Scan::read(bytes.as_slice()).unwrap().entries;
            let unusual = checked.notes.iter().find(|note| !matches!(note.kind, DamageKind::Torn { .. }));
            assert_eq!(checked.broken.as_ref().or(unusual), None, "{}", path.display());
            assert_eq!(checked.records(), entries.len(), "{}", path.display());
            all.add(session, entries);
        }
        all
    }

    fn add(&mut self, session: &str, entries: Vec<(Seq, Arc<Entry>)>) {
        let mut first = None;
        for (_, entry) in &entries {
            match &entry.body {
                EntryBody::Input(QueuedInput { messages, .. }) => {
                    let text = messages[0].llm().unwrap().text();
                    first.get_or_insert_with(|| text.clone());
                    self.prompts.push(text);
                }
                EntryBody::Responded { message, .. } => {
                    let first = first.clone().unwrap();
                    self.last_words.insert(first.clone(), message.llm().unwrap().text());
                    let before = self.responses.iter().filter(|(text, _)| *text == first).count();
                    self.responses.push((first, before));
                }
                EntryBody::ToolStarted { tool_call_id, .. } => self.call(tool_call_id.as_str()).starts += 1,
                EntryBody::ToolEnded { tool_call_id, result, is_error, .. } => {
                    let answer = Answer { text: text_of(result), is_error: *is_error };
                    self.call(tool_call_id.as_str()).answers.push(answer);
                }
                EntryBody::ToolBlocked { tool_call_id, reason, .. }
                | EntryBody::ToolSkipped { tool_call_id, reason } => {
                    let answer = Answer { text: reason.clone(), is_error: true };
                    self.call(tool_call_id.as_str()).answers.push(answer);
                }
                EntryBody::LoopEnded { outcome, .. } => self.outcomes.push(outcome.clone()),
                _ => {}
            }
        }
        self.sessions.insert(session.to_owned(), entries);
    }

    fn call(&mut self, id: &str) -> &mut Call {
        self.calls.entry(id.to_owned()).or_default()
    }

    /// Calls that were started and have no answer.
    pub fn open_calls(&self) -> BTreeSet<String> {
        let open = self.calls.iter().filter(|(_, call)| call.starts > 0 && call.answers.is_empty());
        open.map(|(id, _)| id.clone()).collect()
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.sessions.values().map(Vec::len).sum()
    }

    /// The number of a session's last entry.
    pub fn last(&self, session: &str) -> u64 {
        self.sessions.get(session).and_then(|entries| entries.last()).map_or(0, |(seq, _)| seq.0)
    }
}

fn journals(data: &Path) -> Vec<std::path::PathBuf> {
    let Ok(shards) = fs::read_dir(data.join("sessions")) else { return Vec::new() };
    let files = shards.flat_map(|shard| fs::read_dir(shard.unwrap().path()).unwrap());
    let mut journals: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    journals.retain(|path| path.extension().is_some_and(|extension| extension == "journal"));
    journals.sort();
    journals
}

fn text_of(result: &ToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| match block {
        Content::Text { text } => Some(text.as_str()),
        Content::Image { .. } | Content::Thinking { .. } | Content::ToolCall { .. } => None,
    });
    texts.collect()
}
