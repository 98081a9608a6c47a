//! What proves to a service who asks.

use std::fmt;

use async_trait::async_trait;
use playhouse_protocol::{ProviderError, Secret};
use reqwest::header::{HeaderName, HeaderValue};

use super::transport::HttpRequest;

/// Puts what proves who asks onto requests.
#[async_trait]
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Signs a request, after everything else in it is settled.
    async fn authorize(&self, request: &mut HttpRequest) -> Result<(), ProviderError>;

    /// Gets others after the service refused these; `Ok(false)` when there are no others.
    async fn refresh(&self) -> Result<bool, ProviderError> {
        Ok(false)
    }

    /// Takes the secrets out of a text that a service sent.
    fn redact(&self, text: String) -> String;
}

/// Nothing: for a service that asks for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoCredentials;

#[async_trait]
impl Credentials for NoCredentials {
    async fn authorize(&self, _: &mut HttpRequest) -> Result<(), ProviderError> {
        Ok(())
    }

    fn redact(&self, text: String) -> String {
        text
    }
}

/// A key in a header.
#[derive(Clone, Debug)]
pub(crate) struct KeyHeader {
    name: HeaderName,
    value: HeaderValue,
    key: Secret,
}

impl KeyHeader {
    /// `name: {prefix}{key}`; `None` when the key holds what no header can.
    pub(crate) fn new(name: HeaderName, prefix: &str, key: &Secret) -> Option<Self> {
        let key = Secret::new(key.expose().trim());
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose())).ok()?;
        value.set_sensitive(true);
        Some(Self { name, value, key })
    }
}

#[async_trait]
impl Credentials for KeyHeader {
    async fn authorize(&self, request: &mut HttpRequest) -> Result<(), ProviderError> {
        request.headers.insert(self.name.clone(), self.value.clone());
        Ok(())
    }

    fn redact(&self, text: String) -> String {
        redacted(text, &self.key)
    }
}

/// A text without a secret. One of a few characters stands in too many words to be taken out.
pub(crate) fn redacted(text: String, secret: &Secret) -> String {
    match secret.expose() {
        short if short.len() < 4 => text,
        secret if text.contains(secret) => text.replace(secret, "****"),
        _ => text,
    }
}
