//! BenchHouse that have answered one prompt and wait for the next: how many bytes each.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use playhouse::prelude::*;

use crate::hand::Error;
use crate::meter::{Meter, Used};

/// How many are prompted at once.
const AT_ONCE: usize = 256;

/// Starts agents, lets each answer one prompt, and keeps them all.
pub async fn measure(agents: usize) -> Result<Used, Error> {
    let house = House::in_memory().await?;
    let model: Arc<dyn StreamProvider> = Arc::new(Scripted::new([Step::text("Here, and listening.")]));
    let definition = Definition { provider_override: Some(model), ..Definition::default() };
    // The first agent makes what is made once.
    answered(&house, &definition).await?;
    let meter = Meter::start();
    let waiting: Vec<AgentHandle> = stream::iter((0..agents).map(|_| answered(&house, &definition)))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let used = meter.read();
    let alive = house.agents().len();
    if alive != agents + 1 {
        return Err(format!("{alive} agents are alive, {} should be", agents + 1).into());
    }
    drop(waiting);
    Ok(used)
}

async fn answered(house: &House, definition: &Definition) -> Result<AgentHandle, Error> {
    let agent = house.agent().definition(definition.clone()).spawn().await?;
    match agent.prompt("Are you there?").await?.outcome {
        Outcome::Stop => Ok(agent),
        ref other => Err(format!("a run ended with {other:?}").into()),
    }
}
