//! OpenAI Responses: at OpenAI itself, and at Azure ([`azure`]).
//!
//! Nothing is kept at the service (`store: false`): every turn sends the whole conversation, reasoning included, which
//! comes back sealed and is sent as it came.

pub(crate) mod azure;
mod decode;
mod encode;
mod event;
mod failure;
#[cfg(any(test, feature = "request-rules"))]
pub(crate) mod validator;

use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::{ModelConfig, ProviderError, StreamConfig};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};

use crate::wire::decoder::{Decoder, Limits};
use crate::wire::service::{Protocol, Service};
use crate::wire::setup::{SetupError, Wiring, base_url, endpoint, key_header, service};
use crate::wire::transcripts::Transcripts;
use crate::wire::transport::HttpRequest;

/// Where OpenAI itself is.
const BASE_URL: &str = "https://api.openai.com/v1";

/// Responses at one address.
#[derive(Debug)]
struct Responses {
    url: Url,
    /// The provider's name: the one whose reasoning can be sent back.
    provider: Arc<str>,
}

/// A service that speaks Responses.
pub(crate) fn connect(model: &ModelConfig, wiring: &Wiring) -> Result<Service, SetupError> {
    let base = base_url(model, BASE_URL)?;
    let protocol = Responses { url: endpoint(&base, "/responses")?, provider: model.provider.clone() };
    let credentials = key_header(model, &base, "OPENAI_API_KEY", (AUTHORIZATION, "Bearer "))?;
    service(model, wiring, &base, protocol, credentials)
}

/// What reads a response in free form.
pub(crate) fn decoder(limits: Limits) -> Box<dyn Decoder> {
    decode::decoder(limits)
}

impl Protocol for Responses {
    fn request(&self, config: &StreamConfig, transcripts: &Transcripts) -> Result<HttpRequest, ProviderError> {
        let body = encode::encode_request(config, &self.provider, transcripts)?;
        Ok(HttpRequest::post_json(self.url.clone(), body))
    }

    fn decoder(&self, _: &StreamConfig, limits: Limits) -> Box<dyn Decoder> {
        decode::decoder(limits)
    }

    fn classify(&self, status: u16, _: &HeaderMap, body: &str, retry_after: Option<Duration>) -> ProviderError {
        failure::classify_http(status, body, retry_after)
    }

    fn classify_plain(&self, body: &str) -> Option<ProviderError> {
        failure::classify_plain(body)
    }
}
