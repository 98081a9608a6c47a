//! Users' code that blocks: it has threads of its own, so that nobody else waits for it.

#[path = "support/kit.rs"]
mod kit;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use playhouse::prelude::*;
use playhouse::tools::blocking;

use kit::{FnModel, lines, saying, soon, until};

/// How many block: more than tokio's own pool has threads.
const MANY: usize = 600;

/// A door that threads wait before, and how many do.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar, AtomicUsize)>);

impl Door {
    fn pass(&self) {
        let (is_open, opened, waiting) = &*self.0;
        waiting.fetch_add(1, Ordering::SeqCst);
        let is_open = opened.wait_while(is_open.lock().unwrap(), |is_open| !*is_open).unwrap();
        drop(is_open);
        waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn waiting(&self) -> usize {
        self.0.2.load(Ordering::SeqCst)
    }
}

/// A test that fails must not leave threads at the door: the runtime would wait for them.
impl Door {
    fn guard(&self) -> impl Drop + use<> {
        struct Opens(Door);
        impl Drop for Opens {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        Opens(self.clone())
    }
}

/// How many threads of this process have a name.
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

async fn durable_house(folder: &tempfile::TempDir) -> House {
    House::builder().data_dir(folder.path()).open().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f58_callbacks_that_block_stop_no_agent_and_come_when_there_is_a_thread() {
    let folder = tempfile::tempdir().unwrap();
    let house = durable_house(&folder).await;
    let door = Door::default();
    let _opens = door.guard();
    let ended: Arc<Mutex<HashSet<usize>>> = Arc::default();
    let mut blocked = house.agent().provider_override(FnModel::new(|_| Step::text("Heard.")));
    for number in 0..MANY {
        let (door, ended) = (door.clone(), ended.clone());
        blocked = blocked.on_event(move |event| {
            door.pass();
            if matches!(event.event, AgentEvent::AgentEnd { .. }) {
                ended.lock().unwrap().insert(number);
            }
        });
    }
    let blocked = blocked.spawn().await.unwrap();
    assert_eq!(soon("the answer that 600 are called with", blocked.prompt("Go.")).await.unwrap().text(), "Heard.");
    let most = playhouse::agent::hub::CALLBACK_THREADS;
    until("callbacks that block", || door.waiting() >= most).await;

    // Another agent works, its file tools too; its own callback is in line.
    let (called, calls) = std::sync::mpsc::channel();
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("note"), "a note").unwrap();
    let other = house
        .agent()
        .cwd(work.path())
        .tools(default_tools())
        .provider_override(Scripted::new([
            Step::text("").tool_call("read_file", json!({"path": "note"})),
            Step::text("Read."),
        ]))
        .on_event(move |event| _ = called.send(event.clone()))
        .spawn()
        .await
        .unwrap();
    let report = soon("the other agent's answer", other.prompt("Read.")).await.unwrap();
    assert_eq!(report.text(), "Read.");
    assert!(lines(&report.messages)[2].contains("a note"), "{:?}", lines(&report.messages));
    assert_eq!((door.waiting(), threads_named("playhouse-calls")), (most, most));
    assert!(calls.try_recv().is_err(), "there was a thread for one more callback");

    door.open();
    until("every callback's last event", || ended.lock().unwrap().len() == MANY).await;
    let deadline = std::time::Instant::now() + kit::DEADLINE;
    let is_end = |event: &Event| matches!(event.event, AgentEvent::AgentEnd { .. });
    while !is_end(&calls.recv_timeout(deadline.saturating_duration_since(std::time::Instant::now())).unwrap()) {}
    soon("the end", house.shutdown(Duration::ZERO)).await;
    until("threads without work end", || threads_named("playhouse-calls") == 0).await;
}

/// A tool that blocks a thread until the door opens, whatever its deadline says.
struct Hangs(Door);

#[async_trait]
impl Tool for Hangs {
    fn name(&self) -> &str {
        "hang"
    }
    fn description(&self) -> &str {
        "waits at a door"
    }
    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn effect(&self, _: &Value) -> EffectClass {
        EffectClass::Read
    }
    fn timeout(&self) -> Duration {
        Duration::from_millis(500)
    }
    async fn execute(&self, _: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let door = self.0.clone();
        blocking(&ctx.cancel, move |_| {
            door.pass();
            Ok(ToolResult::text("passed"))
        })
        .await
    }
}

/// The results of one call each, in the order of the steps.
async fn results(house: &House, folder: &tempfile::TempDir, door: &Door, mut steps: Vec<Step>) -> Vec<String> {
    let mut tools = default_tools();
    tools.push(Arc::new(Hangs(door.clone())));
    tools.push(Arc::new(saying("look", "a view")));
    steps.push(Step::text("Done."));
    let agent = house
        .agent()
        .cwd(folder.path())
        .tools(tools)
        .permission(PermissionMode::Yolo)
        .provider_override(Scripted::new(steps))
        .spawn()
        .await
        .unwrap();
    let report = soon("the answer", agent.prompt("Go.")).await.unwrap();
    assert_eq!(report.text(), "Done.");
    let all = lines(&report.messages);
    all.into_iter().filter(|line| !line.starts_with("user") && !line.starts_with("model")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f58_hung_tools_stop_no_agent_and_the_next_is_told_so() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let house = durable_house(&data).await;
    let door = Door::default();
    let _opens = door.guard();
    let hang = || Step::text("").tool_call("hang", json!({}));
    let calls: Vec<_> = (0..MANY)
        .map(|_| {
            let (house, door, folder) = (house.clone(), door.clone(), tempfile::tempdir().unwrap());
            tokio::spawn(async move { results(&house, &folder, &door, vec![hang()]).await })
        })
        .collect();
    let mut told = Vec::new();
    for call in calls {
        told.extend(soon("a hung tool's result", call).await.unwrap());
    }
    let most = playhouse::tools::TOOL_THREADS;
    let full = |line: &String| line.contains("threads for tools that block");
    let timed_out = |line: &String| line.contains("timed out after 500 ms");
    assert_eq!(told.iter().filter(|line| line.starts_with("!hang:")).count(), MANY, "{told:?}");
    // On a busy machine a call in line can come to its own end before it is told that there is no thread.
    let refused = told.iter().filter(|line| full(line)).count();
    assert!((1..=MANY - most).contains(&refused), "{refused} were refused: {told:?}");
    assert_eq!(told.iter().filter(|line| timed_out(line)).count(), MANY - refused, "{told:?}");
    assert_eq!(door.waiting(), most);

    // The next is told so too, and tools that don't block a thread run as ever.
    let look = Step::text("").tool_call("look", json!({}));
    let bash = Step::text("").tool_call("bash", json!({"command": "echo out"}));
    let told = results(&house, &folder, &door, vec![hang(), look, bash]).await;
    assert!(told[0].starts_with("!hang:") && full(&told[0]), "{told:?}");
    assert_eq!(told[1], "look: a view");
    assert!(told[2].starts_with("bash:") && told[2].contains("out"), "{told:?}");

    // Those that come back give their threads back.
    door.open();
    until("the hung ones are back", || door.waiting() == 0).await;
    std::fs::write(folder.path().join("note"), "a note").unwrap();
    let read = Step::text("").tool_call("read_file", json!({"path": "note"}));
    let told = results(&house, &folder, &door, vec![hang(), read]).await;
    assert_eq!(told[0], "hang: passed");
    assert!(told[1].contains("a note"), "{told:?}");
    soon("the end", house.shutdown(Duration::ZERO)).await;
    until("threads without work end", || threads_named("playhouse-tools") == 0).await;
}
