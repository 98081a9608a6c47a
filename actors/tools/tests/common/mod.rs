//! An executor under a stand-in for its agent, and a look at the machine's processes.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use playhouse_protocol::{EffectClass, SessionId, ToolCallId, ToolError, ToolReport, ToolResult};
use playhouse_tools::{Executor, ExecutorArgs, ExecutorMsg, OutputRoom, Sandbox, Tool, ToolJob, ToolRuntime, ToolSet};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use serde_json::Value;
use tokio::sync::mpsc;

/// Generous: the machine may be slow and busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub type Answer = Result<ToolResult, ToolError>;

/// In the agent's place: passes every report on, credit included.
struct Desk;

impl Actor for Desk {
    type Msg = ToolReport;
    type State = mpsc::UnboundedSender<ToolReport>;
    type Arguments = mpsc::UnboundedSender<ToolReport>;

    async fn pre_start(&self, _: ActorRef<ToolReport>, to: Self::Arguments) -> Result<Self::State, ActorProcessingErr> {
        Ok(to)
    }

    async fn handle(
        &self,
        _: ActorRef<ToolReport>,
        report: ToolReport,
        to: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let _ = to.send(report);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<ToolReport>,
        _: SupervisionEvent,
        _: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

pub struct Bench {
    pub agent: ActorRef<ToolReport>,
    pub executor: ActorRef<ExecutorMsg>,
    pub reports: mpsc::UnboundedReceiver<ToolReport>,
    pub runtime: ToolRuntime,
}

impl Bench {
    pub async fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self::in_house(tools, "test-house", std::env::temp_dir()).await
    }

    /// With these rules about what processes may do.
    pub async fn confined(cwd: &Path, sandbox: Sandbox) -> Self {
        Self::with(playhouse_tools::default_tools(), "test-house", cwd.to_owned(), sandbox).await
    }

    /// Every bench is an agent of its own: its session is nobody else's.
    pub async fn in_house(tools: Vec<Arc<dyn Tool>>, house: &str, cwd: PathBuf) -> Self {
        Self::made(tools, house, cwd, None, Sandbox::default()).await
    }

    /// As the others, with a place for long outputs.
    pub async fn with_output(tools: Vec<Arc<dyn Tool>>, cwd: PathBuf, output: Option<Arc<OutputRoom>>) -> Self {
        Self::made(tools, "test-house", cwd, output, Sandbox::default()).await
    }

    /// All of it said.
    pub async fn with(tools: Vec<Arc<dyn Tool>>, house: &str, cwd: PathBuf, sandbox: Sandbox) -> Self {
        Self::made(tools, house, cwd, None, sandbox).await
    }

    async fn made(
        tools: Vec<Arc<dyn Tool>>,
        house: &str,
        cwd: PathBuf,
        output: Option<Arc<OutputRoom>>,
        sandbox: Sandbox,
    ) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let session = format!("s{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let (to, reports) = mpsc::unbounded_channel();
        let (agent, _) = Desk::spawn(None, Desk, to).await.unwrap();
        let runtime = runtime_of(house);
        let args = ExecutorArgs {
            tools: ToolSet::new(tools).unwrap(),
            session_id: SessionId::new(session).unwrap(),
            states: Default::default(),
            cwd,
            runtime: runtime.clone(),
            secrets: Default::default(),
            output,
            sandbox,
            forbid: Default::default(),
            reply: agent.get_derived(),
        };
        let (executor, _) = Executor::spawn_linked(None, Executor, args, agent.get_cell()).await.unwrap();
        Self { agent, executor, reports, runtime }
    }

    pub fn start(&self, call: &str, name: &str, args: Value) {
        let job = ToolJob {
            call: call.into(),
            name: name.to_owned(),
            args: Arc::new(args),
            effect: EffectClass::Once,
            reconcile: false,
        };
        self.executor.send_message(ExecutorMsg::Run { job }).unwrap();
    }

    pub fn cancel(&self, call: &str) {
        self.executor.send_message(ExecutorMsg::Cancel { call: call.into() }).unwrap();
    }

    pub async fn report(&mut self) -> ToolReport {
        tokio::time::timeout(DEADLINE, self.reports.recv()).await.expect("a report in time").expect("an agent")
    }

    /// The next end of a call, whatever is shown before it.
    pub async fn finished(&mut self) -> (ToolCallId, Answer, u64) {
        loop {
            if let ToolReport::Finished { call, result, duration_ms } = self.report().await {
                return (call, result, duration_ms);
            }
        }
    }

    pub async fn run(&mut self, name: &str, args: Value) -> Answer {
        self.start("only", name, args);
        self.finished().await.1
    }
}

/// What the tools of a house share: benches of one name are in one house.
pub fn runtime_of(house: &str) -> ToolRuntime {
    static HOUSES: Mutex<BTreeMap<String, ToolRuntime>> = Mutex::new(BTreeMap::new());
    let mut houses = HOUSES.lock().unwrap();
    houses.entry(house.to_owned()).or_insert_with(|| ToolRuntime::new(house)).clone()
}

/// The text of a result.
pub fn text(answer: &Answer) -> String {
    let blocks = &answer.as_ref().expect("a result").content;
    blocks.iter().map(|block| serde_json::to_value(block).unwrap()["text"].as_str().unwrap_or("").to_owned()).collect()
}

/// Whether a program is on the path. One that is not is said, past the harness, which would keep it to itself: a machine
/// has what CI installs, and no more.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    if !is_there {
        let line = format!("{program} in a sandbox was not tried: it is not on this machine\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    is_there
}

/// A duration for `sleep` that no other process on the machine sleeps for.
pub fn unique_sleep() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let micros = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_micros();
    format!("7777.{:07}{:04}{micros:06}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The processes whose command line contains `text`, zombies not counted.
pub fn alive(text: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    let shows = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != std::process::id() && String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(shows).collect()
}

/// How many processes `sleep` for this long.
pub fn sleepers(time: &str) -> usize {
    let is_sleep = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"sleep\0")
    };
    alive(time).iter().filter(|pid| is_sleep(pid)).count()
}

/// Waits until something is so.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A process table entry: state and parent.
pub fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
