//! Anthropic Messages, and every service that speaks it.

mod decode;
mod event;
mod failure;
mod generation;
mod message;
mod request;
#[cfg(any(test, feature = "request-rules"))]
pub(crate) mod validator;

use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::{ModelConfig, ProviderError, StreamConfig};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::thinking::Off;
use crate::wire::decoder::{Decoder, Limits};
use crate::wire::service::{Protocol, Service};
use crate::wire::setup::{SetupError, Wiring, base_url, endpoint, key_header, key_of, service};
use crate::wire::transcripts::Transcripts;
use crate::wire::transport::HttpRequest;
use request::Ask;

/// Where Anthropic itself is.
const BASE_URL: &str = "https://api.anthropic.com";
/// The variable of an ordinary key.
const KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
/// The variable of a token that goes where OAuth's go.
const TOKEN_VARIABLE: &str = "ANTHROPIC_AUTH_TOKEN";
/// What OAuth tokens begin with; the service refuses them as keys.
const TOKEN_PREFIX: &str = "sk-ant-oat";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));

/// Messages at one address.
#[derive(Debug)]
struct Anthropic {
    /// Whose sealed reasoning is sent back.
    provider: Arc<str>,
    messages: Url,
    count: Url,
}

/// A service that speaks Anthropic Messages.
pub(crate) fn connect(model: &ModelConfig, wiring: &Wiring) -> Result<Service, SetupError> {
    let base = base_url(model, BASE_URL)?;
    let protocol = Anthropic::at(model, &base)?;
    let header = if is_token(model) { (AUTHORIZATION, "Bearer ") } else { (API_KEY, "") };
    let credentials = key_header(model, &base, KEY_VARIABLE, header)?;
    service(model, wiring, &base, protocol, credentials)
}

fn is_token(model: &ModelConfig) -> bool {
    model.key_variable.as_deref() == Some(TOKEN_VARIABLE)
        || key_of(model).is_some_and(|key| key.expose().starts_with(TOKEN_PREFIX))
}

impl Anthropic {
    fn at(model: &ModelConfig, base: &Url) -> Result<Self, SetupError> {
        Ok(Self {
            provider: model.provider.clone(),
            messages: endpoint(base, "/v1/messages")?,
            count: endpoint(base, "/v1/messages/count_tokens")?,
        })
    }

    fn post(&self, ask: Ask, config: &StreamConfig, transcripts: &Transcripts) -> Result<HttpRequest, ProviderError> {
        let url = match ask {
            Ask::Answer => &self.messages,
            Ask::Count => &self.count,
        };
        let body = request::encode(ask, config, &self.provider, transcripts)?;
        let mut request = HttpRequest::post_json(url.clone(), body);
        let (name, value) = VERSION;
        request.headers.insert(name, value);
        Ok(request)
    }
}

/// Whether a model can reason, by its id.
pub(crate) fn reasons(id: &str) -> bool {
    generation::reasons(id)
}

/// Whether a model reasons unless it is kept from it, by its id.
pub(crate) fn reasons_by_itself(id: &str) -> bool {
    generation::Generation::of(id) == generation::Generation::Always
}

/// What becomes of a model that is told not to reason, by its id.
pub(crate) fn off(id: &str) -> Off {
    match (reasons_by_itself(id), generation::off(id)) {
        (true, None) => Off::Reasons,
        (true, Some(_)) | (false, _) => Off::Quiet,
    }
}

/// What reads a response in free form.
pub(crate) fn decoder(limits: Limits) -> Box<dyn Decoder> {
    decode::decoder(None, limits)
}

impl Protocol for Anthropic {
    fn request(&self, config: &StreamConfig, transcripts: &Transcripts) -> Result<HttpRequest, ProviderError> {
        self.post(Ask::Answer, config, transcripts)
    }

    fn decoder(&self, config: &StreamConfig, limits: Limits) -> Box<dyn Decoder> {
        decode::decoder(request::answer_tool(config), limits)
    }

    fn classify(&self, status: u16, _: &HeaderMap, body: &str, retry_after: Option<Duration>) -> ProviderError {
        failure::classify(status, body, retry_after)
    }

    fn classify_plain(&self, body: &str) -> Option<ProviderError> {
        failure::classify_body(body)
    }

    fn count_request(
        &self,
        config: &StreamConfig,
        transcripts: &Transcripts,
    ) -> Option<Result<HttpRequest, ProviderError>> {
        Some(self.post(Ask::Count, config, transcripts))
    }

    fn counted(&self, body: &[u8]) -> Option<u64> {
        #[derive(serde::Deserialize)]
        struct Counted {
            input_tokens: u64,
        }
        serde_json::from_slice::<Counted>(body).ok().map(|counted| counted.input_tokens)
    }
}

#[cfg(test)]
#[path = "anthropic/conformance_tests.rs"]
mod tests;
