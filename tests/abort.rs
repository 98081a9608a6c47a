//! How long an abort takes, from every state in which a run can be. Measured from the call of `abort` until both it has
//! returned and the run's `AgentEnd` was seen.

#[path = "support/kit.rs"]
mod kit;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::{FnModel, Gate, healthy, soon, wait_for};
use playhouse::agent::{Hub, Scope};
use playhouse::prelude::*;
use playhouse::protocol::AgentId;
use playhouse::tools::Bash;
use serde_json::json;
use tokio::sync::Barrier;

/// How many runs are aborted in each state.
const ABORTS: usize = 200;
/// What the median must keep, and what no more than one in a hundred may exceed even on a busy machine.
const TARGET: Duration = Duration::from_millis(250);
const BUSY: Duration = Duration::from_secs(1);

/// Numbers that no other process sleeps for.
static SLEEPS: AtomicU64 = AtomicU64::new(0);

fn nap() -> u64 {
    1_000_000 + u64::from(std::process::id()) * 1_000 + SLEEPS.fetch_add(1, Ordering::Relaxed)
}

/// A shell command that leaves two processes behind, one of them in a session of its own, and waits.
fn naps() -> String {
    format!("sleep {} & setsid sleep {} & sleep {}", nap(), nap(), nap())
}

/// How many processes of a command are alive.
async fn sleeping(command: &str) -> usize {
    let command = command.to_owned();
    tokio::task::spawn_blocking(move || count(&command)).await.unwrap()
}

fn count(command: &str) -> usize {
    let naps: Vec<&str> = command.split(|c: char| !c.is_ascii_digit()).filter(|nap| !nap.is_empty()).collect();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut words = line.split('\0');
        (words.next()? == "sleep" && naps.contains(&words.next()?)).then_some(())
    });
    processes.count()
}

/// Where a run is to be when it is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Streaming,
    Backoff,
    Bash,
    ChildStreaming,
    ChildInBash,
    Permission,
    SlowHook,
    /// In a tool that does not listen.
    DeafTool,
}

impl At {
    /// How many runs are aborted at the same moment. A tool that does not listen takes time, but nothing else.
    fn at_once(self) -> usize {
        match self {
            Self::DeafTool => 40,
            Self::Streaming
            | Self::Backoff
            | Self::Bash
            | Self::ChildStreaming
            | Self::ChildInBash
            | Self::Permission
            | Self::SlowHook => 8,
        }
    }
}

/// What a state needs of its agent.
struct Cast {
    agent: AgentHandle,
    hub: Hub,
    hook: Gate,
    errors: Arc<AtomicUsize>,
    /// The command that the model asked for last.
    command: Arc<Mutex<Option<String>>>,
    /// Where the agents wait for each other: all are aborted at the same moment, and nobody looks around meanwhile.
    all: Arc<Barrier>,
}

impl Cast {
    async fn new(house: &House, at: At, folder: &std::path::Path, all: Arc<Barrier>) -> Self {
        let slow = || Step::text("on and on ".repeat(60_000)).chunk(10).delay_ms(1);
        let command: Arc<Mutex<Option<String>>> = Arc::default();
        let asked = command.clone();
        let model = FnModel::new(move |config| match at {
            At::ChildStreaming | At::ChildInBash if config.system_prompt.is_empty() => {
                Step::text("").tool_call("helper", json!({"task": "go"}))
            }
            At::Streaming | At::SlowHook | At::ChildStreaming => slow(),
            At::Backoff => Step::error(429).retry_after(Duration::from_secs(1_000)),
            At::Bash | At::Permission | At::ChildInBash => {
                let command = naps();
                *asked.lock().unwrap() = Some(command.clone());
                Step::text("").tool_call("bash", json!({"command": command}))
            }
            At::DeafTool => Step::text("").tool_call("deaf", json!({})),
        });
        let (hook, errors) = (Gate::closed(), Arc::new(AtomicUsize::new(0)));
        let (slow_hook, count) = (hook.clone(), errors.clone());
        let mut hooks = Hooks::new().on_error(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async {}
        });
        if at == At::SlowHook {
            hooks = hooks.before_turn(move |_| {
                let gate = slow_hook.clone();
                async move {
                    gate.pass().await;
                    true
                }
            });
        }
        let bash: Vec<Arc<dyn Tool>> = vec![Arc::new(Bash::default())];
        let helper = Definition { tools: Some(ToolSet::new(bash).unwrap()), ..Definition::default() };
        let deaf = kit::FnTool::new("deaf", |_, _| async { std::future::pending().await });
        let agent = house
            .agent()
            .provider_override(model)
            .tool(Bash::default())
            .tool(deaf)
            .sub_agent(SubAgentTool::new("helper").with_system_prompt("a child").with_definition(helper))
            .approvals(Approvals::Watcher)
            .permission(if at == At::Permission { PermissionMode::Ask } else { PermissionMode::Yolo })
            .hooks(hooks)
            .durability(Durability::Os)
            .cwd(folder)
            .spawn()
            .await
            .unwrap();
        Self { agent, hub: house.services().hub.clone(), hook, errors, command, all }
    }

    /// Waits until the run is where it is to be; gives the command that runs there.
    async fn arrive(&self, at: At, events: &mut Subscription, times: usize) -> Option<String> {
        match at {
            At::Streaming => drop(wait_for(events, |event| matches!(event, AgentEvent::MessageUpdate { .. })).await),
            At::Backoff if times == 1 => {
                drop(wait_for(events, |event| matches!(event, AgentEvent::ProviderRetry { .. })).await)
            }
            // The service has asked for a long pause: from now on the call waits for its turn.
            At::Backoff => drop(wait_for(events, |event| matches!(event, AgentEvent::ModelRequestStart { .. })).await),
            At::Permission => {
                drop(wait_for(events, |event| matches!(event, AgentEvent::PermissionRequired { .. })).await)
            }
            At::SlowHook => soon("the hook", self.hook.reached(times)).await,
            At::Bash | At::ChildInBash => return Some(soon("the command", self.in_bash()).await),
            At::DeafTool => drop(wait_for(events, is_tool_start).await),
            At::ChildStreaming => {
                let mut child = self.child(events).await;
                wait_for(&mut child, |event| matches!(event, AgentEvent::MessageUpdate { .. })).await;
            }
        }
        None
    }

    /// Waits until all processes of the command are there.
    async fn in_bash(&self) -> String {
        loop {
            let command = self.command.lock().unwrap().clone();
            if let Some(command) = command
                && sleeping(&command).await == 3
            {
                *self.command.lock().unwrap() = None;
                return command;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn child(&self, events: &mut Subscription) -> Subscription {
        let started = wait_for(events, |event| matches!(event, AgentEvent::SubAgentStart { .. })).await;
        let AgentEvent::SubAgentStart { child_session_id, .. } = &started.event else { unreachable!() };
        // What it has told already is not needed here: it goes on and on.
        self.hub.topic(&AgentId::from(child_session_id.as_str())).subscribe(1_024, Scope::Own)
    }

    /// Aborts one run and gives how long that took.
    async fn abort(&self, at: At, times: usize) -> Duration {
        let mut events = self.agent.subscribe();
        let asking = self.agent.clone();
        let run = tokio::spawn(async move { asking.prompt_report("go").await });
        let command = self.arrive(at, &mut events, times).await;
        soon("the other agents", self.all.wait()).await;
        let begun = Instant::now();
        let ended = async {
            let end = soon("the end of the run", events.end_of_run()).await;
            assert!(end.is_some());
        };
        let (aborted, ()) = tokio::join!(self.agent.abort(), ended);
        let took = begun.elapsed();
        aborted.unwrap();
        soon("the other agents", self.all.wait()).await;
        if let Some(command) = command {
            assert_eq!(sleeping(&command).await, 0, "a process survived");
        }
        let report = soon("the report", run).await.unwrap().unwrap();
        assert_eq!(report.outcome, Outcome::Aborted, "{at:?}");
        took
    }
}

fn is_tool_start(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::ToolExecutionStart { .. })
}

async fn measure(at: At) {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path().join("data")).open().await.unwrap();
    let mut agents = tokio::task::JoinSet::new();
    let all = Arc::new(Barrier::new(at.at_once()));
    for _ in 0..at.at_once() {
        let cast = Cast::new(&house, at, folder.path(), all.clone()).await;
        agents.spawn(async move {
            let mut took = Vec::new();
            for times in 1..=ABORTS / at.at_once() {
                took.push(cast.abort(at, times).await);
            }
            healthy(&cast.agent).await;
            assert_eq!(cast.errors.load(Ordering::SeqCst), 0, "an abort is no error");
            took
        });
    }
    let mut took = agents.join_all().await.concat();
    took.sort();
    let at_share = |share: usize| took[(took.len() * share / 100).min(took.len() - 1)];
    let (median, p99) = (at_share(50), at_share(99));
    println!("abort {at:?}: {} aborts, p50 {median:?}, p99 {p99:?}, max {:?}", took.len(), at_share(100));
    house.shutdown(Duration::ZERO).await;
    // A tool that does not listen is given its grace first.
    let target = if at == At::DeafTool { TARGET + playhouse::tools::GRACE } else { TARGET };
    assert!(median <= target && p99 <= BUSY, "{at:?}: p50 {median:?}, p99 {p99:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_an_abort_settles_at_once_from_every_state() {
    let states = [
        At::Streaming,
        At::Backoff,
        At::Permission,
        At::SlowHook,
        At::ChildStreaming,
        At::Bash,
        At::ChildInBash,
        At::DeafTool,
    ];
    for at in states {
        measure(at).await;
    }
}
