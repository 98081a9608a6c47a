//! The rules of Converse for a request, as its documentation and its refusals state them. For tests.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::family::{self, Family};
use crate::wire::transport::HttpRequest;

type Checked = Result<(), String>;

/// Checks a request to `converse-stream`.
pub(crate) fn check(request: &HttpRequest) -> Checked {
    let path = request.url.path();
    let id = path
        .strip_prefix("/model/")
        .and_then(|rest| rest.strip_suffix("/converse-stream"))
        .ok_or_else(|| format!("the path is {path}"))?;
    if id.is_empty() || id.contains('/') || id.contains(':') {
        return Err(format!("the model's id is not one encoded segment: {id}"));
    }
    let id = percent_encoding::percent_decode_str(id).decode_utf8_lossy();
    let body: Value = serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
    check_body(&body, Family::of(&id))
}

/// Checks a body for a model.
pub(super) fn check_body(body: &Value, family: Family) -> Checked {
    let known = ["system", "inferenceConfig", "toolConfig", "additionalModelRequestFields", "messages"];
    let body = object(body, "the body", &known)?;
    let mut points = 0;
    if let Some(system) = body.get("system") {
        for block in list(system, "system")? {
            let (kind, value) = single(block, "a system block")?;
            match kind {
                "text" => blank(value, "system text")?,
                "cachePoint" => point(value, &mut points, family.points().system)?,
                other => return Err(format!("a system block `{other}`")),
            }
        }
    }
    let thinking = check_thinking(body, family)?;
    let declared = match body.get("toolConfig") {
        None => None,
        Some(config) => Some(check_tools(config, family, thinking, &mut points)?),
    };
    let messages = list(body.get("messages").ok_or("no messages")?, "messages")?;
    check_messages(messages, declared.as_ref(), family, thinking, &mut points)?;
    if points > 4 { Err(format!("{points} cache points")) } else { Ok(()) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thinking {
    On,
    /// The model's own; what came before need not begin with any.
    Adaptive,
    Off,
}

fn check_thinking(body: &Map<String, Value>, family: Family) -> Result<Thinking, String> {
    let limits = match body.get("inferenceConfig") {
        None => &Map::new(),
        Some(limits) => object(limits, "inferenceConfig", &["maxTokens", "temperature", "topP", "stopSequences"])?,
    };
    let max_tokens = limits.get("maxTokens").map(|max| max.as_u64().filter(|max| *max > 0).ok_or("maxTokens"));
    let max_tokens = max_tokens.transpose()?;
    let Some(more) = body.get("additionalModelRequestFields") else { return Ok(Thinking::Off) };
    let more = object(more, "additionalModelRequestFields", &["thinking", "output_config"])?;
    let Some(thinking) = more.get("thinking") else { return Ok(Thinking::Off) };
    if limits.contains_key("temperature") {
        return Err("a temperature while thinking".to_owned());
    }
    if family.thinking() == family::Thinking::Effort {
        let effort = text(more.get("output_config").and_then(|config| config.get("effort")), "the effort")?;
        let adaptive = *thinking == serde_json::json!({"type": "adaptive"});
        let known = adaptive && ["low", "medium", "high"].contains(&effort);
        return if known { Ok(Thinking::Adaptive) } else { Err(format!("thinking by {thinking}, {effort}")) };
    }
    let thinking = object(thinking, "thinking", &["type", "budget_tokens"])?;
    let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or_default();
    if family.thinking() != family::Thinking::Budget
        || more.contains_key("output_config")
        || thinking.get("type") != Some(&"enabled".into())
    {
        return Err("thinking for a model that does not think so".to_owned());
    }
    if budget < 1_024 || max_tokens.is_none_or(|max| max <= budget) {
        return Err(format!("a budget of {budget} under {max_tokens:?}"));
    }
    Ok(Thinking::On)
}

fn check_tools(
    config: &Value,
    family: Family,
    thinking: Thinking,
    points: &mut usize,
) -> Result<BTreeSet<String>, String> {
    let config = object(config, "toolConfig", &["tools", "toolChoice"])?;
    let mut names = BTreeSet::new();
    let tools = list(config.get("tools").ok_or("no tools in toolConfig")?, "tools")?;
    for tool in tools {
        match single(tool, "a tool")? {
            ("toolSpec", spec) => {
                let spec = object(spec, "toolSpec", &["name", "description", "inputSchema"])?;
                let name = text(spec.get("name"), "a tool's name")?;
                token(name, "a tool's name")?;
                blank(spec.get("description").unwrap_or(&Value::Null), "a tool's description")?;
                let schema = spec.get("inputSchema").and_then(|schema| schema.get("json"));
                if schema.and_then(|schema| schema.get("type")) != Some(&"object".into()) {
                    return Err(format!("the schema of `{name}` is no object's"));
                }
                if !names.insert(name.to_owned()) {
                    return Err(format!("two tools `{name}`"));
                }
            }
            ("cachePoint", value) => point(value, points, family.points().tools)?,
            (other, _) => return Err(format!("a tool `{other}`")),
        }
    }
    if names.is_empty() {
        return Err("toolConfig without a tool".to_owned());
    }
    if let Some(choice) = config.get("toolChoice") {
        let (kind, _) = single(choice, "toolChoice")?;
        if !["auto", "any", "tool"].contains(&kind) || !family.takes_tool_choice() {
            return Err(format!("toolChoice `{kind}`"));
        }
        if kind != "auto" && thinking != Thinking::Off {
            return Err("a forced call while thinking".to_owned());
        }
    }
    Ok(names)
}

fn check_messages(
    messages: &[Value],
    declared: Option<&BTreeSet<String>>,
    family: Family,
    thinking: Thinking,
    points: &mut usize,
) -> Checked {
    let mut ids = BTreeSet::new();
    let mut open = BTreeSet::new();
    let mut last_call_begins_with_reasoning = true;
    for (place, message) in messages.iter().enumerate() {
        let message = object(message, "a message", &["role", "content"])?;
        let expected = if place.is_multiple_of(2) { "user" } else { "assistant" };
        let role = text(message.get("role"), "a role")?;
        if role != expected {
            return Err(format!("message {place} is the {role}'s"));
        }
        let blocks = list(message.get("content").ok_or("no content")?, "content")?;
        let mut seen_other = false;
        for (at, block) in blocks.iter().enumerate() {
            let (kind, value) = single(block, "a block")?;
            match (role, kind) {
                (_, "text") => blank(value, "text")?,
                ("user", "image") => image(value)?,
                (_, "cachePoint") if at > 0 => point(value, points, family.points().messages)?,
                ("user", "toolResult") => {
                    if seen_other {
                        return Err("a result after other content".to_owned());
                    }
                    let id = result(value)?;
                    if !open.remove(&id) {
                        return Err(format!("a result without its call: {id}"));
                    }
                }
                ("assistant", "toolUse") => {
                    let call = object(value, "toolUse", &["toolUseId", "name", "input"])?;
                    let id = text(call.get("toolUseId"), "an id")?;
                    token(id, "an id")?;
                    token(text(call.get("name"), "a name")?, "a name")?;
                    if !call.get("input").is_some_and(Value::is_object) {
                        return Err("an input that is no object".to_owned());
                    }
                    if declared.is_none() {
                        return Err("calls without toolConfig".to_owned());
                    }
                    if !ids.insert(id.to_owned()) {
                        return Err(format!("the id {id} twice"));
                    }
                    open.insert(id.to_owned());
                }
                ("assistant", "reasoningContent") => reasoning(value)?,
                (role, other) => return Err(format!("a block `{other}` of the {role}'s")),
            }
            seen_other |= !matches!(kind, "toolResult" | "cachePoint");
        }
        match role {
            "user" if !open.is_empty() => return Err(format!("calls without results: {open:?}")),
            "assistant" if !open.is_empty() => {
                let first = blocks.first().and_then(Value::as_object);
                last_call_begins_with_reasoning = first.is_some_and(|first| first.contains_key("reasoningContent"));
            }
            "assistant" => last_call_begins_with_reasoning = true,
            _ => {}
        }
    }
    if messages.len().is_multiple_of(2) {
        return Err("the last word is not the user's".to_owned());
    }
    if thinking == Thinking::On && !last_call_begins_with_reasoning {
        return Err("thinking after calls that began without".to_owned());
    }
    Ok(())
}

fn result(value: &Value) -> Result<String, String> {
    let result = object(value, "toolResult", &["toolUseId", "content", "status"])?;
    for block in list(result.get("content").ok_or("a result without content")?, "a result's content")? {
        match single(block, "a result's block")? {
            ("text", value) => blank(value, "a result's text")?,
            ("image", value) => image(value)?,
            ("json", value) if value.is_object() => {}
            (other, _) => return Err(format!("a result's block `{other}`")),
        }
    }
    if result.get("status").is_some_and(|status| *status != "success" && *status != "error") {
        return Err("an unknown status".to_owned());
    }
    Ok(text(result.get("toolUseId"), "an id")?.to_owned())
}

fn reasoning(value: &Value) -> Checked {
    match single(value, "reasoningContent")? {
        ("reasoningText", value) => {
            let value = object(value, "reasoningText", &["text", "signature"])?;
            text(value.get("text"), "reasoning")?;
            blank(value.get("signature").unwrap_or(&Value::Null), "a signature")
        }
        ("redactedContent", value) => base64(value),
        (other, _) => Err(format!("reasoning `{other}`")),
    }
}

fn image(value: &Value) -> Checked {
    let image = object(value, "image", &["format", "source"])?;
    if !["png", "jpeg", "gif", "webp"].contains(&text(image.get("format"), "a format")?) {
        return Err("an unknown format".to_owned());
    }
    base64(image.get("source").and_then(|source| source.get("bytes")).unwrap_or(&Value::Null))
}

fn base64(value: &Value) -> Checked {
    use base64::Engine;
    let text = text(Some(value), "base64")?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|error| error.to_string())?;
    if bytes.is_empty() { Err("no bytes".to_owned()) } else { Ok(()) }
}

fn point(value: &Value, points: &mut usize, allowed: bool) -> Checked {
    *points += 1;
    match value.get("type") {
        Some(kind) if *kind == "default" && allowed => Ok(()),
        _ => Err(format!("a cache point that may not be there: {value}")),
    }
}

fn token(text: &str, what: &str) -> Checked {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=64).contains(&text.len()) && text.chars().all(fits) {
        return Ok(());
    }
    Err(format!("{what} is `{text}`"))
}

fn blank(value: &Value, what: &str) -> Checked {
    if text(Some(value), what)?.trim().is_empty() { Err(format!("{what} is blank")) } else { Ok(()) }
}

fn text<'a>(value: Option<&'a Value>, what: &str) -> Result<&'a str, String> {
    value.and_then(Value::as_str).ok_or_else(|| format!("{what} is no text"))
}

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a [Value], String> {
    let list = value.as_array().ok_or_else(|| format!("{what} is no list"))?;
    if list.is_empty() { Err(format!("{what} is empty")) } else { Ok(list) }
}

fn object<'a>(value: &'a Value, what: &str, known: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let object = value.as_object().ok_or_else(|| format!("{what} is no object"))?;
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(format!("{what} has an unknown `{unknown}`")),
        None => Ok(object),
    }
}

/// A union: an object with one member.
fn single<'a>(value: &'a Value, what: &str) -> Result<(&'a str, &'a Value), String> {
    match value.as_object().map(|object| (object.len(), object.iter().next())) {
        Some((1, Some((kind, value)))) => Ok((kind, value)),
        _ => Err(format!("{what} is not one thing: {value}")),
    }
}
