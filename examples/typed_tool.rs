//! A tool of your own in a few lines: an `async fn` with a doc comment, and a value of the program's own that it works
//! with. `cargo run --example typed_tool`

use std::collections::HashMap;

use playhouse::prelude::*;

/// What the tool works with, as a pool of connections to a database would be.
struct Stations(HashMap<&'static str, i32>);

/// Says how warm it is in a city, in degrees Celsius.
#[tool(read_only)]
async fn temperature(State(stations): State<Stations>, city: String, day: Option<String>) -> Result<String, String> {
    match stations.0.get(city.as_str()) {
        Some(degrees) => Ok(format!("{}: {degrees} °C", day.unwrap_or("today".to_owned()))),
        None => Err(format!("there is no weather station in {city}; try Rome")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::builder().state(Stations(HashMap::from([("Rome", 24)]))).open().await?;
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
