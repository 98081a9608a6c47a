//! A point in a conversation.

use serde::{Deserialize, Serialize};

use crate::ids::EntryId;

/// A point in a conversation, by the entry that brought what was said before it. So it stays where it is, whatever is put
/// in the place of what came earlier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// Before the first message: nothing was said.
    Start,
    /// After what this entry brought.
    After {
        /// The last entry whose messages come before the point.
        entry: EntryId,
        /// After so many of its messages, for an entry that brought a conversation: after all of them for `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first: Option<u32>,
    },
}
