//! What a machine asks for and tells, one line each, so that a test can hold a whole run in one list.

use playhouse_agent::machine::{CancelTarget, Effect};
use playhouse_protocol::{AgentEvent, AgentMessage, Message, MessageId, Outcome, PermissionDecision, StreamDelta};

/// An event by its name, anything else after a `>`. Appends and timers have no line.
pub fn line(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Append { .. } | Effect::Arm { .. } | Effect::Disarm(_) => return None,
        Effect::Emit(event) => of_event(&event.event),
        Effect::Call { call, .. } => format!("> call {}", last(call.as_str())),
        Effect::GoOn { attempt, .. } => format!("> go on with {attempt}"),
        Effect::RunTool { call, start, .. } => format!("> run {call} {start:?}"),
        Effect::Spawn { call, session, .. } => format!("> spawn {call} in {session}"),
        Effect::Hook { call, .. } => format!("> hook {:?}", call.point()),
        Effect::Ask { permission_id, .. } => format!("> ask {}", question(permission_id.as_str())),
        Effect::Remember { rules } => format!("> remember {}", rules.join(", ")),
        Effect::Cancel(CancelTarget::Call(call)) => format!("> cancel call {}", last(call.as_str())),
        Effect::Cancel(CancelTarget::Tool(call)) => format!("> cancel tool {call}"),
        Effect::Cancel(CancelTarget::Child(call)) => format!("> cancel child {call}"),
        Effect::Cancel(CancelTarget::Hook(_)) => "> cancel hook".into(),
        Effect::Ack { input_id } => format!("> ack {input_id}"),
        Effect::Refuse { input_id, error } => format!("> refuse {input_id}: {error}"),
        Effect::Finish(report) => format!("> finish {}", ending(&report.outcome)),
        Effect::Rotated { to } => format!("> rotated to {to}"),
        Effect::Park { reason } => format!("> park: {reason}"),
    })
}

fn of_event(event: &AgentEvent) -> String {
    match event {
        AgentEvent::AgentStart { .. } => "AgentStart".into(),
        AgentEvent::AgentEnd { outcome, messages, .. } => format!("AgentEnd {} ({})", ending(outcome), messages.len()),
        AgentEvent::TurnStart { turn_index, triggered_by } => format!("TurnStart {turn_index} {triggered_by:?}"),
        AgentEvent::TurnEnd { turn_index, .. } => format!("TurnEnd {turn_index}"),
        AgentEvent::MessageStart { message_id, message } => format!("MessageStart {}", name(message_id, message)),
        AgentEvent::MessageUpdate { delta: StreamDelta::Text { delta }, .. } => format!("MessageUpdate {delta}"),
        AgentEvent::MessageUpdate { .. } => "MessageUpdate".into(),
        AgentEvent::MessageEnd { message_id, message } => {
            format!("MessageEnd {} = {}", name(message_id, message), said(message))
        }
        AgentEvent::ToolExecutionStart { tool_call_id, .. } => format!("ToolExecutionStart {tool_call_id}"),
        AgentEvent::ToolExecutionUpdate { tool_call_id, .. } => format!("ToolExecutionUpdate {tool_call_id}"),
        AgentEvent::ToolExecutionEnd { tool_call_id, .. } => format!("ToolExecutionEnd {tool_call_id}"),
        AgentEvent::ProgressMessage { tool_call_id, text, .. } => format!("ProgressMessage {tool_call_id} {text}"),
        AgentEvent::ToolBlocked { tool_call_id, stage, .. } => format!("ToolBlocked {tool_call_id} {stage:?}"),
        AgentEvent::InputRejected { input_id, reason } => format!("InputRejected {input_id}: {reason}"),
        AgentEvent::PermissionRequired { permission_id, .. } => {
            format!("PermissionRequired {}", question(permission_id.as_str()))
        }
        AgentEvent::PermissionResolved { permission_id, decision, .. } => {
            let said = match decision {
                PermissionDecision::Allow => "allow",
                PermissionDecision::AllowSession => "allow for the session",
                PermissionDecision::AllowAlways => "allow always",
                PermissionDecision::Deny { reason } => reason,
            };
            format!("PermissionResolved {}: {said}", question(permission_id.as_str()))
        }
        AgentEvent::ModeChanged { mode } => format!("ModeChanged {mode:?}"),
        AgentEvent::PlanChangeQueued { tool_call_id, change, .. } => {
            format!("PlanChangeQueued {tool_call_id} as {change}")
        }
        AgentEvent::PlanResolved { approved, rejected } => format!("PlanResolved {approved:?} {rejected:?}"),
        AgentEvent::ModelRequestStart { message_id, attempt, .. } => {
            format!("ModelRequestStart {} {attempt}", last(message_id.as_str()))
        }
        AgentEvent::ProviderRetry { attempt, delay_ms, .. } => format!("ProviderRetry {attempt} {delay_ms}"),
        AgentEvent::SubAgentStart { tool_call_id, .. } => format!("SubAgentStart {tool_call_id}"),
        AgentEvent::SubAgentEnd { tool_call_id, .. } => format!("SubAgentEnd {tool_call_id}"),
        AgentEvent::AgentRestarted { .. } => "AgentRestarted".into(),
        AgentEvent::Error { message } => format!("Error {message}"),
        AgentEvent::Lagged { .. } => "Lagged".into(),
    }
}

/// A message by who says it and what.
pub fn said(message: &AgentMessage) -> String {
    match message.llm() {
        None => "extension".into(),
        Some(user @ Message::User { .. }) => format!("user: {}", user.text()),
        Some(model @ Message::Assistant { stop_reason, .. }) => format!("model {stop_reason:?}: {}", model.text()),
        Some(result @ Message::ToolResult { tool_call_id, is_error, .. }) => {
            let how = if *is_error { "error" } else { "result" };
            format!("{tool_call_id} {how}: {}", result.text())
        }
    }
}

fn name(id: &MessageId, message: &AgentMessage) -> String {
    match message.llm() {
        Some(Message::Assistant { .. }) => format!("model {}", last(id.as_str())),
        Some(Message::User { .. } | Message::ToolResult { .. }) | None => id.to_string(),
    }
}

fn last(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

fn ending(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Stop => "stop".into(),
        Outcome::Length => "length".into(),
        Outcome::Error { message } => format!("error {message}"),
        Outcome::Aborted => "aborted".into(),
        Outcome::Limit { limit } => format!("limit {limit}"),
        Outcome::Rejected { reason } => format!("rejected {reason}"),
        Outcome::Halted { reason } => format!("halted {reason}"),
    }
}

/// A question without the digest of what it is about.
fn question(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(question, _)| question)
}
