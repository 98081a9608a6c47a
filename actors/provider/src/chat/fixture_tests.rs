//! Responses as the services' documentation shows them, whole, split and cut.

use super::*;
use crate::testing::{call, decode, incomplete_at_every_cut, same_at_every_split, success_at_no_cut, wordless};
use serde_json::json;

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/fixtures/chat/", $name, ".sse"))
    };
}

const TEXT: &[u8] = fixture!("text");
const CALL: &[u8] = fixture!("call");
const PARALLEL: &[u8] = fixture!("parallel");
const REFUSAL: &[u8] = fixture!("refusal");
const FILTERED: &[u8] = fixture!("filtered");
const LENGTH: &[u8] = fixture!("length");
const REASONING_CONTENT: &[u8] = fixture!("reasoning_content");
const REASONING: &[u8] = fixture!("reasoning");
const REASONING_DETAILS: &[u8] = fixture!("reasoning_details");
const ERROR: &[u8] = fixture!("error");
const UNKNOWN: &[u8] = fixture!("unknown");
const ANSWER: &[u8] = fixture!("answer");
const PARTS: &[u8] = fixture!("parts");

fn read_as(reading: &Reading) -> Box<dyn Decoder> {
    reader(Limits::default(), reading.clone())
}

fn openai() -> Reading {
    Reading::default()
}

fn gpt_oss() -> Reading {
    Reading { reasoning: ReasoningField::Reasoning, names: ToolNames::CutAtMark, answer: None }
}

fn openrouter() -> Reading {
    Reading { reasoning: ReasoningField::ReasoningDetails, ..openai() }
}

fn forced() -> Reading {
    Reading { answer: Some("answer".to_owned()), ..openai() }
}

/// Every fixture that is a whole response, and how it is read.
fn whole_ones() -> Vec<(&'static [u8], Reading)> {
    vec![
        (TEXT, openai()),
        (CALL, openai()),
        (PARALLEL, openai()),
        (REFUSAL, openai()),
        (FILTERED, openai()),
        (LENGTH, openai()),
        (REASONING_CONTENT, openai()),
        (REASONING, gpt_oss()),
        (REASONING_DETAILS, openrouter()),
        (UNKNOWN, openai()),
        (ANSWER, forced()),
        (PARTS, openai()),
    ]
}

fn response(fixture: &[u8], reading: &Reading) -> Response {
    decode(read_as(reading), &[fixture]).1.unwrap()
}

fn events(fixture: &[u8], reading: &Reading) -> Vec<StreamEvent> {
    decode(read_as(reading), &[fixture]).0
}

fn thinking(thinking: &str) -> Content {
    Content::Thinking { thinking: thinking.into(), signature: None }
}

fn said(text: &str) -> StreamEvent {
    StreamEvent::TextDelta { delta: text.into() }
}

fn began(id: &str, name: &str) -> StreamEvent {
    StreamEvent::ToolCallStart { id: id.into(), name: name.into() }
}

fn argued(delta: &str) -> StreamEvent {
    StreamEvent::ToolCallDelta { delta: delta.into() }
}

fn thought(delta: &str) -> StreamEvent {
    StreamEvent::ThinkingDelta { delta: delta.into() }
}

#[test]
fn f01_every_fixture_is_incomplete_wherever_it_is_cut() {
    for (fixture, reading) in whole_ones() {
        // The CR of the blank line after `[DONE]` already ends the event.
        let complete = if fixture.ends_with(b"\r\n") { fixture.len() - 1 } else { fixture.len() };
        incomplete_at_every_cut(|| read_as(&reading), fixture, complete);
    }
    success_at_no_cut(|| read_as(&openai()), ERROR);
}

#[test]
fn f03_every_fixture_is_the_same_wherever_it_is_split() {
    for (fixture, reading) in whole_ones() {
        same_at_every_split(|| read_as(&reading), fixture);
    }
    same_at_every_split(|| read_as(&openai()), ERROR);
}

#[test]
fn text_of_any_script_and_the_five_classes_of_usage() {
    let text = "Grüße, Zoë 👩‍🚀! é 😀 𝄞\n\t\"end\"\\";
    assert_eq!(
        response(TEXT, &openai()),
        Response {
            content: vec![Content::text(text)],
            stop_reason: StopReason::Stop,
            usage: Usage::of(93, 54, 1024, 0, 192),
            model: Some("gpt-5-2026-01-15".into()),
        }
    );
    assert_eq!(
        events(TEXT, &openai()),
        [StreamEvent::Start, said("Grüße, "), said("Zoë 👩‍🚀! "), said("é 😀 𝄞"), said("\n\t\"end\"\\")]
    );
}

#[test]
fn a_call_whose_arguments_come_in_pieces() {
    let id = "call_DdmO9pD3xa9XTPNJ32zg2hcA";
    assert_eq!(
        response(CALL, &openai()),
        Response {
            content: vec![call(id, "read_file", json!({"path": "naïve 😀.txt"}))],
            stop_reason: StopReason::ToolUse,
            usage: Usage::of(82, 17, 0, 0, 0),
            model: Some("gpt-5-2026-01-15".into()),
        }
    );
    let pieces = ["{\"", "path", "\":\"", "naïve ", "\\uD83D\\uDE00.txt", "\"}"];
    let mut expected = vec![StreamEvent::Start, began(id, "read_file")];
    expected.extend(pieces.map(argued));
    assert_eq!(events(CALL, &openai()), expected);
}

#[test]
fn parallel_calls_whose_pieces_are_mixed() {
    assert_eq!(
        response(PARALLEL, &openai()),
        Response {
            content: vec![
                Content::text("Both at once."),
                call("call_h9nO1xQzvB2u7kTeRsLwYc3D", "read_file", json!({"path": "a.txt"})),
                call("call_J0mVb5yPq8aXfEdGiUoKz6tN", "bash", json!({"command": "ls"})),
                call("call_W3sLr1cHj7vNgMpBxQeTz4uA", "now", json!({})),
            ],
            stop_reason: StopReason::ToolUse,
            usage: Usage::of(90, 51, 0, 0, 0),
            model: Some("gpt-5-2026-01-15".into()),
        }
    );
}

#[test]
fn a_refusal_is_text_and_a_filter_that_leaves_nothing_says_so() {
    assert_eq!(
        response(REFUSAL, &openai()),
        Response {
            content: vec![Content::text("I’m sorry, I can’t help with that.")],
            stop_reason: StopReason::Refusal,
            usage: Usage::of(40, 11, 0, 0, 0),
            model: Some("gpt-5-2026-01-15".into()),
        }
    );
    assert_eq!(
        response(FILTERED, &openai()),
        Response {
            content: vec![Content::text("[The model declined to answer: content_filter]")],
            stop_reason: StopReason::Refusal,
            usage: Usage::of(55, 1, 0, 0, 0),
            model: Some("gpt-4.1-2025-04-14".into()),
        }
    );
}

#[test]
fn f09_a_call_at_which_the_output_ended_keeps_its_raw_arguments() {
    assert_eq!(
        response(LENGTH, &openai()),
        Response {
            content: vec![
                Content::text("I write it."),
                call("call_aaaaaaaaaaaaaaaaaaaaaaa1", "now", json!({})),
                call("call_aaaaaaaaaaaaaaaaaaaaaaa2", "write_file", json!("{\"path\":\"a\",\"content\":\"half")),
            ],
            stop_reason: StopReason::Length,
            usage: Usage::of(70, 64, 0, 0, 0),
            model: Some("gpt-5-2026-01-15".into()),
        }
    );
}

#[test]
fn reasoning_is_read_by_each_of_its_names_whatever_is_expected() {
    let deepseek = Response {
        content: vec![
            thinking("Zuerst überlegen \"wir\"."),
            Content::text("Ich lese."),
            call("call_00_9nLfpIQ6VO1JCaEsJcU8WZnS", "read_file", json!({"path": "a.txt"})),
        ],
        stop_reason: StopReason::ToolUse,
        usage: Usage::of(18, 42, 320, 0, 40),
        model: Some("deepseek-chat".into()),
    };
    for reading in [openai(), gpt_oss(), openrouter()] {
        assert_eq!(response(REASONING_CONTENT, &reading), deepseek, "{reading:?}");
    }
    for reading in [openai(), gpt_oss(), openrouter()] {
        let whole = response(REASONING, &reading);
        assert_eq!(whole.content[0], thinking("We call it."), "{reading:?}");
        assert_eq!(whole.usage, Usage::of(137, 40, 0, 0, 8), "where Groq puts it");
    }
    let both = b"data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"\",\"reasoning\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n\
                 data: [DONE]\n\n";
    for reading in [openai(), gpt_oss(), openrouter()] {
        assert_eq!(response(both, &reading).content, [thinking("b")], "{reading:?}");
    }
    assert_eq!(
        response(PARTS, &openai()),
        Response {
            content: vec![thinking("Hm, ja."), Content::text("Voilà tout.")],
            stop_reason: StopReason::Stop,
            usage: Usage::of(9, 20, 0, 0, 0),
            model: Some("magistral-medium-2509".into()),
        }
    );
}

#[test]
fn sealed_reasoning_is_kept_as_the_service_wants_it_back() {
    let whole = response(REASONING_DETAILS, &openrouter());
    let Content::Thinking { signature: Some(seal), .. } = &whole.content[0] else { panic!("{whole:?}") };
    let blocks: Value = serde_json::from_str(seal).unwrap();
    let format = "anthropic-claude-v1";
    assert_eq!(
        blocks,
        json!([
            {"type": "reasoning.text", "text": "I should read “a”.", "signature": "ErUBCkYIBRgCIkD0s3Jr+Qp==",
                "format": format, "index": 0},
            {"type": "reasoning.encrypted", "data": "EmwKAhgB", "id": "redacted_1", "format": format, "index": 1},
        ])
    );
    assert_eq!(
        whole,
        Response {
            content: vec![
                Content::Thinking { thinking: "I should read “a”.".into(), signature: Some(seal.clone()) },
                Content::text("Let me see."),
                call("toolu_01A09q90qw90lq917835lq9", "read_file", json!({"path": "a"})),
            ],
            stop_reason: StopReason::ToolUse,
            usage: Usage::of(40, 90, 1500, 400, 30),
            model: Some("anthropic/claude-sonnet-4.5".into()),
        }
    );
    assert_eq!(
        events(REASONING_DETAILS, &openrouter())[..4],
        [StreamEvent::Start, thought("I should "), thought("read “a”."), said("Let me see.")]
    );
    // Unasked for, the blocks are left alone.
    assert_eq!(response(REASONING_DETAILS, &openai()).content[0], thinking("I should read “a”."));
}

#[test]
fn reasoning_that_comes_in_blocks_alone_is_shown_as_well() {
    let body = "data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.summary\",\"summary\":\"Hm\"}]}}]}\n\n\
                data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let seal = r#"[{"summary":"Hm","type":"reasoning.summary"}]"#.to_owned();
    assert_eq!(
        response(body.as_bytes(), &openrouter()).content,
        [Content::Thinking { thinking: "Hm".into(), signature: Some(seal) }, Content::text("ok")]
    );
}

#[test]
fn a_name_is_cut_at_the_models_own_mark() {
    let id = "fc_0d1e6f1f-4b7f-4c1e-8e44-6a1c0f9f4e53";
    let arguments = json!({"path": "a.txt"});
    assert_eq!(response(REASONING, &gpt_oss()).content[1], call(id, "read_file", arguments.clone()));
    assert!(events(REASONING, &gpt_oss()).contains(&began(id, "read_file")));
    let as_it_came = "read_file<|channel|>commentary";
    assert_eq!(response(REASONING, &openai()).content[1], call(id, as_it_came, arguments));
}

#[test]
fn f07_an_error_after_half_an_answer_is_what_it_says() {
    let (events, whole) = decode(read_as(&openai()), &[ERROR]);
    assert_eq!(events, [StreamEvent::Start, said("Half an ans")]);
    assert!(matches!(&whole, Err(ProviderError::Network { message }) if message.contains("Provider disconnected")));
}

#[test]
fn f07_errors_are_found_wherever_services_put_them() {
    let kind = |data: &str| decode(read_as(&openai()), &[format!("data: {data}\n\n").as_bytes()]).1.unwrap_err();
    let limited = ProviderError::RateLimited { message: String::new(), retry_after_ms: None };
    assert_eq!(wordless(kind(r#"{"type":"error","code":429,"message":"slow"}"#)), limited);
    assert_eq!(wordless(kind(r#"{"code":"429","message":"slow","request_id":"r"}"#)), limited);
    assert_eq!(wordless(kind(r#"{"choices":[{"error":{"code":429,"message":"slow"}}]}"#)), limited);
    assert_eq!(wordless(kind(r#"{"choices":[],"x_groq":{"id":"r","error":"too_many_requests"}}"#)), limited);
    assert!(
        matches!(kind(r#"{"detail":"no such model"}"#), ProviderError::Api { message } if message.contains("model"))
    );
    let minimax = |code: u32| {
        kind(&format!(r#"{{"choices":null,"usage":null,"base_resp":{{"status_code":{code},"status_msg":"m"}}}}"#))
    };
    assert_eq!(wordless(minimax(1002)), limited);
    assert!(matches!(minimax(1004), ProviderError::Auth { .. }));
    assert!(matches!(minimax(1013), ProviderError::Network { .. }));
    assert!(matches!(minimax(1008), ProviderError::Api { message } if message.contains("m (1008)")));
    let finish = |reason: &str| kind(&format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#));
    assert_eq!(wordless(finish("insufficient_system_resource")), limited);
    assert!(matches!(finish("model_context_window_exceeded"), ProviderError::ContextOverflow { .. }));
    assert!(
        matches!(finish("network_error"), ProviderError::Incomplete { message } if message.contains("network_error"))
    );
}

#[test]
fn what_is_of_another_kind_is_passed_over_and_counted() {
    let mut decoder = read_as(&openai());
    let mut events = Vec::new();
    let pings = &UNKNOWN[..UNKNOWN.windows(6).position(|window| window == b"chatcm").unwrap() - 12];
    decoder.feed(pings, &mut |event| events.push(event)).unwrap();
    assert_eq!((events.len(), decoder.data_events(), decoder.unknown_events()), (0, 1, 1), "a named ping is no data");
    decoder.feed(&UNKNOWN[pings.len()..], &mut |event| events.push(event)).unwrap();
    assert_eq!((decoder.data_events(), decoder.unknown_events()), (10, 4));
    assert_eq!(events, [StreamEvent::Start, said("Hel"), said("lo")]);
    assert_eq!(
        response(UNKNOWN, &openai()),
        Response {
            content: vec![Content::text("Hello")],
            stop_reason: StopReason::Stop,
            usage: Usage::of(5, 2, 0, 0, 0),
            model: Some("gpt-5-2026-01-15".into()),
        }
    );
}

#[test]
fn an_answer_by_a_tool_is_text() {
    assert_eq!(
        response(ANSWER, &forced()),
        Response {
            content: vec![Content::text("{\"n\": 42}")],
            stop_reason: StopReason::Stop,
            usage: Usage::of(60, 12, 0, 0, 0),
            model: Some("gpt-5-2026-01-15".into()),
        }
    );
    assert_eq!(
        events(ANSWER, &forced()),
        [StreamEvent::Start, said("Here it is."), said("{\"n\""), said(": 42}")],
        "no call is begun"
    );
    assert_eq!(response(ANSWER, &openai()).stop_reason, StopReason::ToolUse, "unasked for, it is a call");
}

#[test]
fn an_answer_beside_calls_is_dropped_and_one_cut_short_stays_as_it_is() {
    let wire = |calls: &[(&str, &str)], finish: &str| {
        let calls: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(n, (name, arguments))| {
                json!({"index": n, "id": format!("c{n}"), "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        let chunk = json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": finish}]});
        response(format!("data: {chunk}\n\ndata: [DONE]\n\n").as_bytes(), &forced())
    };
    let both = wire(&[("answer", "{\"n\":1}"), ("now", "{}")], "tool_calls");
    assert_eq!((both.content, both.stop_reason), (vec![call("c1", "now", json!({}))], StopReason::ToolUse));
    let cut = wire(&[("answer", "{\"n\":")], "length");
    assert_eq!((cut.content, cut.stop_reason), (vec![Content::text("{\"n\":")], StopReason::Length));
    let twice = wire(&[("answer", "{\"n\":1}"), ("answer", "{\"n\":2}")], "stop");
    assert_eq!((twice.content, twice.stop_reason), (vec![Content::text("{\"n\":1}")], StopReason::Stop));
    assert_eq!(wire(&[("answer", "")], "tool_calls").content, [Content::text("{}")]);
    assert_eq!(wire(&[("answer", "")], "length").content, []);
}

#[test]
fn f12_blocks_of_reasoning_without_end_are_stopped() {
    let limits = Limits { content_bytes: 100_000, ..Limits::default() };
    let mut decoder = reader(limits, openrouter());
    let stopped = (0..10_000).find_map(|n| {
        let block = json!({"choices": [{"delta": {"reasoning_details": [{"index": n}]}}]});
        decoder.feed(format!("data: {block}\n\n").as_bytes(), &mut |_| {}).err().map(|error| (n, error))
    });
    let (n, error) = stopped.expect("it was never stopped");
    assert!(n < 200 && matches!(error, ProviderError::Other { .. }), "{n}: {error:?}");
}

#[test]
fn usage_is_read_wherever_it_is_and_however_it_is_counted() {
    let usage = |chunk: Value| {
        let end = json!({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]});
        response(format!("data: {chunk}\n\ndata: {end}\n\ndata: [DONE]\n\n").as_bytes(), &openai()).usage
    };
    let alone = |report: Value| usage(json!({"choices": [], "usage": report}));
    let hit = json!({"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4});
    assert_eq!(alone(hit), Usage::of(4, 1, 6, 0, 0));
    let no_sum = json!({"completion_tokens": 1, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4});
    assert_eq!(alone(no_sum), Usage::of(4, 1, 6, 0, 0));
    let told_twice =
        json!({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 3}, "prompt_cache_hit_tokens": 6});
    assert_eq!(alone(told_twice), Usage::of(7, 0, 3, 0, 0));
    // xAI: 32 + 9 + 94 are 135, so the reasoning is not within the completion.
    let beside = json!({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135,
        "completion_tokens_details": {"reasoning_tokens": 94}});
    assert_eq!(alone(beside), Usage::of(32, 9, 0, 0, 94));
    let written = json!({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 99}});
    assert_eq!(alone(written), Usage::of(0, 0, 6, 4, 0));
    // Moonshot: in the choice.
    let inside = json!({"prompt_tokens": 19, "completion_tokens": 13, "total_tokens": 32, "cached_tokens": 10});
    assert_eq!(usage(json!({"choices": [{"index": 0, "delta": {}, "usage": inside}]})), Usage::of(9, 13, 10, 0, 0));
}

#[test]
fn a_plain_piece_leaves_the_next_one_a_short_way() {
    for delta in [
        r#"{"content":"a"}"#,
        r#"{"content":"a","reasoning_content":null}"#,
        r#"{"role":"assistant","content":"a","reasoning":null,"reasoning_details":[]}"#,
        r#"{"content":null,"reasoning_content":"a"}"#,
    ] {
        let mut reply = Reply::new(Limits::default(), openrouter());
        let data =
            format!(r#"{{"id":"x","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}],"usage":null}}"#);
        let frame = Frame { event: "".into(), data: data.as_str().into() };
        assert_eq!(reply.event(&frame, &mut |_| {}), Ok(Step::Data));
        assert!(reply.stencil.is_some_and(|stencil| stencil.read(&data).is_some()), "{delta}");
    }
}

#[test]
fn f01_a_reason_that_says_nothing_is_none() {
    let body = |reason: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":\"{reason}\"}}],\
             \"base_resp\":{{\"status_code\":0}}}}\n\ndata: [DONE]\n\n"
        )
    };
    let whole = |reason: &str| decode(read_as(&openai()), &[body(reason).as_bytes()]).1;
    assert!(matches!(whole(""), Err(ProviderError::Incomplete { .. })));
    assert_eq!(whole("stop").unwrap().content, [Content::text("a")]);
}

#[test]
fn an_answer_in_plain_json_is_classified_like_an_event() {
    let limited = Some(ProviderError::RateLimited { message: String::new(), retry_after_ms: None });
    assert_eq!(plain_failure(r#"{"error":{"code":429}}"#).map(wordless), limited);
    assert_eq!(plain_failure(r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#).map(wordless), limited);
    assert!(matches!(plain_failure(r#"{"detail":"Not Found"}"#), Some(ProviderError::Api { .. })));
    assert_eq!(plain_failure(r#"{"choices":[{"message":{"content":"a"}}]}"#), None);
    assert_eq!(plain_failure("<html>"), None);
}
