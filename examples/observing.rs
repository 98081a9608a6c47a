//! Three ways to observe: a callback, a broadcast to many, a stream with a hand on the run.
//! `cargo run --example observing`

use playhouse::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    let model = Scripted::new([
        Step::text("May I?").tool_call("bash", json!({"command": "sh -c 'echo from a real shell'"})),
        Step::text("Thank you."),
    ]);
    let agent = house
        .agent()
        .provider_override(model)
        .tools(default_tools())
        .approvals(Approvals::Watcher) // whoever watches answers
        // 1. A callback. It may block: the house has threads for callbacks alone.
        .on_event(|event| {
            if let AgentEvent::ToolExecutionEnd { summary, .. } = &event.event {
                println!("callback:  {summary}");
            }
        })
        .enable_broadcast(256)
        .spawn()
        .await?;

    // 2. A broadcast. Everyone who subscribes has a ring of its own, and outlives the agent's crashes.
    let mut consumers = Vec::new();
    for n in 1..=2 {
        let mut events = agent.subscribe();
        consumers.push(tokio::spawn(async move {
            let end = events.end_of_run().await;
            println!("consumer {n}: {}", if end.is_some() { "saw the end" } else { "saw nothing" });
        }));
    }

    // 3. A stream, which can answer, steer and cancel.
    let mut run = agent.run_stream("Say hello from a shell.").await?;
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::PermissionRequired { permission_id, args, .. } => {
                println!("stream:    allows {}", args["command"]);
                run.respond_permission(permission_id.clone(), PermissionDecision::Allow).await?;
            }
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { delta }, .. } => println!("stream:    {delta}"),
            _ => {}
        }
    }
    let output: std::sync::Arc<AgentOutput> = run.output().await?;
    for consumer in consumers {
        consumer.await?;
    }

    // What a late or slow reader missed is in the journal.
    let events = house.events(&output.session_id, None).await?;
    println!("journal:   {} events, the last of them {}", events.len(), events[events.len() - 1].id);
    house.shutdown(std::time::Duration::ZERO).await; // waits for callbacks
    Ok(())
}
