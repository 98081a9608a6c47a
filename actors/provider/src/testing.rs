//! Requests and replays for this crate's own tests.

use std::sync::Arc;

use playhouse_protocol::{
    AgentMessage, CacheConfig, Content, Message, ModelConfig, ProviderError, Purpose, ResponseFormat, StopReason,
    StreamConfig, StreamEvent, ThinkingLevel, ToolDefinition, Usage,
};
use serde_json::{Value, json};

use crate::wire::decoder::{Decoder, Finish, Progress, Response};

/// A turn that asks `prompt`.
pub(crate) fn config(prompt: &str) -> StreamConfig {
    StreamConfig {
        model_config: Arc::new(ModelConfig::scripted("test.json")),
        system_prompt: "".into(),
        conversation: "conversation".into(),
        tail: Vec::new(),
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
        response_format: None,
    }
}

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

pub(crate) fn result(id: &str, tool: &str) -> Message {
    Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: tool.into(),
        content: vec![Content::text("ok")],
        is_error: false,
        timestamp: 0,
    }
}

/// The events of a response that comes in `pieces` and then ends, and the whole of it.
pub(crate) fn decode(
    mut decoder: Box<dyn Decoder>,
    pieces: &[&[u8]],
) -> (Vec<StreamEvent>, Result<Response, ProviderError>) {
    let mut events = Vec::new();
    for piece in pieces {
        match decoder.feed(piece, &mut |event| events.push(event)) {
            Ok(Progress::Open) => {}
            Ok(Progress::Done) => break,
            Err(error) => return (events, Err(error)),
        }
    }
    (events, decoder.finish(&Finish { response: 3, taken: &|_| false }))
}

/// FAILURES 03: the same events and the same response, or the same error, however the bytes are split.
pub(crate) fn same_at_every_split(make: impl Fn() -> Box<dyn Decoder>, fixture: &[u8]) {
    let whole = decode(make(), &[fixture]);
    for split in 0..=fixture.len() {
        let (one, two) = fixture.split_at(split);
        assert_eq!(decode(make(), &[one, two]), whole, "split at {split}");
    }
    for size in [1, 2, 3, 7] {
        let pieces: Vec<&[u8]> = fixture.chunks(size).collect();
        assert_eq!(decode(make(), &pieces), whole, "in pieces of {size}");
    }
}

/// FAILURES 01: cut before byte `complete`, the response is `Incomplete` and may be asked for again; from there on it
/// is whole.
pub(crate) fn incomplete_at_every_cut(make: impl Fn() -> Box<dyn Decoder>, fixture: &[u8], complete: usize) {
    let (_, whole) = decode(make(), &[fixture]);
    let whole = whole.expect("the fixture is a whole response");
    for cut in 0..=fixture.len() {
        let (_, result) = decode(make(), &[&fixture[..cut]]);
        match result {
            Ok(response) => {
                assert!(cut >= complete, "cut at {cut} was taken for success");
                assert_eq!(response, whole, "cut at {cut}");
            }
            Err(error) => {
                assert!(cut < complete, "cut at {cut}, after the terminal event: {error}");
                assert!(matches!(error, ProviderError::Incomplete { .. }), "cut at {cut}: {error:?}");
            }
        }
    }
}

/// FAILURES 01: a fixture that ends in an error is a success at no cut.
pub(crate) fn success_at_no_cut(make: impl Fn() -> Box<dyn Decoder>, fixture: &[u8]) {
    for cut in 0..=fixture.len() {
        let (_, result) = decode(make(), &[&fixture[..cut]]);
        assert!(result.is_err(), "cut at {cut} was taken for success");
    }
}

/// A call of a tool.
pub(crate) fn call(id: &str, name: &str, arguments: Value) -> Content {
    Content::ToolCall { id: id.into(), name: name.into(), arguments }
}

/// A model's message as this provider gave it.
pub(crate) fn said(provider: &str, content: Vec<Content>, stop_reason: StopReason) -> Message {
    Message::Assistant {
        content,
        stop_reason,
        model: "m".into(),
        provider: provider.into(),
        usage: Usage::default(),
        timestamp: 0,
        error_message: None,
    }
}

fn thinking(text: &str, signature: Option<&str>) -> Content {
    Content::Thinking { thinking: text.to_owned(), signature: signature.map(str::to_owned) }
}

fn image() -> Content {
    Content::Image { data: "iVBORw0KGgo=".to_owned(), mime_type: "image/png".to_owned() }
}

fn answered(id: &str, content: Vec<Content>, is_error: bool) -> Message {
    Message::ToolResult { tool_call_id: id.into(), tool_name: "read_file".to_owned(), content, is_error, timestamp: 0 }
}

/// Conversations that every protocol must make a valid request of. `model` says who is asked; `seal` is a signature
/// that the protocol itself could have given.
pub(crate) fn conversations(model: &ModelConfig, seal: &str) -> Vec<(&'static str, StreamConfig)> {
    let own: &str = &model.provider;
    let user = |text: &str| Message::user(text, 0);
    let tool_use = StopReason::ToolUse;
    let args = || json!({"path": "a.txt"});
    let all: Vec<(&'static str, Vec<Message>)> = vec![
        ("one question", vec![user("hi")]),
        ("a talk", vec![user("hi"), said(own, vec![Content::text("hello")], StopReason::Stop), user("bye")]),
        (
            "two user messages in a row",
            vec![
                user("one"),
                user("two"),
                said(own, vec![Content::text("ok")], StopReason::Stop),
                user("a"),
                user("b"),
            ],
        ),
        (
            "parallel calls, answered out of order, one with an error and one with nothing",
            vec![
                user("read"),
                said(
                    own,
                    vec![
                        Content::text("I look."),
                        call("call_1", "read_file", args()),
                        call("call_2", "read_file", json!({})),
                        call("call_3", "read_file", args()),
                    ],
                    tool_use,
                ),
                answered("call_2", vec![Content::text("two")], false),
                answered("call_1", vec![Content::text("no such file")], true),
                answered("call_3", vec![], false),
            ],
        ),
        (
            "signed thinking before a call",
            vec![
                user("think"),
                said(
                    own,
                    vec![thinking("I should read it.", Some(seal)), call("call_1", "read_file", args())],
                    tool_use,
                ),
                answered("call_1", vec![Content::text("text")], false),
                said(own, vec![thinking("Now I know.", Some(seal)), Content::text("done")], StopReason::Stop),
                user("and?"),
            ],
        ),
        (
            "thinking and ids of another provider",
            vec![
                user("think"),
                said(
                    "elsewhere",
                    vec![
                        thinking("Hidden.", Some("c2VhbCBvZiBzb21lYm9keSBlbHNl")),
                        call("functions.read:0/é|fc_1", "read_file", args()),
                        call(&"x".repeat(200), "read_file", args()),
                    ],
                    tool_use,
                ),
                answered(&"x".repeat(200), vec![Content::text("b")], false),
                answered("functions.read:0/é|fc_1", vec![Content::text("a")], false),
            ],
        ),
        (
            "names that no tool has, and arguments that are no JSON",
            vec![
                user("go"),
                said(
                    own,
                    vec![
                        call("call_1", "no such tool! ü", json!({})),
                        call("call_2", "read_file", Value::String("{\"path\": \"a".to_owned())),
                        call("call_3", "", json!({})),
                    ],
                    tool_use,
                ),
                answered("call_1", vec![Content::text("unknown tool")], true),
                answered("call_2", vec![Content::text("not JSON")], true),
                answered("call_3", vec![Content::text("unknown tool")], true),
            ],
        ),
        (
            "images, from the user and from a tool",
            vec![
                Message::User { content: vec![Content::text("see"), image()], timestamp: 0 },
                said(own, vec![call("call_1", "read_file", args())], tool_use),
                answered("call_1", vec![image(), Content::text("a picture")], false),
            ],
        ),
        (
            "empty blocks and failed answers",
            vec![
                Message::User { content: vec![Content::text(""), Content::text("hi")], timestamp: 0 },
                said(own, vec![Content::text("half an ans")], StopReason::Error),
                user("again"),
                said(own, vec![Content::text(""), Content::text("part")], StopReason::Aborted),
                user("go on"),
                said(own, vec![thinking("Only thoughts.", Some(seal))], StopReason::Stop),
                user("well?"),
            ],
        ),
        (
            "text after calls, and white space only",
            vec![
                user("go"),
                said(own, vec![call("call_1", "read_file", args()), Content::text(" \n ")], tool_use),
                answered("call_1", vec![Content::text("")], false),
                user("  "),
            ],
        ),
    ];
    let tools: Arc<[ToolDefinition]> = Arc::new([ToolDefinition {
        name: "read_file".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
    }]);
    let mut configs = Vec::new();
    for (what, messages) in all {
        let plain = StreamConfig {
            model_config: Arc::new(model.clone()),
            system_prompt: "Be brief.".into(),
            messages: messages.into_iter().map(AgentMessage::from).collect(),
            tools: tools.clone(),
            ..config("")
        };
        let format = ResponseFormat {
            name: "answer".to_owned(),
            schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                "additionalProperties": false}),
        };
        configs.push((what, StreamConfig { thinking_level: ThinkingLevel::High, ..plain.clone() }));
        configs.push((what, StreamConfig { response_format: Some(Arc::new(format)), ..plain.clone() }));
        configs.push((what, StreamConfig { system_prompt: "".into(), max_tokens: Some(512), ..plain.clone() }));
        configs.push((what, plain));
    }
    configs
}

/// An error without the service's words at a rate limit.
pub(crate) fn wordless(error: ProviderError) -> ProviderError {
    match error {
        ProviderError::RateLimited { retry_after_ms, .. } => {
            ProviderError::RateLimited { message: String::new(), retry_after_ms }
        }
        other => other,
    }
}
