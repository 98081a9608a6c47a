//! The request side of Bedrock's Converse; pure but for a cache.
//!
//! A message is encoded once, see [`Transcripts`]. Nothing in a message's JSON depends on its neighbours or on the
//! request; only a cache point is put between them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use playhouse_protocol::{CacheStrategy, Content, Message, ProviderError, StreamConfig, ThinkingLevel};
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::AnswerTool;
use super::blocks::{Block, Outcome, image};
use super::family::{Family, Points, Thinking};
use crate::wire::messages::{Insert, Mark, Messages};
use crate::wire::names::{wire_id, wire_name};
use crate::wire::transcripts::Transcripts;

/// A cache point among blocks.
const CACHE_POINT: &[u8] = b",{\"cachePoint\":{\"type\":\"default\"}}";
/// What a modern Claude may say when nothing else is set: enough for a whole file.
const CLAUDE_MAX_TOKENS: u32 = 8_192;

/// What a request holds beside its messages.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Marked<SystemText<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_config: Option<InferenceConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_model_request_fields: Option<Value>,
}

#[derive(Serialize)]
struct SystemText<'a> {
    text: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    tools: Vec<Marked<Tool<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    tool_spec: ToolSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: String,
    description: Cow<'a, str>,
    input_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: Cow<'a, Value>,
}

/// A member of a list, or a cache point after those before it.
#[derive(Serialize)]
#[serde(untagged)]
enum Marked<T> {
    Member(T),
    #[serde(rename_all = "camelCase")]
    Point {
        cache_point: Point,
    },
}

#[derive(Serialize)]
struct Point {
    r#type: &'static str,
}

impl<T> Marked<T> {
    fn point() -> Self {
        Self::Point { cache_point: Point { r#type: "default" } }
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Answer,
    /// The number of its tokens.
    Count,
}

/// The body of a request to the connection of this name.
pub(super) fn encode_request(
    provider: &str,
    config: &StreamConfig,
    transcripts: &Transcripts,
    ask: Ask,
) -> Result<Vec<u8>, ProviderError> {
    encode(provider, config, transcripts, ask)
        .map_err(|error| ProviderError::Other { message: format!("the request could not be encoded: {error}") })
}

fn encode(
    provider: &str,
    config: &StreamConfig,
    transcripts: &Transcripts,
    ask: Ask,
) -> Result<Vec<u8>, serde_json::Error> {
    let points = match ask {
        Ask::Answer => points(config),
        Ask::Count => Points::default(),
    };
    let mut start: Vec<u8> = match ask {
        Ask::Answer => Vec::new(),
        Ask::Count => b"{\"input\":{\"converse\":".to_vec(),
    };
    serde_json::to_writer(&mut start, &head(provider, config, points, ask))?;
    // The messages are copied in as they are: `{…head…` + `,"messages":[…]}`.
    start.pop();
    if !start.ends_with(b"{") {
        start.push(b',');
    }
    start.extend_from_slice(b"\"messages\":[");
    transcripts.with(
        config,
        |message, out| encode_message(provider, message, out),
        |messages| {
            let mut body = Vec::with_capacity(start.len() + messages.len() + CACHE_POINT.len() + 6);
            body.extend_from_slice(&start);
            let at = if points.messages { messages.end_of(1) } else { None };
            messages.write_to(&mut body, at.map(|at| Insert { at, bytes: CACHE_POINT }));
            body.extend_from_slice(match ask {
                Ask::Answer => b"]}",
                Ask::Count => b"]}}}",
            });
            body
        },
    )
}

/// Where cache points go: where the model takes them and the user wants them.
fn points(config: &StreamConfig) -> Points {
    let known = Family::of(&config.model_config.id).points();
    match config.cache_config.strategy {
        _ if !config.cache_config.enabled => Points::default(),
        CacheStrategy::Disabled => Points::default(),
        CacheStrategy::Auto => known,
        CacheStrategy::Manual { cache_system, cache_tools, cache_messages } => Points {
            system: known.system && cache_system,
            tools: known.tools && cache_tools,
            messages: known.messages && cache_messages,
        },
    }
}

fn head<'a>(provider: &str, config: &'a StreamConfig, points: Points, ask: Ask) -> Head<'a> {
    let family = Family::of(&config.model_config.id);
    let answer = AnswerTool::of(config);
    let thought = thought(provider, config, family);
    // A model that thinks cannot be made to call a tool, only told to.
    let may_think = thought.is_some() || family == Family::AdaptiveClaude;
    let forced = answer.is_some() && !may_think && family.takes_tool_choice();
    let told = answer.as_ref().filter(|_| !forced);

    let mut system = Vec::new();
    if !config.system_prompt.trim().is_empty() {
        system.push(Marked::Member(SystemText { text: Cow::Borrowed(config.system_prompt.as_ref()) }));
    }
    if let Some(answer) = told {
        system.push(Marked::Member(SystemText { text: Cow::Owned(answer.instruction()) }));
    }
    if points.system && !system.is_empty() {
        system.push(Marked::point());
    }

    let mut tools = tools(config, answer.as_ref());
    if points.tools && !tools.is_empty() {
        tools.push(Marked::point());
    }
    let tool_choice = forced.then(|| json!({"any": {}}));
    let tool_config = (!tools.is_empty()).then_some(ToolConfig { tools, tool_choice });

    let asked = config.max_tokens.or(config.model_config.max_tokens);
    let max_tokens = match (asked, thought) {
        (None, None) => (family.thinking() != Thinking::None).then_some(CLAUDE_MAX_TOKENS),
        (Some(asked), None | Some(Thought { how: How::Effort(_), .. })) => Some(asked),
        (None, Some(Thought { tokens, how: How::Effort(_) })) => Some(CLAUDE_MAX_TOKENS.saturating_add(tokens)),
        // The budget is a part of the limit, and must be less than it.
        (asked, Some(Thought { tokens, how: How::Budget })) => match asked.unwrap_or(CLAUDE_MAX_TOKENS) {
            enough if enough > tokens => Some(enough),
            room => Some(room.max(1).saturating_add(tokens)),
        },
    };
    // A model that thinks takes no temperature; one that thinks as it sees fit never does.
    let temperature = config.temperature.filter(|_| thought.is_none() && family.thinking() != Thinking::Effort);
    let limits = InferenceConfig { max_tokens, temperature };
    Head {
        system,
        inference_config: (ask == Ask::Answer && (max_tokens.is_some() || temperature.is_some())).then_some(limits),
        tool_config,
        additional_model_request_fields: thought.filter(|_| ask == Ask::Answer).map(|thought| match thought.how {
            How::Budget => json!({"thinking": {"type": "enabled", "budget_tokens": thought.tokens}}),
            How::Effort(effort) => json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}),
        }),
    }
}

/// How the model is to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thought {
    /// What it is to take for it.
    tokens: u32,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Budget,
    Effort(&'static str),
}

fn thought(provider: &str, config: &StreamConfig, family: Family) -> Option<Thought> {
    let (tokens, effort) = match config.thinking_level {
        ThinkingLevel::Off => return None,
        ThinkingLevel::Minimal => (1_024, "low"),
        ThinkingLevel::Low => (2_048, "low"),
        ThinkingLevel::Medium => (8_192, "medium"),
        ThinkingLevel::High => (16_384, "high"),
    };
    match family.thinking() {
        Thinking::Budget => may_think(provider, config).then_some(Thought { tokens, how: How::Budget }),
        Thinking::Effort => Some(Thought { tokens, how: How::Effort(effort) }),
        Thinking::None => None,
    }
}

/// Whether a model with a budget may think now. In the middle of a round of tools it may only go on: the message that made the
/// calls must begin with reasoning of its own, or the service refuses the request.
fn may_think(provider: &str, config: &StreamConfig) -> bool {
    for message in config.sendable().rev() {
        match message {
            Message::User { .. } | Message::ToolResult { .. } => {}
            Message::Assistant { content, provider: from, .. } => {
                let calls = message.tool_calls().next().is_some();
                let mut sent = content.iter().filter_map(|block| assistant_block(block, **from == *provider));
                return !calls || matches!(sent.next(), Some((Block::ReasoningContent(_), _)));
            }
        }
    }
    true
}

fn tools<'a>(config: &'a StreamConfig, answer: Option<&AnswerTool>) -> Vec<Marked<Tool<'a>>> {
    let mut names = BTreeSet::new();
    let mut tools = Vec::new();
    for tool in config.tools.iter() {
        let name = wire_name(&tool.name).into_owned();
        if names.insert(name.clone()) {
            let open = || Cow::Owned(json!({"type": "object", "properties": {}}));
            let schema = if tool.parameters.is_object() { Cow::Borrowed(&tool.parameters) } else { open() };
            tools.push(spec(name, Cow::Borrowed(&tool.description), schema));
        }
    }
    if let Some(answer) = answer {
        let description = "Gives the final answer.".into();
        tools.push(spec(answer.name.clone(), description, answer.schema(config)));
    }
    if tools.is_empty() {
        // The service takes calls in the conversation only if their tools are declared.
        let called: BTreeSet<String> =
            config.sendable().flat_map(Message::tool_calls).map(|(_, name, _)| wire_name(name).into_owned()).collect();
        let open = || Cow::Owned(json!({"type": "object"}));
        let description = "Used before; not to be called any more.";
        tools.extend(called.into_iter().map(|name| spec(name, description.into(), open())));
    }
    tools
}

/// A tool. Its description may not be blank.
fn spec<'a>(name: String, description: Cow<'a, str>, schema: Cow<'a, Value>) -> Marked<Tool<'a>> {
    let description = if description.trim().is_empty() { Cow::Owned(name.clone()) } else { description };
    Marked::Member(Tool { tool_spec: ToolSpec { name, description, input_schema: Schema { json: schema } } })
}

fn encode_message(provider: &str, message: &Message, out: &mut Messages) -> Result<(), serde_json::Error> {
    match message {
        Message::User { content, .. } => {
            let blocks: Vec<Block<'_>> = content.iter().filter_map(shown_block).collect();
            if blocks.is_empty() {
                // Left out, the model would be asked to go on with its own words.
                return out.block("user", "content", &Block::Text("(no text)".into()), Mark::May);
            }
            blocks.iter().try_for_each(|block| out.block("user", "content", block, Mark::May))
        }
        Message::Assistant { content, provider: from, .. } => {
            let mut blocks: Vec<(Block<'_>, Mark)> =
                content.iter().filter_map(|block| assistant_block(block, **from == *provider)).collect();
            // The service refuses a message that ends in reasoning, which alone takes no mark.
            let whole = blocks.iter().rposition(|(_, mark)| *mark == Mark::May).map_or(0, |last| last + 1);
            blocks.truncate(whole);
            blocks.iter().try_for_each(|(block, mark)| out.block("assistant", "content", block, *mark))
        }
        Message::ToolResult { tool_call_id, content, is_error, .. } => {
            let mut shown: Vec<Block<'_>> = content.iter().filter_map(shown_block).collect();
            if shown.is_empty() {
                shown.push(Block::Text("(no output)".into()));
            }
            // Not every model takes a status: it is said only where it says something.
            let status = is_error.then_some("error");
            let result = Outcome { tool_use_id: wire_id(tool_call_id.as_str()), content: shown, status };
            out.block("user", "content", &Block::ToolResult(result), Mark::May)
        }
    }
}

/// Text that is not blank, or an image.
fn shown_block(block: &Content) -> Option<Block<'_>> {
    match block {
        Content::Text { text } => (!text.trim().is_empty()).then_some(Block::Text(text.into())),
        Content::Image { data, mime_type } => Some(image(data, mime_type)),
        Content::Thinking { .. } | Content::ToolCall { .. } => None,
    }
}

/// A block of the model's as it is sent back; `own` says whether it came from here. Reasoning goes back only under the
/// seal it came with, and takes no cache point.
fn assistant_block(block: &Content, own: bool) -> Option<(Block<'_>, Mark)> {
    match block {
        Content::Text { .. } => Some((shown_block(block)?, Mark::May)),
        Content::Image { .. } => None,
        Content::Thinking { thinking, signature } => {
            let seal = signature.as_deref().filter(|seal| own && !seal.is_empty())?;
            Some((Block::reasoning(thinking, seal), Mark::Never))
        }
        Content::ToolCall { id, name, arguments } => {
            Some((Block::call(wire_id(id.as_str()), wire_name(name).into_owned(), arguments), Mark::May))
        }
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
