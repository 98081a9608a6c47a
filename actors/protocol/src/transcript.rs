//! What every provider asks of a conversation: checked where one is taken in, and in every test of a request.

use std::collections::HashSet;

use crate::ids::ToolCallId;
use crate::message::{Content, Message};

/// What is wrong with a conversation, and where (message numbers start at 0).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptError {
    /// There is nothing to answer.
    #[error("the conversation is empty: start it with a user message")]
    Empty,
    /// It does not start with the user.
    #[error("message {0} opens the conversation but is not the user's")]
    OpensWithoutUser(usize),
    /// A message holds nothing that a provider takes.
    #[error("message {0} is empty: leave it out")]
    EmptyMessage(usize),
    /// A call has no answer.
    #[error("tool call `{call}` of message {at} has no result before message {before}")]
    Unanswered {
        /// The call's id in its message.
        call: ToolCallId,
        /// The message it is in.
        at: usize,
        /// The message that should have come after its result.
        before: usize,
    },
    /// An answer has no call.
    #[error("message {at} answers tool call `{call}`, which is not open")]
    Unasked {
        /// The call that the result names.
        call: ToolCallId,
        /// The number of the result's message.
        at: usize,
    },
    /// Two calls of one message share an id.
    #[error("message {at} uses the tool call id `{call}` twice")]
    DuplicateCall {
        /// The id that two calls share.
        call: ToolCallId,
        /// The number of their message.
        at: usize,
    },
    /// A call's arguments are not an object.
    #[error("tool call `{call}` of message {at} has arguments that are no JSON object")]
    BadArguments {
        /// The call's id in its message.
        call: ToolCallId,
        /// The number of its message.
        at: usize,
    },
    /// It ends with the model's own message.
    #[error("the conversation ends with the model's own message: there is nothing to answer")]
    EndsWithAssistant,
}

/// Whether a conversation must be one that a model can answer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptEnd {
    /// It must end with a user message or a tool result.
    Open,
    /// It may also be one that rests after the model's message.
    Any,
}

/// Checks that a provider would take `messages`.
pub fn validate<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    end: TranscriptEnd,
) -> Result<(), TranscriptError> {
    let mut open: Vec<ToolCallId> = Vec::new();
    let mut asked_at = 0;
    let mut count = 0;
    let mut ends_with_assistant = false;
    for (at, message) in messages.into_iter().enumerate() {
        count = at + 1;
        ends_with_assistant = matches!(message, Message::Assistant { .. });
        if at == 0 && !matches!(message, Message::User { .. }) {
            return Err(TranscriptError::OpensWithoutUser(at));
        }
        if !message.is_sendable() {
            return Err(TranscriptError::EmptyMessage(at));
        }
        if let Message::ToolResult { tool_call_id, .. } = message {
            let Some(place) = open.iter().position(|id| id == tool_call_id) else {
                return Err(TranscriptError::Unasked { call: tool_call_id.clone(), at });
            };
            open.remove(place);
            continue;
        }
        if let Some(call) = open.first() {
            return Err(TranscriptError::Unanswered { call: call.clone(), at: asked_at, before: at });
        }
        asked_at = at;
        open = calls_of(message, at)?;
    }
    if count == 0 {
        return Err(TranscriptError::Empty);
    }
    if let Some(call) = open.first() {
        return Err(TranscriptError::Unanswered { call: call.clone(), at: asked_at, before: count });
    }
    if end == TranscriptEnd::Open && ends_with_assistant {
        return Err(TranscriptError::EndsWithAssistant);
    }
    Ok(())
}

fn calls_of(message: &Message, at: usize) -> Result<Vec<ToolCallId>, TranscriptError> {
    let mut seen = HashSet::new();
    let mut calls = Vec::new();
    for block in message.content() {
        let Content::ToolCall { id, arguments, .. } = block else { continue };
        if !seen.insert(id) {
            return Err(TranscriptError::DuplicateCall { call: id.clone(), at });
        }
        if !arguments.is_object() && !arguments.is_string() {
            return Err(TranscriptError::BadArguments { call: id.clone(), at });
        }
        calls.push(id.clone());
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::StopReason;
    use crate::usage::Usage;
    use serde_json::json;

    fn user() -> Message {
        Message::user("hi", 0)
    }

    fn calls(ids: &[&str]) -> Message {
        let content = ids
            .iter()
            .map(|id| Content::ToolCall { id: (*id).into(), name: "t".into(), arguments: json!({}) })
            .chain([Content::text("ok")])
            .collect();
        Message::Assistant {
            content,
            stop_reason: StopReason::ToolUse,
            model: "".into(),
            provider: "".into(),
            usage: Usage::default(),
            timestamp: 0,
            error_message: None,
        }
    }

    fn result(id: &str) -> Message {
        Message::ToolResult {
            tool_call_id: id.into(),
            tool_name: "t".into(),
            content: vec![],
            is_error: false,
            timestamp: 0,
        }
    }

    #[test]
    fn every_rule_has_its_error() {
        use TranscriptError as E;
        let check = |messages: &[Message]| validate(messages, TranscriptEnd::Open);
        assert_eq!(check(&[]), Err(E::Empty));
        assert_eq!(check(&[calls(&[])]), Err(E::OpensWithoutUser(0)));
        assert_eq!(check(&[user(), Message::user("", 0)]), Err(E::EmptyMessage(1)));
        assert_eq!(check(&[user(), calls(&[])]), Err(E::EndsWithAssistant));
        assert_eq!(check(&[user(), result("a")]), Err(E::Unasked { call: "a".into(), at: 1 }));
        assert_eq!(
            check(&[user(), calls(&["a", "b"]), result("a"), user()]),
            Err(E::Unanswered { call: "b".into(), at: 1, before: 3 })
        );
        assert_eq!(
            check(&[user(), calls(&["a"]), result("a"), result("a")]),
            Err(E::Unasked { call: "a".into(), at: 3 })
        );
        assert_eq!(check(&[user(), calls(&["a"])]), Err(E::Unanswered { call: "a".into(), at: 1, before: 2 }));
        assert_eq!(check(&[user(), calls(&["a", "a"])]), Err(E::DuplicateCall { call: "a".into(), at: 1 }));
        assert_eq!(check(&[user(), calls(&["a", "b"]), result("b"), result("a")]), Ok(()));
        assert_eq!(validate(&[user(), calls(&[])], TranscriptEnd::Any), Ok(()));
    }
}
