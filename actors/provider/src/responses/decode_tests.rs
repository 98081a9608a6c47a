use playhouse_protocol::{Content, StopReason, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{call, incomplete_at_every_cut, same_at_every_split, success_at_no_cut, wordless};

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/fixtures/responses/", $name, ".sse"))
    };
}

const TEXT: &[u8] = fixture!("text");
const REASONING: &[u8] = fixture!("reasoning");
const CALL: &[u8] = fixture!("call");
const PARALLEL: &[u8] = fixture!("parallel");
const REFUSAL: &[u8] = fixture!("refusal");
const FILTERED: &[u8] = fixture!("filtered");
const LENGTH: &[u8] = fixture!("length");
const UNKNOWN: &[u8] = fixture!("unknown");
const ERROR: &[u8] = fixture!("error");
const FAILED: &[u8] = fixture!("failed");

const WHOLE: [&[u8]; 8] = [TEXT, REASONING, CALL, PARALLEL, REFUSAL, FILTERED, LENGTH, UNKNOWN];

fn make() -> Box<dyn Decoder> {
    decoder(Limits::default())
}

fn decode(bytes: &[u8]) -> (Vec<StreamEvent>, Result<Response, ProviderError>) {
    crate::testing::decode(make(), &[bytes])
}

fn whole(bytes: &[u8]) -> Response {
    decode(bytes).1.unwrap()
}

/// A stream of these events.
fn stream(events: &[Value]) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed"}})
}

fn item(kind: &str, index: u64, item: Value) -> Value {
    json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item})
}

fn function(id: &str, call_id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": call_id, "name": "t", "arguments": arguments})
}

fn arguments(kind: &str, index: u64, id: &str, text: &str) -> Value {
    let field = if kind == "done" { "arguments" } else { "delta" };
    json!({"type": format!("response.function_call_arguments.{kind}"), "output_index": index, "item_id": id,
        field: text})
}

fn said(index: u64, id: &str, part: u64, text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "item_id": id, "content_index": part,
        "delta": text})
}

fn response(content: Vec<Content>, stop_reason: StopReason, usage: Usage) -> Response {
    Response { content, stop_reason, usage, model: Some("gpt-5-mini-2025-08-07".into()) }
}

fn thinking(text: &str, id: &str, encrypted_content: &str) -> Content {
    let signature = format!(r#"{{"id":"{id}","encrypted_content":"{encrypted_content}"}}"#);
    Content::Thinking { thinking: text.to_owned(), signature: Some(signature) }
}

fn delta(delta: &str) -> StreamEvent {
    StreamEvent::TextDelta { delta: delta.to_owned() }
}

fn start_of(id: &str, name: &str) -> StreamEvent {
    StreamEvent::ToolCallStart { id: id.into(), name: name.to_owned() }
}

fn arguments_delta(delta: &str) -> StreamEvent {
    StreamEvent::ToolCallDelta { delta: delta.to_owned() }
}

#[test]
fn text_is_read_whole() {
    let (events, whole) = decode(TEXT);
    let text = "Grüße، مرحبا! 😀\n\"quoted\" \\ back";
    assert_eq!(whole, Ok(response(vec![Content::text(text)], StopReason::Stop, Usage::of(11, 18, 0, 0, 0))));
    let deltas = ["Grüße", "، مرحبا! ", "😀", "\n\"quoted\" \\ back"].map(delta);
    assert_eq!(events, [vec![StreamEvent::Start], deltas.to_vec()].concat());
}

#[test]
fn reasoning_is_read_with_its_seal() {
    let (events, whole) = decode(REASONING);
    let thought = "**Weighing** the café\n\n**Deciding** — é";
    let content = vec![thinking(thought, "rs_68af4034", "gAAAAABor0A2seal=="), Content::text("Yes.")];
    assert_eq!(whole, Ok(response(content, StopReason::Stop, Usage::of(56, 18, 64, 0, 192))));
    let said: String = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ThinkingDelta { delta } => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(said, thought);
}

#[test]
fn a_call_is_read_whole() {
    let (events, whole) = decode(CALL);
    let content = vec![call("call_Vq2mKx", "read_file", json!({"path": "café/ü.txt"}))];
    assert_eq!(whole, Ok(response(content, StopReason::ToolUse, Usage::of(75, 20, 0, 0, 0))));
    let pieces = ["{\"", "path", "\":\"", "café/ü.txt", "\"}"].map(arguments_delta);
    let opening = vec![StreamEvent::Start, start_of("call_Vq2mKx", "read_file")];
    assert_eq!(events, [opening, pieces.to_vec()].concat());
}

#[test]
fn calls_side_by_side_get_their_own_arguments() {
    let (events, whole) = decode(PARALLEL);
    let content = vec![
        thinking("Three files.", "rs_68af4037", "gAAAAABor0A3seal=="),
        Content::text("I look."),
        call("call_a", "read_file", json!({"path": "a"})),
        call("call_b", "read_file", json!({"path": "b"})),
        call("call_c", "list_files", json!({})),
    ];
    assert_eq!(whole, Ok(response(content, StopReason::ToolUse, Usage::of(75, 28, 0, 0, 32))));
    // The first came without pieces: its end says it once.
    let first = [start_of("call_a", "read_file"), arguments_delta("{\"path\":\"a\"}"), start_of("call_b", "read_file")];
    assert!(events.windows(3).any(|window| window == first), "{events:?}");
}

#[test]
fn a_refusal_is_what_the_model_says() {
    let content = vec![Content::text("I'm sorry, I can't help with that.")];
    assert_eq!(whole(REFUSAL), response(content, StopReason::Refusal, Usage::of(20, 9, 0, 0, 0)));
}

#[test]
fn a_filter_that_leaves_nothing_is_named() {
    let (events, whole) = decode(FILTERED);
    let note = "[The model declined to answer: content_filter]";
    assert_eq!(whole, Ok(response(vec![Content::text(note)], StopReason::Refusal, Usage::of(20, 0, 0, 0, 0))));
    assert_eq!(events, [StreamEvent::Start, delta(note)]);
}

#[test]
fn what_was_said_before_a_filter_stands() {
    let filtered = json!({"type": "response.incomplete", "response":
        {"incomplete_details": {"reason": "content_filter"}}});
    let response = whole(&stream(&[said(0, "msg_1", 0, "So "), filtered.clone()]));
    assert_eq!((response.content, response.stop_reason), (vec![Content::text("So ")], StopReason::Refusal));
    let opened = item("added", 0, function("fc_1", "call_1", ""));
    let response = whole(&stream(&[opened, arguments("delta", 0, "fc_1", "{\"a\":1"), filtered]));
    assert_eq!(response.content, [call("call_1", "t", json!("{\"a\":1"))]);
}

#[test]
fn usage_is_read_in_its_classes_and_what_is_unknown_is_counted() {
    let mut decoder = make();
    let (mut events, mut fed) = (Vec::new(), 0);
    for byte in UNKNOWN {
        fed += 1;
        if decoder.feed(&[*byte], &mut |event| events.push(event)).unwrap() != crate::Progress::Open {
            break;
        }
    }
    assert!(fed >= UNKNOWN.len() - 1);
    // The search's three events and the new one.
    assert_eq!(decoder.unknown_events(), 4);
    let all = UNKNOWN.windows(6).filter(|window| window == b"event:").count();
    assert_eq!(decoder.data_events(), all as u64 - 2, "keep-alives are no data");
    assert_eq!(events, [StreamEvent::Start, delta("Found "), delta("it.")]);
    let expected = response(vec![Content::text("Found it.")], StopReason::Stop, Usage::of(300, 50, 600, 100, 250));
    assert_eq!(decoder.finish(&Finish { response: 0, taken: &|_| false }), Ok(expected));
}

#[test]
fn details_larger_than_their_whole_are_cut() {
    let usage = |usage: Value| {
        let completed = json!({"type": "response.completed", "response": {"usage": usage}});
        whole(&stream(&[completed])).usage
    };
    let report = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 9},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 6}});
    assert_eq!(usage(report), Usage::of(0, 0, 7, 3, 5));
    assert_eq!(usage(json!({"input_tokens": 3, "input_tokens_details": null})), Usage::of(3, 0, 0, 0, 0));
    assert_eq!(usage(Value::Null), Usage::default());
}

#[test]
fn f01_a_response_cut_at_any_byte_is_incomplete() {
    for fixture in WHOLE {
        // The CR of the blank line already ends the event; with LF alone it takes the last byte.
        let complete = if fixture.ends_with(b"\r\n") { fixture.len() - 1 } else { fixture.len() };
        incomplete_at_every_cut(make, fixture, complete);
    }
    for fixture in [ERROR, FAILED] {
        success_at_no_cut(make, fixture);
    }
}

#[test]
fn f01_only_a_terminal_event_completes() {
    let text = || said(0, "msg_1", 0, "a");
    let done = item("done", 0, json!({"type": "message", "id": "msg_1", "content": [{"text": "a"}]}));
    for events in [vec![], vec![text()], vec![text(), done]] {
        let mut bytes = stream(&events);
        assert!(matches!(decode(&bytes).1, Err(ProviderError::Incomplete { .. })));
        bytes.extend_from_slice(b"data: [DONE]\n\n");
        assert!(matches!(decode(&bytes).1, Err(ProviderError::Incomplete { .. })));
    }
    assert_eq!(whole(&stream(&[text(), completed()])).content, [Content::text("a")]);
}

#[test]
fn f03_a_response_split_at_any_byte_gives_the_same_events() {
    for fixture in WHOLE.into_iter().chain([ERROR, FAILED]) {
        same_at_every_split(make, fixture);
    }
}

#[test]
fn f07_errors_in_the_stream_are_classified() {
    let (events, error) = decode(ERROR);
    assert_eq!(events, [StreamEvent::Start, delta("Half")]);
    assert_eq!(
        error.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: None })
    );
    let (_, error) = decode(FAILED);
    assert!(matches!(&error, Err(ProviderError::Network { message }) if message.contains("Sorry about that")));

    let failed = |error: Value| decode(&stream(&[json!({"type": "response.failed", "response": {"error": error}})])).1;
    let limit = json!({"code": "rate_limit_exceeded", "message": "Please try again in 2s."});
    assert_eq!(
        failed(limit).map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: Some(2_000) })
    );
    let long = json!({"code": "context_length_exceeded", "message": "too long"});
    assert!(matches!(failed(long), Err(ProviderError::ContextOverflow { .. })));
    assert!(matches!(failed(json!({"code": "invalid_prompt", "message": "no"})), Err(ProviderError::Api { .. })));
    assert!(matches!(failed(Value::Null), Err(ProviderError::Network { .. })));
    let bare = decode(b"data: {\"type\":\"response.failed\"}\n\n").1;
    assert!(matches!(bare, Err(ProviderError::Network { .. })));

    for event in [
        json!({"type": "error", "code": "server_error", "message": "m", "param": null}),
        json!({"error": {"code": "server_error"}}),
    ] {
        assert!(matches!(decode(&stream(&[event])).1, Err(ProviderError::Network { .. })));
    }
    let named = decode(b"event: error\ndata: {\"code\":\"slow_down\"}\n\n").1;
    assert_eq!(
        named.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: None })
    );
    let garbled = decode(b"event: response.output_text.delta\ndata: {\"delta\":\n\n").1;
    assert!(matches!(garbled, Err(ProviderError::Incomplete { .. })));
}

#[test]
fn f09_a_call_cut_by_the_limit_keeps_its_raw_arguments() {
    let raw = "{\"path\":\"a.txt\",\"text\":\"Once upon";
    let content = vec![Content::text("I write it down."), call("call_Lm8", "write_file", json!(raw))];
    assert_eq!(whole(LENGTH), response(content, StopReason::Length, Usage::of(30, 16, 0, 0, 0)));
}

#[test]
fn f09_truncated_arguments_never_become_an_object() {
    let full = "{\"path\":\"é\",\"n\":{\"a\":[1]}}";
    let opened = item("added", 0, function("fc_1", "call_1", ""));
    let other = [item("added", 1, function("fc_2", "call_2", "{}")), item("done", 1, function("fc_2", "call_2", "{}"))];
    for reason in ["max_output_tokens", "content_filter", "news"] {
        let end = json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}});
        for (cut, _) in full.char_indices() {
            for others in [&[][..], &other] {
                let mut events = vec![opened.clone()];
                events.extend_from_slice(others);
                events.extend([arguments("delta", 0, "fc_1", &full[..cut]), end.clone()]);
                let response = whole(&stream(&events));
                let Content::ToolCall { arguments, .. } = &response.content[0] else { panic!() };
                assert!(arguments.is_string(), "cut at {cut} by {reason}: {arguments}");
            }
        }
    }
}

#[test]
fn f09_empty_arguments_of_a_whole_call_mean_an_empty_object() {
    for events in [
        vec![item("added", 0, function("fc_1", "call_1", "")), completed()],
        vec![item("done", 0, function("fc_1", "call_1", "")), completed()],
    ] {
        assert_eq!(whole(&stream(&events)).content, [call("call_1", "t", json!({}))]);
    }
}

#[test]
fn f10_calls_without_an_id_of_their_own_get_one() {
    let ids = |own: &[&str]| -> Vec<String> {
        let mut events: Vec<Value> =
            (0..).zip(own).map(|(n, id)| item("done", n, function(&format!("fc_{n}"), id, "{}"))).collect();
        events.push(completed());
        whole(&stream(&events))
            .content
            .into_iter()
            .map(|block| match block {
                Content::ToolCall { id, .. } => id.as_str().to_owned(),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(ids(&["a", "b"]), ["a", "b"]);
    assert_eq!(ids(&["a", "a", ""]), ["a", "call_3_1", "call_3_2"]);
    assert_eq!(ids(&["", " "]), ["call_3_0", "call_3_1"]);
    let late = [
        item("added", 0, json!({"type": "function_call", "id": "fc_1"})),
        item("done", 0, function("fc_1", "call_1", "{}")),
        completed(),
    ];
    assert_eq!(whole(&stream(&late)).content, [call("call_1", "t", json!({}))]);
}

#[test]
fn items_are_found_by_place_and_by_id() {
    let opened = |index: u64, n: u64| item("added", index, function(&format!("fc_{n}"), &format!("call_{n}"), ""));
    let both = [call("call_1", "t", json!({"a": 1})), call("call_2", "t", json!({"b": 2}))];
    // Ids that change from event to event; places that are always the same; no places.
    let pieces = |one: (u64, &str), two: (u64, &str)| {
        vec![
            arguments("delta", one.0, one.1, "{\"a\""),
            arguments("delta", two.0, two.1, "{\"b\""),
            arguments("delta", one.0, one.1, ":1}"),
            arguments("delta", two.0, two.1, ":2}"),
            completed(),
        ]
    };
    let read = |opened: [Value; 2], pieces: Vec<Value>| whole(&stream(&[opened.to_vec(), pieces].concat())).content;
    assert_eq!(read([opened(0, 1), opened(1, 2)], pieces((0, "x"), (1, "y"))), both);
    assert_eq!(read([opened(0, 1), opened(0, 2)], pieces((0, "fc_1"), (0, "fc_2"))), both);
    let placeless = pieces((0, "fc_1"), (0, "fc_2")).into_iter().map(|mut event| {
        event.as_object_mut().unwrap().remove("output_index");
        event
    });
    assert_eq!(read([opened(0, 1), opened(1, 2)], placeless.collect()), both);
    // One that opens twice is one.
    assert_eq!(read([opened(0, 1), opened(0, 1)], vec![arguments("delta", 0, "fc_1", "{}"), completed()]).len(), 1);
}

#[test]
fn what_the_pieces_did_not_say_is_taken_from_the_end() {
    let part = |text: &str| json!({"type": "output_text", "text": text});
    let message = |parts: &[Value]| json!({"type": "message", "id": "msg_1", "content": parts});
    let texts = |events: Vec<Value>| -> Vec<String> {
        let response = whole(&stream(&[events, vec![completed()]].concat()));
        let text = |block: &Content| match block {
            Content::Text { text } => text.clone(),
            other => panic!("{other:?}"),
        };
        response.content.iter().map(text).collect()
    };
    // No pieces; some of them; all of them; others.
    assert_eq!(texts(vec![item("done", 0, message(&[part("a"), part("b")]))]), ["a", "b"]);
    let first = || said(0, "msg_1", 0, "ab");
    assert_eq!(texts(vec![first(), item("done", 0, message(&[part("abc"), part("d")]))]), ["abc", "d"]);
    let second = || said(0, "msg_1", 1, "d");
    assert_eq!(texts(vec![first(), second(), item("done", 0, message(&[part("abc"), part("d")]))]), ["ab", "d"]);
    assert_eq!(texts(vec![first(), item("done", 0, message(&[part("x")]))]), ["ab"]);

    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "e",
        "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]});
    let events = [item("done", 0, reasoning.clone()), item("done", 0, reasoning.clone()), completed()];
    assert_eq!(whole(&stream(&events)).content, [thinking("one\n\ntwo", "rs_1", "e")]);
    let opened = item("added", 0, function("fc_1", "call_1", ""));
    let events = [opened, arguments("done", 0, "fc_1", "{\"a\":1}"), completed()];
    assert_eq!(whole(&stream(&events)).content, [call("call_1", "t", json!({"a": 1}))]);
    // A service that streams nothing at all.
    let output = json!([reasoning, message(&[part("a")]), function("fc_1", "call_1", "{}"), {"type": "news"}]);
    let end = json!({"type": "response.completed", "response": {"output": output}});
    let all = [thinking("one\n\ntwo", "rs_1", "e"), Content::text("a"), call("call_1", "t", json!({}))];
    assert_eq!(whole(&stream(std::slice::from_ref(&end))).content, all);
    assert_eq!(whole(&stream(&[first(), end])).content, [Content::text("ab")], "what streamed is not said again");
}

#[test]
fn reasoning_that_an_open_model_shows_has_no_seal() {
    let piece = |part: u64, text: &str| {
        json!({"type": "response.reasoning_text.delta", "item_id": "rs_1", "output_index": 0, "content_index": part,
            "delta": text})
    };
    let done = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null,
        "content": [{"type": "reasoning_text", "text": "one"}, {"type": "reasoning_text", "text": "two!"}]});
    let events = [piece(0, "o"), piece(0, "ne"), piece(1, "two"), item("done", 0, done), completed()];
    let content = whole(&stream(&events)).content;
    assert_eq!(content, [Content::Thinking { thinking: "one\n\ntwo!".into(), signature: None }]);
}

#[test]
fn f12_endless_content_is_stopped() {
    let limits = Limits { content_bytes: 4_000, ..Limits::default() };
    let endless: [&dyn Fn(u64) -> Value; 4] = [
        &|_| said(0, "msg_1", 0, "word "),
        &|n| said(0, "msg_1", n, ""),
        &|n| item("added", n, function(&format!("fc_{n}"), "", "")),
        &|n| item("added", n, json!({"type": "message", "id": format!("msg_{n}")})),
    ];
    for (which, event) in endless.into_iter().enumerate() {
        let mut decoder = decoder(limits);
        let stopped = (0..2_000).find_map(|n| decoder.feed(&stream(&[event(n)]), &mut |_| {}).err());
        match which {
            // Says nothing and keeps nothing.
            1 => assert_eq!(stopped, None),
            _ => assert!(matches!(stopped, Some(ProviderError::Other { .. })), "{which}: {stopped:?}"),
        }
    }
    let seal = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "e".repeat(5_000)});
    let error = decoder(limits).feed(&stream(&[item("done", 0, seal)]), &mut |_| {}).unwrap_err();
    assert!(matches!(error, ProviderError::Other { .. }));
}

proptest! {
    #[test]
    fn f03_pieces_of_every_kind_in_any_order_add_up(
        pieces in proptest::collection::vec((0_u64..4, "[a-zé😀\"\\\\\n{}: ]{0,4}"), 0..40),
    ) {
        let mut events = vec![
            item("added", 0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
            item("added", 1, json!({"type": "message", "id": "msg_1", "content": []})),
            item("added", 2, function("fc_1", "call_1", "")),
            item("added", 3, function("fc_2", "call_2", "")),
        ];
        let mut said_all: [String; 4] = Default::default();
        for (which, piece) in &pieces {
            said_all[*which as usize].push_str(piece);
            events.push(match which {
                0 => json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "item_id": "rs_1",
                    "summary_index": 0, "delta": piece}),
                1 => said(1, "msg_1", 0, piece),
                n => arguments("delta", *n, &format!("fc_{}", n - 1), piece),
            });
        }
        events.push(completed());
        let [reasoning, text, one, two] = said_all;
        let mut expected = Vec::new();
        if !reasoning.is_empty() {
            expected.push(Content::Thinking { thinking: reasoning, signature: None });
        }
        if !text.is_empty() {
            expected.push(Content::Text { text });
        }
        for (id, arguments) in [("call_1", one), ("call_2", two)] {
            expected.push(call(id, "t", crate::wire::draft::parse_arguments(arguments)));
        }
        prop_assert_eq!(whole(&stream(&events)).content, expected);
    }

    #[test]
    fn f01_garbage_is_never_a_response(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&bytes).1.is_err());
    }
}
