//! Children that come and go under a supervisor which may itself be restarted.
//!
//! A [`Supervisor`] that crashes comes back with the children it was made with. The roster keeps the specs of those
//! that were added later and hands all of them to each new incarnation, so that a supervisor's crash costs its children
//! a restart, not their existence.

use std::sync::Arc;

use dashmap::DashMap;
use ractor::Actor;

use crate::child::{ChildSpec, Shutdown, start_fn};
use crate::directory::Directory;
use crate::restart::{RestartBudget, RestartPolicy};
use crate::supervisor::{NoticeFn, ShutdownOrder, Supervisor, SupervisorArgs, SupervisorError, SupervisorMsg};
use crate::tree::Tree;

/// A supervisor by its id, and the children it has.
#[derive(Clone, Debug)]
pub struct Roster {
    id: Arc<str>,
    supervisors: Directory<SupervisorMsg>,
    specs: Arc<DashMap<Arc<str>, Arc<ChildSpec>>>,
}

impl Roster {
    /// The roster of the supervisor with this id, to be started with [`Roster::spec`].
    pub fn new(id: &str, supervisors: Directory<SupervisorMsg>) -> Self {
        supervisors.expect(id);
        Self { id: id.into(), supervisors, specs: Arc::default() }
    }

    /// The supervisor as a child of another.
    pub fn spec(&self, tree: Tree, notice: Option<NoticeFn>, shutdown: Shutdown) -> ChildSpec {
        let roster = self.clone();
        ChildSpec {
            id: self.id.clone(),
            kind: "supervisor",
            restart: RestartPolicy::Permanent,
            budget: RestartBudget::default(),
            shutdown,
            start: start_fn(move |above| {
                let roster = roster.clone();
                let mut args = SupervisorArgs::new(roster.id.clone(), tree.clone());
                args.notice = notice.clone();
                args.shutdown_order = ShutdownOrder::Together;
                args.children = roster.specs.iter().map(|spec| spec.value().clone()).collect();
                async move {
                    let started = Actor::spawn_linked(None, Supervisor, args, above).await;
                    let (actor, _) = started.map_err(|error| error.to_string())?;
                    roster.supervisors.publish(roster.id.clone(), actor.clone());
                    Ok(actor.get_cell())
                }
            }),
        }
    }

    /// Puts a child on the roster that the supervisor starts with.
    pub fn enlist(&self, spec: ChildSpec) {
        self.specs.insert(spec.id.clone(), Arc::new(spec));
    }

    /// Starts a child; it stays on the roster until [`Roster::remove`].
    pub async fn add(&self, spec: ChildSpec) -> Result<(), SupervisorError> {
        let (id, spec) = (spec.id.clone(), Arc::new(spec));
        self.specs.insert(id.clone(), spec.clone());
        let mut not = None;
        loop {
            let Ok(supervisor) = self.supervisors.live(&self.id, not).await else {
                self.specs.remove(&id);
                return Err(SupervisorError::Unknown { id: self.id.to_string() });
            };
            match Supervisor::start(&supervisor, spec.clone()).await {
                // A supervisor that was restarted in between has read the roster.
                Ok(_) | Err(SupervisorError::AlreadyThere { .. }) => return Ok(()),
                // It died before it answered; its status may not say so yet.
                Err(SupervisorError::Gone) => not = Some(supervisor.get_id()),
                Err(error) => {
                    self.specs.remove(&id);
                    return Err(error);
                }
            }
        }
    }

    /// Ends a child for good.
    pub async fn remove(&self, id: &str) {
        self.specs.remove(id);
        let mut not = None;
        while let Ok(supervisor) = self.supervisors.live(&self.id, not).await {
            match Supervisor::stop(&supervisor, id).await {
                Err(SupervisorError::Gone) => not = Some(supervisor.get_id()),
                Ok(()) | Err(_) => return,
            }
        }
    }

    /// Starts a parked child again.
    pub async fn resume(&self, id: &str) -> Result<(), SupervisorError> {
        let supervisor = self.supervisors.live(&self.id, None).await;
        let supervisor = supervisor.map_err(|_| SupervisorError::Unknown { id: self.id.to_string() })?;
        Supervisor::resume(&supervisor, id).await.map(|_| ())
    }

    /// The supervisor is parked: whoever waits for it is told so.
    pub fn park(&self, reason: &str) {
        self.supervisors.park(self.id.clone(), reason);
    }

    /// The supervisor does not come back: whoever waits for it is told so.
    pub fn close(&self) {
        self.supervisors.retire(&self.id);
        self.specs.clear();
    }

    /// Forgets a child that ended by itself.
    pub fn forget(&self, id: &str) {
        self.specs.remove(id);
    }

    /// The id of a child that is on the roster, shared.
    pub fn known(&self, id: &str) -> Option<Arc<str>> {
        self.specs.get(id).map(|spec| spec.key().clone())
    }

    /// Whether a child is on the roster.
    pub fn has(&self, id: &str) -> bool {
        self.specs.contains_key(id)
    }

    /// How many children are on the roster.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether the roster is empty.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }
}
