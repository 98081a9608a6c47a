//! The service's rules for a request, as strict as its documentation: what the requests of this crate are held to.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Map, Value};

use crate::wire::transport::HttpRequest;

type Checked = Result<(), String>;

/// Checks a request as the service would.
pub(crate) fn check(request: &HttpRequest) -> Checked {
    ensure(request.method == Method::POST, "the method is not POST")?;
    ensure(request.url.path().ends_with("/responses"), "the path is not /responses")?;
    ensure(request.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json"), "no JSON is promised")?;
    let keys = [AUTHORIZATION.as_str(), "api-key"];
    ensure(keys.iter().all(|key| !request.headers.contains_key(*key)), "the request holds a key already")?;
    let body: Value = serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
    let body = object(
        &body,
        &["model", "stream", "store", "input"],
        &["instructions", "max_output_tokens", "temperature", "reasoning", "include", "text", "tools"],
    )?;
    text(body, "model")?;
    ensure(body["stream"] == true, "it does not stream")?;
    ensure(body["store"] == false, "it is stored")?;
    if body.contains_key("instructions") {
        text(body, "instructions")?;
    }
    if let Some(tokens) = body.get("max_output_tokens") {
        ensure(tokens.as_u64().is_some_and(|tokens| tokens >= 16), "max_output_tokens is under 16")?;
    }
    check_reasoning(body)?;
    if let Some(options) = body.get("text") {
        check_format(&object(options, &["format"], &[])?["format"])?;
    }
    check_tools(body.get("tools"))?;
    check_input(&body["input"])
}

fn check_reasoning(body: &Map<String, Value>) -> Checked {
    let Some(reasoning) = body.get("reasoning") else {
        return ensure(!body.contains_key("include"), "a model that does not reason is asked for sealed reasoning");
    };
    let reasoning = object(reasoning, &["effort"], &["summary"])?;
    if reasoning["effort"] == "none" {
        return ensure(
            !reasoning.contains_key("summary") && !body.contains_key("include"),
            "nothing is to be summed up",
        );
    }
    let efforts = ["minimal", "low", "medium", "high"];
    ensure(efforts.contains(&text(reasoning, "effort")?), "that is no effort")?;
    if reasoning.contains_key("summary") {
        ensure(["auto", "concise", "detailed"].contains(&text(reasoning, "summary")?), "that is no kind of summary")?;
    }
    ensure(body.get("include") == Some(&serde_json::json!(["reasoning.encrypted_content"])), "reasoning is lost")?;
    ensure(!body.contains_key("temperature"), "a model that reasons takes no temperature")
}

fn check_format(format: &Value) -> Checked {
    let format = object(format, &["type", "name", "schema", "strict"], &[])?;
    ensure(format["type"] == "json_schema", "that is no format")?;
    name(text(format, "name")?)?;
    ensure(format["schema"].is_object(), "a schema is an object")?;
    match format["strict"].as_bool() {
        Some(true) => closed(&format["schema"]),
        Some(false) => Ok(()),
        None => Err("strict is no bool".to_owned()),
    }
}

/// That every object in a schema is closed and requires all that it has.
fn closed(schema: &Value) -> Checked {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        ensure(schema["additionalProperties"] == false, "a strict schema is open")?;
        let names: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        ensure(names == required, "a strict schema does not require all properties")?;
    }
    match schema {
        Value::Object(fields) => fields.values().try_for_each(closed),
        Value::Array(items) => items.iter().try_for_each(closed),
        _ => Ok(()),
    }
}

fn check_tools(tools: Option<&Value>) -> Checked {
    let Some(tools) = tools else { return Ok(()) };
    let mut names = BTreeSet::new();
    for tool in list(tools)? {
        let tool = object(tool, &["type", "name", "description", "parameters", "strict"], &[])?;
        ensure(tool["type"] == "function" && tool["strict"] == false, "that is no function, or a strict one")?;
        name(text(tool, "name")?)?;
        ensure(names.insert(text(tool, "name")?), "two tools have one name")?;
        ensure(tool["description"].is_string(), "a description is a text")?;
        let parameters = tool["parameters"].as_object().ok_or("parameters are an object")?;
        ensure(parameters.contains_key("properties"), "object schema missing properties")?;
    }
    Ok(())
}

/// The calls of a conversation.
#[derive(Default)]
struct Calls {
    /// The ids of the model\'s messages.
    messages: BTreeSet<String>,
    /// Those that have not been answered.
    open: BTreeSet<String>,
    /// All that there were.
    all: BTreeSet<String>,
}

fn check_input(input: &Value) -> Checked {
    let items = list(input)?;
    let mut calls = Calls::default();
    let mut alone = false;
    for (at, item) in items.iter().enumerate() {
        let kind = item.get("type").and_then(Value::as_str).ok_or("an item has no type")?;
        let role = item.get("role").and_then(Value::as_str);
        ensure(at > 0 || role == Some("user"), "the first item is not the user's")?;
        let is_models = role == Some("assistant") || kind == "reasoning" || kind == "function_call";
        ensure(!alone || is_models, "reasoning was provided without its required following item")?;
        alone = kind == "reasoning";
        check_item(item, kind, &mut calls).map_err(|error| format!("input[{at}]: {error}"))?;
    }
    ensure(!alone, "reasoning was provided without its required following item")?;
    match calls.open.first() {
        Some(id) => Err(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

fn check_item(item: &Value, kind: &str, calls: &mut Calls) -> Checked {
    match kind {
        "message" => {
            let message = object(item, &["type", "role", "content"], &["id", "status"])?;
            let content = list(&message["content"])?;
            match text(message, "role")? {
                "user" => {
                    ensure(calls.open.is_empty(), "the user speaks before a call is answered")?;
                    content.iter().try_for_each(check_input_part)
                }
                "assistant" => {
                    ensure(text(message, "id")?.starts_with("msg_"), "Expected an ID that begins with 'msg'")?;
                    ensure(message["status"] == "completed", "an answer has its status")?;
                    ensure(calls.messages.insert(text(message, "id")?.to_owned()), "two messages have one id")?;
                    content.iter().try_for_each(|part| {
                        let part = object(part, &["type", "text", "annotations"], &[])?;
                        let is_output = part["type"] == "output_text" && part["annotations"] == serde_json::json!([]);
                        ensure(is_output, "no output")?;
                        text(part, "text").map(drop)
                    })
                }
                other => Err(format!("{other} is no role")),
            }
        }
        "reasoning" => {
            let reasoning = object(item, &["type", "id", "summary", "encrypted_content"], &[])?;
            ensure(text(reasoning, "id")?.starts_with("rs_"), "Expected an ID that begins with 'rs'")?;
            text(reasoning, "encrypted_content")?;
            reasoning["summary"].as_array().ok_or("a summary is a list")?.iter().try_for_each(|part| {
                let part = object(part, &["type", "text"], &[])?;
                ensure(part["type"] == "summary_text", "that is no summary")?;
                text(part, "text").map(drop)
            })
        }
        "function_call" => {
            let call = object(item, &["type", "call_id", "name", "arguments", "status"], &[])?;
            name(text(call, "name")?)?;
            ensure(call["arguments"].is_string(), "arguments are a text")?;
            let id = text(call, "call_id")?;
            name(id)?;
            ensure(calls.all.insert(id.to_owned()), "two calls have one id")?;
            calls.open.insert(id.to_owned());
            Ok(())
        }
        "function_call_output" => {
            let answer = object(item, &["type", "call_id", "output"], &[])?;
            let id = text(answer, "call_id")?;
            ensure(calls.open.remove(id), &format!("No tool call found for function call output with call_id {id}."))?;
            match &answer["output"] {
                Value::String(output) => ensure(!output.is_empty(), "an answer is empty"),
                parts => list(parts)?.iter().try_for_each(check_input_part),
            }
        }
        other => Err(format!("{other} is no kind of item")),
    }
}

fn check_input_part(part: &Value) -> Checked {
    match part.get("type").and_then(Value::as_str) {
        Some("input_text") => text(object(part, &["type", "text"], &[])?, "text").map(drop),
        Some("input_image") => {
            let part = object(part, &["type", "image_url", "detail"], &[])?;
            ensure(["auto", "low", "high"].contains(&text(part, "detail")?), "that is no detail")?;
            let url = text(part, "image_url")?.strip_prefix("data:image/").ok_or("that is no image")?;
            let (kind, data) = url.split_once(";base64,").ok_or("that is no base64")?;
            ensure(["png", "jpeg", "gif", "webp"].contains(&kind), "that is no kind of image")?;
            ensure(STANDARD.decode(data).is_ok_and(|bytes| !bytes.is_empty()), "that is no base64")
        }
        other => Err(format!("{other:?} is no kind of part")),
    }
}

fn name(name: &str) -> Checked {
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    ensure((1..=64).contains(&name.len()) && fits, &format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$"))
}

/// An object of these fields and no others.
fn object<'a>(value: &'a Value, needed: &[&str], may: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let object = value.as_object().ok_or_else(|| format!("no object: {value}"))?;
    for field in needed {
        ensure(object.contains_key(*field), &format!("Missing required parameter: {field}"))?;
    }
    for field in object.keys() {
        let known = needed.contains(&field.as_str()) || may.contains(&field.as_str());
        ensure(known, &format!("Unknown parameter: {field}"))?;
    }
    Ok(object)
}

/// A list that is not empty.
fn list(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().filter(|list| !list.is_empty()).ok_or_else(|| format!("no list, or an empty one: {value}"))
}

/// A text that is not empty.
fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Result<&'a str, String> {
    let text = object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("{field} is no text, or an empty one"))
}

fn ensure(holds: bool, otherwise: &str) -> Checked {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(body: &Value) -> HttpRequest {
        let url = "https://api.openai.com/v1/responses".parse().unwrap();
        HttpRequest::post_json(url, serde_json::to_vec(body).unwrap())
    }

    /// A request with all that there can be.
    fn whole() -> Value {
        json!({
            "model": "gpt-5", "instructions": "i", "stream": true, "store": false, "max_output_tokens": 16,
            "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema":
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                 "additionalProperties": false}}},
            "tools": [{"type": "function", "name": "t", "description": "", "strict": false,
                "parameters": {"type": "object", "properties": {}}}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
                {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}", "status": "completed"},
                {"type": "function_call_output", "call_id": "c", "output": "o"},
                {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content":
                    [{"type": "output_text", "text": "a", "annotations": []}]},
            ],
        })
    }

    #[test]
    fn a_request_by_the_rules_passes() {
        assert_eq!(check(&request(&whole())), Ok(()));
    }

    #[test]
    fn what_the_service_would_refuse_is_refused() {
        let call =
            json!({"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}", "status": "completed"});
        let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
        let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]});
        let edits: Vec<(&str, Value)> = vec![
            ("/max_output_tokens", json!(15)),
            ("/stream", json!(false)),
            ("/reasoning/effort", json!("off")),
            ("/include", json!([])),
            ("/temperature", json!(1.0)),
            ("/previous_response_id", json!("resp_1")),
            ("/instructions", json!("")),
            ("/text/format/schema/required", json!([])),
            ("/tools/0/name", json!("no good")),
            ("/tools/0/parameters", json!({"type": "object"})),
            ("/input", json!([])),
            ("/input/0", call.clone()),
            ("/input/0/content/0/text", json!("")),
            ("/input/0/content/1/image_url", json!("https://e.example/a.png")),
            ("/input/1/encrypted_content", json!("")),
            ("/input/2/call_id", json!("x".repeat(65))),
            ("/input/2/arguments", json!({})),
            ("/input/2", user.clone()),
            ("/input/3/call_id", json!("d")),
            ("/input/3/output", json!("")),
            ("/input/3", user),
            ("/input/4", call),
            ("/input/4", reasoning),
            ("/input/4/content/0/text", json!("")),
            ("/input/4/id", json!("rs_1")),
            ("/input/4/status", json!("in_progress")),
        ];
        for (path, value) in edits {
            let mut body = whole();
            let (parent, field) = path.rsplit_once('/').unwrap();
            match body.pointer_mut(parent).unwrap() {
                Value::Array(items) => items[field.parse::<usize>().unwrap()] = value.clone(),
                parent => parent[field] = value.clone(),
            }
            assert!(check(&request(&body)).is_err(), "{path} = {value} passed");
        }
        let mut keyed = request(&whole());
        keyed.headers.insert("api-key", "k".parse().unwrap());
        assert!(check(&keyed).is_err());
    }
}
