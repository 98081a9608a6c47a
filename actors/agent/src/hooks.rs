//! The users' code that a run consults: hooks, input filters, the one who answers questions.
//!
//! All of it is async and may take its time: it runs in tasks of its own, never in a handler. Every hook has a
//! deadline and is cancelled by an abort. A hook that panics or does not answer says no.
//!
//! A hook is code, or a command outside that is told of an event in JSON; code is asked first.

pub(crate) mod answer;
pub(crate) mod commands;
mod in_turn;
pub(crate) mod matcher;
pub(crate) mod policy;
pub(crate) mod process;
mod run;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use playhouse_protocol::{AgentMessage, History, PermissionDecision, PermissionId, Question, ToolCallId, Usage};
use serde_json::Value;

use crate::machine::{FilterVerdict, HookPoint, HookSet, RunReport, SessionSource, SlowHooks};
use commands::{CommandHook, Commands, HookEvent};
pub(crate) use in_turn::Answering;
pub use in_turn::{InTurn, Turns};

/// What a hook says of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The call goes on as it is.
    Allow,
    /// Don't, and this is why.
    Deny(String),
    /// Go on after a yes to this.
    Ask(String),
    /// Go on with these arguments. The call is looked over again with them: schema, permission.
    Amend(Value),
}

/// What a hook says of a run that would stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It stops.
    Stop,
    /// It goes on with this as a user's message; at most 8 times in a row.
    GoOn(String),
}

type Hook<A, R> = Arc<dyn Fn(A) -> BoxFuture<'static, R> + Send + Sync>;

/// What [`Hooks::before_tool_execution`] is told.
#[derive(Clone, Debug)]
pub struct ToolCallInfo {
    /// The tool's name, as the model called it.
    pub name: String,
    /// The call's id, the same in every hook and event that tells of it.
    pub call: ToolCallId,
    /// Its arguments, as the model gave them.
    pub args: Arc<Value>,
}

/// What [`Hooks::after_tool_execution`] is told.
#[derive(Clone, Debug)]
pub struct ToolResultInfo {
    /// The tool's name, as the model called it.
    pub name: String,
    /// The call's id, the same in every hook and event that tells of it.
    pub call: ToolCallId,
    /// The arguments it ran with.
    pub args: Arc<Value>,
    /// Its result, as the model gets it.
    pub result: Arc<AgentMessage>,
    /// Whether the model is told that it failed.
    pub is_error: bool,
}

/// What [`Hooks::before_stop`] is told.
#[derive(Clone, Debug)]
pub struct StopInfo {
    /// The conversation up to here.
    pub history: History,
    /// How often in a row the run was not let stop.
    pub refusals: u32,
}

/// What the hooks around a partial result are told.
#[derive(Clone, Debug)]
pub struct ToolUpdateInfo {
    /// The tool's name, as the model called it.
    pub name: String,
    /// The call's id, the same in every hook and event that tells of it.
    pub call: ToolCallId,
    /// The text so far.
    pub text: String,
}

/// Points where users' code is consulted. Each may be set once; setting it again replaces it.
#[derive(Clone, Default)]
pub struct Hooks {
    before_loop: Option<Hook<(History, u32), bool>>,
    after_loop: Option<Hook<Arc<RunReport>, ()>>,
    before_turn: Option<Hook<(History, u32), bool>>,
    after_turn: Option<Hook<(History, Usage), ()>>,
    before_tool_execution: Option<Hook<ToolCallInfo, Decision>>,
    after_tool_execution: Option<Hook<ToolResultInfo, ()>>,
    before_tool_execution_update: Option<Hook<ToolUpdateInfo, bool>>,
    after_tool_execution_update: Option<Hook<ToolUpdateInfo, ()>>,
    on_error: Option<Hook<String, ()>>,
    before_stop: Option<Hook<StopInfo, Ending>>,
    session_start: Option<Hook<SessionSource, Option<String>>>,
    filters: Vec<Arc<dyn InputFilter>>,
    commands: Commands,
}

/// Looks at what users say before a model sees it.
#[async_trait::async_trait]
pub trait InputFilter: Send + Sync {
    /// What to do with an input.
    async fn filter(&self, messages: &[Arc<AgentMessage>]) -> FilterVerdict;
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $args:ty => $result:ty;)*) => {
        impl Hooks {
            $(
                $(#[$doc])*
                pub fn $name<F, W>(mut self, hook: F) -> Self
                where
                    F: Fn($args) -> W + Send + Sync + 'static,
                    W: Future<Output = $result> + Send + 'static,
                {
                    self.$name = Some(Arc::new(move |args| Box::pin(hook(args))));
                    self
                }
            )*
        }
    };
}

setters! {
    /// Before a run: the conversation with its prompt, and how many runs came before. `false` ends it before it starts.
    before_loop: (History, u32) => bool;
    /// After a run, however it ended.
    after_loop: Arc<RunReport> => ();
    /// Before a turn: the conversation and the turn's number. `false` ends the run.
    before_turn: (History, u32) => bool;
    /// After a turn: the conversation and what the turn's call consumed.
    after_turn: (History, Usage) => ();
    /// Before a tool runs. A denial is the call's error result.
    before_tool_execution: ToolCallInfo => Decision;
    /// After a tool ran.
    after_tool_execution: ToolResultInfo => ();
    /// Before a partial result is shown. `false` suppresses that event and nothing else.
    before_tool_execution_update: ToolUpdateInfo => bool;
    /// After a partial result was shown.
    after_tool_execution_update: ToolUpdateInfo => ();
    /// When the provider failed for good.
    on_error: String => ();
    /// When a run would stop because the model is done. A crash of this hook ends the run as halted.
    before_stop: StopInfo => Ending;
    /// Before the first prompt of a session, new or folded from its journal: what is added to that prompt.
    session_start: SessionSource => Option<String>;
}

impl Hooks {
    /// No hooks: nobody is consulted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input filter; filters are asked in order, and the first that rejects is the last that is asked.
    pub fn input_filter(mut self, filter: impl InputFilter + 'static) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    /// Adds a command outside that is told of an event and may answer; see `docs/hooks.md`. Commands of one event run
    /// side by side, after the code, and the strictest answer counts. Sub-agents' tools pass through them as well.
    pub fn command(mut self, event: HookEvent, hook: CommandHook) -> Self {
        self.commands.push(event, hook);
        self
    }

    /// What a sub-agent has: its own hooks, and the commands of its parent. Never less.
    pub(crate) fn beneath(mut self, parent: &Self) -> Self {
        self.commands = self.commands.beneath(&parent.commands);
        self
    }

    /// The points that are set.
    pub fn set(&self) -> HookSet {
        let commands = &self.commands;
        let points = [
            (HookPoint::BeforeLoop, self.before_loop.is_some()),
            (HookPoint::AfterLoop, self.after_loop.is_some()),
            (HookPoint::BeforeTurn, self.before_turn.is_some()),
            (HookPoint::AfterTurn, self.after_turn.is_some()),
            (HookPoint::BeforeTool, self.before_tool_execution.is_some() || commands.has(HookPoint::BeforeTool)),
            (HookPoint::AfterTool, self.after_tool_execution.is_some() || commands.has(HookPoint::AfterTool)),
            (HookPoint::BeforeUpdate, self.before_tool_execution_update.is_some()),
            (HookPoint::AfterUpdate, self.after_tool_execution_update.is_some()),
            (HookPoint::OnError, self.on_error.is_some()),
            (HookPoint::Filter, !self.filters.is_empty() || commands.has(HookPoint::Filter)),
            (HookPoint::Stop, self.before_stop.is_some() || commands.has(HookPoint::Stop)),
            (HookPoint::SessionStart, self.session_start.is_some() || commands.has(HookPoint::SessionStart)),
        ];
        points.into_iter().filter(|(_, set)| *set).fold(HookSet::default(), |all, (point, _)| all.with(point))
    }

    /// The points that commands have a say in: they may take as long as code, and then as long as commands.
    pub(crate) fn slow(&self) -> SlowHooks {
        self.commands.slow()
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("set", &self.set()).finish()
    }
}

/// A question for permission.
#[derive(Clone, Debug)]
pub struct PermissionRequest {
    /// Its id, for an answer.
    pub permission_id: PermissionId,
    /// The call that waits for the answer.
    pub tool_call_id: ToolCallId,
    /// The tool's name, as the model called it.
    pub tool_name: String,
    /// The arguments it would run with.
    pub args: Arc<Value>,
    /// What is asked, and for how long a yes can hold.
    pub question: Question,
}

/// Who answers questions for permission.
#[derive(Clone, Default)]
pub enum Approvals {
    /// Nobody: what needs a yes is denied at once.
    #[default]
    Nobody,
    /// Whoever watches the events and answers through the agent's handle.
    Watcher,
    /// Whoever looks into the house's inbox, or answers through the agent's handle; a question waits as long as it takes,
    /// and is asked again after a restart.
    Inbox,
    /// This code. No answer within 120 s is a no.
    Code(Answering),
    /// This code, one question after the other. No answer within 120 s of a question's turn is a no.
    InTurn(InTurn),
}

impl Approvals {
    /// Has each question answered by this code, several at once if they come so.
    pub fn code<F, W>(answer: F) -> Self
    where
        F: Fn(PermissionRequest) -> W + Send + Sync + 'static,
        W: Future<Output = PermissionDecision> + Send + 'static,
    {
        Self::Code(Arc::new(move |request| Box::pin(answer(request))))
    }

    /// Code that answers one question after the other, for all agents that share these turns: a question waits for its
    /// turn without losing time.
    pub fn in_turn<F, W>(turns: &Turns, answer: F) -> Self
    where
        F: Fn(PermissionRequest) -> W + Send + Sync + 'static,
        W: Future<Output = PermissionDecision> + Send + 'static,
    {
        Self::InTurn(InTurn::new(turns, Arc::new(move |request| Box::pin(answer(request)))))
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Watcher => "Watcher",
            Self::Inbox => "Inbox",
            Self::Code(_) => "Code",
            Self::InTurn(_) => "InTurn",
        })
    }
}
