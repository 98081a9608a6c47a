//! What one child process does, and what it answers: one line of JSON.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use playhouse::protocol::{Durability, lock};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::checkpoint::Checkpoint;
use crate::decode::Format;
use crate::hand::{Error, Hand};
use crate::house::BenchHouse;
use crate::meter::{Meter, Used, cpu};
use crate::tools::{self, Operation};
use crate::{decode, fanout, idle, journal, mock};

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The loop written by hand, on the same HTTP client.
    Hand,
    /// Playhouse.
    House,
}

/// A conversation, many times at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Talk {
    /// Who talks with the model.
    pub side: Side,
    /// Where the mock server is.
    pub port: u16,
    /// How many at once.
    pub agents: usize,
    /// Which replies, see [`crate::wire`].
    pub model: String,
    /// Measure only from one tool call of all conversations to another.
    pub between: Option<(u64, u64)>,
    /// How many requests at once, if that is limited.
    #[serde(default)]
    pub at_once: Option<NonZeroUsize>,
}

/// What one child process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Task {
    /// The model service, until its input is closed.
    Mock,
    /// Conversations with the model service.
    Talk(Talk),
    /// Responses from bytes to events.
    Decode {
        /// The protocol of the responses.
        format: Format,
        /// How many deltas each.
        deltas: usize,
        /// How many bytes in all.
        bytes: usize,
    },
    /// BenchHouse that have answered one prompt and wait.
    Idle {
        /// How many agents there are.
        agents: usize,
    },
    /// One agent's events to many subscribers.
    Fanout {
        /// How many get every event.
        subscribers: usize,
        /// How many events the agent has.
        events: u64,
    },
    /// Records of many sessions through the writers.
    Journal {
        /// Whether each append is flushed.
        durability: Durability,
        /// How many sessions are written at once.
        sessions: usize,
        /// How many records each.
        records: u64,
    },
    /// Tool calls, one after the other.
    Tools {
        /// What each call does.
        operation: Operation,
        /// In how many turns.
        turns: usize,
    },
}

/// Does what `task` says and gives what it used. Both sides get the same runtime.
pub fn perform(task: Task) -> Result<Used, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match task {
            Task::Mock => {
                mock::serve().await;
                Ok(Used::default())
            }
            Task::Talk(talk) => converse(&talk).await,
            Task::Decode { format, deltas, bytes } => decode::measure(format, deltas, bytes),
            Task::Idle { agents } => idle::measure(agents).await,
            Task::Fanout { subscribers, events } => fanout::measure(subscribers, events).await,
            Task::Journal { durability, sessions, records } => journal::measure(durability, sessions, records).await,
            Task::Tools { operation, turns } => tools::measure(operation, turns).await,
        }
    })
}

async fn converse(talk: &Talk) -> Result<Used, Error> {
    let marks: Arc<Mutex<Vec<f64>>> = Arc::default();
    let checkpoint = match talk.between {
        None => Checkpoint::none(),
        Some((from, to)) => {
            let marks = marks.clone();
            Checkpoint::at(&[from, to], talk.agents, move |_| {
                lock(&marks).push(cpu().as_secs_f64());
            })
        }
    };
    let mut used = match talk.side {
        Side::Hand => by_hand(talk, &checkpoint).await?,
        Side::House => by_house(talk, &checkpoint).await?,
    };
    if let [from, to] = lock(&marks).as_slice() {
        used.cpu = to - from;
    }
    Ok(used)
}

async fn by_hand(talk: &Talk, checkpoint: &Checkpoint) -> Result<Used, Error> {
    let hand = Arc::new(Hand::new(talk.port)?);
    // The first request makes what is made once.
    hand.converse("tools-1", &Checkpoint::none()).await?;
    let meter = Meter::start();
    let mut all = JoinSet::new();
    for _ in 0..talk.agents {
        let (hand, model, checkpoint) = (hand.clone(), talk.model.clone(), checkpoint.clone());
        all.spawn(async move { hand.converse(&model, &checkpoint).await });
    }
    ended(all).await?;
    Ok(meter.read())
}

async fn by_house(talk: &Talk, checkpoint: &Checkpoint) -> Result<Used, Error> {
    let house = BenchHouse::open(talk.at_once).await?;
    for first in house.spawn(1, talk.port, "tools-1", &Checkpoint::none()).await? {
        BenchHouse::converse(&first).await?;
    }
    let before = Meter::start();
    let agents = house.spawn(talk.agents, talk.port, &talk.model, checkpoint).await?;
    let meter = Meter::start();
    let mut all = JoinSet::new();
    for agent in agents {
        all.spawn(async move { BenchHouse::converse(&agent).await });
    }
    ended(all).await?;
    // What an agent holds from its start counts as memory; the time until it is there does not count as its turns'.
    let used = Used { cpu: meter.read().cpu, wall: meter.read().wall, ..before.read() };
    house.close().await;
    Ok(used)
}

async fn ended(mut all: JoinSet<Result<String, Error>>) -> Result<(), Error> {
    while let Some(done) = all.join_next().await {
        let text = done??;
        if text.is_empty() {
            return Err("a conversation ended without an answer".into());
        }
    }
    Ok(())
}
