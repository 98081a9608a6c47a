//! The conversation: content, messages, and the history that agents share without copying.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{EntryId, ToolCallId, TurnId};
use crate::stand_in::is_stand_in;
use crate::usage::Usage;

/// A block of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Content {
    /// Text, for the model or from it.
    Text {
        /// May be empty; then no provider is sent it.
        text: String,
    },
    /// An image, for models that take some.
    Image {
        /// The image's bytes in base64.
        data: String,
        /// The image's type, such as `image/png`.
        mime_type: String,
    },
    /// The model's reasoning, replayed unchanged with its signature.
    Thinking {
        /// As the model wrote it, or the provider's summary of it.
        thinking: String,
        /// The provider's seal on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// The model asks for a tool.
    ToolCall {
        /// Unique within the session.
        id: ToolCallId,
        /// The tool's name, as the model wrote it.
        name: String,
        /// Its arguments. A string here means that the model's JSON did not parse: never run, answered with an error.
        arguments: Value,
    },
}

impl Content {
    /// A block of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A call of a tool, as a model asks for one.
    pub fn tool_call(id: impl Into<ToolCallId>, name: impl Into<String>, arguments: Value) -> Self {
        Self::ToolCall { id: id.into(), name: name.into(), arguments }
    }
}

/// Why the model's message ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The model was done.
    Stop,
    /// It ran into its output limit.
    Length,
    /// It declined to answer or to go on, or a filter stopped it: what it had said stands.
    Refusal,
    /// The model waits for the results of its calls.
    ToolUse,
    /// The call failed: the message is kept for people, and no model sees it.
    Error,
    /// The run was aborted: the message holds what had come.
    Aborted,
}

/// A message a provider understands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// From the user, or from whoever speaks in the user's place.
    User {
        /// Usually one text block.
        content: Vec<Content>,
        /// When it was made, in unix milliseconds.
        timestamp: u64,
    },
    /// From the model: one whole response.
    Assistant {
        /// Text, thinking and tool calls.
        content: Vec<Content>,
        /// Whether it is complete, or why it is not.
        stop_reason: StopReason,
        /// The model that the provider says answered.
        model: Arc<str>,
        /// The service's name, as in the model's configuration.
        provider: Arc<str>,
        /// What the call that gave it consumed.
        usage: Usage,
        /// When it was complete, in unix milliseconds.
        timestamp: u64,
        /// The reason, when `stop_reason` is `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
    },
    /// The answer to one tool call.
    ToolResult {
        /// The call in the message before it.
        tool_call_id: ToolCallId,
        /// The tool's name, as in the call.
        tool_name: String,
        /// What the model gets to see.
        content: Vec<Content>,
        /// Whether `content` is an error's text.
        is_error: bool,
        /// When the result came, in unix milliseconds.
        timestamp: u64,
    },
}

impl Message {
    /// A user's message of one text block.
    pub fn user(text: impl Into<String>, timestamp: u64) -> Self {
        Self::User { content: vec![Content::text(text)], timestamp }
    }

    /// A model's message that came in whole, for a conversation to begin with; who answered, and for how much, is not
    /// said. With a [call](Content::tool_call) in it, it waits for the call's result.
    pub fn assistant(content: impl IntoIterator<Item = Content>, timestamp: u64) -> Self {
        let content: Vec<Content> = content.into_iter().collect();
        let calls = content.iter().any(|block| matches!(block, Content::ToolCall { .. }));
        Self::Assistant {
            content,
            stop_reason: if calls { StopReason::ToolUse } else { StopReason::Stop },
            model: "".into(),
            provider: "".into(),
            usage: Usage::default(),
            timestamp,
            error_message: None,
        }
    }

    /// The blocks, whoever it is from.
    pub fn content(&self) -> &[Content] {
        match self {
            Self::User { content, .. } | Self::Assistant { content, .. } | Self::ToolResult { content, .. } => content,
        }
    }

    /// Its text blocks, joined.
    pub fn text(&self) -> String {
        let mut all = String::new();
        for block in self.content() {
            if let Content::Text { text } = block {
                all.push_str(text);
            }
        }
        all
    }

    /// What a model said in it: its text, without what [stands in](crate::Wordless::stand_in) for a refusal without words.
    pub fn words(&self) -> String {
        match self {
            Self::Assistant { content, stop_reason: StopReason::Refusal, .. } => {
                let texts = content.iter().filter_map(|block| match block {
                    Content::Text { text } if !is_stand_in(text) => Some(text.as_str()),
                    Content::Text { .. }
                    | Content::Image { .. }
                    | Content::Thinking { .. }
                    | Content::ToolCall { .. } => None,
                });
                texts.collect()
            }
            Self::User { .. } | Self::Assistant { .. } | Self::ToolResult { .. } => self.text(),
        }
    }

    /// The tool calls in it.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&ToolCallId, &str, &Value)> {
        self.content().iter().filter_map(|block| match block {
            Content::ToolCall { id, name, arguments } => Some((id, name.as_str(), arguments)),
            Content::Text { .. } | Content::Image { .. } | Content::Thinking { .. } => None,
        })
    }

    /// Whether a provider may be shown it. A failed response is kept for people, not for models; so is one
    /// that holds nothing.
    pub fn is_sendable(&self) -> bool {
        match self {
            Self::User { content, .. } => content.iter().any(Content::has_substance),
            Self::Assistant { content, stop_reason, .. } => {
                *stop_reason != StopReason::Error && content.iter().any(Content::has_substance)
            }
            Self::ToolResult { .. } => true,
        }
    }
}

impl Content {
    /// Whether there is anything for a provider in it beside reasoning.
    fn has_substance(&self) -> bool {
        match self {
            Self::Text { text } => !text.is_empty(),
            Self::Image { .. } | Self::ToolCall { .. } => true,
            Self::Thinking { .. } => false,
        }
    }
}

/// A message sent to models, with the turn it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LlmMessage {
    /// What providers are sent of it.
    #[serde(flatten)]
    pub message: Message,
    /// The turn that brought it; `None` if it came from outside or was restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

/// An application's own note in the conversation; no model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtensionMessage {
    /// Tells it from the other roles in JSON: always `extension`.
    pub role: ExtensionRole,
    /// The application's word for what it is.
    pub kind: String,
    /// The application's data, kept as it is.
    pub data: Value,
}

/// The role of an [`ExtensionMessage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExtensionRole {
    /// Written `extension` in JSON.
    #[default]
    Extension,
}

/// A message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AgentMessage {
    /// One that providers are sent.
    Llm(LlmMessage),
    /// One that only the application reads.
    Extension(ExtensionMessage),
}

impl AgentMessage {
    /// A user's message of one text block.
    pub fn user(text: impl Into<String>, timestamp: u64) -> Self {
        Message::user(text, timestamp).into()
    }

    /// An application's note, which no model sees.
    pub fn extension(kind: impl Into<String>, data: Value) -> Self {
        Self::Extension(ExtensionMessage { role: ExtensionRole::Extension, kind: kind.into(), data })
    }

    /// The message for models, if it is one.
    pub fn llm(&self) -> Option<&Message> {
        match self {
            Self::Llm(llm) => Some(&llm.message),
            Self::Extension(_) => None,
        }
    }
}

impl From<Message> for AgentMessage {
    fn from(message: Message) -> Self {
        Self::Llm(LlmMessage { message, turn_id: None })
    }
}

/// A conversation, shared and immutable: cloning it copies one pointer, and appending copies nothing once no
/// one else holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Arc<Vec<Arc<AgentMessage>>>);

impl History {
    /// Adds a message at the end.
    pub fn push(&mut self, message: Arc<AgentMessage>) {
        Arc::make_mut(&mut self.0).push(message);
    }

    /// Keeps the first `len` messages.
    pub fn truncate(&mut self, len: usize) {
        if len < self.0.len() {
            Arc::make_mut(&mut self.0).truncate(len);
        }
    }

    /// The messages, oldest first.
    pub fn as_slice(&self) -> &[Arc<AgentMessage>] {
        &self.0
    }

    /// How many messages there are, extensions included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no message at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a provider may be shown: no extensions, no failed or empty responses.
    pub fn sendable(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.0.iter().filter_map(|m| m.llm()).filter(|m| m.is_sendable())
    }
}

impl From<Vec<Arc<AgentMessage>>> for History {
    fn from(messages: Vec<Arc<AgentMessage>>) -> Self {
        Self(Arc::new(messages))
    }
}

impl FromIterator<AgentMessage> for History {
    fn from_iter<I: IntoIterator<Item = AgentMessage>>(messages: I) -> Self {
        Self(Arc::new(messages.into_iter().map(Arc::new).collect()))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_models_message_waits_for_a_result_if_it_has_a_call() {
        let message = Message::assistant([Content::text("Let me look.")], 7);
        let Message::Assistant { content, stop_reason, timestamp: 7, .. } = &message else { panic!("{message:?}") };
        assert_eq!((content.len(), *stop_reason, message.text().as_str()), (1, StopReason::Stop, "Let me look."));
        let call = Content::tool_call("c1", "bash", json!({"command": "ls"}));
        let expected = Content::ToolCall { id: "c1".into(), name: "bash".into(), arguments: json!({"command": "ls"}) };
        assert_eq!(call, expected);
        let message = Message::assistant([Content::text("Let me look."), call], 7);
        assert!(matches!(message, Message::Assistant { stop_reason: StopReason::ToolUse, .. }), "{message:?}");
    }

    #[test]
    fn messages_have_the_wire_names_of_the_field() {
        let message = AgentMessage::Llm(LlmMessage {
            message: Message::Assistant {
                content: vec![
                    Content::Thinking { thinking: "hm".into(), signature: None },
                    Content::ToolCall { id: "c1".into(), name: "bash".into(), arguments: json!({"command": "ls"}) },
                ],
                stop_reason: StopReason::ToolUse,
                model: "m".into(),
                provider: "p".into(),
                usage: Usage::of(1, 2, 0, 0, 0),
                timestamp: 7,
                error_message: None,
            },
            turn_id: Some(TurnId { loop_id: "s.c.1".into(), turn_index: 0 }),
        });
        let wire = serde_json::to_value(&message).unwrap();
        assert_eq!(
            wire,
            json!({
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
                ],
                "stop_reason": "toolUse", "model": "m", "provider": "p", "timestamp": 7,
                "usage": {"input": 1, "output": 2, "cache_read": 0, "cache_write": 0, "reasoning": 0, "total_tokens": 3},
                "turn_id": {"loop_id": "s.c.1", "turn_index": 0},
            })
        );
        assert_eq!(serde_json::from_value::<AgentMessage>(wire).unwrap(), message);
    }

    #[test]
    fn extensions_round_trip_and_are_never_sent() {
        let note = AgentMessage::extension("ui_update", json!({"a": 1}));
        let wire = serde_json::to_value(&note).unwrap();
        assert_eq!(wire, json!({"role": "extension", "kind": "ui_update", "data": {"a": 1}}));
        assert_eq!(serde_json::from_value::<AgentMessage>(wire).unwrap(), note);
        let history: History = [note, AgentMessage::user("hi", 1)].into_iter().collect();
        assert_eq!(history.sendable().count(), 1);
    }

    #[test]
    fn a_shared_history_is_not_disturbed_by_an_append() {
        let mut history: History = [AgentMessage::user("a", 1)].into_iter().collect();
        let lent = history.clone();
        history.push(Arc::new(AgentMessage::user("b", 2)));
        assert_eq!((lent.len(), history.len()), (1, 2));
    }
}
