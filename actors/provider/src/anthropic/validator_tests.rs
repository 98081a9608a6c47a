use serde_json::json;

use super::*;

fn checked(path: &str, body: &Value) -> Checked {
    let url = reqwest::Url::parse(&format!("https://api.anthropic.com{path}")).unwrap();
    let mut request = HttpRequest::post_json(url, body.to_string());
    request.headers.insert("anthropic-version", "2023-06-01".parse().unwrap());
    check(&request)
}

fn good() -> Value {
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 4_096, "stream": true,
        "thinking": {"type": "enabled", "budget_tokens": 1_024},
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "t", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "c2VhbA=="},
                {"type": "tool_use", "id": "c1", "name": "t", "input": {}},
                {"type": "tool_use", "id": "c2", "name": "t", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c2"},
                {"type": "tool_result", "tool_use_id": "c1", "is_error": true, "content": [{"type": "text", "text": "x"}]},
                {"type": "text", "text": "b"},
            ]},
        ],
    })
}

#[test]
fn what_the_service_takes_is_taken() {
    assert_eq!(checked("/v1/messages", &good()), Ok(()));
    let mut counting = good();
    counting.as_object_mut().unwrap().retain(|key, _| !["max_tokens", "stream"].contains(&key.as_str()));
    assert_eq!(checked("/v1/messages/count_tokens", &counting), Ok(()));
}

#[test]
fn what_the_service_refuses_is_refused() {
    let mark = json!({"type": "ephemeral"});
    let many: Vec<Value> =
        (0..5).map(|n| json!({"type": "text", "text": n.to_string(), "cache_control": mark})).collect();
    let image = |kind: &str| json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": "AAAA"}});
    let user = |block: Value| json!({"role": "user", "content": [block]});
    // A place in the good request, what to put there, and what the error must speak of.
    for (at, value, of) in [
        ("/stop_when", json!("tired"), "extra inputs"),
        ("/max_tokens", json!(0), "at least 1"),
        ("/max_tokens", json!(1_024), "above the budget"),
        ("/stream", json!(false), "stream"),
        ("/temperature", json!(0.5), "temperature"),
        ("/thinking", json!({"type": "enabled", "budget_tokens": 512}), "at least 1024"),
        ("/thinking", json!({"type": "adaptive"}), "not supported for this model"),
        ("/thinking", json!({"type": "adaptive", "budget_tokens": 1_024}), "not supported"),
        ("/model", json!("claude-opus-4-7"), "not supported for this model"),
        ("/output_config", json!({"effort": "low"}), "effort"),
        ("/tool_choice", json!({"type": "any"}), "forces tool use"),
        ("/system/0/text", json!(" "), "non-whitespace"),
        ("/system", json!(many), "maximum of 4"),
        ("/tools/0/name", json!("a b"), "pattern"),
        ("/tools/0/input_schema", json!({}), "input_schema.type"),
        ("/tools", json!([]), "empty"),
        ("/messages", json!([]), "empty"),
        ("/messages/0/role", json!("assistant"), "alternate"),
        ("/messages/1/role", json!("user"), "alternate"),
        ("/messages/0/content", json!([]), "empty"),
        ("/messages/0/content/0/text", json!(""), "non-whitespace"),
        ("/messages/0/content/0", image("image/bmp"), "media_type"),
        ("/messages/0", user(json!({"type": "tool_result", "tool_use_id": "c0"})), "tool_result"),
        ("/messages/1/content/0/signature", json!(""), "signature"),
        ("/messages/1/content/0/cache_control", mark.clone(), "extra inputs"),
        ("/messages/1/content/0", json!({"type": "text", "text": "no thought"}), "must start with a thinking block"),
        ("/messages/1/content/1/id", json!("c2"), "unique"),
        ("/messages/1/content/1/id", json!("c.1"), "tool_use"),
        ("/messages/1/content/1/input", json!("{}"), "no object"),
        ("/messages/1/content/2", json!({"type": "redacted_thinking", "data": "eA=="}), "final block"),
        ("/messages/2/content/0/tool_use_id", json!("c1"), "one result"),
        ("/messages/2/content/0/tool_use_id", json!("c9"), "tool_use"),
        ("/messages/2/content/0", json!({"type": "text", "text": "early"}), "must come first"),
        ("/messages/2/content/1/content/0", image("image/png"), "only text"),
        ("/messages/2/content/1/content", json!([]), "empty"),
        ("/messages/2", user(json!({"type": "text", "text": "no results"})), "tool_use"),
    ] {
        let mut body = good();
        match body.pointer_mut(at) {
            Some(place) => *place = value.clone(),
            None => {
                let (parent, name) = at.rsplit_once('/').unwrap();
                body.pointer_mut(parent).unwrap()[name] = value.clone();
            }
        }
        let error = checked("/v1/messages", &body).expect_err(&format!("{at} = {value} was taken"));
        assert!(error.contains(of), "{at} = {value}: {error}");
    }
    assert!(checked("/v1/messages/count_tokens", &good()).unwrap_err().contains("max_tokens"));
    assert!(checked("/v1/complete", &good()).unwrap_err().contains("no such path"));
    let mut last = good();
    last["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "assistant", "content": [{"type": "text", "text": "x "}]}));
    assert!(checked("/v1/messages", &last).unwrap_err().contains("trailing whitespace"));
    last["messages"][3]["content"][0] = json!({"type": "thinking", "thinking": "x", "signature": "c2VhbA=="});
    assert!(checked("/v1/messages", &last).unwrap_err().contains("thinking"));
}
