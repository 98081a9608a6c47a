//! How a run ends, and what the library, lists and `resume` make of it: the table of docs/outcomes.md.

#[path = "support/kit.rs"]
mod kit;

use std::sync::Arc;
use std::time::Duration;

use kit::{FnModel, saying, soon};
use playhouse::agent::StructuredError;
use playhouse::prelude::*;
use playhouse::protocol::{LimitHit, ProviderError, StopReason, StreamConfig};
use playhouse::provider::StreamSink;
use playhouse::session::SessionStatus;
use playhouse::{AgentContext, AgentLoopConfig, agent_loop};
use serde_json::json;
use tokio::sync::mpsc;

/// A filter that lets nothing through.
struct Closed;

#[async_trait]
impl InputFilter for Closed {
    async fn filter(&self, _: &[Arc<AgentMessage>]) -> FilterVerdict {
        FilterVerdict::Reject("closed".to_owned())
    }
}

/// A model that runs into its output limit.
struct Cut;

#[async_trait]
impl StreamProvider for Cut {
    fn provider_id(&self) -> &str {
        "cut"
    }

    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        let mut message = Scripted::new([Step::text("cut o")]).stream(config, tx).await?;
        if let Message::Assistant { stop_reason, .. } = &mut message {
            *stop_reason = StopReason::Length;
        }
        Ok(message)
    }
}

/// A builder whose runs end in a way of their own, and that way.
fn cases(house: &House) -> Vec<(AgentBuilder, Outcome)> {
    let agent = |script: &str| house.agent().provider_override(Scripted::from_json(script).unwrap());
    let refused = r#"{"turns":[{"error":{"status":401,"message":"bad key"}}]}"#;
    let calls = r#"{"turns":[{"tool_calls":[{"name":"bash","arguments":{"command":"true"}}]}]}"#;
    let limits = ExecutionLimits { max_turns: Some(1), ..ExecutionLimits::default() };
    let halted = Outcome::Halted { reason: "before_loop: the hook said no".to_owned() };
    let answer = r#"{"turns":[{"text":"ok"}]}"#;
    vec![
        (agent(answer), Outcome::Stop),
        (house.agent().provider_override(Cut), Outcome::Length),
        (agent(refused), Outcome::Error { message: "the provider refused the key: HTTP 401: bad key".to_owned() }),
        (agent(calls).limits(limits), Outcome::Limit { limit: LimitHit::Turns(1) }),
        (agent(answer).hooks(Hooks::new().before_loop(|_| async { false })), halted),
        (agent(answer).hooks(Hooks::new().input_filter(Closed)), Outcome::Rejected { reason: "closed".to_owned() }),
    ]
}

/// The outcome, wherever it is told.
fn outcome(told: &Result<Arc<RunReport>, HandleError>) -> (bool, Outcome) {
    match told {
        Ok(report) => (true, report.outcome.clone()),
        Err(HandleError::Failed(report)) => (false, report.outcome.clone()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_run_without_an_answer_is_an_error_with_its_report_inside() {
    let house = House::in_memory().await.unwrap();
    for (builder, expected) in cases(&house) {
        let is_ok = matches!(expected, Outcome::Stop | Outcome::Length);
        let agent = builder.spawn().await.unwrap();
        let told = soon("an end", agent.prompt("go")).await;
        assert_eq!(outcome(&told), (is_ok, expected.clone()));
        if let Err(error) = &told {
            assert_eq!(error.to_string(), expected.to_string());
        }
    }
    for (builder, expected) in cases(&house) {
        let is_ok = matches!(expected, Outcome::Stop | Outcome::Length);
        let agent = builder.spawn().await.unwrap();
        let stream = agent.run_stream("go").await.unwrap();
        assert_eq!(outcome(&soon("an end", stream.output()).await), (is_ok, expected));
    }
    for (builder, expected) in cases(&house) {
        let is_ok = matches!(expected, Outcome::Stop | Outcome::Length);
        let agent = builder.spawn().await.unwrap();
        let (sender, mut events) = mpsc::channel(1_000);
        assert_eq!(outcome(&soon("an end", agent.prompt_with_sender("go", sender)).await), (is_ok, expected));
        let mut last = None;
        while let Ok(event) = events.try_recv() {
            last = Some(event);
        }
        assert!(matches!(last.unwrap().event, AgentEvent::AgentEnd { .. }));
    }
}

#[tokio::test]
async fn whoever_wants_the_report_alone_asks_for_it() {
    let house = House::in_memory().await.unwrap();
    for (builder, expected) in cases(&house) {
        let agent = builder.spawn().await.unwrap();
        assert_eq!(soon("an end", agent.prompt_report("go")).await.unwrap().outcome, expected);
    }
    for (builder, expected) in cases(&house) {
        let agent = builder.spawn().await.unwrap();
        let stream = agent.run_stream("go").await.unwrap();
        assert_eq!(soon("an end", stream.report()).await.unwrap().outcome, expected);
    }
}

#[tokio::test]
async fn a_value_comes_of_a_whole_answer_only() {
    let house = House::in_memory().await.unwrap();
    for (builder, expected) in cases(&house).into_iter().skip(1) {
        let agent = builder.spawn().await.unwrap();
        let told = soon("an end", agent.prompt_as::<u32>("go")).await;
        let Err(StructuredError::NoAnswer(report)) = told else { panic!("{expected:?}: {told:?}") };
        assert_eq!(report.outcome, expected);
    }
}

#[tokio::test]
async fn the_loop_as_a_function_follows_the_same_rule() {
    let script = r#"{"turns":[{"error":{"status":401}}]}"#;
    let provider: Arc<dyn StreamProvider> = Arc::new(Scripted::from_json(script).unwrap());
    let definition = Definition { provider_override: Some(provider), ..Definition::default() };
    let config = AgentLoopConfig { definition, ..AgentLoopConfig::default() };
    let (sender, _events) = mpsc::channel(1_000);
    let cancel = playhouse::protocol::Cancel::new();
    let told = agent_loop(vec![AgentMessage::user("go", 1)], AgentContext::default(), config, sender, cancel).await;
    let error = told.unwrap_err().to_string();
    assert!(error.starts_with("the run failed: "), "{error}");
}

#[tokio::test]
async fn a_session_whose_question_nobody_has_answered_waits() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path()).open().await.unwrap();
    let script = Scripted::new([Step::text("").tool_call("bash", json!({"command": "touch x"})), Step::text("ok")]);
    let agent = house.agent().provider_override(script).tools(default_tools()).approvals(Approvals::Watcher);
    let agent = agent.cwd(folder.path()).spawn().await.unwrap();
    let mut run = agent.run_stream("go").await.unwrap();
    let question = loop {
        let event = soon("a question", run.next()).await.unwrap();
        if let AgentEvent::PermissionRequired { permission_id, .. } = &event.event {
            break permission_id.clone();
        }
    };
    let status = house.session(&agent.session_id()).await.unwrap().status;
    let SessionStatus::Waiting { question: asked } = &status else { panic!("{status:?}") };
    assert_eq!(asked, "run a shell command");
    run.respond_permission(question, PermissionDecision::Deny { reason: "no".to_owned() }).await.unwrap();
    assert_eq!(soon("the answer", run.output()).await.unwrap().text(), "ok");
    assert_eq!(house.session(&agent.session_id()).await.unwrap().status, SessionStatus::Done);
    house.shutdown(std::time::Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parents_time_stands_still_while_its_sub_agent_waits_for_a_person() {
    const LIMIT: Duration = Duration::from_secs(3);
    let house = House::in_memory().await.unwrap();
    let model = FnModel::new(|config| match (&*config.first_prompt, config.response) {
        ("begin", 0) => Step::text("").tool_call("middle", json!({"task": "pass it on"})),
        ("pass it on", 0) => Step::text("").tool_call("helper", json!({"task": "do it"})),
        ("do it", 0) => Step::text("").tool_call("risky", json!({})),
        _ => Step::text("done"),
    });
    let tools = Some(ToolSet::new(vec![Arc::new(saying("risky", "did it").asks("sure?"))]).unwrap());
    let helper = SubAgentTool::new("helper").with_definition(Definition { tools, ..Definition::default() });
    let sub_agents = vec![Arc::new(helper)];
    let middle = SubAgentTool::new("middle").with_definition(Definition { sub_agents, ..Definition::default() });
    let limits = ExecutionLimits { max_duration: Some(LIMIT), ..ExecutionLimits::default() };
    let agent = house
        .agent()
        .provider_override(model)
        .sub_agent(middle)
        .limits(limits)
        // A person who thinks for longer than the run may take.
        .approvals(Approvals::code(|_| async {
            tokio::time::sleep(LIMIT + Duration::from_secs(1)).await;
            PermissionDecision::Allow
        }))
        .spawn()
        .await
        .unwrap();
    assert_eq!(soon("the run", agent.prompt("begin")).await.unwrap().text(), "done");
    house.shutdown(Duration::ZERO).await;
}
