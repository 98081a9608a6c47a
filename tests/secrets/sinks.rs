//! Every way in, every way out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use playhouse::prelude::*;
use playhouse::protocol::{Command, Op};

use crate::kit::{FnTool, soon};
use crate::service::{Answer, Service, says};
use crate::{SECRET, everything, is_clean};

/// A response that calls a tool.
fn calls(number: usize, name: &str, args: Value) -> String {
    let function = json!({"name": name, "arguments": args.to_string()});
    let call = json!({"index": 0, "id": format!("call_{number}"), "type": "function", "function": function});
    let chunk = json!({"id": "x", "model": "m",
        "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    format!("data: {chunk}\n\ndata: [DONE]\n\n")
}

/// Shows the secret in one way after another.
fn leak() -> FnTool {
    let work = |args: Value, ctx: ToolContext| async move {
        let text = |tag: &str| format!("{tag}:{SECRET}");
        match args["how"].as_str().unwrap() {
            "show" => {
                ctx.progress(text("progress"));
                let details = json!({"deep": [{"x": text("partial-details")}]});
                ctx.update(ToolResult { details, ..ToolResult::text(text("partial")) });
                let encoded = ["basic:dXNlcjpjYW5hcnktOWY4ZTdkNmM1YjRhLyt4Inkg", "url:canary-9f8e7d6c5b4a%2F%2Bx%22y"];
                let quoted = format!("quoted:{}", json!(SECRET));
                let shown = format!("{} {quoted} {}", text("result"), encoded.join(" "));
                let details = json!({"deep": [{"x": text("details")}], SECRET: 1});
                Ok(ToolResult { details, ..ToolResult::text(shown) })
            }
            "fail" => Err(ToolError::Failed(text("error"))),
            "panic" => panic!("{}", text(&"p".repeat(485))),
            other => panic!("{other}"),
        }
    };
    FnTool::new("leak", work)
}

struct Warns;

#[async_trait]
impl InputFilter for Warns {
    async fn filter(&self, _: &[Arc<AgentMessage>]) -> FilterVerdict {
        FilterVerdict::Warn(format!("warning:{SECRET}"))
    }
}

/// A service that gives these answers, one after another.
fn service(answers: Vec<String>) -> Service {
    let answers = Mutex::new(VecDeque::from(answers));
    Service::new(move |_, _| {
        let mut answer = Answer::ok(answers.lock().unwrap().pop_front().unwrap_or_else(|| says("nothing left")));
        answer.wait = Duration::ZERO;
        answer
    })
}

#[tokio::test]
async fn f52_a_secret_that_a_tool_a_user_or_a_hook_shows_is_in_no_sink() {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("secret.txt"), format!("file:{SECRET}\n")).unwrap();
    std::fs::write(work.path().join("long.txt"), format!("{}line:{SECRET}\n", "x".repeat(380))).unwrap();
    // The secret lies across the place where the middle of a long output is left out.
    let cut = "head -c 131050 /dev/zero | tr '\\0' x; cat secret.txt; head -c 300000 /dev/zero | tr '\\0' y";
    let steps = [
        ("leak", json!({"how": "show"})),
        ("leak", json!({"how": "fail"})),
        ("leak", json!({"how": "panic"})),
        ("bash", json!({"command": "cat secret.txt; echo \"stderr:$(sed s/file:// secret.txt)\" >&2"})),
        ("bash", json!({"command": cut})),
        ("bash", json!({"command": "printf 'ends like canary-'"})),
        ("read_file", json!({"path": "secret.txt"})),
        ("search", json!({"pattern": "line:", "path": "long.txt"})),
        ("bash", json!({"command": "touch deny"})),
        ("bash", json!({"command": "touch hook"})),
    ];
    let mut answers: Vec<String> =
        steps.into_iter().enumerate().map(|(number, (name, args))| calls(number, name, args)).collect();
    answers.extend(["first", "second", "third"].map(says));
    let service = service(answers);
    let folder = tempfile::tempdir().unwrap();
    let builder = service.house().data_dir(folder.path()).secret("CANARY_KEY", Secret::new(SECRET));
    let house = builder.open().await.unwrap();
    let approvals = Approvals::code(|request| async move {
        match request.args["command"].as_str() {
            Some("touch deny") => PermissionDecision::Deny { reason: format!("denied:{SECRET}") },
            _ => PermissionDecision::Allow,
        }
    });
    let hooks = Hooks::new()
        .before_tool_execution(|call| async move {
            match call.args["command"].as_str() {
                Some("touch hook") => Decision::Deny(format!("hooked:{SECRET}")),
                _ => Decision::Allow,
            }
        })
        .input_filter(Warns);
    let agent = house
        .agent()
        .model(crate::service::model("m"))
        .system_prompt(format!("system:{SECRET}"))
        .metadata(json!({"x": format!("tag:{SECRET}")}))
        .tools(default_tools())
        .tool(leak())
        .hooks(hooks)
        .approvals(approvals)
        .cwd(work.path())
        .spawn()
        .await
        .unwrap();
    let mut events = agent.subscribe_with(100_000);
    let note = Arc::new(AgentMessage::extension("note", json!({"x": format!("note:{SECRET}")})));
    let said = Arc::new(AgentMessage::user(format!("prompt:{SECRET} sk-canary-0123456789"), 1));
    let (id, messages) = (playhouse::protocol::InputId::from("mine".to_owned()), vec![note, said]);
    let mut told = String::new();
    soon("the prompt", agent.submit(Command::new(id.clone(), Op::prompt(messages)))).await.unwrap();
    told.push_str(&format!("{:?}", soon("the run", agent.report(&id)).await.unwrap()));
    soon("a steer", agent.steer(&format!("steer:{SECRET}"))).await.unwrap();
    soon("a follow-up", agent.follow_up(&format!("follow-up:{SECRET}"))).await.unwrap();
    told.push_str(&format!("{:?}", soon("a run", agent.prompt("go on")).await.unwrap()));
    let saved =
        json!([{"role": "user", "content": [{"type": "text", "text": format!("restored:{SECRET}")}], "timestamp": 1}]);
    soon("a restoration", agent.restore_messages(&saved.to_string())).await.unwrap();
    told.push_str(&format!("{:?}", agent.state().await.unwrap()));
    told.push_str(&agent.save_messages().await.unwrap());
    let session = agent.session_id();
    let again = house.events(&session, None).await.unwrap();
    told.push_str(&format!("{:?}", house.tree()));
    house.shutdown(Duration::from_secs(5)).await;
    let mut live = Vec::new();
    while let Some(event) = events.next().await {
        live.push(event);
    }
    let requests: String = service.seen().iter().map(|seen| seen.body.to_string()).collect();
    let journal = everything(folder.path());
    let json_of =
        |events: &[Arc<Event>]| events.iter().map(|e| serde_json::to_string(&**e).unwrap()).collect::<String>();
    let sinks = [
        ("requests", &requests),
        ("journal", &journal),
        ("events", &json_of(&live)),
        ("replay", &json_of(&again)),
        ("told", &told),
    ];
    for (what, text) in sinks {
        is_clean(what, text);
        assert!(!text.contains("sk-canary-0123456789"), "{what}: the model's key");
    }
    let holds = |sink: &str, tags: &[&str]| {
        let (_, text) = sinks.iter().find(|(what, _)| *what == sink).unwrap();
        for tag in tags {
            assert!(text.contains(&format!("{tag}:[secret:CANARY_KEY]")), "{sink} has no {tag}");
        }
    };
    let of_tools = ["result", "url", "error", "file", "stderr", "denied", "hooked"];
    let of_users = ["prompt", "steer", "follow-up", "warning"];
    holds("requests", &of_tools);
    holds("requests", &of_users);
    holds("requests", &["system"]);
    holds("journal", &of_tools);
    holds("journal", &of_users);
    holds("journal", &["system", "details", "note", "restored"]);
    holds("events", &["progress", "partial", "partial-details", "details", "result", "error", "prompt"]);
    holds("replay", &["details", "result", "error", "prompt"]);
    holds("told", &["result", "prompt", "restored"]);
    assert!(requests.contains("[secret:OPENAI_API_KEY]"), "the model's key has a name");
    assert!(requests.contains("\"ends like canary-\""), "what only begins like a secret is shown");
    assert!(requests.contains("quoted:\\\"[secret:CANARY_KEY]\\\""), "{requests}");
    // All that is in the journal comes out the same again.
    let of_journal = |events: &[Arc<Event>]| -> Vec<Value> {
        let live_only = |e: &AgentEvent| {
            let name = serde_json::to_value(e).unwrap()["type"].clone();
            ["MessageUpdate", "ToolExecutionUpdate", "ProgressMessage"].iter().any(|live| name == *live)
        };
        let kept = events.iter().filter(|e| !live_only(&e.event) && e.id.seq > playhouse::protocol::Seq::default());
        kept.map(|e| serde_json::to_value(&**e).unwrap()).filter(|e| e["type"] == "ToolExecutionEnd").collect()
    };
    assert_eq!(of_journal(&live), of_journal(&again));
    assert_eq!(of_journal(&live).len(), 8);
}

#[tokio::test]
async fn f52_a_placeholder_is_written_to_no_file() {
    let work = tempfile::tempdir().unwrap();
    let config = work.path().join("app.env");
    let before = format!("A=1\nTOKEN={SECRET}\n");
    std::fs::write(&config, &before).unwrap();
    let edit = |old: &str, new: &str| json!({"path": "app.env", "edits": [{"old_text": old, "new_text": new}]});
    let answers = vec![
        calls(0, "read_file", json!({"path": "app.env"})),
        calls(1, "write_file", json!({"path": "app.env", "content": "A=2\nTOKEN=[secret:CANARY_KEY]\n"})),
        calls(2, "edit_file", edit("A=1", "A=2 # not [secret:CANARY_KEY]")),
        calls(3, "edit_file", edit("A=1\nTOKEN=[secret:CANARY_KEY]", "A=2\nTOKEN=[secret:CANARY_KEY]")),
        calls(4, "edit_file", edit("A=1", "A=2")),
        says("done"),
    ];
    let service = service(answers);
    let builder = service.house().secret("CANARY_KEY", Secret::new(SECRET));
    let house = builder.open().await.unwrap();
    let agent = house.agent().model(crate::service::model("m")).tools(default_tools());
    let agent = agent.permission(PermissionMode::Yolo).cwd(work.path()).spawn().await.unwrap();
    let report = soon("the run", agent.prompt("count up")).await.unwrap();
    let results: Vec<(bool, String)> = report
        .messages
        .iter()
        .filter_map(|message| match message.llm()? {
            message @ Message::ToolResult { is_error, .. } => Some((*is_error, message.text())),
            Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect();
    let failed: Vec<bool> = results.iter().map(|(failed, _)| *failed).collect();
    assert_eq!(failed, [false, true, true, true, false], "{results:?}");
    for (_, text) in &results[1..3] {
        assert!(text.contains("`[secret:CANARY_KEY]` stands for a secret") && text.contains("environment"), "{text}");
    }
    assert!(results[3].1.contains("placeholder for a secret"), "{results:?}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), before.replace("A=1", "A=2"));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn f52_keys_that_come_into_use_later_are_known_from_then_on() {
    let service = service(vec![says("one"), says("two")]);
    let house = service.house().secret("CANARY_KEY", Secret::new(SECRET)).open().await.unwrap();
    let agent = house.agent().model(crate::service::model("m")).spawn().await.unwrap();
    soon("a run", agent.prompt("later-key-4711 is not known")).await.unwrap();
    let mut settings = agent.state().await.unwrap().settings;
    let mut model = crate::service::model("m");
    model.api_key = Some(Secret::new("later-key-4711"));
    model.key_variable = None;
    settings.model = model.into();
    settings.system_prompt = format!("system:{SECRET}").into();
    settings.metadata = Some(Arc::new(json!([format!("tag:{SECRET}")])));
    soon("a change", agent.configure(settings)).await.unwrap();
    soon("a run", agent.prompt("later-key-4711 is known")).await.unwrap();
    let last = service.seen().last().unwrap().body.to_string();
    assert!(last.contains("later-key-4711 is not known") && last.contains("[secret:openai] is known"), "{last}");
    assert!(last.contains("system:[secret:CANARY_KEY]"), "{last}");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn f52_a_key_that_a_restart_finds_in_a_variable_of_any_name_is_known() {
    // Set by whoever runs tests, and not named like a secret.
    let variable = "CARGO_MANIFEST_DIR";
    let value = std::env::var(variable).unwrap();
    let service = service(vec![says("one")]);
    let house = service.house().open().await.unwrap();
    let model = ModelConfig { api_key: None, key_variable: Some(variable.to_owned()), ..crate::service::model("m") };
    let agent = house.agent().model(model).spawn().await.unwrap();
    soon("a crash", agent.crash()).await.unwrap();
    soon("a run", agent.prompt(&format!("it is {value}."))).await.unwrap();
    let last = service.seen().last().unwrap().body.to_string();
    assert!(last.contains("it is [secret:CARGO_MANIFEST_DIR]."), "{last}");
    house.shutdown(Duration::ZERO).await;
}
