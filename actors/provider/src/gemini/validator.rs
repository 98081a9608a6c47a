//! The rules of Gemini's requests, as the service checks them.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::wire::transport::HttpRequest;

/// What the rules depend on.
struct Rules {
    /// The public service wants ids; Vertex refuses them.
    ids: bool,
    /// Gemini 3 or newer.
    three: bool,
    model: String,
}

type Checked = Result<(), String>;

/// Checks a request that asks for a turn.
pub(crate) fn check(request: &HttpRequest) -> Checked {
    ensure(request.method == "POST", || "not a POST".into())?;
    let url = &request.url;
    ensure(url.query() == Some("alt=sse"), || format!("the query is {:?}", url.query()))?;
    let path = url.path().strip_suffix(":streamGenerateContent").ok_or("it does not stream")?;
    let model = path.rsplit('/').next().unwrap_or_default().to_owned();
    let place: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let ids = match place.as_slice() {
        ["v1beta", "models" | "tunedModels", name] if !name.is_empty() => true,
        ["v1", "projects", _, "locations", _, "publishers", _, "models", name] if !name.is_empty() => false,
        other => return Err(format!("no such place: {other:?}")),
    };
    let version: String =
        model.strip_prefix("gemini-").unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    let rules = Rules { ids, three: version.parse::<u32>().is_ok_and(|version| version >= 3), model };
    let body: Value = serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
    let body = object(&body)?;
    known(body, &["contents", "systemInstruction", "tools", "toolConfig", "generationConfig"])?;
    if let Some(system) = body.get("systemInstruction") {
        let system = object(system)?;
        known(system, &["parts"])?;
        for part in list(system, "parts")? {
            known(object(part)?, &["text"])?;
            text(object(part)?, "text")?;
        }
    }
    let tools = declared(body)?;
    check_settings(body, &rules, tools)?;
    check_contents(list(body, "contents")?, &rules)
}

/// Checks the tools; gives how many there are.
fn declared(body: &Map<String, Value>) -> Result<usize, String> {
    let mut names = BTreeSet::new();
    if body.contains_key("tools") {
        for tool in list(body, "tools")? {
            let tool = object(tool)?;
            known(tool, &["functionDeclarations"])?;
            for declaration in list(tool, "functionDeclarations")? {
                let declaration = object(declaration)?;
                known(declaration, &["name", "description", "parametersJsonSchema"])?;
                let name = named(declaration)?;
                ensure(names.insert(name.to_owned()), || format!("two tools are named {name}"))?;
                text(declaration, "description")?;
                if let Some(schema) = declaration.get("parametersJsonSchema") {
                    let properties = object(schema)?.get("properties").and_then(Value::as_object);
                    ensure(properties.is_some_and(|map| !map.is_empty()), || "parameters without properties".into())?;
                }
            }
        }
    }
    if let Some(config) = body.get("toolConfig") {
        known(object(config)?, &["functionCallingConfig"])?;
        let config = object(config)?.get("functionCallingConfig").and_then(Value::as_object).ok_or("no config")?;
        known(config, &["mode"])?;
        ensure(matches!(text(config, "mode")?, "ANY" | "AUTO" | "NONE"), || "no such mode".into())?;
        ensure(!names.is_empty(), || "toolConfig without tools".into())?;
    }
    Ok(names.len())
}

fn check_settings(body: &Map<String, Value>, rules: &Rules, tools: usize) -> Checked {
    let Some(settings) = body.get("generationConfig") else { return Ok(()) };
    let settings = object(settings)?;
    ensure(!settings.is_empty(), || "empty generationConfig".into())?;
    known(settings, &["maxOutputTokens", "temperature", "thinkingConfig", "responseMimeType", "responseJsonSchema"])?;
    if let Some(max) = settings.get("maxOutputTokens") {
        ensure(max.as_u64().is_some_and(|max| max > 0), || "maxOutputTokens".into())?;
    }
    if let Some(temperature) = settings.get("temperature") {
        ensure(temperature.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t)), || "temperature".into())?;
    }
    match (settings.get("responseMimeType").and_then(Value::as_str), settings.get("responseJsonSchema")) {
        (None, None) => {}
        (Some("application/json"), Some(Value::Object(_))) => {
            ensure(tools == 0, || "Function calling with a response mime type is unsupported".into())?;
        }
        other => return Err(format!("an answer in the form {other:?}")),
    }
    let Some(thinking) = settings.get("thinkingConfig") else { return Ok(()) };
    let thinking = object(thinking)?;
    known(thinking, &["includeThoughts", "thinkingLevel", "thinkingBudget"])?;
    match (thinking.get("thinkingLevel"), thinking.get("thinkingBudget")) {
        (Some(level), None) => {
            ensure(rules.three, || "thinkingLevel is not supported by this model".into())?;
            let pro = rules.model.starts_with("gemini-3-pro");
            let known: &[&str] = if pro { &["LOW", "HIGH"] } else { &["LOW", "MEDIUM", "HIGH"] };
            ensure(level.as_str().is_some_and(|level| known.contains(&level)), || format!("the level {level}"))
        }
        (None, Some(budget)) => {
            ensure(rules.model.starts_with("gemini-2.5-"), || "thinkingBudget is not supported".into())?;
            let budget = budget.as_u64().ok_or("no budget")?;
            let off = budget == 0 && rules.model.contains("flash") && !thinking.contains_key("includeThoughts");
            ensure(off || (512..=24_576).contains(&budget), || format!("a budget of {budget}"))
        }
        both => Err(format!("{both:?}")),
    }
}

fn check_contents(contents: &[Value], rules: &Rules) -> Checked {
    let mut ids = BTreeSet::new();
    // The calls of the content before: each must be answered in this one.
    let mut open: Vec<(Option<String>, String)> = Vec::new();
    let mut role_before = "";
    for (place, content) in contents.iter().enumerate() {
        let content = object(content)?;
        known(content, &["role", "parts"])?;
        let role = text(content, "role")?;
        let parts = list(content, "parts")?;
        ensure(place > 0 || role == "user", || "the first content is not the user's".into())?;
        let answers: Vec<&Value> = parts.iter().filter_map(|part| part.get("functionResponse")).collect();
        let calls = parts.iter().filter(|part| part.get("functionCall").is_some()).count();
        for part in parts {
            check_part(object(part)?, role, rules)?;
        }
        match role {
            "user" => {
                ensure(answers.is_empty() || answers.len() == parts.len(), || {
                    format!("content {place}: something stands beside function responses")
                })?;
                ensure(answers.len() == open.len(), || {
                    format!("content {place}: {} function responses for {} calls", answers.len(), open.len())
                })?;
                for answer in answers {
                    let id = answer.get("id").and_then(Value::as_str).map(str::to_owned);
                    let key = (id, named(object(answer)?)?.to_owned());
                    let at = open.iter().position(|call| *call == key);
                    open.remove(at.ok_or_else(|| format!("content {place}: {key:?} answers no call"))?);
                }
            }
            "model" => {
                ensure(open.is_empty(), || format!("content {place}: calls are not answered"))?;
                ensure(calls == 0 || role_before == "user", || "a call after a model's content".into())?;
                let mut first = true;
                for part in parts.iter().filter(|part| part.get("functionCall").is_some()) {
                    let sealed = part.get("thoughtSignature").is_some();
                    ensure(!rules.three || !first || sealed, || {
                        format!("content {place}: Function call is missing a thought_signature")
                    })?;
                    first = false;
                    let call = part.get("functionCall").and_then(Value::as_object).ok_or("no call")?;
                    let id = call.get("id").and_then(Value::as_str).map(str::to_owned);
                    if let Some(id) = &id {
                        ensure(ids.insert(id.clone()), || format!("two calls have the id {id}"))?;
                    }
                    open.push((id, named(call)?.to_owned()));
                }
            }
            other => return Err(format!("the role {other}")),
        }
        role_before = role;
    }
    ensure(role_before == "user", || "Requests ending with a model turn are not supported".into())
}

fn check_part(part: &Map<String, Value>, role: &str, rules: &Rules) -> Checked {
    known(part, &["text", "inlineData", "functionCall", "functionResponse", "thoughtSignature"])?;
    let data: Vec<&String> = part.keys().filter(|key| *key != "thoughtSignature").collect();
    let [kind] = data.as_slice() else { return Err(format!("a part with {data:?}")) };
    if let Some(seal) = part.get("thoughtSignature") {
        ensure(role == "model", || "a seal in a user's part".into())?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
        let seal = seal.as_str().ok_or("a seal that is no text")?;
        ensure(!seal.is_empty() && seal.chars().all(fits), || format!("the seal {seal:?} is no base64"))?;
    }
    match (kind.as_str(), role) {
        ("text", _) => text(part, "text").map(|_| ()),
        ("inlineData", "user") => blob(part, &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"]),
        ("functionCall", "model") => {
            let call = part.get("functionCall").and_then(Value::as_object).ok_or("no call")?;
            known(call, &["id", "name", "args"])?;
            check_id(call, rules)?;
            named(call)?;
            ensure(call.get("args").is_some_and(Value::is_object), || "args are no object".into())
        }
        ("functionResponse", "user") => {
            let answer = part.get("functionResponse").and_then(Value::as_object).ok_or("no response")?;
            known(answer, &["id", "name", "response", "parts"])?;
            check_id(answer, rules)?;
            named(answer)?;
            let response = answer.get("response").and_then(Value::as_object).ok_or("no response")?;
            known(response, &["output", "error"])?;
            ensure(response.len() == 1, || "neither output nor error".into())?;
            if answer.contains_key("parts") {
                ensure(rules.three, || "this model takes no pictures in a function response".into())?;
                for part in list(answer, "parts")? {
                    known(object(part)?, &["inlineData"])?;
                    blob(object(part)?, &["image/png", "image/jpeg", "image/webp"])?;
                }
            }
            Ok(())
        }
        (kind, role) => Err(format!("{kind} in a content of {role}")),
    }
}

fn check_id(holder: &Map<String, Value>, rules: &Rules) -> Checked {
    match (holder.get("id"), rules.ids) {
        (None, false) => Ok(()),
        (Some(Value::String(id)), true) => {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            ensure(!id.is_empty() && id.len() <= 64 && id.chars().all(fits), || format!("the id {id:?}"))
        }
        (Some(_), false) => Err("Unknown name \"id\": Cannot find field.".into()),
        (_, true) => Err("a call or response without an id".into()),
    }
}

fn blob(part: &Map<String, Value>, kinds: &[&str]) -> Checked {
    let blob = part.get("inlineData").and_then(Value::as_object).ok_or("no blob")?;
    known(blob, &["mimeType", "data"])?;
    let kind = text(blob, "mimeType")?;
    ensure(kinds.contains(&kind), || format!("a picture of the kind {kind}"))?;
    STANDARD.decode(text(blob, "data")?).map(|_| ()).map_err(|error| error.to_string())
}

fn named(holder: &Map<String, Value>) -> Result<&str, String> {
    let name = text(holder, "name")?;
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c));
    ensure(first && rest && name.len() <= 64, || format!("the name {name:?}"))?;
    Ok(name)
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("no object: {value}"))
}

fn list<'a>(holder: &'a Map<String, Value>, field: &str) -> Result<&'a [Value], String> {
    let list = holder.get(field).and_then(Value::as_array).ok_or_else(|| format!("no list `{field}`"))?;
    ensure(!list.is_empty(), || format!("`{field}` is empty"))?;
    Ok(list)
}

fn text<'a>(holder: &'a Map<String, Value>, field: &str) -> Result<&'a str, String> {
    let text = holder.get(field).and_then(Value::as_str).ok_or_else(|| format!("no text `{field}`"))?;
    ensure(!text.is_empty(), || format!("`{field}` is empty"))?;
    Ok(text)
}

fn known(holder: &Map<String, Value>, fields: &[&str]) -> Checked {
    match holder.keys().find(|key| !fields.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(format!("Unknown name {key:?}: Cannot find field.")),
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}
