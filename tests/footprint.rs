//! What agents cost in memory, and that nothing stays of those that are gone. The whole process is measured, so these
//! tests have one of their own and take turns.

#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::time::Duration;

use playhouse::prelude::*;
use tokio::sync::Mutex;

static ALONE: Mutex<()> = Mutex::const_new(());

/// How much memory this process has of the machine.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: usize = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    kilobytes * 1024
}

/// Agents like this one, each prompted once.
async fn agents(n: usize, like: &AgentBuilder) -> Vec<AgentHandle> {
    let mut agents = Vec::with_capacity(n);
    for _ in 0..n {
        agents.push(like.clone().spawn().await.unwrap());
    }
    for agent in &agents {
        assert_eq!(agent.prompt("Say hello.").await.unwrap().text(), "Hello from the stage.");
    }
    agents
}

async fn dismiss(house: &House, agents: Vec<AgentHandle>) {
    for agent in agents {
        house.dismiss(agent.id()).await;
    }
}

/// What a house holds of agents: addresses, topics, handles, sessions, and everything alive.
async fn held(house: &House) -> [usize; 5] {
    let (services, sessions) = (house.services(), house.sessions().await.unwrap());
    [services.agents.len(), services.hub.len(), house.agents().len(), sessions.len(), house.tree().len()]
}

fn definition() -> Definition {
    let model = Scripted::new([Step::text("Hello from the stage.")]);
    Definition {
        provider_override: Some(Arc::new(model)),
        tools: Some(ToolSet::new(default_tools()).unwrap()),
        ..Definition::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_many_agents_at_rest_cost_little_and_leave_nothing() {
    let _alone = ALONE.lock().await;
    let house = House::in_memory().await.unwrap();
    let like = house.agent().definition(definition());
    // It stays, and so does the connection to the provider that all of them share.
    let first = agents(1, &like).await;
    let before = held(&house).await;
    dismiss(&house, agents(20, &like).await).await;

    let empty = resident();
    let many = agents(1_000, &like).await;
    let each = (resident() - empty) / many.len();
    // It is about 12 KB. Half of that is what ractor needs for an actor.
    assert!(each < 16_000, "an agent at rest costs {each} bytes");
    dismiss(&house, many).await;
    assert_eq!(held(&house).await, before);

    let full = resident();
    for _ in 0..8 {
        dismiss(&house, agents(250, &like).await).await;
    }
    let left = resident().saturating_sub(full);
    assert!(left < 2 << 20, "{left} bytes are left of 2,000 agents");
    assert_eq!(held(&house).await, before);
    drop(first);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_one_builder_share_what_they_have_in_common() {
    let _alone = ALONE.lock().await;
    let house = House::in_memory().await.unwrap();
    let like = house.agent().definition(definition()).system_prompt("be brief ".repeat(100_000));
    let first = agents(1, &like).await;
    let before = resident();
    let more = agents(50, &like).await;
    let each = (resident() - before) / more.len();
    assert!(each < 100_000, "an agent costs {each} bytes, with a system prompt of 900,000 that it shares");
    assert_ne!(first[0].id(), more[0].id());
    assert_ne!(first[0].session_id(), more[0].session_id());
    house.shutdown(Duration::ZERO).await;
}
