//! A picture that a service does not take costs the conversation the picture, and nothing else.

use std::time::Duration;

use playhouse::prelude::*;

use crate::kit::soon;
use crate::service::{Answer, Service, model, says};

fn shown(text: &str, bytes: usize) -> AgentMessage {
    let picture = Content::Image { data: "A".repeat(bytes / 3 * 4), mime_type: "image/png".to_owned() };
    Message::User { content: vec![Content::text(text), picture], timestamp: 1 }.into()
}

/// How many pictures a request has, and how many notes in their place.
fn pictures_and_notes(body: &Value) -> (usize, usize) {
    let text = body.to_string();
    (
        text.matches(";base64,").count() + text.matches(r#""type":"image""#).count(),
        text.matches("a picture was here").count(),
    )
}

#[tokio::test]
async fn a_session_goes_on_after_a_service_refused_its_picture_and_so_does_its_replay() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::new(|_, request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        match body.matches(";base64,").count() {
            0 | 1 => Answer::ok(says("fine")),
            _ => Answer::failed(
                400,
                r#"{"error":{"message":"You uploaded an unsupported image.","code":"invalid_image"}}"#,
            ),
        }
    });
    let house = service.house().data_dir(folder.path()).open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    soon("the first", agent.prompt_messages(vec![shown("a good one", 300)])).await.unwrap();
    let answer = soon("the second", agent.prompt_messages(vec![shown("a bad one", 300)])).await.unwrap();
    assert_eq!(answer.text(), "fine");
    soon("the third", agent.prompt("and now?")).await.unwrap();
    let seen: Vec<_> = service.seen().iter().map(|seen| pictures_and_notes(&seen.body)).collect();
    assert_eq!(seen, [(1, 0), (2, 0), (1, 1), (1, 1)], "only the picture that nobody had answered to is left out");
    let note = service.seen()[2].body.to_string();
    assert!(note.contains("HTTP 400: You uploaded an unsupported image. (invalid_image)"), "{note}");
    let session = agent.session_id();
    house.shutdown(Duration::ZERO).await;

    let house = service.house().data_dir(folder.path()).open().await.unwrap();
    let agent = house.agent().session(session).model(model("m")).open().await.unwrap();
    soon("the fourth", agent.prompt("still there?")).await.unwrap();
    let last = service.seen().pop().unwrap().body;
    assert_eq!(pictures_and_notes(&last), (1, 1), "the journal says which picture is left out");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_picture_over_a_limit_is_refused_before_it_is_sent() {
    let service = Service::new(|_, _| Answer::ok(anthropic_says("fine")));
    let house = service.house().open().await.unwrap();
    let claude = ModelConfig::anthropic("claude-sonnet-4-5", Secret::new("sk-canary-0123456789"));
    let agent = house.agent().model(claude).spawn().await.unwrap();
    let report = soon("an answer", agent.prompt_messages(vec![shown("look", 9_000_000)])).await.unwrap();
    assert_eq!(report.text(), "fine");
    let seen = service.seen();
    assert_eq!(seen.iter().map(|seen| pictures_and_notes(&seen.body)).collect::<Vec<_>>(), [(0, 1)]);
    let note = seen[0].body.to_string();
    assert!(note.contains("a picture is 12.0 MB in base64, and at most 10.4 MB are taken (anthropic"), "{note}");
    house.shutdown(Duration::ZERO).await;
}

fn anthropic_says(text: &str) -> String {
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [],
            "model": "claude-sonnet-4-5", "stop_reason": null, "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    events.map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).concat()
}

/// Nothing is lost with the last picture: a refusal that goes on without any ends the run.
#[tokio::test]
async fn a_refusal_that_does_not_stop_ends_the_run() {
    let refusal = r#"{"error":{"message":"Could not process image"}}"#;
    let service = Service::new(move |_, _| Answer::failed(400, refusal));
    let house = service.house().open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    let failed = soon("an end", agent.prompt_messages(vec![shown("look", 300)])).await.unwrap_err();
    assert!(failed.to_string().contains("Could not process image"), "{failed}");
    assert_eq!(service.seen().len(), 2);
    house.shutdown(Duration::ZERO).await;
}
