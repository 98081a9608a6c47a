//! What the loop promises, through handles and journals: who is refused when, and what enters the conversation.
//! [`hooks`] has what hooks and filters decide.

mod deadlines;
mod hooks;
#[path = "../support/kit.rs"]
mod kit;

use std::sync::Arc;
use std::time::Duration;

use kit::{FnModel, FnTool, Gate, healthy, lines, name_of, rest_of_run, saying, soon, wait_for};
use playhouse::agent::machine::{Authority, Catalog, Durable, Holes, Machine, Setup, Vetting};
use playhouse::prelude::*;
use playhouse::protocol::entry::BlockStage;
use playhouse::protocol::transcript::TranscriptError;
use playhouse::protocol::{
    Access, Command, Entry, EntryBody, EntryId, LimitHit, Op, SessionId, ToolCallId, ToolDefinition, TurnTrigger,
};
use playhouse::session::Take;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

type Run = JoinHandle<Result<Arc<RunReport>, HandleError>>;

/// Asks and does not wait.
fn ask(agent: &AgentHandle, text: &'static str) -> Run {
    let agent = agent.clone();
    tokio::spawn(async move { agent.prompt_report(text).await })
}

async fn answer(run: Run) -> Arc<RunReport> {
    soon("the run", run).await.unwrap().unwrap()
}

fn running<T: std::fmt::Debug>(answer: Result<T, HandleError>) {
    assert_eq!(answer.unwrap_err(), HandleError::Input(InputError::Running));
}

/// A house with files, and a look into its journals.
struct Stored {
    house: House,
    folder: tempfile::TempDir,
}

impl Stored {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let house = House::builder().data_dir(folder.path().join("data")).open().await.unwrap();
        Self { house, folder }
    }

    fn journal(&self, session: &SessionId) -> Vec<(playhouse::protocol::Seq, Arc<Entry>)> {
        let store = playhouse::session::open(self.folder.path().join("data")).unwrap();
        store.load(session, Take::Peek).unwrap().entries
    }

    /// What one journal says, without any other.
    fn folded(&self, session: &SessionId) -> Durable {
        struct NoTools;

        impl Catalog for NoTools {
            fn definitions(&self) -> Arc<[ToolDefinition]> {
                Arc::new([])
            }

            fn vet(&self, _: Authority<'_>, _: &ToolCallId, _: &str, _: &Value) -> Vetting {
                Vetting::Blocked { stage: BlockStage::Lookup, reason: String::new() }
            }

            fn access(&self, _: &str, _: &Value) -> Access {
                Access::Free
            }

            fn summary(&self, _: &str, _: &Value, _: &Result<ToolResult, ToolError>) -> String {
                String::new()
            }
        }

        let entries = self.journal(session);
        let entries = entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
        let setup = Setup::new(Arc::new(NoTools), Arc::new(ModelConfig::scripted("none")));
        Machine::fold(entries, setup, Holes::None).unwrap().durable().clone()
    }
}

#[tokio::test]
async fn what_needs_an_idle_agent_is_refused_during_a_run_and_leaves_no_trace() {
    let stored = Stored::open().await;
    let gate = Gate::closed();
    let steps = [Step::text("").tool_call("gate", json!({})), Step::text("done")];
    let agent = stored.house.agent().provider_override(Scripted::new(steps)).tool(gate.tool("gate"));
    let agent = agent.durability(Durability::Os).spawn().await.unwrap();
    let run = ask(&agent, "go");
    gate.reached(1).await;
    let before = stored.journal(&agent.session_id()).len();
    running(agent.prompt("me too").await);
    running(agent.prompt_messages(vec![AgentMessage::user("me too", 1)]).await);
    running(agent.continue_loop(ContinuationKind::Default).await);
    running(agent.reset().await);
    running(agent.restore_messages("[]").await);
    running(agent.new_session().await);
    assert_eq!(agent.check_and_rotate(Duration::ZERO).await, Ok(None));
    assert_eq!(stored.journal(&agent.session_id()).len(), before);
    gate.open();
    assert_eq!(answer(run).await.text(), "done");
    assert_eq!(lines(healthy(&agent).await.messages.as_slice()).len(), 4);
    stored.house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_new_session_keeps_the_conversation_and_both_journals_fold_alone() {
    let stored = Stored::open().await;
    let agent = stored.house.agent().provider_override(FnModel::new(|_| Step::text("ok")));
    let agent = agent.durability(Durability::Os).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();
    agent.follow_up("for later").await.unwrap();
    let mut events = agent.subscribe();
    let old = agent.session_id();
    let new = agent.new_session().await.unwrap();
    assert_eq!(agent.session_id(), new);
    assert_eq!(healthy(&agent).await.queued, (0, 1));
    agent.prompt("two").await.unwrap();
    assert!(rest_of_run(&mut events).await.iter().all(|event| event.session_id == new));
    let (before, after) = (stored.folded(&old), stored.folded(&new));
    assert_eq!(lines(before.record.messages().as_slice()), ["user: one", "model: ok"]);
    assert_eq!(
        lines(after.record.messages().as_slice()),
        ["user: one", "model: ok", "user: two", "model: ok", "user: for later", "model: ok"]
    );
    assert_eq!((before.rotated_to, before.agent_id), (Some(new.clone()), after.agent_id));
    let first = &stored.journal(&new)[0].1.body;
    let EntryBody::Opened(opened) = first else { panic!("{first:?}") };
    assert_eq!(opened.continues.as_ref().unwrap().session, old);

    assert_eq!(agent.check_and_rotate(Duration::from_secs(3_600)).await, Ok(None));
    let begun = std::time::Instant::now();
    let third = loop {
        // A session that was active in this very millisecond is not idle.
        match agent.check_and_rotate(Duration::ZERO).await.unwrap() {
            Some(third) => break third,
            None => assert!(begun.elapsed() < kit::DEADLINE),
        }
    };
    assert_eq!(agent.session_id(), third);
    stored.house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_conversation_is_saved_cleared_and_restored_and_a_broken_one_is_refused() {
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().provider_override(FnModel::new(|_| Step::text("ok"))).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();
    let saved = agent.save_messages().await.unwrap();
    agent.reset().await.unwrap();
    assert_eq!(healthy(&agent).await.messages.len(), 0);
    agent.restore_messages(&saved).await.unwrap();
    assert_eq!(agent.save_messages().await.unwrap(), saved);

    let orphan = json!([
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1},
        {"role": "toolResult", "tool_call_id": "c", "tool_name": "t", "content": [], "is_error": false, "timestamp": 2},
    ]);
    let refused = agent.restore_messages(&orphan.to_string()).await.unwrap_err();
    let reason = TranscriptError::Unasked { call: "c".into(), at: 1 };
    assert_eq!(refused, HandleError::Input(InputError::InvalidTranscript(reason)));
    let refused = agent.restore_messages("{}").await.unwrap_err();
    assert!(matches!(refused, HandleError::NotMessages(_)), "{refused:?}");
    assert_eq!(agent.save_messages().await.unwrap(), saved);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_conversation_that_rests_cannot_be_continued() {
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().provider_override(FnModel::new(|_| Step::text("ok"))).spawn().await.unwrap();
    let nothing = |refused| assert_eq!(refused, HandleError::Input(InputError::NothingToContinue));
    nothing(agent.continue_loop(ContinuationKind::Default).await.unwrap_err());
    agent.prompt("one").await.unwrap();
    nothing(agent.continue_loop(ContinuationKind::Default).await.unwrap_err());
    let here = ContinuationKind::Branch { tag: "2026-01-01T00:00:00Z".into(), entry: None };
    nothing(agent.continue_loop(here).await.unwrap_err());
    let question = serde_json::to_string(&[AgentMessage::user("two", 2)]).unwrap();
    agent.restore_messages(&question).await.unwrap();
    let no_run = agent.continue_loop(ContinuationKind::Rerun { tag: "2026-01-01T00:00:00Z".into() }).await;
    assert_eq!(no_run.unwrap_err(), HandleError::Input(InputError::NothingToRerun));
    assert_eq!(agent.continue_loop(ContinuationKind::Default).await.unwrap().text(), "ok");
    house.shutdown(Duration::ZERO).await;
}

/// How a run began: its continuation, and what caused its first turn.
async fn beginning(events: &mut Subscription) -> (Option<ContinuationKind>, TurnTrigger) {
    let start = wait_for(events, |event| matches!(event, AgentEvent::AgentStart { .. })).await;
    let turn = wait_for(events, |event| matches!(event, AgentEvent::TurnStart { .. })).await;
    match (&start.event, &turn.event) {
        (AgentEvent::AgentStart { continuation_kind, .. }, AgentEvent::TurnStart { triggered_by, .. }) => {
            (continuation_kind.clone(), *triggered_by)
        }
        _ => unreachable!(),
    }
}

#[tokio::test]
async fn a_rerun_goes_back_to_before_the_first_response_and_a_branch_to_its_entry() {
    let stored = Stored::open().await;
    let steps = ["first", "second", "third", "fourth"].map(Step::text);
    let agent = stored.house.agent().provider_override(Scripted::new(steps));
    let agent = agent.durability(Durability::Os).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();
    let asked = stored.journal(&agent.session_id()).into_iter().find_map(|(_, entry)| match &entry.body {
        EntryBody::TurnStarted { .. } => Some(entry.id.clone()),
        _ => None,
    });
    agent.prompt("two").await.unwrap();

    let mut events = agent.subscribe();
    let rerun = ContinuationKind::Rerun { tag: "2026-01-01T00:00:00Z".into() };
    let report = agent.continue_loop(rerun.clone()).await.unwrap();
    assert_eq!(report.text(), "third");
    assert_eq!(beginning(&mut events).await, (Some(rerun), TurnTrigger::Continuation));
    let told = lines(healthy(&agent).await.messages.as_slice());
    assert_eq!(told, ["user: one", "model: first", "user: two", "model: third"]);

    let branch = ContinuationKind::Branch { tag: "2026-01-01T00:00:01Z".into(), entry: asked };
    let report = agent.continue_loop(branch.clone()).await.unwrap();
    assert_eq!(report.text(), "fourth");
    assert_eq!(beginning(&mut events).await, (Some(branch), TurnTrigger::Branch));
    let told = lines(healthy(&agent).await.messages.as_slice());
    assert_eq!(told, ["user: one", "model: fourth"]);

    let nowhere = EntryId::from("nowhere");
    let branch = ContinuationKind::Branch { tag: "2026-01-01T00:00:02Z".into(), entry: Some(nowhere.clone()) };
    let refused = agent.continue_loop(branch).await.unwrap_err();
    assert_eq!(refused, HandleError::Input(InputError::UnknownEntry(nowhere)));
    assert_eq!(lines(stored.folded(&agent.session_id()).record.messages().as_slice()), ["user: one", "model: fourth"]);
    stored.house.shutdown(Duration::ZERO).await;
}

/// What is said when three steers and three follow-ups wait.
async fn queued(mode: QueueMode) -> Vec<String> {
    let house = House::in_memory().await.unwrap();
    let gate = Gate::closed();
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("gate", json!({})),
        _ => Step::text("ok"),
    });
    let agent = house.agent().provider_override(model).tool(gate.tool("gate"));
    let agent = agent.steering_mode(mode).follow_up_mode(mode).spawn().await.unwrap();
    let run = ask(&agent, "go");
    gate.reached(1).await;
    for n in 1..=2 {
        agent.steer(&format!("steer {n}")).await.unwrap();
        agent.follow_up(&format!("follow {n}")).await.unwrap();
    }
    gate.open();
    let told = lines(&answer(run).await.messages);
    house.shutdown(Duration::ZERO).await;
    told[3..].to_vec()
}

#[tokio::test]
async fn queues_are_delivered_one_at_a_time_or_all_at_once() {
    let one = [
        "user: steer 1",
        "model: ok",
        "user: steer 2",
        "model: ok",
        "user: follow 1",
        "model: ok",
        "user: follow 2",
        "model: ok",
    ];
    assert_eq!(queued(QueueMode::OneAtATime).await, one);
    let all = ["user: steer 1", "user: steer 2", "model: ok", "user: follow 1", "user: follow 2", "model: ok"];
    assert_eq!(queued(QueueMode::All).await, all);
}

#[tokio::test]
async fn steering_overtakes_the_tools_that_have_not_begun() {
    let house = House::in_memory().await.unwrap();
    let gate = Gate::closed();
    let steps = [
        Step::text("").tool_call("gate", json!({})).tool_call("late", json!({})).tool_call("late", json!({})),
        Step::text("turned"),
    ];
    let agent = house.agent().provider_override(Scripted::new(steps)).tool(gate.tool("gate"));
    let agent = agent.tool(saying("late", "too late")).tool_execution(ToolExecutionStrategy::Sequential);
    let agent = agent.spawn().await.unwrap();
    let mut events = agent.subscribe();
    let run = ask(&agent, "go");
    gate.reached(1).await;
    agent.steer("turn").await.unwrap();
    gate.open();
    assert_eq!(
        lines(&answer(run).await.messages),
        [
            "user: go",
            "model: [gate, late, late]",
            "gate: passed",
            "!late: Skipped due to queued user message.",
            "!late: Skipped due to queued user message.",
            "user: turn",
            "model: turned",
        ]
    );
    let names: Vec<String> = rest_of_run(&mut events).await.iter().map(|event| name_of(&event.event)).collect();
    let of = |name: &str| names.iter().filter(|n| *n == name).count();
    assert_eq!((of("ToolExecutionStart"), of("ToolExecutionEnd"), of("ToolBlocked")), (3, 3, 0));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn limits_end_a_run_with_a_note() {
    let house = House::in_memory().await.unwrap();
    let none = ExecutionLimits::none();
    let long = Duration::from_millis(1);
    let cases = [
        (ExecutionLimits { max_turns: Some(2), ..none }, LimitHit::Turns(2), "max turns reached (2)"),
        (ExecutionLimits { max_total_tokens: Some(7), ..none }, LimitHit::Tokens(7), "max tokens reached (7)"),
        (
            ExecutionLimits { max_duration: Some(long), ..none },
            LimitHit::Duration(long),
            "max duration reached (0.001 s)",
        ),
    ];
    for (limits, limit, words) in cases {
        let model = FnModel::new(|_| Step::text("").tool_call("again", json!({})).usage(Usage::of(2, 2, 0, 0, 0)));
        let slow = FnTool::new("again", |_, _| async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(ToolResult::text("again"))
        });
        let agent = house.agent().provider_override(model).tool(slow).limits(limits).spawn().await.unwrap();
        let report = soon("the run", agent.prompt_report("go")).await.unwrap();
        assert_eq!(report.outcome, Outcome::Limit { limit });
        assert_eq!(lines(&report.messages).last().unwrap(), &format!("user: [Agent stopped: {words}]"));
        healthy(&agent).await;
    }
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn events_go_to_the_sender_of_a_prompt_and_to_every_subscriber() {
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().provider_override(FnModel::new(|_| Step::text("ok"))).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let (sender, mut mine) = tokio::sync::mpsc::channel(1_000);
    agent.prompt_with_sender("go", sender).await.unwrap();
    let seen = rest_of_run(&mut events).await;
    let mut got = Vec::new();
    while let Some(event) = mine.recv().await {
        got.push(event);
    }
    let ids = |events: &[Arc<Event>]| events.iter().map(|event| event.id).collect::<Vec<_>>();
    assert_eq!(ids(&got), ids(&seen));
    assert!(ids(&seen).is_sorted());
    house.shutdown(Duration::ZERO).await;
}

/// Tells the agent something; the agent has it, and dies before it can answer.
async fn tell_and_crash(agent: &AgentHandle, command: Command) {
    let mut tell = std::pin::pin!(agent.submit(command));
    assert!(futures::poll!(tell.as_mut()).is_pending());
    agent.crash().await.unwrap();
}

#[tokio::test]
async fn a_reset_repeated_after_a_crash_erases_nothing_that_came_between() {
    let stored = Stored::open().await;
    let agent = stored.house.agent().provider_override(FnModel::new(|_| Step::text("ok")));
    let agent = agent.durability(Durability::Os).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();

    let reset = Command::new("reset", Op::Reset);
    tell_and_crash(&agent, reset.clone()).await;
    agent.prompt("two").await.unwrap();
    agent.submit(reset.clone()).await.unwrap();
    assert_eq!(lines(healthy(&agent).await.messages.as_slice()), ["user: two", "model: ok"]);

    let messages = vec![Arc::new(AgentMessage::user("three", 1))];
    let restore = Command::new("restore", Op::Restore { messages });
    tell_and_crash(&agent, restore.clone()).await;
    agent.prompt("four").await.unwrap();
    agent.submit(restore.clone()).await.unwrap();
    assert_eq!(lines(healthy(&agent).await.messages.as_slice()), ["user: three", "user: four", "model: ok"]);

    let mut settings = healthy(&agent).await.settings;
    settings.system_prompt = "be brief".into();
    let configure = Command::new("brief", Op::Configure { settings: Box::new(settings.clone()) });
    tell_and_crash(&agent, configure.clone()).await;
    settings.system_prompt = "be long".into();
    agent.configure(settings).await.unwrap();
    agent.submit(configure).await.unwrap();
    assert_eq!(&*healthy(&agent).await.settings.system_prompt, "be long");

    // The session that goes on with the conversation knows them too.
    agent.new_session().await.unwrap();
    agent.submit(reset).await.unwrap();
    agent.submit(restore).await.unwrap();
    assert_eq!(lines(healthy(&agent).await.messages.as_slice()), ["user: three", "user: four", "model: ok"]);
    stored.house.shutdown(Duration::ZERO).await;
}
