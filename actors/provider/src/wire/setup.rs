//! From a model's configuration to a service: addresses, keys, headers.

use std::fmt;
use std::sync::Arc;

use playhouse_protocol::{ModelConfig, Secret, Vault};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::credentials::{Credentials, KeyHeader, KeySource, NoCredentials};
use super::http::{HttpTransport, is_loopback};
use super::service::{Parts, Protocol, Service, ServiceOptions};
use super::transport::Transport;
use crate::scripted::ScriptError;

/// Why a model cannot be asked at all. Its text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no key.
    #[error("no key for `{provider}`: set the environment variable {variable}")]
    MissingKey {
        /// The service that needs a key.
        provider: String,
        /// The environment variable that is looked for.
        variable: String,
    },
    /// The key cannot be sent.
    #[error("the key for `{provider}` holds characters that cannot be sent: copy it again")]
    BadKey {
        /// The service as the model names it.
        provider: String,
    },
    /// The base URL cannot be used.
    #[error("the base URL cannot be used: {reason}")]
    BadBaseUrl {
        /// What is wrong with the address.
        reason: String,
    },
    /// A header cannot be used.
    #[error("the header `{name}` cannot be sent: {reason}")]
    BadHeader {
        /// The header whose name or value cannot be sent.
        name: String,
        /// What about it cannot be sent.
        reason: String,
    },
    /// Something that the service needs to be told is missing.
    #[error("`{provider}` needs {what}")]
    Missing {
        /// The service as the model names it.
        provider: String,
        /// What, and where to say it.
        what: String,
    },
    /// Credentials that were found cannot be used.
    #[error("the credentials for `{provider}` cannot be used: {reason}")]
    BadCredentials {
        /// The service as the model names it.
        provider: String,
        /// Why, and what to do.
        reason: String,
    },
    /// No provider of this name was given to the house.
    #[error("no provider `{provider}` was given to the house: register it with HouseBuilder::provider")]
    UnknownProvider {
        /// The name that no service has.
        provider: String,
    },
    /// A scripted model without a script.
    #[error("the scripted model has no script: give one with --script FILE")]
    MissingScript,
    /// The script cannot be used.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The HTTP client could not be made.
    #[error("the HTTP client could not be made (are the system's certificates installed?): {message}")]
    Client {
        /// What the HTTP library said.
        message: String,
    },
}

/// Puts something between a service and its HTTP transport, or in its place.
pub type Wrap = Arc<dyn Fn(HttpTransport) -> Arc<dyn Transport> + Send + Sync>;

/// What services are made with, beside what a model says.
#[derive(Clone, Default)]
pub struct Wiring {
    /// How long a service may take, and how much it may send.
    pub options: ServiceOptions,
    /// What lies between services and the network.
    pub wrap: Option<Wrap>,
    /// Whether credentials are needed at all.
    pub answers: Answers,
    /// Learns the keys and tokens that come into use.
    pub vault: Vault,
}

/// Where answers to requests come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// The services, which want to know who asks.
    #[default]
    Services,
    /// A recording, which does not: no credentials are needed, and none are looked for.
    Recording,
}

impl fmt::Debug for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wiring").field("options", &self.options).field("wrapped", &self.wrap.is_some()).finish()
    }
}

/// A base URL that can be one: `http` or `https`, a host, no password, no query. Without a slash at its end.
pub(crate) fn base_url(model: &ModelConfig, default: &str) -> Result<Url, SetupError> {
    let bad = |reason: &str| SetupError::BadBaseUrl { reason: reason.to_owned() };
    let base = model.base_url.as_deref().unwrap_or(default);
    let url = Url::parse(base.trim()).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it must start with http:// or https:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("a user name or password in it would be written to the journal; give the key by its variable"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("it must not have a `?` or `#` part"));
    }
    Ok(url)
}

/// `{base}{path}`; `path` starts with a slash and may have a query. What the base ends with is not said again: with the
/// path `/v1/messages` it may end in `/v1`, or in all of it.
pub(crate) fn endpoint(base: &Url, path: &str) -> Result<Url, SetupError> {
    let base = base.as_str().trim_end_matches('/');
    let ends = path.match_indices(['/', '?']).map(|(at, _)| at).chain([path.len()]);
    let said = ends.rev().filter_map(|end| path.split_at_checked(end)).find(|(start, _)| base.ends_with(start));
    let rest = said.map_or(path, |(_, rest)| rest);
    Url::parse(&format!("{base}{rest}")).map_err(|error| SetupError::BadBaseUrl { reason: error.to_string() })
}

/// The version that a base URL ends with, such as `v1beta`.
pub(crate) fn version_of(base: &Url) -> Option<&str> {
    let last = base.path().trim_end_matches('/').rsplit('/').next()?;
    let is_version = last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_version.then_some(last)
}

/// The model's key, if it has one that is not blank.
pub(crate) fn key_of(model: &ModelConfig) -> Option<Secret> {
    let key = model.api_key.as_ref().map(|key| Secret::new(key.expose().trim()));
    key.filter(|key| !key.expose().is_empty())
}

/// The model's key in a header. Without one: an error that names `variable` (or the model's own) for the vendor's
/// service itself, and for another if the model says where its key is; nothing for one on this machine.
pub(crate) fn key_header(
    model: &ModelConfig,
    base: &Url,
    variable: &str,
    header: (HeaderName, &str),
) -> Result<Arc<dyn Credentials>, SetupError> {
    let provider = || model.provider.to_string();
    if let Some(key) = key_of(model) {
        let (name, prefix) = header;
        let header = KeyHeader::new(name, prefix, &key).ok_or_else(|| SetupError::BadKey { provider: provider() })?;
        return Ok(Arc::new(header));
    }
    let needed = match &model.base_url {
        _ if is_loopback(base) => None,
        None => Some(model.key_variable.clone().unwrap_or_else(|| variable.to_owned())),
        Some(_) => model.key_variable.clone(),
    };
    match needed {
        Some(variable) => Err(SetupError::MissingKey { provider: provider(), variable }),
        None => Ok(Arc::new(NoCredentials)),
    }
}

/// The headers that the model's configuration adds.
fn headers_of(model: &ModelConfig) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &model.headers {
        let bad = |reason: &str| SetupError::BadHeader { name: name.clone(), reason: reason.to_owned() };
        let parsed: HeaderName = name.parse().map_err(|_| bad("that is no name of a header"))?;
        let holds_key = ["authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "proxy-authorization"];
        if holds_key.contains(&parsed.as_str()) {
            return Err(bad("it would be written to the journal; give the key by its variable"));
        }
        let value = HeaderValue::from_str(value).map_err(|_| bad("its value holds characters no header can"))?;
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// A service at `base` with a protocol and credentials.
pub(crate) fn service(
    model: &ModelConfig,
    wiring: &Wiring,
    base: &Url,
    protocol: impl Protocol + 'static,
    credentials: Arc<dyn Credentials>,
) -> Result<Service, SetupError> {
    let http = HttpTransport::new(base, wiring.options.deadlines.connect)
        .map_err(|error| SetupError::Client { message: error.message })?;
    let transport = match &wiring.wrap {
        None => Arc::new(http),
        Some(wrap) => wrap(http),
    };
    Ok(Service::new(Parts {
        provider: model.provider.clone(),
        place: base.as_str().to_owned(),
        protocol: Box::new(protocol),
        transport,
        credentials,
        key_source: KeySource::of(model),
        headers: headers_of(model)?,
        options: wiring.options,
    }))
}
