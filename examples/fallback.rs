//! A model that fails, another that answers in its place, and two providers of the program's own.
//! `cargo run --example fallback`

use playhouse::prelude::*;
use playhouse::protocol::ApiProtocol;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Anything that implements `StreamProvider` can be given to a house under a name; scripts do here.
    let house = House::builder()
        .provider("broken", Scripted::new([Step::error(500), Step::error(500)]))
        .provider("well", Scripted::new([Step::text("I am still here.")]))
        .open()
        .await?;
    let model = |provider: &str| ModelConfig::new(provider, ApiProtocol::Custom, "m");
    let agent = house
        .agent()
        .model(model("broken"))
        .fallback(model("well")) // more of them are asked in the order given
        .retry(RetryConfig { max_retries: 1, initial_delay_ms: 10, ..RetryConfig::default() })
        .spawn()
        .await?;
    let mut run = agent.run_stream("Is anybody there?").await?;
    while let Some(event) = run.next().await {
        if let AgentEvent::ProviderRetry { attempt, error, .. } = &event.event {
            println!("attempt {attempt}: {error}");
        }
    }
    println!("answer: {}", run.output().await?.text());
    println!("{} messages: failed attempts leave none", agent.state().await?.messages.len());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
