use super::super::script::When;
use super::*;
use crate::testing::{assistant, config, result, wordless};
use playhouse_protocol::{AgentMessage, CallReport, History, Purpose, StreamDelta, ToolDefinition};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// Every delta that streams, unmerged, and the result.
async fn run(provider: &Scripted, config: &StreamConfig) -> (Vec<StreamDelta>, Result<Message, ProviderError>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let sink = StreamSink::with("c".into(), 0, move |report| {
        if let CallReport::Delta { deltas, .. } = report {
            into.lock().unwrap().extend(deltas);
        }
    });
    let result = provider.stream(config, &sink).await;
    (std::mem::take(&mut *seen.lock().unwrap()), result)
}

fn t(delta: &str) -> StreamDelta {
    StreamDelta::Text { delta: delta.into() }
}

#[tokio::test]
async fn an_answer_streams_in_pieces_on_character_boundaries() {
    let step = Step::text("äöü😀e").thinking("hm!").tool_call("bash", json!({"a": 1})).chunk(2);
    let mut config = config("hi");
    config.response = 4;
    let provider = Scripted::new([Step::text(""), Step::text(""), Step::text(""), Step::text(""), step]);
    let (deltas, message) = run(&provider, &config).await;
    let thinking = |delta: &str| StreamDelta::Thinking { delta: delta.into() };
    assert_eq!(&deltas[..5], [thinking("hm"), thinking("!"), t("äö"), t("ü😀"), t("e")]);
    let arguments: String = deltas[5..]
        .iter()
        .map(|delta| match delta {
            StreamDelta::ToolCallDelta { delta } => delta.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(arguments, r#"{"a":1}"#);
    let Ok(Message::Assistant { content, stop_reason, usage, provider, .. }) = message else { panic!("{message:?}") };
    assert_eq!(
        content,
        [
            Content::Thinking { thinking: "hm!".into(), signature: None },
            Content::text("äöü😀e"),
            Content::ToolCall { id: "call_4_0".into(), name: "bash".into(), arguments: json!({"a": 1}) },
        ]
    );
    assert_eq!((stop_reason, &*provider), (StopReason::ToolUse, "scripted"));
    assert_eq!(usage, Usage::of(1, 4, 0, 0, 1), "2 characters asked; 5 + 4 + 7 answered; 3 thought");
}

#[tokio::test]
async fn failures_look_like_a_services() {
    let cut = Scripted::new([Step::text("äöüß").cut_after(3), Step::text("ok")]);
    let (deltas, error) = run(&cut, &config("hi")).await;
    assert_eq!(deltas, [t("äöü")]);
    assert!(matches!(error, Err(ProviderError::Incomplete { .. })));
    let limited =
        Scripted::from_json(r#"{"turns":[{"error":{"status":429,"retry_after":1.5}},{"text":"x"}]}"#).unwrap();
    assert_eq!(
        run(&limited, &config("hi")).await.1.map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: Some(1_500) })
    );
    let error = run(&Scripted::new([Step::text("a")]), &StreamConfig { response: 1, ..config("hi") }).await.1;
    assert_eq!(
        error.unwrap_err().to_string(),
        "the provider refused the request: the script has 1 steps for this agent; step 2 was asked for"
    );
}

#[tokio::test(start_paused = true)]
async fn pieces_take_their_time() {
    let provider = Scripted::new([Step::text("abcdef").chunk(2).delay_ms(50)]);
    let begin = tokio::time::Instant::now();
    let (deltas, _) = run(&provider, &config("hi")).await;
    assert_eq!(deltas, [t("ab"), t("cd"), t("ef")]);
    assert_eq!(begin.elapsed().as_millis(), 150);
}

#[tokio::test]
async fn a_call_without_a_step_gets_a_fixed_text_and_one_with_a_step_gets_it() {
    let provider = Scripted::new([Step::text("sum").when(When::purpose(Purpose::Summary))]);
    let text = |purpose| {
        let provider = provider.clone();
        async move { run(&provider, &StreamConfig { purpose, response: 7, ..config("hi") }).await.1.map(|m| m.text()) }
    };
    assert_eq!(text(Purpose::Summary).await.unwrap(), "sum");
    assert_eq!(text(Purpose::Repair).await.unwrap(), FIXED_TEXT);
}

#[tokio::test]
async fn f35_what_a_real_provider_refuses_is_refused() {
    let provider = Scripted::new([Step::text("a")]);
    let refused = |messages: Vec<Message>| {
        let messages: History = messages.into_iter().map(AgentMessage::from).collect();
        let provider = provider.clone();
        async move { run(&provider, &StreamConfig { messages, ..config("") }).await.1 }
    };
    let call = |name: &str| Content::ToolCall { id: "c".into(), name: name.into(), arguments: json!({}) };
    let user = || Message::user("hi", 0);
    for messages in [
        vec![],
        vec![user(), assistant(vec![call("t")])],
        vec![user(), result("c", "t")],
        vec![user(), assistant(vec![Content::text("done")])],
        vec![user(), assistant(vec![call("t")]), result("c", "other")],
        vec![user(), assistant(vec![call("")]), result("c", "")],
    ] {
        let shown = format!("{messages:?}");
        assert!(matches!(refused(messages).await, Err(ProviderError::Api { .. })), "{shown}");
    }
    assert!(refused(vec![user(), assistant(vec![call("t")]), result("c", "t")]).await.is_ok());

    let tool = |name: &str| ToolDefinition { name: name.into(), description: String::new(), parameters: json!({}) };
    for tools in [vec![tool("a b")], vec![tool("")], vec![tool("a"), tool("a")]] {
        let config = StreamConfig { tools: tools.into(), ..config("hi") };
        assert!(matches!(run(&provider, &config).await.1, Err(ProviderError::Api { .. })));
    }
    let small = provider.clone().with_context_window(10);
    assert!(matches!(run(&small, &config(&"x".repeat(44))).await.1, Err(ProviderError::ContextOverflow { .. })));
    assert!(run(&small, &config(&"x".repeat(40))).await.1.is_ok());
}

#[test]
fn a_file_is_named_in_every_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.json");
    let error = || Scripted::from_file(&path).unwrap_err().to_string();
    assert!(error().contains("script.json` cannot be read"));
    std::fs::write(&path, r#"{"turns":[{"text":"a"},{"tex":"b"}]}"#).unwrap();
    assert!(error().contains("script.json") && error().contains("step 2: unknown key `tex`"));
    std::fs::write(&path, r#"{"context_window":5,"turns":[]}"#).unwrap();
    assert_eq!(Scripted::from_file(&path).unwrap().script.context_window, Some(5));
}
