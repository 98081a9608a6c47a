//! What an agent can be told from outside: by a program, a terminal, a service or another node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::ResponseFormat;
use crate::entry::Settings;
use crate::ids::{InputId, PermissionId, SessionId};
use crate::message::AgentMessage;
use crate::permission::PermissionDecision;
use crate::run::ContinuationKind;

/// Something an agent is told. It is taken once, however often it comes under the same id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The sender's id for it, journaled with what comes of it.
    pub id: InputId,
    /// What the agent is to do.
    #[serde(flatten)]
    pub op: Op,
}

impl Command {
    /// Asks for this under this id.
    pub fn new(id: impl Into<InputId>, op: Op) -> Self {
        Self { id: id.into(), op }
    }
}

/// What is asked of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Start a run with these messages. Refused while another is under way.
    Prompt {
        /// At least one user message with text or an image; extensions may come beside it.
        messages: Vec<Arc<AgentMessage>>,
        /// The form that the answer must have, if it must have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<Arc<ResponseFormat>>,
    },
    /// Say something into the run, between tools or turns.
    Steer {
        /// A user message with text or an image.
        message: Arc<AgentMessage>,
    },
    /// Say something when the run would stop.
    FollowUp {
        /// A user message with text or an image.
        message: Arc<AgentMessage>,
    },
    /// Start a run on the conversation as it stands.
    Continue {
        /// How it relates to what was.
        kind: ContinuationKind,
    },
    /// End the run under way, or the one about to begin. What has come of it stays in the conversation.
    Abort,
    /// Clear the conversation and its queues.
    Reset,
    /// Replace the conversation with another that providers take. Refused while a run is under way.
    Restore {
        /// All of the new conversation; empty is none.
        messages: Vec<Arc<AgentMessage>>,
    },
    /// Change the settings, from the next run on.
    Configure {
        /// All of them. A model's key is never part of the JSON.
        settings: Box<Settings>,
    },
    /// Go on in a new session.
    Rotate {
        /// A session id that is not in use yet.
        to: SessionId,
    },
    /// Answer a question for permission.
    Answer {
        /// The question, as the event that asked it named it.
        permission_id: PermissionId,
        /// A yes for longer than the question offers is refused.
        decision: PermissionDecision,
    },
    /// Approve or reject changes that a planning agent has queued.
    Plan {
        /// Which changes, and whether they are made.
        decision: PlanDecision,
    },
}

impl Op {
    /// A prompt whose answer may have any form.
    pub fn prompt(messages: Vec<Arc<AgentMessage>>) -> Self {
        Self::Prompt { messages, format: None }
    }
}

/// What is decided on planned changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PlanDecision {
    /// Carry them out, in the plan's order.
    Approve {
        /// Their numbers; all of them for `None`.
        changes: Option<Vec<u32>>,
    },
    /// Drop them, and tell the model.
    Reject {
        /// Their numbers; all of them for `None`.
        changes: Option<Vec<u32>>,
        /// Why; the model gets this.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{EntryId, ModelConfig, Secret};

    fn settings() -> Box<Settings> {
        let model = ModelConfig::scripted("x");
        Box::new(serde_json::from_value(json!({"kind": "test", "model": model, "cwd": "/"})).unwrap())
    }

    /// One of each, and every shape that its parts have.
    fn every_op() -> Vec<Op> {
        let message = Arc::new(AgentMessage::user("hi", 7));
        let format = Arc::new(ResponseFormat { name: "form".into(), schema: json!({"type": "object"}) });
        let answer = |decision| Op::Answer { permission_id: "ask".into(), decision };
        let entry: EntryId = "s#3".into();
        vec![
            Op::prompt(vec![message.clone()]),
            Op::Prompt { messages: vec![message.clone()], format: Some(format) },
            Op::Steer { message: message.clone() },
            Op::FollowUp { message: message.clone() },
            Op::Continue { kind: ContinuationKind::Default },
            Op::Continue { kind: ContinuationKind::Rerun { tag: "now".into() } },
            Op::Continue { kind: ContinuationKind::Branch { tag: "now".into(), entry: Some(entry) } },
            Op::Abort,
            Op::Reset,
            Op::Restore { messages: vec![message] },
            Op::Configure { settings: settings() },
            Op::Rotate { to: SessionId::new("next").unwrap() },
            answer(PermissionDecision::Allow),
            answer(PermissionDecision::AllowSession),
            answer(PermissionDecision::AllowAlways),
            answer(PermissionDecision::Deny { reason: "no".into() }),
            Op::Plan { decision: PlanDecision::Approve { changes: None } },
            Op::Plan { decision: PlanDecision::Reject { changes: Some(vec![1, 2]), reason: "no".into() } },
        ]
    }

    /// Fails to compile when an op is added, so that the list above is not forgotten.
    fn name(op: &Op) -> &'static str {
        match op {
            Op::Prompt { .. } => "prompt",
            Op::Steer { .. } => "steer",
            Op::FollowUp { .. } => "follow_up",
            Op::Continue { .. } => "continue",
            Op::Abort => "abort",
            Op::Reset => "reset",
            Op::Restore { .. } => "restore",
            Op::Configure { .. } => "configure",
            Op::Rotate { .. } => "rotate",
            Op::Answer { .. } => "answer",
            Op::Plan { .. } => "plan",
        }
    }

    #[test]
    fn every_command_goes_to_json_and_back() {
        let mut names = Vec::new();
        for op in every_op() {
            let command = Command::new("mine", op);
            let json = serde_json::to_value(&command).unwrap();
            assert_eq!((&json["id"], &json["op"]), (&Value::from("mine"), &Value::from(name(&command.op))));
            assert_eq!(serde_json::from_value::<Command>(json).unwrap(), command);
            names.push(name(&command.op));
        }
        names.dedup();
        assert_eq!(names.len(), 11, "{names:?}");
        assert_eq!(serde_json::to_string(&Command::new("a", Op::Abort)).unwrap(), r#"{"id":"a","op":"abort"}"#);
    }

    #[test]
    fn a_key_is_no_part_of_a_command_s_json() {
        let mut settings = settings();
        settings.model = Arc::new(ModelConfig::anthropic("m", Secret::new("sk-very-secret")));
        let json = serde_json::to_string(&Command::new("c", Op::Configure { settings })).unwrap();
        assert!(!json.contains("sk-very-secret"), "{json}");
    }
}
