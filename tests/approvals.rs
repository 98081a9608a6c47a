//! Permission through a whole house: the inbox, answers that last, rules, policies, plans.

#[path = "support/kit.rs"]
mod kit;

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::{FnTool, lines, rest_of_run, saying, soon};
use playhouse::agent::{ApprovalsMsg, FilingId, OpenQuestion, RuleBook, Turns};
use playhouse::config::RuleFile;
use playhouse::prelude::*;
use playhouse::protocol::{GrantScope, PermissionId, SessionId};
use playhouse::tools::policy::Rules;

/// What was done, by number, and what had been answered by then.
#[derive(Clone, Default)]
struct Acts {
    done: Arc<Mutex<Vec<u64>>>,
    answered: Arc<Mutex<BTreeSet<u64>>>,
    early: Arc<Mutex<Vec<u64>>>,
}

/// Does something once, and only after a yes; calls with different numbers don't mind each other.
struct Act(Acts);

#[async_trait]
impl Tool for Act {
    fn name(&self) -> &str {
        "act"
    }
    fn description(&self) -> &str {
        "acts"
    }
    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    }
    fn needs_permission(&self, _: &Value) -> Option<String> {
        Some("act".to_owned())
    }
    fn level(&self, _: &Value) -> Level {
        Level::Write
    }
    fn subject(&self, args: &Value) -> Subject {
        Subject::Path(args["n"].to_string())
    }
    async fn execute(&self, args: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        let n = args["n"].as_u64().unwrap();
        if !self.0.answered.lock().unwrap().contains(&n) {
            self.0.early.lock().unwrap().push(n);
        }
        self.0.done.lock().unwrap().push(n);
        Ok(ToolResult::text(format!("did {n}")))
    }
}

const AGENTS: u64 = 40;
const CALLS: u64 = 25;

fn definition(acts: &Acts, first: u64) -> Definition {
    let step = (0..CALLS).fold(Step::text("acting"), |step, n| step.tool_call("act", json!({"n": first + n})));
    Definition {
        tools: Some(ToolSet::new(vec![Arc::new(Act(acts.clone()))]).unwrap()),
        approvals: Approvals::Inbox,
        provider_override: Some(Arc::new(Scripted::new([step, Step::text("done")]))),
        ..Definition::default()
    }
}

async fn open(folder: &Path, acts: &Acts) -> House {
    let mut builder = House::builder().data_dir(folder);
    for agent in 0..AGENTS {
        let acts = acts.clone();
        builder = builder.kind(format!("actor {agent}"), move |_| ready(Ok(definition(&acts, agent * CALLS))));
    }
    builder.open().await.unwrap()
}

/// The questions that wait, once there are so many.
async fn waiting(house: &House, count: usize) -> Vec<OpenQuestion> {
    let mut approvals = house.approvals();
    soon("questions", async {
        loop {
            let questions = approvals.waiting().await.unwrap();
            if questions.len() == count {
                return questions;
            }
            approvals.changed().await;
        }
    })
    .await
}

fn number(question: &OpenQuestion) -> u64 {
    question.request.args["n"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_approvals_in_any_order_each_take_effect_once_and_none_before_its_answer() {
    let seed: u64 = std::env::var("PLAYHOUSE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("PLAYHOUSE_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (folder, acts) = (tempfile::tempdir().unwrap(), Acts::default());
    let house = open(folder.path(), &acts).await;
    let mut sessions: Vec<SessionId> = Vec::new();
    let mut runs = Vec::new();
    for agent in 0..AGENTS {
        let builder = house.agent().kind(format!("actor {agent}")).durability(Durability::Os);
        let agent = builder.definition(definition(&acts, agent * CALLS)).spawn().await.unwrap();
        sessions.push(agent.session_id());
        runs.push(tokio::spawn(async move { agent.prompt("act").await }));
    }
    let all = usize::try_from(AGENTS * CALLS).unwrap();
    let mut questions = waiting(&house, all).await;
    let asked: BTreeMap<u64, PermissionId> =
        questions.iter().map(|question| (number(question), question.request.permission_id.clone())).collect();
    assert_eq!(asked.len(), all);
    assert!(acts.done.lock().unwrap().is_empty());

    // Nine in ten now, in any order, one in ten of them twice.
    rng.shuffle(&mut questions);
    let late = questions.split_off(all - all / 10);
    for question in &questions {
        let approvals = house.approvals();
        acts.answered.lock().unwrap().insert(number(question));
        let id = &question.request.permission_id;
        approvals.answer(&question.agent_id, id, PermissionDecision::Allow).await.unwrap();
        if rng.u8(..10) == 0 {
            let again = approvals.answer(&question.agent_id, id, PermissionDecision::Allow).await;
            let again = again.unwrap_err().to_string();
            assert!(again.contains("is not waiting for an answer"), "{again}");
        }
    }
    soon("the effects in the journals", async {
        loop {
            let mut done = 0;
            for agent in house.agents() {
                let talk = lines(agent.state().await.unwrap().messages.as_slice());
                done += talk.iter().filter(|line| line.starts_with("act: did ")).count();
            }
            if done == questions.len() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(waiting(&house, late.len()).await.len(), late.len());
    house.shutdown(Duration::ZERO).await;
    for run in runs {
        // Few ended: an agent of which nothing is left to answer.
        let _ = run.await.unwrap();
    }

    // The rest after a restart, under the same ids.
    let house = open(folder.path(), &acts).await;
    let mut agents = Vec::new();
    for session in &sessions {
        agents.push(house.resume(session).await.unwrap());
    }
    let mut questions = waiting(&house, late.len()).await;
    rng.shuffle(&mut questions);
    for question in &questions {
        assert_eq!(asked[&number(question)], question.request.permission_id);
        acts.answered.lock().unwrap().insert(number(question));
        let id = &question.request.permission_id;
        house.approvals().answer(&question.agent_id, id, PermissionDecision::Allow).await.unwrap();
    }
    for agent in &agents {
        let mut events = agent.subscribe();
        if agent.state().await.unwrap().is_streaming {
            rest_of_run(&mut events).await;
        }
        assert_eq!(lines(agent.state().await.unwrap().messages.as_slice()).last().unwrap(), "model: done");
    }
    let mut done = acts.done.lock().unwrap().clone();
    done.sort_unstable();
    assert_eq!(done, (0..AGENTS * CALLS).collect::<Vec<_>>(), "each once");
    assert_eq!(*acts.early.lock().unwrap(), Vec::<u64>::new(), "none before its answer");
    assert!(house.approvals().waiting().await.unwrap().is_empty());
    house.shutdown(Duration::ZERO).await;
}

/// An agent that wants to use `risky` in each of its runs.
async fn risky(house: &House, approvals: Approvals) -> AgentHandle {
    let step = || Step::text("risky").tool_call("risky", json!({}));
    let script = Scripted::new([step(), Step::text("one"), step(), Step::text("two"), step(), Step::text("three")]);
    let tool = saying("risky", "risked").asks("take a risk");
    house.agent().provider_override(script).tool(tool).approvals(approvals).spawn().await.unwrap()
}

#[tokio::test]
async fn a_yes_for_the_session_holds_for_the_session_and_one_for_good_for_everyone_and_in_the_users_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let house = House::builder().rule_book(RuleFile::new(&file)).open().await.unwrap();
    let agent = risky(&house, Approvals::Inbox).await;
    let run = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("go").await }
    });
    let question = waiting(&house, 1).await.remove(0);
    assert_eq!((question.request.question.offer, question.request.question.rules.len()), (GrantScope::Always, 1));
    let id = &question.request.permission_id;
    house.approvals().answer(&question.agent_id, id, PermissionDecision::AllowSession).await.unwrap();
    run.await.unwrap().unwrap();
    // Nobody is asked again in this session, but in another.
    assert_eq!(soon("the second run", agent.prompt("go")).await.unwrap().text(), "two");
    assert!(!file.exists());
    let other = risky(&house, Approvals::Inbox).await;
    let run = tokio::spawn({
        let other = other.clone();
        async move { other.prompt("go").await }
    });
    let question = waiting(&house, 1).await.remove(0);
    let id = &question.request.permission_id;
    house.approvals().answer(&question.agent_id, id, PermissionDecision::AllowAlways).await.unwrap();
    run.await.unwrap().unwrap();
    let third = risky(&house, Approvals::Nobody).await;
    assert_eq!(soon("a third agent", third.prompt("go")).await.unwrap().text(), "one");
    assert_eq!(lines(third.state().await.unwrap().messages.as_slice())[2], "risky: risked");
    house.shutdown(Duration::ZERO).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[permissions]\nallow = [\"risky\"]\n");
}

#[tokio::test]
async fn an_inbox_that_dies_comes_back_with_the_questions_that_wait() {
    struct Bomb;
    impl RuleBook for Bomb {
        fn remember(&self, _: &[String]) -> Result<(), String> {
            Err("the disk is full".to_owned())
        }
    }
    let house = House::builder().rule_book(Bomb).open().await.unwrap();
    let agent = risky(&house, Approvals::Inbox).await;
    let run = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("go").await }
    });
    let before = waiting(&house, 1).await.remove(0);
    let inbox = house.services().approvals.get("approvals").unwrap();
    inbox.kill();
    let after = soon("the question again", async {
        loop {
            match house.approvals().waiting().await.unwrap().pop() {
                Some(question) if house.services().approvals.get("approvals").unwrap().get_id() != inbox.get_id() => {
                    return question;
                }
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert_eq!(after.request.permission_id, before.request.permission_id);
    // A book that cannot be written to costs nothing but what it was to keep.
    let id = &after.request.permission_id;
    house.approvals().answer(&after.agent_id, id, PermissionDecision::AllowAlways).await.unwrap();
    assert_eq!(run.await.unwrap().unwrap().text(), "one");
    let other = risky(&house, Approvals::Nobody).await;
    assert_eq!(other.prompt("go").await.unwrap().text(), "one");
    house.shutdown(Duration::ZERO).await;
}

/// A book on a slow disk.
#[derive(Clone, Default)]
struct SlowBook(Arc<Mutex<Vec<String>>>);

impl RuleBook for SlowBook {
    fn remember(&self, rules: &[String]) -> Result<(), String> {
        std::thread::sleep(Duration::from_millis(500));
        self.0.lock().unwrap().extend(rules.iter().cloned());
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_house_that_ends_waits_for_rules_that_are_being_written_down() {
    let book = SlowBook::default();
    let house = House::builder().rule_book(book.clone()).open().await.unwrap();
    let always = || async { PermissionDecision::AllowAlways };
    for tool in ["first", "second"] {
        let script = Scripted::new([Step::text("go").tool_call(tool, json!({})), Step::text("done")]);
        let agent = house.agent().provider_override(script).tool(saying(tool, "done").asks("do it"));
        let agent = agent.approvals(Approvals::code(move |_| always())).spawn().await.unwrap();
        // Nobody waits for the book but the house.
        assert_eq!(soon("a run", agent.prompt("go")).await.unwrap().text(), "done");
    }
    soon("the end", house.shutdown(Duration::ZERO)).await;
    assert_eq!(*book.0.lock().unwrap(), ["first", "second"]);
}

#[tokio::test]
async fn a_yes_for_good_needs_no_inbox() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let house = House::builder().rule_book(RuleFile::new(&file)).open().await.unwrap();
    house.services().approvals.live("approvals", None).await.unwrap();
    house.services().approvals.retire("approvals");
    let agent = risky(&house, Approvals::code(|_| async { PermissionDecision::AllowAlways })).await;
    assert_eq!(agent.prompt("go").await.unwrap().text(), "one");
    let other = risky(&house, Approvals::Nobody).await;
    other.prompt("go").await.unwrap();
    assert_eq!(lines(other.state().await.unwrap().messages.as_slice())[2], "risky: risked");
    house.shutdown(Duration::ZERO).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[permissions]\nallow = [\"risky\"]\n");
}

#[tokio::test]
async fn the_end_of_an_earlier_filing_does_not_close_a_question() {
    let house = House::in_memory().await.unwrap();
    let earlier = FilingId::fresh();
    let agent = risky(&house, Approvals::Inbox).await;
    let run = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("go").await }
    });
    let question = waiting(&house, 1).await.remove(0);
    let (agent_id, permission_id) = (question.agent_id.clone(), question.request.permission_id.clone());
    let inbox = house.services().approvals.live("approvals", None).await.unwrap();
    // What an incarnation that is gone had said, and says as it goes, comes late.
    inbox.cast(ApprovalsMsg::Asked { filing: earlier, question }).unwrap();
    let (agent, permission) = (agent_id.clone(), permission_id.clone());
    inbox.cast(ApprovalsMsg::Closed { filing: earlier, agent_id: agent, permission_id: permission }).unwrap();
    assert_eq!(house.approvals().waiting().await.unwrap().len(), 1);
    house.approvals().answer(&agent_id, &permission_id, PermissionDecision::Allow).await.unwrap();
    assert_eq!(run.await.unwrap().unwrap().text(), "one");
    assert!(house.approvals().waiting().await.unwrap().is_empty());
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn whoever_answers_first_counts() {
    let house = House::in_memory().await.unwrap();
    let agent = risky(&house, Approvals::Inbox).await;
    let run = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("go").await }
    });
    let question = waiting(&house, 1).await.remove(0);
    let id = question.request.permission_id.clone();
    let no = PermissionDecision::Deny { reason: "not today".to_owned() };
    agent.respond_permission(id.clone(), no).await.unwrap();
    let late = house.approvals().answer(&question.agent_id, &id, PermissionDecision::Allow).await;
    assert!(late.unwrap_err().to_string().contains("is not waiting"));
    run.await.unwrap().unwrap();
    assert_eq!(lines(agent.state().await.unwrap().messages.as_slice())[2], "!risky: not today");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_rule_of_a_program_names_a_tool_that_there_is_or_the_house_does_not_open() {
    let lists: [[&[&str]; 3]; 3] =
        [[&["blastd"], &[], &[]], [&[], &["Bash(ls)", "blastd(x)"], &[]], [&[], &[], &["blastd"]]];
    for [allow, ask, forbid] in lists {
        let rules = Rules::parse(allow, ask, forbid).unwrap();
        let error = House::builder().rules(rules).tool_names(["blasted"]).open().await.unwrap_err().to_string();
        assert!(error.contains("there is no tool `blastd` (did you mean `blasted`?)"), "{error}");
        assert!(error.contains("tool_names"), "{error}");
    }
    let rules = Rules::parse(&["blasted", "Edit(src/**)"], &["git__push"], &["bash(rm *)"]).unwrap();
    let house = House::builder().tool_names(["blasted"]).rules(rules).open().await.unwrap();
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn rules_of_the_house_hold_for_agents_and_their_sub_agents() {
    let rules = Rules::parse(&["risky"], &[], &["blasted"]).unwrap();
    let house = House::builder().rules(rules).tool_names(["risky", "blasted"]).open().await.unwrap();
    let tools = || {
        ToolSet::new(vec![Arc::new(saying("risky", "risked").asks("take a risk")), Arc::new(saying("blasted", "gone"))])
            .unwrap()
    };
    let inner = Scripted::new([
        Step::text("both").tool_call("risky", json!({})).tool_call("blasted", json!({})),
        Step::text("inner done"),
    ]);
    let child = Definition { tools: Some(tools()), provider_override: Some(Arc::new(inner)), ..Definition::default() };
    let helper = SubAgentTool::new("helper").with_definition(child);
    let outer = Scripted::new([
        Step::text("go").tool_call("blasted", json!({})).tool_call("helper", json!({"task": "both"})),
        Step::text("outer done"),
    ]);
    let agent = house.agent().provider_override(outer).tool(saying("blasted", "gone")).sub_agent(helper);
    let agent = agent.permission(PermissionMode::Yolo).spawn().await.unwrap();
    let mut events = agent.subscribe_tree_with(1_024);
    assert_eq!(agent.prompt("go").await.unwrap().text(), "outer done");
    let mut blocked = Vec::new();
    while let Some(event) = events.try_next() {
        if let AgentEvent::ToolBlocked { tool_name, reason, stage, .. } = &event.event {
            blocked.push(format!("{tool_name} {stage:?}: {reason}"));
        }
    }
    let line = "blasted Policy: `blasted` is forbidden here by the rule `blasted`; do without it";
    assert_eq!(blocked, [line, line]);
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_call_that_was_granted_and_is_forbidden_when_its_house_opens_again_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let (gate, ran) = (kit::Gate::closed(), Arc::<Mutex<u32>>::default());
    let definition = {
        let (gate, ran) = (gate.clone(), ran.clone());
        move || {
            let ran = ran.clone();
            let risky = FnTool::new("risky", move |_, _| {
                *ran.lock().unwrap() += 1;
                async { Ok(ToolResult::text("risked")) }
            });
            // What comes after a call that reads waits for it, with its permission in the journal.
            let step = Step::text("both").tool_call("hold", json!({})).tool_call("risky", json!({}));
            let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(gate.tool("hold")), Arc::new(risky.asks("take a risk"))];
            Definition {
                tools: Some(ToolSet::new(tools).unwrap()),
                approvals: Approvals::Inbox,
                provider_override: Some(Arc::new(Scripted::new([step, Step::text("done")]))),
                ..Definition::default()
            }
        }
    };
    let open = |forbidden: &[&str]| {
        let definition = definition.clone();
        let rules = Rules::parse(&[], &[], forbidden).unwrap();
        let house = House::builder().data_dir(folder.path()).rules(rules).tool_names(["risky"]);
        house.kind("risky", move |_| ready(Ok(definition()))).open()
    };
    let house = open(&[]).await.unwrap();
    let agent = house.agent().kind("risky").definition(definition()).spawn().await.unwrap();
    let run = agent.run_stream("go").await.unwrap();
    soon("the first call", gate.reached(1)).await;
    let question = waiting(&house, 1).await.remove(0);
    let id = &question.request.permission_id;
    house.approvals().answer(&question.agent_id, id, PermissionDecision::Allow).await.unwrap();
    let session = agent.session_id();
    house.shutdown(Duration::ZERO).await;
    drop(run);
    assert_eq!(*ran.lock().unwrap(), 0);

    gate.open();
    let house = open(&["risky"]).await.unwrap();
    let agent = house.resume(&session).await.unwrap();
    let mut events = agent.follow(None);
    while let Some(event) = soon("the end of the run", events.next()).await.unwrap() {
        if matches!(event.event, AgentEvent::AgentEnd { .. }) {
            break;
        }
    }
    let forbidden = "!risky: `risky` is forbidden here by the rule `risky`; do without it";
    let talk = lines(agent.state().await.unwrap().messages.as_slice());
    assert_eq!(talk[2..], ["hold: passed", forbidden, "model: done"]);
    assert_eq!(*ran.lock().unwrap(), 0);
    house.shutdown(Duration::ZERO).await;
}

struct OnlyEven;

#[async_trait]
impl PermissionPolicy for OnlyEven {
    async fn check(&self, request: &PolicyRequest) -> Ruling {
        match request.args["n"].as_u64() {
            _ if request.tool_name == "helper" => request.ours.clone(),
            Some(n) if n % 2 == 0 => request.ours.clone(),
            Some(_) => Ruling::Forbid { reason: "odd numbers are not for you".to_owned() },
            None => panic!("what is this"),
        }
    }
}

#[tokio::test]
async fn a_policy_of_the_programs_own_judges_its_agents_and_their_sub_agents() {
    kit::be_quiet_about("what is this");
    let house = House::in_memory().await.unwrap();
    let count = || FnTool::new("count", |args, _| async move { Ok(ToolResult::text(args["n"].to_string())) });
    let steps = || {
        let calls = [json!({"n": 2}), json!({"n": 3}), json!({})];
        let step = calls.into_iter().fold(Step::text("count"), |step, args| step.tool_call("count", args));
        Scripted::new([step, Step::text("counted")])
    };
    let child = Definition {
        tools: Some(ToolSet::new(vec![Arc::new(count())]).unwrap()),
        provider_override: Some(Arc::new(steps())),
        ..Definition::default()
    };
    let helper = SubAgentTool::new("helper").with_definition(child);
    let agent = house.agent().provider_override(steps()).tool(count()).policy(OnlyEven).spawn().await.unwrap();
    agent.prompt("go").await.unwrap();
    let talk = lines(agent.state().await.unwrap().messages.as_slice());
    assert_eq!(talk[2..5], ["count: 2", "!count: odd numbers are not for you", "!count: the hook crashed"]);
    let outer = Scripted::new([Step::text("go").tool_call("helper", json!({"task": "count"})), Step::text("ok")]);
    let parent = house.agent().provider_override(outer).sub_agent(helper).policy(OnlyEven).spawn().await.unwrap();
    let mut events = parent.subscribe_tree_with(1_024);
    parent.prompt("go").await.unwrap();
    let mut blocked = 0;
    while let Some(event) = events.try_next() {
        blocked += usize::from(matches!(event.event, AgentEvent::ToolBlocked { .. }));
    }
    assert_eq!(blocked, 2, "the child's odd one and the one it choked on");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_plan_is_kept_approved_and_carried_out_in_another_house() {
    let (folder, acts) = (tempfile::tempdir().unwrap(), Acts::default());
    let definition = {
        let acts = acts.clone();
        move || {
            let plan = Step::text("planning").tool_call("act", json!({"n": 1})).tool_call("act", json!({"n": 2}));
            Definition {
                tools: Some(ToolSet::new(vec![Arc::new(Act(acts.clone()))]).unwrap()),
                provider_override: Some(Arc::new(Scripted::new([plan, Step::text("planned"), Step::text("all done")]))),
                ..Definition::default()
            }
        }
    };
    let open = || {
        let definition = definition.clone();
        House::builder().data_dir(folder.path()).kind("planner", move |_| ready(Ok(definition()))).open()
    };
    let house = open().await.unwrap();
    let agent = house.agent().kind("planner").definition(definition()).mode(Mode::Plan).spawn().await.unwrap();
    assert_eq!(agent.prompt("plan").await.unwrap().text(), "planned");
    let session = agent.session_id();
    assert_eq!(agent.state().await.unwrap().plan.len(), 2);
    assert!(acts.done.lock().unwrap().is_empty());
    house.shutdown(Duration::ZERO).await;

    let house = open().await.unwrap();
    let agent = house.resume(&session).await.unwrap();
    acts.answered.lock().unwrap().extend([1, 2]);
    assert_eq!(agent.approve_plan(Some(vec![2])).await.unwrap().text(), "all done");
    assert_eq!(*acts.done.lock().unwrap(), [2]);
    agent.reject_plan(None, "enough").await.unwrap();
    let state = agent.state().await.unwrap();
    assert!(state.plan.is_empty());
    assert!(lines(state.messages.as_slice()).last().unwrap().ends_with("Reason: enough"));
    house.shutdown(Duration::ZERO).await;
}

/// An agent that asks three things at once, of someone who answers one after the other: two after 100 s each, the
/// third never.
async fn asked_slowly(slowly: impl FnOnce(Arc<tokio::sync::Mutex<u32>>) -> Approvals) -> Vec<String> {
    let house = House::in_memory().await.unwrap();
    let step = (1..=3).fold(Step::text("acting"), |step, n| step.tool_call("act", json!({ "n": n })));
    let (script, acts) = (Scripted::new([step, Step::text("done")]), Acts::default());
    let agent = house.agent().provider_override(script).tool(Act(acts)).approvals(slowly(Arc::default()));
    let agent = agent.spawn().await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().text(), "done");
    let talk = lines(agent.state().await.unwrap().messages.as_slice());
    house.shutdown(Duration::ZERO).await;
    talk[2..5].to_vec()
}

/// Takes its time, one question at a time.
async fn slow_answer(person: Arc<tokio::sync::Mutex<u32>>) -> PermissionDecision {
    let mut answered = person.lock().await;
    *answered += 1;
    match *answered {
        1 | 2 => tokio::time::sleep(Duration::from_secs(100)).await,
        _ => std::future::pending().await,
    }
    PermissionDecision::Allow
}

#[tokio::test(start_paused = true)]
async fn a_question_that_waits_for_its_turn_loses_no_time() {
    let late = "!act: nobody answered within 120 s";
    let talk = asked_slowly(|person| Approvals::in_turn(&Turns::default(), move |_| slow_answer(person.clone())));
    assert_eq!(talk.await, ["act: did 1", "act: did 2", late]);
    // Code that is asked everything at once has the same time for everything.
    let talk = asked_slowly(|person| Approvals::code(move |_| slow_answer(person.clone())));
    assert_eq!(talk.await, ["act: did 1", late, late]);
}
