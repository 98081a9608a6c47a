//! A tool of your own: a name, a schema, and what it does. `cargo run --example custom_tool`

use playhouse::prelude::*;

struct Dice;

#[async_trait]
impl Tool for Dice {
    fn name(&self) -> &str {
        "roll_dice"
    }

    fn description(&self) -> &str {
        "Rolls a die and says what came up."
    }

    fn parameters_schema(&self) -> Value {
        let sides = json!({"type": "integer", "minimum": 2, "description": "How many sides it has"});
        json!({"type": "object", "properties": {"sides": sides}, "required": ["sides"]})
    }

    /// After a crash it may simply be rolled again.
    fn effect(&self, _args: &Value) -> EffectClass {
        EffectClass::Read
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        ctx.progress("it rolls");
        // Loaded, so that this example always says the same.
        Ok(ToolResult::text(format!("{} came up", args["sides"])))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let house = House::in_memory().await?;
    let model = Scripted::new([
        Step::text("A die without sides.").tool_call("roll_dice", json!({})),
        Step::text("Then one with twenty.").tool_call("roll_dice", json!({"sides": 20})),
        Step::text("Twenty! What luck."),
    ]);
    let agent = house.agent().provider_override(model).tool(Dice).spawn().await?;
    let output = agent.prompt("Roll for me.").await?;
    for message in &output.messages {
        if let Some(message @ Message::ToolResult { is_error, .. }) = message.llm() {
            println!("{} {}", if *is_error { "refused:" } else { "result:" }, message.text());
        }
    }
    println!("{}", output.text());
    house.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
