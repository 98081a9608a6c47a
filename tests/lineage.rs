//! What docs/lineage.md promises beyond what other tests show: the defaults, the options that reach a request, the links
//! between a sub-agent's run and its parent's.

#[path = "support/kit.rs"]
mod kit;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::{FnModel, FnTool, healthy, lines, rest_of_run, saying};
use playhouse::agent::new_session_id;
use playhouse::prelude::*;
use playhouse::protocol::entry::{Settings, SpawnRef};
use playhouse::protocol::{
    ApiProtocol, CacheConfig, CacheStrategy, Cancel, EntryBody, LoopConfigSnapshot, LoopId, SessionId, StreamConfig,
    ThinkingLevel, ToolDefinition, TurnTrigger,
};
use playhouse::session::{StoreError, Take};
use playhouse::{AgentContext, AgentLoopConfig, agent_loop};
use serde_json::json;

/// A model that answers `ok` and remembers what it was asked.
fn listening() -> (FnModel, Arc<Mutex<Vec<StreamConfig>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let model = FnModel::new(move |config| {
        seen.lock().unwrap().push(config.clone());
        Step::text("ok")
    });
    (model, asked)
}

#[tokio::test]
async fn a_new_agent_has_the_defaults_it_is_said_to_have() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path().join("data")).open().await.unwrap();
    let model = ModelConfig::scripted("play.json");
    let agent =
        house.agent().kind("k").definition(Definition::default()).model(model.clone()).cwd("/").spawn().await.unwrap();
    let expected = Settings {
        kind: "k".to_owned(),
        model: model.into(),
        fallbacks: Vec::new(),
        system_prompt: "".into(),
        tools: Vec::new(),
        cwd: "/".into(),
        permission: PermissionMode::Ask,
        grants: Vec::new(),
        restrictions: Default::default(),
        mode: Default::default(),
        sandbox: SandboxMode::Auto,
        limits: ExecutionLimits {
            max_turns: Some(50),
            max_total_tokens: Some(1_000_000),
            max_duration: Some(Duration::from_secs(600)),
        },
        durability: Durability::Flush,
        retry: RetryConfig { max_retries: 3, initial_delay_ms: 1_000, backoff_multiplier: 2.0, max_delay_ms: 30_000 },
        cache: CacheConfig { enabled: true, strategy: CacheStrategy::Auto },
        thinking_level: ThinkingLevel::Off,
        max_tokens: None,
        temperature: None,
        tool_execution: ToolExecutionStrategy::Parallel,
        steering_mode: QueueMode::OneAtATime,
        follow_up_mode: QueueMode::OneAtATime,
        config_id: None,
        metadata: None,
    };
    let state = healthy(&agent).await;
    assert_eq!(state.settings, expected);
    assert_eq!((state.last_loop_id, state.last_active_at, state.is_streaming), (None, None, false));
    assert!(state.loop_counters.is_empty() && state.messages.is_empty() && state.queued == (0, 0));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn the_options_of_an_agent_reach_its_requests_and_its_record() {
    let house = House::in_memory().await.unwrap();
    let (model, asked) = listening();
    let mut named = ModelConfig::scripted("play.json");
    named.context_window = Some(9_000);
    named.max_tokens = Some(5);
    named.name = Some("The Script".into());
    named.reasoning = Some(false);
    let agent = house.agent().model(named).provider_override(model).system_prompt("be brief");
    let agent = agent.thinking(ThinkingLevel::Low).max_tokens(77).temperature(0.5).tool(saying("t", "x"));
    let agent = agent.spawn().await.unwrap();
    let mut events = agent.subscribe();
    agent.prompt("go").await.unwrap();
    let request = asked.lock().unwrap().remove(0);
    let tool = ToolDefinition {
        name: "t".to_owned(),
        description: "a tool of a test".to_owned(),
        parameters: json!({"type": "object"}),
    };
    assert_eq!((&*request.system_prompt, &*request.tools), ("be brief", &[tool][..]));
    assert_eq!(
        (request.thinking_level, request.max_tokens, request.temperature),
        (ThinkingLevel::Low, Some(77), Some(0.5))
    );
    let told = rest_of_run(&mut events).await;
    let AgentEvent::AgentStart { config, parent_loop_id, continuation_kind, metadata } = &told[0].event else {
        panic!()
    };
    let expected = LoopConfigSnapshot {
        model: "script".into(),
        provider: "scripted".into(),
        config_id: "scripted.script.low".to_owned(),
        name: Some("The Script".into()),
        api: ApiProtocol::Scripted,
        base_url: None,
        context_window: Some(9_000),
        max_tokens: Some(77),
        reasoning: Some(false),
        thinking_level: ThinkingLevel::Low,
        temperature: Some(0.5),
    };
    assert_eq!((config.as_ref(), parent_loop_id, continuation_kind, metadata), (&expected, &None, &None, &None));
    let session = agent.session_id();
    let run = LoopId::from(format!("{session}.scripted.script.low.1"));
    let addressed = |event: &Arc<Event>| {
        (&event.agent_id, &event.session_id, event.loop_id.as_ref()) == (agent.id(), &session, Some(&run))
    };
    assert!(told.iter().all(addressed), "{told:#?}");
    house.shutdown(Duration::ZERO).await;
}

/// What is known about each run of a session, from its journal.
fn tags(folder: &std::path::Path, session: &SessionId) -> Vec<Option<Value>> {
    let journal = playhouse::session::open(folder).unwrap().load(session, Take::Peek).unwrap().entries;
    let tag = |entry: &playhouse::protocol::Entry| match &entry.body {
        EntryBody::LoopStarted { metadata, .. } => Some(metadata.as_deref().cloned()),
        _ => None,
    };
    journal.iter().filter_map(|(_, entry)| tag(entry)).collect()
}

#[tokio::test]
async fn a_run_is_tagged_in_its_event_and_its_journal_and_so_are_those_of_its_sub_agents() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path()).open().await.unwrap();
    let own = Definition { provider_override: Some(Arc::new(listening().0)), ..Definition::default() };
    let helper = SubAgentTool::new("helper").with_definition(own);
    let steps = [Step::text("").tool_call("helper", json!({"task": "count"})), Step::text("one"), Step::text("two")];
    let (ticket, other) = (json!({"ticket": 7}), json!(["another", "customer"]));
    let agent = house.agent().provider_override(Scripted::new(steps)).sub_agent(helper).metadata(ticket.clone());
    let agent = agent.spawn().await.unwrap();
    let mut events = agent.subscribe_tree();
    agent.prompt("go").await.unwrap();
    let mut settings = agent.state().await.unwrap().settings;
    settings.metadata = Some(Arc::new(other.clone()));
    agent.configure(settings).await.unwrap();
    agent.prompt("again").await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = events.try_next() {
        if let AgentEvent::AgentStart { metadata, .. } = &event.event {
            told.push((event.session_id.clone(), metadata.as_deref().cloned()));
        }
    }
    let (session, child) = (agent.session_id(), told[1].0.clone());
    assert_ne!(session, child);
    let [ticket, other] = [Some(ticket), Some(other)];
    let expected = [(&session, &ticket), (&child, &ticket), (&session, &other)];
    assert_eq!(told.iter().map(|(session, tag)| (session, tag)).collect::<Vec<_>>(), expected);
    house.shutdown(Duration::ZERO).await;
    assert_eq!(
        (tags(folder.path(), &session), tags(folder.path(), &child)),
        (vec![ticket.clone(), other], vec![ticket])
    );
}

#[tokio::test]
async fn a_loop_as_a_function_has_its_system_prompt_and_tools() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let model = FnModel::new(move |config| {
        seen.lock().unwrap().push(config.system_prompt.to_string());
        match config.response {
            0 => Step::text("").tool_call("t", json!({})),
            _ => Step::text("done"),
        }
    });
    let tools = ToolSet::new(vec![Arc::new(saying("t", "x"))]).unwrap();
    let definition =
        Definition { provider_override: Some(Arc::new(model)), tools: Some(tools), ..Definition::default() };
    let config = AgentLoopConfig { definition, ..AgentLoopConfig::default() };
    let context = AgentContext { system_prompt: "be brief".to_owned(), ..AgentContext::default() };
    let (sender, _events) = tokio::sync::mpsc::channel(1_000);
    let report = agent_loop(vec![AgentMessage::user("go", 1)], context, config, sender, Cancel::new()).await.unwrap();
    assert_eq!(lines(&report.messages), ["user: go", "model: [t]", "t: x", "model: done"]);
    assert_eq!(*asked.lock().unwrap(), ["be brief", "be brief"]);
}

#[tokio::test]
async fn a_tool_is_told_which_call_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_memory().await.unwrap();
    let says = FnTool::new("says", |_, ctx| async move {
        Ok(ToolResult::text(format!("{} {} {} {}", ctx.tool_name, ctx.tool_call_id, ctx.session_id, ctx.cwd.display())))
    });
    let steps = [Step::text("").tool_call("says", json!({})), Step::text("done")];
    let agent = house.agent().provider_override(Scripted::new(steps)).tool(says).cwd(folder.path());
    let agent = agent.spawn().await.unwrap();
    let report = agent.prompt("go").await.unwrap();
    let call = report.messages[1].llm().unwrap().tool_calls().next().unwrap().0.clone();
    let expected = format!("says {call} {} {}", agent.session_id(), folder.path().display());
    assert_eq!(report.messages[2].llm().unwrap().text(), expected);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_hook_that_panics_says_no() {
    kit::be_quiet_about("stage fright");
    let house = House::in_memory().await.unwrap();
    let hooks = Hooks::new().before_turn(|_| async { panic!("stage fright") });
    let agent = house.agent().provider_override(listening().0).hooks(hooks).spawn().await.unwrap();
    let halted = Outcome::Halted { reason: "before_turn: the hook crashed".to_owned() };
    assert_eq!(agent.prompt_report("go").await.unwrap().outcome, halted);
    house.shutdown(Duration::ZERO).await;
}

#[test]
fn a_session_id_begins_with_its_time() {
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let (before, id, after) = (now(), new_session_id(), now());
    let (time, random) = id.as_str().split_once('-').unwrap();
    assert!((before..=after).contains(&u128::from_str_radix(time, 16).unwrap()), "{id}");
    assert_eq!((time.len(), random.len()), (12, 20), "of one length, so that they sort by age");
    assert_ne!(new_session_id(), new_session_id());
}

#[tokio::test]
async fn a_note_of_the_application_stays_in_the_conversation_and_no_model_sees_it() {
    let house = House::in_memory().await.unwrap();
    let (model, asked) = listening();
    let agent = house.agent().provider_override(model).spawn().await.unwrap();
    let note = AgentMessage::extension("ui_update", json!({"tab": 3}));
    agent.prompt_messages(vec![note.clone(), AgentMessage::user("go", 1)]).await.unwrap();
    agent.prompt("again").await.unwrap();
    assert_eq!(*healthy(&agent).await.messages.as_slice()[0], note);
    let request = asked.lock().unwrap().remove(1);
    let sent: Vec<String> = request.messages.sendable().map(Message::text).collect();
    assert_eq!(sent, ["go", "ok", "again"]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_sub_agent_is_linked_to_the_call_that_asked_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path().join("data")).open().await.unwrap();
    let (own, asked) = listening();
    let limits = ExecutionLimits { max_turns: Some(4), ..ExecutionLimits::default() };
    let definition = Definition { provider_override: Some(Arc::new(own)), ..Definition::default() };
    let helper = SubAgentTool::new("helper").with_description("helps").with_system_prompt("be kind");
    let helper = helper.with_model(ModelConfig::scripted("other.json")).with_limits(limits).with_definition(definition);
    let offered = Arc::new(Mutex::new(Vec::new()));
    let seen = offered.clone();
    let parent = FnModel::new(move |config| {
        let tools = config.tools.iter().map(|tool| (tool.name.clone(), tool.description.clone()));
        seen.lock().unwrap().push(tools.collect::<Vec<_>>());
        match config.response {
            0 => Step::text("").tool_call("helper", json!({"task": "count"})),
            _ => Step::text("done"),
        }
    });
    let agent = house.agent().provider_override(parent).sub_agent(helper).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt("go").await.unwrap();
    assert_eq!(lines(&report.messages), ["user: go", "model: [helper]", "helper: ok", "model: done"]);

    assert_eq!(offered.lock().unwrap()[0], [("helper".to_owned(), "helps".to_owned())]);
    let call = report.messages[1].llm().unwrap().tool_calls().next().unwrap().0.clone();
    let told = rest_of_run(&mut events).await;
    let mut starts = told.iter().filter_map(|event| match &event.event {
        AgentEvent::SubAgentStart { tool_call_id, tool_name, child_session_id } => {
            Some((tool_call_id.clone(), tool_name.clone(), child_session_id.clone()))
        }
        _ => None,
    });
    let (asker, name, child) = starts.next().unwrap();
    assert_eq!((&asker, name.as_str(), starts.next()), (&call, "helper", None));
    let around = told.iter().map(|event| kit::name_of(&event.event));
    let around = around.filter(|name| name.starts_with("SubAgent") || name.starts_with("ToolExecution"));
    let expected = ["SubAgentStart", "ToolExecutionStart", "SubAgentEnd", "ToolExecutionEnd"];
    assert_eq!(around.collect::<Vec<_>>(), expected);
    let run = LoopId::from(format!("{child}.sub.1"));
    let ends = told.iter().filter_map(|event| match &event.event {
        AgentEvent::ToolExecutionEnd { result, child_loop_id, .. } => {
            Some((result.child_loop_id.clone(), child_loop_id.clone()))
        }
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [(Some(run.clone()), Some(run.clone()))]);

    let request = asked.lock().unwrap().remove(0);
    assert_eq!(
        (&*request.system_prompt, request.model_config.script.as_deref()),
        ("be kind", Some("other.json".as_ref()))
    );
    let store = playhouse::session::open(folder.path().join("data")).unwrap();
    let journal = store.load(&child, Take::Peek).unwrap().entries;
    let EntryBody::Opened(opened) = &journal[0].1.body else { panic!("{journal:#?}") };
    let parent = SpawnRef {
        parent_session_id: agent.session_id(),
        parent_loop_id: report.loop_id.clone(),
        tool_call_id: call,
        tool_name: "helper".to_owned(),
    };
    assert_eq!((opened.spawned_by.as_deref(), opened.settings.limits), (Some(&parent), limits));
    let began = journal.iter().find_map(|(_, entry)| match &entry.body {
        EntryBody::LoopStarted { parent_loop_id, .. } => Some((entry.loop_id.clone(), parent_loop_id.clone())),
        _ => None,
    });
    assert_eq!(began, Some((Some(run), Some(report.loop_id.clone()))));
    let trigger = journal.iter().find_map(|(_, entry)| match &entry.body {
        EntryBody::TurnStarted { triggered_by, .. } => Some(*triggered_by),
        _ => None,
    });
    assert_eq!(trigger, Some(TurnTrigger::SubAgent));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_continued_run_sends_its_events_to_the_sender() {
    let house = House::in_memory().await.unwrap();
    let agent = house.agent().provider_override(listening().0);
    let agent = agent.messages(vec![Arc::new(AgentMessage::user("go", 1))]).spawn().await.unwrap();
    let (sender, mut mine) = tokio::sync::mpsc::channel(1_000);
    let report = agent.continue_loop_with_sender(sender, ContinuationKind::Default).await.unwrap();
    assert_eq!(report.text(), "ok");
    let mut got = Vec::new();
    while let Some(event) = mine.recv().await {
        got.push(kit::name_of(&event.event));
    }
    let expected = [
        "AgentStart",
        "TurnStart",
        "ModelRequestStart",
        "MessageStart",
        "MessageUpdate",
        "MessageEnd",
        "TurnEnd",
        "AgentEnd",
    ];
    assert_eq!(got, expected);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_session_is_looked_up_and_removed_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path().join("data")).open().await.unwrap();
    let agent = house.agent().id("mine").provider_override(listening().0).spawn().await.unwrap();
    agent.prompt("go").await.unwrap();
    let session = agent.session_id();
    house.dismiss(agent.id()).await;
    let summary = house.session(&session).await.unwrap();
    assert_eq!((summary.agent_id, summary.messages), (Some("mine".into()), 2));
    let listed: Vec<SessionId> = house.sessions().await.unwrap().into_iter().map(|one| one.session_id).collect();
    assert_eq!(listed, std::slice::from_ref(&session));
    house.remove_session(&session).await.unwrap();
    assert_eq!(house.session(&session).await.unwrap_err(), StoreError::Unknown { session });
    assert_eq!(house.sessions().await.unwrap(), []);
    house.shutdown(Duration::ZERO).await;
}
