use super::*;
use playhouse_protocol::{AgentEvent, EventId, SessionId, TurnTrigger};

fn event(agent: &str) -> Event {
    Event {
        id: EventId::default(),
        agent_id: agent.into(),
        session_id: SessionId::new(agent).unwrap(),
        loop_id: None,
        timestamp: Default::default(),
        event: AgentEvent::TurnStart { turn_index: 0, triggered_by: TurnTrigger::User },
    }
}

fn heard(subscription: &mut Subscription) -> Vec<String> {
    std::iter::from_fn(|| subscription.try_next()).map(|event| event.agent_id.to_string()).collect()
}

#[test]
fn a_tree_hears_what_is_beneath_and_an_agent_only_itself() {
    let hub = Hub::default();
    let parent = hub.topic(&"parent".into());
    let child = hub.topic_beneath(&"child".into(), &parent);
    let grandchild = hub.topic_beneath(&"grandchild".into(), &child);
    let other = hub.topic(&"other".into());
    let (mut own, mut tree) = (parent.subscribe(RING, Scope::Own), parent.subscribe(RING, Scope::Tree));
    let mut all = hub.house().subscribe(RING, Scope::Tree);
    for (topic, agent) in [(&parent, "parent"), (&child, "child"), (&grandchild, "grandchild"), (&other, "other")] {
        topic.publish(event(agent));
    }
    assert_eq!(heard(&mut own), ["parent"]);
    assert_eq!(heard(&mut tree), ["parent", "child", "grandchild"]);
    assert_eq!(heard(&mut all), ["parent", "child", "grandchild", "other"]);
}

#[test]
fn ten_thousand_subscribers_come_and_go_and_nothing_is_left() {
    let hub = Hub::default();
    let topic = hub.topic(&"a".into());
    for round in 0..10 {
        let mut there: Vec<Subscription> =
            (0..1_000).map(|n| topic.subscribe(RING, if n % 2 == 0 { Scope::Own } else { Scope::Tree })).collect();
        topic.publish(event("a"));
        assert!(there.iter_mut().all(|one| heard(one) == ["a"]), "in round {round}");
        assert_eq!((topic.subscribers(), topic.trees.load(Ordering::Acquire)), (1_000, 500));
    }
    assert_eq!((topic.subscribers(), topic.trees.load(Ordering::Acquire)), (0, 0));
    assert_eq!(topic.listeners().rings.capacity(), 0);
    hub.close(&"a".into());
    assert!(hub.is_empty());
    assert_eq!(Arc::strong_count(&topic), 1, "somebody still holds the topic");
}

#[tokio::test]
async fn whoever_subscribes_to_an_agent_that_is_gone_gets_the_end() {
    let hub = Hub::default();
    let topic = hub.topic(&"a".into());
    let mut before = topic.subscribe(RING, Scope::Own);
    topic.publish(event("a"));
    hub.close(&"a".into());
    let mut after = topic.subscribe(RING, Scope::Own);
    assert_eq!(after.next().await, None);
    assert_eq!(before.next().await.map(|event| event.agent_id.to_string()).as_deref(), Some("a"));
    assert_eq!(before.next().await, None);
}

#[tokio::test]
async fn callbacks_may_block_and_panic_and_are_called_with_everything_before_the_end() {
    let hub = Hub::default();
    let topic = hub.topic(&"a".into());
    let (seen, hears) = std::sync::mpsc::channel();
    let calls = AtomicUsize::new(0);
    let callback: Callback = Arc::new(move |event: &Event| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("the first event is too much");
        }
        std::thread::sleep(Duration::from_millis(5));
        seen.send(event.agent_id.to_string()).unwrap();
    });
    hub.call_back(&topic, std::slice::from_ref(&callback));
    hub.call_back(&topic, &[callback]);
    assert_eq!(topic.subscribers(), 1, "a second start adds none");
    for _ in 0..20 {
        topic.publish(event("a"));
    }
    hub.end(Duration::from_secs(30)).await;
    assert_eq!(hears.try_iter().count(), 19);
}
