//! What a program gives its tools beside the arguments of a call, through the front door.

#[path = "support/kit.rs"]
mod kit;

use std::future::ready;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kit::soon;
use playhouse::agent::MissingState;
use playhouse::prelude::*;
use playhouse::protocol::{SessionId, StateType, States};
use playhouse::{ResumeError, SpawnError};

/// As a pool of connections to a database would be.
struct Pool {
    name: &'static str,
    used: AtomicU32,
}

impl Pool {
    fn new(name: &'static str) -> Self {
        Self { name, used: AtomicU32::new(0) }
    }
}

/// What this machine is called.
struct Label(&'static str);

/// Looks something up.
#[tool(read_only)]
async fn look_up(
    State(pool): State<Pool>,
    /// Its number.
    id: u64,
    label: playhouse::protocol::State<Label>,
    ctx: &ToolContext,
) -> String {
    let used = pool.used.fetch_add(1, Ordering::Relaxed) + 1;
    format!("{} {id} from {} of {}, use {used}", ctx.tool_name, pool.name, label.0.0)
}

struct Clerk {
    name: &'static str,
}

#[tool]
impl Clerk {
    /// Says who works with what.
    #[tool(read_only)]
    async fn works(&self, State(pool): State<Pool>) -> String {
        format!("{} with {}", self.name, pool.name)
    }
}

/// A tool by hand.
struct ByHand;

#[async_trait]
impl Tool for ByHand {
    fn name(&self) -> &str {
        "by_hand"
    }

    fn description(&self) -> &str {
        "Says the label."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn states(&self) -> Vec<StateType> {
        vec![StateType::of::<Label>()]
    }

    async fn execute(&self, _: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text(ctx.state::<Label>()?.0.0))
    }
}

fn calls<const N: usize>(names: [&str; N]) -> Scripted {
    let args = |name: &str| if name == "look_up" { json!({"id": 7}) } else { json!({}) };
    let steps = names.iter().map(|name| Step::text("").tool_call(*name, args(name)));
    Scripted::new(steps.chain([Step::text("Done.")]).collect::<Vec<_>>())
}

fn results(messages: &[Arc<AgentMessage>]) -> Vec<String> {
    let llm = messages.iter().filter_map(|message| message.llm());
    llm.filter(|message| matches!(message, Message::ToolResult { .. })).map(Message::text).collect()
}

async fn told(agent: AgentBuilder) -> Vec<String> {
    let agent = agent.spawn().await.unwrap();
    results(&soon("the run", agent.prompt("Go.")).await.unwrap().messages)
}

fn look_up_and(given: States) -> Definition {
    Definition { tools: ToolSet::new(vec![Arc::new(look_up)]).ok(), states: given, ..Definition::default() }
}

#[tokio::test]
async fn a_state_is_not_in_the_schema_and_is_given_by_hand_to_the_function() {
    let id = json!({"type": "integer", "minimum": 0, "description": "Its number."});
    let schema = json!({"type": "object", "properties": {"id": id}, "required": ["id"], "additionalProperties": false});
    assert_eq!(look_up.parameters_schema(), schema);
    let works = Clerk { name: "Ann" }.tools();
    assert_eq!(works[0].parameters_schema()["properties"], json!({}));
    assert_eq!(look_up.states(), [StateType::of::<Pool>(), StateType::of::<Label>()]);
    assert_eq!((works[0].states(), nothing.states()), (vec![StateType::of::<Pool>()], Vec::new()));
    assert_eq!(ask::call(State::new(Desk::Answers)).await, "the desk of the second process");
}

/// Takes nothing.
#[tool]
async fn nothing() {}

#[tokio::test]
async fn tools_share_the_states_of_their_house_and_an_agents_own_count_before_them() {
    let house = House::builder().state(Pool::new("the house's")).state(Label("one")).open().await.unwrap();
    let names = ["look_up", "look_up", "works", "by_hand"];
    let agent = || {
        let agent = house.agent().provider_override(calls(names)).tool(look_up).tool(ByHand);
        agent.tools(Clerk { name: "Ann" }.tools())
    };
    let first = told(agent()).await;
    let with = |name, used| format!("look_up 7 from {name} of one, use {used}");
    let theirs = "the house's";
    assert_eq!(first, [with(theirs, 1), with(theirs, 2), format!("Ann with {theirs}"), "one".to_owned()]);
    // Its own of one type, the house's of the other.
    let second = told(agent().state(Pool::new("its own"))).await;
    assert_eq!(second, [with("its own", 1), with("its own", 2), "Ann with its own".to_owned(), "one".to_owned()]);
    // Nobody else's was changed, and all share it.
    assert_eq!(told(agent()).await[0], with(theirs, 3));
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn an_agent_whose_tools_lack_a_state_does_not_start_and_says_what_to_call() {
    let house = House::builder().state(Arc::new(Pool::new("shared"))).open().await.unwrap();
    let agent = house.agent().provider_override(Scripted::new([])).tool(nothing).tool(look_up);
    let error = agent.clone().spawn().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tool `look_up` takes `State<state::Pool>`, and nobody gave a `state::Pool` (there are: \
         `alloc::sync::Arc<state::Pool>`): call `.state(…)` with one on `House::builder()`, or on the agent's builder"
    );
    assert!(matches!(error, SpawnError::State(_)), "{error:?}");
    let error = agent.clone().state(Pool::new("its own")).spawn().await.unwrap_err();
    assert!(error.to_string().starts_with("the tool `look_up` takes `State<state::Label>`"), "{error}");
    let error = house.agent().provider_override(Scripted::new([])).tool(ByHand).spawn().await.unwrap_err();
    assert!(error.to_string().starts_with("the tool `by_hand` takes `State<state::Label>`"), "{error}");
    assert_eq!((house.agents().len(), house.sessions().await.unwrap().len()), (0, 0));
    agent.state(Pool::new("its own")).state(Label("one")).spawn().await.unwrap();
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_sub_agent_has_its_own_states_its_parents_and_the_houses() {
    let house = House::builder().state(Pool::new("the house's")).open().await.unwrap();
    let sub = |given: States| {
        let child = Definition { provider_override: Some(Arc::new(calls(["look_up"]))), ..look_up_and(given) };
        SubAgentTool::new("helper").with_definition(child)
    };
    let task = || Scripted::new([Step::text("").tool_call("helper", json!({"task": "Look."})), Step::text("Done.")]);
    let seen = async |agent: AgentBuilder| {
        let mut events = house.subscribe();
        let agent = agent.provider_override(task()).spawn().await.unwrap();
        soon("the run", agent.prompt("Go.")).await.unwrap();
        loop {
            let event = soon("the helper's tool", events.next()).await.unwrap();
            if let AgentEvent::ToolExecutionEnd { tool_name, result, .. } = &event.event
                && tool_name == "look_up"
            {
                return result.content.clone();
            }
        }
    };
    let agent = || house.agent();
    let parents = seen(agent().state(Label("its parent")).sub_agent(sub(States::new()))).await;
    assert_eq!(parents, [Content::text("look_up 7 from the house's of its parent, use 1")]);
    let own = States::new().with(Label("its own"));
    let own = seen(agent().state(Label("its parent")).sub_agent(sub(own))).await;
    assert_eq!(own, [Content::text("look_up 7 from the house's of its own, use 2")]);

    let missing = agent().provider_override(task()).sub_agent(sub(States::new())).spawn().await.unwrap_err();
    let SpawnError::State(missing) = missing else { panic!("{missing:?}") };
    let expected = MissingState {
        tool: "look_up".to_owned(),
        sub_agent: Some("helper".to_owned()),
        state: "state::Label",
        given: vec!["state::Pool"],
    };
    assert_eq!(missing, expected);
    assert!(missing.to_string().starts_with("the tool `look_up` of the sub-agent `helper` takes"), "{missing}");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_kind_brings_states_and_the_builders_count_before_them() {
    let clerk = |_| {
        let given = States::new().with(Pool::new("the kind's")).with(Label("the kind"));
        ready(Ok(Definition { provider_override: Some(Arc::new(calls(["look_up"]))), ..look_up_and(given) }))
    };
    let house = House::builder().kind("clerk", clerk).state(Pool::new("the house's")).open().await.unwrap();
    let agent = house.agent().kind("clerk").state(Label("the builder"));
    assert_eq!(told(agent).await, ["look_up 7 from the kind's of the builder, use 1"]);
    house.shutdown(Duration::ZERO).await;
}

/// What the other process knows its role by.
const DATA: &str = "PLAYHOUSE_TEST_DATA";

/// Whether the tool is to answer, or to wait until its process is killed.
enum Desk {
    Waits,
    Answers,
}

/// Asks at the desk.
#[tool(read_only)]
async fn ask(State(desk): State<Desk>) -> &'static str {
    match *desk {
        Desk::Answers => "the desk of the second process",
        Desk::Waits => {
            println!("@waiting");
            std::future::pending().await
        }
    }
}

fn building(data: &Path) -> playhouse::HouseBuilder {
    let clerk = |_| {
        let tools = ToolSet::new(vec![Arc::new(ask)]).ok();
        let model = Some(Arc::new(calls(["ask"])) as Arc<dyn StreamProvider>);
        ready(Ok(Definition { tools, provider_override: model, ..Definition::default() }))
    };
    House::builder().data_dir(data).kind("clerk", clerk)
}

#[tokio::test]
#[ignore = "the process that another test kills"]
async fn the_process_that_is_killed_while_its_tool_runs() {
    let data = std::env::var(DATA).expect("another test starts this");
    let house = building(Path::new(&data)).state(Desk::Waits).open().await.unwrap();
    let agent = house.agent().kind("clerk").session(SessionId::new("asking").unwrap()).spawn().await.unwrap();
    let _ = agent.prompt("Ask.").await;
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn f32_a_session_that_is_resumed_has_the_states_of_the_house_that_resumes_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["the_process_that_is_killed_while_its_tool_runs", "--exact", "--ignored", "--nocapture"]);
    let mut other = Killed(command.env(DATA, folder.path()).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(other.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("@waiting")), "the tool did not run");
    drop(other); // SIGKILL

    let session = SessionId::new("asking").unwrap();
    let house = building(folder.path()).open().await.unwrap();
    let error = house.resume(&session).await.unwrap_err();
    assert!(matches!(error, ResumeError::MissingPart { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("the tool `ask` takes `State<state::Desk>`") && text.contains(".state(…)"), "{text}");
    house.shutdown(Duration::ZERO).await;

    let house = building(folder.path()).state(Desk::Answers).open().await.unwrap();
    let mut events = house.subscribe();
    let agent = house.resume(&session).await.unwrap();
    while !matches!(soon("the end", events.next()).await.unwrap().event, AgentEvent::AgentEnd { .. }) {}
    assert_eq!(results(agent.state().await.unwrap().messages.as_slice()), ["the desk of the second process"]);
    house.shutdown(Duration::ZERO).await;
}
