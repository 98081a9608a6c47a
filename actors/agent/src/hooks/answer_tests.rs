use std::time::Duration;

use serde_json::json;

use super::*;

fn exit(event: HookEvent, code: i32, out: &str, err: &str) -> HookAnswer {
    let (out, err) = (Output::Whole(out.to_owned()), Output::Whole(err.to_owned()));
    read(event, &CommandHook::new("check.sh"), Ended::Exited { code, out, err })
}

fn before(out: &str) -> BeforeTool {
    exit(HookEvent::PreToolUse, 0, out, "").before_tool()
}

fn stop(reason: &str) -> BeforeTool {
    BeforeTool::Block { reason: reason.to_owned() }
}

fn specific(output: Value) -> String {
    json!({"hookSpecificOutput": output}).to_string()
}

#[test]
fn exit_codes_allow_block_and_fail() {
    assert_eq!(exit(HookEvent::PreToolUse, 0, "all fine\n", "noise").before_tool(), BeforeTool::Run);
    assert_eq!(
        exit(HookEvent::PreToolUse, 2, "{\"decision\": \"approve\"}", " not that \n").before_tool(),
        stop("not that")
    );
    let silent = "the PreToolUse hook `check.sh` says no and gives no reason";
    assert_eq!(exit(HookEvent::PreToolUse, 2, "", " \n").before_tool(), stop(silent));
    for (code, hint) in [(1, "exit code 1"), (126, "make it executable"), (127, "was not found"), (3, "2 to block")] {
        let BeforeTool::Block { reason } = exit(HookEvent::PreToolUse, code, "{}", "why").before_tool() else {
            panic!()
        };
        assert!(reason.contains(hint) && reason.contains("`check.sh`") && reason.ends_with("(why)"), "{reason}");
    }
}

#[test]
fn a_hook_that_cannot_run_or_answer_blocks_and_says_what_to_do() {
    let hook = CommandHook::new("check.sh").timeout(Duration::from_millis(1_500));
    let not_started = Ended::NotStarted { reason: "no such folder".to_owned() };
    let cases = [
        (not_started, "did not run: no such folder"),
        (Ended::TimedOut, "did not end within 1.5 s: make it faster, or raise its `timeout`"),
        (Ended::Killed { signal: 9 }, "was killed by signal 9"),
        (
            Ended::Exited { code: 0, out: Output::Cut("{}".to_owned()), err: Output::Whole(String::new()) },
            "more than 256 KiB",
        ),
    ];
    for (ended, words) in cases {
        let answer = read(HookEvent::PreToolUse, &hook, ended);
        let BeforeTool::Block { reason } = answer.before_tool() else { panic!("{words}") };
        assert!(reason.contains(words), "{reason}");
    }
    for bad in ["{", "{\"decision\": 5}", "{\"decision\": \"maybe\"}", "{\"continue\": \"no\"}", "{} {}"] {
        let BeforeTool::Block { reason } = before(bad) else { panic!("{bad}") };
        assert!(reason.contains("wrote JSON that is no answer"), "{reason}");
    }
    let other = specific(json!({"hookEventName": "Stop", "permissionDecision": "allow"}));
    assert!(matches!(before(&other), BeforeTool::Block { reason } if reason.contains("answered for `Stop`")));
}

#[test]
fn before_a_tool_json_denies_asks_changes_and_ends_the_run() {
    let decide = |word: &str| specific(json!({"permissionDecision": word, "permissionDecisionReason": "because"}));
    assert_eq!(before(&decide("allow")), BeforeTool::Run);
    assert_eq!(before(&decide("deny")), stop("because"));
    assert_eq!(before(&decide("ask")), BeforeTool::Ask { reason: "because".to_owned(), args: None });
    assert_eq!(before("{\"decision\": \"block\", \"reason\": \"old style\"}"), stop("old style"));
    let args = json!({"command": "ls"});
    let changed = specific(json!({"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": args}));
    assert_eq!(before(&changed), BeforeTool::Amend { args: Arc::new(args.clone()) });
    let asked =
        specific(json!({"permissionDecision": "ask", "permissionDecisionReason": "sure?", "updatedInput": args}));
    assert_eq!(before(&asked), BeforeTool::Ask { reason: "sure?".to_owned(), args: Some(Arc::new(args.clone())) });
    let ends = json!({"continue": false, "stopReason": "enough", "decision": "approve"}).to_string();
    assert_eq!(before(&ends), BeforeTool::Halt { reason: "enough".to_owned() });
    let both = json!({"decision": "approve", "reason": "x", "hookSpecificOutput": {"permissionDecision": "deny"}});
    assert_eq!(before(&both.to_string()), stop("x"));
    assert_eq!(before("{\"suppressOutput\": true, \"unknown\": 1}"), BeforeTool::Run);
}

#[test]
fn after_a_tool_all_that_is_said_reaches_the_model() {
    let after = |code, out: &str, err: &str| exit(HookEvent::PostToolUse, code, out, err).after_tool();
    let say = |text: &str| AfterTool::Say { text: format!("\n{text}") };
    assert_eq!(after(0, "plain text is nobody's", ""), AfterTool::Done);
    let adds =
        json!({"decision": "block", "reason": "unformatted", "hookSpecificOutput": {"additionalContext": "run fmt"}});
    assert_eq!(after(0, &adds.to_string(), ""), say("A hook objects to this: unformatted\nrun fmt"));
    assert_eq!(after(2, "", "tests fail"), say("A hook objects to this: tests fail"));
    assert!(
        matches!(after(1, "", ""), AfterTool::Say { text } if text.starts_with("\nA hook failed after this: the Post"))
    );
    assert_eq!(
        after(0, "{\"continue\": false, \"stopReason\": \"s\"}", ""),
        AfterTool::Halt { reason: "s".to_owned() }
    );
}

#[test]
fn an_input_is_rejected_or_added_to() {
    let input = |code, out: &str, err: &str| exit(HookEvent::UserPromptSubmit, code, out, err).on_input(None);
    assert_eq!(input(0, "", ""), FilterVerdict::Pass);
    assert_eq!(input(0, "today is Monday\n", ""), FilterVerdict::Warn("\ntoday is Monday".to_owned()));
    let adds = specific(json!({"hookEventName": "UserPromptSubmit", "additionalContext": "be kind"}));
    assert_eq!(input(0, &adds, ""), FilterVerdict::Warn("\nbe kind".to_owned()));
    assert_eq!(input(2, "", "no"), FilterVerdict::Reject("no".to_owned()));
    assert_eq!(input(0, "{\"decision\":\"block\",\"reason\":\"r\"}", ""), FilterVerdict::Reject("r".to_owned()));
    assert!(matches!(input(1, "", ""), FilterVerdict::Reject(_)));
    let warned = exit(HookEvent::UserPromptSubmit, 0, "more", "").on_input(Some("careful".to_owned()));
    assert_eq!(warned, FilterVerdict::Warn("careful\nmore".to_owned()));
}

#[test]
fn a_stop_is_refused_by_a_reason_and_ended_by_a_failure() {
    let at = |code, out: &str, err: &str| exit(HookEvent::Stop, code, out, err).on_stop();
    assert_eq!(at(0, "words", ""), MayStop::Yes);
    assert_eq!(at(2, "", "write the tests"), MayStop::GoOn { reason: "write the tests".to_owned() });
    assert_eq!(
        at(0, "{\"decision\": \"block\", \"reason\": \"go on\"}", ""),
        MayStop::GoOn { reason: "go on".to_owned() }
    );
    assert!(matches!(at(127, "", ""), MayStop::Halt { reason } if reason.contains("not found")));
    let starts = |code, out: &str| exit(HookEvent::SessionStart, code, out, "").on_session_start();
    assert_eq!(starts(0, "branch: main"), SessionStart::Say { text: "\nbranch: main".to_owned() });
    assert!(matches!(starts(1, ""), SessionStart::Halt { .. }));
}

#[test]
fn of_several_answers_the_strictest_counts() {
    let one = |word: &str| {
        let output = json!({"permissionDecision": word, "permissionDecisionReason": word});
        exit(HookEvent::PreToolUse, 0, &specific(output), "")
    };
    let halt = exit(HookEvent::PreToolUse, 0, "{\"continue\": false, \"stopReason\": \"halt\"}", "");
    let ask = BeforeTool::Ask { reason: "ask".to_owned(), args: None };
    for (answers, expected) in [
        (vec![one("allow"), one("allow")], BeforeTool::Run),
        (vec![one("ask"), one("allow")], ask.clone()),
        (vec![one("allow"), one("ask")], ask),
        (vec![one("deny"), one("ask"), one("allow")], stop("deny")),
        (vec![one("deny"), one("ask"), halt], BeforeTool::Halt { reason: "halt".to_owned() }),
    ] {
        let all = answers.into_iter().fold(HookAnswer::default(), HookAnswer::joined);
        assert_eq!(all.before_tool(), expected);
    }
    let changing = |n: u32| exit(HookEvent::PreToolUse, 0, &specific(json!({"updatedInput": {"n": n}})), "");
    assert_eq!(changing(1).joined(changing(1)).before_tool(), BeforeTool::Amend { args: Arc::new(json!({"n": 1})) });
    let both = changing(1).joined(changing(2)).before_tool();
    assert!(matches!(both, BeforeTool::Block { reason } if reason.contains("different ways")));
    let followed = changing(1).followed_by(changing(2)).before_tool();
    assert_eq!(followed, BeforeTool::Amend { args: Arc::new(json!({"n": 2})) });
}

#[test]
fn what_reaches_the_model_is_bounded() {
    let long = "ä".repeat(MOST_TEXT + 5);
    let FilterVerdict::Warn(text) = exit(HookEvent::UserPromptSubmit, 0, &long, "").on_input(None) else { panic!() };
    assert_eq!(text.trim().chars().count(), MOST_TEXT + 1);
    let FilterVerdict::Reject(text) = exit(HookEvent::UserPromptSubmit, 2, "", &long).on_input(None) else { panic!() };
    assert_eq!(text.chars().count(), MOST_TEXT + 1);
}
