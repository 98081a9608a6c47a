//! The same points for code.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn code_changes_a_call_adds_to_a_session_and_does_not_let_go() {
    let set = Set::new().await;
    let results = Arc::new(AtomicUsize::new(0));
    let seen = results.clone();
    let hooks = Hooks::new()
        .session_start(|source| async move { Some(format!("[{}]", source.as_str())) })
        .before_tool_execution(|_| async { Decision::Amend(json!({"command": "echo from code"})) })
        .after_tool_execution(move |info| {
            assert_eq!(*info.args, json!({"command": "echo from a command"}));
            let is_whole = info.result.llm().unwrap().text() == "from a command\n";
            seen.fetch_add(usize::from(is_whole), Ordering::SeqCst);
            async {}
        })
        .before_stop(
            |info| async move { if info.refusals == 0 { Ending::GoOn("once more".into()) } else { Ending::Stop } },
        );
    // The command is told what the code made of the call, and has the last word.
    let output = json!({"hookSpecificOutput": {"updatedInput": {"command": "echo from a command"}}});
    let hook = set.hook("hook.sh", &format!("cat > told.json; echo '{output}'"));
    let agent = set.agent(hooks.command(HookEvent::PreToolUse, hook)).provider_override(runs("echo model"));
    let (outcome, lines) = asked(&agent.spawn().await.unwrap(), "go").await;
    assert_eq!(set.json("told.json")["tool_input"], json!({"command": "echo from code"}));
    assert_eq!(outcome, Outcome::Stop);
    let expected =
        ["user: go\n[startup]", "model: [bash]", "bash: from a command\n", "model: ok", "user: once more", "model: ok"];
    assert_eq!((lines, results.load(Ordering::SeqCst)), (expected.map(String::from).into(), 1));
    set.close().await;
}

#[tokio::test]
async fn code_that_denies_is_the_last_that_is_asked() {
    let set = Set::new().await;
    let hooks = Hooks::new().before_tool_execution(|_| async { Decision::Deny("no".into()) });
    let hooks = hooks.command(HookEvent::PreToolUse, CommandHook::new("touch asked"));
    let agent = set.agent(hooks).provider_override(runs("touch ran")).spawn().await.unwrap();
    assert_eq!(asked(&agent, "go").await.1[2], "!bash: no");
    assert!(!set.has("asked") && !set.has("ran"));
    set.close().await;
}

#[tokio::test]
async fn code_that_asks_is_answered_first() {
    let set = Set::new().await;
    let hooks = Hooks::new().before_tool_execution(|_| async { Decision::Ask("really?".into()) });
    let approvals =
        Approvals::code(|request| async move { PermissionDecision::Deny { reason: request.question.reason } });
    let agent = set.agent(hooks).approvals(approvals).provider_override(runs("touch ran")).spawn().await.unwrap();
    assert_eq!(asked(&agent, "go").await.1[2], "!bash: go past a hook that says: really?");
    assert!(!set.has("ran"));
    set.close().await;
}

#[tokio::test]
async fn code_that_crashes_when_a_run_would_stop_ends_it() {
    crate::kit::be_quiet_about("stage fright");
    let set = Set::new().await;
    let hooks = Hooks::new().before_stop(|_| async { panic!("stage fright") });
    let agent = set.agent(hooks).provider_override(says("done")).spawn().await.unwrap();
    let halted = Outcome::Halted { reason: "the hook crashed".into() };
    assert_eq!(asked(&agent, "go").await, (halted, ["user: go", "model: done"].map(String::from).into()));
    set.close().await;
}
