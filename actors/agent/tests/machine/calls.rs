//! Model calls: their attempts, their ends, and the tool calls in their responses.

use playhouse_agent::testing::Report;
use playhouse_protocol::{Content, Message, Outcome, ProviderError, StopReason, StreamDelta};
use serde_json::json;

use crate::rig::{Rig, assistant};

fn limited() -> ProviderError {
    ProviderError::RateLimited { message: String::new(), retry_after_ms: None }
}

fn call_ids(rig: &Rig) -> Vec<String> {
    let said = rig.machine.durable().record.messages().as_slice().iter().filter_map(|message| message.llm());
    said.flat_map(|message| message.tool_calls().map(|(id, ..)| id.to_string()).collect::<Vec<_>>()).collect()
}

#[test]
fn a_retried_attempt_closes_with_an_error_and_the_next_has_a_new_message() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.delta("half");
    assert_eq!(
        rig.retrying(limited(), 1_000),
        ["MessageEnd model t0a0 = model Error: ", "ProviderRetry 0 1000", "> go on with 1"]
    );
    // Nothing came of this one, and still it is opened and closed.
    assert_eq!(
        rig.retrying(limited(), 2_000),
        ["MessageStart model t0a1", "MessageEnd model t0a1 = model Error: ", "ProviderRetry 1 2000", "> go on with 2"]
    );
    rig.delta("who");
    assert_eq!(
        rig.says("whole"),
        ["MessageEnd model t0a2 = model Stop: whole", "TurnEnd 0", "AgentEnd stop (2)", "> finish stop"]
    );
    assert_eq!(rig.talk(), ["user: hi", "model Stop: whole"]);
}

#[test]
fn the_next_attempt_waits_until_the_failed_one_is_durable() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.held = true;
    assert_eq!(rig.retrying(limited(), 1), [""; 0]);
    assert_eq!(rig.commit().last().unwrap(), "> go on with 1");
    // One that was called off meanwhile is not gone on with.
    rig.retrying(limited(), 1);
    rig.abort();
    rig.held = false;
    assert_eq!(rig.commit().iter().find(|line| line.starts_with("> go on")), None);
}

#[test]
fn only_the_open_attempt_is_heard() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    let (call, attempt, _) = rig.calls[0].clone();
    rig.retrying(limited(), 1);
    let stale = [
        Report::Delta { call: call.clone(), attempt, deltas: vec![StreamDelta::Text { delta: "x".into() }] },
        Report::Retrying { call: call.clone(), attempt, error: limited(), delay_ms: 1 },
        Report::Responded { call: call.clone(), attempt, message: assistant("x", &[], StopReason::Stop) },
        Report::CallFailed { call: call.clone(), attempt, error: limited() },
        Report::Responded { call: "s.c.1/9/0".into(), attempt: 1, message: assistant("x", &[], StopReason::Stop) },
    ];
    for input in stale {
        assert_eq!(rig.tell(input.clone()), [""; 0], "{input:?}");
    }
    rig.says("heard");
    assert_eq!(rig.talk(), ["user: hi", "model Stop: heard"]);
    let again = Report::Responded { call, attempt: 1, message: assistant("twice", &[], StopReason::Stop) };
    assert_eq!(rig.tell(again), [""; 0]);
}

#[test]
fn a_call_lost_with_its_connection_is_asked_again_under_the_retry_cap() {
    let mut rig = Rig::with(|_, settings| settings.retry.max_retries = 2);
    rig.prompt("hi");
    rig.delta("half");
    assert_eq!(
        rig.tell(Report::ConnectionLost { reason: "gone".into() }),
        ["MessageEnd model t0a0 = model Error: ", "ProviderRetry 0 0", "ModelRequestStart t0a1 1", "> call 1"]
    );
    assert_eq!(rig.calls.last().unwrap().1, 1);
    rig.tell(Report::ConnectionLost { reason: "gone".into() });
    assert_eq!(rig.calls.last().unwrap().1, 2);
    rig.tell(Report::ConnectionLost { reason: "gone".into() });
    let outcome = &rig.reports[0].outcome;
    assert!(matches!(outcome, Outcome::Error { message } if message.contains("gone")), "{outcome:?}");

    // A turn that was answered begins to count anew.
    rig.prompt("again");
    for _ in 0..2 {
        rig.tell(Report::ConnectionLost { reason: "gone".into() });
    }
    assert_eq!(rig.says("there").last().unwrap(), "> finish stop");
}

#[test]
fn f02_a_call_that_the_connection_gave_up_is_not_asked_again() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.call_failed(ProviderError::Lost { message: "it panicked".into() });
    assert!(rig.calls.is_empty());
    assert!(matches!(&rig.reports[0].outcome, Outcome::Error { message } if message.contains("it panicked")));
}

#[test]
fn a_connection_lost_before_the_request_went_out_changes_nothing() {
    let mut rig = Rig::new();
    rig.held = true;
    rig.prompt("hi");
    rig.tell(Report::ConnectionLost { reason: "gone".into() });
    rig.held = false;
    assert_eq!(rig.commit().last().unwrap(), "> call 0");
}

#[test]
fn a_length_stop_keeps_its_text_and_ends_unless_there_are_calls() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.follow_up("later");
    assert_eq!(rig.respond(assistant("cut", &[], StopReason::Length)).last().unwrap(), "> finish length");
    assert_eq!(rig.talk(), ["user: hi", "model Length: cut"]);

    rig.prompt("more");
    let mut message = assistant("cut", &[("c1", "read"), ("c2", "once")], StopReason::Length);
    if let Message::Assistant { content, .. } = &mut message
        && let Some(Content::ToolCall { arguments, .. }) = content.last_mut()
    {
        *arguments = json!("{\"pa");
    }
    rig.respond(message);
    rig.done("c1");
    assert_eq!(rig.talk()[4..], ["c1 result: c1 ok", "c2 error: the arguments are not JSON"]);
    assert_eq!(rig.calls.len(), 1, "the run goes on");
}

#[test]
fn a_stop_reason_follows_the_calls() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.respond(assistant("none after all", &[], StopReason::ToolUse));
    assert_eq!(rig.reports[0].outcome, Outcome::Stop);
    rig.prompt("hi");
    rig.respond(assistant("one after all", &[("c1", "read")], StopReason::Stop));
    assert_eq!(rig.tools.len(), 1);
}

#[test]
fn f10_missing_and_repeated_call_ids_become_our_own() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("", "read"), ("x", "read"), ("x", "read")]);
    assert_eq!(call_ids(&rig), ["s_c_1_0_0_1", "x", "s_c_1_0_0_3"]);
    for call in call_ids(&rig) {
        rig.done(&call);
    }
    // An id of an earlier turn is used up, and so is one that looks like ours.
    rig.wants(&[("x", "read"), ("s_c_1_0_0_3", "read"), ("s_c_1_1_0_4", "read"), ("", "read")]);
    let ids = call_ids(&rig);
    assert_eq!(ids[3..6], ["s_c_1_1_0_1", "s_c_1_1_0_2", "s_c_1_1_0_4"]);
    let mut unique = ids.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    rig.come_to_rest();
    assert_eq!(rig.talk().len(), 1 + 4 + 5 + 1);
}

#[test]
fn arguments_that_are_no_object_never_reach_a_tool_or_a_provider() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    let mut message = assistant("", &[("c1", "read")], StopReason::ToolUse);
    if let Message::Assistant { content, .. } = &mut message
        && let Some(Content::ToolCall { arguments, .. }) = content.last_mut()
    {
        *arguments = json!([1, 2]);
    }
    // The next request is checked as every request is.
    rig.respond(message);
    assert_eq!(rig.talk()[2], "c1 error: the arguments are not JSON");
    assert_eq!(rig.calls.len(), 1);
}

#[test]
fn an_answer_that_is_no_model_s_message_is_an_error() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    let lines = rig.respond(Message::user("pretending", 1));
    assert!(lines.last().unwrap().starts_with("> finish error"), "{lines:?}");
}

#[test]
fn a_failed_or_aborted_response_keeps_no_calls() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.respond(assistant("broken", &[("c1", "once")], StopReason::Error));
    assert_eq!((rig.tools.len(), call_ids(&rig).len()), (0, 0));
}

#[test]
fn a_request_says_what_the_script_goes_by() {
    let mut rig = Rig::new();
    rig.prompt("first");
    let config = &rig.calls[0].2;
    assert_eq!((config.response, config.attempt, &*config.first_prompt), (0, 0, "first"));
    rig.call_failed(ProviderError::Api { message: "no".into() });
    rig.prompt("second");
    assert_eq!(rig.calls[0].2.response, 0, "a failure is no response");
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    rig.tell(Report::ConnectionLost { reason: "gone".into() });
    let config = &rig.calls.last().unwrap().2;
    assert_eq!((config.response, config.attempt, &*config.first_prompt), (1, 1, "first"));
}
