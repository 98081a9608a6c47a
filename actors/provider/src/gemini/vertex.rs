//! Gemini on Google Cloud: the same requests at addresses with a project and a region, and tokens instead of keys.

use std::sync::Arc;

use playhouse_protocol::{ModelConfig, ProviderError};
use reqwest::Url;
use reqwest::header::AUTHORIZATION;

use super::adc::{self, Adc, Clock, FoundCredentials};
use super::environment::Environment;
use super::models::segment;
use super::{Gemini, Host};
use crate::provider::unix_ms;
use crate::wire::credentials::{Credentials, KeyHeader, NoCredentials};
use crate::wire::http::is_loopback;
use crate::wire::service::Service;
use crate::wire::setup::{SetupError, Wiring, base_url, endpoint, key_of, service, version_of};

/// The region that needs no choice: Google answers from wherever it has room.
const REGION: &str = "global";

/// Where models are on Google Cloud, unless they say themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CloudLocation {
    project: String,
    region: String,
}

/// A service that speaks Gemini on Google Cloud. Reads the environment and files.
pub(crate) fn connect(model: &ModelConfig, wiring: &Wiring) -> Result<Service, SetupError> {
    connect_in(model, wiring, &Environment::read(), Arc::new(|| unix_ms() / 1_000))
}

/// The same with the environment and the clock given.
fn connect_in(
    model: &ModelConfig,
    wiring: &Wiring,
    environment: &Environment,
    clock: Clock,
) -> Result<Service, SetupError> {
    let given =
        |text: &Option<String>| text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let region = given(&model.region).or_else(|| given(&environment.region)).unwrap_or_else(|| REGION.to_owned());
    let base = base_url(model, &host(&region)?)?;
    let (credentials, own_project) = credentials(model, wiring, &base, environment, clock)?;
    let project = given(&model.project).or_else(|| given(&environment.project)).or(own_project);
    let Some(project) = project else {
        return Err(SetupError::Missing {
            provider: model.provider.to_string(),
            what: "a project: set the environment variable GOOGLE_CLOUD_PROJECT, or the model's `project`".to_owned(),
        });
    };
    let place = CloudLocation { project, region };
    service(model, wiring, &base, Gemini::new(Host::Vertex(place), model), credentials)
}

/// Credentials, and the project they belong to if they say so: a token that was given, else application default
/// credentials.
fn credentials(
    model: &ModelConfig,
    wiring: &Wiring,
    base: &Url,
    environment: &Environment,
    clock: Clock,
) -> Result<(Arc<dyn Credentials>, Option<String>), SetupError> {
    let provider = || model.provider.to_string();
    if let Some(token) = key_of(model).or_else(|| environment.token.clone()) {
        let header = KeyHeader::new(AUTHORIZATION, "Bearer ", &token);
        return Ok((Arc::new(header.ok_or_else(|| SetupError::BadKey { provider: provider() })?), None));
    }
    let found = adc::find(environment).map_err(|reason| SetupError::BadCredentials { provider: provider(), reason })?;
    match found {
        // A service on this machine can do without; nobody else is asked who we are.
        FoundCredentials { explicit: adc::Explicit::No, .. } if is_loopback(base) => {
            Ok((Arc::new(NoCredentials), None))
        }
        found => {
            let project = found.project.clone();
            Ok((Arc::new(Adc::new(found, clock).telling(&wiring.vault)), project))
        }
    }
}

/// The host of a region.
fn host(region: &str) -> Result<String, SetupError> {
    if region.is_empty() || !region.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Err(SetupError::BadBaseUrl { reason: format!("`{region}` is no region of Google Cloud") });
    }
    Ok(match region {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        // Several regions of one jurisdiction.
        "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    })
}

impl CloudLocation {
    #[cfg(test)]
    pub(crate) fn new(project: &str, region: &str) -> Self {
        Self { project: project.to_owned(), region: region.to_owned() }
    }

    /// Where a model is asked. A connection may serve models of several projects and regions.
    pub(crate) fn url(&self, model: &ModelConfig, method: &str) -> Result<Url, ProviderError> {
        let unusable = |error: SetupError| ProviderError::Other { message: error.to_string() };
        let region = model.region.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or(&self.region);
        let project = model.project.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or(&self.project);
        let base = base_url(model, &host(region).map_err(unusable)?).map_err(unusable)?;
        let resource = resource(&model.id, project, region)?;
        let version = version_of(&base).unwrap_or("v1");
        endpoint(&base, &format!("/{version}/{resource}:{method}")).map_err(unusable)
    }
}

/// A model's place in a project and region. An id may name its publisher, an endpoint, or the whole place.
fn resource(id: &str, project: &str, region: &str) -> Result<String, ProviderError> {
    if id.contains("claude") {
        let message = format!(
            "Claude on Vertex is not supported, because it does not speak Gemini's protocol: `{id}` is to be had as \
             anthropic/ID, or at Amazon as bedrock/ID"
        );
        return Err(ProviderError::Other { message });
    }
    let at = |name: &str| segment(id, name);
    let parts: Vec<&str> = id.split('/').collect();
    let path = match parts.as_slice() {
        ["projects", ..] => {
            let whole: Result<Vec<String>, ProviderError> = parts.iter().map(|part| at(part)).collect();
            return Ok(whole?.join("/"));
        }
        ["endpoints", name] => format!("endpoints/{}", at(name)?),
        ["models", name] | [name] => format!("publishers/google/models/{}", at(name)?),
        ["publishers", publisher, "models", name] | [publisher, name] => {
            format!("publishers/{}/models/{}", at(publisher)?, at(name)?)
        }
        _ => {
            let message = format!("the model `{id}` cannot be asked for: say `publishers/NAME/models/ID`");
            return Err(ProviderError::Other { message });
        }
    };
    Ok(format!("projects/{}/locations/{}/{path}", at(project)?, at(region)?))
}

#[cfg(test)]
#[path = "vertex_tests.rs"]
mod tests;
