use std::sync::Arc;

use playhouse_protocol::{AgentMessage, CacheConfig, Content, Message, ModelConfig, Secret, StopReason};

use super::*;
use crate::testing::{self, said};

fn config(model: &str, messages: Vec<Message>) -> StreamConfig {
    StreamConfig {
        model_config: Arc::new(ModelConfig::anthropic(model, Secret::new("k"))),
        messages: messages.into_iter().map(AgentMessage::from).collect(),
        cache_config: CacheConfig { enabled: false, strategy: CacheStrategy::Auto },
        ..testing::config("")
    }
}

fn hi(model: &str) -> StreamConfig {
    config(model, vec![Message::user("hi", 0)])
}

fn body(config: &StreamConfig) -> Value {
    asked(Ask::Answer, config)
}

fn asked(ask: Ask, config: &StreamConfig) -> Value {
    serde_json::from_slice(&encode(ask, config, "anthropic", &Transcripts::new(1 << 20)).unwrap()).unwrap()
}

fn tool(name: &str, parameters: Value) -> ToolDefinition {
    ToolDefinition { name: name.to_owned(), description: "d".to_owned(), parameters }
}

fn format(name: &str) -> Option<Arc<ResponseFormat>> {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    Some(Arc::new(ResponseFormat { name: name.to_owned(), schema }))
}

/// A conversation of four messages with a system prompt and two tools.
fn talk() -> StreamConfig {
    let messages = vec![
        Message::user("a", 0),
        said("anthropic", vec![Content::text("b")], StopReason::Stop),
        Message::user("c", 0),
        said("anthropic", vec![Content::text("d")], StopReason::Stop),
        Message::user("e", 0),
    ];
    StreamConfig {
        system_prompt: "be brief".into(),
        tools: Arc::new([tool("one", json!({"type": "object"})), tool("two", Value::Null)]),
        ..config("claude-sonnet-4-5", messages)
    }
}

#[test]
fn the_smallest_request() {
    assert_eq!(
        body(&hi("claude-sonnet-4-5")),
        json!({
            "model": "claude-sonnet-4-5", "max_tokens": 8_192, "stream": true,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        })
    );
}

#[test]
fn everything_that_can_be_asked() {
    let mut config = hi("claude-sonnet-4-5");
    config.system_prompt = "be brief".into();
    config.max_tokens = Some(7);
    config.temperature = Some(0.5);
    config.tools = Arc::new([
        tool("t", json!({"properties": {"x": {}}})),
        ToolDefinition { description: String::new(), ..tool("u", Value::Null) },
    ]);
    let mut expected = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 7, "stream": true, "temperature": 0.5,
        "system": [{"type": "text", "text": "be brief"}],
        "tools": [
            {"name": "t", "description": "d", "input_schema": {"type": "object", "properties": {"x": {}}}},
            {"name": "u", "input_schema": {"type": "object"}},
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    });
    assert_eq!(body(&config), expected);
    // What counting refuses is left out.
    for answering in ["max_tokens", "stream", "temperature"] {
        expected.as_object_mut().unwrap().remove(answering);
    }
    assert_eq!(asked(Ask::Count, &config), expected);
}

#[test]
fn reasoning_is_asked_for_in_the_models_way_and_leaves_room_for_the_answer() {
    let with = |model: &str, level, asked: Option<u32>, of_model: Option<u32>| {
        let mut config = hi(model);
        config.thinking_level = level;
        config.max_tokens = asked;
        config.temperature = Some(0.5);
        Arc::make_mut(&mut config.model_config).max_tokens = of_model;
        let body = body(&config);
        let field = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
        (field("thinking"), field("output_config"), field("max_tokens"), field("temperature"))
    };
    let enabled = |budget: u32| json!({"type": "enabled", "budget_tokens": budget});
    let old = "claude-sonnet-4-5";
    let none = Value::Null;
    let (minimal, low, high) = (ThinkingLevel::Minimal, ThinkingLevel::Low, ThinkingLevel::High);
    assert_eq!(with(old, minimal, None, None), (enabled(1_024), none.clone(), json!(9_216), none.clone()));
    assert_eq!(with(old, low, Some(100), None), (enabled(2_048), none.clone(), json!(2_148), none.clone()));
    assert_eq!(with(old, high, None, Some(512)), (enabled(16_384), none.clone(), json!(16_896), none.clone()));
    assert_eq!(with(old, high, Some(20_000), None), (enabled(16_384), none.clone(), json!(24_576), none.clone()));
    // What is enough is not raised: models have limits of their own.
    assert_eq!(with(old, high, Some(32_000), None), (enabled(16_384), none.clone(), json!(32_000), none.clone()));
    assert_eq!(with(old, ThinkingLevel::Off, Some(0), Some(9)), (none.clone(), none.clone(), json!(1), json!(0.5)));

    let (adaptive, effort) = (json!({"type": "adaptive"}), |effort: &str| json!({"effort": effort}));
    for model in ["claude-opus-4-6", "claude-opus-4-7", "claude-opus-5"] {
        let expected = (adaptive.clone(), effort("low"), json!(9_216), none.clone());
        assert_eq!(with(model, minimal, None, None), expected);
        let expected = (adaptive.clone(), effort("high"), json!(24_576), none.clone());
        assert_eq!(with(model, high, None, None), expected);
    }
    let plain = (none.clone(), none.clone(), json!(8_192), none.clone());
    assert_eq!(with("claude-opus-4-7", ThinkingLevel::Off, None, None), plain);
    assert_eq!(with("claude-opus-4-6", ThinkingLevel::Off, None, None).3, json!(0.5));
}

#[test]
fn a_turn_that_began_without_reasoning_is_ended_without_it() {
    let seal = || Content::Thinking { thinking: "Hm.".to_owned(), signature: Some("c2VhbA==".to_owned()) };
    let calls = |id: &str| testing::call(id, "t", json!({}));
    let (user, result) = (|| Message::user("a", 0), |id: &str| testing::result(id, "t"));
    let at = |provider: &str, content: Vec<Content>| said(provider, content, StopReason::ToolUse);
    let own = |content: Vec<Content>| at("anthropic", content);
    for (messages, reasons) in [
        (vec![user()], true),
        (vec![user(), own(vec![calls("1")]), result("1")], false),
        (vec![user(), own(vec![seal(), calls("1")]), result("1")], true),
        (vec![user(), own(vec![Content::text(" "), seal(), calls("1")]), result("1")], true),
        (vec![user(), own(vec![Content::text("I"), seal(), calls("1")]), result("1")], false),
        (vec![user(), at("elsewhere", vec![seal(), calls("1")]), result("1")], false),
        // Later steps of a turn need none of their own.
        (vec![user(), own(vec![seal(), calls("1")]), result("1"), own(vec![calls("2")]), result("2")], true),
        (vec![user(), own(vec![calls("1")]), result("1"), own(vec![seal(), calls("2")]), result("2")], false),
        // A word from the user beside the results changes nothing; one after an answer begins a turn.
        (vec![user(), own(vec![calls("1")]), result("1"), user()], false),
        (vec![user(), own(vec![calls("1")]), result("1"), own(vec![Content::text("b")]), user()], true),
    ] {
        let shown = format!("{messages:?}");
        let mut config = config("claude-sonnet-4-5", messages);
        config.thinking_level = ThinkingLevel::Low;
        let asked = body(&config);
        assert_eq!(asked.get("thinking").is_some(), reasons, "{shown}");
        assert_eq!(asked["max_tokens"], if reasons { 10_240 } else { 8_192 });
        config.model_config = Arc::new(ModelConfig::anthropic("claude-opus-4-6", Secret::new("k")));
        assert_eq!(body(&config)["thinking"], json!({"type": "adaptive"}), "adaptive models do not mind");
    }
}

#[test]
fn an_answer_in_a_form_is_a_tool_that_is_forced_where_it_can_be() {
    let mut config = hi("claude-sonnet-4-5");
    config.system_prompt = "be brief".into();
    config.tools = Arc::new([tool("t", json!({"type": "object"}))]);
    config.response_format = format("answer");
    let forced = body(&config);
    assert_eq!(forced["tool_choice"], json!({"type": "any"}));
    assert_eq!(forced["system"], json!([{"type": "text", "text": "be brief"}]));
    assert_eq!(
        forced["tools"][1],
        json!({
            "name": "answer",
            "description": "Gives the final answer. Call it once, when the answer is complete.",
            "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        })
    );

    config.thinking_level = ThinkingLevel::Low;
    let asked = body(&config);
    assert_eq!(asked["tool_choice"], json!({"type": "auto"}));
    let said = asked["system"][1]["text"].as_str().unwrap();
    assert!(said.contains("`answer`"), "{said}");

    // A model that may reason unasked does not let itself be forced.
    config.thinking_level = ThinkingLevel::Off;
    config.model_config = Arc::new(ModelConfig::anthropic("claude-opus-5-5", Secret::new("k")));
    config.system_prompt = "".into();
    let asked = body(&config);
    assert_eq!(asked["tool_choice"], json!({"type": "auto"}));
    assert_eq!(asked["system"].as_array().unwrap().len(), 1);
}

#[test]
fn the_answer_tool_has_a_name_of_its_own() {
    let mut config = hi("claude-sonnet-4-5");
    assert_eq!(answer_tool(&config), None);
    config.response_format = format("answer");
    assert_eq!(answer_tool(&config).as_deref(), Some("answer"));
    config.tools = Arc::new([tool("answer", Value::Null), tool("answer_", Value::Null)]);
    assert_eq!(answer_tool(&config).as_deref(), Some("answer__"));
    assert_eq!(body(&config)["tools"][2]["name"], "answer__");
    config.response_format = format(&"odd name! ".repeat(20));
    assert_eq!(answer_tool(&config).unwrap().len(), 64);
}

#[test]
fn cache_marks_go_where_they_are_wanted() {
    let mark = json!({"type": "ephemeral"});
    let marks = |cache_config: CacheConfig| {
        let body = body(&StreamConfig { cache_config, ..talk() });
        let at = [
            body["system"][0].get("cache_control"),
            body["tools"][1].get("cache_control"),
            body["messages"][3]["content"][0].get("cache_control"),
        ];
        let count = body.to_string().matches("cache_control").count();
        assert_eq!(at.iter().flatten().count(), count, "there are no others: {body}");
        assert!(at.iter().flatten().all(|found| **found == mark));
        at.map(|found| found.is_some())
    };
    let enabled = |strategy| CacheConfig { enabled: true, strategy };
    let manual = |cache_system, cache_tools, cache_messages| {
        enabled(CacheStrategy::Manual { cache_system, cache_tools, cache_messages })
    };
    assert_eq!(marks(CacheConfig::default()), [true, true, true]);
    assert_eq!(marks(enabled(CacheStrategy::Disabled)), [false, false, false]);
    assert_eq!(marks(CacheConfig { enabled: false, strategy: CacheStrategy::Auto }), [false, false, false]);
    assert_eq!(marks(manual(true, false, false)), [true, false, false]);
    assert_eq!(marks(manual(false, true, false)), [false, true, false]);
    assert_eq!(marks(manual(false, false, true)), [false, false, true]);

    let alone = StreamConfig { cache_config: CacheConfig::default(), ..hi("claude-opus-5") };
    assert!(!body(&alone).to_string().contains("cache_control"), "there is no second-to-last message");
}

#[test]
fn a_mark_goes_on_the_last_block_of_the_second_to_last_message() {
    let mut config = config(
        "claude-sonnet-4-5",
        vec![
            Message::user("a", 0),
            said(
                "anthropic",
                vec![Content::text("b"), testing::call("c1", "one", json!({"deep": {"x": [1]}}))],
                StopReason::ToolUse,
            ),
            testing::result("c1", "one"),
        ],
    );
    config.cache_config = CacheConfig::default();
    let body = body(&config);
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            {"type": "text", "text": "b"},
            {"type": "tool_use", "id": "c1", "name": "one", "input": {"deep": {"x": [1]}},
                "cache_control": {"type": "ephemeral"}},
        ])
    );
    assert_eq!(body.to_string().matches("cache_control").count(), 1);
}

#[test]
fn a_conversation_that_grows_is_sent_as_one_that_is_new() {
    let transcripts = Transcripts::new(1 << 20);
    let mut config = StreamConfig { cache_config: CacheConfig::default(), ..talk() };
    for round in 0..20 {
        let fresh = encode(Ask::Answer, &config, "anthropic", &Transcripts::new(0)).unwrap();
        assert_eq!(encode(Ask::Answer, &config, "anthropic", &transcripts).unwrap(), fresh);
        assert!(serde_json::from_slice::<Value>(&fresh).is_ok());
        let next = match round % 2 {
            0 => said("anthropic", vec![Content::text(format!("answer {round}"))], StopReason::Stop),
            _ => Message::user(format!("round {round}"), 0),
        };
        config.messages.push(Arc::new(next.into()));
    }
}

#[test]
fn a_model_that_gives_less_is_asked_for_less() {
    assert_eq!(body(&hi("claude-3-haiku-20240307"))["max_tokens"], 4_096);
    assert_eq!(body(&hi("claude-of-the-future"))["max_tokens"], 8_192);
}
