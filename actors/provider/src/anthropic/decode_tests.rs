use playhouse_protocol::{Content, StopReason, Usage};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{call, incomplete_at_every_cut, same_at_every_split, success_at_no_cut, wordless};

const TEXT: &[u8] = include_bytes!("../../tests/fixtures/anthropic/text.sse");
const THINKING: &[u8] = include_bytes!("../../tests/fixtures/anthropic/thinking.sse");
const TOOL: &[u8] = include_bytes!("../../tests/fixtures/anthropic/tool.sse");
const PARALLEL: &[u8] = include_bytes!("../../tests/fixtures/anthropic/parallel.sse");
const REFUSAL: &[u8] = include_bytes!("../../tests/fixtures/anthropic/refusal.sse");
const REFUSAL_MIDWAY: &[u8] = include_bytes!("../../tests/fixtures/anthropic/refusal_midway.sse");
const LENGTH: &[u8] = include_bytes!("../../tests/fixtures/anthropic/length.sse");
const ERROR: &[u8] = include_bytes!("../../tests/fixtures/anthropic/error.sse");
const USAGE: &[u8] = include_bytes!("../../tests/fixtures/anthropic/usage.sse");
const UNKNOWN: &[u8] = include_bytes!("../../tests/fixtures/anthropic/unknown.sse");
/// With CRLF at the ends of its lines.
const UNICODE: &[u8] = include_bytes!("../../tests/fixtures/anthropic/unicode.sse");

const WHOLE: [&[u8]; 9] = [TEXT, THINKING, TOOL, PARALLEL, REFUSAL, REFUSAL_MIDWAY, LENGTH, USAGE, UNKNOWN];
const SONNET: &str = "claude-sonnet-4-5-20250929";

fn make() -> Box<dyn Decoder> {
    decoder(None, Limits::default())
}

fn decode(body: &[u8]) -> (Vec<StreamEvent>, Result<Response, ProviderError>) {
    crate::testing::decode(make(), &[body])
}

fn response(body: &[u8]) -> Response {
    decode(body).1.unwrap()
}

fn of(content: Vec<Content>, stop_reason: StopReason, usage: Usage, model: &str) -> Response {
    Response { content, stop_reason, usage, model: Some(model.to_owned()) }
}

fn thinking(text: &str, signature: &str) -> Content {
    Content::Thinking { thinking: text.to_owned(), signature: Some(signature.to_owned()) }
}

fn event(kind: &str, mut fields: Value) -> String {
    fields["type"] = json!(kind);
    format!("event: {kind}\ndata: {fields}\n\n")
}

fn start(index: u64, block: Value) -> String {
    event("content_block_start", json!({"index": index, "content_block": block}))
}

fn piece(index: u64, delta: Value) -> String {
    event("content_block_delta", json!({"index": index, "delta": delta}))
}

fn text(index: u64, text: &str) -> String {
    start(index, json!({"type": "text", "text": ""})) + &piece(index, json!({"type": "text_delta", "text": text}))
}

fn tool_use(index: u64, id: &str, name: &str, arguments: &str) -> String {
    start(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
        + &piece(index, json!({"type": "input_json_delta", "partial_json": arguments}))
        + &event("content_block_stop", json!({"index": index}))
}

/// A response of these blocks, ended by `reason`.
fn message(blocks: &str, reason: &str) -> String {
    let opening = event("message_start", json!({"message": {"model": SONNET, "usage": {"input_tokens": 1}}}));
    let ending = json!({"delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 2}});
    opening + blocks + &event("message_delta", ending) + &event("message_stop", json!({}))
}

#[test]
fn a_response_of_text_is_read_whole() {
    let (events, whole) = decode(TEXT);
    let said = "Hello! How can I help you today?";
    assert_eq!(whole, Ok(of(vec![Content::text(said)], StopReason::Stop, Usage::of(25, 12, 0, 0, 0), SONNET)));
    let delta = |delta: &str| StreamEvent::TextDelta { delta: delta.to_owned() };
    assert_eq!(events, [StreamEvent::Start, delta("Hello"), delta("! How can I help"), delta(" you today?")]);
}

#[test]
fn reasoning_keeps_its_seals_and_what_is_not_shown_its_data() {
    let Response { content, stop_reason, usage, .. } = response(THINKING);
    let [Content::Thinking { thinking, signature: Some(seal) }, redacted, answer] = &content[..] else {
        panic!("{content:?}")
    };
    assert_eq!(thinking, "27 * 453: let me split it.\n27 * 400 = 10,800; 27 * 53 = 1,431.");
    assert!(seal.starts_with("EqoBCkgIARAB") && seal.ends_with("qmFqKTo="));
    match redacted {
        Content::Thinking { thinking, signature: Some(seal) } => {
            assert_eq!(thinking, "");
            assert!(seal.starts_with("redacted:EmwKAhgB") && seal.ends_with("rr6EzkT"), "{seal}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(answer, &Content::text("27 * 453 = 12,231"));
    assert_eq!((stop_reason, usage), (StopReason::Stop, Usage::of(57, 89, 0, 0, 0)));
}

#[test]
fn a_call_in_many_pieces_is_one_call() {
    let (events, whole) = decode(TOOL);
    let arguments = json!({"location": "San Francisco, CA", "unit": "fahrenheit"});
    let content = vec![
        Content::text("Okay, let me check the weather."),
        call("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "get_weather", arguments),
    ];
    assert_eq!(whole, Ok(of(content, StopReason::ToolUse, Usage::of(472, 89, 0, 0, 0), SONNET)));
    assert_eq!(events.iter().filter(|event| matches!(event, StreamEvent::ToolCallDelta { .. })).count(), 6);
    let started =
        StreamEvent::ToolCallStart { id: "toolu_01T1x1fJ34qAmk2tNTrN7Up6".into(), name: "get_weather".to_owned() };
    assert!(events.contains(&started));
}

#[test]
fn parallel_calls_stay_apart_and_no_pieces_mean_no_arguments() {
    let content = vec![
        Content::text("Both at once."),
        call("toolu_01A09q90qw90lq917835lq9a", "read_file", json!({"path": "a/b.txt"})),
        call("toolu_01B19r01rx01mr028946mr0b", "list_files", json!({})),
        call("toolu_01C29s12sy12ns139057ns1c", "read_file", json!({"path": "c.txt", "lines": [1, 20]})),
    ];
    assert_eq!(response(PARALLEL), of(content, StopReason::ToolUse, Usage::of(640, 144, 0, 0, 0), SONNET));
}

#[test]
fn pieces_of_blocks_that_grow_at_once_go_where_they_belong() {
    let json_piece = |index, json: &str| piece(index, json!({"type": "input_json_delta", "partial_json": json}));
    let open = |index, id: &str| start(index, json!({"type": "tool_use", "id": id, "name": "t", "input": {}}));
    let blocks =
        open(1, "a") + &open(7, "b") + &json_piece(1, "{\"n\"") + &json_piece(7, "{\"n\"") + &json_piece(1, ":1}");
    let blocks = blocks + &text(2, "between") + &json_piece(7, ":7}");
    assert_eq!(
        response(message(&blocks, "tool_use").as_bytes()).content,
        [call("a", "t", json!({"n": 1})), call("b", "t", json!({"n": 7})), Content::text("between")]
    );
    // Pieces of another kind than their block, or of none, are not its pieces.
    let astray = text(0, "said") + &json_piece(0, "{}") + &piece(9, json!({"type": "text_delta", "text": "lost"}));
    assert_eq!(response(message(&astray, "end_turn").as_bytes()).content, [Content::text("said")]);
}

#[test]
fn a_refusal_without_words_says_so_and_one_with_words_lets_them_stand() {
    let (events, whole) = decode(REFUSAL);
    let declined = "[The model declined to answer: refusal, cyber]";
    let content = vec![thinking("", "EuYBCkQYBCKAQNmQ1r0e5y8vZJ5q3d9xK2u7="), Content::text(declined)];
    assert_eq!(whole, Ok(of(content, StopReason::Refusal, Usage::of(31, 4, 0, 0, 0), "claude-opus-5-20260724")));
    assert_eq!(events.last(), Some(&StreamEvent::TextDelta { delta: declined.to_owned() }));

    let unfinished = call("toolu_01Ref3t4Ab5Cd6Ef7Gh8Ij9K", "bash", json!("{\"command\": \"cur"));
    let content = vec![Content::text("I can start with"), unfinished];
    assert_eq!(response(REFUSAL_MIDWAY), of(content, StopReason::ToolUse, Usage::of(25, 20, 0, 0, 0), SONNET));

    let nothing = response(message("", "refusal").as_bytes());
    assert_eq!(nothing.content, [Content::text("[The model declined to answer: refusal]")]);
}

#[test]
fn f09_a_call_that_the_limit_cuts_is_never_an_object() {
    let cut = call(
        "toolu_01Len6h7Ij8Kl9Mn0Op1Qr2S",
        "write_file",
        json!("{\"path\": \"a.txt\", \"content\": \"once upon a ti"),
    );
    let content = vec![Content::text("I write the file."), cut];
    assert_eq!(response(LENGTH), of(content, StopReason::Length, Usage::of(2_100, 8_192, 0, 0, 0), SONNET));
}

#[test]
fn f09_truncated_arguments_never_become_an_object() {
    let full = r#"{"command":"rm -rf build","deep":{"é":[1,{"a":"}"}]}}"#;
    for cut in (0..=full.len()).filter(|cut| full.is_char_boundary(*cut)) {
        for reason in ["tool_use", "end_turn", "max_tokens", "model_context_window_exceeded", "refusal"] {
            let whole = response(message(&tool_use(0, "c", "bash", &full[..cut]), reason).as_bytes());
            let expected = match cut {
                cut if cut == full.len() => serde_json::from_str(full).unwrap(),
                0 if matches!(reason, "tool_use" | "end_turn") => json!({}),
                cut => Value::String(full[..cut].to_owned()),
            };
            assert_eq!(whole.content, [call("c", "bash", expected)], "cut at {cut}, {reason}");
        }
    }
}

#[test]
fn usage_has_its_classes() {
    let content = vec![thinking("Short.", "ErUBCkYIBxgCIkDp0sQ5m1bqvT2y9Xn8="), Content::text("Done.")];
    assert_eq!(response(USAGE), of(content, StopReason::Stop, Usage::of(12, 82, 18_044, 248, 421), "claude-opus-4-6"));
    let with = |first: Value, last: Value| {
        let body = event("message_start", json!({"message": {"usage": first}}))
            + &event("message_delta", json!({"delta": {"stop_reason": "end_turn"}, "usage": last}))
            + &event("message_stop", json!({}));
        response(body.as_bytes()).usage
    };
    assert_eq!(
        with(json!({"input_tokens": 9, "output_tokens": 1}), json!({"output_tokens": 5})),
        Usage::of(9, 5, 0, 0, 0)
    );
    let zeros = json!({"input_tokens": 0, "output_tokens": 5, "cache_read_input_tokens": null});
    assert_eq!(with(json!({"input_tokens": 9, "cache_read_input_tokens": 3}), zeros), Usage::of(9, 5, 3, 0, 0));
    let much = json!({"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 99}});
    assert_eq!(with(json!({}), much), Usage::of(0, 0, 0, 0, 5), "a detail is cut to its whole");
    assert_eq!(with(Value::Null, Value::Null), Usage::default());
}

#[test]
fn what_is_not_known_is_passed_over_and_counted_and_pings_are_no_data() {
    let content = vec![Content::text("It is sunny.")];
    assert_eq!(response(UNKNOWN), of(content, StopReason::Stop, Usage::of(25, 40, 0, 0, 0), SONNET));
    let mut decoder = make();
    decoder.feed(UNKNOWN, &mut |_| {}).unwrap();
    // One of them before the message, two blocks, two pieces, one after.
    assert_eq!(decoder.unknown_events(), 6);
    let events = UNKNOWN.windows(7).filter(|window| *window == b"event: ").count() as u64;
    let pings = UNKNOWN.windows(11).filter(|window| *window == b"event: ping").count() as u64;
    assert_eq!((decoder.data_events(), pings), (events - pings, 3));
    let (events, _) = crate::testing::decode(make(), &[b"event: ping\ndata: {\"type\":\"ping\"}\n\n"]);
    assert_eq!(events, [], "a ping begins nothing");
}

#[test]
fn text_of_any_script_is_read_whole() {
    let content = vec![
        Content::text("Grüße, مرحبا 😀 é😀 \"quoted\" \\ \t\n"),
        call("toolu_01Uni5c6Od7Ex8Yz9Ab0Cd1E", "write_file", json!({"path": "café/ü.txt", "content": "é😀🦀"})),
    ];
    assert_eq!(response(UNICODE), of(content, StopReason::ToolUse, Usage::of(25, 61, 0, 0, 0), SONNET));
}

#[test]
fn f01_a_response_cut_at_any_byte_is_incomplete() {
    for fixture in WHOLE {
        incomplete_at_every_cut(make, fixture, fixture.len());
    }
    // The CR of the last blank line already ends the event.
    incomplete_at_every_cut(make, UNICODE, UNICODE.len() - 1);
    success_at_no_cut(make, ERROR);
}

#[test]
fn f01_only_message_stop_after_a_stop_reason_completes() {
    let incomplete = |body: &str| match decode(body.as_bytes()).1 {
        Err(ProviderError::Incomplete { message }) => message,
        other => panic!("{other:?}"),
    };
    let stop = event("message_stop", json!({}));
    assert!(incomplete(&(text(0, "a") + &stop)).contains("without a stop reason"));
    let reason = event("message_delta", json!({"delta": {"stop_reason": "end_turn"}}));
    assert!(incomplete(&(text(0, "a") + &reason)).contains("before `message_stop`"));
    let none = event("message_delta", json!({"delta": {"stop_reason": null}}));
    assert!(incomplete(&(text(0, "a") + &none + &stop)).contains("without a stop reason"));
    assert!(incomplete("").contains("before the response was finished"));
    assert!(incomplete("data: {\"type\":\"content_block_del\n\n").contains("cannot be read"));
}

#[test]
fn f03_a_response_split_at_any_byte_gives_the_same_events() {
    for fixture in WHOLE.into_iter().chain([UNICODE, ERROR]) {
        same_at_every_split(make, fixture);
    }
}

#[test]
fn f07_errors_inside_the_stream_are_classified() {
    let (events, result) = decode(ERROR);
    assert_eq!(
        result.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: None })
    );
    assert_eq!(events.len(), 2, "what came before is told: {events:?}");
    let error = |error: Value| decode(event("error", json!({"error": error})).as_bytes()).1.unwrap_err();
    assert!(matches!(error(json!({"type": "api_error", "message": "Internal"})), ProviderError::Network { .. }));
    assert!(matches!(error(json!({"type": "authentication_error"})), ProviderError::Auth { .. }));
    let long = json!({"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"});
    assert!(matches!(error(long), ProviderError::ContextOverflow { .. }));
    let unnamed = "data: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\"}}\n\n";
    assert_eq!(
        decode(unnamed.as_bytes()).1.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: None })
    );
    let words = decode(b"event: error\ndata: upstream overloaded_error\n\n").1;
    assert_eq!(
        words.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: None })
    );
}

#[test]
fn stop_reasons_are_mapped() {
    let stop = |blocks: &str, reason: &str| response(message(blocks, reason).as_bytes()).stop_reason;
    for (reason, without, with) in [
        ("end_turn", StopReason::Stop, StopReason::ToolUse),
        ("stop_sequence", StopReason::Stop, StopReason::ToolUse),
        ("tool_use", StopReason::Stop, StopReason::ToolUse),
        ("a_reason_of_the_future", StopReason::Stop, StopReason::ToolUse),
        ("refusal", StopReason::Refusal, StopReason::ToolUse),
        ("max_tokens", StopReason::Length, StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length, StopReason::Length),
    ] {
        let called = tool_use(0, "c", "t", "{}");
        assert_eq!((stop(&text(0, "a"), reason), stop(&called, reason)), (without, with), "{reason}");
    }
}

#[test]
fn a_turn_that_the_service_paused_is_asked_for_again() {
    let (_, paused) = decode(message(&text(0, "a"), "pause_turn").as_bytes());
    assert!(matches!(&paused, Err(error @ ProviderError::Incomplete { .. }) if error.is_retryable()), "{paused:?}");
}

#[test]
fn arguments_that_come_whole_are_taken_once() {
    let given = start(0, json!({"type": "tool_use", "id": "c", "name": "t", "input": {"n": 1}}));
    let twice = given.clone() + &piece(0, json!({"type": "input_json_delta", "partial_json": "{\"n\":1}"}));
    for blocks in [given, twice] {
        assert_eq!(response(message(&blocks, "tool_use").as_bytes()).content, [call("c", "t", json!({"n": 1}))]);
    }
}

#[test]
fn an_answer_in_a_form_is_text_and_no_call() {
    let answer = |blocks: &str, reason: &str| {
        let decoder = decoder(Some("answer".to_owned()), Limits::default());
        let (events, whole) = crate::testing::decode(decoder, &[message(blocks, reason).as_bytes()]);
        let whole = whole.unwrap();
        (whole.content, whole.stop_reason, events)
    };
    let reasoning = start(0, json!({"type": "thinking", "thinking": "Hm.", "signature": "c2VhbA=="}));
    let asked = text(1, "Here it is:") + &tool_use(2, "a", "answer", "{\"n\": 7}");
    let (content, stop_reason, events) = answer(&(reasoning + &asked), "tool_use");
    assert_eq!(content, [thinking("Hm.", "c2VhbA=="), Content::text("{\"n\": 7}")]);
    assert_eq!(stop_reason, StopReason::Stop);
    assert_eq!(events.last(), Some(&StreamEvent::TextDelta { delta: "{\"n\": 7}".to_owned() }));
    assert!(!events.iter().any(|event| matches!(event, StreamEvent::ToolCallStart { .. })));

    let beside = text(0, "First I look.") + &tool_use(1, "a", "answer", "{}") + &tool_use(2, "b", "look", "{}");
    let (content, stop_reason, _) = answer(&beside, "tool_use");
    assert_eq!(content, [Content::text("First I look."), call("b", "look", json!({}))]);
    assert_eq!(stop_reason, StopReason::ToolUse);

    let (content, _, _) = answer(&tool_use(0, "a", "answer", ""), "tool_use");
    assert_eq!(content, [Content::text("{}")]);
    let (content, _, _) =
        answer(&(tool_use(0, "a", "answer", "{\"n\":1}") + &tool_use(1, "b", "answer", "{\"n\":2}")), "tool_use");
    assert_eq!(content, [Content::text("{\"n\":2}")]);
    let (content, stop_reason, _) = answer(&tool_use(0, "a", "answer", "{\"n\":"), "max_tokens");
    assert_eq!((content, stop_reason), (vec![Content::text("{\"n\":")], StopReason::Length));
    let (content, _, _) = answer(&text(0, "in words"), "end_turn");
    assert_eq!(content, [Content::text("in words")]);
}

#[test]
fn f12_an_endless_response_is_stopped() {
    let limits = Limits { frame_bytes: 1_000, content_bytes: 5_000, wire_bytes: 100_000 };
    let run = |opening: &str, piece: &str| {
        let mut decoder = decoder(None, limits);
        decoder.feed(opening.as_bytes(), &mut |_| {}).unwrap();
        (0..100_000).find_map(|_| decoder.feed(piece.as_bytes(), &mut |_| {}).err()).expect("it was never stopped")
    };
    let reasoning = start(0, json!({"type": "thinking", "thinking": "", "signature": ""}));
    for (opening, piece) in [
        (text(0, ""), piece(0, json!({"type": "text_delta", "text": "more and more "}))),
        (reasoning.clone(), piece(0, json!({"type": "thinking_delta", "thinking": "and so on "}))),
        (reasoning, piece(0, json!({"type": "signature_delta", "signature": "c2VhbA=="}))),
        (tool_use(0, "c", "t", ""), start(0, json!({"type": "tool_use", "id": "", "name": "", "input": {}}))),
        (String::new(), text(0, "")),
        (String::new(), event("ping", json!({}))),
        (String::new(), event("content_block_start", json!({"content_block": {"type": "of the future"}}))),
        (String::new(), ": keep-alive\n\n".to_owned()),
        (String::new(), "data: x".to_owned()),
    ] {
        let error = run(&opening, &piece);
        assert!(matches!(error, ProviderError::Other { .. }), "{piece}: {error:?}");
    }
}

proptest! {
    #[test]
    fn f10_every_call_has_an_id_of_its_own(
        ids in proptest::collection::vec(prop_oneof!["", "a", "b", " ", "call_3_0", "call_3_1", "call_3_1x"], 1..6)
    ) {
        let blocks: String = ids.iter().enumerate().map(|(at, id)| tool_use(at as u64, id, "t", "{}")).collect();
        let mut decoder = make();
        decoder.feed(message(&blocks, "tool_use").as_bytes(), &mut |_| {}).unwrap();
        let whole = decoder.finish(&Finish { response: 3, taken: &|id| id == "b" }).unwrap();
        let mut got: Vec<String> = whole.content.iter().map(|block| match block {
            Content::ToolCall { id, .. } => id.to_string(),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert!(got.iter().all(|id| !id.trim().is_empty() && id != "b"));
        got.sort();
        got.dedup();
        prop_assert_eq!(got.len(), ids.len());
    }

    #[test]
    fn f03_a_response_split_anywhere_gives_the_same_events(sizes in proptest::collection::vec(1_usize..200, 1..80)) {
        for fixture in [UNICODE, PARALLEL, THINKING] {
            let mut rest = fixture;
            let mut pieces = Vec::new();
            for size in &sizes {
                let (piece, tail) = rest.split_at((*size).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            prop_assert_eq!(crate::testing::decode(make(), &pieces), decode(fixture));
        }
    }
}
