use std::sync::Arc;

use playhouse_protocol::{
    AgentMessage, ApiProtocol, CacheConfig, ModelConfig, ResponseFormat, StopReason, ToolDefinition,
};

use super::super::validator::{check, check_body};
use super::*;
use crate::testing::{call, config as turn, conversations, result, said};
use crate::wire::service::Protocol;
use crate::wire::transport::HttpRequest;

const OPUS: &str = "global.anthropic.claude-opus-5";
const SONNET: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

fn model(id: &str) -> ModelConfig {
    ModelConfig::new("bedrock", ApiProtocol::BedrockConverse, id)
}

fn config(id: &str, messages: Vec<Message>) -> StreamConfig {
    StreamConfig {
        model_config: Arc::new(model(id)),
        system_prompt: "Be brief.".into(),
        messages: messages.into_iter().map(AgentMessage::from).collect(),
        ..turn("")
    }
}

fn bedrock() -> super::super::Bedrock {
    super::super::Bedrock {
        base: "https://bedrock-runtime.us-east-1.amazonaws.com".parse().unwrap(),
        provider: "bedrock".into(),
        clock: crate::aws::Clock::system(),
    }
}

fn request(config: &StreamConfig) -> HttpRequest {
    bedrock().request(config, &Transcripts::new(1 << 20)).unwrap()
}

fn body(config: &StreamConfig) -> Value {
    serde_json::from_slice(&request(config).body).unwrap()
}

fn tool() -> ToolDefinition {
    ToolDefinition {
        name: "read_file".into(),
        description: "Reads.".into(),
        parameters: json!({"type": "object", "properties": {}}),
    }
}

#[test]
fn conformance_every_conversation_makes_a_valid_request() {
    let ids = [
        SONNET,
        OPUS,
        "anthropic.claude-3-haiku-20240307-v1:0",
        "amazon.nova-pro-v1:0",
        "mistral.mistral-large-2407-v1:0",
        "meta.llama3-1-70b-instruct-v1:0",
    ];
    let mut checked = 0;
    for id in ids {
        for seal in ["EpkCCkgIBhABGAIiQA==", "redacted:RXVZQkNrWUlCQkFC"] {
            for (what, with) in conversations(&model(id), seal) {
                let none = StreamConfig { tools: Arc::new([]), ..with.clone() };
                for config in [with, none] {
                    let request = request(&config);
                    let body = String::from_utf8_lossy(&request.body).into_owned();
                    check(&request).unwrap_or_else(|error| panic!("{id}, {what}: {error}\n{body}"));
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 6 * 2 * 80);
}

#[test]
fn the_validator_refuses_what_the_service_would() {
    let good = || {
        json!({
            "system": [{"text": "s"}],
            "inferenceConfig": {"maxTokens": 2_000},
            "toolConfig": {"tools": [{"toolSpec": {"name": "t", "description": "d", "inputSchema": {"json": {"type": "object"}}}}]},
            "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1_024}},
            "messages": [
                {"role": "user", "content": [{"text": "hi"}]},
                {"role": "assistant", "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                    {"toolUse": {"toolUseId": "a", "name": "t", "input": {}}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "ok"}]}}]},
            ],
        })
    };
    assert_eq!(check_body(&good(), Family::Claude), Ok(()));
    let broken: [(&str, &str, Value); 16] = [
        ("/stream", "unknown `stream`", json!(true)),
        ("/system/0/text", "blank", json!(" ")),
        ("/inferenceConfig/maxTokens", "a budget of 1024", json!(1_024)),
        ("/inferenceConfig/temperature", "temperature", json!(0.5)),
        ("/toolConfig/toolChoice", "forced", json!({"any": {}})),
        ("/toolConfig/tools/0/toolSpec/name", "name is", json!("a b")),
        ("/toolConfig/tools/0/toolSpec/description", "blank", json!("")),
        ("/toolConfig/tools", "empty", json!([])),
        ("/messages/0/role", "message 0", json!("assistant")),
        ("/messages/0/content/0/text", "blank", json!("")),
        ("/messages/0/content", "empty", json!([])),
        ("/messages/1/content/0", "began without", json!({"text": "x"})),
        ("/messages/1/content/1/toolUse/input", "no object", json!("{")),
        ("/messages/1/content/0/reasoningContent/reasoningText/signature", "blank", json!("")),
        ("/messages/2/content/0/toolResult/toolUseId", "without its call", json!("b")),
        ("/messages/2/content/0", "without results", json!({"text": "x"})),
    ];
    for (at, says, value) in broken {
        let mut body = good();
        let (parent, key) = at.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
            object => object[key] = value,
        }
        let error = check_body(&body, Family::Claude).expect_err(at);
        assert!(error.contains(says), "{at}: {error}");
    }
    let mut without = good();
    without.as_object_mut().unwrap().remove("toolConfig");
    assert_eq!(check_body(&without, Family::Claude), Err("calls without toolConfig".to_owned()));
}

#[test]
fn a_request_is_this() {
    let mut config = config(SONNET, vec![Message::user("hi", 0)]);
    config.tools =
        Arc::new([tool(), ToolDefinition { name: "quiet".into(), description: "".into(), parameters: Value::Null }]);
    config.max_tokens = Some(100);
    config.temperature = Some(0.5);
    let point = json!({"cachePoint": {"type": "default"}});
    let open = json!({"json": {"type": "object", "properties": {}}});
    assert_eq!(
        body(&config),
        json!({
            "system": [{"text": "Be brief."}, point],
            "inferenceConfig": {"maxTokens": 100, "temperature": 0.5},
            "toolConfig": {"tools": [
                {"toolSpec": {"name": "read_file", "description": "Reads.", "inputSchema": open}},
                {"toolSpec": {"name": "quiet", "description": "quiet", "inputSchema": open}},
                point,
            ]},
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        })
    );
    assert_eq!(
        request(&config).url.as_str(),
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    );
}

#[test]
fn messages_are_these() {
    let image = |mime: &str| Content::Image { data: "aGk=".to_owned(), mime_type: mime.to_owned() };
    let thinking =
        |seal: Option<&str>| Content::Thinking { thinking: "hm".to_owned(), signature: seal.map(str::to_owned) };
    let messages = vec![
        Message::User { content: vec![Content::text("see"), image("image/jpeg"), image("image/tiff")], timestamp: 0 },
        said(
            "bedrock",
            vec![
                thinking(Some("seal")),
                thinking(Some("redacted:aGk=")),
                thinking(None),
                Content::text(" "),
                call("a", "t", json!({"x": 1})),
                call("b:c", "no tool!", Value::String("{\"x\"".to_owned())),
            ],
            StopReason::ToolUse,
        ),
        Message::ToolResult {
            tool_call_id: "a".into(),
            tool_name: "t".to_owned(),
            content: vec![image("image/png"), Content::text("two")],
            is_error: true,
            timestamp: 0,
        },
        result("b:c", "no tool!"),
        Message::user("and?", 0),
        said("other", vec![thinking(Some("theirs")), Content::text("so")], StopReason::Stop),
        Message::user(" ", 0),
    ];
    let body = body(&StreamConfig {
        cache_config: CacheConfig { enabled: false, ..CacheConfig::default() },
        ..config(SONNET, messages)
    });
    // The start of `printf b:c | sha256sum`.
    let id = "call_333edf7c3ca371622cc3029b";
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [
                {"text": "see"}, {"image": {"format": "jpeg", "source": {"bytes": "aGk="}}},
                {"text": "[image/tiff image, not shown]"},
            ]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "seal"}}},
                {"reasoningContent": {"redactedContent": "aGk="}},
                {"toolUse": {"toolUseId": "a", "name": "t", "input": {"x": 1}}},
                {"toolUse": {"toolUseId": id, "name": "no_tool_", "input": {"_unparsed": "{\"x\""}}},
            ]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "a", "status": "error", "content": [
                    {"image": {"format": "png", "source": {"bytes": "aGk="}}}, {"text": "two"}]}},
                {"toolResult": {"toolUseId": id, "content": [{"text": "ok"}]}},
                {"text": "and?"},
            ]},
            {"role": "assistant", "content": [{"text": "so"}]},
            {"role": "user", "content": [{"text": "(no text)"}]},
        ])
    );
    // No tools are on offer now, and the conversation holds calls.
    let declared: Vec<&Value> =
        body["toolConfig"]["tools"].as_array().unwrap().iter().map(|tool| &tool["toolSpec"]["name"]).collect();
    assert_eq!(declared, ["no_tool_", "t"]);
}

#[test]
fn thinking_has_a_budget_under_the_limit_and_takes_no_temperature() {
    let with = |id: &str, level, max_tokens| {
        let config = StreamConfig {
            thinking_level: level,
            max_tokens,
            temperature: Some(0.2),
            ..config(id, vec![Message::user("hi", 0)])
        };
        let body = body(&config);
        let budget = body["additionalModelRequestFields"]["thinking"]["budget_tokens"].clone();
        (budget, body["inferenceConfig"].clone())
    };
    use ThinkingLevel as L;
    assert_eq!(with(SONNET, L::Minimal, None), (json!(1_024), json!({"maxTokens": 8_192})));
    assert_eq!(with(SONNET, L::Low, Some(4_000)), (json!(2_048), json!({"maxTokens": 4_000})));
    assert_eq!(with(SONNET, L::Medium, None), (json!(8_192), json!({"maxTokens": 16_384})));
    assert_eq!(with(SONNET, L::High, Some(500)), (json!(16_384), json!({"maxTokens": 16_884})));
    let (none, limits) = with(SONNET, L::Off, None);
    assert_eq!((none, &limits["maxTokens"]), (Value::Null, &json!(8_192)));
    assert!(limits["temperature"].is_number());
    assert_eq!(with(OPUS, L::Off, Some(9)), (Value::Null, json!({"maxTokens": 9})), "it takes no temperature");
    assert_eq!(with("amazon.nova-pro-v1:0", L::High, None).0, Value::Null);
    assert_eq!(with("anthropic.claude-3-5-haiku-20241022-v1:0", L::High, None).0, Value::Null);
}

#[test]
fn a_model_that_thinks_as_it_sees_fit_is_told_an_effort() {
    let with = |thinking_level, max_tokens| {
        let config = StreamConfig { thinking_level, max_tokens, ..config(OPUS, vec![Message::user("hi", 0)]) };
        let body = body(&config);
        (body["additionalModelRequestFields"].clone(), body["inferenceConfig"]["maxTokens"].clone())
    };
    let fields = |effort: &str| json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}});
    assert_eq!(with(ThinkingLevel::Off, None), (Value::Null, json!(8_192)));
    assert_eq!(with(ThinkingLevel::Minimal, None), (fields("low"), json!(9_216)));
    assert_eq!(with(ThinkingLevel::Medium, Some(500)), (fields("medium"), json!(500)));
    assert_eq!(with(ThinkingLevel::High, None), (fields("high"), json!(24_576)));
}

#[test]
fn thinking_does_not_begin_in_the_middle_of_a_round_of_tools() {
    let round = |provider: &str, signature: Option<&str>| {
        let thinking = Content::Thinking { thinking: "hm".to_owned(), signature: signature.map(str::to_owned) };
        let content = vec![thinking, call("a", "read_file", json!({}))];
        let messages =
            vec![Message::user("go", 0), said(provider, content, StopReason::ToolUse), result("a", "read_file")];
        let config = StreamConfig { thinking_level: ThinkingLevel::High, ..config(SONNET, messages) };
        !body(&config)["additionalModelRequestFields"].is_null()
    };
    assert!(round("bedrock", Some("seal")));
    assert!(!round("bedrock", None));
    assert!(!round("elsewhere", Some("seal")));
}

fn format(schema: Value) -> Option<Arc<ResponseFormat>> {
    Some(Arc::new(ResponseFormat { name: "answer".to_owned(), schema }))
}

#[test]
fn a_form_is_asked_for_as_a_call() {
    let base = |id: &str| StreamConfig {
        tools: Arc::new([tool()]),
        response_format: format(json!({"type": "object", "properties": {"n": {}}})),
        ..config(id, vec![Message::user("hi", 0)])
    };
    let body_of = |config: &StreamConfig| {
        let body = body(config);
        let tools: Vec<String> = body["toolConfig"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|tool| tool["toolSpec"]["name"].as_str().map(str::to_owned))
            .collect();
        let told = body["system"].to_string().contains("only by calling the tool `answer");
        (tools, body["toolConfig"]["toolChoice"].clone(), told)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (forced, two) = (json!({"any": {}}), names(&["read_file", "answer"]));
    assert_eq!(body_of(&base(SONNET)), (two.clone(), forced, false));
    let thinks = StreamConfig { thinking_level: ThinkingLevel::Low, ..base(SONNET) };
    assert_eq!(body_of(&thinks), (two.clone(), Value::Null, true));
    assert_eq!(body_of(&base("meta.llama3-1-70b-instruct-v1:0")), (two, Value::Null, true));

    let taken = StreamConfig { tools: Arc::new([ToolDefinition { name: "answer".into(), ..tool() }]), ..base(SONNET) };
    assert_eq!(body_of(&taken).0, ["answer", "answer_"]);
    assert_eq!(AnswerTool::of(&taken).unwrap().name, "answer_");
    let list = StreamConfig { response_format: format(json!({"type": "array"})), ..base(SONNET) };
    let schema = &body(&list)["toolConfig"]["tools"][1]["toolSpec"]["inputSchema"]["json"];
    assert_eq!(*schema, json!({"type": "object", "properties": {"value": {"type": "array"}}, "required": ["value"]}));
}

#[test]
fn cache_points_go_where_the_model_takes_them_and_the_user_wants_them() {
    let talk =
        vec![Message::user("a", 0), said("bedrock", vec![Content::text("b")], StopReason::Stop), Message::user("c", 0)];
    let places = |id: &str, cache_config: CacheConfig| {
        let body = body(&StreamConfig { cache_config, tools: Arc::new([tool()]), ..config(id, talk.clone()) });
        let has = |list: &Value| list.as_array().unwrap().last().unwrap().get("cachePoint").is_some();
        let messages = body["messages"].as_array().unwrap();
        assert!(!has(&messages[0]["content"]) && !has(&messages[2]["content"]));
        (has(&body["system"]), has(&body["toolConfig"]["tools"]), has(&messages[1]["content"]))
    };
    let auto = CacheConfig::default();
    assert_eq!(places(SONNET, auto), (true, true, true));
    assert_eq!(places("amazon.nova-lite-v1:0", auto), (true, false, true));
    assert_eq!(places("meta.llama3-1-70b-instruct-v1:0", auto), (false, false, false));
    assert_eq!(places(SONNET, CacheConfig { enabled: false, ..auto }), (false, false, false));
    assert_eq!(places(SONNET, CacheConfig { strategy: CacheStrategy::Disabled, ..auto }), (false, false, false));
    let strategy = CacheStrategy::Manual { cache_system: false, cache_tools: true, cache_messages: false };
    assert_eq!(places(SONNET, CacheConfig { strategy, ..auto }), (false, true, false));
}

#[test]
fn the_messages_of_a_turn_begin_the_next_ones() {
    let point = String::from_utf8(CACHE_POINT.to_vec()).unwrap();
    let transcripts = Transcripts::new(1 << 20);
    let sent = |config: &StreamConfig, transcripts: &Transcripts| {
        let body = bedrock().request(config, transcripts).unwrap().body;
        let body = String::from_utf8(body.to_vec()).unwrap().replace(&point, "");
        let messages = body.split_once("\"messages\":[").unwrap().1.to_owned();
        // Without the brackets of the last message: the next block joins it.
        messages.strip_suffix("]}]}").unwrap().to_owned()
    };
    for (what, config) in conversations(&model(SONNET), "seal") {
        let all = config.messages.as_slice().to_vec();
        let mut before = String::new();
        for end in 1..=all.len() {
            let config = StreamConfig { messages: all[..end].to_vec().into(), ..config.clone() };
            let now = sent(&config, &transcripts);
            assert!(now.starts_with(&before), "{what}: {now}\ndoes not begin with {before}");
            assert_eq!(now, sent(&config, &Transcripts::new(0)), "{what}: the same without a cache");
            before = now;
        }
    }
}

#[test]
fn tokens_are_counted_of_what_would_be_sent() {
    let config = StreamConfig { tools: Arc::new([tool()]), ..config(SONNET, vec![Message::user("hi", 0)]) };
    let request = bedrock().count_request(&config, &Transcripts::new(1 << 20)).unwrap().unwrap();
    assert!(request.url.path().ends_with("-v1%3A0/count-tokens"), "{}", request.url);
    let spec = json!({"toolSpec": {"name": "read_file", "description": "Reads.", "inputSchema": {"json": {"type": "object", "properties": {}}}}});
    assert_eq!(
        serde_json::from_slice::<Value>(&request.body).unwrap(),
        json!({"input": {"converse": {
            "system": [{"text": "Be brief."}],
            "toolConfig": {"tools": [spec]},
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        }}})
    );
    assert_eq!(bedrock().counted(br#"{"inputTokens": 17}"#), Some(17));
    assert_eq!(bedrock().counted(b"{}"), None);
}

#[test]
fn an_id_that_would_climb_is_refused() {
    for id in ["", ".", ".."] {
        let refused = bedrock().request(&config(id, vec![Message::user("hi", 0)]), &Transcripts::new(0));
        assert!(refused.is_err(), "{id}");
    }
    let sly = request(&config("../../x?y#z", vec![Message::user("hi", 0)]));
    assert_eq!(sly.url.path(), "/model/..%2F..%2Fx%3Fy%23z/converse-stream");
}

#[test]
fn a_message_does_not_end_in_reasoning() {
    let thought = Content::Thinking { thinking: "hm".into(), signature: Some("c2VhbA==".into()) };
    let messages = vec![
        Message::user("a", 0),
        said("bedrock", vec![thought, Content::text("\n\n")], StopReason::Length),
        Message::user("b", 0),
    ];
    let sent = body(&config(SONNET, messages))["messages"].clone();
    assert_eq!(sent, json!([{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}]));
}

#[test]
fn a_model_that_may_think_unasked_is_told_and_not_forced_to_answer_by_a_call() {
    let form = || format(json!({"type": "object", "properties": {}}));
    let asked = |id: &str| {
        body(&StreamConfig { response_format: form(), ..config(id, vec![Message::user("a", 0)]) })["toolConfig"]
            ["toolChoice"]
            .clone()
    };
    assert_eq!((asked(OPUS), asked(SONNET)), (Value::Null, json!({"any": {}})));
}
