//! Small things every HTTP protocol needs.

use std::error::Error;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use rustls::crypto::{CryptoProvider, ring};

/// A client to be. The first one settles on ring for TLS, unless the program has settled on something else.
pub(crate) fn client() -> reqwest::ClientBuilder {
    if CryptoProvider::get_default().is_none() {
        // Somebody else may be first: then there is one, which is all it takes.
        let _ = ring::default_provider().install_default();
    }
    reqwest::Client::builder()
}

/// How long a failed response asks to wait: whole seconds, or a date measured from `now`. A date that has passed is
/// no wait at all; what cannot be read is as if absent.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    static PARSER: DateTimeParser = DateTimeParser::new();
    let at = PARSER.parse_timestamp(value).ok()?;
    // Rounded up to the next second, the date's own precision: earlier than asked is never right.
    let millis = at.as_millisecond().saturating_sub(now.as_millisecond()).max(0);
    Some(Duration::from_secs(u64::try_from(millis).unwrap_or_default().div_ceil(1_000)))
}

/// An error with its causes, without the address, which may hold what should not be shown.
pub(crate) fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// The start of a body, as much as comes within `cap` bytes and `wait`.
pub(crate) async fn read_start(response: &mut reqwest::Response, cap: usize, wait: Duration) -> String {
    let mut body = Vec::new();
    let read = async {
        while body.len() < cap {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) | Err(_) => return,
            }
        }
    };
    // Running out of time leaves what has come.
    let _ = tokio::time::timeout(wait, read).await;
    body.truncate(cap);
    String::from_utf8_lossy(&body).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(value: &str) -> Option<u64> {
        let now: Timestamp = "2026-01-02T03:04:05.300Z".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        retry_after(&headers, now).map(|wait| wait.as_secs())
    }

    #[test]
    fn f05_retry_after_is_read_as_seconds_and_as_a_date() {
        assert_eq!(after("7"), Some(7));
        assert_eq!(after(" 0 "), Some(0));
        assert_eq!(after("Fri, 02 Jan 2026 03:04:35 GMT"), Some(30));
        assert_eq!(after("Fri, 02 Jan 2026 03:00:00 GMT"), Some(0));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-3"), None);
        assert_eq!(retry_after(&HeaderMap::new(), Timestamp::UNIX_EPOCH), None);
    }
}
