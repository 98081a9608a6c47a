//! Application default credentials: where Google's own libraries find out who asks, and how they prove it.
//!
//! In this order: the file that `GOOGLE_APPLICATION_CREDENTIALS` names, the file that `gcloud` keeps, the metadata server
//! of the machine. I/O: reads those files, asks for tokens over HTTP of its own, which no recording sees.

mod exchange;
mod file;
mod jwt;
mod source;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use playhouse_protocol::{ProviderError, Secret, Vault, lock};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use tokio::sync::Mutex;

use self::source::Source;
use super::environment::Environment;
use crate::wire::credentials::{Credentials, redacted};
use crate::wire::transport::HttpRequest;

/// What the tokens are for.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// What to do when there are no credentials, or none that are good.
const LOG_IN: &str = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file";
/// A token is not used in its last seconds: it must still be good when it arrives.
const MARGIN: u64 = 60;
/// How many tokens are remembered to be taken out of texts.
const REMEMBERED: usize = 8;

/// What these secrets are called.
const VAULT_NAME: &str = "google";

/// The time in unix seconds.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Credentials that were found.
#[derive(Debug)]
pub(crate) struct FoundCredentials {
    source: Source,
    /// The project they belong to.
    pub(crate) project: Option<String>,
    /// The project that pays for what is asked.
    quota_project: Option<String>,
    /// What in them must not be seen.
    secrets: Vec<Secret>,
    pub(crate) explicit: Explicit,
}

/// Whether somebody said where the credentials are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explicit {
    /// A file is there, or a metadata server was named.
    Yes,
    /// Only the usual address of a metadata server is left to try.
    No,
}

/// Looks for credentials; the error says what is wrong with those that are there.
pub(crate) fn find(environment: &Environment) -> Result<FoundCredentials, String> {
    let mut found = if let Some(path) = &environment.credentials_file {
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!("the file {} that GOOGLE_APPLICATION_CREDENTIALS names cannot be read: {error}", path.display())
        })?;
        file::read(&text).map_err(|reason| format!("{}: {reason}", path.display()))?
    } else if let Some((path, text)) = well_known(environment)? {
        file::read(&text).map_err(|reason| format!("{}: {reason}", path.display()))?
    } else {
        let explicit = if environment.metadata_host.is_some() { Explicit::Yes } else { Explicit::No };
        let source = Source::metadata(environment.metadata_host.as_deref())?;
        FoundCredentials { source, project: None, quota_project: None, secrets: Vec::new(), explicit }
    };
    if environment.quota_project.is_some() {
        found.quota_project.clone_from(&environment.quota_project);
    }
    Ok(found)
}

/// The file that `gcloud auth application-default login` writes, if it is there.
fn well_known(environment: &Environment) -> Result<Option<(std::path::PathBuf, String)>, String> {
    let Some(dir) = &environment.gcloud_dir else { return Ok(None) };
    let path = dir.join("application_default_credentials.json");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(format!("the file {} cannot be read: {error}", path.display())),
    }
}

/// Application default credentials in use.
pub(crate) struct Adc {
    source: Source,
    quota_project: Option<HeaderValue>,
    clock: Clock,
    /// What was fetched last. Whoever fetches holds the lock, so that all who wait share what comes of it.
    held: Mutex<LastFetch>,
    /// How many fetches have failed.
    failed: AtomicU64,
    secrets: Secrets,
    /// Learns what must not be seen.
    vault: Vault,
}

/// What was fetched last.
#[derive(Debug, Default)]
struct LastFetch {
    token: Option<Token>,
    /// Why there is none.
    failure: Option<ProviderError>,
}

/// A token until it expires.
#[derive(Clone, Debug)]
struct Token {
    header: HeaderValue,
    /// When the token ends, in Unix seconds.
    expires: u64,
}

/// What must not be seen: what the credentials hold, and the tokens that came of them.
#[derive(Debug, Default)]
struct Secrets {
    fixed: Vec<Secret>,
    fetched: std::sync::Mutex<VecDeque<Secret>>,
}

impl Secrets {
    fn remember(&self, secret: &Secret) {
        let mut fetched = lock(&self.fetched);
        fetched.push_back(secret.clone());
        if fetched.len() > REMEMBERED {
            fetched.pop_front();
        }
    }

    fn redact(&self, text: String) -> String {
        let fetched = lock(&self.fetched);
        self.fixed.iter().chain(fetched.iter()).fold(text, redacted)
    }
}

impl fmt::Debug for Adc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adc").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Adc {
    pub(crate) fn new(found: FoundCredentials, clock: Clock) -> Self {
        let quota_project = found.quota_project.and_then(|project| HeaderValue::try_from(project).ok());
        let secrets = Secrets { fixed: found.secrets, fetched: std::sync::Mutex::default() };
        let (held, failed) = (Mutex::default(), AtomicU64::new(0));
        Self { source: found.source, quota_project, clock, held, failed, secrets, vault: Vault::default() }
    }

    /// With a vault that learns what the credentials hold and the tokens that come of them.
    pub(crate) fn telling(mut self, vault: &Vault) -> Self {
        vault.learn_all(self.secrets.fixed.iter().map(|secret| (VAULT_NAME, secret.clone())));
        self.vault = vault.clone();
        self
    }

    async fn header(&self) -> Result<HeaderValue, ProviderError> {
        let failed_before = self.failed.load(Ordering::SeqCst);
        let mut held = self.held.lock().await;
        let now = (self.clock)();
        if let Some(token) = held.token.as_ref().filter(|token| token.expires > now.saturating_add(MARGIN)) {
            return Ok(token.header.clone());
        }
        // A fetch that this caller waited for was its own as well.
        if self.failed.load(Ordering::SeqCst) > failed_before
            && let Some(failure) = &held.failure
        {
            return Err(failure.clone());
        }
        let fetched = self.fetch(now).await;
        match &fetched {
            Ok(token) => *held = LastFetch { token: Some(token.clone()), failure: None },
            Err(error) => {
                *held = LastFetch { token: None, failure: Some(error.clone()) };
                self.failed.fetch_add(1, Ordering::SeqCst);
            }
        }
        fetched.map(|token| token.header)
    }

    async fn fetch(&self, now: u64) -> Result<Token, ProviderError> {
        let access = self.source.fetch(now, &self.secrets).await?;
        self.secrets.remember(&access.token);
        self.vault.learn(VAULT_NAME, &access.token);
        let header = HeaderValue::try_from(format!("Bearer {}", access.token.expose()));
        let Ok(mut header) = header else {
            return Err(ProviderError::Auth { message: "Google's token holds what cannot be sent".to_owned() });
        };
        header.set_sensitive(true);
        Ok(Token { header, expires: access.expires })
    }
}

#[async_trait]
impl Credentials for Adc {
    async fn authorize(&self, request: &mut HttpRequest) -> Result<(), ProviderError> {
        request.headers.insert(AUTHORIZATION, self.header().await?);
        if let Some(project) = &self.quota_project {
            request.headers.insert(HeaderName::from_static("x-goog-user-project"), project.clone());
        }
        Ok(())
    }

    async fn refresh(&self) -> Result<bool, ProviderError> {
        self.held.lock().await.token = None;
        Ok(true)
    }

    fn redact(&self, text: String) -> String {
        self.secrets.redact(text)
    }
}

#[cfg(test)]
#[path = "adc/adc_tests.rs"]
pub(crate) mod tests;
