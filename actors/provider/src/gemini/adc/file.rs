//! The JSON of credentials files. What is wrong is named by its place: the values are secrets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use percent_encoding::utf8_percent_encode;
use playhouse_protocol::Secret;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::exchange::Endpoint;
use super::source::{External, Impersonation, ServiceAccount, Source, Subject, TokenForm};
use super::{Explicit, FoundCredentials, jwt};
use crate::gemini::models::RESERVED;

/// Where Google gives tokens.
const TOKENS: &str = "https://oauth2.googleapis.com/token";

/// All kinds of files in one: they share most of their fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Credentials {
    r#type: String,
    project_id: Option<String>,
    quota_project_id: Option<String>,
    // Of a service account.
    client_email: Option<String>,
    private_key: Option<String>,
    private_key_id: Option<String>,
    token_uri: Option<String>,
    // Of a person who logged in.
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
    // A service account that another may use.
    service_account_impersonation_url: Option<String>,
    delegates: Vec<String>,
    source_credentials: Option<Box<Credentials>>,
    // Somebody whom another service vouches for.
    audience: Option<String>,
    subject_token_type: Option<String>,
    token_url: Option<String>,
    credential_source: Option<CredentialSource>,
    workforce_pool_user_project: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CredentialSource {
    file: Option<PathBuf>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    format: CredentialFormat,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CredentialFormat {
    r#type: String,
    subject_token_field_name: Option<String>,
}

/// Reads a credentials file; the error says what is wrong with it and what to do.
pub(super) fn read(text: &str) -> Result<FoundCredentials, String> {
    let file: Credentials = serde_json::from_str(text).map_err(|error| {
        // The error's own text may hold a piece of the file.
        format!("it is no credentials file (line {}, column {})", error.line(), error.column())
    })?;
    let mut secrets = Vec::new();
    let (project, quota_project) = (file.project_id.clone(), file.quota_project_id.clone());
    let source = source(file, &mut secrets)?;
    let project = project.or_else(|| quota_project.clone());
    Ok(FoundCredentials { source, project, quota_project, secrets, explicit: Explicit::Yes })
}

fn source(file: Credentials, secrets: &mut Vec<Secret>) -> Result<Source, String> {
    match file.r#type.as_str() {
        "service_account" => {
            let pem = need(file.private_key, "private_key")?;
            let key = jwt::read_key(&pem)?;
            // Each line by itself: a text may hold a part of the key.
            secrets.extend(
                pem.lines().map(str::trim).filter(|line| line.len() > 20 && !line.starts_with('-')).map(Secret::new),
            );
            Ok(Source::ServiceAccount(Box::new(ServiceAccount {
                email: need(file.client_email, "client_email")?,
                key,
                key_id: file.private_key_id,
                tokens: Endpoint::new(file.token_uri.as_deref().unwrap_or(TOKENS))?,
            })))
        }
        "authorized_user" => {
            let client_secret = Secret::new(need(file.client_secret, "client_secret")?);
            let refresh_token = Secret::new(need(file.refresh_token, "refresh_token")?);
            for secret in [&client_secret, &refresh_token] {
                // As a form holds it, too.
                secrets
                    .extend([secret.clone(), Secret::new(utf8_percent_encode(secret.expose(), RESERVED).to_string())]);
            }
            Ok(Source::AuthorizedUser {
                client_id: need(file.client_id, "client_id")?,
                client_secret,
                refresh_token,
                tokens: Endpoint::new(file.token_uri.as_deref().unwrap_or(TOKENS))?,
            })
        }
        "impersonated_service_account" => {
            let url = need(file.service_account_impersonation_url, "service_account_impersonation_url")?;
            let first = need(file.source_credentials, "source_credentials")?;
            // One step is what the tools write; a file that nests without end is none of theirs.
            if first.r#type == "impersonated_service_account" {
                return Err("its source_credentials are impersonated themselves, which is not supported".to_owned());
            }
            Ok(impersonated(source(*first, secrets)?, &url, file.delegates)?)
        }
        "external_account" => {
            let impersonation = file.service_account_impersonation_url.clone();
            let first = Source::External(Box::new(external(file, secrets)?));
            match impersonation {
                None => Ok(first),
                Some(url) => Ok(impersonated(first, &url, Vec::new())?),
            }
        }
        "" => Err("it is no credentials file: it has no `type`".to_owned()),
        other => Err(format!(
            "credentials of the type `{other}` are not supported: use a service account's key, or run \
             `gcloud auth application-default login`"
        )),
    }
}

fn impersonated(first: Source, url: &str, delegates: Vec<String>) -> Result<Source, String> {
    let account = Impersonation { tokens: Endpoint::new(url)?, delegates };
    Ok(Source::Impersonated { first: Box::new(first), account })
}

fn external(file: Credentials, secrets: &mut Vec<Secret>) -> Result<External, String> {
    let from = need(file.credential_source, "credential_source")?;
    let subject = match (from.file, from.url) {
        (Some(path), _) => Subject::File(path),
        (None, Some(url)) => {
            let mut headers = HeaderMap::new();
            for (name, value) in &from.headers {
                let header = (HeaderName::try_from(name), HeaderValue::try_from(value));
                let (Ok(name), Ok(mut value)) = header else {
                    return Err("a header of its credential_source cannot be sent".to_owned());
                };
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            secrets.extend(from.headers.values().map(|value| Secret::new(value.as_str())));
            Subject::Url { endpoint: Endpoint::new(&url)?, headers }
        }
        (None, None) => {
            return Err("only a `file` or a `url` is supported as its credential_source: use a service account's key \
                        instead"
                .to_owned());
        }
    };
    let form = match from.format.r#type.as_str() {
        "json" => TokenForm::Json(need(from.format.subject_token_field_name, "subject_token_field_name")?),
        _ => TokenForm::Text,
    };
    let client = match (file.client_id, file.client_secret) {
        (Some(id), Some(secret)) => {
            secrets.push(Secret::new(secret.as_str()));
            Some(Secret::new(format!("{id}:{secret}")))
        }
        (_, _) => None,
    };
    Ok(External {
        audience: need(file.audience, "audience")?,
        subject_token_type: need(file.subject_token_type, "subject_token_type")?,
        subject,
        form,
        tokens: Endpoint::new(&need(file.token_url, "token_url")?)?,
        client,
        user_project: file.workforce_pool_user_project,
    })
}

fn need<T>(field: Option<T>, name: &str) -> Result<T, String> {
    field.ok_or_else(|| format!("it has no `{name}`: download it again"))
}
