//! Requests for this crate's own tests.

use std::sync::Arc;

use playhouse_protocol::{
    AgentMessage, CacheConfig, Content, Message, ModelConfig, Purpose, StopReason, StreamConfig, ThinkingLevel, Usage,
};

/// A turn that asks `prompt`.
pub(crate) fn config(prompt: &str) -> StreamConfig {
    StreamConfig {
        model_config: Arc::new(ModelConfig::scripted("test.json")),
        system_prompt: "".into(),
        messages: [AgentMessage::user(prompt, 0)].into_iter().collect(),
        tools: Arc::new([]),
        thinking_level: ThinkingLevel::Off,
        max_tokens: None,
        temperature: None,
        cache_config: CacheConfig::default(),
        purpose: Purpose::Turn,
        response: 0,
        attempt: 0,
        first_prompt: prompt.into(),
    }
}

/// A model's message.
pub(crate) fn assistant(content: Vec<Content>) -> Message {
    Message::Assistant {
        content,
        stop_reason: StopReason::Stop,
        model: "m".into(),
        provider: "p".into(),
        usage: Usage::default(),
        timestamp: 0,
        error_message: None,
    }
}

/// A tool's answer.
pub(crate) fn result(id: &str, tool: &str) -> Message {
    Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: tool.into(),
        content: vec![Content::text("ok")],
        is_error: false,
        timestamp: 0,
    }
}
