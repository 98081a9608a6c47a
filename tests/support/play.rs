//! A play for chaos tests: five acts in which an agent meets every kind of message there is.
//!
//! Act one has a retry, tools with updates and progress, a sub-agent, a question, hooks, steering and a follow-up; act
//! two is in a new session; act three aborts a tool, act four a stream; act five is in a third session. Then the agent
//! leaves the stage, and nothing may be left of it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use playhouse::agent::sub_agent::child_session;
use playhouse::prelude::*;
use playhouse::protocol::EventId;
use playhouse::provider::When;
use serde_json::json;

use crate::kit::{FnTool, Gate, hanging, healthy, lines, saying, soon, until};

/// What a test does to the house in the middle of act one.
pub type Disturb = fn(&Play);

/// What is different tonight.
#[derive(Clone, Copy, Default)]
pub struct Tonight {
    /// Done while the sub-agent is at work.
    pub early: Option<Disturb>,
    /// Done while the agent itself is at work.
    pub late: Option<Disturb>,
    /// Whether `after_turn` hangs in act three, so that a timer must end it.
    pub hook_hangs: bool,
}

/// The house, the agent, and what they have done.
pub struct Play {
    pub house: House,
    pub agent: AgentHandle,
    /// Where the agent waits in the middle of act one.
    gate: Gate,
    /// Where its sub-agent waits.
    pub cue: Gate,
    /// How often each call of the tool that must not be repeated was carried out.
    ran: Arc<Mutex<HashMap<u64, u32>>>,
    lazy: Arc<AtomicBool>,
}

/// What the audience saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// `AgentRestarted`, of the agent or its sub-agent.
    pub restarts: usize,
}

fn script() -> Scripted {
    let (child, two, five) = (When::prompt("count to three"), When::prompt("act two"), When::prompt("act five"));
    Scripted::new([
        Step::error(429),
        Step::text("Let me see.")
            .thinking("hm")
            .chunk(4)
            .tool_call("once", json!({"n": 1}))
            .tool_call("peek", json!({}))
            .tool_call("helper", json!({"task": "count to three"}))
            .tool_call("danger", json!({})),
        Step::text("").tool_call("gate", json!({})),
        Step::text("steered"),
        Step::text("the end of act one"),
        Step::text("").tool_call("once", json!({"n": 2})).tool_call("cue", json!({})).when(child.clone()),
        Step::text("one two three").when(child),
        Step::text("the end of act two").when(two.clone()),
        Step::text("").tool_call("hang", json!({})).when(two.clone()),
        Step::text("blah ".repeat(30_000)).chunk(5).delay_ms(2).when(two),
        Step::text("the end").when(five),
    ])
}

impl Play {
    /// Opens a house and brings the agent on stage.
    pub async fn begin(folder: &Path) -> Self {
        let house = House::builder().data_dir(folder.join("data")).open().await.unwrap();
        let writers = playhouse::agent::testing::writers(house.services());
        until("the writers are up", || (0..4).all(|n| writers.get(&format!("writer/{n}")).is_some())).await;
        let (gate, cue) = (Gate::closed(), Gate::closed());
        let ran: Arc<Mutex<HashMap<u64, u32>>> = Arc::default();
        let lazy = Arc::new(AtomicBool::new(false));
        let counts = ran.clone();
        let once = FnTool::new("once", move |args, ctx| {
            *counts.lock().unwrap().entry(args["n"].as_u64().unwrap()).or_default() += 1;
            ctx.update(ToolResult::text("half"));
            ctx.progress("on it");
            ctx.update(ToolResult::text("nearly"));
            async { Ok(ToolResult::text("did it")) }
        });
        let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(once.clone()), Arc::new(cue.tool("cue"))];
        let helper = Definition { tools: Some(ToolSet::new(tools).unwrap()), ..Definition::default() };
        let agent = house
            .agent()
            .provider_override(script())
            .tool(once)
            .tool(saying("peek", "peeked").effect(EffectClass::Read))
            .tool(saying("danger", "dangerous").asks("do something dangerous"))
            .tool(gate.tool("gate"))
            .tool(hanging("hang"))
            .sub_agent(SubAgentTool::new("helper").with_definition(helper))
            .approvals(Approvals::code(|_| async { PermissionDecision::Allow }))
            .hooks(hooks(&lazy))
            .durability(Durability::Os)
            .retry(RetryConfig { max_retries: 4, initial_delay_ms: 1, backoff_multiplier: 1.0, max_delay_ms: 2 })
            .cwd(folder)
            .spawn()
            .await
            .unwrap();
        Self { house, agent, gate, cue, ran, lazy }
    }

    /// The id of the sub-agent of act one.
    pub fn child(&self) -> playhouse::protocol::AgentId {
        let session = self.agent.session_id();
        let first_run = format!("{session}.scripted.script.1").into();
        child_session(&session, &first_run, &"call_0_2".into()).as_str().into()
    }

    /// Plays all five acts.
    pub async fn perform(self, tonight: Tonight) -> Seen {
        let mut seen = Seen::default();
        let mut audience = self.agent.subscribe_tree();
        self.act_one(tonight, &mut seen).await;
        let events = self.agent.subscribe();
        let first = self.agent.session_id();
        let second = self.agent.new_session().await.unwrap();
        assert_ne!(first, second);
        assert_eq!(self.agent.prompt("act two").await.unwrap().text(), "the end of act two");
        self.lazy.store(tonight.hook_hangs, Ordering::SeqCst);
        self.aborted("act three", |event| matches!(event, AgentEvent::ToolExecutionStart { .. })).await;
        self.lazy.store(false, Ordering::SeqCst);
        self.aborted("act four", |event| matches!(event, AgentEvent::MessageUpdate { .. })).await;
        self.agent.new_session().await.unwrap();
        assert_eq!(self.agent.prompt("act five").await.unwrap().text(), "the end");
        assert!(healthy(&self.agent).await.messages.len() > 20);
        for (n, times) in self.ran.lock().unwrap().iter() {
            assert!(*times <= 1, "call {n} of a tool that must not be repeated ran {times} times");
        }
        seen.restarts += restarts(events);
        self.nothing_untold(std::iter::from_fn(|| audience.try_next()).collect()).await;
        self.leave().await;
        seen
    }

    async fn act_one(&self, tonight: Tonight, seen: &mut Seen) {
        let events = self.agent.subscribe_tree();
        let asking = self.agent.clone();
        let run = tokio::spawn(async move { asking.prompt("act one").await });
        self.cue.reached(1).await;
        if let Some(disturb) = tonight.early {
            disturb(self);
        }
        self.cue.open();
        self.gate.reached(1).await;
        if let Some(disturb) = tonight.late {
            disturb(self);
        }
        self.agent.steer("look left").await.unwrap();
        self.agent.follow_up("and then?").await.unwrap();
        assert!(healthy(&self.agent).await.is_streaming);
        self.gate.open();
        let report = run.await.unwrap().unwrap();
        assert_eq!((report.text().as_str(), &report.outcome), ("the end of act one", &Outcome::Stop));
        let told = lines(healthy(&self.agent).await.messages.as_slice());
        let who: Vec<&str> = told.iter().map(|line| line.split(':').next().unwrap()).collect();
        let who: Vec<&str> = who.iter().map(|who| who.trim_start_matches('!')).collect();
        assert_eq!(
            who,
            ["user", "model", "once", "peek", "helper", "danger", "model", "gate", "user", "model", "user", "model"],
            "{told:#?}"
        );
        assert_eq!(
            [&told[0], &told[1], &told[8], &told[9], &told[10], &told[11]],
            [
                "user: act one",
                "model: Let me see.[once, peek, helper, danger]",
                "user: look left",
                "model: steered",
                "user: and then?",
                "model: the end of act one",
            ]
        );
        seen.restarts += restarts(events);
    }

    async fn aborted(&self, prompt: &str, at: impl Fn(&AgentEvent) -> bool) {
        let mut events = self.agent.subscribe();
        let asking = (self.agent.clone(), prompt.to_owned());
        let run = tokio::spawn(async move { asking.0.prompt_report(&asking.1).await });
        while let Some(event) = events.next().await {
            if at(&event.event) {
                break;
            }
        }
        self.agent.abort().await.unwrap();
        let report = run.await.unwrap().unwrap();
        assert_eq!(report.outcome, Outcome::Aborted, "{prompt}");
    }

    /// Whoever listened from the beginning was told everything that the journals hold, in order and once, whoever died.
    async fn nothing_untold(&self, told: Vec<Arc<Event>>) {
        let sessions = self.house.sessions().await.unwrap();
        assert_eq!(sessions.len(), 4, "three of the agent, one of its helper: {sessions:#?}");
        for session in sessions {
            let journal = self.house.events(&session.session_id, None).await.unwrap();
            let ids: Vec<EventId> = journal.iter().map(|event| event.id).collect();
            let of_it = told.iter().filter(|event| event.session_id == session.session_id);
            let heard: Vec<EventId> = of_it.map(|event| event.id).filter(|id| ids.contains(id)).collect();
            assert_eq!(heard, ids, "in {session:#?}");
        }
    }

    /// The agent leaves; then nothing of it may be left.
    async fn leave(self) {
        let services = self.house.services().clone();
        self.house.dismiss(self.agent.id()).await;
        until("all connections are gone", || {
            playhouse::agent::testing::connections(&services).is_empty() && services.connections.roster.is_empty()
        })
        .await;
        until("all addresses are gone", || services.agents.is_empty() && services.hub.is_empty()).await;
        for session in self.house.sessions().await.unwrap() {
            assert!(session.damage.is_empty(), "{session:#?}");
            assert_eq!(session.status, playhouse::session::SessionStatus::Done, "{session:#?}");
        }
        soon("the house's end", self.house.shutdown(Duration::ZERO)).await;
        let left: Vec<String> = self.house.tree().into_iter().map(|node| node.id).collect();
        assert_eq!(left, ["house"]);
    }
}

fn restarts(mut events: Subscription) -> usize {
    std::iter::from_fn(|| events.try_next())
        .filter(|event| matches!(event.event, AgentEvent::AgentRestarted { .. }))
        .count()
}

fn hooks(lazy: &Arc<AtomicBool>) -> Hooks {
    struct Nod;

    #[async_trait::async_trait]
    impl InputFilter for Nod {
        async fn filter(&self, _: &[Arc<AgentMessage>]) -> FilterVerdict {
            FilterVerdict::Pass
        }
    }

    let lazy = lazy.clone();
    Hooks::new()
        .before_loop(|_| async { true })
        .after_loop(|_| async {})
        .before_turn(|_| async { true })
        .after_turn(move |_| {
            let hangs = lazy.load(Ordering::SeqCst);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
            }
        })
        .before_tool_execution(|_| async { Decision::Allow })
        .after_tool_execution(|_| async {})
        .before_tool_execution_update(|_| async { true })
        .after_tool_execution_update(|_| async {})
        .on_error(|_| async {})
        .input_filter(Nod)
}
