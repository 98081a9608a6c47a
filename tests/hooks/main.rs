//! Hooks that are commands: real processes, told of real runs. [`commands`] has what they decide, [`failing`] what
//! happens when they don't, [`program`] the same from the user's file; [`code`] has the points that are code's own.

mod code;
mod commands;
mod failing;
#[path = "../support/kit.rs"]
mod kit;
mod program;
#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "the program's tests use more of it")]
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use playhouse::AgentBuilder;
use playhouse::prelude::*;
use serde_json::{Value, json};

use kit::{FnModel, lines, soon};

/// A house with a data directory, and a folder to work in.
struct Set {
    house: House,
    folder: tempfile::TempDir,
}

impl Set {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self { house: open(folder.path()).await, folder }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    /// Writes a script and gives the command that runs it.
    fn hook(&self, name: &str, text: &str) -> CommandHook {
        std::fs::write(self.work().join(name), text).unwrap();
        CommandHook::new(format!("bash {name}"))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap_or_else(|error| panic!("{name}: {error}: {}", self.read(name)))
    }

    fn has(&self, name: &str) -> bool {
        self.work().join(name).exists()
    }

    /// An agent with every tool, which asks nobody, and these hooks.
    fn agent(&self, hooks: Hooks) -> AgentBuilder {
        let agent = self.house.agent().tools(default_tools()).permission(PermissionMode::Yolo);
        agent.cwd(self.work()).durability(Durability::Os).hooks(hooks)
    }

    async fn close(self) {
        soon("the house's end", self.house.shutdown(Duration::ZERO)).await;
    }
}

async fn open(folder: &Path) -> House {
    House::builder().data_dir(folder.join("data")).open().await.unwrap()
}

/// A model that runs one command, then says what came of it.
fn runs(command: &str) -> FnModel {
    let args = json!({"command": command});
    FnModel::new(move |config| match config.response {
        0 => Step::text("").tool_call("bash", args.clone()),
        _ => Step::text("ok"),
    })
}

fn says(text: &'static str) -> FnModel {
    FnModel::new(move |_| Step::text(text))
}

async fn asked(agent: &AgentHandle, prompt: &'static str) -> (Outcome, Vec<String>) {
    let report: Arc<RunReport> = soon("the run", agent.prompt_report(prompt)).await.unwrap();
    (report.outcome.clone(), lines(&report.messages))
}

/// A time that no other process sleeps.
fn unique_sleep() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{}", 40_000 + std::process::id() % 10_000, 1_000 + COUNT.fetch_add(1, Ordering::Relaxed))
}

/// How many processes sleep this long.
fn sleepers(time: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{time}\0");
    lines.filter(|line| line.windows(wanted.len()).any(|part| part == wanted.as_bytes())).count()
}
