//! A hundred agents at once on one connection, while some of them crash. `cargo run --example hundred_agents`

use futures::future::try_join_all;
use playhouse::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    let model = std::sync::Arc::new(Scripted::new([
        Step::text("Looking.").tool_call("list_files", json!({})),
        Step::text("Done."),
    ]));
    let mut agents = Vec::new();
    for n in 0..100 {
        let shared = Definition { provider_override: Some(model.clone()), ..Definition::default() };
        agents.push(house.agent().id(format!("agent-{n}")).definition(shared).tools(default_tools()).spawn().await?);
    }
    let runs = try_join_all(agents.iter().map(|agent| agent.prompt("Look around.")));
    let crashes = try_join_all(agents.iter().step_by(10).map(|agent| agent.crash()));
    let (outputs, _) = tokio::try_join!(runs, crashes)?;
    let done = outputs.iter().filter(|output| output.text() == "Done." && output.outcome == Outcome::Stop).count();
    let connections = house.tree().iter().filter(|node| node.kind == "connection").count();
    println!("{done} of {} answered over {connections} connection; 10 were made to crash", agents.len());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
