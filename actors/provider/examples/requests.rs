//! Prints the requests of every service for a few dozen turns, one JSON object per line. Nothing is sent.
//! `cargo xtask outside providers` holds them against the types of the vendors' own libraries.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use playhouse_protocol::{
    AgentMessage, ApiProtocol, CacheConfig, Content, History, Message, ModelConfig, Purpose, ResponseFormat,
    StopReason, StreamConfig, ThinkingLevel, ToolDefinition, Usage,
};
use playhouse_provider::rules::Services;
use serde_json::{Value, json};

const LEVELS: [ThinkingLevel; 5] =
    [ThinkingLevel::Off, ThinkingLevel::Minimal, ThinkingLevel::Low, ThinkingLevel::Medium, ThinkingLevel::High];

fn main() -> Result<(), Box<dyn Error>> {
    let services = Services::all()?;
    let mut out = std::io::stdout().lock();
    for model in services.models() {
        for (name, messages) in conversations(model) {
            for (options, turn) in turns(model, &messages) {
                let body = services.body(&turn).ok_or("a model of no service")??;
                let line = json!({
                    "service": &*model.provider, "model": &*model.id, "api": serde_json::to_value(model.api)?,
                    "what": format!("{name}, {options}"), "body": serde_json::from_slice::<Value>(&body)?,
                });
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

/// Conversations that take every kind of message and block, as this model's service gave them and as another did.
fn conversations(model: &ModelConfig) -> Vec<(&'static str, Vec<Message>)> {
    let picture = || Content::Image { data: "iVBORw0KGgo=".to_owned(), mime_type: "image/png".to_owned() };
    let said = |provider: &str, content: Vec<Content>, stop_reason| Message::Assistant {
        content,
        stop_reason,
        model: model.id.clone(),
        provider: provider.into(),
        usage: Usage::default(),
        timestamp: 2,
        error_message: None,
    };
    let call = |id: &str, arguments| Content::ToolCall { id: id.into(), name: "read_file".to_owned(), arguments };
    let result = |id: &str, content, is_error| Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: "read_file".to_owned(),
        content,
        is_error,
        timestamp: 3,
    };
    let seal = match model.api {
        ApiProtocol::OpenaiResponses | ApiProtocol::AzureOpenai => r#"{"id":"rs_1","encrypted_content":"c2VhbA=="}"#,
        _ => "c2VhbA==",
    };
    let thought = || Content::Thinking { thinking: "Let me see.".to_owned(), signature: Some(seal.to_owned()) };
    let user = |text: &str| Message::user(text, 1);
    let tools = |provider: &str| {
        vec![
            user("read both"),
            said(
                provider,
                vec![
                    thought(),
                    Content::text("Reading."),
                    call("call_a", json!({"path": "a.txt"})),
                    call("call_b", json!("{\"path\":")),
                ],
                StopReason::ToolUse,
            ),
            result("call_a", vec![Content::text("one"), picture()], false),
            result("call_b", vec![], true),
        ]
    };
    let mut answered = tools(&model.provider);
    answered.extend([said(&model.provider, vec![Content::text("Done.")], StopReason::Stop), user("thanks")]);
    vec![
        ("one prompt", vec![user("hi")]),
        ("a picture", vec![Message::User { content: vec![Content::text("look"), picture()], timestamp: 1 }]),
        ("tools", tools(&model.provider)),
        ("another's tools", tools("another")),
        ("a prompt after tools", answered),
    ]
}

/// A conversation with each option by itself.
fn turns(model: &Arc<ModelConfig>, messages: &[Message]) -> Vec<(String, StreamConfig)> {
    let history: Vec<Arc<AgentMessage>> = messages.iter().map(|message| Arc::new(message.clone().into())).collect();
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
        "additionalProperties": false});
    let tool = ToolDefinition { name: "read_file".into(), description: "Reads.".into(), parameters: schema.clone() };
    let plain = StreamConfig {
        model_config: model.clone(),
        system_prompt: "Be brief.".into(),
        conversation: "".into(),
        messages: History::from(history),
        tail: Vec::new(),
        tools: Arc::new([tool]),
        thinking_level: ThinkingLevel::Off,
        max_tokens: None,
        temperature: None,
        cache_config: CacheConfig::default(),
        purpose: Purpose::Turn,
        response: 0,
        attempt: 0,
        first_prompt: "hi".into(),
        response_format: None,
    };
    let format = Some(Arc::new(ResponseFormat { name: "answer".to_owned(), schema }));
    let mut turns = vec![
        ("sampled".to_owned(), StreamConfig { max_tokens: Some(4_096), temperature: Some(0.5), ..plain.clone() }),
        ("a form".to_owned(), StreamConfig { response_format: format, ..plain.clone() }),
        ("no tools".to_owned(), StreamConfig { tools: Arc::new([]), system_prompt: "".into(), ..plain.clone() }),
    ];
    turns.extend(LEVELS.map(|thinking_level| {
        (format!("thinking {}", thinking_level.as_str()), StreamConfig { thinking_level, ..plain.clone() })
    }));
    turns
}
