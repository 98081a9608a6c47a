//! The person: prompts, steers, decides, and at times talks nonsense.

use std::sync::Arc;

use playhouse_agent::machine::Durable;
use playhouse_agent::machine::Machine;
use playhouse_protocol::{
    AgentMessage, Command, ContinuationKind, InputId, Mode, Op, PermissionDecision, PlanDecision, ResponseFormat,
    SessionId, StopReason,
};
use serde_json::json;

use crate::props::{assistant, pick};
use crate::world::World;

impl World {
    pub fn person(&mut self, machine: &mut Machine) {
        self.next_input += 1;
        let input_id: InputId = format!("i{}", self.next_input).into();
        let text = format!("message {}", self.next_input);
        let message = Arc::new(AgentMessage::user(text, self.clock));
        let input = match self.rng.u8(..44) {
            0..=8 => {
                let mut messages = vec![message];
                if self.rng.u8(..4) == 0 {
                    messages.push(Arc::new(AgentMessage::extension("note", json!(1))));
                }
                match self.rng.u8(..4) {
                    0 => {
                        let format = ResponseFormat { name: "answer".into(), schema: json!({"type": "object"}) };
                        Command::new(input_id, Op::Prompt { messages, format: Some(Arc::new(format)) })
                    }
                    _ => Command::new(input_id, Op::prompt(messages)),
                }
            }
            9..=14 => Command::new(input_id, Op::Steer { message }),
            15..=19 => Command::new(input_id, Op::FollowUp { message }),
            20..=22 => Command::new(input_id, Op::Continue { kind: self.continuation(machine.durable()) }),
            23..=26 => Command::new(input_id, Op::Abort),
            27 => Command::new(input_id, Op::Reset),
            28..=29 => {
                let messages = if self.rng.bool() { vec![message] } else { Vec::new() };
                Command::new(input_id, Op::Restore { messages })
            }
            30..=31 => {
                let mut settings = machine.durable().settings.as_ref().clone();
                settings.system_prompt = format!("be brief {}", self.next_input).into();
                settings.mode = if self.rng.bool() { Mode::Plan } else { Mode::Act };
                Command::new(input_id, Op::Configure { settings: Box::new(settings) })
            }
            32..=33 => {
                let to = SessionId::new(format!("s{}", self.next_input)).unwrap();
                Command::new(input_id, Op::Rotate { to })
            }
            34..=38 => match pick(&mut self.rng, &self.asks) {
                Some(permission_id) => {
                    self.asks.remove(&permission_id);
                    let decision = self.decision();
                    Command::new(input_id, Op::Answer { permission_id, decision })
                }
                None => Command::new(input_id, Op::prompt(vec![message])),
            },
            39..=42 => {
                let planned: Vec<u32> = machine.durable().plan().iter().map(|planned| planned.change).collect();
                let changes = match self.rng.u8(..4) {
                    0 => Some(vec![self.rng.u32(..9)]),
                    1 => Some(planned.into_iter().take(1).collect()),
                    _ => None,
                };
                let decision = match self.rng.u8(..3) {
                    0 => PlanDecision::Reject { changes, reason: "not now".into() },
                    _ => PlanDecision::Approve { changes },
                };
                Command::new(input_id, Op::Plan { decision })
            }
            // Nonsense is refused and changes nothing.
            _ => match self.rng.u8(..4) {
                0 => Command::new(input_id, Op::prompt(Vec::new())),
                1 => {
                    let permission_id = "unknown".into();
                    Command::new(input_id, Op::Answer { permission_id, decision: PermissionDecision::Allow })
                }
                2 => {
                    let kind = ContinuationKind::Branch { tag: "t".into(), entry: Some("nowhere".into()) };
                    Command::new(input_id, Op::Continue { kind })
                }
                _ => Command::new(
                    input_id,
                    Op::Steer { message: Arc::new(assistant("me", Vec::new(), StopReason::Stop).into()) },
                ),
            },
        };
        self.send(machine, input);
    }

    fn decision(&mut self) -> PermissionDecision {
        match self.rng.u8(..6) {
            0 | 1 => PermissionDecision::Allow,
            2 => PermissionDecision::AllowSession,
            3 => PermissionDecision::AllowAlways,
            _ => PermissionDecision::Deny { reason: "no".into() },
        }
    }

    fn continuation(&mut self, durable: &Durable) -> ContinuationKind {
        let tag = "2026-01-01T00:00:00Z".to_owned();
        match self.rng.u8(..5) {
            0 | 1 => ContinuationKind::Default,
            2 | 3 => ContinuationKind::Rerun { tag },
            _ => {
                let entries: Vec<_> = durable.record.entries().collect();
                let entry = (!entries.is_empty()).then(|| entries[self.rng.usize(..entries.len())].clone());
                ContinuationKind::Branch { tag, entry }
            }
        }
    }
}
