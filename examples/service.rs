//! A service: 200 customers, each with an agent and a session of its own, that answers whoever writes. An agent that
//! waits costs little, and one that crashes is back before its customer notices. `cargo run --example service`

use std::sync::Arc;

use futures::future::try_join_all;
use playhouse::prelude::*;

/// What all clerks share, as a pool of connections to a database would be.
struct Desk {
    open: u32,
}

#[tool]
impl Desk {
    /// Looks up how many orders a customer has.
    #[tool(read_only)]
    async fn orders(&self, customer: u32) -> u32 {
        self.open + customer % 3
    }
}

/// The kind of agent that every customer gets: this process and the next one make it alike.
fn clerk() -> Result<Definition, String> {
    let model =
        Scripted::new([Step::text("").tool_call("orders", json!({"customer": 7})), Step::text("You have two.")]);
    let tools = ToolSet::new(Desk { open: 1 }.tools()).map_err(|error| error.to_string())?;
    Ok(Definition { tools: Some(tools), provider_override: Some(Arc::new(model)), ..Definition::default() })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let house = House::builder().data_dir(folder.path()).kind("clerk", |_| async { clerk() }).open().await?;
    let mut clerks = Vec::new();
    for customer in 0..200 {
        clerks.push(house.agent().id(format!("customer-{customer}")).kind("clerk").spawn().await?);
    }
    let answers = try_join_all(clerks.iter().map(|clerk| clerk.prompt("How many orders do I have?")));
    let crashes = try_join_all(clerks.iter().step_by(20).map(|clerk| clerk.crash()));
    let (answers, _) = tokio::try_join!(answers, crashes)?;
    let right = answers.iter().filter(|answer| answer.text() == "You have two.").count();
    println!("{right} of {} customers were answered; 10 clerks crashed on the way", clerks.len());
    println!("{} sessions are kept", house.sessions().await?.len());
    house.shutdown(std::time::Duration::from_secs(10)).await;
    Ok(())
}
