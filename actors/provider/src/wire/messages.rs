//! The messages of a request as JSON; pure.

use serde::Serialize;

/// The messages of a request, joined by commas. They grow at their end only, so that the next turn's begin with the
/// same bytes; only what followed the conversation is taken back.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    json: Vec<u8>,
    /// The role of the last message.
    last_role: Option<&'static str>,
    /// The last message is still open: blocks of its role join it.
    open: bool,
    /// For each message of blocks, where its last block ends; `None` if that takes no mark.
    ends: Vec<Option<usize>>,
}

/// How far messages went at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint {
    json: usize,
    last_role: Option<&'static str>,
    open: bool,
    ends: usize,
    last_end: Option<Option<usize>>,
}

/// Whether a cache mark may go on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    May,
    Never,
}

/// Bytes that go between those of the messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Insert<'a> {
    /// Where: see [`Messages::end_of`].
    pub(crate) at: usize,
    pub(crate) bytes: &'a [u8],
}

impl Messages {
    /// Adds a message that stands alone.
    pub(crate) fn item(&mut self, role: &'static str, item: &impl Serialize) -> Result<(), serde_json::Error> {
        self.begin(role);
        serde_json::to_writer(&mut self.json, item)
    }

    /// Adds a block to the last message if that is of the same role, else to a new one: `{"role":…,"<list>":[…]}`.
    pub(crate) fn block(
        &mut self,
        role: &'static str,
        list: &'static str,
        block: &impl Serialize,
        mark: Mark,
    ) -> Result<(), serde_json::Error> {
        if self.open && self.last_role == Some(role) {
            self.json.push(b',');
            self.ends.pop();
        } else {
            self.begin(role);
            for part in ["{\"role\":\"", role, "\",\"", list, "\":["] {
                self.json.extend_from_slice(part.as_bytes());
            }
            self.open = true;
        }
        serde_json::to_writer(&mut self.json, block)?;
        self.ends.push((mark == Mark::May).then_some(self.json.len()));
        Ok(())
    }

    /// How far it goes now.
    pub(crate) fn here(&self) -> Checkpoint {
        Checkpoint {
            json: self.json.len(),
            last_role: self.last_role,
            open: self.open,
            ends: self.ends.len(),
            last_end: self.ends.last().copied(),
        }
    }

    /// Takes back what was added since.
    pub(crate) fn back_to(&mut self, checkpoint: &Checkpoint) {
        self.json.truncate(checkpoint.json);
        (self.last_role, self.open) = (checkpoint.last_role, checkpoint.open);
        // A block that joined the last message moved its end.
        self.ends.truncate(checkpoint.ends.saturating_sub(1));
        self.ends.extend(checkpoint.last_end);
    }

    /// Ends the last message and starts the next.
    fn begin(&mut self, role: &'static str) {
        if std::mem::take(&mut self.open) {
            self.json.extend_from_slice(CLOSE);
        }
        if !self.json.is_empty() {
            self.json.push(b',');
        }
        self.last_role = Some(role);
    }

    /// The role of the last message.
    pub(crate) fn last_role(&self) -> Option<&'static str> {
        self.last_role
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.json.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// Where the last block of the `nth` message of blocks from the end (0 is the last) ends, right after its closing
    /// brace; `None` if there is none or it takes no mark.
    pub(crate) fn end_of(&self, nth: usize) -> Option<usize> {
        *self.ends.iter().rev().nth(nth)?
    }

    /// Appends the messages, without the brackets around them.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>, insert: Option<Insert<'_>>) {
        let at = insert.map_or(0, |insert| insert.at.min(self.json.len()));
        let (before, after) = self.json.split_at_checked(at).unwrap_or((&[], &self.json));
        out.extend_from_slice(before);
        out.extend_from_slice(insert.map_or(&[], |insert| insert.bytes));
        out.extend_from_slice(after);
        if self.open {
            out.extend_from_slice(CLOSE);
        }
    }
}

const CLOSE: &[u8] = b"]}";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(messages: &Messages, insert: Option<Insert<'_>>) -> Value {
        let mut out = b"[".to_vec();
        messages.write_to(&mut out, insert);
        out.push(b']');
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn blocks_of_one_role_share_a_message_and_a_mark_goes_where_it_is_put() {
        let mut messages = Messages::default();
        assert_eq!(written(&messages, None), json!([]));
        messages.block("user", "content", &json!({"n": 1}), Mark::May).unwrap();
        messages.block("user", "content", &json!({"n": 2}), Mark::May).unwrap();
        messages.block("assistant", "content", &json!({"n": 3}), Mark::May).unwrap();
        messages.block("assistant", "content", &json!({"n": 4}), Mark::Never).unwrap();
        messages.block("user", "content", &json!({"n": 5}), Mark::May).unwrap();
        let plain = json!([
            {"role": "user", "content": [{"n": 1}, {"n": 2}]},
            {"role": "assistant", "content": [{"n": 3}, {"n": 4}]},
            {"role": "user", "content": [{"n": 5}]},
        ]);
        assert_eq!(written(&messages, None), plain);
        assert_eq!((messages.end_of(1), messages.end_of(3)), (None, None));
        let at = messages.end_of(2).unwrap() - 1;
        let marked = written(&messages, Some(Insert { at, bytes: b",\"mark\":1" }));
        assert_eq!(marked[0]["content"][1], json!({"n": 2, "mark": 1}));
        let at = messages.end_of(0).unwrap();
        let marked = written(&messages, Some(Insert { at, bytes: b",{\"point\":1}" }));
        assert_eq!(marked[2]["content"], json!([{"n": 5}, {"point": 1}]));
    }

    #[test]
    fn items_stand_alone_and_the_next_turn_begins_with_the_same_bytes() {
        let mut messages = Messages::default();
        messages.item("user", &json!(1)).unwrap();
        messages.block("model", "parts", &json!({"n": 2}), Mark::May).unwrap();
        let before = messages.json.clone();
        messages.item("user", &json!(3)).unwrap();
        assert!(messages.json.starts_with(&before));
        assert_eq!(written(&messages, None), json!([1, {"role": "model", "parts": [{"n": 2}]}, 3]));
        assert_eq!(messages.last_role(), Some("user"));
    }
}
