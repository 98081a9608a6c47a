//! One session, one agent: opening, spawning, dismissing, resuming and removing, at once and in every order.

#[path = "support/kit.rs"]
mod kit;

use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kit::{FnModel, Gate, healthy, lines, soon, until};
use playhouse::agent::new_input;
use playhouse::prelude::*;
use playhouse::protocol::SessionId;
use playhouse::protocol::{Command, Op};
use serde_json::json;
use tokio::task::JoinSet;

const KIND: &str = "plain";

fn definition() -> Definition {
    let model = FnModel::new(|_| Step::text("ok"));
    Definition { provider_override: Some(Arc::new(model)), ..Definition::default() }
}

async fn house_in(folder: &Path) -> House {
    House::builder().data_dir(folder.join("data")).kind(KIND, |_| ready(Ok(definition()))).open().await.unwrap()
}

fn agent_of(house: &House) -> AgentBuilder {
    house.agent().kind(KIND).definition(definition()).durability(Durability::Os)
}

/// A session with one prompt in it, whose agent is off the stage again.
async fn stored(house: &House) -> SessionId {
    let agent = agent_of(house).spawn().await.unwrap();
    agent.prompt("first").await.unwrap();
    house.dismiss(agent.id()).await;
    agent.session_id()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_a_session_that_is_opened_again_has_the_agent_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let session = stored(&house).await;
    let mut opening = JoinSet::new();
    for _ in 0..8 {
        let (house, session) = (house.clone(), session.clone());
        opening.spawn(async move {
            let agent = agent_of(&house).session(session.clone()).open().await.unwrap();
            let resumed = house.resume(&session).await.unwrap();
            assert_eq!(agent.id(), resumed.id());
            agent
        });
    }
    let agents = soon("eight handles", opening.join_all()).await;
    assert!(agents.iter().all(|agent| agent.id() == agents[0].id()));
    assert_eq!(house.agents().len(), 1);
    for (n, agent) in agents.iter().enumerate() {
        agent.prompt(&format!("prompt {n}")).await.unwrap();
    }
    let said = lines(healthy(&agents[0]).await.messages.as_slice());
    house.shutdown(Duration::ZERO).await;

    let next = house_in(folder.path()).await;
    let told = lines(healthy(&next.resume(&session).await.unwrap()).await.messages.as_slice());
    assert_eq!((told.len(), &told), (18, &said), "what was acknowledged is in the journal");
    next.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_nothing_new_is_spawned_on_a_session_that_exists() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let session = stored(&house).await;
    let refused = agent_of(&house).session(session.clone()).spawn().await.unwrap_err().to_string();
    assert!(refused.contains("has a journal already") && refused.contains("open"), "{refused}");
    assert_eq!(healthy(&house.resume(&session).await.unwrap()).await.messages.len(), 2);

    // One that has no journal yet can be spawned once.
    let new = SessionId::new("never-seen").unwrap();
    let spawn = || agent_of(&house).session(new.clone()).spawn();
    let (a, b) = tokio::join!(spawn(), spawn());
    let refused = match (&a, &b) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused.to_string(),
        _ => panic!("{a:?} {b:?}"),
    };
    assert!(refused.contains("never-seen") && refused.contains("on stage"), "{refused}");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_a_session_in_memory_has_one_agent_too() {
    let house = House::in_memory().await.unwrap();
    let session = SessionId::new("in-memory").unwrap();
    let one = house.agent().definition(definition()).session(session.clone()).spawn().await.unwrap();
    one.prompt("one").await.unwrap();
    assert!(house.agent().definition(definition()).session(session.clone()).spawn().await.is_err());
    let two = house.agent().definition(definition()).session(session.clone()).open().await.unwrap();
    two.prompt("two").await.unwrap();
    assert_eq!(one.id(), two.id());
    assert_eq!(healthy(&one).await.messages.len(), 4);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_an_earlier_session_of_an_agent_leads_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let agent = agent_of(&house).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();
    let earlier = agent.session_id();
    let later = agent.new_session().await.unwrap();
    let same = agent_of(&house).session(earlier.clone()).open().await.unwrap();
    assert_eq!((same.id(), same.session_id()), (agent.id(), later.clone()));
    house.shutdown(Duration::ZERO).await;

    // In a house that does not know what led where, the second one is told.
    let house = house_in(folder.path()).await;
    let agent = house.resume(&later).await.unwrap();
    agent.prompt("two").await.unwrap();
    let second = agent_of(&house).session(earlier).open().await.unwrap();
    let refused = soon("an answer", second.prompt("three")).await.unwrap_err().to_string();
    assert!(refused.contains(later.as_str()), "{refused}");
    assert_eq!(healthy(&agent).await.messages.len(), 4);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dismissing_and_resuming_at_once_leaves_an_agent_or_none_and_no_ghost() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let agent = agent_of(&house).spawn().await.unwrap();
    agent.prompt("first").await.unwrap();
    let (id, session) = (agent.id().clone(), agent.session_id());
    for round in 0..60 {
        let (dismissing, resuming) = (house.clone(), house.clone());
        let (agent, wanted) = (id.clone(), session.clone());
        let dismissed = tokio::spawn(async move { dismissing.dismiss(&agent).await });
        let resumed = tokio::spawn(async move {
            for _ in 0..round % 8 {
                tokio::task::yield_now().await;
            }
            resuming.resume(&wanted).await
        });
        soon("the dismissal", dismissed).await.unwrap();
        soon("the resumption", resumed).await.unwrap().unwrap();
        if let Some(up) = house.get(&id) {
            soon("whoever is on stage answers", up.state()).await.unwrap();
        }
        let again = soon("a second resumption", house.resume(&session)).await.unwrap();
        assert_eq!(soon("it answers", again.state()).await.unwrap().messages.len(), 2, "round {round}");
    }
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_agent_is_on_stage_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let gate = Gate::closed();
    let model = FnModel::new(|config| match (&*config.first_prompt, config.response) {
        ("begin", 0) => Step::text("").tool_call("helper", json!({"task": "wait"})),
        ("wait", 0) => Step::text("").tool_call("gate", json!({})),
        _ => Step::text("ok"),
    });
    let tools = Some(ToolSet::new(vec![Arc::new(gate.tool("gate"))]).unwrap());
    let helper = SubAgentTool::new("helper").with_definition(Definition { tools, ..Definition::default() });
    let agent = house.agent().provider_override(model).sub_agent(helper).spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    soon("the sub-agent is at work", gate.reached(1)).await;
    let sessions: Vec<SessionId> =
        house.sessions().await.unwrap().into_iter().map(|session| session.session_id).collect();
    assert_eq!(sessions.len(), 2);
    for session in &sessions {
        let refused = house.remove_session(session).await.unwrap_err().to_string();
        assert!(refused.contains("on stage") && refused.contains("dismiss"), "{refused}");
    }
    gate.open();
    assert_eq!(soon("the run", run).await.unwrap().unwrap().text(), "ok");
    house.dismiss(agent.id()).await;
    for session in &sessions {
        house.remove_session(session).await.unwrap();
    }
    assert!(house.sessions().await.unwrap().is_empty());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_a_dismissed_agent_takes_its_earlier_sessions_along() {
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().definition(definition()).spawn().await.unwrap();
    for _ in 0..3 {
        agent.prompt("say something").await.unwrap();
        agent.new_session().await.unwrap();
    }
    assert!(house.sessions().await.unwrap().len() >= 3);
    house.dismiss(agent.id()).await;
    assert_eq!(house.sessions().await.unwrap(), Vec::new());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_a_dismissed_agent_takes_the_sub_agents_along_that_a_crash_left() {
    let house = House::in_memory().await.unwrap();
    let services = house.services().clone();
    let gate = Gate::closed();
    let tools = Some(ToolSet::new(vec![Arc::new(gate.tool("gate"))]).unwrap());
    let inner = SubAgentTool::new("helper").with_definition(Definition { tools, ..Definition::default() });
    let sub_agents = vec![Arc::new(inner)];
    let outer = SubAgentTool::new("helper").with_definition(Definition { sub_agents, ..Definition::default() });
    until("the house is up", || services.tree.len() >= 9).await;
    let quiet = [services.agents.len(), services.hub.len(), services.tree.len()];
    for round in 1..=20 {
        let model = FnModel::new(|config| match (&*config.first_prompt, config.response) {
            ("begin", 0) => Step::text("").tool_call("helper", json!({"task": "one"})),
            ("one", 0) => Step::text("").tool_call("helper", json!({"task": "two"})),
            ("two", 0) => Step::text("").tool_call("gate", json!({})),
            _ => Step::text("ok"),
        });
        let agent = house.agent().provider_override(model).sub_agent(outer.clone()).spawn().await.unwrap();
        let asking = agent.clone();
        let run = tokio::spawn(async move { asking.prompt("begin").await });
        soon("the deepest is at work", gate.reached(round)).await;
        // Gone with everything beneath it, and dismissed before it has taken that up again.
        agent.crash().await.unwrap();
        house.dismiss(agent.id()).await;
        assert!(soon("the run", run).await.unwrap().is_err());
    }
    until("nothing is left", || [services.agents.len(), services.hub.len(), services.tree.len()] == quiet).await;
    assert_eq!(house.sessions().await.unwrap(), Vec::new());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_no_agent_goes_on_in_a_session_that_another_has() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let (one, two) = (agent_of(&house).spawn().await.unwrap(), agent_of(&house).spawn().await.unwrap());
    one.prompt("one").await.unwrap();
    two.prompt("two").await.unwrap();
    let rotate = Command::new(new_input(), Op::Rotate { to: two.session_id() });
    let refused = soon("an answer", one.submit(rotate)).await.unwrap_err().to_string();
    assert!(refused.contains(two.id().as_str()) && !refused.contains("not known"), "{refused}");
    for (agent, said) in [(&one, "user: one"), (&two, "user: two")] {
        agent.prompt("again").await.unwrap();
        assert_eq!(lines(healthy(agent).await.messages.as_slice())[0], said);
    }
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_no_agent_goes_on_in_a_session_that_has_a_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let (one, two) = (agent_of(&house).spawn().await.unwrap(), agent_of(&house).spawn().await.unwrap());
    one.prompt("one").await.unwrap();
    two.prompt("two").await.unwrap();
    let (theirs, former) = (two.session_id(), one.session_id());
    house.dismiss(two.id()).await;
    one.new_session().await.unwrap();
    one.prompt("more").await.unwrap();
    let before = house.entries(&theirs).await.unwrap();
    for to in [&theirs, &former] {
        let rotate = Command::new(new_input(), Op::Rotate { to: to.clone() });
        let refused = soon("an answer", one.submit(rotate)).await.unwrap_err().to_string();
        assert!(refused.contains("has a conversation already"), "{refused}");
        // It goes on where it was, at once.
        one.prompt("again").await.unwrap();
        assert_eq!(lines(healthy(&one).await.messages.as_slice())[0], "user: one");
    }
    assert_eq!(house.entries(&theirs).await.unwrap(), before);
    let again = house.resume(&theirs).await.unwrap();
    again.prompt("still here").await.unwrap();
    assert_eq!(lines(healthy(&again).await.messages.as_slice())[0], "user: two");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_a_sub_agents_session_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::closed();
    let kind = {
        let gate = gate.clone();
        move || {
            let model = FnModel::new(|config| match (&*config.first_prompt, config.response) {
                ("begin", 0) => Step::text("").tool_call("helper", json!({"task": "wait"})),
                ("wait", 0) => Step::text("").tool_call("gate", json!({})),
                _ => Step::text("ok"),
            });
            let tools = Some(ToolSet::new(vec![Arc::new(gate.tool("gate"))]).unwrap());
            let helper = SubAgentTool::new("helper").with_definition(Definition { tools, ..Definition::default() });
            let sub_agents = vec![Arc::new(helper)];
            Definition { provider_override: Some(Arc::new(model)), sub_agents, ..Definition::default() }
        }
    };
    let open = || {
        let kind = kind.clone();
        House::builder().data_dir(folder.path().join("data")).kind("family", move |_| ready(Ok(kind()))).open()
    };
    let house = open().await.unwrap();
    let agent = house.agent().kind("family").definition(kind()).spawn().await.unwrap();
    let asking = agent.clone();
    let run = tokio::spawn(async move { asking.prompt("begin").await });
    soon("the sub-agent is at work", gate.reached(1)).await;
    let sessions = house.sessions().await.unwrap();
    let child = sessions.into_iter().find(|session| session.parent.is_some()).unwrap().session_id;
    let refused = agent_of(&house).session(child.clone()).open().await.unwrap_err().to_string();
    assert!(refused.contains("sub-agent") && refused.contains(agent.id().as_str()), "{refused}");
    house.shutdown(Duration::ZERO).await;
    assert!(soon("the run", run).await.unwrap().is_err());

    // Nobody has it now. Whoever opens it is told, and keeps the parent from it only until it leaves.
    let house = open().await.unwrap();
    let stranger = agent_of(&house).session(child.clone()).open().await.unwrap();
    let told = soon("an answer", stranger.prompt("mine")).await.unwrap_err().to_string();
    assert!(told.contains("belongs to a sub-agent"), "{told}");
    let mut events = house.subscribe();
    let parent = house.resume(&agent.session_id()).await.unwrap();
    let parked = || house.tree().iter().any(|node| node.id.contains(parent.id().as_str()) && is_parked(node));
    until("the parent is parked", parked).await;
    house.dismiss(stranger.id()).await;
    gate.open();
    house.unpark(parent.id()).await.unwrap();
    kit::wait_for(&mut events, |event| matches!(event, AgentEvent::AgentEnd { outcome: Outcome::Stop, .. })).await;
    until("the parent is done", || !parked()).await;
    soon("the parent rests", parent.at_rest()).await.unwrap();
    assert_eq!(lines(healthy(&parent).await.messages.as_slice())[2..], ["helper: ok", "model: ok"]);
    house.shutdown(Duration::ZERO).await;
}

fn is_parked(node: &playhouse::supervision::NodeSnapshot) -> bool {
    matches!(node.state, playhouse::supervision::NodeState::Parked { .. })
}

#[tokio::test]
async fn f53_a_spawn_that_nobody_waits_for_leaves_no_session_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let session = stored(&house).await;
    for polls in 0..40 {
        let spawning = agent_of(&house).session(session.clone()).spawn();
        tokio::pin!(spawning);
        for _ in 0..polls {
            if futures::poll!(&mut spawning).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let mut removed = house.remove_session(&session).await;
    for _ in 0..1_000 {
        // What was begun is carried out, a moment later.
        if removed.is_ok() {
            break;
        }
        tokio::task::yield_now().await;
        removed = house.remove_session(&session).await;
    }
    removed.unwrap();
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f57_a_damaged_session_is_not_gone_on_with_by_a_program_either() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_in(folder.path()).await;
    let session = stored(&house).await;
    let name = format!("{session}.journal");
    let folders = std::fs::read_dir(folder.path().join("data/sessions")).unwrap();
    let journal = folders.map(|entry| entry.unwrap().path().join(&name)).find(|path| path.exists()).unwrap();
    let whole = std::fs::read_to_string(&journal).unwrap();
    for lost in 0..whole.lines().count() {
        let line = |(n, line): (usize, &str)| if n == lost { "garbage\n".to_owned() } else { format!("{line}\n") };
        let damaged: String = whole.lines().enumerate().map(line).collect();
        std::fs::write(&journal, &damaged).unwrap();
        let refused = house.resume(&session).await.unwrap_err().to_string();
        assert!(refused.contains("is damaged") && refused.contains("--accept-broken-chain"), "line {lost}: {refused}");
        let opened = agent_of(&house).session(session.clone()).open().await.unwrap();
        let told = soon("an answer", opened.prompt("go on")).await.unwrap_err().to_string();
        assert!(told.contains("is damaged"), "line {lost}: {told}");
        house.dismiss(opened.id()).await;
        assert_eq!(std::fs::read_to_string(&journal).unwrap(), damaged, "line {lost}: nothing was added");
    }
    house.shutdown(Duration::ZERO).await;
}
