//! What a tool call costs through the whole pipeline, beside the operation itself.
//!
//! A scripted model calls one tool, at durability `os`: each call is vetted, journaled, run by an executor, and its result
//! journaled. What is measured is the time from the end of a response to the next question to the model. Turns differ
//! only in their calls, 1 and 20, so the difference between the two medians is that of the calls, without the model and
//! the turn. BenchHouse have few turns: what a long conversation costs is measured elsewhere.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use playhouse::prelude::*;
use playhouse::protocol::{ProviderError, StreamConfig, ToolExecutionStrategy, lock};
use playhouse::provider::StreamSink;
use playhouse::tools::default_tools;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::hand::Error;
use crate::meter::Used;

/// How many calls more a turn of the longer run has.
const MORE: usize = 19;
/// How many turns an agent has.
const TURNS: usize = 3;
/// Files in the tree that is searched.
const FILES: usize = 1_000;
/// What is searched for; one line in fifty files has it.
const NEEDLE: &str = "the needle";

/// What each tool call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A tool that does nothing: the pipeline alone.
    Nothing,
    /// `read_file` of a file of 1 KB.
    ReadSmall,
    /// `read_file` of a file of 1 MB.
    ReadLarge,
    /// `edit_file` of a file of 1 KB.
    Edit,
    /// `search` in a thousand files.
    Search,
    /// `bash` that runs `true`: what a process costs.
    Bash,
}

impl Operation {
    /// In the order of the table.
    pub const ALL: [Self; 6] = [Self::Nothing, Self::ReadSmall, Self::ReadLarge, Self::Edit, Self::Search, Self::Bash];

    /// Reads run as they do for everybody; what is compared with one that is done by hand runs one at a time, as that does.
    fn strategy(self) -> ToolExecutionStrategy {
        match self {
            Self::Nothing | Self::ReadSmall | Self::ReadLarge => ToolExecutionStrategy::Parallel,
            Self::Edit | Self::Search | Self::Bash => ToolExecutionStrategy::Sequential,
        }
    }

    /// The program that it is compared with, if that may be missing.
    pub fn compared_with(self) -> Option<&'static str> {
        match self {
            Self::Search => Some("rg"),
            Self::Nothing | Self::ReadSmall | Self::ReadLarge | Self::Edit | Self::Bash => None,
        }
    }

    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "a call that does nothing",
            Self::ReadSmall => "`read_file` 1 KB, over the raw read",
            Self::ReadLarge => "`read_file` 1 MB, over the raw read",
            Self::Edit => "`edit_file` 1 KB, beside write and rename",
            Self::Search => "`search` in 1,000 files, beside ripgrep",
            Self::Bash => "`bash true`, beside spawning it",
        }
    }
}

/// Measures one operation: `by_hand` is the seconds of one done by hand, and `wall` those of one call.
pub async fn measure(operation: Operation, turns: usize) -> Result<Used, Error> {
    let tools = ToolHouse::open(operation).await?;
    // Once to make what is made once, and to give files the age at which they are trusted.
    tools.run(1, 1).await?;
    if matches!(operation, Operation::ReadSmall | Operation::ReadLarge) {
        tokio::time::sleep(Duration::from_millis(2_100)).await;
    }
    let by_hand = tools.by_hand(turns.max(2)).await?;
    let (mut few, mut many) = (Vec::new(), Vec::new());
    let each = turns.clamp(1, TURNS);
    for _ in 0..turns.div_ceil(each) {
        few.extend(tools.run(each, 1).await?);
        many.extend(tools.run(each, 1 + MORE).await?);
    }
    let wall = median(&mut many).saturating_sub(median(&mut few)).as_secs_f64() / MORE as f64;
    tools.house.shutdown(Duration::from_secs(1)).await;
    Ok(Used { by_hand, wall, ..Used::default() })
}

/// A house, and a folder to work in.
struct ToolHouse {
    operation: Operation,
    house: House,
    folder: TempDir,
    _data: TempDir,
}

impl ToolHouse {
    async fn open(operation: Operation) -> Result<Self, Error> {
        let (folder, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
        match operation {
            Operation::Nothing | Operation::Bash => {}
            Operation::ReadSmall => std::fs::write(folder.path().join("file.txt"), lines(1_000))?,
            Operation::ReadLarge => std::fs::write(folder.path().join("file.txt"), lines(1_000_000))?,
            Operation::Edit => std::fs::write(folder.path().join("file.txt"), format!("count: 0\n{}", lines(1_000)))?,
            Operation::Search => tree(folder.path())?,
        }
        let house = House::builder().data_dir(data.path()).open().await?;
        Ok(Self { operation, house, folder, _data: data })
    }

    /// One run of an agent of its own; gives the time of each turn between response and next question.
    async fn run(&self, turns: usize, calls: usize) -> Result<Vec<Duration>, Error> {
        if self.operation == Operation::Edit {
            std::fs::write(self.folder.path().join("file.txt"), format!("count: 0\n{}", lines(1_000)))?;
        }
        let mut script = Vec::new();
        for turn in 0..turns {
            let calls: Vec<Value> = (0..calls).map(|call| self.call(turn * calls + call)).collect();
            script.push(json!({"tool_calls": calls}));
        }
        script.push(json!({"text": "done"}));
        let script = Scripted::from_json(&json!({"turns": script}).to_string())?;
        let pauses: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let script = Timed { script, answered: Mutex::default(), pauses: pauses.clone() };
        let mut tools = default_tools();
        tools.push(Arc::new(Nothing));
        let agent = self.house.agent().provider_override(script).tools(tools).permission(PermissionMode::Yolo);
        let agent = agent.tool_execution(self.operation.strategy()).limits(ExecutionLimits::none());
        let agent = agent.durability(Durability::Os).cwd(self.folder.path()).spawn().await?;
        let report = agent.prompt("go").await?;
        let failed = report.messages.iter().find_map(|message| match message.llm()? {
            message @ Message::ToolResult { is_error: true, .. } => Some(message.text()),
            _ => None,
        });
        if let Some(failed) = failed {
            return Err(format!("a call failed: {failed}").into());
        }
        if report.text() != "done" {
            return Err(format!("a run ended with {:?}", report.outcome).into());
        }
        if self.operation == Operation::Edit {
            let written = std::fs::read_to_string(self.folder.path().join("file.txt"))?;
            let expected = format!("count: {}\n", turns * calls);
            if !written.starts_with(&expected) {
                return Err("an edit is missing".into());
            }
        }
        self.house.dismiss(agent.id()).await;
        Ok(std::mem::take(&mut lock(&pauses)))
    }

    fn call(&self, number: usize) -> Value {
        let (name, arguments) = match self.operation {
            Operation::Nothing => ("nothing", json!({"path": "file.txt"})),
            Operation::ReadSmall | Operation::ReadLarge => ("read_file", json!({"path": "file.txt"})),
            Operation::Edit => {
                let (old, new) = (format!("count: {number}\n"), format!("count: {}\n", number + 1));
                ("edit_file", json!({"path": "file.txt", "edits": [{"old_text": old, "new_text": new}]}))
            }
            Operation::Search => ("search", json!({"pattern": NEEDLE})),
            Operation::Bash => ("bash", json!({"command": "true"})),
        };
        json!({"name": name, "arguments": arguments})
    }

    /// The seconds of the operation itself, as a program would do it that does nothing else; none where there is no such
    /// program.
    async fn by_hand(&self, times: usize) -> Result<Option<f64>, Error> {
        let path = self.folder.path().join("file.txt");
        let mut all = Vec::new();
        for number in 0..times {
            let started = Instant::now();
            match self.operation {
                Operation::Nothing => return Ok(None),
                Operation::ReadSmall | Operation::ReadLarge => {
                    std::hint::black_box(std::fs::read_to_string(&path)?);
                }
                Operation::Edit => {
                    let text = std::fs::read_to_string(&path)?;
                    let draft = path.with_extension("draft");
                    std::fs::write(&draft, text.replacen("count: ", &format!("count: {number}"), 1))?;
                    std::fs::rename(&draft, &path)?;
                }
                Operation::Search => {
                    let mut command = std::process::Command::new("rg");
                    command.args(["--line-number", "--no-heading", NEEDLE]).current_dir(self.folder.path());
                    match command.stdin(Stdio::null()).output() {
                        Ok(output) if output.status.success() => {}
                        Ok(output) => return Err(format!("ripgrep ended with {}", output.status).into()),
                        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                        Err(error) => return Err(format!("ripgrep did not start: {error}").into()),
                    }
                }
                Operation::Bash => {
                    let mut command = tokio::process::Command::new("bash");
                    command.args(["-c", "true"]).stdin(Stdio::null()).current_dir(self.folder.path());
                    command.output().await?;
                }
            }
            all.push(started.elapsed());
        }
        Ok(Some(median(&mut all).as_secs_f64()))
    }
}

/// A model that is not measured: it notes when it has answered and when it is asked again.
struct Timed {
    script: Scripted,
    answered: Mutex<Option<Instant>>,
    pauses: Arc<Mutex<Vec<Duration>>>,
}

#[async_trait]
impl StreamProvider for Timed {
    fn provider_id(&self) -> &str {
        self.script.provider_id()
    }

    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        let asked = Instant::now();
        if let Some(answered) = lock(&self.answered).take() {
            lock(&self.pauses).push(asked.duration_since(answered));
        }
        let message = self.script.stream(config, tx).await?;
        *lock(&self.answered) = Some(Instant::now());
        Ok(message)
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// So many bytes in lines of fifty.
fn lines(bytes: usize) -> String {
    let line = "All the world's a stage, and all of us players in.\n";
    line.chars().cycle().take(bytes).collect()
}

/// A tree like that of a program: a thousand files of 4 KB in fifty folders.
fn tree(folder: &Path) -> Result<(), Error> {
    for number in 0..FILES {
        let below = folder.join(format!("part-{}/module-{}", number % 10, number % 50));
        std::fs::create_dir_all(&below)?;
        let mut text = lines(4_000);
        if number % 50 == 0 {
            text.push_str(&format!("\n{NEEDLE} is here\n"));
        }
        std::fs::write(below.join(format!("file-{number}.rs")), text)?;
    }
    Ok(())
}

/// A tool that does nothing: what is measured is the way to it and back.
struct Nothing;

#[async_trait]
impl Tool for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn description(&self) -> &str {
        "Does nothing."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
    }

    fn effect(&self, _: &Value) -> EffectClass {
        EffectClass::Read
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text("nothing"))
    }
}
