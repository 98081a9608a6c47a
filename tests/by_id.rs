//! Agents by their ids: sub-agents are found too, and an id from outside is checked.

#[path = "support/kit.rs"]
mod kit;

use std::sync::Arc;
use std::time::Duration;

use kit::{FnModel, Gate, soon, until};
use playhouse::SpawnError;
use playhouse::prelude::*;
use playhouse::protocol::AgentId;
use serde_json::json;

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

/// Prompts an agent and gives the id of its sub-agent once that waits for its model.
async fn child_at_work(house: &House, agent: &AgentHandle, gate: &Gate, asked: usize) -> AgentId {
    let mut events = house.subscribe();
    let asking = agent.clone();
    tokio::spawn(async move { asking.prompt("begin").await });
    soon("the request", gate.reached(asked)).await;
    loop {
        let event = soon("the sub-agent's start", events.next()).await.unwrap();
        if let AgentEvent::SubAgentStart { child_session_id, .. } = &event.event {
            return child_session_id.as_str().into();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sub_agent_is_found_by_its_id_for_as_long_as_it_is_on_stage() {
    let (house, gate) = (House::in_memory().await.unwrap(), Gate::closed());
    let agent = house.agent().definition(with_a_slow_helper(&gate)).spawn().await.unwrap();
    let child = child_at_work(&house, &agent, &gate, 1).await;
    let found = house.get(&child).unwrap();
    assert_eq!((found.id(), found.session_id().as_str()), (&child, child.as_str()));
    assert!(found.state().await.unwrap().is_streaming);
    let roots: Vec<AgentId> = house.agents().iter().map(|agent| agent.id().clone()).collect();
    assert_eq!(roots, [agent.id().clone()]);
    let taken = house.agent().id(child.clone()).provider_override(Scripted::new([])).spawn().await;
    assert!(matches!(taken, Err(SpawnError::Taken(id)) if id == child));

    // The next incarnation is found as well, and one that is over is not, though someone holds a handle to it.
    found.crash().await.unwrap();
    soon("the request", gate.reached(2)).await;
    assert!(house.get(&child).unwrap().state().await.unwrap().is_streaming);
    gate.open();
    until("the sub-agent is over", || house.get(&child).is_none()).await;
    assert!(matches!(found.state().await, Err(HandleError::Absent(_))));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sub_agent_leaves_with_its_parent() {
    let (house, gate) = (House::in_memory().await.unwrap(), Gate::closed());
    let agent = house.agent().definition(with_a_slow_helper(&gate)).spawn().await.unwrap();
    let child = child_at_work(&house, &agent, &gate, 1).await;
    let found = house.get(&child).unwrap();
    house.dismiss(agent.id()).await;
    assert!(house.get(&child).is_none() && house.get(agent.id()).is_none());
    drop(found);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn what_cannot_be_an_id_is_refused_and_says_what_can() {
    let house = House::in_memory().await.unwrap();
    let long = "x".repeat(201);
    for bad in ["", "a b", "a/b", "writer/0", "a\n", "a\u{1b}[31m", "größe", long.as_str()] {
        assert!(AgentId::new(bad).is_err(), "{bad:?}");
        let agent = || house.agent().id(bad).provider_override(Scripted::new([]));
        for refused in [agent().spawn().await, agent().open().await] {
            let error = refused.unwrap_err();
            assert!(matches!(error, SpawnError::InvalidId(_)), "{error}");
            assert!(error.to_string().contains("1 to 200 characters") && error.to_string().len() < 400, "{error}");
        }
    }
    for good in ["director", "agent-7", "eva@example.org", "0190-a_Z"] {
        assert_eq!(AgentId::new(good).unwrap().as_str(), good);
    }
    assert!(house.agents().is_empty());
    house.shutdown(Duration::ZERO).await;
}
