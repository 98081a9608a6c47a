//! The request side of Anthropic Messages: all of a request but its messages; pure.

use std::borrow::Cow;

use playhouse_protocol::{
    CacheStrategy, Message, ProviderError, ResponseFormat, StreamConfig, ThinkingLevel, ToolDefinition,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::generation::{Generation, Thinking, budget, effort, off};
use super::message::{self, begins_with_reasoning};
use crate::catalogue;
use crate::wire::messages::Insert;
use crate::wire::transcripts::Transcripts;

/// The output limit where none is set: the service has no default of its own.
const MAX_TOKENS: u32 = 8_192;
/// How a mark stands at the end of a block's JSON.
const MARK: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;
/// The longest name of the answer tool, but for what tells it from others of that name.
const NAME: usize = 64;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// An answer, as it is made.
    Answer,
    /// The number of tokens that asking would take.
    Count,
}

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<SystemText<'a>>,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ToolChoice {
    Auto,
    Any,
}

#[derive(Serialize)]
struct SystemText<'a> {
    r#type: &'static str,
    text: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum CacheControl {
    Ephemeral,
}

/// Where the marks go, of which the service takes four: one after each of these.
#[derive(Clone, Copy)]
struct Marks {
    system: Option<CacheControl>,
    tools: Option<CacheControl>,
    messages: Option<CacheControl>,
}

impl Marks {
    fn of(config: &StreamConfig) -> Self {
        let mark = |wanted: bool| wanted.then_some(CacheControl::Ephemeral);
        let (system, tools, messages) = match config.cache_config.strategy {
            _ if !config.cache_config.enabled => (false, false, false),
            CacheStrategy::Auto => (true, true, true),
            CacheStrategy::Disabled => (false, false, false),
            CacheStrategy::Manual { cache_system, cache_tools, cache_messages } => {
                (cache_system, cache_tools, cache_messages)
            }
        };
        Self { system: mark(system), tools: mark(tools), messages: mark(messages) }
    }
}

/// The body of a request. `own` is the provider whose seals are this service's.
pub(super) fn encode(
    ask: Ask,
    config: &StreamConfig,
    own: &str,
    transcripts: &Transcripts,
) -> Result<Vec<u8>, ProviderError> {
    written(ask, config, own, transcripts)
        .map_err(|error| ProviderError::Other { message: format!("the request could not be encoded: {error}") })
}

fn written(
    ask: Ask,
    config: &StreamConfig,
    own: &str,
    transcripts: &Transcripts,
) -> Result<Vec<u8>, serde_json::Error> {
    let marks = Marks::of(config);
    let mut start = serde_json::to_vec(&head(ask, config, own, marks))?;
    // The messages are copied in as they are: `{…head…` + `,"messages":[…]}`.
    start.pop();
    start.extend_from_slice(b",\"messages\":[");
    let encode = |message: &_, out: &mut _| message::encode(message, own, out);
    transcripts.with(config, encode, |messages| {
        let end = marks.messages.and_then(|_| messages.end_of(1));
        let mark = end.map(|end| Insert { at: end.saturating_sub(1), bytes: MARK });
        let mut body = Vec::with_capacity(start.len() + messages.len() + MARK.len() + 4);
        body.extend_from_slice(&start);
        messages.write_to(&mut body, mark);
        body.extend_from_slice(b"]}");
        body
    })
}

fn head<'a>(ask: Ask, config: &'a StreamConfig, own: &str, marks: Marks) -> Head<'a> {
    let generation = Generation::of(&config.model_config.id);
    let level = match generation {
        Generation::Budgets if !may_reason_now(config, own) => ThinkingLevel::Off,
        Generation::Budgets | Generation::Adaptive | Generation::AdaptiveUnsampled | Generation::Always => {
            config.thinking_level
        }
    };
    let thinking = match level {
        ThinkingLevel::Off => off(&config.model_config.id),
        ThinkingLevel::Minimal | ThinkingLevel::Low | ThinkingLevel::Medium | ThinkingLevel::High => {
            generation.thinking(level)
        }
    };
    let answer = config.response_format.as_deref().zip(answer_tool(config));
    let may_force = !generation.may_think(level);
    let tool_choice = answer.as_ref().map(|_| if may_force { ToolChoice::Any } else { ToolChoice::Auto });
    let reminder = answer.as_ref().filter(|_| !may_force).map(|(_, name)| reminder(name));
    let answering = ask == Ask::Answer;
    Head {
        model: &config.model_config.id,
        max_tokens: answering.then(|| max_tokens(config, level)),
        stream: answering.then_some(true),
        temperature: config.temperature.filter(|_| answering && generation.takes_temperature(level)),
        thinking,
        output_config: (thinking == Some(Thinking::Adaptive)).then(|| OutputConfig { effort: effort(level) }),
        tools: tools(&config.tools, answer, marks.tools),
        tool_choice,
        system: system(&config.system_prompt, reminder, marks.system),
    }
}

/// Whether the service takes a budget for reasoning here. It refuses one in the middle of a turn, while tools are being
/// called, that did not begin with its own reasoning: another model's turn, or one from before reasoning was asked for.
fn may_reason_now(config: &StreamConfig, own: &str) -> bool {
    let is_user = |message: &&Message| matches!(message, Message::User { .. });
    let mut turn = config.sendable().rev().skip_while(is_user).take_while(|message| !is_user(message)).peekable();
    match turn.peek() {
        Some(Message::ToolResult { .. }) => turn.last().is_some_and(|first| begins_with_reasoning(first, own)),
        Some(Message::User { .. } | Message::Assistant { .. }) | None => true,
    }
}

/// The output limit, of which reasoning is a part. It is raised, where it must be, until what was asked for, or the
/// default, is left beside the reasoning.
fn max_tokens(config: &StreamConfig, level: ThinkingLevel) -> u32 {
    let model = &config.model_config;
    let most = || catalogue::find("anthropic", &model.id).map_or(MAX_TOKENS, |known| known.max_output.min(MAX_TOKENS));
    let asked = config.max_tokens.or(model.max_tokens).unwrap_or_else(most).max(1);
    match budget(level) {
        None => asked,
        Some(budget) => asked.max(budget + asked.min(MAX_TOKENS)),
    }
}

/// The name of the tool whose call is the answer, where the answer must have a form: the form's, made one that no other
/// tool has.
pub(super) fn answer_tool(config: &StreamConfig) -> Option<String> {
    let format = config.response_format.as_deref()?;
    let mut name: String = crate::wire::names::wire_name(&format.name).chars().take(NAME).collect();
    while config.tools.iter().any(|tool| tool.name == name) {
        name.push('_');
    }
    Some(name)
}

/// What is said where the call of the answer tool cannot be forced.
fn reminder(name: &str) -> String {
    format!("Give the final answer by calling the tool `{name}`, never as plain text.")
}

fn tools<'a>(
    definitions: &'a [ToolDefinition],
    answer: Option<(&'a ResponseFormat, String)>,
    mark: Option<CacheControl>,
) -> Vec<Tool<'a>> {
    let mut tools: Vec<Tool<'a>> = definitions
        .iter()
        .map(|definition| Tool {
            name: Cow::Borrowed(&*definition.name),
            description: &definition.description,
            input_schema: object_schema(&definition.parameters),
            cache_control: None,
        })
        .collect();
    if let Some((format, name)) = answer {
        tools.push(Tool {
            name: Cow::Owned(name),
            description: "Gives the final answer. Call it once, when the answer is complete.",
            input_schema: object_schema(&format.schema),
            cache_control: None,
        });
    }
    if let Some(last) = tools.last_mut() {
        last.cache_control = mark;
    }
    tools
}

/// A schema that says it is an object's, which the service wants it to.
fn object_schema(schema: &Value) -> Cow<'_, Value> {
    match schema {
        Value::Object(fields) if !fields.contains_key("type") => {
            let mut fields = fields.clone();
            fields.insert("type".to_owned(), json!("object"));
            Cow::Owned(Value::Object(fields))
        }
        Value::Object(_) => Cow::Borrowed(schema),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Cow::Owned(json!({"type": "object"}))
        }
    }
}

fn system(prompt: &str, reminder: Option<String>, mark: Option<CacheControl>) -> Vec<SystemText<'_>> {
    let prompt = Some(prompt).filter(|prompt| !prompt.trim().is_empty()).map(Cow::Borrowed);
    let texts = prompt.into_iter().chain(reminder.map(Cow::Owned));
    let mut blocks: Vec<_> = texts.map(|text| SystemText { r#type: "text", text, cache_control: None }).collect();
    if let Some(last) = blocks.last_mut() {
        last.cache_control = mark;
    }
    blocks
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
