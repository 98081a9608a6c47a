//! How requests reach a service: over HTTP, from a recording, or from a test's memory.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use playhouse_protocol::ProviderError;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};

/// A request as it goes to the service, headers and all.
#[derive(Clone)]
pub struct HttpRequest {
    /// `POST` to a model; credentials are fetched with others too.
    pub method: Method,
    /// The whole address, with its query.
    pub url: Url,
    /// Its headers; those with a secret are marked sensitive.
    pub headers: HeaderMap,
    /// The bytes that are sent; clones share them.
    pub body: Bytes,
}

impl HttpRequest {
    /// A request that sends JSON.
    pub(crate) fn post_json(url: Url, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(reqwest::header::CONTENT_TYPE, reqwest::header::HeaderValue::from_static("application/json"));
        Self { method: Method::POST, url, headers, body: body.into() }
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url.as_str())
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The pieces of a body as they come.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// The head of an answer, and its body.
pub struct HttpResponse {
    /// The HTTP status of the response.
    pub status: u16,
    /// The headers of the response.
    pub headers: HeaderMap,
    /// The rest of the response, piece by piece.
    pub body: Body,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why a request got no answer, or a body no end. Its text holds no more of an address than
/// host and port: the rest may hold what should not be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// What went wrong; of an address it holds host and port at most.
    pub message: String,
    /// Whether asking again may help.
    pub kind: TransportErrorKind,
}

/// What a failure means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportErrorKind {
    /// The connection failed; another may not.
    Broken,
    /// It will fail again: a recording does not have the request.
    Final,
}

impl TransportError {
    /// A connection that failed.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: TransportErrorKind::Broken }
    }

    /// The error of a request that got no answer.
    pub(crate) fn unanswered(self) -> ProviderError {
        match self.kind {
            TransportErrorKind::Broken => ProviderError::Network { message: self.message },
            TransportErrorKind::Final => ProviderError::Other { message: self.message },
        }
    }

    /// The error of a body that broke off.
    pub(crate) fn broken_off(self) -> ProviderError {
        match self.kind {
            TransportErrorKind::Broken => ProviderError::Incomplete { message: self.message },
            TransportErrorKind::Final => ProviderError::Other { message: self.message },
        }
    }
}

/// Carries requests. It sends each exactly once and follows nothing: retrying belongs to the connection.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends a request. Dropping the future, or the answer's body, ends the exchange.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError>;
}
