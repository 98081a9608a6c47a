//! AWS credentials: found by the standard chain, kept until shortly before they expire, and used to sign.
//!
//! I/O: reads the shared configuration files and cached tokens, asks the services that hand out credentials, runs a
//! `credential_process`. All of it when a request is signed. Writes nothing.

mod chain;
mod container;
mod http;
mod imds;
mod process;
mod profile;
mod sign;
mod sso;
mod sts;
#[cfg(test)]
pub(crate) mod test_server;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use playhouse_protocol::{ProviderError, Secret, Vault, lock};
use serde::Deserialize;

use self::chain::Chain;
use crate::wire::credentials::{Credentials, redacted};
use crate::wire::transport::HttpRequest;

/// How long before they expire credentials are replaced.
const EARLY: SignedDuration = SignedDuration::from_mins(5);
/// How many secrets that were in use are remembered, to be taken out of texts.
const REMEMBERED: usize = 8;

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Where variables are looked up; a test gives its own.
#[derive(Clone)]
pub(crate) struct Environment(Arc<Lookup>);

impl Environment {
    /// The variables of this process, looked up each time.
    pub(crate) fn of_process() -> Self {
        Self(Arc::new(|name| std::env::var(name).ok()))
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        let variables: std::collections::HashMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self(Arc::new(move |name| variables.get(name).cloned()))
    }

    /// A variable that is not blank.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// The folder that `~` means, where the profiles are beneath.
    fn home(&self) -> Option<PathBuf> {
        self.get("HOME").or_else(|| self.get("USERPROFILE")).map(PathBuf::from)
    }

    /// The region that the profile in use names.
    pub(crate) fn profile_region(&self) -> Result<Option<String>, String> {
        profile::Profiles::read(self).map(|profiles| profiles.region())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// What time it is; a test gives its own.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub(crate) fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    #[cfg(test)]
    pub(crate) fn at(now: Arc<std::sync::atomic::AtomicI64>) -> Self {
        let now = move || Timestamp::from_second(now.load(std::sync::atomic::Ordering::SeqCst)).unwrap();
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Keys that sign, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) access_key_id: String,
    pub(crate) secret: Secret,
    pub(crate) session_token: Option<Secret>,
    /// `None` is for ever.
    pub(crate) expires: Option<Timestamp>,
}

/// Keys as metadata services, containers and processes write them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Issued {
    access_key_id: String,
    secret_access_key: String,
    #[serde(default, alias = "SessionToken")]
    token: Option<String>,
    #[serde(default)]
    expiration: Option<Timestamp>,
}

impl Keys {
    /// Reads keys that `whence` wrote. The error does not show what it read.
    fn issued(json: &str, whence: &str) -> Result<Self, ProviderError> {
        let issued: Issued = serde_json::from_str(json).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let message = format!("{whence} gave no credentials: its JSON is not right at {line}:{column}");
            ProviderError::Other { message }
        })?;
        Ok(Self {
            access_key_id: issued.access_key_id,
            secret: Secret::new(issued.secret_access_key),
            session_token: issued.token.filter(|token| !token.is_empty()).map(Secret::new),
            expires: issued.expiration,
        })
    }

    fn good_until(&self, at: Timestamp) -> bool {
        self.expires.is_none_or(|expires| at < expires)
    }
}

/// What a signature is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) region: String,
    pub(crate) service: &'static str,
}

/// The domain of AWS in a region.
pub(crate) fn dns_suffix(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// Signs with what the chain finds. Those who ask at once share one search.
pub(crate) struct AwsCredentials {
    chain: Chain,
    scope: Scope,
    clock: Clock,
    held: tokio::sync::Mutex<LastSearch>,
    /// How many searches have found nothing.
    failed: AtomicU64,
    /// Secrets that were in use, the newest last.
    secrets: Mutex<Vec<Secret>>,
    /// Learns every key that is fetched, so that it is shown nowhere.
    vault: Vault,
}

/// What the last search found.
#[derive(Default)]
struct LastSearch {
    keys: Option<Keys>,
    /// Why there are none.
    failure: Option<ProviderError>,
}

impl AwsCredentials {
    pub(crate) fn new(environment: Environment, scope: Scope, clock: Clock) -> Self {
        let chain = Chain::new(environment, scope.region.clone(), clock.clone());
        let (held, failed, secrets, vault) = Default::default();
        Self { chain, scope, clock, held, failed, secrets, vault }
    }

    /// With a vault that learns what the chain finds.
    pub(crate) fn telling(mut self, vault: &Vault) -> Self {
        self.vault = vault.clone();
        self
    }

    async fn keys(&self) -> Result<Keys, ProviderError> {
        let failed_before = self.failed.load(Ordering::SeqCst);
        let mut held = self.held.lock().await;
        let now = self.clock.now();
        let soon = now.checked_add(EARLY).unwrap_or(now);
        if let Some(keys) = held.keys.as_ref().filter(|keys| keys.good_until(soon)) {
            return Ok(keys.clone());
        }
        // A search that this caller waited for was its own as well.
        if self.failed.load(Ordering::SeqCst) > failed_before
            && let Some(failure) = &held.failure
        {
            return Err(failure.clone());
        }
        match (self.chain.resolve().await, held.keys.as_ref()) {
            (Ok(keys), _) => {
                self.remember(&keys);
                *held = LastSearch { keys: Some(keys.clone()), failure: None };
                Ok(keys)
            }
            // The old ones still stand for a few minutes.
            (Err(_), Some(old)) if old.good_until(now) => Ok(old.clone()),
            (Err(error), _) => {
                *held = LastSearch { keys: None, failure: Some(error.clone()) };
                self.failed.fetch_add(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    fn remember(&self, keys: &Keys) {
        self.vault.learn("AWS_SECRET_ACCESS_KEY", &keys.secret);
        if let Some(token) = &keys.session_token {
            self.vault.learn("AWS_SESSION_TOKEN", token);
        }
        let mut secrets = lock(&self.secrets);
        for secret in std::iter::once(&keys.secret).chain(&keys.session_token) {
            if !secrets.contains(secret) {
                secrets.push(secret.clone());
            }
        }
        let excess = secrets.len().saturating_sub(REMEMBERED);
        secrets.drain(..excess);
    }
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsCredentials").field("scope", &self.scope).finish_non_exhaustive()
    }
}

#[async_trait]
impl Credentials for AwsCredentials {
    async fn authorize(&self, request: &mut HttpRequest) -> Result<(), ProviderError> {
        let keys = self.keys().await?;
        sign::sign(request, &keys, &self.scope, self.clock.now())
    }

    async fn refresh(&self) -> Result<bool, ProviderError> {
        self.held.lock().await.keys.take();
        Ok(!self.chain.is_fixed())
    }

    fn redact(&self, text: String) -> String {
        let secrets = lock(&self.secrets);
        secrets.iter().fold(text, redacted)
    }
}

#[cfg(test)]
#[path = "aws/aws_tests.rs"]
mod tests;
