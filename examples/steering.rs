//! Speaking into a run: a steer comes between two tools, a follow-up when the run would stop.
//! `cargo run --example steering`

use std::sync::Arc;

use playhouse::prelude::*;
use tokio::sync::Notify;

/// A tool that works until it is told to go on, so that there is a run to speak into.
struct Dig(Arc<Notify>);

#[async_trait]
impl Tool for Dig {
    fn name(&self) -> &str {
        "dig"
    }

    fn description(&self) -> &str {
        "Digs a hole."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(&self, _args: Value, _ctx: ToolContext) -> Result<ToolResult, ToolError> {
        self.0.notified().await;
        Ok(ToolResult::text("a hole"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    let model = Scripted::new([
        Step::text("Digging.").tool_call("dig", json!({})).tool_call("dig", json!({})),
        Step::text("I stopped after the first."),
        Step::text("Filled in again."),
    ]);
    let go_on = Arc::new(Notify::new());
    let agent = house
        .agent()
        .provider_override(model)
        .tool(Dig(go_on.clone()))
        .tool_execution(ToolExecutionStrategy::Sequential)
        .spawn()
        .await?;
    let mut run = agent.run_stream("Dig two holes.").await?;
    while let Some(event) = run.next().await {
        if let AgentEvent::ToolExecutionStart { .. } = event.event {
            // Both are in the journal when these return; neither interrupts the tool that runs.
            agent.steer("One is enough.").await?;
            agent.follow_up("Now fill it in.").await?;
            go_on.notify_one();
            break;
        }
    }
    for message in run.output().await?.messages.iter().filter_map(|message| message.llm()) {
        match message {
            Message::User { .. } => println!("you:   {}", message.text()),
            Message::Assistant { .. } => println!("agent: {}", message.text()),
            Message::ToolResult { .. } => println!("tool:  {}", message.text()),
        }
    }
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
