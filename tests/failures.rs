//! Failures of the catalogue, through the whole house.

#[path = "support/kit.rs"]
mod kit;

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kit::{FnModel, FnTool, Gate, be_quiet_about, hanging, healthy, lines, saying, soon, until, wait_for};
use playhouse::agent::Services;
use playhouse::agent::testing::{AgentMsg, mailboxes};
use playhouse::prelude::*;
use playhouse::session::SessionStatus;
use playhouse::supervision::{Absent, NodeState};
use serde_json::json;
use tokio::task::JoinSet;

async fn house_in(folder: &Path) -> House {
    House::builder().data_dir(folder.join("data")).open().await.unwrap()
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn f09_a_tool_whose_arguments_were_cut_anywhere_never_runs() {
    let house = House::in_memory().await.unwrap();
    let whole = r#"{"text":"é","n":[1,{"deep":null}]}"#;
    let cuts: Vec<&str> = whole.char_indices().skip(1).map(|(at, _)| &whole[..at]).collect();
    // A response may have 25 calls, and five that fail in a row stop the rest: one at a time.
    let texts: Vec<String> = cuts.iter().chain(&["nonsense", "[1]", "{}}"]).map(|text| (*text).to_owned()).collect();
    let many = texts.len();
    let model = FnModel::new(move |config| match usize::try_from(config.response).ok().and_then(|n| texts.get(n)) {
        Some(text) => Step::text("").tool_call("count", json!(text)),
        None if config.response == many as u64 => Step::text("").tool_call("count", json!({"text": "whole"})),
        None => Step::text("done"),
    });
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let tool = FnTool::new("count", move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolResult::text("ran")) }
    });
    let agent =
        house.agent().provider_override(model).tool(tool).limits(ExecutionLimits::none()).spawn().await.unwrap();
    let report = soon("the run", agent.prompt("go")).await.unwrap();
    let results: Vec<String> = lines(&report.messages)
        .into_iter()
        .filter(|line| line.trim_start_matches('!').starts_with("count: "))
        .collect();
    assert_eq!((results.len(), ran.load(Ordering::SeqCst)), (many + 1, 1));
    assert!(results[..many].iter().all(|line| line.starts_with('!')), "{results:#?}");
    assert_eq!(results[many], "count: ran");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f18_a_thousand_panics_in_tools_cost_no_agent() {
    be_quiet_about("out of order");
    let house = House::in_memory().await.unwrap();
    let mut runs = JoinSet::new();
    for n in 0..100 {
        let mut calls = Step::text("").tool_call("fine", json!({}));
        for _ in 0..10 {
            calls = calls.tool_call("broken", json!({}));
        }
        let calls = calls.tool_call("fine", json!({}));
        let agent =
            house.agent().id(format!("agent{n}")).provider_override(Scripted::new([calls, Step::text("alive")]));
        // Tools that read run at the same time: those that fail keep no other from starting.
        let broken = FnTool::new("broken", |_, _| async { panic!("out of order") }).effect(EffectClass::Read);
        let agent = agent.tool(saying("fine", "ok").effect(EffectClass::Read)).tool(broken).spawn().await.unwrap();
        runs.spawn(async move { soon("the run", agent.prompt("try them all")).await.unwrap() });
    }
    while let Some(report) = runs.join_next().await {
        let report = report.unwrap();
        assert_eq!((report.text().as_str(), &report.outcome), ("alive", &Outcome::Stop));
        let told = lines(&report.messages);
        assert_eq!((told[2].as_str(), told[13].as_str()), ("fine: ok", "fine: ok"));
        assert!(told[3..13].iter().all(|line| line == "!broken: the tool crashed: out of order"), "{told:#?}");
    }
    let agents: Vec<_> = house.tree().into_iter().filter(|node| node.kind == "agent").collect();
    assert_eq!((agents.len(), agents.iter().map(|node| node.restarts).sum::<u64>()), (100, 0));
    house.shutdown(Duration::ZERO).await;
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f22_a_flood_of_steers_is_refused_and_memory_stays_flat() {
    const SENDERS: usize = 64;
    const EACH: usize = 1_564;
    let house = House::in_memory().await.unwrap();
    let gate = Gate::closed();
    let model = FnModel::new(|_| Step::text("ok")).behind(&gate);
    let agent = house.agent().provider_override(model).steering_mode(QueueMode::All).spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    gate.reached(1).await;
    let before = resident();
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let agent = agent.clone();
        senders.spawn(async move {
            let (mut taken, mut busy) = (Vec::new(), 0);
            for n in (0..EACH).step_by(2) {
                let (a, b) = (format!("{sender}/{n}/{}", "x".repeat(400)), format!("{sender}/{}/", n + 1));
                let sent = tokio::join!(agent.steer(&a), agent.steer(&b));
                for (text, sent) in [(a, sent.0), (b, sent.1)] {
                    match sent {
                        Ok(()) => taken.push(text),
                        Err(HandleError::Busy(_) | HandleError::Input(InputError::Busy)) => busy += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            (taken, busy)
        });
    }
    let (mut taken, mut busy) = (BTreeSet::new(), 0);
    while let Some(sender) = soon("the flood", senders.join_next()).await {
        let (mine, refused) = sender.unwrap();
        taken.extend(mine);
        busy += refused;
    }
    let grown = resident().saturating_sub(before);
    println!("{} steers: {} taken, {busy} refused, {} KiB more", SENDERS * EACH, taken.len(), grown / 1_024);
    assert!(grown < 64 << 20, "{grown} bytes more");
    assert!(busy > 0 && !taken.is_empty());
    gate.open();
    let report = soon("the run", run).await.unwrap().unwrap();
    let mut heard: BTreeMap<&str, usize> = BTreeMap::new();
    let told = lines(&report.messages);
    for text in told.iter().filter_map(|line| line.strip_prefix("user: ")).filter(|text| *text != "begin") {
        *heard.entry(text).or_default() += 1;
    }
    assert!(heard.values().all(|times| *times == 1), "something was heard twice");
    assert_eq!(heard.keys().copied().collect::<BTreeSet<_>>(), taken.iter().map(String::as_str).collect());
    house.shutdown(Duration::ZERO).await;
}

/// Sends steers until every place is taken; on one thread, so that the agent has had no time to take them.
async fn flood(agent: &AgentHandle) {
    let mut steers: Vec<_> = (0..64).map(|_| agent.steer("more")).collect();
    std::future::poll_fn(|cx| {
        for steer in &mut steers {
            assert!(steer.as_mut().poll(cx).is_pending());
        }
        std::task::Poll::Ready(())
    })
    .await;
    assert!(matches!(agent.steer("too much").await, Err(HandleError::Busy(_))));
}

#[tokio::test]
async fn f22_a_flooded_agent_can_be_answered_and_aborted() {
    let house = House::in_memory().await.unwrap();
    let agent = house
        .agent()
        .provider_override(FnModel::new(|_| Step::text("").tool_call("danger", json!({}))))
        .tool(saying("danger", "boom").asks("do it"))
        .approvals(Approvals::Watcher)
        .spawn()
        .await
        .unwrap();
    let mut events = agent.subscribe();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt_report("begin").await });
    let asked = wait_for(&mut events, |event| matches!(event, AgentEvent::PermissionRequired { .. })).await;
    let AgentEvent::PermissionRequired { permission_id, .. } = &asked.event else { unreachable!() };
    flood(&agent).await;
    agent.respond_permission(permission_id.clone(), PermissionDecision::Allow).await.unwrap();
    wait_for(&mut events, |event| matches!(event, AgentEvent::PermissionRequired { .. })).await;
    flood(&agent).await;
    agent.abort().await.unwrap();
    assert_eq!(soon("the run", run).await.unwrap().unwrap().outcome, Outcome::Aborted);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_what_was_acknowledged_survives_every_crash() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let gate = Gate::closed();
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("gate", json!({})),
        _ => Step::text("ok"),
    });
    let agent = house
        .agent()
        .provider_override(model)
        .tool(gate.tool("gate"))
        .steering_mode(QueueMode::All)
        .follow_up_mode(QueueMode::All)
        .durability(Durability::Os)
        .spawn()
        .await
        .unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    gate.reached(1).await;
    let mut senders = JoinSet::new();
    let crashes = Arc::new(AtomicUsize::new(0));
    for sender in 0..8 {
        let (agent, crashes) = (agent.clone(), crashes.clone());
        senders.spawn(async move {
            let mut said = Vec::new();
            for n in 0.. {
                let text = format!("{sender}/{n}");
                let sent = if n % 2 == 0 { agent.steer(&text).await } else { agent.follow_up(&text).await };
                sent.unwrap();
                said.push(text);
                if crashes.load(Ordering::SeqCst) >= 6 && n >= 10 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            said
        });
    }
    let mut last = None;
    for _ in 0..6 {
        let actor = soon("a new incarnation", mailboxes(&house.services().agents).live(agent.id().as_str(), last))
            .await
            .unwrap();
        last = Some(actor.get_id());
        actor.cast(AgentMsg::Crash).unwrap();
        crashes.fetch_add(1, Ordering::SeqCst);
    }
    let said: BTreeSet<String> = soon("the senders", senders.join_all()).await.concat().into_iter().collect();
    gate.open();
    let report = soon("the run", run).await.unwrap().unwrap();
    assert_eq!(report.outcome, Outcome::Stop);
    let told = lines(healthy(&agent).await.messages.as_slice());
    let heard: Vec<String> = told
        .iter()
        .filter_map(|line| line.strip_prefix("user: "))
        .filter(|t| *t != "begin")
        .map(str::to_owned)
        .collect();
    assert_eq!(heard.len(), said.len(), "{heard:#?}");
    assert_eq!(heard.into_iter().collect::<BTreeSet<_>>(), said);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn f27_an_agent_that_crashes_at_every_start_is_parked_and_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let gate = Gate::closed();
    let model = FnModel::new(|_| Step::text("at last")).behind(&gate);
    let agent = house.agent().provider_override(model).durability(Durability::Os).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    gate.reached(1).await;
    // The pauses between restarts add up.
    tokio::time::pause();
    let (mut last, mut crashes) = (None, 0);
    let parked = loop {
        match mailboxes(&house.services().agents).live(agent.id().as_str(), last).await {
            Ok(actor) => {
                last = Some(actor.get_id());
                crashes += 1;
                actor.cast(AgentMsg::Crash).unwrap();
            }
            Err(absent) => break absent,
        }
    };
    tokio::time::resume();
    let Absent::Parked { reason } = &parked else { panic!("{parked}") };
    assert_eq!(crashes, 41);
    assert!(reason.contains("40 restarts") && reason.contains("resume it"), "{reason}");
    assert_eq!(run.await.unwrap(), Err(HandleError::Absent(parked.clone())));
    assert_eq!(agent.prompt("hello?").await, Err(HandleError::Absent(parked.clone())));
    let node = house.tree().into_iter().find(|node| node.kind == "agent").unwrap();
    assert_eq!(node.state, NodeState::Parked { reason: reason.to_string() });
    wait_for(&mut events, |event| *event == AgentEvent::Error { message: reason.to_string() }).await;
    let session = house.session(&agent.session_id()).await.unwrap();
    assert_eq!(session.status, SessionStatus::Parked { reason: reason.to_string() });

    gate.open();
    house.unpark(agent.id()).await.unwrap();
    let end = wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { .. })).await;
    assert!(matches!(&end.event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. }));
    let told = lines(healthy(&agent).await.messages.as_slice());
    assert_eq!(told, ["user: begin", "model: at last"]);
    assert_eq!(house.session(&agent.session_id()).await.unwrap().status, SessionStatus::Done);
    house.shutdown(Duration::ZERO).await;
}

/// How often an agent may ask a model without an answer, crashing each time: once, and after each of ten restarts.
const ASKED: usize = 11;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f60_a_slow_crash_loop_is_parked_and_buys_no_more_answers() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let gate = Gate::closed();
    let model = FnModel::new(|_| Step::text("at last")).behind(&gate);
    let agent = house.agent().provider_override(model).durability(Durability::Os).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    for asked in 1..=ASKED {
        // Each incarnation lives until the model has its request: far too slow for the budget of its supervisor.
        soon("the request", gate.reached(asked)).await;
        agent.crash().await.unwrap();
    }
    let refused = soon("the run", run).await.unwrap().unwrap_err();
    let HandleError::Input(InputError::Parked(reason)) = &refused else { panic!("{refused:?}") };
    assert!(reason.contains("10 times") && reason.contains("resume"), "{reason}");
    wait_for(&mut events, |event| *event == AgentEvent::Error { message: reason.clone() }).await;
    let is_parked = || house.tree().iter().any(|node| node.state == NodeState::Parked { reason: reason.clone() });
    until("the agent is parked", is_parked).await;
    let session = house.session(&agent.session_id()).await.unwrap();
    assert_eq!(session.status, SessionStatus::Parked { reason: reason.clone() });

    // It stays so through another crash, and costs nothing.
    agent.crash().await.unwrap();
    let again = || house.tree().iter().any(|node| node.restarts > ASKED as u64);
    until("it is back", again).await;
    until("the agent is parked", is_parked).await;
    assert_eq!(gate.came(), ASKED);

    gate.open();
    house.unpark(agent.id()).await.unwrap();
    let end = wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { .. })).await;
    assert!(matches!(&end.event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. }));
    assert_eq!(lines(healthy(&agent).await.messages.as_slice()), ["user: begin", "model: at last"]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f60_a_slow_crash_loop_in_a_tool_that_only_reads_is_parked_too() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let gate = Gate::closed();
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("gate", json!({})),
        _ => Step::text("at last"),
    });
    let agent = house.agent().provider_override(model).tool(gate.tool("gate")).durability(Durability::Os);
    let agent = agent.spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    for came in 1..=ASKED {
        soon("the tool", gate.reached(came)).await;
        agent.crash().await.unwrap();
    }
    let parked = soon("the run", run).await.unwrap().unwrap_err().to_string();
    assert!(parked.contains("10 times"), "{parked}");
    assert_eq!(gate.came(), ASKED);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f60_a_process_that_is_ended_and_resumed_in_a_loop_buys_no_more_answers() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::closed();
    let kind = {
        let gate = gate.clone();
        move || Definition {
            provider_override: Some(Arc::new(FnModel::new(|_| Step::text("at last")).behind(&gate))),
            ..Definition::default()
        }
    };
    let open = || async {
        let kind = kind.clone();
        let house = House::builder().data_dir(folder.path().join("data")).kind("loops", move |_| ready(Ok(kind())));
        house.open().await.unwrap()
    };
    let house = open().await;
    let model = FnModel::new(|_| Step::text("at last")).behind(&gate);
    let agent = house.agent().kind("loops").provider_override(model).durability(Durability::Os).spawn().await.unwrap();
    let (session, asking) = (agent.session_id(), agent.clone());
    tokio::spawn(async move { asking.prompt("begin").await });
    soon("the request", gate.reached(1)).await;
    house.shutdown(Duration::ZERO).await;
    for asked in 2..=ASKED {
        let house = open().await;
        house.resume(&session).await.unwrap();
        soon("the request", gate.reached(asked)).await;
        house.shutdown(Duration::ZERO).await;
    }
    for told in [false, true] {
        let house = open().await;
        let agent = house.resume(&session).await.unwrap();
        let is_parked = || house.tree().iter().any(|node| matches!(node.state, NodeState::Parked { .. }));
        until("the agent is parked", is_parked).await;
        assert_eq!(gate.came(), ASKED);
        if told {
            // Whoever tells it something means it to go on, with all its restarts before it.
            soon("the steer", agent.steer("go on")).await.unwrap();
            soon("the request", gate.reached(ASKED + 1)).await;
        }
        house.shutdown(Duration::ZERO).await;
    }
    for asked in ASKED + 2..=2 * ASKED {
        let house = open().await;
        house.resume(&session).await.unwrap();
        soon("the request", gate.reached(asked)).await;
        house.shutdown(Duration::ZERO).await;
    }
    // As `playhouse resume SESSION` does: someone wants this one to go on, parked or not.
    let house = open().await;
    let mut events = house.subscribe();
    let agent = house.resume_parked(&session).await.unwrap();
    soon("the request", gate.reached(2 * ASKED + 1)).await;
    gate.open();
    wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { .. })).await;
    assert_eq!(lines(healthy(&agent).await.messages.as_slice())[..2], ["user: begin", "model: at last"]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f31_a_journal_that_cannot_be_written_parks_the_agent_until_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let agent = house.agent().provider_override(FnModel::new(|_| Step::text("ok"))).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();
    let name = format!("{}.journal", agent.session_id());
    let folders = std::fs::read_dir(folder.path().join("data/sessions")).unwrap();
    let journal = folders.map(|entry| entry.unwrap().path().join(&name)).find(|path| path.exists()).unwrap();
    // Someone else writes into it: nothing more is appended until it was read again.
    std::fs::OpenOptions::new().append(true).open(&journal).unwrap().write_all(b"half a rec").unwrap();
    let refused = soon("an answer", agent.prompt("two")).await.unwrap_err();
    let HandleError::Input(InputError::NotJournaled(reason)) = &refused else { panic!("{refused:?}") };
    assert!(reason.contains("changed by someone else"), "{reason}");
    let is_parked = || house.tree().iter().any(|node| matches!(node.state, NodeState::Parked { .. }));
    until("the agent is parked", is_parked).await;
    assert_eq!(soon("an answer", agent.prompt("three")).await.unwrap().text(), "ok");
    let told = lines(healthy(&agent).await.messages.as_slice());
    assert_eq!(told, ["user: one", "model: ok", "user: three", "model: ok"]);
    house.shutdown(Duration::ZERO).await;
}

/// Everything that could keep growing.
fn left(services: &Services) -> [usize; 5] {
    [
        services.agents.len(),
        services.hub.len(),
        playhouse::agent::testing::connections(services).len(),
        services.connections.roster.len(),
        services.tree.len(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_a_thousand_agents_leave_nothing() {
    let house = House::in_memory().await.unwrap();
    let services = house.services().clone();
    let writers = 4;
    until("the house is up", || services.tree.len() == 5 + writers).await;
    house
        .agent()
        .provider_override(FnModel::new(|_| Step::text("ok")))
        .spawn()
        .await
        .unwrap()
        .prompt("x")
        .await
        .unwrap();
    let first = house.agents().pop().unwrap();
    house.dismiss(first.id()).await;
    until("the first is gone", || left(&services) == [0, 0, 0, 0, 5 + writers]).await;
    let baseline = tasks();
    for _ in 0..20 {
        let mut agents = JoinSet::new();
        for n in 0..50 {
            let house = house.clone();
            agents.spawn(async move {
                // Some are dismissed in the middle of it, with a tool or a sub-agent at work.
                let (tool, wait) = match n % 10 {
                    0 => ("hang", true),
                    1 => ("helper", true),
                    _ => ("fine", false),
                };
                let model = FnModel::new(move |config| match (config.response, config.system_prompt.as_ref()) {
                    (_, "child") => Step::text("").tool_call("hang", json!({})),
                    (0, _) => Step::text("").tool_call(tool, json!({"task": "hang around"})),
                    (_, _) => Step::text("ok"),
                });
                let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(hanging("hang"))];
                let child = Definition { tools: Some(ToolSet::new(tools).unwrap()), ..Definition::default() };
                let helper = SubAgentTool::new("helper").with_system_prompt("child").with_definition(child);
                let agent = house.agent().provider_override(model).tool(saying("fine", "ok")).tool(hanging("hang"));
                let agent = agent.sub_agent(helper).spawn().await.unwrap();
                let mut events = agent.subscribe();
                if wait {
                    let asking = agent.clone();
                    let run = tokio::spawn(async move { asking.prompt("go").await });
                    wait_for(&mut events, |event| matches!(event, AgentEvent::ToolExecutionStart { .. })).await;
                    house.dismiss(agent.id()).await;
                    assert_eq!(soon("an answer", run).await.unwrap(), Err(HandleError::Absent(Absent::Gone)));
                } else {
                    agent.prompt("go").await.unwrap();
                    house.dismiss(agent.id()).await;
                }
                while soon("the end of the events", events.next()).await.is_some() {}
            });
        }
        soon("fifty agents", agents.join_all()).await;
    }
    let begun = std::time::Instant::now();
    while (left(&services) != [0, 0, 0, 0, 5 + writers] || tasks() > baseline) && begun.elapsed() < kit::DEADLINE {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(left(&services), [0, 0, 0, 0, 5 + writers], "{:#?}", house.tree());
    assert!(tasks() <= baseline, "{} tasks instead of {baseline}", tasks());
    assert_eq!(house.sessions().await.unwrap(), []);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_an_abort_right_after_a_crash_leaves_nothing_of_a_sub_agent() {
    let house = House::in_memory().await.unwrap();
    let services = house.services().clone();
    let model = FnModel::new(|config| match config.system_prompt.as_ref() {
        "child" => Step::text("").tool_call("hang", json!({})),
        _ => Step::text("").tool_call("helper", json!({"task": "hang around"})),
    });
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(hanging("hang"))];
    let child = Definition { tools: Some(ToolSet::new(tools).unwrap()), ..Definition::default() };
    let helper = SubAgentTool::new("helper").with_system_prompt("child").with_definition(child);
    let agent = house.agent().provider_override(model).sub_agent(helper).spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt_report("go").await });
    until("the sub-agent is at work", || house.tree().iter().filter(|node| node.kind == "tool").count() == 1).await;
    house.crash(agent.id()).await.unwrap();
    soon("the abort", agent.abort()).await.unwrap();
    assert_eq!(soon("the run", run).await.unwrap().unwrap().outcome, Outcome::Aborted);
    until("only the agent is left", || (services.agents.len(), services.hub.len()) == (1, 1)).await;
    let agents: Vec<_> = house.tree().into_iter().filter(|node| node.kind == "agent").collect();
    assert_eq!(agents.len(), 1, "{agents:#?}");
    healthy(&agent).await;
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_a_closed_house_keeps_nobody_waiting_and_leaves_no_task() {
    let before = tasks();
    let house = House::in_memory().await.unwrap();
    let gate = Gate::closed();
    let model = FnModel::new(|_| Step::text("never")).behind(&gate);
    let agent = house.agent().provider_override(model).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    gate.reached(1).await;
    soon("the end of the house", house.shutdown(Duration::ZERO)).await;
    assert_eq!(soon("an answer", run).await.unwrap(), Err(HandleError::Absent(Absent::Gone)));
    assert_eq!(soon("an answer", agent.prompt("more")).await, Err(HandleError::Closing));
    while soon("the end of the events", events.next()).await.is_some() {}
    drop((agent, house));
    until("no task is left", || tasks() <= before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_needs_nobody_to_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let model = FnModel::new(|_| Step::text("all by myself").chunk(1).delay_ms(2));
    let agent = house.agent().provider_override(model).durability(Durability::Os).spawn().await.unwrap();
    let session = agent.session_id();
    let mut events = agent.subscribe();
    let run = tokio::spawn(async move { agent.prompt("begin").await });
    wait_for(&mut events, |event| matches!(event, AgentEvent::MessageUpdate { .. })).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let end = wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { .. })).await;
    let AgentEvent::AgentEnd { messages, outcome, .. } = &end.event else { unreachable!() };
    assert_eq!((lines(messages), outcome), (vec!["user: begin".into(), "model: all by myself".into()], &Outcome::Stop));
    let stored = house.session(&session).await.unwrap();
    assert_eq!((stored.status, stored.messages), (SessionStatus::Done, 2));
    house.shutdown(Duration::ZERO).await;
}
