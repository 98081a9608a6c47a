//! An agent dies twice: its actor in the middle of a run, then its whole house. The conversation goes on.
//! `cargo run --example restart`

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use playhouse::prelude::*;

/// What an agent of this kind is made of. Another process that registers the same kind can go on with its sessions.
fn counter() -> Definition {
    let answers = ["One.", "Two.", "Three."].map(Step::text);
    Definition { provider_override: Some(Arc::new(Scripted::new(answers))), ..Definition::default() }
}

async fn open(folder: &std::path::Path) -> Result<House, Box<dyn std::error::Error>> {
    Ok(House::builder().data_dir(folder).kind("counter", |_| ready(Ok(counter()))).open().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let house = open(folder.path()).await?;
    let agent = house.agent().kind("counter").definition(counter()).spawn().await?;
    println!("{}", agent.prompt("Count.").await?.text());

    agent.crash().await?; // its supervisor brings it back; the handle stays good
    println!("{} (after its actor crashed)", agent.prompt("Go on.").await?.text());

    let session = agent.session_id();
    house.shutdown(Duration::ZERO).await; // the house ends, and with it everything in memory
    let house = open(folder.path()).await?;
    let agent = house.resume(&session).await?;
    println!("{} (in another house)", agent.prompt("Go on.").await?.text());
    println!("{} messages, none lost", agent.state().await?.messages.len());
    house.shutdown(Duration::ZERO).await;
    Ok(())
}
