//! A run's deadline ends what is under way, whatever that is; what a sub-agent's limit means to its parent.

use std::sync::Arc;
use std::time::Duration;

use playhouse::prelude::*;
use playhouse::protocol::LimitHit;
use serde_json::json;

use crate::kit::{FnModel, Gate, hanging, healthy, lines, soon, wait_for};
use crate::{answer, ask};

fn within(time: Duration) -> ExecutionLimits {
    ExecutionLimits { max_duration: Some(time), ..ExecutionLimits::none() }
}

#[tokio::test]
async fn a_deadline_ends_a_call_a_tool_a_hook_and_a_sub_agent() {
    let house = House::in_memory().await.unwrap();
    let short = Duration::from_millis(300);
    for at in ["call", "tool", "hook", "child"] {
        let gate = Gate::closed();
        let never = gate.clone();
        let hooks = Hooks::new().before_turn(move |_| {
            let (gate, hangs) = (never.clone(), at == "hook");
            async move {
                if hangs {
                    gate.pass().await;
                }
                true
            }
        });
        let model = FnModel::new(move |config| match at {
            "tool" => Step::text("so far").tool_call("hangs", json!({})),
            "child" if config.system_prompt.is_empty() => {
                Step::text("so far").tool_call("helper", json!({"task": "go"}))
            }
            _ => Step::text("never ").chunk(1).delay_ms(600_000),
        });
        let helper = SubAgentTool::new("helper").with_system_prompt("child");
        let agent = house.agent().provider_override(model).tool(hanging("hangs")).sub_agent(helper).hooks(hooks);
        let agent = agent.limits(within(short)).permission(PermissionMode::Yolo).spawn().await.unwrap();
        let report = soon(at, agent.prompt_report("go")).await.unwrap();
        assert_eq!(report.outcome, Outcome::Limit { limit: LimitHit::Duration(short) }, "{at}");
        assert_eq!(lines(&report.messages).last().unwrap(), "user: [Agent stopped: max duration reached (0.3 s)]");
        assert!(!healthy(&agent).await.is_streaming);
        let left: Vec<_> =
            house.tree().into_iter().filter(|node| ["call", "tool"].contains(&node.kind.as_str())).collect();
        assert!(left.is_empty(), "{at}: {left:?}");
        house.dismiss(agent.id()).await;
    }
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn waiting_for_a_person_is_no_running_time() {
    let house = House::in_memory().await.unwrap();
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("risky", json!({})),
        _ => Step::text("done"),
    });
    let risky = crate::kit::saying("risky", "ok").asks("take a risk");
    let agent = house.agent().provider_override(model).tool(risky).approvals(Approvals::Watcher);
    let agent = agent.limits(within(Duration::from_millis(500))).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let run = ask(&agent, "go");
    let asked = wait_for(&mut events, |event| matches!(event, AgentEvent::PermissionRequired { .. })).await;
    let AgentEvent::PermissionRequired { permission_id, .. } = &asked.event else { unreachable!() };
    // Longer than the whole run may take.
    tokio::time::sleep(Duration::from_millis(800)).await;
    agent.respond_permission(permission_id.clone(), PermissionDecision::Allow).await.unwrap();
    assert_eq!(answer(run).await.outcome, Outcome::Stop);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_limited_sub_agent_is_an_error_that_says_so_and_what_it_had() {
    let house = House::in_memory().await.unwrap();
    let model = |config: &playhouse::protocol::StreamConfig| match (config.system_prompt.is_empty(), config.response) {
        (true, 0) => Step::text("").tool_call("helper", json!({"task": "go"})),
        (true, _) => Step::text("done"),
        (false, _) => Step::text("half of it").tool_call("again", json!({})),
    };
    let again: Vec<Arc<dyn Tool>> = vec![Arc::new(crate::kit::saying("again", "ok"))];
    let child = Definition { tools: Some(ToolSet::new(again).unwrap()), ..Definition::default() };
    let limits = ExecutionLimits { max_turns: Some(2), ..ExecutionLimits::none() };
    let helper = SubAgentTool::new("helper").with_system_prompt("child").with_definition(child).with_limits(limits);
    let agent = house.agent().provider_override(FnModel::new(model)).sub_agent(helper);
    let agent = agent.permission(PermissionMode::Yolo).spawn().await.unwrap();
    let report = soon("the run", agent.prompt("go")).await.unwrap();
    assert_eq!(
        lines(&report.messages)[2],
        "!helper: the sub-agent was stopped by its limits before it was done: max turns reached (2). Its last words: half of it"
    );
    house.shutdown(Duration::ZERO).await;
}
