//! A model that plays a script: deterministic, offline, stateless.
//!
//! Two calls with the same request get the same answer, whatever happened between them: so it survives resume, retry
//! and compaction. It refuses what a real provider would refuse.

use std::path::Path;

use async_trait::async_trait;
use playhouse_protocol::transcript::{self, TranscriptEnd};
use playhouse_protocol::{Content, Message, ProviderError, StopReason, StreamConfig, StreamEvent, Usage};
use serde_json::Value;

use super::script::{Chosen, Failure, Reply, Script, ScriptError, Step};
use crate::provider::{StreamProvider, unix_ms};
use crate::sink::StreamSink;

/// What a call gets that is no turn and that no step is for.
const FIXED_TEXT: &str = "The script has no answer for this call.";

/// A provider that answers from a script.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    script: Script,
}

impl Scripted {
    /// A script from code.
    pub fn new(steps: impl Into<Vec<Step>>) -> Self {
        Self { script: Script { context_window: None, steps: steps.into() } }
    }

    /// A script from JSON.
    pub fn from_json(json: &str) -> Result<Self, ScriptError> {
        Ok(Self { script: Script::parse(json)? })
    }

    /// A script from a file. Blocks while it reads: call it where that is allowed.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let json = std::fs::read_to_string(path)
            .map_err(|error| ScriptError::Unreadable { path: shown.clone(), reason: error.to_string() })?;
        Self::from_json(&json).map_err(|error| ScriptError::InFile { path: shown, error: Box::new(error) })
    }

    /// Gives the model a context window, in tokens.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.script.context_window = Some(tokens);
        self
    }
}

#[async_trait]
impl StreamProvider for Scripted {
    fn provider_id(&self) -> &str {
        "scripted"
    }

    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        check(config)?;
        let prompt = prompt_tokens(config);
        if let Some(window) = self.script.context_window.filter(|window| prompt > *window) {
            let message = format!("about {prompt} tokens exceed the context window of {window}");
            return Err(ProviderError::ContextOverflow { message });
        }
        tx.push(StreamEvent::Start);
        match self.script.choose(config) {
            Chosen::Step(step) => play(step, config, prompt, tx).await,
            Chosen::Fixed => play(&Step::text(FIXED_TEXT), config, prompt, tx).await,
            Chosen::PastEnd { steps, wanted } => Err(ProviderError::Api {
                message: format!("the script has {steps} steps for this agent; step {wanted} was asked for"),
            }),
        }
    }
}

async fn play(step: &Step, config: &StreamConfig, prompt: u64, tx: &StreamSink) -> Result<Message, ProviderError> {
    let reply = &step.reply;
    let text = match &step.failure {
        None => reply.text.as_str(),
        Some(Failure::Error { status, retry_after, message }) => {
            let body = message.as_deref().unwrap_or("an error of the script");
            return Err(ProviderError::classify(*status, body, *retry_after));
        }
        Some(Failure::Cut { after }) => head(&reply.text, *after),
    };
    say(reply, &reply.thinking, tx, |delta| StreamEvent::ThinkingDelta { delta }).await;
    say(reply, text, tx, |delta| StreamEvent::TextDelta { delta }).await;
    if let Some(Failure::Cut { after }) = &step.failure {
        return Err(ProviderError::Incomplete { message: format!("the script cuts it after {after} characters") });
    }
    let mut content = Vec::new();
    if !reply.thinking.is_empty() {
        content.push(Content::Thinking { thinking: reply.thinking.clone(), signature: None });
    }
    if !reply.text.is_empty() {
        content.push(Content::text(reply.text.as_str()));
    }
    for (place, call) in reply.tool_calls.iter().enumerate() {
        let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{place}", config.response));
        tx.push(StreamEvent::ToolCallStart { id: id.as_str().into(), name: call.name.clone() });
        say(reply, &arguments_text(&call.arguments), tx, |delta| StreamEvent::ToolCallDelta { delta }).await;
        content.push(Content::ToolCall { id: id.into(), name: call.name.clone(), arguments: call.arguments.clone() });
    }
    let stop_reason = if reply.tool_calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
    Ok(Message::Assistant {
        content,
        stop_reason,
        model: config.model_config.id.clone(),
        provider: config.model_config.provider.clone(),
        usage: reply.usage.unwrap_or_else(|| estimate(reply, prompt)),
        timestamp: unix_ms(),
        error_message: None,
    })
}

/// Streams a text in the reply's pieces, with its pause after each.
async fn say(reply: &Reply, text: &str, tx: &StreamSink, event: impl Fn(String) -> StreamEvent) {
    let mut rest = text;
    while !rest.is_empty() {
        let piece = head(rest, reply.chunk.unwrap_or(usize::MAX));
        rest = rest.strip_prefix(piece).unwrap_or_default();
        tx.push(event(piece.to_owned()));
        if !reply.delay.is_zero() {
            tokio::time::sleep(reply.delay).await;
        }
    }
}

/// The first `chars` characters.
fn head(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text)
}

fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(raw) => raw.clone(),
        other => other.to_string(),
    }
}

/// Refuses what a real provider would refuse.
fn check(config: &StreamConfig) -> Result<(), ProviderError> {
    let refuse = |message: String| Err(ProviderError::Api { message });
    if let Err(error) = transcript::validate(config.sendable(), TranscriptEnd::Open) {
        return refuse(error.to_string());
    }
    let mut names: Vec<&str> = Vec::new();
    for tool in config.tools.iter() {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if tool.name.is_empty() || tool.name.chars().count() > 64 || !tool.name.chars().all(fits) {
            return refuse(format!("`{}` is no tool name: use 1 to 64 letters, digits, `_` or `-`", tool.name));
        }
        if names.contains(&tool.name.as_str()) {
            return refuse(format!("the tool `{}` is given twice", tool.name));
        }
        names.push(&tool.name);
    }
    let mut open: Vec<(&str, &str)> = Vec::new();
    for message in config.sendable() {
        match message {
            Message::User { .. } => {}
            Message::Assistant { .. } => {
                open = message.tool_calls().map(|(id, name, _)| (id.as_str(), name)).collect();
                if open.iter().any(|(_, name)| name.is_empty()) {
                    return refuse("a tool call has no name".to_owned());
                }
            }
            Message::ToolResult { tool_call_id, tool_name, .. } => {
                let asked = open.iter().find(|(id, _)| *id == tool_call_id.as_str());
                if let Some((id, name)) = asked.filter(|(_, name)| name != tool_name) {
                    return refuse(format!("tool call `{id}` is for `{name}` but `{tool_name}` answers it"));
                }
            }
        }
    }
    Ok(())
}

/// A deterministic estimate: four characters are a token.
fn tokens(chars: usize) -> u64 {
    u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX)
}

fn prompt_tokens(config: &StreamConfig) -> u64 {
    let messages: usize = config.sendable().flat_map(Message::content).map(content_chars).sum();
    tokens(config.system_prompt.chars().count() + messages)
}

fn content_chars(block: &Content) -> usize {
    match block {
        Content::Text { text } => text.chars().count(),
        Content::Thinking { thinking, .. } => thinking.chars().count(),
        Content::ToolCall { name, arguments, .. } => name.len() + arguments.to_string().chars().count(),
        // Services charge an image by its size in pixels; this is their order of magnitude.
        Content::Image { .. } => 4_000,
    }
}

fn estimate(reply: &Reply, prompt: u64) -> Usage {
    let calls: usize =
        reply.tool_calls.iter().map(|call| call.name.len() + arguments_text(&call.arguments).chars().count()).sum();
    Usage::of(prompt, tokens(reply.text.chars().count() + calls), 0, 0, tokens(reply.thinking.chars().count()))
}

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
