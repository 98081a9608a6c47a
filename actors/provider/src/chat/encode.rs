//! The request side of OpenAI chat completions; pure but for a cache.
//!
//! A message is encoded once, see [`Transcripts`]: a turn encodes only what is new and copies the rest. A message's JSON
//! depends on the message, on the service, and on the role of the one before; on nothing else of the request.

use std::borrow::Cow;

use playhouse_protocol::compat::{
    AfterToolResults, CallArguments, CallIds, EffortField, MaxTokensField, ReasoningField, ReplayReasoning, Store,
    Structured, SystemRole, ToolSupport, UsageInStream,
};
use playhouse_protocol::{Content, Message, ProviderError, StreamConfig, ToolDefinition};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::structured::{Format, answer_tool};
use super::{Dialect, details};
use crate::thinking::{self, Asked, Switch};
use crate::wire::messages::{Mark, Messages};
use crate::wire::names::{nine_id, wire_id_if, wire_name};
use crate::wire::schema::parameters;
use crate::wire::transcripts::Transcripts;

/// What a request holds beside its messages.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_thinking: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_obfuscation: Option<bool>,
}

/// Reasoning on or off, where a service has a switch for it.
#[derive(Serialize)]
struct Thinking {
    r#type: &'static str,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Cow<'a, Value>>,
}

/// The body of a request.
pub(crate) fn encode_request(
    dialect: &Dialect,
    config: &StreamConfig,
    transcripts: &Transcripts,
) -> Result<Vec<u8>, ProviderError> {
    encode(dialect, config, transcripts)
        .map_err(|error| ProviderError::Other { message: format!("the request could not be encoded: {error}") })
}

fn encode(dialect: &Dialect, config: &StreamConfig, transcripts: &Transcripts) -> Result<Vec<u8>, serde_json::Error> {
    let answer = answer_tool(config, &dialect.compat);
    let mut start = serde_json::to_vec(&head(dialect, config, answer.as_deref()))?;
    // The messages are copied in as they are: `{…head…` + `,"messages":[…]}`.
    start.pop();
    start.extend_from_slice(b",\"messages\":[");
    match config.system_prompt.as_ref() {
        "" => {}
        content => {
            let message = match dialect.compat.system_role {
                SystemRole::System => WireMessage::System { content },
                SystemRole::Developer => WireMessage::Developer { content },
            };
            serde_json::to_writer(&mut start, &message)?;
            start.push(b',');
        }
    }
    let encode = |message: &Message, out: &mut Messages| encode_message(dialect, message, out);
    transcripts.with(config, encode, |messages| {
        if messages.is_empty() && start.ends_with(b",") {
            start.pop();
        }
        let mut body = Vec::with_capacity(start.len() + messages.len() + 2);
        body.extend_from_slice(&start);
        messages.write_to(&mut body, None);
        body.extend_from_slice(b"]}");
        body
    })
}

/// `answer` is the name of the tool by which the answer is given, if it is given by one.
fn head<'a>(dialect: &Dialect, config: &'a StreamConfig, answer: Option<&'a str>) -> Head<'a> {
    let compat = &dialect.compat;
    let limit = config.max_tokens.or(config.model_config.max_tokens);
    let asked =
        thinking::asked(&config.model_config, compat.reasoning_effort, config.thinking_level).unwrap_or(Asked::Nothing);
    let effort = match asked {
        Asked::Effort(word) => Some(word),
        Asked::Nothing | Asked::Thinking(_) | Asked::EnableThinking(_) | Asked::PromptMode => None,
    };
    let format = config.response_format.as_deref();
    let mut tools: Vec<Tool<'_>> = match compat.tools {
        ToolSupport::Taken => config.tools.iter().map(tool).collect(),
        ToolSupport::NotTaken => Vec::new(),
    };
    if let Some((name, format)) = answer.zip(format) {
        let description = "Gives the final answer. Call it once, when the answer is ready.";
        let function = Function { name, description, parameters: Some(Cow::Borrowed(&format.schema)) };
        tools.push(Tool { r#type: "function", function });
    }
    Head {
        model: &config.model_config.id,
        stream: true,
        stream_options: match compat.usage {
            UsageInStream::Asked => Some(StreamOptions { include_usage: true, include_obfuscation: None }),
            UsageInStream::AskedUnpadded => {
                Some(StreamOptions { include_usage: true, include_obfuscation: Some(false) })
            }
            UsageInStream::NotAsked => None,
        },
        max_completion_tokens: limit.filter(|_| compat.max_tokens_field == MaxTokensField::MaxCompletionTokens),
        max_tokens: limit.filter(|_| compat.max_tokens_field == MaxTokensField::MaxTokens),
        temperature: config.temperature,
        reasoning_effort: effort.filter(|_| compat.reasoning_effort != EffortField::Reasoning),
        reasoning: effort
            .filter(|_| compat.reasoning_effort == EffortField::Reasoning)
            .map(|effort| Reasoning { effort }),
        thinking: match asked {
            Asked::Thinking(Switch::On) => Some(Thinking { r#type: "enabled" }),
            Asked::Thinking(Switch::Off) => Some(Thinking { r#type: "disabled" }),
            Asked::Nothing | Asked::Effort(_) | Asked::EnableThinking(_) | Asked::PromptMode => None,
        },
        enable_thinking: match asked {
            Asked::EnableThinking(budget) => Some(budget.is_some()),
            Asked::Nothing | Asked::Effort(_) | Asked::Thinking(_) | Asked::PromptMode => None,
        },
        thinking_budget: match asked {
            Asked::EnableThinking(budget) => budget,
            Asked::Nothing | Asked::Effort(_) | Asked::Thinking(_) | Asked::PromptMode => None,
        },
        prompt_mode: (asked == Asked::PromptMode).then_some("reasoning"),
        store: match compat.store {
            Store::Unsaid => None,
            Store::No => Some(false),
        },
        tools,
        tool_choice: answer.map(|_| "required"),
        response_format: match compat.structured {
            Structured::JsonSchema => format.map(Format::of),
            Structured::ForcedTool => None,
        },
    }
}

fn tool(definition: &ToolDefinition) -> Tool<'_> {
    Tool {
        r#type: "function",
        function: Function {
            name: &definition.name,
            description: &definition.description,
            parameters: (!definition.parameters.is_null()).then(|| parameters(&definition.parameters)),
        },
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    Developer {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        content: Option<Cow<'a, str>>,
        #[serde(flatten)]
        reasoning: Replayed<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

/// Reasoning that goes back to the model.
#[derive(Default, Serialize)]
struct Replayed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: WireFunction,
}

#[derive(Serialize)]
struct WireFunction {
    name: String,
    arguments: String,
}

fn encode_message(dialect: &Dialect, message: &Message, out: &mut Messages) -> Result<(), serde_json::Error> {
    match dialect.compat.tools {
        ToolSupport::NotTaken => return encode_in_words(message, out),
        ToolSupport::Taken => {}
    }
    match message {
        Message::User { content, .. } => {
            if let Some(between) = after_tool_results(dialect).filter(|_| out.last_role() == Some("tool")) {
                out.item("assistant", &between)?;
            }
            out.item("user", &WireMessage::User { content: user_content(content) })
        }
        Message::Assistant { content, .. } => {
            let text = assistant_text(message);
            let tool_calls: Vec<WireCall<'_>> = content.iter().filter_map(|block| wire_call(dialect, block)).collect();
            if text.is_empty() && tool_calls.is_empty() {
                return Ok(());
            }
            let with_tools = !tool_calls.is_empty() || out.last_role() == Some("tool");
            let reasoning = match dialect.compat.replay_reasoning {
                ReplayReasoning::Always => replayed(dialect, message),
                ReplayReasoning::WithTools if with_tools => replayed(dialect, message),
                ReplayReasoning::WithTools | ReplayReasoning::Never => Replayed::default(),
            };
            let content = (!text.is_empty()).then_some(text);
            out.item("assistant", &WireMessage::Assistant { content, reasoning, tool_calls })
        }
        Message::ToolResult { tool_call_id, content, .. } => {
            let tool_call_id = call_id(dialect, tool_call_id.as_str());
            out.item("tool", &WireMessage::Tool { tool_call_id, content: result_text(content) })
        }
    }
}

/// A message for a service that takes no tools: calls and results are told in words. Such services want the user and the
/// model to take turns, so what one side says in a row is one message.
fn encode_in_words(message: &Message, out: &mut Messages) -> Result<(), serde_json::Error> {
    let role = match message {
        Message::User { .. } | Message::ToolResult { .. } => "user",
        Message::Assistant { .. } => "assistant",
    };
    if let Message::ToolResult { tool_name, content, .. } = message {
        let text = format!("[{tool_name} gave]\n{}", result_text(content));
        return out.block(role, "content", &Part::Text { text: &text }, Mark::Never);
    }
    for block in message.content() {
        let text = match block {
            Content::Text { text } if text.is_empty() => continue,
            Content::Text { text } => Cow::Borrowed(text.as_str()),
            Content::ToolCall { name, arguments, .. } => Cow::Owned(format!("[called {name} with {arguments}]")),
            Content::Image { data, mime_type } => {
                let url = format!("data:{mime_type};base64,{data}");
                out.block(role, "content", &Part::ImageUrl { image_url: ImageUrl { url } }, Mark::Never)?;
                continue;
            }
            Content::Thinking { .. } => continue,
        };
        out.block(role, "content", &Part::Text { text: &text }, Mark::Never)?;
    }
    Ok(())
}

/// What the model is made to say between the results of tools and the user's next words.
fn after_tool_results(dialect: &Dialect) -> Option<WireMessage<'static>> {
    let text = match dialect.compat.after_tool_results {
        AfterToolResults::Nothing => return None,
        AfterToolResults::EmptyAssistant => "",
        AfterToolResults::ShortAssistant => "I have the results.",
    };
    let content = Some(Cow::Borrowed(text));
    Some(WireMessage::Assistant { content, reasoning: Replayed::default(), tool_calls: Vec::new() })
}

/// The reasoning of a message, if this service gave it.
fn replayed<'a>(dialect: &Dialect, message: &'a Message) -> Replayed<'a> {
    let own = match message {
        Message::Assistant { content, provider, .. } if *provider == dialect.provider => content.as_slice(),
        Message::Assistant { .. } | Message::User { .. } | Message::ToolResult { .. } => &[],
    };
    let thoughts = own.iter().filter_map(|block| match block {
        Content::Thinking { thinking, signature } => Some((thinking.as_str(), signature.as_deref())),
        Content::Text { .. } | Content::Image { .. } | Content::ToolCall { .. } => None,
    });
    let text = || join(thoughts.clone().map(|(text, _)| Cow::Borrowed(text)).filter(|text| !text.is_empty()).collect());
    match dialect.compat.reasoning_field {
        // A service that wants its reasoning back refuses messages without the field, those of others too.
        ReasoningField::ReasoningContent => Replayed { reasoning_content: Some(text()), ..Replayed::default() },
        ReasoningField::Reasoning => {
            Replayed { reasoning: Some(text()).filter(|text| !text.is_empty()), ..Replayed::default() }
        }
        ReasoningField::ReasoningDetails => {
            let reasoning_details = thoughts.filter_map(|(_, seal)| seal).flat_map(details::blocks).collect();
            Replayed { reasoning_details, ..Replayed::default() }
        }
    }
}

fn assistant_text(message: &Message) -> Cow<'_, str> {
    let mut texts = message.content().iter().filter_map(|block| match block {
        Content::Text { text } => Some(text.as_str()),
        Content::Image { .. } | Content::Thinking { .. } | Content::ToolCall { .. } => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => Cow::Borrowed(only),
        (Some(_), Some(_)) => Cow::Owned(message.text()),
    }
}

/// Plain text goes as a string, which every compatible service takes; images need parts.
fn user_content(content: &[Content]) -> UserContent<'_> {
    let parts: Vec<Part<'_>> = content
        .iter()
        .filter_map(|block| match block {
            Content::Text { text } => (!text.is_empty()).then_some(Part::Text { text }),
            Content::Image { data, mime_type } => {
                Some(Part::ImageUrl { image_url: ImageUrl { url: format!("data:{mime_type};base64,{data}") } })
            }
            Content::Thinking { .. } | Content::ToolCall { .. } => None,
        })
        .collect();
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => Some(*text),
            Part::ImageUrl { .. } => None,
        })
        .collect();
    match texts {
        Some(texts) => UserContent::Text(join(texts.into_iter().map(Cow::Borrowed).collect())),
        None => UserContent::Parts(parts),
    }
}

fn wire_call<'a>(dialect: &Dialect, block: &'a Content) -> Option<WireCall<'a>> {
    match block {
        Content::ToolCall { id, name, arguments } => Some(WireCall {
            id: call_id(dialect, id.as_str()),
            r#type: "function",
            function: WireFunction {
                name: wire_name(name).into_owned(),
                arguments: match (arguments, dialect.compat.call_arguments) {
                    // The model's own text, which did not parse: it sees what it wrote.
                    (Value::String(raw), CallArguments::AsWritten) => raw.clone(),
                    (Value::String(raw), CallArguments::AlwaysObject) => json!({"_unparsed": raw}).to_string(),
                    (other, CallArguments::AsWritten | CallArguments::AlwaysObject) => other.to_string(),
                },
            },
        }),
        Content::Text { .. } | Content::Image { .. } | Content::Thinking { .. } => None,
    }
}

/// A call's id as the service takes it back. OpenAI refuses those of more than 40 characters.
fn call_id<'a>(dialect: &Dialect, id: &'a str) -> Cow<'a, str> {
    match dialect.compat.call_ids {
        CallIds::Any => {
            wire_id_if(id, |id| (1..=40).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()))
        }
        CallIds::NineAlphanumeric => nine_id(id),
    }
}

/// A tool message holds text only: an image becomes a note.
fn result_text(content: &[Content]) -> Cow<'_, str> {
    let texts = content.iter().filter_map(|block| match block {
        Content::Text { text } => Some(Cow::Borrowed(text.as_str())),
        Content::Image { mime_type, .. } => Some(Cow::Owned(format!("[{mime_type} image, not shown]"))),
        Content::Thinking { .. } | Content::ToolCall { .. } => None,
    });
    join(texts.collect())
}

/// Texts as one, each on a line of its own.
fn join(mut texts: Vec<Cow<'_, str>>) -> Cow<'_, str> {
    match texts.len() {
        0 => Cow::Borrowed(""),
        1 => texts.pop().unwrap_or_default(),
        _ => Cow::Owned(texts.join("\n")),
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
