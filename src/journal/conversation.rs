//! A conversation for people.

use std::sync::Arc;

use playhouse_protocol::chain::chain;
use playhouse_protocol::{
    AgentMessage, Content, Entry, EntryBody, Message, MessageCount, Outcome, PermissionDecision, Seq,
};

use crate::text::{cut, harmless, one_line};

/// How much of a tool's result is shown; the rest is counted.
const RESULT_LINES: usize = 20;
const RESULT_CHARS: usize = 2_000;

/// The conversation as the journal tells it.
pub fn conversation(entries: &[(Seq, Arc<Entry>)]) -> String {
    let mut conversation = Conversation::default();
    chain(entries, None).map(|(_, entry)| conversation.tell(entry)).collect()
}

/// As [`conversation`], entry by entry along the journal's chain.
#[derive(Debug, Default)]
pub struct Conversation(MessageCount);

impl Conversation {
    /// What the next entry adds.
    pub fn tell(&mut self, entry: &Entry) -> String {
        let mut text = String::new();
        tell(&entry.body, self.0.apply(entry), &mut text);
        text
    }
}

/// `messages` is how many there are after it.
fn tell(body: &EntryBody, messages: usize, text: &mut String) {
    match body {
        EntryBody::Opened(opened) => {
            let (session, model) = (&opened.session_id, &opened.settings.model);
            let cwd = opened.settings.cwd.display();
            text.push_str(&format!("session {session}: {}/{} in {cwd}\n", model.provider, model.id));
            opened.messages.iter().for_each(|message| say(message, text));
        }
        EntryBody::Configured { settings, .. } => {
            text.push_str(&format!("\n[settings changed: {}/{}]\n", settings.model.provider, settings.model.id));
        }
        EntryBody::TurnStarted { placed, .. } => {
            placed.iter().flat_map(|input| &input.messages).for_each(|message| say(message, text));
        }
        EntryBody::Responded { message, .. } => say(message, text),
        EntryBody::ToolEnded { result, is_error, summary, .. } => {
            let mark = if *is_error { "failed" } else { "done" };
            text.push_str(&format!("\n[{}: {mark}]\n", one_line(summary)));
            quote(&result.content, text);
        }
        EntryBody::ToolBlocked { reason, .. } => text.push_str(&format!("\n[did not run: {}]\n", one_line(reason))),
        EntryBody::ToolSkipped { reason, .. } => text.push_str(&format!("\n[skipped: {}]\n", one_line(reason))),
        EntryBody::PermissionResolved { answer, .. } => text.push_str(&match &answer.decision {
            PermissionDecision::Allow => "\n[allowed]\n".to_owned(),
            PermissionDecision::AllowSession => "\n[allowed for the session]\n".to_owned(),
            PermissionDecision::AllowAlways => "\n[allowed from now on]\n".to_owned(),
            PermissionDecision::Deny { reason } => format!("\n[denied: {}]\n", one_line(reason)),
        }),
        EntryBody::ToolQueued { change, .. } => text.push_str(&format!("\n[planned as change {change}]\n")),
        EntryBody::PlanApproved { changes, .. } => {
            text.push_str(&format!("\n[approved: {}]\n", numbers(changes)));
        }
        EntryBody::PlanRejected { changes, message, .. } => {
            text.push_str(&format!("\n[rejected: {}]\n", numbers(changes)));
            say(message, text);
        }
        EntryBody::AttemptFailed { error, .. } => text.push_str(&format!("\n[{}]\n", one_line(&error.to_string()))),
        EntryBody::LoopEnded { outcome, placed, note, .. } => {
            placed.iter().flat_map(|input| &input.messages).for_each(|message| say(message, text));
            note.iter().for_each(|message| say(message, text));
            if let Some(how) = how_it_ended(outcome) {
                text.push_str(&format!("\n[{}]\n", one_line(&how)));
            }
        }
        EntryBody::Recovered { reason, .. } => {
            text.push_str(&format!("\n[went on from the journal: {}]\n", one_line(reason)))
        }
        EntryBody::Parked { reason } => text.push_str(&format!("\n[parked: {}]\n", one_line(reason))),
        EntryBody::Head { .. } => text.push_str(&format!("\n[back to message {messages}]\n")),
        EntryBody::Reset { .. } => text.push_str("\n[the conversation was cleared]\n"),
        EntryBody::Restored { messages, .. } => {
            text.push_str("\n[the conversation was replaced]\n");
            messages.iter().for_each(|message| say(message, text));
        }
        EntryBody::RotatedTo { session } => text.push_str(&format!("\n[goes on in session {session}]\n")),
        EntryBody::ToolHooked { tool_call_id, args: Some(args), .. } => {
            text.push_str(&format!("[a hook changed the arguments of {tool_call_id}: {args}]\n"));
        }
        EntryBody::ToolAnswered { note: Some(note), .. } => {
            text.push_str(&format!("[a hook added: {}]\n", one_line(note)));
        }
        EntryBody::Input(_)
        | EntryBody::ContinueAsked { .. }
        | EntryBody::LoopStarted { .. }
        | EntryBody::InputRejected { .. }
        | EntryBody::Requested { .. }
        | EntryBody::PermissionAsked { .. }
        | EntryBody::ToolStarted { .. }
        | EntryBody::ToolAnswered { note: None, .. }
        | EntryBody::ToolHooked { args: None, .. }
        | EntryBody::HaltAsked { .. }
        | EntryBody::StopRefused { .. }
        | EntryBody::TurnEnded { .. }
        | EntryBody::AbortAsked { .. }
        | EntryBody::LimitReached { .. }
        | EntryBody::LoopClosed => {}
    }
}

fn numbers(changes: &[u32]) -> String {
    let numbers: Vec<String> = changes.iter().map(|change| format!("change {change}")).collect();
    numbers.join(", ")
}

fn how_it_ended(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Stop => None,
        Outcome::Length => Some("cut off by the model's output limit".to_owned()),
        Outcome::Error { message } => Some(format!("failed: {message}")),
        Outcome::Aborted => Some("aborted".to_owned()),
        Outcome::Limit { limit } => Some(format!("stopped: {limit}")),
        Outcome::Rejected { reason } => Some(format!("rejected: {reason}")),
        Outcome::Halted { reason } => Some(format!("halted: {reason}")),
    }
}

fn say(message: &AgentMessage, text: &mut String) {
    let role = match message.llm() {
        Some(Message::User { .. }) => "user",
        Some(Message::Assistant { .. }) => "assistant",
        Some(Message::ToolResult { .. }) => "tool",
        None => return,
    };
    let Some(message) = message.llm() else { return };
    text.push_str(&format!("\n{role}:\n"));
    for block in message.content() {
        match block {
            Content::Text { text: said } => {
                text.push_str(harmless(said).trim_end());
                text.push('\n');
            }
            Content::Image { mime_type, .. } => text.push_str(&format!("({})\n", one_line(mime_type))),
            Content::Thinking { .. } => {}
            Content::ToolCall { name, arguments, .. } => {
                text.push_str(&format!("→ {} {}\n", one_line(name), cut(&one_line(&arguments.to_string()), 200)));
            }
        }
    }
}

fn quote(content: &[Content], text: &mut String) {
    let said: Vec<&str> = content
        .iter()
        .filter_map(|block| match block {
            Content::Text { text } => Some(text.as_str()),
            Content::Image { .. } | Content::Thinking { .. } | Content::ToolCall { .. } => None,
        })
        .collect();
    let said = harmless(&said.join("\n"));
    let shown = cut(&said, RESULT_CHARS);
    let lines: Vec<&str> = shown.trim_end().lines().collect();
    for line in lines.iter().take(RESULT_LINES) {
        text.push_str(&format!("  {line}\n"));
    }
    if lines.len() > RESULT_LINES {
        text.push_str(&format!("  … {} more lines\n", said.trim_end().lines().count() - RESULT_LINES));
    }
}
