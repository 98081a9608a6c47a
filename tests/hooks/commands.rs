//! What commands are told, and what their answers do.

use std::sync::Mutex;

use playhouse::protocol::entry::BlockStage;

use super::*;
use crate::kit::{FnTool, rest_of_run};

fn pre(hook: CommandHook) -> Hooks {
    Hooks::new().command(HookEvent::PreToolUse, hook)
}

fn answers(json: Value) -> String {
    format!("cat > /dev/null; echo '{json}'")
}

#[tokio::test]
async fn a_command_is_told_of_a_call_and_exit_2_blocks_it() {
    let set = Set::new().await;
    let hook = set.hook("hook.sh", "cat > told.json; echo 'not here' >&2; exit 2");
    let hooks = pre(hook.matcher(Matcher::new("Bash|Edit").unwrap()));
    let agent = set.agent(hooks).provider_override(runs("touch ran")).spawn().await.unwrap();
    let mut events = agent.subscribe();
    let (outcome, lines) = asked(&agent, "go").await;
    assert_eq!(
        (outcome, lines),
        (Outcome::Stop, ["user: go", "model: [bash]", "!bash: not here", "model: ok"].map(String::from).into())
    );
    assert!(!set.has("ran"));
    let events = rest_of_run(&mut events).await;
    let blocked = events.iter().find_map(|event| match &event.event {
        AgentEvent::ToolBlocked { tool_call_id, stage, reason, .. } => {
            Some((tool_call_id.clone(), *stage, reason.clone()))
        }
        _ => None,
    });
    let (call, stage, reason) = blocked.unwrap();
    assert_eq!((stage, reason.as_str()), (BlockStage::Hook, "not here"));
    let told = set.json("told.json");
    let transcript = told["transcript_path"].as_str().unwrap().to_owned();
    assert!(std::fs::read_to_string(&transcript).unwrap().contains("\"type\":\"opened\""), "{transcript}");
    assert_eq!(
        told,
        json!({
            "session_id": agent.session_id(),
            "transcript_path": transcript,
            "cwd": set.work(),
            "permission_mode": "yolo",
            "hook_event_name": "PreToolUse",
            "tool_name": "bash",
            "tool_input": {"command": "touch ran"},
            "tool_use_id": call,
        })
    );
    set.close().await;
}

#[tokio::test]
async fn a_command_that_is_for_other_tools_is_not_run() {
    let set = Set::new().await;
    let hook = set.hook("hook.sh", "touch asked; exit 2").matcher(Matcher::new("Edit|Write").unwrap());
    let agent = set.agent(pre(hook)).provider_override(runs("echo hi")).spawn().await.unwrap();
    assert_eq!(asked(&agent, "go").await.1[2], "bash: hi\n");
    assert!(!set.has("asked"));
    set.close().await;
}

#[tokio::test]
async fn a_command_changes_the_arguments_and_the_tool_runs_with_those() {
    let set = Set::new().await;
    let output = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": "echo changed"},
    }});
    let hook = set.hook("hook.sh", &format!("echo run >> count; {}", answers(output)));
    let agent = set.agent(pre(hook)).provider_override(runs("echo original")).spawn().await.unwrap();
    let mut events = agent.subscribe();
    assert_eq!(asked(&agent, "go").await.1[2], "bash: changed\n");
    assert_eq!(set.read("count"), "run\n", "it is not asked about its own words");
    let started = rest_of_run(&mut events).await.iter().find_map(|event| match &event.event {
        AgentEvent::ToolExecutionStart { args, .. } => Some(args.clone()),
        _ => None,
    });
    assert_eq!(started, Some(json!({"command": "echo changed"})));

    let bad = json!({"hookSpecificOutput": {"updatedInput": {"command": 5}}});
    let hook = set.hook("bad.sh", &answers(bad));
    let agent = set.agent(pre(hook)).provider_override(runs("touch ran")).spawn().await.unwrap();
    let line = asked(&agent, "go").await.1[2].clone();
    assert!(line.starts_with("!bash: ") && !set.has("ran"), "{line}");
    set.close().await;
}

#[tokio::test]
async fn a_command_asks_and_the_tool_runs_after_a_yes() {
    let set = Set::new().await;
    let output =
        json!({"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "on a Friday?"}});
    let hook = set.hook("hook.sh", &answers(output));
    for (decision, expected) in [
        (PermissionDecision::Allow, "bash: hi\n"),
        (PermissionDecision::Deny { reason: "never".into() }, "!bash: never"),
    ] {
        let questions: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = questions.clone();
        let approvals = Approvals::code(move |request| {
            heard.lock().unwrap().push(request.question.reason);
            let decision = decision.clone();
            async move { decision }
        });
        let agent = set.agent(pre(hook.clone())).approvals(approvals).provider_override(runs("echo hi"));
        assert_eq!(asked(&agent.spawn().await.unwrap(), "go").await.1[2], expected);
        assert_eq!(*questions.lock().unwrap(), ["go past a hook that says: on a Friday?"]);
    }
    // Without anyone to ask it is a no.
    let agent = set.agent(pre(hook)).provider_override(runs("touch ran")).spawn().await.unwrap();
    assert!(asked(&agent, "go").await.1[2].ends_with("there is nobody to ask"));
    assert!(!set.has("ran"));
    set.close().await;
}

#[tokio::test]
async fn a_command_ends_the_run() {
    let set = Set::new().await;
    let hook = set.hook("hook.sh", &answers(json!({"continue": false, "stopReason": "enough for today"})));
    let halted = Outcome::Halted { reason: "enough for today".into() };
    let agent = set.agent(pre(hook.clone())).provider_override(runs("touch ran")).spawn().await.unwrap();
    let (outcome, lines) = asked(&agent, "go").await;
    assert_eq!((&outcome, lines.last().unwrap().as_str()), (&halted, "!bash: enough for today"));
    assert!(!set.has("ran"));
    let hooks = Hooks::new().command(HookEvent::PostToolUse, hook);
    let agent = set.agent(hooks).provider_override(runs("touch ran; echo done")).spawn().await.unwrap();
    let (outcome, lines) = asked(&agent, "go").await;
    assert_eq!((&outcome, lines.last().unwrap().as_str()), (&halted, "bash: done\n"));
    assert!(set.has("ran"));
    set.close().await;
}

#[tokio::test]
async fn what_commands_say_after_a_tool_is_part_of_its_result() {
    let set = Set::new().await;
    let post = |hook| Hooks::new().command(HookEvent::PostToolUse, hook);
    let output = json!({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "run the tests"}});
    let hook = set.hook("hook.sh", &format!("cat > told.json; echo '{output}'"));
    let agent = set.agent(post(hook)).provider_override(runs("echo hi")).spawn().await.unwrap();
    assert_eq!(asked(&agent, "go").await.1[2], "bash: hi\n\nrun the tests");
    let told = set.json("told.json");
    assert_eq!(told["tool_response"], json!({"content": "hi\n", "is_error": false}));
    assert_eq!((&told["tool_name"], &told["tool_input"]), (&json!("bash"), &json!({"command": "echo hi"})));
    let hook = set.hook("no.sh", "echo 'not formatted' >&2; exit 2");
    let agent = set.agent(post(hook)).provider_override(runs("echo hi")).spawn().await.unwrap();
    assert_eq!(asked(&agent, "go").await.1[2], "bash: hi\n\nA hook objects to this: not formatted");
    set.close().await;
}

#[tokio::test]
async fn what_users_say_is_blocked_or_added_to() {
    let set = Set::new().await;
    let text =
        "cat > told.json; if grep -q rude told.json; then echo 'be kind' >&2; exit 2; fi; echo '(said politely)'";
    let hooks = Hooks::new().command(HookEvent::UserPromptSubmit, set.hook("hook.sh", text));
    let agent = set.agent(hooks).provider_override(says("ok")).spawn().await.unwrap();
    assert_eq!(asked(&agent, "a rude word").await, (Outcome::Rejected { reason: "be kind".into() }, Vec::new()));
    assert_eq!(set.json("told.json")["prompt"], "a rude word");
    assert_eq!(asked(&agent, "please").await.1, ["user: please\n(said politely)", "model: ok"]);
    set.close().await;
}

#[tokio::test]
async fn a_run_goes_on_until_the_command_lets_it_stop() {
    let set = Set::new().await;
    let text =
        "cat >> told.jsonl; echo >> told.jsonl; if [ ! -e tested ]; then touch tested; echo 'test it' >&2; exit 2; fi";
    let hooks = Hooks::new().command(HookEvent::Stop, set.hook("hook.sh", text));
    let agent = set.agent(hooks).provider_override(says("done")).spawn().await.unwrap();
    let (outcome, lines) = asked(&agent, "go").await;
    assert_eq!(
        (outcome, lines),
        (Outcome::Stop, ["user: go", "model: done", "user: test it", "model: done"].map(String::from).into())
    );
    let told: Vec<Value> = set.read("told.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let active: Vec<&Value> = told.iter().map(|told| &told["stop_hook_active"]).collect();
    assert_eq!(active, [&json!(false), &json!(true)]);

    let never = Hooks::new().command(HookEvent::Stop, CommandHook::new("echo more >&2; exit 2"));
    let agent = set.agent(never).provider_override(says("done")).spawn().await.unwrap();
    let (outcome, lines) = asked(&agent, "go").await;
    assert_eq!((outcome, lines.iter().filter(|line| *line == "user: more").count()), (Outcome::Stop, 8));
    set.close().await;
}

#[tokio::test]
async fn a_session_starts_once_in_a_process() {
    let set = Set::new().await;
    let text = "cat > told.json; if grep -q startup told.json; then echo '[on main]'; else echo '[back again]'; fi";
    let hook = set.hook("hook.sh", text);
    let hooks = || {
        let never = CommandHook::new("exit 2").matcher(Matcher::new("compact").unwrap());
        Hooks::new().command(HookEvent::SessionStart, hook.clone()).command(HookEvent::SessionStart, never)
    };
    let agent = set.agent(hooks()).id("a").provider_override(says("ok")).spawn().await.unwrap();
    let session = agent.session_id();
    assert_eq!(asked(&agent, "one").await.1[0], "user: one\n[on main]");
    assert_eq!(asked(&agent, "two").await.1[0], "user: two");
    soon("the house's end", set.house.shutdown(Duration::ZERO)).await;
    let set = Set { house: open(set.folder.path()).await, folder: set.folder };
    let agent = set.agent(hooks()).id("a").session(session).provider_override(says("ok")).open().await.unwrap();
    assert_eq!(asked(&agent, "three").await.1[0], "user: three\n[back again]");
    set.close().await;
}

#[tokio::test]
async fn a_sub_agents_tools_and_end_pass_its_parents_commands() {
    let set = Set::new().await;
    let guard = set.hook("guard.sh", "grep -q forbidden && { echo 'not in this house' >&2; exit 2; }; exit 0");
    let end = set.hook("end.sh", "cat >> ends.jsonl; echo >> ends.jsonl");
    let prompts = set.hook("prompts.sh", "echo asked >> prompts");
    let hooks = Hooks::new()
        .command(HookEvent::PreToolUse, guard)
        .command(HookEvent::SubagentStop, end.clone())
        .command(HookEvent::Stop, end)
        .command(HookEvent::UserPromptSubmit, prompts);
    let child = Definition {
        tools: Some(ToolSet::new(default_tools()).unwrap()),
        provider_override: Some(Arc::new(runs("touch forbidden"))),
        ..Definition::default()
    };
    let model = FnModel::new(|config| match config.response {
        0 => Step::text("").tool_call("helper", json!({"task": "do it"})),
        _ => Step::text("ok"),
    });
    let helper = SubAgentTool::new("helper").with_definition(child);
    let agent = set.agent(hooks).sub_agent(helper).provider_override(model).spawn().await.unwrap();
    let mut events = agent.subscribe_tree();
    asked(&agent, "go").await;
    let mut blocked = None;
    while let Some(event) = events.try_next() {
        if let AgentEvent::ToolBlocked { reason, .. } = &event.event {
            blocked = Some((event.session_id.clone(), reason.clone()));
        }
    }
    let (session, reason) = blocked.expect("nothing was blocked");
    assert_eq!((session != agent.session_id(), reason.as_str()), (true, "not in this house"));
    assert!(!set.has("forbidden"));
    let ends: Vec<Value> = set.read("ends.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends: Vec<_> =
        ends.iter().map(|told| (told["hook_event_name"].as_str().unwrap(), &told["session_id"])).collect();
    assert_eq!(ends, [("SubagentStop", &json!(session)), ("Stop", &json!(agent.session_id()))]);
    assert_eq!(set.read("prompts"), "asked\n", "a task is no user's word");
    set.close().await;
}

#[tokio::test]
async fn commands_of_an_event_run_side_by_side_and_each_once() {
    let set = Set::new().await;
    let meet = |mine: &str, other: &str| {
        format!("touch {mine}; for _ in $(seq 2000); do [ -e {other} ] && exit 0; sleep 0.01; done; exit 2")
    };
    let (one, two) = (set.hook("one.sh", &meet("a", "b")), set.hook("two.sh", &meet("b", "a")));
    let count = CommandHook::new("echo run >> count");
    let hooks = [one, two, count.clone(), count].into_iter();
    let hooks = hooks.fold(Hooks::new(), |hooks, hook| hooks.command(HookEvent::PreToolUse, hook));
    let agent = set.agent(hooks).provider_override(runs("echo hi")).spawn().await.unwrap();
    assert_eq!(asked(&agent, "go").await.1[2], "bash: hi\n");
    assert_eq!(set.read("count"), "run\n");
    set.close().await;
}

#[tokio::test]
async fn a_command_need_not_read_what_it_is_told_and_long_things_are_told_whole() {
    let set = Set::new().await;
    let long = "x".repeat(3_000_000);
    let args = json!({"text": long});
    let model = move || {
        let args = args.clone();
        FnModel::new(move |config| match config.response {
            0 => Step::text("").tool_call("take", args.clone()),
            _ => Step::text("ok"),
        })
    };
    let take = || FnTool::new("take", |_, _| async { Ok(ToolResult::text("taken")) });
    for command in ["exit 0", "wc -c > size"] {
        let hooks = pre(CommandHook::new(command));
        let agent = set.agent(hooks).tool(take()).provider_override(model()).spawn().await.unwrap();
        assert_eq!(asked(&agent, "go").await.1[2], "take: taken");
    }
    assert!(set.read("size").trim().parse::<usize>().unwrap() > 3_000_000);
    set.close().await;
}
