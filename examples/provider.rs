//! A provider of the program's own: anything that can answer a conversation. `cargo run --example provider`

use playhouse::prelude::*;
use playhouse::protocol::{ApiProtocol, ProviderError, StreamConfig, StreamEvent};
use playhouse::provider::StreamSink;

/// Answers with what it was told, backwards.
struct Mirror;

#[async_trait]
impl StreamProvider for Mirror {
    fn provider_id(&self) -> &str {
        "mirror"
    }

    // One attempt: retries, the rate limit and the journal are the house's.
    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        let last = config.sendable().last().map(|message| message.text()).unwrap_or_default();
        if last.is_empty() {
            return Err(ProviderError::Other { message: "there is nothing to mirror".to_owned() });
        }
        let answer: String = last.chars().rev().collect();
        tx.push(StreamEvent::TextDelta { delta: answer.clone() }); // as many as there are pieces
        Ok(Message::assistant([Content::text(answer)], 0))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::builder().provider("mirror", Mirror).open().await?;
    let agent = house.agent().model(ModelConfig::new("mirror", ApiProtocol::Custom, "glass")).spawn().await?;
    println!("{}", agent.prompt("stressed").await?.text());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
