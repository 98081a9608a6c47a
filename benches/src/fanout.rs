//! One agent's events to many subscribers: how long it takes until everyone has them all.

use playhouse::agent::Hub;
use playhouse::protocol::{AgentEvent, AgentId, Event, EventId, Seq, SessionId, TurnTrigger};
use tokio::task::JoinSet;

use crate::hand::Error;
use crate::meter::{Meter, Used};

/// Publishes `events` events, in bursts that fit a ring, to `subscribers` that read them all.
pub async fn measure(subscribers: usize, events: u64) -> Result<Used, Error> {
    const BURST: u64 = 512;
    let agent = AgentId::from("agent");
    let topic = Hub::default().topic(&agent);
    let (read, mut bursts) = tokio::sync::mpsc::channel::<()>(subscribers.max(1));
    let mut all = JoinSet::new();
    for _ in 0..subscribers {
        let (mut subscription, read) = (topic.subscribe(1_024, playhouse::agent::Scope::Own), read.clone());
        all.spawn(async move {
            for n in 1..=events {
                match subscription.next().await.map(|event| event.id.seq) {
                    Some(Seq(seq)) if seq == n => {}
                    other => return Err(format!("event {n} was to come, and {other:?} came")),
                }
                if n % BURST == 0 || n == events {
                    // The other end is there until all have read everything.
                    let _ = read.send(()).await;
                }
            }
            Ok(())
        });
    }
    let session = SessionId::new("session")?;
    let meter = Meter::start();
    for n in 1..=events {
        topic.publish(Event {
            id: EventId { seq: Seq(n), k: 0 },
            agent_id: agent.clone(),
            session_id: session.clone(),
            loop_id: None,
            timestamp: Default::default(),
            event: AgentEvent::TurnStart { turn_index: 0, triggered_by: TurnTrigger::User },
        });
        if n % BURST == 0 || n == events {
            for _ in 0..subscribers {
                bursts.recv().await;
            }
        }
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    Ok(meter.read())
}
