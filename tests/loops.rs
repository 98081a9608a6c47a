//! The loop as a function.

use std::sync::Arc;

use playhouse::prelude::*;
use playhouse::protocol::Cancel;
use playhouse::{AgentContext, AgentLoopConfig, LoopError, agent_loop, agent_loop_continue};
use tokio::sync::mpsc;

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
    let report = agent_loop_continue(context, config(script), sender.clone(), Cancel::new()).await.unwrap();
    assert_eq!(report.text(), "gone");
    let rested = AgentContext { messages: report.messages.clone(), ..AgentContext::default() };
    let error = agent_loop_continue(rested, config(script), sender, Cancel::new()).await.unwrap_err();
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
