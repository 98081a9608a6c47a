//! Other models to fall back on, answers that hold nothing, and forms that answers must have.

use std::sync::Arc;

use playhouse_agent::testing::Report;
use playhouse_protocol::{
    AgentMessage, Command, Content, EntryBody, Message, ModelConfig, Op, Outcome, ProviderError, ResponseFormat,
    StopReason, Usage,
};
use serde_json::json;

use crate::rig::{Rig, assistant};

fn model(n: &str) -> Arc<ModelConfig> {
    Arc::new(ModelConfig::scripted(n))
}

fn with_fallbacks() -> Rig {
    Rig::with(|setup, settings| {
        settings.fallbacks = vec![model("b"), model("c")];
        setup.fallbacks = settings.fallbacks.clone();
    })
}

/// The model that the open call asks.
fn asked(rig: &Rig) -> Arc<ModelConfig> {
    rig.calls.last().unwrap().2.model_config.clone()
}

fn network() -> ProviderError {
    ProviderError::Network { message: "down".into() }
}

#[test]
fn f07_a_call_that_fails_for_good_is_made_with_the_next_model() {
    let mut rig = with_fallbacks();
    rig.prompt("hi");
    assert_eq!(asked(&rig), model("x"));
    let lines = rig.call_failed(network());
    assert_eq!(asked(&rig), model("b"));
    assert!(lines.iter().any(|line| line.starts_with("ProviderRetry 0 0")), "{lines:?}");
    rig.call_failed(ProviderError::Auth { message: "no".into() });
    assert_eq!(asked(&rig), model("c"));
    rig.call_failed(network());
    assert_eq!(
        rig.reports[0].outcome,
        Outcome::Error { message: "no answer from the provider: down".into() },
        "there is no fourth"
    );
    rig.prompt("again");
    assert_eq!(asked(&rig), model("x"), "the next turn begins with the first again");
    rig.says("fine");
    assert_eq!(rig.reports[1].outcome, Outcome::Stop);
}

#[test]
fn f07_after_a_crash_the_turn_goes_on_with_the_model_it_had_fallen_back_on() {
    let mut rig = with_fallbacks();
    rig.prompt("hi");
    rig.call_failed(network());
    rig.restart();
    assert_eq!(asked(&rig), model("b"));
    rig.says("here");
    assert_eq!(rig.talk(), ["user: hi", "model Stop: here"]);
}

#[test]
fn what_is_too_long_or_cancelled_does_not_fall_back() {
    for error in [ProviderError::ContextOverflow { message: "long".into() }, ProviderError::Cancelled] {
        let mut rig = with_fallbacks();
        rig.prompt("hi");
        rig.call_failed(error);
        assert_eq!((rig.calls.len(), rig.reports.len()), (0, 1));
    }
}

#[test]
fn a_call_that_is_lost_again_and_again_falls_back_too() {
    let mut rig = Rig::with(|setup, settings| {
        settings.retry.max_retries = 1;
        settings.fallbacks = vec![model("b")];
        setup.fallbacks = settings.fallbacks.clone();
    });
    rig.prompt("hi");
    for asked_next in ["x", "b"] {
        rig.tell(Report::ConnectionLost { reason: "gone".into() });
        assert_eq!(asked(&rig), model(asked_next));
    }
}

fn empty() -> Message {
    let Message::Assistant { stop_reason, model, provider, timestamp, error_message, .. } =
        assistant("", &[], StopReason::Stop)
    else {
        panic!()
    };
    let thinking = Content::Thinking { thinking: "hm".into(), signature: None };
    let content = vec![thinking, Content::text(" \n")];
    Message::Assistant {
        content,
        stop_reason,
        model,
        provider,
        usage: Usage::of(10, 1, 0, 0, 0),
        timestamp,
        error_message,
    }
}

#[test]
fn f11_an_answer_that_holds_nothing_is_asked_for_twice_more_and_then_the_run_ends() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    for attempt in 0..2 {
        let lines = rig.respond(empty());
        assert!(lines.contains(&format!("ProviderRetry {attempt} 0")), "{lines:?}");
        assert!(rig.reports.is_empty());
    }
    rig.respond(empty());
    let report = &rig.reports[0];
    assert_eq!(report.outcome, Outcome::Error { message: "the model gave an empty answer".into() });
    assert_eq!(report.usage, Usage::of(30, 3, 0, 0, 0), "what it consumed is counted");
    let kept = rig.machine.durable().record.messages().sendable().count();
    assert_eq!(kept, 1, "nothing is left behind that a provider would refuse");
}

#[test]
fn f11_the_count_survives_a_crash_and_words_end_it() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.respond(empty());
    rig.restart();
    rig.respond(empty());
    rig.restart();
    rig.says("at last");
    assert_eq!(rig.reports[0].outcome, Outcome::Stop);
    rig.prompt("more");
    rig.respond(empty());
    rig.says("fresh turn, fresh count");
    assert_eq!(rig.reports[1].outcome, Outcome::Stop);
}

#[test]
fn a_form_is_asked_for_in_every_turn_of_its_run_and_survives_a_crash() {
    let mut rig = Rig::new();
    let format = Arc::new(ResponseFormat { name: "f".into(), schema: json!({"type": "object"}) });
    let messages = vec![Arc::new(AgentMessage::user("hi", 0))];
    rig.tell(Command::new("i", Op::Prompt { messages, format: Some(format.clone()) }));
    let form = |rig: &Rig| rig.calls.last().unwrap().2.response_format.clone();
    assert_eq!(form(&rig), Some(format.clone()));
    rig.wants(&[("c1", "read")]);
    rig.done("c1");
    assert_eq!(form(&rig), Some(format.clone()));
    rig.restart();
    assert_eq!(form(&rig), Some(format));
    rig.says("{}");
    rig.prompt("and now freely");
    assert_eq!(form(&rig), None);
    assert!(rig.bodies().any(|body| matches!(body, EntryBody::Input(input) if input.format.is_some())));
}
