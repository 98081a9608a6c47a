use playhouse_protocol::{Content, StopReason};
use serde_json::json;

use super::super::frame_writer::{frame, frames};
use super::*;
use crate::testing::{call, decode, same_at_every_split, success_at_no_cut, wordless};

macro_rules! fixture {
    ($name:literal) => {
        frames(include_str!(concat!("../../tests/fixtures/bedrock/", $name, ".jsonl")))
    };
}

fn plain() -> Box<dyn Decoder> {
    decoder(Limits::default(), None)
}

fn whole(frames: &[Vec<u8>]) -> Response {
    decode(plain(), &[&frames.concat()]).1.unwrap()
}

fn response(content: Vec<Content>, stop_reason: StopReason, usage: Usage) -> Response {
    Response { content, stop_reason, usage, model: None }
}

/// FAILURES 01 for this protocol: cut before the end of `messageStop` it is incomplete; from there on the response is
/// whole, and before the end of `metadata` of unknown cost.
fn incomplete_before_message_stop(frames: &[Vec<u8>]) {
    let bytes = frames.concat();
    let metadata = frames.last().unwrap().len();
    let complete = bytes.len() - metadata;
    let whole = whole(frames);
    for cut in 0..=bytes.len() {
        match decode(plain(), &[&bytes[..cut]]).1 {
            Ok(response) if cut == bytes.len() => assert_eq!(response, whole),
            Ok(response) => {
                assert!(cut >= complete, "cut at {cut} was taken for success");
                assert_eq!(response, Response { usage: Usage::default(), ..whole.clone() }, "cut at {cut}");
            }
            Err(error) => {
                assert!(cut < complete, "cut at {cut}, after the last word: {error}");
                assert!(matches!(error, ProviderError::Incomplete { .. }), "cut at {cut}: {error:?}");
            }
        }
    }
}

#[test]
fn text_comes_as_it_is() {
    let frames = fixture!("text");
    let (events, whole) = decode(plain(), &[&frames.concat()]);
    let delta = |delta: &str| StreamEvent::TextDelta { delta: delta.to_owned() };
    assert_eq!(events, [StreamEvent::Start, delta("Hello"), delta(", world"), delta("!")]);
    let text = vec![Content::text("Hello, world!")];
    assert_eq!(whole.unwrap(), response(text, StopReason::Stop, Usage::of(12, 5, 0, 0, 0)));
}

#[test]
fn reasoning_keeps_its_seal_and_hidden_reasoning_is_kept_whole() {
    let thinking = |thinking: &str, seal: &str| Content::Thinking {
        thinking: thinking.to_owned(),
        signature: Some(seal.to_owned()),
    };
    let content = vec![
        thinking("The user wants a sum.", "EpkCCkgIBhABGAIiQGxvbmc+c2lnbmF0dXJl/w=="),
        thinking("", "redacted:RXVZQkNrWUlCQkFC"),
        Content::text("It is 4."),
    ];
    assert_eq!(whole(&fixture!("thinking")), response(content, StopReason::Stop, Usage::of(31, 58, 0, 0, 0)));
}

#[test]
fn hidden_reasoning_in_pieces_is_joined_as_bytes() {
    let piece = |bytes: &str| {
        let hidden = STANDARD.encode(bytes);
        let payload = json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": hidden}}});
        frame("event", ":event-type", "contentBlockDelta", &payload.to_string())
    };
    let stop = frame("event", ":event-type", "messageStop", r#"{"stopReason":"end_turn"}"#);
    let response = whole(&[piece("a"), piece("bc"), stop]);
    let signature = Some(format!("redacted:{}", STANDARD.encode("abc")));
    assert_eq!(response.content, [Content::Thinking { thinking: String::new(), signature }]);
}

#[test]
fn a_call_is_put_together_and_usage_has_its_classes() {
    let frames = fixture!("tool");
    let (events, response_) = decode(plain(), &[&frames.concat()]);
    let args = |delta: &str| StreamEvent::ToolCallDelta { delta: delta.to_owned() };
    let id = "tooluse_8jr4yhCxTRiQWrDSPRZ0hg";
    assert_eq!(
        events,
        [
            StreamEvent::Start,
            StreamEvent::TextDelta { delta: "I look.".to_owned() },
            StreamEvent::ToolCallStart { id: id.into(), name: "read_file".to_owned() },
            args("{\"path"),
            args("\": \"src/"),
            args("main.rs\"}"),
        ]
    );
    let content = vec![Content::text("I look."), call(id, "read_file", json!({"path": "src/main.rs"}))];
    assert_eq!(response_.unwrap(), response(content, StopReason::ToolUse, Usage::of(412, 61, 2_048, 256, 0)));
}

#[test]
fn f10_parallel_calls_get_ids_of_their_own() {
    let content = vec![
        call("tooluse_aaa", "list_files", json!({})),
        call("tooluse_bbb", "read_file", json!({"path": "a"})),
        call("call_3_2", "read_file", json!({"path": "b"})),
        call("call_3_3", "read_file", json!({"path": "c"})),
    ];
    assert_eq!(whole(&fixture!("parallel")), response(content, StopReason::ToolUse, Usage::of(9, 44, 0, 0, 0)));
}

#[test]
fn a_refusal_says_so_and_what_was_said_stands() {
    let said = vec![Content::text("[The model declined to answer: guardrail_intervened]")];
    assert_eq!(whole(&fixture!("refusal")), response(said, StopReason::Refusal, Usage::of(20, 0, 0, 0, 0)));
    let raw = Value::String("{\"path\":".to_owned());
    let content = vec![Content::text("So far "), call("tooluse_cut", "write_file", raw)];
    assert_eq!(whole(&fixture!("filtered")), response(content, StopReason::ToolUse, Usage::of(20, 7, 0, 0, 0)));
}

#[test]
fn f09_arguments_that_were_cut_never_become_an_object() {
    let raw = Value::String("{\"path\":\"a\",\"text\":\"long and".to_owned());
    let content = vec![Content::text("Writing."), call("tooluse_w", "write_file", raw)];
    assert_eq!(whole(&fixture!("length")), response(content, StopReason::Length, Usage::of(20, 16, 0, 0, 0)));

    // Cut after every byte of its arguments, and before the first.
    let arguments = r#"{"path":"a","text":"b"}"#;
    for cut in 0..arguments.len() {
        let event = |name: &str, payload: Value| frame("event", ":event-type", name, &payload.to_string());
        let frames = [
            event(
                "contentBlockStart",
                json!({"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "w"}}}),
            ),
            event(
                "contentBlockDelta",
                json!({"contentBlockIndex": 0, "delta": {"toolUse": {"input": arguments[..cut]}}}),
            ),
            event("messageStop", json!({"stopReason": "max_tokens"})),
        ];
        let raw = Value::String(arguments[..cut].to_owned());
        assert_eq!(whole(&frames).content, [call("t", "w", raw)], "cut at {cut}");
    }
}

#[test]
fn unknown_events_are_passed_over_and_counted() {
    let mut decoder = plain();
    let bytes = fixture!("unknown").concat();
    assert_eq!(decoder.feed(&bytes, &mut |_| {}).unwrap(), Progress::Done);
    assert_eq!((decoder.unknown_events(), decoder.data_events()), (4, 9));
    let whole = decoder.finish(&Finish { response: 0, taken: &|_| false }).unwrap();
    assert_eq!(whole, response(vec![Content::text("ok")], StopReason::Stop, Usage::of(3, 1, 0, 0, 0)));
}

#[test]
fn characters_of_every_size_come_through() {
    let text = vec![Content::text("é… 🦀 😀é\n日本語")];
    assert_eq!(whole(&fixture!("non_ascii")), response(text, StopReason::Stop, Usage::of(8, 9, 0, 0, 0)));
}

fn all_fixtures() -> Vec<Vec<Vec<u8>>> {
    vec![
        fixture!("text"),
        fixture!("thinking"),
        fixture!("tool"),
        fixture!("parallel"),
        fixture!("refusal"),
        fixture!("filtered"),
        fixture!("length"),
        fixture!("unknown"),
        fixture!("non_ascii"),
    ]
}

#[test]
fn f01_only_message_stop_makes_a_response() {
    all_fixtures().iter().for_each(|frames| incomplete_before_message_stop(frames));
    success_at_no_cut(plain, &fixture!("throttled").concat());
}

#[test]
fn f03_a_response_split_at_any_byte_gives_the_same_events() {
    for frames in all_fixtures().iter().chain([&fixture!("throttled")]) {
        same_at_every_split(plain, &frames.concat());
    }
}

#[test]
fn f07_errors_in_the_stream_are_told_apart() {
    let fails = |name: &str, message: &str| {
        let mut bytes = fixture!("text")[..2].concat();
        let payload = json!({"message": message}).to_string();
        bytes.extend(frame("exception", ":exception-type", name, &payload));
        decode(plain(), &[&bytes]).1.unwrap_err()
    };
    let limited = ProviderError::RateLimited { message: String::new(), retry_after_ms: None };
    assert_eq!(decode(plain(), &[&fixture!("throttled").concat()]).1.map_err(wordless), Err(limited.clone()));
    assert_eq!(wordless(fails("serviceUnavailableException", "x")), limited);
    assert!(matches!(fails("internalServerException", "x"), ProviderError::Network { .. }));
    assert!(matches!(fails("modelTimeoutException", "x"), ProviderError::Network { .. }));
    assert!(matches!(fails("modelStreamErrorException", "x"), ProviderError::Incomplete { .. }));
    assert!(matches!(
        fails("validationException", "Input is too long for requested model."),
        ProviderError::ContextOverflow { .. }
    ));
    assert_eq!(
        fails("validationException", "no such field"),
        ProviderError::Api { message: "HTTP 400: validationException: no such field".to_owned() }
    );
    assert!(matches!(fails("validationException", ""), ProviderError::Api { .. }));
    assert!(matches!(fails("brandNewException", "x"), ProviderError::Api { .. }));
    let error = frame("error", ":error-code", "InternalFailure", "{}");
    assert!(matches!(decode(plain(), &[&error]).1, Err(ProviderError::Network { .. })));
}

#[test]
fn a_damaged_frame_is_asked_for_again_and_after_the_last_word_it_does_no_harm() {
    let mut frames = fixture!("text");
    let last = frames.last_mut().unwrap();
    *last.last_mut().unwrap() ^= 1;
    assert_eq!(whole(&frames).content, [Content::text("Hello, world!")]);
    assert_eq!(whole(&frames).usage, Usage::default());
    let mut frames = fixture!("text");
    frames[1][40] ^= 1;
    assert!(matches!(decode(plain(), &[&frames.concat()]).1, Err(ProviderError::Incomplete { .. })));
    let garbage = b"<html><body>Welcome to the hotel's network</body></html>";
    assert!(matches!(decode(plain(), &[garbage]).1, Err(ProviderError::Incomplete { .. })));
}

#[test]
fn metadata_before_the_stop_counts_too() {
    let mut frames = fixture!("text");
    let last = frames.len() - 1;
    frames.swap(last, last - 1);
    assert_eq!(whole(&frames).usage, Usage::of(12, 5, 0, 0, 0));
}

#[test]
fn f12_endless_content_is_stopped() {
    let limits = Limits { frame_bytes: 4_096, content_bytes: 2_000, wire_bytes: 100_000 };
    let endless = |limits: Limits, frame: &[u8]| {
        let mut decoder = decoder(limits, None);
        (0..10_000).find_map(|_| decoder.feed(frame, &mut |_| {}).err()).expect("it is never stopped").to_string()
    };
    let text = &fixture!("text")[1];
    assert!(endless(limits, text).contains("longer than 2000 bytes"));
    assert!(endless(limits, &fixture!("parallel")[1]).contains("longer than 2000 bytes"), "blocks cost too");
    let unknown = &fixture!("unknown")[0];
    assert!(endless(limits, unknown).contains("longer than 100000 bytes"));
    let tight = Limits { frame_bytes: text.len() - 1, ..limits };
    let refused = endless(tight, text);
    assert!(refused.contains("refused") && refused.contains("an event is longer"), "{refused}");
}

fn answering(shape: Shape, calls: &[(&str, &str)], stop: &str) -> (Vec<StreamEvent>, Response) {
    let event = |name: &str, payload: Value| frame("event", ":event-type", name, &payload.to_string());
    let mut bytes = event("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": "Here it comes."}}));
    for (index, (name, input)) in calls.iter().enumerate() {
        let index = index + 1;
        let start = json!({"toolUse": {"toolUseId": format!("t{index}"), "name": name}});
        bytes.extend(event("contentBlockStart", json!({"contentBlockIndex": index, "start": start})));
        bytes.extend(event(
            "contentBlockDelta",
            json!({"contentBlockIndex": index, "delta": {"toolUse": {"input": input}}}),
        ));
        bytes.extend(event("contentBlockStop", json!({"contentBlockIndex": index})));
    }
    bytes.extend(event("messageStop", json!({"stopReason": stop})));
    let answer = AnswerTool { name: "answer".to_owned(), shape };
    let (events, whole) = decode(decoder(Limits::default(), Some(answer)), &[&bytes]);
    (events, whole.unwrap())
}

#[test]
fn the_call_of_the_answers_tool_is_the_answer() {
    let (events, whole) = answering(Shape::Object, &[("answer", r#"{"n":4}"#)], "tool_use");
    assert_eq!(whole.content, [Content::text(r#"{"n":4}"#)]);
    assert_eq!(whole.stop_reason, StopReason::Stop);
    assert!(events.contains(&StreamEvent::TextDelta { delta: r#"{"n":4}"#.to_owned() }));
    assert!(!events.iter().any(|event| matches!(event, StreamEvent::ToolCallStart { .. })));

    let (_, whole) = answering(Shape::Wrapped, &[("answer", r#"{"value":[1,2]}"#)], "tool_use");
    assert_eq!(whole.content, [Content::text("[1,2]")]);
    let (_, whole) = answering(Shape::Object, &[("answer", "")], "tool_use");
    assert_eq!(whole.content, [Content::text("{}")]);
    let (_, whole) = answering(Shape::Object, &[("answer", r#"{"n":1}"#), ("answer", r#"{"n":2}"#)], "tool_use");
    assert_eq!(whole.content, [Content::text(r#"{"n":1}"#)]);
    let (_, whole) = answering(Shape::Object, &[("answer", r#"{"n":"#)], "max_tokens");
    assert_eq!((whole.content, whole.stop_reason), (vec![Content::text(r#"{"n":"#)], StopReason::Length));
}

#[test]
fn beside_calls_of_real_tools_the_answer_is_dropped() {
    let (_, whole) =
        answering(Shape::Object, &[("answer", r#"{"n":4}"#), ("read_file", r#"{"path":"a"}"#)], "tool_use");
    assert_eq!(whole.content, [Content::text("Here it comes."), call("t2", "read_file", json!({"path": "a"}))]);
    assert_eq!(whole.stop_reason, StopReason::ToolUse);
}
