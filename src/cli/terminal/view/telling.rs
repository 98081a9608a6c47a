//! What is told of each event: tool calls as cards, what went wrong, and where the model's text goes.

use std::io;

use playhouse::protocol::entry::BlockStage;
use playhouse::protocol::{
    AgentEvent, Event, Message, StopReason, StreamDelta, ToolResult, is_stand_in, mask_patterns,
};
use playhouse::tools::summary;
use serde_json::Value;

use super::{Flow, View};
use crate::cli::terminal::cards;
use crate::cli::terminal::output::Detail;
use crate::cli::terminal::text::{Tint, cut, fitted, harmless, one_line, stderr_size};

/// How many refusals of one call are shown.
const MOST_REFUSED: usize = 3;

impl View {
    pub(super) fn tell(&mut self, event: &Event) -> io::Result<()> {
        match &event.event {
            // What a sub-agent says is for the agent that asked it, which gets it as the tool's result.
            AgentEvent::ModelRequestStart { .. }
            | AgentEvent::MessageUpdate { .. }
            | AgentEvent::MessageEnd { .. }
            | AgentEvent::AgentEnd { .. }
                if self.sub_agents.of(event).is_some() => {}
            AgentEvent::ModelRequestStart { .. } => self.wait_for("waiting for the model"),
            AgentEvent::MessageUpdate { message_id, delta } => match delta {
                // No model said it, and how the message ended is said when the run is over.
                StreamDelta::Text { delta } if is_stand_in(delta) => {}
                StreamDelta::Text { delta } => match self.flow {
                    Flow::Streams => {
                        if self.open.as_ref() != Some(message_id) {
                            self.show_thought();
                            self.open = Some(message_id.clone());
                            self.begin_text();
                        }
                        self.say(delta)?;
                    }
                    Flow::Held => self.wait_for("the model is writing"),
                },
                StreamDelta::Thinking { delta } => {
                    self.thought.push_str(delta);
                    self.wait_for("the model is thinking");
                }
                StreamDelta::ToolCallDelta { .. } => self.wait_for("waiting for the model"),
            },
            AgentEvent::MessageEnd { message_id, message } => match message.llm() {
                Some(Message::Assistant { stop_reason, .. }) => {
                    let streamed = self.open.take().is_some_and(|open| open == *message_id);
                    self.live.waits_no_more();
                    if *stop_reason == StopReason::Error {
                        self.thought.clear();
                    }
                    self.show_thought();
                    let text = message.llm().map(Message::words).unwrap_or_default();
                    let calls = message.llm().is_some_and(|message| message.tool_calls().next().is_some());
                    match (self.flow, stop_reason) {
                        (Flow::Streams, StopReason::Error) if streamed => self.strike()?,
                        (_, StopReason::Error) => {}
                        (Flow::Streams, _) => {
                            if !streamed {
                                self.begin_text();
                                self.say(&text)?;
                            }
                            self.end_line()?;
                        }
                        // Its calls are told of next.
                        (Flow::Held, _) if calls => {
                            self.narrate_held();
                            self.narrate(&text);
                        }
                        (
                            Flow::Held,
                            StopReason::Stop
                            | StopReason::Length
                            | StopReason::Refusal
                            | StopReason::ToolUse
                            | StopReason::Aborted,
                        ) => {
                            self.narrate_held();
                            self.held = Some(text);
                        }
                    }
                }
                Some(Message::User { .. } | Message::ToolResult { .. }) | None => {}
            },
            AgentEvent::AgentEnd { .. } => {
                self.live.is_over();
                self.clear();
                self.end_line()?;
                if self.progress {
                    let line = self.totals.line(self.sub_agents.count());
                    self.note(Tint::Dim, &line);
                }
            }
            AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args, .. } => {
                let line = summary(tool_name, args, &Ok(ToolResult::text("")));
                let line = format!("▸ {}", self.sub_agents.named(event, tool_call_id, tool_name, &line));
                if !self.is_live {
                    self.beside(event, Tint::Dim, &line);
                }
                let line = one_line(&format!("{}{line}", self.sub_agents.lead(event)));
                self.live.waits_no_more();
                self.live.begin(&event.agent_id, tool_call_id, line, args.clone());
            }
            AgentEvent::ToolExecutionEnd {
                tool_call_id, tool_name, result, summary, is_error, duration_ms, ..
            } => {
                let args = self.live.end(&event.agent_id, tool_call_id).map(|call| call.args).unwrap_or_default();
                // A call that did not begin has no line of its tool's.
                let is_named = summary.starts_with(tool_name.as_str());
                let line = if is_named { summary.clone() } else { format!("{tool_name}: {summary}") };
                let line = self.sub_agents.named(event, tool_call_id, tool_name, &line);
                let line = format!("{}• {line} {}", self.sub_agents.lead(event), seconds(*duration_ms));
                self.card(cards::tint(tool_name, result, *is_error), &one_line(&line));
                let is_own = self.sub_agents.of(event).is_none();
                if is_own && cards::text(result) != *summary && (self.is_live || self.output.detail() == Detail::All) {
                    for (tint, line) in cards::below(tool_name, &args, result, *is_error, self.output.detail()) {
                        self.card(tint, &line);
                    }
                }
                for line in refused(tool_name, result) {
                    self.beside(event, Tint::Red, &format!("  sandbox: {line}"));
                }
            }
            AgentEvent::ToolBlocked { tool_call_id, tool_name, stage, reason, .. } => {
                self.live.end(&event.agent_id, tool_call_id);
                let hint = match stage {
                    BlockStage::Approval if self.unattended => " (--permission yolo runs it without asking)",
                    BlockStage::Approval
                    | BlockStage::Lookup
                    | BlockStage::Schema
                    | BlockStage::Limit
                    | BlockStage::Plan
                    | BlockStage::Policy
                    | BlockStage::Safety
                    | BlockStage::Check
                    | BlockStage::Hook => "",
                };
                let reason = cut(&one_line(reason), 200);
                self.beside(event, Tint::Red, &format!("• {tool_name} did not run: {reason}{hint}"));
            }
            AgentEvent::PlanChangeQueued { tool_name, args, change, .. } => {
                let line = one_line(&summary(tool_name, args, &Ok(ToolResult::default())));
                self.beside(event, Tint::Dim, &format!("• planned as change {change}: {line}"));
            }
            AgentEvent::InputRejected { reason, .. } => {
                self.beside(event, Tint::Red, &format!("! rejected: {reason}"));
            }
            AgentEvent::PermissionRequired { .. } => {
                self.live.waits_no_more();
                self.questions += 1;
                self.clear();
            }
            AgentEvent::PermissionResolved { .. } => self.questions = self.questions.saturating_sub(1),
            AgentEvent::ProviderRetry { error, falls_back_on: Some(model), .. } => {
                self.beside(event, Tint::Red, &format!("! {}; asking {model} instead", shown_error(error)));
            }
            AgentEvent::ProviderRetry { error, delay_ms, falls_back_on: None, .. } => {
                self.beside(
                    event,
                    Tint::Red,
                    &format!("! {}; asking again in {}", shown_error(error), seconds(*delay_ms)),
                );
                self.wait_for("waiting to ask again");
            }
            AgentEvent::AgentRestarted { reason } => {
                self.live.forget(&event.agent_id);
                if self.sub_agents.of(event).is_none() && self.open.take().is_some() {
                    self.strike()?;
                }
                self.beside(event, Tint::Dim, &format!("! the agent goes on from its journal: {reason}"));
            }
            AgentEvent::Error { message } => self.beside(event, Tint::Red, &format!("! {message}")),
            AgentEvent::Lagged { missed, .. } => {
                self.note(Tint::Red, &format!("! the output is too slow: {missed} events are missing here"));
            }
            AgentEvent::AgentStart { .. }
            | AgentEvent::TurnStart { .. }
            | AgentEvent::TurnEnd { .. }
            | AgentEvent::MessageStart { .. }
            | AgentEvent::ToolExecutionUpdate { .. }
            | AgentEvent::ProgressMessage { .. }
            | AgentEvent::ModeChanged { .. }
            | AgentEvent::PlanResolved { .. }
            | AgentEvent::SubAgentStart { .. }
            | AgentEvent::SubAgentEnd { .. } => {}
        }
        Ok(())
    }

    /// A line beside the text, where the one who told it stands in the tree.
    fn beside(&mut self, event: &Event, tint: Tint, line: &str) {
        let lead = self.sub_agents.lead(event);
        self.note(tint, &format!("{lead}{line}"));
    }

    /// A line of a call, no longer than the screen is wide.
    fn card(&mut self, tint: Tint, line: &str) {
        if self.output.detail() == Detail::Quiet {
            return;
        }
        let columns = stderr_size().filter(|_| self.output.detail() != Detail::All).map(|(columns, _)| columns);
        let line = columns.map_or_else(|| line.to_owned(), |columns| fitted(line, columns.saturating_sub(1)));
        self.put_text(tint, &line);
    }

    /// What the model has thought: one line of it, or all.
    fn show_thought(&mut self) {
        let thought = std::mem::take(&mut self.thought);
        let lines: Vec<&str> = thought.lines().filter(|line| !line.trim().is_empty()).collect();
        match self.output.detail() {
            Detail::All => lines.iter().for_each(|line| self.card(Tint::Dim, &format!("∴ {}", harmless(line)))),
            Detail::Usual if self.is_live && !lines.is_empty() => {
                let more = if lines.len() > 1 { format!(" (+{} lines)", lines.len() - 1) } else { String::new() };
                let first = lines.first().map(|line| one_line(line)).unwrap_or_default();
                let room = stderr_size().map_or(80, |(columns, _)| columns).saturating_sub(more.len() + 4);
                self.card(Tint::Dim, &format!("∴ {}{more}", fitted(&first, room)));
            }
            Detail::Usual | Detail::Quiet => {}
        }
    }
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
}

/// What the sandbox refused a command, as its result says it; other tools' results may say what they like.
fn refused(tool_name: &str, result: &ToolResult) -> Vec<String> {
    let list = result.details.get("refused").and_then(Value::as_array).filter(|_| tool_name == "bash");
    let texts = list.into_iter().flatten().filter_map(|one| one.get("text")?.as_str().map(str::to_owned));
    let mut texts: Vec<String> = texts.collect();
    let more = texts.len().saturating_sub(MOST_REFUSED);
    if more > 0 {
        texts.truncate(MOST_REFUSED);
        texts.push(format!("… and {more} more"));
    }
    texts
}

/// A service's words, without what has the shape of a key.
fn shown_error(error: &impl std::fmt::Display) -> String {
    mask_patterns(&error.to_string()).into_owned()
}
