//! Rough sizes, for the time between two reports of the provider.

use playhouse_protocol::{Content, History, Message, ToolDefinition};

/// What a message costs beside its text: role, separators.
const PER_MESSAGE: u64 = 4;
/// What an image costs, whatever its size.
const PER_IMAGE: u64 = 1_000;

/// About how many tokens a text has: four characters each.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}

/// About how many tokens a message has.
fn estimate_message(message: &Message) -> u64 {
    let blocks = message.content().iter().map(|block| match block {
        Content::Text { text } => estimate_tokens(text),
        Content::Thinking { thinking, .. } => estimate_tokens(thinking),
        Content::Image { .. } => PER_IMAGE,
        Content::ToolCall { name, arguments, .. } => estimate_tokens(name) + estimate_tokens(&arguments.to_string()),
    });
    PER_MESSAGE + blocks.sum::<u64>()
}

/// About how many tokens a request has: system prompt, tools and what is sent of the conversation.
pub fn estimate_request(system_prompt: &str, tools: &[ToolDefinition], history: &History) -> u64 {
    let tools = tools.iter().map(|tool| {
        estimate_tokens(&tool.name) + estimate_tokens(&tool.description) + estimate_tokens(&tool.parameters.to_string())
    });
    let messages = history.sendable().map(estimate_message);
    estimate_tokens(system_prompt) + tools.sum::<u64>() + messages.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse_protocol::AgentMessage;

    #[test]
    fn estimates_count_characters_not_bytes() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("abcde"), 2);
        assert_eq!(estimate_tokens("éééé"), 1);
    }

    #[test]
    fn a_request_is_the_sum_of_what_is_sent() {
        let history: History =
            [AgentMessage::user("abcd", 0), AgentMessage::extension("x", "y".into())].into_iter().collect();
        let tool = ToolDefinition { name: "read".into(), description: "abcd".into(), parameters: true.into() };
        assert_eq!(estimate_request("abcdefgh", &[tool], &history), 2 + 3 + 5);
    }
}
