//! The service's rules for requests, held against ours: what it would answer with status 400 is an error here.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::wire::transport::HttpRequest;

type Checked = Result<(), String>;
type Fields = Map<String, Value>;

/// Whether the service would take a request.
pub(crate) fn check(request: &HttpRequest) -> Checked {
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    ensure(request.method == "POST", || "not a POST".to_owned())?;
    ensure(header("anthropic-version") == Some("2023-06-01"), || "no version".to_owned())?;
    ensure(header("content-type") == Some("application/json"), || "no content type".to_owned())?;
    let body: Value = serde_json::from_slice(&request.body).map_err(|error| format!("not JSON: {error}"))?;
    let body = object(&body, "the body")?;
    match request.url.path() {
        path if path.ends_with("/v1/messages") => check_limits(body)?,
        path if path.ends_with("/v1/messages/count_tokens") => {
            for refused in ["max_tokens", "stream", "temperature"] {
                ensure(!body.contains_key(refused), || format!("{refused}: extra inputs are not permitted"))?;
            }
        }
        path => return Err(format!("no such path: {path}")),
    }
    known(
        body,
        &[
            "model",
            "max_tokens",
            "stream",
            "temperature",
            "thinking",
            "output_config",
            "tools",
            "tool_choice",
            "system",
            "messages",
        ],
    )?;
    check_thinking(body)?;
    check_tools(body)?;
    check_system(body)?;
    let messages = list(body, "messages")?;
    check_messages(messages)?;
    if body.get("thinking").is_some_and(|thinking| thinking["type"] == "enabled") {
        check_running_turn(messages)?;
    }
    let marks = count_marks(&Value::Object(body.clone()));
    ensure(marks <= 4, || format!("a maximum of 4 blocks with cache_control may be provided, found {marks}"))
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Fields, String> {
    value.as_object().ok_or_else(|| format!("{what} is no object: {value}"))
}

fn list<'a>(fields: &'a Fields, name: &str) -> Result<&'a [Value], String> {
    let items = fields.get(name).and_then(Value::as_array).ok_or_else(|| format!("{name} is no list"))?;
    ensure(!items.is_empty(), || format!("{name} is empty"))?;
    Ok(items)
}

fn string<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, String> {
    fields.get(name).and_then(Value::as_str).ok_or_else(|| format!("{name} is no string in {fields:?}"))
}

fn known(fields: &Fields, names: &[&str]) -> Checked {
    match fields.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(format!("{key}: extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn check_limits(body: &Fields) -> Checked {
    let max = body.get("max_tokens").and_then(Value::as_u64).ok_or("max_tokens: field required")?;
    ensure(max >= 1, || "max_tokens must be at least 1".to_owned())?;
    ensure(body.get("stream") == Some(&Value::Bool(true)), || "stream is not true".to_owned())
}

/// What the model of a request is known to refuse, by name; not by the code that is under test.
fn refuses(model: &str, what: &str) -> bool {
    let any = |parts: &[&str]| parts.iter().any(|part| model.contains(part));
    match what {
        "adaptive" => any(&["claude-3", "-4-2025", "-4-0", "-4-1", "-4-5"]),
        "enabled" | "temperature" => any(&["-4-7", "-4-8", "opus-5", "sonnet-5"]),
        "between_tools" => !any(&["sonnet-5-5"]),
        _ => any(&["opus-5-5", "sonnet-5-5"]),
    }
}

fn check_thinking(body: &Fields) -> Checked {
    let model = string(body, "model")?;
    ensure(!model.is_empty(), || "model is empty".to_owned())?;
    let kind = match body.get("thinking") {
        None => None,
        Some(thinking) => {
            let thinking = object(thinking, "thinking")?;
            let kind = string(thinking, "type")?;
            ensure(!refuses(model, kind), || format!("\"thinking.type.{kind}\" is not supported for this model"))?;
            match kind {
                "enabled" => {
                    known(thinking, &["type", "budget_tokens"])?;
                    let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or(0);
                    ensure(budget >= 1_024, || "budget_tokens must be at least 1024".to_owned())?;
                    let max = body.get("max_tokens").and_then(Value::as_u64);
                    ensure(max.is_none_or(|max| max > budget), || "max_tokens must be above the budget".to_owned())?;
                }
                "adaptive" | "disabled" | "between_tools" => known(thinking, &["type"])?,
                other => return Err(format!("no such thinking: {other}")),
            }
            Some(kind)
        }
    };
    if let Some(config) = body.get("output_config") {
        let config = object(config, "output_config")?;
        known(config, &["effort"])?;
        ensure(["low", "medium", "high"].contains(&string(config, "effort")?), || "no such effort".to_owned())?;
        ensure(!refuses(model, "adaptive"), || "this model does not support the effort parameter".to_owned())?;
    }
    if let Some(temperature) = body.get("temperature") {
        ensure(kind.is_none(), || "temperature may only be set to 1 when thinking is enabled".to_owned())?;
        ensure(!refuses(model, "temperature"), || "`temperature` is deprecated for this model".to_owned())?;
        let fits = temperature.as_f64().is_some_and(|temperature| (0.0..=1.0).contains(&temperature));
        ensure(fits, || "temperature: range 0..1".to_owned())?;
    }
    let Some(choice) = body.get("tool_choice") else { return Ok(()) };
    let choice = object(choice, "tool_choice")?;
    known(choice, &["type"])?;
    ensure(body.contains_key("tools"), || "tool_choice may only be specified while providing tools".to_owned())?;
    match string(choice, "type")? {
        "auto" | "none" => Ok(()),
        "any" => {
            ensure(kind.is_none(), || "thinking may not be enabled when tool_choice forces tool use".to_owned())?;
            ensure(!refuses(model, "forcing"), || "tool_choice cannot force tool use on this model".to_owned())
        }
        other => Err(format!("no such tool_choice: {other}")),
    }
}

fn check_tools(body: &Fields) -> Checked {
    if !body.contains_key("tools") {
        return Ok(());
    }
    let mut names = HashSet::new();
    for tool in list(body, "tools")? {
        let tool = object(tool, "a tool")?;
        known(tool, &["name", "description", "input_schema", "cache_control"])?;
        let name = string(tool, "name")?;
        ensure(fits(name, 128), || format!("tool name `{name}` does not match the pattern"))?;
        ensure(names.insert(name), || format!("tool names must be unique: {name}"))?;
        let schema = object(tool.get("input_schema").unwrap_or(&Value::Null), "input_schema")?;
        ensure(schema.get("type").is_some_and(|kind| kind == "object"), || "input_schema.type: not object".to_owned())?;
    }
    Ok(())
}

fn check_system(body: &Fields) -> Checked {
    if !body.contains_key("system") {
        return Ok(());
    }
    list(body, "system")?.iter().try_for_each(|block| {
        let block = object(block, "a system block")?;
        ensure(string(block, "type")? == "text", || "system: not text".to_owned())?;
        check_text(block)
    })
}

fn fits(name: &str, longest: usize) -> bool {
    (1..=longest).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn check_text(block: &Fields) -> Checked {
    known(block, &["type", "text", "cache_control"])?;
    let text = string(block, "text")?;
    ensure(!text.trim().is_empty(), || "text content blocks must contain non-whitespace text".to_owned())
}

fn check_image(block: &Fields) -> Checked {
    known(block, &["type", "source", "cache_control"])?;
    let source = object(block.get("source").unwrap_or(&Value::Null), "source")?;
    known(source, &["type", "media_type", "data"])?;
    ensure(string(source, "type")? == "base64", || "source.type: not base64".to_owned())?;
    let kinds = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    ensure(kinds.contains(&string(source, "media_type")?), || "media_type: unsupported".to_owned())?;
    let data = string(source, "data")?;
    let base64 = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    ensure(!data.is_empty() && base64, || "data: invalid base64".to_owned())
}

fn check_messages(messages: &[Value]) -> Checked {
    // The calls of the message before, which this one must answer.
    let mut asked: Vec<&str> = Vec::new();
    let mut ids = HashSet::new();
    for (place, message) in messages.iter().enumerate() {
        let message = object(message, "a message")?;
        known(message, &["role", "content"])?;
        let role = string(message, "role")?;
        let turn = if place % 2 == 0 { "user" } else { "assistant" };
        ensure(role == turn, || format!("messages.{place}: roles must alternate, starting with the user: {role}"))?;
        let blocks = list(message, "content")?;
        let results = leading_results(blocks)?;
        let wanted: HashSet<&str> = asked.drain(..).collect();
        let given: HashSet<&str> = results.iter().copied().collect();
        ensure(given.len() == results.len(), || format!("messages.{place}: each tool_use must have one result"))?;
        ensure(wanted == given, || format!("messages.{place}: tool_use {wanted:?} but tool_result {given:?}"))?;
        for block in blocks {
            let block = object(block, "a block")?;
            let kind = string(block, "type")?;
            check_block(role, kind, block).map_err(|error| format!("messages.{place}: {kind}: {error}"))?;
            if kind == "tool_use" {
                let id = string(block, "id")?;
                ensure(ids.insert(id), || format!("messages.{place}: `tool_use` ids must be unique: {id}"))?;
                asked.push(id);
            }
        }
        if let Some(last) = blocks.last().filter(|_| role == "assistant") {
            let kind = last["type"].as_str().unwrap_or_default();
            ensure(!kind.ends_with("thinking"), || "the final block in an assistant message is thinking".to_owned())?;
            let text = last["text"].as_str().filter(|_| place + 1 == messages.len()).unwrap_or_default();
            ensure(text.trim_end() == text, || "final assistant content ends with trailing whitespace".to_owned())?;
        }
    }
    ensure(asked.is_empty(), || format!("tool_use without tool_result: {asked:?}"))
}

/// With a budget, a turn whose calls were just answered must have begun with reasoning. A turn begins after a message of
/// the user that is more than results.
fn check_running_turn(messages: &[Value]) -> Checked {
    let is_result = |block: &Value| block["type"] == "tool_result";
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    let Some((last, before)) = messages.split_last() else { return Ok(()) };
    if !blocks(last).iter().any(is_result) {
        return Ok(());
    }
    let asked = |message: &&Value| message["role"] == "user" && !blocks(message).iter().all(is_result);
    let turn = before.iter().rposition(|message| asked(&message)).map_or(0, |at| at + 1);
    let first = before.get(turn).map(|message| message["content"][0]["type"].clone()).unwrap_or_default();
    ensure(first == "thinking" || first == "redacted_thinking", || {
        "a final assistant message must start with a thinking block".to_owned()
    })
}

/// The calls that a message answers; its results must come first.
fn leading_results(blocks: &[Value]) -> Result<Vec<&str>, String> {
    let is_result = |block: &&Value| block["type"] == "tool_result";
    let results: Vec<&str> =
        blocks.iter().take_while(is_result).map(|block| block["tool_use_id"].as_str().unwrap_or_default()).collect();
    ensure(!blocks.iter().skip(results.len()).any(|block| is_result(&block)), || {
        "tool_result blocks must come first".to_owned()
    })?;
    Ok(results)
}

fn check_block(role: &str, kind: &str, block: &Fields) -> Checked {
    match (role, kind) {
        (_, "text") => check_text(block),
        ("user", "image") => check_image(block),
        ("user", "tool_result") => check_result(block),
        ("assistant", "tool_use") => {
            known(block, &["type", "id", "name", "input", "cache_control"])?;
            let (id, name) = (string(block, "id")?, string(block, "name")?);
            ensure(fits(id, 64), || format!("id `{id}` does not match the pattern"))?;
            ensure(fits(name, 128), || format!("name `{name}` does not match the pattern"))?;
            ensure(block.get("input").is_some_and(Value::is_object), || "input is no object".to_owned())
        }
        ("assistant", "thinking") => {
            known(block, &["type", "thinking", "signature"])?;
            string(block, "thinking")?;
            let signature = string(block, "signature")?;
            ensure(!signature.is_empty() && !signature.contains(':'), || "invalid signature".to_owned())
        }
        ("assistant", "redacted_thinking") => {
            known(block, &["type", "data"])?;
            let data = string(block, "data")?;
            ensure(!data.is_empty() && !data.contains(':'), || "invalid data".to_owned())
        }
        _ => Err(format!("not in a message of the {role}")),
    }
}

fn check_result(block: &Fields) -> Checked {
    known(block, &["type", "tool_use_id", "content", "is_error", "cache_control"])?;
    let failed = block.get("is_error").is_some_and(|error| *error == Value::Bool(true));
    if !block.contains_key("content") {
        return ensure(!failed, || "content cannot be empty if `is_error` is true".to_owned());
    }
    list(block, "content")?.iter().try_for_each(|inner| {
        let inner = object(inner, "a block")?;
        match string(inner, "type")? {
            "text" => check_text(inner),
            "image" => ensure(!failed, || "only text is allowed if `is_error` is true".to_owned())
                .and_then(|()| check_image(inner)),
            other => Err(format!("{other} in a result")),
        }
    })
}

fn count_marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            let own = usize::from(fields.get("cache_control").is_some_and(|mark| mark["type"] == "ephemeral"));
            own + fields.values().map(count_marks).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_marks).sum(),
        _ => 0,
    }
}

#[cfg(test)]
#[path = "validator_tests.rs"]
mod tests;
