//! Many agents on one key.

use std::time::Duration;

use playhouse::prelude::*;
use playhouse::provider::{BreakerRules, ConnectionRules};
use tokio::time::Instant;

use crate::service::{Answer, Service, model, says};

async fn agents(house: &House, many: usize) -> Vec<AgentHandle> {
    let builder = house.agent().model(model("m"));
    let mut agents = Vec::new();
    for _ in 0..many {
        agents.push(builder.clone().spawn().await.unwrap());
    }
    agents
}

/// Prompts all at once; gives how each ended.
async fn prompt_all(agents: &[AgentHandle]) -> Vec<Outcome> {
    let asked = agents.iter().map(|agent| agent.prompt("hi"));
    let ended = futures::future::join_all(asked).await;
    ended.into_iter().map(|report| report.unwrap().outcome.clone()).collect()
}

fn state(house: &House) -> Value {
    let connection = house.tree().into_iter().find(|node| node.kind == "connection").unwrap();
    connection.detail.unwrap()
}

#[tokio::test(start_paused = true)]
async fn f05_f06_a_thousand_agents_wait_for_a_limited_key_and_one_goes_first() {
    const WAIT: u64 = 7;
    // The first fifty are answered; whoever else came with them is told to wait. After that the service is well, and
    // takes its time: the probe streams for three seconds.
    let service = Service::new(|number, _| match number {
        0..50 => Answer::ok(says("hello")),
        50..1_000 => Answer::failed(429, "slow down").header("retry-after", WAIT),
        1_000 => Answer::ok(says("hello")).streaming(Duration::from_secs(3)),
        _ => Answer::ok(says("hello")),
    });
    let house = service.house().open().await.unwrap();
    let agents = agents(&house, 1_000).await;
    let outcomes = prompt_all(&agents).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Stop), "all finish");

    let seen = service.seen();
    assert_eq!(seen.len(), 1_950, "nobody asked more often than it had to");
    let limited_at = seen[999].at + Duration::from_millis(100);
    let after: Vec<Instant> = seen[1_000..].iter().map(|request| request.at).collect();
    let early = after.iter().filter(|at| **at < limited_at + Duration::from_secs(WAIT)).count();
    assert_eq!(early, 0, "no request leaves early");
    // The probe's head comes after 100 ms, and with it the first half of its text.
    let probe_answers = after[0] + Duration::from_millis(100);
    let before_the_answer = after.iter().filter(|at| **at < probe_answers).count();
    assert_eq!(before_the_answer, 1, "one probe goes first");
    let at_once = after.iter().filter(|at| **at <= probe_answers + Duration::from_millis(50)).count();
    assert!(at_once <= 3, "the others do not storm in behind it: {at_once}");
    let took = after.last().unwrap().duration_since(after[0]);
    assert!(took < Duration::from_secs(3), "nor do they crawl, or wait for the probe's end: {took:?}");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn f06_a_service_that_takes_a_hundred_a_second_gets_a_thousand_done_and_nobody_fails() {
    // Ten at first and a hundred more each second; whoever comes too early is told to wait a second.
    let begun = Instant::now();
    let bucket = std::sync::Mutex::new((10.0_f64, begun));
    let service = Service::new(move |_, _| {
        let mut bucket = bucket.lock().unwrap();
        let now = Instant::now();
        let level = (bucket.0 + now.duration_since(bucket.1).as_secs_f64() * 100.0).min(100.0);
        *bucket = if level >= 1.0 { (level - 1.0, now) } else { (level, now) };
        match level >= 1.0 {
            true => Answer::ok(says("hello")),
            false => Answer::failed(429, "slow down").header("retry-after", 1),
        }
    });
    let house = service.house().open().await.unwrap();
    let agents = agents(&house, 1_000).await;
    let outcomes = prompt_all(&agents).await;
    let failed = outcomes.iter().filter(|outcome| **outcome != Outcome::Stop).count();
    let (requests, took) = (service.seen().len(), begun.elapsed());
    assert_eq!(failed, 0, "after {took:?} and {requests} requests");
    assert!(requests < 3_000, "{requests} requests for a thousand answers");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn requests_at_once_are_limited_and_the_tree_shows_who_waits() {
    let service = Service::new(|_, _| Answer::ok(says("hello")));
    let rules = ConnectionRules { concurrency: std::num::NonZeroUsize::new(3), ..ConnectionRules::default() };
    let house = service.house().connection_rules(rules).open().await.unwrap();
    let agents = agents(&house, 10).await;
    let all = prompt_all(&agents);
    let look = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        state(&house)
    };
    let (outcomes, seen) = tokio::join!(all, look);
    assert_eq!((seen["in_flight"].clone(), seen["queued"].clone()), (json!(3), json!(7)), "{seen}");
    assert_eq!(seen["breaker"], json!({"state": "closed"}));
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Stop));
    let starts: Vec<u128> = service
        .seen()
        .iter()
        .map(|request| request.at.duration_since(service.seen()[0].at).as_millis() / 100)
        .collect();
    assert_eq!(starts, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_is_in_the_tree_with_its_time() {
    let service = Service::new(|number, _| match number {
        0 => Answer::failed(429, "slow down").header("retry-after", 20),
        _ => Answer::ok(says("hello")),
    });
    let house = service.house().open().await.unwrap();
    let agents = agents(&house, 2).await;
    let look = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        state(&house)
    };
    let late = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        agents[1].prompt("hi").await
    };
    let (first, second, seen) = tokio::join!(agents[0].prompt("hi"), late, look);
    assert_eq!(seen["gate_closed"][0]["model"], "m");
    assert!(seen["gate_closed"][0]["until"].as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(seen["queued"], 1, "the second waits with the first: {seen}");
    assert!(seen["last_error"].as_str().unwrap().contains("rate limited"));
    assert_eq!((first.unwrap().text(), second.unwrap().text()), ("hello".to_owned(), "hello".to_owned()));
    assert_eq!(state(&house)["gate_closed"], json!([]));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn f07_a_service_that_is_down_is_left_alone_probed_and_taken_up_again() {
    // Down for 25 seconds.
    let begun = Instant::now();
    let service = Service::new(move |_, _| match begun.elapsed() < Duration::from_secs(25) {
        true => Answer { status: 0, ..Answer::failed(0, "connection refused") },
        false => Answer::ok(says("hello")),
    });
    let breaker = BreakerRules { failures: 5, pause: Duration::from_secs(10), max_pause: Duration::from_secs(120) };
    let rules = ConnectionRules { breaker, ..ConnectionRules::default() };
    let house = service.house().connection_rules(rules).open().await.unwrap();
    let agents = agents(&house, 100).await;
    let look = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        state(&house)
    };
    let (outcomes, seen) = tokio::join!(prompt_all(&agents), look);
    assert_eq!(seen["breaker"]["state"], "open", "{seen}");
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Stop), "{outcomes:?}");
    // A hundred at once, before anybody could know; then one probe at a time until it is well.
    let down: Vec<Duration> = service.seen().iter().map(|request| request.at.duration_since(begun)).collect();
    let probes = down.iter().filter(|at| **at > Duration::from_secs(1) && **at < Duration::from_secs(25)).count();
    assert!((1..=3).contains(&probes), "{probes} probes while it was down");
    assert_eq!(state(&house)["breaker"], json!({"state": "closed"}));
    house.shutdown(Duration::ZERO).await;
}
