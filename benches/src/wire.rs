//! What the mock server says: rendered once, as the bytes of a chunked HTTP response.
//!
//! The model's name says which replies are given: `tools-8` calls a tool eight times and then answers; `paced-100-50`
//! answers with a hundred pieces, one every fifty milliseconds. Which turn it is stands in the last `tool_call_id`.

use std::time::Duration;

use serde_json::{Value, json};

/// The tool that the server's responses call.
pub const TOOL: &str = "lookup";
/// What the tool's description says.
pub const TOOL_DESCRIPTION: &str = "Looks a word up in the reference and gives the page where it stands.";
/// What every agent is told.
pub const SYSTEM_PROMPT: &str = "You answer questions by looking things up, one thing at a time, and then say what \
                                 you found in a sentence or two.";
/// What every agent is asked.
pub const PROMPT: &str = "Please look everything up that there is to look up, then tell me.";

/// The JSON Schema of the tool's arguments.
pub fn tool_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "word": {"type": "string", "description": "The word."},
            "number": {"type": "integer", "description": "Which time this is."},
        },
        "required": ["word", "number"],
    })
}

/// What the tool answers: one kilobyte of text.
pub fn tool_answer(word: &str, number: u64) -> String {
    let mut text = format!("{word} {number}: ");
    while text.len() < 1024 {
        text.push_str("it stands on page 42, between \"play\" and \"player\";\n");
    }
    text.truncate(1024);
    text
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
                    transfer-encoding: chunked\r\n\r\n";
/// The end of a chunked body.
const END: &str = "0\r\n\r\n";

/// A response, as it is written to the socket.
#[derive(Debug)]
pub enum Reply {
    /// All of it in one write.
    Whole(Vec<u8>),
    /// The first part at once, then the second part again and again in step, then the third.
    Paced {
        /// The head, and the beginning of the body.
        first: Vec<u8>,
        /// What is written at each step.
        piece: Vec<u8>,
        /// How often the piece is written.
        pieces: u32,
        /// From one piece to the next.
        step: Duration,
        /// What is written when the last piece has been.
        last: Vec<u8>,
    },
}

fn chunk(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn event(choices: Value, usage: Value) -> String {
    chunk(
        &json!({
            "id": "chatcmpl-AcZ8cYbVxQj0dG5R6uS2hT1wK3mN9", "object": "chat.completion.chunk", "created": 1_794_700_800,
            "model": "mock-1", "service_tier": "default", "system_fingerprint": "fp_0123456789",
            "choices": choices, "usage": usage,
        })
        .to_string(),
    )
}

fn delta(delta: Value) -> String {
    event(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]), Value::Null)
}

fn text(text: &str) -> String {
    delta(json!({"content": text}))
}

fn ending(reason: &str) -> String {
    let end = event(json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason}]), Value::Null);
    let usage = json!({
        "prompt_tokens": 812, "completion_tokens": 24, "total_tokens": 836,
        "prompt_tokens_details": {"cached_tokens": 512, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    });
    format!("{end}{}{}{END}", event(json!([]), usage), chunk("[DONE]"))
}

/// The response that calls the tool for the `number`-th time.
pub fn tool_turn(number: u64) -> Reply {
    let mut body = HEAD.to_owned();
    body.push_str(&delta(json!({"role": "assistant", "content": "", "refusal": null})));
    for word in ["Let", " me", " look", " up", " the", " next", " word", "."] {
        body.push_str(&text(word));
    }
    let call = |function: Value| json!({"tool_calls": [{"index": 0, "function": function}]});
    body.push_str(&delta(json!({"tool_calls": [{
        "index": 0, "id": format!("call_{number}"), "type": "function", "function": {"name": TOOL, "arguments": ""},
    }]})));
    for piece in ["{\"", "word", "\":\"", "play", "\",\"", "number", "\":", &number.to_string(), "}"] {
        body.push_str(&delta(call(json!({"arguments": piece}))));
    }
    body.push_str(&ending("tool_calls"));
    Reply::Whole(body.into_bytes())
}

/// The response that ends a conversation: text, and no call.
pub fn last_turn() -> Reply {
    let mut body = HEAD.to_owned();
    body.push_str(&delta(json!({"role": "assistant", "content": "", "refusal": null})));
    for word in ["Everything", " stands", " on", " page", " forty", "-two", "."] {
        body.push_str(&text(word));
    }
    body.push_str(&ending("stop"));
    Reply::Whole(body.into_bytes())
}

/// A response of `pieces` pieces, one each `step`.
pub fn paced(pieces: u32, step: Duration) -> Reply {
    Reply::Paced {
        first: format!("{HEAD}{}", delta(json!({"role": "assistant", "content": "", "refusal": null}))).into_bytes(),
        piece: text(" word").into_bytes(),
        pieces,
        step,
        last: ending("stop").into_bytes(),
    }
}
