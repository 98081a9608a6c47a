//! What one incarnation of an agent holds.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use playhouse_protocol::{CallId, InputId, PermissionId, SessionId, StreamConfig, ToolCallId};
use playhouse_provider::ConnectionMsg;
use playhouse_session::WriterMsg;
use playhouse_supervision::{NodeState, Permit, TreeNode};
use playhouse_tools::ExecutorMsg;
use ractor::ActorRef;

use super::children::Child;
use super::life::Life;
use super::msg::{AgentMsg, Reply, Waiter};
use crate::machine::{HookId, InputError, Machine, RunReport, Timer};
use crate::task::Task;

/// How many ended runs an agent remembers for those who ask late.
const REMEMBERED: usize = 16;

/// Where an incarnation stands.
pub(super) enum Stage {
    /// The journal is being folded; what arrives meanwhile is held, bounded by its permits.
    Recovering { held: Vec<AgentMsg>, _work: Option<Task> },
    /// At work, or idle.
    Live(Box<Machine>),
    /// The journal cannot be read or written, or something it needs is missing.
    Parked { reason: String },
}

/// What one incarnation holds.
pub struct State {
    pub(super) myself: ActorRef<AgentMsg>,
    pub(super) life: Arc<Life>,
    pub(super) stage: Stage,
    /// The writers it works with, by address: one, and a second during a change of session.
    pub(super) writers: Vec<(String, ActorRef<WriterMsg>)>,
    pub(super) writer_searches: Vec<(String, Task)>,
    pub(super) connection: Option<ActorRef<ConnectionMsg>>,
    pub(super) connection_search: Option<Task>,
    /// A call that waits for a connection.
    pub(super) unsent: Option<(CallId, Box<StreamConfig>)>,
    /// The call that is under way, and its place in the live tree.
    pub(super) call_node: Option<(CallId, TreeNode)>,
    pub(super) executor: Option<(ActorRef<ExecutorMsg>, TreeNode)>,
    pub(super) running: HashMap<ToolCallId, TreeNode>,
    pub(super) children: HashMap<ToolCallId, Child>,
    /// Sessions in memory of sub-agents that are over: kept until the run is, in case its end must be read again.
    pub(super) spent: Vec<SessionId>,
    /// Sub-agents that an earlier incarnation had started and this one has not taken up.
    pub(super) orphans: Vec<SessionId>,
    pub(super) hooks: HashMap<HookId, Task>,
    pub(super) questions: HashMap<PermissionId, Task>,
    pub(super) timers: HashMap<Timer, Task>,
    pub(super) replies: HashMap<InputId, Vec<(Reply, Permit)>>,
    pub(super) waiters: HashMap<InputId, Vec<Waiter>>,
    pub(super) ended: VecDeque<Arc<RunReport>>,
    /// What the live tree shows of it.
    shown: Option<NodeState>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("life", &self.life).finish_non_exhaustive()
    }
}

impl State {
    pub(super) fn new(myself: ActorRef<AgentMsg>, life: Arc<Life>) -> Self {
        Self {
            myself,
            life,
            stage: Stage::Recovering { held: Vec::new(), _work: None },
            writers: Vec::new(),
            writer_searches: Vec::new(),
            connection: None,
            connection_search: None,
            unsent: None,
            call_node: None,
            executor: None,
            running: HashMap::new(),
            children: HashMap::new(),
            spent: Vec::new(),
            orphans: Vec::new(),
            hooks: HashMap::new(),
            questions: HashMap::new(),
            timers: HashMap::new(),
            replies: HashMap::new(),
            waiters: HashMap::new(),
            ended: VecDeque::new(),
            shown: None,
        }
    }

    /// Comes to life: at once for an agent that is new, after folding its journal for another.
    pub(super) fn begin(&mut self) {
        self.life.show_queue();
        if self.life.is_fresh() {
            let mut opened = self.life.opened.clone();
            let setup = self.life.setup(Arc::new(opened.settings.model.clone()));
            opened.settings.model.api_key = None;
            self.life.take_reason();
            self.stage = Stage::Live(Box::new(Machine::new(opened, setup)));
            self.show();
        } else {
            let reason = self.life.take_reason();
            self.recover(reason);
        }
    }

    pub(super) fn hold(&mut self, msg: AgentMsg) {
        if let Stage::Recovering { held, .. } = &mut self.stage {
            held.push(msg);
        }
    }

    /// Shows in the live tree what the agent is doing.
    pub(super) fn show(&mut self) {
        let state = match &self.stage {
            Stage::Recovering { .. } => NodeState::Starting,
            Stage::Live(machine) if machine.is_running() => NodeState::Running,
            Stage::Live(_) => NodeState::Idle,
            Stage::Parked { reason } => NodeState::Parked { reason: reason.clone() },
        };
        if self.shown.as_ref() != Some(&state) {
            self.life.backstage.tree.set_state(&self.life.address(), state.clone());
            self.shown = Some(state);
        }
    }

    pub(super) fn await_run(&mut self, input_id: InputId, reply: Waiter) {
        let ended = self.ended.iter().find(|report| report.input_id == input_id);
        match (ended, &self.stage) {
            // Whoever asked may be gone.
            (Some(report), _) => drop(reply.send(Ok(report.clone()))),
            (None, Stage::Parked { reason }) => drop(reply.send(Err(InputError::Parked(reason.clone())))),
            (None, Stage::Live(_) | Stage::Recovering { .. }) => {
                let waiting = self.waiters.entry(input_id).or_default();
                waiting.retain(|reply| !reply.is_closed());
                waiting.push(reply);
            }
        }
    }

    pub(super) fn run_ended(&mut self, report: Arc<RunReport>) {
        for reply in self.waiters.remove(&report.input_id).unwrap_or_default() {
            let _ = reply.send(Ok(report.clone()));
        }
        self.ended.push_back(report);
        if self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
    }
}
