//! What proves to a service who asks.

use std::fmt;

use async_trait::async_trait;
use playhouse_protocol::{ApiProtocol, ModelConfig, ProviderError, Secret};
use reqwest::header::{HeaderName, HeaderValue};

use super::setup::key_of;
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

/// Where a key came from, for whoever has to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// An environment variable.
    Variable(String),
    /// The program itself.
    Given,
    /// Nowhere: none was sent. The variable that is looked for, where there is one.
    Missing(Option<String>),
    /// What the vendor's other tools are signed in with.
    Login,
}

impl KeySource {
    pub(crate) fn of(model: &ModelConfig) -> Self {
        match (key_of(model), &model.key_variable, model.api) {
            (Some(_), Some(variable), _) => Self::Variable(variable.clone()),
            (Some(_), None, _) => Self::Given,
            (None, _, ApiProtocol::GoogleVertex | ApiProtocol::BedrockConverse) => Self::Login,
            (None, variable, _) => Self::Missing(variable.clone()),
        }
    }

    /// What follows the words of a service that does not know the key.
    pub(crate) fn refused(&self) -> String {
        match self {
            Self::Variable(name) => format!(
                "; it came from the environment variable {name}: check that it is whole, still valid, and this provider's"
            ),
            Self::Given => "; it was given in code, not by an environment variable".to_owned(),
            Self::Missing(Some(name)) => format!("; no key was sent: set the environment variable {name}"),
            Self::Missing(None) => "; no key was sent: give the model one".to_owned(),
            Self::Login => String::new(),
        }
    }

    /// What follows the words of a service that knows the key and does not let it.
    pub(crate) fn forbidden(&self) -> String {
        match self {
            Self::Variable(name) => format!(
                "; the key in {name} is not permitted to do this: check its rights, its project, and where it may be \
                 used from"
            ),
            Self::Given => "; the key that was given is not permitted to do this: check its rights".to_owned(),
            Self::Missing(_) | Self::Login => self.refused(),
        }
    }
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
