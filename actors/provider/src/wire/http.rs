//! Requests over HTTP, and small things every HTTP protocol needs.
//!
//! One transport is one client with its own pool. It follows no redirect, keeps no cookie and repeats no request: the
//! client library's own retries are off. A loopback address is reached directly; others through the proxy that the
//! standard environment variables name, if they do.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::Url;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use rustls::crypto::{CryptoProvider, ring};

use super::transport::{Body, HttpRequest, HttpResponse, Transport, TransportError};

/// Sends requests over HTTP, with a client and a pool of connections of its own.
pub struct HttpTransport(reqwest::Client);

impl HttpTransport {
    /// A client for one service. Reads the system's certificates when the address is `https`.
    pub(crate) fn new(service: &Url, connect: Duration) -> Result<Self, TransportError> {
        let mut client = client()
            .user_agent(concat!("playhouse/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .tcp_nodelay(true);
        if is_loopback(service) || is_link_local(service) {
            client = client.no_proxy();
        }
        if service.scheme() == "http" {
            // Plain HTTP needs no certificates, and a machine without any can still talk to a local service.
            client = client.tls_certs_only([]);
        }
        client.build().map(Self).map_err(|error| TransportError::broken(describe(error)))
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpTransport")
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let HttpRequest { method, url, headers, body } = request;
        let place = host_and_port(&url);
        let sent = self.0.request(method, url).headers(headers).body(body).send().await;
        let mut response = sent.map_err(|error| {
            TransportError::broken(match error.is_connect() {
                true => format!("cannot connect to {place}: {}", root_cause(&error)),
                false => describe(error),
            })
        })?;
        let status = response.status().as_u16();
        // Taken out of the response: they lie in the connection's read buffer, and would keep all of it for as long
        // as the body streams.
        let headers = std::mem::take(response.headers_mut());
        let body = response.bytes_stream().map_err(|error| TransportError::broken(describe(error)));
        Ok(HttpResponse { status, headers, body: Box::pin(body) })
    }
}

/// Whether an address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether an address is on this machine's own link, where a cloud hands out credentials: no proxy's business.
fn is_link_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(ip)) => ip.is_link_local(),
        Ok(std::net::IpAddr::V6(ip)) => ip.is_unicast_link_local() || ip.is_unique_local(),
        Err(_) => false,
    }
}

/// A client to be. The first one settles on ring for TLS, unless the program has settled on something else.
fn client() -> reqwest::ClientBuilder {
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
    if let Ok(seconds) = value.parse::<f64>() {
        // Rounded up: earlier than asked is never right. More than a duration holds is the longest it does.
        return (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds.ceil()).unwrap_or(Duration::MAX));
    }
    static PARSER: DateTimeParser = DateTimeParser::new();
    let at = PARSER.parse_timestamp(value).ok()?;
    // Rounded up to the next second, the date's own precision: earlier than asked is never right.
    let millis = at.as_millisecond().saturating_sub(now.as_millisecond()).max(0);
    Some(Duration::from_secs(u64::try_from(millis).unwrap_or_default().div_ceil(1_000)))
}

/// `host:port`: all of an address that cannot hold a secret.
fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// What an error comes down to.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
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
pub(crate) async fn read_start(body: &mut Body, cap: usize, wait: Duration) -> Vec<u8> {
    let mut start = Vec::new();
    let read = async {
        while start.len() < cap {
            match body.next().await {
                Some(Ok(chunk)) => start.extend_from_slice(&chunk),
                Some(Err(_)) | None => return,
            }
        }
    };
    // Running out of time leaves what has come.
    let _ = tokio::time::timeout(wait, read).await;
    start.truncate(cap);
    start
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
        assert_eq!(after("1.2"), Some(2));
        assert_eq!(after("1e300"), Some(u64::MAX));
        assert_eq!(after("NaN"), None);
        assert_eq!(after("Fri, 02 Jan 2026 03:04:35 GMT"), Some(30));
        assert_eq!(after("Fri, 02 Jan 2026 03:00:00 GMT"), Some(0));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-3"), None);
        assert_eq!(retry_after(&HeaderMap::new(), Timestamp::UNIX_EPOCH), None);
    }
}
