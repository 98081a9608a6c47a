use playhouse_protocol::StopReason;

use super::*;
use crate::testing::{call, said};

fn encoded(messages: &[Message]) -> Value {
    let mut out = Messages::default();
    for message in messages {
        encode(message, "anthropic", &mut out).unwrap();
    }
    let mut json = b"[".to_vec();
    out.write_to(&mut json, None);
    json.push(b']');
    serde_json::from_slice(&json).unwrap()
}

fn own(content: Vec<Content>) -> Message {
    said("anthropic", content, StopReason::Stop)
}

fn result(id: &str, content: Vec<Content>, is_error: bool) -> Message {
    Message::ToolResult { tool_call_id: id.into(), tool_name: "t".to_owned(), content, is_error, timestamp: 0 }
}

fn thinking(text: &str, signature: Option<&str>) -> Content {
    Content::Thinking { thinking: text.to_owned(), signature: signature.map(str::to_owned) }
}

fn image(mime_type: &str) -> Content {
    Content::Image { data: "AAAA".to_owned(), mime_type: mime_type.to_owned() }
}

#[test]
fn everything_that_can_be_sent() {
    let image_block = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    assert_eq!(
        encoded(&[
            Message::User { content: vec![Content::text("look"), image("image/png")], timestamp: 0 },
            own(vec![
                thinking("Hm.\n", Some("c2VhbA==")),
                thinking("", Some("redacted:ZGF0YQ==")),
                Content::text("ok \"you\""),
                call("toolu_1", "t", json!({"x": 1})),
                call("a.b", "no such.tool", json!("{\"x\":")),
            ]),
            result("toolu_1", vec![Content::text("one"), image("image/png"), image("image/bmp")], false),
            result("a.b", vec![Content::text("there is no tool"), image("image/png")], true),
            Message::user("and now?", 0),
        ]),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "look"}, image_block]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.\n", "signature": "c2VhbA=="},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "text", "text": "ok \"you\""},
                {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {"x": 1}},
                {"type": "tool_use", "id": wire_id("a.b"), "name": "no_such_tool", "input": {"_unparsed": "{\"x\":"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                    {"type": "text", "text": "one"},
                    image_block,
                    {"type": "text", "text": "[image/bmp image, not shown]"},
                ]},
                {"type": "tool_result", "tool_use_id": wire_id("a.b"), "is_error": true, "content": [
                    {"type": "text", "text": "there is no tool"},
                    {"type": "text", "text": "[image/png image, not shown]"},
                ]},
                {"type": "text", "text": "and now?"},
            ]},
        ])
    );
}

#[test]
fn only_the_services_own_sealed_reasoning_goes_back() {
    let blocks = || vec![thinking("Mine.", Some("c2VhbA==")), thinking("Unsealed.", None), Content::text("ok")];
    let text = json!({"type": "text", "text": "ok"});
    let sealed = json!({"type": "thinking", "thinking": "Mine.", "signature": "c2VhbA=="});
    assert_eq!(encoded(&[Message::user("a", 0), own(blocks())])[1]["content"], json!([sealed, text]));
    let others = said("elsewhere", blocks(), StopReason::Stop);
    assert_eq!(encoded(&[Message::user("a", 0), others])[1]["content"], json!([text]));
    let empty = own(vec![thinking("", Some("c2VhbA==")), Content::text("ok")]);
    let sealed = json!({"type": "thinking", "thinking": "", "signature": "c2VhbA=="});
    assert_eq!(encoded(&[Message::user("a", 0), empty])[1]["content"], json!([sealed, text]));
}

#[test]
fn a_message_ends_in_no_reasoning_and_one_of_nothing_else_is_left_out() {
    let seal = || thinking("More.", Some("c2VhbA=="));
    let cut = own(vec![seal(), Content::text("half"), seal()]);
    let kept = encoded(&[Message::user("a", 0), cut]);
    assert_eq!(kept[1]["content"].as_array().unwrap().len(), 2);
    let only = own(vec![seal(), Content::text(" \n")]);
    assert_eq!(
        encoded(&[Message::user("a", 0), only, Message::user("b", 0)]),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])
    );
}

#[test]
fn what_says_nothing_is_dropped_or_gets_a_word() {
    assert_eq!(
        encoded(&[
            Message::User { content: vec![Content::text(" "), Content::text("a")], timestamp: 0 },
            own(vec![Content::text("\n"), call("c", "", Value::Null), call("d", "t", json!([1]))]),
            result("c", vec![Content::text(" ")], false),
            result("d", vec![], true),
            Message::user(" \n ", 0),
        ]),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c", "name": "unknown", "input": {}},
                {"type": "tool_use", "id": "d", "name": "t", "input": {"_unparsed": [1]}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c"},
                {"type": "tool_result", "tool_use_id": "d", "is_error": true, "content": [
                    {"type": "text", "text": "(no output)"},
                ]},
                {"type": "text", "text": "(blank)"},
            ]},
        ])
    );
}

#[test]
fn a_conversation_that_the_model_began_gets_a_beginning() {
    assert_eq!(
        encoded(&[own(vec![Content::text("hello")]), Message::user("a", 0)]),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "(the conversation goes on)"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
        ])
    );
}
