//! Writes event-stream frames for tests. It shares nothing with the reader: its CRC is worked out bit by bit.

use serde_json::Value;

/// CRC-32 (IEEE 802.3, reflected), from its definition.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// A frame with these bytes as headers.
pub(crate) fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    let mut frame = total.to_be_bytes().to_vec();
    frame.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
    frame.extend(crc(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload);
    frame.extend(crc(&frame).to_be_bytes());
    frame
}

/// A header of text.
pub(crate) fn text_header(name: &str, value: &str) -> Vec<u8> {
    let mut header = vec![u8::try_from(name.len()).unwrap()];
    header.extend(name.as_bytes());
    header.push(7);
    header.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
    header.extend(value.as_bytes());
    header
}

/// A frame as the service sends it.
pub(crate) fn frame(kind: &str, type_header: &str, name: &str, payload: &str) -> Vec<u8> {
    let headers = [
        text_header(type_header, name),
        text_header(":content-type", "application/json"),
        text_header(":message-type", kind),
    ];
    raw(&headers.concat(), payload.as_bytes())
}

/// The frames of a fixture: a list of `{"event" | "exception" | "error": name, "payload": …}`, one per line. A payload
/// that is a string goes as it is.
pub(crate) fn frames(fixture: &str) -> Vec<Vec<u8>> {
    fixture.lines().filter(|line| !line.trim().is_empty()).map(one).collect()
}

fn one(line: &str) -> Vec<u8> {
    let line: Value = serde_json::from_str(line).unwrap();
    let payload = match &line["payload"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for (kind, header) in [("event", ":event-type"), ("exception", ":exception-type"), ("error", ":error-code")] {
        if let Some(name) = line[kind].as_str() {
            return frame(kind, header, name, &payload);
        }
    }
    panic!("a line without a kind: {line}")
}
