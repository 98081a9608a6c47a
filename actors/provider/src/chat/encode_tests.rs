use std::sync::Arc;

use super::*;
use playhouse_protocol::{
    AgentMessage, CacheConfig, History, ModelConfig, OpenAiCompat, Purpose, ResponseFormat, Secret, StopReason,
    ThinkingLevel, Usage,
};
use serde_json::json;

fn config(messages: Vec<Message>) -> StreamConfig {
    StreamConfig {
        model_config: Arc::new(ModelConfig::openai("gpt", Secret::new("k"))),
        system_prompt: "".into(),
        conversation: "conversation".into(),
        tail: Vec::new(),
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
        response_format: None,
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

fn openai() -> Dialect {
    Dialect::of(&ModelConfig::openai("gpt", Secret::new("k")))
}

fn body(config: &StreamConfig) -> Value {
    body_for(&openai(), config)
}

fn body_for(dialect: &Dialect, config: &StreamConfig) -> Value {
    serde_json::from_slice(&encode_request(dialect, config, &Transcripts::new(1 << 20)).unwrap()).unwrap()
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
                "name": "t", "description": "d", "parameters": {"type": "object", "properties": {}},
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
            let expected = encode_request(&openai(), &config, &Transcripts::new(0)).unwrap();
            assert_eq!(encode_request(&openai(), &config, &transcripts).unwrap(), expected);
            assert!(serde_json::from_slice::<Value>(&expected).is_ok());
            config.messages.push(Arc::new(Message::user(format!("round {round}"), 0).into()));
        }
    }
}

/// A service of the same name that differs from OpenAI.
fn service(compat: OpenAiCompat) -> Dialect {
    Dialect { compat, ..openai() }
}

/// What a request holds beside its messages, as such a service is asked.
fn head_for(compat: OpenAiCompat, config: &StreamConfig) -> Value {
    let mut body = body_for(&service(compat), config);
    body.as_object_mut().unwrap().remove("messages").unwrap();
    body
}

#[test]
fn each_flag_changes_its_own_field() {
    let base = OpenAiCompat::default();
    let config = StreamConfig {
        thinking_level: ThinkingLevel::Minimal,
        max_tokens: Some(7),
        ..config(vec![Message::user("hi", 0)])
    };
    let stream = json!({"include_usage": true});
    let plain = json!({
        "model": "gpt", "stream": true, "stream_options": stream, "max_completion_tokens": 7,
        "reasoning_effort": "minimal",
    });
    assert_eq!(head_for(base, &config), plain);
    let unpadded = head_for(OpenAiCompat { usage: UsageInStream::AskedUnpadded, ..base }, &config);
    assert_eq!(unpadded["stream_options"], json!({"include_usage": true, "include_obfuscation": false}));
    assert_eq!(
        head_for(OpenAiCompat { max_tokens_field: MaxTokensField::MaxTokens, ..base }, &config),
        json!({"model": "gpt", "stream": true, "stream_options": stream, "max_tokens": 7, "reasoning_effort": "minimal"})
    );
    assert_eq!(
        head_for(OpenAiCompat { reasoning_effort: EffortField::Reasoning, ..base }, &config),
        json!({"model": "gpt", "stream": true, "stream_options": stream, "max_completion_tokens": 7,
            "reasoning": {"effort": "minimal"}})
    );
    assert_eq!(
        head_for(OpenAiCompat { reasoning_effort: EffortField::None, ..base }, &config),
        json!({"model": "gpt", "stream": true, "stream_options": stream, "max_completion_tokens": 7})
    );
    assert_eq!(
        head_for(OpenAiCompat { usage: UsageInStream::NotAsked, ..base }, &config),
        json!({"model": "gpt", "stream": true, "max_completion_tokens": 7, "reasoning_effort": "minimal"})
    );
    assert_eq!(
        head_for(OpenAiCompat { store: Store::No, ..base }, &config),
        json!({"model": "gpt", "stream": true, "stream_options": stream, "max_completion_tokens": 7,
            "reasoning_effort": "minimal", "store": false})
    );
    // No effort is asked for where there is none, whatever its field.
    let off = StreamConfig { thinking_level: ThinkingLevel::Off, ..config.clone() };
    let head = head_for(OpenAiCompat { reasoning_effort: EffortField::Reasoning, ..base }, &off);
    assert!(head.get("reasoning").is_none() && head.get("reasoning_effort").is_none());
    let developer = service(OpenAiCompat { system_role: SystemRole::Developer, ..base });
    let config = StreamConfig { system_prompt: "be brief".into(), ..config };
    assert_eq!(body_for(&developer, &config)["messages"][0], json!({"role": "developer", "content": "be brief"}));
}

#[test]
fn an_answer_by_a_schema_is_asked_for_in_the_services_way() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    let format = |schema: &Value| Some(Arc::new(ResponseFormat { name: "my answer".into(), schema: schema.clone() }));
    let by_schema = OpenAiCompat::default();
    let by_tool = OpenAiCompat { structured: Structured::ForcedTool, ..by_schema };
    let config = StreamConfig { response_format: format(&schema), ..config(vec![Message::user("hi", 0)]) };
    let asked = |schema: &Value, strict: bool| json!({"type": "json_schema", "json_schema": {"name": "my_answer", "schema": schema, "strict": strict}});
    let head = head_for(by_schema, &config);
    assert_eq!(
        (&head["response_format"], head.get("tools"), head.get("tool_choice")),
        (&asked(&schema, true), None, None)
    );
    let open = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let loose = StreamConfig { response_format: format(&open), ..config.clone() };
    assert_eq!(head_for(by_schema, &loose)["response_format"], asked(&open, false));

    let tool = |name: &str| ToolDefinition { name: name.into(), description: "d".into(), parameters: json!({}) };
    let config = StreamConfig { tools: Arc::new([tool("t")]), ..config };
    let head = head_for(by_tool, &config);
    assert_eq!((head.get("response_format"), &head["tool_choice"]), (None, &json!("required")));
    let names: Vec<&Value> = head["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["t", "my_answer"]);
    assert_eq!(head["tools"][1]["function"]["parameters"], schema);
    // A tool on offer has the name already.
    let taken = StreamConfig { tools: Arc::new([tool("my_answer"), tool("answer_2")]), ..config };
    assert_eq!(head_for(by_tool, &taken)["tools"][2]["function"]["name"], "answer_3");
    let none = StreamConfig { response_format: None, ..taken };
    assert_eq!(head_for(by_tool, &none).get("tool_choice"), None);
}

fn own(content: Vec<Content>) -> Message {
    let mut message = assistant(content);
    if let Message::Assistant { provider, .. } = &mut message {
        *provider = "openai".into();
    }
    message
}

fn tool_call(id: &str) -> Content {
    Content::ToolCall { id: id.into(), name: "t".into(), arguments: json!({}) }
}

fn tool_result(id: &str) -> Message {
    Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: "t".into(),
        content: vec![],
        is_error: false,
        timestamp: 0,
    }
}

#[test]
fn reasoning_goes_back_to_the_service_that_gave_it_by_the_field_it_takes() {
    let seal = r#"[{"type":"reasoning.text","text":"hm","signature":"s"},{"type":"reasoning.encrypted","data":"AA"}]"#;
    let thought = || Content::Thinking { thinking: "hm".into(), signature: Some(seal.into()) };
    // Talk; a call; what follows its result; a call by someone else.
    let config = config(vec![
        Message::user("a", 0),
        own(vec![thought(), Content::text("talk")]),
        Message::user("b", 0),
        own(vec![thought(), tool_call("c1")]),
        tool_result("c1"),
        own(vec![thought(), Content::text("done")]),
        Message::user("c", 0),
        assistant(vec![thought(), tool_call("c2")]),
        tool_result("c2"),
    ]);
    let replayed = |field: ReasoningField, replay: ReplayReasoning, name: &str| -> Vec<Value> {
        let compat = OpenAiCompat { reasoning_field: field, replay_reasoning: replay, ..OpenAiCompat::default() };
        let body = body_for(&service(compat), &config);
        let fields = ["reasoning", "reasoning_content", "reasoning_details"];
        let messages = body["messages"].as_array().unwrap().clone();
        for message in &messages {
            assert!(fields.iter().all(|field| *field == name || message.get(field).is_none()), "{message}");
        }
        messages.iter().filter(|m| m["role"] == "assistant").map(|m| m.get(name).cloned().unwrap_or_default()).collect()
    };
    let (never, with_tools, always) = (ReplayReasoning::Never, ReplayReasoning::WithTools, ReplayReasoning::Always);
    let null = || Value::Null;
    for field in [ReasoningField::ReasoningContent, ReasoningField::Reasoning, ReasoningField::ReasoningDetails] {
        assert_eq!(replayed(field, never, ""), [null(), null(), null(), null()]);
    }
    let (field, name) = (ReasoningField::ReasoningContent, "reasoning_content");
    assert_eq!(replayed(field, with_tools, name), [null(), json!("hm"), json!("hm"), json!("")]);
    assert_eq!(replayed(field, always, name), [json!("hm"), json!("hm"), json!("hm"), json!("")]);
    let (field, name) = (ReasoningField::Reasoning, "reasoning");
    assert_eq!(replayed(field, with_tools, name), [null(), json!("hm"), json!("hm"), null()]);
    assert_eq!(replayed(field, always, name), [json!("hm"), json!("hm"), json!("hm"), null()]);
    let (field, name) = (ReasoningField::ReasoningDetails, "reasoning_details");
    let blocks: Value = serde_json::from_str(seal).unwrap();
    assert_eq!(replayed(field, with_tools, name), [null(), blocks.clone(), blocks.clone(), null()]);
    assert_eq!(replayed(field, always, name), [blocks.clone(), blocks.clone(), blocks, null()]);
    // A seal of another kind is not for this field.
    let other = Content::Thinking { thinking: "hm".into(), signature: Some("c2VhbA==".into()) };
    let config =
        StreamConfig { messages: [own(vec![other, Content::text("x")]).into()].into_iter().collect(), ..config };
    let compat = OpenAiCompat { reasoning_field: field, replay_reasoning: always, ..OpenAiCompat::default() };
    assert_eq!(body_for(&service(compat), &config)["messages"], json!([{"role": "assistant", "content": "x"}]));
}

#[test]
fn f10_ids_and_arguments_are_sent_as_the_service_takes_them() {
    let long = "x".repeat(41);
    let unparsed = Content::ToolCall { id: "call_1".into(), name: "t".into(), arguments: json!("{\"a") };
    let config = config(vec![
        Message::user("a", 0),
        assistant(vec![unparsed, tool_call(&long), tool_call("aB3xK9mP2")]),
        tool_result("aB3xK9mP2"),
        tool_result("call_1"),
        tool_result(&long),
    ]);
    let sent = |compat: OpenAiCompat| {
        let messages = body_for(&service(compat), &config)["messages"].clone();
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        let calls: Vec<String> = messages[1]["tool_calls"].as_array().unwrap().iter().map(|c| id(&c["id"])).collect();
        let results: Vec<String> = (2..5).map(|n| id(&messages[n]["tool_call_id"])).collect();
        assert_eq!(results, [calls[2].clone(), calls[0].clone(), calls[1].clone()]);
        (calls, messages[1]["tool_calls"][0]["function"]["arguments"].clone())
    };
    let (ids, arguments) = sent(OpenAiCompat::default());
    assert_eq!((ids[0].as_str(), ids[2].as_str(), arguments), ("call_1", "aB3xK9mP2", json!("{\"a")));
    assert!(ids[1].starts_with("call_") && ids[1].len() == 29, "{ids:?}");
    let strict = OpenAiCompat {
        call_ids: CallIds::NineAlphanumeric,
        call_arguments: CallArguments::AlwaysObject,
        ..OpenAiCompat::default()
    };
    let (ids, arguments) = sent(strict);
    assert!(ids.iter().all(|id| id.len() == 9) && ids[2] == "aB3xK9mP2", "{ids:?}");
    assert_eq!(arguments, json!(r#"{"_unparsed":"{\"a"}"#));
}

#[test]
fn something_comes_between_results_and_the_user_where_it_must() {
    let config = config(vec![
        Message::user("a", 0),
        assistant(vec![tool_call("c1")]),
        tool_result("c1"),
        Message::user("b", 0),
        Message::user("c", 0),
    ]);
    let sent = |after_tool_results: AfterToolResults| {
        let compat = OpenAiCompat { after_tool_results, ..OpenAiCompat::default() };
        let body = body_for(&service(compat), &config);
        Value::from_iter(body["messages"].as_array().unwrap()[2..].iter().cloned())
    };
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": ""});
    let (b, c) = (json!({"role": "user", "content": "b"}), json!({"role": "user", "content": "c"}));
    assert_eq!(sent(AfterToolResults::Nothing), json!([result, b, c]));
    let empty = json!({"role": "assistant", "content": ""});
    assert_eq!(sent(AfterToolResults::EmptyAssistant), json!([result, empty, b, c]));
    let short = json!({"role": "assistant", "content": "I have the results."});
    assert_eq!(sent(AfterToolResults::ShortAssistant), json!([result, short, b, c]));
}

#[test]
fn a_models_message_without_text_and_calls_is_not_sent() {
    let image = Content::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let config = config(vec![Message::user("a", 0), assistant(vec![image]), Message::user(" ", 0)]);
    assert_eq!(body(&config)["messages"], json!([{"role": "user", "content": "a"}, {"role": "user", "content": " "}]));
}

#[test]
fn openai_is_sent_these_bytes() {
    let mut config = config(vec![
        Message::user("hi", 0),
        own(vec![Content::Thinking { thinking: "hm".into(), signature: None }, tool_call("c1")]),
        tool_result("c1"),
    ]);
    config.system_prompt = "be brief".into();
    config.thinking_level = ThinkingLevel::Low;
    config.max_tokens = Some(7);
    let sent = encode_request(&openai(), &config, &Transcripts::new(0)).unwrap();
    let expected = concat!(
        r#"{"model":"gpt","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7,"#,
        r#""reasoning_effort":"low","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"t","#,
        r#""arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":""}]}"#,
    );
    assert_eq!(String::from_utf8(sent).unwrap(), expected);
}
