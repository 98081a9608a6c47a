//! What a conversation has in the place of an answer without words: services take no empty message back.

use std::fmt;

/// Why a model's message has no words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wordless {
    /// It declined, or a filter stopped it.
    Declined,
    /// The service could not use what it said.
    NoUse,
}

impl fmt::Display for Wordless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Declined => "The model declined to answer",
            Self::NoUse => "The model's answer was no use",
        })
    }
}

impl Wordless {
    /// The text for the conversation, with the service's word for the reason. It is no answer: no model said it.
    pub fn stand_in(self, reason: &str) -> String {
        format!("[{self}: {reason}]")
    }
}

/// Whether this text was made by [`Wordless::stand_in`].
pub fn is_stand_in(text: &str) -> bool {
    let made = |why: Wordless| text.strip_prefix('[')?.strip_prefix(&why.to_string())?.strip_prefix(": ");
    text.ends_with(']') && (made(Wordless::Declined).is_some() || made(Wordless::NoUse).is_some())
}
