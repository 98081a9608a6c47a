//! The rules that services have for requests, as strict as the strictest reading of their documentation.

use std::collections::HashSet;

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::wire::transport::HttpRequest;

/// The services whose rules a request is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    OpenAi,
    Ollama,
    DeepSeek,
    Mistral,
    OpenRouter,
    /// Qwen and Z.ai, which have switches of their own for reasoning.
    Switched,
}

type Checked = Result<(), String>;

/// Whether a service would take the request.
pub(crate) fn check_as(vendor: Vendor, request: &HttpRequest) -> Checked {
    ensure(request.method == "POST", "the method must be POST")?;
    ensure(request.url.path().ends_with("/chat/completions") && request.url.query().is_none(), "a wrong address")?;
    let content_type = request.headers.get("content-type").and_then(|value| value.to_str().ok());
    ensure(content_type == Some("application/json"), "the body must be JSON")?;
    ensure(!request.headers.contains_key("authorization"), "a protocol has no credentials")?;
    let body: Value = serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
    check_body(vendor, &body)
}

/// Whether a service would take the body.
pub(crate) fn check_body(vendor: Vendor, body: &Value) -> Checked {
    let body = object(body, "the body")?;
    only(body, known_fields(vendor), "the body")?;
    ensure(body.get("model").and_then(Value::as_str).is_some_and(|model| !model.is_empty()), "no model")?;
    ensure(body.get("stream") == Some(&Value::Bool(true)), "it must stream")?;
    if let Some(options) = body.get("stream_options") {
        let options = object(options, "stream_options")?;
        let unpadded: &[&str] = if vendor == Vendor::OpenAi { &["include_obfuscation"] } else { &[] };
        only(options, &[&["include_usage"], unpadded].concat(), "stream_options")?;
        ensure(options.get("include_usage") == Some(&Value::Bool(true)), "bad stream_options")?;
        ensure(options.get("include_obfuscation").is_none_or(Value::is_boolean), "bad stream_options")?;
    }
    for limit in ["max_tokens", "max_completion_tokens"].iter().filter_map(|field| body.get(*field)) {
        ensure(limit.as_u64().is_some_and(|limit| limit > 0), "a bad output limit")?;
    }
    if let Some(temperature) = body.get("temperature") {
        ensure(temperature.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t)), "a bad temperature")?;
    }
    let efforts = ["none", "default", "minimal", "low", "medium", "high"];
    let effort = body.get("reasoning_effort").or_else(|| body.get("reasoning").and_then(|r| r.get("effort")));
    ensure(effort.is_none_or(|effort| efforts.iter().any(|known| effort == known)), "a bad effort")?;
    check_tools(body)?;
    if let Some(format) = body.get("response_format") {
        check_format(format)?;
    }
    check_messages(vendor, body.get("messages").and_then(Value::as_array).ok_or("no messages")?)
}

fn known_fields(vendor: Vendor) -> &'static [&'static str] {
    match vendor {
        Vendor::OpenAi => &[
            "model",
            "stream",
            "stream_options",
            "max_completion_tokens",
            "temperature",
            "reasoning_effort",
            "store",
            "tools",
            "tool_choice",
            "response_format",
            "messages",
        ],
        Vendor::Ollama => &[
            "model",
            "stream",
            "stream_options",
            "max_tokens",
            "temperature",
            "reasoning_effort",
            "tools",
            "response_format",
            "messages",
        ],
        // Its `response_format` takes no schema.
        Vendor::DeepSeek => &[
            "model",
            "stream",
            "stream_options",
            "max_tokens",
            "temperature",
            "reasoning_effort",
            "thinking",
            "tools",
            "tool_choice",
            "messages",
        ],
        Vendor::Switched => &[
            "model",
            "stream",
            "stream_options",
            "max_tokens",
            "temperature",
            "thinking",
            "enable_thinking",
            "thinking_budget",
            "tools",
            "tool_choice",
            "messages",
        ],
        Vendor::Mistral => &[
            "model",
            "stream",
            "max_tokens",
            "temperature",
            "reasoning_effort",
            "prompt_mode",
            "tools",
            "tool_choice",
            "response_format",
            "messages",
        ],
        Vendor::OpenRouter => &[
            "model",
            "stream",
            "stream_options",
            "max_tokens",
            "temperature",
            "reasoning",
            "tools",
            "tool_choice",
            "response_format",
            "messages",
        ],
    }
}

fn check_tools(body: &Map<String, Value>) -> Checked {
    let Some(tools) = body.get("tools") else {
        return ensure(!body.contains_key("tool_choice"), "tool_choice without tools");
    };
    let tools = tools.as_array().filter(|tools| !tools.is_empty()).ok_or("tools must be a list that is not empty")?;
    let mut names = HashSet::new();
    for tool in tools {
        let tool = object(tool, "a tool")?;
        only(tool, &["type", "function"], "a tool")?;
        ensure(tool.get("type").is_some_and(|kind| kind == "function"), "a tool must be a function")?;
        let function = object(tool.get("function").unwrap_or(&Value::Null), "a function")?;
        only(function, &["name", "description", "parameters"], "a function")?;
        ensure(names.insert(name(function)?), "two tools of one name")?;
        ensure(function.get("parameters").is_none_or(Value::is_object), "parameters must be a schema")?;
    }
    let choices = ["none", "auto", "required"];
    let choice = body.get("tool_choice");
    ensure(choice.is_none_or(|choice| choices.iter().any(|known| choice == known)), "a bad tool_choice")
}

fn check_format(format: &Value) -> Checked {
    let format = object(format, "response_format")?;
    only(format, &["type", "json_schema"], "response_format")?;
    ensure(format.get("type").is_some_and(|kind| kind == "json_schema"), "a bad type of response_format")?;
    let schema = object(format.get("json_schema").unwrap_or(&Value::Null), "json_schema")?;
    only(schema, &["name", "schema", "strict"], "json_schema")?;
    name(schema)?;
    ensure(schema.get("schema").is_some_and(Value::is_object), "no schema")?;
    ensure(schema.get("strict").is_some_and(Value::is_boolean), "strict must be said")
}

/// What the messages before one leave to be told of it.
#[derive(Default)]
struct So {
    /// The role of the last.
    role: String,
    /// Calls that are not answered.
    open: HashSet<String>,
    ids: HashSet<String>,
    /// The last message was the model's and said nothing.
    empty: bool,
}

fn check_messages(vendor: Vendor, messages: &[Value]) -> Checked {
    let mut so = So::default();
    for (place, message) in messages.iter().enumerate() {
        check_message(vendor, place, message, &mut so).map_err(|reason| format!("message {place}: {reason}"))?;
    }
    ensure(so.open.is_empty(), "calls are left without an answer")?;
    ensure(matches!(so.role.as_str(), "user" | "tool"), "the last word must be the user's or a tool's")
}

fn check_message(vendor: Vendor, place: usize, message: &Value, so: &mut So) -> Checked {
    let message = object(message, "a message")?;
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    let content = message.get("content").unwrap_or(&Value::Null);
    ensure(role == "tool" || so.open.is_empty(), "a call was not answered at once")?;
    ensure(!so.empty || role == "user", "an empty message that stands before no user's")?;
    so.empty = false;
    match role {
        "system" | "developer" => {
            only(message, &["role", "content"], "a system prompt")?;
            ensure(role == "system" || vendor == Vendor::OpenAi, "an unknown role")?;
            ensure(place == 0, "a system prompt that is not the first")?;
            ensure(content.as_str().is_some_and(|text| !text.is_empty()), "an empty system prompt")?;
        }
        "user" => {
            only(message, &["role", "content"], "a user's message")?;
            let between = matches!(vendor, Vendor::Ollama | Vendor::Mistral);
            ensure(so.role != "tool" || !between, "a user's message right after a tool's")?;
            check_user(content)?;
        }
        "assistant" => check_assistant(vendor, message, so)?,
        "tool" => {
            only(message, &["role", "tool_call_id", "content"], "a tool's message")?;
            let id = message.get("tool_call_id").and_then(Value::as_str).unwrap_or_default();
            ensure(so.open.remove(id), "an answer to no call")?;
            ensure(content.is_string(), "a tool's content must be text")?;
        }
        other => return Err(format!("unknown role `{other}`")),
    }
    so.role = role.to_owned();
    Ok(())
}

fn check_user(content: &Value) -> Checked {
    if let Some(text) = content.as_str() {
        return ensure(!text.is_empty(), "an empty user's message");
    }
    let parts = content.as_array().filter(|parts| !parts.is_empty()).ok_or("content must be a text or parts")?;
    for part in parts {
        let part = object(part, "a part")?;
        if let Some(text) = part.get("text") {
            only(part, &["type", "text"], "a text")?;
            ensure(part.get("type").is_some_and(|kind| kind == "text"), "a text of another type")?;
            ensure(text.as_str().is_some_and(|text| !text.is_empty()), "an empty text")?;
            continue;
        }
        only(part, &["type", "image_url"], "an image")?;
        ensure(part.get("type").is_some_and(|kind| kind == "image_url"), "an image of another type")?;
        let url = part.get("image_url").and_then(|image| image.get("url")).and_then(Value::as_str).unwrap_or_default();
        let (kind, data) = url.split_once(";base64,").ok_or("an image must be base64")?;
        let kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"];
        ensure(kind.strip_prefix("data:").is_some_and(|kind| kinds.contains(&kind)), "a bad type of image")?;
        ensure(base64::engine::general_purpose::STANDARD.decode(data).is_ok(), "an image that is no base64")?;
    }
    Ok(())
}

fn check_assistant(vendor: Vendor, message: &Map<String, Value>, so: &mut So) -> Checked {
    let field = match vendor {
        Vendor::DeepSeek => "reasoning_content",
        Vendor::OpenRouter => "reasoning_details",
        Vendor::OpenAi | Vendor::Ollama | Vendor::Mistral | Vendor::Switched => "content",
    };
    only(message, &["role", "content", "tool_calls", field], "a model's message")?;
    ensure(!so.role.is_empty() && !matches!(so.role.as_str(), "system" | "developer"), "the model speaks first")?;
    let calls = match message.get("tool_calls") {
        None => &[][..],
        Some(calls) => calls.as_array().filter(|calls| !calls.is_empty()).ok_or("an empty list of calls")?,
    };
    match message.get("content") {
        Some(Value::Null) => ensure(!calls.is_empty(), "neither text nor calls")?,
        Some(Value::String(text)) if text.is_empty() => {
            ensure(vendor == Vendor::Ollama && so.role == "tool" && calls.is_empty(), "an empty text")?;
            so.empty = true;
        }
        Some(Value::String(_)) => {}
        // As OpenAI's types and Perplexity's have it.
        Some(Value::Array(parts)) if vendor == Vendor::OpenAi => {
            let says =
                |part: &Value| part["type"] == "text" && part["text"].as_str().is_some_and(|text| !text.is_empty());
            ensure(!parts.is_empty() && parts.iter().all(says), "parts of a model's message must be texts")?;
        }
        Some(_) | None => return Err("content must be text or null".to_owned()),
    }
    match (vendor, message.get(field)) {
        (Vendor::DeepSeek, None) if !calls.is_empty() || so.role == "tool" => {
            return Err("no reasoning_content in a turn with tools".to_owned());
        }
        (Vendor::DeepSeek, Some(reasoning)) => ensure(reasoning.is_string(), "reasoning must be text")?,
        (Vendor::OpenRouter, Some(blocks)) => {
            let blocks = blocks.as_array().filter(|blocks| !blocks.is_empty()).ok_or("no blocks of reasoning")?;
            let known =
                |block: &Value| block.get("type").and_then(Value::as_str).is_some_and(|t| t.starts_with("reasoning."));
            ensure(blocks.iter().all(known), "a block of reasoning of no known type")?;
        }
        (
            Vendor::OpenAi
            | Vendor::Ollama
            | Vendor::DeepSeek
            | Vendor::Mistral
            | Vendor::OpenRouter
            | Vendor::Switched,
            _,
        ) => {}
    }
    for call in calls {
        let call = object(call, "a call")?;
        only(call, &["id", "type", "function"], "a call")?;
        ensure(call.get("type").is_some_and(|kind| kind == "function"), "a call of no function")?;
        let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
        let fits = match vendor {
            Vendor::Mistral => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            Vendor::OpenAi | Vendor::Ollama | Vendor::DeepSeek | Vendor::OpenRouter | Vendor::Switched => {
                (1..=40).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
            }
        };
        ensure(fits, "a bad id of a call")?;
        ensure(so.ids.insert(id.to_owned()), "two calls of one id")?;
        so.open.insert(id.to_owned());
        let function = object(call.get("function").unwrap_or(&Value::Null), "a function")?;
        only(function, &["name", "arguments"], "a function")?;
        name(function)?;
        let arguments = function.get("arguments").and_then(Value::as_str).ok_or("arguments must be text")?;
        let parsed = serde_json::from_str::<Map<String, Value>>(arguments).is_ok();
        ensure(parsed || vendor == Vendor::OpenAi, "arguments that are no JSON object")?;
    }
    Ok(())
}

fn name(of: &Map<String, Value>) -> Result<&str, String> {
    let name = of.get("name").and_then(Value::as_str).unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    ensure((1..=64).contains(&name.len()) && name.bytes().all(fits), "a bad name")?;
    Ok(name)
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{what} must be an object"))
}

fn only(object: &Map<String, Value>, known: &[&str], what: &str) -> Checked {
    match object.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => Err(format!("{what} has an unknown field `{field}`")),
        None => Ok(()),
    }
}

fn ensure(holds: bool, otherwise: &str) -> Checked {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
