//! The stages between a model's call and its start.

use std::sync::Arc;

use playhouse_agent::machine::{Approver, Authority, Catalog, HookCall, HookPoint, Verdict, Vetting};
use playhouse_protocol::{
    Access, Command, EntryBody, GrantScope, Level, Op, Passage, PermissionDecision, Question, Ruling, ToolCallId,
    ToolDefinition, ToolError, ToolResult,
};
use serde_json::Value;

use crate::rig::Rig;

/// The calls that a run has started, in order.
fn started(rig: &Rig) -> Vec<&str> {
    rig.bodies()
        .filter_map(|body| match body {
            EntryBody::ToolStarted { tool_call_id, .. } => Some(tool_call_id.as_str()),
            _ => None,
        })
        .collect()
}

fn passage_of(rig: &Rig, call: &str) -> Passage {
    let found = rig.bodies().find_map(|body| match body {
        EntryBody::ToolStarted { tool_call_id, passage, .. } if tool_call_id.as_str() == call => passage.clone(),
        _ => None,
    });
    *found.unwrap_or_else(|| panic!("{call} has not started"))
}

#[test]
fn a_response_may_have_twenty_five_calls() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    let names: Vec<String> = (1..=27).map(|n| format!("c{n}")).collect();
    let calls: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "read")).collect();
    let lines = rig.wants(&calls);
    assert_eq!(started(&rig).len(), 25);
    assert!(lines.contains(&"ToolBlocked c26 Limit".to_owned()) && lines.contains(&"ToolBlocked c27 Limit".to_owned()));
    rig.come_to_rest();
    assert!(rig.talk()[27].starts_with("c26 error: not run: a response may have 25 calls and this one is number 26"));
}

#[test]
fn five_failures_in_a_row_stub_the_rest_of_a_response() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    let names: Vec<String> = (1..=8).map(|n| format!("c{n}")).collect();
    let calls: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "alone")).collect();
    rig.wants(&calls);
    for (n, call) in names.iter().take(6).enumerate() {
        let failed = Err(ToolError::Failed("broken".into()));
        // One that works in between starts the count anew.
        rig.tool_ends(call, if n == 0 { Ok(ToolResult::text("ok")) } else { failed });
    }
    assert_eq!(started(&rig), ["c1", "c2", "c3", "c4", "c5", "c6"]);
    assert!(rig.tools.is_empty());
    rig.come_to_rest();
    let talk = rig.talk();
    assert!(talk[8].starts_with("c7 error: not run: the 5 calls before it failed"), "{talk:#?}");
    assert!(talk[9].starts_with("c8 error: not run: the 5 calls before it failed"), "{talk:#?}");
    // The next response is judged by itself.
    rig.prompt("again");
    rig.wants(&[("d1", "alone")]);
    assert_eq!(started(&rig).last(), Some(&"d1"));
}

#[test]
fn reads_run_together_writes_by_path_and_all_else_alone() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[
        ("r1", "read a"),
        ("w1", "write a"),
        ("w2", "write b"),
        ("w3", "write a"),
        ("x", "alone"),
        ("r2", "read b"),
    ]);
    assert_eq!(started(&rig), ["r1", "w2"], "w1 waits for r1, w3 for both, x for all, r2 for x");
    rig.done("r1");
    assert_eq!(started(&rig), ["r1", "w2", "w1"]);
    rig.done("w2");
    rig.done("w1");
    assert_eq!(started(&rig), ["r1", "w2", "w1", "w3"]);
    rig.done("w3");
    assert_eq!(started(&rig), ["r1", "w2", "w1", "w3", "x"]);
    rig.done("x");
    assert_eq!(started(&rig), ["r1", "w2", "w1", "w3", "x", "r2"]);
    rig.done("r2");
    let ids: Vec<String> = rig.talk()[2..8].iter().map(|line| line[..2].trim().to_owned()).collect();
    assert_eq!(ids, ["r1", "w1", "w2", "w3", "x", "r2"], "answers keep the order of the calls");
}

#[test]
fn a_call_that_waits_for_its_turn_survives_a_restart_and_an_abort() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("x", "alone"), ("y", "alone")]);
    rig.restart();
    // The first was a `once` tool: its outcome is unknown, and the second gets its turn.
    assert_eq!(started(&rig), ["x", "y"]);
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("x", "alone"), ("y", "alone")]);
    rig.abort();
    rig.tool_ends("x", Err(ToolError::Cancelled));
    assert_eq!(started(&rig), ["x"]);
    assert!(rig.machine.is_at_rest());
}

#[test]
fn questions_are_put_all_at_once_and_an_answer_lets_its_call_wait_for_its_turn() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("a", "alone"), ("b", "risky"), ("c", "risky")]);
    assert_eq!(rig.asks.len(), 2);
    rig.permit("c/ask", PermissionDecision::Allow);
    rig.done("a");
    assert_eq!(started(&rig), ["a", "c"], "`risky` minds only calls that run alone");
    rig.permit("b/ask", PermissionDecision::Allow);
    assert_eq!(started(&rig), ["a", "c", "b"]);
    assert_eq!(
        passage_of(&rig, "b"),
        Passage { level: Level::Execute, allowed_by: "answer to b/ask-c6963825a2fc401f".into() }
    );
}

#[test]
fn a_yes_for_the_session_is_not_asked_for_again_and_one_for_good_is_remembered() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("a", "lasting")]);
    let lines = rig.permit("a/ask", PermissionDecision::AllowSession);
    assert!(!lines.iter().any(|line| line.starts_with("> remember")), "{lines:?}");
    rig.done("a");
    rig.restart();
    rig.wants(&[("b", "lasting")]);
    assert_eq!((rig.asks.len(), started(&rig)), (0, vec!["a", "b"]));
    assert_eq!(passage_of(&rig, "b").allowed_by, "a yes for the session");

    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("a", "lasting")]);
    let lines = rig.permit("a/ask", PermissionDecision::AllowAlways);
    let at = |text: &str| lines.iter().position(|line| line == text).unwrap_or_else(|| panic!("{lines:?}"));
    assert!(at("PermissionResolved a/ask: allow always") > at("> remember lasting"));
    assert_eq!(rig.machine.durable().grants(), ["lasting"]);
    // It is in the journal before it is written down, so whoever takes over sees to that again.
    assert_eq!(rig.restart().iter().filter(|line| *line == "> remember lasting").count(), 1);
    rig.done("a");
    rig.says("done");
    assert!(!rig.restart().iter().any(|line| line.starts_with("> remember")));
}

#[test]
fn a_yes_for_the_session_ends_when_it_moves_to_another_directory() {
    let mut rig = Rig::with(|_, settings| settings.grants = vec!["of the parent".to_owned()]);
    rig.prompt("hi");
    rig.wants(&[("a", "lasting")]);
    rig.permit("a/ask", PermissionDecision::AllowSession);
    rig.done("a");
    rig.says("done");
    let mut settings = rig.machine.durable().settings.as_ref().clone();
    settings.temperature = Some(0.5);
    rig.tell(Command::new("warmer", Op::Configure { settings: Box::new(settings.clone()) }));
    assert_eq!(rig.machine.durable().grants(), ["of the parent", "lasting"]);
    settings.cwd = "/elsewhere".into();
    rig.tell(Command::new("move", Op::Configure { settings: Box::new(settings) }));
    assert_eq!(rig.machine.settings_with_grants().grants, Vec::<String>::new());
    rig.restart();
    rig.prompt("again");
    rig.wants(&[("b", "lasting")]);
    assert_eq!((rig.asks.len(), started(&rig)), (1, vec!["a"]));
}

#[test]
fn a_yes_for_longer_than_is_offered_is_refused_and_the_question_stays() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("a", "risky")]);
    let open = rig.asks.clone();
    for decision in [PermissionDecision::AllowSession, PermissionDecision::AllowAlways] {
        let lines = rig.permit("a/ask", decision);
        assert!(lines[0].contains("cannot be given for that long"), "{lines:?}");
        rig.asks = open.clone();
    }
    rig.permit("a/ask", PermissionDecision::Allow);
    assert_eq!(started(&rig), ["a"]);
}

#[test]
fn what_is_forbidden_is_blocked_at_the_policy() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    assert!(rig.wants(&[("a", "forbidden")]).contains(&"ToolBlocked a Policy".to_owned()));
    assert_eq!(rig.talk()[2], "a error: forbidden by a rule");
}

#[test]
fn an_inbox_has_no_deadline_and_a_question_in_it_outlives_a_restart() {
    let mut rig = Rig::with(|setup, _| setup.approver = Approver::Inbox);
    rig.prompt("hi");
    rig.wants(&[("a", "risky")]);
    assert_eq!(rig.timers, []);
    let before = rig.asks.clone();
    rig.restart();
    assert_eq!((rig.asks.clone(), rig.timers.clone()), (before, Vec::new()));
    rig.permit("a/ask", PermissionDecision::Allow);
    assert_eq!(started(&rig), ["a"]);
}

#[test]
fn a_policy_of_the_agents_own_has_the_last_word_but_for_what_is_forbidden() {
    let question = |reason: &str| Question {
        reason: reason.into(),
        level: Level::None,
        offer: GrantScope::Once,
        rules: Vec::new(),
    };
    let mut rig = Rig::hooked([HookPoint::Policy]);
    rig.prompt("hi");
    rig.wants(&[("a", "once"), ("b", "risky"), ("c", "once"), ("d", "forbidden"), ("e", "once")]);
    let asked: Vec<&str> = rig
        .hooks
        .iter()
        .map(|(_, call)| match call {
            HookCall::Policy { call, .. } => call.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(asked, ["a", "b", "c", "e"], "nobody is asked about what is forbidden");
    rig.verdict(Verdict::Policy(Ruling::Ask(question("be sure"))));
    rig.verdict(Verdict::Policy(Ruling::Allow { by: "my policy".into() }));
    rig.verdict(Verdict::Policy(Ruling::Forbid { reason: "not on Sundays".into() }));
    rig.refuse("the hook crashed");
    assert_eq!(started(&rig), ["b"]);
    assert_eq!(passage_of(&rig, "b"), Passage { level: Level::Execute, allowed_by: "my policy".into() });
    rig.permit("a/ask", PermissionDecision::Allow);
    rig.come_to_rest();
    let talk = rig.talk();
    assert_eq!(talk[4], "c error: not on Sundays");
    assert_eq!(talk[6], "e error: the hook crashed");
}

/// The tools as they were, but for a rule that has come since.
struct Forbids(Arc<dyn Catalog>);

impl Catalog for Forbids {
    fn definitions(&self) -> Arc<[ToolDefinition]> {
        self.0.definitions()
    }
    fn vet(&self, authority: Authority<'_>, call: &ToolCallId, name: &str, args: &Value) -> Vetting {
        match self.0.vet(authority, call, name, args) {
            Vetting::Ready { effect, level, .. } => {
                Vetting::Ready { effect, level, ruling: Ruling::Forbid { reason: "forbidden since".into() } }
            }
            blocked @ Vetting::Blocked { .. } => blocked,
        }
    }
    fn access(&self, name: &str, args: &Value) -> Access {
        self.0.access(name, args)
    }
    fn summary(&self, name: &str, args: &Value, result: &Result<ToolResult, ToolError>) -> String {
        self.0.summary(name, args, result)
    }
}

#[test]
fn a_call_that_was_forbidden_after_it_started_is_not_started_again() {
    let mut rig = Rig::new();
    rig.prompt("hi");
    rig.wants(&[("r", "read")]);
    rig.setup.catalog = Arc::new(Forbids(rig.setup.catalog.clone()));
    let lines = rig.restart();
    assert!(rig.tools.is_empty(), "{lines:?}");
    assert_eq!(rig.talk()[2], "r error: forbidden since");
}
