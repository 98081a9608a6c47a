//! Requests for tokens, and the answers to them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use percent_encoding::utf8_percent_encode;
use playhouse_protocol::{ProviderError, Secret};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;

use super::Secrets;
use crate::gemini::models::RESERVED;
use crate::provider::excerpt;
use crate::wire::http::{HttpTransport, is_loopback, read_start};
use crate::wire::transport::{HttpRequest, Transport};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a whole exchange may take.
const WAIT: Duration = Duration::from_secs(30);
/// How much of an answer is read: a token is a few kilobytes.
const ANSWER: usize = 64 << 10;
/// How long a token is taken to be good for if its service does not say.
const UNSAID: u64 = 300;

/// An address that gives tokens.
#[derive(Clone)]
pub(super) struct Endpoint {
    url: Url,
    http: Arc<dyn Transport>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.url.as_str()).finish()
    }
}

/// An endpoint's answer, whatever its status.
#[derive(Debug)]
pub(super) struct TokenResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

/// A token, and when it ends in unix seconds.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) token: Secret,
    pub(super) expires: u64,
}

impl Endpoint {
    /// An address from a file. It must be encrypted, unless it is on this machine.
    pub(super) fn new(url: &str) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("`{url}` is no address: {error}"))?;
        if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(&url)) {
            return Err(format!("`{url}` is not an https address"));
        }
        let http = HttpTransport::new(&url, CONNECT).map_err(|error| error.message)?;
        Ok(Self { url, http: Arc::new(http) })
    }

    /// The machine's metadata server, which is asked for tokens without encryption and never through a proxy.
    pub(super) fn metadata(url: &str, connect: Duration) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("`{url}` is no address of a metadata server: {error}"))?;
        // A transport for this machine uses no proxy; the metadata server is as near.
        let near = Url::parse("http://127.0.0.1/").map_err(|error| error.to_string())?;
        let http = HttpTransport::new(&near, connect).map_err(|error| error.message)?;
        Ok(Self { url, http: Arc::new(http) })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) async fn get(&self, headers: HeaderMap) -> Result<TokenResponse, ProviderError> {
        self.call(HttpRequest { method: Method::GET, url: self.url.clone(), headers, body: bytes::Bytes::new() }).await
    }

    /// Sends the fields as a form.
    pub(super) async fn post(
        &self,
        fields: &[(&str, &str)],
        mut headers: HeaderMap,
    ) -> Result<TokenResponse, ProviderError> {
        let encoded = |text| utf8_percent_encode(text, RESERVED);
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let body = pairs.join("&").into();
        self.call(HttpRequest { method: Method::POST, url: self.url.clone(), headers, body }).await
    }

    pub(super) async fn post_json(&self, json: String, headers: HeaderMap) -> Result<TokenResponse, ProviderError> {
        let mut request = HttpRequest::post_json(self.url.clone(), json);
        request.headers.extend(headers);
        self.call(request).await
    }

    async fn call(&self, request: HttpRequest) -> Result<TokenResponse, ProviderError> {
        let host = self.url.host_str().unwrap_or_default();
        let exchange = async {
            let mut response = self.http.send(request).await.map_err(|error| ProviderError::Network {
                message: format!("{host} gave no token: {}", error.message),
            })?;
            let body = read_start(&mut response.body, ANSWER, WAIT).await;
            let body = String::from_utf8_lossy(&body).into_owned();
            Ok(TokenResponse { status: response.status, headers: response.headers, body })
        };
        tokio::time::timeout(WAIT, exchange).await.unwrap_or_else(|_| {
            let seconds = WAIT.as_secs();
            Err(ProviderError::Network { message: format!("{host} gave no token within {seconds} s") })
        })
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImpersonatedAnswer {
    access_token: String,
    expire_time: Timestamp,
}

impl TokenResponse {
    /// The token of an OAuth answer; `advice` says what to do when it was refused.
    pub(super) fn access(&self, now: u64, advice: &str, secrets: &Secrets) -> Result<Access, ProviderError> {
        self.refused(advice, secrets)?;
        match serde_json::from_str::<TokenAnswer>(&self.body) {
            Ok(TokenAnswer { access_token, expires_in }) if !access_token.is_empty() => Ok(Access {
                token: Secret::new(access_token),
                expires: now.saturating_add(expires_in.unwrap_or(UNSAID)),
            }),
            Ok(_) | Err(_) => Err(no_token()),
        }
    }

    /// The token of a service account that somebody else may use.
    pub(super) fn impersonated(&self, advice: &str, secrets: &Secrets) -> Result<Access, ProviderError> {
        self.refused(advice, secrets)?;
        match serde_json::from_str::<ImpersonatedAnswer>(&self.body) {
            Ok(answer) if !answer.access_token.is_empty() => Ok(Access {
                token: Secret::new(answer.access_token),
                expires: u64::try_from(answer.expire_time.as_second()).unwrap_or_default(),
            }),
            Ok(_) | Err(_) => Err(no_token()),
        }
    }

    /// An error, unless the answer is a success. What it says may hold what it was sent.
    pub(super) fn refused(&self, advice: &str, secrets: &Secrets) -> Result<(), ProviderError> {
        // Redacted before it is cut: half a secret is not recognised.
        let said = || format!("HTTP {}: {}", self.status, excerpt(&secrets.redact(self.body.clone()), 300));
        match self.status {
            200..=299 => Ok(()),
            429 | 503 => {
                let message = format!("Google gave no token ({})", said());
                Err(ProviderError::RateLimited { message, retry_after_ms: None })
            }
            408 | 500..=599 => Err(ProviderError::Network { message: format!("Google gave no token ({})", said()) }),
            _ => Err(ProviderError::Auth { message: format!("Google refused the credentials ({}): {advice}", said()) }),
        }
    }
}

/// The answer may be anything, a token in another form among it: it is not shown.
fn no_token() -> ProviderError {
    ProviderError::Network { message: "Google's answer holds no token".to_owned() }
}
