//! What observers see.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{ProviderError, StreamDelta};
use crate::config::Mode;
use crate::entry::BlockStage;
use crate::ids::{AgentId, EventId, InputId, LoopId, MessageId, PermissionId, SessionId, ToolCallId};
use crate::message::AgentMessage;
use crate::permission::{Passage, PermissionDecision, Question};
use crate::run::{ContinuationKind, LoopConfigSnapshot, Outcome, TurnTrigger};
use crate::tool::ToolResult;
use crate::usage::Usage;

/// An event with its address. Order is by `id`, never by `timestamp`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// `seq.k`.
    pub id: EventId,
    /// The agent.
    pub agent_id: AgentId,
    /// The session.
    pub session_id: SessionId,
    /// The run; `None` outside one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_id: Option<LoopId>,
    /// When it happened.
    pub timestamp: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: AgentEvent,
}

/// What happened, tagged by `type` on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum AgentEvent {
    /// A run began.
    AgentStart {
        /// The run before it, for a continuation or a sub-agent.
        parent_loop_id: Option<LoopId>,
        /// How it continues; `None` for a prompt.
        continuation_kind: Option<ContinuationKind>,
        /// What it runs with.
        config: Box<LoopConfigSnapshot>,
        /// The program's own words about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Arc<Value>>,
    },
    /// A run ended. Every `AgentStart` has one.
    AgentEnd {
        /// What the run added to the conversation.
        messages: Vec<Arc<AgentMessage>>,
        /// What it consumed.
        usage: Usage,
        /// How it ended.
        outcome: Outcome,
        /// Why an input filter blocked it.
        rejection: Option<String>,
    },
    /// A turn began.
    TurnStart {
        /// From 0 within the run.
        turn_index: u32,
        /// Its cause.
        triggered_by: TurnTrigger,
    },
    /// A turn ended. Every `TurnStart` has one.
    TurnEnd {
        /// Which.
        turn_index: u32,
        /// The model's message.
        message: Arc<AgentMessage>,
        /// What its call consumed.
        usage: Usage,
        /// The answers to its calls, in call order.
        tool_results: Vec<Arc<AgentMessage>>,
    },
    /// A message began. For the model's it is the empty shell that updates fill.
    MessageStart {
        /// The message.
        message_id: MessageId,
        /// As far as it is known.
        message: Arc<AgentMessage>,
    },
    /// A piece of the model's message.
    MessageUpdate {
        /// The message.
        message_id: MessageId,
        /// The piece.
        delta: StreamDelta,
    },
    /// A message is complete.
    MessageEnd {
        /// The message.
        message_id: MessageId,
        /// All of it.
        message: Arc<AgentMessage>,
    },
    /// A tool is about to run.
    ToolExecutionStart {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        args: Value,
        /// How it came to be allowed; `None` for a call that is answered without being run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passage: Option<Passage>,
    },
    /// A tool shows a partial result.
    ToolExecutionUpdate {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// The result so far.
        partial_result: ToolResult,
    },
    /// A tool is done.
    ToolExecutionEnd {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// What it gave.
        result: Arc<ToolResult>,
        /// Whether it failed.
        is_error: bool,
        /// The run of the sub-agent behind it.
        child_loop_id: Option<LoopId>,
        /// How long it ran.
        duration_ms: u64,
        /// One line for people.
        summary: String,
    },
    /// A tool shows progress to people.
    ProgressMessage {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// The line.
        text: String,
    },
    /// A call was refused before it ran.
    ToolBlocked {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// The stage that refused.
        stage: BlockStage,
        /// Why.
        reason: String,
    },
    /// The agent acts from now on, or plans.
    ModeChanged {
        /// Which.
        mode: Mode,
    },
    /// A call was put into the plan instead of being run.
    PlanChangeQueued {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        args: Value,
        /// Its number in the session's plan, from 1.
        change: u32,
    },
    /// Planned changes were approved or rejected.
    PlanResolved {
        /// Those that a run now carries out.
        approved: Vec<u32>,
        /// Those that are off.
        rejected: Vec<u32>,
    },
    /// An input filter rejected an input.
    InputRejected {
        /// The input.
        input_id: InputId,
        /// Why.
        reason: String,
    },
    /// A tool call waits for a yes.
    PermissionRequired {
        /// The question.
        permission_id: PermissionId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        args: Value,
        /// What is asked.
        #[serde(flatten)]
        question: Question,
    },
    /// The question was answered.
    PermissionResolved {
        /// The question.
        permission_id: PermissionId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The answer.
        decision: PermissionDecision,
    },
    /// A model request goes out.
    ModelRequestStart {
        /// The message that will stream.
        message_id: MessageId,
        /// The model.
        model: Arc<str>,
        /// The attempt it starts with.
        attempt: u32,
    },
    /// An attempt failed and will be repeated.
    ProviderRetry {
        /// The attempt that failed.
        attempt: u32,
        /// Why.
        error: ProviderError,
        /// The pause before the next.
        delay_ms: u64,
        /// Who is asked next, as `PROVIDER/ID`, when that is another model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        falls_back_on: Option<Arc<str>>,
    },
    /// A sub-agent starts.
    SubAgentStart {
        /// The call that asks for it.
        tool_call_id: ToolCallId,
        /// The tool in that call.
        tool_name: String,
        /// Its session.
        child_session_id: SessionId,
    },
    /// A sub-agent ended.
    SubAgentEnd {
        /// The call that asked for it.
        tool_call_id: ToolCallId,
        /// Its session.
        child_session_id: SessionId,
        /// Whether it failed.
        is_error: bool,
    },
    /// The agent was folded from its journal: forget the open message.
    AgentRestarted {
        /// Why it was needed.
        reason: String,
    },
    /// The agent waits to be resumed.
    Error {
        /// Why.
        message: String,
    },
    /// This subscriber was too slow: fetch what lies between from the journal.
    Lagged {
        /// How many events it did not get.
        missed: u64,
        /// The last one it got; `None` is the beginning.
        after: Option<EventId>,
    },
}

impl AgentEvent {
    /// Whether a subscriber must get it even when its ring is full: what closes something, or asks something.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::AgentEnd { .. }
            | Self::TurnEnd { .. }
            | Self::PermissionRequired { .. }
            | Self::PermissionResolved { .. }
            | Self::ModeChanged { .. }
            | Self::PlanChangeQueued { .. }
            | Self::PlanResolved { .. }
            | Self::InputRejected { .. }
            | Self::AgentRestarted { .. }
            | Self::Error { .. }
            | Self::Lagged { .. } => true,
            Self::AgentStart { .. }
            | Self::TurnStart { .. }
            | Self::MessageStart { .. }
            | Self::MessageUpdate { .. }
            | Self::MessageEnd { .. }
            | Self::ToolExecutionStart { .. }
            | Self::ToolExecutionUpdate { .. }
            | Self::ToolExecutionEnd { .. }
            | Self::ProgressMessage { .. }
            | Self::ToolBlocked { .. }
            | Self::ModelRequestStart { .. }
            | Self::ProviderRetry { .. }
            | Self::SubAgentStart { .. }
            | Self::SubAgentEnd { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Seq;
    use serde_json::json;

    #[test]
    fn events_are_flat_and_tagged_by_type() {
        let event = Event {
            id: EventId { seq: Seq(4), k: 1 },
            agent_id: "a".into(),
            session_id: SessionId::new("s").unwrap(),
            loop_id: Some("s.c.1".into()),
            timestamp: Timestamp::from_millisecond(0).unwrap(),
            event: AgentEvent::TurnStart { turn_index: 0, triggered_by: TurnTrigger::User },
        };
        let wire = serde_json::to_value(&event).unwrap();
        assert_eq!(
            wire,
            json!({
                "id": "4.1", "agent_id": "a", "session_id": "s", "loop_id": "s.c.1",
                "timestamp": "1970-01-01T00:00:00Z", "type": "TurnStart", "turn_index": 0, "triggered_by": "User",
            })
        );
        assert_eq!(serde_json::from_value::<Event>(wire).unwrap(), event);
    }
}
