//! Other models, other credentials, and conversations that stay usable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use playhouse::prelude::*;
use playhouse::protocol::{ProviderError, StreamConfig};
use playhouse::provider::StreamSink;

use crate::kit::{healthy, rest_of_run, soon};
use crate::service::{Answer, Service, model, says};

fn quick(retries: u32) -> RetryConfig {
    RetryConfig { max_retries: retries, initial_delay_ms: 10, max_delay_ms: 100, ..RetryConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn f07_when_one_model_fails_the_next_answers_in_the_same_turn() {
    let service = Service::new(|_, request| match request.url.host_str() {
        Some("service.example") => Answer::failed(500, "broken"),
        _ => Answer::ok(says("from the second")),
    });
    let house = service.house().open().await.unwrap();
    let mut second = model("other");
    second.base_url = Some("https://second.example/v1".to_owned());
    let agent = house.agent().model(model("m")).fallback(second).retry(quick(2)).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt("hi").await.unwrap();
    assert_eq!((report.text().as_str(), &report.outcome), ("from the second", &Outcome::Stop));
    let hosts: Vec<String> = service.seen().into_iter().map(|request| request.host).collect();
    assert_eq!(hosts, ["service.example", "service.example", "service.example", "second.example"]);
    let (mut retries, mut asked) = (Vec::new(), Vec::new());
    while let Some(event) = events.next().await {
        match &event.event {
            AgentEvent::ModelRequestStart { model, .. } => asked.push(model.to_string()),
            AgentEvent::ProviderRetry { falls_back_on, .. } => {
                retries.push(falls_back_on.as_deref().map(str::to_owned))
            }
            AgentEvent::AgentEnd { .. } => break,
            _ => {}
        }
    }
    assert_eq!(retries, [None, None, Some("openai/other".to_owned())], "each failed attempt is told");
    assert_eq!(asked, ["m", "other"]);
    assert_eq!(agent.state().await.unwrap().messages.len(), 2, "and leaves nothing in the conversation");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_not_waited_for_when_there_is_another_model() {
    let service = Service::new(|_, request| match request.url.host_str() {
        Some("service.example") => Answer::failed(429, "slow down").header("retry-after", 3_600),
        _ => Answer::ok(says("from the second")),
    });
    let house = service.house().open().await.unwrap();
    let mut second = model("other");
    second.base_url = Some("https://second.example/v1".to_owned());
    let builder = house.agent().model(model("m")).fallback(second).retry(quick(2));
    let (one, two) = (builder.clone().spawn().await.unwrap(), builder.spawn().await.unwrap());
    let begun = tokio::time::Instant::now();
    assert_eq!(one.prompt("hi").await.unwrap().text(), "from the second");
    assert_eq!(two.prompt("hi").await.unwrap().text(), "from the second");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let first = service.seen().iter().filter(|request| request.host == "service.example").count();
    assert_eq!(first, 1, "the second agent knew that the gate is closed");
    house.shutdown(Duration::ZERO).await;
}

/// A provider whose first credentials are refused.
#[derive(Clone, Default)]
struct Expiring {
    token: Arc<AtomicUsize>,
    refreshes: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

#[async_trait]
impl StreamProvider for Expiring {
    fn provider_id(&self) -> &str {
        "expiring"
    }

    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let token = self.token.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        if token == 0 {
            return Err(ProviderError::Auth { message: "expired".to_owned() });
        }
        let config = StreamConfig { response: 0, attempt: 0, ..config.clone() };
        Scripted::new([Step::text("welcome")]).stream(&config, tx).await
    }

    async fn refresh(&self) -> Result<bool, ProviderError> {
        self.refreshes.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.token.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    }
}

#[tokio::test(start_paused = true)]
async fn expired_credentials_are_renewed_once_for_everybody() {
    let provider = Expiring::default();
    let house = House::builder().provider("expiring", provider.clone()).open().await.unwrap();
    let model = ModelConfig::new("expiring", playhouse::protocol::ApiProtocol::Custom, "m");
    let builder = house.agent().model(model);
    let mut agents = Vec::new();
    for _ in 0..100 {
        agents.push(builder.clone().spawn().await.unwrap());
    }
    let asked = futures::future::join_all(agents.iter().map(|agent| agent.prompt("hi"))).await;
    assert!(asked.into_iter().all(|report| report.unwrap().text() == "welcome"));
    assert_eq!(provider.refreshes.load(Ordering::SeqCst), 1);
    assert_eq!(provider.requests.load(Ordering::SeqCst), 200);
    house.shutdown(Duration::ZERO).await;
}

/// A provider whose search for other credentials crashes.
struct Crashing;

#[async_trait]
impl StreamProvider for Crashing {
    fn provider_id(&self) -> &str {
        "crashing"
    }

    async fn stream(&self, _: &StreamConfig, _: &StreamSink) -> Result<Message, ProviderError> {
        Err(ProviderError::Auth { message: "expired".to_owned() })
    }

    async fn refresh(&self) -> Result<bool, ProviderError> {
        panic!("of this test's own making")
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_for_credentials_that_crashes_is_an_error_for_who_waits_for_it() {
    crate::kit::be_quiet_about("of this test's own making");
    let house = House::builder().provider("crashing", Crashing).open().await.unwrap();
    let model = ModelConfig::new("crashing", playhouse::protocol::ApiProtocol::Custom, "m");
    let agent = house.agent().model(model).spawn().await.unwrap();
    for _ in 0..2 {
        let report = soon("an answer", agent.prompt_report("hi")).await.unwrap();
        assert!(matches!(&report.outcome, Outcome::Error { message } if message.contains("crashed")), "{report:?}");
    }
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn f07_a_service_that_begins_and_is_then_overloaded_is_asked_no_more_often_than_it_may_be() {
    // Every response begins well and ends in an error.
    let chunk = json!({"id": "x", "model": "m", "choices": [{"index": 0, "delta": {"content": "Let"}}]});
    let error = json!({"error": {"type": "overloaded_error", "message": "busy"}});
    let body = format!("data: {chunk}\n\ndata: {error}\n\n");
    let service = Service::new(move |_, _| Answer::ok(body.clone()));
    let house = service.house().open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    let report = soon("an answer", agent.prompt_report("hi")).await.unwrap();
    assert!(matches!(report.outcome, Outcome::Error { .. }), "{report:?}");
    assert_eq!(service.seen().len(), 4, "one request and three retries");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn f05_a_wait_that_nobody_would_wait_is_told_and_not_waited() {
    let service = Service::new(|_, _| Answer::failed(429, "slow down").header("retry-after", 1_763_200_000_u64));
    let house = service.house().open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    let report = soon("an answer", agent.prompt_report("hi")).await.unwrap();
    assert!(matches!(&report.outcome, Outcome::Error { message } if message.contains("1763200000000")), "{report:?}");
    assert_eq!(service.seen().len(), 1);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn two_keys_for_one_service_are_each_used_for_their_own_model() {
    let service = Service::new(|_, request| match request.headers["authorization"].to_str().unwrap() {
        "Bearer sk-one" => Answer::failed(401, "no"),
        other => Answer::ok(says(other)),
    });
    let house = service.house().open().await.unwrap();
    let with = |id: &str, key: &str| ModelConfig { api_key: Some(Secret::new(key)), ..model(id) };
    let agent = house.agent().model(with("a", "sk-one")).fallback(with("b", "sk-two")).spawn().await.unwrap();
    assert_eq!(soon("an answer", agent.prompt("hi")).await.unwrap().text(), "Bearer sk-two");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_settings_that_is_refused_changes_nothing_about_the_run() {
    let service = Service::new(|_, _| Answer::ok(says("hello")).streaming(Duration::from_secs(100)));
    let house = service.house().open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt_report("hi").await });
    while !matches!(events.next().await.unwrap().event, AgentEvent::MessageUpdate { .. }) {}
    let mut settings = agent.state().await.unwrap().settings;
    settings.model =
        Arc::new(ModelConfig { api_key: Some(Secret::new("sk-another-key")), ..(*settings.model).clone() });
    agent.configure(settings).await.unwrap_err();
    agent.abort().await.unwrap();
    assert_eq!(soon("the end", run).await.unwrap().unwrap().outcome, Outcome::Aborted);
    // The call was cancelled: nothing is on its way any more.
    let connection = house.tree().into_iter().find(|node| node.kind == "connection").unwrap();
    assert_eq!(connection.queue_depth, 0);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_refused_is_said_and_not_tried_again() {
    let service = Service::new(|_, _| Answer::failed(401, r#"{"error":{"message":"bad key"}}"#));
    let house = service.house().open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    let report = agent.prompt_report("hi").await.unwrap();
    assert!(matches!(&report.outcome, Outcome::Error { message } if message.contains("refused the key")), "{report:?}");
    assert_eq!(service.seen().len(), 1);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn f11_empty_answers_end_in_an_error_and_the_next_prompt_is_answered() {
    let service = Service::new(|number, _| match number {
        0..3 => Answer::ok(says("")),
        _ => Answer::ok(says("hello")),
    });
    let house = service.house().open().await.unwrap();
    let agent = house.agent().model(model("m")).spawn().await.unwrap();
    let report = agent.prompt_report("hi").await.unwrap();
    assert_eq!(report.outcome, Outcome::Error { message: "the model gave an empty answer".to_owned() });
    assert_eq!(report.usage.total(), 42, "three answers were paid for");
    assert_eq!(agent.prompt("again").await.unwrap().text(), "hello");
    let roles: Vec<Value> =
        service.seen()[3].body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["user", "user"], "a failed turn leaves no message behind");
    soon("a healthy state", healthy(&agent)).await;
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn costs_are_counted_for_turns_and_runs_and_unknown_is_unknown() {
    let service = Service::new(|_, _| Answer::ok(says("hello")));
    let house = service.house().open().await.unwrap();
    let mut priced = model("m");
    priced.prices = Some(playhouse::protocol::Prices { input: 1_000_000, output: 2_000_000, ..Default::default() });
    let agent = house.agent().model(priced).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt("hi").await.unwrap();
    assert_eq!(report.usage.cost.unwrap().nano_dollars, 18_000, "ten tokens in at one, four out at two dollars");
    let told = rest_of_run(&mut events).await;
    let usages = told.iter().filter_map(|event| match &event.event {
        AgentEvent::TurnEnd { usage, .. } | AgentEvent::AgentEnd { usage, .. } => Some(*usage),
        _ => None,
    });
    assert_eq!(usages.collect::<Vec<_>>(), [report.usage; 2], "a run of one turn");
    let unpriced = house.agent().model(model("m")).spawn().await.unwrap();
    let report = unpriced.prompt("hi").await.unwrap();
    assert_eq!((report.usage.total(), report.usage.cost), (14, None));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn streams_that_break_off_do_not_keep_the_others_out() {
    // Every stream of the one model breaks off; the other model answers all the while.
    let service = Service::new(|_, request| match String::from_utf8_lossy(&request.body).contains("\"cut\"") {
        true => Answer::ok("data: {\"id\": \"x\", \"choices\": []}\n\n"),
        false => Answer::ok(says("hello")),
    });
    let house = service.house().open().await.unwrap();
    let cut = house.agent().model(model("cut")).retry(quick(9)).spawn().await.unwrap();
    let report = soon("an answer", cut.prompt_report("hi")).await.unwrap();
    assert!(matches!(report.outcome, Outcome::Error { .. }), "{report:?}");
    assert_eq!(service.seen().len(), 10);
    let well = house.agent().model(model("well")).spawn().await.unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(soon("an answer", well.prompt("hi")).await.unwrap().text(), "hello");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn while_a_service_is_probed_a_call_that_can_falls_back_at_once() {
    // Five failures; after that the service takes requests and says nothing.
    let service = Service::new(|number, request| match (request.url.host_str(), number) {
        (Some("service.example"), 0..5) => Answer { status: 0, ..Answer::failed(0, "refused") },
        (Some("service.example"), _) => Answer { wait: Duration::from_secs(100), ..Answer::ok(says("late")) },
        _ => Answer::ok(says("from the second")),
    });
    let house = service.house().open().await.unwrap();
    let first = house.agent().model(model("m")).retry(quick(9)).spawn().await.unwrap();
    let probing = tokio::spawn(async move { first.prompt("hi").await });
    let probed = || service.seen().len() > 5;
    while !probed() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut second = model("other");
    second.base_url = Some("https://second.example/v1".to_owned());
    let agent = house.agent().model(model("m")).fallback(second).spawn().await.unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(agent.prompt("hi").await.unwrap().text(), "from the second");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(probing.await.unwrap().unwrap().text(), "late");
    house.shutdown(Duration::ZERO).await;
}
