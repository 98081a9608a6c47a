//! A say in what may run, for programs that want more than rules.

use std::sync::Arc;

use playhouse_protocol::{Level, Ruling, ToolCallId};
use serde_json::Value;

/// A call to be judged.
#[derive(Clone, Debug)]
pub struct PolicyRequest {
    /// The tool's name, as the model called it.
    pub tool_name: String,
    /// The call's id, the same in its events.
    pub tool_call_id: ToolCallId,
    /// The arguments it would run with.
    pub args: Arc<Value>,
    /// How much harm it can do.
    pub level: Level,
    /// What the house's rules and the agent's mode say; never [`Ruling::Forbid`], since nobody overrules that.
    pub ours: Ruling,
}

/// Judges calls before anyone is asked. It may take its time: it runs in a task of its own, and what it does not answer
/// in time, or panics over, is forbidden.
///
/// What it says replaces what the rules and the mode say ([`PolicyRequest::ours`]), but for what they forbid. A
/// sub-agent's calls are judged by its parent's policies too, and the strictest ruling counts.
#[async_trait::async_trait]
pub trait PermissionPolicy: Send + Sync {
    /// What holds for a call.
    async fn check(&self, request: &PolicyRequest) -> Ruling;
}

/// The strictest of all rulings: forbidden before asked before allowed.
pub(crate) async fn strictest(policies: &[Arc<dyn PermissionPolicy>], request: &PolicyRequest) -> Ruling {
    let mut strictest: Option<Ruling> = None;
    for policy in policies {
        let ruling = policy.check(request).await;
        if strictest.as_ref().is_none_or(|known| rank(known) < rank(&ruling)) {
            strictest = Some(ruling);
        }
    }
    strictest.unwrap_or_else(|| request.ours.clone())
}

fn rank(ruling: &Ruling) -> u8 {
    match ruling {
        Ruling::Allow { .. } => 0,
        Ruling::Ask(_) => 1,
        Ruling::Forbid { .. } => 2,
    }
}
