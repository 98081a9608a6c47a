//! A hook that cannot run, or does not end, has allowed nothing, and leaves nothing behind.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::kit::until;

#[tokio::test]
async fn f49_a_hook_that_fails_blocks_and_says_what_to_do() {
    let set = Set::new().await;
    let plain = set.work().join("plain.sh");
    std::fs::write(&plain, "exit 0").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let cases = [
        ("./no-such-program", "was not found: install it, or correct its path"),
        ("./plain.sh", "cannot be executed: make it executable"),
        ("exit 1", "failed with exit code 1: make it exit 0 to allow or 2 to block"),
        ("echo '{\"decision\":'", "wrote JSON that is no answer"),
        ("echo '{\"decision\": \"perhaps\"}'", "wrote JSON that is no answer"),
        ("kill -9 $$", "was killed by signal 9"),
        ("echo '{'; head -c 400000 /dev/zero | tr '\\0' x", "wrote more than 256 KiB"),
        ("sleep 1000", "did not end within 1 s: make it faster, or raise its `timeout`"),
    ];
    for (command, words) in cases {
        let hook = CommandHook::new(command).timeout(Duration::from_secs(1));
        let hooks = Hooks::new().command(HookEvent::PreToolUse, hook);
        let agent = set.agent(hooks).provider_override(runs("touch ran")).spawn().await.unwrap();
        let line = asked(&agent, "go").await.1[2].clone();
        assert!(line.starts_with("!bash: the PreToolUse hook `") && line.contains(words), "{command}: {line}");
        assert!(!set.has("ran"), "{command}");
    }
    set.close().await;
}

#[tokio::test]
async fn at_every_event_a_hook_that_fails_is_a_no() {
    let set = Set::new().await;
    let failing = |event| Hooks::new().command(event, CommandHook::new("./no-such-program"));
    let agent = |event| set.agent(failing(event)).provider_override(runs("echo hi"));
    let prompt = asked(&agent(HookEvent::UserPromptSubmit).spawn().await.unwrap(), "go").await;
    assert!(matches!(&prompt.0, Outcome::Rejected { reason } if reason.contains("not found")), "{prompt:?}");
    // Nothing that a model could mend: these end the run.
    for (event, messages) in [(HookEvent::SessionStart, 1), (HookEvent::Stop, 4)] {
        let (outcome, lines) = asked(&agent(event).spawn().await.unwrap(), "go").await;
        assert!(matches!(&outcome, Outcome::Halted { reason } if reason.contains("not found")), "{outcome:?}");
        assert_eq!(lines.len(), messages, "{lines:?}");
    }
    let lines = asked(&agent(HookEvent::PostToolUse).spawn().await.unwrap(), "go").await.1;
    assert!(lines[2].starts_with("bash: hi\n\nA hook failed after this: the PostToolUse hook"), "{lines:?}");
    set.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_hook_outlives_it() {
    let set = Set::new().await;
    // It ends by itself, runs out of time, or says no, and leaves something in the background each time.
    for (rest, timeout) in [("exit 0", 60), ("exit 2", 60), ("wait", 1)] {
        let time = unique_sleep();
        let command = format!("(setsid sleep {time} >/dev/null 2>&1 &); sleep {time} & {rest}");
        let hook = CommandHook::new(command).timeout(Duration::from_secs(timeout));
        let hooks = Hooks::new().command(HookEvent::PreToolUse, hook);
        let agent = set.agent(hooks).provider_override(runs("echo hi")).spawn().await.unwrap();
        asked(&agent, "go").await;
        assert_eq!(sleepers(&time), 0, "{rest}");
    }
    set.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_kills_the_hook_that_a_run_waits_for() {
    let set = Set::new().await;
    for event in [HookEvent::PreToolUse, HookEvent::PostToolUse, HookEvent::UserPromptSubmit, HookEvent::Stop] {
        let time = unique_sleep();
        let hooks = Hooks::new().command(event, CommandHook::new(format!("setsid sleep {time} & sleep {time}")));
        let agent = set.agent(hooks).provider_override(runs("echo hi")).spawn().await.unwrap();
        let run = tokio::spawn({
            let agent = agent.clone();
            async move { agent.prompt_report("go").await }
        });
        until("both sleep", || sleepers(&time) >= 2).await;
        soon("the abort", agent.abort()).await.unwrap();
        let report = soon("the run's end", run).await.unwrap().unwrap();
        assert_eq!(report.outcome, Outcome::Aborted, "{event:?}");
        until("neither sleeps", || sleepers(&time) == 0).await;
    }
    set.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_house_that_closes_takes_its_hooks_along() {
    let set = Set::new().await;
    let time = unique_sleep();
    let hooks =
        Hooks::new().command(HookEvent::PreToolUse, CommandHook::new(format!("setsid sleep {time} & sleep {time}")));
    let agent = set.agent(hooks).provider_override(runs("echo hi")).spawn().await.unwrap();
    let _run = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("go").await }
    });
    until("both sleep", || sleepers(&time) >= 2).await;
    set.close().await;
    assert_eq!(sleepers(&time), 0);
}
