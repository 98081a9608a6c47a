//! Playhouse at the same work, through its front door: a house with a data directory, durability `os`, the OpenAI
//! provider, one tool.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use playhouse::prelude::*;
use playhouse::provider::ConnectionRules;
use serde_json::Value;
use tempfile::TempDir;

use crate::checkpoint::Checkpoint;
use crate::hand::Error;
use crate::wire;

/// A house on a data directory of its own.
#[derive(Debug)]
pub struct BenchHouse {
    house: House,
    data: TempDir,
}

impl BenchHouse {
    /// Opens a house that makes so many requests at once.
    pub async fn open(at_once: Option<NonZeroUsize>) -> Result<Self, Error> {
        let data = tempfile::tempdir()?;
        let rules = ConnectionRules { concurrency: at_once, ..ConnectionRules::default() };
        let house = House::builder().data_dir(data.path()).connection_rules(rules).open().await?;
        Ok(Self { house, data })
    }

    /// Starts so many agents; `checkpoint` is told of every tool call.
    pub async fn spawn(
        &self,
        agents: usize,
        port: u16,
        model: &str,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<AgentHandle>, Error> {
        let mut config = ModelConfig::openai(model, Secret::new("sk-bench"));
        config.base_url = Some(format!("http://127.0.0.1:{port}/v1"));
        let tool: Arc<dyn Tool> = Arc::new(Lookup { checkpoint: checkpoint.clone() });
        let definition = Definition { tools: Some(ToolSet::new(vec![tool])?), ..Definition::default() };
        let mut all = Vec::with_capacity(agents);
        for _ in 0..agents {
            let agent = self.house.agent().definition(definition.clone()).model(config.clone());
            let agent =
                agent.system_prompt(wire::SYSTEM_PROMPT).durability(Durability::Os).limits(ExecutionLimits::none());
            all.push(agent.spawn().await?);
        }
        Ok(all)
    }

    /// Prompts one agent and gives its answer.
    pub async fn converse(agent: &AgentHandle) -> Result<String, Error> {
        let report = agent.prompt(wire::PROMPT).await?;
        match &report.outcome {
            Outcome::Stop => Ok(report.text()),
            other => Err(format!("a run ended with {other:?}").into()),
        }
    }

    /// Closes the house and removes its data.
    pub async fn close(self) {
        self.house.shutdown(Duration::from_secs(1)).await;
        drop(self.data);
    }
}

/// The tool, as a user of Playhouse would write it.
struct Lookup {
    checkpoint: Checkpoint,
}

#[async_trait]
impl Tool for Lookup {
    fn name(&self) -> &str {
        wire::TOOL
    }

    fn description(&self) -> &str {
        wire::TOOL_DESCRIPTION
    }

    fn parameters_schema(&self) -> Value {
        wire::tool_schema()
    }

    fn effect(&self, _: &Value) -> EffectClass {
        EffectClass::Read
    }

    async fn execute(&self, args: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        let number = args.get("number").and_then(Value::as_u64).unwrap_or_default();
        self.checkpoint.called(number).await;
        let word = args.get("word").and_then(Value::as_str).unwrap_or_default();
        Ok(ToolResult::text(wire::tool_answer(word, number)))
    }
}
