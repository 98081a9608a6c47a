//! What Bedrock's errors mean; pure: the time is passed in.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use playhouse_protocol::ProviderError;
use reqwest::header::{DATE, HeaderMap};
use serde::Deserialize;

use crate::provider::excerpt;

/// How far a clock may be off: the service allows itself five minutes.
const SKEW_SECONDS: i64 = 300;

/// Words by which the service says that a signature's time is wrong.
const SKEWED: [&str; 4] =
    ["signature expired", "signature not yet current", "requesttimetooskewed", "request has expired"];

/// An error that arrived in the stream, under its name.
pub(super) fn in_stream(name: &str, payload: &str) -> ProviderError {
    let message = format!("{name}: {}", excerpt(&said(payload), 500));
    match kind(name) {
        FailureKind::Busy => ProviderError::RateLimited { message, retry_after_ms: None },
        FailureKind::Passing => ProviderError::Network { message },
        FailureKind::Broken => ProviderError::Incomplete { message },
        FailureKind::Auth => ProviderError::Auth { message },
        FailureKind::Refused => ProviderError::classify(400, &message, None),
        FailureKind::Unknown => ProviderError::classify_in_stream(&message),
    }
}

/// An answer whose status is no success.
pub(super) fn over_http(
    status: u16,
    headers: &HeaderMap,
    body: &str,
    retry_after: Option<Duration>,
    now: Timestamp,
) -> ProviderError {
    let name = name_of(headers, body);
    let as_status = || ProviderError::classify(status, body, retry_after);
    match (kind(&name), status) {
        (FailureKind::Busy, _) => match ProviderError::classify(429, body, retry_after) {
            ProviderError::RateLimited { retry_after_ms, .. } => {
                ProviderError::RateLimited { message: told(status, &name, &excerpt(&said(body), 500)), retry_after_ms }
            }
            other => other,
        },
        (FailureKind::Auth, _) | (_, 401 | 403) => {
            ProviderError::Auth { message: refused(status, headers, &name, body, now) }
        }
        (FailureKind::Passing | FailureKind::Broken, _) => {
            ProviderError::Network { message: told(status, &name, &excerpt(&said(body), 500)) }
        }
        (FailureKind::Refused | FailureKind::Unknown, _) => as_status(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// Too much is asked of it, or of the model.
    Busy,
    /// Its own failure; another attempt may work.
    Passing,
    /// The model's stream broke.
    Broken,
    /// It does not let us.
    Auth,
    /// The request is not right.
    Refused,
    Unknown,
}

/// Names are written with and without a capital, in the stream and outside it.
fn kind(name: &str) -> FailureKind {
    let name = name.to_ascii_lowercase();
    match name.strip_suffix("exception").unwrap_or(&name) {
        "throttling" | "serviceunavailable" | "modelnotready" | "toomanyrequests" => FailureKind::Busy,
        "internalserver" | "modeltimeout" | "modelerror" | "internalfailure" => FailureKind::Passing,
        "modelstreamerror" => FailureKind::Broken,
        "accessdenied"
        | "unrecognizedclient"
        | "invalidsignature"
        | "expiredtoken"
        | "invalidclienttokenid"
        | "missingauthenticationtoken"
        | "incompletesignature"
        | "signaturedoesnotmatch"
        | "requesttimetooskewed"
        | "requestexpired"
        | "notauthorized" => FailureKind::Auth,
        "validation" | "resourcenotfound" | "servicequotaexceeded" => FailureKind::Refused,
        _ => FailureKind::Unknown,
    }
}

#[derive(Deserialize)]
struct Report {
    #[serde(default, rename = "__type")]
    kind: String,
    #[serde(default, alias = "Message")]
    message: String,
}

/// The error's name: `x-amzn-errortype: Name:http://…`, or `"__type": "namespace#Name"` in the body.
fn name_of(headers: &HeaderMap, body: &str) -> String {
    let header = headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok());
    let name = match header {
        Some(name) => name.split(':').next().unwrap_or_default().to_owned(),
        None => serde_json::from_str::<Report>(body).map(|report| report.kind).unwrap_or_default(),
    };
    name.rsplit('#').next().unwrap_or_default().trim().to_owned()
}

/// The words of an error: its `message`, or all of it.
fn said(body: &str) -> String {
    match serde_json::from_str::<Report>(body) {
        Ok(report) if !report.message.trim().is_empty() => report.message,
        Ok(_) | Err(_) => body.to_owned(),
    }
}

/// The status, the service's name for the error, and its words, as far as there are any.
fn told(status: u16, name: &str, words: &str) -> String {
    let status = format!("HTTP {status}");
    [status.as_str(), name, words].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

/// What a refusal means, and what to do about it.
fn refused(status: u16, headers: &HeaderMap, name: &str, body: &str, now: Timestamp) -> String {
    let words = said(body);
    let what = told(status, name, &excerpt(&words, 300));
    let lower = format!("{name} {words}").to_lowercase();
    let off = off_by(headers, now).filter(|off| off.unsigned_abs() > SKEW_SECONDS.unsigned_abs());
    if let Some(off) = off {
        let (amount, side) = (shown(off.unsigned_abs()), if off > 0 { "behind" } else { "ahead" });
        return format!(
            "this machine's clock is {amount} {side} of the service's, which refuses what it signs: set the clock \
             (switch on time synchronisation) and try again. It said: {what}"
        );
    }
    if SKEWED.iter().any(|words| lower.contains(words)) {
        return format!(
            "the service says that this machine's clock is off by more than 5 min: set the clock (switch on time \
             synchronisation) and try again. It said: {what}"
        );
    }
    let name = name.to_ascii_lowercase();
    let advice = match name.strip_suffix("exception").unwrap_or(&name) {
        "expiredtoken" => "the credentials have expired: get new ones (for example with `aws sso login`)",
        "unrecognizedclient" | "invalidclienttokenid" => {
            "the access key is unknown, or belongs to temporary credentials without their AWS_SESSION_TOKEN: check the \
             credentials"
        }
        "invalidsignature" | "signaturedoesnotmatch" | "incompletesignature" => {
            "the signature does not match: check the secret access key and the region"
        }
        "accessdenied" => {
            "the credentials do not permit it: allow bedrock:InvokeModelWithResponseStream for this model, and ask for \
             access to the model in the Bedrock console"
        }
        _ => "check the AWS credentials or the Bedrock API key",
    };
    format!("{advice}. It said: {what}")
}

/// How many seconds the service's clock is ahead of ours.
fn off_by(headers: &HeaderMap, now: Timestamp) -> Option<i64> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let theirs = PARSER.parse_timestamp(headers.get(DATE)?.to_str().ok()?.trim()).ok()?;
    Some(theirs.as_second().saturating_sub(now.as_second()))
}

fn shown(seconds: u64) -> String {
    match seconds / 60 {
        minutes @ 0..120 => format!("{minutes} min"),
        minutes @ 120..2_880 => format!("{} h {} min", minutes / 60, minutes % 60),
        minutes => format!("{} days", minutes / 1_440),
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
