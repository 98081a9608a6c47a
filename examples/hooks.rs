//! Code at points of a run: before a tool, after it, and when the model would stop. `cargo run --example hooks`

use playhouse::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hooks = Hooks::new()
        .before_tool_execution(|call| async move {
            match call.args["path"].as_str() {
                Some(path) if path.ends_with(".env") => Decision::Deny("that file is nobody's business".to_owned()),
                _ => Decision::Allow,
            }
        })
        .after_tool_execution(|done| async move { println!("{} is done", done.name) })
        .after_loop(|report| async move { println!("the run took {} tokens", report.usage.total()) });
    let house = House::in_memory().await?;
    let model = Scripted::new([
        Step::text("").tool_call("read_file", json!({"path": ".env"})),
        Step::text("").tool_call("list_files", json!({})),
        Step::text("I looked at what I may see."),
    ]);
    let agent = house.agent().provider_override(model).tools(default_tools()).hooks(hooks).spawn().await?;
    let output = agent.prompt("Look around.").await?;
    for message in output.messages.iter().filter_map(|message| message.llm()) {
        if let Message::ToolResult { is_error: true, .. } = message {
            println!("refused: {}", message.text());
        }
    }
    println!("{}", output.text());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
