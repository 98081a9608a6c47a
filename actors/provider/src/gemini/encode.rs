//! The request side of Gemini; pure but for a cache.

use playhouse_protocol::{ProviderError, StreamConfig, ToolDefinition};
use serde::Serialize;
use serde_json::Value;

use super::models::{ThinkingConfig, thinking};
use super::parts::Writer;
use crate::wire::transcripts::Transcripts;

/// What a request holds beside its messages.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AfterContents<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig<'a>>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [InstructionPart<'a>; 1],
}

#[derive(Serialize)]
struct InstructionPart<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: FunctionCallingConfig,
}

#[derive(Serialize)]
struct FunctionCallingConfig {
    mode: &'static str,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

const ANSWER: &str = "Gives the final answer. Call it when you are done, instead of answering in words.";

/// The tool whose arguments are the answer, where there must be one: a model that is given tools cannot be held to a
/// schema in any other way. Its name is none of the tools'.
pub(crate) fn answer_tool(config: &StreamConfig) -> Option<String> {
    let format = config.response_format.as_ref().filter(|_| !config.tools.is_empty())?;
    let mut name = super::parts::wire_name(&format.name);
    while config.tools.iter().any(|tool| tool.name == name) {
        name.push('_');
    }
    Some(name)
}

/// The body of a request.
pub(crate) fn request(
    config: &StreamConfig,
    transcripts: &Transcripts,
    writer: Writer<'_>,
) -> Result<Vec<u8>, ProviderError> {
    let answer = answer_tool(config);
    let max_output_tokens = config.max_tokens.or(config.model_config.max_tokens);
    let format = config.response_format.as_ref().filter(|_| answer.is_none());
    let settings = GenerationConfig {
        max_output_tokens,
        temperature: config.temperature,
        thinking_config: thinking(&config.model_config.id, config.thinking_level, max_output_tokens),
        response_mime_type: format.map(|_| "application/json"),
        response_json_schema: format.map(|format| &format.schema),
    };
    let rest = AfterContents {
        tool_config: answer
            .is_some()
            .then_some(ToolConfig { function_calling_config: FunctionCallingConfig { mode: "ANY" } }),
        generation_config: settings.says_something().then_some(settings),
        ..rest(config, answer.as_deref())
    };
    body(config, transcripts, writer, b"{", &rest).map_err(unencodable)
}

/// The body of a request that counts tokens; `model` is for the service that wants the request wrapped.
pub(crate) fn count(
    config: &StreamConfig,
    transcripts: &Transcripts,
    writer: Writer<'_>,
    model: Option<&str>,
) -> Result<Vec<u8>, ProviderError> {
    let answer = answer_tool(config);
    let rest = rest(config, answer.as_deref());
    let counted = match model {
        None => body(config, transcripts, writer, b"{", &rest),
        Some(model) => serde_json::to_string(model).and_then(|model| {
            let start = format!("{{\"generateContentRequest\":{{\"model\":{model},");
            let mut body = body(config, transcripts, writer, start.as_bytes(), &rest)?;
            body.push(b'}');
            Ok(body)
        }),
    };
    counted.map_err(unencodable)
}

fn unencodable(error: serde_json::Error) -> ProviderError {
    ProviderError::Other { message: format!("the request could not be encoded: {error}") }
}

fn rest<'a>(config: &'a StreamConfig, answer: Option<&'a str>) -> AfterContents<'a> {
    let mut declarations: Vec<Declaration<'a>> = config.tools.iter().map(declaration).collect();
    if let (Some(name), Some(format)) = (answer, &config.response_format) {
        declarations.push(Declaration {
            name,
            description: ANSWER,
            parameters_json_schema: has_parameters(&format.schema).then_some(&format.schema),
        });
    }
    AfterContents {
        system_instruction: match config.system_prompt.as_ref() {
            "" => None,
            text => Some(Instruction { parts: [InstructionPart { text }] }),
        },
        tools: (!declarations.is_empty()).then_some([Tools { function_declarations: declarations }]),
        tool_config: None,
        generation_config: None,
    }
}

fn declaration(tool: &ToolDefinition) -> Declaration<'_> {
    Declaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: has_parameters(&tool.parameters).then_some(&tool.parameters),
    }
}

/// Whether a schema says anything about arguments. One for an object without any is refused, and left out.
fn has_parameters(schema: &Value) -> bool {
    let Value::Object(schema) = schema else { return false };
    schema.iter().any(|(key, value)| match key.as_str() {
        "type" | "title" | "description" | "$schema" | "$id" => false,
        "properties" | "required" | "$defs" | "definitions" => match value {
            Value::Object(map) => !map.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        },
        "additionalProperties" => *value != Value::Bool(false),
        _ => true,
    })
}

/// The body, `{start}"contents":[…],…rest…}`, with the messages as they were encoded before.
fn body(
    config: &StreamConfig,
    transcripts: &Transcripts,
    writer: Writer<'_>,
    start: &[u8],
    rest: &AfterContents<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    const CONTENTS: &[u8] = b"\"contents\":[";
    let rest = serde_json::to_vec(rest)?;
    // Without its opening brace: it goes on where the messages end.
    let rest = rest.get(1..).unwrap_or_default();
    transcripts.with(
        config,
        |message, out| writer.message(message, out),
        |messages| {
            let mut body = Vec::with_capacity(start.len() + CONTENTS.len() + messages.len() + rest.len() + 4);
            body.extend_from_slice(start);
            body.extend_from_slice(CONTENTS);
            messages.write_to(&mut body, None);
            body.push(b']');
            if rest != b"}" {
                body.push(b',');
            }
            body.extend_from_slice(rest);
            body
        },
    )
}

impl GenerationConfig<'_> {
    fn says_something(&self) -> bool {
        self.max_output_tokens.is_some()
            || self.temperature.is_some()
            || self.thinking_config.is_some()
            || self.response_mime_type.is_some()
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
