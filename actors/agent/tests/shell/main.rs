//! The agent's actor among writers and connections that the test plays: what happens when one of them is late, fails
//! or dies at the wrong moment. One thread, so that the moments are the test's to choose.

mod players;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use playhouse_agent::machine::InputError;
use playhouse_agent::{Agent, AgentHandle, Definition, HandleError};
use playhouse_protocol::{AgentMessage, Command, EntryBody, InputId, Message, Op, ProviderError, StreamConfig};
use playhouse_provider::{StreamProvider, StreamSink};
use tokio::time::timeout;

use players::{Ask, Theatre, bodies};

async fn soon<T>(wait: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), wait).await.expect("it did not happen in time")
}

fn prompt(id: &str) -> (InputId, Command) {
    let messages = vec![Arc::new(AgentMessage::user("hi", 1))];
    (id.into(), Command::new(id, Op::prompt(messages)))
}

#[tokio::test]
async fn a_new_writer_gets_the_old_batches_before_the_new_ones() {
    let mut theatre = Theatre::new(1).await;
    let first = theatre.writer(0).await;
    let agent = theatre.agent("s").await;
    let telling = tokio::spawn({
        let agent = agent.clone();
        async move { agent.submit(prompt("p").1).await }
    });
    let append = theatre.append().await;
    assert_eq!(append.batch.number, 0);
    // It dies with the batch. The agent has noticed when it answers.
    first.kill_and_wait(None).await.unwrap();
    soon(agent.state()).await.unwrap();
    // The next is there, and before the agent hears of it, it has more to write.
    let _second = theatre.writer(0).await;
    let mut steering = Box::pin(agent.steer("more"));
    assert!(futures::poll!(&mut steering).is_pending());
    let mut numbers = Vec::new();
    while numbers.len() < 2 {
        let append = theatre.append().await;
        if !numbers.contains(&append.batch.number) {
            numbers.push(append.batch.number);
        }
        append.commit();
    }
    assert_eq!(numbers, [0, 1]);
    soon(telling).await.unwrap().unwrap();
    soon(steering).await.unwrap();
}

#[tokio::test]
async fn a_change_of_session_waits_for_the_other_journal_s_writer() {
    let mut theatre = Theatre::new(2).await;
    let (here, there) = theatre.sessions_apart();
    let _writer = theatre.writer(theatre.shard(&here)).await;
    let agent = theatre.agent(here.as_str()).await;
    let steering = tokio::spawn({
        let agent = agent.clone();
        async move { agent.steer("hi").await }
    });
    theatre.append().await.commit();
    soon(steering).await.unwrap().unwrap();

    let rotating = tokio::spawn({
        let (agent, to) = (agent.clone(), there.clone());
        async move { agent.submit(Command::new("r", Op::Rotate { to })).await }
    });
    // Its writer is not there yet, then dies with the batch.
    soon(agent.state()).await.unwrap();
    let other = theatre.writer(theatre.shard(&there)).await;
    let opening = theatre.append().await;
    assert_eq!(opening.session, there);
    other.kill_and_wait(None).await.unwrap();
    let _other = theatre.writer(theatre.shard(&there)).await;
    theatre.append().await.commit();
    let ending = theatre.append().await;
    assert!(matches!(bodies(&ending)[..], [EntryBody::RotatedTo { .. }]), "{ending:?}");
    ending.commit();
    soon(rotating).await.unwrap().unwrap();
    assert_eq!(agent.session_id(), there);
}

/// A prompt is under way when the journal fails.
async fn parked(theatre: &mut Theatre, agent: &AgentHandle) {
    let steering = tokio::spawn({
        let agent = agent.clone();
        async move { agent.steer("more").await }
    });
    theatre.append().await.fail("disk full");
    let refused = soon(steering).await.unwrap();
    assert_eq!(refused, Err(HandleError::Input(InputError::NotJournaled("disk full".into()))));
}

#[tokio::test]
async fn whoever_asks_a_parked_agent_for_a_run_is_told() {
    let mut theatre = Theatre::new(1).await;
    let _writer = theatre.writer(0).await;
    let agent = theatre.agent("s").await;
    let (input_id, input) = prompt("p");
    let telling = tokio::spawn({
        let agent = agent.clone();
        async move { agent.submit(input).await }
    });
    theatre.append().await.commit();
    soon(telling).await.unwrap().unwrap();
    parked(&mut theatre, &agent).await;
    let report = soon(agent.report(&input_id)).await;
    assert!(matches!(report, Err(HandleError::Input(InputError::Parked(_)))), "{report:?}");
}

#[tokio::test]
async fn a_prompt_with_a_sender_ends_when_the_agent_is_parked() {
    let mut theatre = Theatre::new(1).await;
    let _writer = theatre.writer(0).await;
    let agent = theatre.agent("s").await;
    let (events, mut heard) = tokio::sync::mpsc::channel(64);
    let prompting = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt_with_sender("hi", events).await }
    });
    theatre.append().await.commit();
    soon(heard.recv()).await.unwrap();
    parked(&mut theatre, &agent).await;
    let report = soon(prompting).await.unwrap();
    assert!(matches!(report, Err(HandleError::Input(InputError::Parked(_)))), "{report:?}");
}

#[tokio::test]
async fn f54_a_report_on_a_batch_of_before_is_not_taken_for_one_of_now() {
    let mut theatre = Theatre::new(1).await;
    let _writer = theatre.writer(0).await;
    let agent = theatre.agent("s").await;
    let tell = |id: &str| {
        let (agent, input_id) = (agent.clone(), InputId::from(id));
        let message = Arc::new(AgentMessage::user(id, 1));
        tokio::spawn(async move { agent.submit(Command::new(input_id, Op::Steer { message })).await })
    };
    let (one, two) = (tell("one"), tell("two"));
    let (first, late) = (theatre.append().await, theatre.append().await);
    first.fail("disk full");
    soon(one).await.unwrap().unwrap_err();
    soon(two).await.unwrap().unwrap_err();
    // It is told something, reads its journal again and has more to write: twice, as before.
    let (three, four) = (tell("three"), tell("four"));
    let (third, fourth) = (theatre.append().await, theatre.append().await);
    // Only now the writer gets to say what became of the second batch.
    late.fail("disk full");
    soon(agent.state()).await.unwrap();
    third.commit();
    fourth.commit();
    soon(three).await.unwrap().unwrap();
    soon(four).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_parked_agent_has_no_call_under_way() {
    let mut theatre = Theatre::new(1).await;
    let _writer = theatre.writer(0).await;
    let agent = theatre.agent("s").await;
    let telling = tokio::spawn({
        let agent = agent.clone();
        async move { agent.submit(prompt("p").1).await }
    });
    theatre.append().await.commit();
    soon(telling).await.unwrap().unwrap();
    let Ask::Start(call) = theatre.asked().await else { panic!("no call") };
    parked(&mut theatre, &agent).await;
    assert_eq!(theatre.asked().await, Ask::Cancel(call));
}

#[tokio::test]
async fn an_agent_whose_writer_is_given_up_says_so() {
    let theatre = Theatre::new(1).await;
    playhouse_agent::testing::writers(&theatre.house).park("writer/0", "40 restarts are spent");
    let agent = theatre.agent("s").await;
    let told = soon(agent.submit(prompt("p").1)).await;
    let Err(HandleError::Input(InputError::OutcomeUnknown { reason, .. })) = told else { panic!("{told:?}") };
    assert!(reason.contains("40 restarts are spent"), "{reason}");
}

/// A service that cuts every response, and counts its requests.
struct Cuts(Arc<AtomicUsize>);

#[async_trait]
impl StreamProvider for Cuts {
    fn provider_id(&self) -> &str {
        "cuts"
    }

    async fn stream(&self, _: &StreamConfig, _: &StreamSink) -> Result<Message, ProviderError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(ProviderError::Incomplete { message: "cut".into() })
    }
}

/// Far longer than any pause before a retry.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_journaled_before_the_next_one_is_made() {
    let mut theatre = Theatre::new(1).await;
    let _writer = theatre.writer(0).await;
    let requests = Arc::new(AtomicUsize::new(0));
    let definition = Definition { provider_override: Some(Arc::new(Cuts(requests.clone()))), ..Definition::default() };
    let agent = theatre.agent_of("s", definition).await;
    let telling = tokio::spawn(async move { agent.submit(prompt("p").1).await });
    theatre.append().await.commit();
    soon(telling).await.unwrap().unwrap();
    for made in 1..=3 {
        let failed = theatre.append().await;
        assert!(matches!(bodies(&failed)[..], [EntryBody::AttemptFailed { .. }]), "{failed:?}");
        // The disk is slow: the pause is over long before.
        tokio::time::sleep(LONG).await;
        assert_eq!(requests.load(Ordering::SeqCst), made);
        let at = tokio::time::Instant::now();
        failed.commit();
        let count = requests.clone();
        soon(async move {
            while count.load(Ordering::SeqCst) == made {
                tokio::task::yield_now().await;
            }
        })
        .await;
        // The pause counts from the failure, so there is nothing left to wait for.
        assert_eq!(at.elapsed(), Duration::ZERO);
    }
    let given_up = theatre.append().await;
    assert!(matches!(bodies(&given_up)[0], EntryBody::Responded { .. }), "{given_up:?}");
}
