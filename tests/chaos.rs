//! Every kind of actor is made to panic at every kind of message it takes, in the middle of a play in which everything
//! happens. The runs must finish, the conversation must be whole, and whoever watches must be told.
//!
//! The root supervisor is exempt: nobody is there to restart it, and it takes no messages but the end of the house and
//! the reports of its own tasks.

#[path = "support/kit.rs"]
mod kit;
#[path = "support/play.rs"]
mod play;

use std::time::{Duration, Instant};

use kit::{DEADLINE, be_quiet_about};
use play::{Disturb, Play, Tonight};
use playhouse::agent::testing::{AgentMsg, mailboxes};
use playhouse::agent::{ApprovalsMsg, FilingId, OpenQuestion, PermissionRequest};
use playhouse::protocol::EntryBody;
use playhouse::provider::ConnectionMsg;
use playhouse::session::{Note, WriterMsg};
use playhouse::supervision::{ChildSpec, RestartBudget, RestartPolicy, Shutdown, SupervisorMsg, chaos, start_fn};
use playhouse::tools::ExecutorMsg;
use ractor::{ActorCell, ActorRef};

/// Who is struck, and at which message of the kind.
type Blow = (&'static str, &'static str, u32);

/// Supervisors are struck by their id.
const SUPERVISORS: [&str; 3] = ["sessions", "providers", "stage"];

/// Later messages of kinds that come often.
const LATER: [Blow; 37] = [
    ("agent", "Submit", 1),
    ("agent", "Submit", 2),
    ("agent", "Submit", 3),
    ("agent", "Submit", 4),
    ("agent", "Await", 1),
    ("agent", "Call", 1),
    ("agent", "Call", 3),
    ("agent", "Call", 6),
    ("agent", "Tool", 1),
    ("agent", "Tool", 3),
    ("agent", "Tool", 5),
    ("agent", "Commit", 1),
    ("agent", "Commit", 2),
    ("agent", "Commit", 4),
    ("agent", "Commit", 7),
    ("agent", "Commit", 12),
    ("agent", "Commit", 20),
    ("agent", "HookDone", 1),
    ("agent", "HookDone", 3),
    ("agent", "HookDone", 6),
    ("agent", "HookDone", 10),
    ("agent", "ConnectionIs", 1),
    ("writer", "Append", 1),
    ("writer", "Append", 5),
    ("writer", "Append", 12),
    ("writer", "Job", 1),
    ("writer", "Job", 6),
    ("writer", "Job", 13),
    ("connection", "Start", 1),
    ("connection", "Start", 3),
    ("call", "Run", 1),
    ("call", "Run", 3),
    ("executor", "Run", 1),
    ("executor", "Internal", 1),
    ("executor", "Internal", 3),
    ("tool run", "Start", 1),
    ("stage", "Report", 1),
];

/// Everything that can be struck.
fn blows() -> Vec<Blow> {
    let actors = playhouse::session::ACTORS
        .into_iter()
        .chain(playhouse::provider::ACTORS)
        .chain(playhouse::tools::ACTORS)
        .chain([("agent", &AgentMsg::NAMES[..]), ("approvals", &ApprovalsMsg::NAMES[..])])
        .chain(SUPERVISORS.map(|id| (id, &SupervisorMsg::NAMES[..])));
    let first = actors.flat_map(|(kind, names)| names.iter().map(move |name| (kind, *name, 0)));
    first.chain(LATER).collect()
}

/// What it takes for a message to be sent at all.
fn tonight((kind, message, _): Blow) -> Tonight {
    let (early, late): (Option<Disturb>, Option<Disturb>) = match (kind, message) {
        ("agent", "ChildDue") => (Some(crash_child), None),
        ("agent", "Unpark") => (None, Some(|play| tell(&agent(play), AgentMsg::Unpark { reply: nobody() }))),
        ("agent", "ChildParked") => (
            None,
            Some(|play| tell(&agent(play), AgentMsg::ChildParked { call: "none".into(), reason: String::new() })),
        ),
        ("agent", "Crash" | "Recovered") | ("writer", "Load") | ("stage", "Report") => (None, Some(crash)),
        ("agent", "WriterIs") => (None, Some(|play| writer(play).kill())),
        ("agent", "AskAgain") => (None, Some(|play| inbox(play).kill())),
        ("approvals", _) => (None, Some(ask_inbox)),
        ("writer", "Rest") => {
            (None, Some(|play| tell(&writer(play), WriterMsg::Rest { session: play.agent.session_id() })))
        }
        ("writer", "Remove") => (
            None,
            Some(|play| {
                let session = playhouse::agent::new_session_id();
                tell(&writer(play), WriterMsg::Remove { session, reply: nobody() });
            }),
        ),
        ("writer", "Note") => (
            None,
            Some(|play| {
                let session = playhouse::agent::new_session_id();
                let note = Note { body: EntryBody::Parked { reason: String::new() }, at: None };
                tell(&writer(play), WriterMsg::Note { session, note, reply: nobody() });
            }),
        ),
        ("writer", "Settle") => (None, Some(|play| tell(&writer(play), WriterMsg::Settle { reply: nobody() }))),
        ("connection", "Look") => (None, Some(|play| tell(&connection(play), ConnectionMsg::Look))),
        ("connection", "Done") => (None, Some(|play| tell(&connection(play), ConnectionMsg::Done { generation: 0 }))),
        ("connection", "Refreshed") => {
            (None, Some(|play| tell(&connection(play), ConnectionMsg::Refreshed { outcome: Ok(false) })))
        }
        ("executor", "CancelAll") => (None, Some(|play| tell(&executor(play), ExecutorMsg::CancelAll))),
        ("sessions", "Start" | "Stop") => (None, Some(ask_sessions)),
        ("sessions", _) => (None, Some(|play| ask_all(&above(&writer(play))))),
        ("providers", _) => (None, Some(|play| ask_all(&above(&connection(play))))),
        ("stage", _) => (None, Some(|play| ask_all(&above(&agent(play))))),
        _ => (None, None),
    };
    Tonight { early, late, hook_hangs: message == "TimerDue" }
}

/// Whether an agent dies in the middle of a run, so that its audience must be told.
fn is_told((kind, message, spare): Blow) -> bool {
    match (kind, message) {
        // The first is the prompt itself, one of the next two the sub-agent's task: no run is under way then.
        ("agent", "Submit") => spare > 2,
        // Later ones may come after the end of a run.
        ("agent", "Commit") => spare < 15,
        // Everyone is told at once: it may be a sub-agent that dies, or an agent between two runs.
        ("agent", "AskAgain") => false,
        // Of a sub-agent whose run is over.
        ("agent", "AwaitRest") => false,
        ("agent", _) => true,
        ("stage", "Census" | "Resume" | "Shutdown") => true,
        _ => false,
    }
}

fn tell<M: ractor::Message>(to: &ActorCell, message: M) {
    let _ = ActorRef::<M>::from(to.clone()).cast(message);
}

fn nobody<T>() -> ractor::RpcReplyPort<T> {
    tokio::sync::oneshot::channel().0.into()
}

fn agent(play: &Play) -> ActorCell {
    mailboxes(&play.house.services().agents).get(play.agent.id().as_str()).unwrap().get_cell()
}

fn writer(play: &Play) -> ActorCell {
    let services = play.house.services();
    playhouse::agent::testing::writers(services)
        .get(&services.journals.address(&play.agent.session_id()))
        .unwrap()
        .get_cell()
}

fn connection(play: &Play) -> ActorCell {
    let node = play.house.tree().into_iter().find(|node| node.kind == "connection").unwrap();
    playhouse::agent::testing::connections(play.house.services()).get(&node.id).unwrap().get_cell()
}

fn inbox(play: &Play) -> ActorCell {
    play.house.services().approvals.get("approvals").unwrap().get_cell()
}

/// The agents of the play answer for themselves, so the test uses the inbox.
fn ask_inbox(play: &Play) {
    let (agent_id, session_id) = (play.agent.id().clone(), play.agent.session_id());
    let permission_id = playhouse::protocol::PermissionId::from("p");
    let request = PermissionRequest {
        permission_id: permission_id.clone(),
        tool_call_id: "c".into(),
        tool_name: "t".to_owned(),
        args: Default::default(),
        question: Default::default(),
    };
    let question = OpenQuestion { agent_id: agent_id.clone(), session_id, request };
    let (to, filing) = (inbox(play), FilingId::fresh());
    tell(&to, ApprovalsMsg::Asked { filing, question });
    let (agent, permission) = (agent_id.clone(), permission_id.clone());
    tell(&to, ApprovalsMsg::Find { agent_id: agent, permission_id: permission, reply: nobody() });
    tell(&to, ApprovalsMsg::List(nobody()));
    tell(&to, ApprovalsMsg::Closed { filing, agent_id, permission_id });
}

fn executor(play: &Play) -> ActorCell {
    let children = agent(play).get_children();
    children.into_iter().find(|child| child.is_message_type_of::<ExecutorMsg>() == Some(true)).unwrap()
}

fn above(of: &ActorCell) -> ActorCell {
    of.try_get_supervisor().unwrap()
}

fn crash(play: &Play) {
    tell(&agent(play), AgentMsg::Crash);
}

fn crash_child(play: &Play) {
    let child = mailboxes(&play.house.services().agents).get(play.child().as_str()).unwrap();
    tell(&child.get_cell(), AgentMsg::Crash);
}

/// The one of these that is to be struck never happens; the others are harmless.
fn ask_all(supervisor: &ActorCell) {
    tell(supervisor, SupervisorMsg::Census { reply: nobody() });
    tell(supervisor, SupervisorMsg::Resume { id: "nobody".to_owned(), reply: nobody() });
    if chaos::is_armed("Shutdown") {
        tell(supervisor, SupervisorMsg::Shutdown { reply: nobody() });
    }
}

/// Nobody adds or removes a writer, so the test does.
fn ask_sessions(play: &Play) {
    let sessions = above(&writer(play));
    let spec = ChildSpec {
        id: "extra".into(),
        kind: "extra",
        restart: RestartPolicy::Temporary,
        budget: RestartBudget::default(),
        shutdown: Shutdown::Kill,
        start: start_fn(|_| async { Err("it is never started".to_owned()) }),
    };
    tell(&sessions, SupervisorMsg::Start { spec: spec.into(), reply: nobody() });
    tell(&sessions, SupervisorMsg::Stop { id: "extra".to_owned(), reply: nobody() });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f21_every_actor_may_panic_at_every_message() {
    be_quiet_about("was struck at");
    let only = std::env::var("PLAYHOUSE_BLOW").unwrap_or_default();
    let blows: Vec<Blow> = blows().into_iter().filter(|blow| format!("{blow:?}").contains(&only)).collect();
    let begun = Instant::now();
    let mut failed = Vec::new();
    for blow in &blows {
        let at = Instant::now();
        if let Err(error) = strike(*blow).await {
            println!("{blow:?} failed: {error}");
            failed.push(*blow);
        }
        println!("{blow:?}: {:?}", at.elapsed());
    }
    println!("{} blows in {:?}", blows.len(), begun.elapsed());
    assert_eq!(failed, [], "set PLAYHOUSE_BLOW to a part of one to see it alone");
    let known = |kind: &str, message: &str| blows.iter().any(|blow| (blow.0, blow.1) == (kind, message));
    let unknown: Vec<_> = chaos::seen().into_iter().filter(|(kind, message)| !known(kind, message)).collect();
    assert!(!only.is_empty() || unknown.iter().all(|(kind, _)| kind == "house"), "{unknown:?}");
}

/// Plays the play with one blow.
async fn strike(blow: Blow) -> Result<(), String> {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let baseline = tasks();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let (kind, message, spare) = blow;
    chaos::arm(kind, message, spare);
    let mut play = tokio::spawn(async move { Play::begin(&path).await.perform(tonight(blow)).await });
    let played = tokio::time::timeout(DEADLINE, &mut play).await;
    let struck = chaos::disarm();
    let seen = match played {
        Ok(Ok(seen)) => seen,
        Ok(Err(panic)) => return Err(panic.to_string()),
        Err(_) => {
            play.abort();
            return Err("it hangs".to_owned());
        }
    };
    if struck != 1 {
        return Err("nobody was struck".to_owned());
    }
    if seen.restarts == 0 && is_told(blow) {
        return Err("an agent died in its run and nobody was told".to_owned());
    }
    let begun = Instant::now();
    while tasks() > baseline {
        if begun.elapsed() > DEADLINE {
            return Err(format!("{} tasks are left", tasks() - baseline));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
