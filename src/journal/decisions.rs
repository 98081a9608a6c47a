//! What was decided and done in a session, drawn from its journal. Pure.
//!
//! [`act`] is the one place that says which entries are decisions and effects, and what they say.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use playhouse_protocol::chain::chain;
use playhouse_protocol::entry::{BlockStage, Settings};
use playhouse_protocol::{
    AgentMessage, EffectClass, Entry, EntryBody, Mode, PermissionDecision, PermissionMode, Seq, ToolCallId,
};
use playhouse_session::blob::BlobName;
use serde_json::{Value, json};

use crate::text::{cut, one_line};

/// How much of a call's arguments, and of a reason, is shown.
const SHOWN: usize = 200;

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// What may be done, by whom, or that something may not.
    Decision,
    /// Something begins to happen outside of the agent.
    Effect,
    /// What an effect came to.
    Outcome,
}

impl StepKind {
    fn name(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Effect => "effect",
            Self::Outcome => "outcome",
        }
    }
}

/// One decision or effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The entry's number.
    pub seq: Seq,
    /// When, in unix milliseconds.
    pub at: u64,
    /// Whether something was decided, begun or over.
    pub kind: StepKind,
    /// What happened, in a word.
    pub what: &'static str,
    /// The rest of it.
    pub detail: String,
    /// The call it is about.
    pub call: Option<Call>,
}

/// A tool call, as the model asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The id that the model gave it.
    pub id: ToolCallId,
    /// The tool; `None` if no response that asks for it is in the journal.
    pub tool: Option<String>,
    /// The beginning of its arguments.
    pub arguments: Option<String>,
    /// The BLAKE3 hash of its arguments as compact JSON.
    pub arguments_hash: Option<BlobName>,
}

impl Step {
    /// The step on one line, with the time in UTC.
    pub fn line(&self) -> String {
        let at = i64::try_from(self.at).ok().and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or_default();
        let mut text = format!("{at:.3}  {:<10}", self.what);
        if let Some(call) = &self.call {
            let tool = one_line(call.tool.as_deref().unwrap_or("?"));
            text.push_str(&format!("  {tool}  {}", one_line(call.id.as_str())));
        }
        if !self.detail.is_empty() {
            text.push_str(&format!("  {}", self.detail));
        }
        if let (StepKind::Decision | StepKind::Effect, Some(arguments)) =
            (self.kind, self.call.as_ref().and_then(|call| call.arguments.as_ref()))
        {
            text.push_str(&format!("  {arguments}"));
        }
        text.push('\n');
        text
    }

    /// The step as programs read it.
    pub fn to_json(&self) -> Value {
        let Self { seq, at, kind, what, detail, call } = self;
        let mut value = json!({ "seq": seq, "at": at, "kind": kind.name(), "what": what, "detail": detail });
        if let (Some(fields), Some(call)) = (value.as_object_mut(), call) {
            fields.insert("tool_call_id".to_owned(), json!(call.id));
            fields.insert("tool_name".to_owned(), json!(call.tool));
            fields.insert("arguments".to_owned(), json!(call.arguments));
            fields.insert("arguments_hash".to_owned(), json!(call.arguments_hash));
        }
        value
    }
}

/// The decisions and effects of a journal, in order.
pub fn decisions(entries: &[(Seq, Arc<Entry>)]) -> Vec<Step> {
    let mut decisions = Decisions::default();
    chain(entries, None).filter_map(|(seq, entry)| decisions.step(*seq, entry)).collect()
}

/// As [`decisions`], entry by entry along the journal's chain. It keeps what is shown of each call.
#[derive(Debug, Default)]
pub struct Decisions(HashMap<ToolCallId, Call>);

impl Decisions {
    /// What the next entry is, if it is a decision or an effect.
    pub fn step(&mut self, seq: Seq, entry: &Entry) -> Option<Step> {
        if let EntryBody::Responded { message, .. } = &entry.body {
            remember(message, &mut self.0);
        }
        let Act { kind, what, detail, call } = act(&entry.body)?;
        let call = call.map(|id| self.0.get(id).cloned().unwrap_or_else(|| unasked(id)));
        Some(Step { seq, at: entry.at, kind, what, detail: cut(&one_line(&detail), SHOWN), call })
    }
}

fn remember(message: &AgentMessage, calls: &mut HashMap<ToolCallId, Call>) {
    let Some(message) = message.llm() else { return };
    for (id, tool, arguments) in message.tool_calls() {
        let arguments = arguments.to_string();
        let call = Call {
            id: id.clone(),
            tool: Some(tool.to_owned()),
            arguments_hash: Some(BlobName::of(arguments.as_bytes())),
            arguments: Some(cut(&one_line(&arguments), SHOWN)),
        };
        calls.insert(id.clone(), call);
    }
}

fn unasked(id: &ToolCallId) -> Call {
    Call { id: id.clone(), tool: None, arguments: None, arguments_hash: None }
}

/// What an entry says.
struct Act<'a> {
    kind: StepKind,
    what: &'static str,
    detail: String,
    call: Option<&'a ToolCallId>,
}

impl<'a> Act<'a> {
    fn decision(what: &'static str, call: Option<&'a ToolCallId>, detail: impl Into<String>) -> Option<Self> {
        Some(Self { kind: StepKind::Decision, what, detail: detail.into(), call })
    }
}

/// What an entry says, if it is a decision, an effect or what came of one.
fn act(body: &EntryBody) -> Option<Act<'_>> {
    match body {
        EntryBody::Opened(opened) => Act::decision("opened", None, allowance(&opened.settings)),
        EntryBody::Configured { settings, .. } => Act::decision("configured", None, allowance(settings)),
        EntryBody::InputRejected { reason, .. } => Act::decision("rejected", None, reason),
        EntryBody::AbortAsked { .. } => Act::decision("aborted", None, ""),
        EntryBody::LimitReached { limit } => Act::decision("stopped", None, limit.to_string()),
        EntryBody::PermissionAsked { tool_call_id, question, .. } => {
            Act::decision("asked", Some(tool_call_id), format!("{} ({})", question.reason, question.level))
        }
        EntryBody::PermissionResolved { tool_call_id, answer, .. } => match &answer.decision {
            PermissionDecision::Allow => Act::decision("allowed", Some(tool_call_id), "once"),
            PermissionDecision::AllowSession => {
                Act::decision("allowed", Some(tool_call_id), format!("for the session: {}", answer.rules.join(", ")))
            }
            PermissionDecision::AllowAlways => {
                Act::decision("allowed", Some(tool_call_id), format!("always: {}", answer.rules.join(", ")))
            }
            PermissionDecision::Deny { reason } => Act::decision("denied", Some(tool_call_id), reason),
        },
        EntryBody::ToolBlocked { tool_call_id, stage, reason } => {
            Act::decision("blocked", Some(tool_call_id), format!("at {}: {reason}", stage_name(*stage)))
        }
        EntryBody::ToolSkipped { tool_call_id, reason } => Act::decision("skipped", Some(tool_call_id), reason),
        EntryBody::ToolQueued { tool_call_id, change } => {
            Act::decision("planned", Some(tool_call_id), format!("as change {change}"))
        }
        EntryBody::PlanApproved { changes, .. } => Act::decision("plan approved", None, numbers(changes)),
        EntryBody::PlanRejected { changes, .. } => Act::decision("plan rejected", None, numbers(changes)),
        EntryBody::ToolStarted { tool_call_id, effect, passage } => {
            let passage = passage.as_ref().map(|passage| format!("; {}, by {}", passage.level, passage.allowed_by));
            let detail = format!("{}{}", effect_name(effect), passage.unwrap_or_default());
            Some(Act { kind: StepKind::Effect, what: "started", detail, call: Some(tool_call_id) })
        }
        EntryBody::ToolEnded { tool_call_id, is_error, duration_ms, summary, .. } => {
            let how = if *is_error { "error" } else { "ok" };
            let detail = format!("{how} after {duration_ms} ms: {summary}");
            Some(Act { kind: StepKind::Outcome, what: "ended", detail, call: Some(tool_call_id) })
        }
        EntryBody::ToolHooked { tool_call_id, args, ask } => {
            let changed = args.as_ref().map(|_| "the arguments were changed");
            let detail: Vec<&str> = changed.into_iter().chain(ask.as_deref()).collect();
            Act::decision("hooked", Some(tool_call_id), detail.join("; "))
        }
        EntryBody::HaltAsked { reason } => Act::decision("halted", None, reason),
        EntryBody::StopRefused { reason } => Act::decision("not let stop", None, reason),
        EntryBody::Input(_)
        | EntryBody::ContinueAsked { .. }
        | EntryBody::Head { .. }
        | EntryBody::LoopStarted { .. }
        | EntryBody::TurnStarted { .. }
        | EntryBody::Requested { .. }
        | EntryBody::AttemptFailed { .. }
        | EntryBody::Responded { .. }
        | EntryBody::ToolAnswered { .. }
        | EntryBody::TurnEnded { .. }
        | EntryBody::LoopEnded { .. }
        | EntryBody::LoopClosed
        | EntryBody::Recovered { .. }
        | EntryBody::Parked { .. }
        | EntryBody::Reset { .. }
        | EntryBody::Restored { .. }
        | EntryBody::RotatedTo { .. } => None,
    }
}

fn numbers(changes: &[u32]) -> String {
    changes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// What a session's settings let its tools do.
fn allowance(settings: &Settings) -> String {
    let permission = match settings.permission {
        PermissionMode::Strict => "strict",
        PermissionMode::Ask => "ask",
        PermissionMode::AutoSafe => "auto-safe",
        PermissionMode::Yolo => "yolo",
    };
    let tools = if settings.tools.is_empty() { "none".to_owned() } else { settings.tools.join(",") };
    let plans = match settings.mode {
        Mode::Act => "",
        Mode::Plan => ", plans only",
    };
    format!("permission {permission}, tools {tools}, in {}{plans}", settings.cwd.display())
}

fn stage_name(stage: BlockStage) -> &'static str {
    match stage {
        BlockStage::Lookup => "lookup",
        BlockStage::Schema => "schema",
        BlockStage::Limit => "limit",
        BlockStage::Plan => "plan",
        BlockStage::Policy => "policy",
        BlockStage::Check => "check",
        BlockStage::Safety => "safety",
        BlockStage::Approval => "approval",
        BlockStage::Hook => "hook",
    }
}

fn effect_name(effect: &EffectClass) -> String {
    match effect {
        EffectClass::Read => "read".to_owned(),
        EffectClass::Idempotent { key } => format!("idempotent, key {key}"),
        EffectClass::Reconcilable { probe } => format!("reconcilable, probe {probe}"),
        EffectClass::Once => "once".to_owned(),
        EffectClass::Child { session } => format!("child, session {session}"),
    }
}
