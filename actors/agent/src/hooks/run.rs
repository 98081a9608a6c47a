//! Running a hook: the code that is set for its point, then the commands.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use playhouse_protocol::AgentMessage;

use super::answer::HookAnswer;
use super::commands::Round;
use super::process::Scene;
use super::{Decision, Ending, Hook, Hooks, InputFilter, StopInfo, ToolCallInfo, ToolResultInfo, ToolUpdateInfo};
use crate::machine::{
    AfterTool, BeforeTool, Checked, FilterVerdict, Filtered, HookCall, HookPoint, MayStop, Permit, Verdict,
};

impl Hooks {
    /// Runs a hook. The future belongs to a task that the agent can end.
    pub(crate) fn run(&self, call: HookCall, scene: impl FnOnce() -> Scene) -> BoxFuture<'static, Verdict> {
        let round = |point: HookPoint| self.commands.has(point).then(|| self.commands.round(point, scene()));
        match call {
            HookCall::BeforeLoop { history, loop_index } => allowing(&self.before_loop, (history, loop_index)),
            HookCall::AfterLoop { report } => following(&self.after_loop, report),
            HookCall::BeforeTurn { history, turn_index } => allowing(&self.before_turn, (history, turn_index)),
            HookCall::AfterTurn { history, usage } => following(&self.after_turn, (history, usage)),
            HookCall::BeforeTool { name, call, args } => {
                let (own, round) = (self.before_tool_execution.clone(), round(HookPoint::BeforeTool));
                let info = ToolCallInfo { name, call, args };
                Box::pin(async move { Verdict::BeforeTool(before_tool(own, round, info).await) })
            }
            HookCall::AfterTool { name, call, args, result, is_error } => {
                let (own, round) = (self.after_tool_execution.clone(), round(HookPoint::AfterTool));
                let info = ToolResultInfo { name, call, args, result, is_error };
                Box::pin(async move { Verdict::AfterTool(after_tool(own, round, info).await) })
            }
            HookCall::BeforeUpdate { name, call, text } => {
                allowing(&self.before_tool_execution_update, ToolUpdateInfo { name, call, text })
            }
            HookCall::AfterUpdate { name, call, text } => {
                following(&self.after_tool_execution_update, ToolUpdateInfo { name, call, text })
            }
            HookCall::OnError { message } => following(&self.on_error, message),
            HookCall::Filter { inputs } => {
                let (filters, round) = (self.filters.clone(), round(HookPoint::Filter));
                Box::pin(async move {
                    let mut looked_at = Vec::new();
                    for messages in &inputs {
                        looked_at.push((messages, filtered(&filters, messages).await));
                    }
                    let verdicts =
                        looked_at.into_iter().map(|(messages, verdict)| told(round.as_ref(), messages, verdict));
                    Verdict::Filter(Filtered::Each(join_all(verdicts).await))
                })
            }
            // Policies are asked elsewhere.
            HookCall::Policy { ours, .. } => Box::pin(async { Verdict::Policy(ours) }),
            // So are tools.
            HookCall::Check { .. } => Box::pin(async { Verdict::Check(Checked::Possible) }),
            HookCall::Stop { history, refusals } => {
                let (own, round) = (self.before_stop.clone(), round(HookPoint::Stop));
                Box::pin(async move {
                    if let Some(own) = own
                        && let Ending::GoOn(reason) = own(StopInfo { history, refusals }).await
                    {
                        return Verdict::Stop(MayStop::GoOn { reason });
                    }
                    Verdict::Stop(match round {
                        Some(round) => round.stop(refusals).await.on_stop(),
                        None => MayStop::Yes,
                    })
                })
            }
            HookCall::SessionStart { source } => {
                let (own, round) = (self.session_start.clone(), round(HookPoint::SessionStart));
                Box::pin(async move {
                    let mut answer = HookAnswer::default();
                    if let Some(own) = own
                        && let Some(text) = own(source).await
                    {
                        answer = HookAnswer::adding(text);
                    }
                    if let Some(round) = round {
                        answer = answer.joined(round.session_start(source).await);
                    }
                    Verdict::SessionStart(answer.on_session_start())
                })
            }
        }
    }
}

async fn before_tool(
    own: Option<Hook<ToolCallInfo, Decision>>,
    round: Option<Round>,
    mut info: ToolCallInfo,
) -> BeforeTool {
    let mut answer = HookAnswer::default();
    if let Some(own) = own {
        match own(info.clone()).await {
            Decision::Allow => {}
            Decision::Deny(reason) => return BeforeTool::Block { reason },
            Decision::Ask(reason) => answer = HookAnswer::asking(reason),
            Decision::Amend(args) => {
                info.args = Arc::new(args);
                answer = HookAnswer::amending(info.args.clone());
            }
        }
    }
    if let Some(round) = round {
        // The commands saw what the code made of it, so what they make of that counts.
        answer = answer.followed_by(round.before_tool(&info).await);
    }
    answer.before_tool()
}

async fn after_tool(own: Option<Hook<ToolResultInfo, ()>>, round: Option<Round>, info: ToolResultInfo) -> AfterTool {
    if let Some(own) = own {
        own(info.clone()).await;
    }
    match round {
        Some(round) => round.after_tool(&info).await.after_tool(),
        None => AfterTool::Done,
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

/// What the commands say of an input that the filters let pass.
async fn told(round: Option<&Round>, messages: &[Arc<AgentMessage>], verdict: FilterVerdict) -> FilterVerdict {
    let Some(round) = round else { return verdict };
    match verdict {
        FilterVerdict::Reject(_) => verdict,
        FilterVerdict::Pass => round.prompt(messages).await.on_input(None),
        FilterVerdict::Warn(warning) => round.prompt(messages).await.on_input(Some(warning)),
    }
}

fn allowing<A: Send + 'static>(hook: &Option<Hook<A, bool>>, args: A) -> BoxFuture<'static, Verdict> {
    let Some(hook) = hook.clone() else { return Box::pin(async { Verdict::Permit(Permit::Yes) }) };
    Box::pin(async move {
        let no = || Permit::No { reason: "the hook said no".to_owned() };
        Verdict::Permit(if hook(args).await { Permit::Yes } else { no() })
    })
}

fn following<A: Send + 'static>(hook: &Option<Hook<A, ()>>, args: A) -> BoxFuture<'static, Verdict> {
    let Some(hook) = hook.clone() else { return Box::pin(async { Verdict::Noted }) };
    Box::pin(async move {
        hook(args).await;
        Verdict::Noted
    })
}
