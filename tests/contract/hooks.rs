//! What hooks and filters decide, and what they cannot hold up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use playhouse::agent::{Ending, SessionSource, StopInfo, ToolCallInfo, ToolResultInfo, ToolUpdateInfo};
use playhouse::prelude::*;
use playhouse::protocol::entry::BlockStage;
use serde_json::json;

use crate::kit::{FnModel, FnTool, Gate, healthy, lines, name_of, rest_of_run, soon};
use crate::{answer, ask};

#[tokio::test]
async fn hooks_forbid_runs_turns_tools_and_partial_results() {
    let house = House::in_memory().await.unwrap();
    let shows = || {
        FnTool::new("shows", |_, ctx| async move {
            ctx.update(ToolResult::text("half"));
            Ok(ToolResult::text("whole"))
        })
    };
    let model = || {
        FnModel::new(|config| match config.response {
            0 => Step::text("").tool_call("shows", json!({})),
            _ => Step::text("ok"),
        })
    };
    let halted = |hook: &str| Outcome::Halted { reason: format!("{hook}: the hook said no") };

    let hooks = Hooks::new().before_loop(|_| async { false });
    let agent = house.agent().provider_override(model()).hooks(hooks).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt_report("go").await.unwrap();
    assert_eq!((report.outcome.clone(), report.messages.len()), (halted("before_loop"), 0));
    let told: Vec<String> = rest_of_run(&mut events).await.iter().map(|event| name_of(&event.event)).collect();
    assert_eq!(told, ["AgentEnd"]);
    assert_eq!(healthy(&agent).await.messages.len(), 0);

    let hooks = Hooks::new().before_turn(|(_, turn)| async move { turn == 0 });
    let agent = house.agent().provider_override(model()).tool(shows()).hooks(hooks).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt_report("go").await.unwrap();
    assert_eq!(report.outcome, halted("before_turn"));
    assert_eq!(lines(&report.messages), ["user: go", "model: [shows]", "shows: whole"]);
    let told: Vec<String> = rest_of_run(&mut events).await.iter().map(|event| name_of(&event.event)).collect();
    assert_eq!(
        (told.iter().filter(|name| *name == "TurnStart").count(), told.last().unwrap().as_str()),
        (1, "AgentEnd")
    );
    assert_eq!(told.iter().filter(|name| *name == "TurnEnd").count(), 1);

    let hooks = Hooks::new().before_tool_execution(|call| async move { Decision::Deny(format!("no {}", call.name)) });
    let agent = house.agent().provider_override(model()).tool(shows()).hooks(hooks).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt("go").await.unwrap();
    assert_eq!(lines(&report.messages), ["user: go", "model: [shows]", "!shows: no shows", "model: ok"]);
    let told = rest_of_run(&mut events).await;
    assert!(told.iter().all(|event| !name_of(&event.event).starts_with("ToolExecution")));
    let blocked = told.iter().find_map(|event| match &event.event {
        AgentEvent::ToolBlocked { stage, reason, .. } => Some((*stage, reason.clone())),
        _ => None,
    });
    assert_eq!(blocked, Some((BlockStage::Hook, "no shows".to_owned())));

    let after = Arc::new(AtomicUsize::new(0));
    let count = after.clone();
    let hooks = Hooks::new().before_tool_execution_update(|_| async { false }).after_tool_execution_update(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    let agent = house.agent().provider_override(model()).tool(shows()).hooks(hooks).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt("go").await.unwrap();
    assert_eq!(lines(&report.messages), ["user: go", "model: [shows]", "shows: whole", "model: ok"]);
    let told: Vec<String> = rest_of_run(&mut events).await.iter().map(|event| name_of(&event.event)).collect();
    assert!(!told.contains(&"ToolExecutionUpdate".to_owned()) && told.contains(&"ToolExecutionEnd".to_owned()));
    assert_eq!(after.load(Ordering::SeqCst), 0);
    house.shutdown(Duration::ZERO).await;
}

/// Rejects what is bad, warns of what is odd.
struct Taste;

#[async_trait::async_trait]
impl InputFilter for Taste {
    async fn filter(&self, messages: &[Arc<AgentMessage>]) -> FilterVerdict {
        match lines(messages).concat() {
            text if text.contains("bad") => FilterVerdict::Reject("it is bad".to_owned()),
            text if text.contains("odd") => FilterVerdict::Warn(" (odd!)".to_owned()),
            _ => FilterVerdict::Pass,
        }
    }
}

#[tokio::test]
async fn filters_pass_warn_and_reject() {
    let house = House::in_memory().await.unwrap();
    let gate = Gate::closed();
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("gate", json!({})),
        _ => Step::text("ok"),
    });
    let agent = house.agent().provider_override(model).tool(gate.tool("gate"));
    let agent = agent.hooks(Hooks::new().input_filter(Taste)).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt_report("a bad thing").await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected { reason: "it is bad".to_owned() });
    let told = rest_of_run(&mut events).await;
    assert!(told.iter().any(|event| name_of(&event.event) == "InputRejected"));
    let AgentEvent::AgentEnd { rejection, messages, .. } = &told.last().unwrap().event else { unreachable!() };
    assert_eq!((rejection.as_deref(), messages.len()), (Some("it is bad"), 0));
    assert_eq!(healthy(&agent).await.messages.len(), 0);

    let run = ask(&agent, "an odd thing");
    gate.reached(1).await;
    for text in ["bad steer", "good steer"] {
        agent.steer(text).await.unwrap();
    }
    agent.follow_up("bad follow-up").await.unwrap();
    gate.open();
    assert_eq!(
        lines(&answer(run).await.messages),
        ["user: an odd thing (odd!)", "model: [gate]", "gate: passed", "user: good steer", "model: ok",]
    );
    let told = rest_of_run(&mut events).await;
    assert_eq!(told.iter().filter(|event| name_of(&event.event) == "InputRejected").count(), 2);
    house.shutdown(Duration::ZERO).await;
}

/// A filter that waits.
struct Slow(Gate);

#[async_trait::async_trait]
impl InputFilter for Slow {
    async fn filter(&self, _: &[Arc<AgentMessage>]) -> FilterVerdict {
        self.0.pass().await;
        FilterVerdict::Pass
    }
}

/// Hooks of which one waits.
fn slow(point: &str, gate: &Gate) -> Hooks {
    let waits = gate.clone();
    let wait = move || {
        let gate = waits.clone();
        async move {
            gate.pass().await;
            true
        }
    };
    let also = wait.clone();
    let then = move || {
        let waiting = also();
        async move {
            waiting.await;
        }
    };
    let hooks = Hooks::new();
    match point {
        "before_loop" => hooks.before_loop(move |_| wait()),
        "filter" => hooks.input_filter(Slow(gate.clone())),
        "before_turn" => hooks.before_turn(move |_| wait()),
        "before_tool" => hooks.before_tool_execution(move |_| {
            let waiting = wait();
            async move { if waiting.await { Decision::Allow } else { Decision::Deny(String::new()) } }
        }),
        "before_update" => hooks.before_tool_execution_update(move |_| wait()),
        "after_update" => hooks.after_tool_execution_update(move |_| then()),
        "after_tool" => hooks.after_tool_execution(move |_| then()),
        "after_turn" => hooks.after_turn(move |_| then()),
        _ => unreachable!("{point}"),
    }
}

#[tokio::test]
async fn a_slow_hook_holds_up_the_run_and_nothing_else() {
    let points = [
        "before_loop",
        "filter",
        "before_turn",
        "before_tool",
        "before_update",
        "after_update",
        "after_tool",
        "after_turn",
    ];
    let house = House::in_memory().await.unwrap();
    for point in points {
        let gate = Gate::closed();
        let shows = FnTool::new("shows", |_, ctx| async move {
            ctx.update(ToolResult::text("half"));
            Ok(ToolResult::text("whole"))
        });
        let model = FnModel::new(|_| Step::text("").tool_call("shows", json!({})));
        let agent = house.agent().provider_override(model).tool(shows).hooks(slow(point, &gate)).spawn().await.unwrap();
        let run = ask(&agent, "go");
        soon(point, gate.reached(1)).await;
        soon("the steer", agent.steer("are you there?")).await.unwrap();
        assert!(healthy(&agent).await.is_streaming);
        let begun = std::time::Instant::now();
        soon("the abort", agent.abort()).await.unwrap();
        let report = answer(run).await;
        assert_eq!(report.outcome, Outcome::Aborted, "{point}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{point}: {:?}", begun.elapsed());
        // What was said when the abort came is not lost: it is in the conversation, or it still waits. But a prompt that
        // the filters have not passed enters nowhere.
        let state = healthy(&agent).await;
        let told = lines(state.messages.as_slice());
        let heard = told.iter().filter(|line| *line == "user: are you there?").count();
        assert_eq!(heard + state.queued.0, 1, "{point}: {told:?}");
        let prompt = if point == "filter" { None } else { Some("user: go") };
        assert_eq!(told.first().map(String::as_str), prompt, "{point}: {told:?}");
        assert_eq!(lines(&report.messages), told, "{point}");
    }
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn every_hook_is_told_what_it_is_about() {
    let house = House::in_memory().await.unwrap();
    let told: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let note = {
        let told = told.clone();
        move |line: String| told.lock().unwrap().push(line)
    };
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("look").tool_call("shows", json!({"n": 1})).usage(Usage::of(3, 2, 0, 0, 0)),
        1 => Step::text("done").usage(Usage::of(5, 1, 0, 0, 0)),
        _ => Step::error(401),
    });
    let shows = FnTool::new("shows", |_, ctx| async move {
        ctx.update(ToolResult::text("half"));
        Ok(ToolResult::text("whole"))
    });
    let count = |history: &playhouse::protocol::History| history.as_slice().len();
    // Each notes its name and its arguments, and lets everything go on.
    macro_rules! noting {
        ($answer:expr, $line:expr) => {{
            let note = note.clone();
            move |args| {
                #[allow(clippy::redundant_closure_call)]
                note(($line)(args));
                async { $answer }
            }
        }};
    }
    let hooks = Hooks::new()
        .session_start(noting!(None, |source: SessionSource| format!("session_start {}", source.as_str())))
        .before_loop(noting!(true, |(history, n)| format!("before_loop {} {n}", count(&history))))
        .before_turn(noting!(true, |(history, n)| format!("before_turn {} {n}", count(&history))))
        .before_tool_execution(noting!(Decision::Allow, |call: ToolCallInfo| {
            format!("before_tool {} {}", call.name, call.args)
        }))
        .before_tool_execution_update(noting!(true, |update: ToolUpdateInfo| {
            format!("before_update {} {}", update.name, update.text)
        }))
        .after_tool_execution_update(noting!((), |update: ToolUpdateInfo| {
            format!("after_update {} {}", update.name, update.text)
        }))
        .after_tool_execution(noting!((), |result: ToolResultInfo| {
            format!("after_tool {} {} {} {}", result.name, result.args, lines([&result.result])[0], result.is_error)
        }))
        .after_turn(noting!((), |(history, usage): (_, Usage)| {
            format!("after_turn {} {}+{}", count(&history), usage.input, usage.output)
        }))
        .before_stop(noting!(Ending::Stop, |info: StopInfo| format!(
            "before_stop {} {}",
            count(&info.history),
            info.refusals
        )))
        .on_error(noting!((), |error: String| format!("on_error {error}")))
        .after_loop(noting!((), |report: Arc<RunReport>| {
            format!(
                "after_loop {} {}+{} {:?}",
                report.messages.len(),
                report.usage.input,
                report.usage.output,
                report.text()
            )
        }));
    let agent = house.agent().provider_override(model).tool(shows).hooks(hooks).spawn().await.unwrap();
    agent.prompt("go").await.unwrap();
    let expected = [
        "before_loop 1 0",
        "session_start startup",
        "before_turn 0 0",
        "before_tool shows {\"n\":1}",
        "before_update shows half",
        "after_update shows half",
        "after_tool shows {\"n\":1} shows: whole false",
        "after_turn 3 3+2",
        "before_turn 3 1",
        "after_turn 4 5+1",
        "before_stop 4 0",
        "after_loop 4 8+3 \"done\"",
    ];
    let all = || told.lock().unwrap().len();
    crate::kit::until("after_loop", || all() >= expected.len()).await;
    assert_eq!(std::mem::take(&mut *told.lock().unwrap()), expected);

    // The report of a failed run comes with its error or as it is; the hooks are told the same.
    drop(agent.prompt("again").await);
    crate::kit::until("after_loop", || all() >= 5).await;
    let lines = std::mem::take(&mut *told.lock().unwrap());
    assert_eq!(lines[..2], ["before_loop 5 1", "before_turn 4 0"]);
    assert!(lines[2].starts_with("on_error the provider refused the key"), "{lines:?}");
    assert_eq!(lines[3..], ["after_turn 6 0+0", "after_loop 2 0+0 \"\""]);
    house.shutdown(Duration::ZERO).await;
}
