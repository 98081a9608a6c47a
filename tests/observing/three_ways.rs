//! The three ways to observe, each by the name it has.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use playhouse::prelude::*;
use serde_json::json;

use crate::kit::{Gate, be_quiet_about, hanging, lines, name_of, rest_of_run, saying, soon};

fn two_turns() -> Scripted {
    Scripted::new([Step::text("Let me look. ").tool_call("look", json!({})).chunk(3), Step::text("Done.")])
}

/// What happened, pieces aside: how many there are depends on who was faster.
fn names(events: &[Arc<Event>]) -> Vec<String> {
    events.iter().map(|event| name_of(&event.event)).filter(|name| name != "MessageUpdate").collect()
}

const TWO_TURNS: [&str; 18] = [
    "AgentStart",
    "TurnStart",
    "MessageStart",
    "MessageEnd",
    "ModelRequestStart",
    "MessageStart",
    "MessageEnd",
    "ToolExecutionStart",
    "ToolExecutionEnd",
    "MessageStart",
    "MessageEnd",
    "TurnEnd",
    "TurnStart",
    "ModelRequestStart",
    "MessageStart",
    "MessageEnd",
    "TurnEnd",
    "AgentEnd",
];

#[tokio::test]
async fn on_event_is_called_with_everything_in_order_before_the_house_has_ended() {
    let house = House::in_memory().await.unwrap();
    let (seen, slow) = (Arc::<Mutex<Vec<Arc<Event>>>>::default(), Arc::<Mutex<Vec<Arc<Event>>>>::default());
    let (sees, sees_slowly) = (seen.clone(), slow.clone());
    let agent = house
        .agent()
        .provider_override(two_turns())
        .tool(saying("look", "a view"))
        .on_event(move |event| sees.lock().unwrap().push(Arc::new(event.clone())))
        .on_event(move |event| {
            std::thread::sleep(Duration::from_millis(20));
            sees_slowly.lock().unwrap().push(Arc::new(event.clone()));
        })
        .spawn()
        .await
        .unwrap();
    let report = soon("the answer", agent.prompt("Look.")).await.unwrap();
    assert_eq!(report.text(), "Done.");
    soon("the end", house.shutdown(Duration::ZERO)).await;
    for seen in [seen, slow] {
        let seen = seen.lock().unwrap();
        assert_eq!(names(&seen), TWO_TURNS);
        assert!(seen.is_sorted_by_key(|event| event.id), "{seen:#?}");
    }
}

#[tokio::test]
async fn a_callback_that_panics_or_blocks_does_not_hold_up_the_agent() {
    be_quiet_about("a callback's own");
    let house = House::in_memory().await.unwrap();
    let (stuck, may_end) = std::sync::mpsc::channel::<()>();
    let may_end = Mutex::new(may_end);
    let agent = house
        .agent()
        .provider_override(two_turns())
        .tool(saying("look", "a view"))
        .on_event(|_| panic!("a callback's own fault"))
        .on_event(move |_| _ = may_end.lock().unwrap().recv())
        .spawn()
        .await
        .unwrap();
    assert_eq!(soon("the answer", agent.prompt("Look.")).await.unwrap().text(), "Done.");
    drop(stuck);
    soon("the end", house.shutdown(Duration::ZERO)).await;
}

#[tokio::test]
async fn every_subscriber_of_a_broadcast_gets_everything_and_a_crash_does_not_end_it() {
    let house = House::in_memory().await.unwrap();
    let agent = house
        .agent()
        .provider_override(two_turns())
        .tool(saying("look", "a view"))
        .enable_broadcast(256)
        .spawn()
        .await
        .unwrap();
    let mut consumers: Vec<Subscription> = (0..10).map(|_| agent.subscribe()).collect();
    soon("the crash", agent.crash()).await.unwrap();
    soon("the answer", agent.prompt("Look.")).await.unwrap();
    for consumer in &mut consumers {
        assert_eq!(names(&rest_of_run(consumer).await), TWO_TURNS);
    }
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_broadcast_with_little_room_tells_a_slow_consumer_that_it_lags() {
    let house = House::in_memory().await.unwrap();
    let agent = house
        .agent()
        .provider_override(two_turns())
        .tool(saying("look", "a view"))
        .enable_broadcast(4)
        .spawn()
        .await
        .unwrap();
    let mut slow = agent.subscribe();
    soon("the answer", agent.prompt("Look.")).await.unwrap();
    let seen = rest_of_run(&mut slow).await;
    assert_eq!(names(&seen), ["Lagged", "TurnEnd", "MessageEnd", "TurnEnd", "AgentEnd"]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_run_is_a_stream_that_ends_with_it() {
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().provider_override(two_turns()).tool(saying("look", "a view")).spawn().await.unwrap();
    let mut run = soon("the start", agent.run_stream("Look.")).await.unwrap();
    // As a `Stream`, with what the field's crates offer for those.
    let seen: Vec<Arc<Event>> = soon("the events", StreamExt::by_ref(&mut run).collect()).await;
    assert_eq!(names(&seen), TWO_TURNS);
    assert_eq!(run.next().await, None);
    let output: Arc<AgentOutput> = soon("the output", run.output()).await.unwrap();
    assert_eq!((output.text().as_str(), &output.outcome), ("Done.", &Outcome::Stop));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_stream_answers_questions_and_speaks_into_the_run() {
    let house = House::in_memory().await.unwrap();
    let model = Scripted::new([
        Step::text("Deploying.").tool_call("deploy", json!({"to": "east"})).tool_call("deploy", json!({"to": "west"})),
        Step::text("One of two, as you wish."),
    ]);
    let agent = house
        .agent()
        .provider_override(model)
        .tool(saying("deploy", "deployed").asks("it changes the world"))
        .approvals(Approvals::Watcher)
        .spawn()
        .await
        .unwrap();
    let mut run = soon("the start", agent.run_stream("Deploy")).await.unwrap();
    while let Some(event) = soon("the next event", run.next()).await {
        let AgentEvent::PermissionRequired { permission_id, args, .. } = &event.event else { continue };
        if args["to"] == "east" {
            run.inject_message("Actually, stop after this.").await.unwrap();
            run.respond_permission(permission_id.clone(), PermissionDecision::Allow).await.unwrap();
        } else {
            let reason = "not west".to_owned();
            run.respond_permission(permission_id.clone(), PermissionDecision::Deny { reason }).await.unwrap();
        }
    }
    let output = soon("the output", run.output()).await.unwrap();
    assert_eq!(
        lines(&output.messages),
        [
            "user: Deploy",
            "model: Deploying.[deploy, deploy]",
            "deploy: deployed",
            "!deploy: not west",
            "user: Actually, stop after this.",
            "model: One of two, as you wish.",
        ]
    );
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_stream_cancels_its_run_and_still_tells_how_it_ended() {
    let house = House::in_memory().await.unwrap();
    let model = Scripted::new([Step::text("On it.").tool_call("wait", json!({}))]);
    let agent = house.agent().provider_override(model).tool(hanging("wait")).spawn().await.unwrap();
    let mut run = soon("the start", agent.run_stream("Wait")).await.unwrap();
    let mut last = None;
    while let Some(event) = soon("the next event", run.next()).await {
        if let AgentEvent::ToolExecutionStart { .. } = event.event {
            run.cancel().await.unwrap();
        }
        last = Some(name_of(&event.event));
    }
    assert_eq!(last.as_deref(), Some("AgentEnd"));
    assert_eq!(soon("the output", run.report()).await.unwrap().outcome, Outcome::Aborted);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_stream_outlives_a_crash_and_ends_when_the_agent_cannot_go_on() {
    let house = House::in_memory().await.unwrap();
    let gate = Gate::closed();
    let model = Scripted::new([Step::text("").tool_call("gate", json!({})), Step::text("Through.")]);
    let agent = house.agent().provider_override(model).tool(gate.tool("gate")).spawn().await.unwrap();
    let mut run = soon("the start", agent.run_stream("Pass")).await.unwrap();
    soon("the gate", gate.reached(1)).await;
    agent.crash().await.unwrap();
    soon("the gate again", gate.reached(2)).await;
    gate.open();
    let mut names = Vec::new();
    while let Some(event) = soon("the next event", run.next()).await {
        names.push(name_of(&event.event));
    }
    assert_eq!(names.iter().filter(|name| *name == "AgentRestarted").count(), 1, "{names:?}");
    assert_eq!(names.last().map(String::as_str), Some("AgentEnd"));
    assert_eq!(soon("the output", run.output()).await.unwrap().text(), "Through.");

    // Gone for good while a run is under way.
    let stuck = Scripted::new([Step::text("").tool_call("wait", json!({}))]);
    let agent = house.agent().provider_override(stuck).tool(hanging("wait")).spawn().await.unwrap();
    let mut run = soon("the start", agent.run_stream("Wait")).await.unwrap();
    house.dismiss(agent.id()).await;
    while soon("the end of the stream", run.next()).await.is_some() {}
    assert!(soon("the output", run.output()).await.is_err());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_tree_is_heard_from_its_root_and_the_whole_house_from_the_house() {
    let house = House::in_memory().await.unwrap();
    let answers = Definition {
        provider_override: Some(Arc::new(Scripted::new([Step::text("Helped.")]))),
        ..Definition::default()
    };
    let helper = SubAgentTool::new("helper").with_definition(answers);
    let model = Scripted::new([Step::text("").tool_call("helper", json!({"task": "help"})), Step::text("Thanks.")]);
    let agent = house.agent().id("root").provider_override(model).sub_agent(helper).spawn().await.unwrap();
    let (mut own, mut tree, mut all) = (agent.subscribe(), agent.subscribe_tree(), house.subscribe());
    soon("the answer", agent.prompt("Go.")).await.unwrap();
    let told_by = |seen: &[Arc<Event>], is_root: bool| {
        let ends = seen.iter().filter(|event| (event.agent_id.as_str() == "root") == is_root);
        names(&ends.cloned().collect::<Vec<_>>()).iter().filter(|name| *name == "AgentEnd").count()
    };
    let drain = |events: &mut Subscription| std::iter::from_fn(|| events.try_next()).collect::<Vec<_>>();
    let (own, tree, all) = (drain(&mut own), drain(&mut tree), drain(&mut all));
    assert_eq!((told_by(&own, true), told_by(&own, false)), (1, 0));
    assert_eq!((told_by(&tree, true), told_by(&tree, false)), (1, 1));
    assert_eq!((told_by(&all, true), told_by(&all, false)), (1, 1));
    house.shutdown(Duration::ZERO).await;
    assert!(house.services().hub.is_empty());
}
