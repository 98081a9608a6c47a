//! A conversation with a hole, made into one that every provider takes.

use std::collections::HashMap;
use std::sync::Arc;

use playhouse_protocol::{AgentMessage, Content, History, Message, ToolCallId, transcript};

/// The answer to a call whose result is not in the journal.
const NO_RESULT: &str = "No result was recorded for this call; verify before repeating it.";

/// `history` as it is when providers take it, else a copy in which every call has exactly one result right after
/// its message, results without a call are gone, and the user speaks first.
pub fn repaired(history: &History) -> History {
    if transcript::validate(history.sendable(), transcript::TranscriptEnd::Any).is_ok() {
        return history.clone();
    }
    let mut results: HashMap<ToolCallId, Arc<AgentMessage>> = HashMap::new();
    for message in history.as_slice() {
        if let Some(Message::ToolResult { tool_call_id, .. }) = message.llm() {
            results.entry(tool_call_id.clone()).or_insert_with(|| message.clone());
        }
    }
    let mut mended = History::default();
    let mut user_spoke = false;
    for message in history.as_slice() {
        match message.llm() {
            None | Some(Message::ToolResult { .. }) => {}
            Some(llm) if !llm.is_sendable() => {}
            Some(Message::User { .. }) => {
                user_spoke = true;
                mended.push(message.clone());
            }
            Some(llm @ Message::Assistant { timestamp, .. }) if user_spoke => {
                mended.push(message.clone());
                for (id, name, _) in llm.tool_calls() {
                    let result = results.remove(id).unwrap_or_else(|| Arc::new(no_result(id, name, *timestamp)));
                    mended.push(result);
                }
            }
            Some(Message::Assistant { .. }) => {}
        }
    }
    mended
}

fn no_result(id: &ToolCallId, name: &str, timestamp: u64) -> AgentMessage {
    Message::ToolResult {
        tool_call_id: id.clone(),
        tool_name: name.to_owned(),
        content: vec![Content::text(NO_RESULT)],
        is_error: true,
        timestamp,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse_protocol::{StopReason, Usage};
    use serde_json::json;

    fn assistant(calls: &[&str]) -> AgentMessage {
        let calls =
            calls.iter().map(|id| Content::ToolCall { id: (*id).into(), name: "t".into(), arguments: json!({}) });
        Message::Assistant {
            content: calls.chain([Content::text("x")]).collect(),
            stop_reason: StopReason::ToolUse,
            model: "m".into(),
            provider: "p".into(),
            usage: Usage::default(),
            timestamp: 3,
            error_message: None,
        }
        .into()
    }

    fn result(id: &str) -> AgentMessage {
        Message::ToolResult {
            tool_call_id: id.into(),
            tool_name: "t".into(),
            content: vec![Content::text(id)],
            is_error: false,
            timestamp: 4,
        }
        .into()
    }

    #[test]
    fn a_whole_conversation_is_shared_not_copied() {
        let history: History = [AgentMessage::user("hi", 1), assistant(&["a"]), result("a")].into_iter().collect();
        assert_eq!(repaired(&history).as_slice().as_ptr(), history.as_slice().as_ptr());
    }

    #[test]
    fn holes_are_filled_and_strays_dropped() {
        let history: History = [
            assistant(&[]),
            result("stray"),
            AgentMessage::user("hi", 1),
            assistant(&["a", "b"]),
            result("b"),
            result("b"),
            AgentMessage::user("go on", 5),
        ]
        .into_iter()
        .collect();
        let expected: History = [
            AgentMessage::user("hi", 1),
            assistant(&["a", "b"]),
            no_result(&"a".into(), "t", 3),
            result("b"),
            AgentMessage::user("go on", 5),
        ]
        .into_iter()
        .collect();
        assert_eq!(repaired(&history), expected);
        assert_eq!(transcript::validate(expected.sendable(), transcript::TranscriptEnd::Open), Ok(()));
    }
}
