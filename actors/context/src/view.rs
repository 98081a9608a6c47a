//! The view of a conversation: what a model is shown of it.

use playhouse_protocol::History;

use crate::{Record, repaired};

/// Whether a conversation may have holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// It has none: its journal is whole.
    None,
    /// Lines of its journal are lost.
    Possible,
}

/// What a model is shown of a record. Nothing takes the place of parts of it, so the view shares all of its messages; one
/// with holes is mended first.
pub fn view(record: &Record, holes: Holes) -> History {
    match holes {
        Holes::None => record.messages().clone(),
        Holes::Possible => repaired(record.messages()),
    }
}
