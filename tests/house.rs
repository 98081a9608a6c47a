//! The house end to end, in one process: real actors, real journals, a scripted model.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use playhouse::prelude::*;
use serde_json::json;

fn script(text: &str) -> Scripted {
    Scripted::from_json(text).unwrap()
}

/// The events of one run, by name.
async fn names(events: &mut Subscription) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(event) = events.next().await {
        let name = serde_json::to_value(&event.event).unwrap()["type"].as_str().unwrap().to_owned();
        let end = name == "AgentEnd";
        if names.last() != Some(&name) || name != "MessageUpdate" {
            names.push(name);
        }
        if end {
            return names;
        }
    }
    names
}

#[tokio::test]
async fn a_prompt_is_answered_in_the_order_of_the_contract() {
    let house = House::in_memory().await.unwrap();
    let agent = house
        .agent()
        .provider_override(script(r#"{"turns":[{"text":"hello there","chunk":5}]}"#))
        .spawn()
        .await
        .unwrap();
    let mut events = agent.subscribe();
    let report = agent.prompt("hi").await.unwrap();
    assert_eq!((report.text().as_str(), &report.outcome), ("hello there", &Outcome::Stop));
    assert_eq!(
        names(&mut events).await,
        [
            "AgentStart",
            "TurnStart",
            "MessageStart",
            "MessageEnd",
            "ModelRequestStart",
            "MessageStart",
            "MessageUpdate",
            "MessageEnd",
            "TurnEnd",
            "AgentEnd",
        ]
    );
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn tools_run_and_a_sub_agent_answers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "the treasure is under the stage").unwrap();
    let house = House::builder().data_dir(folder.path().join("data")).open().await.unwrap();
    let turns = json!({"turns": [
        {"tool_calls": [
            {"name": "read_file", "arguments": {"path": "note.txt"}},
            {"name": "helper", "arguments": {"task": "count to three"}},
            {"name": "bash", "arguments": {"command": "echo $((6*7))"}},
        ]},
        {"text": "all done"},
        {"text": "one two three", "when": {"prompt_contains": "count to three"}},
    ]});
    let agent = house
        .agent()
        .provider_override(script(&turns.to_string()))
        .tools(default_tools())
        .sub_agent(SubAgentTool::new("helper"))
        .permission(PermissionMode::Yolo)
        .cwd(folder.path())
        .spawn()
        .await
        .unwrap();
    let report = agent.prompt("find it").await.unwrap();
    assert_eq!(report.text(), "all done", "{report:#?}");
    let results: Vec<String> = report.messages[2..5].iter().map(|m| m.llm().unwrap().text()).collect();
    assert!(results[0].contains("under the stage"), "{results:?}");
    assert_eq!(results[1], "one two three");
    assert!(results[2].contains("42"), "{results:?}");
    let kinds: Vec<_> = house.tree().into_iter().map(|node| node.kind).collect();
    assert!(!kinds.contains(&"executor".to_owned()) && !kinds.contains(&"call".to_owned()), "{kinds:?}");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_crash_in_mid_stream_costs_nothing_but_the_stream() {
    let house = House::in_memory().await.unwrap();
    let slow = script(r#"{"turns":[{"text":"a long answer that takes its time","chunk":1,"delay_ms":10}]}"#);
    let agent = house.agent().provider_override(slow).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let (asking, handle) = (agent.clone(), house.clone());
    let run = tokio::spawn(async move { asking.prompt("go").await });
    while !matches!(events.next().await.unwrap().event, AgentEvent::MessageUpdate { .. }) {}
    handle.crash(agent.id()).await.unwrap();
    let report = run.await.unwrap().unwrap();
    assert_eq!(report.text(), "a long answer that takes its time");
    let seen = names(&mut events).await;
    assert!(seen.contains(&"AgentRestarted".to_owned()), "{seen:?}");
    assert!(!seen.contains(&"AgentStart".to_owned()) && !seen.contains(&"TurnStart".to_owned()), "{seen:?}");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_second_process_goes_on_from_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let script_file = folder.path().join("script.json");
    std::fs::write(&script_file, r#"{"turns":[{"text":"first"},{"text":"second"}]}"#).unwrap();
    let open = || {
        House::builder().data_dir(folder.path().join("data")).kind("plain", |_| ready(Ok(Definition::default()))).open()
    };
    let house = open().await.unwrap();
    let agent = house.agent().kind("plain").model(ModelConfig::scripted(&script_file)).spawn().await.unwrap();
    agent.prompt("one").await.unwrap();
    let session = agent.session_id();
    house.shutdown(Duration::ZERO).await;
    drop((agent, house));
    let house = open().await.unwrap();
    let agent = house.resume(&session).await.unwrap();
    assert_eq!(agent.prompt("two").await.unwrap().text(), "second");
    assert_eq!(agent.state().await.unwrap().messages.len(), 4);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_sub_agent_may_not_do_what_its_parent_may_not() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_memory().await.unwrap();
    let turns = json!({"turns": [
        {"tool_calls": [{"name": "helper", "arguments": {"task": "make a mark"}}]},
        {"text": "done"},
        {"tool_calls": [{"name": "bash", "arguments": {"command": "touch mark"}}], "when": {"prompt_contains": "make a mark"}},
        {"text": "it was not allowed", "when": {"prompt_contains": "make a mark"}},
    ]});
    let tools = Some(ToolSet::new(default_tools()).unwrap());
    let helper = SubAgentTool::new("helper").with_definition(Definition { tools, ..Definition::default() });
    let agent = |mode| {
        let model = script(&turns.to_string());
        house.agent().provider_override(model).sub_agent(helper.clone()).permission(mode).cwd(folder.path()).spawn()
    };
    let asking = agent(PermissionMode::Ask).await.unwrap();
    assert_eq!(asking.prompt("go").await.unwrap().messages[2].llm().unwrap().text(), "it was not allowed");
    assert!(!folder.path().join("mark").exists());
    agent(PermissionMode::Yolo).await.unwrap().prompt("go").await.unwrap();
    assert!(folder.path().join("mark").exists(), "the same play, allowed");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_house_that_has_ended_holds_nothing_even_while_handles_to_it_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let answers = || script(r#"{"turns":[{"text":"one"},{"text":"two"}]}"#);
    let definition =
        move || Definition { provider_override: Some(std::sync::Arc::new(answers())), ..Definition::default() };
    let open = || House::builder().data_dir(folder.path()).kind("counter", move |_| ready(Ok(definition()))).open();
    let house = open().await.unwrap();
    let agent = house.agent().kind("counter").definition(definition()).spawn().await.unwrap();
    assert_eq!(agent.prompt("count").await.unwrap().text(), "one");
    let session = agent.session_id();
    house.shutdown(Duration::ZERO).await;
    let locks = std::fs::read_dir(folder.path().join("owners")).unwrap();
    let locks: Vec<_> = locks.map(|entry| entry.unwrap().file_name()).filter(|name| name != "takeover.lock").collect();
    assert_eq!(locks, Vec::<std::ffi::OsString>::new());
    assert!(agent.prompt("count").await.is_err());

    let next = open().await.unwrap();
    let agent = next.resume(&session).await.unwrap();
    assert_eq!(agent.prompt("count").await.unwrap().text(), "two");
    let error = house.resume(&session).await.unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    next.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn f41_an_agent_at_rest_keeps_no_journal_open_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path()).open().await.unwrap();
    let model = Scripted::new([Step::text("one"), Step::text("two")]);
    let agent = house.agent().provider_override(model).spawn().await.unwrap();
    let open = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| fd.path().read_link().ok());
        all.filter(|path| path.starts_with(folder.path()) && path.to_string_lossy().ends_with(".journal")).count()
    };
    assert_eq!(agent.prompt("go").await.unwrap().text(), "one");
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while open() > 0 {
        assert!(std::time::Instant::now() < deadline, "nobody let go of the journal");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(agent.prompt("go on").await.unwrap().text(), "two");
    assert_eq!(house.session(&agent.session_id()).await.unwrap().damage, []);
    house.shutdown(Duration::ZERO).await;
}

/// An agent of a registered kind has the kind's code, what its builder adds, and works.
#[tokio::test]
async fn a_kind_is_the_code_that_was_registered_and_an_unknown_one_is_an_error() {
    let clerk = |_| async { Ok(Definition { tools: ToolSet::new(default_tools()).ok(), ..Definition::default() }) };
    let refused = |_| async { Err("the archive is closed".to_owned()) };
    let house = House::builder().kind("clerk", clerk).kind("archivist", refused).open().await.unwrap();
    let model = || Scripted::new([Step::text("At your service.")]);
    let agent = house.agent().kind("clerk").provider_override(model()).spawn().await.unwrap();
    let named: Vec<String> = default_tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(agent.state().await.unwrap().settings.tools, named);
    assert_eq!(agent.prompt("Hello?").await.unwrap().text(), "At your service.");

    let told = |error: Result<_, playhouse::SpawnError>| error.map(|_: AgentHandle| ()).unwrap_err().to_string();
    let what = "register it with `House::builder().kind(…)`, or give the agent its `definition`";
    let slip = told(house.agent().kind("clark").provider_override(model()).spawn().await);
    assert_eq!(slip, format!("there is no kind `clark` (did you mean `clerk`?): {what}"));
    let unknown = told(house.agent().kind("prompter").provider_override(model()).spawn().await);
    assert_eq!(unknown, format!("there is no kind `prompter`: {what}"));
    let closed = told(house.agent().kind("archivist").provider_override(model()).spawn().await);
    assert_eq!(closed, "an agent of the kind `archivist` cannot be made: the archive is closed");
    // With code of its own, the kind is a name for those who resume it.
    house.agent().kind("prompter").definition(Definition::default()).provider_override(model()).spawn().await.unwrap();
    house.agent().definition(Definition::default()).kind("prompter").provider_override(model()).spawn().await.unwrap();
    house.shutdown(Duration::ZERO).await;
}

/// Says nothing of its own.
#[tool]
async fn theirs() {}

/// Says nothing of its own either.
#[tool]
async fn mine() {}

/// Forbids one tool.
struct Forbids(&'static str);

#[async_trait]
impl PermissionPolicy for Forbids {
    async fn check(&self, request: &PolicyRequest) -> Ruling {
        match request.tool_name == self.0 {
            true => Ruling::Forbid { reason: "the kind forbids it".to_owned() },
            false => request.ours.clone(),
        }
    }
}

#[tokio::test]
async fn what_a_builder_is_given_is_added_to_its_kind_or_counts_in_its_place() {
    let heard: Arc<[AtomicU32; 2]> = Arc::default();
    let hears = |at: usize| {
        let heard = heard.clone();
        move |_: &Event| {
            heard[at].fetch_add(1, Ordering::SeqCst);
        }
    };
    let (callback, silent) = (Arc::new(hears(0)), Hooks::new().before_loop(|_| ready(false)));
    let clerk = move |settings: Arc<playhouse::protocol::entry::Settings>| {
        let hooks = if settings.config_id.is_some() { silent.clone() } else { Hooks::new() };
        ready(Ok(Definition {
            tools: ToolSet::new(vec![Arc::new(theirs)]).ok(),
            sub_agents: vec![Arc::new(SubAgentTool::new("helper"))],
            policies: vec![Arc::new(Forbids("mine"))],
            callbacks: vec![callback.clone()],
            provider_override: Some(Arc::new(Scripted::new([Step::text("The kind's.")]))),
            hooks,
            ..Definition::default()
        }))
    };
    let house = House::builder().kind("clerk", clerk).open().await.unwrap();
    let agent = house.agent().kind("clerk").tool(mine).on_event(hears(1)).sub_agent(SubAgentTool::new("friend"));
    let spawned = agent.clone().spawn().await.unwrap();
    assert_eq!(spawned.prompt("Who is it?").await.unwrap().text(), "The kind's.");
    assert_eq!(spawned.state().await.unwrap().settings.tools, ["theirs", "mine", "helper", "friend"]);

    let calls = Scripted::new([Step::text("").tool_call("mine", json!({})), Step::text("The builder's.")]);
    let output = agent.clone().provider_override(calls).spawn().await.unwrap().prompt("Who is it?").await.unwrap();
    let refused = output.messages[2].llm().map(Message::text).unwrap();
    assert!(output.text() == "The builder's." && refused.contains("the kind forbids it"), "{refused}");

    // Hooks count in the place of the kind's.
    let hooked = agent.config_id("with-hooks");
    let error = hooked.clone().spawn().await.unwrap().prompt("Who is it?").await.unwrap_err();
    assert!(matches!(&error, HandleError::Failed(report) if report.text().is_empty()), "{error:?}");
    let own = hooked.hooks(Hooks::new().before_loop(|_| ready(true))).spawn().await.unwrap();
    assert_eq!(own.prompt("Who is it?").await.unwrap().text(), "The kind's.");
    // Both have been called with everything once the house is closed.
    house.shutdown(Duration::ZERO).await;
    assert!(heard.iter().all(|heard| heard.load(Ordering::SeqCst) > 0), "{heard:?}");
}
