//! Amazon Bedrock, through ConverseStream.
//!
//! Who asks is proved by a Bedrock API key as a bearer, or by a signature (SigV4) made with AWS credentials, see
//! [`crate::aws`]. An AWS secret itself is never sent.

mod answer;
mod blocks;
mod decode;
mod encode;
mod failure;
mod family;
#[cfg(test)]
mod frame_writer;
mod frames;
#[cfg(any(test, feature = "request-rules"))]
pub(crate) mod validator;

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use playhouse_protocol::{ModelConfig, ProviderError, Secret, StreamConfig};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde::Deserialize;

use self::answer::AnswerTool;
use self::encode::{Ask, encode_request};
use crate::aws::{AwsCredentials, Clock, Environment, Scope, dns_suffix};
use crate::thinking::Off;
use crate::wire::credentials::{Credentials, KeyHeader};
use crate::wire::decoder::{Decoder, Limits};
use crate::wire::service::{Protocol, Service};
use crate::wire::setup::{SetupError, Wiring, base_url, endpoint, key_of, service};
use crate::wire::transcripts::Transcripts;
use crate::wire::transport::HttpRequest;

/// The variable that holds a Bedrock API key.
const KEY_VARIABLE: &str = "AWS_BEARER_TOKEN_BEDROCK";

/// What stays as it is in a path's segment: what RFC 3986 calls unreserved, and SigV4 counts on.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Converse at one address.
#[derive(Debug)]
struct Bedrock {
    base: Url,
    /// The connection's name: reasoning under another's seal is not sent.
    provider: Arc<str>,
    clock: Clock,
}

/// A service that speaks Converse. Reads the AWS configuration if nothing else names the region; credentials are
/// looked for when the first request is made.
pub(crate) fn connect(model: &ModelConfig, wiring: &Wiring) -> Result<Service, SetupError> {
    connect_in(model, wiring, Environment::of_process(), Clock::system())
}

fn connect_in(
    model: &ModelConfig,
    wiring: &Wiring,
    environment: Environment,
    clock: Clock,
) -> Result<Service, SetupError> {
    let key = key_of(model).or_else(|| environment.get(KEY_VARIABLE).map(Secret::new));
    let region = region(model, key.as_ref(), &environment)?;
    let base = match (&model.base_url, &region) {
        (Some(_), _) => base_url(model, "")?,
        (None, Some(region)) => {
            let host = format!("https://bedrock-runtime.{region}.{}", dns_suffix(region));
            base_url(model, &host)?
        }
        (None, None) => return Err(no_region(model)),
    };
    let credentials: Arc<dyn Credentials> = match (key, region) {
        (Some(key), _) => {
            refuse_aws_secret(model, &key, &environment)?;
            let header = KeyHeader::new(AUTHORIZATION, "Bearer ", &key);
            Arc::new(header.ok_or_else(|| SetupError::BadKey { provider: model.provider.to_string() })?)
        }
        (None, Some(region)) => {
            let scope = Scope { region, service: "bedrock" };
            Arc::new(AwsCredentials::new(environment, scope, clock.clone()).telling(&wiring.vault))
        }
        (None, None) => return Err(no_region(model)),
    };
    let protocol = Bedrock { base: base.clone(), provider: model.provider.clone(), clock };
    service(model, wiring, &base, protocol, credentials)
}

/// The region: the model's, the environment's, the profile's.
fn region(model: &ModelConfig, key: Option<&Secret>, environment: &Environment) -> Result<Option<String>, SetupError> {
    let named = model.region.clone().filter(|region| !region.trim().is_empty());
    let named = named.or_else(|| environment.get("AWS_REGION")).or_else(|| environment.get("AWS_DEFAULT_REGION"));
    let region = match named {
        Some(region) => Some(region),
        // Only asked for where it is needed: a broken file is no trouble to who has no use for it.
        None if model.base_url.is_some() && key.is_some() => None,
        None => environment
            .profile_region()
            .map_err(|reason| SetupError::BadCredentials { provider: model.provider.to_string(), reason })?,
    };
    let Some(region) = region.map(|region| region.trim().to_owned()) else { return Ok(None) };
    if !region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        let reason = "the region holds characters that no region has; it is like us-east-1".to_owned();
        return Err(SetupError::BadBaseUrl { reason });
    }
    Ok(Some(region))
}

fn no_region(model: &ModelConfig) -> SetupError {
    SetupError::Missing {
        provider: model.provider.to_string(),
        what: "a region: set the environment variable AWS_REGION, for example to us-east-1".to_owned(),
    }
}

/// An access key or its secret in the place of a Bedrock API key would be sent to whoever listens.
fn refuse_aws_secret(model: &ModelConfig, key: &Secret, environment: &Environment) -> Result<(), SetupError> {
    let key = key.expose();
    let variables = ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"];
    let named = model.key_variable.as_deref().is_some_and(|name| variables.contains(&name));
    let same = variables.iter().any(|name| environment.get(name).is_some_and(|value| value.trim() == key));
    let is_id = key.len() == 20 && (key.starts_with("AKIA") || key.starts_with("ASIA"));
    // Amazon's own keys for Bedrock are longer.
    let is_secret = key.len() == 40
        && model.base_url.is_none()
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '+'));
    if named || same || is_id || is_secret {
        return Err(SetupError::BadCredentials {
            provider: model.provider.to_string(),
            reason: format!(
                "the key is an AWS access key, which is never sent: put a Bedrock API key into {KEY_VARIABLE}, or \
                 leave the key out and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ),
        });
    }
    Ok(())
}

impl Bedrock {
    fn url(&self, config: &StreamConfig, action: &str) -> Result<Url, ProviderError> {
        let id = config.model_config.id.trim();
        let bad = |reason: String| ProviderError::Other { message: format!("the model cannot be asked: {reason}") };
        if id.chars().all(|c| c == '.') {
            return Err(bad(format!("`{id}` is no model's id")));
        }
        let path = format!("/model/{}/{action}", utf8_percent_encode(id, SEGMENT));
        endpoint(&self.base, &path).map_err(|error| bad(error.to_string()))
    }

    fn ask(
        &self,
        config: &StreamConfig,
        transcripts: &Transcripts,
        action: &str,
        ask: Ask,
    ) -> Result<HttpRequest, ProviderError> {
        let body = encode_request(&self.provider, config, transcripts, ask)?;
        Ok(HttpRequest::post_json(self.url(config, action)?, body))
    }
}

/// Whether a model can be told how much to reason, by its id.
pub(crate) fn reasons(id: &str) -> bool {
    family::Family::of(id).thinking() != family::Thinking::None
}

/// What becomes of a model that is told not to reason, by its id. Here nothing is said for it.
pub(crate) fn off(id: &str) -> Off {
    match (crate::anthropic::reasons_by_itself(id), family::Family::of(id)) {
        (true, family::Family::AdaptiveClaude) => Off::Reasons,
        (true | false, _) => Off::Quiet,
    }
}

/// What reads a response in free form.
pub(crate) fn decoder(limits: Limits) -> Box<dyn Decoder> {
    decode::decoder(limits, None)
}

impl Protocol for Bedrock {
    fn content_type(&self) -> &'static str {
        "application/vnd.amazon.eventstream"
    }

    fn request(&self, config: &StreamConfig, transcripts: &Transcripts) -> Result<HttpRequest, ProviderError> {
        self.ask(config, transcripts, "converse-stream", Ask::Answer)
    }

    fn decoder(&self, config: &StreamConfig, limits: Limits) -> Box<dyn Decoder> {
        decode::decoder(limits, AnswerTool::of(config))
    }

    fn classify(&self, status: u16, headers: &HeaderMap, body: &str, retry_after: Option<Duration>) -> ProviderError {
        failure::over_http(status, headers, body, retry_after, self.clock.now())
    }

    fn count_request(
        &self,
        config: &StreamConfig,
        transcripts: &Transcripts,
    ) -> Option<Result<HttpRequest, ProviderError>> {
        Some(self.ask(config, transcripts, "count-tokens", Ask::Count))
    }

    fn counted(&self, body: &[u8]) -> Option<u64> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Counted {
            input_tokens: u64,
        }
        serde_json::from_slice::<Counted>(body).ok().map(|counted| counted.input_tokens)
    }
}

#[cfg(test)]
#[path = "bedrock/loopback_tests.rs"]
mod tests;
