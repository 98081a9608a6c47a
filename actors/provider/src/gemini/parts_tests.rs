use playhouse_protocol::StopReason;
use serde_json::json;

use super::*;
use crate::testing::{call, said};

fn writer(generation: Generation) -> Writer<'static> {
    Writer { provider: "google", ids: Ids::Left, generation }
}

fn written(writer: Writer<'_>, messages: &[Message]) -> Value {
    let mut out = Messages::default();
    for message in messages {
        writer.message(message, &mut out).unwrap();
    }
    let mut json = b"[".to_vec();
    out.write_to(&mut json, None);
    json.push(b']');
    serde_json::from_slice(&json).unwrap()
}

fn sealed(seal: &str) -> Content {
    Content::Thinking { thinking: "hm".into(), signature: Some(seal.into()) }
}

fn image(mime_type: &str) -> Content {
    Content::Image { data: "AAAA".into(), mime_type: mime_type.into() }
}

fn answered(content: Vec<Content>, is_error: bool) -> Message {
    Message::ToolResult { tool_call_id: "a".into(), tool_name: "t".into(), content, is_error, timestamp: 0 }
}

#[test]
fn a_seal_goes_on_the_part_after_it() {
    let parts = |provider: &str, content: Vec<Content>| {
        written(writer(Generation::Older), &[said(provider, content, StopReason::ToolUse)])[0]["parts"].clone()
    };
    let content = || {
        vec![
            sealed("s0"),
            sealed("s1"),
            Content::text("a"),
            sealed("s2"),
            call("c", "t", json!({})),
            Content::text("b"),
        ]
    };
    assert_eq!(
        parts("google", content()),
        json!([
            {"text": "a", "thoughtSignature": "s1"},
            {"functionCall": {"name": "t", "args": {}}, "thoughtSignature": "s2"},
            {"text": "b"},
        ])
    );
    let bare = json!([{"text": "a"}, {"functionCall": {"name": "t", "args": {}}}, {"text": "b"}]);
    assert_eq!(parts("elsewhere", content()), bare, "the seal of another provider is none here");
    assert_eq!(parts("google", vec![Content::text("a"), sealed("s")]), json!([{"text": "a", "thoughtSignature": "s"}]));
    let both = parts("google", vec![sealed("s1"), Content::text("a"), sealed("s2")]);
    assert_eq!(both, json!([{"text": "a", "thoughtSignature": "s1"}]), "its own seal stays");
    let after_call = parts("google", vec![call("c", "t", json!({})), sealed("s")]);
    assert_eq!(after_call, json!([{"functionCall": {"name": "t", "args": {}}}]), "a call takes none from behind");
}

#[test]
fn gemini_3_gets_a_seal_for_calls_that_have_none() {
    let message = |content| [said("elsewhere", content, StopReason::ToolUse)];
    let calls = || vec![Content::text("a"), call("c", "t", json!({})), call("d", "t", json!({}))];
    let seals = |generation| {
        let json = written(writer(generation), &message(calls()));
        json[0]["parts"].as_array().unwrap().iter().map(|part| part["thoughtSignature"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(seals(Generation::Three), [Value::Null, json!(FOREIGN), Value::Null]);
    assert_eq!(seals(Generation::Older), [Value::Null, Value::Null, Value::Null]);
}

#[test]
fn results_share_a_content_that_nothing_else_joins() {
    let messages = [
        Message::user("one", 0),
        Message::user("two", 0),
        said("google", vec![call("a", "t", json!({})), call("b", "t", json!({}))], StopReason::ToolUse),
        answered(vec![Content::text("x"), Content::text("y")], false),
        answered(vec![], true),
        Message::user("three", 0),
    ];
    assert_eq!(
        written(writer(Generation::Older), &messages),
        json!([
            {"role": "user", "parts": [{"text": "one"}]},
            {"role": "user", "parts": [{"text": "two"}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "t", "args": {}}}, {"functionCall": {"name": "t", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "t", "response": {"output": "x\ny"}}},
                {"functionResponse": {"name": "t", "response": {"error": "(no output)"}}},
            ]},
            {"role": "user", "parts": [{"text": "three"}]},
        ])
    );
}

#[test]
fn pictures_go_where_the_model_takes_them() {
    let user = Message::User {
        content: vec![Content::text("see"), image("image/png"), image("image/gif"), Content::text("")],
        timestamp: 0,
    };
    let result = answered(vec![image("image/png"), Content::text("a"), image("image/gif")], false);
    let blob = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let asked = json!([{"text": "see"}, blob, {"text": "[image/gif image, not shown]"}]);
    let three = written(writer(Generation::Three), &[user.clone(), result.clone()]);
    assert_eq!(three[0]["parts"], asked);
    assert_eq!(
        three[1]["parts"],
        json!([{"functionResponse": {"name": "t", "response": {"output": "a\n[image/gif image, not shown]"}, "parts": [blob]}}])
    );
    let older = written(writer(Generation::Older), &[user, result]);
    assert_eq!(older[0]["parts"], asked);
    assert_eq!(
        older[1]["parts"][0]["functionResponse"]["response"]["output"],
        "[image/png image, not shown]\na\n[image/gif image, not shown]"
    );
}

#[test]
fn arguments_that_nobody_could_read_are_shown_in_an_object() {
    let message = said("google", vec![call("a", "t", json!("{\"x\":"))], StopReason::ToolUse);
    let json = written(writer(Generation::Older), &[message]);
    assert_eq!(json[0]["parts"][0]["functionCall"]["args"], json!({"_unparsed": "{\"x\":"}));
}

#[test]
fn names_and_ids_are_made_to_fit() {
    assert_eq!(wire_name("server__tool.v1:x-y"), "server__tool.v1:x-y");
    assert_eq!(wire_name("no such tool! ü"), "no_such_tool___");
    assert_eq!((wire_name(""), wire_name("7up"), wire_name("-a")), ("unknown".into(), "_7up".into(), "_-a".into()));
    assert_eq!((wire_name("é"), wire_name(&"x".repeat(99)).len()), ("_".into(), 64));
    assert_eq!(wire_id("call_3_0"), "call_3_0");
    let (one, two) = (wire_id("functions.read:0/é|fc_1"), wire_id(""));
    assert!(one != two && [&one, &two].iter().all(|id| id.len() == 29 && id.starts_with("call_")), "{one} {two}");
    assert_eq!(wire_id(&"x".repeat(65)).len(), 29);
}
