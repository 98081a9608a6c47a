//! A tool of your own in a few lines: an `async fn` with a doc comment. `cargo run --example typed_tool`

use playhouse::prelude::*;

/// Says how warm it is in a city, in degrees Celsius.
#[tool(read_only)]
async fn temperature(city: String, day: Option<String>) -> Result<String, String> {
    match city.as_str() {
        "Rome" => Ok(format!("{}: 24 °C", day.unwrap_or("today".to_owned()))),
        other => Err(format!("there is no weather station in {other}; try Rome")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    let model = Scripted::new([
        Step::text("").tool_call("temperature", json!({"town": "Rome"})),
        Step::text("").tool_call("temperature", json!({"city": "Atlantis"})),
        Step::text("").tool_call("temperature", json!({"city": "Rome", "day": "tomorrow"})),
        Step::text("Pack something light."),
    ]);
    let agent = house.agent().provider_override(model).tool(temperature).spawn().await?;
    let output = agent.prompt("What shall I pack?").await?;
    for message in &output.messages {
        if let Some(message @ Message::ToolResult { is_error, .. }) = message.llm() {
            println!("{} {}", if *is_error { "refused:" } else { "result:" }, message.text());
        }
    }
    println!("{}", output.text());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
