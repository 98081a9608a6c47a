//! Newtype ids. An address outlives its actor, so everything is named by one of these.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as it is written and sent.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The id's text, without a copy.
            pub fn shared(&self) -> Arc<str> {
                self.0.clone()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

string_id!(
    /// An agent, the same over all its sessions and restarts.
    AgentId
);
/// An agent id that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no agent id: use 1 to 200 characters of printable ASCII without spaces and `/`")]
pub struct InvalidAgentId(String);

impl AgentId {
    /// Checks that `text` can name an agent: it is part of an address, and is shown to people.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, InvalidAgentId> {
        Self(text.into()).checked()
    }

    /// The same id, if it can be one: text from anywhere becomes an id without a check.
    pub fn checked(self) -> Result<Self, InvalidAgentId> {
        let fits = (1..=200).contains(&self.0.len());
        let plain = self.0.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
        if fits && plain { Ok(self) } else { Err(InvalidAgentId(self.0.chars().take(60).collect())) }
    }
}

string_id!(
    /// One run: `{session}.{config}.{n}`.
    LoopId
);
string_id!(
    /// An input to an agent, chosen by its sender, who repeats it to be sure; receivers drop what they have.
    InputId
);
string_id!(
    /// One model call: the loop, the turn and the attempt it starts from.
    CallId
);
string_id!(
    /// A tool call of the model, unique within its session.
    ToolCallId
);
string_id!(
    /// A message as it appears in events; a retried attempt has a new one.
    MessageId
);
string_id!(
    /// A question for permission, answered exactly once.
    PermissionId
);
string_id!(
    /// A process with a House.
    NodeId
);

/// A journal entry, derived by the machine: the loop or session it belongs to and a number, written `{owner}#{number}`.
/// There are many, and the entries of one owner share its text. Text of any other form is an id as well.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId {
    owner: Arc<str>,
    /// One more than the number; `None` if the text has none and is all in `owner`.
    past: Option<NonZeroU64>,
}

impl EntryId {
    /// The id of an owner's entry with this number.
    pub fn numbered(owner: Arc<str>, number: u64) -> Self {
        match NonZeroU64::new(number.wrapping_add(1)) {
            Some(past) => Self { owner, past: Some(past) },
            None => Self { owner: format!("{owner}#{number}").into(), past: None },
        }
    }

    /// The number it ends with.
    pub fn number(&self) -> Option<u64> {
        self.past.map(|past| past.get() - 1)
    }
}

impl<T: Into<Arc<str>>> From<T> for EntryId {
    fn from(text: T) -> Self {
        let text = text.into();
        // Only what is written back the same way is taken apart: equal ids are equal text.
        let parts = text.rsplit_once('#').filter(|(_, digits)| *digits == "0" || !digits.starts_with(['0', '+']));
        match parts.and_then(|(owner, digits)| Some((owner, digits.parse().ok()?))) {
            Some((owner, number)) => Self::numbered(owner.into(), number),
            None => Self { owner: text, past: None },
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => write!(f, "{}#{number}", self.owner),
            None => f.write_str(&self.owner),
        }
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId({self})")
    }
}

impl Serialize for EntryId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EntryId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(deserializer)?.into())
    }
}

/// A session: names a journal file, so it is checked on the way in.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(Arc<str>);

/// A session id that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no session id: use 1 to 80 letters, digits, `-` or `_`")]
pub struct InvalidSessionId(String);

impl SessionId {
    /// Checks that `text` can name a session: 1 to 80 of `A-Z a-z 0-9 - _`.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidSessionId> {
        let text = text.into();
        let fits = (1..=80).contains(&text.len());
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if fits && plain { Ok(Self(text.into())) } else { Err(InvalidSessionId(text)) }
    }

    /// The id as it is written and sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id's text, without a copy.
    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl TryFrom<String> for SessionId {
    type Error = InvalidSessionId;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({})", self.0)
    }
}

/// A journal entry's number: contiguous within a session over all loops and restarts, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// An event's id, `seq.k`: the entry it derives from, and its place among that entry's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventId {
    /// The entry that it derives from; an event without an entry has the number of the one before it.
    pub seq: Seq,
    /// Its place among the events with this number, from 0.
    pub k: u32,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seq.0, self.k)
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> Self {
        id.to_string()
    }
}

/// Text that is no event id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no event id: it looks like `12.0`")]
pub struct InvalidEventId(String);

impl TryFrom<String> for EventId {
    type Error = InvalidEventId;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts = text.split_once('.').and_then(|(seq, k)| Some((seq.parse().ok()?, k.parse().ok()?)));
        match parts {
            Some((seq, k)) => Ok(Self { seq: Seq(seq), k }),
            None => Err(InvalidEventId(text)),
        }
    }
}

/// A turn: the run it belongs to and its index there, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TurnId {
    /// The run that it belongs to.
    pub loop_id: LoopId,
    /// From 0 within the run.
    pub turn_index: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_cannot_climb_out_of_their_folder() {
        for bad in ["", ".", "..", "a/b", "a.b", "ä", "a b", "a\0", &"x".repeat(81)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?}");
            assert!(serde_json::from_value::<SessionId>(bad.into()).is_err(), "{bad:?}");
        }
        assert!(SessionId::new("0190-a_Z").is_ok());
    }

    #[test]
    fn an_entrys_id_is_its_text_whatever_that_is() {
        for text in ["s.c.1#0", "s#7", "s#007", "s#+7", "s#", "#", "#3", "", "nowhere", "s#parked3", "s#i#s.c.1#4"] {
            let id = EntryId::from(text);
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::to_value(&id).unwrap(), text);
            assert_eq!(serde_json::from_value::<EntryId>(text.into()).unwrap(), id);
        }
        for number in [0, 7, u64::MAX - 1, u64::MAX] {
            let id = EntryId::numbered("s".into(), number);
            assert_eq!(id.to_string(), format!("s#{number}"));
            assert_eq!(EntryId::from(id.to_string()), id);
        }
        let numbers = ["s#7", "s#007", "s#parked3", "s#i#4"].map(|text| EntryId::from(text).number());
        assert_eq!(numbers, [Some(7), None, None, Some(4)]);
    }

    #[test]
    fn event_ids_round_trip_and_order_by_number() {
        let id = EventId { seq: Seq(10), k: 2 };
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(text, "\"10.2\"");
        assert_eq!(serde_json::from_str::<EventId>(&text).unwrap(), id);
        assert!(EventId { seq: Seq(9), k: 70 } < id);
        assert!(serde_json::from_str::<EventId>("\"10\"").is_err());
    }
}
