use playhouse_protocol::{StopReason, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{call, decode, incomplete_at_every_cut, same_at_every_split, success_at_no_cut, wordless};

const TEXT: &[u8] = include_bytes!("../../tests/fixtures/gemini/text.sse");
const THINKING: &[u8] = include_bytes!("../../tests/fixtures/gemini/thinking.sse");
const CALL: &[u8] = include_bytes!("../../tests/fixtures/gemini/call.sse");
const PARALLEL: &[u8] = include_bytes!("../../tests/fixtures/gemini/parallel.sse");
const REFUSAL: &[u8] = include_bytes!("../../tests/fixtures/gemini/refusal.sse");
const BLOCKED: &[u8] = include_bytes!("../../tests/fixtures/gemini/blocked.sse");
const LENGTH: &[u8] = include_bytes!("../../tests/fixtures/gemini/length.sse");
const ERROR: &[u8] = include_bytes!("../../tests/fixtures/gemini/error.sse");
const UNKNOWN: &[u8] = include_bytes!("../../tests/fixtures/gemini/unknown.sse");

fn make() -> Box<dyn Decoder> {
    decoder(Limits::default(), None)
}

fn whole(fixture: &[u8]) -> Response {
    decode(make(), &[fixture]).1.unwrap()
}

/// A response of these candidates' parts, finished by `finish`.
fn response(chunks: &[Value], finish: &str) -> String {
    let mut body = String::new();
    for parts in chunks {
        body.push_str(&format!("data: {}\r\n\r\n", json!({"candidates": [{"content": {"parts": parts}}]})));
    }
    body.push_str(&format!("data: {}\r\n\r\n", json!({"candidates": [{"content": {}, "finishReason": finish}]})));
    body
}

fn content(chunks: &[Value], finish: &str) -> Vec<Content> {
    whole(response(chunks, finish).as_bytes()).content
}

fn seal(seal: &str) -> Content {
    Content::Thinking { thinking: String::new(), signature: Some(seal.to_owned()) }
}

fn thought(text: &str) -> Content {
    Content::Thinking { thinking: text.to_owned(), signature: None }
}

#[test]
fn a_response_of_text_is_read_whole() {
    let (events, response) = decode(make(), &[TEXT]);
    assert_eq!(
        response,
        Ok(Response {
            content: vec![Content::text("Grüße، مرحبا! 😀\n\"quoted\" <b> \\ café 🚀")],
            stop_reason: StopReason::Stop,
            usage: Usage::of(12, 14, 0, 0, 0),
            model: Some("gemini-2.5-flash".into()),
        })
    );
    let text = |delta: &str| StreamEvent::TextDelta { delta: delta.into() };
    assert_eq!(events, [StreamEvent::Start, text("Grüße"), text("، مرحبا! 😀\n\"quoted\" "), text("<b> \\ café 🚀")]);
}

#[test]
fn thoughts_are_kept_apart_and_their_seal_is_kept() {
    let (events, response) = decode(make(), &[THINKING]);
    assert_eq!(
        response,
        Ok(Response {
            content: vec![
                thought("**Counting**\n\nI count the letters."),
                Content::text("There are three."),
                seal("EsgBCsUBAdHtim9xq+Zk3/eX0lQ2c2lnbmF0dXJlIG9mIHRob3VnaHRz"),
            ],
            stop_reason: StopReason::Stop,
            usage: Usage::of(307, 5, 600, 0, 120),
            model: Some("gemini-3-pro-preview".into()),
        })
    );
    assert_eq!(events.iter().filter(|event| matches!(event, StreamEvent::ThinkingDelta { .. })).count(), 2);
}

#[test]
fn a_call_is_read_whole_and_its_seal_stands_before_it() {
    let (events, response) = decode(make(), &[CALL]);
    assert_eq!(
        response,
        Ok(Response {
            content: vec![
                thought("I need the file."),
                seal("EpIBCo8BAdHtim8Y2FsbCBzaWduYXR1cmU="),
                call(
                    "8f2b1a3c",
                    "read_file",
                    json!({"path": "café/ü.txt", "lines": [1, 2.5e3], "deep": {"quote": "\"}"}})
                ),
            ],
            stop_reason: StopReason::ToolUse,
            usage: Usage::of(80, 20, 0, 0, 30),
            model: Some("gemini-3-pro-preview".into()),
        })
    );
    let started = StreamEvent::ToolCallStart { id: "8f2b1a3c".into(), name: "read_file".into() };
    assert!(events.contains(&started), "{events:?}");
}

#[test]
fn parallel_calls_without_ids_get_some() {
    assert_eq!(
        whole(PARALLEL),
        Response {
            content: vec![
                Content::text("I look at both."),
                seal("Eo8BCowBAdHtim9wYXJhbGxlbA=="),
                call("call_3_0", "get_weather", json!({"city": "Zürich"})),
                call("call_3_1", "get_weather", json!({"city": "東京"})),
                call("call_3_2", "now", json!({})),
            ],
            stop_reason: StopReason::ToolUse,
            usage: Usage::of(60, 36, 0, 0, 0),
            model: Some("gemini-3-flash-preview".into()),
        }
    );
}

#[test]
fn a_refusal_leaves_what_was_said_and_never_an_empty_message() {
    assert_eq!(
        whole(REFUSAL),
        Response {
            content: vec![Content::text("The first step is")],
            stop_reason: StopReason::Refusal,
            usage: Usage::of(9, 4, 0, 0, 0),
            model: Some("gemini-2.5-flash".into()),
        }
    );
    assert_eq!(
        whole(BLOCKED),
        Response {
            content: vec![Content::text("[The model declined to answer: PROHIBITED_CONTENT]")],
            stop_reason: StopReason::Refusal,
            usage: Usage::of(9, 0, 0, 0, 0),
            model: Some("gemini-2.5-flash".into()),
        }
    );
    for reason in [
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "LANGUAGE",
        "OTHER",
        "IMAGE_SAFETY",
        "MODEL_ARMOR",
    ] {
        let said = content(&[json!([{"text": "hm", "thought": true}])], reason);
        assert_eq!(said, [thought("hm"), Content::text(format!("[The model declined to answer: {reason}]"))]);
        let with_call = content(&[json!([{"functionCall": {"name": "t", "args": {}, "id": "a"}}])], reason);
        assert_eq!(with_call, [call("a", "t", json!({}))], "{reason}");
    }
}

#[test]
fn f09_a_call_cut_by_the_output_limit_has_no_arguments_to_run() {
    assert_eq!(
        whole(LENGTH),
        Response {
            content: vec![
                Content::text("I write it."),
                call("call_3_0", "write_file", json!({"path": "a.txt"})),
                call("call_3_1", "write_file", json!("")),
            ],
            stop_reason: StopReason::Length,
            usage: Usage::of(40, 64, 0, 0, 0),
            model: Some("gemini-2.5-pro".into()),
        }
    );
}

#[test]
fn f09_arguments_that_are_no_object_never_become_one() {
    for raw in ["[1]", "null", "\"{}\"", "7", "true"] {
        let args: Value = serde_json::from_str(raw).unwrap();
        for finish in ["STOP", "MAX_TOKENS", "SAFETY"] {
            let got = content(&[json!([{"functionCall": {"id": "a", "name": "t", "args": args}}])], finish);
            let expected = match (raw, finish) {
                // `null` is how JSON leaves a field out.
                ("null", "STOP") => json!({}),
                ("null", _) => json!(""),
                (raw, _) => Value::String(raw.to_owned()),
            };
            assert_eq!(got, [call("a", "t", expected)], "{raw} {finish}");
        }
    }
    let got = content(&[json!([{"functionCall": {"id": "a", "name": "t"}}])], "STOP");
    assert_eq!(got, [call("a", "t", json!({}))]);
}

#[test]
fn what_is_unknown_is_passed_over_and_counted() {
    let mut decoder = make();
    decoder.feed(UNKNOWN, &mut |_| {}).unwrap();
    assert_eq!((decoder.data_events(), decoder.unknown_events()), (3, 2));
    assert_eq!(
        decoder.finish(&Finish { response: 0, taken: &|_| false }),
        Ok(Response {
            content: vec![Content::text("é…")],
            stop_reason: StopReason::Stop,
            usage: Usage::of(3, 2, 0, 0, 0),
            model: Some("gemini-2.5-flash".into()),
        })
    );
}

#[test]
fn f01_a_response_cut_at_any_byte_is_incomplete() {
    // The CR of the blank line already ends an event; with LF alone it takes the last byte.
    for fixture in [TEXT, THINKING, CALL, PARALLEL, REFUSAL, BLOCKED, LENGTH] {
        incomplete_at_every_cut(make, fixture, fixture.len() - 1);
    }
    incomplete_at_every_cut(make, UNKNOWN, UNKNOWN.len());
    success_at_no_cut(make, ERROR);
    assert!(matches!(decode(make(), &[b""]).1, Err(ProviderError::Incomplete { .. })));
    let unsaid = response(&[json!([{"text": "a"}])], "FINISH_REASON_UNSPECIFIED");
    assert!(matches!(decode(make(), &[unsaid.as_bytes()]).1, Err(ProviderError::Incomplete { .. })));
}

#[test]
fn f03_a_response_split_at_any_byte_gives_the_same_events() {
    for fixture in [TEXT, THINKING, CALL, PARALLEL, REFUSAL, BLOCKED, LENGTH, ERROR, UNKNOWN] {
        same_at_every_split(make, fixture);
    }
}

#[test]
fn f07_errors_inside_the_stream_are_classified() {
    let limited = ProviderError::RateLimited { message: String::new(), retry_after_ms: None };
    assert_eq!(decode(make(), &[ERROR]).1.map_err(wordless), Err(limited.clone()));
    let kind = |error: &str| {
        let body = format!("data: {{\"candidates\":[]}}\n\ndata: {{\"error\":{error}}}\n\n");
        decode(make(), &[body.as_bytes()]).1.unwrap_err()
    };
    assert_eq!(wordless(kind(r#"{"status":"RESOURCE_EXHAUSTED","message":"slow down"}"#)), limited);
    let wait = r#"{"code":429,"details":[{"retryDelay":"2s"}]}"#;
    assert_eq!(
        wordless(kind(wait)),
        ProviderError::RateLimited { message: String::new(), retry_after_ms: Some(2_000) }
    );
    assert!(matches!(kind(r#"{"code":500,"status":"INTERNAL"}"#), ProviderError::Network { .. }));
    assert!(matches!(kind(r#"{"code":400,"status":"INVALID_ARGUMENT"}"#), ProviderError::Api { .. }));
    assert!(matches!(kind(r#""words""#), ProviderError::Api { .. }));
    assert!(matches!(kind("<html>"), ProviderError::Incomplete { message } if message.contains("cannot be read")));
}

#[test]
fn a_call_that_is_none_is_asked_for_again() {
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS"] {
        let error = decode(make(), &[response(&[], reason).as_bytes()]).1.unwrap_err();
        assert!(matches!(&error, ProviderError::Incomplete { message } if message.contains(reason)), "{error}");
        assert!(error.is_retryable());
    }
    let error = decode(make(), &[response(&[], "MISSING_THOUGHT_SIGNATURE").as_bytes()]).1.unwrap_err();
    assert!(matches!(error, ProviderError::Api { .. }));
}

#[test]
fn seals_stand_before_the_part_they_came_with() {
    let sealed = |text: &str, seal: &str| json!({"text": text, "thoughtSignature": seal});
    let got = content(&[json!([{"text": "a"}]), json!([sealed("b", "s1")]), json!([{"text": "c"}])], "STOP");
    assert_eq!(got, [Content::text("a"), seal("s1"), Content::text("bc")]);
    let thoughts = json!([{"text": "a", "thought": true}, {"text": "b", "thought": true, "thoughtSignature": "s1"},
        {"text": "c", "thought": true}, {"thoughtSignature": "s2"}]);
    let got = content(&[thoughts], "STOP");
    let own = Content::Thinking { thinking: "ab".into(), signature: Some("s1".into()) };
    assert_eq!(got, [own, thought("c"), seal("s2")]);
}

#[test]
fn a_call_of_the_answer_tool_is_the_answer() {
    let read = |chunks: &[Value], finish: &str| {
        let body = response(chunks, finish);
        decode(decoder(Limits::default(), Some("answer".into())), &[body.as_bytes()]).1.unwrap()
    };
    let answer = json!({"functionCall": {"name": "answer", "args": {"n": 7, "é": "\"x\""}}, "thoughtSignature": "s"});
    let real = json!({"functionCall": {"id": "r", "name": "read", "args": {}}});
    let words = json!({"text": "Here it is."});
    for chunks in [vec![json!([answer])], vec![json!([words, answer])], vec![json!([answer]), json!([words, answer])]] {
        let got = read(&chunks, "STOP");
        let [Content::Text { text }] = got.content.as_slice() else { panic!("{:?}", got.content) };
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({"n": 7, "é": "\"x\""}));
        assert_eq!(got.stop_reason, StopReason::Stop);
    }
    let got = read(&[json!([words, answer, real])], "STOP");
    assert_eq!(got.content, [Content::text("Here it is."), call("r", "read", json!({}))]);
    assert_eq!(got.stop_reason, StopReason::ToolUse);
    let cut = read(&[json!([{"functionCall": {"name": "answer"}}])], "MAX_TOKENS");
    assert_eq!((cut.content, cut.stop_reason), (vec![], StopReason::Length));
}

#[test]
fn usage_is_a_partition_whatever_the_service_says() {
    let usage = |reports: &[Value]| {
        let mut body = String::new();
        for report in reports {
            body.push_str(&format!("data: {}\n\n", json!({"usageMetadata": report})));
        }
        body.push_str(&response(&[], "STOP"));
        whole(body.as_bytes()).usage
    };
    assert_eq!(usage(&[]), Usage::default());
    assert_eq!(usage(&[Value::Null]), Usage::default());
    assert_eq!(usage(&[json!({"promptTokenCount": 10, "cachedContentTokenCount": 99})]), Usage::of(0, 0, 10, 0, 0));
    let first = json!({"promptTokenCount": 10, "thoughtsTokenCount": 3, "cachedContentTokenCount": 4});
    assert_eq!(usage(&[first, json!({"candidatesTokenCount": 2})]), Usage::of(6, 2, 4, 0, 3));
    let max = json!({"promptTokenCount": u64::MAX, "toolUsePromptTokenCount": 5});
    assert_eq!(usage(&[max]), Usage::of(u64::MAX, 0, 0, 0, 0));
}

proptest! {
    #[test]
    fn f10_every_call_has_an_id_of_its_own(
        ids in proptest::collection::vec(
            prop_oneof!["", "a", "b", " ", "call_3_0", "call_3_1", "call_3_2", "call_3_1x"], 1..6)
    ) {
        let parts: Vec<Value> =
            ids.iter().map(|id| json!({"functionCall": {"id": id, "name": "t", "args": {}}})).collect();
        let mut decoder = make();
        decoder.feed(response(&[Value::Array(parts)], "STOP").as_bytes(), &mut |_| {}).unwrap();
        let whole = decoder.finish(&Finish { response: 3, taken: &|id| id == "b" }).unwrap();
        let mut got: Vec<String> = whole.content.iter().map(|block| match block {
            Content::ToolCall { id, .. } => id.to_string(),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(got.len(), ids.len());
        prop_assert!(got.iter().all(|id| !id.trim().is_empty() && id != "b"));
        got.sort();
        got.dedup();
        prop_assert_eq!(got.len(), ids.len());
    }

    #[test]
    fn f03_pieces_of_every_kind_add_up(pieces in proptest::collection::vec((0_u8..2, "[a-zé😀\"\\\\\n{}: ]{0,4}"), 0..60)) {
        let (mut chunks, mut text, mut thinking) = (Vec::new(), String::new(), String::new());
        for (kind, piece) in &pieces {
            if *kind == 0 { text.push_str(piece) } else { thinking.push_str(piece) }
            chunks.push(json!([{"text": piece, "thought": *kind == 1}]));
        }
        let (mut got_text, mut got_thinking) = (String::new(), String::new());
        for block in content(&chunks, "STOP") {
            match block {
                Content::Text { text } => got_text.push_str(&text),
                Content::Thinking { thinking, .. } => got_thinking.push_str(&thinking),
                other => panic!("{other:?}"),
            }
        }
        prop_assert_eq!((got_text, got_thinking), (text, thinking));
    }
}

#[test]
fn f12_an_endless_response_is_stopped() {
    let limits = Limits { frame_bytes: 1_000, content_bytes: 500, wire_bytes: 10_000 };
    let part = |part: Value| format!("data: {}\r\n\r\n", json!({"candidates": [{"content": {"parts": [part]}}]}));
    for piece in [
        part(json!({"text": "xxxxxxxxxxxxxxxx"})),
        part(json!({"text": "xxxxxxxxxxxxxxxx", "thought": true})),
        part(json!({"text": "", "thoughtSignature": "s"})),
        part(json!({"functionCall": {"name": "t", "args": {}}})),
        part(json!({"executableCode": {}})),
        ": keep-alive\r\n\r\n".to_owned(),
        "data: {\"candidates\":[]}\r\n\r\n".to_owned(),
        "data: x".to_owned(),
    ] {
        let mut decoder = decoder(limits, None);
        let error = (0..100_000).find_map(|_| decoder.feed(piece.as_bytes(), &mut |_| {}).err());
        let error = error.expect("it was never stopped");
        assert!(matches!(error, ProviderError::Other { .. }), "{error:?}");
    }
}
