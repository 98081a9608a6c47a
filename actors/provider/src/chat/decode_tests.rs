use super::*;
use crate::testing::wordless;
use playhouse_protocol::ToolCallId;
use proptest::prelude::*;
use serde_json::json;

const TEXT: &[u8] = include_bytes!("../../tests/fixtures/chat_text.sse");
const TOOLS: &[u8] = include_bytes!("../../tests/fixtures/chat_tools.sse");

/// Decodes a response that comes in `pieces` and then ends.
fn decode(pieces: &[&[u8]]) -> (Vec<StreamEvent>, Result<Response, ProviderError>) {
    let mut decoder = super::decoder(Limits::default());
    let mut events = Vec::new();
    for piece in pieces {
        if let Err(error) = decoder.feed(piece, &mut |event| events.push(event)) {
            return (events, Err(error));
        }
    }
    (events, decoder.finish(&With { response: 3, taken: &|_| false }))
}

fn response(body: &str) -> Result<Response, ProviderError> {
    decode(&[body.as_bytes()]).1
}

/// A response of these `choices[0]` objects, finished by `finish`.
fn chunks(deltas: &[Value], finish: &str) -> String {
    let mut body = String::new();
    for delta in deltas {
        body.push_str(&format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]})));
    }
    body.push_str(&format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})));
    body.push_str("data: [DONE]\n\n");
    body
}

fn call(id: &str, name: &str, arguments: Value) -> Content {
    Content::ToolCall { id: id.into(), name: name.into(), arguments }
}

fn call_delta(index: u64, id: &str, name: &str, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]})
}

#[test]
fn a_response_of_text_is_read_whole() {
    let (events, whole) = decode(&[TEXT]);
    assert_eq!(
        whole,
        Ok(Response {
            content: vec![Content::text("Grüße، مرحبا! 😀\n\"quoted\" \\ back")],
            stop_reason: StopReason::Stop,
            usage: Usage::of(20, 40, 100, 0, 5),
            model: Some("gpt-test-2026".into()),
        })
    );
    assert_eq!(events.first(), Some(&StreamEvent::Start));
    assert_eq!(events.iter().filter(|event| matches!(event, StreamEvent::TextDelta { .. })).count(), 4);
}

#[test]
fn a_response_with_calls_is_read_whole() {
    let (events, whole) = decode(&[TOOLS]);
    assert_eq!(
        whole.unwrap().content,
        [
            Content::Thinking { thinking: "Überlegen … fertig.".into(), signature: None },
            Content::text("Ich schaue nach."),
            call("call_a", "read_file", json!({"path": "café/ü.txt"})),
            call("call_b", "bash", json!({"command": "ls -l | wc"})),
        ]
    );
    let starts: Vec<&ToolCallId> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolCallStart { id, .. } => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(starts, [&ToolCallId::from("call_a"), &ToolCallId::from("call_b")]);
}

#[test]
fn f01_a_response_cut_at_any_byte_is_incomplete() {
    // The CR of the blank line after `[DONE]` already ends the event; with LF alone it takes the last byte.
    for (fixture, complete_at) in [(TEXT, TEXT.len()), (TOOLS, TOOLS.len() - 1)] {
        for cut in 0..complete_at {
            let (_, whole) = decode(&[&fixture[..cut]]);
            let error = whole.expect_err(&format!("cut at {cut} was taken for success"));
            assert!(matches!(error, ProviderError::Incomplete { .. }), "cut at {cut}: {error:?}");
            assert!(error.is_retryable());
        }
        assert!(decode(&[&fixture[..complete_at]]).1.is_ok());
    }
}

#[test]
fn f01_done_needs_a_finish_reason_and_a_finish_reason_needs_done() {
    let done_only = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
    assert!(matches!(response(done_only), Err(ProviderError::Incomplete { .. })));
    let reason_only = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert!(matches!(response(reason_only), Err(ProviderError::Incomplete { .. })));
    assert!(matches!(response(""), Err(ProviderError::Incomplete { .. })));
}

#[test]
fn f03_a_response_split_at_any_byte_gives_the_same_events() {
    for fixture in [TEXT, TOOLS] {
        let whole = decode(&[fixture]);
        for at in 0..=fixture.len() {
            let (left, right) = fixture.split_at(at);
            assert_eq!(decode(&[left, right]), whole, "split at {at}");
        }
        let single: Vec<&[u8]> = fixture.chunks(1).collect();
        assert_eq!(decode(&single), whole);
    }
}

proptest! {
    #[test]
    fn f03_a_response_split_anywhere_gives_the_same_events(sizes in proptest::collection::vec(1_usize..200, 1..80)) {
        for fixture in [TEXT, TOOLS] {
            let mut rest = fixture;
            let mut pieces = Vec::new();
            for size in &sizes {
                let (piece, tail) = rest.split_at((*size).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            prop_assert_eq!(decode(&pieces), decode(&[fixture]));
        }
    }

    #[test]
    fn f03_pieces_of_every_kind_in_any_order_add_up(
        pieces in proptest::collection::vec((0_u8..4, "[a-zé😀\"\\\\\n{}: ]{0,4}"), 0..60),
    ) {
        let (mut deltas, mut text, mut thinking) = (Vec::new(), String::new(), String::new());
        let mut arguments = [String::new(), String::new()];
        for (n, index) in [(0_usize, 0_u64), (1, 7)] {
            deltas.push(call_delta(index, &format!("id{n}"), "t", ""));
        }
        for (kind, piece) in &pieces {
            deltas.push(match kind {
                0 => {
                    text.push_str(piece);
                    json!({"content": piece})
                }
                1 => {
                    thinking.push_str(piece);
                    json!({"reasoning_content": piece})
                }
                _ => {
                    let n = usize::from(*kind) - 2;
                    arguments[n].push_str(piece);
                    json!({"tool_calls": [{"index": n * 7, "function": {"arguments": piece}}]})
                }
            });
        }
        let (events, response) = decode(&[chunks(&deltas, "tool_calls").as_bytes()]);
        let said = |is: fn(&StreamEvent) -> Option<&String>| events.iter().filter_map(is).cloned().collect::<String>();
        prop_assert_eq!(said(|e| match e { StreamEvent::TextDelta { delta } => Some(delta), _ => None }), text.clone());
        prop_assert_eq!(
            said(|e| match e { StreamEvent::ThinkingDelta { delta } => Some(delta), _ => None }),
            thinking.clone()
        );
        let mut expected = Vec::new();
        if !thinking.is_empty() {
            expected.push(Content::Thinking { thinking, signature: None });
        }
        if !text.is_empty() {
            expected.push(Content::text(text));
        }
        for (n, arguments) in arguments.into_iter().enumerate() {
            expected.push(call(&format!("id{n}"), "t", parse_arguments(arguments)));
        }
        prop_assert_eq!(response.unwrap().content, expected);
    }

    #[test]
    fn f10_every_call_has_an_id_of_its_own(
        ids in proptest::collection::vec(prop_oneof!["", "a", "b", " ", "call_3_0", "call_3_1", "call_3_2", "call_3_1x"], 1..6)
    ) {
        let deltas: Vec<Value> =
            ids.iter().enumerate().map(|(at, id)| call_delta(at as u64, id, "t", "{}")).collect();
        let mut decoder = super::decoder(Limits::default());
        decoder.feed(chunks(&deltas, "tool_calls").as_bytes(), &mut |_| {}).unwrap();
        let whole = decoder.finish(&With { response: 3, taken: &|id| id == "b" }).unwrap();
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
}

#[test]
fn f09_truncated_arguments_never_become_an_object() {
    let full = r#"{"command":"rm -rf build","deep":{"é":[1,{"a":"}"}]}}"#;
    for cut in (0..=full.len()).filter(|cut| full.is_char_boundary(*cut)) {
        for finish in ["tool_calls", "length", "stop", "content_filter"] {
            let body = chunks(&[call_delta(0, "c", "bash", &full[..cut])], finish);
            let whole = response(&body).unwrap();
            let expected = match cut {
                cut if cut == full.len() => serde_json::from_str(full).unwrap(),
                // Nothing at all means no arguments, unless the response was cut short.
                0 if matches!(finish, "tool_calls" | "stop") => json!({}),
                cut => Value::String(full[..cut].into()),
            };
            assert_eq!(whole.content, [call("c", "bash", expected)], "cut at {cut}, {finish}");
        }
    }
    for raw in ["[1]", "null", "\"x\"", "7", "{} {}", "{\"a\":1}}"] {
        let whole = response(&chunks(&[call_delta(0, "c", "t", raw)], "tool_calls")).unwrap();
        assert_eq!(whole.content, [call("c", "t", Value::String(raw.into()))]);
    }
}

#[test]
fn only_the_last_call_of_a_cut_response_is_unfinished() {
    let body = chunks(&[call_delta(0, "a", "t", ""), call_delta(1, "b", "t", "")], "length");
    let whole = response(&body).unwrap();
    assert_eq!(whole.content, [call("a", "t", json!({})), call("b", "t", json!(""))]);
    assert_eq!(whole.stop_reason, StopReason::Length);
}

#[test]
fn f10_calls_are_told_apart_when_the_service_numbers_them_badly() {
    let late = [call_delta(0, "", "", ""), call_delta(0, "id", "", "{\"a\""), call_delta(0, "id", "get", ":1}")];
    assert_eq!(response(&chunks(&late, "tool_calls")).unwrap().content, [call("id", "get", json!({"a": 1}))]);

    let interleaved = [
        call_delta(0, "a", "x", "{\"n\""),
        call_delta(1, "b", "y", "{\"n\""),
        call_delta(0, "", "", ":0}"),
        call_delta(1, "", "", ":1}"),
    ];
    assert_eq!(
        response(&chunks(&interleaved, "tool_calls")).unwrap().content,
        [call("a", "x", json!({"n": 0})), call("b", "y", json!({"n": 1}))]
    );

    let all_zero = [call_delta(0, "a", "x", "{}"), call_delta(0, "b", "x", "{\"n\":1}")];
    assert_eq!(
        response(&chunks(&all_zero, "tool_calls")).unwrap().content,
        [call("a", "x", json!({})), call("b", "x", json!({"n": 1}))]
    );

    let unnumbered = [
        json!({"tool_calls": [{"id": "a", "function": {"name": "x", "arguments": "{\"n\""}}]}),
        json!({"tool_calls": [{"function": {"arguments": ":0}"}}]}),
        json!({"tool_calls": [{"id": "b", "function": {"name": "x", "arguments": "{}"}}]}),
    ];
    assert_eq!(
        response(&chunks(&unnumbered, "tool_calls")).unwrap().content,
        [call("a", "x", json!({"n": 0})), call("b", "x", json!({}))]
    );

    let twice = [call_delta(0, "same", "x", "{}"), call_delta(1, "same", "x", "{}"), call_delta(2, "", "x", "{}")];
    assert_eq!(
        response(&chunks(&twice, "tool_calls")).unwrap().content,
        [call("same", "x", json!({})), call("call_3_1", "x", json!({})), call("call_3_2", "x", json!({}))]
    );
}

#[test]
fn finish_reasons_are_mapped() {
    let with_call = [call_delta(0, "c", "t", "{}")];
    let stop = |deltas: &[Value], finish: &str| response(&chunks(deltas, finish)).unwrap().stop_reason;
    for (finish, without, with) in [
        ("stop", StopReason::Stop, StopReason::ToolUse),
        ("length", StopReason::Length, StopReason::Length),
        ("tool_calls", StopReason::Stop, StopReason::ToolUse),
        ("content_filter", StopReason::Refusal, StopReason::ToolUse),
        ("eos_of_the_future", StopReason::Stop, StopReason::ToolUse),
    ] {
        assert_eq!((stop(&[], finish), stop(&with_call, finish)), (without, with), "{finish}");
    }
}

#[test]
fn refusals_are_text_and_both_names_of_reasoning_are_known() {
    let body = chunks(&[json!({"reasoning": "hm"}), json!({"refusal": "I can't."}), json!({"content": null})], "stop");
    assert_eq!(
        response(&body).unwrap().content,
        [Content::Thinking { thinking: "hm".into(), signature: None }, Content::text("I can't.")]
    );
}

#[test]
fn f07_errors_inside_the_stream_are_classified() {
    let body = |error: &str| format!("data: {{\"choices\":[]}}\n\ndata: {{\"error\":{error}}}\n\ndata: [DONE]\n\n");
    let kind = |error: &str| response(&body(error)).unwrap_err();
    let limited = ProviderError::RateLimited { message: String::new(), retry_after_ms: None };
    assert_eq!(wordless(kind(r#"{"type":"overloaded_error"}"#)), limited);
    assert_eq!(wordless(kind(r#"{"code":429,"message":"slow down"}"#)), limited);
    assert_eq!(wordless(kind(r#"{"code":"rate_limit_exceeded","message":"slow"}"#)), limited);
    assert!(matches!(kind(r#"{"code":502,"message":"bad gateway"}"#), ProviderError::Network { .. }));
    assert!(matches!(kind(r#"{"type":"server_error","message":"sorry"}"#), ProviderError::Network { .. }));
    assert!(matches!(kind(r#"{"code":"context_length_exceeded"}"#), ProviderError::ContextOverflow { .. }));
    assert!(matches!(kind(r#""words""#), ProviderError::Api { .. }));
    let bare = "data: {\"object\":\"error\",\"message\":\"bad template\",\"code\":400}\n\n";
    assert!(matches!(response(bare), Err(ProviderError::Api { message }) if message.contains("bad template")));
    let named = "event: error\ndata: {\"message\":\"overloaded\",\"type\":\"overloaded_error\"}\n\n";
    assert_eq!(response(named).map_err(wordless), Err(limited));
    assert!(matches!(response("data: {\"error\":null,\"choices\":[]}\n\n"), Err(ProviderError::Incomplete { .. })));
}

#[test]
fn usage_is_a_partition_whatever_the_service_says() {
    let usage = |report: Value| {
        let body = format!("data: {}\n\n{}", json!({"choices": [], "usage": report}), chunks(&[], "stop"));
        response(&body).unwrap().usage
    };
    assert_eq!(usage(json!({"prompt_tokens": 10, "completion_tokens": 4})), Usage::of(10, 4, 0, 0, 0));
    let all = json!({
        "prompt_tokens": 10, "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 99}, "completion_tokens_details": {"reasoning_tokens": 99},
    });
    assert_eq!(usage(all), Usage::of(0, 0, 10, 0, 4));
    let nulls = json!({"prompt_tokens": null, "completion_tokens": 4, "prompt_tokens_details": null});
    assert_eq!(usage(nulls), Usage::of(0, 4, 0, 0, 0));
    assert_eq!(usage(Value::Null), Usage::default());
}

#[test]
fn f12_an_endless_response_is_stopped() {
    let limits = Limits { frame_bytes: 1_000, content_bytes: 500, wire_bytes: 10_000 };
    let run = |piece: &[u8]| {
        let mut decoder = super::decoder(limits);
        (0..100_000).find_map(|_| decoder.feed(piece, &mut |_| {}).err()).expect("it was never stopped")
    };
    for piece in [
        &b"data: {\"choices\":[{\"delta\":{\"content\":\"xxxxxxxxxxxxxxxx\"}}]}\n\n"[..],
        b": keep-alive\n\n",
        b"data: {\"choices\":[]}\n\n",
        b"data: x",
    ] {
        let error = run(piece);
        assert!(matches!(error, ProviderError::Other { .. }), "{error:?}");
        assert!(!error.is_retryable(), "an endless response is not bought again");
    }
}

#[test]
fn what_is_no_chunk_is_named_and_retryable() {
    let error = response("data: {\"choices\":[]}\n\ndata: <html>\n\n").unwrap_err();
    assert!(
        matches!(&error, ProviderError::Incomplete { message } if message.contains("cannot be read") && message.contains("<html>"))
    );
}

#[test]
fn other_choices_and_what_follows_done_are_ignored() {
    let body = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}},\
                {\"index\":0,\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\ndata: junk\n\n";
    assert_eq!(response(body).unwrap().content, [Content::text("yes")]);
}
