//! Everything at once: agents in trees, senders that repeat under the same id whatever they are told, crashes, parks,
//! dismissals, resumptions, a disk that is slow, full and fails to flush. In the end every acknowledged input is in a
//! journal exactly once, nothing that was refused is in any, everyone who waited has an answer, no effect was repeated,
//! and nothing is left in memory.
//!
//! Ten seconds of it; `PLAYHOUSE_SECONDS=60` for more. `PLAYHOUSE_SEED` sets what chance decides in the test itself.

#[path = "support/kit.rs"]
mod kit;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::future::ready;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::{FnModel, FnTool, be_quiet_about, until};
use playhouse::prelude::*;
use playhouse::protocol::{AgentId, Command, EntryBody, InputId, Op, SessionId};
use playhouse::session::disk::{Disk, Kernel};
use playhouse::session::{Damage, DamageKind, FileOptions, Take};
use serde_json::json;
use tokio::task::JoinSet;

/// Agents at the top of their trees; each has up to three sub-agents at a time.
const ROOTS: usize = 50;
const SENDERS: usize = 1_000;
const KIND: &str = "stressed";
/// Longer than the worst backoff of everything that is parked and started again.
const PATIENCE: Duration = Duration::from_secs(120);

fn seconds() -> u64 {
    std::env::var("PLAYHOUSE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// The kernel on a bad day.
#[derive(Debug, Default)]
struct BadDay {
    over: AtomicBool,
    flushes_failed: AtomicUsize,
    writes_failed: AtomicUsize,
}

impl BadDay {
    fn strikes(&self, one_in: u32) -> bool {
        !self.over.load(Ordering::SeqCst) && fastrand::u32(..one_in) == 0
    }
}

impl Disk for BadDay {
    fn write(&self, file: &File, record: &[u8]) -> io::Result<usize> {
        Kernel.write(file, record)
    }

    fn write_batch(&self, file: &File, records: &[u8]) -> io::Result<usize> {
        if self.strikes(20) {
            std::thread::sleep(Duration::from_millis(fastrand::u64(1..5)));
        }
        if self.strikes(400) {
            self.writes_failed.fetch_add(1, Ordering::SeqCst);
            // Some of it is there, as much as there was room for.
            let half = records.get(..records.len() / 2).unwrap_or_default();
            return match fastrand::bool() {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Kernel.write_batch(file, half),
            };
        }
        Kernel.write_batch(file, records)
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        if self.strikes(60) {
            self.flushes_failed.fetch_add(1, Ordering::SeqCst);
            return Err(io::Error::other("a bad day"));
        }
        // What a flush does is tested elsewhere; here there shall be many of them.
        if self.strikes(4) { Kernel.flush(file) } else { Ok(()) }
    }
}

/// What the agents are made of, and what they did.
#[derive(Default)]
struct Company {
    turns: AtomicU64,
    effects: AtomicU64,
    done: Mutex<HashSet<u64>>,
    twice: AtomicUsize,
}

impl Company {
    fn definition(self: &Arc<Self>) -> Definition {
        let (company, doing) = (self.clone(), self.clone());
        let once = FnTool::new("once", move |args, _| {
            let n = args["n"].as_u64().unwrap();
            if !doing.done.lock().unwrap().insert(n) {
                doing.twice.fetch_add(1, Ordering::SeqCst);
            }
            async { Ok(ToolResult::text("done")) }
        });
        let tools = Some(ToolSet::new(vec![Arc::new(once)]).unwrap());
        let helper = SubAgentTool::new("helper").with_definition(Definition { tools, ..Definition::default() });
        let model = FnModel::new(move |config| company.answer(config));
        Definition {
            provider_override: Some(Arc::new(model)),
            sub_agents: vec![Arc::new(helper)],
            ..Definition::default()
        }
    }

    /// A root sends up to three helpers out, a helper does something once; whoever has a result says so.
    fn answer(&self, config: &playhouse::protocol::StreamConfig) -> Step {
        let turn = self.turns.fetch_add(1, Ordering::SeqCst);
        let answered = matches!(config.messages.sendable().last(), Some(Message::ToolResult { .. }));
        let is_root = config.tools.iter().any(|tool| tool.name == "helper");
        if answered {
            return Step::text("done");
        }
        let mut step = Step::text("");
        match is_root {
            true => {
                for n in 0..turn % 4 {
                    step = step.tool_call("helper", json!({"task": format!("task {n}")}));
                }
                if turn.is_multiple_of(4) { Step::text("nothing to do") } else { step }
            }
            false => {
                let n = self.effects.fetch_add(1, Ordering::SeqCst);
                step.tool_call("once", json!({"n": n}))
            }
        }
    }
}

/// What became of an input, as its sender was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Taken,
    Refused,
    Unknown,
}

/// What a sender was told of its input, in the end and before.
#[derive(Clone, Debug)]
struct Told {
    input_id: InputId,
    fate: Fate,
    errors: Vec<String>,
}

struct Stress {
    house: House,
    sessions: Vec<SessionId>,
    over: AtomicBool,
    unanswered: AtomicUsize,
}

impl Stress {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Says one thing until it is taken; every second sender takes a plain no for an answer.
    async fn send(&self, input_id: InputId, rng: &mut fastrand::Rng) -> Told {
        let session = &self.sessions[rng.usize(..self.sessions.len())];
        let (gives_up, kind) = (rng.bool(), rng.u8(..4));
        let message = Arc::new(AgentMessage::user(format!("input {input_id}"), 1));
        let input = match kind {
            0 => Command::new(input_id.clone(), Op::prompt(vec![message])),
            1 => Command::new(input_id.clone(), Op::FollowUp { message }),
            _ => Command::new(input_id.clone(), Op::Steer { message }),
        };
        let mut told = Told { input_id: input_id.clone(), fate: Fate::Refused, errors: Vec::new() };
        let begun = Instant::now();
        loop {
            let sent = match self.house.resume(session).await {
                Ok(agent) => agent.submit(input.clone()).await.map(|()| agent),
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                }
            };
            match sent {
                Ok(agent) => {
                    if kind == 0 && rng.u8(..4) == 0 {
                        self.wait_for_run(&agent, &input_id).await;
                    }
                    told.fate = Fate::Taken;
                    return told;
                }
                Err(error) => {
                    if matches!(error, HandleError::Input(InputError::OutcomeUnknown { .. })) {
                        told.fate = Fate::Unknown;
                    }
                    told.errors.push(error.to_string());
                }
            }
            let is_late = self.is_over() && (kind == 0 || begun.elapsed() > PATIENCE);
            if is_late || gives_up && told.fate == Fate::Refused {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(rng.u64(1..20))).await;
        }
    }

    async fn wait_for_run(&self, agent: &AgentHandle, input_id: &InputId) {
        // However it ends: parked, gone and forgotten are answers too.
        if tokio::time::timeout(PATIENCE, agent.report(input_id)).await.is_err() {
            self.unanswered.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Does something bad, or something that mends it.
    async fn disturb(&self, rng: &mut fastrand::Rng) {
        let session = &self.sessions[rng.usize(..self.sessions.len())];
        let agents = self.house.agents();
        let agent = (!agents.is_empty()).then(|| agents[rng.usize(..agents.len())].clone());
        match (rng.u8(..20), agent) {
            (0..10, Some(agent)) => drop(self.house.crash(agent.id()).await),
            (10..13, Some(agent)) => self.house.dismiss(agent.id()).await,
            (13, Some(agent)) => drop(agent.abort().await),
            (14, _) => {
                let writers = playhouse::agent::testing::writers(self.house.services()).all();
                if rng.u8(..10) == 0 && !writers.is_empty() {
                    writers[rng.usize(..writers.len())].kill();
                }
            }
            (15, _) => {
                let connections = playhouse::agent::testing::connections(self.house.services()).all();
                if rng.u8(..10) == 0 && !connections.is_empty() {
                    connections[rng.usize(..connections.len())].kill();
                }
            }
            (16, Some(agent)) => {
                // A helper of someone's, if there is one.
                let helpers: Vec<_> = self.house.tree().into_iter().filter(|node| node.kind == "agent").collect();
                let helper = &helpers.get(rng.usize(..helpers.len().max(1)));
                let id = helper.and_then(|node| node.id.strip_prefix("agent/")).map(AgentId::from);
                let _ = self.house.crash(&id.unwrap_or_else(|| agent.id().clone())).await;
            }
            (_, _) => drop(self.house.resume(session).await),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_nothing_is_lost_repeated_or_left_whatever_happens() {
    be_quiet_about("was struck");
    let seed =
        std::env::var("PLAYHOUSE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("PLAYHOUSE_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let (disk, company) = (Arc::new(BadDay::default()), Arc::new(Company::default()));
    let made = company.clone();
    let house = House::builder()
        .data_dir(folder.path())
        .store_options(FileOptions { disk: disk.clone(), ..FileOptions::default() })
        .kind(KIND, move |_| ready(Ok(made.definition())))
        .open()
        .await
        .unwrap();
    let services = house.services().clone();
    until("the house is up", || services.tree.len() >= 9).await;
    let quiet = [
        services.agents.len(),
        services.hub.len(),
        playhouse::agent::testing::connections(&services).len(),
        services.connections.roster.len(),
        services.tree.len(),
    ];
    let mut sessions = Vec::new();
    disk.over.store(true, Ordering::SeqCst);
    for _ in 0..ROOTS {
        let builder = house.agent().kind(KIND).definition(company.definition()).permission(PermissionMode::Yolo);
        let agent = builder.steering_mode(QueueMode::All).follow_up_mode(QueueMode::All).spawn().await.unwrap();
        agent.prompt("begin").await.unwrap();
        sessions.push(agent.session_id());
    }
    disk.over.store(false, Ordering::SeqCst);
    let unanswered = AtomicUsize::new(0);
    let stress = Arc::new(Stress { house: house.clone(), sessions, over: AtomicBool::new(false), unanswered });

    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let stress = stress.clone();
        senders.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed ^ (sender as u64) << 20);
            let mut told = Vec::new();
            for n in 0.. {
                if n > 0 && stress.is_over() {
                    break;
                }
                told.push(stress.send(format!("{sender}-{n}").into(), &mut rng).await);
                tokio::time::sleep(Duration::from_millis(rng.u64(..200))).await;
            }
            told
        });
    }
    let mut trouble = JoinSet::new();
    for n in 0..4 {
        let stress = stress.clone();
        trouble.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(n));
            while !stress.is_over() {
                stress.disturb(&mut rng).await;
                tokio::time::sleep(Duration::from_millis(rng.u64(1..20))).await;
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(seconds())).await;
    stress.over.store(true, Ordering::SeqCst);
    disk.over.store(true, Ordering::SeqCst);
    tokio::time::timeout(PATIENCE, trouble.join_all()).await.expect("whoever makes trouble gets an answer");
    for node in house.tree() {
        // Writers and connections that were killed too often.
        if matches!(node.state, playhouse::supervision::NodeState::Parked { .. }) && node.kind != "agent" {
            house.unpark(&node.id).await.unwrap();
        }
    }
    let told = tokio::time::timeout(PATIENCE, senders.join_all()).await.expect("every sender gets an answer").concat();
    for session in &stress.sessions {
        let agent = house.resume(session).await.unwrap();
        tokio::time::timeout(PATIENCE, agent.at_rest()).await.expect("every run ends").unwrap();
        house.dismiss(agent.id()).await;
    }
    assert_eq!(stress.unanswered.load(Ordering::SeqCst), 0, "somebody still waits for a report");
    assert_eq!(company.twice.load(Ordering::SeqCst), 0, "an effect was repeated");
    until("nothing is left", || {
        let left = [
            services.agents.len(),
            services.hub.len(),
            playhouse::agent::testing::connections(&services).len(),
            services.connections.roster.len(),
            services.tree.len(),
        ];
        left == quiet && services.sessions.is_empty()
    })
    .await;
    house.shutdown(Duration::ZERO).await;

    let store = playhouse::session::open(folder.path()).unwrap();
    let mut found: BTreeMap<InputId, usize> = BTreeMap::new();
    let mut journals = 0;
    for session in store.sessions().unwrap() {
        let loaded = store.load(&session, Take::Peek).unwrap();
        // An abort may have left a sub-agent as it was when its last write failed; nothing of that was acknowledged.
        let is_torn = |damage: &Damage| matches!(damage.kind, DamageKind::Torn { .. });
        assert!(loaded.damage.iter().all(is_torn), "{session}: {:?}", loaded.damage);
        journals += 1;
        for (_, entry) in &loaded.entries {
            if let EntryBody::Input(input) = &entry.body {
                *found.entry(input.input_id.clone()).or_default() += 1;
            }
        }
    }
    let count = |wanted: Fate| told.iter().filter(|told| told.fate == wanted).count();
    println!(
        "{} inputs: {} taken, {} refused, {} unknown to the end; {journals} journals, {} effects, {} turns; {} flushes and {} writes failed",
        told.len(),
        count(Fate::Taken),
        count(Fate::Refused),
        count(Fate::Unknown),
        company.done.lock().unwrap().len(),
        company.turns.load(Ordering::SeqCst),
        disk.flushes_failed.load(Ordering::SeqCst),
        disk.writes_failed.load(Ordering::SeqCst),
    );
    for told in &told {
        let times = found.get(&told.input_id).copied().unwrap_or_default();
        let fits = match told.fate {
            Fate::Taken => times == 1,
            Fate::Refused => times == 0,
            Fate::Unknown => times <= 1,
        };
        assert!(fits, "{told:?} is in the journals {times} times");
    }
    assert!(count(Fate::Taken) > SENDERS / 2, "hardly anything was taken");
}
