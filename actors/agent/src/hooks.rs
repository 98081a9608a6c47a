//! The users' code that a run consults: hooks, input filters, the one who answers questions.
//!
//! All of it is async and may take its time: it runs in tasks of its own, never in a handler. Every hook has a
//! deadline and is cancelled by an abort. A hook that panics or does not answer says no.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use playhouse_protocol::{AgentMessage, History, PermissionDecision, PermissionId, ToolCallId, Usage};
use serde_json::Value;

use crate::machine::{FilterVerdict, HookCall, HookPoint, HookSet, RunReport, Verdict};

/// What a hook that may forbid says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Allow,
    /// Don't, and this is why.
    Deny(String),
}

type Hook<A, R> = Arc<dyn Fn(A) -> BoxFuture<'static, R> + Send + Sync>;

/// What [`Hooks::before_tool_execution`] is told.
#[derive(Clone, Debug)]
pub struct ToolCallInfo {
    /// The tool.
    pub name: String,
    /// The call.
    pub call: ToolCallId,
    /// Its arguments.
    pub args: Arc<Value>,
}

/// What the hooks around a partial result are told.
#[derive(Clone, Debug)]
pub struct ToolUpdateInfo {
    /// The tool.
    pub name: String,
    /// The call.
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
    after_tool_execution: Option<Hook<(String, ToolCallId, bool), ()>>,
    before_tool_execution_update: Option<Hook<ToolUpdateInfo, bool>>,
    after_tool_execution_update: Option<Hook<ToolUpdateInfo, ()>>,
    on_error: Option<Hook<String, ()>>,
    filters: Vec<Arc<dyn InputFilter>>,
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
    /// After a run.
    after_loop: Arc<RunReport> => ();
    /// Before a turn: the conversation and the turn's number. `false` ends the run.
    before_turn: (History, u32) => bool;
    /// After a turn: the conversation and the run's usage so far.
    after_turn: (History, Usage) => ();
    /// Before a tool runs. A denial is the call's error result.
    before_tool_execution: ToolCallInfo => Decision;
    /// After a tool ran: its name, the call, whether it failed.
    after_tool_execution: (String, ToolCallId, bool) => ();
    /// Before a partial result is shown. `false` suppresses that event and nothing else.
    before_tool_execution_update: ToolUpdateInfo => bool;
    /// After a partial result was shown.
    after_tool_execution_update: ToolUpdateInfo => ();
    /// When the provider failed for good.
    on_error: String => ();
}

impl Hooks {
    /// No hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input filter; filters are asked in order, and the first that rejects is the last that is asked.
    pub fn input_filter(mut self, filter: impl InputFilter + 'static) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    /// The points that are set.
    pub fn set(&self) -> HookSet {
        let points = [
            (HookPoint::BeforeLoop, self.before_loop.is_some()),
            (HookPoint::AfterLoop, self.after_loop.is_some()),
            (HookPoint::BeforeTurn, self.before_turn.is_some()),
            (HookPoint::AfterTurn, self.after_turn.is_some()),
            (HookPoint::BeforeTool, self.before_tool_execution.is_some()),
            (HookPoint::AfterTool, self.after_tool_execution.is_some()),
            (HookPoint::BeforeUpdate, self.before_tool_execution_update.is_some()),
            (HookPoint::AfterUpdate, self.after_tool_execution_update.is_some()),
            (HookPoint::OnError, self.on_error.is_some()),
            (HookPoint::Filter, !self.filters.is_empty()),
        ];
        points.into_iter().filter(|(_, set)| *set).fold(HookSet::default(), |all, (point, _)| all.with(point))
    }

    /// Runs a hook. The future belongs to a task that the agent can end.
    pub(crate) fn run(&self, call: HookCall) -> BoxFuture<'static, Verdict> {
        match call {
            HookCall::BeforeLoop { history, loop_index } => allowing(&self.before_loop, (history, loop_index)),
            HookCall::AfterLoop { report } => following(&self.after_loop, report),
            HookCall::BeforeTurn { history, turn_index } => allowing(&self.before_turn, (history, turn_index)),
            HookCall::AfterTurn { history, usage } => following(&self.after_turn, (history, usage)),
            HookCall::BeforeTool { name, call, args } => {
                deciding(&self.before_tool_execution, ToolCallInfo { name, call, args })
            }
            HookCall::AfterTool { name, call, is_error } => {
                following(&self.after_tool_execution, (name, call, is_error))
            }
            HookCall::BeforeUpdate { name, call, text } => {
                allowing(&self.before_tool_execution_update, ToolUpdateInfo { name, call, text })
            }
            HookCall::AfterUpdate { name, call, text } => {
                following(&self.after_tool_execution_update, ToolUpdateInfo { name, call, text })
            }
            HookCall::OnError { message } => following(&self.on_error, message),
            HookCall::Filter { inputs } => {
                let filters = self.filters.clone();
                Box::pin(async move {
                    let mut verdicts = Vec::new();
                    for messages in inputs {
                        verdicts.push(filtered(&filters, &messages).await);
                    }
                    Verdict::Filtered(verdicts)
                })
            }
        }
    }
}

async fn filtered(filters: &[Arc<dyn InputFilter>], messages: &[Arc<AgentMessage>]) -> FilterVerdict {
    let mut warnings: Vec<String> = Vec::new();
    for filter in filters {
        match filter.filter(messages).await {
            FilterVerdict::Pass => {}
            FilterVerdict::Warn(warning) => warnings.push(warning),
            rejected @ FilterVerdict::Reject(_) => return rejected,
        }
    }
    if warnings.is_empty() { FilterVerdict::Pass } else { FilterVerdict::Warn(warnings.join("\n")) }
}

fn allowing<A: Send + 'static>(hook: &Option<Hook<A, bool>>, args: A) -> BoxFuture<'static, Verdict> {
    let Some(hook) = hook.clone() else { return Box::pin(async { Verdict::Go }) };
    Box::pin(async move {
        if hook(args).await { Verdict::Go } else { Verdict::Stop { reason: "the hook said no".to_owned() } }
    })
}

fn deciding<A: Send + 'static>(hook: &Option<Hook<A, Decision>>, args: A) -> BoxFuture<'static, Verdict> {
    let Some(hook) = hook.clone() else { return Box::pin(async { Verdict::Go }) };
    Box::pin(async move {
        match hook(args).await {
            Decision::Allow => Verdict::Go,
            Decision::Deny(reason) => Verdict::Stop { reason },
        }
    })
}

fn following<A: Send + 'static>(hook: &Option<Hook<A, ()>>, args: A) -> BoxFuture<'static, Verdict> {
    let Some(hook) = hook.clone() else { return Box::pin(async { Verdict::Go }) };
    Box::pin(async move {
        hook(args).await;
        Verdict::Go
    })
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
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    pub args: Arc<Value>,
    /// What for.
    pub reason: String,
}

/// Who answers questions for permission.
#[derive(Clone, Default)]
pub enum Approvals {
    /// Nobody: what needs a yes is denied at once.
    #[default]
    Nobody,
    /// Whoever watches the events and answers through the agent's handle.
    Watcher,
    /// This code.
    Code(Arc<dyn Fn(PermissionRequest) -> BoxFuture<'static, PermissionDecision> + Send + Sync>),
}

impl Approvals {
    /// Code that answers.
    pub fn code<F, W>(answer: F) -> Self
    where
        F: Fn(PermissionRequest) -> W + Send + Sync + 'static,
        W: Future<Output = PermissionDecision> + Send + 'static,
    {
        Self::Code(Arc::new(move |request| Box::pin(answer(request))))
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Watcher => "Watcher",
            Self::Code(_) => "Code",
        })
    }
}
