//! What an agent's incarnations share, and its handles know.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use playhouse_protocol::entry::{Opened, Settings, Wake};
use playhouse_protocol::{AgentId, EventId, ModelConfig, Op, Seq, SessionId, lock};
use playhouse_supervision::{Admission, Busy, Permit};
use ractor::{ActorCell, ActorRef};

use crate::definition::{Definition, Toolbox};
use crate::hooks::Approvals;
use crate::hub::Topic;
use crate::machine::{Approver, Setup};
use crate::mailbox::AgentMsg;
use crate::redaction::clean_opened;
use crate::services::{Lease, Occupant, Services, with_key};

/// How many models' keys an agent remembers.
const KEYED: usize = 16;
/// How many inputs may wait for one agent.
pub const ADMITTED: usize = 64;

/// What an agent's incarnations share: what it is, and where its journal is.
pub struct Identity {
    /// What it shares with the other agents of its house.
    pub services: Arc<Services>,
    /// The id by which everybody knows it.
    pub agent_id: AgentId,
    /// Its place in the live tree.
    pub address: Arc<str>,
    /// Its code: tools, hooks, whoever answers its questions.
    pub definition: Arc<Definition>,
    /// How its journal begins if there is none; without the model's key, so that the journal can share it.
    pub opened: Arc<Opened>,
    /// Who is let in.
    pub admission: Admission,
    /// The same for what ends or answers something: a flood must not keep it out. Made when it is first needed.
    urgent: OnceLock<Admission>,
    /// Where it tells what happens.
    pub topic: Arc<Topic>,
    session: Mutex<SessionId>,
    /// The agent at the top of its tree: itself, or the one whose sub-agent it is at some depth.
    pub root: AgentId,
    models: Mutex<Models>,
    /// Whether its journal cannot exist yet, so that the first incarnation need not look.
    fresh: AtomicBool,
    /// Whether it had an incarnation.
    begun: AtomicBool,
    /// Whether it was dismissed.
    left: AtomicBool,
    /// Whether someone wants the next incarnation to go on, though it was parked.
    asked: AtomicBool,
    /// The incarnation before the one that is being started: it must be gone before the journal is read.
    predecessor: Mutex<Option<ActorCell>>,
    /// What became of its journal, if it cannot go on because of that.
    loss: OnceLock<Box<Loss>>,
}

/// What an agent needs for asking models.
#[derive(Debug)]
struct Models {
    /// Those that the program gave with a key, the latest first.
    keyed: Vec<Arc<ModelConfig>>,
    /// Its share in a connection.
    lease: Option<Lease>,
}

/// Why a journal is lost to its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A record is missing or was changed, so what was done cannot be told.
    Damaged,
    /// Someone else owns the session now; the text says who.
    TakenOver(Box<str>),
}

/// Whether a session may already have a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was just made up.
    New,
    /// It was chosen by the program, and must not have one.
    Named,
    /// It may be in the store.
    Stored,
}

impl Identity {
    /// The life of an agent that begins with `opened`, or with the journal of its session.
    pub fn new(services: Arc<Services>, definition: Arc<Definition>, opened: Opened, origin: Origin) -> Self {
        let topic = services.hub.topic(&opened.agent_id);
        let root = opened.agent_id.clone();
        Self::telling(topic, root, services, definition, opened, origin)
    }

    /// The life of a sub-agent: what it tells, whoever listens to the parent's tree hears as well.
    pub(crate) fn beneath(parent: &Identity, definition: Arc<Definition>, opened: Opened, origin: Origin) -> Self {
        let services = parent.services.clone();
        let topic = services.hub.topic_beneath(&opened.agent_id, &parent.topic);
        Self::telling(topic, parent.root.clone(), services, definition, opened, origin)
    }

    fn telling(
        topic: Arc<Topic>,
        root: AgentId,
        services: Arc<Services>,
        definition: Arc<Definition>,
        mut opened: Opened,
        origin: Origin,
    ) -> Self {
        let models = std::iter::once(&opened.settings.model).chain(&opened.settings.fallbacks);
        let keyed: Vec<_> = models.filter(|model| model.api_key.is_some()).cloned().collect();
        if !keyed.is_empty() {
            keyed.iter().for_each(|model| services.connections.learn_key(model));
            keep_keys_out(Arc::make_mut(&mut opened.settings));
        }
        clean_opened(&services.connections.secrets(), &mut opened);
        Self {
            topic,
            root,
            session: Mutex::new(opened.session_id.clone()),
            models: Mutex::new(Models { keyed, lease: None }),
            agent_id: opened.agent_id.clone(),
            address: address(&opened.agent_id).into(),
            definition,
            opened: Arc::new(opened),
            admission: Admission::new(ADMITTED),
            urgent: OnceLock::new(),
            fresh: AtomicBool::new(origin != Origin::Stored),
            begun: AtomicBool::new(false),
            left: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            predecessor: Mutex::default(),
            loss: OnceLock::new(),
            services,
        }
    }

    /// It is sure to go on stage: callbacks are called from here on, and of a new session nothing was told yet.
    pub fn enter(self: &Arc<Self>) {
        self.services.agents.enter(self);
        if self.fresh.load(Ordering::SeqCst) {
            self.topic.told_up_to(self.session(), EventId::default());
        }
        self.services.hub.call_back(&self.topic, &self.definition.callbacks);
    }

    /// It is off the stage for good, and takes no more sessions.
    pub fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    /// Whether it is nobody's sub-agent.
    pub fn is_root(&self) -> bool {
        self.root == self.agent_id
    }

    /// It does not go on: its journal is lost to it. The first reason counts.
    pub(crate) fn lost(&self, loss: Loss) {
        let _ = self.loss.set(Box::new(loss));
    }

    /// Why it does not go on, if its journal is lost to it.
    pub(crate) fn loss(&self) -> Option<&Loss> {
        self.loss.get().map(Box::as_ref)
    }

    /// Who has its sessions.
    pub fn occupant(&self) -> Occupant {
        match self.is_root() {
            true => Occupant::Agent(self.root.clone()),
            false => Occupant::Beneath(self.root.clone()),
        }
    }

    /// Takes one more session for it, or says why not.
    pub(crate) fn occupy(&self, session: &SessionId) -> Result<(), String> {
        let taken = self.services.sessions.occupy_also(&self.root, session, self.occupant());
        if taken.is_ok() && self.left.load(Ordering::SeqCst) {
            // A recovery that outlived its agent by a moment: nobody would give the session up again.
            self.services.sessions.leave(session, &self.occupant());
            return Err(format!("agent `{}` has left the stage", self.agent_id));
        }
        taken.map_err(|by| match by {
            Occupant::Agent(agent) => format!("session `{session}` belongs to agent `{agent}` of this house: use that"),
            Occupant::Beneath(agent) => {
                format!("session `{session}` belongs to a sub-agent of agent `{agent}` of this house: use that agent")
            }
            Occupant::House => format!("session `{session}` is being removed"),
        })
    }

    /// A place for a command, or the word that none is free.
    pub(crate) fn admit(&self, op: &Op) -> Result<Permit, Busy> {
        match op {
            Op::Abort | Op::Answer { .. } => self.urgent.get_or_init(|| Admission::new(ADMITTED)).try_admit(),
            _ => self.admission.try_admit(),
        }
    }

    /// The session it is in.
    pub fn session(&self) -> SessionId {
        lock(&self.session).clone()
    }

    /// Remembers whom the incarnation that is about to start succeeds. Called before it is published.
    pub(crate) fn succeeds(&self, predecessor: Option<ActorRef<AgentMsg>>) {
        let cell = predecessor.map(|actor| actor.get_cell());
        *lock(&self.predecessor) = cell;
    }

    pub(crate) fn take_predecessor(&self) -> Option<ActorCell> {
        lock(&self.predecessor).take()
    }

    /// It goes on in another session, of which nothing was told yet.
    pub(crate) fn move_to(&self, session: SessionId) {
        self.topic.told_up_to(session.clone(), EventId::default());
        *lock(&self.session) = session;
    }

    /// Takes up a session whose journal was folded up to `last`. What an earlier process journaled is not told again.
    pub(crate) fn take_up(&self, session: SessionId, last: Seq) {
        if self.told(&session).is_none() {
            self.topic.told_up_to(session.clone(), EventId { seq: last, k: u32::MAX });
        }
        *lock(&self.session) = session;
    }

    /// The last event of a session that an incarnation of this agent told here; `None` when none of them was in it.
    pub(crate) fn told(&self, session: &SessionId) -> Option<EventId> {
        self.topic.told().filter(|(told, _)| told == session).map(|(_, id)| id)
    }

    /// Why this incarnation is needed; the next one will be needed because this one died.
    pub(crate) fn take_reason(&self) -> &'static str {
        if self.begun.swap(true, Ordering::SeqCst) { "restarted after a crash" } else { "resumed" }
    }

    /// Someone wants it to go on, though it may be parked: the next incarnation does.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    /// Whether someone asked for this incarnation.
    pub(crate) fn take_wake(&self) -> Wake {
        if self.asked.swap(false, Ordering::SeqCst) { Wake::Asked } else { Wake::Restarted }
    }

    /// Whether this is the first incarnation of a session that cannot have a journal; true once.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.swap(false, Ordering::SeqCst)
    }

    /// Lets the live tree show how many inputs wait.
    pub(crate) fn show_queue(&self) {
        self.services.tree.set_queue(&self.address, self.admission.counter().clone());
    }

    /// Remembers a model with its key, which no journal holds.
    pub(crate) fn learn(&self, model: Arc<ModelConfig>) {
        let keyed = &mut lock(&self.models).keyed;
        let bare = ModelConfig { api_key: None, ..(*model).clone() };
        keyed.retain(|known| ModelConfig { api_key: None, ..(**known).clone() } != bare);
        // Whoever changes models again and again changes back to few.
        keyed.truncate(KEYED);
        keyed.insert(0, model);
    }

    /// The model of the settings, with the key that the program gave for it.
    pub(crate) fn given(&self, settings: &Arc<ModelConfig>) -> Arc<ModelConfig> {
        let mut model = settings.clone();
        if model.api_key.is_none() {
            let keyed = &lock(&self.models).keyed;
            let same = |known: &&Arc<ModelConfig>| ModelConfig { api_key: None, ..(***known).clone() } == *model;
            let alike =
                |known: &&Arc<ModelConfig>| known.provider == model.provider && known.base_url == model.base_url;
            if let Some(known) = keyed.iter().find(same).or_else(|| keyed.iter().find(alike)) {
                Arc::make_mut(&mut model).api_key = known.api_key.clone();
            }
        }
        model
    }

    /// The model to ask: the one of the settings, with the key the program gave, or one from the environment.
    pub(crate) fn model(&self, settings: &Arc<ModelConfig>) -> Arc<ModelConfig> {
        let model = with_key(self.given(settings));
        self.services.connections.learn_key(&model);
        model
    }

    pub(crate) fn lease(&self, lease: Lease) {
        lock(&self.models).lease = Some(lease);
    }

    /// The connection it has a share in.
    pub(crate) fn leased(&self) -> Option<Arc<str>> {
        lock(&self.models).lease.as_ref().map(|lease| lease.id().clone())
    }

    /// Gives up its share in a connection: the agent is gone for good, or asks another model.
    pub fn let_go(&self) {
        lock(&self.models).lease.take();
    }

    /// What the machine works with; `key` gives a model its key.
    pub(crate) fn setup(&self, settings: &Settings, key: impl Fn(&Arc<ModelConfig>) -> Arc<ModelConfig>) -> Setup {
        let toolbox =
            Toolbox::new(&self.definition, self.services.rules.live().clone(), self.services.tools.sandbox.clone());
        let mut setup = Setup::new(Arc::new(toolbox), key(&settings.model));
        setup.fallbacks = settings.fallbacks.iter().map(key).collect();
        setup.hooks = self.definition.points();
        setup.slow_hooks = self.definition.hooks.slow();
        setup.approver = match self.definition.approvals {
            Approvals::Nobody => Approver::Nobody,
            Approvals::Watcher | Approvals::Code(_) => Approver::Present,
            Approvals::InTurn(_) => Approver::InTurn,
            Approvals::Inbox => Approver::Inbox,
        };
        setup
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("agent_id", &self.agent_id)
            .field("session", &self.session())
            .finish_non_exhaustive()
    }
}

/// Takes the keys out of settings: they are for whoever asks, not for the journal.
pub(crate) fn keep_keys_out(settings: &mut Settings) {
    for model in std::iter::once(&mut settings.model).chain(&mut settings.fallbacks) {
        if model.api_key.is_some() {
            Arc::make_mut(model).api_key = None;
        }
    }
}

/// The place of an agent in the live tree.
pub fn address(agent: &AgentId) -> String {
    format!("agent/{agent}")
}
