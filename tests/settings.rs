//! A session's settings change, and the change survives.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use playhouse::prelude::*;
use playhouse::tools::{Network, SandboxRules};

fn script(folder: &std::path::Path, name: &str, text: &str) -> ModelConfig {
    let path = folder.join(name);
    std::fs::write(
        &path,
        format!(r#"{{"turns":[{{"text":"{text} one"}},{{"text":"{text} two"}},{{"text":"{text} three"}}]}}"#),
    )
    .unwrap();
    ModelConfig::scripted(path)
}

#[tokio::test]
async fn a_new_model_answers_from_the_next_run_on_and_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        House::builder().data_dir(folder.path().join("data")).kind("plain", |_| ready(Ok(Definition::default()))).open()
    };
    let house = open().await.unwrap();
    let agent = house.agent().kind("plain").model(script(folder.path(), "a.json", "first")).spawn().await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().text(), "first one");
    let mut settings = agent.state().await.unwrap().settings;
    let mut model = script(folder.path(), "b.json", "second");
    model.api_key = Some(Secret::new("sk-canary-0815"));
    settings.model = model.into();
    settings.system_prompt = "be brief".into();
    agent.configure(settings).await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().text(), "second two");
    agent.crash().await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().text(), "second three");
    let session = agent.session_id();
    house.shutdown(Duration::ZERO).await;
    drop((agent, house));
    let house = open().await.unwrap();
    let agent = house.resume(&session).await.unwrap();
    let state = agent.state().await.unwrap();
    assert_eq!((&*state.settings.system_prompt, state.messages.len()), ("be brief", 6));
    assert!(state.settings.model.script.as_ref().unwrap().ends_with("b.json"));
    house.shutdown(Duration::ZERO).await;
    let journal = std::process::Command::new("grep").args(["-r", "canary"]).arg(folder.path().join("data")).output();
    assert!(journal.unwrap().stdout.is_empty(), "the key is in the journal");
}

#[tokio::test]
async fn a_session_of_an_unknown_kind_is_parked_and_says_so_once() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::builder().data_dir(folder.path().join("data")).open().await.unwrap();
    let gone = house.agent().kind("gone").definition(Definition::default());
    let agent = gone.model(script(folder.path(), "a.json", "x")).spawn().await.unwrap();
    agent.prompt("go").await.unwrap();
    let session = agent.session_id();
    let id = agent.id().clone();
    house.dismiss(&id).await;
    for _ in 0..2 {
        let error = house.resume(&session).await.unwrap_err().to_string();
        assert!(error.contains("`gone`"), "{error}");
    }
    let listed = house.sessions().await.unwrap();
    let entries = listed[0].entries;
    assert!(format!("{:?}", listed[0].status).contains("Parked"), "{:?}", listed[0]);
    let _ = house.resume(&session).await;
    assert_eq!(house.sessions().await.unwrap()[0].entries, entries);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_code_of_a_kind_may_take_its_time_and_holds_nobody_else_up() {
    let folder = tempfile::tempdir().unwrap();
    let (asked, mut is_asked) = tokio::sync::mpsc::unbounded_channel();
    let (let_go, may_go) = tokio::sync::watch::channel(false);
    let house = House::builder().data_dir(folder.path().join("data")).kind("late", move |settings| {
        let (asked, mut may_go) = (asked.clone(), may_go.clone());
        async move {
            asked.send(settings.system_prompt.clone()).unwrap();
            may_go.wait_for(|may_go| *may_go).await.map_err(|error| error.to_string())?;
            Ok(Definition::default())
        }
    });
    let house = house.open().await.unwrap();
    let like = house.agent().kind("late").definition(Definition::default());
    let like = like.model(script(folder.path(), "a.json", "it is")).system_prompt("be late");
    let agent = like.clone().spawn().await.unwrap();
    agent.prompt("go").await.unwrap();
    let session = agent.session_id();
    house.dismiss(agent.id()).await;
    let resuming = tokio::spawn({
        let (house, session) = (house.clone(), session.clone());
        async move { house.resume(&session).await }
    });
    assert_eq!(is_asked.recv().await.as_deref(), Some("be late"));
    assert_eq!(like.spawn().await.unwrap().prompt("go").await.unwrap().text(), "it is one");
    assert!(!resuming.is_finished() && house.get(agent.id()).is_none());
    let_go.send(true).unwrap();
    let resumed = tokio::time::timeout(Duration::from_secs(60), resuming).await.unwrap().unwrap().unwrap();
    assert_eq!(resumed.prompt("go").await.unwrap().text(), "it is two");
    house.shutdown(Duration::ZERO).await;
}

/// Whether the processes of an agent and of its helper reach a port of this machine, as their house grants it.
async fn reached(agent: &AgentHandle) -> Vec<bool> {
    let mut events = agent.subscribe_tree_with(1_024);
    agent.prompt("go").await.unwrap();
    let mut reached = Vec::new();
    while let Some(event) = events.try_next() {
        if let AgentEvent::ToolExecutionEnd { tool_name, result, .. } = &event.event
            && tool_name == "bash"
        {
            reached.push(format!("{result:?}").contains("through"));
        }
    }
    reached
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_session_does_without_no_house_gives_it_or_its_helpers() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{} && echo through", listener.local_addr().unwrap().port());
    let definition = move || {
        let call = || Step::text("look").tool_call("bash", json!({"command": connect}));
        let tools = Some(ToolSet::new(default_tools()).unwrap());
        let inner = Some(Arc::new(Scripted::new([call(), Step::text("tried")])) as Arc<dyn StreamProvider>);
        let helper = Definition { tools: tools.clone(), provider_override: inner, ..Definition::default() };
        let both = || call().tool_call("helper", json!({"task": "look too"}));
        let steps = [both(), Step::text("tried"), both(), Step::text("tried")];
        let outer = Some(Arc::new(Scripted::new(steps)) as Arc<dyn StreamProvider>);
        let sub_agents = vec![Arc::new(SubAgentTool::new("helper").with_definition(helper))];
        Definition { tools, sub_agents, provider_override: outer, ..Definition::default() }
    };
    let open = || {
        let (definition, loose) =
            (definition.clone(), SandboxRules { network: Network::Granted, ..SandboxRules::default() });
        let builder = House::builder().data_dir(folder.path().join("data")).sandbox(loose);
        builder.kind("looker", move |_| ready(Ok(definition()))).open()
    };
    let bounds = SandboxBounds { network: Some(Network::Denied), ..SandboxBounds::default() };
    for (bounds, expected) in [(bounds, [false, false]), (SandboxBounds::default(), [true, true])] {
        let house = open().await.unwrap();
        let builder = house.agent().kind("looker").definition(definition()).permission(PermissionMode::Yolo);
        let builder = builder.cwd(folder.path()).durability(Durability::Os);
        let agent = builder.restrictions(Restrictions { sandbox: bounds, ..Restrictions::default() }).spawn().await;
        let agent = agent.unwrap();
        assert_eq!(reached(&agent).await, expected, "{bounds:?}");
        let session = agent.session_id();
        house.shutdown(Duration::ZERO).await;
        let house = open().await.unwrap();
        let agent = house.resume(&session).await.unwrap();
        assert_eq!(reached(&agent).await, expected, "{bounds:?}");
        house.shutdown(Duration::ZERO).await;
    }
}
