//! A real model, tools, a sub-agent and journals on disk. Needs `ANTHROPIC_API_KEY`.

use playhouse::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::builder().data_dir("./data").open().await?;
    let key = Secret::new(std::env::var("ANTHROPIC_API_KEY")?); // never journaled
    let mut model = ModelConfig::anthropic("claude-sonnet-4-5", key);
    model.base_url = std::env::var("ANTHROPIC_BASE_URL").ok(); // Anthropic's own if it is not set
    let agent = house
        .agent()
        .model(model)
        .tools(default_tools()) // read_file, list_files, search, edit_file, write_file, bash
        .sub_agent(SubAgentTool::new("researcher"))
        .approvals(Approvals::Watcher) // bash and writing ask, and whoever watches answers
        .spawn()
        .await?;
    let mut run = agent.run_stream("What is in this folder?").await?; // outlives the agent's crashes
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { delta }, .. } => print!("{delta}"),
            AgentEvent::PermissionRequired { permission_id, args, .. } => {
                eprintln!("allowing {args}");
                run.respond_permission(permission_id.clone(), PermissionDecision::Allow).await?;
            }
            _ => {}
        }
    }
    println!("\n{} tokens", run.output().await?.usage.total());
    house.shutdown(std::time::Duration::from_secs(10)).await;
    Ok(())
}
