//! What an incarnation holds only while something is under way. An agent at rest has none of it: there may be very
//! many of them.

use std::collections::HashMap;
use std::sync::Arc;

use playhouse_protocol::{CallId, InputId, ModelConfig, PermissionId, SessionId, StreamConfig, ToolCallId};
use playhouse_provider::ConnectionMsg;
use playhouse_session::WriterMsg;
use playhouse_supervision::{Permit, Task, TreeNode};
use playhouse_tools::ExecutorMsg;
use ractor::ActorRef;

use super::children::Child;
use super::watch::Watched;
use crate::approvals::{Filed, OpenQuestion};
use crate::machine::{Doing, HookId, Timer};
use crate::mailbox::{Reply, Waiter};

/// A question that waits, with whoever was asked.
pub(super) enum Asked {
    /// Code that the user brought: the task in which it answers.
    Code { _task: Task },
    /// The house's inbox, which forgets the question when this is dropped.
    Inbox { question: OpenQuestion, _filed: Filed },
}

/// What is under way.
#[derive(Default)]
pub(super) struct Work {
    /// The writers it works with, by address: one, and a second during a change of session.
    pub writers: Vec<(Arc<str>, Watched<WriterMsg>)>,
    /// The connection to the model that it asks, and that model.
    pub connection: Option<(Arc<ModelConfig>, Watched<ConnectionMsg>)>,
    /// Searches for writers, by address.
    pub writer_searches: Vec<(Arc<str>, Task)>,
    pub connection_search: Option<Task>,
    /// A call that waits for a connection.
    pub unsent: Option<(CallId, Box<StreamConfig>)>,
    /// The call that is under way, and its place in the live tree.
    pub call_node: Option<(CallId, TreeNode)>,
    pub executor: Option<(ActorRef<ExecutorMsg>, TreeNode)>,
    pub running: HashMap<ToolCallId, TreeNode>,
    pub children: HashMap<ToolCallId, Child>,
    /// Sessions in memory of sub-agents that are over: kept until the run is, in case its end must be read again.
    pub spent: Vec<SessionId>,
    /// Sub-agents that an earlier incarnation had started and this one has not taken up.
    pub orphans: Vec<SessionId>,
    /// Those of them that someone wants to go on.
    pub asked: Vec<SessionId>,
    pub hooks: HashMap<HookId, Task>,
    pub questions: HashMap<PermissionId, Asked>,
    pub timers: HashMap<Timer, Task>,
    pub replies: HashMap<InputId, Vec<(Reply, Permit)>>,
    pub waiters: HashMap<InputId, Vec<Waiter>>,
    /// What a sub-agent last told its parent that it does.
    pub told: Option<Doing>,
    /// Those who wait until nothing is under way.
    pub resting: Vec<Reply>,
}

impl Work {
    /// Whether nothing is. Whom it works with is looked up again when there is work, and is not monitored till then: a
    /// writer that dies is no news to an agent at rest.
    pub fn is_done(&self) -> bool {
        let Self {
            writers: _,
            connection: _,
            writer_searches,
            connection_search,
            unsent,
            call_node,
            executor,
            running,
            children,
            spent,
            orphans,
            asked: _,
            told: _,
            hooks,
            questions,
            timers,
            replies,
            waiters,
            resting,
        } = self;
        let actors = executor.is_none() && running.is_empty() && children.is_empty();
        let call = unsent.is_none() && call_node.is_none() && connection_search.is_none();
        let tasks = writer_searches.is_empty() && hooks.is_empty() && questions.is_empty() && timers.is_empty();
        let others = replies.is_empty() && waiters.is_empty() && resting.is_empty();
        let children = spent.is_empty() && orphans.is_empty();
        actors && call && tasks && others && children
    }
}
