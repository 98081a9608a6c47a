//! A house on a store of the program's own: no file, and each way in which a store can fail.

#[path = "support/kit.rs"]
mod kit;

use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::sync::{Arc, Mutex};

use kit::{FnModel, Gate, healthy, lines, soon, until};
use playhouse::SpawnError;
use playhouse::prelude::*;
use playhouse::protocol::{Entry, EntryBody, NodeId, Seq, SessionId};
use playhouse::session::{
    Appended, Committed, Group, Holder, Loaded, MemoryStore, Promises, SessionSummary, Store, StoreError, Sync, Take,
};
use serde_json::json;

/// How a store does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    Well,
    /// Another process has every session.
    Fenced,
    /// It cannot be reached.
    Away,
    /// It keeps what it gets, and its answers are lost.
    Deaf,
    /// Every append fails, and the session with it.
    Broken,
    /// It answers nobody.
    Silent,
    /// It numbers entries as it likes.
    Miscounting,
}

/// Journals in memory that outlive a house, as those on another machine do, with a switch.
#[derive(Debug, Default)]
struct Remote {
    kept: MemoryStore,
    condition: Mutex<Condition>,
    /// The one session that this is the condition of, if not of all.
    only: Mutex<Option<SessionId>>,
    /// Sessions that failed and were not loaded since.
    broken: Mutex<HashSet<SessionId>>,
    /// How often something was asked, by what.
    asked: Mutex<HashMap<&'static str, usize>>,
}

const THERE: &str = "journals.example";

impl Remote {
    fn switch(&self, condition: Condition) {
        *self.condition.lock().unwrap() = condition;
    }

    fn condition_of(&self, session: &SessionId) -> Condition {
        match self.only.lock().unwrap().as_ref().is_none_or(|only| only == session) {
            true => *self.condition.lock().unwrap(),
            false => Condition::Well,
        }
    }

    fn asked(&self, what: &str) -> usize {
        self.asked.lock().unwrap().get(what).copied().unwrap_or_default()
    }

    fn note(&self, what: &'static str) {
        *self.asked.lock().unwrap().entry(what).or_default() += 1;
    }

    fn away() -> StoreError {
        StoreError::Away { place: THERE.into(), reason: "no route".to_owned() }
    }

    fn holder() -> Holder {
        Holder { node: NodeId::from("elsewhere"), pid: 4_711 }
    }

    fn bodies(&self, session: &SessionId) -> Vec<EntryBody> {
        let loaded = self.kept.load(session, Take::Peek).unwrap();
        let ids: HashSet<_> = loaded.entries.iter().map(|(_, entry)| entry.id.clone()).collect();
        assert_eq!(ids.len(), loaded.entries.len(), "an entry is there twice");
        loaded.entries.iter().map(|(_, entry)| entry.body.clone()).collect()
    }
}

impl Store for Remote {
    fn promises(&self) -> Promises {
        Promises { strongest: Durability::Flush }
    }

    fn load(&self, session: &SessionId, take: Take) -> Result<Loaded, StoreError> {
        self.note("load");
        match (self.condition_of(session), take) {
            (Condition::Away | Condition::Deaf, _) => return Err(Self::away()),
            (Condition::Fenced, Take::Own) => {
                let Holder { node, pid } = Self::holder();
                return Err(StoreError::Held { session: session.clone(), node, pid });
            }
            (Condition::Well | Condition::Broken | Condition::Silent | Condition::Miscounting, Take::Own) => {
                self.broken.lock().unwrap().remove(session);
            }
            (_, Take::Peek) => {}
        }
        self.kept.load(session, take)
    }

    fn append(&self, id: &SessionId, epoch: u64, all: &[Arc<Entry>], sync: Sync) -> Result<Vec<Seq>, StoreError> {
        self.note("append");
        if self.broken.lock().unwrap().contains(id) {
            return Err(StoreError::Io { doing: "append", place: THERE.into(), reason: "it failed before".to_owned() });
        }
        match self.condition_of(id) {
            Condition::Well | Condition::Silent => self.kept.append(id, epoch, all, sync),
            Condition::Miscounting => self.kept.append(id, epoch, all, sync).map(|seqs| vec![Seq(0); seqs.len()]),
            Condition::Fenced => Err(StoreError::Fenced { session: id.clone(), epoch, by: Some(Self::holder()) }),
            Condition::Away => Err(Self::away()),
            Condition::Deaf => self.kept.append(id, epoch, all, sync).and(Err(Self::away())),
            Condition::Broken => {
                self.broken.lock().unwrap().insert(id.clone());
                Err(StoreError::Io { doing: "append", place: THERE.into(), reason: "out of order".to_owned() })
            }
        }
    }

    fn flush(&self, session: &SessionId, epoch: u64) -> Result<(), StoreError> {
        self.kept.flush(session, epoch)
    }

    /// One round trip for all.
    fn append_all(&self, groups: &mut dyn Iterator<Item = Group>, answer: &mut dyn FnMut(Vec<Appended>)) {
        self.note("append_all");
        let mut failed = HashMap::new();
        let one = |(n, group): (usize, Group)| {
            let seqs = match failed.get(&group.session) {
                Some(error) => Err(StoreError::clone(error)),
                None => self.append(&group.session, group.epoch, &group.entries, group.sync),
            };
            if let Err(error) = &seqs {
                failed.insert(group.session.clone(), error.clone());
            }
            Appended { group: n, seqs }
        };
        let answers = groups.enumerate().map(one).collect();
        if *self.condition.lock().unwrap() != Condition::Silent {
            answer(answers);
        }
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.kept.list()
    }

    fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        self.kept.remove(session)
    }

    fn rest(&self, session: &SessionId) -> Result<(), StoreError> {
        self.kept.rest(session)
    }

    fn release(&self, session: &SessionId) -> Result<(), StoreError> {
        self.kept.release(session)
    }
}

/// A house on the store, with a kind whose model repeats what it hears.
async fn house_on(store: &Arc<Remote>) -> House {
    let kind = |_| ready(Ok(Definition { provider_override: Some(Arc::new(echo())), ..Definition::default() }));
    House::builder().store(store.clone()).kind("echo", kind).open().await.unwrap()
}

fn echo() -> FnModel {
    FnModel::new(|config| Step::text(format!("heard: {}", config.messages.sendable().last().unwrap().text())))
}

/// What an agent answers.
async fn ask(agent: &AgentHandle, text: &str) -> Result<String, HandleError> {
    soon("an answer", agent.prompt(text)).await.map(|report| report.text())
}

async fn agent_of(house: &House) -> AgentHandle {
    house.agent().kind("echo").provider_override(echo()).spawn().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_house_runs_on_a_store_without_files_and_another_one_goes_on_there() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let agent = agent_of(&house).await;
    let session = agent.session_id();
    assert_eq!(ask(&agent, "one").await.unwrap(), "heard: one");
    assert_eq!(house.services().journals.reader.path(&session), None);
    assert!(store.asked("append_all") > 0);
    house.shutdown(Default::default()).await;
    let house = house_on(&store).await;
    assert_eq!(house.sessions().await.unwrap().len(), 1);
    let agent = soon("the session", house.resume(&session)).await.unwrap();
    assert_eq!(ask(&agent, "two").await.unwrap(), "heard: two");
    let heard = lines(healthy(&agent).await.messages.as_slice());
    assert_eq!(heard.len(), 4, "{heard:?}");
    house.dismiss(agent.id()).await;
    house.remove_session(&session).await.unwrap();
    assert_eq!(house.session(&session).await.unwrap_err(), StoreError::Unknown { session });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_observes_the_commits_hears_of_each_session_and_holds_nobody_up() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let (mut commits, asleep) = (house.commits(), house.commits());
    let agents = [agent_of(&house).await, agent_of(&house).await];
    for agent in &agents {
        ask(agent, "one").await.unwrap();
    }
    let mut left: HashSet<SessionId> = agents.iter().map(AgentHandle::session_id).collect();
    while !left.is_empty() {
        let Committed::In(sessions) = soon("commits", commits.next()).await else { panic!("there were few") };
        for session in sessions {
            left.remove(&session);
            // What it hears of is there.
            assert!(!store.bodies(&session).is_empty());
        }
    }
    drop(asleep);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durability_that_the_store_cannot_keep_is_an_error_at_spawn() {
    let house = House::in_memory().await.unwrap();
    let spawned = |durability| house.agent().provider_override(echo()).durability(durability).spawn();
    for asked in [Durability::Flush, Durability::Os] {
        let error = spawned(asked).await.unwrap_err();
        assert!(
            matches!(error, SpawnError::Durability { asked: told, strongest: Durability::None } if told == asked),
            "{error}"
        );
    }
    assert!(house.agents().is_empty() && house.services().sessions.is_empty());
    spawned(Durability::None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durability_that_the_store_cannot_keep_is_refused_when_an_agent_is_configured() {
    let configured = async |agent: &AgentHandle, durability| {
        let mut settings = healthy(agent).await.settings;
        settings.durability = durability;
        soon("the settings", agent.configure(settings)).await.map_err(|error| error.to_string())
    };
    let none = async |house: &House| {
        house.agent().provider_override(echo()).durability(Durability::None).spawn().await.unwrap()
    };
    let store = Arc::new(Remote::default());
    // Neither a house in memory nor a session in memory becomes safe by a setting.
    for house in [House::in_memory().await.unwrap(), house_on(&store).await] {
        let agent = none(&house).await;
        ask(&agent, "one").await.unwrap();
        for (asked, word) in [(Durability::Flush, "flush"), (Durability::Os, "os")] {
            let error = configured(&agent, asked).await.unwrap_err();
            assert!(error.contains(&format!("durability `{word}`")) && error.contains("keeps `none`"), "{error}");
        }
        assert_eq!(healthy(&agent).await.settings.durability, Durability::None);
        assert_eq!(ask(&agent, "two").await.unwrap(), "heard: two");
    }
    // What has a journal in the store may be less safe, and safe again; what has none yet begins as it is told.
    let house = house_on(&store).await;
    let (stored, new) = (agent_of(&house).await, none(&house).await);
    ask(&stored, "one").await.unwrap();
    for durability in [Durability::None, Durability::Os, Durability::Flush] {
        configured(&stored, durability).await.unwrap();
        ask(&stored, "more").await.unwrap();
    }
    configured(&new, Durability::Flush).await.unwrap();
    ask(&new, "one").await.unwrap();
    for agent in [stored, new] {
        assert!(!store.bodies(&agent.session_id()).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f33_the_input_that_finds_a_session_taken_over_is_told_so() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let agent = agent_of(&house).await;
    ask(&agent, "one").await.unwrap();
    store.switch(Condition::Fenced);
    let error = ask(&agent, "two").await.unwrap_err();
    assert!(matches!(&error, HandleError::Input(InputError::TakenOver(who)) if who.contains("pid 4711")), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_store_does_not_answer_is_sent_again() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let agent = agent_of(&house).await;
    ask(&agent, "one").await.unwrap();
    store.switch(Condition::Silent);
    let rounds = store.asked("append_all");
    let waiter = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("two").await }
    });
    until("it was asked twice", || store.asked("append_all") >= rounds + 2).await;
    store.switch(Condition::Well);
    assert_eq!(soon("an answer", waiter).await.unwrap().unwrap().text(), "heard: two");
    // Once each.
    store.bodies(&agent.session_id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_miscounts_is_not_believed() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let agent = agent_of(&house).await;
    ask(&agent, "one").await.unwrap();
    store.switch(Condition::Miscounting);
    let error = ask(&agent, "two").await.unwrap_err();
    assert!(
        matches!(&error, HandleError::Input(InputError::OutcomeUnknown { reason, .. }) if reason.contains("it numbered")),
        "{error:?}"
    );
    store.switch(Condition::Well);
    // It was kept, so its run goes on.
    let going = agent.steer("three").await;
    assert!(going.is_ok(), "{going:?}");
    soon("the end of its run", agent.at_rest()).await.unwrap();
    let said = lines(healthy(&agent).await.messages.as_slice());
    assert!(["one", "two", "three"].iter().all(|text| said.contains(&format!("user: {text}"))), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_in_memory_asks_nothing_of_the_store() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    store.switch(Condition::Broken);
    let agent = house.agent().provider_override(echo()).durability(Durability::None).spawn().await.unwrap();
    assert_eq!(ask(&agent, "one").await.unwrap(), "heard: one");
    assert_eq!(ask(&agent, "two").await.unwrap(), "heard: two");
    assert_eq!((store.asked("load"), store.asked("append")), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f33_an_agent_that_comes_back_to_a_session_which_someone_else_has_leaves_it() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let agent = agent_of(&house).await;
    let session = agent.session_id();
    ask(&agent, "one").await.unwrap();
    store.switch(Condition::Fenced);
    house.crash(agent.id()).await.unwrap();
    until("the agent has left", || house.get(agent.id()).is_none()).await;
    until("its session is free", || house.services().sessions.is_empty()).await;
    // Nor does one stay that is asked for while someone else has its session: it says who that is.
    let again = soon("the session", house.resume(&session)).await.unwrap();
    let error = ask(&again, "two").await.unwrap_err().to_string();
    assert!(error.contains("pid 4711"), "{error}");
    until("the agent has left again", || house.get(again.id()).is_none()).await;
    until("its session is free again", || house.services().sessions.is_empty()).await;
    let loads = store.asked("load");
    store.switch(Condition::Well);
    assert!(!store.bodies(&session).iter().any(|body| matches!(body, EntryBody::Parked { .. })));
    assert_eq!(store.asked("load"), loads, "nobody goes on unasked");
    let agent = soon("the session", house.resume(&session)).await.unwrap();
    assert_eq!(ask(&agent, "three").await.unwrap(), "heard: three");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f33_a_sub_agent_whose_session_someone_else_has_takes_its_parents_along() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let gate = Gate::closed();
    let with = |model: Arc<FnModel>| Definition { provider_override: Some(model), ..Definition::default() };
    let lowest = SubAgentTool::new("lowest").with_definition(with(Arc::new(echo().behind(&gate))));
    let calls = |tool: &'static str| {
        FnModel::new(move |config| match config.messages.as_slice().len() {
            1 => Step::text("").tool_call(tool, json!({"task": "help"})),
            _ => Step::text("helped"),
        })
    };
    let middle = Definition { sub_agents: vec![lowest.into()], ..with(Arc::new(calls("lowest"))) };
    let middle = SubAgentTool::new("middle").with_definition(middle);
    let agent = house.agent().kind("echo").provider_override(calls("middle")).sub_agent(middle).spawn().await.unwrap();
    let mut events = agent.subscribe_tree();
    let waiter = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("one").await }
    });
    soon("the model of the lowest", gate.reached(1)).await;
    let mut children = Vec::new();
    while let Some(event) = events.try_next() {
        if let AgentEvent::SubAgentStart { child_session_id, .. } = &event.event {
            children.push(child_session_id.clone());
        }
    }
    let [middle, lowest] = children.as_slice() else { panic!("{children:?}") };
    *store.only.lock().unwrap() = Some(lowest.clone());
    store.switch(Condition::Fenced);
    gate.open();
    let error = soon("the end of the run", waiter).await.unwrap().unwrap_err();
    let HandleError::Input(InputError::TakenOver(who)) = &error else { panic!("{error:?}") };
    assert!(who.contains("pid 4711, node elsewhere"), "{who}");
    until("the tree has left", || house.get(agent.id()).is_none() && house.services().sessions.is_empty()).await;
    // Whoever has the lowest works for the others: they say neither that it failed nor that they are parked.
    for session in [&agent.session_id(), middle] {
        let over = |body: &EntryBody| matches!(body, EntryBody::ToolEnded { .. } | EntryBody::Parked { .. });
        assert!(!store.bodies(session).iter().any(over), "{session}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f33_an_agent_whose_session_someone_else_has_leaves_it_and_does_not_take_it_back() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let gate = Gate::closed();
    let model = echo().behind(&gate);
    let agent = house.agent().kind("echo").provider_override(model).spawn().await.unwrap();
    let session = agent.session_id();
    let mut events = agent.subscribe();
    let waiter = tokio::spawn({
        let agent = agent.clone();
        async move { agent.prompt("one").await }
    });
    soon("the model", gate.reached(1)).await;
    // Its response is the next thing to be written.
    store.switch(Condition::Fenced);
    gate.open();
    let error = soon("the end of the run", waiter).await.unwrap().unwrap_err();
    let HandleError::Input(InputError::TakenOver(who)) = &error else { panic!("{error:?}") };
    assert!(who.contains("taken over by another process (pid 4711, node elsewhere)"), "{who}");
    while soon("the end of its events", events.next()).await.is_some() {}
    until("the agent has left", || house.get(agent.id()).is_none()).await;
    until("its session is free", || house.services().sessions.is_empty()).await;
    // It says why, also when it is gone.
    assert!(matches!(agent.prompt("two").await, Err(HandleError::Input(InputError::TakenOver(_)))));
    let loads = store.asked("load");
    // The other one is gone: nobody here goes on unasked, and the journal does not say that it is parked.
    store.switch(Condition::Well);
    assert!(!store.bodies(&session).iter().any(|body| matches!(body, EntryBody::Parked { .. })));
    assert_eq!(store.asked("load"), loads);
    // A person may resume it.
    let agent = soon("the session", house.resume(&session)).await.unwrap();
    soon("its run", agent.at_rest()).await.unwrap();
    assert_eq!(lines(healthy(&agent).await.messages.as_slice()).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_store_is_away_for_is_sent_again_until_it_is_back() {
    for condition in [Condition::Away, Condition::Deaf] {
        let store = Arc::new(Remote::default());
        let house = house_on(&store).await;
        let (agent, other) = (agent_of(&house).await, agent_of(&house).await);
        assert_eq!(ask(&agent, "one").await.unwrap(), "heard: one");
        let passing = house.agent().provider_override(echo()).durability(Durability::None).spawn().await.unwrap();
        ask(&passing, "zero").await.unwrap();
        store.switch(condition);
        // One that rests is taken up first.
        let tries = || store.asked("append") + store.asked("load");
        let before = tries();
        let waiting = tokio::spawn({
            let (agent, other) = (agent.clone(), other.clone());
            async move { tokio::join!(ask(&agent, "two"), ask(&other, "three")) }
        });
        until("it was tried again", || tries() >= before + 6).await;
        assert!(!waiting.is_finished());
        // One whose session is in memory does not wait for it.
        assert_eq!(ask(&passing, "four").await.unwrap(), "heard: four");
        store.switch(Condition::Well);
        let (two, three) = soon("answers", waiting).await.unwrap();
        assert_eq!((two.unwrap(), three.unwrap()), ("heard: two".to_owned(), "heard: three".to_owned()));
        for agent in [&agent, &other] {
            healthy(agent).await;
            store.bodies(&agent.session_id());
        }
        soon("the end", house.shutdown(Default::default())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_taken_up_when_the_store_is_back() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let agent = agent_of(&house).await;
    let session = agent.session_id();
    ask(&agent, "one").await.unwrap();
    store.switch(Condition::Away);
    let loads = store.asked("load");
    house.crash(agent.id()).await.unwrap();
    let answer = tokio::spawn(async move { ask(&agent, "two").await });
    until("it was tried again", || store.asked("load") >= loads + 3).await;
    store.switch(Condition::Well);
    assert_eq!(soon("an answer", answer).await.unwrap().unwrap(), "heard: two");
    store.bodies(&session);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_store_fails_parks_and_goes_on_when_it_is_told_something() {
    let store = Arc::new(Remote::default());
    let house = house_on(&store).await;
    let agent = agent_of(&house).await;
    ask(&agent, "one").await.unwrap();
    store.switch(Condition::Broken);
    let error = ask(&agent, "two").await.unwrap_err();
    let HandleError::Input(InputError::NotJournaled(reason)) = &error else { panic!("{error:?}") };
    assert!(reason.contains("journals.example: could not append: out of order"), "{reason}");
    assert!(matches!(agent.state().await, Err(HandleError::Input(InputError::Parked(_)))));
    assert!(house.get(agent.id()).is_some());
    store.switch(Condition::Well);
    assert_eq!(ask(&agent, "three").await.unwrap(), "heard: three");
    assert!(!lines(healthy(&agent).await.messages.as_slice()).iter().any(|line| line.contains("two")));
}
