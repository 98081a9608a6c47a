//! The loop as a function.

#[path = "support/kit.rs"]
mod kit;

use std::sync::{Arc, Mutex};

use kit::{FnModel, Gate, lines, soon};
use playhouse::prelude::*;
use playhouse::protocol::{CacheConfig, CacheStrategy, Cancel, StreamConfig, ThinkingLevel, TurnTrigger};
use playhouse::{AgentContext, AgentLoopConfig, LoopControl, LoopError, agent_loop, agent_loop_continue};
use tokio::sync::mpsc;

type Events = mpsc::Receiver<Arc<Event>>;

fn with(provider: impl StreamProvider + 'static) -> AgentLoopConfig {
    let definition = Definition { provider_override: Some(Arc::new(provider)), ..Definition::default() };
    AgentLoopConfig { definition, ..AgentLoopConfig::default() }
}

fn saying(messages: Vec<AgentMessage>) -> AgentContext {
    AgentContext { messages: messages.into_iter().map(Arc::new).collect(), ..AgentContext::default() }
}

fn channel() -> (mpsc::Sender<Arc<Event>>, Events) {
    mpsc::channel(1_000)
}

fn all(mut events: Events) -> Vec<AgentEvent> {
    std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.event.clone()).collect()
}

fn config(script: &str) -> AgentLoopConfig {
    let provider: Arc<dyn StreamProvider> = Arc::new(Scripted::from_json(script).unwrap());
    let definition = Definition { provider_override: Some(provider), ..Definition::default() };
    AgentLoopConfig { definition, ..AgentLoopConfig::default() }
}

#[tokio::test]
async fn a_prompt_runs_on_a_context_and_its_events_end_with_agent_end() {
    let context =
        AgentContext { messages: vec![Arc::new(AgentMessage::user("earlier", 1))], ..AgentContext::default() };
    let (sender, mut events) = mpsc::channel(1_000);
    let prompts = vec![AgentMessage::user("now", 2)];
    let report =
        agent_loop(prompts, context, config(r#"{"turns":[{"text":"ok"}]}"#), sender, Cancel::new()).await.unwrap();
    assert_eq!((report.text().as_str(), report.messages.len()), ("ok", 2));
    let mut last = None;
    while let Some(event) = events.recv().await {
        last = Some(event);
    }
    assert!(matches!(last.unwrap().event, AgentEvent::AgentEnd { .. }));
}

#[tokio::test]
async fn continuing_needs_something_to_answer() {
    let (sender, _events) = mpsc::channel(1_000);
    let context = AgentContext { messages: vec![Arc::new(AgentMessage::user("go", 1))], ..AgentContext::default() };
    let script = r#"{"turns":[{"text":"gone"}]}"#;
    let on = ContinuationKind::Default;
    let report = agent_loop_continue(context, config(script), on.clone(), sender.clone(), Cancel::new()).await.unwrap();
    assert_eq!(report.text(), "gone");
    let rested = AgentContext { messages: report.messages.clone(), ..AgentContext::default() };
    let error = agent_loop_continue(rested, config(script), on, sender, Cancel::new()).await.unwrap_err();
    assert!(error.to_string().contains("nothing to continue"), "{error}");
}

#[tokio::test]
async fn cancelling_aborts_the_run() {
    let (sender, mut events) = mpsc::channel(1_000);
    let cancel = Cancel::new();
    let slow = config(r#"{"turns":[{"text":"a slow one","chunk":1,"delay_ms":3600000}]}"#);
    let run = agent_loop(vec![AgentMessage::user("go", 1)], AgentContext::default(), slow, sender, cancel.clone());
    let watch = async {
        while let Some(event) = events.recv().await {
            if matches!(event.event, AgentEvent::MessageUpdate { .. }) {
                cancel.cancel();
            }
        }
    };
    let (report, ()) = tokio::join!(run, watch);
    let Err(LoopError::Agent(HandleError::Failed(report))) = report else { panic!("{report:?}") };
    assert_eq!(report.outcome, Outcome::Aborted);
}

#[tokio::test]
async fn a_loop_that_is_cancelled_before_it_begins_is_aborted() {
    let (sender, _events) = channel();
    let cancel = Cancel::new();
    cancel.cancel();
    let slow = config(r#"{"turns":[{"text":"a slow one","chunk":1,"delay_ms":3600000}]}"#);
    let run = agent_loop(vec![AgentMessage::user("go", 1)], AgentContext::default(), slow, sender, cancel);
    let Err(LoopError::Agent(HandleError::Failed(report))) = soon("the abort", run).await else {
        panic!("it answered")
    };
    assert_eq!(report.outcome, Outcome::Aborted);
}

#[tokio::test]
async fn what_a_loop_is_configured_with_reaches_its_requests_and_its_record() {
    let asked = Arc::<Mutex<Vec<StreamConfig>>>::default();
    let seen = asked.clone();
    let model = FnModel::new(move |config| {
        seen.lock().unwrap().push(config.clone());
        Step::text("ok")
    });
    let cache = CacheConfig { enabled: true, strategy: CacheStrategy::Disabled };
    let config = AgentLoopConfig {
        thinking_level: ThinkingLevel::Low,
        max_tokens: Some(77),
        temperature: Some(0.5),
        cache,
        config_id: Some("mine".to_owned()),
        metadata: Some(json!({"ticket": 7})),
        ..with(model)
    };
    let (sender, events) = channel();
    let prompts = vec![AgentMessage::user("go", 1)];
    agent_loop(prompts, AgentContext::default(), config, sender, Cancel::new()).await.unwrap();
    let request = asked.lock().unwrap().remove(0);
    assert_eq!(
        (request.thinking_level, request.max_tokens, request.temperature, request.cache_config),
        (ThinkingLevel::Low, Some(77), Some(0.5), cache)
    );
    let told = all(events);
    let AgentEvent::AgentStart { config, metadata, .. } = &told[0] else { panic!("{told:?}") };
    assert_eq!((config.config_id.as_str(), config.temperature), ("mine", Some(0.5)));
    assert_eq!(metadata.as_deref(), Some(&json!({"ticket": 7})));
}

#[tokio::test]
async fn a_loop_is_continued_in_each_way() {
    let talk = || {
        let (asked, answered) = (AgentMessage::user("one", 1), AgentMessage::user("two", 2));
        let model = |text: &str| AgentMessage::from(assistant(text));
        (vec![asked.clone(), model("first"), answered.clone(), model("second")], vec![asked, model("first"), answered])
    };
    let (whole, open) = talk();
    let tag = || "2026-01-01T00:00:00Z".to_owned();
    for (kind, messages, trigger) in [
        (ContinuationKind::Default, open.clone(), TurnTrigger::Continuation),
        (ContinuationKind::Rerun { tag: tag() }, whole, TurnTrigger::Continuation),
        (ContinuationKind::Branch { tag: tag(), entry: None }, open, TurnTrigger::Branch),
    ] {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let sees = seen.clone();
        let model = FnModel::new(move |config| {
            *sees.lock().unwrap() = config.messages.sendable().map(|message| message.text()).collect();
            Step::text("again")
        });
        let (sender, events) = channel();
        let run = agent_loop_continue(saying(messages), with(model), kind.clone(), sender, Cancel::new());
        assert_eq!(run.await.unwrap().text(), "again", "{kind:?}");
        assert_eq!(*seen.lock().unwrap(), ["one", "first", "two"], "{kind:?}");
        let told = all(events);
        let AgentEvent::AgentStart { continuation_kind, .. } = &told[0] else { panic!("{told:?}") };
        let AgentEvent::TurnStart { triggered_by, .. } = &told[1] else { panic!("{told:?}") };
        assert_eq!((continuation_kind.as_ref(), *triggered_by), (Some(&kind), trigger));
    }
    let (sender, _events) = channel();
    let unanswered = saying(vec![AgentMessage::user("one", 1)]);
    let rerun = ContinuationKind::Rerun { tag: tag() };
    let error = agent_loop_continue(unanswered, with(Scripted::new([Step::text("no")])), rerun, sender, Cancel::new());
    assert_eq!(error.await.unwrap_err().to_string(), "there is no run to repeat");
}

fn assistant(text: &str) -> Message {
    let json = json!({
        "role": "assistant", "content": [{"type": "text", "text": text}], "stop_reason": "stop", "model": "m",
        "provider": "p", "usage": {"input": 1, "output": 1, "cache_read": 0, "cache_write": 0}, "timestamp": 1,
    });
    serde_json::from_value(json).unwrap()
}

/// A run of two turns whose tool waits at the gate.
fn two_turns(gate: &Gate, steering: QueueMode) -> (AgentLoopConfig, LoopControl) {
    let control = LoopControl::new();
    let steps = [Step::text("").tool_call("wait", json!({})), Step::text("b"), Step::text("c"), Step::text("d")];
    let mut config = with(Scripted::new(steps));
    config.definition.tools = Some(ToolSet::new(vec![Arc::new(gate.tool("wait"))]).unwrap());
    (AgentLoopConfig { control: control.clone(), steering_mode: steering, ..config }, control)
}

#[tokio::test]
async fn a_loop_is_steered_while_it_runs_and_by_what_was_said_before() {
    for (mode, expected) in [
        (
            QueueMode::OneAtATime,
            ["user: go", "user: early", "model: [wait]", "wait: passed", "user: left", "model: b", "user: right"],
        ),
        (
            QueueMode::All,
            ["user: go", "user: early", "model: [wait]", "wait: passed", "user: left", "user: right", "model: b"],
        ),
    ] {
        let gate = Gate::closed();
        let (config, control) = two_turns(&gate, mode);
        let (sender, _events) = channel();
        control.steer("early").await.unwrap();
        let prompts = vec![AgentMessage::user("go", 1)];
        let run = tokio::spawn(agent_loop(prompts, AgentContext::default(), config.clone(), sender, Cancel::new()));
        soon("the tool", gate.reached(1)).await;
        control.steer("left").await.unwrap();
        control.steer("right").await.unwrap();
        control.follow_up("at last").await.unwrap();
        let (sender, _events) = channel();
        let second =
            agent_loop(vec![AgentMessage::user("go", 1)], AgentContext::default(), config, sender, Cancel::new());
        assert!(matches!(soon("a refusal", second).await, Err(LoopError::ControlInUse)));
        gate.open();
        let report = soon("the end", run).await.unwrap().unwrap();
        let said = lines(&report.messages);
        assert_eq!(said[..7], expected, "{mode:?}");
        assert_eq!(said[said.len() - 2], "user: at last", "{mode:?}: {said:?}");
        assert!(matches!(control.steer("too late").await, Err(LoopError::Ended)));
    }
}

#[tokio::test]
async fn only_so_much_is_held_for_a_loop_that_has_not_begun() {
    let control = LoopControl::new();
    for _ in 0..64 {
        control.follow_up("wait").await.unwrap();
    }
    assert!(matches!(control.steer("one more").await, Err(LoopError::TooMuchHeld(64))));
}
