//! The request side of OpenAI Responses; pure but for a cache.
//!
//! A message is encoded once, see [`Transcripts`]: a turn encodes only what is new and copies the rest. Nothing in a
//! message's JSON depends on its neighbours or on the request. A message becomes any number of items, which have no ids
//! of their own: the service keeps none to look them up by.

use std::borrow::Cow;

use playhouse_protocol::compat::EffortField;
use playhouse_protocol::{
    Content, Message, ModelConfig, ProviderError, ReasoningSummary, ResponseFormat, StreamConfig, ThinkingLevel,
    ToolDefinition,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::thinking::{self, Asked};
use crate::wire::messages::Messages;
use crate::wire::names::{wire_id, wire_name};
use crate::wire::schema::{is_strict, parameters};
use crate::wire::transcripts::Transcripts;

/// The smallest limit of output tokens that the service takes.
const FEWEST_TOKENS: u32 = 16;
/// What stands for a tool's answer that says nothing.
const NO_OUTPUT: &str = "(no output)";

/// What a request holds beside its input.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    /// Models that do not reason refuse to be asked for sealed reasoning.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextOptions<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct TextOptions<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    name: Cow<'a, str>,
    schema: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
    strict: bool,
}

/// The body of a request. `provider` is whose reasoning is sent back.
pub(crate) fn encode_request(
    config: &StreamConfig,
    provider: &str,
    transcripts: &Transcripts,
) -> Result<Vec<u8>, ProviderError> {
    encode(config, provider, transcripts)
        .map_err(|error| ProviderError::Other { message: format!("the request could not be encoded: {error}") })
}

fn encode(config: &StreamConfig, provider: &str, transcripts: &Transcripts) -> Result<Vec<u8>, serde_json::Error> {
    let asked = thinking::asked(&config.model_config, EffortField::ReasoningEffort, config.thinking_level)
        .unwrap_or(Asked::Nothing);
    let reasoning = match (asked, config.thinking_level) {
        (Asked::Effort(effort), ThinkingLevel::Off) => Some(Reasoning { effort, summary: None }),
        (Asked::Effort(effort), _) => Some(Reasoning { effort, summary: summary(&config.model_config) }),
        (Asked::Nothing | Asked::Thinking(_) | Asked::EnableThinking(_) | Asked::PromptMode, _) => None,
    };
    let reasons = config.thinking_level != ThinkingLevel::Off && reasoning.is_some();
    let max_tokens = config.max_tokens.or(config.model_config.max_tokens);
    let head = Head {
        model: &config.model_config.id,
        instructions: &config.system_prompt,
        stream: true,
        store: false,
        max_output_tokens: max_tokens.map(|tokens| tokens.max(FEWEST_TOKENS)),
        temperature: config.temperature.filter(|_| !reasons),
        include: if reasons { &["reasoning.encrypted_content"] } else { &[] },
        reasoning,
        text: config.response_format.as_deref().map(|format| TextOptions { format: wire_format(format) }),
        tools: config.tools.iter().map(tool).collect(),
    };
    let mut start = serde_json::to_vec(&head)?;
    // The input is copied in as it is: `{…head…` + `,"input":[…]}`.
    start.pop();
    start.extend_from_slice(b",\"input\":[");
    let encode = |message: &Message, out: &mut Messages| encode_message(message, provider, out);
    transcripts.with(config, encode, |input| {
        let mut body = Vec::with_capacity(start.len() + input.len() + 2);
        body.extend_from_slice(&start);
        input.write_to(&mut body, None);
        body.extend_from_slice(b"]}");
        body
    })
}

/// The summary that is asked for.
fn summary(model: &ModelConfig) -> Option<&'static str> {
    match model.reasoning_summary.unwrap_or(ReasoningSummary::Auto) {
        ReasoningSummary::Auto => Some("auto"),
        ReasoningSummary::Concise => Some("concise"),
        ReasoningSummary::Detailed => Some("detailed"),
        ReasoningSummary::Unasked => None,
    }
}

fn wire_format(format: &ResponseFormat) -> Format<'_> {
    Format {
        r#type: "json_schema",
        name: wire_name(&format.name),
        schema: &format.schema,
        strict: is_strict(&format.schema),
    }
}

fn tool(definition: &ToolDefinition) -> Tool<'_> {
    Tool {
        r#type: "function",
        name: &definition.name,
        description: &definition.description,
        parameters: parameters(&definition.parameters),
        strict: false,
    }
}

/// How the model's messages ended, as far as they are sent back.
const COMPLETED: Option<&str> = Some("completed");

/// A part of the input.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        /// The model's messages have one; with nothing kept at the service it stands for nothing there.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
        content: Vec<Part<'a>>,
    },
    Reasoning {
        id: Cow<'a, str>,
        summary: Vec<Part<'a>>,
        encrypted_content: Cow<'a, str>,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
        status: &'static str,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: &'a str },
    InputImage { image_url: String, detail: &'static str },
    OutputText { text: &'a str, annotations: [(); 0] },
    SummaryText { text: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

/// What a block of reasoning came with.
#[derive(Deserialize)]
struct Seal<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    encrypted_content: Cow<'a, str>,
}

/// Who gave a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Author {
    /// This service, which can open the seals in it.
    Own,
    /// Another service: its seals are left out.
    Other,
}

fn encode_message(message: &Message, own: &str, out: &mut Messages) -> Result<(), serde_json::Error> {
    match message {
        Message::User { content, .. } => match input_parts(content) {
            none if none.is_empty() => Ok(()),
            content => out.item("user", &Item::Message { id: None, role: "user", status: None, content }),
        },
        Message::Assistant { content, provider, .. } => {
            let start = out.len();
            let author = if **provider == *own { Author::Own } else { Author::Other };
            let mut items: Vec<Item<'_>> =
                content.iter().enumerate().filter_map(|(at, block)| said(block, (start, at), author)).collect();
            // Reasoning goes only with what it led to: the service refuses it alone.
            while let Some(Item::Reasoning { .. }) = items.last() {
                items.pop();
            }
            items.iter().try_for_each(|item| out.item("assistant", item))
        }
        Message::ToolResult { tool_call_id, content, .. } => {
            let item = Item::FunctionCallOutput { call_id: wire_id(tool_call_id.as_str()), output: output(content) };
            out.item("tool", &item)
        }
    }
}

/// An id for what the model said: the same whenever the conversation is sent, and another for each block. `place` is where
/// the message begins in the input, and the block's number in it.
fn message_id((start, block): (usize, usize)) -> String {
    format!("msg_{start}_{block}")
}

/// What a block of the model's message is sent back as.
fn said(block: &Content, place: (usize, usize), author: Author) -> Option<Item<'_>> {
    match block {
        Content::Text { text } if text.is_empty() => None,
        Content::Text { text } => {
            let content = vec![Part::OutputText { text, annotations: [] }];
            Some(Item::Message { id: Some(message_id(place)), role: "assistant", status: COMPLETED, content })
        }
        Content::Thinking { thinking, signature } => {
            let Seal { id, encrypted_content } = match author {
                Author::Own => serde_json::from_str(signature.as_deref()?).ok()?,
                Author::Other => return None,
            };
            let summary = match thinking.as_str() {
                "" => Vec::new(),
                text => vec![Part::SummaryText { text }],
            };
            let sealed = !id.is_empty() && !encrypted_content.is_empty();
            sealed.then_some(Item::Reasoning { id, summary, encrypted_content })
        }
        Content::ToolCall { id, name, arguments } => Some(Item::FunctionCall {
            call_id: wire_id(id.as_str()),
            name: wire_name(name),
            arguments: match arguments {
                // The model's own text, which did not parse: it sees what it wrote.
                Value::String(raw) => Cow::Borrowed(raw),
                other => Cow::Owned(other.to_string()),
            },
            status: "completed",
        }),
        Content::Image { .. } => None,
    }
}

fn input_parts(content: &[Content]) -> Vec<Part<'_>> {
    content.iter().filter_map(input_part).collect()
}

fn input_part(block: &Content) -> Option<Part<'_>> {
    match block {
        Content::Text { text } => (!text.is_empty()).then_some(Part::InputText { text }),
        Content::Image { data, mime_type } => {
            Some(Part::InputImage { image_url: format!("data:{mime_type};base64,{data}"), detail: "auto" })
        }
        Content::Thinking { .. } | Content::ToolCall { .. } => None,
    }
}

/// A tool's answer: text goes as a string, images need parts.
fn output(content: &[Content]) -> Output<'_> {
    let parts = input_parts(content);
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            Part::InputText { text } => Some(*text),
            Part::InputImage { .. } | Part::OutputText { .. } | Part::SummaryText { .. } => None,
        })
        .collect();
    match texts.as_deref() {
        Some([]) => Output::Text(Cow::Borrowed(NO_OUTPUT)),
        Some([only]) => Output::Text(Cow::Borrowed(only)),
        Some(several) => Output::Text(Cow::Owned(several.join("\n"))),
        None => Output::Parts(parts),
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
