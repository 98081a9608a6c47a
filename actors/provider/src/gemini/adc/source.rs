//! The kinds of credentials, and how each comes by a token.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use playhouse_protocol::{ProviderError, Secret};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use ring::signature::RsaKeyPair;

use super::exchange::{Access, Endpoint};
use super::{Explicit, LOG_IN, SCOPE, Secrets, jwt};

/// The metadata server of Google's machines.
const METADATA: &str = "169.254.169.254";
/// How long it may take to answer a connection: where there is none, nothing answers.
const METADATA_CONNECT: Duration = Duration::from_secs(1);

/// Who asks, and how they prove it.
#[derive(Debug)]
pub(super) enum Source {
    /// A service account's key.
    ServiceAccount(Box<ServiceAccount>),
    /// A person who logged in.
    AuthorizedUser { client_id: String, client_secret: Secret, refresh_token: Secret, tokens: Endpoint },
    /// The machine's own service account.
    Metadata(Metadata),
    /// A service account that the first may use.
    Impersonated { first: Box<Source>, account: Impersonation },
    /// Somebody whom another service vouches for.
    External(Box<External>),
}

/// The machine's metadata server.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) tokens: Endpoint,
    pub(super) named: Explicit,
    /// Set once it has answered: from then on its silence is a failure, and no sign that there is none.
    pub(super) answered: OnceLock<()>,
}

/// A service account's key.
pub(super) struct ServiceAccount {
    pub(super) email: String,
    pub(super) key: RsaKeyPair,
    pub(super) key_id: Option<String>,
    pub(super) tokens: Endpoint,
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount").field("email", &self.email).finish_non_exhaustive()
    }
}

/// A service account that another account may use.
#[derive(Debug)]
pub(super) struct Impersonation {
    pub(super) tokens: Endpoint,
    pub(super) delegates: Vec<String>,
}

/// Somebody whom another service vouches for.
#[derive(Debug)]
pub(super) struct External {
    pub(super) audience: String,
    pub(super) subject_token_type: String,
    pub(super) subject: Subject,
    pub(super) form: TokenForm,
    pub(super) tokens: Endpoint,
    /// `client_id:client_secret`, where the exchange wants them.
    pub(super) client: Option<Secret>,
    /// The project that a person from outside works for.
    pub(super) user_project: Option<String>,
}

/// Where the other service's token is.
#[derive(Debug)]
pub(super) enum Subject {
    File(PathBuf),
    Url { endpoint: Endpoint, headers: HeaderMap },
}

/// What the other service's token is in.
#[derive(Debug)]
pub(super) enum TokenForm {
    Text,
    /// A JSON object, in the field of this name.
    Json(String),
}

impl Source {
    /// The metadata server, at its usual address or at one that was named.
    pub(super) fn metadata(host: Option<&str>) -> Result<Self, String> {
        let (address, named) = match host {
            Some(host) => (host.trim(), Explicit::Yes),
            None => (METADATA, Explicit::No),
        };
        let url = format!("http://{address}/computeMetadata/v1/instance/service-accounts/default/token?scopes={SCOPE}");
        let tokens = Endpoint::metadata(&url, METADATA_CONNECT)?;
        Ok(Self::Metadata(Metadata { tokens, named, answered: OnceLock::new() }))
    }

    /// Gets a token. Whatever secret comes up on the way is remembered in `secrets`.
    pub(super) fn fetch<'a>(&'a self, now: u64, secrets: &'a Secrets) -> BoxFuture<'a, Result<Access, ProviderError>> {
        match self {
            Self::ServiceAccount(account) => account.fetch(now, secrets).boxed(),
            Self::AuthorizedUser { client_id, client_secret, refresh_token, tokens } => async move {
                let form = [
                    ("grant_type", "refresh_token"),
                    ("client_id", client_id.as_str()),
                    ("client_secret", client_secret.expose()),
                    ("refresh_token", refresh_token.expose()),
                ];
                tokens.post(&form, HeaderMap::new()).await?.access(now, LOG_IN, secrets)
            }
            .boxed(),
            Self::Metadata(metadata) => metadata.fetch(now, secrets).boxed(),
            Self::Impersonated { first, account } => async move {
                let access = first.fetch(now, secrets).await?;
                secrets.remember(&access.token);
                account.fetch(&access.token, secrets).await
            }
            .boxed(),
            Self::External(external) => external.fetch(now, secrets).boxed(),
        }
    }
}

impl Metadata {
    async fn fetch(&self, now: u64, secrets: &Secrets) -> Result<Access, ProviderError> {
        const FLAVOR: HeaderName = HeaderName::from_static("metadata-flavor");
        let nothing =
            |why: &str| ProviderError::Auth { message: format!("no Google credentials were found{why}: {LOG_IN}") };
        let headers = HeaderMap::from_iter([(FLAVOR, HeaderValue::from_static("Google"))]);
        let answer = match self.tokens.get(headers).await {
            Err(_) if self.named == Explicit::No && self.answered.get().is_none() => return Err(nothing("")),
            answered => answered?,
        };
        if answer.headers.get(FLAVOR).is_none_or(|flavor| flavor != "Google") {
            return Err(nothing(", and what answers in the place of a metadata server is none"));
        }
        self.answered.get_or_init(|| ());
        if answer.status == 404 {
            return Err(nothing(", and this machine has no service account"));
        }
        answer.access(now, LOG_IN, secrets)
    }
}

impl ServiceAccount {
    async fn fetch(&self, now: u64, secrets: &Secrets) -> Result<Access, ProviderError> {
        let stated = (self.email.as_str(), SCOPE, self.tokens.url().as_str());
        let statement = jwt::sign(&self.key, self.key_id.as_deref(), stated, now)
            .map_err(|message| ProviderError::Auth { message })?;
        secrets.remember(&Secret::new(statement.as_str()));
        let form = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", statement.as_str())];
        let advice = format!("make a new key for {}, or {LOG_IN}", self.email);
        self.tokens.post(&form, HeaderMap::new()).await?.access(now, &advice, secrets)
    }
}

impl Impersonation {
    async fn fetch(&self, first: &Secret, secrets: &Secrets) -> Result<Access, ProviderError> {
        let body = serde_json::json!({ "scope": [SCOPE], "delegates": self.delegates, "lifetime": "3600s" });
        let headers = HeaderMap::from_iter([(AUTHORIZATION, sensitive(format!("Bearer {}", first.expose()))?)]);
        let advice = "grant the one who asks the role Service Account Token Creator on that service account";
        self.tokens.post_json(body.to_string(), headers).await?.impersonated(advice, secrets)
    }
}

impl External {
    async fn fetch(&self, now: u64, secrets: &Secrets) -> Result<Access, ProviderError> {
        let subject = self.subject_token(secrets).await?;
        secrets.remember(&subject);
        let options =
            self.user_project.as_ref().map(|project| serde_json::json!({ "userProject": project }).to_string());
        let mut form = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("audience", self.audience.as_str()),
            ("scope", SCOPE),
            ("subject_token_type", self.subject_token_type.as_str()),
            ("subject_token", subject.expose()),
        ];
        if let Some(options) = &options {
            form.push(("options", options));
        }
        let mut headers = HeaderMap::new();
        if let Some(client) = &self.client {
            headers.insert(AUTHORIZATION, sensitive(format!("Basic {}", STANDARD.encode(client.expose())))?);
        }
        let advice = "check the workload identity pool and that the other service's token is good";
        self.tokens.post(&form, headers).await?.access(now, advice, secrets)
    }

    async fn subject_token(&self, secrets: &Secrets) -> Result<Secret, ProviderError> {
        let text = match &self.subject {
            Subject::File(path) => {
                let (from, shown) = (path.clone(), path.display());
                let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(from)).await;
                let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
                read.map_err(|error| ProviderError::Auth {
                    message: format!("the other service's token in {shown} cannot be read: {error}"),
                })?
            }
            Subject::Url { endpoint, headers } => {
                let answer = endpoint.get(headers.clone()).await?;
                answer.refused("ask the other service why it gives no token", secrets)?;
                answer.body
            }
        };
        let token = match &self.form {
            TokenForm::Text => Some(text.trim().to_owned()),
            TokenForm::Json(field) => {
                let json: Option<serde_json::Value> = serde_json::from_str(&text).ok();
                json.and_then(|json| Some(json.get(field)?.as_str()?.to_owned()))
            }
        };
        token.filter(|token| !token.is_empty()).map(Secret::new).ok_or_else(|| ProviderError::Auth {
            message: "the other service's token is not where the credentials file says".to_owned(),
        })
    }
}

fn sensitive(text: String) -> Result<HeaderValue, ProviderError> {
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| ProviderError::Auth { message: "the credentials hold what cannot be sent".to_owned() })?;
    value.set_sensitive(true);
    Ok(value)
}
