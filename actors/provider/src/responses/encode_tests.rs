use std::sync::Arc;

use playhouse_protocol::{AgentMessage, ApiProtocol, ModelConfig, StopReason};
use reqwest::Url;
use serde_json::json;

use super::super::{Responses, validator};
use super::*;
use crate::testing::{call, config, conversations, said};
use crate::wire::service::Protocol;
use crate::wire::transport::HttpRequest;

const SEAL: &str = r#"{"id":"rs_68af4034","encrypted_content":"gAAAAABor0A2seal=="}"#;

fn model() -> ModelConfig {
    ModelConfig::new("openai", ApiProtocol::OpenaiResponses, "gpt-5")
}

fn turn(messages: Vec<Message>) -> StreamConfig {
    StreamConfig {
        model_config: Arc::new(model()),
        messages: messages.into_iter().map(AgentMessage::from).collect(),
        ..config("")
    }
}

fn request(config: &StreamConfig) -> HttpRequest {
    let url = Url::parse("https://api.openai.com/v1/responses").unwrap();
    let protocol = Responses { url, provider: "openai".into() };
    protocol.request(config, &Transcripts::new(1 << 20)).unwrap()
}

fn body(config: &StreamConfig) -> Value {
    serde_json::from_slice(&request(config).body).unwrap()
}

fn thinking(text: &str, seal: Option<&str>) -> Content {
    Content::Thinking { thinking: text.to_owned(), signature: seal.map(str::to_owned) }
}

/// `place` is where its message begins in the input, and the block's number in it.
fn output_text(text: &str, place: (usize, usize)) -> Value {
    json!({"type": "message", "id": message_id(place), "status": "completed", "role": "assistant", "content":
        [{"type": "output_text", "text": text, "annotations": []}]})
}

#[test]
fn conformance_every_conversation_makes_a_valid_request() {
    for (what, config) in conversations(&model(), SEAL) {
        let request = request(&config);
        let checked = validator::check(&request);
        assert_eq!(checked, Ok(()), "{what}: {}", String::from_utf8_lossy(&request.body));
    }
}

#[test]
fn the_smallest_request() {
    assert_eq!(
        body(&turn(vec![Message::user("hi \"you\"", 0)])),
        json!({
            "model": "gpt-5", "stream": true, "store": false,
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi \"you\""}]}],
        })
    );
}

#[test]
fn everything_that_can_be_sent() {
    let image = || Content::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let answer = |id: &str, content| Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: "t".into(),
        content,
        is_error: false,
        timestamp: 0,
    };
    let mut config = turn(vec![
        Message::User { content: vec![Content::text("look"), Content::text(""), image()], timestamp: 0 },
        said(
            "openai",
            vec![
                thinking("I think.\n\nI decide.", Some(SEAL)),
                thinking("", Some(SEAL)),
                Content::text("ok"),
                Content::text(""),
                call("a", "t", json!({"x": 1})),
                call("b", "no such.tool", json!("{\"x\":")),
                call("c.d", "t", json!({})),
            ],
            StopReason::ToolUse,
        ),
        answer("a", vec![Content::text("one"), Content::text("two")]),
        answer("b", vec![Content::text("see"), image()]),
        answer("c.d", vec![]),
    ]);
    config.system_prompt = "be brief".into();
    config.max_tokens = Some(7);
    config.temperature = Some(0.5);
    config.thinking_level = ThinkingLevel::Minimal;
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    config.response_format = Some(Arc::new(ResponseFormat { name: "answer".into(), schema: schema.clone() }));
    config.tools =
        Arc::new([ToolDefinition { name: "t".into(), description: "d".into(), parameters: json!({"type": "object"}) }]);
    let wire_image = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"});
    let reasoning = |summary: Value| {
        json!({"type": "reasoning", "id": "rs_68af4034", "summary": summary,
            "encrypted_content": "gAAAAABor0A2seal=="})
    };
    let mapped = wire_id("c.d");
    let bytes = request(&config).body;
    let sent = String::from_utf8_lossy(&bytes).into_owned();
    let first = sent.find(r#",{"type":"reasoning""#).unwrap() - sent.find(r#"{"type":"message""#).unwrap();
    assert_eq!(
        body(&config),
        json!({
            "model": "gpt-5", "instructions": "be brief", "stream": true, "store": false, "max_output_tokens": 16,
            "reasoning": {"effort": "minimal", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "text": {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": true}},
            "tools": [{"type": "function", "name": "t", "description": "d", "strict": false,
                "parameters": {"type": "object", "properties": {}}}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}, wire_image]},
                reasoning(json!([{"type": "summary_text", "text": "I think.\n\nI decide."}])),
                reasoning(json!([])),
                output_text("ok", (first, 2)),
                {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{\"x\":1}", "status": "completed"},
                {"type": "function_call", "call_id": "b", "name": "no_such_tool", "arguments": "{\"x\":", "status": "completed"},
                {"type": "function_call", "call_id": mapped, "name": "t", "arguments": "{}", "status": "completed"},
                {"type": "function_call_output", "call_id": "a", "output": "one\ntwo"},
                {"type": "function_call_output", "call_id": "b", "output":
                    [{"type": "input_text", "text": "see"}, wire_image]},
                {"type": "function_call_output", "call_id": mapped, "output": "(no output)"},
            ],
        })
    );
}

#[test]
fn a_model_that_does_not_reason_takes_a_temperature_and_an_open_schema_is_advice() {
    let mut config = turn(vec![Message::user("hi", 0)]);
    config.temperature = Some(0.5);
    config.model_config = Arc::new(ModelConfig { max_tokens: Some(2_000), ..model() });
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    config.response_format = Some(Arc::new(ResponseFormat { name: "an answer".into(), schema: schema.clone() }));
    let body = body(&config);
    assert_eq!((&body["temperature"], &body["max_output_tokens"]), (&json!(0.5), &json!(2_000)));
    let format = json!({"type": "json_schema", "name": "an_answer", "schema": schema, "strict": false});
    assert_eq!(body["text"], json!({"format": format}));
    assert_eq!((body.get("reasoning"), body.get("include")), (None, None));
}

#[test]
fn reasoning_goes_back_only_sealed_to_its_own_and_with_what_it_led_to() {
    let input = |provider: &str, content: Vec<Content>| {
        body(&turn(vec![said(provider, content, StopReason::Stop)]))["input"].clone()
    };
    let after = |seal: Option<&str>| vec![thinking("hm", seal), Content::text("so")];
    assert_eq!(input("openai", after(Some(SEAL)))[0]["type"], "reasoning");
    let alone = json!([output_text("so", (0, 1))]);
    assert_eq!(input("elsewhere", after(Some(SEAL))), alone);
    for seal in [
        None,
        Some(""),
        Some("c2VhbA=="),
        Some(r#"{"id":"rs_1"}"#),
        Some(r#"{"id":"rs_1","encrypted_content":""}"#),
        Some(r#"{"id":"","encrypted_content":"e"}"#),
        Some(r#"{"id":1,"encrypted_content":"e"}"#),
    ] {
        assert_eq!(input("openai", after(seal)), alone, "{seal:?}");
    }
    let last = vec![Content::text("so"), thinking("hm", Some(SEAL)), thinking("hm", Some(SEAL)), Content::text("")];
    assert_eq!(input("openai", last), json!([output_text("so", (0, 0))]));
}

#[test]
fn the_input_of_a_turn_begins_the_next_and_grows_as_if_it_were_new() {
    let input = |body: &[u8]| {
        let body = String::from_utf8(body.to_vec()).unwrap();
        let start = body.find("\"input\":[").unwrap() + 9;
        body[start..body.len() - 2].to_owned()
    };
    for (what, whole) in conversations(&model(), SEAL) {
        let transcripts = Transcripts::new(1 << 20);
        let mut config = StreamConfig { messages: Default::default(), ..whole.clone() };
        let mut before = String::new();
        for message in whole.messages.as_slice() {
            config.messages.push(message.clone());
            let sent = encode_request(&config, "openai", &transcripts).unwrap();
            assert_eq!(sent, encode_request(&config, "openai", &Transcripts::new(0)).unwrap(), "{what}");
            let now = input(&sent);
            assert!(now.starts_with(&before), "{what}: {before}\n{now}");
            before = now;
        }
    }
}
