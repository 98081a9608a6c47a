//! Requests against the services' rules, and what stays the same from turn to turn.

use std::sync::Arc;

use playhouse_protocol::compat::{
    AfterToolResults, CallArguments, CallIds, EffortField, MaxTokensField, ReasoningField, ReplayReasoning, Structured,
    SystemRole, UsageInStream,
};
use playhouse_protocol::{History, Secret};
use serde_json::{Value, json};

use super::validator::{Vendor, check_as, check_body};
use super::*;
use crate::testing::conversations;

const SEAL: &str = r#"[{"type":"reasoning.text","text":"Hm.","signature":"c2ln","index":0}]"#;

fn compat(vendor: Vendor) -> Option<OpenAiCompat> {
    let local = OpenAiCompat {
        max_tokens_field: MaxTokensField::MaxTokens,
        call_arguments: CallArguments::AlwaysObject,
        ..OpenAiCompat::default()
    };
    match vendor {
        Vendor::OpenAi => None,
        Vendor::Ollama => Some(OpenAiCompat {
            reasoning_field: ReasoningField::Reasoning,
            after_tool_results: AfterToolResults::EmptyAssistant,
            ..local
        }),
        Vendor::DeepSeek => Some(OpenAiCompat {
            replay_reasoning: ReplayReasoning::WithTools,
            structured: Structured::ForcedTool,
            ..local
        }),
        Vendor::Mistral => Some(OpenAiCompat {
            reasoning_effort: EffortField::None,
            usage: UsageInStream::NotAsked,
            after_tool_results: AfterToolResults::ShortAssistant,
            call_ids: CallIds::NineAlphanumeric,
            ..local
        }),
        Vendor::Switched => {
            Some(OpenAiCompat { structured: Structured::ForcedTool, reasoning_effort: EffortField::None, ..local })
        }
        Vendor::OpenRouter => Some(OpenAiCompat {
            reasoning_field: ReasoningField::ReasoningDetails,
            reasoning_effort: EffortField::Reasoning,
            replay_reasoning: ReplayReasoning::Always,
            usage: UsageInStream::NotAsked,
            ..local
        }),
    }
}

const VENDORS: [Vendor; 6] =
    [Vendor::OpenAi, Vendor::Ollama, Vendor::DeepSeek, Vendor::Mistral, Vendor::OpenRouter, Vendor::Switched];

fn model(vendor: Vendor) -> ModelConfig {
    ModelConfig { compat: compat(vendor).map(Arc::new), ..ModelConfig::openai("gpt", Secret::new("k")) }
}

fn chat(model: &ModelConfig) -> Chat {
    Chat { url: Url::parse("http://localhost/v1/chat/completions").unwrap(), dialect: Dialect::of(model) }
}

#[test]
fn conformance_every_conversation_makes_a_valid_request() {
    for vendor in VENDORS {
        let model = model(vendor);
        for (what, config) in conversations(&model, SEAL) {
            let request = chat(&model).request(&config, &Transcripts::new(0)).unwrap();
            let checked = check_as(vendor, &request);
            assert_eq!(checked, Ok(()), "{vendor:?}, {what}: {}", String::from_utf8_lossy(&request.body));
        }
    }
}

#[test]
fn the_flags_are_needed_where_they_are_set() {
    // The same conversations, asked as OpenAI is asked: every other service refuses some of them.
    for vendor in VENDORS.into_iter().filter(|vendor| *vendor != Vendor::OpenAi) {
        let model = model(Vendor::OpenAi);
        let refused = conversations(&model, SEAL).into_iter().any(|(_, config)| {
            check_as(vendor, &chat(&model).request(&config, &Transcripts::new(0)).unwrap()).is_err()
        });
        assert!(refused, "{vendor:?}");
    }
}

/// The bytes of the messages, the system prompt's among them.
fn messages_of(request: &HttpRequest) -> Vec<u8> {
    let body = &request.body[..];
    let start = b"\"messages\":[";
    let at = body.windows(start.len()).position(|window| window == start).unwrap() + start.len();
    body[at..].strip_suffix(b"]}").unwrap().to_vec()
}

#[test]
fn a_turn_begins_with_the_bytes_of_the_one_before() {
    for vendor in VENDORS {
        let model = model(vendor);
        for (what, config) in conversations(&model, SEAL) {
            let kept = Transcripts::new(1 << 20);
            let mut before = Vec::new();
            for turn in 1..=config.messages.len() {
                let mut messages: History = config.messages.clone();
                messages.truncate(turn);
                let config = playhouse_protocol::StreamConfig { messages, ..config.clone() };
                let grown = messages_of(&chat(&model).request(&config, &kept).unwrap());
                let fresh = messages_of(&chat(&model).request(&config, &Transcripts::new(0)).unwrap());
                assert_eq!(grown, fresh, "{vendor:?}, {what}");
                assert!(grown.starts_with(&before), "{vendor:?}, {what}, turn {turn}");
                before = grown;
            }
        }
    }
}

#[test]
fn an_answer_is_read_by_the_tool_that_was_offered_for_it() {
    let model = model(Vendor::DeepSeek);
    let (_, config) = conversations(&model, SEAL).into_iter().find(|(_, c)| c.response_format.is_some()).unwrap();
    let request = chat(&model).request(&config, &Transcripts::new(0)).unwrap();
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["tools"][1]["function"]["name"], "answer");
    let fixture = include_bytes!("../../tests/fixtures/chat/answer.sse");
    let read = |model: &ModelConfig| {
        let decoder = chat(model).decoder(&config, Limits::default());
        crate::testing::decode(decoder, &[fixture]).1.unwrap().content
    };
    assert_eq!(read(&model), [playhouse_protocol::Content::text("{\"n\": 42}")]);
    assert_eq!(read(&self::model(Vendor::OpenAi)).len(), 2, "by a schema, a call is a call");
}

#[test]
fn the_validator_refuses_what_services_refuse() {
    let body = |messages: Value| json!({"model": "m", "stream": true, "messages": messages});
    let user = || json!({"role": "user", "content": "hi"});
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}});
    let calls = |calls: Value| json!({"role": "assistant", "content": null, "tool_calls": calls});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": ""});
    let good = body(json!([user(), calls(json!([call("a"), call("b")])), result("b"), result("a"), user()]));
    assert_eq!(check_body(Vendor::OpenAi, &good), Ok(()));

    let with = |field: &str, value: Value| {
        let mut body = body(json!([user()]));
        body[field] = value;
        body
    };
    let bad = [
        body(json!([])),
        body(json!([user(), {"role": "assistant", "content": "last"}])),
        body(json!([{"role": "assistant", "content": "first"}, user()])),
        body(json!([{"role": "system", "content": "s"}, {"role": "assistant", "content": "first"}, user()])),
        body(json!([user(), {"role": "system", "content": "late"}, user()])),
        body(json!([user(), {"role": "assistant", "content": ""}, user()])),
        body(json!([user(), {"role": "assistant", "content": null}, user()])),
        body(json!([user(), {"role": "assistant", "content": "a", "reasoning_content": "r"}, user()])),
        body(json!([{"role": "user", "content": ""}])),
        body(json!([{"role": "user", "content": [{"type": "text", "text": ""}]}])),
        body(
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AA=="}}]}]),
        ),
        body(
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,é"}}]}]),
        ),
        body(json!([user(), calls(json!([call("a")]))])),
        body(json!([user(), calls(json!([call("a")])), user()])),
        body(json!([user(), calls(json!([call("a")])), user(), result("a")])),
        body(json!([user(), calls(json!([call("a")])), result("b")])),
        body(json!([user(), calls(json!([call("a")])), result("a"), result("a")])),
        body(json!([user(), calls(json!([call("a"), call("a")])), result("a")])),
        body(json!([user(), calls(json!([])), user()])),
        body(json!([user(), calls(json!([call(&"x".repeat(41))])), result(&"x".repeat(41))])),
        body(json!([
            user(),
            calls(json!([{"id": "a", "type": "function", "function": {"name": "a b", "arguments": "{}"}}])),
            result("a")
        ])),
        with("top_k", json!(1)),
        with("stream", json!(false)),
        with("max_tokens", json!(5)),
        with("max_completion_tokens", json!(0)),
        with("temperature", json!(3)),
        with("reasoning_effort", json!("off")),
        with("tools", json!([])),
        with("tool_choice", json!("required")),
        with("tools", json!([{"type": "function", "function": {"name": "é"}}])),
        with("response_format", json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {}}})),
    ];
    for body in bad {
        assert!(check_body(Vendor::OpenAi, &body).is_err(), "{body}");
    }

    // What OpenAI takes and others do not.
    assert!(check_body(Vendor::Mistral, &good).is_err() && check_body(Vendor::Ollama, &good).is_err());
    assert!(check_body(Vendor::DeepSeek, &good).is_err(), "reasoning_content is missing");
    let mut unparsed = good.clone();
    unparsed["messages"][1]["tool_calls"][0]["function"]["arguments"] = json!("{\"a");
    assert_eq!(check_body(Vendor::OpenAi, &unparsed), Ok(()));
    assert!(check_body(Vendor::OpenRouter, &unparsed).is_err());

    let mut request = HttpRequest::post_json(chat(&model(Vendor::OpenAi)).url, serde_json::to_vec(&good).unwrap());
    assert_eq!(check_as(Vendor::OpenAi, &request), Ok(()));
    request.headers.insert(AUTHORIZATION, "Bearer k".parse().unwrap());
    assert!(check_as(Vendor::OpenAi, &request).is_err());
}

#[test]
fn a_developer_prompt_is_for_openai() {
    let compat = OpenAiCompat { system_role: SystemRole::Developer, ..OpenAiCompat::default() };
    let model = ModelConfig { compat: Some(Arc::new(compat)), ..model(Vendor::OpenAi) };
    let (_, config) = conversations(&model, SEAL).pop().unwrap();
    let request = chat(&model).request(&config, &Transcripts::new(0)).unwrap();
    assert_eq!(check_as(Vendor::OpenAi, &request), Ok(()));
    assert!(check_as(Vendor::DeepSeek, &request).is_err());
}
