//! The smallest program, without what the command line needs.

use playhouse::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    let model = Scripted::new([Step::text("Hello from outside.")]);
    let agent = house.agent().provider_override(model).spawn().await?;
    println!("{}", agent.prompt("Say hello.").await?.text());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
