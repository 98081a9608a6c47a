//! An answer that is a value of your own type: asked for by its schema, checked, and asked for once more if it does not
//! fit. `cargo run --example structured`

use playhouse::prelude::*;
use playhouse::schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "playhouse::schemars")]
struct City {
    name: String,
    people: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    let model = Scripted::new([
        Step::text(r#"{"name": "Rome"}"#), // half of it: the agent asks again, with the reason
        Step::text(r#"{"name": "Rome", "people": 2750000}"#),
    ]);
    let agent = house.agent().provider_override(model).spawn().await?;
    let city: City = agent.prompt_as("Which city is the eternal one?").await?;
    println!("{} has {} people", city.name, city.people);
    println!("after {} messages, the repair among them", agent.state().await?.messages.len());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
