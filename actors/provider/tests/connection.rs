//! The connection actor: retries, cancelling, deaths, order. Time is paused where it matters.

mod support;

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use playhouse_protocol::{CallReport, Message, ModelConfig, ProviderError, RetryConfig, StreamConfig, StreamEvent};
use playhouse_provider::{ConnectionMsg, Scripted, Step, StreamProvider, StreamSink};
use support::{Bench, agent, assistant, quick, soon, text_of, until};
use tokio::sync::mpsc;
use tokio::time::Instant;

fn config() -> StreamConfig {
    support::config(ModelConfig::scripted("none.json"))
}

/// What a [`Fake`] does in one attempt.
#[derive(Clone)]
enum Act {
    Say(&'static str),
    Fail(ProviderError),
    Panic,
    /// Streams a piece and waits for ever.
    Hang,
}

/// A provider that acts by list and notes when and with which attempt it was asked.
#[derive(Clone)]
struct Fake {
    acts: Arc<Vec<Act>>,
    asked: Arc<Mutex<Vec<(u32, Instant)>>>,
    /// Requests whose future is alive.
    alive: Arc<AtomicUsize>,
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fake {
    fn new(acts: impl Into<Vec<Act>>) -> Self {
        Self { acts: Arc::new(acts.into()), asked: Arc::default(), alive: Arc::default() }
    }

    fn attempts(&self) -> Vec<u32> {
        self.asked.lock().unwrap().iter().map(|(attempt, _)| *attempt).collect()
    }

    fn times(&self) -> Vec<Instant> {
        self.asked.lock().unwrap().iter().map(|(_, at)| *at).collect()
    }

    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl StreamProvider for Fake {
    fn provider_id(&self) -> &str {
        "fake"
    }

    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        self.alive.fetch_add(1, Ordering::SeqCst);
        let _alive = Alive(self.alive.clone());
        let number = {
            let mut asked = self.asked.lock().unwrap();
            asked.push((config.attempt, Instant::now()));
            asked.len() - 1
        };
        match self.acts.get(number).or(self.acts.last()).cloned().unwrap() {
            Act::Say(text) => {
                for piece in text.split_inclusive(' ') {
                    tx.push(StreamEvent::TextDelta { delta: piece.into() });
                }
                Ok(assistant(text))
            }
            Act::Fail(error) => {
                tx.push(StreamEvent::TextDelta { delta: "half".into() });
                Err(error)
            }
            Act::Panic => panic!("the provider's code is broken"),
            Act::Hang => {
                tx.push(StreamEvent::TextDelta { delta: "half".into() });
                pending().await
            }
        }
    }
}

fn limited(retry_after_ms: Option<u64>) -> ProviderError {
    ProviderError::RateLimited { message: String::new(), retry_after_ms }
}

fn cut() -> ProviderError {
    ProviderError::Incomplete { message: "cut".into() }
}

#[tokio::test]
async fn a_response_is_reported_after_its_deltas_and_nothing_stays() {
    let mut bench = Bench::new(Fake::new([Act::Say("one two three")])).await;
    bench.start("c", config(), quick());
    let mut text = String::new();
    loop {
        match bench.report().await {
            CallReport::Delta { call, attempt: 0, deltas, .. } if call.as_str() == "c" => {
                text.push_str(&text_of(&deltas));
            }
            CallReport::Responded { call, attempt: 0, message } if call.as_str() == "c" => {
                assert_eq!(message.text(), "one two three");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(text, "one two three", "every delta came before the end");
    bench.silence().await;
}

#[tokio::test(start_paused = true)]
async fn f02_retries_are_counted_capped_and_numbered_on() {
    let fake = Fake::new([Act::Fail(cut())]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", StreamConfig { attempt: 5, ..config() }, RetryConfig::default());
    for expected in 5..8 {
        match bench.outcome().await {
            CallReport::Retrying { attempt, error, .. } => assert_eq!((attempt, error), (expected, cut())),
            other => panic!("{other:?}"),
        }
    }
    match bench.outcome().await {
        CallReport::Failed { attempt: 8, error, .. } => assert_eq!(error, cut()),
        other => panic!("{other:?}"),
    }
    assert_eq!(fake.attempts(), [5, 6, 7, 8]);
    let waits: Vec<u128> = fake.times().windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    for (wait, expected) in waits.iter().zip([1_000, 2_000, 4_000]) {
        assert!((expected * 8 / 10..=expected * 12 / 10 + 5).contains(wait), "{waits:?}");
    }
    bench.silence().await;
}

#[tokio::test(start_paused = true)]
async fn f05_the_service_is_given_the_time_it_asks_for() {
    let fake = Fake::new([
        Act::Fail(limited(Some(40_000))),
        Act::Fail(limited(Some(1))),
        Act::Fail(limited(None)),
        Act::Say("ok"),
    ]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", config(), RetryConfig::default());
    let mut announced = Vec::new();
    loop {
        match bench.outcome().await {
            CallReport::Retrying { delay_ms, .. } => announced.push(delay_ms),
            CallReport::Responded { attempt: 3, .. } => break,
            other => panic!("{other:?}"),
        }
    }
    let waits: Vec<u64> =
        fake.times().windows(2).map(|pair| u64::try_from((pair[1] - pair[0]).as_millis()).unwrap()).collect();
    assert_eq!(announced[0], 40_000, "as long as asked");
    assert!(announced[1] >= 1_600, "a short wish does not shorten the backoff");
    assert!((3_200..=4_800).contains(&announced[2]), "without a wish the backoff alone counts");
    for (wait, said) in waits.iter().zip(&announced) {
        assert!((*said..said + 10).contains(wait), "waited {wait}, said {said}");
    }
}

#[tokio::test]
async fn what_cannot_pass_is_not_retried() {
    for error in [
        ProviderError::Auth { message: "no".into() },
        ProviderError::Api { message: "no".into() },
        ProviderError::ContextOverflow { message: "no".into() },
        ProviderError::Other { message: "no".into() },
    ] {
        let fake = Fake::new([Act::Fail(error.clone())]);
        let mut bench = Bench::new(fake.clone()).await;
        bench.start("c", config(), quick());
        match bench.outcome().await {
            CallReport::Failed { attempt: 0, error: told, .. } => assert_eq!(told, error),
            other => panic!("{other:?}"),
        }
        assert_eq!(fake.attempts(), [0]);
    }
}

#[tokio::test]
async fn the_deltas_of_each_attempt_come_before_its_end() {
    let fake = Fake::new([Act::Fail(cut()), Act::Fail(cut()), Act::Say("whole")]);
    let mut bench = Bench::new(fake).await;
    // The credits are kept: a busy agent gets one batch, and the rest with the end of the attempt.
    let mut credits = Vec::new();
    let mut seen = Vec::new();
    bench.start("c", config(), quick());
    loop {
        match bench.report().await {
            CallReport::Delta { attempt, deltas, credit, .. } => {
                seen.push(format!("{attempt} {}", text_of(&deltas)));
                credits.push(credit);
            }
            CallReport::Retrying { attempt, .. } => seen.push(format!("{attempt} again")),
            CallReport::Responded { attempt, .. } => {
                seen.push(format!("{attempt} end"));
                break;
            }
            other @ CallReport::Failed { .. } => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, ["0 half", "0 again", "1 half", "1 again", "2 whole", "2 end"]);
}

#[tokio::test]
async fn f23_a_busy_agent_gets_one_batch_and_then_the_rest() {
    let words: String = (0..5_000).map(|n| format!("{n} ")).collect();
    let mut bench = Bench::new(Fake::new([Act::Say(words.clone().leak())])).await;
    bench.start("c", config(), quick());
    let mut credits = Vec::new();
    let mut batches = Vec::new();
    loop {
        match bench.report().await {
            CallReport::Delta { deltas, credit, .. } => {
                batches.push(text_of(&deltas));
                credits.push(credit);
            }
            CallReport::Responded { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(batches, [words[..2].to_owned(), words[2..].to_owned()]);
}

#[tokio::test]
async fn f21_a_panic_in_a_call_is_lost_and_retried() {
    let fake = Fake::new([Act::Panic, Act::Say("ok")]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", config(), quick());
    match bench.outcome().await {
        CallReport::Retrying { attempt: 0, error: ProviderError::Lost { message }, .. } => {
            assert!(message.contains("the provider's code is broken"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(bench.outcome().await, CallReport::Responded { attempt: 1, .. }));
    assert_eq!(fake.attempts(), [0, 1]);

    let mut bench = Bench::new(Fake::new([Act::Panic])).await;
    bench.start("c", config(), RetryConfig { max_retries: 0, ..quick() });
    assert!(matches!(bench.outcome().await, CallReport::Failed { error: ProviderError::Lost { .. }, .. }));
    bench.silence().await;
}

#[tokio::test]
async fn f26_a_cancelled_stream_is_dropped_and_nothing_more_is_said() {
    let fake = Fake::new([Act::Hang]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", config(), quick());
    assert!(matches!(bench.report().await, CallReport::Delta { .. }));
    assert_eq!((fake.alive(), bench.load()), (1, 1));
    bench.cancel("c");
    until(|| fake.alive() == 0).await;
    bench.silence().await;
    bench.cancel("c");
    bench.cancel("never started");
    bench.silence().await;
}

#[tokio::test(start_paused = true)]
async fn f26_a_call_cancelled_in_its_pause_is_not_tried_again() {
    let fake = Fake::new([Act::Fail(limited(Some(30_000)))]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", config(), RetryConfig::default());
    assert!(matches!(bench.outcome().await, CallReport::Retrying { .. }));
    assert_eq!(bench.load(), 1, "a call that waits counts");
    bench.cancel("c");
    bench.silence().await;
    // Long before the timer would end by itself.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 2, "beside the connection and the agent a timer lives on");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fake.attempts(), [0]);
    bench.silence().await;
}

#[tokio::test]
async fn f26_what_outlives_its_call_cannot_speak() {
    struct Leaky(Arc<Mutex<Option<StreamSink>>>);
    #[async_trait]
    impl StreamProvider for Leaky {
        fn provider_id(&self) -> &str {
            "leaky"
        }
        async fn stream(&self, _: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
            tx.push(StreamEvent::TextDelta { delta: "a".into() });
            tx.push(StreamEvent::TextDelta { delta: "pending".into() });
            *self.0.lock().unwrap() = Some(tx.clone());
            pending().await
        }
    }
    let leak = Arc::new(Mutex::new(None));
    let mut bench = Bench::new(Leaky(leak.clone())).await;
    bench.start("c", config(), quick());
    let first = bench.report().await;
    until(|| leak.lock().unwrap().is_some()).await;
    bench.cancel("c");
    bench.silence().await;
    drop(first);
    let sink = leak.lock().unwrap().take().unwrap();
    sink.push(StreamEvent::TextDelta { delta: "late".into() });
    sink.finish();
    // What the agent has been sent is there once it has answered this.
    bench.agent.drain_and_wait(None).await.unwrap();
    assert!(bench.reports.try_recv().is_err(), "a cancelled call spoke");
}

#[tokio::test]
async fn an_agents_death_cancels_its_calls_and_no_others() {
    let fake = Fake::new([Act::Hang]);
    let mut bench = Bench::new(fake.clone()).await;
    let (other, mut others) = agent().await;
    for call in ["a", "b"] {
        bench.start(call, config(), quick());
    }
    bench.start_for(&other, "theirs", config(), quick());
    until(|| fake.alive() == 3).await;
    bench.agent.kill();
    until(|| fake.alive() == 1).await;
    let load = bench.load.clone();
    until(|| load.load(Ordering::SeqCst) == 1).await;
    assert!(matches!(soon(others.recv()).await, Some(CallReport::Delta { .. })));
    bench.cancel("theirs");
    bench.reports.close();
    until(|| fake.alive() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_agents_death_ends_a_call_that_waits() {
    let fake = Fake::new([Act::Fail(cut())]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", config(), RetryConfig::default());
    assert!(matches!(bench.outcome().await, CallReport::Retrying { .. }));
    bench.agent.stop(None);
    let load = bench.load.clone();
    until(|| load.load(Ordering::SeqCst) == 0).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fake.attempts(), [0]);
}

#[tokio::test]
async fn an_agent_that_is_dead_already_gets_no_call() {
    let fake = Fake::new([Act::Hang, Act::Say("ok")]);
    let mut bench = Bench::new(fake.clone()).await;
    let (dead, _reports) = agent().await;
    dead.stop_and_wait(None, None).await.unwrap();
    bench.start_for(&dead, "c", config(), quick());
    // The connection handles messages in order: when this one is answered, the other was handled.
    bench.start("live", config(), quick());
    assert!(matches!(bench.report().await, CallReport::Delta { call, .. } if call.as_str() == "live"));
    assert_eq!((fake.attempts(), bench.load()), (vec![0], 1));
    bench.cancel("live");
    bench.silence().await;
}

#[tokio::test]
async fn starting_a_call_again_replaces_it_silently() {
    let fake = Fake::new([Act::Hang, Act::Say("second")]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", config(), quick());
    until(|| fake.alive() == 1).await;
    bench.start("c", StreamConfig { attempt: 1, ..config() }, quick());
    match bench.outcome().await {
        CallReport::Responded { attempt: 1, message, .. } => assert_eq!(message.text(), "second"),
        other => panic!("{other:?}"),
    }
    until(|| fake.alive() == 0).await;
    bench.silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_an_earlier_pause_is_stale() {
    let fake = Fake::new([Act::Fail(limited(Some(10_000))), Act::Fail(limited(Some(50_000))), Act::Say("ok")]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", config(), RetryConfig::default());
    assert!(matches!(bench.outcome().await, CallReport::Retrying { delay_ms: 10_000, .. }));
    bench.start("c", config(), RetryConfig::default());
    assert!(matches!(bench.outcome().await, CallReport::Retrying { delay_ms: 50_000, .. }));
    // The first pause's timer, had its message been on its way when the call was started again.
    bench.connection.send_message(ConnectionMsg::RetryDue { call: "c".into(), generation: 1 }).unwrap();
    assert!(matches!(bench.outcome().await, CallReport::Responded { .. }));
    let times = fake.times();
    assert!(times[2] - times[1] >= Duration::from_secs(50));
}

#[tokio::test]
async fn f41_a_connections_death_ends_its_calls_and_gives_back_its_load() {
    let fake = Fake::new([Act::Hang]);
    let bench = Bench::new(fake.clone()).await;
    for call in ["a", "b", "c"] {
        bench.start(call, config(), quick());
    }
    until(|| fake.alive() == 3).await;
    bench.connection.kill();
    until(|| fake.alive() == 0 && bench.load() == 0).await;
}

#[tokio::test]
async fn f41_many_calls_leave_nothing_behind() {
    let fake = Fake::new([Act::Say("a b c")]);
    let mut bench = Bench::new(fake).await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for round in 0..200 {
        bench.start(&format!("c{round}"), config(), quick());
        assert!(matches!(bench.outcome().await, CallReport::Responded { .. }));
    }
    until(|| tokio::runtime::Handle::current().metrics().num_alive_tasks() <= before).await;
    bench.silence().await;
}

#[tokio::test]
async fn a_scripted_model_runs_through_the_same_retries() {
    let steps = [Step::error(429), Step::text("abcdef").cut_after(3), Step::text("abcdef").chunk(1)];
    let mut bench = Bench::new(Scripted::new(steps)).await;
    bench.start("c", config(), quick());
    assert!(matches!(
        bench.outcome().await,
        CallReport::Retrying { attempt: 0, error: ProviderError::RateLimited { .. }, .. }
    ));
    assert!(matches!(
        bench.outcome().await,
        CallReport::Retrying { attempt: 1, error: ProviderError::Incomplete { .. }, .. }
    ));
    match bench.outcome().await {
        CallReport::Responded { attempt: 2, message, .. } => assert_eq!(message.text(), "abcdef"),
        other => panic!("{other:?}"),
    }
}

/// The mailbox of an agent that takes nothing holds one batch of each call, whatever streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f22_a_flood_of_deltas_is_one_batch_in_the_mailbox() {
    struct Flood(mpsc::Sender<()>);
    #[async_trait]
    impl StreamProvider for Flood {
        fn provider_id(&self) -> &str {
            "flood"
        }
        async fn stream(&self, _: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
            for _ in 0..100_000 {
                tx.push(StreamEvent::TextDelta { delta: "x".into() });
            }
            let _ = self.0.send(()).await;
            pending().await
        }
    }
    let (said, mut flooded) = mpsc::channel(1);
    let mut bench = Bench::new(Flood(said)).await;
    bench.start("c", config(), quick());
    let first = bench.report().await;
    soon(flooded.recv()).await.unwrap();
    assert!(bench.reports.try_recv().is_err(), "a second batch while the first was not taken");
    drop(first);
    match bench.report().await {
        CallReport::Delta { deltas, .. } => assert_eq!((deltas.len(), text_of(&deltas).len()), (1, 99_999)),
        other => panic!("{other:?}"),
    }
    bench.cancel("c");
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_waits_for_the_pause_and_for_the_agents_word() {
    let fake = Fake::new([Act::Fail(limited(Some(30_000))), Act::Fail(limited(Some(30_000))), Act::Say("ok")]);
    let mut bench = Bench::new(fake.clone()).await;
    bench.start("c", config(), RetryConfig::default());
    // The word comes long after the pause.
    while !matches!(bench.unjournaled().await, CallReport::Retrying { .. }) {}
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(fake.attempts(), [0]);
    // A word for another attempt is none.
    bench.go_on("c", 2);
    bench.go_on("other", 1);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(fake.attempts(), [0]);
    let at = Instant::now();
    bench.go_on("c", 1);
    // The word comes at once, and twice; the pause is kept.
    assert!(matches!(bench.outcome().await, CallReport::Retrying { .. }));
    bench.go_on("c", 2);
    assert_eq!(at.elapsed(), Duration::ZERO, "the pause counts from the failure");
    assert!(matches!(bench.outcome().await, CallReport::Responded { attempt: 2, .. }));
    assert!(at.elapsed() >= Duration::from_secs(30), "{:?}", at.elapsed());
    bench.silence().await;

    // An agent that dies without the word leaves nothing.
    let mut bench = Bench::new(Fake::new([Act::Fail(cut())])).await;
    bench.start("c", config(), quick());
    while !matches!(bench.unjournaled().await, CallReport::Retrying { .. }) {}
    bench.agent.stop(None);
    bench.silence().await;
}
