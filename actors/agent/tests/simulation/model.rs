//! The model and what it calls: responses, failures, tools and children.

use playhouse_agent::machine::{Doing, Machine};
use playhouse_agent::testing::Report;
use playhouse_protocol::{Content, Message, ProviderError, StopReason, StreamDelta, ToolCallId, ToolError, ToolResult};
use serde_json::json;

use crate::props::assistant;
use crate::world::{Kind, World};

impl World {
    pub fn model(&mut self, machine: &mut Machine) {
        let open = self.calls.iter().filter(|(call, _)| !self.waiting.contains(*call));
        let open: Vec<_> = open.map(|(call, attempt)| (call.clone(), *attempt)).collect();
        if open.is_empty() {
            return self.commit(machine);
        }
        let (call, attempt) = open[self.rng.usize(..open.len())].clone();
        let roll = if self.draining { 10 } else { self.rng.u8(..16) };
        let input = match roll {
            0..=3 => {
                let delta = match self.rng.u8(..3) {
                    0 => StreamDelta::Text { delta: "a".into() },
                    1 => StreamDelta::Thinking { delta: "b".into() },
                    _ => StreamDelta::ToolCallDelta { delta: "{".into() },
                };
                Report::Delta { call, attempt, deltas: vec![delta] }
            }
            4..=5 => {
                self.calls.insert(call.clone(), attempt + 1);
                self.waiting.insert(call.clone());
                Report::Retrying {
                    call,
                    attempt,
                    error: ProviderError::RateLimited { message: String::new(), retry_after_ms: None },
                    delay_ms: 5,
                }
            }
            6 => {
                self.calls.remove(&call);
                let error = match self.rng.u8(..3) {
                    0 => ProviderError::Api { message: "no".into() },
                    1 => ProviderError::Cancelled,
                    _ => ProviderError::Lost { message: "gone".into() },
                };
                Report::CallFailed { call, attempt, error }
            }
            _ => {
                self.calls.remove(&call);
                let message = self.response();
                Report::Responded { call, attempt, message }
            }
        };
        self.send(machine, input);
    }

    fn response(&mut self) -> Message {
        if self.draining {
            return assistant("done", Vec::new(), StopReason::Stop);
        }
        let many = [0, 0, 1, 1, 2, 3, 5][self.rng.usize(..7)];
        let mut calls = Vec::new();
        for _ in 0..many {
            self.next_call += 1;
            let id: ToolCallId = match self.rng.u8(..10) {
                0 => "".into(),
                1 => "again".into(),
                _ => format!("c{}", self.next_call).into(),
            };
            let name = ["read", "once", "same", "probe", "child", "risky", "unknown"][self.rng.usize(..7)];
            let arguments = if self.rng.u8(..10) == 0 { json!("{\"cut") } else { json!({"n": 1}) };
            calls.push(Content::ToolCall { id, name: name.to_owned(), arguments });
        }
        let stop = match (calls.is_empty(), self.rng.u8(..6)) {
            (_, 0) => StopReason::Length,
            (false, _) => StopReason::ToolUse,
            (true, _) => StopReason::Stop,
        };
        let text = if self.rng.u8(..6) == 0 { " " } else { "text" };
        assistant(text, calls, stop)
    }

    pub fn tool(&mut self, machine: &mut Machine) {
        let running: Vec<_> = self.tools.iter().map(|(call, kind)| (call.clone(), *kind)).collect();
        if running.is_empty() {
            return self.model(machine);
        }
        let (call, kind) = running[self.rng.usize(..running.len())].clone();
        let result = match self.rng.u8(..6) {
            _ if self.draining => Ok(ToolResult::text("ok")),
            0 => Err(ToolError::Failed("broken".into())),
            1 => Err(ToolError::Cancelled),
            _ => Ok(ToolResult::text("ok")),
        };
        let roll = if self.draining { 9 } else { self.rng.u8(..10) };
        let input = match (roll, kind) {
            (0..=2, Kind::Tool) => Report::ToolUpdated { call, partial: ToolResult::text("so far") },
            (3..=4, Kind::Tool) => Report::ToolProgress { call, text: "working".into() },
            (_, Kind::Tool) => {
                self.tools.remove(&call);
                Report::ToolFinished { call, result, duration_ms: 3 }
            }
            (0..=2, Kind::Child) => Report::ChildIs { call, doing: Doing::WaitingForAPerson },
            (3..=4, Kind::Child) => Report::ChildIs { call, doing: Doing::AtWork },
            (_, Kind::Child) => {
                self.tools.remove(&call);
                Report::ChildEnded { call, result, duration_ms: 7 }
            }
        };
        self.send(machine, input);
    }
}
