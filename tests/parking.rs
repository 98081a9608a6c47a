//! What cannot go on waits, is seen, hurts nobody else and can be started again; looking changes nothing.

#[path = "support/kit.rs"]
mod kit;

use std::fs::File;
use std::future::ready;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kit::{FnModel, FnTool, Gate, healthy, lines, soon, until, wait_for};
use playhouse::agent::new_input;
use playhouse::agent::testing::{AgentMsg, mailboxes};
use playhouse::prelude::*;
use playhouse::protocol::SessionId;
use playhouse::protocol::{Command, Op};
use playhouse::session::disk::{Disk, Kernel};
use playhouse::session::{FileOptions, SessionStatus};
use playhouse::supervision::{Directory, NodeState};
use serde_json::json;

/// A disk that is full for some journals as long as the test says so.
#[derive(Clone, Debug)]
struct Tight {
    full: Arc<AtomicBool>,
    /// Part of the names of the journals that have no room.
    of: Arc<std::sync::Mutex<Option<String>>>,
}

impl Tight {
    fn new() -> Self {
        Self { full: Arc::default(), of: Arc::default() }
    }

    fn options(&self) -> FileOptions {
        FileOptions { disk: Arc::new(self.clone()), ..FileOptions::default() }
    }

    fn has_room_for(&self, file: &File) -> bool {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let of = self.of.lock().unwrap();
        !self.full.load(Ordering::SeqCst) || of.as_ref().is_some_and(|spared| name.contains(spared.as_str()))
    }
}

impl Disk for Tight {
    fn write(&self, file: &File, record: &[u8]) -> io::Result<usize> {
        match self.has_room_for(file) {
            true => Kernel.write(file, record),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        Kernel.flush(file)
    }
}

async fn house_on(folder: &Path, disk: &Tight) -> House {
    House::builder().data_dir(folder.join("data")).store_options(disk.options()).open().await.unwrap()
}

fn is_parked(house: &House, agent: &AgentHandle) -> bool {
    let address = format!("agent/{}", agent.id());
    house.tree().into_iter().any(|node| node.id == address && matches!(node.state, NodeState::Parked { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f61_looking_at_a_parked_agent_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Tight::new();
    let house = house_on(folder.path(), &disk).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let (gate, requests) = (Gate::closed(), asked.clone());
    let model = FnModel::new(move |config| {
        requests.fetch_add(1, Ordering::SeqCst);
        match config.response {
            0 => Step::text("").tool_call("gate", json!({})),
            _ => Step::text("ok"),
        }
    });
    let agent = house.agent().provider_override(model).tool(gate.tool("gate")).spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    soon("the tool", gate.reached(1)).await;
    disk.full.store(true, Ordering::SeqCst);
    gate.open();
    let lost = soon("the run", run).await.unwrap().unwrap_err().to_string();
    assert!(lost.contains("disk is full"), "{lost}");
    disk.full.store(false, Ordering::SeqCst);
    until("the agent is parked", || is_parked(&house, &agent)).await;
    let before = std::fs::read_dir(folder.path().join("data/sessions")).unwrap().count();
    for _ in 0..3 {
        let told = soon("an answer", agent.state()).await.unwrap_err().to_string();
        assert!(told.contains("parked") && told.contains("disk is full"), "{told}");
        assert!(agent.save_messages().await.is_err());
        assert!(agent.check_and_rotate(Duration::ZERO).await.is_err());
        house.sessions().await.unwrap();
    }
    until("the agent is parked", || is_parked(&house, &agent)).await;
    assert_eq!((asked.load(Ordering::SeqCst), gate.came()), (1, 1));
    assert_eq!(std::fs::read_dir(folder.path().join("data/sessions")).unwrap().count(), before);
    // Nor does a house that waits for its agents wake it.
    soon("the end", house.shutdown(Duration::from_secs(20))).await;
    assert_eq!((asked.load(Ordering::SeqCst), gate.came()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_agent_goes_on_when_its_session_is_resumed_here() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Tight::new();
    let house = house_on(folder.path(), &disk).await;
    let gate = Gate::closed();
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("gate", json!({})),
        _ => Step::text("at last"),
    });
    let agent = house.agent().provider_override(model).tool(gate.tool("gate")).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    soon("the tool", gate.reached(1)).await;
    disk.full.store(true, Ordering::SeqCst);
    gate.open();
    soon("the run", run).await.unwrap().unwrap_err();
    disk.full.store(false, Ordering::SeqCst);
    until("the agent is parked", || is_parked(&house, &agent)).await;
    let resumed = house.resume(&agent.session_id()).await.unwrap();
    assert_eq!(resumed.id(), agent.id());
    wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. })).await;
    assert_eq!(healthy(&agent).await.messages.len(), 4);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f56_a_sub_agent_that_cannot_write_parks_with_its_parent_and_both_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Tight::new();
    let house = house_on(folder.path(), &disk).await;
    let ran = Arc::new(AtomicUsize::new(0));
    let model = FnModel::new(|config| match (&*config.first_prompt, config.response) {
        ("begin", 0) => Step::text("").tool_call("helper", json!({"task": "do it"})),
        ("do it", 0) => Step::text("").tool_call("once", json!({})),
        ("do it", _) => Step::text("the child is done"),
        _ => Step::text("all is done"),
    });
    let (fills, runs) = (disk.clone(), ran.clone());
    let once = FnTool::new("once", move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        fills.full.store(true, Ordering::SeqCst);
        async { Ok(ToolResult::text("done")) }
    });
    let tools = Some(ToolSet::new(vec![Arc::new(once)]).unwrap());
    let helper = SubAgentTool::new("helper").with_definition(Definition { tools, ..Definition::default() });
    let agent = house
        .agent()
        .provider_override(model)
        .sub_agent(helper)
        .permission(PermissionMode::Yolo)
        .spawn()
        .await
        .unwrap();
    // The parent's own journal has room all the time.
    *disk.of.lock().unwrap() = Some(agent.session_id().to_string());
    let mut events = agent.subscribe();
    let lost = soon("the run", agent.prompt("begin")).await.unwrap_err().to_string();
    assert!(lost.contains("sub-agent") && lost.contains("disk is full"), "{lost}");
    until("the agent is parked", || is_parked(&house, &agent)).await;
    disk.full.store(false, Ordering::SeqCst);
    house.resume(&agent.session_id()).await.unwrap();
    wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. })).await;
    let told = lines(healthy(&agent).await.messages.as_slice());
    assert_eq!(told[2..], ["helper: the child is done", "model: all is done"]);
    assert_eq!(ran.load(Ordering::SeqCst), 1, "what may have happened is not repeated");
    let sessions = house.sessions().await.unwrap();
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|session| session.status == SessionStatus::Done), "{sessions:#?}");
    house.shutdown(Duration::ZERO).await;
}

/// Kills whoever answers to an id until its supervisor gives it up. The clock runs by itself meanwhile: the pauses
/// between restarts add up.
async fn wear_out<M: ractor::Message>(directory: &Directory<M>, id: &str) {
    tokio::time::pause();
    let mut last = None;
    while let Ok(actor) = directory.live(id, last).await {
        last = Some(actor.get_id());
        actor.kill();
    }
    tokio::time::resume();
}

/// An agent whose sub-agent asks its model behind a gate.
fn with_a_slow_helper(gate: &Gate) -> Definition {
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("helper", json!({"task": "do it"})),
        _ => Step::text("all is done"),
    });
    let slow: Arc<dyn StreamProvider> = Arc::new(FnModel::new(|_| Step::text("the child is done")).behind(gate));
    let code = Definition { provider_override: Some(slow), ..Definition::default() };
    let helper = SubAgentTool::new("helper").with_definition(code);
    Definition { provider_override: Some(Arc::new(model)), sub_agents: vec![Arc::new(helper)], ..Definition::default() }
}

async fn house_of_slow_helpers(folder: &Path, gate: &Gate) -> House {
    let gate = gate.clone();
    let house =
        House::builder().data_dir(folder.join("data")).kind("slow", move |_| ready(Ok(with_a_slow_helper(&gate))));
    house.open().await.unwrap()
}

/// The session of the only sub-agent of a house, which is its agent's id as well.
async fn session_of_the_child(house: &House) -> SessionId {
    let sessions = house.sessions().await.unwrap();
    sessions.into_iter().find(|session| session.parent.is_some()).unwrap().session_id
}

/// How a parent's and its sub-agent's session are listed.
async fn listed(house: &House, parent: &SessionId, child: &SessionId) -> [SessionStatus; 2] {
    [house.session(parent).await.unwrap().status, house.session(child).await.unwrap().status]
}

/// How often an agent may ask a model without an answer, crashing each time: once, and after each of ten restarts.
const ASKED: usize = 11;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f60_a_sub_agent_in_a_slow_crash_loop_parks_with_its_parent_and_both_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::closed();
    let house = house_of_slow_helpers(folder.path(), &gate).await;
    let agent = house.agent().kind("slow").definition(with_a_slow_helper(&gate)).spawn().await.unwrap();
    let (session, input_id) = (agent.session_id(), new_input());
    let prompt = AgentMessage::user("begin", 1);
    agent.submit(Command::new(input_id.clone(), Op::prompt(vec![prompt.into()]))).await.unwrap();
    soon("the request", gate.reached(1)).await;
    let child = session_of_the_child(&house).await;
    let mut last = None;
    for asked in 1..=ASKED {
        soon("the request", gate.reached(asked)).await;
        let actor = mailboxes(&house.services().agents).live(child.as_str(), last).await.unwrap();
        last = Some(actor.get_id());
        actor.cast(AgentMsg::Crash).unwrap();
    }
    let parked = soon("an answer", agent.report(&input_id)).await.unwrap_err().to_string();
    assert!(parked.contains("sub-agent") && parked.contains("10 times"), "{parked}");
    until("the agent is parked", || is_parked(&house, &agent)).await;
    let [of_parent, of_child] = listed(&house, &session, &child).await;
    assert!(of_parent.is_unfinished(), "{of_parent:?}");
    assert!(matches!(&of_child, SessionStatus::Parked { reason } if reason.contains("10 times")), "{of_child:?}");

    // Both stay so through a crash of the parent and in another process, and buy nothing.
    agent.crash().await.unwrap();
    let parked = soon("an answer", agent.report(&input_id)).await.unwrap_err().to_string();
    assert!(parked.contains("sub-agent") && parked.contains("10 times"), "{parked}");
    house.shutdown(Duration::ZERO).await;
    let house = house_of_slow_helpers(folder.path(), &gate).await;
    let agent = house.resume(&session).await.unwrap();
    until("the agent is parked", || is_parked(&house, &agent)).await;
    assert_eq!(gate.came(), ASKED);

    house.unpark(agent.id()).await.unwrap();
    soon("the request", gate.reached(ASKED + 1)).await;
    // It has all its restarts before it again, and spends them by its process being ended.
    house.shutdown(Duration::ZERO).await;
    for asked in ASKED + 2..=2 * ASKED {
        let house = house_of_slow_helpers(folder.path(), &gate).await;
        house.resume(&session).await.unwrap();
        soon("the request", gate.reached(asked)).await;
        house.shutdown(Duration::ZERO).await;
    }
    let house = house_of_slow_helpers(folder.path(), &gate).await;
    let mut events = house.subscribe();
    gate.open();
    let agent = house.resume_parked(&session).await.unwrap();
    let ends = |event: &AgentEvent| matches!(event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. });
    for _ in [&child, &session] {
        wait_for(&mut events, ends).await;
    }
    let told = lines(healthy(&agent).await.messages.as_slice());
    assert_eq!(told[2..], ["helper: the child is done", "model: all is done"]);
    assert_eq!(listed(&house, &session, &child).await, [SessionStatus::Done, SessionStatus::Done]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn f27_a_sub_agent_that_crashes_at_every_start_parks_with_its_parent_and_both_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::closed();
    let house = house_of_slow_helpers(folder.path(), &gate).await;
    let agent = house.agent().kind("slow").definition(with_a_slow_helper(&gate)).spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    soon("the request", gate.reached(1)).await;
    let (session, child) = (agent.session_id(), session_of_the_child(&house).await);
    wear_out(mailboxes(&house.services().agents), child.as_str()).await;
    let parked = soon("the run", run).await.unwrap().unwrap_err().to_string();
    assert!(parked.contains("sub-agent") && parked.contains("40 restarts"), "{parked}");
    assert!(is_parked(&house, &agent));
    // Nothing of it is over: whoever looks for work to resume finds the parent.
    let [of_parent, of_child] = listed(&house, &session, &child).await;
    assert!(of_parent.is_unfinished() && of_child.is_unfinished(), "{of_parent:?} {of_child:?}");
    let mut events = agent.subscribe();
    gate.open();
    house.unpark(agent.id()).await.unwrap();
    wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. })).await;
    let told = lines(healthy(&agent).await.messages.as_slice());
    assert_eq!(told[2..], ["helper: the child is done", "model: all is done"]);
    assert_eq!(listed(&house, &session, &child).await, [SessionStatus::Done, SessionStatus::Done]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn f59_whoever_waits_for_a_parked_writer_or_connection_hears_of_it() {
    let house = House::in_memory().await.unwrap();
    let services = house.services().clone();
    let agent = house.agent().provider_override(FnModel::new(|_| Step::text("ok"))).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();
    let address = services.journals.address(&agent.session_id());
    wear_out(playhouse::agent::testing::writers(&services), &address).await;
    let told = soon("an answer", agent.prompt("two")).await.unwrap_err().to_string();
    assert!(told.contains("writer") && told.contains("parked"), "{told}");
    until("the agent is parked", || is_parked(&house, &agent)).await;
    // Other writers go on.
    let mut others = Vec::new();
    while others.is_empty() {
        let other = house.agent().provider_override(FnModel::new(|_| Step::text("ok"))).spawn().await.unwrap();
        if services.journals.address(&other.session_id()) != address {
            others.push(other);
        }
    }
    assert_eq!(others[0].prompt("hello").await.unwrap().text(), "ok");
    house.unpark(&address).await.unwrap();
    assert_eq!(soon("an answer", agent.prompt("three")).await.unwrap().text(), "ok");

    let connections: Vec<String> =
        house.tree().into_iter().filter(|node| node.kind == "connection").map(|node| node.id).collect();
    for id in &connections {
        wear_out(playhouse::agent::testing::connections(&services), id).await;
    }
    let told = soon("an answer", agent.prompt("four")).await.unwrap_err().to_string();
    assert!(told.contains("connection") && told.contains("parked"), "{told}");
    until("the agent is parked", || is_parked(&house, &agent)).await;
    for id in &connections {
        house.unpark(id).await.unwrap();
    }
    let mut events = agent.subscribe();
    house.unpark(agent.id()).await.unwrap();
    wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. })).await;
    assert!(house.unpark(agent.id()).await.is_err() && house.unpark("nobody").await.is_err());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn the_report_of_a_run_that_is_forgotten_is_an_error() {
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().provider_override(FnModel::new(|_| Step::text("ok"))).spawn().await.unwrap();
    let unknown = soon("an answer", agent.report(&"never".into())).await.unwrap_err();
    assert_eq!(unknown, HandleError::Input(InputError::UnknownRun("never".into())));
    let first = new_input();
    for n in 0..20 {
        let input_id = if n == 0 { first.clone() } else { new_input() };
        let message = AgentMessage::user("again", 1);
        agent.submit(Command::new(input_id.clone(), Op::prompt(vec![message.into()]))).await.unwrap();
        agent.report(&input_id).await.unwrap();
    }
    assert!(soon("an answer", agent.report(&first)).await.is_err());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sub_agents_after_loop_is_awaited() {
    let house = House::in_memory().await.unwrap();
    let model = FnModel::new(|config| match (&*config.first_prompt, config.response) {
        ("begin", 0) => Step::text("").tool_call("helper", json!({"task": "do it"})),
        _ => Step::text("done"),
    });
    let (gate, completed) = (Gate::closed(), Arc::new(AtomicUsize::new(0)));
    let (waits, counted) = (gate.clone(), completed.clone());
    let hooks = Hooks::new().after_loop(move |_| {
        let (waits, counted) = (waits.clone(), counted.clone());
        async move {
            waits.pass().await;
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let helper = SubAgentTool::new("helper").with_definition(Definition { hooks, ..Definition::default() });
    let agent = house.agent().provider_override(model).sub_agent(helper).spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    soon("the hook", gate.reached(1)).await;
    gate.open();
    assert_eq!(soon("the run", run).await.unwrap().unwrap().text(), "done");
    assert_eq!(completed.load(Ordering::SeqCst), 1);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_house_that_drains_begins_nothing_new() {
    let house = House::in_memory().await.unwrap();
    let gate = Gate::closed();
    let model = FnModel::new(|config| match (&*config.first_prompt, config.response) {
        ("begin", 0) => Step::text("").tool_call("gate", json!({})),
        // A sub-agent is part of the run that is let to end.
        ("begin", 1) => Step::text("").tool_call("helper", json!({"task": "help"})),
        _ => Step::text("ended well"),
    });
    let agent = house
        .agent()
        .provider_override(model)
        .tool(gate.tool("gate"))
        .sub_agent(SubAgentTool::new("helper"))
        .spawn()
        .await
        .unwrap();
    let idle = house.agent().provider_override(FnModel::new(|_| Step::text("no"))).spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    soon("the tool", gate.reached(1)).await;
    let ending = house.clone();
    let end = tokio::spawn(async move { ending.shutdown(Duration::from_secs(60)).await });
    until("the house is closing", || house.services().agents.is_closing()).await;
    let refused = soon("an answer", idle.prompt("one more")).await.unwrap_err();
    assert_eq!(refused, HandleError::Closing);
    assert_eq!(agent.follow_up("and then").await.unwrap_err(), HandleError::Closing);
    assert!(house.agent().provider_override(FnModel::new(|_| Step::text("no"))).spawn().await.is_err());
    agent.steer("hurry").await.unwrap();
    gate.open();
    assert_eq!(soon("the run", run).await.unwrap().unwrap().text(), "ended well");
    soon("the end", end).await.unwrap();
}

/// Kills a supervisor until the house gives it up.
async fn wear_out_supervisor<M: ractor::Message>(house: &House, id: &str, directory: &Directory<M>, child: &str) {
    tokio::time::pause();
    let (mut last, mut killed) = (None, 0);
    while let Ok(actor) = directory.live(child, last).await {
        last = Some(actor.get_id());
        actor.try_get_supervisor().unwrap().kill();
        killed += 1;
    }
    tokio::time::resume();
    assert_eq!(killed, 41);
    let node = house.tree().into_iter().find(|node| node.id == id).unwrap();
    assert!(matches!(node.state, NodeState::Parked { .. }), "{node:?}");
}

#[tokio::test]
async fn f59_whoever_waits_for_what_a_parked_supervisor_has_hears_of_it() {
    let house = House::in_memory().await.unwrap();
    let services = house.services().clone();
    let agent = house.agent().provider_override(FnModel::new(|_| Step::text("ok"))).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();
    let writer = services.journals.address(&agent.session_id());
    wear_out_supervisor(&house, "sessions", playhouse::agent::testing::writers(&services), &writer).await;
    let told = soon("an answer", agent.prompt("two")).await.unwrap_err().to_string();
    assert!(told.contains("`sessions` is parked"), "{told}");
    house.unpark("sessions").await.unwrap();
    assert_eq!(soon("an answer", agent.prompt("three")).await.unwrap().text(), "ok");

    let is_connection = |node: &playhouse::supervision::NodeSnapshot| node.kind == "connection";
    let connection = house.tree().into_iter().find(is_connection).unwrap().id;
    wear_out_supervisor(&house, "providers", playhouse::agent::testing::connections(&services), &connection).await;
    let told = soon("an answer", agent.prompt("four")).await.unwrap_err().to_string();
    assert!(told.contains("`providers` is parked"), "{told}");
    house.unpark("providers").await.unwrap();
    let mut events = agent.subscribe();
    house.unpark(agent.id()).await.unwrap();
    wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. })).await;

    wear_out_supervisor(&house, "stage", mailboxes(&services.agents), agent.id().as_str()).await;
    let told = soon("an answer", agent.prompt("five")).await.unwrap_err().to_string();
    assert!(told.contains("`stage` is parked"), "{told}");
    assert!(house.agent().provider_override(FnModel::new(|_| Step::text("no"))).spawn().await.is_err());
    house.unpark("stage").await.unwrap();
    assert_eq!(soon("an answer", agent.prompt("six")).await.unwrap().text(), "ok");
    soon("the end", house.shutdown(Duration::ZERO)).await;
}
