//! From the bytes of a response to its events: how fast, by protocol.

use playhouse::protocol::ApiProtocol;
use playhouse::provider::{Finish, Limits, decoder_for};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::hand::Error;
use crate::meter::{Meter, Used};

/// The pieces of a read from the network.
const READ: usize = 16 << 10;
/// A token or so.
const PIECES: [&str; 5] = [" the", " curtain", " rises", ", and", " nobody speaks"];

/// What a service's response looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// OpenAI chat completions.
    Chat,
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// Google Gemini.
    Gemini,
    /// Amazon Bedrock.
    Bedrock,
}

impl Format {
    /// In the order of the table.
    pub const ALL: [Self; 5] = [Self::Chat, Self::Anthropic, Self::Responses, Self::Gemini, Self::Bedrock];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat completions",
            Self::Anthropic => "Anthropic Messages",
            Self::Responses => "OpenAI Responses",
            Self::Gemini => "Gemini",
            Self::Bedrock => "Bedrock",
        }
    }

    fn api(self) -> ApiProtocol {
        match self {
            Self::Chat => ApiProtocol::OpenaiCompletions,
            Self::Anthropic => ApiProtocol::AnthropicMessages,
            Self::Responses => ApiProtocol::OpenaiResponses,
            Self::Gemini => ApiProtocol::GoogleGenerativeAi,
            Self::Bedrock => ApiProtocol::BedrockConverse,
        }
    }

    /// What comes before the text, one event of it, and what comes after.
    fn start(self) -> Vec<u8> {
        match self {
            Self::Chat | Self::Gemini => Vec::new(),
            Self::Anthropic => [
                named(
                    "message_start",
                    json!({"type": "message_start", "message": {"id": "msg_01", "type": "message",
                    "role": "assistant", "model": "claude", "content": [], "stop_reason": null,
                    "usage": {"input_tokens": 25, "output_tokens": 1}}}),
                ),
                named(
                    "content_block_start",
                    json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "text", "text": ""}}),
                ),
            ]
            .concat(),
            Self::Responses => [
                named(
                    "response.created",
                    json!({"type": "response.created", "sequence_number": 0,
                    "response": {"id": "resp_1", "object": "response", "status": "in_progress", "model": "gpt",
                    "output": []}}),
                ),
                named(
                    "response.output_item.added",
                    json!({"type": "response.output_item.added", "sequence_number": 1,
                    "output_index": 0, "item": {"id": "msg_1", "type": "message", "role": "assistant",
                    "status": "in_progress", "content": []}}),
                ),
            ]
            .concat(),
            Self::Bedrock => frame("messageStart", &json!({"role": "assistant"})),
        }
    }

    fn piece(self, number: usize, text: &str) -> Vec<u8> {
        match self {
            Self::Chat => data(&json!({"id": "chatcmpl-AcZ8cYbVxQj0dG5R6uS2hT1wK3mN9",
                "object": "chat.completion.chunk", "created": 1_794_700_800, "model": "gpt",
                "service_tier": "default", "system_fingerprint": "fp_0123456789",
                "choices": [{"index": 0, "delta": {"content": text}, "logprobs": null, "finish_reason": null}]})),
            Self::Anthropic => named(
                "content_block_delta",
                json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": text}}),
            ),
            Self::Responses => named(
                "response.output_text.delta",
                json!({"type": "response.output_text.delta",
                "sequence_number": number, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text,
                "logprobs": []}),
            ),
            Self::Gemini => data(&json!({"candidates": [{"content": {"parts": [{"text": text}], "role": "model"},
                "index": 0}], "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": number,
                "totalTokenCount": number + 4}, "modelVersion": "gemini", "responseId": "r1"})),
            Self::Bedrock => {
                frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": text}, "p": "abcdefgh"}))
            }
        }
    }

    fn end(self) -> Vec<u8> {
        match self {
            Self::Chat => {
                let last = json!({"id": "x", "model": "gpt", "choices": [{"index": 0, "delta": {},
                    "finish_reason": "stop"}]});
                [data(&last), b"data: [DONE]\n\n".to_vec()].concat()
            }
            Self::Anthropic => [
                named("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
                named(
                    "message_delta",
                    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                    "usage": {"output_tokens": 15}}),
                ),
                named("message_stop", json!({"type": "message_stop"})),
            ]
            .concat(),
            Self::Responses => named(
                "response.completed",
                json!({"type": "response.completed", "sequence_number": 9,
                "response": {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt",
                "output": [], "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}}),
            ),
            Self::Gemini => data(&json!({"candidates": [{"content": {"parts": [{"text": "."}], "role": "model"},
                "finishReason": "STOP", "index": 0}], "usageMetadata": {"promptTokenCount": 4}})),
            Self::Bedrock => [
                frame("contentBlockStop", &json!({"contentBlockIndex": 0})),
                frame("messageStop", &json!({"stopReason": "end_turn"})),
                frame(
                    "metadata",
                    &json!({"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
                    "metrics": {"latencyMs": 1}}),
                ),
            ]
            .concat(),
        }
    }
}

fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

fn named(event: &str, value: Value) -> Vec<u8> {
    format!("event: {event}\ndata: {value}\n\n").into_bytes()
}

/// A frame of Amazon's event streams.
fn frame(event: &str, payload: &Value) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in [(":event-type", event), (":content-type", "application/json"), (":message-type", "event")] {
        headers.push(u8::try_from(name.len()).unwrap_or_default());
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap_or_default().to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let payload = payload.to_string();
    let total = 16 + headers.len() + payload.len();
    let mut frame = Vec::with_capacity(total);
    frame.extend_from_slice(&u32::try_from(total).unwrap_or_default().to_be_bytes());
    frame.extend_from_slice(&u32::try_from(headers.len()).unwrap_or_default().to_be_bytes());
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(payload.as_bytes());
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}

/// A response of so many text deltas.
pub fn response(format: Format, deltas: usize) -> Vec<u8> {
    let mut body = format.start();
    for (number, text) in PIECES.iter().cycle().take(deltas).enumerate() {
        body.extend(format.piece(number, text));
    }
    body.extend(format.end());
    body
}

/// Reads a response of `deltas` deltas again and again, until `bytes` have been read; gives how many were, as `growth`.
pub fn measure(format: Format, deltas: usize, bytes: usize) -> Result<Used, Error> {
    let body = response(format, deltas);
    let mut read = 0;
    let meter = Meter::start();
    while read < bytes {
        let mut decoder = decoder_for(format.api(), Limits::default()).ok_or("no decoder")?;
        let mut events = 0_usize;
        for piece in body.chunks(READ) {
            decoder.feed(piece, &mut |event| {
                events += 1;
                drop(event);
            })?;
        }
        let whole = decoder.finish(&Finish { response: 0, taken: &|_| false })?;
        if events < deltas || whole.content.is_empty() {
            return Err(format!("{} events of {deltas} deltas", events).into());
        }
        read += body.len();
    }
    Ok(Used { growth: u64::try_from(read)?, ..meter.read() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_read_whole() {
        for format in Format::ALL {
            measure(format, 100, 1).unwrap_or_else(|error| panic!("{format:?}: {error}"));
        }
    }
}
