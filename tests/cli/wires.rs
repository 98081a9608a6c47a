//! Services on loopback that speak each wire protocol: what a message looks like on each, whole and cut.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

/// What a service does with a request.
pub enum Answer {
    /// A message with this text, and a call of `list_files` behind it.
    Calls(&'static str),
    /// A message with this text.
    Says(&'static str),
    /// The beginning of such a message; then the connection ends.
    Cut(&'static str),
    /// An HTTP status.
    Fails(u16),
    /// A message with this text that ran into the output limit.
    Full(&'static str),
    /// A message with this text that ended because the service does not want to say more.
    Refuses(&'static str),
}

/// A wire protocol, as the command line names and reaches a service that speaks it.
pub struct Wire {
    /// The provider's name in `PROVIDER/ID`.
    pub provider: &'static str,
    /// The variable with its address, and what follows the host in it.
    pub address: (&'static str, &'static str),
    /// The variables that it needs besides.
    pub variables: &'static [(&'static str, &'static str)],
    frames: fn(&str, Ending) -> Vec<Vec<u8>>,
    content_type: &'static str,
}

/// How a message ends on the wire.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Call,
    Done,
    Full,
    Refused,
}

/// All seven.
pub const WIRES: [Wire; 7] = [
    Wire {
        provider: "anthropic",
        address: ("ANTHROPIC_BASE_URL", ""),
        variables: &[("ANTHROPIC_API_KEY", "k")],
        frames: messages,
        content_type: EVENTS,
    },
    Wire {
        provider: "openai",
        address: ("OPENAI_BASE_URL", "/v1"),
        variables: &[("OPENAI_API_KEY", "k")],
        frames: completions,
        content_type: EVENTS,
    },
    Wire {
        provider: "openai-responses",
        address: ("OPENAI_BASE_URL", "/v1"),
        variables: &[("OPENAI_API_KEY", "k")],
        frames: responses,
        content_type: EVENTS,
    },
    Wire {
        provider: "azure",
        address: ("AZURE_OPENAI_BASE_URL", "/openai/v1"),
        variables: &[("AZURE_OPENAI_API_KEY", "k")],
        frames: responses,
        content_type: EVENTS,
    },
    Wire {
        provider: "google",
        address: ("GOOGLE_GEMINI_BASE_URL", ""),
        variables: &[("GEMINI_API_KEY", "k")],
        frames: gemini,
        content_type: EVENTS,
    },
    Wire {
        provider: "vertex",
        address: ("GOOGLE_VERTEX_BASE_URL", ""),
        variables: &[
            ("GOOGLE_OAUTH_ACCESS_TOKEN", "k"),
            ("PLAYHOUSE_VERTEX_PROJECT", "p"),
            ("PLAYHOUSE_VERTEX_REGION", "europe-west4"),
        ],
        frames: gemini,
        content_type: EVENTS,
    },
    Wire {
        provider: "bedrock",
        address: ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", ""),
        variables: &[("AWS_BEARER_TOKEN_BEDROCK", "k"), ("PLAYHOUSE_BEDROCK_REGION", "us-east-1")],
        frames: converse,
        content_type: "application/vnd.amazon.eventstream",
    },
];

const EVENTS: &str = "text/event-stream";

impl Wire {
    /// Serves until the test ends; gives its address. `answers` gets the number of the request and the request.
    pub fn serve(&'static self, answers: impl Fn(usize, &str) -> Answer + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let request = request(&stream);
                // Whoever asked may be gone.
                let _ = self.reply(&mut stream, answers(number, &request));
            }
        });
        format!("http://{host}{}", self.address.1)
    }

    fn reply(&self, stream: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
        let (text, ending) = match answer {
            Answer::Fails(status) => {
                return write!(stream, "HTTP/1.1 {status} No\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
            }
            Answer::Calls(text) => (text, Ending::Call),
            Answer::Says(text) | Answer::Cut(text) => (text, Ending::Done),
            Answer::Full(text) => (text, Ending::Full),
            Answer::Refuses(text) => (text, Ending::Refused),
        };
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: {}\r\nconnection: close\r\n\r\n", self.content_type)?;
        for frame in (self.frames)(text, ending) {
            stream.write_all(&frame)?;
            let has_text = String::from_utf8_lossy(&frame).contains(text);
            if has_text && matches!(answer, Answer::Cut(_)) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

fn sse(event: &Value) -> Vec<u8> {
    let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {event}\n\n").into_bytes()
}

fn completions(text: &str, ending: Ending) -> Vec<Vec<u8>> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        sse(&json!({"id": "x", "model": "m", "choices": [choice]}))
    };
    let mut frames = vec![chunk(json!({"content": text}), Value::Null)];
    let call = json!([{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "list_files", "arguments": "{}"}}]);
    frames.push(match ending {
        Ending::Call => chunk(json!({"tool_calls": call}), json!("tool_calls")),
        Ending::Done => chunk(json!({}), json!("stop")),
        Ending::Full => chunk(json!({}), json!("length")),
        Ending::Refused => chunk(json!({}), json!("content_filter")),
    });
    frames.push(b"data: [DONE]\n\n".to_vec());
    frames
}

fn messages(text: &str, ending: Ending) -> Vec<Vec<u8>> {
    let start = json!({"model": "m", "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "usage": {"input_tokens": 5, "output_tokens": 1}});
    let mut events = vec![
        json!({"type": "message_start", "message": start}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    if ending == Ending::Call {
        let block = json!({"type": "tool_use", "id": "toolu_1", "name": "list_files", "input": {}});
        events.push(json!({"type": "content_block_start", "index": 1, "content_block": block}));
        let delta = json!({"type": "input_json_delta", "partial_json": "{}"});
        events.push(json!({"type": "content_block_delta", "index": 1, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": 1}));
    }
    let reason = match ending {
        Ending::Call => "tool_use",
        Ending::Done => "end_turn",
        Ending::Full => "max_tokens",
        Ending::Refused => "refusal",
    };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(sse).collect()
}

fn responses(text: &str, ending: Ending) -> Vec<Vec<u8>> {
    let part = json!({"type": "output_text", "annotations": [], "text": text});
    let message = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [part]});
    let open = json!({"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []});
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": open}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0,
            "delta": text}),
        json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "content_index": 0,
            "text": text}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
    ];
    if ending == Ending::Call {
        let call = json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1",
            "name": "list_files", "arguments": "{}"});
        events.push(json!({"type": "response.output_item.added", "output_index": 1, "item": call}));
        events.push(json!({"type": "response.output_item.done", "output_index": 1, "item": call}));
    }
    let usage = json!({"input_tokens": 11, "output_tokens": 18, "total_tokens": 29});
    let (name, details) = match ending {
        Ending::Call | Ending::Done => ("completed", Value::Null),
        Ending::Full => ("incomplete", json!({"reason": "max_output_tokens"})),
        Ending::Refused => ("incomplete", json!({"reason": "content_filter"})),
    };
    let response = json!({"id": "resp_1", "model": "m", "status": name, "incomplete_details": details,
        "usage": usage});
    events.push(json!({"type": format!("response.{name}"), "response": response}));
    events.iter().map(sse).collect()
}

fn gemini(text: &str, ending: Ending) -> Vec<Vec<u8>> {
    let chunk = |part: Value, finish: Value| {
        let candidate = json!({"content": {"role": "model", "parts": [part]}, "finishReason": finish, "index": 0});
        let usage = json!({"promptTokenCount": 12, "candidatesTokenCount": 4, "totalTokenCount": 16});
        sse(&json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}))
    };
    let (last, finish) = match ending {
        Ending::Call => (json!({"functionCall": {"name": "list_files", "args": {}}}), "STOP"),
        Ending::Done => (json!({"text": ""}), "STOP"),
        Ending::Full => (json!({"text": ""}), "MAX_TOKENS"),
        Ending::Refused => (json!({"text": ""}), "SAFETY"),
    };
    vec![chunk(json!({"text": text}), Value::Null), chunk(last, json!(finish))]
}

fn converse(text: &str, ending: Ending) -> Vec<Vec<u8>> {
    let at = |index: u32, body: Value| {
        let mut body = body;
        body["contentBlockIndex"] = json!(index);
        body
    };
    let mut frames = vec![
        frame("messageStart", &json!({"role": "assistant"})),
        frame("contentBlockDelta", &at(0, json!({"delta": {"text": text}}))),
        frame("contentBlockStop", &at(0, json!({}))),
    ];
    if ending == Ending::Call {
        let start = json!({"toolUse": {"name": "list_files", "toolUseId": "tooluse_1"}});
        frames.push(frame("contentBlockStart", &at(1, json!({"start": start}))));
        frames.push(frame("contentBlockDelta", &at(1, json!({"delta": {"toolUse": {"input": "{}"}}}))));
        frames.push(frame("contentBlockStop", &at(1, json!({}))));
    }
    let reason = match ending {
        Ending::Call => "tool_use",
        Ending::Done => "end_turn",
        Ending::Full => "max_tokens",
        Ending::Refused => "content_filtered",
    };
    frames.push(frame("messageStop", &json!({"stopReason": reason})));
    let usage = json!({"inputTokens": 12, "outputTokens": 5, "totalTokens": 17});
    frames.push(frame("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 1}})));
    frames
}

/// One frame of Amazon's event stream: lengths, their checksum, headers, payload, the checksum of it all.
fn frame(event: &str, payload: &Value) -> Vec<u8> {
    let payload = payload.to_string();
    let mut headers = Vec::new();
    for (header, value) in [(":event-type", event), (":content-type", "application/json"), (":message-type", "event")] {
        headers.push(u8::try_from(header.len()).unwrap());
        headers.extend(header.as_bytes());
        // A string.
        headers.push(7);
        headers.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        headers.extend(value.as_bytes());
    }
    let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    let mut frame = [total.to_be_bytes(), u32::try_from(headers.len()).unwrap().to_be_bytes()].concat();
    frame.extend(crc(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload.as_bytes());
    frame.extend(crc(&frame).to_be_bytes());
    frame
}

/// CRC-32 from its definition.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}
