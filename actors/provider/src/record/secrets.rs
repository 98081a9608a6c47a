//! What must not be kept of a request, and how it is taken out; pure.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use playhouse_protocol::{Secret, Secrets as Known};
use reqwest::Url;
use serde_json::Value;

use crate::wire::transport::HttpRequest;

/// What stands for a secret.
const HIDDEN: &str = "****";
/// A secret shorter than this is a stand-in such as `none` or `ollama`: it guards nothing, and taking it out of the
/// words it stands in would spoil the recording.
const SHORTEST: usize = 8;
/// Headers that hold a secret even if nobody marked them.
const HEADERS: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-amz-security-token",
];
/// Parameters of a query that are secrets. All of `X-Amz-*` is taken out of a path too.
const PARAMETERS: [&str; 11] = [
    "key",
    "api_key",
    "apikey",
    "api-key",
    "token",
    "access_token",
    "signature",
    "sig",
    "x-amz-signature",
    "x-amz-security-token",
    "x-amz-credential",
];
/// The secrets of one request.
pub(super) struct Secrets(Known);

impl Secrets {
    /// Every secret in a request's headers and query.
    pub(super) fn of(request: &HttpRequest) -> Self {
        let mut secrets = Vec::new();
        for (name, value) in &request.headers {
            if !value.is_sensitive() && !HEADERS.contains(&name.as_str()) {
                continue;
            }
            if let Ok(value) = value.to_str() {
                add_header(&mut secrets, value);
            }
        }
        for (name, value) in parameters(&request.url) {
            if PARAMETERS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) {
                secrets.push(percent_decode_str(value).decode_utf8_lossy().into_owned());
                secrets.push(value.to_owned());
            }
        }
        secrets.retain(|secret| secret.len() >= SHORTEST);
        Self(Known::all_as(HIDDEN, secrets.into_iter().map(Secret::new)))
    }

    /// Bytes without the secrets.
    pub(super) fn clean(&self, bytes: Vec<u8>) -> Vec<u8> {
        match self.0.redact_bytes(&bytes) {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(clean) => clean,
        }
    }

    /// The same for bytes that were cut off: the start of a secret at their end goes too.
    pub(super) fn clean_cut(&self, bytes: Vec<u8>) -> Vec<u8> {
        let mut redactor = self.0.redactor();
        let mut clean = redactor.push(&bytes).into_owned();
        if redactor.kept().len() >= SHORTEST {
            clean.extend_from_slice(HIDDEN.as_bytes());
        } else {
            clean.extend_from_slice(redactor.kept());
        }
        clean
    }

    /// A text without the secrets.
    pub(super) fn clean_text(&self, text: &str) -> String {
        self.0.redact(text).into_owned()
    }

    /// JSON without the secrets, in whichever way its strings were escaped.
    pub(super) fn clean_json(&self, value: Value) -> Value {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.clean_text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.clean_json(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (self.clean_text(&name), self.clean_json(value))).collect()
            }
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
        }
    }

    /// A URL's path and query, without the secrets. The host is left out: a replay may be for another.
    pub(super) fn clean_path(&self, url: &Url) -> String {
        let kept: Vec<_> = url.query().unwrap_or_default().split('&').filter(|part| !is_removed(part)).collect();
        let query = kept.join("&");
        let path = url.path();
        self.clean_text(&if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") })
    }
}

/// A header's value, and what of it is a secret by itself.
fn add_header(secrets: &mut Vec<String>, value: &str) {
    secrets.push(value.trim().to_owned());
    // After `Bearer`, or whichever scheme.
    let Some((_, rest)) = value.trim().split_once(' ') else { return };
    secrets.push(rest.trim().to_owned());
    // The signature of AWS: `AWS4-HMAC-SHA256 Credential=ID/day/…, SignedHeaders=…, Signature=…`.
    for (name, part) in rest.split([',', ' ']).filter_map(|part| part.split_once('=')) {
        if matches!(name, "Credential" | "Signature") {
            secrets.extend(part.split('/').next().map(str::to_owned));
        }
    }
}

/// The parameters of a query, as they stand there.
fn parameters(url: &Url) -> impl Iterator<Item = (&str, &str)> {
    url.query().unwrap_or_default().split('&').filter_map(|part| part.split_once('='))
}

/// Whether a part of a query is not kept.
fn is_removed(part: &str) -> bool {
    let name = part.split('=').next().unwrap_or_default();
    let name = percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase();
    part.is_empty() || name.starts_with("x-amz-") || PARAMETERS.contains(&name.as_str())
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
