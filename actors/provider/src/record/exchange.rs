//! An exchange, its key, and its form in a file; pure.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::secrets::Secrets;
use crate::wire::transport::HttpRequest;

/// The version that is written, and the only one that is read.
pub(super) const VERSION: u64 = 1;

/// The headers of an answer that are kept: those that say how to read it, when to ask again, and which one it was.
const HEADERS: [&str; 13] = [
    "content-type",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "request-id",
    "x-request-id",
    "apim-request-id",
    "x-ms-request-id",
    "x-amzn-requestid",
    "x-amzn-errortype",
    "x-goog-request-id",
    "openai-processing-ms",
    "cf-ray",
];
/// Those too, whatever comes after.
const HEADER_FAMILIES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// What tells requests apart: 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(String);

impl Key {
    /// What the name of its files starts with.
    pub(super) fn start(&self) -> &str {
        self.0.get(..16).unwrap_or(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What was asked, without secrets.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path and query.
    pub(super) path: String,
    body: Sent,
}

#[derive(Debug, PartialEq)]
enum Sent {
    Json(Value),
    /// What is no JSON; nothing, if nothing was sent.
    Bytes(Vec<u8>),
}

impl Request {
    pub(super) fn of(request: &HttpRequest, secrets: &Secrets) -> Self {
        let body = match serde_json::from_slice(&request.body) {
            // In a file, `null` is the same as no body.
            Ok(Value::Null) | Err(_) => Sent::Bytes(secrets.clean(request.body.to_vec())),
            Ok(json) => Sent::Json(secrets.clean_json(json)),
        };
        Self { method: request.method.to_string(), path: secrets.clean_path(&request.url), body }
    }

    /// The key, which does not depend on the order of fields in the body.
    pub(super) fn key(&self) -> Key {
        let mut hash = Sha256::new();
        for part in ["playhouse recording 1", &self.method, &self.path] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        match &self.body {
            Sent::Json(json) => {
                let mut canonical = String::new();
                canonicalize(json, &mut canonical);
                hash.update(b"json\0");
                hash.update(canonical.as_bytes());
            }
            Sent::Bytes(bytes) => {
                hash.update(b"bytes\0");
                hash.update(bytes);
            }
        }
        Key(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// JSON with the fields of every object in order and no blanks.
fn canonicalize(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (number, (name, value)) in fields.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                canonicalize(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                canonicalize(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

/// The head of an answer: its status, and the headers that are kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
}

impl Head {
    pub(super) fn of(status: u16, headers: &HeaderMap) -> Self {
        let kept = |name: &&HeaderName| {
            let name = name.as_str();
            HEADERS.contains(&name) || HEADER_FAMILIES.iter().any(|family| name.starts_with(family))
        };
        let kept = headers.keys().filter(kept);
        let headers = kept.filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect();
        Self { status, headers }
    }
}

/// How an exchange ended.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// The answer came to its end.
    Answered { head: Head, body: Vec<u8> },
    /// The answer was cut, or nobody wanted the rest.
    Cut {
        /// The head, if that had come.
        head: Option<Head>,
        /// What had come of the body.
        body: Vec<u8>,
        /// Why it was cut.
        note: String,
    },
    /// No answer came.
    Failed {
        /// The transport's error.
        message: String,
    },
}

/// An exchange as it stands in its file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    version: u64,
    key: String,
    method: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// The file of an exchange. The outcome is cleaned of secrets here, the request was before.
pub(super) fn to_file(key: &Key, request: Request, outcome: Outcome, secrets: &Secrets) -> serde_json::Result<Vec<u8>> {
    let (request_json, request_base64) = match request.body {
        Sent::Json(json) => (Some(json), None),
        Sent::Bytes(bytes) if bytes.is_empty() => (None, None),
        Sent::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    let mut page = Page {
        version: VERSION,
        key: key.to_string(),
        method: request.method,
        path: request.path,
        request: request_json,
        request_base64,
        status: None,
        headers: BTreeMap::new(),
        body: None,
        body_base64: None,
        cut: false,
        note: None,
        failed: None,
    };
    let body = match outcome {
        Outcome::Answered { head, body } => {
            page.put_head(&head, secrets);
            Some(secrets.clean(body))
        }
        Outcome::Cut { head, body, note } => {
            (page.cut, page.note) = (true, Some(secrets.clean_text(&note)));
            head.map(|head| {
                page.put_head(&head, secrets);
                secrets.clean_cut(body)
            })
        }
        Outcome::Failed { message } => {
            page.failed = Some(secrets.clean_text(&message));
            None
        }
    };
    match body.map(String::from_utf8) {
        None => {}
        Some(Ok(text)) => page.body = Some(text),
        Some(Err(binary)) => page.body_base64 = Some(STANDARD.encode(binary.as_bytes())),
    }
    let mut file = serde_json::to_vec_pretty(&page)?;
    file.push(b'\n');
    Ok(file)
}

/// What is wrong with a file.
#[derive(Debug, PartialEq)]
pub(super) enum Flaw {
    /// It cannot be read as what it should be.
    Malformed(String),
    /// It is of another version.
    Version(u64),
}

/// The exchange in a file.
pub(super) fn from_file(bytes: &[u8]) -> Result<(Key, Outcome), Flaw> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u64,
    }
    let unread = |error: serde_json::Error| Flaw::Malformed(error.to_string());
    let Versioned { version } = serde_json::from_slice(bytes).map_err(unread)?;
    if version != VERSION {
        return Err(Flaw::Version(version));
    }
    let page: Page = serde_json::from_slice(bytes).map_err(unread)?;
    if page.key.len() != 64 || !page.key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(malformed("its `key` is not 64 hex digits"));
    }
    let key = Key(page.key.clone());
    Ok((key, page.outcome()?))
}

fn malformed(reason: &str) -> Flaw {
    Flaw::Malformed(reason.to_owned())
}

impl Page {
    fn put_head(&mut self, head: &Head, secrets: &Secrets) {
        self.status = Some(head.status);
        let texts = head.headers.iter().filter_map(|(name, value)| Some((name, value.to_str().ok()?)));
        self.headers = texts.map(|(name, value)| (name.to_string(), secrets.clean_text(value))).collect();
    }

    fn head(&self) -> Result<Option<Head>, Flaw> {
        let Some(status) = self.status else { return Ok(None) };
        if !(100..1_000).contains(&status) {
            return Err(malformed("its `status` is none of HTTP"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let bad = || Flaw::Malformed(format!("its header `{name}` is none of HTTP"));
            let value = HeaderValue::from_str(value).map_err(|_| bad())?;
            headers.insert(name.parse::<HeaderName>().map_err(|_| bad())?, value);
        }
        Ok(Some(Head { status, headers }))
    }

    fn outcome(self) -> Result<Outcome, Flaw> {
        let head = self.head()?;
        let body = match (self.body, self.body_base64) {
            (None, None) => None,
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(encoded)) => {
                Some(STANDARD.decode(encoded).map_err(|error| Flaw::Malformed(format!("its `body_base64`: {error}")))?)
            }
            (Some(_), Some(_)) => return Err(malformed("it has both `body` and `body_base64`")),
        };
        match (self.failed, head) {
            (Some(message), None) if body.is_none() && !self.cut => Ok(Outcome::Failed { message }),
            (Some(_), _) => Err(malformed("it has `failed` and an answer")),
            (None, head) if self.cut => {
                let note = self.note.unwrap_or_else(|| "the recording ends here".to_owned());
                Ok(Outcome::Cut { head, body: body.unwrap_or_default(), note })
            }
            (None, Some(head)) => Ok(Outcome::Answered { head, body: body.unwrap_or_default() }),
            (None, None) => Err(malformed("it has neither `status` nor `failed`")),
        }
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
