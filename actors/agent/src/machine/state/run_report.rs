//! What a run amounts to.

use std::sync::Arc;

use playhouse_protocol::{AgentMessage, InputId, LoopId, Message, Outcome, SessionId, Usage};

/// A run that ended, for whoever waits for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// The session that it ran in.
    pub session_id: SessionId,
    /// The run's id, `{session}.{config}.{n}`.
    pub loop_id: LoopId,
    /// The input that started it.
    pub input_id: InputId,
    /// Whether there is an answer, or why there is none.
    pub outcome: Outcome,
    /// What it added to the conversation.
    pub messages: Vec<Arc<AgentMessage>>,
    /// What all of its calls consumed together.
    pub usage: Usage,
}

impl RunReport {
    /// The last text of the model that is not empty: a run that was stopped may end with nothing.
    pub(crate) fn last_words(&self) -> Option<String> {
        let messages = self.messages.iter().rev().filter_map(|message| message.llm());
        let said = messages.filter(|message| matches!(message, Message::Assistant { .. })).map(Message::text);
        said.into_iter().find(|text| !text.trim().is_empty())
    }

    /// The text of the model's last message, empty when there is none.
    pub fn text(&self) -> String {
        self.messages
            .iter()
            .rev()
            .filter_map(|message| message.llm())
            .find(|message| matches!(message, Message::Assistant { .. }))
            .map(Message::text)
            .unwrap_or_default()
    }
}
