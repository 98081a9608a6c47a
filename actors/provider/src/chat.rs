//! OpenAI chat completions, and every service that speaks it.

mod chunk;
mod decode;
mod details;
mod encode;
mod stencil;
mod structured;
#[cfg(any(test, feature = "request-rules"))]
pub(crate) mod validator;

use std::sync::Arc;

use playhouse_protocol::{ModelConfig, OpenAiCompat, ProviderError, StreamConfig};
use reqwest::Url;
use reqwest::header::AUTHORIZATION;

pub use decode::decoder;

use crate::wire::decoder::{Decoder, Limits};
use crate::wire::service::{Protocol, Service};
use crate::wire::setup::{SetupError, Wiring, base_url, endpoint, key_header, service};
use crate::wire::transcripts::Transcripts;
use crate::wire::transport::HttpRequest;

/// Where OpenAI itself is.
const BASE_URL: &str = "https://api.openai.com/v1";

/// How one service speaks chat completions.
#[derive(Clone, Debug)]
struct Dialect {
    /// Its own name, by which it knows its own messages.
    provider: Arc<str>,
    compat: OpenAiCompat,
}

impl Dialect {
    fn of(model: &ModelConfig) -> Self {
        Self { provider: model.provider.clone(), compat: model.compat.as_deref().copied().unwrap_or_default() }
    }
}

/// Chat completions at one address.
#[derive(Debug)]
struct Chat {
    url: Url,
    dialect: Dialect,
}

/// A service that speaks chat completions.
pub(crate) fn connect(model: &ModelConfig, wiring: &Wiring) -> Result<Service, SetupError> {
    let base = base_url(model, BASE_URL)?;
    let url = endpoint(&base, "/chat/completions")?;
    let credentials = key_header(model, &base, "OPENAI_API_KEY", (AUTHORIZATION, "Bearer "))?;
    service(model, wiring, &base, Chat { url, dialect: Dialect::of(model) }, credentials)
}

impl Protocol for Chat {
    fn request(&self, config: &StreamConfig, transcripts: &Transcripts) -> Result<HttpRequest, ProviderError> {
        let body = encode::encode_request(&self.dialect, config, transcripts)?;
        Ok(HttpRequest::post_json(self.url.clone(), body))
    }

    fn decoder(&self, config: &StreamConfig, limits: Limits) -> Box<dyn Decoder> {
        decode::reader(limits, decode::Reading::of(&self.dialect.compat, config))
    }

    fn classify_plain(&self, body: &str) -> Option<ProviderError> {
        decode::plain_failure(body)
    }
}

#[cfg(test)]
#[path = "chat/conformance_tests.rs"]
mod tests;
