//! Google Gemini, at its public service and, in [`vertex`], on Google Cloud.

mod adc;
mod chunk;
mod decode;
mod encode;
mod environment;
mod failure;
mod models;
mod parts;
#[cfg(any(test, feature = "request-rules"))]
pub(crate) mod validator;
pub(crate) mod vertex;

use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::{ModelConfig, ProviderError, StreamConfig, ThinkingLevel};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName};

use self::models::Generation;
use self::parts::{Ids, Writer};
use crate::thinking::Off;
use crate::wire::decoder::{Decoder, Limits};
use crate::wire::service::{Protocol, Service};
use crate::wire::setup::{SetupError, Wiring, base_url, endpoint, key_header, service, version_of};
use crate::wire::transcripts::Transcripts;
use crate::wire::transport::HttpRequest;

/// Where Google itself is.
const BASE_URL: &str = "https://generativelanguage.googleapis.com";
/// How much encoded history is kept for older models; the service keeps as much for the newer.
const TRANSCRIPTS: usize = 64 << 20;

/// Gemini at one address.
#[derive(Debug)]
struct Gemini {
    host: Host,
    provider: Arc<str>,
    /// Older models are sent the same messages in another form.
    older: Transcripts,
}

/// Where requests go.
#[derive(Debug)]
enum Host {
    /// The public service, known by a key.
    Public(Url),
    /// Google Cloud: one project in one region, known by a token.
    Vertex(vertex::CloudLocation),
}

/// A service that speaks Gemini, known by a key.
pub(crate) fn connect(model: &ModelConfig, wiring: &Wiring) -> Result<Service, SetupError> {
    let base = base_url(model, BASE_URL)?;
    let credentials = key_header(model, &base, "GEMINI_API_KEY", (HeaderName::from_static("x-goog-api-key"), ""))?;
    service(model, wiring, &base, Gemini::new(Host::Public(base.clone()), model), credentials)
}

impl Gemini {
    fn new(host: Host, model: &ModelConfig) -> Self {
        Self { host, provider: model.provider.clone(), older: Transcripts::new(TRANSCRIPTS) }
    }

    fn writer(&self, model: &ModelConfig) -> Writer<'_> {
        Writer {
            provider: &self.provider,
            ids: match self.host {
                Host::Public(_) => Ids::Sent,
                Host::Vertex(_) => Ids::Left,
            },
            generation: Generation::of(&model.id),
        }
    }

    /// The transcripts of messages as this writer writes them.
    fn transcripts<'a>(&'a self, writer: Writer<'_>, newest: &'a Transcripts) -> &'a Transcripts {
        match writer.generation {
            Generation::Three => newest,
            Generation::Older => &self.older,
        }
    }

    fn url(&self, model: &ModelConfig, method: &str) -> Result<Url, ProviderError> {
        let unusable = |error: SetupError| ProviderError::Other { message: error.to_string() };
        match &self.host {
            Host::Public(base) => {
                let resource = models::resource(&model.id)?;
                let version = version_of(base).unwrap_or("v1beta");
                endpoint(base, &format!("/{version}/{resource}:{method}")).map_err(unusable)
            }
            Host::Vertex(place) => place.url(model, method),
        }
    }
}

/// Whether a model can be told how much to reason, by its id.
pub(crate) fn reasons(id: &str) -> bool {
    models::thinking(id, ThinkingLevel::High, None).is_some()
}

/// What becomes of a model that is told not to reason, by its id.
pub(crate) fn off(id: &str) -> Off {
    match (reasons(id), models::thinking(id, ThinkingLevel::Off, None)) {
        (true, None) => Off::Reasons,
        (true, Some(_)) | (false, _) => Off::Quiet,
    }
}

/// What reads a response in free form.
pub(crate) fn decoder(limits: Limits) -> Box<dyn Decoder> {
    decode::decoder(limits, None)
}

impl Protocol for Gemini {
    fn request(&self, config: &StreamConfig, transcripts: &Transcripts) -> Result<HttpRequest, ProviderError> {
        let writer = self.writer(&config.model_config);
        let body = encode::request(config, self.transcripts(writer, transcripts), writer)?;
        Ok(HttpRequest::post_json(self.url(&config.model_config, "streamGenerateContent?alt=sse")?, body))
    }

    fn decoder(&self, config: &StreamConfig, limits: Limits) -> Box<dyn Decoder> {
        decode::decoder(limits, encode::answer_tool(config))
    }

    fn classify(&self, status: u16, _: &HeaderMap, body: &str, retry_after: Option<Duration>) -> ProviderError {
        failure::classify(status, body, retry_after)
    }

    fn classify_plain(&self, body: &str) -> Option<ProviderError> {
        failure::classify_in_place(body)
    }

    fn count_request(
        &self,
        config: &StreamConfig,
        transcripts: &Transcripts,
    ) -> Option<Result<HttpRequest, ProviderError>> {
        Some(self.count(config, transcripts))
    }

    fn counted(&self, body: &[u8]) -> Option<u64> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Counted {
            total_tokens: u64,
        }
        serde_json::from_slice::<Counted>(body).ok().map(|counted| counted.total_tokens)
    }
}

impl Gemini {
    fn count(&self, config: &StreamConfig, transcripts: &Transcripts) -> Result<HttpRequest, ProviderError> {
        let writer = self.writer(&config.model_config);
        let model = match self.host {
            Host::Public(_) => Some(models::full_name(&config.model_config.id)),
            Host::Vertex(_) => None,
        };
        let body = encode::count(config, self.transcripts(writer, transcripts), writer, model.as_deref())?;
        Ok(HttpRequest::post_json(self.url(&config.model_config, "countTokens")?, body))
    }
}

#[cfg(test)]
#[path = "gemini/gemini_tests.rs"]
mod tests;
