//! An agent that hands work to helpers of its own: two at once, each with its own journal.
//! `cargo run --example sub_agent`

use playhouse::prelude::*;
use playhouse::provider::When;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    // One script for everyone: a step says whose it is.
    let model = Scripted::new([
        Step::text("I'll ask.")
            .tool_call("researcher", json!({"task": "How high is the tower?"}))
            .tool_call("researcher", json!({"task": "How old is the tower?"})),
        Step::text("It is 330 m high and was finished in 1889."),
        Step::text("330 m.").when(When::prompt("How high")),
        Step::text("1889.").when(When::prompt("How old")),
    ]);
    let researcher = SubAgentTool::new("researcher")
        .with_description("Finds out one thing.")
        .with_system_prompt("You answer in two words.");
    let agent = house.agent().provider_override(model).sub_agent(researcher).spawn().await?;
    let mut events = agent.subscribe_tree(); // its own events and its helpers'
    let output = agent.prompt("Tell me about the tower.").await?;
    let mut answers = Vec::new();
    while let Some(event) = events.try_next() {
        if let AgentEvent::AgentEnd { messages, .. } = &event.event
            && event.agent_id != *agent.id()
        {
            answers.extend(messages.last().and_then(|message| message.llm()).map(|message| message.text()));
        }
    }
    answers.sort();
    println!("helpers: {}", answers.join(" "));
    println!("agent:   {}", output.text());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
