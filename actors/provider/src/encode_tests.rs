use std::sync::Arc;

use super::*;
use playhouse_protocol::{AgentMessage, CacheConfig, History, ModelConfig, Purpose, Secret, StopReason, Usage};
use serde_json::json;

fn config(messages: Vec<Message>) -> StreamConfig {
    StreamConfig {
        model_config: Arc::new(ModelConfig::openai("gpt", Secret::new("k"))),
        system_prompt: "".into(),
        messages: messages.into_iter().map(AgentMessage::from).collect(),
        tools: Arc::new([]),
        thinking_level: ThinkingLevel::Off,
        max_tokens: None,
        temperature: None,
        cache_config: CacheConfig::default(),
        purpose: Purpose::Turn,
        response: 0,
        attempt: 0,
        first_prompt: "".into(),
    }
}

fn assistant(content: Vec<Content>) -> Message {
    Message::Assistant {
        content,
        stop_reason: StopReason::ToolUse,
        model: "m".into(),
        provider: "p".into(),
        usage: Usage::default(),
        timestamp: 0,
        error_message: None,
    }
}

fn body(config: &StreamConfig) -> Value {
    serde_json::from_slice(&encode_request(config, &Transcripts::new(1 << 20)).unwrap()).unwrap()
}

#[test]
fn the_smallest_request() {
    assert_eq!(
        body(&config(vec![Message::user("hi \"you\"", 0)])),
        json!({
            "model": "gpt", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "hi \"you\""}],
        })
    );
}

#[test]
fn everything_that_can_be_sent() {
    let image = || Content::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let mut config = config(vec![
        Message::User { content: vec![Content::text("look"), image()], timestamp: 0 },
        assistant(vec![
            Content::Thinking { thinking: "secret".into(), signature: None },
            Content::text("ok"),
            Content::ToolCall { id: "a".into(), name: "t".into(), arguments: json!({"x": 1}) },
            Content::ToolCall { id: "b".into(), name: "no such.tool".into(), arguments: json!("{\"x\":") },
        ]),
        Message::ToolResult {
            tool_call_id: "a".into(),
            tool_name: "t".into(),
            content: vec![Content::text("one"), image()],
            is_error: false,
            timestamp: 0,
        },
        Message::ToolResult {
            tool_call_id: "b".into(),
            tool_name: "no such.tool".into(),
            content: vec![Content::text("there is no tool")],
            is_error: true,
            timestamp: 0,
        },
        assistant(vec![Content::ToolCall { id: "c".into(), name: "t".into(), arguments: json!({}) }]),
        Message::User { content: vec![Content::text("a"), Content::text(""), Content::text("b")], timestamp: 0 },
    ]);
    config.system_prompt = "be brief".into();
    config.max_tokens = Some(7);
    config.temperature = Some(0.5);
    config.thinking_level = ThinkingLevel::Minimal;
    config.tools =
        Arc::new([ToolDefinition { name: "t".into(), description: "d".into(), parameters: json!({"type": "object"}) }]);
    assert_eq!(
        body(&config),
        json!({
            "model": "gpt", "stream": true, "stream_options": {"include_usage": true},
            "max_completion_tokens": 7, "temperature": 0.5, "reasoning_effort": "minimal",
            "tools": [{"type": "function", "function": {
                "name": "t", "description": "d", "parameters": {"type": "object"},
            }}],
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ]},
                {"role": "assistant", "content": "ok", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{\"x\":1}"}},
                    {"id": "b", "type": "function", "function": {"name": "no_such_tool", "arguments": "{\"x\":"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "one\n[image/png image, not shown]"},
                {"role": "tool", "tool_call_id": "b", "content": "there is no tool"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}},
                ]},
                {"role": "user", "content": "a\nb"},
            ],
        })
    );
}

#[test]
fn what_is_not_for_models_is_left_out() {
    let mut failed = assistant(vec![Content::text("half")]);
    if let Message::Assistant { stop_reason, .. } = &mut failed {
        *stop_reason = StopReason::Error;
    }
    let messages: History =
        [AgentMessage::extension("note", json!(1)), Message::user("a", 0).into(), failed.into()].into_iter().collect();
    let config = StreamConfig { messages, ..config(vec![]) };
    assert_eq!(body(&config)["messages"], json!([{"role": "user", "content": "a"}]));
}

#[test]
fn a_conversation_that_grows_is_sent_as_one_that_is_new() {
    let transcripts = Transcripts::new(1 << 20);
    let mut config = config(vec![]);
    for system_prompt in ["", "be brief"] {
        config.system_prompt = system_prompt.into();
        for round in 0..20 {
            let expected = encode_request(&config, &Transcripts::new(0)).unwrap();
            assert_eq!(encode_request(&config, &transcripts).unwrap(), expected);
            assert!(serde_json::from_slice::<Value>(&expected).is_ok());
            config.messages.push(Arc::new(Message::user(format!("round {round}"), 0).into()));
        }
    }
}
