//! A policy of the program's own: it judges every call before anyone is asked. `cargo run --example policy`

use playhouse::prelude::*;

/// Money moves by day only, and in small amounts.
struct Treasurer {
    hour: u8,
}

#[async_trait]
impl PermissionPolicy for Treasurer {
    async fn check(&self, request: &PolicyRequest) -> Ruling {
        match (request.tool_name.as_str(), request.args["amount"].as_u64()) {
            ("pay", Some(amount)) if amount <= 100 && self.hour < 18 => Ruling::Allow { by: "the treasurer".into() },
            ("pay", _) => Ruling::Forbid { reason: "at most 100, and before six o'clock".to_owned() },
            _ => request.ours.clone(), // what the rules and the mode say
        }
    }
}

/// Pays someone.
#[tool(ask = "move money")]
async fn pay(to: String, amount: u64) -> String {
    format!("{to} has {amount}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    let model = Scripted::new([
        Step::text("").tool_call("pay", json!({"to": "Ann", "amount": 5_000})),
        Step::text("").tool_call("pay", json!({"to": "Ann", "amount": 50})),
        Step::text("Ann has her money."),
    ]);
    let agent = house.agent().provider_override(model).tool(pay).policy(Treasurer { hour: 11 }).spawn().await?;
    let output = agent.prompt("Pay Ann.").await?;
    for message in output.messages.iter().filter_map(|message| message.llm()) {
        if let Message::ToolResult { is_error, .. } = message {
            println!("{}: {}", if *is_error { "refused" } else { "paid" }, message.text());
        }
    }
    println!("{}", output.text());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
