use std::sync::Arc;

use playhouse_protocol::{ApiProtocol, ModelConfig, ResponseFormat, ThinkingLevel};
use serde_json::json;

use super::*;
use crate::gemini::models::Generation;
use crate::gemini::parts::Ids;

const WRITER: Writer<'static> = Writer { provider: "google", ids: Ids::Sent, generation: Generation::Older };

fn config(id: &str) -> StreamConfig {
    let model = ModelConfig::new("google", ApiProtocol::GoogleGenerativeAi, id);
    StreamConfig { model_config: Arc::new(model), ..crate::testing::config("hi") }
}

fn body(config: &StreamConfig) -> Value {
    serde_json::from_slice(&request(config, &Transcripts::new(0), WRITER).unwrap()).unwrap()
}

fn tool(name: &str, parameters: Value) -> ToolDefinition {
    ToolDefinition { name: name.into(), description: "d".into(), parameters }
}

fn format() -> ResponseFormat {
    ResponseFormat {
        name: "answer".into(),
        schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    }
}

#[test]
fn the_smallest_request() {
    let contents = json!([{"role": "user", "parts": [{"text": "hi"}]}]);
    assert_eq!(body(&config("gemini-2.0-flash")), json!({ "contents": contents }));
}

#[test]
fn everything_that_can_be_set() {
    let schema =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}});
    let config = StreamConfig {
        system_prompt: "be \"brief\"".into(),
        max_tokens: Some(7),
        temperature: Some(0.5),
        thinking_level: ThinkingLevel::Low,
        tools: Arc::new([
            tool("t", schema.clone()),
            tool("none", Value::Null),
            tool("empty", json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false})),
            tool("any", json!({"type": "object", "additionalProperties": true})),
        ]),
        ..config("gemini-2.5-pro")
    };
    assert_eq!(
        body(&config),
        json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "be \"brief\""}]},
            "tools": [{"functionDeclarations": [
                {"name": "t", "description": "d", "parametersJsonSchema": schema},
                {"name": "none", "description": "d"},
                {"name": "empty", "description": "d"},
                {"name": "any", "description": "d",
                 "parametersJsonSchema": {"type": "object", "additionalProperties": true}},
            ]}],
            "generationConfig": {
                "maxOutputTokens": 7, "temperature": 0.5,
                "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 512},
            },
        })
    );
}

#[test]
fn a_form_for_the_answer_is_the_services_own_unless_there_are_tools() {
    let mut config = StreamConfig { response_format: Some(Arc::new(format())), ..config("gemini-2.0-flash") };
    assert_eq!(answer_tool(&config), None);
    assert_eq!(
        body(&config)["generationConfig"],
        json!({"responseMimeType": "application/json", "responseJsonSchema": format().schema})
    );
    config.tools = Arc::new([tool("t", Value::Null), tool("answer", Value::Null)]);
    assert_eq!(answer_tool(&config), Some("answer_".to_owned()), "a tool of that name is there");
    let body = body(&config);
    assert_eq!(body["toolConfig"], json!({"functionCallingConfig": {"mode": "ANY"}}));
    assert_eq!(body["generationConfig"], Value::Null);
    assert_eq!(
        body["tools"][0]["functionDeclarations"][2],
        json!({"name": "answer_", "description": ANSWER, "parametersJsonSchema": format().schema})
    );
}

#[test]
fn the_limit_of_a_turn_goes_before_the_models() {
    let mut config = config("gemini-2.0-flash");
    Arc::make_mut(&mut config.model_config).max_tokens = Some(100);
    assert_eq!(body(&config)["generationConfig"], json!({"maxOutputTokens": 100}));
    config.max_tokens = Some(50);
    assert_eq!(body(&config)["generationConfig"], json!({"maxOutputTokens": 50}));
}
