//! What observers see.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::StreamDelta;
use crate::config::Mode;
use crate::entry::BlockStage;
use crate::ids::{AgentId, EventId, InputId, LoopId, MessageId, PermissionId, SessionId, ToolCallId};
use crate::message::AgentMessage;
use crate::permission::{Passage, PermissionDecision, Question};
use crate::provider_error::ProviderError;
use crate::run::{ContinuationKind, LoopConfigSnapshot, Outcome, TurnTrigger};
use crate::tool::ToolResult;
use crate::usage::Usage;

/// An event with its address. Order is by `id`, never by `timestamp`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Written `seq.k`; events are in this order.
    pub id: EventId,
    /// The agent that it happened to.
    pub agent_id: AgentId,
    /// The session whose journal has it.
    pub session_id: SessionId,
    /// The run; `None` outside one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_id: Option<LoopId>,
    /// By the clock of the agent's process, for people.
    pub timestamp: Timestamp,
    /// What happened, flat in the same JSON object.
    #[serde(flatten)]
    pub event: AgentEvent,
}

/// What happened, tagged by `type` on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum AgentEvent {
    /// A run began; events until its end carry its id.
    AgentStart {
        /// The run before it, for a continuation or a sub-agent.
        parent_loop_id: Option<LoopId>,
        /// How it continues; `None` for a prompt.
        continuation_kind: Option<ContinuationKind>,
        /// The model and its settings.
        config: Box<LoopConfigSnapshot>,
        /// The program's own words about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Arc<Value>>,
    },
    /// A run ended. Every `AgentStart` has one.
    AgentEnd {
        /// What the run added to the conversation.
        messages: Vec<Arc<AgentMessage>>,
        /// What all of its calls consumed together.
        usage: Usage,
        /// Whether there is an answer, or why there is none.
        outcome: Outcome,
        /// Why an input filter blocked it.
        rejection: Option<String>,
    },
    /// A turn began: a model call and its tools.
    TurnStart {
        /// From 0 within the run.
        turn_index: u32,
        /// What the turn answers to.
        triggered_by: TurnTrigger,
    },
    /// A turn ended. Every `TurnStart` has one.
    TurnEnd {
        /// As in the `TurnStart` that it ends.
        turn_index: u32,
        /// The model's message, its tool calls included.
        message: Arc<AgentMessage>,
        /// What its model call consumed.
        usage: Usage,
        /// The answers to its calls, in call order.
        tool_results: Vec<Arc<AgentMessage>>,
    },
    /// A message began. For the model's it is the empty shell that updates fill.
    MessageStart {
        /// The same in all events of one message.
        message_id: MessageId,
        /// As far as it is known.
        message: Arc<AgentMessage>,
    },
    /// A piece of the model's message.
    MessageUpdate {
        /// As in its `MessageStart`.
        message_id: MessageId,
        /// Follows the pieces before it.
        delta: StreamDelta,
    },
    /// A message is complete, or its attempt failed.
    MessageEnd {
        /// As in its `MessageStart`.
        message_id: MessageId,
        /// The whole message: what updates have shown can be dropped.
        message: Arc<AgentMessage>,
    },
    /// A tool is about to run.
    ToolExecutionStart {
        /// The call in the model's message.
        tool_call_id: ToolCallId,
        /// The tool's name, as the model wrote it.
        tool_name: String,
        /// The model's, or what a hook put in their place.
        args: Value,
        /// How it came to be allowed; `None` for a call that is answered without being run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passage: Option<Passage>,
    },
    /// A tool shows a partial result.
    ToolExecutionUpdate {
        /// The call in the model's message.
        tool_call_id: ToolCallId,
        /// The tool's name, as the model wrote it.
        tool_name: String,
        /// All of the result so far, in place of the last update.
        partial_result: ToolResult,
    },
    /// A tool is done, failed or was not run.
    ToolExecutionEnd {
        /// The call in the model's message.
        tool_call_id: ToolCallId,
        /// The tool's name, as the model wrote it.
        tool_name: String,
        /// What the tool gave, before hooks add to it for the model.
        result: Arc<ToolResult>,
        /// Whether the result is an error's text.
        is_error: bool,
        /// The run of the sub-agent behind it.
        child_loop_id: Option<LoopId>,
        /// How long it ran, in milliseconds; 0 if it did not.
        duration_ms: u64,
        /// One line for people on what the call did.
        summary: String,
    },
    /// A tool shows progress to people.
    ProgressMessage {
        /// The call in the model's message.
        tool_call_id: ToolCallId,
        /// The tool's name, as the model wrote it.
        tool_name: String,
        /// One line, to be shown and forgotten.
        text: String,
    },
    /// A call was refused before it ran.
    ToolBlocked {
        /// The call in the model's message.
        tool_call_id: ToolCallId,
        /// The tool's name, as the model wrote it.
        tool_name: String,
        /// The stage of the pipeline that refused it.
        stage: BlockStage,
        /// The text that the model gets as well.
        reason: String,
    },
    /// The agent acts from now on, or plans.
    ModeChanged {
        /// The mode from now on.
        mode: Mode,
    },
    /// A call was put into the plan instead of being run.
    PlanChangeQueued {
        /// The call in the model's message.
        tool_call_id: ToolCallId,
        /// The tool's name, as the model wrote it.
        tool_name: String,
        /// What it runs with if the plan is approved.
        args: Value,
        /// Its number in the session's plan, from 1.
        change: u32,
    },
    /// Planned changes were approved or rejected.
    PlanResolved {
        /// Those that a run now carries out.
        approved: Vec<u32>,
        /// Those that have left the plan, and are not made.
        rejected: Vec<u32>,
    },
    /// An input filter rejected an input.
    InputRejected {
        /// The input that will not enter the conversation.
        input_id: InputId,
        /// The filter's words.
        reason: String,
    },
    /// A tool call waits for a yes.
    PermissionRequired {
        /// An answer must name this.
        permission_id: PermissionId,
        /// The call that waits for the answer.
        tool_call_id: ToolCallId,
        /// The tool's name, as the model wrote it.
        tool_name: String,
        /// What it would run with.
        args: Value,
        /// What the call wants, how much harm it can do, and how long a yes may hold.
        #[serde(flatten)]
        question: Question,
    },
    /// The question was answered, by someone or because its time was up.
    PermissionResolved {
        /// As in its `PermissionRequired`.
        permission_id: PermissionId,
        /// The call that waited for the answer.
        tool_call_id: ToolCallId,
        /// A no has its reason.
        decision: PermissionDecision,
    },
    /// A model request goes out.
    ModelRequestStart {
        /// The message that will stream.
        message_id: MessageId,
        /// The id of the model that is asked.
        model: Arc<str>,
        /// The attempt it starts with.
        attempt: u32,
    },
    /// An attempt failed and will be repeated.
    ProviderRetry {
        /// The number of the attempt that failed, from 0 within the turn.
        attempt: u32,
        /// The failure that makes another attempt worthwhile.
        error: ProviderError,
        /// The pause before the next.
        delay_ms: u64,
        /// Who is asked next, as `PROVIDER/ID`, when that is another model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        falls_back_on: Option<Arc<str>>,
    },
    /// A sub-agent starts, or goes on after a crash.
    SubAgentStart {
        /// The call that asks for it.
        tool_call_id: ToolCallId,
        /// The tool in that call.
        tool_name: String,
        /// The session whose events tell what it does.
        child_session_id: SessionId,
    },
    /// A sub-agent ended, and its call has its result.
    SubAgentEnd {
        /// The call that asked for it.
        tool_call_id: ToolCallId,
        /// As in its `SubAgentStart`.
        child_session_id: SessionId,
        /// Whether its call is answered with an error.
        is_error: bool,
    },
    /// The agent was folded from its journal: forget the open message.
    AgentRestarted {
        /// What ended the agent before, for people.
        reason: String,
    },
    /// The agent waits to be resumed.
    Error {
        /// What is wrong and what to do about it, for people.
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
